r"""Composition in a group: :math:`(g_1 \cdot x, \dots, g_k \cdot x) \mapsto (g_1 \cdots g_k) \cdot x`.

:math:`(g \cdot x)[h] = x[g^{-1}h]` is the encoding x, moved by g. It has mean zero: the network has no bias.
At each representation the input is :math:`\rho(g) A`, with
:math:`A = \hat x[\rho]^\top = \sum_a s_a l_a r_a^\top` (n distinct singular values, each m-fold), the target

.. math:: \rho(g_1) \cdots \rho(g_k)\, A = \sum_{a, j} \rho(g_1)\, l_{j_1} l_{j_1}^\top\, \rho(g_2)\, l_{j_2}
          l_{j_2}^\top \cdots \rho(g_k)\, l_a s_a r_a^\top ,

a sum of orthogonal parts: the pair a that is written out, by way of the pairs j that are read. They are what
there is to learn (`GroupComposition.modes`); parts with equal singular values are one.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from saddlewalk.errors import InputError, checked_seed, checked_whole
from saddlewalk.groups import (
    Group,
    Representation,
    fourier,
    from_fourier,
    group_named,
    group_with_table,
)
from saddlewalk.groups.fourier import FAINT
from saddlewalk.tasks.base import Answer, Modes
from saddlewalk.tasks.samples import Samples, finite_numbers

ONE_HOT = "one-hot"
_MOST_FACTORS = 9
_MOST_NUMBERS = 2**25
"""Numbers in all tuples beyond which some are drawn instead."""
_DRAWN = 20_000
_TIED = 1e-6
"""Relative difference below which two singular values of a representation are one."""
_CENTERED = 1e-9


class Pairs(NamedTuple):
    """Singular pairs of one representation with the same value.

    Parameters
    ----------
    value : the singular value.
    places : their numbers, counted from 1.
    projector : onto what of the representation they read.
    """

    value: float
    places: tuple[int, ...]
    projector: Float[np.ndarray, "D D"]

    @property
    def name(self) -> str:
        """`1`, or `1+2` for two that are tied."""
        return "+".join(map(str, self.places))


class Part(NamedTuple):
    """A part of the target: one pair that is written out, by way of others that are read.

    Parameters
    ----------
    representation : where it lives.
    written : pairs a.
    read : pairs j, one for each factor but the last.
    whole : whether it is all of the representation that can be learned.
    """

    representation: Representation
    written: Pairs
    read: tuple[Pairs, ...]
    whole: bool

    def share(self, order: int) -> float:
        """Loss that goes when it is learned: each of its n^(k-1) ways holds the same part of s_a^2.

        Parameters
        ----------
        order : number of elements of the group.
        """
        one = self.representation
        ways = math.prod(len(pairs.places) / one.multiplicity for pairs in self.read)
        power = len(self.written.places) * self.written.value**2
        return 0.5 * one.dimension / order * power * ways

    @property
    def name(self) -> str:
        """`all`, or which pair is written by way of which."""
        if self.whole:
            return "all"
        return f"pair {self.written.name} via {'/'.join(pairs.name for pairs in self.read)}"

    @property
    def feature(self) -> dict[str, Any]:
        """What a stage that learns it is told to have learned."""
        one = self.representation
        return {
            "kind": "representation",
            "name": one.name,
            "dimension": one.dimension,
            "type": one.type,
            "part": self.name,
        }


class GroupComposition(Samples):
    """Tuples of elements as samples, with the encoding that they come from.

    Parameters
    ----------
    name : what tables call it.
    x, y : the words of each tuple one after the other, and the word of its product.
    weights : weights of the samples, with sum 1.
    encoding : x, the word of the identity: a number for each element, with mean zero.
    table : multiplication table of the group.
    tuples : numbers of the elements of each sample.
    group_name : what the group is called.
    names : what the inputs are called; empty if they have no names.
    labels : what the outputs are called; empty if they have no names.
    """

    encoding: Float[np.ndarray | Array, " order"]
    table: Int[np.ndarray | Array, "order order"]
    tuples: Int[np.ndarray | Array, "n factors"]
    group_name: str = eqx.field(static=True)

    @property
    def order(self) -> int:
        """Number of elements of the group."""
        return len(self.encoding)

    @property
    def factors(self) -> int:
        """Number k of elements that are composed."""
        return self.tuples.shape[1]

    @property
    def complete(self) -> bool:
        """Whether the samples are all tuples, the last element counting fastest."""
        return len(self.weights) == self.order**self.factors

    @property
    def group(self) -> Group:
        """The group, with its representations."""
        return group_with_table(self.group_name, np.asarray(self.table))

    def represent(self, answer: Answer) -> Float[Array, "n c"]:
        """Answers to all tuples; each word is read once, not once a tuple."""
        if not self.complete:
            return super().represent(answer)
        n, k = self.order, self.factors
        words = jnp.asarray(self.x)[:n, -n:]
        of_words = lambda *chosen: answer(chosen)  # noqa: E731
        for place in reversed(range(k)):
            axes = tuple(0 if other == place else None for other in range(k))
            of_words = jax.vmap(of_words, in_axes=axes)
        return of_words(*[words] * k).reshape(n**k, -1)

    @property
    def pairs(self) -> dict[str, tuple[Pairs, ...]]:
        """Singular pairs of the encoding by representation, tied ones together, those of zero left out."""
        transform = fourier(self.group, np.asarray(self.encoding))
        faint = FAINT * float(max(np.linalg.norm(matrix, 2) for matrix in transform.values()))
        every = {
            one.name: tuple(_pairs(one, transform[one.name].T, faint))
            for one in self.group.representations
        }
        return {name: pairs for name, pairs in every.items() if pairs}

    def parts(self) -> tuple[Part, ...]:
        """The parts of the target that can be learned, representation by representation.

        One that must be read by way of a singular value of zero is not among them: no network sees it.
        """
        return self._parts(self.pairs)

    def _parts(self, pairs: dict[str, tuple[Pairs, ...]]) -> tuple[Part, ...]:
        found = []
        for name, known in pairs.items():
            one = self.group.representation(name)
            for *read, written in itertools.product(known, repeat=self.factors):
                found.append(Part(one, written, tuple(read), len(known) == 1))
        return tuple(found)

    def modes(self) -> Modes:
        """One mode a part of the target; one a representation where the parts would not fit into memory."""
        parts = self.parts()
        if len(parts) * np.asarray(self.y).size > _MOST_NUMBERS:
            parts = self._parts({name: (_joined(pairs),) for name, pairs in self.pairs.items()})
        functions = np.stack([self.function_of(part) for part in parts])
        return Modes(tuple(part.feature for part in parts), functions)

    def function_of(self, part: Part) -> Float[np.ndarray, "n order"]:
        """A part of the target as outputs for all samples.

        Parameters
        ----------
        part : one of `parts`.
        """
        one, tuples = part.representation, np.asarray(self.tuples)
        coefficient = fourier(self.group, np.asarray(self.encoding))[one.name].T
        between = [*(pairs.projector for pairs in part.read), part.written.projector @ coefficient]
        chain = one.matrices[tuples[:, 0]] @ between[0]
        for k in range(1, self.factors):
            chain = chain @ (one.matrices @ between[k])[tuples[:, k]]
        flat = one.matrices.reshape(self.order, -1)
        return one.multiplicity / self.order * chain.reshape(len(tuples), -1) @ flat.T


def _pairs(one: Representation, matrix: np.ndarray, faint: float) -> list[Pairs]:
    """Singular pairs by value, the largest first, those of zero left out."""
    left, values, _ = np.linalg.svd(matrix)
    found: list[Pairs] = []
    place = 0
    while place < len(values) and values[place] > faint:
        tied = np.abs(values - values[place]) <= _TIED * values[place]
        tied[:place] = False
        projector = left[:, tied] @ left[:, tied].T
        numbers = range(place // one.commutant + 1, (place + int(tied.sum())) // one.commutant + 1)
        found.append(Pairs(float(values[place]), tuple(numbers), projector))
        place += int(tied.sum())
    return found


def _joined(pairs: tuple[Pairs, ...]) -> Pairs:
    """All pairs of a representation as one."""
    places = tuple(place for one in pairs for place in one.places)
    return Pairs(pairs[0].value, places, np.sum([one.projector for one in pairs], axis=0))


def group_composition(
    group: Group | str,
    factors: int = 2,
    encoding: Any = ONE_HOT,
    *,
    center: bool = False,
    samples: int | None = None,
    seed: int = 0,
    name: str | None = None,
) -> GroupComposition:
    """To compose k elements of a group, each of them encoded as a moved copy of one function.

    Parameters
    ----------
    group : a group of `saddlewalk.groups`, or its name: "D5", "S4", "C5xC5".
    factors : number k of elements, at least 2.
    encoding : "one-hot" (its mean taken off); a number for each element, with mean zero; or, by name of the
        representation, a number (times the identity), singular values, or a matrix: `{"2d-1": 3, "sign": 1}`.
    center : take the mean off the encoding.
    samples : tuples to draw, instead of all; by default all of them, and 20,000 drawn where they would hold
        more than 2^25 numbers.
    seed : of the draw.
    name : what tables call it.
    """
    group = group_named(group) if isinstance(group, str) else group
    if factors == 1:
        raise InputError(
            "`factors` is 1: with one element there is nothing to compose. Take 2 or more."
        )
    k = checked_whole("factors", factors, least=2, below=_MOST_FACTORS)
    x = encoded(group, encoding, center)
    tuples = _tuples(group.order, k, samples, seed)
    return composed(GroupComposition, name or f"composition in {group.name}", group, x, tuples)


def composed(
    kind: type[GroupComposition], name: str, group: Group, x: np.ndarray, tuples: np.ndarray
) -> Any:
    """The task on some tuples, of one kind or another.

    Parameters
    ----------
    kind : class of the task.
    name : what tables call it.
    group : what is composed in.
    x : the encoding.
    tuples : the samples.
    """
    words = group.orbit(x)
    products = group.compose(*tuples.T)
    return kind(
        name,
        words[tuples].reshape(len(tuples), -1),
        words[products],
        np.full(len(tuples), 1.0 / len(tuples)),
        x,
        group.table,
        tuples,
        group.name,
    )


def all_tuples(order: int, factors: int) -> Int[np.ndarray, "n factors"]:
    """All tuples of elements, the last counting fastest.

    Parameters
    ----------
    order : number of elements.
    factors : length of a tuple.
    """
    return np.stack(np.unravel_index(np.arange(order**factors), (order,) * factors), axis=1)


def encoded(group: Group, encoding: Any, center: bool) -> Float[np.ndarray, " order"]:
    """The encoding of the identity, checked: a number for each element, with mean zero, not all zero.

    Parameters
    ----------
    group : what is encoded.
    encoding : "one-hot", numbers, or coefficients by representation.
    center : take the mean off.
    """
    if isinstance(encoding, str):
        if encoding != ONE_HOT:
            raise InputError(
                f"`encoding` must be '{ONE_HOT}', {group.order} numbers, or coefficients by representation, "
                f"as {{'{group.representations[-1].name}': 1.0}}; got '{encoding}'."
            )
        encoding, center = np.eye(group.order)[group.identity], True
    if isinstance(encoding, Mapping):
        x = from_fourier(group, encoding)
    else:
        x = finite_numbers("The encoding", encoding)
    x = finite_numbers("The encoding", x)
    if x.shape != (group.order,):
        raise InputError(
            f"The encoding must have a number for each of the {group.order} elements of {group.name}; its "
            f"shape is {x.shape}."
        )
    mean, size = float(x.mean()), float(np.abs(x).max())
    if center:
        x = x - mean
    elif abs(mean) > _CENTERED * size:
        raise InputError(
            f"The encoding has mean {mean:.4g}: a network without bias cannot take it off, and the theory is "
            "for mean zero. Take it off (`center=True` in Python does), and give nothing for 'trivial'."
        )
    if np.abs(x).max() <= _CENTERED * max(size, np.finfo(float).tiny):
        raise InputError(
            "The encoding is constant: every word looks the same, and there is nothing to learn."
        )
    return x


def _tuples(order: int, factors: int, samples: int | None, seed: int) -> np.ndarray:
    every = order**factors
    if samples is None:
        fits = every * (factors + 1) * order <= _MOST_NUMBERS
        samples = every if fits else _DRAWN
    if checked_whole("samples", samples, least=1) >= every:
        return all_tuples(order, factors)
    rng = np.random.default_rng(checked_seed(seed))
    return rng.integers(0, order, size=(samples, factors))

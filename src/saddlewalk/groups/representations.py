r""":math:`\rho(g) = Q^\top L_g\, Q`: real irreducible representations as eigenspaces of one matrix.

Take random numbers with :math:`a_g = a_{g^{-1}}`. The matrix :math:`M_{hk} = a_{h^{-1}k}` is symmetric and
commutes with all translations :math:`L_g`, and is else of no special kind: its eigenspaces, spanned by the
columns of Q, are irreducible subspaces of the functions on the group. One of dimension D occurs D/m times,
where :math:`m = \frac{1}{|G|} \sum_g \chi(g)^2` is the dimension of what commutes with it: 1 for the real
type, 2 for the complex and 4 for the quaternionic one (two complex ones of half the dimension in one real
space). All are found when :math:`\sum_\rho D^2/m = |G|`.

Close eigenvalues cost digits. One mean
:math:`\rho(g) \leftarrow \frac{1}{|G|} \sum_h \rho(gh)\, \rho(h)^\top` squares the error of an
almost-representation.
"""

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from saddlewalk.groups.group import Group

TYPES = {1: "real", 2: "complex", 4: "quaternionic"}
_DRAWS = 20
_APART = 1e-7
"""Eigenvalues that differ by less, beside their whole range, belong to one eigenspace."""
_SAME = 1e-6
_SPREAD = 1e-9


@dataclass(frozen=True, eq=False)
class Representation:
    """A real irreducible representation.

    Parameters
    ----------
    name : what it is called: trivial, sign, 2d, frequency-3, ...
    matrices : orthogonal matrices, one an element.
    type : "real", "complex" or "quaternionic".
    """

    name: str
    matrices: Float[np.ndarray, "order D D"]
    type: str

    @property
    def dimension(self) -> int:
        """D, the real dimension."""
        return self.matrices.shape[1]

    @property
    def commutant(self) -> int:
        """m: dimension of the matrices that commute with it; 1, 2 or 4."""
        return next(m for m, kind in TYPES.items() if kind == self.type)

    @property
    def multiplicity(self) -> int:
        """n = D/m: how often it occurs among the functions on the group, and how many singular values a
        coefficient has."""
        return self.dimension // self.commutant

    @cached_property
    def character(self) -> Float[np.ndarray, " order"]:
        """The trace of each matrix."""
        return np.einsum("gii->g", self.matrices)

    @cached_property
    def commuting(self) -> Float[np.ndarray, "m D D"]:
        """An orthonormal basis of the matrices that commute with it, the identity first."""
        rng = np.random.default_rng(0)
        basis = [np.eye(self.dimension) / math.sqrt(self.dimension)]
        while len(basis) < self.commutant:
            drawn = rng.normal(size=(self.dimension, self.dimension))
            mean = np.einsum("gij,jk,glk->il", self.matrices, drawn, self.matrices, optimize=True)
            mean = mean / len(self.matrices)
            for known in basis:
                mean = mean - np.sum(known * mean) * known
            if np.linalg.norm(mean) > _SPREAD:
                basis.append(mean / np.linalg.norm(mean))
        return np.stack(basis)


def decompose(group: Group) -> tuple[Representation, ...]:
    """The real irreducible representations of any group, by one eigenvalue problem; the same at every call.

    Parameters
    ----------
    group : its table.
    """
    for seed in range(_DRAWS):
        found = _drawn(group, np.random.default_rng(seed))
        if sum(one.dimension * one.multiplicity for one in found) == group.order:
            return named(found)
    raise RuntimeError(f"No draw in {_DRAWS} told the representations of {group.name} apart.")


def named(found: list[Representation]) -> tuple[Representation, ...]:
    """Representations in their order, by dimension, type and character, and with their names.

    Parameters
    ----------
    found : one of each kind; those that have a name keep it.
    """
    ordered = sorted(found, key=_place)
    kinds = [_kind(one) for one in ordered]
    numbers: dict[str, int] = {}
    result = []
    for one, kind in zip(ordered, kinds, strict=True):
        numbers[kind] = numbers.get(kind, 0) + 1
        several = kinds.count(kind) > 1
        result.append(
            replace(one, name=one.name or kind + (f"-{numbers[kind]}" if several else ""))
        )
    return tuple(result)


def _kind(one: Representation) -> str:
    if one.dimension > 1:
        return f"{one.dimension}d"
    return "trivial" if one.character.min() > 0 else "sign"


def _place(one: Representation) -> tuple:
    return one.dimension, one.commutant, *(-np.round(one.character, 6))


def _drawn(group: Group, rng: np.random.Generator) -> list[Representation]:
    a = rng.normal(size=group.order)
    values, vectors = np.linalg.eigh((a + a[group.inverse])[group.quotients])
    cuts = np.flatnonzero(np.diff(values) > _APART * np.ptp(values)) + 1
    edges = [0, *cuts.tolist(), group.order]
    found: list[Representation] = []
    for first, last in itertools.pairwise(edges):
        basis = vectors[:, first:last]
        # a trace needs no matrices: the sum of P[h, g^-1 h] over h
        character = np.take_along_axis(basis @ basis.T, group.quotients.T, axis=1).sum(axis=0)
        if any(np.abs(one.character - character).max() < _SAME for one in found):
            continue
        m = round(float(np.mean(character**2)))
        if m not in TYPES or (last - first) % m:
            return []  # two eigenvalues fell together
        found.append(Representation("", _polished(group, basis), TYPES[m]))
    return found


def _polished(group: Group, basis: Float[np.ndarray, "order D"]) -> Float[np.ndarray, "order D D"]:
    """Matrices in a basis of an eigenspace, made a representation to rounding."""
    rough = np.stack([basis.T @ basis[moved] for moved in group.quotients])
    # rough[g, i, j] = <basis_i, L_g basis_j>; L_g reads at g^-1 h
    n, d = group.order, rough.shape[1]
    mean = np.stack(
        [np.tensordot(rough[group.table[g]], rough, ([0, 2], [0, 2])) for g in range(n)]
    )
    left, _, right = np.linalg.svd(mean.reshape(n, d, d) / n)
    return left @ right

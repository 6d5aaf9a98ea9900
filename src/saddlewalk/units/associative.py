r"""Deep networks that compose two words at a time: :math:`h \circ x = \sum_i (u_i h + v_i x)^2\, w_i`.

A recurrent network takes one word after the other, :math:`h_t = h_{t-1} \circ x_t` with the same weights in
every step. A tree composes neighbors, then neighbors of the results, with weights of its own in each layer.
They are no sums of units, and count as one unit that holds all the weights: they can be trained, but AGF does
not predict them.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from saddlewalk.errors import InputError, checked_whole
from saddlewalk.units.base import AbstractUnits, Scale, Shapes, Weights, pack

_MOST_FACTORS = 64


class AbstractAssociative(AbstractUnits):
    """Layers of quadratic neurons that compose two words."""

    width: eqx.AbstractVar[int]
    factors: eqx.AbstractVar[int]

    additive: ClassVar[bool] = False
    smooth: ClassVar[bool | None] = True
    reads_words: ClassVar[bool] = True
    shares_features: ClassVar[bool] = True
    hidden: ClassVar[tuple[str, ...]] = ()

    def __check_init__(self) -> None:
        checked_whole("width", self.width, least=1)
        checked_whole("factors", self.factors, least=2, below=_MOST_FACTORS)

    @property
    def depth(self) -> int:
        """Layers with weights of their own."""
        return 1

    def count(self, inputs: int) -> int:
        """One: all weights together."""
        return 1

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Weights u and v of the two words, and w of the answer, layer by layer."""
        if inputs % self.factors or inputs // self.factors != outputs:
            raise InputError(
                f"{type(self).__name__} needs {self.factors} words as long as the answer; there are {inputs} "
                f"inputs and {outputs} outputs."
            )
        shape = (self.width, outputs)
        return {f"{one}{k + 1}": shape for k in range(self.depth) for one in ("u", "v", "w")}

    def initialize(self, shapes: Shapes, width: int, scale: Scale, key: PRNGKeyArray) -> Array:
        """Gaussian weights such that each neuron has mean square norm scale^2, as in two layers."""
        keys = jax.random.split(key, len(shapes))
        drawn = {
            name: scale / math.sqrt(3 * shape[1]) * jax.random.normal(one, (width, *shape))
            for one, (name, shape) in zip(keys, shapes.items(), strict=True)
        }
        return pack(shapes, drawn)

    def _words(self, x: Any) -> Sequence[Array]:
        return x if isinstance(x, tuple) else jnp.split(x, self.factors)


class Recurrent(AbstractAssociative):
    """A quadratic recurrent network: one layer, applied k - 1 times from left to right.

    Parameters
    ----------
    width : number of neurons.
    factors : number k of words.
    """

    width: int
    factors: int = 3

    @classmethod
    def example(cls) -> tuple["Recurrent", int, int]:
        """Four neurons, three words of two numbers."""
        return cls(4, 3), 6, 2

    def respond(self, weights: Weights, x: Any) -> Array:
        """(((x_1 o x_2) o x_3) ...)."""
        first, *others = self._words(x)
        for word in others:
            first = _compose(weights, 1, first, word)
        return first


class ProductTree(AbstractAssociative):
    """Quadratic layers that compose neighbors: log2 k of them, each with weights of its own.

    Parameters
    ----------
    width : number of neurons that compose one pair.
    factors : number k of words.
    """

    width: int
    factors: int = 4

    @classmethod
    def example(cls) -> tuple["ProductTree", int, int]:
        """Three neurons a pair, four words of two numbers."""
        return cls(3, 4), 8, 2

    @property
    def depth(self) -> int:
        """ceil(log2 k)."""
        return math.ceil(math.log2(self.factors))

    def respond(self, weights: Weights, x: Any) -> Array:
        """Neighbors, then neighbors of the results; a word without neighbor waits."""
        words = list(self._words(x))
        for layer in range(1, self.depth + 1):
            pairs = zip(words[::2], words[1::2], strict=False)
            composed = [_compose(weights, layer, *pair) for pair in pairs]
            words = composed + words[2 * len(composed) :]
        return words[0]


def _compose(weights: Weights, layer: int, first: Array, second: Array) -> Array:
    seen = weights[f"u{layer}"] @ first + weights[f"v{layer}"] @ second
    return seen**2 @ weights[f"w{layer}"]

r""":math:`f_i(x_1, \dots, x_k) = (\sum_j \langle u_{ij}, x_j\rangle)^k\, w_i`: neurons that multiply words.

The k-th power of a sum holds the product of its k terms, :math:`k! \prod_j \langle u_j, x_j\rangle`: what a
network needs to compose k things. Everything else in it must cancel between neurons.
"""

import abc
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from saddlewalk.errors import InputError, checked_whole
from saddlewalk.units.base import AbstractUnits, Shapes, Weights

_MOST_FACTORS = 16


class AbstractPowers(AbstractUnits):
    """Neurons that read k words of equal length, and answer with the k-th power of what they see."""

    smooth: ClassVar[bool | None] = True
    reads_words: ClassVar[bool] = True
    shares_features: ClassVar[bool] = True
    linear_outgoing: ClassVar[bool | None] = True

    @property
    @abc.abstractmethod
    def readers(self) -> tuple[str, ...]:
        """Names of the input weights, one a word."""

    @property
    def degree(self) -> int:  # type: ignore[override]
        """k + 1: the power, and the output weights."""
        return len(self.readers) + 1

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Input weights, one vector a word, then output weights w."""
        words = len(self.readers)
        if inputs % words:
            raise InputError(
                f"{type(self).__name__} units need inputs made of {words} words of equal length; there are "
                f"{inputs} inputs. A task of k factors wants units of k factors."
            )
        return {**dict.fromkeys(self.readers, (inputs // words,)), "w": (outputs,)}

    def respond(self, weights: Weights, x: Any) -> Array:
        """(sum_j u_j x_j)^k w."""
        return self._seen(weights, x) ** len(self.readers) * weights["w"]

    def combine(self, weights: Weights, x: Any) -> Array:
        """A matrix product a word, and one for all answers."""
        return self._seen(weights, x) ** len(self.readers) @ weights["w"]

    def squares(self, weights: Weights, x: Any) -> Float[Array, " width"]:
        """(sum_j u_j x_j)^2k |w|^2."""
        powers = self._seen(weights, x) ** (2 * len(self.readers))
        return powers * jnp.sum(weights["w"] ** 2, axis=1)

    def _seen(self, weights: Weights, x: Any) -> Array:
        """What enters the power; a word that many inputs share is read once, not once an input."""
        words = x if isinstance(x, tuple) else tuple(jnp.split(x, len(self.readers)))
        first, *others = (weights[u] @ word for u, word in zip(self.readers, words, strict=True))
        return sum(others, start=first)


class QuadraticPair(AbstractPowers):
    """Quadratic neurons that read two words of equal length: the network of modular addition (section 5).

    Parameters
    ----------
    width : number of neurons.
    """

    width: int

    @classmethod
    def example(cls) -> tuple["QuadraticPair", int, int]:
        """Three neurons for words of two numbers."""
        return cls(3), 4, 2

    @property
    def readers(self) -> tuple[str, ...]:
        """u reads the first word, v the second."""
        return "u", "v"


class PowerOfSum(AbstractPowers):
    """Neurons that read `factors` words, and answer with that power: what composes k elements of a group.

    Parameters
    ----------
    width : number of neurons.
    factors : number k of words, and the power; at least 2.
    """

    width: int
    factors: int = 2

    @classmethod
    def example(cls) -> tuple["PowerOfSum", int, int]:
        """Three cubic neurons for three words of two numbers."""
        return cls(3, 3), 6, 2

    def __check_init__(self) -> None:
        checked_whole("width", self.width, least=1)
        checked_whole("factors", self.factors, least=2, below=_MOST_FACTORS)

    @property
    def readers(self) -> tuple[str, ...]:
        """u1, u2, ...: one a word."""
        return tuple(f"u{k}" for k in range(1, self.factors + 1))

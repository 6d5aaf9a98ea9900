r""":math:`f_i(x_a, x_b) = (\langle u_i, x_a\rangle + \langle v_i, x_b\rangle)^2\, w_i` (section 5)."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.units.base import AbstractUnits, Shapes, Weights, halves


class QuadraticPair(AbstractUnits):
    """Quadratic neurons that read two words of equal length: the network of modular addition.

    Parameters
    ----------
    width : number of neurons.
    """

    width: int

    degree: ClassVar[int | None] = 3
    smooth: ClassVar[bool | None] = True
    shares_features: ClassVar[bool] = True
    linear_outgoing: ClassVar[bool | None] = True

    @classmethod
    def example(cls) -> tuple["QuadraticPair", int, int]:
        """Three neurons for words of two numbers."""
        return cls(3), 4, 2

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Input weights u and v, one for each word, then output weights w."""
        if inputs % 2:
            raise InputError(
                f"A quadratic pair needs inputs made of two words of equal length; there are {inputs}."
            )
        return {"u": (inputs // 2,), "v": (inputs // 2,), "w": (outputs,)}

    def respond(self, weights: Weights, x: Any) -> Array:
        """(u x_a + v x_b)^2 w."""
        first, second = halves(x)
        return (weights["u"] @ first + weights["v"] @ second) ** 2 * weights["w"]

    def combine(self, weights: Weights, x: Any) -> Array:
        """Two matrix products."""
        first, second = halves(x)
        return (weights["u"] @ first + weights["v"] @ second) ** 2 @ weights["w"]

    def squares(self, weights: Weights, x: Any) -> Float[Array, " width"]:
        """(u x_a + v x_b)^4 |w|^2."""
        first, second = halves(x)
        sums = weights["u"] @ first + weights["v"] @ second
        return sums**4 * jnp.sum(weights["w"] ** 2, axis=1)

r""":math:`f_i(x; w_i) = w_{1i} w_{2i} \cdots w_{Li}\, x_i`: the deep diagonal linear network.

Every coefficient :math:`\beta_i` is a product of L numbers, and one unit. Gradient flow conserves
:math:`w_{ki}^2 - w_{li}^2`; from the start :math:`(\alpha, \ldots, \alpha, 0)` all but the last factor stay
equal, and with :math:`z = w_L`

.. math:: w_k = \sqrt{\alpha^2 + z^2}, \qquad \dot z = -(\alpha^2 + z^2)^{(L-1)/2}\, \partial_\beta L .

For L = 2 this is the start of the diagonal network up to a factor; :class:`Diagonal` has coordinates of its
own for it, which hold any scale.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from saddlewalk.errors import InputError, checked_whole
from saddlewalk.units.base import AbstractUnits, Scale, Shapes, Weights


class DeepDiagonal(AbstractUnits):
    """One unit a coordinate of the input, a product of `depth` weights; started at (alpha, ..., alpha, 0).

    Parameters
    ----------
    depth : number L of weights of a coefficient, at least 3; for 2 there is `Diagonal`.
    """

    depth: int

    smooth: ClassVar[bool | None] = True
    linear_in: ClassVar[str | None] = "input"
    hidden: ClassVar[tuple[str, ...]] = ()  # each unit has a coordinate of its own

    @classmethod
    def example(cls) -> tuple["DeepDiagonal", int, int]:
        """Three coordinates, three layers."""
        return cls(3), 3, 1

    def __check_init__(self) -> None:
        checked_whole("depth", self.depth, least=1)
        if self.depth < 3:
            raise InputError(
                f"A deep diagonal network has at least 3 layers; got {self.depth}. For 2 there is `Diagonal`."
            )

    @property
    def degree(self) -> int:  # type: ignore[override]
        """The number of layers."""
        return self.depth

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """One number a layer; the output is a scalar."""
        if outputs != 1:
            raise InputError(f"A diagonal network has one output; the targets have {outputs}.")
        return {f"w{k}": () for k in range(1, self.depth + 1)}

    def count(self, inputs: int) -> int:
        """One unit a coordinate."""
        return inputs

    def view(self, x: Array, index: Array | int) -> Array:
        """Unit i sees coordinate i alone."""
        return x[index]

    def respond(self, weights: Weights, x: Array) -> Array:
        """The product, times x."""
        return (self._product(weights) * x)[None]

    def combine(self, weights: Weights, x: Array) -> Array:
        """beta x, as a product of vectors."""
        return (self._product(weights) @ x)[None]

    def squares(self, weights: Weights, x: Array) -> Float[Array, " width"]:
        """(beta x)^2, coordinate by coordinate."""
        return (self._product(weights) * x) ** 2

    def _product(self, weights: Weights) -> Array:
        factors = [weights[f"w{k}"] for k in range(1, self.depth + 1)]
        product = factors[0]
        for factor in factors[1:]:
            product = product * factor
        return product

    def describe(
        self, shapes: Shapes, theta: Float[np.ndarray, " size"], index: int
    ) -> dict[str, Any]:
        """A coefficient, and its sign."""
        return {"kind": "coordinate", "index": index, "sign": int(np.sign(np.prod(theta)))}

    def initialize(
        self, shapes: Shapes, width: int, scale: Scale, key: PRNGKeyArray
    ) -> Float[Array, "width size"]:
        """(alpha, ..., alpha, 0) in every unit, with alpha = scale. No randomness."""
        row = jnp.ones(self.depth).at[-1].set(0.0)
        return scale * jnp.broadcast_to(row, (width, self.depth)).astype(jnp.float64)

    def coefficients(self, theta: Float[Array | np.ndarray, "... size"]) -> Any:
        """The regression coefficients beta."""
        return theta.prod(axis=-1)

r""":math:`f_i(x; u_i, v_i) = u_i v_i x_i`: the diagonal linear network (section 3).

Gradient flow does not change under a rotation of the parameters, and in

.. math:: p_i = (u_i + v_i)/\sqrt 2, \qquad q_i = (u_i - v_i)/\sqrt 2, \qquad
          u_i v_i = (p_i^2 - q_i^2)/2

it decouples: :math:`\dot p_i = -g_i p_i`, :math:`\dot q_i = +g_i q_i` with
:math:`g = \nabla_\beta L`. The product :math:`2 p_i q_i = u_i^2 - v_i^2` is conserved. When a
coefficient is active, one of p, q is of order 1 and the other of order :math:`\alpha^2`; in u, v
the small one is lost to rounding, although it is what grows when the coefficient changes sign.
So the parameters of this unit are p and q.
"""

import math
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from saddlewalk.errors import InputError
from saddlewalk.units.base import AbstractUnits, Scale, Shapes, Weights, check_rates


class Diagonal(AbstractUnits):
    """One unit a coordinate of the input; parameters (p, q), started at `u = sqrt(2) alpha, v = 0`.

    Parameters
    ----------
    rate_u, rate_v : learning rates of u and of v.
    """

    rate_u: float = 1.0
    rate_v: float = 1.0

    degree: ClassVar[int | None] = 2
    smooth: ClassVar[bool | None] = True
    linear_in: ClassVar[str | None] = "input"
    multiplicative: ClassVar[bool] = True
    linear_outgoing: ClassVar[bool | None] = False
    hidden: ClassVar[tuple[str, ...]] = ()  # each unit has a coordinate of its own
    known_as: ClassVar[tuple[str, ...]] = ("u", "v")

    @classmethod
    def example(cls) -> tuple["Diagonal", int, int]:
        """Three coordinates."""
        return cls(), 3, 1

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Two numbers a unit; the output is a scalar."""
        if outputs != 1:
            raise InputError(f"A diagonal network has one output; the targets have {outputs}.")
        return {"p": (), "q": ()}

    def count(self, inputs: int) -> int:
        """One unit a coordinate."""
        return inputs

    def view(self, x: Array, index: Array | int) -> Array:
        """Unit i sees coordinate i alone."""
        return x[index]

    def respond(self, weights: Weights, x: Array) -> Array:
        """u v x, written in p and q; learning rates of u and v only rescale it."""
        gain = math.sqrt(self.rate_u * self.rate_v)
        return (gain * 0.5 * (weights["p"] ** 2 - weights["q"] ** 2) * x)[None]

    def combine(self, weights: Weights, x: Array) -> Array:
        """beta x, as a product of vectors."""
        gain = math.sqrt(self.rate_u * self.rate_v)
        return (gain * 0.5 * (weights["p"] ** 2 - weights["q"] ** 2) @ x)[None]

    def squares(self, weights: Weights, x: Array) -> Float[Array, " width"]:
        """(beta x)^2, coordinate by coordinate."""
        gain = math.sqrt(self.rate_u * self.rate_v)
        return (gain * 0.5 * (weights["p"] ** 2 - weights["q"] ** 2) * x) ** 2

    def describe(
        self, shapes: Shapes, theta: Float[np.ndarray, " size"], index: int
    ) -> dict[str, Any]:
        """A coefficient, and its sign."""
        return {
            "kind": "coordinate",
            "index": index,
            "sign": int(np.sign(theta[0] ** 2 - theta[1] ** 2)),
        }

    def initialize(
        self, shapes: Shapes, width: int, scale: Scale, key: PRNGKeyArray
    ) -> Float[Array, "width size"]:
        """`theta_i(0) = (u, v) = (sqrt(2) alpha, 0)`, that is p = q = alpha. No randomness."""
        return jnp.full((width, 2), scale / math.sqrt(self.rate_u), dtype=jnp.float64)

    def rated(self, rates: dict[str, float], shapes: Shapes) -> tuple["Diagonal", np.ndarray]:
        r"""Rates of u and v: plain flow in :math:`u/\sqrt{\eta_u}, v/\sqrt{\eta_v}`, rotated as ever."""
        check_rates(rates, ("u", "v"))
        return Diagonal(rates.get("u", self.rate_u), rates.get("v", self.rate_v)), np.ones(2)

    def weights(self, theta: Float[Array | np.ndarray, "... size"]) -> tuple[Any, Any]:
        """The weights (u, v) behind the parameters (p, q)."""
        p, q = theta[..., 0], theta[..., 1]
        return (
            math.sqrt(self.rate_u / 2) * (p + q),
            math.sqrt(self.rate_v / 2) * (p - q),
        )

    def renamed(self, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The parameters (p, q) behind the weights (u, v)."""
        u, v = weights["u"] / math.sqrt(self.rate_u), weights["v"] / math.sqrt(self.rate_v)
        p, q = (u + v) / math.sqrt(2), (u - v) / math.sqrt(2)
        lost = np.flatnonzero((p == 0) | (q == 0))
        if lost.size:
            raise InputError(
                f"u and v of unit {lost[0]} are equal up to their sign, to the last digit: what decides "
                "about it is lost to rounding. Give p = (u + v)/sqrt(2) and q = (u - v)/sqrt(2) instead; "
                "2 p q = u^2 - v^2 is what it was at the start."
            )
        return {"p": p, "q": q}

    def coefficients(self, theta: Float[Array | np.ndarray, "... size"]) -> Any:
        """The regression coefficients beta = u v."""
        return (
            math.sqrt(self.rate_u * self.rate_v) * 0.5 * (theta[..., 0] ** 2 - theta[..., 1] ** 2)
        )

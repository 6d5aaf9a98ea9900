r"""Units that move: :math:`\dot\theta_i = v_i(\Theta)`, right at every scale from 1 to 1e-100.

What decides right from wrong is how the error is measured: relative to each unit's own norm, in the
raw parameters (Runge-Kutta steps commute with linear maps, so the exponentially small component
along the next feature keeps its relative accuracy; polar coordinates would lose it). Units whose
parameters move in proportion to themselves are integrated in their logarithms.

Gradient flow (`saddlewalk.flow`) and the alternation of AGF (`saddlewalk.theory`) are two motions.
"""

import abc
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.ode import AbstractFlow
from saddlewalk.problem.problem import Kind, Parameters, ParametersLike, Problem, norms

if TYPE_CHECKING:
    Either = Any
else:  # what is held between two pieces comes from NumPy; where a program looks at it, it is of JAX
    Either = Array | np.ndarray

_ROUNDING = 100 * 2.2e-16


class AbstractMotion(AbstractFlow):
    """A velocity for all units, in the coordinates that suit them."""

    problem: Problem
    drive: Float[Either, ""]
    """Velocity over norm^(kappa-1) at the start: the natural size of a velocity."""
    sign: ParametersLike | None
    """Signs of the parameters where their logarithms are the coordinates; else `None`."""

    @abc.abstractmethod
    def push(self, theta: Parameters) -> Parameters:
        """Velocity of the parameters."""

    def state(self, theta: Float[Kind, "width size"]) -> Float[Kind, "width size"]:
        """The coordinates of these parameters."""
        xp = theta.__array_namespace__()
        return theta if self.sign is None else xp.log(xp.abs(theta))

    def parameters(self, y: Float[Kind, "*many width size"]) -> Float[Kind, "*many width size"]:
        """Back to the parameters."""
        return y if self.sign is None else self.sign * y.__array_namespace__().exp(y)

    def velocity(self, y: Parameters) -> Parameters:
        """Velocity of the coordinates."""
        return self.along(y, self.push(self.parameters(y)))

    def along(self, y: Parameters, push: Parameters) -> Parameters:
        """Velocity of the coordinates, for this one of the parameters."""
        # times exp(-y), not over theta: the derivative of a quotient squares 1e-160
        return push if self.sign is None else push * (self.sign * jnp.exp(-y))

    def work(self, y: ParametersLike) -> float:
        """Units that multiply one coordinate each share what is held."""
        each = super().work(y)
        return each / len(y) if self.problem.units.multiplicative else each

    def error_scale(self, y: Parameters) -> Parameters:
        """The norm of the unit; an absolute error in the logarithm is a relative one already."""
        return jnp.broadcast_to(norms(y), y.shape) if self.sign is None else jnp.ones_like(y)

    def symmetrizer(self, y: Parameters) -> Parameters:
        """The Jacobian is minus rates times the Hessian; in logarithms the metric is theta squared."""
        plain = jnp.broadcast_to(1 / jnp.sqrt(self.problem.rates), y.shape)
        return plain if self.sign is None else jnp.exp(y)

    def noise(self, y: Parameters) -> Parameters:
        """Rounding of a velocity of natural size."""
        if self.sign is not None:
            return jnp.full_like(y, _ROUNDING * self.drive)
        size = _ROUNDING * self.drive * norms(y) ** (self.problem.pace_degree - 1)
        return jnp.broadcast_to(size, y.shape)


def signs(problem: Problem, theta: Float[Kind, "width size"]) -> Float[Kind, "width size"] | None:
    """Signs of the parameters if these units are followed in logarithms.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    return theta.__array_namespace__().sign(theta) if problem.units.multiplicative else None


def drives(
    problem: Problem, theta: Float[Kind, "width size"], velocity: Float[Kind, "width size"]
) -> Float[Kind, " width"]:
    """Velocity of each unit over its norm to the power kappa - 1: its utility left, scale-free.

    Parameters
    ----------
    problem : units, data and loss.
    theta, velocity : parameters `(width, size)`, and how fast they change.
    """
    norm, speed, xp = norms(theta), norms(velocity), theta.__array_namespace__()
    safe = xp.where(norm > 0, norm, 1.0)
    return xp.where(norm > 0, speed / safe ** (problem.pace_degree - 1), 0.0)[:, 0]


def growth_rates(theta: Parameters, velocity: Parameters) -> Float[Array, " width"]:
    """Rate of the logarithm of each unit's norm.

    Parameters
    ----------
    theta, velocity : parameters `(width, size)`, and how fast they change.
    """
    norm = norms(theta)
    safe = jnp.where(norm > 0, norm, 1.0)
    return jnp.sum((velocity / safe) * (theta / safe), axis=1)

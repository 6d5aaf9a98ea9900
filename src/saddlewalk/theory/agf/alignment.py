"""Dormant units turned to the maximum of utility that they climb to, at their norm: the left of Eq 2."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from saddlewalk import ode
from saddlewalk.problem import Parameters, ParametersLike, Problem, compiled, norms
from saddlewalk.problem.motion import AbstractMotion, Either
from saddlewalk.theory.agf.thresholds import Thresholds


class Alignment(AbstractMotion):
    """Directions alone, on the sphere: the left of Eq 2 for units that stay at their norm."""

    residual: Float[Either, "..."]
    norm: Float[Either, "width 1"]

    def _gradient(self, direction: Parameters) -> Parameters:
        climb = self.problem.climb(self.norm * direction, self.residual)
        return climb / self.norm ** (self.problem.degree - 1)

    def push(self, theta: Parameters) -> Parameters:
        """The gradient of the utility, without its part along the unit."""
        unit = theta / norms(theta)
        gradient = self._gradient(unit)
        return gradient - unit * jnp.sum(gradient * unit, axis=1, keepdims=True)

    def observe(self, y: Parameters) -> Float[Array, " width"]:
        """Part of the gradient that still turns each unit."""
        size = norms(self._gradient(y / norms(y)))
        return (norms(self.push(y)) / jnp.where(size > 0, size, 1.0))[:, 0]


def aligned(
    problem: Problem,
    theta: ParametersLike,
    active: Bool[np.ndarray, " width"],
    tolerance: float,
    at: Thresholds,
) -> np.ndarray:
    """The parameters with every dormant unit turned to its maximum.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    active : the units against whose residual the others turn.
    tolerance : error of a step.
    at : when a unit counts as aligned, and how many steps there are at most.
    """
    theta = np.asarray(theta)
    norm = norms(theta)
    residual = compiled.residual(problem, np.where(active[:, None], theta, 0.0))
    flow = Alignment(problem, np.ones(()), None, np.asarray(residual), norm)
    pieces = ode.integrate(
        flow,
        theta / norm,
        kind="explicit",
        rtol=tolerance,
        times=np.zeros(0),
        max_steps=at.most_steps,
    )
    for piece in pieces:
        turning = np.where(active, 0.0, piece.saved[-1])
        if turning.max() <= at.aligned or piece.stalled:
            break
    direction = piece.end / norms(piece.end)
    return np.where(active[:, None], theta, norm * direction)

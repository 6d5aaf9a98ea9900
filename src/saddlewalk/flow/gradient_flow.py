r"""Gradient flow :math:`\dot\Theta = -\nabla L(\Theta)`, right at every scale from 1 to 1e-100.

What decides right from wrong is how the error is measured: relative to each unit's own norm, in the
raw parameters (Runge-Kutta steps commute with linear maps, so the exponentially small component
along the next feature keeps its relative accuracy; polar coordinates would lose it). Units whose
parameters move in proportion to themselves are integrated in their logarithms.

Plateaus: for degree 2 they last log(1/alpha) and explicit steps are fine. For degree 3 and above
they last :math:`\alpha^{2-\kappa}` while active units relax in time 1, and steps are implicit.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from saddlewalk.ode import AbstractFlow
from saddlewalk.problem import Parameters, Problem, norms

_ROUNDING = 100 * 2.2e-16


class Snapshot(NamedTuple):
    """What is known of the network at one time."""

    loss: Float[Array, ""]
    loss_rate: Float[Array, ""]
    """dL/dt: minus the squared norm of the gradient, times the learning rates."""
    loss_curvature: Float[Array, ""]
    """Second derivative of the loss in time: the curve between two steps is known to fifth order."""
    drive: Float[Array, " width"]
    """Velocity of each unit over its norm to the power kappa - 1: its utility left, scale-free."""
    unit_norm: Float[Array, " width"]
    unit_growth: Float[Array, " width"]
    """Rate of the logarithm of the norm."""
    unit_output: Float[Array, " width"]
    """Length of each unit in function space: the root of E|f_i|^2."""
    parameters: Parameters


def take_snapshot(problem: Problem, theta: Parameters) -> Snapshot:
    """Loss, gradient and unit sizes at one point of parameter space."""
    loss, gradient = jax.value_and_grad(problem.loss)(theta)
    velocity, acceleration = jax.jvp(problem.velocity, (theta,), (-problem.rates * gradient,))
    norm, speed = norms(theta), norms(velocity)
    drive = jnp.where(norm > 0, speed / jnp.where(norm > 0, norm, 1.0) ** (problem.degree - 1), 0.0)
    return Snapshot(
        loss=loss,
        loss_rate=jnp.sum(gradient * velocity),
        loss_curvature=2 * jnp.sum(gradient * acceleration),
        drive=drive[:, 0],
        unit_norm=norm[:, 0],
        unit_growth=jnp.sum(velocity * theta, axis=1) / jnp.where(norm > 0, norm, 1.0)[:, 0] ** 2,
        unit_output=jax.vmap(problem.task.length)(problem.features(theta)),
        parameters=theta,
    )


class RawFlow(AbstractFlow):
    """Gradient flow in the parameters themselves, errors relative to each unit's norm."""

    problem: Problem
    drive: Float[Array, ""]
    """Velocity over norm^(kappa-1) at the start: the natural size of a velocity."""

    def velocity(self, y: Parameters) -> Parameters:
        """Minus the gradient."""
        return self.problem.velocity(y)

    def yardstick(self, y: Parameters) -> Parameters:
        """The norm of the unit."""
        return jnp.broadcast_to(norms(y), y.shape)

    def ruler(self, y: Parameters) -> Parameters:
        """The Jacobian is minus rates times the Hessian."""
        return jnp.broadcast_to(1 / jnp.sqrt(self.problem.rates), y.shape)

    def noise(self, y: Parameters) -> Parameters:
        """Rounding of a velocity of natural size."""
        size = _ROUNDING * self.drive * norms(y) ** (self.problem.degree - 1)
        return jnp.broadcast_to(size, y.shape)

    def observe(self, y: Parameters) -> Snapshot:
        """A snapshot."""
        return take_snapshot(self.problem, y)


class LogFlow(AbstractFlow):
    """The same flow in `log |theta|`, for parameters that keep their sign; errors are absolute."""

    problem: Problem
    drive: Float[Array, ""]
    sign: Parameters

    def parameters(self, y: Parameters) -> Parameters:
        """Back to the parameters."""
        return self.sign * jnp.exp(y)

    def velocity(self, y: Parameters) -> Parameters:
        """Relative growth rate of each parameter."""
        # times exp(-y), not over theta: the derivative of a quotient squares 1e-160
        return self.problem.velocity(self.parameters(y)) * (self.sign * jnp.exp(-y))

    def yardstick(self, y: Parameters) -> Parameters:
        """An absolute error in the logarithm is a relative one in the parameter."""
        return jnp.ones_like(y)

    def ruler(self, y: Parameters) -> Parameters:
        """In logarithms the metric is theta squared."""
        return jnp.exp(y)

    def noise(self, y: Parameters) -> Parameters:
        """Rounding of a growth rate of natural size."""
        return jnp.full_like(y, _ROUNDING * self.drive)

    def observe(self, y: Parameters) -> Snapshot:
        """A snapshot."""
        return take_snapshot(self.problem, self.parameters(y))


def make_flow(problem: Problem, theta: Parameters) -> tuple[Any, Parameters, Snapshot]:
    """The flow of a problem in the coordinates that suit its units, its state and first snapshot."""
    start = eqx.filter_jit(take_snapshot)(problem, theta)
    largest = jnp.max(start.drive)
    if problem.units.multiplicative:
        return LogFlow(problem, largest, jnp.sign(theta)), jnp.log(jnp.abs(theta)), start
    return RawFlow(problem, largest), theta, start

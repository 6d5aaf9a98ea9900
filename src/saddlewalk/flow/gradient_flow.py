r"""Gradient flow :math:`\dot\Theta = -\nabla L(\Theta)`: the ground truth.

Plateaus: for degree 2 they last log(1/alpha) and explicit steps are fine. For degree 3 and above
they last :math:`\alpha^{2-\kappa}` while active units relax in time 1, and steps are implicit, or
stabilized where a dense Jacobian would be too large.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from saddlewalk.ode import stack_arrays, stacked, unstacked
from saddlewalk.problem import Parameters, Problem, norms
from saddlewalk.problem.motion import AbstractMotion, drives, growth_rates, signs
from saddlewalk.programs import compiled, seldom


class Snapshot(NamedTuple):
    """What is known of the network at one time."""

    loss: Float[Array, ""]
    loss_rate: Float[Array, ""]
    """dL/dt: minus the squared norm of the gradient, times the learning rates."""
    loss_curvature: Float[Array, ""]
    """Second derivative of the loss in time: the curve between two steps is known to fifth order."""
    drive: Float[Array, " width"]
    """Velocity of each unit over its norm to the power kappa - 1: its utility left, scale-free."""
    opportunity: Float[Array, ""]
    """Drive that a new unit would find: for units whose own drive cannot tell a saddle from a minimum."""
    unit_norm: Float[Array, " width"]
    unit_growth: Float[Array, " width"]
    """Rate of the logarithm of the norm."""
    unit_output: Float[Array, " width"]
    """Length of each unit in function space: the root of E|f_i|^2."""
    parameters: Parameters


def take_snapshot(problem: Problem, theta: Parameters) -> Snapshot:
    """Loss, gradient and unit sizes at one point of parameter space.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    loss, gradient = jax.value_and_grad(problem.loss)(theta)
    velocity = -problem.pace(theta) * gradient
    _, acceleration = jax.jvp(problem.velocity, (theta,), (velocity,))
    # the gradient changes as the velocity does, but for a pace that may change too
    curvature = (
        2 * jnp.sum(gradient * acceleration)
        if not problem.adaptive
        else jax.jvp(
            lambda th: -jnp.sum(problem.pace(th) * jax.grad(problem.loss)(th) ** 2),
            (theta,),
            (velocity,),
        )[1]
    )
    return Snapshot(
        loss=loss,
        loss_rate=jnp.sum(gradient * velocity),
        loss_curvature=curvature,
        drive=drives(problem, theta, velocity),
        opportunity=_opportunity(problem, theta),
        unit_norm=norms(theta)[:, 0],
        unit_growth=growth_rates(theta, velocity),
        unit_output=jnp.sqrt(problem.squares(theta)),
        parameters=theta,
    )


def _opportunity(problem: Problem, theta: Parameters) -> Float[Array, ""]:
    """All linear neurons are active after the first jump, and rest at a saddle as at a minimum, and a deep
    network is one unit; what is left to learn shows in the drive of units that point anywhere."""
    if problem.units.additive and not problem.units.rotatable:
        return jnp.zeros(())
    probes = jax.random.normal(jax.random.key(0), theta.shape, dtype=theta.dtype)
    return jnp.max(drives(problem, probes, problem.climb(probes, problem.residual(theta))))


class GradientFlow(AbstractMotion):
    """All units descend the loss together."""

    def push(self, theta: Parameters) -> Parameters:
        """Minus the gradient, times the learning rates."""
        return self.problem.velocity(theta)

    def observe(self, y: Parameters) -> Snapshot:
        """A snapshot."""
        return take_snapshot(self.problem, self.parameters(y))


def make_flow(problem: Problem, theta: Parameters, first: Snapshot) -> GradientFlow:
    """The flow of a problem in the coordinates that suit its units, from its first snapshot on.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` at the start.
    first : what there is to see at the start.
    """
    return GradientFlow(problem, jnp.max(first.drive), signs(problem, theta))


_snapshot = seldom(take_snapshot)


@compiled
def _snapshots(moving: Any, still: Any, thetas: Any) -> Snapshot:
    return jax.vmap(lambda arrays, theta: take_snapshot(eqx.combine(arrays, still), theta))(
        moving, thetas
    )


def first_snapshots(problems: Sequence[Problem], thetas: Sequence[Parameters]) -> list[Snapshot]:
    """Where each network starts; networks of one shape are looked at together.

    Parameters
    ----------
    problems : units, data and loss of each network.
    thetas : parameters `(width, size)` of each at the start.
    """
    if len(problems) == 1:
        return [jax.device_get(_snapshot(problems[0], thetas[0]))]
    moving, still = stack_arrays(problems)
    found = jax.device_get(_snapshots(moving, still, stacked(thetas)))
    return unstacked(found, len(problems))

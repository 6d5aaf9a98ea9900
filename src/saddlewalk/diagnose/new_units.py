r"""What a new unit could do: its largest utility against the residual.

Where units grow by order 3 or more, a unit at zero feels no curvature. What decides whether the network can
leave is :math:`\max_{|\theta| = 1} U(\theta; r)` (Eq 1).
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.problem import Problem, compiled, norms
from saddlewalk.units import Relation

_PROBES, _CLIMBS = 16, 200


class NewUnit(NamedTuple):
    """The unit that would lower the loss most, of norm 1."""

    utility: float
    """NaN where a unit cannot be at zero, and so none can be new."""
    theta: Float[np.ndarray, " size"] | None


def best_new_unit(problem: Problem, theta: Array) -> NewUnit:
    """The best addition to a network.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` of the network that is added to.
    """
    if not problem.units.exchangeable or Relation.ZERO not in problem.relations():
        return NewUnit(math.nan, None)
    probes = problem.resized(_PROBES)
    utilities, units = _climbed(probes, compiled.residual(problem, theta))
    best = int(jnp.argmax(utilities))
    return NewUnit(float(utilities[best]), np.asarray(units[best]))


@eqx.filter_jit
def _climbed(probes: Problem, residual: Array) -> tuple[Array, Array]:
    """Utilities, at norm 1, of units that climbed from random directions."""
    small = 1e-3
    theta = jax.random.normal(jax.random.key(0), (probes.width, probes.size), dtype=jnp.float64)

    def utilities(theta: Array) -> Array:
        return probes.utility(small * theta, residual) / small**probes.degree

    def climb(_: Any, theta: Array) -> Array:
        push = probes.climb(small * theta, residual) / small ** (probes.degree - 1)
        # power iteration with a shift that keeps it climbing
        step = push + (probes.degree - 1) * norms(push) * theta
        return step / jnp.maximum(norms(step), 1e-300)

    theta = jax.lax.fori_loop(0, _CLIMBS, climb, theta / norms(theta))
    return utilities(theta), theta

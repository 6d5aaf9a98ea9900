"""Many states of one flow that do not feel each other: each takes steps of its own, from now to a given time.

In one integration the state that needs the shortest step decides for all. Units that pass kinks at times of
their own would wait for each other at every one of them.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from saddlewalk.ode.control import relative_error, step_factor
from saddlewalk.ode.runge_kutta import RungeKutta
from saddlewalk.ode.system import AbstractFlow, State

_FIRST_STEP = 0.01
"""Length of the first step, over the time in which something changes e-fold."""


class Carry(NamedTuple):
    """Where one of them stands."""

    left: Float[Array, ""]
    """Time that it still has to go."""
    y: State
    velocity: State
    h: Float[Array, ""]
    error: Float[Array, ""]
    tried: Int[Array, ""]


def advance_alone(
    flow: AbstractFlow,
    starts: Float[Array, "many *shape"],
    lasts: Float[Array, " many"],
    rtol: Any,
    most: int,
) -> tuple[Float[Array, "many *shape"], Float[Array, " many"], Int[Array, ""]]:
    """Where each is after its time or its last try, the time that it still has to go, and the right-hand
    sides that it took.

    Parameters
    ----------
    flow : the system of one of them.
    starts : their states.
    lasts : how long each goes on.
    rtol : error of a step, relative to the flow's `error_scale`.
    most : tries, at most.
    """
    method = RungeKutta(flow)

    def once(now: Carry) -> Carry:
        h = jnp.minimum(now.h, now.left)
        step = method.step(now.y, now.velocity, h, None)
        error = relative_error(method, now.y, step, h, jnp.asarray(rtol))
        good = error <= 1
        longer = h * step_factor(error, now.error, good, method.error_order)
        # the last step is cut short, and says little about what comes after
        after = Carry(now.left - h, step.end, step.velocity, longer, error, now.tried + 1)
        before = now._replace(h=longer, tried=now.tried + 1)
        return jax.tree.map(lambda yes, no: jnp.where(good, yes, no), after, before)

    def one(y: State, last: Float[Array, ""]) -> Carry:
        velocity = flow.velocity(y)
        fastest = jnp.max(jnp.abs(velocity) / flow.error_scale(y))
        h = _FIRST_STEP / jnp.maximum(fastest, 1e-300)
        start = Carry(last, y, velocity, h, jnp.ones(()), jnp.zeros((), dtype=int))
        goes_on = lambda now: (now.left > 0) & (now.tried < most)  # noqa: E731
        return jax.lax.while_loop(goes_on, once, start)

    ends = jax.vmap(one)(starts, lasts)
    return ends.y, jnp.maximum(ends.left, 0.0), 1 + 6 * jnp.max(ends.tried)

"""The next step, from the error of this one: proportional-integral control.

Errors are measured in the flow's own scale of errors, so that they are relative to each unit. Control is
smooth where steps are limited by stability: the last error counts, too.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from saddlewalk.ode.method import AbstractMethod, Step
from saddlewalk.ode.system import State

_PROPORTIONAL, _INTEGRAL = 0.2, 0.4
_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 10.0
_TINY = 1e-30


def relative_error(
    method: AbstractMethod, start: State, step: Step, h: Float[Array, ""], rtol: Float[Array, ""]
) -> Float[Array, ""]:
    """Error over what is allowed: above 1 the step is refused. Infinite if it left the finite numbers.

    Parameters
    ----------
    method : what made the step.
    start : where it began.
    step : what it brought.
    h : its length.
    rtol : error that is allowed, relative to the flow's `error_scale`.
    """
    flow = method.flow
    scale = jnp.minimum(flow.error_scale(start), flow.error_scale(step.end))
    scaled = jnp.where(step.error == 0, 0.0, step.error / scale)  # a unit of zeros has no scale
    largest = jnp.max(jnp.abs(scaled), axis=tuple(range(1, step.error.ndim)))
    size = method.size(largest, h) / rtol
    finite = jnp.all(jnp.isfinite(step.end)) & jnp.isfinite(size)
    return jnp.where(finite, size, jnp.inf)


def step_factor(
    error: Float[Array, ""], last_error: Float[Array, ""], accepted: Bool[Array, ""], order: int
) -> Float[Array, ""]:
    """How much longer the next step should be; one that was accepted is not made shorter.

    Parameters
    ----------
    error : of this step, over what is allowed.
    last_error : the same of the last step that was kept.
    accepted : whether this step was.
    order : power of its length with which the error of a step falls.
    """
    now, before = (1 / jnp.maximum(e, _TINY) for e in (error, last_error))
    factor = now ** ((_PROPORTIONAL + _INTEGRAL) / order) * before ** (-_PROPORTIONAL / order)
    return jnp.clip(_SAFETY * factor, jnp.where(accepted, 1.0, _SHRINK), _GROW)

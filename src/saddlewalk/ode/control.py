"""Step sizes from errors measured with the flow's own error_scale."""

from collections.abc import Callable
from typing import Any

import diffrax
import jax.numpy as jnp
from jaxtyping import Array

from saddlewalk.ode.system import AbstractFlow

_COARSE_CLOCK = 1e-10


def _largest(error: Array) -> Array:
    return jnp.max(jnp.abs(error))


class ScaleFreeController(diffrax.AbstractAdaptiveStepSizeController):
    """Diffrax's controller, fed with the largest error relative to the error_scale.

    Two cases are added. A step that left the finite numbers is rejected. When the next step would
    be too small for the clock to resolve (steps shrink from 1/alpha to 1 as a unit of degree 3
    wakes up), the solve ends with `dt_min_reached`; the caller restarts it with the clock at zero.
    """

    rtol: Any
    atol: Any
    norm: Callable
    flow: AbstractFlow
    inner: diffrax.PIDController

    def wrap(self, direction: Any) -> "ScaleFreeController":
        """Only forward integration is used: nothing to adapt."""
        return self

    def init(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        dt0: Any,
        args: Any,
        func: Any,
        error_order: Any,
    ) -> Any:
        """As the inner controller."""
        return self.inner.init(terms, t0, t1, y0, dt0, args, func, error_order)

    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: Any,
    ) -> Any:
        """Scale the error, then decide as the inner controller does."""
        finite = jnp.all(jnp.isfinite(y1_candidate)) & jnp.all(jnp.isfinite(y_error))
        scale = jnp.minimum(self.flow.error_scale(y0), self.flow.error_scale(y1_candidate))
        scaled = jnp.where(finite, y_error / scale, jnp.inf)
        keep, next_t0, next_t1, jump, state, result = self.inner.adapt_step_size(
            t0, t1, y0, y1_candidate, args, scaled, error_order, controller_state
        )
        coarse = next_t1 - next_t0 < _COARSE_CLOCK * next_t0
        result = diffrax.RESULTS.where(coarse, diffrax.RESULTS.dt_min_reached, result)
        return keep, next_t0, next_t1, jump, state, result


def controller(flow: AbstractFlow, rtol: Any) -> ScaleFreeController:
    """Proportional-integral control: smooth where steps are limited by stability."""
    inner = diffrax.PIDController(rtol=0.0, atol=rtol, norm=_largest, pcoeff=0.2, icoeff=0.4)
    return ScaleFreeController(0.0, rtol, _largest, flow, inner)

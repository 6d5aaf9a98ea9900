r"""One loop under every method: step, judge, keep.

A piece of an integration is one compiled loop. In each round a step is tried, and then

==================  =======================================================================================
too large an error  the step is refused, and a shorter one is tried
an event within it  the step is made shorter until it ends at the event: a root of the margin as a function
                    of the step's length, found by the Illinois method, with true steps and no interpolation
else                it is kept
==================  =======================================================================================

Steps end at moments that were asked for. A piece ends at its event, at its horizon, when its buffer is full,
or when the next step would be too small for its clock: steps shrink from 1/alpha to 1 as a unit of degree 3
wakes up, and the next piece begins with the clock at zero.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from saddlewalk.ode.control import relative_error, step_factor
from saddlewalk.ode.method import AbstractMethod
from saddlewalk.ode.system import State

_COARSE_CLOCK = 1e-10
"""A step below this part of the clock is too small for it."""
_AT_EVENT = 1e-7
"""Margin within which an event is reached: margins are logarithms, and rounding makes them rough below."""
_MOST_TRIALS = 128
"""Steps, beyond the room of a piece, to locate an event with: each piece begins with none enclosed."""
_NARROW = 1e-13
"""Or: part of a step within which it is enclosed."""


class Bracket(NamedTuple):
    """Lengths of a step between which its margin falls through zero."""

    low: Float[Array, ""]
    high: Float[Array, ""]
    """Infinite while no event is enclosed."""
    margin_low: Float[Array, ""]
    margin_high: Float[Array, ""]

    @property
    def encloses(self) -> Bool[Array, ""]:
        """Whether there is an event to be located."""
        return jnp.isfinite(self.high)

    @property
    def trial(self) -> Float[Array, ""]:
        """Where the secant through both ends is zero."""
        weight = self.margin_low / (self.margin_low - self.margin_high)
        # the first margin may be unknown, or as good as infinite
        inside = jnp.where((weight > 0) & (weight < 1), weight, 0.5)
        return self.low + inside * (self.high - self.low)

    def narrowed(self, h: Float[Array, ""], margin: Float[Array, ""]) -> "Bracket":
        """With one more length; the end that stays counts half, or it might stay for ever."""
        after = Bracket(self.low, h, 0.5 * self.margin_low, margin)
        before = Bracket(h, self.high, margin, 0.5 * self.margin_high)
        first = Bracket(jnp.zeros_like(h), h, self.margin_low, margin)
        inner = _select(margin > 0, before, after)
        return _select(self.encloses, inner, first)

    def found(self, margin: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether a step with this margin, which has passed the event, ends at it."""
        narrow = self.high - self.low <= _NARROW * self.high
        return (margin <= 0) & ((margin > -_AT_EVENT) | (self.encloses & narrow))


class Carry(NamedTuple):
    """Where a piece stands."""

    time: Float[Array, ""]
    y: State
    velocity: State
    memory: Any
    margin: Float[Array, ""]
    h: Float[Array, ""]
    """The step to try next, as far as errors are concerned."""
    error: Float[Array, ""]
    """Of the last step that was kept."""
    bracket: Bracket
    kept: Int[Array, ""]
    tried: Int[Array, ""]
    evaluations: Float[Array, ""]
    event: Bool[Array, ""]
    coarse: Bool[Array, ""]
    times: Float[Array, " most"]
    states: Float[Array, "most *shape"]


class Begin(NamedTuple):
    """What a piece begins with."""

    y: State
    velocity: State
    memory: Any
    margin: Float[Array, ""]
    """Infinite where it is not watched."""
    h: Float[Array, ""]


def run_piece(
    method: AbstractMethod,
    begin: Begin,
    rtol: Float[Array, ""],
    horizon: Float[Array, ""],
    wanted: Float[Array, " moments"],
    most: int,
) -> Carry:
    """Steps until an event, the horizon, `most` tries, or a clock that is too coarse.

    Parameters
    ----------
    method : what makes the steps.
    begin : where the piece begins, and the length of its first step.
    rtol : error that is allowed, relative to the flow's `error_scale`.
    horizon : time, from the beginning of the piece, at which it ends.
    wanted : moments that a step must hit, on the same clock.
    most : tries, at most: the room for what is kept.
    """
    zero = jnp.zeros(())
    start = Carry(
        time=zero,
        y=begin.y,
        velocity=begin.velocity,
        memory=begin.memory,
        margin=begin.margin,
        h=begin.h,
        error=jnp.ones(()),
        bracket=_open(begin.margin),
        kept=jnp.zeros((), dtype=int),
        tried=jnp.zeros((), dtype=int),
        evaluations=zero,
        event=begin.margin <= 0,
        coarse=jnp.asarray(False),
        times=jnp.zeros(most + 1),
        states=jnp.zeros((most + 1, *begin.y.shape)).at[0].set(begin.y),
    )

    def goes_on(carry: Carry) -> Bool[Array, ""]:
        room = jnp.where(carry.bracket.encloses, most + _MOST_TRIALS, most)
        more = (carry.time < horizon) & (carry.tried < room)
        return more & ~carry.event & ~carry.coarse

    def once(carry: Carry) -> Carry:
        return _round(method, carry, rtol, horizon, wanted)

    return jax.lax.while_loop(goes_on, once, start)


def _round(
    method: AbstractMethod,
    carry: Carry,
    rtol: Float[Array, ""],
    horizon: Float[Array, ""],
    wanted: Float[Array, " moments"],
) -> Carry:
    """Try one step, and keep it or not."""
    stop = _next_stop(carry.time, horizon, wanted)
    locating = carry.bracket.encloses
    room = stop - carry.time
    h = jnp.where(locating, carry.bracket.trial, jnp.minimum(carry.h, room))
    step = method.step(carry.y, carry.velocity, h, carry.memory)
    error = relative_error(method, carry.y, step, h, rtol)
    exact = error <= 1
    margin = method.flow.margin(step.end) if method.flow.watches else jnp.asarray(jnp.inf)
    bracket = _select(exact, carry.bracket.narrowed(h, margin), carry.bracket)
    event = exact & carry.bracket.found(margin)
    # an event enclosed is not passed: the step is tried again until it ends there
    keep = exact & (event | ((margin > 0) & ~locating))
    factor = step_factor(error, carry.error, exact, method.error_order)
    at_stop = ~locating & (carry.h >= room)
    # a step cut short for a moment that was asked for says little about the next
    proposed = jnp.where(at_stop & exact, jnp.maximum(carry.h, h * factor), h * factor)
    longer = jnp.where(locating, carry.h, proposed)
    time = jnp.where(keep, jnp.where(at_stop, stop, carry.time + h), carry.time)
    row = jnp.where(keep, carry.kept + 1, len(carry.times))  # out of bounds: dropped
    now = (step.end, step.velocity, step.memory, margin, error)
    before = (carry.y, carry.velocity, carry.memory, carry.margin, carry.error)
    y, velocity, memory, margin_now, error_kept = _select(keep, now, before)
    return Carry(
        time=time,
        y=y,
        velocity=velocity,
        memory=memory,
        margin=margin_now,
        h=longer,
        error=error_kept,
        bracket=_select(keep | ((margin > 0) & ~locating), _open(margin_now), bracket),
        kept=carry.kept + keep,
        tried=carry.tried + 1,
        evaluations=carry.evaluations + step.evaluations,
        event=event,
        coarse=keep & (longer < _COARSE_CLOCK * time),
        times=carry.times.at[row].set(time, mode="drop"),
        states=carry.states.at[row].set(step.end, mode="drop"),
    )


def _next_stop(
    time: Float[Array, ""], horizon: Float[Array, ""], wanted: Float[Array, " moments"]
) -> Float[Array, ""]:
    """The first moment that is still to come, or the horizon."""
    ahead = jnp.where(wanted > time, wanted, jnp.inf)
    return jnp.minimum(horizon, jnp.min(ahead, initial=jnp.inf))


def _open(margin: Float[Array, ""]) -> Bracket:
    """No event is enclosed."""
    return Bracket(jnp.zeros(()), jnp.asarray(jnp.inf), margin, -jnp.ones(()))


def _select(condition: Bool[Array, ""], yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)

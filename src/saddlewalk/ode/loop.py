r"""One loop under every method: step, judge, keep.

A piece of an integration is one compiled loop. In each round a step is tried, and then

==================  =======================================================================================
too large an error  the step is refused, and a shorter one is tried
an event within it  the step is made shorter until it ends at the event, as near as the flow wants it: a
                    root of the margin as a function of the step's length, found by the Illinois method,
                    with true steps and no interpolation. There the piece ends, or it goes on in a new context
else                it is kept
==================  =======================================================================================

Steps end at moments that were asked for. A piece ends at its event, at its horizon, when its buffer is full,
or when the next step would be too small for its clock: steps shrink from 1/alpha to 1 as a unit of degree 3
wakes up, and the next piece begins with the clock at zero.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from saddlewalk.ode.control import relative_error, step_factor
from saddlewalk.ode.method import AbstractMethod, Step
from saddlewalk.ode.system import AbstractFlow, State, StateLike, Watch

_COARSE_CLOCK = 1e-10
"""A step below this part of the clock is too small for it."""
_MOST_TRIALS = 128
"""Steps, beyond the room of a piece, to locate an event with: each piece begins with none enclosed."""
_NARROW = 1e-13
"""Or: part of a step within which it is enclosed."""
_BLINK = 1e-9
"""In a new context the velocity is a new one: the next step is this part of the last, and finds it."""
_NO_LENGTH = 1e-300
"""Length of the very first step, which finds the velocity."""
_FIRST_STEP = 0.01
"""Of the next one, over the time in which something changes e-fold."""


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

    def found(self, margin: Float[Array, ""], slack: Float[Array, ""]) -> Bool[Array, ""]:
        """Whether a step with this margin, which has passed the event, ends at it."""
        narrow = self.high - self.low <= _NARROW * self.high
        return (margin <= 0) & ((margin > -slack) | (self.encloses & narrow))


class Carry(NamedTuple):
    """Where a piece stands."""

    time: Float[Array, ""]
    y: State
    velocity: State
    memory: Any
    margin: Float[Array, ""]
    context: Any
    """Of the flow, which events change."""
    fresh: Bool[Array, ""]
    """Whether it is new, so that velocity and margin are those of another."""
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
    seens: Any


class Begin(NamedTuple):
    """What a piece begins with: its first step has no length, and finds all else."""

    y: StateLike
    memory: Any
    context: Any
    h: Float[Array | np.ndarray, ""]
    """The step to try; 0 where nothing is known about it."""


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
    zero, y = jnp.zeros(()), jnp.asarray(begin.y)
    context = jax.tree.map(jnp.asarray, begin.context)
    flow = method.flow.within(context)
    seen = jax.eval_shape(lambda state: watched(flow, state, state).seen, y)
    start = Carry(
        time=zero,
        y=y,
        velocity=jnp.zeros_like(y),
        memory=jax.tree.map(jnp.asarray, begin.memory),
        margin=jnp.asarray(jnp.inf),
        context=context,
        fresh=jnp.asarray(False),
        h=jnp.asarray(begin.h),
        error=jnp.ones(()),
        bracket=_open(jnp.asarray(jnp.inf)),
        kept=jnp.full((), -1),
        tried=jnp.zeros((), dtype=int),
        evaluations=zero,
        event=jnp.asarray(False),
        coarse=jnp.asarray(False),
        times=jnp.zeros(most + 1),
        states=jnp.zeros((most + 1, *y.shape)),
        seens=_rows(seen, most + 1),
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
    method = method.on(method.flow.within(carry.context))
    first = carry.kept < 0
    stop = _next_stop(carry.time, horizon, wanted)
    locating, room = carry.bracket.encloses, stop - carry.time
    wished = jnp.minimum(carry.h, method.flow.reach)
    longest = jnp.minimum(jnp.where(carry.fresh, _BLINK * wished, wished), room)
    h = jnp.where(first, _NO_LENGTH, jnp.where(locating, carry.bracket.trial, longest))
    step = method.step(carry.y, carry.velocity, h, carry.memory)
    error = relative_error(method, carry.y, step, h, rtol)
    exact = first | (error <= 1)
    seen = watched(method.flow, step.end, step.velocity)
    bracket = _select(exact, carry.bracket.narrowed(h, seen.margin), carry.bracket)
    happens = exact & ~first & carry.bracket.found(seen.margin, method.flow.slack)
    # an event enclosed is not passed: the step is tried again until it ends there
    keep = exact & (first | happens | ((seen.margin > 0) & ~locating))
    factor = step_factor(error, carry.error, exact, method.error_order)
    at_stop = ~locating & (longest >= room)
    # a step cut short for a moment that was asked for says little about the next
    proposed = jnp.where(at_stop & exact, jnp.maximum(carry.h, h * factor), h * factor)
    longer = jnp.where(locating | (carry.fresh & exact), carry.h, proposed)
    longer = jnp.where(first, _first_step(method.flow, carry.h, step), longer)
    # at a kink a shorter step may err more than the one that enclosed the event: go nearer to it first
    lost = locating & ~exact
    longer = jnp.where(lost, 0.5 * h, longer)
    time = jnp.where(keep & ~first, jnp.where(at_stop, stop, carry.time + h), carry.time)
    row = jnp.where(keep, carry.kept + 1, len(carry.times))  # out of bounds: dropped
    error = jnp.where(carry.fresh | first, carry.error, error)
    now = (step.end, step.velocity, step.memory, seen.margin, error)
    before = (carry.y, carry.velocity, carry.memory, carry.margin, carry.error)
    y, velocity, memory, margin, error_kept = _select(keep, now, before)
    changes = happens & ~seen.ends
    return Carry(
        time=time,
        y=y,
        velocity=velocity,
        memory=memory,
        margin=jnp.where(changes, jnp.inf, margin),
        context=_select(changes, seen.context, carry.context),
        fresh=changes | (carry.fresh & ~keep),
        h=longer,
        error=error_kept,
        bracket=_select(keep | lost | ((seen.margin > 0) & ~locating), _open(margin), bracket),
        kept=carry.kept + keep,
        tried=carry.tried + ~first,
        evaluations=carry.evaluations + step.evaluations,
        event=happens & seen.ends,
        coarse=keep & ~first & (longer < _COARSE_CLOCK * time),
        times=carry.times.at[row].set(time, mode="drop"),
        states=carry.states.at[row].set(step.end, mode="drop"),
        seens=_put(carry.seens, row, seen.seen),
    )


def watched(flow: AbstractFlow, y: State, velocity: State) -> Watch:
    """What a flow watches for, or nothing.

    Parameters
    ----------
    flow : the system.
    y : its state.
    velocity : its velocity there.
    """
    if flow.watches:
        return flow.watch(y, velocity)
    return Watch(jnp.asarray(jnp.inf), flow.context, jnp.asarray(False), ())


def _first_step(flow: AbstractFlow, h: Float[Array, ""], step: Step) -> Float[Array, ""]:
    """The length that was given, or one by the fastest change."""
    fastest = jnp.max(jnp.abs(step.velocity) / flow.error_scale(step.end))
    by_velocity = jnp.where(fastest > 0, _FIRST_STEP / jnp.where(fastest > 0, fastest, 1.0), 1.0)
    return jnp.where(h > 0, h, by_velocity)


def _rows(one: Any, many: int) -> Any:
    """Room for as many trees of arrays like this one."""
    return jax.tree.map(lambda leaf: jnp.zeros((many, *leaf.shape), leaf.dtype), one)


def _put(rows: Any, k: Int[Array, ""], now: Any) -> Any:
    """One more tree of arrays; dropped where there is no room."""
    return jax.tree.map(lambda all_of_them, one: all_of_them.at[k].set(one, mode="drop"), rows, now)


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

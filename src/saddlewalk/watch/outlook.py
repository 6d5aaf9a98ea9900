"""What the next drop of the loss will be: read off a training that was followed ahead.

A drop is ahead if the loss first stays, and then falls by a part that matters and stays again. A loss
that falls from the first moment is on its way, as in any ordinary training, and nothing is forecast.
What falls at once by the little that minibatches shake the weights is settled first, and does not count.
"""

import math
import time
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import LossCurve, Plateau, find_jumps, plateau_before
from saddlewalk.curves.curve import FEWEST
from saddlewalk.curves.plateaus import LEAST, STILL
from saddlewalk.show.words import Word
from saddlewalk.watch.ahead import Ahead
from saddlewalk.watch.losses import falling
from saddlewalk.watch.rules import Descent, Rule, steps_until, steps_within

_DONE = 0.1
"""A drop is over when, at its present pace, another such time would bring this part of it."""
_SETTLES = 0.03
"""Part of the time trained so far within which what noise has shaken settles."""
_FLOOR = 0.5
"""Part of the present loss below which a settled one is no plateau: the loss is the noise itself."""
_HIDES = 0.1
"""Noise that is this part of the fall ahead hides what the past would tell."""
_SHAKEN, _DIVIDED = 0.2, 0.5
"""What noise as large as the drop adds to the spread, and noise that is all of Adam's mean squares."""
_FAR_ENOUGH = 1.0
"""Times the steps made so far that must be looked ahead for "no drop in sight"."""
_GROWS, _NOISY = 1.5, 0.3
"""Under Adam all units grow alike, and every start is slow: where this part of its mean squares is
noise, only a unit that grows so many times until the drop makes a plateau."""
_DOUBLED = 2.0
_POINTS = 60
"""Means that stand for the past."""
_SLOWER = 0.3
"""A fall is past its steepest part when it has slowed to this part of its pace there."""


class State(Word):
    """Where a training is."""

    PLATEAU = "plateau", "on a plateau: the loss stands still, and a drop is ahead"
    FALLING = "falling", "the loss falls: no plateau"
    NO_DROP = "no drop in sight", "the loss stands still, and no drop is in sight"
    MINIMUM = "at rest", "at rest: a minimum"
    RATE_ENDS = "rate ends", "no drop before the learning rate comes to its end"
    NOT_FINITE = "not finite", "the loss or the weights are not finite"
    NOT_FAR = (
        "not looked far",
        "the loss stands still; there was time to look a few steps ahead only",
    )
    BY_HEART = (
        "by heart",
        "the probe would be learned by heart, sample by sample: a larger one tells more",
    )
    UNKNOWN = (
        "unknown",
        "not known: no optimizer was given, its learning rate is 0, or its law is not known here",
    )


_UNSEEN = 0.1
"""How sure a drop is beyond what was seen."""
_CHANCES = {
    State.MINIMUM: 0.0,
    State.RATE_ENDS: 0.0,
    State.NOT_FAR: _UNSEEN,
    State.NOT_FINITE: 0.0,
    State.UNKNOWN: math.nan,
}
"""How sure a drop is where none was seen."""
_UNDER_WAY = 0.1
"""A drop that was forecast, and has begun, is taken for one from a plateau of such a pace."""
_STEEP, _LATEST = 4.0, 0.5
"""How fast the chance of a drop falls with the pace of the loss before it; by how much a pace on a probe that
is learned by heart is too low at most."""


@dataclass
class Search:
    """When a training has been followed far enough: beyond its next drop.

    Parameters
    ----------
    elapsed : steps made so far.
    until : the moment (of `time.perf_counter`) at which it ends in any case.
    horizon : steps that were to be looked ahead.
    rises : whether the loss may rise before it falls, as that of held-out data does.
    """

    elapsed: float
    until: float = math.inf
    horizon: float = math.inf
    rises: bool = False
    reference: int = field(default=0, init=False)
    """The point from which a drop is looked for: the first that has settled."""
    done: bool = field(default=False, init=False)
    """Whether a drop was seen to its end."""

    def __call__(self, steps: list[float], loss: list[float]) -> bool:
        """Whether a drop has begun and ended.

        Parameters
        ----------
        steps, loss : the training as far as it was followed.
        """
        if time.perf_counter() > self.until:
            return True
        if len(steps) == 1:  # a path that begins anew
            self.reference, self.done = 0, False
        if self.rises and loss[-1] >= loss[self.reference]:
            self.reference = len(steps) - 1
        start = self.reference
        if len(steps) - start < 3:
            return False
        fallen = loss[start] - loss[-1]
        if fallen < LEAST * abs(loss[start]):
            return False
        since = steps[-1] - steps[start]
        pace = (loss[-2] - loss[-1]) / max(steps[-1] - steps[-2], 1e-300)
        if pace * since > _DONE * fallen:
            return False
        middle = next(k for k in range(start, len(loss)) if loss[start] - loss[k] >= fallen / 2)
        if steps[middle] <= _SETTLES * self.elapsed:
            self.reference = len(steps) - 1
            return False
        self.done = True
        return True


@dataclass(frozen=True)
class Outlook:
    """What was read off the future."""

    state: State
    steps: float = math.nan
    """Until the loss passes the middle of its next drop."""
    before: float = math.nan
    after: float = math.nan
    unit: int | None = None
    """The unit that grows most until then."""
    growth: float = math.nan
    """How much it grows in one step now (the logarithm)."""
    seen: float = math.nan
    """Steps that were looked ahead, or until the learning rate comes to its end."""
    doubt: float = 0.0
    """Standard deviation of the logarithm of `steps` that comes from noise and lag."""
    pace: float = math.inf
    """How fast the loss falls before the drop, as a part of how fast it falls then."""
    reach: float = 1.0
    """How far was looked, as a part of what was to be looked ahead."""

    @property
    def known(self) -> bool:
        """Whether a drop is ahead, and when."""
        return self.state is State.PLATEAU and math.isfinite(self.steps)

    def chance(self, early: float = 0.0) -> float:
        """A score between 0 and 1 for that the loss stands still and a drop comes; no frequency.

        The pace on the probe decides; the drop of all data is slower than that of a part of them.

        Parameters
        ----------
        early : how much too short the time on the probe is (a logarithm).
        """
        if self.state is State.NO_DROP:
            return _UNSEEN * (1 - 0.9 * self.reach)
        if self.state in _CHANCES:
            return _CHANCES[self.state]
        pace = self.pace * math.exp(min(early, _LATEST))
        return 1 / (1 + (pace / STILL) ** _STEEP)


Curve = Float[np.ndarray, " bin"]
Points = Float[np.ndarray, " point"]


def read(
    ahead: Ahead,
    rule: Rule,
    search: Search,
    past: tuple[Curve, Curve],
    standing: float = -math.inf,
) -> Outlook:
    """The next drop of a training that was followed ahead.

    Parameters
    ----------
    ahead : the future as far as it was followed.
    rule : the optimizer.
    search : what decided how far.
    past : steps and losses so far, which tell the level of a plateau that the loss has begun to leave.
    standing : the level of the plateau by an earlier look, whose drop is yet to come.
    """
    start, seen = search.reference, steps_within(rule, float(ahead.steps[-1]))
    level, reach = float(ahead.loss[start]), min(float(ahead.steps[-1]) / search.horizon, 1.0)
    whole = math.isfinite(steps_until(rule, float(ahead.steps[-1])))
    nothing = State.NO_DROP if whole else State.RATE_ENDS
    if level < _FLOOR * float(ahead.loss[0]):
        return Outlook(nothing, before=level, seen=seen, reach=reach)
    curve = _whole(ahead, start, search.elapsed, past)
    coming = _coming(curve, search.elapsed)
    if not coming or coming[0].before < _FLOOR * level:
        if level - float(ahead.loss[-1]) >= LEAST * abs(level):
            return Outlook(State.FALLING, before=level, seen=seen)
        short = whole and ahead.steps[-1] < min(_FAR_ENOUGH * search.elapsed, search.horizon)
        state = State.NOT_FAR if short else nothing
        return Outlook(state, before=level, seen=seen, reach=reach)
    pace = coming[0].pace
    before, after = max(coming[0].before, standing), coming[0].after
    if standing > level:  # the drop that was forecast is under way
        pace = min(pace, _UNDER_WAY)
    elif not coming[0].stands:
        return Outlook(State.FALLING, before=level, after=after, seen=seen, pace=pace)
    ends = search.done or len(coming) > 1 or _slows(ahead, start) or after < _FLOOR * before
    time = curve.crossing(0.5 * (before + after), search.elapsed)
    noise = _noise(past[1]) if len(past[1]) >= FEWEST else 0.0
    if not ends or math.isnan(time):  # how far down it goes is not in sight
        if math.isinf(steps_until(rule, coming[0].end - search.elapsed)):
            return Outlook(State.RATE_ENDS, before=before, seen=seen)
        hidden = level - float(ahead.loss[-1]) < noise  # it may be the noise that settles
        state = State.FALLING if hidden else State.PLATEAU
        return Outlook(state, before=before, seen=seen, pace=math.inf if hidden else pace)
    left = time - search.elapsed
    steps = steps_until(rule, delayed(ahead, rule, left))
    if math.isinf(steps):
        return Outlook(State.RATE_ENDS, before=before, seen=seen)
    unit, growth, times = _grower(ahead, start, left)
    if ahead.noise_share > _NOISY and times < _GROWS:
        return Outlook(State.FALLING, before=level, after=after, seen=seen)
    shaken = _SHAKEN * min(noise / (before - after), 1.0)
    doubt = math.hypot(shaken, _DIVIDED * ahead.noise_share, _lag(rule) / left)
    return Outlook(State.PLATEAU, steps, before, after, unit, growth, seen, doubt, pace)


def _whole(ahead: Ahead, start: int, now: float, past: tuple[Curve, Curve]) -> LossCurve:
    """Past and future in one curve, timed in steps from the first; the future alone where noise hides what
    the past would tell."""
    steps, loss, slope = ahead.steps[start:] + now, ahead.loss[start:], ahead.slope[start:]
    if len(past[0]) < FEWEST or _noise(past[1]) > _HIDES * float(loss[0] - loss[-1]):
        return LossCurve.of(steps, loss, slope)
    time, level = _evened(*past)
    # what noise adds to the loss settles at the first look ahead: it is taken off the past, too
    level = np.maximum(level - (ahead.loss[0] - loss[0]), loss[0])
    old = time < steps[0]
    time, level = np.concatenate([time[old], steps]), np.concatenate([level[old], loss])
    rate = np.minimum(np.gradient(level, time), 0.0)
    rate[int(old.sum()) + 1 :] = slope[1:]
    return LossCurve(time, level, rate)


def _noise(loss: Curve) -> float:
    """Standard deviation of reported losses about the falling curve through them."""
    return float(np.std(loss - falling(loss)))


def _evened(steps: Curve, loss: Curve) -> tuple[Points, Points]:
    """A noisy past as a falling curve of few points."""
    parts = np.array_split(np.arange(len(steps)), min(_POINTS, len(steps)))
    level = falling(loss)
    time, level = (np.array([c[part].mean() for part in parts]) for c in (steps, level))
    return time, level


def _lag(rule: Rule) -> float:
    """Steps by which a ball with momentum is behind; how fast it rolls now is not looked at."""
    return rule.momentum / (1 - rule.momentum) if isinstance(rule, Descent) else 0.0


def _slows(ahead: Ahead, start: int) -> bool:
    """Whether the fall is past its steepest part."""
    return bool(ahead.slope[-1] >= _SLOWER * ahead.slope[start:].min())


def _coming(curve: LossCurve, now: float) -> list[Plateau]:
    """What is before each drop that matters and is still to come half way."""
    ahead = (plateau_before(curve, jump) for jump in find_jumps(curve) if jump.time > now)
    return [one for one in ahead if one.matters]


def delayed(ahead: Ahead, rule: Rule, middle: float) -> float:
    """Steps until a moment of the flow, with what finite steps and momentum take longer.

    What grows is seen in the force, once what still settles has become smaller than it: before, its rate
    is that which shows first.

    Parameters
    ----------
    ahead : the future as far as it was followed.
    rule : the optimizer; the steps of adaptive ones are their own already.
    middle : the moment, in steps by the clock.
    """
    if not isinstance(rule, Descent) or len(ahead.steps) < 3:
        return middle
    last = max(int(np.searchsorted(ahead.steps, middle)), 2)
    steps, force = ahead.steps[: last + 1], np.maximum(ahead.force[: last + 1], 1e-300)
    spans = np.diff(steps)
    rates = np.diff(np.log(force)) / np.maximum(spans * rule.time_per_step, 1e-300)
    lowest = int(np.argmin(force[:-1]))
    shows = lowest + int(np.argmax(force[lowest:] >= _DOUBLED * force[lowest]))
    if shows > lowest:
        rates[:shows] = rates[shows - 1]
    spans = np.minimum(spans, np.maximum(middle - steps[:-1], 0.0))
    return float(np.sum(spans * rule.delay(rates)))


def _grower(ahead: Ahead, start: int, middle: float) -> tuple[int, float, float]:
    """The unit whose length changes most until the drop, how much it grows a step now, and how many times."""
    k = min(int(np.searchsorted(ahead.steps, middle)), len(ahead.steps) - 1)
    gained = ahead.sizes[k] - ahead.sizes[start]
    unit = int(np.argmax(np.where(ahead.hidden, gained, -np.inf)))
    sizes: Float[np.ndarray, " point"] = np.maximum(ahead.sizes[start:, unit], 1e-300)
    j = min(max(int(np.searchsorted(ahead.steps[start:], 0.1 * middle)), 1), len(sizes) - 1)
    span = max(float(ahead.steps[start + j] - ahead.steps[start]), 1e-300)
    return unit, float(np.log(sizes[j] / sizes[0]) / span), float(sizes[k - start] / sizes[0])

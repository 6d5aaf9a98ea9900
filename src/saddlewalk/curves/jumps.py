r"""Plateaus and jumps of a loss curve, found without thresholds in units of time or loss.

The quantity to look at is how fast the loss that can still be lost is being lost,

.. math:: \rho(t) = \frac{-\dot L(t)}{L(t) - L_\infty}.

It is large in a jump, small on a plateau, whatever the height of the step, and constant (not
falling) in an exponential tail. Jumps are the peaks of log rho that stand out by half a decade.
:math:`L_\infty` is the last loss less :math:`-t\,\dot L`, what a tail falling like 1/t would still lose.

Where the loss has its minimum at infinity (`LossCurve.endless`) tails fall like 1/t, and plateaus slope:
there it is :math:`-t\,\dot L`, what is lost while the time grows by a factor of e, which falls in such a
tail.
"""

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlewalk.curves.curve import FEWEST, SIGMAS, Curve, LossCurve
from saddlewalk.curves.peaks import prominent_peaks

_PROMINENCE = 0.5
"""Decades of rho between a jump and the plateaus beside it."""
_LEAST_DROP = 0.01
"""A jump takes at least this part of the loss that is still to be lost before it."""
_RESOLUTION = 1e-4
"""Steps below this part of the whole descent are not looked for."""

_ROUNDING = 1e-6
"""A fall by less than this part of the loss itself is no jump: the curve is flat."""

_SHARE = 0.1
"""A unit takes part in a jump if it changes by this part of the unit that changes most."""
_SMALL = 0.3
"""It turns on if it was this part of its later size before, and off the other way round."""


@dataclass(frozen=True)
class Jump:
    """A step down between two plateaus of a loss curve."""

    time: float
    before: float
    after: float
    index_before: int
    """A point of the curve on the plateau before the jump."""
    index_after: int


def find_jumps(curve: LossCurve) -> list[Jump]:
    """The jumps of a loss curve, each timed where the loss passes the middle of its step.

    Parameters
    ----------
    curve : the loss along time; fewer than `FEWEST` points have no jumps.
    """
    if len(curve.time) < FEWEST or curve.time[-1] == curve.time[0]:
        return []
    rho = np.log10(remaining_rate(curve))
    # low ends: a curve that starts or ends in a fall has a jump there too
    padded = np.concatenate([[rho.min() - 1], rho, [rho.min() - 1]])
    peaks = [peak - 1 for peak in prominent_peaks(padded, _PROMINENCE)]
    rests = _without_weak_steps(curve, rho, _rests(rho, peaks))
    jumps = [jump_between(curve, a, b) for a, b in itertools.pairwise(rests)]
    return [jump for jump in jumps if jump.before - jump.after > _tiny(curve)]


def _without_weak_steps(curve: LossCurve, rho: Curve, rests: list[int]) -> list[int]:
    """Rests between which the loss falls: the weakest step joins the neighbor with the shallower rest between
    them, until none is weak. A curve at the noise of its steps has thousands: they wait in a heap."""
    loss, final, tiny = curve.loss, _final_loss(curve), _tiny(curve)
    before, after = ([-1, *range(len(rests) - 1)], [*range(1, len(rests)), -1])

    def weakness(k: int) -> float:
        """Of the step that begins at a rest: below 1 it is weak."""
        level = float(loss[rests[k]])
        drop = level - float(loss[rests[after[k]]])
        return min(drop / (_LEAST_DROP * max(level - final, tiny)), drop / tiny)

    known = [weakness(k) for k in range(len(rests) - 1)]
    heap = [(drop, k) for k, drop in enumerate(known)]
    heapq.heapify(heap)
    left = len(rests)
    while left > 2:
        drop, k = heapq.heappop(heap)
        if known[k] != drop:
            continue  # it has changed since
        if drop >= 1:
            break
        inner = [m for m in (k, after[k]) if before[m] >= 0 and after[m] >= 0]
        gone = max(inner, key=lambda m: rho[rests[m]])
        first, last = before[gone], after[gone]
        after[first], before[last], known[gone], left = last, first, math.nan, left - 1
        known[first] = weakness(first)
        heapq.heappush(heap, (known[first], first))
    kept, at = [], 0
    while at >= 0:
        kept.append(rests[at])
        at = after[at]
    return kept


def turned_on(
    before: Float[np.ndarray, " unit"], after: Float[np.ndarray, " unit"]
) -> tuple[int, ...]:
    """Units that turn on between two plateaus, by their lengths in function space there.

    Parameters
    ----------
    before, after : length of each unit in function space, on the plateau before and on the one after.
    """
    change = np.abs(after - before)
    on = (change >= _SHARE * change.max()) & (before <= _SMALL * after) & (after > 0)
    return tuple(map(int, np.flatnonzero(on)))


def remaining_rate(curve: LossCurve) -> Curve:
    """rho, floored where it could not matter over the whole length of the curve.

    Parameters
    ----------
    curve : the loss along time.
    """
    fall = np.maximum(-curve.pace, 0.0)
    if curve.endless:
        return fall + _tiny(curve)
    left = np.maximum(curve.loss - _final_loss(curve), 0.0) + _tiny(curve)
    floor = _LEAST_DROP / (curve.time[-1] - curve.time[0])
    return fall / left + floor


def _rests(rho: Curve, peaks: list[int]) -> list[int]:
    """Where the loss rests: at the start, where rho is least between two peaks, at the end."""
    between = [a + int(np.argmin(rho[a : b + 1])) for a, b in itertools.pairwise(peaks)]
    return [0, *between, len(rho) - 1]


def jump_between(curve: LossCurve, a: int, b: int) -> Jump:
    """The step of a curve between two of its points that rest.

    Parameters
    ----------
    curve : the loss along time.
    a, b : indices of the points that rest, before and after the step.
    """
    before, after = float(curve.loss[a]), float(curve.loss[b])
    time = curve.crossing(0.5 * (before + after), float(curve.time[a]))
    if math.isnan(time) and curve.time[b] == curve.time[a]:
        time = float(curve.time[b])  # all of it within the rounding of a time of 1e50
    return Jump(
        time=time,
        before=before,
        after=after,
        index_before=a,
        index_after=b,
    )


def _final_loss(curve: LossCurve) -> float:
    still = max(0.0, -curve.rate[-1] * curve.time[-1])
    return float(max(curve.loss[-1] - still, min(0.0, curve.loss[-1])))


def _tiny(curve: LossCurve) -> float:
    resolved = _RESOLUTION * float(curve.loss[0] - _final_loss(curve))
    return max(resolved, SIGMAS * curve.noise, _ROUNDING * abs(float(curve.loss[0])), 1e-300)

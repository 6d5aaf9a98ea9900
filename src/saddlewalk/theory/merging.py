r"""Steps that cannot be told apart are one stage, with its parts.

A unit that wakes against a gradient g rises logistically at the rate :math:`r = 2|g|`, with T the middle
of its rise; the loss above its next level is :math:`(1 - \sigma(r (t - T)))^2` of its step, and passes
the middle of the step :math:`\log(1 + \sqrt2)` e-folds before T. The loss curve is about the sum of such
steps,

.. math:: L(t) - L_\infty = \sum_k \Delta_k \, \big(1 - \sigma(r_k (t - T_k))\big)^2,

and two of them can be told apart if this sum rests between them, in the sense in which jumps are found in
a simulated curve (`find_jumps`): :math:`\rho = -\dot L / (L - L_\infty)` has a peak for each that stands
out by half a decade.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import LossCurve, Stage
from saddlewalk.curves.curve import falls_to
from saddlewalk.curves.jumps import remaining_rate
from saddlewalk.curves.peaks import prominent_peaks

HALF_WAY = math.log(1 + math.sqrt(2))
"""The loss passes the middle of a step so many e-folds before the unit passes the middle of its rise."""
_PROMINENCE = 0.5
"""Decades of rho between a jump and the rest beside it, as in `find_jumps`."""
_AROUND = np.linspace(-12.0, 12.0, 25)
"""Where the curve is looked at around each step, in e-folds."""
_FAR = 300.0
"""E-folds after which a step is over."""
_AT_ONCE = 200_000
"""Numbers held at once."""

Parts = Float[np.ndarray, " part"]
Moments = Float[np.ndarray, " time"]


def merged(stages: Sequence[Stage], rates: Sequence[float], initial: float) -> tuple[Stage, ...]:
    """The stages that can be told apart; those that cannot are the parts of one.

    Parameters
    ----------
    stages : one after the other, each timed where the loss passes its middle.
    rates : growth rate of what wakes in each.
    initial : loss before the first.
    """
    if len(stages) < 2:
        return tuple(stages)
    times, growth, levels = _times(stages), np.array(rates), _levels(stages, initial)
    drops = -np.diff(levels)
    return _joined_between(
        stages,
        rests(times, growth, drops),
        initial,
        lambda of: _half_time(times[of], growth[of], drops[of]),
    )


def merged_on(stages: Sequence[Stage], curve: LossCurve, initial: float) -> tuple[Stage, ...]:
    """The same where the loss curve is known: it says where it rests.

    Parameters
    ----------
    stages : one after the other, each timed where the loss passes its middle.
    curve : the loss along time.
    initial : loss before the first.
    """
    if len(stages) < 2:
        return tuple(stages)
    levels = _levels(stages, initial)
    return _joined_between(
        stages,
        _between_peaks(curve.time, np.log10(remaining_rate(curve))),
        initial,
        lambda of: curve.crossing(0.5 * float(levels[of.start] + levels[of.stop])),
    )


def rests(times: Parts, rates: Parts, drops: Parts) -> list[float]:
    """When the sum of these steps rests between two jumps.

    Parameters
    ----------
    times : when the loss passes the middle of each step.
    rates : growth rate of what wakes in each.
    drops : how much of the loss each takes.
    """
    grid = np.unique(np.maximum(times[:, None] + _AROUND / rates[:, None], 0.0))
    blocks = np.array_split(grid, 1 + len(grid) * len(times) // _AT_ONCE)
    rho = np.concatenate([_remaining_rate(block, times, rates, drops) for block in blocks])
    return _between_peaks(grid, np.log10(rho + np.finfo(float).tiny))


def _remaining_rate(now: Moments, times: Parts, rates: Parts, drops: Parts) -> Moments:
    """rho of the sum of steps."""
    away = _missing(rates[:, None] * (now - times[:, None]))
    square = away**2
    fall = (2 * drops * rates) @ (square * (1 - away))
    return fall / np.maximum(drops @ square, np.finfo(float).tiny)


def _between_peaks(time: Moments, rho: Moments) -> list[float]:
    """When rho is least between two of its peaks."""
    # low ends: the first step may have begun at once, and the last never ends
    padded = np.concatenate([[rho.min() - 1], rho, [rho.min() - 1]])
    peaks = [peak - 1 for peak in prominent_peaks(padded, _PROMINENCE)]
    return [float(time[a + np.argmin(rho[a : b + 1])]) for a, b in itertools.pairwise(peaks)]


def _times(stages: Sequence[Stage]) -> Parts:
    return np.array([stage.time for stage in stages])


def _levels(stages: Sequence[Stage], initial: float) -> Parts:
    """The losses before, between and after stages."""
    return np.array([initial, *(stage.loss for stage in stages)])


def _missing(efolds: Any) -> Any:
    """Part of its rest that a unit has yet to reach, so many e-folds after the loss passed its middle."""
    return 1 / (1 + np.exp(np.minimum(efolds - HALF_WAY, _FAR)))


def _joined_between(
    stages: Sequence[Stage], ends: list[float], initial: float, time_of: Callable[[slice], float]
) -> tuple[Stage, ...]:
    """The stages between two rests each as one, timed by a function of their places."""
    group, drops = np.searchsorted(ends, _times(stages)), -np.diff(_levels(stages, initial))
    joined: list[Stage] = []
    for one in np.unique(group):
        places = np.flatnonzero(group == one)
        of = slice(int(places[0]), int(places[-1]) + 1)
        parts = tuple(stages[of])
        joined.append(parts[0] if len(parts) == 1 else _joined(parts, drops[of], time_of(of)))
    return tuple(joined)


def _joined(parts: tuple[Stage, ...], drops: Parts, time: float) -> Stage:
    """One stage, named after the largest of its parts."""
    return replace(
        parts[int(np.argmax(drops))],
        time=time,
        loss=parts[-1].loss,
        units=tuple(dict.fromkeys(unit for part in parts for unit in part.units)),
        dormant=tuple(dict.fromkeys(unit for part in parts for unit in part.dormant)),
        parts=parts,
    )


def _half_time(times: Parts, rates: Parts, drops: Parts) -> float:
    """When half of the drops together has been lost: between the middles of two steps."""
    half = 0.5 * float(drops.sum())

    def left(now: Any) -> Any:
        return _missing(rates * (now - times)) ** 2 @ drops

    after = int(np.argmax(left(times[:, None]) <= half))
    if after == 0:
        return float(times[0])
    first, wait = float(times[after - 1]), float(times[after] - times[after - 1])
    return first + wait * falls_to(lambda share: float(left(first + share * wait)), half)

"""Stages read off a loss curve where its levels are expected: when it jumps, and where it really rests.

A curve jumps where the loss passes the middle between two levels, and rests where it is flattest between two
jumps. So the expected levels say where to look, and the curve says what is there.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from saddlewalk.curves.curve import LossCurve


class Reading(NamedTuple):
    """What a curve does between the levels that were expected."""

    times: list[float]
    """When it jumps; jumps that it does not reach are left out."""
    rests: list[int]
    """The flattest point after each jump."""
    levels: list[float]
    """The loss there; NaN where the curve slides into the next jump without a plateau."""


def read_stages(curve: LossCurve, levels: Sequence[float]) -> Reading:
    """The jumps of a curve between these levels, of which the first is its start.

    Jumps are timed with the levels at which the curve really rests; with the expected one where it does not.

    Parameters
    ----------
    curve : the loss along time.
    levels : losses of the plateaus that are expected, falling; the first is that of the start.
    """
    guess = crossings(curve, levels)
    reached = next((k for k, time in enumerate(guess) if math.isnan(time)), len(guess))
    ends = [*guess[1:reached], float(curve.time[-1])][:reached]
    windows = list(zip(guess[:reached], ends, strict=True))
    middles = [0.5 * (a + b) for a, b in itertools.pairwise(levels)] + [-math.inf]
    rests = [curve.flattest(*window, *middles[k : k + 2]) for k, window in enumerate(windows)]
    seen = [
        float(curve.loss[k]) if _is_plateau(curve, k, window) else math.nan
        for k, window in zip(rests, windows, strict=True)
    ]
    filled = [e if math.isnan(s) else s for s, e in zip(seen, levels[1:], strict=False)]
    return Reading(crossings(curve, [float(curve.loss[0]), *filled]), rests, seen)


def crossings(curve: LossCurve, levels: Sequence[float]) -> list[float]:
    """When the curve passes the middle between each two levels, one after the other; NaN if it does not.

    Parameters
    ----------
    curve : the loss along time.
    levels : losses of the plateaus, from the start on.
    """
    times, now = [], -math.inf
    for before, after in itertools.pairwise(levels):
        now = curve.crossing(0.5 * (before + after), now)
        times.append(now)
    return times


def _is_plateau(curve: LossCurve, point: int, window: tuple[float, float]) -> bool:
    """Whether the flattest point of a window lies inside it, or at the end of the whole curve."""
    first, last = (int(np.searchsorted(curve.time, t)) for t in window)
    return first < point < min(last, len(curve.time)) - 1 or point >= len(curve.time) - 2

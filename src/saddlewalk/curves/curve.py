"""A loss curve: times, losses and slopes, predicted or simulated, and where it passes a level."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError

FEWEST = 3
"""Points that a curve without its slope must have."""
_ROUGH = 1e-7
"""Noise below this part of the curve's range is rounding."""
_BLUR = 4.0
"""Points over which a noisy curve is smoothed."""
_ENOUGH = 50
SIGMAS = 8.0
"""On a noisy curve a step must stand out by this many standard deviations."""
_QUANTILE = 2.326
"""Standard deviations below which a normal variable is in 99 of 100 cases."""
GRAIN = 0.01
"""Parts of the descent, and of the time, over which a chattering curve is evened out."""

_BESIDE_TIMES = 2.0
"""Slopes are those of something else if they add up to more than so many times the fall of the loss."""
_BESIDE = 1e-9
"""Part of the whole descent below which that is not asked."""
_AROUND = 3
"""Points on both sides over which slopes are added up: one step may be tiny."""

Curve = Float[np.ndarray, " time"]


@dataclass(frozen=True)
class LossCurve:
    """A loss curve with its slope, and where it is known its curvature: cubic or quintic between."""

    time: Curve
    loss: Curve
    rate: Curve
    curvature: Curve | None = None
    noise: float = 0.0
    """Standard deviation of the noise that was smoothed away; steps within it are not looked for."""
    endless: bool = False
    """The loss has its minimum at infinity, which it approaches like 1/time or more slowly: it rests where it
    is flat along the logarithm of time."""

    @classmethod
    def of(cls, time: Any, loss: Any, rate: Any = None, curvature: Any = None) -> "LossCurve":
        """From arrays. Without a slope it is taken from differences, after smoothing noise away:
        a falling curve (isotonic regression), its noise measured on second differences and rises."""
        t, values = np.asarray(time, dtype=float), np.asarray(loss, dtype=float)
        if t.ndim != 1 or t.shape != values.shape or len(t) == 0:
            raise InputError("A loss curve needs times and as many losses.")
        if not (np.diff(t) >= 0).all() or not np.isfinite(values).all():
            raise InputError("Times must increase and losses must be finite.")
        if rate is not None:
            # times may repeat: a whole jump can happen within the rounding of a time of 1e50
            bend = None if curvature is None else np.asarray(curvature, dtype=float)
            return cls(t, values, np.asarray(rate, dtype=float), bend)
        if len(t) < FEWEST:
            raise InputError(f"Without its slope a loss curve needs at least {FEWEST} points.")
        keep = np.concatenate([[True], np.diff(t) > 0])
        t, values = t[keep], values[keep]
        noise = _noise(values)
        if noise > _ROUGH * np.ptp(values):
            from scipy.ndimage import gaussian_filter1d
            from scipy.optimize import isotonic_regression

            values = gaussian_filter1d(isotonic_regression(values, increasing=False).x, _BLUR)
            # a falling curve through noise is a stair: its slope is that of chords beyond the noise
            return cls(t, values, _chords(t, values, SIGMAS * noise, math.inf), noise=noise)
        return cls(t, values, np.gradient(values, t))

    def evened(self) -> "LossCurve":
        """With slopes of chords, for a flow that chatters along kinks: its velocity is not where it
        goes. A chord ends where the loss or the time has changed by a grain."""
        loss = GRAIN * float(self.loss[0] - self.loss.min())
        rate = _chords(self.time, self.loss, loss, GRAIN)
        return LossCurve(self.time, self.loss, rate, noise=self.noise, endless=self.endless)

    def integrated(self) -> "LossCurve":
        """With slopes of chords where squared gradients do not add up to the fall of the loss. Stiff steps
        end a little beside the valley that they follow: its walls are steep, and the loss does not know."""
        rows = np.arange(len(self.time))
        first, last = np.maximum(rows - _AROUND, 0), np.minimum(rows + _AROUND, len(rows) - 1)
        steps = -0.5 * (self.rate[1:] + self.rate[:-1]) * np.diff(self.time)
        summed = np.concatenate([[0.0], np.cumsum(steps)])
        said, fall = summed[last] - summed[first], self.loss[first] - self.loss[last]
        apart = _BESIDE * float(self.loss[0] - self.loss.min())
        off = (said > apart) & (said > _BESIDE_TIMES * np.maximum(fall, 0.0))
        lasted = np.where(off, self.time[last] - self.time[first], 1.0)
        return replace(self, rate=np.where(off, -fall / lasted, self.rate))

    @property
    def pace(self) -> Curve:
        """How fast the loss falls, by the clock on which it comes to rest: time, or its logarithm."""
        return self.rate * self.time if self.endless else self.rate

    def part(self, first: int, last: int) -> "LossCurve":
        """The curve from one of its points to another, both included."""
        rows = slice(first, last + 1)
        bend = None if self.curvature is None else self.curvature[rows]
        return LossCurve(
            self.time[rows], self.loss[rows], self.rate[rows], bend, self.noise, self.endless
        )

    def crossing(self, level: float, start: float = -math.inf) -> float:
        """First time after `start` at which the loss falls to `level`; NaN if it never does."""
        below = np.flatnonzero((self.loss <= level) & (self.time > start))
        if len(below) == 0:
            return math.nan
        k = int(below[0])
        if k == 0 or self.loss[k - 1] <= level:
            return float(self.time[k])
        part = falls_to(self._between(k - 1), level)
        return float(self.time[k - 1] + part * (self.time[k] - self.time[k - 1]))

    def _between(self, k: int) -> Callable[[float], float]:
        """The Hermite polynomial of the fraction of step k."""
        start, end = self.time[k : k + 2].tolist()
        step = end - start
        a, b = self.loss[k : k + 2].tolist()
        p, q = (step * slope for slope in self.rate[k : k + 2].tolist())
        if self.curvature is None:
            # slopes no steeper than three times the chord: the cubic stays monotone
            p, q = (min(0.0, max(slope, 3 * (b - a))) for slope in (p, q))
            c, d = p + q + 2 * (a - b), -2 * p - q - 3 * (a - b)
            return lambda s: a + s * (p + s * (d + s * c))
        c, d = (0.5 * step**2 * bend for bend in self.curvature[k : k + 2].tolist())
        third = 10 * (b - a) - 6 * p - 4 * q - 3 * c + d
        fourth = -15 * (b - a) + 8 * p + 7 * q + 3 * c - 2 * d
        fifth = 6 * (b - a) - 3 * (p + q) - c + d
        return lambda s: a + s * (p + s * (c + s * (third + s * (fourth + s * fifth))))

    def flattest(
        self, start: float, end: float, high: float = math.inf, low: float = -math.inf
    ) -> int:
        """Index of the point between two times, and two losses, where the loss changes least.

        Times alone do not tell: at 1e30 a whole jump happens within their rounding.
        """
        between = (self.time >= start) & (self.time <= end)
        inside = np.flatnonzero(between & (self.loss <= high) & (self.loss >= low))
        if len(inside) == 0:
            return int(np.argmin(np.abs(self.time - 0.5 * (start + end))))
        return int(inside[np.argmin(np.abs(self.pace[inside]))])


def _chords(time: Curve, loss: Curve, grain: float, part: float) -> Curve:
    """Slopes of chords: from each point to both sides until the loss has changed by a grain, or the time by a
    part of itself."""
    falling = -np.minimum.accumulate(loss)
    rows = np.arange(len(time))
    span = part * time if math.isfinite(part) else np.full(len(time), math.inf)
    first = np.maximum(
        np.searchsorted(falling, falling - grain), np.searchsorted(time, time - span)
    )
    last = np.minimum(
        np.searchsorted(falling, falling + grain, "right"),
        np.searchsorted(time, time + span, "right"),
    )
    a, b = np.clip(first - 1, 0, rows), np.clip(last, rows, rows[-1])
    lasted = time[b] - time[a]
    return (loss[b] - loss[a]) / np.where(lasted > 0, lasted, 1.0)


def falls_to(function: Callable[[float], float], level: float) -> float:
    """Where a function falls to a level between 0 and 1: the Illinois method.

    Parameters
    ----------
    function : above the level at 0, and below it at 1.
    level : the level.
    """
    low, high, above, below = 0.0, 1.0, function(0.0) - level, function(1.0) - level
    for _ in range(60):
        if below == 0 or high - low <= 1e-14 or above <= 0:
            break
        middle = high - below * (high - low) / (below - above)
        middle = middle if low < middle < high else 0.5 * (low + high)
        value = function(middle) - level
        if value > 0:
            low, above, below = middle, value, 0.5 * below
        else:
            high, below, above = middle, value, 0.5 * above
    return high


def _noise(values: Curve) -> float:
    """Standard deviation of noise: second differences of a smooth curve vanish, if the noise of each point is
    its own; noise that lasts, as that of minibatches in a network, makes a falling curve rise."""
    if len(values) < _ENOUGH:
        return 0.0
    from scipy.ndimage import gaussian_filter1d

    bends = np.diff(values, 2)
    independent = 1.4826 * np.median(np.abs(bends - np.median(bends))) / math.sqrt(6.0)
    blurred = gaussian_filter1d(values, _BLUR)
    rises = blurred - np.minimum.accumulate(blurred)
    return float(max(independent, np.quantile(rises, 0.99) / _QUANTILE))

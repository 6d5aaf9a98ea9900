r"""Plateaus and jumps of a loss curve, found without thresholds in units of time or loss.

The quantity to look at is how fast the loss that can still be lost is being lost,

.. math:: \rho(t) = \frac{-\dot L(t)}{L(t) - L_\infty}.

It is large in a jump, small on a plateau, whatever the height of the step, and constant (not
falling) in an exponential tail. Jumps are the peaks of log rho that stand out by half a decade.
:math:`L_\infty` is the last loss less :math:`-t\,\dot L`, what a tail falling like 1/t would still lose.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import isotonic_regression
from scipy.signal import find_peaks

from saddlewalk.errors import InputError

_PROMINENCE = 0.5
"""Decades of rho between a jump and the plateaus beside it."""
_LEAST_DROP = 0.01
"""A jump takes at least this part of the loss that is still to be lost before it."""
_RESOLUTION = 1e-4
"""Steps below this part of the whole descent are not looked for."""

_ROUNDING = 1e-6
"""A fall by less than this part of the loss itself is no jump: the curve is flat."""
_FEWEST = 3
_SIGMAS = 8.0
"""On a noisy curve a jump must stand out by this many standard deviations."""
_ROUGH = 1e-7
"""Noise below this part of the curve's range is rounding."""
_BLUR = 4.0
"""Points over which a noisy curve is smoothed."""
_ENOUGH = 50

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

    @classmethod
    def of(cls, time: Any, loss: Any, rate: Any = None, curvature: Any = None) -> "LossCurve":
        """From arrays. Without a slope it is taken from differences, after smoothing noise away:
        a falling curve (isotonic regression), its noise measured on second differences."""
        t, values = np.asarray(time, dtype=float), np.asarray(loss, dtype=float)
        if t.ndim != 1 or t.shape != values.shape or len(t) == 0:
            raise InputError("A loss curve needs times and as many losses.")
        if not (np.diff(t) >= 0).all() or not np.isfinite(values).all():
            raise InputError("Times must increase and losses must be finite.")
        if rate is not None:
            # times may repeat: a whole jump can happen within the rounding of a time of 1e50
            bend = None if curvature is None else np.asarray(curvature, dtype=float)
            return cls(t, values, np.asarray(rate, dtype=float), bend)
        if len(t) < _FEWEST:
            raise InputError(f"Without its slope a loss curve needs at least {_FEWEST} points.")
        keep = np.concatenate([[True], np.diff(t) > 0])
        t, values = t[keep], values[keep]
        noise = _noise(values)
        if noise > _ROUGH * np.ptp(values):
            values = gaussian_filter1d(isotonic_regression(values, increasing=False).x, _BLUR)
        else:
            noise = 0.0
        return cls(t, values, np.gradient(values, t), noise=noise)

    def crossing(self, level: float, start: float = -math.inf) -> float:
        """First time after `start` at which the loss falls to `level`; NaN if it never does."""
        below = np.flatnonzero((self.loss <= level) & (self.time > start))
        if len(below) == 0:
            return math.nan
        k = int(below[0])
        if k == 0 or self.loss[k - 1] <= level:
            return float(self.time[k])
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._between(k - 1, middle) > level else (low, middle)
        return float(self.time[k - 1] + high * (self.time[k] - self.time[k - 1]))

    def _between(self, k: int, s: float) -> float:
        """The Hermite polynomial at the fraction s of step k."""
        step = self.time[k + 1] - self.time[k]
        a, b = self.loss[k], self.loss[k + 1]
        p, q = step * self.rate[k], step * self.rate[k + 1]
        if self.curvature is None:
            # slopes no steeper than three times the chord: the cubic stays monotone
            p, q = (min(0.0, max(slope, 3 * (b - a))) for slope in (p, q))
            c, d = p + q + 2 * (a - b), -2 * p - q - 3 * (a - b)
            return float(a + s * (p + s * (d + s * c)))
        c, d = 0.5 * step**2 * self.curvature[k], 0.5 * step**2 * self.curvature[k + 1]
        third = 10 * (b - a) - 6 * p - 4 * q - 3 * c + d
        fourth = -15 * (b - a) + 8 * p + 7 * q + 3 * c - 2 * d
        fifth = 6 * (b - a) - 3 * (p + q) - c + d
        return float(a + s * (p + s * (c + s * (third + s * (fourth + s * fifth)))))

    def flattest(self, start: float, end: float) -> int:
        """Index of the point between two times where the loss changes least."""
        inside = np.flatnonzero((self.time >= start) & (self.time <= end))
        if len(inside) == 0:
            return int(np.argmin(np.abs(self.time - 0.5 * (start + end))))
        return int(inside[np.argmin(np.abs(self.rate[inside]))])


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
    """The jumps of a loss curve, each timed where the loss passes the middle of its step."""
    if len(curve.time) < _FEWEST or curve.time[-1] == curve.time[0]:
        return []
    rho = np.log10(remaining_rate(curve))
    # low ends: a curve that starts or ends in a fall has a jump there too
    padded = np.concatenate([[rho.min() - 1], rho, [rho.min() - 1]])
    peaks = find_peaks(padded, prominence=_PROMINENCE)[0] - 1
    rests = _rests(rho, [int(peak) for peak in peaks])
    while len(rests) > 2:
        levels = curve.loss[rests]
        remaining = np.maximum(levels[:-1] - _final_loss(curve), _tiny(curve))
        drops = np.minimum(
            (levels[:-1] - levels[1:]) / (_LEAST_DROP * remaining),
            (levels[:-1] - levels[1:]) / _tiny(curve),
        )
        weakest = int(np.argmin(drops))
        if drops[weakest] >= 1:
            break
        # the weakest step joins the neighbour with the shallower rest between them
        left, right = weakest, weakest + 1
        inner = [i for i in (left, right) if 0 < i < len(rests) - 1]
        rests.pop(max(inner, key=lambda i: rho[rests[i]]))
    jumps = [_jump(curve, a, b) for a, b in itertools.pairwise(rests)]
    return [jump for jump in jumps if jump.before - jump.after > _tiny(curve)]


def remaining_rate(curve: LossCurve) -> Curve:
    """rho, floored where it could not matter over the whole length of the curve."""
    fall = np.maximum(-curve.rate, 0.0)
    left = np.maximum(curve.loss - _final_loss(curve), 0.0) + _tiny(curve)
    floor = _LEAST_DROP / (curve.time[-1] - curve.time[0])
    return fall / left + floor


def _rests(rho: Curve, peaks: list[int]) -> list[int]:
    """Where the loss rests: at the start, where rho is least between two peaks, at the end."""
    between = [a + int(np.argmin(rho[a : b + 1])) for a, b in itertools.pairwise(peaks)]
    return [0, *between, len(rho) - 1]


def _jump(curve: LossCurve, a: int, b: int) -> Jump:
    before, after = float(curve.loss[a]), float(curve.loss[b])
    return Jump(
        time=curve.crossing(0.5 * (before + after), float(curve.time[a])),
        before=before,
        after=after,
        index_before=a,
        index_after=b,
    )


def _noise(values: Curve) -> float:
    """Standard deviation of independent noise: second differences of a smooth curve vanish."""
    if len(values) < _ENOUGH:
        return 0.0
    bends = np.diff(values, 2)
    return float(1.4826 * np.median(np.abs(bends - np.median(bends))) / math.sqrt(6.0))


def _final_loss(curve: LossCurve) -> float:
    still = max(0.0, -curve.rate[-1] * curve.time[-1])
    return float(max(curve.loss[-1] - still, min(0.0, curve.loss[-1])))


def _tiny(curve: LossCurve) -> float:
    resolved = _RESOLUTION * float(curve.loss[0] - _final_loss(curve))
    return max(resolved, _SIGMAS * curve.noise, _ROUNDING * abs(float(curve.loss[0])), 1e-300)

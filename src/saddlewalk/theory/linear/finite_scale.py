r"""The loss curve at finite scale, from the actual start.

Where no two modes meet, the whole curve is one formula, the matrix logistic function. Where they do,
plateaus are closed, and jumps go by a few steps, in each of which one layer follows its flow
exactly while the other is frozen.
"""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import LossCurve
from saddlewalk.curves.peaks import prominent_peaks
from saddlewalk.curves.reading import crossings, read_stages
from saddlewalk.theory.linear.limit import Event, events_of
from saddlewalk.theory.linear.maps import (
    Covariances,
    Descent,
    Layers,
    Matrix,
    Vector,
    fastest_rate,
    grow,
    loss_slope,
    square,
)

STEP = 0.3
"""Length of a step within a jump, in e-folds of the fastest growth."""
_REACTION = 3e-3
"""A dormant direction turns active when it would change the gradient by this part."""
_REST = 1e-6
"""Active directions rest when this part of the loss is left above the minimum of their rank."""
_FAR = 14.0
"""E-folds before its turn from which a dormant direction must be kept apart from faster ones."""
_SETTLED = 1e-4
"""A curve ends when this part of its last step down is left."""
_MOST_STEPS = 20_000
_AROUND = np.linspace(-6.0, 8.0, 12)
"""Where a jump is looked at, in e-folds of the strength of its mode."""
_AT_ONCE = 1e-3
"""The start of a curve, in e-folds."""
_DEEP = 18.0
"""Saturation beyond this many e-folds makes no difference."""
_UNSEEN = -7.0
"""Modes this many e-folds before their saturation make no difference."""
_FINE = 16
"""Points of a curve within one step."""
_PROMINENCE = 1.0
"""A curve rests where it is flatter than on both sides by this many e-folds."""
_TINY = float(np.finfo(float).tiny)
_APART = 0.05
"""Levels differ if they do so by this part of the difference between those beside them."""


class UncorrelatedModes(NamedTuple):
    """Modes that never meet, and where they start in the hidden space."""

    sigma: Vector
    variances: Vector
    """Variance of the input of each mode."""
    seeds: Float[np.ndarray, "modes width"]
    """Amplitudes at the start, in units of their size at rest."""

    @classmethod
    def of(cls, covariances: Covariances, layers: Layers) -> "UncorrelatedModes":
        """The modes of Sigma_yx, where they are uncorrelated."""
        left, sigma, right = covariances.singular
        variances = covariances.variances @ right**2
        amplitudes = (layers.w @ right + layers.a.T @ left).T / math.sqrt(2)
        return cls(sigma, variances, amplitudes / np.sqrt(2 * sigma / variances)[:, None])

    @property
    def rest(self) -> Vector:
        """Strength of each mode when it is learned: sigma / lambda."""
        return self.sigma / self.variances

    def only(self, which: np.ndarray) -> "UncorrelatedModes":
        """Some of the modes."""
        return UncorrelatedModes(*(part[which] for part in self))


def logistic_map(modes: UncorrelatedModes, time: float) -> Float[np.ndarray, "modes modes"]:
    r"""The matrix logistic function: :math:`U^\top \beta(t)\, V` of modes that never meet.

    With seeds :math:`y_j`, rests :math:`s_j^*` and :math:`Y_j = y_j \sqrt{e^{2\sigma_j t} - 1}`,

    .. math:: U^\top \beta V = D\, \big(1 - (1 + Y Y^\top)^{-1}\big)\, D, \qquad
        D_j = \sqrt{s_j^* / (1 - e^{-2\sigma_j t})}.

    For one mode this is the logistic function of Saxe et al.; for Sigma_xx = 1 it solves the Riccati
    equation of balanced layers. A saturated mode projects its hidden direction out of all others.
    For unequal variances it is exact in the limit and an excellent approximation before.

    Parameters
    ----------
    modes : modes that never meet, and where they start.
    time : t, above 0.
    """
    size = np.linalg.norm(modes.seeds, axis=1)
    growth = 2 * modes.sigma * time
    saturation = -np.expm1(-growth)
    grown = np.exp(np.minimum(np.log(size) + 0.5 * (growth + np.log(saturation)), _DEEP))
    rows = modes.seeds * (grown / size)[:, None]
    # scaled to a diagonal of ones: modes have grown by very different factors
    scale = np.sqrt(1 + grown**2)
    one = np.eye(len(size))
    inverse = np.linalg.inv((one + rows @ rows.T) / np.outer(scale, scale))
    root = np.sqrt(modes.rest / saturation)
    return np.outer(root, root) * (one - inverse / np.outer(scale, scale))


def turns(modes: UncorrelatedModes) -> tuple[list[int], list[float]]:
    """Order and times in which modes come to rest, each taking a direction from the others.

    Parameters
    ----------
    modes : modes that never meet, and where they start.
    """
    left, waiting = modes.seeds, np.ones(len(modes.sigma), dtype=bool)
    order: list[int] = []
    times: list[float] = []
    for _ in range(min(left.shape)):
        size = np.where(waiting, np.linalg.norm(left, axis=1), 1.0)
        # a mode that rests below its start has nothing to grow, and takes no direction
        wait = np.where(waiting & (size < 1), -np.log(size) / modes.sigma, np.inf)
        first = int(np.argmin(wait))
        if not np.isfinite(wait[first]):
            break
        direction = left[first] / size[first]
        left = left - np.outer(left @ direction, direction)
        waiting[first] = False
        order.append(first)
        times.append(float(wait[first]))
    return order, times


def logistic_curve(
    covariances: Covariances, layers: Layers, end: float = math.inf
) -> tuple[LossCurve, list[Event]]:
    """The loss of modes that never meet, and the order in which this start learns them.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    layers : the weights at the start.
    end : time at which the curve ends in any case.
    """
    modes = UncorrelatedModes.of(covariances, layers)
    order, times = turns(modes)
    explained = modes.sigma * modes.rest
    when = np.full(len(explained), np.inf)
    when[order] = times
    events = events_of(when, explained)
    unlearned = float(np.delete(explained, order).sum())
    modes = modes.only(np.array(order))
    grid = np.array(times)[:, None] + _AROUND / (2 * modes.sigma[:, None])
    first = _AT_ONCE / modes.sigma.max()
    grid = np.unique(np.clip([first, *grid.ravel()], first, max(end, 2 * first)))
    loss, rate = np.array([_logistic_loss(modes, time) for time in grid.tolist()]).T
    curve = LossCurve(grid, covariances.floor + 0.5 * unlearned + loss, rate)
    return curve, [events[k] for k in order]


def _logistic_loss(modes: UncorrelatedModes, time: float) -> tuple[float, float]:
    """Loss and slope; modes that have hardly begun to grow are left out."""
    seen = np.log(np.linalg.norm(modes.seeds, axis=1)) + modes.sigma * time > _UNSEEN
    unseen = 0.5 * float((modes.sigma * modes.rest)[~seen].sum())
    modes = modes.only(seen)
    strength = logistic_map(modes, time)
    gap = np.diag(modes.rest) - strength
    gradient = gap * modes.variances
    # layers are balanced: A A^T and W^T W are the map itself
    slope = np.sum(gradient * (strength @ gradient)) + np.sum(gradient.T * (strength @ gradient.T))
    return unseen + 0.5 * float(np.sum(gap**2 * modes.variances)), -float(slope)


def transition_curve(
    covariances: Covariances, layers: Layers, end: float = math.inf, step: float = STEP
) -> LossCurve:
    """The loss where modes meet: closed plateaus, and steps layer by layer within jumps.

    Dormant directions of the hidden space grow in the gradient that the active ones leave; the
    largest turns active when its own effect on the gradient begins to show.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    layers : the weights at the start.
    end : time after which no further point is made.
    step : length of a step within a jump, in e-folds; times err by its square.
    """
    points = itertools.islice(_points_of_curve(covariances, layers, end, step), _MOST_STEPS)
    return LossCurve(*np.array(list(points)).T)


def _points_of_curve(
    covariances: Covariances, layers: Layers, end: float, within: float
) -> Iterator[tuple[float, float, float]]:
    """Time, loss and slope, until the last mode that has a unit is learned."""
    explained = covariances.explained[1]
    levels = 0.5 * np.append(np.cumsum(explained[::-1])[::-1], 0.0)
    last = min(len(explained), len(layers.w))
    dormant = grow(layers, covariances.cross, 0.0)
    active, time = dormant.cut(0, 0), 0.0
    descent, gap = Descent(covariances), covariances.target
    while True:
        gradient = gap * covariances.root
        fastest, few = fastest_rate(gradient), len(active.w)
        active, dormant = _recruit(covariances, active, dormant, gradient, fastest)
        if len(active.w) > few:
            gap = covariances.gap(active)
            gradient = gap * covariances.root
        loss = 0.5 * square(gap)
        yield time, covariances.floor + loss, loss_slope(active, gradient)
        if time > end or loss - levels[last] < _SETTLED * 0.5 * explained[last - 1]:
            return
        # nothing grows faster than the gradient's top mode: so long does a plateau last at least
        quiet = 0.5 * math.log(_REACTION / _reaction(covariances, dormant, fastest))
        resting = loss - levels[min(len(active.w), last)] < _REST * loss and len(dormant.w) > 0
        efolds = max(within, quiet) if resting else within
        step = efolds / fastest
        active = descent.step(active, step)
        gap = covariances.gap(active)
        after = gap * covariances.root
        # over a whole plateau the active directions relax at once
        frozen = after if efolds > 1 else 0.5 * (gradient + after)
        dormant = (grow if efolds > 1 or quiet > _FAR else _drift)(dormant, frozen, step)
        time += step


def _recruit(
    covariances: Covariances, active: Layers, dormant: Layers, gradient: Matrix, fastest: float
) -> tuple[Layers, Layers]:
    """Move the largest dormant directions to the active ones, if they act on the gradient."""
    if _reaction(covariances, dormant, fastest) < _REACTION:
        return active, dormant
    left, _, right = np.linalg.svd(gradient, full_matrices=False)
    modes = right @ dormant.w.T + left.T @ dormant.a
    strongest_first = np.argsort(-np.linalg.norm(modes, axis=1))
    dormant = dormant.turned(np.linalg.qr(modes[strongest_first].T)[0].T)
    while _reaction(covariances, first := dormant.cut(0, 1), fastest) > 0.5 * _REACTION:
        active, dormant = active.joined(first), dormant.cut(1)
    return active, dormant


def _reaction(covariances: Covariances, layers: Layers, fastest: float) -> float:
    """Bound of |A W Sigma_xx| / |G|: the part of the gradient that these weights would change."""
    effect = math.sqrt(square(layers.a)) * math.sqrt(square(layers.w * covariances.variances))
    return max(effect / fastest, _TINY)


def _drift(layers: Layers, gradient: Matrix, time: float) -> Layers:
    """`grow` by its Taylor series, for less than one e-fold."""
    if not len(layers.w):
        return layers
    (w, a), push = layers, time * gradient
    grown_w, grown_a = layers
    for k in range(1, 7):
        w, a = a.T @ push / k, push @ w.T / k
        grown_w, grown_a = grown_w + w, grown_a + a
    return Layers(grown_w, grown_a)


def read_rests(curve: LossCurve, levels: list[float]) -> tuple[list[float], list[float]]:
    """Times of the jumps between these levels, and the levels where a fine curve really rests.

    A jump may lead to another saddle than expected: where there is no rest in the right place, one that is
    well apart from those of the neighbors is taken. The last level is approached for ever, and is known.

    Parameters
    ----------
    curve : the loss along time.
    levels : losses of the plateaus that are expected, falling; the first is that of the start.
    """
    seen = read_stages(curve, levels).levels
    rests = [levels[0], *seen[: len(levels) - 2], levels[-1]]
    for k in (k for k, rest in enumerate(rests) if math.isnan(rest)):
        rests[k] = _rest_elsewhere(curve, rests, k, levels[k])
    return crossings(curve, rests), rests


def _rest_elsewhere(curve: LossCurve, rests: list[float], k: int, expected: float) -> float:
    """The flattest place of a curve between the rests before and after the one that is missing."""
    steepness = np.log(np.maximum(-curve.rate, np.finfo(float).tiny))
    high = next(rest for rest in rests[:k][::-1] if not math.isnan(rest))
    low = next(rest for rest in rests[k + 1 :] if not math.isnan(rest))
    margin = _APART * (high - low)
    flat = prominent_peaks(-steepness, _PROMINENCE)
    apart = [place for place in flat if low + margin < curve.loss[place] < high - margin]
    return float(curve.loss[min(apart, key=steepness.__getitem__)]) if apart else expected


def refined(curve: LossCurve) -> LossCurve:
    """A monotone cubic through the points: slopes are at most three times the chords.

    Parameters
    ----------
    curve : the loss along time, with its slope.
    """
    chord = np.diff(curve.loss) / np.diff(curve.time)
    steepest = 3 * np.maximum(np.append(chord, chord[-1]), np.append(chord[0], chord))
    rate = np.clip(curve.rate, np.minimum(steepest, 0.0), 0.0)
    from scipy.interpolate import CubicHermiteSpline

    spline = CubicHermiteSpline(curve.time, curve.loss, rate)
    part = np.arange(_FINE) / _FINE
    fine = (curve.time[:-1, None] + part * np.diff(curve.time)[:, None]).ravel()
    fine = np.append(fine, curve.time[-1])
    return LossCurve(fine, np.minimum.accumulate(spline(fine)), spline(fine, 1))

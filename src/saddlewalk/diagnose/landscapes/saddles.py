r"""Is any network at a saddle? From its gradient and products with its Hessian alone.

There are no units to merge and to set to zero here, so the critical point beside the network is not looked
for. What is asked instead is how the loss would move near it, with :math:`g` and :math:`H` taken where the
network is:

1. **Strict saddle.** The smallest eigenvalue of H is negative, :math:`-s`, a descent finds something to
   gain, and the loss has hardly moved yet: neither by what the network has gone along the ways that grow,
   :math:`|g_-|^2 / 2s`, nor by what it gains in the other directions while it leaves e-fold, in the time
   :math:`1/s`: :math:`g^\top \frac{1 - e^{-2 H_+ / s}}{2 H_+} g`. Both are read off the spectral measure of
   g (Lanczos iterations that begin at g; Gauss quadrature). On an ordinary slope there is negative
   curvature, too, but these are large: not a fixed point.
2. **Degenerate saddle.** Where units grow by order :math:`\kappa > 2`, H has negative curvature only
   because the network is not at the saddle: :math:`s \sim a^{\kappa - 2}` for a distance a. Half a Newton
   step back along what grows takes a to :math:`a (1 - \frac{1}{2 (\kappa - 1)})`, and where there are
   hidden layers, units that are not in use can be made half as large. The curvature stays at a strict
   saddle, and falls at others.
3. **No negative curvature.** A descent tells: nothing to gain, also from beside, is a minimum. A gain where
   the gradient grows, :math:`g^\top H g < 0`, leaves a degenerate saddle; one where it falls is that of a
   network on its way.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import minimize

from saddlewalk.diagnose.curvature import spectrum
from saddlewalk.diagnose.kinds import PointKind
from saddlewalk.diagnose.landscapes.width import units_in_use
from saddlewalk.diagnose.patience import OutOfTimeError, go_on
from saddlewalk.diagnose.saddles import SaddleReport
from saddlewalk.diagnose.width import MATTERS
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.landscape.hidden import hidden_layers
from saddlewalk.units import Layer

_NEGATIVE = 1e-4
"""Curvature, as a part of the largest, that counts as negative."""
_SLOWLY = 0.2
"""Part of what matters that a plateau may lose while the network leaves e-fold."""
_STAYS = 0.88
"""Curvature after half a step back, as a part of that before: 1 at a strict saddle, 3/4 or less at others."""
_LEARNED, _LEFT = 0.05, 1e-4
"""Parts of all there is to learn below which less that has been learned, or is left, makes no difference."""
_KICK = 1e-2
_STEPS = 300
_SLOW = 3e-4
"""A gradient, in units of loss over norm, that is as good as none."""
_LARGER = (1.0, 1.1, 1.5, 2.0)
_FALLS = 1e-3
_KRYLOV = 30
_BY_CURVATURE = PointKind.STRICT_SADDLE, PointKind.NEAR_SADDLE


class _Here(NamedTuple):
    """What is known of a network where it is."""

    landscape: AbstractLandscape
    w: np.ndarray
    loss: float
    gradient: np.ndarray
    matters: float
    """A change of the loss that matters."""
    everything: float
    """The loss of a network that says nothing."""


class _Curved(NamedTuple):
    largest: float
    smallest: np.ndarray
    vectors: np.ndarray
    product: Callable[[Any], np.ndarray]


def saddle_report(
    landscape: AbstractLandscape, w: Any, *, eigenvalues: int = 3, scale: float | None = None
) -> SaddleReport:
    """The saddle test for any network. Rates are those of gradient descent on the user's own loss.

    Parameters
    ----------
    landscape : the network.
    w : a vector of weights.
    eigenvalues : how many of the smallest to report.
    scale : a change of the loss that matters; by default the smaller of what has been learned and what is
        left to learn.
    """
    here = _looked_at(landscape, landscape.checked(w), scale)
    try:
        curved = _curved(here, eigenvalues)
        kind = _kind(here, curved)
    except OutOfTimeError:
        none = np.full(eigenvalues, math.nan)
        curved, kind = (
            _Curved(math.nan, none, np.zeros((len(here.w), 1)), abs),
            PointKind.NOT_DECIDED,
        )
    rate = -float(curved.smallest[0])
    if kind in (PointKind.NOT_FIXED, PointKind.NOT_DECIDED):
        rate = math.nan
    return SaddleReport(
        kind=kind,
        loss=here.loss,
        gradient_norm=float(np.linalg.norm(here.gradient)),
        distance=math.nan,
        eigenvalues=curved.smallest,
        largest_eigenvalue=curved.largest,
        utility=math.nan,
        escape_rate=rate if kind in _BY_CURVATURE or math.isnan(rate) else 0.0,
        duration=math.inf if kind in (PointKind.MINIMUM, PointKind.NO_MINIMUM) else math.nan,
        direction=_way_out(here, curved) if kind.is_saddle else None,
    )


def _looked_at(landscape: AbstractLandscape, w: np.ndarray, scale: float | None) -> _Here:
    loss, gradient = landscape.loss_and_gradient(w)
    everything = max(abs(landscape.cost(np.zeros_like(landscape.outputs(w)))), abs(loss), 1e-300)
    learned = max(abs(everything - loss), _LEARNED * everything)
    matters = min(learned, max(loss, _LEFT * everything)) if scale is None else scale
    return _Here(landscape, w, loss, gradient, matters, everything)


def _curved(here: _Here, few: int) -> _Curved:
    product = here.landscape.hessian_at(here.w)
    return _Curved(*spectrum(product, len(here.w), min(few, len(here.w))), product)


def _kind(here: _Here, curved: _Curved) -> PointKind:
    if here.loss <= _LEFT * here.everything:  # all is learned
        return _kind_at_rest(here)
    unit = max(curved.largest, float(np.abs(curved.smallest).max()), 1e-300)
    rate = -float(curved.smallest[0])
    negative = rate > max(_NEGATIVE, 100 * here.landscape.rounding) * unit
    if not negative or not _is_curvature(here, unit):
        return _kind_by_descent(here, curved)
    moved = _moved_while_leaving(here, curved, rate)
    if moved > _SLOWLY * here.matters:
        return PointKind.NOT_FIXED
    along = _way_out(here, curved)
    if _fallen(here, here.w + _KICK * _size(here.w) * along) <= MATTERS * here.matters:
        # nothing that matters is to be gained; but a network that still moves has not come to its end
        still = float(np.linalg.norm(here.gradient)) * _size(here.w) < _SLOW * here.everything
        return PointKind.MINIMUM if still else PointKind.NOT_FIXED
    if not _curvature_stays(here, curved):
        return PointKind.DEGENERATE_SADDLE
    return PointKind.STRICT_SADDLE if moved <= MATTERS * here.matters else PointKind.NEAR_SADDLE


def _is_curvature(here: _Here, unit: float) -> bool:
    """Whether curvature is more than rounding: a move by all of the weights would be felt."""
    size = max(float(np.sum(here.w**2)), 1e-300)
    return unit * size > 100 * here.landscape.rounding * here.loss or not np.any(here.w)


def _moved_while_leaving(here: _Here, curved: _Curved, rate: float) -> float:
    """What the loss has lost along the ways that grow, and gains in the others while the network leaves
    e-fold, in the quadratic model."""
    size = float(np.linalg.norm(here.gradient))
    if size == 0:
        return 0.0
    values, parts = _spectral_measure(curved.product, here.gradient / size)
    flat = _NEGATIVE * max(curved.largest, rate)
    stable = np.maximum(values, flat)  # along a flat direction the loss falls evenly
    gained = -np.expm1(-2 * stable / rate) / (2 * stable)
    each = np.where(values < -flat, 0.5 / np.maximum(-values, flat), gained)
    return size**2 * float(parts @ each)


def _spectral_measure(
    product: Callable[[Any], np.ndarray], start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, and how much of a unit vector lies on each: Lanczos iterations, all kept orthogonal."""
    basis, diagonal = [start], list[float]()
    beside: list[float] = []
    for _ in range(min(_KRYLOV, len(start))):
        go_on("looking where the gradient leads")
        further = product(basis[-1])
        diagonal.append(float(further @ basis[-1]))
        for _ in range(2):
            for one in basis:
                further = further - (further @ one) * one
        left = float(np.linalg.norm(further))
        if left <= 1e-10 * max(abs(value) for value in [*diagonal, *beside, 1e-300]):
            break
        beside.append(left)
        basis.append(further / left)
    values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside[: len(diagonal) - 1]))
    return values, vectors[0] ** 2


def _curvature_stays(here: _Here, curved: _Curved) -> bool:
    """Whether the negative curvature is that of the saddle, and not of the way that was already made."""
    before = float(curved.smallest[0])
    smaller = _with_spare_units_halved(here)
    if smaller is not None:
        product = here.landscape.hessian_at(smaller)
        if float(spectrum(product, len(smaller), 1)[1][0]) > _STAYS * before:
            return False
        if any(layer.kinked for layer in hidden_layers(here.landscape)):
            return True  # a step back would move kinks, and so the curvature
    way = curved.vectors[:, 0]
    growing = curved.smallest < -_NEGATIVE * max(curved.largest, abs(before))
    vectors, values = curved.vectors[:, growing], curved.smallest[growing]
    back = here.w - 0.5 * vectors @ ((vectors.T @ here.gradient) / values)
    return float(way @ here.landscape.hessian_at(back)(way)) <= _STAYS * before


def _with_spare_units_halved(here: _Here) -> np.ndarray | None:
    """The network with units that are not in use half as large; `None` if all are in use."""
    factor = np.ones_like(here.w)
    for layer in hidden_layers(here.landscape):
        spare = ~units_in_use(here.landscape, here.w, layer, MATTERS * here.matters)
        units = layer.take(here.w)
        halves = [np.where(spare[:, None], 0.5, np.ones(np.shape(part))) for part in units]
        factor = np.minimum(factor, layer.put(np.ones_like(here.w), Layer(*halves)))
    return None if factor.min() == 1.0 else factor * here.w


# --- what a descent tells ---------------------------------------------------------------------------


def _kind_by_descent(here: _Here, curved: _Curved) -> PointKind:
    counts = MATTERS * here.matters
    if np.any(here.gradient) and _fallen(here, here.w) > counts:
        if float(here.gradient @ curved.product(here.gradient)) < 0:
            return PointKind.DEGENERATE_SADDLE
        slope = float(np.linalg.norm(here.gradient) * np.linalg.norm(here.w))
        slow = slope < _SLOW * here.everything
        return PointKind.NO_MINIMUM if slow and _falls_for_ever(here) else PointKind.NOT_FIXED
    if _fallen(here, _beside(here)) > counts:
        return PointKind.DEGENERATE_SADDLE
    return _kind_at_rest(here)


def _kind_at_rest(here: _Here) -> PointKind:
    return PointKind.NO_MINIMUM if _falls_for_ever(here) else PointKind.MINIMUM


def _fallen(here: _Here, start: np.ndarray) -> float:
    """How far below the network a descent (L-BFGS) from some place comes; it ends when that matters."""
    unit = here.everything

    def cost(w: np.ndarray) -> tuple[float, np.ndarray]:
        go_on("descending from beside the network")
        loss, gradient = here.landscape.loss_and_gradient(w)
        return loss / unit, gradient / unit

    def enough(intermediate_result: Any) -> None:
        if here.loss - unit * float(intermediate_result.fun) > 2 * MATTERS * here.matters:
            raise StopIteration

    options = {"maxiter": _STEPS, "maxfun": 2 * _STEPS, "gtol": 1e-11, "ftol": 1e-16, "maxcor": 30}
    found = minimize(cost, start, jac=True, method="L-BFGS-B", callback=enough, options=options)
    return here.loss - unit * float(found.fun)


def _beside(here: _Here) -> np.ndarray:
    noise = np.random.default_rng(0).normal(size=here.w.shape) / math.sqrt(len(here.w))
    return here.w + _KICK * _size(here.w) * noise


def _size(w: np.ndarray) -> float:
    return max(float(np.linalg.norm(w)), 1.0)


def _falls_for_ever(here: _Here) -> bool:
    """Whether the loss falls on as all weights grow: cross-entropy does on data that can be separated."""
    losses = [here.landscape.loss(factor * here.w) for factor in _LARGER]
    return all(b < a - _FALLS * abs(a) for a, b in itertools.pairwise(losses))


def _way_out(here: _Here, curved: _Curved) -> np.ndarray:
    """A unit vector of the weights: along the smallest curvature, and of its two ends the one that goes down;
    without negative curvature down the gradient."""
    way = curved.vectors[:, 0]
    if curved.smallest[0] >= 0 and np.any(here.gradient):
        way = -here.gradient
    way = -way if way @ here.gradient > 0 else way
    return way / max(float(np.linalg.norm(way)), 1e-300)

r""":math:`\tau \ge c / (\kappa\, \mathcal U^*)`: how long a unit waits at least (appendix B.2).

A dormant unit of degree :math:`\kappa` grows by :math:`\frac{d}{dt}|\theta| = \kappa\, \bar{\mathcal U}\,
|\theta|^{\kappa-1}`, so its norm is a function of its accumulated utility
:math:`S = \int \kappa\, \bar{\mathcal U}\, dt` alone (Eq 15, 16),

.. math::

    |\theta| = \big(|\theta_0|^{2-\kappa} - (\kappa - 2) S\big)^{-1/(\kappa-2)}, \qquad
    |\theta| = T \iff S = c = \frac{|\theta_0|^{2-\kappa} - T^{2-\kappa}}{\kappa - 2},

and :math:`|\theta_0| e^S`, :math:`\log(T/|\theta_0|)` for :math:`\kappa = 2`. Utility never exceeds its
maximum :math:`\mathcal U^*`, so no unit is earlier than :math:`c/(\kappa\,\mathcal U^*)`, and one that
starts aligned is exactly then. The printed Eq 17 (and 7, 9, 58) drops :math:`T^{2-\kappa}`: it is late by
:math:`1/(\kappa(\kappa-2)\,\mathcal U^*)`, so it is no bound.

The jump of feature k is strictly bounded only by a wait that begins at the jump before it: until
then dormant units may grow on the larger utilities of other features. From the start of training
the bound is strict for the first jump; for later ones it is a time scale.
"""

import math

import numpy as np
from jaxtyping import Float

from saddlewalk.problem import norms
from saddlewalk.theory.base import Start
from saddlewalk.theory.staircase import Assumption

Numbers = float | int | Float[np.ndarray, "..."]

_HALF = 1 - math.sqrt(0.5)
"""Part of a feature that units must hold for half of its loss to be gone: (1 - s)^2 = 1/2."""
_ALIGNED = 0.9
"""Part of the maximal utility with which a unit starts aligned."""


def utility_to_reach(norm: Numbers, degree: float | int, threshold: Numbers = 1.0) -> Numbers:
    """Eq 16: accumulated utility at which a unit that starts at `norm` reaches the threshold.

    Parameters
    ----------
    norm : norm of a unit at the start.
    degree : order kappa of a unit in its parameters; at least 2.
    threshold : norm that is to be reached.
    """
    distance = np.maximum(np.log(threshold) - np.log(norm), 0.0)
    if degree == 2:
        return distance
    with np.errstate(over="ignore"):
        growth = np.expm1((degree - 2) * distance)
    return np.power(threshold, 2.0 - degree) * growth / (degree - 2)


def norm_after(norm: Numbers, accumulated_utility: Numbers, degree: float | int) -> Numbers:
    """Eq 15: norm of a unit that started at `norm`; infinite from the time of blow-up on.

    Parameters
    ----------
    norm : norm of a unit at the start.
    accumulated_utility : S, the integral of kappa times the utility of its direction.
    degree : order kappa of a unit in its parameters; at least 2.
    """
    if degree == 2:
        return norm * np.exp(accumulated_utility)
    used = (degree - 2) * np.power(norm, degree - 2.0) * accumulated_utility
    with np.errstate(divide="ignore"):
        return norm * np.exp(-np.log1p(-np.minimum(used, 1.0)) / (degree - 2))


def waiting_time(
    norm: Numbers, utility: Numbers, degree: float | int, threshold: Numbers = 1.0
) -> Numbers:
    """Time in which a unit of constant utility grows from `norm` to the threshold.

    With the maximal utility it is a lower bound for every unit (Eq 17, mended).

    Parameters
    ----------
    norm : norm of a unit at the start.
    utility : of its direction, at norm 1.
    degree : order kappa of a unit in its parameters; at least 2.
    threshold : norm that is to be reached.
    """
    with np.errstate(divide="ignore"):
        return np.divide(utility_to_reach(norm, degree, threshold), degree * np.asarray(utility))


def half_learned_norm(share: Numbers, utility: Numbers, degree: float | int, width: int) -> Numbers:
    r"""Norm that some of `width` units must have before half of a feature's loss is gone.

    The feature is a part :math:`y_k` of the target with loss :math:`\frac12 |y_k|^2`, its `share`. H units
    of norm m hold at most :math:`\langle f, y_k \rangle / |y_k|^2 \le H\, \mathcal U^* m^\kappa / |y_k|^2` of
    it.

    Parameters
    ----------
    share : loss that goes when the feature is learned.
    utility : the largest of a unit of norm 1 on the feature.
    degree : order kappa of a unit in its parameters.
    width : number H of units.
    """
    return np.power(_HALF * 2 * share / (width * np.asarray(utility)), 1 / degree)


def bounds_from_start(
    start: Start,
    utilities: Float[np.ndarray, " features"],
    shares: Float[np.ndarray, " features"],
) -> Float[np.ndarray, " features"]:
    r"""Eq 17 with l = 0: the least time in which the largest unit could learn each feature.

    A feature counts as learned when half of its loss is gone, or a unit has norm 1 if that is
    earlier. Utilities are products of one factor a layer, so learning rates :math:`r` of the layers
    are the plain flow of :math:`\theta/\sqrt r` with utilities larger by the root of their product.

    Parameters
    ----------
    start : the problem, and where its units start.
    utilities : of each feature, the largest of a unit of norm 1.
    shares : loss that goes with each feature.
    """
    problem = start.problem
    rates = np.asarray(problem.rates)
    first = np.cumsum([0, *(math.prod(shape) for shape in problem.shapes.values())])[:-1]
    gain = math.sqrt(math.prod(rates[first]))
    largest = float(np.max(norms(np.asarray(start.theta) / np.sqrt(rates))))
    learned = half_learned_norm(shares, gain * utilities, problem.degree, problem.width)
    threshold = np.minimum(learned, 1 / math.sqrt(rates.max()))
    return np.asarray(waiting_time(largest, gain * utilities, problem.degree, threshold))


def times_are_bounds(units: str, features: str, aligned: float) -> Assumption:
    """Largest initial utility over the maximal one: what makes a bound of a time the time itself.

    Parameters
    ----------
    units, features : what they are called here, for the sentence.
    aligned : largest utility at the start over the maximal one.
    """
    return Assumption(
        f"{units} start aligned: largest initial utility / maximal utility",
        aligned > _ALIGNED,
        aligned,
        "1 for exact times. Else the first time is a lower bound, and later ones are lower bounds "
        f"only where {units} did not grow on earlier {features}: use method 'numeric' for times",
    )

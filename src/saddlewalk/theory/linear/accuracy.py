r"""How far off the closed forms of linear networks are expected to be, as relative errors of the jump times.

**Steps.** Where modes meet, the curve goes by steps of second order. The same with steps twice as long errs
four times as much, so that a third of the difference is the error (Richardson).

**The start.** Modes that never meet follow the logistic function from balanced layers, and have no size yet.
At the start each has a part :math:`|y|` of its size at rest; what the formula leaves out is of second order
in it.

**The limit** has :math:`\log(1/\alpha) / \sigma` in place of
:math:`(\log(1/|y|) - \frac12 \log(1+\sqrt 2)) / \sigma`, the time to the middle of a step of the loss.
"""

from collections.abc import Sequence

import numpy as np

from saddlewalk.curves import LossCurve
from saddlewalk.curves.reading import crossings
from saddlewalk.theory.linear.finite_scale import UncorrelatedModes, refined
from saddlewalk.theory.linear.limit import Event
from saddlewalk.theory.linear.maps import Covariances
from saddlewalk.theory.merging import HALF_WAY

_READ = 1e-5
"""What times err that are read off the points of a curve."""


def error_of_steps(fine: LossCurve, coarse: LossCurve, levels: list[float]) -> float | None:
    """Expected relative error of the times of a curve by steps, as a mean over the levels.

    Parameters
    ----------
    fine : the curve.
    coarse : the same with steps twice as long, not refined.
    levels : losses before, between and after the jumps.
    """
    times, others = (np.array(crossings(one, levels)) for one in (fine, refined(coarse)))
    errors = np.abs(others - times) / (3 * times)
    known = errors[np.isfinite(errors)]
    return float(known.mean()) if len(known) else None


def error_of_start(modes: UncorrelatedModes) -> float:
    """Expected relative error of the times of modes that never meet, as a mean over the modes.

    Parameters
    ----------
    modes : the modes, and where they start.
    """
    return max(_READ, float(np.mean(np.sum(modes.seeds**2, axis=1))))


def distance_of_limit(modes: UncorrelatedModes, eta: float) -> float | None:
    """Expected relative error of the times of the limit, as a mean over the modes.

    Parameters
    ----------
    modes : the modes, as if they did not meet, and where they start.
    eta : factor between time and accelerated time.
    """
    efolds = -np.log(np.linalg.norm(modes.seeds, axis=1)) - 0.5 * HALF_WAY
    grows = efolds > 0  # else a mode rests below its start
    return float(np.mean(np.abs(eta / efolds[grows] - 1))) if grows.any() else None


def growth_of_modes(covariances: Covariances, events: Sequence[Event]) -> list[float]:
    r"""Rate at which the strength of each mode grows, :math:`2\sigma` of what is left of the gradient.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    events : the modes that are learned, in their order.
    """
    rows = covariances.explained[0].T @ covariances.cross
    left = list(range(len(rows)))
    rates = []
    for event in events:
        rates.append(2 * max(float(np.linalg.norm(rows[left], 2)), 1e-300))
        left.remove(event.place)
    return rates

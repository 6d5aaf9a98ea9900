r"""Steps that cannot be told apart are one stage, with its parts.

A unit that wakes against a gradient g rises logistically at the rate :math:`r = 2|g|`, and the loss above its next
level is :math:`(1 - \sigma(r (t - T)))^2` of the step, with T the middle of the rise. It has lost 10% of the step
2.92 e-folds before T, half of it 0.88 e-folds before, and 90% of it 0.77 e-folds after. Two steps whose ranges from
10% to 90% overlap have no plateau between them: the curve slides from one into the other.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stage

_BISECTIONS = 50
_FAR = 50.0
"""E-folds beyond which a step has not begun, or is over."""

Parts = Float[np.ndarray, " part"]


def efolds(left: float) -> float:
    """E-folds from the middle of a rise to where this part of the loss of its step is left.

    Parameters
    ----------
    left : part of the step that is left, between 0 and 1.
    """
    root = math.sqrt(left)
    return math.log((1 - root) / root)


_HALF, _BEGIN, _END = efolds(0.5), efolds(0.9), efolds(0.1)


def merged(stages: Sequence[Stage], rates: Sequence[float], initial: float) -> tuple[Stage, ...]:
    """The stages that can be told apart; those that cannot are the parts of one.

    Parameters
    ----------
    stages : one after the other, each timed where the loss passes its middle.
    rates : growth rate of what wakes in each.
    initial : loss before the first.
    """
    groups: list[list[int]] = []
    end = -math.inf
    for k, (stage, rate) in enumerate(zip(stages, rates, strict=True)):
        if groups and stage.time + (_BEGIN - _HALF) / rate < end:
            groups[-1].append(k)
        else:
            groups.append([k])
        end = stage.time + (_END - _HALF) / rate
    levels = [initial, *(stage.loss for stage in stages)]
    return tuple(
        stages[group[0]]
        if len(group) == 1
        else _joined([stages[k] for k in group], [rates[k] for k in group], levels[group[0]])
        for group in groups
    )


def _joined(parts: list[Stage], rates: list[float], before: float) -> Stage:
    """One stage, timed where the sum of the parts' steps has passed its middle, named after the largest."""
    levels = [before, *(part.loss for part in parts)]
    drops = [high - low for high, low in itertools.pairwise(levels)]
    return replace(
        parts[int(np.argmax(drops))],
        time=_half_time(np.array([part.time for part in parts]), np.array(rates), np.array(drops)),
        loss=levels[-1],
        units=tuple(dict.fromkeys(unit for part in parts for unit in part.units)),
        dormant=tuple(dict.fromkeys(unit for part in parts for unit in part.dormant)),
        parts=tuple(parts),
    )


def _half_time(times: Parts, rates: Parts, drops: Parts) -> float:
    """When half of the drops together has been lost, by bisection: it lies between the first and the last."""
    low, high = float(times[0]), float(times[-1])
    for _ in range(_BISECTIONS):
        now = 0.5 * (low + high)
        rise = 1 / (1 + np.exp(np.clip(-_HALF - rates * (now - times), -_FAR, _FAR)))
        if np.sum(drops * (1 - rise) ** 2) > 0.5 * np.sum(drops):
            low = now
        else:
            high = now
    return 0.5 * (low + high)

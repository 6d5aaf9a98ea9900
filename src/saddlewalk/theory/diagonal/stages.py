"""Steps of the closed forms as stages, and what is asked of their order."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stage
from saddlewalk.theory.diagonal.finite_scale import Transition
from saddlewalk.theory.diagonal.paper import Jump
from saddlewalk.theory.diagonal.regression import Regression
from saddlewalk.theory.staircase import Assumption

_BLOCK = 1_000
"""Columns whose cosines with all others are held at once."""


def stage_of(jump: Jump | Transition, regression: Regression, unit_of_time: float) -> Stage:
    """One step as a stage in time, with its coordinates, the largest first.

    Parameters
    ----------
    jump : the step.
    regression : the least squares.
    unit_of_time : time over the clock of the step.
    """
    largest_first = sorted(jump.on, key=lambda unit: -abs(jump.beta[unit]))
    coordinates = [
        {"kind": "coordinate", "index": unit, "sign": int(np.sign(jump.beta[unit]))}
        for unit in largest_first
    ]
    feature, *others = coordinates or [{"kind": "adjustment"}]
    return Stage(
        time=jump.time * unit_of_time,
        loss=regression.loss(jump.beta),
        units=jump.on,
        dormant=jump.off,
        feature={**feature, "others": others} if others else feature,
    )


def largest_cosine(columns: Float[np.ndarray, "n d"]) -> float:
    """Of two of these columns of length one; block by block, since all cosines may not fit into memory.

    Parameters
    ----------
    columns : of length one.
    """
    largest = 0.0
    for first in range(0, columns.shape[1], _BLOCK):
        cosine = np.abs(columns[:, first : first + _BLOCK].T @ columns[:, first:])
        np.fill_diagonal(cosine, 0.0)
        largest = max(largest, float(cosine.max()))
    return largest


def clear_order(jumps: Sequence[Jump | Transition], blur: float) -> Assumption:
    """Whether each step is well ahead of the next candidate.

    Parameters
    ----------
    jumps : the steps.
    blur : width of a jump beside its time: 1/log(1/scale), or scale^(L-2) with more layers.
    """
    gap = min((jump.gap for jump in jumps), default=math.inf)
    return Assumption(
        "clear order: smallest relative lead of a jump over the next candidate",
        gap > blur,
        gap if math.isfinite(gap) else None,
        f"above {blur:.2g}, the width of a jump; below, two may be seen as one",
    )

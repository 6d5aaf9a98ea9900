"""A forecast of the next drop: a step, an interval that says how sure it is, and what it rests on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlewalk.show.words import Word
from saddlewalk.watch.rules import Adaptive, Rule

COVERED = 0.8
"""Part of the truths that intervals should hold."""
_QUANTILE = 1.2816
"""Standard deviations on either side that hold so many."""
_PRIOR = 3.0
"""Drops that the spread known beforehand counts for, beside those of this training."""


class Reason(Word):
    """What a forecast rests on."""

    FLOW = (
        "trained ahead",
        "gradient flow from the present weights on the probe, in long stabilized steps",
    )
    ADAPTIVE = (
        "trained ahead, adaptive",
        "the optimizer's own recursion from its present state on the probe, many steps at once",
    )


SPREAD = {Reason.FLOW: 0.02, Reason.ADAPTIVE: 0.17}
"""Standard deviation of the logarithm of (true / forecast) time left, measured by `benchmarks/watch.py`."""


@dataclass(frozen=True)
class Forecast:
    """When the loss will have fallen to the middle of its next drop."""

    made: float
    """The step at which it was made."""
    step: float
    low: float
    high: float
    """Between these two it lies in four of five cases."""
    before: float
    after: float
    """Loss on the probe before and after the drop."""
    reason: Reason
    grows: str
    """The unit that grows most until then, in words."""
    growth: float
    """How much it grows a step now (the logarithm)."""

    @property
    def left(self) -> float:
        """Steps until then, when it was made."""
        return self.step - self.made

    @property
    def middle(self) -> float:
        """The loss half way down."""
        return 0.5 * (self.before + self.after)

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "made": self.made,
            "step": self.step,
            "low": self.low,
            "high": self.high,
            "before": self.before,
            "after": self.after,
            "reason": str(self.reason),
            "grows": self.grows,
            "growth": self.growth,
        }


def reason_of(rule: Rule) -> Reason:
    """What a forecast for this optimizer rests on.

    Parameters
    ----------
    rule : the optimizer.
    """
    return Reason.ADAPTIVE if isinstance(rule, Adaptive) else Reason.FLOW


def spread(reason: Reason, mistakes: Sequence[float], doubt: float = 0.0) -> float:
    """The standard deviation of the logarithm of a time left: what is known beforehand, and what this
    training has shown.

    Parameters
    ----------
    reason : what the forecast rests on.
    mistakes : logarithms of (true / forecast) time left, one for each drop that has come.
    doubt : what noise and lag add to the standard deviation.
    """
    seen = np.asarray(mistakes, dtype=float)
    known = SPREAD[reason] ** 2 + doubt**2
    return math.sqrt((_PRIOR * known + float(np.sum(seen**2))) / (_PRIOR + len(seen)))


def interval(made: float, left: float, sigma: float) -> tuple[float, float]:
    """The steps between which the drop lies in four of five cases.

    Parameters
    ----------
    made : the present step.
    left : the forecast of the steps until the drop.
    sigma : standard deviation of its logarithm.
    """
    factor = math.exp(_QUANTILE * sigma)
    return made + left / factor, made + left * factor

"""The losses that a training reports, kept in little room: means over bins that double when there are
too many."""

import math

import numpy as np
from jaxtyping import Float

_MOST = 2048
_RECENT = 0.02
"""The recent past: this part of all steps, and ten at least."""

_OTHER = 0.6
"""A loss that is less than this part of another one is not the same."""

_EMPTY = (0.0, 0.0, 0.0)

Curve = Float[np.ndarray, " bin"]


class LossRecord:
    """Losses of all steps so far, as means over bins of equal width; not every step need have one."""

    def __init__(self) -> None:
        self.steps = 0
        self.width = 1
        self._bins: list[tuple[float, float, float]] = []
        """Of each bin: how many losses it holds, their sum, and the sum of their places."""
        self._bin = _EMPTY

    def add(self, loss: float) -> None:
        """One more step.

        Parameters
        ----------
        loss : its loss; one that is no number counts as a step, and nothing else.
        """
        self.steps += 1
        if math.isfinite(loss):
            count, total, places = self._bin
            self._bin = count + 1, total + loss, places + self.steps - 0.5
        if self.steps % self.width == 0:
            self._bins.append(self._bin)
            self._bin = _EMPTY
            if len(self._bins) >= _MOST:
                pairs = np.asarray(self._bins).reshape(-1, 2, 3)
                self._bins = [(n, total, places) for n, total, places in pairs.sum(axis=1)]
                self.width *= 2

    def curve(self) -> tuple[Curve, Curve]:
        """Where each bin's losses are, in steps, and their mean."""
        # a bin that is not over yet counts if it holds as many as the last one: where few steps have a loss
        begun = [self._bin] if self._bins and self._bin[0] >= self._bins[-1][0] else []
        count, total, places = np.asarray([*self._bins, *begun]).reshape(-1, 3).T
        kept = count > 0
        return places[kept] / count[kept], total[kept] / count[kept]

    def recent(self) -> float:
        """The mean loss of the recent past."""
        _, loss = self.curve()
        last = max(int(_RECENT * len(loss)), math.ceil(10 / self.width))
        return float(loss[-last:].mean()) if len(loss) else math.nan

    def still_since(self, level: float, margin: float) -> float:
        """The step since which the loss has not been further from a level than a margin.

        Parameters
        ----------
        level : a loss.
        margin : what counts as near.
        """
        steps, loss = self.curve()
        away = np.flatnonzero(np.abs(falling(loss) - level) > margin)
        first = int(away[-1]) + 1 if len(away) else 0
        return float(steps[first] - 0.5 * self.width) if first < len(steps) else float(self.steps)


def falling(loss: Curve) -> Curve:
    """The falling curve nearest to a noisy one (isotonic regression): a single bad batch does not move it.

    Parameters
    ----------
    loss : a curve.
    """
    if len(loss) < 3:
        return loss
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(loss, increasing=False).x)


def is_another(reported: float, before: float, now: float) -> bool:
    """Whether a loss that training reports cannot be that of the probe.

    Parameters
    ----------
    reported : of the recent past.
    before, now : on the probe, at the look before and at this one: it is of between the two.
    """
    if not (reported > 0 and now > 0):
        return False
    low, high = sorted([before, now])
    return not _OTHER * low < reported < high / _OTHER

"""What a walk leaves behind: the loss curve, the network at some of its points, and where it rested."""

from dataclasses import dataclass

import numpy as np

from saddlewalk.curves import LossCurve
from saddlewalk.problem import ParametersLike

_TELLING = 0.02
"""Part of itself by which the loss changes from one remembered network to the next, where they are large."""


def telling(loss: np.ndarray) -> np.ndarray:
    """Rows between which the loss has changed, and the last.

    Parameters
    ----------
    loss : at each of some rows that follow each other.
    """
    kept, seen = [], np.inf
    for row, value in enumerate(loss.tolist()):
        if abs(value - seen) > _TELLING * abs(seen) or row == len(loss) - 1 or seen == np.inf:
            kept.append(row)
            seen = value
    return np.array(kept, dtype=int)


@dataclass(frozen=True)
class Moment:
    """The network at one point of the predicted curve."""

    index: int
    """Row of the curve."""
    theta: ParametersLike
    active: np.ndarray
    output: np.ndarray
    """Length of each unit in function space."""

    @property
    def alone(self) -> ParametersLike:
        """The active units, with the dormant ones at zero."""
        return np.where(self.active[:, None], np.asarray(self.theta), 0.0)


class Record:
    """Rows of a loss curve (time, loss, rate), and the network at some of them."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []
        self._length = 0
        self.moments: list[Moment] = []
        self.rests: list[int] = []
        """Rows at which all active units rested."""

    def add(self, rows: np.ndarray) -> int:
        """Append rows to the curve; the number of the first is returned."""
        first, self._length = self._length, self._length + len(rows)
        self._rows.append(rows)
        return first

    def add_moment(
        self, row: int, theta: ParametersLike, active: np.ndarray, output: np.ndarray
    ) -> None:
        """Remember the network at a row."""
        self.moments.append(Moment(row, theta, active, output))

    def add_rest(self, time: float, loss: float, rate: float, moment: Moment) -> None:
        """One more row, at which active units rest."""
        row = self.add(np.array([[time, loss, rate]]))
        self.add_moment(row, moment.theta, moment.active, moment.output)
        self.rests.append(row)

    def nearest(self, row: int) -> Moment:
        """The remembered network nearest to a row of the curve."""
        places = [moment.index for moment in self.moments]
        k = int(np.searchsorted(places, row))
        near = self.moments[max(k - 1, 0) : k + 1]
        return min(near, key=lambda moment: abs(moment.index - row))

    @property
    def curve(self) -> LossCurve:
        """The predicted loss along time."""
        return LossCurve.of(*np.concatenate(self._rows).T)

"""What a walk leaves behind: the loss curve, the network at some of its points, and where it rested."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

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


class Block(NamedTuple):
    """The network at rows of the curve that follow each other, beginning with `first`."""

    first: int
    theta: np.ndarray
    active: np.ndarray
    output: np.ndarray

    def moment(self, k: int) -> Moment:
        """The network at its row k, or at that of its rows which is nearest."""
        k = min(max(k, 0), len(self.theta) - 1)
        return Moment(self.first + k, self.theta[k], self.active[k], self.output[k])


class Record:
    """Rows of a loss curve (time, loss, rate), and the network at some of them."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []
        self._length = 0
        self._blocks: list[Block] = []
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
        self.add_moments(row, np.asarray(theta)[None], active[None], output[None])

    def add_moments(
        self, first: int, theta: np.ndarray, active: np.ndarray, output: np.ndarray
    ) -> None:
        """Remember the network at all rows from one on."""
        self._blocks.append(Block(first, theta, active, output))

    @property
    def moments(self) -> list[Moment]:
        """The network wherever it is remembered."""
        return [block.moment(k) for block in self._blocks for k in range(len(block.theta))]

    @property
    def first(self) -> Moment:
        """The network at the start."""
        return self._blocks[0].moment(0)

    @property
    def last(self) -> Moment:
        """The network as it was remembered last."""
        block = self._blocks[-1]
        return block.moment(len(block.theta) - 1)

    def add_rest(self, time: float, loss: float, rate: float, moment: Moment) -> None:
        """One more row, at which active units rest."""
        row = self.add(np.array([[time, loss, rate]]))
        self.add_moment(row, moment.theta, moment.active, moment.output)
        self.rests.append(row)

    def nearest(self, row: int) -> Moment:
        """The remembered network nearest to a row of the curve."""
        k = bisect_right([block.first for block in self._blocks], row)
        near = [block.moment(row - block.first) for block in self._blocks[max(k - 1, 0) : k + 1]]
        return min(near, key=lambda moment: abs(moment.index - row))

    @property
    def curve(self) -> LossCurve:
        """The predicted loss along time."""
        return LossCurve.of(*np.concatenate(self._rows).T)

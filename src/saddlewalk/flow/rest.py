"""When a training has come to rest, by flow or by steps."""

import numpy as np

from saddlewalk.flow.gradient_flow import Snapshot

_STILL = 1e-13
"""A drive this small, relatively, is rounding: nothing moves, whatever is left to learn."""


class Rest:
    """When a training has come to rest: no unit, large or tiny, has utility left.

    Each unit's drive is compared with the largest it ever was. Where all units are active after the first
    jump and rest at a saddle as at a minimum, what a new unit would find counts as well.

    Parameters
    ----------
    first : what there is to see at the start.
    convergence : part of its largest drive at which a unit rests.
    """

    def __init__(self, first: Snapshot, convergence: float) -> None:
        self._convergence = convergence
        self._largest = np.asarray(first.drive)
        self._opportunity = float(first.opportunity)

    def enough(self, seen: Snapshot) -> np.ndarray:
        """Drive of each unit, moment by moment, below which it rests."""
        largest = np.maximum.accumulate(np.concatenate([self._largest[None], seen.drive]))[1:]
        if len(largest):
            self._largest = largest[-1]
        return self._convergence * largest

    def first(self, seen: Snapshot) -> int | None:
        """First moment of rest."""
        enough = self.enough(seen)
        taken = seen.opportunity <= self._convergence * self._opportunity
        still = (seen.drive <= _STILL * self._largest).all(axis=1)
        calm = np.flatnonzero((seen.drive <= enough).all(axis=1) & (taken | still))
        return int(calm[0]) if len(calm) else None

"""How much a watch may spend: looks are timed, and wait until training has earned them."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from saddlewalk.errors import InputError, check_number

_AT_FIRST, _FEWEST, _MOST = 150, 60, 1500
"""Gradients that a look must be able to afford: the first, later ones, and where the last one saw no end."""
_SEARCH = 0.7
"""Part of a look that the search may take; the rest is for what follows it."""
_DOUBTFUL, _DOUBLED = 50, 2
"""A price is asked again when the steps have doubled without a look, from this one on."""
_ROOM = 1.3
_UNLIMITED = 1e12
_FURTHER = 1.02
"""A look comes at this many times the steps of the last one at the earliest."""
_FIRST = 10
"""Steps before the first look."""


class Budget:
    """A part of the training time, spent in looks.

    Parameters
    ----------
    part : what looks may take, as a part of the time that training takes beside them.
    """

    def __init__(self, part: float) -> None:
        check_number("budget", part)
        if not 0 < part < _UNLIMITED:
            raise InputError(f"`budget` must be a positive part of the training time; got {part}.")
        self.part = part
        self.spent = 0.0
        self.gradient = math.inf
        """Seconds that a look takes for each of its gradients, as far as is known."""
        self.wanted = _AT_FIRST
        """Gradients that the next look should be able to afford: rarely and far rather than often and
        not far."""
        self._began = time.perf_counter()
        self._last_step = 0

    @property
    def trained(self) -> float:
        """Seconds of training so far, looks left out."""
        return time.perf_counter() - self._began - self.spent

    @property
    def share(self) -> float:
        """What looks have taken, as a part of the training time."""
        return self.spent / max(self.trained, 1e-9)

    @property
    def left(self) -> float:
        """Seconds that may be spent now."""
        return max(self.part * self.trained - self.spent, 0.0)

    def affordable(self) -> int:
        """Gradients that a search may take now."""
        return int(_SEARCH * self.left / max(self.gradient, 1e-9))

    @staticmethod
    def for_the_search(seconds: float) -> float:
        """What the search may take of the seconds of a look.

        Parameters
        ----------
        seconds : of the whole look.
        """
        return _SEARCH * seconds

    def allows(self, step: int) -> bool:
        """Whether a look may be made.

        Parameters
        ----------
        step : the present one.
        """
        if step < max(_FIRST, _FURTHER * self._last_step):
            return False
        return self.affordable() >= self.wanted

    def doubtful(self, step: int) -> bool:
        """Whether the price should be asked again: one that a bad moment made too high would silence a watch.

        Parameters
        ----------
        step : the present one.
        """
        return step >= _DOUBLED * max(_DOUBTFUL, self._last_step)

    def learn(self, evaluations: int, ended: bool) -> None:
        """What a look has taken.

        Parameters
        ----------
        evaluations : gradients.
        ended : whether it saw all there is to see, or had to stop before.
        """
        more = _ROOM * evaluations if ended else 2 * max(evaluations, self.wanted)
        self.wanted = int(min(max(more, _FEWEST), _MOST))

    @contextmanager
    def look(self, step: int) -> Iterator[None]:
        """Within it, time is that of a look.

        Parameters
        ----------
        step : the present one.
        """
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spent += time.perf_counter() - start
            self._last_step = step

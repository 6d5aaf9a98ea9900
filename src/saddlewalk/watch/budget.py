"""How much a watch may spend: looks are timed, and wait until training has earned them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from saddlewalk.errors import InputError, check_number

_FEWEST, _MOST = 60, 1500
"""Gradients that a look must be able to afford: at first, and when the last one saw no end."""
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
        self.gradient = 0.0
        """Seconds of one gradient on the probe."""
        self.wanted = _FEWEST
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
        """Gradients that may be spent now."""
        return int(self.left / max(self.gradient, 1e-9))

    def allows(self, step: int) -> bool:
        """Whether a look may be made.

        Parameters
        ----------
        step : the present one.
        """
        if step < max(_FIRST, _FURTHER * self._last_step):
            return False
        return self.affordable() >= self.wanted

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
        """Within it, time is a look's.

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

"""A progress line on stderr for whatever may take more than two seconds; in a log, a line now and then."""

import sys
import time
from types import TracebackType
from typing import Any

_EVERY = 30.0
"""Seconds between two lines in a log."""


class Progress:
    """One line that is rewritten while the run goes on, and gone when it ends.

    Parameters
    ----------
    what : name of the run, before each message.
    shown : show the line; by default if stderr is a terminal, else a plain line is printed now and then.
    """

    def __init__(self, what: str, shown: bool | None = None) -> None:
        self._what = what
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._logged = shown is None and not self._shown
        self._last = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            words = TextColumn("{task.description}")
            self._bar = Bar(
                SpinnerColumn(),
                words,
                BarColumn(bar_width=24),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._bar.add_task(f"{self._what}: compiling", total=None)
        return self

    def update(self, message: str, fraction: float | None = None) -> None:
        """The state of the run in a few words, and how much of it is done where that is known."""
        if self._bar is not None:
            total = None if fraction is None else 1.0
            text = f"{self._what}: {message}"
            self._bar.update(0, description=text, total=total, completed=fraction or 0.0)
        elif self._logged and time.monotonic() > self._last + _EVERY:
            self._last = time.monotonic()
            print(f"{self._what}: {message}", file=sys.stderr, flush=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

"""A progress line on stderr for whatever may take more than two seconds."""

import sys
import time
from types import TracebackType
from typing import Any

_PATIENCE = 2.0


class Progress:
    """Shows nothing for two seconds, then one line that is rewritten; gone when the run ends."""

    def __init__(self, what: str, shown: bool | None = None) -> None:
        self._what = what
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._began = time.perf_counter()
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        return self

    def update(self, message: str, fraction: float | None = None) -> None:
        """The state of the run in a few words, and how much of it is done where that is known."""
        if not self._shown or time.perf_counter() - self._began < _PATIENCE:
            return
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        if self._bar is None:
            columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24)]
            self._bar = Bar(
                *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
            )
            self._bar.start()
            self._bar.add_task(self._what, total=None)
        total = None if fraction is None else 1.0
        self._bar.update(
            0, description=f"{self._what}: {message}", total=total, completed=fraction or 0.0
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

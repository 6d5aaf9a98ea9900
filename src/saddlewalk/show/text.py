"""Tables for people: the same rows on a terminal, in `print(result)` and in a log file."""

import io
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


def number(value: float | None, digits: int = 5) -> str:
    """A short decimal; a dash where there is no number."""
    return "-" if value is None or value != value else f"{value:.{digits}g}"


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A plain-text table: the first `left` columns flush left, the others right."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for k, column in enumerate(columns):
        grid.add_column(column, justify="left" if k < left else "right")
    for row in rows:
        grid.add_row(*row)
    sink = io.StringIO()
    Console(file=sink, width=110, no_color=True, highlight=False).print(grid)
    body = (line.rstrip() for line in sink.getvalue().rstrip().splitlines())
    return "\n".join([title, *body])


def percent(value: float) -> str:
    """A relative error; a dash where there is none."""
    return "-" if value != value else f"{100 * value:.3g}%"

"""Tables for people: the same rows on a terminal, in `print(result)`, in a log file and in a notebook."""

import html
import io
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid


class Table(NamedTuple):
    """A table with a title: the first `left` columns flush left, the others right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1

    def __str__(self) -> str:
        grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
        for k, column in enumerate(self.columns):
            grid.add_column(column, justify="left" if k < self.left else "right")
        for row in self.rows:
            grid.add_row(*row)
        sink = io.StringIO()
        Console(file=sink, width=110, no_color=True, highlight=False).print(grid)
        body = (line.rstrip() for line in sink.getvalue().rstrip().splitlines())
        return "\n".join([self.title, *body])

    def to_html(self) -> str:
        """The same for a notebook."""
        sides = ["left" if k < self.left else "right" for k in range(len(self.columns))]
        head = "".join(
            _cell("th", words, side) for words, side in zip(self.columns, sides, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(_cell("td", words, side) for words, side in zip(row, sides, strict=True))
            + "</tr>"
            for row in self.rows
        )
        title = html.escape(self.title)
        return f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(kind: str, words: str, side: str) -> str:
    return f'<{kind} style="text-align: {side}">{html.escape(words)}</{kind}>'


def number(value: float | None, digits: int = 5) -> str:
    """A short decimal; a dash where there is no number.

    Parameters
    ----------
    value : the number; `None` and NaN are a dash.
    digits : significant digits.
    """
    return "-" if value is None or value != value else f"{value:.{digits}g}"


def percent(value: float) -> str:
    """A relative error; a dash where there is none.

    Parameters
    ----------
    value : a part of 1; NaN is a dash.
    """
    return "-" if value != value else f"{100 * value:.3g}%"


def as_text(parts: Iterable[Table | str]) -> str:
    """Tables and lines, one below the other.

    Parameters
    ----------
    parts : tables and lines.
    """
    return "\n".join(map(str, parts))


def as_html(parts: Iterable[Table | str]) -> str:
    """The same for a notebook.

    Parameters
    ----------
    parts : tables and lines.
    """
    return "\n".join(
        part.to_html() if isinstance(part, Table) else f"<p>{html.escape(part)}</p>"
        for part in parts
    )

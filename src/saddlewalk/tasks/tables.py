"""A user's own data from a `.csv`: with a header or without, cells between commas, semicolons or tabs.

The last column is the target, or those that are asked for. Words may stand in a target alone: they are
labels, and each label becomes an output of its own, 1 where it is meant and 0 elsewhere.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from saddlewalk.errors import InputError, nearest
from saddlewalk.tasks.samples import Samples, from_arrays, one_hot

_DELIMITERS = (";", "\t")
"""Instead of a comma, if the first line has one."""
_MISSING = ("", "na", "n/a", "nan", "null", "none", "?")


_COMMENT = "#"

_Row = tuple[int, list[str]]
"""A line, counted from 1, and its cells."""


@dataclass(frozen=True)
class _Column:
    """One column of a file: what it is called, and its cells as they are written."""

    place: int
    """Counted from 1, as a person does."""
    name: str | None
    cells: list[str]
    numbers: list[float | None]
    """The same as numbers; `None` for words."""

    def __str__(self) -> str:
        return f"column {self.place}" + (f" ('{self.name}')" if self.name else "")

    @property
    def labels(self) -> bool:
        """Whether all of it is words; a number that is misspelt does not make it so."""
        return all(
            number is None and cell.lower() not in _MISSING
            for cell, number in zip(self.cells, self.numbers, strict=True)
        )


def read_table(file: Path, targets: str | int | None = None) -> Samples:
    """Read a task from a .csv.

    Parameters
    ----------
    file : the file.
    targets : names of the target columns, with commas between them, or how many of the last columns they are;
        by default the last one.
    """
    lines, columns = _columns_of(file)
    chosen = _chosen(file, columns, targets)
    inputs = [column for column in columns if column not in chosen]
    if not inputs:
        raise InputError(f"All columns of {file} are targets; it needs inputs, too.")
    x = np.column_stack([_numbers(file, lines, column) for column in inputs])
    words = len(chosen) == 1 and chosen[0].labels
    y = chosen[0].cells if words else np.column_stack([_target(file, lines, c) for c in chosen])
    names = [column.name for column in inputs if column.name is not None]
    return from_arrays(x, y, name=file.stem, names=names or None)


def _target(file: Path, lines: list[int], column: _Column) -> np.ndarray:
    return one_hot(column.cells) if column.labels else _numbers(file, lines, column)


def _columns_of(file: Path) -> tuple[list[int], list[_Column]]:
    """The line of each row, and the columns; one that is empty from top to bottom is none."""
    rows, comma = _rows_of(file)
    # a row with a typo among its numbers is no header
    headed = bool(rows) and all(_number(cell, comma) is None for cell in rows[0][1])
    header, rows = (rows[0][1], rows[1:]) if headed else (None, rows)
    if not rows:
        raise InputError(f"{file} has no rows of numbers.")
    columns = []
    for k in range(len(rows[0][1])):
        cells = [row[k] for _, row in rows]
        name = header and (header[k] or f"column {k + 1}")
        if any(cells) or (header and header[k]):
            columns.append(_Column(k + 1, name or None, cells, [_number(c, comma) for c in cells]))
    if len(columns) < 2:
        raise InputError(
            f"{file} has one column; it needs inputs and, last, the target, with commas, semicolons or tabs "
            "between them."
        )
    return [line for line, _ in rows], columns


def _rows_of(file: Path) -> tuple[list[_Row], bool]:
    """The rows of a file, all of one length, and whether a comma may be a decimal one."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text: save it as such ({error}).") from error
    first = next((line for line in lines if line.strip() and not line.startswith(_COMMENT)), "")
    delimiter = next((mark for mark in _DELIMITERS if mark in first), ",")
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    every = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    rows = [(line, row) for line, row in every if any(row)]
    width = next((len(row) for _, row in rows if not row[0].startswith(_COMMENT)), 0)
    # NumPy writes a header as a comment; other comments are none
    rows = [
        (line, [row[0].lstrip(_COMMENT).strip(), *row[1:]])
        for line, row in rows
        if len(row) == width > 1 or not row[0].startswith(_COMMENT)
    ]
    for line, row in rows:
        if len(row) != width:
            raise InputError(
                f"The rows of {file} have different lengths: line {line} has {len(row)} cells, line "
                f"{rows[0][0]} has {len(rows[0][1])}."
            )
    return rows, delimiter != ","


def _chosen(file: Path, columns: list[_Column], targets: str | int | None) -> list[_Column]:
    """The columns that are targets."""
    if targets is None:
        return columns[-1:]
    named = {column.name: column for column in columns if column.name}
    words = [word.strip() for word in str(targets).split(",")]
    if len(words) == 1 and words[0] not in named and words[0].lstrip("-").isdigit():
        many = int(words[0])
        if not 1 <= many < len(columns):
            raise InputError(
                f"`targets` must be from 1 to {len(columns) - 1}, since {file} has {len(columns)} columns; "
                f"got {many}."
            )
        return columns[-many:]
    for word in words:
        if word not in named:
            hint = nearest(word, named) if named else " Its columns have no names: give a number."
            raise InputError(f"{file} has no column '{word}'.{hint}")
    return [named[word] for word in dict.fromkeys(words)]


def _numbers(file: Path, lines: list[int], column: _Column) -> np.ndarray:
    """A column of numbers, or a sentence that says in which line it is none."""
    cells = [*zip(lines, column.cells, column.numbers, strict=True)]
    for (
        line,
        cell,
        number,
    ) in cells:  # before words: a target of words with one missing is none of numbers
        if cell.lower() in _MISSING or (number is not None and not np.isfinite(number)):
            raise InputError(
                f"{file} has '{cell}' in line {line}, {column}: empty, NaN or infinite. Fill it in, or leave "
                "out the row."
            )
    for line, cell, number in cells:
        if number is None:
            raise InputError(
                f"{file} must hold numbers; line {line}, {column} has '{cell:.30}'. Write words as numbers; "
                "only a target may be words, and then all of it."
            )
    return np.array(column.numbers, dtype=float)


def _number(cell: str, comma: bool) -> float | None:
    """A cell as a number, also one with a decimal comma where commas do not separate cells."""
    plain = cell.replace(",", ".") if comma and "." not in cell else cell
    try:
        return None if "_" in plain else float(plain)
    except ValueError:
        return None

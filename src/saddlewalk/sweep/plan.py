"""What is varied: a grid over named axes, or configurations drawn from ranges.

A plan numbers its cells. The number, and not the order in which cells were run, decides where a result is
kept, so a sweep can be stopped, resumed and spread over machines.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import qmc

from saddlewalk.errors import InputError

RESERVED = ("status", "error")
"""What a store calls its own."""
SAMPLE = "sample"
"""Name of the axis of configurations that are drawn."""
Range = tuple[float, float] | tuple[float, float, str]
"""From, to, and "log" for a logarithmic scale."""


@dataclass(frozen=True)
class Plan:
    """Cells, as the product of their axes. An axis varies one parameter, or several together."""

    axes: tuple[tuple[str, Mapping[str, tuple[Any, ...]]], ...]
    """Name of each axis, and the values of the parameters along it (equally many)."""
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        varied = [name for _, columns in self.axes for name in columns]
        twice = [name for name in varied if varied.count(name) > 1 or name in self.fixed]
        if twice:
            raise InputError(f"'{twice[0]}' is given twice.")
        for name, columns in self.axes:
            lengths = {len(values) for values in columns.values()}
            if len(lengths) != 1 or 0 in lengths:
                raise InputError(f"The axis '{name}' has no values.")
        if not self.axes:
            raise InputError("Nothing is varied: a sweep needs at least one axis.")
        reserved = [name for name in (*varied, *self.dims) if name in RESERVED or "/" in name]
        if reserved:
            raise InputError(f"A parameter of a sweep cannot be called '{reserved[0]}'.")
        for name, value in self.fixed.items():
            _check_written(name, value)

    @property
    def dims(self) -> dict[str, int]:
        """Length of each axis."""
        return {name: len(next(iter(columns.values()))) for name, columns in self.axes}

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(self.dims.values())

    def __len__(self) -> int:
        return math.prod(self.shape)

    def cell(self, number: int) -> dict[str, Any]:
        """The parameters of one cell."""
        places = np.unravel_index(number, self.shape)
        varied = {
            name: values[place]
            for (_, columns), place in zip(self.axes, places, strict=True)
            for name, values in columns.items()
        }
        return {**self.fixed, **varied}

    @property
    def parameters(self) -> list[str]:
        """Everything that a cell is given."""
        return [*self.fixed, *(name for _, columns in self.axes for name in columns)]

    def coordinates(self) -> dict[str, tuple[str, np.ndarray]]:
        """Values along the axes, as xarray wants them."""
        found: dict[str, tuple[str, np.ndarray]] = {}
        for axis, columns in self.axes:
            for name, values in columns.items():
                found[name] = (axis, _column(values))
        return found

    def fingerprint(self, measure: str) -> str:
        """What must not change between two runs that fill one store; of a file of data, what is in it."""
        files = [v for v in self.fixed.values() if isinstance(v, str) and Path(v).is_file()]
        contents = [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files]
        said = {"measure": measure, "axes": self.axes, "fixed": dict(self.fixed), "data": contents}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self.cell(number) for number in range(len(self)))


def grid(axes: Mapping[str, Sequence[Any]], **fixed: Any) -> Plan:
    """All combinations of the values; seeds are an axis like any other.

    Parameters
    ----------
    axes : values of each parameter that is varied.
    **fixed : parameters that are the same in all cells.
    """
    return Plan(tuple((name, {name: _plain(name, values)}) for name, values in axes.items()), fixed)


def uniform(ranges: Mapping[str, Range], count: int, *, draw: int = 0, **fixed: Any) -> Plan:
    """So many configurations, drawn independently; `draw` is the seed of the draw.

    Parameters
    ----------
    ranges : from, to, and "log" for a logarithmic scale, of each parameter; between whole numbers, those.
    count : number of configurations.
    draw : seed of the draw.
    **fixed : parameters that are the same in all cells.
    """
    points = np.random.default_rng(draw).uniform(size=(_count(count), len(ranges)))
    return _drawn(ranges, points, fixed)


def latin_hypercube(
    ranges: Mapping[str, Range], count: int, *, draw: int = 0, **fixed: Any
) -> Plan:
    """Configurations that fall once into each of `count` slices of every parameter.

    Parameters
    ----------
    ranges : from, to, and "log" for a logarithmic scale, of each parameter; between whole numbers, those.
    count : number of configurations.
    draw : seed of the draw.
    **fixed : parameters that are the same in all cells.
    """
    points = qmc.LatinHypercube(len(ranges), rng=np.random.default_rng(draw)).random(_count(count))
    return _drawn(ranges, points, fixed)


def product(one: Plan, other: Plan) -> Plan:
    """Every cell of one with every cell of the other: drawn configurations, each with all seeds.

    Parameters
    ----------
    one, other : plans of different parameters.
    """
    return Plan((*one.axes, *other.axes), {**one.fixed, **other.fixed})


def _drawn(ranges: Mapping[str, Range], points: np.ndarray, fixed: Mapping[str, Any]) -> Plan:
    columns = {
        name: tuple(_stretched(name, limits, column).tolist())
        for (name, limits), column in zip(ranges.items(), points.T, strict=True)
    }
    return Plan(((SAMPLE, columns),), fixed)


def _stretched(name: str, limits: Range, unit: np.ndarray) -> np.ndarray:
    """The unit interval onto a range; one between whole numbers has whole numbers in it."""
    low, high, *how = limits if len(limits) > 1 else (0, 0)
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (low, high))
    if not numbers or how not in ([], ["log"]) or not low < high or (how and low <= 0):
        raise InputError(
            f"The range of '{name}' must be [from, to], or [from, to, \"log\"] with from above 0; got "
            f"{list(limits)}."
        )
    if how:
        return np.exp(np.log(low) + unit * (np.log(high) - np.log(low)))
    if isinstance(low, int) and isinstance(high, int):
        return np.floor(low + unit * (high + 1 - low)).astype(int)
    return low + unit * (high - low)


def _count(samples: int) -> int:
    if not isinstance(samples, int) or samples < 1:
        raise InputError(f"The number of samples must be a whole number from 1 on; got {samples}.")
    return samples


def _plain(name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Python's own numbers and strings: they can be written down."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InputError(f"The axis '{name}' must be a list of values; got {values!r}.")
    plain = tuple(value.item() if hasattr(value, "item") else value for value in values)
    odd = [v for v in plain if not isinstance(v, int | float | str | bool)]
    if odd:
        raise InputError(f"Values of '{name}' are numbers or words; got {odd[0]!r}.")
    if len(set(plain)) < len(plain):
        raise InputError(f"The axis '{name}' has a value twice.")
    return plain


def _check_written(name: str, value: Any) -> None:
    try:
        json.dumps(value)
    except TypeError as error:
        raise InputError(
            f"'{name}' must be a number, a word or a list of them, so that two sweeps can be told apart; "
            f"got {type(value).__name__}."
        ) from error


def _column(values: tuple[Any, ...]) -> np.ndarray:
    """Numbers as numbers; words as words, also where both occur."""
    if any(isinstance(value, str) for value in values):
        return np.array([str(value) for value in values])
    return np.array(values)

"""Cells that run together: one compilation for each shape, then the faster of a loop and a batch.

Which is faster is found by trying. A batch runs at the pace of its slowest member and saves what a call
costs; on a GPU it wins, for adaptive steps on a CPU a compiled loop often does. The store keeps the choice,
and which cells share a batch follows from the plan alone: a sweep that goes on elsewhere finds the same
numbers.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from saddlewalk.errors import OutOfMemoryError
from saddlewalk.precision import XLA_OUT_OF_MEMORY
from saddlewalk.sweep.plan import Plan

Cell = Mapping[str, Any]
_MOST_ON_CPU = 32
_TRIED = 3
"""Cells that are timed alone."""
_PART = 4
"""A batch may fill this part of the memory that is free."""


@runtime_checkable
class Batchable(Protocol):
    """A measure that can take many cells at once."""

    def __call__(self, **cell: Any) -> Mapping[str, Any]:
        """The numbers of one cell."""

    def program(self, cell: Cell) -> str:
        """Names a compiled program: cells with the same name can run together."""

    def together(self, cells: Sequence[Cell]) -> Sequence[Mapping[str, Any]]:
        """The numbers of each of these cells."""

    def size(self, cell: Cell) -> int:
        """Bytes that a cell needs in a batch."""


def programs(measure: Batchable, plan: Plan) -> dict[str, list[int]]:
    """Numbers of the cells that can run together.

    Parameters
    ----------
    measure : what says which compiled program a cell needs.
    plan : the cells.
    """
    found: dict[str, list[int]] = {}
    for number, cell in enumerate(plan):
        found.setdefault(measure.program(cell), []).append(number)
    return found


def batches(
    groups: Mapping[str, list[int]], lanes: Mapping[str, int], todo: Iterable[int]
) -> list[list[int]]:
    """The batches in which something is still to do, whole: what else is in them runs again unseen.

    Parameters
    ----------
    groups : numbers of the cells of each program.
    lanes : of each program, how many cells run together.
    todo : numbers of the cells that are still to run.
    """
    wanted = set(todo)
    every = (
        numbers[k : k + lanes[name]]
        for name, numbers in groups.items()
        for k in range(0, len(numbers), lanes[name])
    )
    return [batch for batch in every if not wanted.isdisjoint(batch)]


@dataclass(frozen=True)
class Trial:
    """What trying has shown for one program."""

    lanes: int
    found: Mapping[int, Mapping[str, Any]]
    """Numbers of the cells that were tried in the way that won, by their place in the program."""


def fastest(measure: Batchable, cells: Sequence[Cell]) -> Trial:
    """How many cells of one program to run together: 1 where a loop is faster, or where trying fails.

    Parameters
    ----------
    measure : what can run many cells together.
    cells : parameters of each cell, all of one program.
    """
    try:
        return _tried(measure, cells)
    except Exception:
        return Trial(1, {})  # a bad cell: each will say for itself what is wrong


def _tried(measure: Batchable, cells: Sequence[Cell]) -> Trial:
    most = min(len(cells), _that_fit(measure.size(cells[0])))
    if most < 2:
        return Trial(1, {})
    first, found = _timed(lambda: [measure(**cells[0])])
    # spread over the batch: cells may take the longer, the further they are along an axis
    places = sorted({int(k) for k in np.linspace(1, most - 1, min(_TRIED, most - 1)).round()})
    taken, others = _timed(lambda: [measure(**cells[k]) for k in places])
    alone = taken / len(places)
    loop = Trial(1, dict(zip([0, *places], [*found, *others], strict=True)))
    if alone * len(cells) < first - alone:
        return loop  # to compile a second program would take longer than all cells
    while most > 1:
        try:
            batch = _batch(measure, cells, most, alone)
            return loop if batch is None else Trial(most, dict(enumerate(batch)))
        except Exception as error:
            if not isinstance(error, OutOfMemoryError) and XLA_OUT_OF_MEMORY not in str(error):
                raise
            most //= 2
    return loop


def _batch(
    measure: Batchable, cells: Sequence[Cell], most: int, alone: float
) -> Sequence[Mapping[str, Any]] | None:
    """The first batch, if batches are faster; compiling does not count, unless it need not be told apart."""
    taken, found = _timed(lambda: measure.together(cells[:most]))
    if taken / most < alone:
        return found
    again, _ = _timed(lambda: measure.together(cells[:most]))
    return found if again / most < alone else None


def _that_fit(size: int) -> int:
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return max(1, min(_MOST_ON_CPU, _free_memory() // (_PART * size)))
    held = device.memory_stats() or {}
    return max(1, (held.get("bytes_limit", 0) - held.get("bytes_in_use", 0)) // (_PART * size))


def _free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return 2**32


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    found = function()
    return time.perf_counter() - begin, found

"""Cells that run together: one compilation for each shape, then the faster of a loop and a batch.

Which is faster is found by trying. A batch runs at the pace of its slowest member and saves what a call
costs; on a GPU it wins, for adaptive steps on a CPU a compiled loop often does. The store keeps the choice,
and which cells share a batch follows from the plan alone: a sweep that goes on elsewhere finds the same
numbers.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import jax

from saddlewalk.sweep.plan import Plan

Cell = Mapping[str, Any]
_MOST_ON_CPU = 32
_TRIED = 3
"""Cells that are timed alone."""
_PART = 4
"""A batch may fill this part of the memory that is free."""
_FULL = "RESOURCE_EXHAUSTED"


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
    """Numbers of the cells that can run together."""
    found: dict[str, list[int]] = {}
    for number, cell in enumerate(plan):
        found.setdefault(measure.program(cell), []).append(number)
    return found


def batches(
    groups: Mapping[str, list[int]], lanes: Mapping[str, int], todo: Iterable[int]
) -> list[list[int]]:
    """The batches in which something is still to do, whole: what else is in them runs again unseen."""
    wanted = set(todo)
    every = (
        numbers[k : k + lanes[name]]
        for name, numbers in groups.items()
        for k in range(0, len(numbers), lanes[name])
    )
    return [batch for batch in every if not wanted.isdisjoint(batch)]


def fastest(measure: Batchable, cells: Sequence[Cell]) -> int:
    """How many cells of one program to run together: 1 where a loop is faster."""
    most = min(len(cells), _that_fit(measure.size(cells[0])))
    first = _seconds(lambda: measure(**cells[0]))
    tried = cells[1 : 1 + _TRIED]
    if most < 2 or not tried:
        return 1
    alone = _seconds(lambda: [measure(**cell) for cell in tried]) / len(tried)
    if alone * len(cells) < first - alone:
        return 1  # to compile a second program would take longer than all cells
    while most > 1:
        try:
            return most if _in_batch(measure, cells[:most]) < alone else 1
        except Exception as error:
            if _FULL not in str(error):
                return 1
            most //= 2
    return 1


def _in_batch(measure: Batchable, cells: Sequence[Cell]) -> float:
    """Seconds a cell, of the second batch: the first is compiled."""
    measure.together(cells)
    return _seconds(lambda: measure.together(cells)) / len(cells)


def _that_fit(size: int) -> int:
    device = jax.local_devices()[0]
    if device.platform == "cpu":
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return max(1, min(_MOST_ON_CPU, free // (_PART * size)))
    held = device.memory_stats() or {}
    return max(1, (held.get("bytes_limit", 0) - held.get("bytes_in_use", 0)) // (_PART * size))


def _seconds(function: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin

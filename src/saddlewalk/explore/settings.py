"""Networks of a setting: live where the page can integrate them, else a grid of runs made on the spot."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from saddlewalk.errors import InputError
from saddlewalk.explore.live import live_flow
from saddlewalk.explore.runs import Record, record_of
from saddlewalk.problem.scale import check_scale
from saddlewalk.settings import Run, find_setting
from saddlewalk.settings.options import (
    MotionOptions,
    PredictionOptions,
    TrainingOptions,
    options_of,
)

Axes = Mapping[str, Sequence[Any]]
_LIVE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("diagonal", {}),
    ("linear", {"dim": 6, "outputs": 6}),
)
"""What the page without arguments integrates; maps of a size at which every slider answers at once."""
_MADE: tuple[str, dict[str, tuple[Any, ...]]] = (
    "attention",
    {"scale": (1e-2, 3e-3, 1e-3), "seed": (0, 1, 2, 3), "width": (2, 4), "context": (8, 32)},
)
"""And the sweep that is made for it: settings that the page cannot integrate."""
_SCALES = (10.0, 1.0, 0.1)
"""Scales of a grid, as parts of that of the setting."""
_SEEDS = 3
_UNUSED = {
    *options_of(MotionOptions),
    *options_of(PredictionOptions),
    *options_of(TrainingOptions),
}
"""Options that change nothing on a live page: it follows the flow until it rests."""
Told = Callable[[str, float], None]


def default_networks(told: Told = lambda words, part: None) -> list[Record]:
    """Networks of the page without arguments: two live ones, and a small sweep.

    Parameters
    ----------
    told : called with what is being computed, and how much of it is done.
    """
    live = [network_of_setting(Run.of(name, **options)) for name, options in _LIVE]
    name, axes = _MADE
    return [*live, _swept(Run.of(name), axes, {}, told)]


def network_of_setting(
    run: Run, axes: Axes | None = None, told: Told = lambda words, part: None
) -> Record:
    """One network: integrated by the page if it can, else a grid of runs.

    Parameters
    ----------
    run : the setting with its options.
    axes : values of the options that are varied; by default three scales and three seeds, as far as they are
        not given.
    told : called with what is being computed, and how much of it is done.
    """
    check_scale(run.scale, run.problem.degree)
    given = _options_of(run)
    live = live_flow(run)
    if live is not None and axes is None:
        unused = [name for name in given if name in _UNUSED]
        return {
            "name": run.setting,
            "about": find_setting(run.setting).summary,
            "command": f"saddlewalk compare {run.setting}",
            "options": {name: value for name, value in given.items() if name not in unused},
            "axes": [],
            "cells": [],
            "notes": [_left_out(unused)] if unused else [],
            "live": live,
        }
    return _swept(run, axes or _axes_of(run, given), given, told)


def _options_of(run: Run) -> dict[str, Any]:
    """What differs from the defaults of the setting."""
    plain = Run.of(run.setting).to_json()
    return {
        name: value
        for name, value in run.to_json().items()
        if name != "setting" and value is not None and plain.get(name) != value
    }


def _axes_of(run: Run, given: Mapping[str, Any]) -> Axes:
    if run.start.start is not None:
        return {"scale": (run.scale,)}
    axes: dict[str, Sequence[Any]] = {"scale": tuple(part * run.scale for part in _SCALES)}
    axes["seed"] = tuple(range(run.start.seed, run.start.seed + _SEEDS))
    if "data_seed" in find_setting(run.setting).data and not given.get("data"):
        first = given.get("data_seed", 0)
        axes["data_seed"] = (first, first + 1)
    return axes


def _swept(run: Run, axes: Axes, given: Mapping[str, Any], told: Told) -> Record:
    """Every combination, compared; a cell that cannot be run says why."""
    fixed = {name: value for name, value in given.items() if name not in axes}
    cells: list[Record] = []
    combinations = list(itertools.product(*axes.values()))
    for number, values in enumerate(combinations):
        told(f"{run.setting}, run {number + 1} of {len(combinations)}", number / len(combinations))
        one = Run.of(run.setting, **fixed, **dict(zip(axes, values, strict=True)))
        try:
            record = record_of(
                one.compare(progress=False), most_moments=_moments(combinations), exact=False
            )
        except ValueError as error:
            record = {"error": str(error)}
        cells.append(record)
    if all("error" in cell for cell in cells):
        raise InputError(cells[0]["error"])
    plain = {**run.to_json(), "width": run.problem.width}
    return {
        "name": run.setting,
        "about": find_setting(run.setting).summary,
        "command": f"saddlewalk compare {run.setting}",
        "options": fixed,
        "axes": [
            {"name": name, "values": list(values), "start": _place(values, plain.get(name))}
            for name, values in axes.items()
        ],
        "cells": cells,
        "notes": [],
    }


def _place(values: Sequence[Any], wanted: Any) -> int:
    """Where a slider starts: at what the setting has by itself."""
    return list(values).index(wanted) if wanted in values else 0


def _moments(combinations: Sequence[Any]) -> int:
    """Moments with weights: fewer in a larger grid."""
    return max(8, min(30, 900 // max(1, len(combinations))))


def _left_out(options: Sequence[str]) -> str:
    flags = ", ".join(f"`--{name.replace('_', '-')}`" for name in options)
    return (
        "This page follows the flow until it rests, and predicts in the limit of small scales; it leaves out "
        f"{flags}, which `saddlewalk compare` takes."
    )

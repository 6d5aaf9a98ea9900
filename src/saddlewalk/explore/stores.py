"""A sweep's store as a page shows it: a slider an axis, numbers of each cell, and curves where they are kept.

The measure `curves` keeps, beside the numbers of `compare`, the loss along time, the predicted stages, and
what grows. Other stores have numbers alone; the page shows them over the axes, and says so.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.explore.packed import moments_to_keep, packed
from saddlewalk.explore.runs import Record, view_end
from saddlewalk.flow.observed import what_grows
from saddlewalk.settings import run_options

if TYPE_CHECKING:
    import xarray as xr

    from saddlewalk.agreement import Agreement

POINTS, STAGES, MOMENTS, PARTS = 128, 24, 48, 12
"""Of each cell: points of its curve, stages, and moments and parts of what grows."""
_CURVES = ("curve_time", "curve_loss", "stage_time", "stage_loss", "grown_time", "grown")
_REACHED = "stage_simulated"
"""When the simulation reached each predicted stage; stores of earlier versions lack it."""
_ROOM = 24e6
"""Bytes of a page that curves may fill."""
_BYTES = 4 * 4 / 3
"""Bytes of a number in the page: float32 in base64."""
_MOST_CELLS = 200_000
"""Cells whose numbers a page can hold."""
NO_CURVES = (
    'This store holds numbers, no curves: a sweep with measure = "curves" keeps the loss, the predicted '
    "staircase and what grows of every cell."
)
NO_WEIGHTS = (
    "Stores keep no weights: `saddlewalk explore SETTING` with the options of a cell has them."
)


def curves_of(agreement: "Agreement") -> dict[str, np.ndarray]:
    """What the measure `curves` keeps of a run; NaN where there are fewer numbers.

    Parameters
    ----------
    agreement : prediction and simulation.
    """
    path, stages = agreement.observed, agreement.predicted.stages
    end = view_end(path, agreement.predicted)
    keep = moments_to_keep(path.time, path.loss, POINTS, end)
    time, values, _, _ = what_grows(path)
    some = moments_to_keep(time, np.interp(time, path.time, path.loss), MOMENTS, end)
    largest = np.sort(np.argsort(-np.abs(values).max(axis=0), kind="stable")[:PARTS])
    return {
        "curve_time": _filled(path.time[keep], POINTS),
        "curve_loss": _filled(path.loss[keep], POINTS),
        "stage_time": _filled([stage.time for stage in stages], STAGES),
        "stage_loss": _filled([stage.loss for stage in stages], STAGES),
        _REACHED: _filled(agreement.jump_times, STAGES),
        "grown_time": _filled(time[some], MOMENTS),
        "grown": _filled(values[np.ix_(some, largest)], MOMENTS, PARTS),
    }


def _filled(values: Any, *shape: int) -> np.ndarray:
    """An array of a fixed shape: the numbers there are, then NaN."""
    array = np.asarray(values, dtype=float)
    array = array[tuple(slice(length) for length in shape)]
    room = np.full(shape, np.nan)
    room[tuple(slice(length) for length in array.shape)] = array
    return room


def network_of_store(found: "xr.Dataset", name: str) -> Record:
    """A network from what `open_results` gave.

    Parameters
    ----------
    found : the results of a sweep, labeled.
    name : what the page calls it.
    """
    if "status" not in found:
        raise InputError(f"{name} is no store of a sweep: it has no status of its cells.")
    axes = _axes(found)
    size = int(found["status"].size)
    if size > _MOST_CELLS:
        raise InputError(
            f"{name} has {size:,} cells, more than a page can hold ({_MOST_CELLS:,}). Open it with xarray, "
            "choose a part (`found.isel(...)`), and give that to `network_of_store`."
        )
    status, every = found["status"].values.ravel(), found.attrs.get("measured", [])
    numbers = [
        str(one)
        for one in every
        if str(one) not in (*_CURVES, _REACHED) and found[one].ndim == found["status"].ndim
    ]
    cells, notes = _cells(found, status, numbers)
    waiting = int((status == 0).sum())
    if waiting:
        notes.insert(0, f"{waiting:,} of {size:,} cells are not done yet.")
    setting = str(found.attrs.get("fixed", {}).get("setting", ""))
    return {
        "name": name,
        "about": f"A sweep of {size:,} cells, measured by {found.attrs.get('measure', 'a function')}"
        + (f", setting {setting}" if setting else "")
        + ".",
        **_command(found, setting, axes),
        "axes": axes,
        "cells": cells,
        "notes": notes,
        "measured": {
            "names": numbers,
            "values": packed(
                np.stack([found[one].values.ravel() for one in numbers], axis=1)
                if numbers
                else np.zeros((size, 0))
            ),
            "errors": {
                str(k): str(found["error"].values.ravel()[k])
                for k in np.flatnonzero(status == 2)[:2000]
            },
        },
    }


def _axes(found: "xr.Dataset") -> list[Record]:
    """A slider an axis; of configurations that were drawn, one over the draws, with what was drawn."""
    axes = []
    for dim in map(str, found["status"].dims):
        columns = {
            str(name): found[name].values.tolist()
            for name in found.coords
            if found[name].dims == (dim,)
        }
        values = columns.pop(dim, None) or list(range(found.sizes[dim]))
        axes.append({"name": dim, "values": values, **({"columns": columns} if columns else {})})
    return axes


def _cells(
    found: "xr.Dataset", status: np.ndarray, numbers: list[str]
) -> tuple[list[Any], list[str]]:
    """Curves of the cells that are done, as many points as there is room for."""
    if not all(name in found for name in _CURVES):
        return [], [NO_CURVES]
    done = int((status == 1).sum())
    flat = {
        name: found[name].values.reshape(status.size, *found[name].shape[found["status"].ndim :])
        for name in (*_CURVES, _REACHED)
        if name in found
    }
    points, moments, notes = _sizes(done)
    cells = [
        _cell({name: values[k] for name, values in flat.items()}, points, moments)
        if status[k] == 1
        else None
        for k in range(status.size)
    ]
    return cells, [*notes, NO_WEIGHTS]


def _sizes(done: int) -> tuple[int, int, list[str]]:
    """Points of a curve and moments of what grows that fit into the page for so many cells."""
    room = _ROOM / _BYTES / max(1, done)
    full = 2 * POINTS + MOMENTS * (PARTS + 1)
    if room >= full:
        return POINTS, MOMENTS, []
    points = int(min(POINTS, room / 2))
    if points < 8:
        raise InputError(
            f"The store has {done:,} cells with curves, more than a page can hold. Open it with xarray and "
            "choose a part."
        )
    words = f"Curves are thinned to {points} points" if points < POINTS else "Curves are whole"
    return (
        points,
        0,
        [f"{words}, and what grows is left out, so that {done:,} cells fit into one page."],
    )


def _cell(one: dict[str, np.ndarray], points: int, moments: int) -> Record:
    known = np.isfinite(one["curve_time"])
    time, loss = one["curve_time"][known], one["curve_loss"][known]
    keep = moments_to_keep(time, loss, points)
    jumps = np.isfinite(one["stage_time"])
    times, levels = one["stage_time"][jumps], one["stage_loss"][jumps]
    last = float(times.max(initial=0.0))
    fallen = time[np.argmax(loss - loss.min() <= 1e-3 * (loss[0] - loss.min()))]
    found: Record = {
        "time": packed(time[keep], exact=False),
        "loss": packed(loss[keep], exact=False),
        "predicted": {
            "method": "as in the store",
            "initial_loss": float(loss[0]),
            "times": packed(times),
            "levels": packed(levels),
        },
        "end": float(min(time[-1], max(1.25 * last, 1.1 * fallen)) or time[-1]),
    }
    if _REACHED in one:
        found["reached"] = one[_REACHED][jumps].tolist()
    if moments:
        rows = np.isfinite(one["grown_time"])
        columns = np.isfinite(one["grown"][0])
        found["grown"] = {
            "time": packed(one["grown_time"][rows], exact=False),
            "values": packed(one["grown"][rows][:, columns], exact=False),
            "names": [f"part {k}" for k in range(int(columns.sum()))],
            "label": "the largest parts, units or modes",
            "of": int(columns.sum()),
        }
    return found


def _command(found: "xr.Dataset", setting: str, axes: list[Record]) -> Record:
    """The command of a cell, and what all cells have in common; empty where cells are no runs."""
    fixed = {k: v for k, v in found.attrs.get("fixed", {}).items() if k != "setting"}
    varied = [name for axis in axes for name in axis.get("columns", [axis["name"]])]
    if not setting or not {*fixed, *varied} <= run_options(setting).keys():
        return {"command": ""}
    return {"command": f"saddlewalk compare {setting}", "options": fixed}


def is_store(path: str | Path) -> bool:
    """Whether a folder looks like the store of a sweep.

    Parameters
    ----------
    path : a folder.
    """
    return any((Path(path) / name).exists() for name in (".zgroup", ".zmetadata", "zarr.json"))

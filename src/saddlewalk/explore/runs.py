"""A run as a page shows it: its loss, its stages, what grows, and its units at some moments.

Whatever knows a run will do: a comparison, a simulation, a prediction, the plateaus or the regime of a run.
"""

from typing import Any

import numpy as np

from saddlewalk.agreement import Agreement
from saddlewalk.curves import Stage
from saddlewalk.explore.packed import moments_to_keep, packed
from saddlewalk.explore.panels import panels_of
from saddlewalk.flow import Trajectory
from saddlewalk.flow.observed import what_grows
from saddlewalk.show.draw import end_of_fall
from saddlewalk.theory import Staircase

Record = dict[str, Any]
MOST_POINTS = 700
"""Points of a loss curve."""
_MOMENTS = (40, 160)
"""Moments at which a page has the weights: as many as there is room for."""
_ROOM = 40_000
"""Numbers of weights in a page."""
_MOST_GROWING = 24
"""Modes or units whose growth is drawn; the largest."""
NO_RUN = (
    "This is a prediction alone: `saddlewalk compare` with the same options has the run beside it."
)


def network_of_run(result: Any, name: str, command: str = "") -> Record:
    """A network with one run.

    Parameters
    ----------
    result : what `compare`, `train`, `predict`, `find_phases` or `find_regime` returned.
    name : what the page calls it.
    command : the command that made it, for the reader.
    """
    record = record_of(result)
    notes = [] if "time" in record else [NO_RUN]
    return {"name": name, "command": command, "axes": [], "cells": [record], "notes": notes}


def record_of(result: Any, *, most_moments: int | None = None, exact: bool = True) -> Record:
    """One run as JSON can hold it.

    Parameters
    ----------
    result : what `compare`, `train`, `predict`, `find_phases` or `find_regime` returned.
    most_moments : moments at which weights are kept, by default as there is room for; 0 for none.
    exact : all digits, or seven of them.
    """
    if isinstance(result, Agreement):
        return {
            **_simulated(result.observed, most_moments, exact, result.predicted),
            "predicted": _predicted(result.predicted),
            "reached": list(result.jump_times),
            "title": result.predicted.setting,
        }
    if isinstance(result, Staircase):
        times = result.jump_times
        return {
            "title": result.setting,
            "predicted": _predicted(result),
            "end": 1.25 * max(times, default=0.8),
        }
    path = result if isinstance(result, Trajectory) else result.path
    return {"title": path.info["setting"], **_simulated(path, most_moments, exact)}


def _predicted(stairs: Staircase) -> Record:
    return {
        "method": stairs.method,
        "initial_loss": stairs.initial_loss,
        "stages": list(map(_stage, stairs.stages)),
    }


def _stage(stage: Stage) -> Record:
    return {"time": stage.time, "loss": stage.loss, "learned": stage.learned}


def _simulated(
    path: Trajectory, most_moments: int | None, exact: bool, stairs: Staircase | None = None
) -> Record:
    end = view_end(path, stairs)
    keep = moments_to_keep(path.time, path.loss, MOST_POINTS, end)
    problem = path.known_problem
    chosen = _moments(path, most_moments, end)
    moments = path.data["saved"].values[chosen] if len(chosen) else np.zeros(0)
    keep = np.union1d(keep, np.flatnonzero(np.isin(path.time, moments)))
    found: Record = {
        "method": path.method,
        "time": packed(path.time[keep], exact=exact),
        "loss": packed(path.loss[keep], exact=exact),
        "floor": 0.0 if problem is None else float(problem.task.floor),
        "observed": list(map(_stage, path.stages)),
        "stopped": path.stopped.sentence,
        "end": end,
    }
    if "unit_output" in path.data:
        found["grown"] = _grown(path, keep, moments, exact, end)
    if problem is not None and len(chosen):
        found["moments"] = packed(moments, exact=exact)
        found["panels"] = panels_of(problem, path.parameters[chosen], exact=exact)
    return found


def _moments(path: Trajectory, most: int | None, end: float) -> np.ndarray:
    """Places of the moments whose weights are kept."""
    if path.known_problem is None:
        return np.zeros(0, dtype=int)
    if most is None:
        numbers = int(np.prod(path.parameters.shape[1:]))
        most = int(np.clip(_ROOM // max(1, numbers), *_MOMENTS))
    moments = path.data["saved"].values
    losses = np.interp(moments, path.time, path.loss)
    return moments_to_keep(moments, losses, most, end) if most else np.zeros(0, dtype=int)


def view_end(path: Trajectory, stairs: Staircase | None) -> float:
    """Where the picture ends at first: a little after the last jump.

    Parameters
    ----------
    path : a run.
    stairs : what was predicted for it, if anything.
    """
    stages = [*path.stages, *(() if stairs is None else stairs.stages)]
    levels = [float(path.loss[0]), *(stage.loss for stage in stages)]
    falls = end_of_fall(path.time, path.loss, levels)
    wanted = max([1.1 * falls, *(1.25 * stage.time for stage in stages)])
    return min(float(path.time[-1]), wanted) or float(path.time[-1])


def _grown(
    path: Trajectory, keep: np.ndarray, moments: np.ndarray, exact: bool, end: float
) -> Record:
    """What grows: modes, coefficients or outputs of units, the largest of them; also at these moments."""
    time, values, names, label = what_grows(path)
    if len(time) == len(path.time):
        chosen = keep
    else:
        losses = np.interp(time, path.time, path.loss)
        chosen = moments_to_keep(time, losses, MOST_POINTS, end)
        chosen = np.union1d(chosen, np.flatnonzero(np.isin(time, moments)))
    largest = np.sort(np.argsort(-np.abs(values).max(axis=0), kind="stable")[:_MOST_GROWING])
    return {
        "time": packed(time[chosen], exact=exact),
        "values": packed(values[np.ix_(chosen, largest)], exact=exact),
        "names": [names[k] for k in largest],
        "label": label,
        "of": len(names),
    }

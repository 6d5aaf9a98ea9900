"""What a simulated network did, in the words of the prediction: stages, units on and off."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlewalk.curves import Jump, LossCurve, Stage, find_jumps, turned_on
from saddlewalk.curves.stages import mode_name, with_names
from saddlewalk.tasks.base import modes_that_grew
from saddlewalk.units import Diagonal

if TYPE_CHECKING:
    from saddlewalk.flow import Trajectory


def loss_curve(path: "Trajectory") -> LossCurve:
    """The loss of a trajectory with its exact slope and curvature, where there are such.

    Parameters
    ----------
    path : a run. That of minibatches has a slope that is noise, one of somebody's own may have none at all.
    """
    if path.info["solver"] == "sgd" or "loss_rate" not in path.data:
        return LossCurve.of(path.time, path.loss)
    smooth = path.info["solver"] != "descent"  # finite steps do not follow the slope
    derivatives = [path.data[name].values for name in ("loss_rate", "loss_curvature")]
    curve = LossCurve.of(path.time, path.loss, *(derivatives if smooth else derivatives[:1]))
    curve = replace(curve, endless=bool(path.info.get("endless")))
    return curve.evened() if path.info.get("kinked") else curve


def observed_stages(path: "Trajectory") -> tuple[Stage, ...]:
    """The stages seen in a trajectory: jumps of the loss, and the units that turned on and off.

    Parameters
    ----------
    path : a simulation.
    """
    known = path.data.get("unit_output")  # a run of one's own has none
    output = np.zeros((len(path.time), 1)) if known is None else known.values
    eta = path.info.get("eta", math.nan)
    jumps = find_jumps(path.curve)
    modes = _modes_that_grew(path, jumps)
    stages = []
    for jump, mode in zip(jumps, modes, strict=True):
        before, after = output[jump.index_before], output[jump.index_after]
        units = turned_on(before, after)
        stages.append(
            Stage(
                time=jump.time,
                time_accelerated=jump.time / eta,
                loss=jump.after,
                units=units,
                dormant=turned_on(after, before),
                feature=mode or _units_that_grew(path, jump, units),
            )
        )
    return tuple(stages)


def _units_that_grew(path: "Trajectory", jump: Jump, units: tuple[int, ...]) -> dict[str, Any]:
    """Which units turned on: coordinates, or neurons with what the largest looks at if inputs have names."""
    grown = {"kind": "units", "index": list(units)}
    problem = path.known_problem
    if problem is None or not units:
        return grown
    row = int(np.argmin(np.abs(path.data["saved"].values - path.time[jump.index_after])))
    output, names = path.data["unit_output"].values[jump.index_after], problem.task.input_names
    first, *others = (
        with_names(problem.units.describe(problem.shapes, path.parameters[row][unit], unit), names)
        for unit in sorted(units, key=lambda unit: -output[unit])
    )
    if first["kind"] == "coordinate":
        return {**first, "others": others} if others else first
    return {**first, **grown} if names else grown


def _modes_that_grew(path: "Trajectory", jumps: Sequence[Jump]) -> list[dict[str, Any] | None]:
    """The modes of the task that each jump learned, or that took most of it, where the task has modes."""
    modes = path.info.get("modes")
    if modes is None:
        return [None] * len(jumps)
    moments, strength = path.data["saved"].values, path.data["strength"].values
    was, now = (
        strength[[int(np.argmin(np.abs(moments - path.time[k]))) for k in ends]]
        for ends in ([jump.index_before for jump in jumps], [jump.index_after for jump in jumps])
    )
    names = [{key: mode[key] for key in mode if key != "weight"} for mode in modes]
    features: list[dict[str, Any] | None] = []
    for learned, reached in zip(
        modes_that_grew([mode["weight"] for mode in modes], was, now), now, strict=True
    ):
        first, *others = (
            {**names[k], "strength": float(reached[k])} for k in learned.modes or [learned.lead]
        )
        features.append({**first, "others": others} if others else first)
    return features


def what_grows(path: "Trajectory") -> tuple[np.ndarray, np.ndarray, list[str], str]:
    """Moments, values, names, and what they are: modes of the task, coefficients, or outputs of units.

    Parameters
    ----------
    path : a simulation, which knows the outputs of its units.
    """
    data, modes = path.data, path.info.get("modes")
    if modes is not None:
        names = [mode_name(mode) or "" for mode in modes]
        return data["saved"].values, data["strength"].values, names, "part learned"
    problem = path.known_problem
    if problem is not None and isinstance(problem.units, Diagonal):
        beta = np.asarray(problem.units.coefficients(path.parameters))
        names = [*problem.task.input_names] or [f"coordinate {k}" for k in range(len(beta[0]))]
        return data["saved"].values, beta, names, "coefficient"
    output = data["unit_output"].values
    return data["time"].values, output, [f"unit {k}" for k in range(len(output[0]))], "output"

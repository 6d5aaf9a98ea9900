"""What a simulated network did, in the words of the prediction: stages, units on and off."""

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from saddlewalk.diagnose.plateaus import LossCurve, find_jumps
from saddlewalk.staircase import Stage

if TYPE_CHECKING:
    from saddlewalk.flow import Trajectory

_ON = 0.1
"""A unit is on where its output is at least this part of its largest output."""


def loss_curve(path: "Trajectory") -> LossCurve:
    """The loss of a trajectory with its exact slope."""
    return LossCurve.of(path.time, path.loss, path.data["loss_rate"].values)


def active_units(output: Float[np.ndarray, "time unit"]) -> Bool[np.ndarray, "time unit"]:
    """Which units are on, by their size in function space relative to their own largest."""
    return output >= _ON * np.maximum(output.max(axis=0), 1e-300)


def observed_stages(path: "Trajectory") -> tuple[Stage, ...]:
    """The stages seen in a trajectory: jumps of the loss, and the units that turned on and off."""
    curve = loss_curve(path)
    on = active_units(path.data["unit_output"].values)
    eta = path.info.get("eta", math.nan)
    stages = []
    for jump in find_jumps(curve):
        before = on[np.searchsorted(path.time, jump.plateau_before)]
        after = on[np.searchsorted(path.time, jump.plateau_after)]
        units = tuple(map(int, np.flatnonzero(after & ~before)))
        stages.append(
            Stage(
                time=jump.time,
                time_accelerated=jump.time / eta,
                loss=jump.after,
                units=units,
                dormant=tuple(map(int, np.flatnonzero(before & ~after))),
                feature={"kind": "units", "index": list(units)},
            )
        )
    return tuple(stages)

"""What a simulated network did, in the words of the prediction: stages, units on and off."""

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool

from saddlewalk.diagnose.plateaus import LossCurve, find_jumps
from saddlewalk.staircase import Stage

if TYPE_CHECKING:
    from saddlewalk.flow import Trajectory

_ON = 0.1
"""A unit is on where its output is at least this part of its largest output."""
_FAINT = 1e-3
"""A unit that never puts out this part of the target's size (1e-6 of the loss) is never on."""


def loss_curve(path: "Trajectory") -> LossCurve:
    """The loss of a trajectory with its exact slope and curvature."""
    smooth = path.info["solver"] not in ("descent", "sgd")  # finite steps do not follow the slope
    derivatives = [path.data[name].values for name in ("loss_rate", "loss_curvature")]
    return LossCurve.of(path.time, path.loss, *(derivatives if smooth else derivatives[:1]))


def active_units(path: "Trajectory") -> Bool[np.ndarray, "time unit"]:
    """Which units are on, by their size in function space relative to their own largest."""
    output = path.data["unit_output"].values
    faint = _FAINT * math.sqrt(2 * float(path.loss[0]))
    return output >= np.maximum(_ON * output.max(axis=0), faint)


def observed_stages(path: "Trajectory") -> tuple[Stage, ...]:
    """The stages seen in a trajectory: jumps of the loss, and the units that turned on and off."""
    curve = loss_curve(path)
    on = active_units(path)
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

"""What a simulated network did, in the words of the prediction: stages, units on and off."""

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from saddlewalk.diagnose.plateaus import LossCurve, find_jumps
from saddlewalk.staircase import Stage

if TYPE_CHECKING:
    from saddlewalk.flow import Trajectory

_SHARE = 0.1
"""A unit takes part in a jump if it changes by this part of the unit that changes most."""
_SMALL = 0.3
"""It turns on if it was this part of its later size before, and off the other way round."""


def loss_curve(path: "Trajectory") -> LossCurve:
    """The loss of a trajectory with its exact slope and curvature."""
    smooth = path.info["solver"] not in ("descent", "sgd")  # finite steps do not follow the slope
    derivatives = [path.data[name].values for name in ("loss_rate", "loss_curvature")]
    return LossCurve.of(path.time, path.loss, *(derivatives if smooth else derivatives[:1]))


def turned_on(
    before: Float[np.ndarray, " unit"], after: Float[np.ndarray, " unit"]
) -> tuple[int, ...]:
    """Units that turn on between two plateaus, by their lengths in function space there."""
    change = np.abs(after - before)
    on = (change >= _SHARE * change.max()) & (before <= _SMALL * after) & (after > 0)
    return tuple(map(int, np.flatnonzero(on)))


def observed_stages(path: "Trajectory") -> tuple[Stage, ...]:
    """The stages seen in a trajectory: jumps of the loss, and the units that turned on and off."""
    output = path.data["unit_output"].values
    eta = path.info.get("eta", math.nan)
    stages = []
    for jump in find_jumps(loss_curve(path)):
        before, after = output[jump.index_before], output[jump.index_after]
        units = turned_on(before, after)
        stages.append(
            Stage(
                time=jump.time,
                time_accelerated=jump.time / eta,
                loss=jump.after,
                units=units,
                dormant=turned_on(after, before),
                feature={"kind": "units", "index": list(units)},
            )
        )
    return tuple(stages)

"""Whether a training is a staircase, predicted and seen: a measure for phase diagrams."""

from typing import Any

import numpy as np

from saddlewalk.flow import train
from saddlewalk.tasks import linear_map
from saddlewalk.theory import predict
from saddlewalk.theory.optimizers.base import resting_share
from saddlewalk.units import Deep, Dense

_DIM = 4
_MOST_STEPS = 60_000


def linear_staircase(
    scale: float,
    optimizer: str = "flow",
    learning_rate: float = 2e-3,
    seed: int = 0,
    width: int = _DIM,
    depth: int = 2,
) -> dict[str, float]:
    """Part of the time of its fall that the loss of a linear network rests, predicted and seen.

    Parameters
    ----------
    scale : of the start.
    optimizer : its name, or "flow" for gradient flow.
    learning_rate : of the optimizer.
    seed : of the map and of the start.
    width : number of units, in each hidden layer.
    depth : layers of weights.
    """
    task = linear_map(_DIM, _DIM, decay=1.0, seed=seed)
    units = Dense(width, "linear") if depth == 2 else Deep.linear(depth, width)
    steps: dict[str, Any] = {}
    if optimizer != "flow":
        steps = {"optimizer": optimizer, "learning_rate": learning_rate}
    stairs = predict(task, units, scale, seed, progress=False, **steps)
    most = {"max_steps": _MOST_STEPS} if steps else {}
    path = train(task, units, scale, seed, progress=False, **steps, **most)
    assert stairs.curve is not None
    half = 0.5 * (path.loss[0] + path.loss.min())
    return {
        "rests_predicted": resting_share(*map(np.asarray, stairs.curve)),
        "rests_seen": resting_share(path.time, path.loss),
        "time_half": path.curve.crossing(float(half)),
        "stages": len(path.stages),
    }

"""When a network will leave the place where it is: the first stage that is predicted from its weights."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stopped
from saddlewalk.errors import InputError
from saddlewalk.problem import Problem, compiled
from saddlewalk.theory import predict

_LARGEST = 20_000
"""Parameters up to which a prediction is made unasked."""
_TRIES, _FURTHER = 4, 4.0
_ANY = 1e-3
"""A scale, which a start of one's own makes needless."""


def time_left(
    problem: Problem,
    theta: Float[np.ndarray, "width size"],
    horizon: float = math.inf,
    least: float = 0.0,
) -> float:
    """Time until the next jump of the loss; infinite if none will come, NaN if nobody knows.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` of the network as it is.
    horizon : a time by which it should have come. What follows it may cost far more, and is not asked for:
        a prediction goes twice as far as the jump, and further only if it has not come by then.
    least : a drop of the loss that counts; smaller ones are units in use that still settle.
    """
    if not problem.units.additive or theta.size > _LARGEST:
        return math.nan
    moving = np.any(theta != 0, axis=1)  # a unit of zeros never starts
    if not moving.any():
        return math.inf
    if not moving.all():
        if not problem.units.exchangeable:
            return math.nan
        return time_left(problem.resized(int(moving.sum())), theta[moving], horizon, least)
    for _ in range(_TRIES):
        found = _first_jump(problem, theta, 2 * horizon, least)
        if not horizon < found < math.inf:
            return found
        horizon *= _FURTHER
    return math.nan


def _first_jump(problem: Problem, theta: np.ndarray, end: float, least: float) -> float:
    """When the first stage comes that is predicted before the end; the end, if it is yet to come."""
    try:
        stairs = predict(
            problem.task,
            problem.units,
            _ANY,
            start=theta,
            rates=dict(problem.layer_rates),
            loss=problem.sample_loss,
            adaptive=problem.adaptive,
            max_time=end,
            progress=False,
        )
    except InputError:
        return math.nan
    before = float(compiled.loss_and_gradient(problem, jnp.asarray(theta))[0])
    for stage in stairs.stages:
        if before - stage.loss >= least:
            return stage.time
        before = stage.loss
    if stairs.stopped is Stopped.LIMIT:
        return end if math.isfinite(end) else math.nan
    return math.inf

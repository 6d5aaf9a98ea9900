r"""What mini-batches add to the first jump: it comes as early or late as they err about the first utility.

While a unit is dormant its logarithm grows in proportion to the time and to its utility on the samples of the
step (for degrees above 2 a negative power of it falls so). After N steps with B samples each it has seen the
mean of N B utilities :math:`s_i = \langle f(x_i; \hat\theta), r_i \rangle` of single samples, drawn with
replacement, instead of the mean of all. So the time at which it is felt spreads, relatively, by

.. math:: \frac{\mathrm{std}(s_i)}{\bar s \sqrt{N B}} .

Whatever the optimizer's momentum, N is the time over that of a step. Later plateaus inherit this and are
shaken by active units as well, which is not told.
"""

import math

import numpy as np
from jaxtyping import Float

from saddlewalk.optimizers import AbstractOptimizer
from saddlewalk.problem import Problem, compiled
from saddlewalk.programs import Bound
from saddlewalk.tasks import Samples
from saddlewalk.theory.base import Outcome, Start
from saddlewalk.theory.staircase import Assumption

_TURNS = 400
"""Steps in which dormant units turn to where they climb fastest,"""
_TURN = 0.3
"""each by so much of the largest climb."""
_LITTLE = 0.05


def batch_noise(
    start: Start, full: Problem, rule: AbstractOptimizer, batch: int, outcome: Outcome
) -> Assumption:
    """The hypothesis that mini-batches do as all data would.

    Parameters
    ----------
    start : where the units start.
    full : the problem with its samples.
    rule : the optimizer.
    batch : samples of a step.
    outcome : what is predicted for steps on all of them.
    """
    if not (rule.proportional and outcome.stages and start.given is None):
        assert isinstance(full.task, Samples)
        part = min(batch / len(full.task.weights), 1.0)
        return Assumption(
            "each step sees all data: part of them in a batch",
            part == 1,
            part,
            "1: what batches add is told for the first jump of descent and momentum from a small start alone",
        )
    steps = outcome.stages[0].time / rule.time_per_step
    spread = _variation(full, np.asarray(start.theta)) / math.sqrt(steps * batch)
    return Assumption(
        "batches hardly move the first jump: standard deviation of its time, as part of it",
        spread < _LITTLE,
        spread,
        f"below {_LITTLE:g}; later jumps are shaken by more, which is not told",
    )


def _variation(problem: Problem, theta: Float[np.ndarray, "width size"]) -> float:
    """Standard deviation over mean of the utility of single samples, for the unit that climbs fastest."""
    ask = Bound(problem)
    residual = np.asarray(ask(compiled.residual, 0 * theta))
    turned = theta / np.linalg.norm(theta, axis=1, keepdims=True)
    for _ in range(_TURNS):
        climb = np.asarray(ask(compiled.climb, turned, residual))
        turned = turned + _TURN * climb / np.abs(climb).max()
        turned = turned / np.linalg.norm(turned, axis=1, keepdims=True)
    climbing = np.sum(turned * np.asarray(ask(compiled.climb, turned, residual)), axis=1)
    alone = np.where(np.arange(len(turned))[:, None] == climbing.argmax(), turned, 0.0)
    outputs = np.asarray(ask(compiled.function, alone))
    assert isinstance(problem.task, Samples)
    weights = np.asarray(problem.task.weights)
    counted = weights > 0
    utility = np.sum(outputs * residual, axis=1)[counted] / weights[counted]
    mean = np.average(utility, weights=weights[counted])
    return float(np.sqrt(np.average((utility - mean) ** 2, weights=weights[counted])) / abs(mean))

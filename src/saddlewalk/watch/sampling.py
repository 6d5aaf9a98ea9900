r"""How much a forecast may be off because the probe is a sample of the data.

Along the gradient g on a probe of n samples the loss falls at the speed :math:`|g|^2 = \sum_i c_i`, where
sample i gives :math:`c_i = g_i \cdot g`. Another probe has another speed, by the standard deviation
:math:`\sqrt{n \operatorname{Var}(c)}`; and the data beyond the probe a lower one, because the training
ahead goes where this probe falls fastest: :math:`|g|^2` is too large by
:math:`\sum_i |g_i|^2` on average. The time until a drop is off by as much as the speed is. Both vanish where the
probe is all there is. With the residual r and the Jacobian J of the outputs, :math:`c = -r \cdot (J g)`,
and :math:`\sum_i |g_i|^2` is the mean of :math:`|J^\top (\varepsilon r)|^2` over random signs.
"""

import math

import numpy as np

from saddlewalk.landscape import AbstractLandscape
from saddlewalk.watch.rules import Vector

_SIGNS = 4
"""Draws of random signs."""


def sampling_doubt(
    landscape: AbstractLandscape, weights: Vector, samples: float = math.inf
) -> float:
    """Relative error of the speed at which the loss falls, by another probe.

    Parameters
    ----------
    landscape : the network with a probe and its loss, a mean over samples.
    weights : where the loss falls.
    samples : of the data that the probe is a part of.
    """
    count = landscape.sample_count
    missing = 1.0 - min(count / samples, 1.0)
    if missing == 0 or count < 2:
        return 0.0
    along, back = landscape.jacobian_at(weights)
    pull = landscape.residual(landscape.outputs(weights))
    force = back(pull)  # minus the gradient
    shares = np.sum(pull * along(force), axis=1)
    speed = float(np.sum(shares))
    if speed <= 0:
        return 0.0
    rng = np.random.default_rng(0)
    alone = [
        float(np.sum(back(pull * rng.choice([-1.0, 1.0], size=(count, 1))) ** 2))
        for _ in range(_SIGNS)
    ]
    by_chance = math.sqrt(count * float(np.var(shares))) / speed
    too_fast = min(float(np.mean(alone)) / speed, 1.0)
    return math.sqrt(missing * by_chance**2 + (missing * too_fast) ** 2)

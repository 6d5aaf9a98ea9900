"""Greedy low-rank learning (Li et al., Algorithm 3): levels by gradient flow on a growing rank."""

import math

import numpy as np

from saddlewalk.theory.linear.maps import (
    Covariances,
    Layers,
    Rates,
    descend,
    fastest_rate,
    loss_slope,
)

_STEP = 0.3
"""Length of a step within a jump, in e-folds of the fastest growth."""
_MOST_STEPS = 20_000
_SEED = 1e-6
"""Greedy low-rank learning starts a direction with this effect on the gradient."""
_STILL = 1e-3
"""It has settled when the loss falls at this part of the pace at which the direction started."""
_LONGER = 1.05
"""Growth of its steps: only the point where they end matters."""


def greedy_low_rank(covariances: Covariances, most: int) -> tuple[list[Layers], Rates]:
    """Algorithm 3 (Li et al.): add the gradient's top mode, let the flow of that rank settle, repeat.

    Returns the layers after 0, 1, 2, ... stages, and the singular values of the gradient there. It
    knows nothing of reduced rank regression, nor of which modes meet.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    most : stages after which to stop.
    """
    found = [Layers(covariances.basis[:0], covariances.target[:, :0])]
    rates: Rates = []
    while True:
        left, sigma, right = np.linalg.svd(covariances.gradient(found[-1]), full_matrices=False)
        rates.append(sigma)
        if len(found) > most or sigma[0] <= _SEED * rates[0][0]:
            return found, rates
        strength = _SEED * sigma[0] / np.linalg.norm(right[0] * covariances.variances)
        seed = Layers(math.sqrt(strength) * right[:1], math.sqrt(strength) * left[:, :1])
        pace = 2 * float(sigma[0] ** 2 * strength)
        found.append(_settle(covariances, found[-1].joined(seed), _STILL * pace))


def _settle(covariances: Covariances, layers: Layers, pace: float) -> Layers:
    """Gradient flow until the loss falls no faster than this."""
    efolds = _STEP
    for _ in range(_MOST_STEPS):
        gradient = covariances.gradient(layers)
        if loss_slope(layers, gradient) > -pace:
            break
        layers = descend(covariances, layers, efolds / fastest_rate(gradient))
        efolds *= _LONGER
    return layers

r"""Probabilities of classes from the outputs of a machine that was fitted to their codes.

On samples that were held out, one number a is found that makes

.. math:: p_c \propto e^{a f_c}

most likely (temperature scaling: Guo et al., 2017). It does not change which class is most likely. Where
nothing was held out, the probabilities are those nearest to the outputs.
"""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

_STEEPEST = 50.0
"""Outputs lie between 0 and 1: more is certainty."""


def steepness(outputs: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The a that makes the classes of held-out samples most likely.

    Parameters
    ----------
    outputs : one a class `(n, classes)`.
    labels : which class it is `(n,)`.
    weights : of the samples, or `None`.
    """

    def surprise(log_a: float) -> float:
        right = log_softmax(np.exp(log_a) * outputs, axis=1)[np.arange(len(labels)), labels]
        return -float(np.average(right, weights=weights))

    found = minimize_scalar(surprise, bounds=(np.log(1e-2), np.log(_STEEPEST)), method="bounded")
    return float(np.exp(found.x))


def probabilities(outputs: np.ndarray, a: float | None) -> np.ndarray:
    """One a class, from outputs `(n, classes)`; the nearest ones where `a` is `None`.

    Parameters
    ----------
    outputs : one a class `(n, classes)`.
    a : how steep.
    """
    return on_simplex(outputs) if a is None else softmax(a * outputs, axis=1)


def on_simplex(points: np.ndarray) -> np.ndarray:
    """Each row moved to the nearest one that is not negative and sums to 1.

    Parameters
    ----------
    points : `(n, classes)`.
    """
    falling = -np.sort(-points, axis=1)
    many = np.arange(1, points.shape[1] + 1)
    shifts = (np.cumsum(falling, axis=1) - 1) / many
    last = np.sum(falling > shifts, axis=1) - 1
    return np.maximum(points - shifts[np.arange(len(points)), last][:, None], 0)

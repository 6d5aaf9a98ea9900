"""Whether inputs are better divided by their spread: by the error on samples that are left out.

A bandwidth has the units of the inputs, so that a column in small units is not seen beside one in large ones.
Of pixels that is right, of a table it is not; what a column is nobody says. So it is tried, where spreads
differ at all: kernel ridge regression with the Laplace kernel leaves each sample out in closed form.
"""

from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from saddlewalk.features.lengths import typical_length

_UNEVEN = 3.0
"""Largest spread over the smallest, below which the metric learns the rest by itself."""
_MOST = 500
"""Samples that it is tried on, at most."""
_RIDGES = (1e-3, 1e-2, 1e-1, 1.0)


def divides(x: np.ndarray, spreads: np.ndarray, targets: np.ndarray, seed: Any) -> bool:
    """Whether inputs over their spreads leave a smaller error than inputs as they are.

    Parameters
    ----------
    x : inputs `(n, d)`.
    spreads : of each input, or of the block that it belongs to; 0 where it is constant.
    targets : what is to be predicted, `(n, c)`.
    seed : as scikit-learn takes it.
    """
    felt = spreads > 0
    if not felt.any() or spreads[felt].max() < _UNEVEN * spreads[felt].min():
        return False
    rows = check_random_state(seed).permutation(len(x))[:_MOST]
    some, y = x[rows][:, felt].astype(np.float64), targets[rows].astype(np.float64)
    return left_out_error(some / spreads[felt], y) < left_out_error(some, y)


def left_out_error(x: np.ndarray, targets: np.ndarray) -> float:
    """Mean squared error on samples that are left out one by one, with the best of some ridges.

    Parameters
    ----------
    x : inputs `(n, d)`.
    targets : what is to be predicted, `(n, c)`.
    """
    kernel = np.exp(-euclidean_distances(x) / typical_length(x, radial=True))
    values, vectors = np.linalg.eigh(kernel)
    along = vectors.T @ (targets - targets.mean(axis=0))
    errors = []
    for ridge in _RIDGES:
        inverse = 1 / (np.maximum(values, 0) + ridge)
        # what is missed without a sample is its coefficient over the diagonal of the inverse
        missed = vectors @ (inverse[:, None] * along) / (vectors**2 @ inverse)[:, None]
        errors.append(float(np.mean(missed**2)))
    return min(errors)

"""Units of data: how far apart samples are, which bandwidths are measured in, and how far targets spread."""

from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from saddlewalk.errors import InputError

_SOME = 1000
_ROUNDING = 1e-14


def length_scale(bandwidth: Any, x: np.ndarray, radial: bool) -> float:
    """The bandwidth as a number; of "auto" the one that is tried first.

    Parameters
    ----------
    bandwidth : a number, "median" or "auto".
    x : samples `(n, d)`.
    radial : whether distances count, or products.
    """
    if isinstance(bandwidth, str) and bandwidth == "auto":
        return typical_length(x, radial)
    if isinstance(bandwidth, str) and bandwidth == "median":
        return median_length(x, radial)
    if isinstance(bandwidth, str) or not np.isscalar(bandwidth):
        raise InputError(f"The bandwidth must be a number, 'auto' or 'median'; got {bandwidth!r}.")
    length: Any = bandwidth
    return float(length)


def typical_length(x: np.ndarray, radial: bool) -> float:
    """The root mean squared distance of two samples; for inner-product kernels the root mean squared norm.

    Parameters
    ----------
    x : samples `(n, d)`.
    radial : whether distances count, or products.
    """
    if radial:
        square = 2 * float(np.sum(np.var(x, axis=0, dtype=np.float64)))
    else:
        square = float(np.mean(np.einsum("ij,ij->i", x, x), dtype=np.float64))
    return float(np.sqrt(square)) if square > 0 else 1.0


def median_length(x: np.ndarray, radial: bool) -> float:
    """The median distance of some samples; for inner-product kernels the median norm.

    Parameters
    ----------
    x : samples `(n, d)`.
    radial : whether distances count, or products.
    """
    rng = np.random.default_rng(0)
    some = x[rng.choice(len(x), min(len(x), _SOME), replace=False)]
    if not radial:
        typical = float(np.median(np.linalg.norm(some, axis=1)))
    else:
        apart = euclidean_distances(some)[np.triu_indices(len(some), 1)]
        typical = float(np.median(apart)) if apart.size else 1.0
    return typical if typical > 0 else 1.0


def spreads(centered: np.ndarray, means: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Standard deviations of the columns; 1 where one is constant but for rounding.

    Parameters
    ----------
    centered : numbers `(n, c)`, less their means.
    means : these means `(c,)`.
    weights : of the samples, or `None`.
    """
    largest = np.max(np.abs(centered), axis=0)
    felt = largest > _ROUNDING * np.abs(means)
    largest = np.where(felt, largest, 1.0)
    # of numbers up to 1, whose squares are numbers
    roots = np.sqrt(np.average((centered / largest) ** 2, axis=0, weights=weights))
    return np.where(felt, largest * roots, 1.0)

"""How many samples one machine has, and in which precision: by their number and by what computes."""

from typing import Any

import numpy as np

from saddlewalk.features import solvers
from saddlewalk.features.arrays import Device

_LEAF = {False: (2_000, 10_000), True: (10_000, 30_000)}
_OPERATIONS = {False: 2.5e13, True: 9e14}
"""Samples of a leaf: of many samples so few that all leaves together take a third of these operations."""
_MANY = 2000
"""Samples from which on single precision is enough where the ridge is chosen: it is well above rounding."""


def leaf_for(model: Any, n: int, device: Device) -> int:
    """Samples of a leaf, at most.

    Parameters
    ----------
    model : an estimator.
    n : number of samples.
    device : what computes.
    """
    if model.solver in ("cholesky", "iterative"):
        return n
    if model.leaf_size != "auto":
        return int(model.leaf_size)
    least, most = _LEAF[device.accelerated]
    most = min(most, solvers.most_that_fit(device.xp, 8, copies=4))
    least = min(least, most)
    return int(np.clip((_OPERATIONS[device.accelerated] / n) ** 0.5, least, most))


def precision_for(model: Any, n: int, device: Device) -> str:
    """Single precision or double, by its name.

    Parameters
    ----------
    model : an estimator.
    n : number of samples.
    device : what computes.
    """
    if model.dtype != "auto":
        return str(np.dtype(model.dtype).name)
    single = model.ridge == "auto" and (n > _MANY or device.accelerated)
    return "float32" if single else "float64"

r"""Finite data: :math:`L = \sum_s w_s\, \ell(f(x_s), y_s)` with weights that sum to 1."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.tasks.base import AbstractPoints, Penalty

SHOWN = 5
LARGEST = 1e60


class Samples(AbstractPoints):
    """Inputs `(n, d)`, targets `(n, c)`, weights `(n,)`. Make one with `from_arrays`, which checks.

    Parameters
    ----------
    name : what tables call it.
    x : inputs, one row a sample.
    y : targets.
    weights : weights of the samples, with sum 1.
    """

    name: str = eqx.field(static=True)
    x: Float[np.ndarray | Array, "n d"]
    y: Float[np.ndarray | Array, "n c"]
    weights: Float[np.ndarray | Array, " n"]

    def cost(self, function: Float[Array, "n c"], penalty: Penalty) -> Float[Array, ""]:
        """Weighted mean of the penalty."""
        return jnp.sum(self.weights * jax.vmap(penalty)(function, jnp.asarray(self.y)))

    def mean(self, values: Float[Array, "n some"]) -> Float[Array, " some"]:
        """Weighted mean over the samples."""
        return jnp.asarray(self.weights) @ values


def from_arrays(x: Any, y: Any, weights: Any = None, name: str = "data") -> Samples:
    """A user's own data, checked: shapes, finite numbers, something to learn.

    Parameters
    ----------
    x : inputs `(n, d)`.
    y : targets `(n,)` or `(n, c)`.
    weights : how much each sample counts; all the same by default.
    name : what tables call it.
    """
    x, y = finite_numbers("X", x), finite_numbers("y", y)
    if x.ndim != 2:
        raise InputError(f"X must have two dimensions (samples, inputs); its shape is {x.shape}.")
    if y.ndim not in (1, 2):
        raise InputError(f"y must have one or two dimensions; its shape is {y.shape}.")
    if x.size == 0 or y.size == 0:
        raise InputError(f"The data are empty: X has shape {x.shape}, y has shape {y.shape}.")
    if len(x) != len(y):
        raise InputError(f"X has {len(x)} samples and y has {len(y)}; they must be equal.")
    y = y.reshape(len(y), -1)
    if not np.any(y):
        raise InputError("y is zero everywhere: there is nothing to learn.")
    return Samples(name, x, y, _checked_weights(weights, len(x)))


def finite_numbers(name: str, values: Any) -> np.ndarray:
    """An array of float64, or a sentence that says where it is not one.

    Parameters
    ----------
    name : what the sentence calls it.
    values : anything that holds numbers.
    """
    if np.iscomplexobj(values):
        raise InputError(f"{name} must hold real numbers; it holds complex ones.")
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers: {error}.") from error
    if array.size and np.nanmax(np.abs(array), initial=0.0, where=np.isfinite(array)) > LARGEST:
        raise InputError(
            f"{name} has entries above {LARGEST:g}, whose products overflow. Rescale it."
        )
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = ", ".join(str(tuple(map(int, index))) for index in bad[:SHOWN])
        raise InputError(
            f"{name} has {len(bad)} entries that are NaN or infinite, first at {where}."
        )
    return array


def _checked_weights(weights: Any, n: int) -> np.ndarray:
    if weights is None:
        return np.full(n, 1.0 / n)
    checked = finite_numbers("weights", weights)
    if checked.shape != (n,):
        raise InputError(f"weights must have shape ({n},); got {checked.shape}.")
    if checked.min() < 0 or checked.sum() == 0:
        raise InputError("weights must be non-negative and not all zero.")
    return checked / checked.sum()


def refuse_constant_columns(task: Samples) -> None:
    """Refuse inputs that carry nothing of their own; a network with a bias may want them.

    Parameters
    ----------
    task : the samples.
    """
    x = np.asarray(task.x)
    bad = np.flatnonzero(np.ptp(x, axis=0) == 0) if len(x) > 1 else np.flatnonzero(x[0] == 0)
    if len(bad):
        columns = ", ".join(map(str, bad[:SHOWN]))
        raise InputError(
            f"X has {len(bad)} columns that are constant (numbered from 0: {columns}). Remove them: "
            "the network learns nothing from them, or cannot tell them from a bias."
        )

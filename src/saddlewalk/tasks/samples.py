r"""Finite data: :math:`L = \sum_s w_s\, \ell(f(x_s), y_s)` with weights that sum to 1."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.tasks.base import AbstractPoints, SampleLoss

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
    names : what the inputs are called; empty if they have no names.
    labels : what the outputs are called, where targets are words; else empty.
    """

    name: str = eqx.field(static=True)
    x: Float[np.ndarray | Array, "n d"]
    y: Float[np.ndarray | Array, "n c"]
    weights: Float[np.ndarray | Array, " n"]
    names: tuple[str, ...] = eqx.field(static=True, default=(), kw_only=True)
    labels: tuple[str, ...] = eqx.field(static=True, default=(), kw_only=True)

    def cost(self, function: Float[Array, "n c"], loss: SampleLoss) -> Float[Array, ""]:
        """Weighted mean of the loss of each."""
        return jnp.sum(self.weights * jax.vmap(loss)(function, jnp.asarray(self.y)))

    def mean(self, values: Float[Array, "n some"]) -> Float[Array, " some"]:
        """Weighted mean over the samples."""
        return jnp.asarray(self.weights) @ values


def from_arrays(
    x: Any, y: Any, weights: Any = None, name: str = "data", names: Any = None
) -> Samples:
    """A user's own data, checked: shapes, finite numbers, something to learn.

    Parameters
    ----------
    x : inputs `(n, d)`: an array, or a DataFrame, whose columns give the names.
    y : targets `(n,)` or `(n, c)`; `(n,)` words are labels, of which each becomes an output.
    weights : how much each sample counts; all the same by default.
    name : what tables call it.
    names : what the inputs are called, `d` words.
    """
    given = getattr(x, "columns", None) if names is None else names
    x = finite_numbers("X", x, () if given is None else [*map(str, given)])
    labels = labels_in(y) if _are_words(y) else ()
    y = one_hot(y) if labels else finite_numbers("y", y)
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
    called = checked_names(given, x.shape[1])
    return Samples(name, x, y, _checked_weights(weights, len(x)), names=called, labels=labels)


def checked_names(names: Any, inputs: int) -> tuple[str, ...]:
    """What the inputs are called, one word each; empty if they have no names.

    Parameters
    ----------
    names : words; `None` for none.
    inputs : how many there must be.
    """
    words = () if names is None else tuple(map(str, np.ravel(names)))
    if words and len(words) != inputs:
        raise InputError(f"`names` must name {inputs} inputs; there are {len(words)} names.")
    return words


def one_hot(labels: Any) -> np.ndarray:
    """An output for each label, in the order of the alphabet: 1 where it is meant, 0 elsewhere.

    Parameters
    ----------
    labels : `(n,)` words.
    """
    kinds = labels_in(labels)
    if len(kinds) < 2:
        raise InputError(f"The target has a single label, '{kinds[0]}': there is nothing to learn.")
    return (np.array(_words(labels))[:, None] == np.array(kinds)).astype(np.float64)


def labels_in(labels: Any) -> tuple[str, ...]:
    """The different labels, in the order of the alphabet.

    Parameters
    ----------
    labels : `(n,)` words.
    """
    return tuple(sorted({*_words(labels)}))


def _words(labels: Any) -> list[str]:
    return [one.decode() if isinstance(one, bytes) else str(one) for one in labels]


def _are_words(values: Any) -> bool:
    array = np.asarray(values)
    return array.ndim == 1 and array.size > 0 and all(isinstance(one, str | bytes) for one in array)


def finite_numbers(
    name: str,
    values: Any,
    columns: Sequence[str] = (),
    remedy: str = "Fill them in, or leave out these rows.",
) -> np.ndarray:
    """An array of float64, or a sentence that says where it is not one.

    Parameters
    ----------
    name : what the sentence calls it.
    values : anything that holds numbers.
    columns : what its columns are called; empty if they have no names.
    remedy : what to do about numbers that are not finite.
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
        column = bad[0][1] if array.ndim == 2 and bad[0][1] < len(columns) else None
        named = "" if column is None else f" (row {bad[0][0]} of column '{columns[column]}')"
        raise InputError(
            f"{name} has {len(bad)} entries that are NaN or infinite, first at {where}{named}, counted from "
            f"0. {remedy}"
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


def standardized(task: Any, targets: bool = True) -> Samples:
    """The same data with mean 0 and variance 1 in every column of inputs and targets.

    Constant columns stay as they are: there is no other scale for them.

    Parameters
    ----------
    task : samples; moments and tasks in closed form have no columns to standardize.
    targets : whether targets, too; not those that are classes to the loss.
    """
    if not isinstance(task, Samples):
        raise InputError(
            f"'{task.name}' is given by its moments, not by samples: there are no columns to `standardize`."
        )
    weights = np.asarray(task.weights)
    x = _standard(np.asarray(task.x), weights)
    y = _standard(np.asarray(task.y), weights) if targets else task.y
    return Samples(task.name, x, y, task.weights, names=task.names, labels=task.labels)


def _standard(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    mean = weights @ values
    spread = np.sqrt(weights @ (values - mean) ** 2)
    constant = np.ptp(values, axis=0) == 0
    return np.where(constant, values, (values - mean) / np.where(constant, 1.0, spread))

r"""Finite data: :math:`L = \sum_s w_s\, \ell(f(x_s), y_s) + L_0` with weights that sum to 1."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.tasks.base import AbstractTask, Answer, Penalty

SHOWN = 5


class Samples(AbstractTask):
    """Inputs `(n, d)`, targets `(n, c)`, weights `(n,)`; `offset` is a loss no function can avoid.

    Make one with `from_arrays` or `from_moments`, which check the input.
    """

    name: str = eqx.field(static=True)
    x: Float[np.ndarray | Array, "n d"]
    y: Float[np.ndarray | Array, "n c"]
    weights: Float[np.ndarray | Array, " n"]
    offset: float | Array = 0.0

    @property
    def inputs(self) -> int:
        """Columns of x."""
        return self.x.shape[1]

    @property
    def outputs(self) -> int:
        """Columns of y."""
        return self.y.shape[1]

    def represent(self, answer: Answer) -> Float[Array, "n c"]:
        """A function is its values on the samples."""
        return jax.vmap(answer)(jnp.asarray(self.x))

    def cost(self, function: Float[Array, "n c"], penalty: Penalty) -> Float[Array, ""]:
        """Weighted mean of the penalty."""
        return (
            jnp.sum(self.weights * jax.vmap(penalty)(function, jnp.asarray(self.y))) + self.offset
        )

    def length(self, function: Float[Array, "n c"]) -> Float[Array, ""]:
        """Root mean square over the samples."""
        return jnp.sqrt(jnp.sum(self.weights * jnp.sum(function**2, axis=1)))


def from_arrays(x: Any, y: Any, weights: Any = None, name: str = "data") -> Samples:
    """A user's own data, checked: shapes, finite numbers, no empty or constant columns."""
    x, y = _numbers("X", x), _numbers("y", y)
    if x.ndim != 2:
        raise InputError(f"X must have two dimensions (samples, inputs); its shape is {x.shape}.")
    if y.ndim not in (1, 2):
        raise InputError(f"y must have one or two dimensions; its shape is {y.shape}.")
    if x.size == 0 or y.size == 0:
        raise InputError(f"The data are empty: X has shape {x.shape}, y has shape {y.shape}.")
    if len(x) != len(y):
        raise InputError(f"X has {len(x)} samples and y has {len(y)}; they must be equal.")
    y = y.reshape(len(y), -1)
    _refuse_columns("X", np.ptp(x, axis=0) == 0, "constant", x.shape[0] > 1)
    _refuse_columns("X", np.all(x == 0, axis=0), "zero everywhere", True)
    if not np.any(y):
        raise InputError("y is zero everywhere: there is nothing to learn.")
    return Samples(name, x, y, _checked_weights(weights, len(x)))


def from_moments(xx: Any, yx: Any, yy: Any = None, name: str = "moments") -> Samples:
    r"""A population problem from :math:`\Sigma_{xx}`, :math:`\Sigma_{yx}` (and :math:`\Sigma_{yy}`).

    For units linear in x the expected squared loss depends on these alone. It equals the loss on
    the d virtual samples :math:`\tilde x = \Lambda^{1/2} V^\top` with targets
    :math:`\Lambda^{-1/2} V^\top \Sigma_{xy}` plus the part of :math:`\Sigma_{yy}` that no linear
    map explains: exact, with no subtraction of large numbers when the loss is small.
    """
    xx, yx = _numbers("Sigma_xx", xx), _numbers("Sigma_yx", yx)
    yx = yx.reshape(-1, yx.shape[-1])
    if xx.ndim != 2 or xx.shape[0] != xx.shape[1] or yx.shape[1] != xx.shape[0]:
        raise InputError(
            f"Sigma_xx must be (d, d) and Sigma_yx (c, d); got {xx.shape}, {yx.shape}."
        )
    if not np.allclose(xx, xx.T, rtol=1e-10, atol=1e-12 * np.abs(xx).max()):
        raise InputError("Sigma_xx must be symmetric.")
    values, vectors = np.linalg.eigh((xx + xx.T) / 2)
    tiny = values.max() * len(values) * np.finfo(float).eps * 10
    if values.max() <= 0 or values.min() < -tiny:
        raise InputError(
            f"Sigma_xx must be positive semi-definite; an eigenvalue is {values.min():.3g}."
        )
    keep = values > tiny
    root, basis = np.sqrt(values[keep]), vectors[:, keep]
    targets = (yx @ basis / root).T
    if not np.allclose(targets.T * root @ basis.T, yx, rtol=1e-7, atol=1e-9 * np.abs(yx).max()):
        raise InputError("Sigma_yx is not in the range of Sigma_xx: no data have these moments.")
    explained = float(np.sum(targets**2))
    total = explained if yy is None else float(np.trace(np.atleast_2d(_numbers("Sigma_yy", yy))))
    if total < explained * (1 - 1e-9):
        raise InputError(
            "Sigma_yy is smaller than what Sigma_yx explains: no data have these moments."
        )
    return Samples(
        name,
        root[:, None] * basis.T,
        targets,
        np.ones(len(root)),  # expectations, not means: each virtual sample counts fully
        0.5 * max(total - explained, 0.0),
    )


def compress(task: Samples) -> Samples:
    """The same squared loss for linear functions on at most d samples (QR, so nothing is squared)."""
    n, d = task.x.shape
    if n <= d:
        return task
    root = np.sqrt(task.weights)[:, None]
    q, r = np.linalg.qr(root * task.x)
    targets = q.T @ (root * task.y)
    lost = 0.5 * float(np.sum((root * task.y - q @ targets) ** 2))
    return Samples(task.name, r, targets, np.ones(d), task.offset + lost)


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers: {error}.") from error
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
    checked = _numbers("weights", weights)
    if checked.shape != (n,):
        raise InputError(f"weights must have shape ({n},); got {checked.shape}.")
    if checked.min() < 0 or checked.sum() == 0:
        raise InputError("weights must be non-negative and not all zero.")
    return checked / checked.sum()


def _refuse_columns(name: str, bad: np.ndarray, what: str, applies: bool) -> None:
    if applies and bad.any():
        columns = ", ".join(map(str, np.flatnonzero(bad)[:SHOWN]))
        raise InputError(
            f"{name} has {int(bad.sum())} columns that are {what} (numbered from 0: {columns}). "
            "Remove them: the network cannot tell them from a bias, or learns nothing from them."
        )

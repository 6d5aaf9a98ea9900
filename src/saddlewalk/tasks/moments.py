r"""Second moments: all that a linear function under a squared loss can see of the data.

.. math:: L(\beta) = \tfrac12 E|y - \beta x|^2 = \tfrac12 \sum_a |\beta \tilde x_a - \tilde y_a|^2 + L_0

with at most d virtual samples :math:`\tilde x_a`: exact, and with no difference of large numbers when
the loss is small.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.tasks.base import AbstractPoints, Modes, SampleLoss
from saddlewalk.tasks.samples import Samples, checked_names, finite_numbers

_FAINT = 1e-12


class Moments(AbstractPoints):
    """Virtual samples `(m, d)` with targets `(m, c)`, and the loss `offset` that no map avoids.

    All numbers are arrays: a plain float would be compiled into the program.

    Parameters
    ----------
    name : what tables call it.
    x, y : virtual samples and their targets.
    offset : the loss that no linear map avoids.
    names : what the inputs are called; empty if they have no names.
    labels : what the outputs are called, where targets are words; else empty.
    """

    name: str = eqx.field(static=True)
    x: Float[np.ndarray | Array, "m d"]
    y: Float[np.ndarray | Array, "m c"]
    offset: Float[np.ndarray | Array, ""]
    names: tuple[str, ...] = eqx.field(static=True, default=(), kw_only=True)
    labels: tuple[str, ...] = eqx.field(static=True, default=(), kw_only=True)

    linear_in: ClassVar[str] = "input"
    """What units must be linear in, for these points to carry everything."""

    @property
    def floor(self) -> Float[np.ndarray | Array, ""] | float:
        """What no linear map avoids."""
        return self.offset

    def cost(self, function: Float[Array, "m c"], loss: SampleLoss) -> Float[Array, ""]:
        """The expected squared loss; `Problem` sees to it that the loss is that one."""
        return 0.5 * jnp.sum((function - self.y) ** 2) + self.offset

    def mean(self, values: Float[Array, "m some"]) -> Float[Array, " some"]:
        """Expectation: virtual samples carry their weights."""
        return jnp.sum(values, axis=0)

    def modes(self) -> Modes:
        r"""Singular modes of the best linear map, in the norm of the loss.

        Their squared values are the eigenvalues :math:`\mu_i` of
        :math:`\Sigma_{yx} \Sigma_{xx}^{-1} \Sigma_{yx}^\top` (Conjecture 4.1).
        """
        fitted = np.asarray(self.x) @ np.linalg.lstsq(self.x, self.y, rcond=None)[0]
        left, values, right = np.linalg.svd(fitted, full_matrices=False)
        keep = values > _FAINT * values[0]
        parts = np.einsum("mk,k,kc->kmc", left[:, keep], values[keep], right[keep])
        names = tuple(
            {"kind": "singular-mode", "index": k, "value": float(value)}
            for k, value in enumerate(values[keep])
        )
        return Modes(names, parts)


def from_moments(
    xx: Any, yx: Any, yy: Any = None, name: str = "moments", names: Any = None
) -> Moments:
    r"""A population problem from :math:`\Sigma_{xx}`, :math:`\Sigma_{yx}` (and :math:`\Sigma_{yy}`).

    For units linear in x the expected squared loss depends on these alone. It equals the loss on
    the d virtual samples :math:`\tilde x = \Lambda^{1/2} V^\top` with targets
    :math:`\Lambda^{-1/2} V^\top \Sigma_{xy}` plus the part of :math:`\Sigma_{yy}` that no linear
    map explains: exact, with no subtraction of large numbers when the loss is small.

    Parameters
    ----------
    xx : covariance of the inputs `(d, d)`.
    yx : cross-covariance `(c, d)`.
    yy : covariance of the targets; without it the best linear map has loss 0.
    name : what tables call it.
    names : what the inputs are called, `d` words.
    """
    xx, yx = finite_numbers("Sigma_xx", xx), finite_numbers("Sigma_yx", yx)
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
    total = (
        explained if yy is None else float(np.trace(np.atleast_2d(finite_numbers("Sigma_yy", yy))))
    )
    if total < explained * (1 - 1e-9):
        raise InputError(
            "Sigma_yy is smaller than what Sigma_yx explains: no data have these moments."
        )
    unavoidable = np.asarray(0.5 * max(total - explained, 0.0))
    called = checked_names(names, len(xx))
    return Moments(name, root[:, None] * basis.T, targets, unavoidable, names=called)


def compress(task: Samples) -> Moments:
    """The moments of finite data, by QR, so that nothing is squared.

    Parameters
    ----------
    task : the samples.
    """
    x, y = np.asarray(task.x), np.asarray(task.y)
    root = np.sqrt(np.asarray(task.weights))[:, None]
    if len(x) <= x.shape[1]:
        return Moments(
            task.name, root * x, root * y, np.zeros(()), names=task.names, labels=task.labels
        )
    q, r = np.linalg.qr(root * x)
    targets = q.T @ (root * y)
    # what is left of targets that no map explains at all would be learned, in the end
    targets[:, np.linalg.norm(targets, axis=0) <= 1e-14 * np.linalg.norm(root * y, axis=0)] = 0.0
    lost = float(np.linalg.norm(root * y - q @ targets))
    rounding = 1e-13 * float(np.linalg.norm(targets))
    floor = np.asarray(0.5 * lost**2 if lost > rounding else 0.0)
    return Moments(task.name, r, targets, floor, names=task.names, labels=task.labels)

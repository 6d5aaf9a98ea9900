"""Least squares in the coefficients: what a diagonal network sees of its task (Eq 5)."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from saddlewalk.tasks import Moments, Samples, compress

_REST = 1e-10
"""A gradient this small, relative to the largest possible one, is zero."""
_FAINT = 1e-12
"""A coefficient whose part of the prediction is this small, relatively, is zero."""

Vector = Float[np.ndarray, " d"]


@dataclass(frozen=True)
class Regression:
    """Least squares in function space: :math:`L(\\beta) = \\frac12 |A\\beta - b|^2 + L_0`."""

    design: Float[np.ndarray, "n d"]
    target: Float[np.ndarray, " n"]
    offset: float

    @classmethod
    def of(cls, task: Samples | Moments) -> "Regression":
        """The regression behind a task with one output."""
        moments = task if isinstance(task, Moments) else compress(task)
        return cls(np.asarray(moments.x), np.asarray(moments.y)[:, 0], float(moments.offset))

    @cached_property
    def lengths(self) -> Vector:
        """Length of each column of the design; 1 for one of zeros, which is never learned."""
        lengths = np.linalg.norm(self.design, axis=0)
        return np.where(lengths > 0, lengths, 1.0)

    @cached_property
    def size(self) -> float:
        """Length of the target."""
        return float(np.linalg.norm(self.target))

    @cached_property
    def _noise(self) -> Vector:
        """Gradients that are rounding error."""
        return _REST * self.size * self.lengths

    def loss(self, beta: Vector) -> float:
        """Half the squared distance (zero where it is rounding error), and what no beta can avoid."""
        missed = self.design @ beta - self.target
        distance = math.sqrt(missed @ missed)
        return self.offset + (0.0 if distance <= _FAINT * self.size else 0.5 * distance**2)

    def gradient(self, beta: Vector) -> Vector:
        """Gradient in the coefficients, exactly zero where it is rounding error."""
        gradient = (self.design @ beta - self.target) @ self.design
        return np.where(np.abs(gradient) > self._noise, gradient, 0.0)

    def minimize(self, sign: Vector) -> Vector:
        """Eq 5: the minimum with `sign_i beta_i >= 0` where sign is +-1 and `beta_i = 0` where it is 0.

        If the plain minimum over the active coefficients keeps their signs it is the one; else the
        support comes from non-negative least squares, and the values from a plain solve on it.
        """
        active = np.flatnonzero(sign)
        beta = np.zeros(len(sign))
        if len(active) == 0:
            return beta
        beta[active] = np.linalg.lstsq(self.design[:, active], self.target, rcond=None)[0]
        if not (np.sign(beta[active]) == sign[active]).all():
            from scipy.optimize import nnls

            size, _ = nnls(self.design[:, active] * sign[active], self.target)
            support = active[size > 0]
            beta = np.zeros(len(sign))
            beta[support] = np.linalg.lstsq(self.design[:, support], self.target, rcond=None)[0]
        return np.where(self.felt(np.abs(beta)), beta, 0.0)

    def felt(self, size: Vector) -> Bool[np.ndarray, " d"]:
        """Which coefficients of these sizes are above zero, and not by rounding."""
        return size * self.lengths > _FAINT * self.size

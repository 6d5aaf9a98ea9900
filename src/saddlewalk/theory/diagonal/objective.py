r"""Any convex loss of the coefficients: :math:`L(\beta) = \sum_s w_s\, \ell(\beta \cdot x_s, y_s)`.

It offers what `sequence` asks of a `Regression`: gradient, loss, and the minimum under sign constraints
(Eq 5), which may lie at infinity. There the gradient is zero, and the loss its infimum.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.losses import AbstractLoss
from saddlewalk.problem import Problem
from saddlewalk.programs import compiled
from saddlewalk.tasks import Samples

_REST = 1e-7
"""A gradient this small, relative to the one at zero, is none."""
_FAINT = 1e-6
"""A coefficient that adds this part of the largest to the output is zero."""
_NOTHING = 1e-5
"""Part of the loss at zero below which the rest lies at infinity."""

Vector = Float[np.ndarray, " d"]


@dataclass(frozen=True)
class Objective:
    """A loss as a function of coefficients."""

    loss_of_sample: AbstractLoss
    design: Float[np.ndarray, "n d"]
    targets: Float[np.ndarray, "n 1"]
    weights: Float[np.ndarray, " n"]
    infimum: float

    @classmethod
    def of(cls, problem: Problem) -> "Objective":
        """The objective behind samples with one output."""
        task = problem.task
        assert isinstance(task, Samples)
        x, y, weights = (np.asarray(one, dtype=float) for one in (task.x, task.y, task.weights))
        return cls(problem.sample_loss, x, y, weights, problem.infimum or 0.0)

    def loss(self, beta: Vector) -> float:
        """The loss at these coefficients."""
        return self._both(beta)[0]

    def gradient(self, beta: Vector) -> Vector:
        """Its gradient, exactly zero where little is left of it, or where the minimum lies at infinity."""
        loss, gradient = self._both(beta)
        first, steepest = self._both(np.zeros_like(beta))
        if loss - self.infimum <= _NOTHING * (first - self.infimum):
            return np.zeros_like(beta)
        return np.where(np.abs(gradient) > _REST * np.abs(steepest).max(), gradient, 0.0)

    def minimize(self, sign: Vector) -> Vector:
        """The minimum with `sign_i beta_i >= 0` where sign is +-1 and `beta_i = 0` where it is 0."""
        from scipy.optimize import minimize

        active = np.flatnonzero(sign)
        beta = np.zeros(len(sign))
        if len(active) == 0:
            return beta

        def cost(some: np.ndarray) -> tuple[float, np.ndarray]:
            beta[active] = some
            loss, gradient = self._both(beta)
            return loss, gradient[active]

        bounds = [(0, None) if sign[k] > 0 else (None, 0) for k in active]
        options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-11}
        found = minimize(
            cost, 0.1 * sign[active], jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        beta = np.zeros(len(sign))
        beta[active] = found.x
        felt = np.abs(beta) * np.abs(self.design).max(axis=0)
        return np.where(felt > _FAINT * felt.max(initial=0.0), beta, 0.0)

    def _both(self, beta: Vector) -> tuple[float, Vector]:
        arrays = (self.design, self.targets, self.weights)
        loss, gradient = _loss_and_gradient(self.loss_of_sample, *arrays, beta)
        return float(loss), np.asarray(gradient)


@compiled
def _loss_and_gradient(
    sample_loss: AbstractLoss, design: Any, targets: Any, weights: Any, beta: Any
) -> tuple[Array, Array]:
    def cost(beta: Array) -> Array:
        outputs = (jnp.asarray(design) @ beta)[:, None]
        return jnp.sum(weights * jax.vmap(sample_loss)(outputs, jnp.asarray(targets)))

    return jax.value_and_grad(cost)(jnp.asarray(beta))

r"""Squared error, :math:`\ell = \frac12 |f - y|^2`: the residual is what is missing, :math:`r = y - f`."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.losses.base import AbstractLoss, Targets


class SquaredError(AbstractLoss):
    """Half the squared distance."""

    curvature = 1.0

    def __call__(self, output: Float[Array, " c"], target: Float[Array, " c"]) -> Float[Array, ""]:
        """1/2 |y - f|^2."""
        return 0.5 * jnp.sum((target - output) ** 2)

    def infimum(self, targets: Targets) -> Float[np.ndarray, " n"]:
        """Zero, at the target."""
        return np.zeros(len(targets))

r"""Huber's loss: half the square of what is off by less than delta, and a line beyond.

The residual of each output is clipped, :math:`r = \max(-\delta, \min(\delta, y - f))`: an outlier pulls no
more than a sample that is off by delta.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError, check_number
from saddlewalk.losses.base import AbstractLoss, Targets


class Huber(AbstractLoss):
    """Huber's loss, summed over outputs.

    Parameters
    ----------
    delta : where the parabola becomes a line.
    """

    delta: float = 1.0

    curvature = 1.0

    def __check_init__(self) -> None:
        check_number("delta", self.delta)
        if not 0 < self.delta < np.inf:
            raise InputError(f"`delta` of Huber's loss must be positive; got {self.delta}.")

    def __call__(self, output: Float[Array, " c"], target: Float[Array, " c"]) -> Float[Array, ""]:
        """1/2 e^2 where |e| < delta, and delta (|e| - delta/2) beyond."""
        off = jnp.abs(target - output)
        near = jnp.minimum(off, self.delta)
        return jnp.sum(near * (off - 0.5 * near))

    def infimum(self, targets: Targets) -> Float[np.ndarray, " n"]:
        """Zero, at the target."""
        return np.zeros(len(targets))

r"""A loss :math:`\ell(f, y)` of one output against one target, and what the theory asks of it.

Alternating Gradient Flows see a loss through its **slope** alone: :math:`r = -\nabla_f \ell`, and at first
:math:`r_0 = -\nabla_f \ell(0, y)`, which decides what is learned first. How a stage *ends* is decided by the
minimum: where it is, and whether it is anywhere. Cross-entropy of a label has none: its infimum 0 is
approached as the outputs grow for ever.
"""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float

Targets = Float[np.ndarray | Array, "n c"]
Encoded = Float[np.ndarray | Array, "n outputs"]


class AbstractLoss(eqx.Module):
    """What one output costs against one target: any differentiable function.

    A loss of one's own needs `__call__` alone; what else is known about it makes predictions sharper.
    """

    classifies: ClassVar[bool] = False
    """Whether targets are classes, so that a sample is on its right side or not."""

    curvature: ClassVar[float | None] = None
    """The largest second derivative along any direction of the outputs; `None` if it is not known."""

    @abc.abstractmethod
    def __call__(self, output: Float[Array, " c"], target: Float[Array, " c"]) -> Float[Array, ""]:
        """The loss of one sample."""

    def slope(self, output: Float[Array, " c"], target: Float[Array, " c"]) -> Float[Array, " c"]:
        """The gradient in the output; minus it is what dormant units feel.

        Parameters
        ----------
        output : of the network, for one sample.
        target : of this sample.
        """
        return jax.grad(self)(output, target)

    def encode(self, targets: Targets) -> Encoded:
        """Targets as this loss reads them, `(n, c)`; a sentence where they are none.

        Parameters
        ----------
        targets : as the data hold them, `(n, c)`: numbers, labels in one column, or one column a class.
        """
        return targets

    def infimum(self, targets: Targets) -> Float[np.ndarray, " n"] | None:
        """The lowest loss of each sample over all outputs; `None` if it is not known.

        Parameters
        ----------
        targets : as `encode` gives them.
        """
        return None

    def attained(self, targets: Targets) -> Bool[np.ndarray, " n"]:
        """Whether that is the loss of some finite output, and not a limit.

        Parameters
        ----------
        targets : as `encode` gives them.
        """
        return np.ones(len(targets), dtype=bool)

    def margins(self, outputs: Targets, targets: Targets) -> Float[np.ndarray, " n"] | None:
        """How far each sample is on its right side; `None` where targets are no classes.

        Parameters
        ----------
        outputs : of the network.
        targets : as `encode` gives them.
        """
        return None

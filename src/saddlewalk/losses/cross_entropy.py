r"""Cross-entropy of logits, :math:`\ell = -\sum_c y_c \log \operatorname{softmax}(f)_c`.

The residual is the probability that is missing, :math:`r = y - \operatorname{softmax}(f)`; at zero it is
:math:`y - 1/c`: what is learned first is told by the classes' frequencies and means alone. The loss is flat
along :math:`(1, \dots, 1)`, and curved by 1/2 at most. Of a label the infimum is 0, at infinity; of
probabilities that are all positive it is their entropy, at :math:`f = \log y`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.special import xlogy

from saddlewalk.errors import InputError
from saddlewalk.losses.base import AbstractLoss, Encoded, Targets
from saddlewalk.losses.labels import classes_in, indicators

_ROUNDING = 1e-6


class CrossEntropy(AbstractLoss):
    """The cross-entropy of logits against probabilities (one-hot for labels).

    Parameters
    ----------
    offset : what is added to all logits, as an output bias that is held fixed.
    """

    offset: Float[np.ndarray | Array, " c"] | float = 0.0

    classifies = True
    curvature = 0.5

    def __call__(self, output: Float[Array, " c"], target: Float[Array, " c"]) -> Float[Array, ""]:
        """- sum_c y_c log softmax(f)_c."""
        return -jnp.sum(target * jax.nn.log_softmax(output + self.offset))

    def encode(self, targets: Targets) -> Encoded:
        """One column of labels becomes one column a class; several are probabilities, which sum to 1."""
        y = np.asarray(targets)
        if y.shape[1] == 1:
            return indicators(y[:, 0], classes_in(y[:, 0], "cross-entropy"))
        if _are_centered(y):  # one-hot rows less their mean, as those of images
            y = targets = y - y.min()
        rows = np.flatnonzero((y.min(axis=1) < 0) | (abs(y.sum(axis=1) - 1) > _ROUNDING))
        if len(rows):
            shown = ", ".join(f"{value:.4g}" for value in y[rows[0]][:4])
            raise InputError(
                f"The {y.shape[1]} columns of the target are no probabilities of classes: in row {rows[0]} "
                f"(counted from 0) they are {shown}. Cross-entropy takes one column of labels, or one column "
                "a class that are not negative and sum to 1; for numbers take the loss 'squared'."
            )
        if np.count_nonzero(y.any(axis=0)) < 2:
            raise InputError("All samples are of a single class: there is nothing to tell apart.")
        return targets

    def infimum(self, targets: Targets) -> Float[np.ndarray, " n"]:
        """The entropy of the target: 0 of a label."""
        y = np.asarray(targets)
        return -xlogy(y, y).sum(axis=1)

    def attained(self, targets: Targets) -> Bool[np.ndarray, " n"]:
        """Where no class is impossible."""
        return np.asarray(targets).min(axis=1) > 0

    def margins(self, outputs: Targets, targets: Targets) -> Float[np.ndarray, " n"]:
        """The logit of the class over the best of the others."""
        f, y = np.asarray(outputs) + np.asarray(self.offset), np.asarray(targets)
        rows, own = np.arange(len(y)), y.argmax(axis=1)
        others = f.copy()
        others[rows, own] = -np.inf
        return f[rows, own] - others.max(axis=1)


def _are_centered(y: Targets) -> bool:
    """Whether rows are one-hot but for a number that was taken from all."""
    above = np.asarray(y) - np.min(y)
    return bool(np.min(y) < 0 and np.allclose(np.sort(above, axis=1)[:, [0, -2, -1]], (0, 0, 1)))

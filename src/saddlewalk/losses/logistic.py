r"""Logistic loss of two classes, :math:`\ell = \log(1 + e^{-y f})` with :math:`y = \pm 1`.

:math:`r = y\, \sigma(-y f)` is the probability that is missing, at zero :math:`y / 2`; the loss is curved by
1/4 at most. It is the cross-entropy of the logits :math:`(0, f)`; its infimum 0 lies at infinity.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from saddlewalk.errors import InputError
from saddlewalk.losses.base import AbstractLoss, Encoded, Targets
from saddlewalk.losses.labels import classes_in, indicators

_TWO = 2


class Logistic(AbstractLoss):
    """log(1 + exp(-y f)), for labels y = -1 and 1."""

    classifies = True
    curvature = 0.25

    def __call__(self, output: Float[Array, " c"], target: Float[Array, " c"]) -> Float[Array, ""]:
        """log(1 + exp(-y f)), summed over outputs."""
        return jnp.sum(jax.nn.softplus(-target * output))

    def encode(self, targets: Targets) -> Encoded:
        """Labels of two classes as -1 and 1, the larger one (or the later in the alphabet) as 1.

        Several columns are as many yes-or-no questions, each of -1 and 1, but for two columns that tell two
        classes apart, as words give them: they become one.
        """
        y = np.asarray(targets)
        if y.shape[1] == _TWO and np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all():
            y = y[:, 1:]
        if y.shape[1] > 1:
            if np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all():
                raise _too_many(y.shape[1])
            if not np.isin(y, (-1, 1)).all():
                raise InputError(
                    f"The {y.shape[1]} columns of the target must hold -1 and 1, a question each, for the "
                    "logistic loss; for classes give one column of labels, for numbers take 'squared'."
                )
            return targets
        kinds = classes_in(y[:, 0], "the logistic loss")
        if len(kinds) > _TWO:
            raise _too_many(len(kinds))
        return 2.0 * indicators(y[:, 0], kinds)[:, 1:] - 1.0

    def infimum(self, targets: Targets) -> Float[np.ndarray, " n"]:
        """Zero, as y f grows for ever."""
        return np.zeros(len(targets))

    def attained(self, targets: Targets) -> Bool[np.ndarray, " n"]:
        """Nowhere."""
        return np.zeros(len(targets), dtype=bool)

    def margins(self, outputs: Targets, targets: Targets) -> Float[np.ndarray, " n"]:
        """y f, the smallest of the outputs."""
        return np.min(np.asarray(targets) * np.asarray(outputs), axis=1)


def _too_many(count: int) -> InputError:
    return InputError(
        f"The logistic loss tells two classes apart; the target has {count}. Take 'cross-entropy'."
    )

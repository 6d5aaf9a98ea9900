"""Labels in a column of targets: which classes there are, and who belongs to which."""

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError

_MOST = 0.5
"""More classes than this part of the samples are no classes."""
_FEW = 4
"""So many classes are always some."""

Column = Float[np.ndarray, " n"]
Classes = Float[np.ndarray, " classes"]


def classes_in(labels: Column, asked_by: str) -> Classes:
    """The classes of a column of labels in order, or a sentence that says why these are none.

    Parameters
    ----------
    labels : whole numbers.
    asked_by : the loss that wants classes, as the sentence calls it.
    """
    odd = np.flatnonzero(labels != np.round(labels))
    if len(odd):
        raise InputError(
            f"The target {labels[odd[0]]:.4g} in row {odd[0]} (counted from 0) is no label of a class: "
            f"{asked_by} wants whole numbers or words. For numbers take the loss 'squared' or 'huber'."
        )
    kinds = np.unique(labels)
    if len(kinds) < 2:
        raise InputError(
            f"All {len(labels)} samples are of a single class, {kinds[0]:g}: there is nothing to tell apart."
        )
    if len(kinds) > max(_FEW, _MOST * len(labels)):
        raise InputError(
            f"The target has {len(kinds)} different values in {len(labels)} samples: these are no classes, "
            f"which {asked_by} wants. For numbers take the loss 'squared' or 'huber'."
        )
    return kinds


def indicators(labels: Column, kinds: Classes) -> Float[np.ndarray, "n classes"]:
    """One column a class: 1 for its samples, 0 for the others.

    Parameters
    ----------
    labels : of the samples.
    kinds : the classes.
    """
    return (labels[:, None] == kinds).astype(np.float64)

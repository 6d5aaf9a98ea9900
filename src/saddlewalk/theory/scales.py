"""Whether inputs can be compared: a unit feels a column by its size, and so by what it is measured in.

While nothing is learned a coefficient grows at the rate :math:`E[x_j y]`, which is multiplied by c if the
column is: a column in grams is learned a thousand times sooner than the same one in kilograms.
"""

import numpy as np

from saddlewalk.tasks import AbstractTask, Moments, Samples
from saddlewalk.theory.staircase import Assumption

_COMPARABLE = 100.0
"""Ratio of two scales above which it is the measure that decides what is learned first."""


def comparable_inputs(task: AbstractTask) -> tuple[Assumption, ...]:
    """The largest root mean square of a column over the smallest; nothing for tasks without columns.

    Parameters
    ----------
    task : samples or moments; tasks of a kind of their own have inputs of one kind.
    """
    scales = _scales(task)
    felt = np.flatnonzero(scales)
    if len(felt) < 2:
        return ()
    large, small = felt[np.argmax(scales[felt])], felt[np.argmin(scales[felt])]
    ratio = float(scales[large] / scales[small])
    names = task.input_names or [f"input {k}" for k in range(len(scales))]
    return (
        Assumption(
            f"comparable inputs: scale of {names[large]}, the largest, over that of {names[small]}, the "
            "smallest",
            ratio <= _COMPARABLE,
            ratio,
            f"at most {_COMPARABLE:g}; above, what is measured in small units is learned first, whatever it "
            "explains: standardize the columns",
        ),
    )


def _scales(task: AbstractTask) -> np.ndarray:
    """Root mean square of each column of the inputs."""
    if type(task) is Samples:
        return np.sqrt(np.asarray(task.weights) @ np.asarray(task.x) ** 2)
    if type(task) is Moments:  # virtual samples carry their weights
        return np.linalg.norm(np.asarray(task.x), axis=0)
    return np.zeros(0)

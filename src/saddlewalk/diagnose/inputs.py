"""The inputs at which a network is looked at: those that are given, or those of its task."""

from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.problem import Problem
from saddlewalk.tasks.base import AbstractPoints
from saddlewalk.tasks.samples import finite_numbers


def inputs_of(problem: Problem, x: Any = None) -> Float[np.ndarray, "n d"]:
    """Inputs that were given, checked, or the task's own.

    Parameters
    ----------
    problem : units, data and loss.
    x : inputs `(n, d)`; the task's own by default.
    """
    if x is None:
        if not isinstance(problem.task, AbstractPoints):
            raise InputError(
                f"'{problem.task.name}' has no samples; give the inputs x, (n, {problem.task.inputs}), "
                "to look at."
            )
        return np.asarray(problem.task.x)
    samples = finite_numbers("x", x)
    if samples.ndim != 2 or samples.shape[1] != problem.task.inputs:
        raise InputError(f"x must have shape (n, {problem.task.inputs}); got {samples.shape}.")
    return samples

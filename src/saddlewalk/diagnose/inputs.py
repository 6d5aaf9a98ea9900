"""The inputs at which a network is looked at: those that are given, or those of its task."""

from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.problem import Problem
from saddlewalk.tasks import Moments
from saddlewalk.tasks.base import AbstractPoints
from saddlewalk.tasks.samples import finite_numbers


def inputs_of(problem: Problem, x: Any = None, virtual: bool = False) -> Float[np.ndarray, "n d"]:
    """Inputs that were given, checked, or the task's own.

    Parameters
    ----------
    problem : units, data and loss.
    x : inputs `(n, d)`; the task's own by default.
    virtual : where moments stand for samples, take their virtual samples: all that turns and distances need.
    """
    if x is None:
        if isinstance(problem.task, Moments) and not virtual:
            raise InputError(
                f"Of '{problem.task.name}' the problem keeps moments, not samples, because these units need "
                f"no more. Give the inputs `x`, (n, {problem.task.inputs}), or make the problem with "
                "`keep_samples=True`."
            )
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

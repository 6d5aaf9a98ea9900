"""Which network is meant: that of a run at one of its moments, or a problem with weights of one's own."""

from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.flow.trajectory import Trajectory
from saddlewalk.problem import Problem

_LAST = -1


def network_at(
    where: Any, weights: Any = None, at: int = _LAST
) -> tuple[Problem, Float[np.ndarray, "width size"]]:
    """The problem and the parameters `(width, size)` that a function of a network is asked about.

    Parameters
    ----------
    where : a run (its problem and saved parameters are used), or a problem.
    weights : parameters `(width, size)`; with a problem, and with nothing else.
    at : number of the saved moment of a run; the last by default.
    """
    if isinstance(where, Trajectory):
        if weights is not None:
            raise InputError(
                "A run has weights of its own: choose a moment with at=, or give its problem "
                "(path.problem) with your weights."
            )
        return where.problem, _saved(where, at)
    if not isinstance(where, Problem):
        raise InputError(
            f"Give a run (what sw.train returns), or a Problem with weights; got {where!r:.60}."
        )
    if weights is None:
        raise InputError(
            f"A problem has no weights of its own: give them, of shape {(where.width, where.size)}, "
            "or give a run."
        )
    if at != _LAST:
        raise InputError("at= chooses a moment of a run; these weights are of one moment.")
    return where, _checked(where, weights)


def _saved(path: Trajectory, at: int) -> np.ndarray:
    saved = len(path.parameters)
    if not isinstance(at, int | np.integer) or not -saved <= at < saved:
        raise InputError(
            f"The run has {saved} saved moments, numbered from 0 to {saved - 1} (or from the end, "
            f"-1 to {-saved}); got at={at}."
        )
    return np.asarray(path.parameters[at])


def _checked(problem: Problem, weights: Any) -> np.ndarray:
    theta = np.asarray(weights, dtype=float)
    if theta.shape != (problem.width, problem.size):
        raise InputError(
            f"The weights must have shape {(problem.width, problem.size)} (units, parameters of a "
            f"unit); got {theta.shape}."
        )
    if not np.isfinite(theta).all():
        raise InputError("The weights hold NaN or infinite numbers.")
    return theta

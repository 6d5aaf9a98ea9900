"""Where a diagnostic looks: at a saved moment of a run, or at a problem with weights of one's own."""

import operator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.problem.problem import Problem
from saddlewalk.tasks.samples import finite_numbers

_REMEDY = "The training has diverged before: take weights from an earlier moment."
"""For weights that are not finite."""


class TrainedNetwork(Protocol):
    """What a simulation returns, as far as a diagnostic needs it (rooms below `flow` cannot name it)."""

    @property
    def problem(self) -> Problem:
        """What was trained."""

    @property
    def parameters(self) -> np.ndarray:
        """Parameters `(saved, unit, parameter)`."""


if TYPE_CHECKING:
    Where = Problem | TrainedNetwork
else:
    Where = Any  # anything else is refused below, with a sentence


def network_at(
    where: Where, weights: Any = None, at: Any = -1
) -> tuple[Problem, Float[np.ndarray, "width size"]]:
    """The problem, and the parameters of the network that is meant.

    Parameters
    ----------
    where : a run, or a problem.
    weights : parameters `(width, size)`; with a problem, and only then.
    at : number of the saved moment of a run; the last by default.
    """
    if isinstance(where, Problem):
        if weights is None:
            raise InputError(
                "A problem needs weights to look at: give (problem, weights), or a run alone."
            )
        if at != -1:
            raise InputError("`at` names a saved moment of a run; weights of your own have none.")
        return where, _checked(where, weights)
    if not _is_run(where):
        raise InputError(
            "Give a run, a landscape, or a problem and its weights; the first argument is a "
            f"{type(where).__name__}."
        )
    if weights is not None:
        raise InputError(
            "A run has its own weights: choose a saved moment with `at`, or give (run.problem, weights)."
        )
    saved = where.parameters
    return where.problem, _checked(where.problem, saved[_index(at, len(saved))])


def run_of(run: Any, problem: Problem | None = None) -> Any:
    """A run that knows its problem: its own, or the one given, which is refused if it is another.

    Parameters
    ----------
    run : what `train` returned.
    problem : units, data and loss; by default those of the run.
    """
    if not _is_run(run):
        raise InputError(
            f"Give a run first, and if at all then its problem; the first argument is a {type(run).__name__}."
        )
    return run.of(run.problem if problem is None else problem)


def _is_run(value: object) -> bool:
    # asked of the class: a run from a file may not know its problem
    return all(hasattr(type(value), name) for name in ("problem", "parameters"))


def _index(at: Any, saved: int) -> int:
    try:
        index = operator.index(at)
    except TypeError as error:
        raise InputError(f"`at` must be a whole number; got {at!r}.") from error
    if not -saved <= index < saved:
        raise InputError(f"The run has {saved} saved moments, from 0 to {saved - 1}; got at={at}.")
    return index


def _checked(problem: Problem, weights: Any) -> np.ndarray:
    theta = finite_numbers("weights", weights, remedy=_REMEDY)
    if theta.shape != (problem.width, problem.size):
        raise InputError(
            f"The weights must have shape {(problem.width, problem.size)}; got {theta.shape}."
        )
    return theta

"""`predict`: the staircase of a network, without training it."""

from collections.abc import Callable

from saddlewalk.errors import InputError, nearest
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.staircase import Staircase
from saddlewalk.tasks import AbstractTask
from saddlewalk.theory.diagonal import predict_diagonal
from saddlewalk.units import AbstractUnits, Diagonal

Theory = Callable[[Problem, float, int, str], Staircase]

METHODS = ("auto", "closed", "numeric", "limit")
_THEORIES: dict[type[AbstractUnits], tuple[Theory, tuple[str, ...]]] = {
    Diagonal: (predict_diagonal, ("closed", "limit")),
}


@in_float64
def predict(
    task: AbstractTask,
    units: AbstractUnits,
    scale: float,
    seed: int = 0,
    method: str = "auto",
    rates: dict[str, float] | None = None,
) -> Staircase:
    """Predict what is learned, in which order, when, and the loss between.

    Parameters
    ----------
    task, units : what is learned, and what is summed.
    scale : initialisation scale alpha.
    seed : seed of the initialisation, the same as in `train`.
    rates : learning rate of each layer by name, as in `train`.
    method : "closed" (the theorem's formulas at this scale), "limit" (scale to zero) or "auto".
    """
    if method not in METHODS:
        raise InputError(f"Unknown method '{method}'.{nearest(method, METHODS)}")
    if type(units) not in _THEORIES:
        known = ", ".join(kind.__name__ for kind in _THEORIES)
        raise InputError(
            f"There is no prediction for {type(units).__name__} units yet, only: {known}."
        )
    theory, methods = _THEORIES[type(units)]
    if method != "auto" and method not in methods:
        raise InputError(
            f"{type(units).__name__} units have no method '{method}'; they have: {', '.join(methods)}."
        )
    problem = Problem(task, units, rates=rates)
    return theory(problem, scale, seed, methods[0] if method == "auto" else method)

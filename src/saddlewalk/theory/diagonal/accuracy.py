"""How far off the closed forms are expected to be, as relative errors of the jump times."""

import math
from collections.abc import Sequence

from saddlewalk.theory.diagonal.finite_scale import Transition
from saddlewalk.theory.diagonal.paper import Jump
from saddlewalk.theory.diagonal.regression import Regression


def expected_error(
    steps: Sequence[Transition], initial: float, regression: Regression
) -> float | None:
    return None


def distance_of_limit(jumps: Sequence[Jump], start: float) -> float | None:
    return None


def off_size_one(jumps: Sequence[Jump], start: float) -> float:
    """Largest |log norm| of a learned unit, relative to log(1/alpha).

    A unit rests at norm sqrt(2 |beta|); the theory calls it active at 1.

    Parameters
    ----------
    jumps : the sequence.
    start : alpha.
    """
    sizes = [abs(beta) for jump in jumps for beta in jump.beta[jump.beta != 0]]
    largest = max((abs(0.5 * math.log(2 * size)) for size in sizes), default=0.0)
    return largest / -math.log(start)

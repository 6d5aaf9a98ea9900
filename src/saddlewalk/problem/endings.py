r"""When there is nothing more to come: what those who train a network and those who predict it stop for."""

import math

import numpy as np
from jaxtyping import Float

from saddlewalk.problem.problem import Problem

_BEGUN = 0.05
"""Part of the first loss that is gone when the loss has begun to fall,"""
_SEEN = 1e-6
"""or at least this part, when each weight has had time to go as far as it must."""


def separated_below(problem: Problem, first: float, part: float) -> float:
    """The loss below which all samples are told apart and little is left; minus infinity if there is none.

    Parameters
    ----------
    problem : units, data and loss.
    first : the loss before anything is learned.
    part : of it, above the least there can be, that is little.
    """
    if problem.separation is None or part == 0:
        return -math.inf
    least = problem.infimum or 0.0
    return least + min(part * (first - least), problem.separation)


def natural_size(problem: Problem) -> float:
    """How far a weight goes, about: the root of what is to be learned, as units are of this degree.

    Parameters
    ----------
    problem : units, data and loss.
    """
    nothing = np.zeros((problem.width, problem.size))
    length = math.sqrt(2 * abs(float(problem.loss(nothing))))
    return length ** (1 / max(problem.degree, 1))


def stands_still(
    time: Float[np.ndarray, " time"],
    least: Float[np.ndarray, " time"],
    part: float,
    enough: float = math.inf,
) -> bool:
    """Whether a loss that has begun to fall gains nothing more, where steps have a length of their own.

    Each weight goes as far as there are steps, so there are no long plateaus: a loss is at its end when the
    second half of the time has brought hardly any of what was gained in all.

    Parameters
    ----------
    time : since the start.
    least : the least loss so far, at these times.
    part : of the whole gain, that is hardly any.
    enough : time in which each weight can have gone as far as it must, if it is known.
    """
    half = int(np.searchsorted(time, 0.5 * time[-1]))
    gained = least[0] - least[-1]
    begun = least[0] - least[half] > _BEGUN * abs(least[0])
    had_time = time[half] >= enough and gained > _SEEN * abs(least[0])
    return bool((begun or had_time) and least[half] - least[-1] <= part * gained)

"""Plateaus with kinks: dormant units do not feel each other, so each takes steps of its own.

While a unit sees the same samples its motion is a matrix exponential (`leap`); where it comes to see others,
steps must end at the kink. Of many units some are at a kink at any time: together they would all creep.
"""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float

from saddlewalk.ode import advance_alone
from saddlewalk.problem import Parameters, Problem
from saddlewalk.problem.motion import AbstractMotion, Either
from saddlewalk.programs import Bound, compiled
from saddlewalk.theory.agf.leap import AbstractLeap, Weights
from saddlewalk.theory.agf.phase import Phase

_MOST_TRIES = 5000
"""Steps of one unit, at most, in one part of a plateau."""


class Dormant(AbstractMotion):
    """A unit that climbs against a frozen residual."""

    residual: Float[Either, "..."]

    def push(self, theta: Parameters) -> Parameters:
        """The gradient of its utility."""
        return self.problem.climb(theta, self.residual)


class Alone(AbstractLeap):
    """Dormant units, each by itself.

    Parameters
    ----------
    phase : a plateau.
    theta : parameters `(width, size)` at its beginning.
    fastest : about the largest rate at which each unit's norm can grow.
    tolerance : error of a step.
    """

    exact: ClassVar[bool] = True

    def __init__(
        self, phase: Phase, theta: Weights, fastest: Float[np.ndarray, " width"], tolerance: float
    ) -> None:
        self._phase, self._tolerance, self.fastest = phase, tolerance, fastest
        self._known = [(0.0, theta)]
        self.evaluations = 0

    @cached_property
    def _ask(self) -> Bound:
        return Bound(self._phase.problem.resized(1))

    def after(self, time: float) -> Weights:
        """From the last moment before that is known; not-a-number if it takes too many steps."""
        start, theta = max((one for one in self._known if one[0] <= time), key=lambda one: one[0])
        lasts = np.where(self._phase.active, 0.0, time - start)
        given = (theta[:, None], lasts, self._phase.residual, self._tolerance)
        ends, arrived, spent = self._ask(_advanced, *given)
        self.evaluations += int(spent)
        end = np.where(arrived, ends[:, 0], np.nan)
        self._known.append((time, end))
        return end

    def velocity(self, theta: Weights) -> Weights:
        """As it is."""
        return self._phase.climb(theta)


@compiled
def _advanced(problem: Problem, theta: Any, lasts: Any, residual: Array, tolerance: Any) -> Any:
    flow = Dormant(problem, np.ones(()), None, residual)
    return advance_alone(flow, theta, lasts, tolerance, _MOST_TRIES)

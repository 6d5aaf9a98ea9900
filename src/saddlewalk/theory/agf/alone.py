r"""Plateaus with kinks: dormant units do not feel each other, so each takes steps of its own.

While a unit sees the same samples its motion is a matrix exponential (`leap`); where it comes to see others,
steps must end at the kink. Of many units some are at a kink at any time: together they would all creep.

The utility may have its maximum at a kink. A unit there is pushed across from both sides, and takes steps
without number. But its utility, unlike its velocity, is continuous at the kink: with the direction it stays
what it is, and the size goes on as :math:`\frac{d}{dt} \log|\theta| = 2\,U(\theta/|\theta|)` (degree 2).
"""

from dataclasses import dataclass
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
_MOST_WINDOWS = 10
"""So many times as many, where it is looked whether a unit has stopped turning."""
_STRAIGHT = 3e-3
"""A unit that turns by less than this while it might grow e-fold only grows: what still turns it fades as
fast as that, and most of what was seen is to and fro across the kink."""


class Dormant(AbstractMotion):
    """A unit that climbs against a frozen residual."""

    residual: Float[Either, "..."]

    def push(self, theta: Parameters) -> Parameters:
        """The gradient of its utility."""
        return self.problem.climb(theta, self.residual)


@dataclass(frozen=True)
class Slide:
    """A unit at a kink that only grows."""

    since: float
    time: float
    theta: Float[np.ndarray, " size"]
    """Where it is at this time."""
    rate: float

    @classmethod
    def between(
        cls, since: float, then: np.ndarray, time: float, now: np.ndarray, fastest: float
    ) -> "Slide | None":
        """That of a unit at two moments, if it hardly turns between them, beside how fast it might grow."""
        before, after = np.linalg.norm(then), np.linalg.norm(now)
        turned = float(np.linalg.norm(now / after - then / before))
        if not (time > since and turned <= _STRAIGHT * min(1.0, fastest * (time - since))):
            return None
        return cls(since, time, now.copy(), float(np.log(after / before)) / (time - since))

    def at(self, time: float) -> Float[np.ndarray, " size"]:
        """Where it is at another time."""
        return self.theta * np.exp(self.rate * (time - self.time))


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
        self._slides: dict[int, Slide] = {}
        self.evaluations = 0

    @cached_property
    def _ask(self) -> Bound:
        return Bound(self._phase.problem.resized(1))

    def after(self, time: float) -> Weights:
        """From the last moment before that is known; not-a-number where a unit turns for too many steps."""
        start, theta = max((one for one in self._known if one[0] <= time), key=lambda one: one[0])
        slides = {unit: one for unit, one in self._slides.items() if one.since <= time}
        lasts = np.where(self._phase.active, 0.0, time - start)
        lasts[list(slides)] = 0.0
        ends, left = self._advanced(theta, lasts)
        for _ in range(_MOST_WINDOWS):
            if not left.any():
                break
            before, ahead = ends, left
            ends, left = self._advanced(before, ahead)
            for unit in map(int, np.flatnonzero(left)):
                moments = (time - ahead[unit], before[unit], time - left[unit], ends[unit])
                slide = Slide.between(*moments, float(self.fastest[unit]))
                if slide is not None:
                    self._slides[unit] = slides[unit] = slide
                    left[unit] = 0.0
        if left.any():
            return np.where((left > 0)[:, None], np.nan, ends)
        for unit, slide in slides.items():
            ends[unit] = slide.at(time)
        self._known.append((time, ends))
        return ends

    def _advanced(self, theta: Weights, lasts: np.ndarray) -> tuple[Weights, np.ndarray]:
        """Where each is after its time or its last step, and what is left of its time."""
        given = (theta[:, None], lasts, self._phase.residual, self._tolerance)
        ends, left, spent = self._ask(_advanced, *given)
        self.evaluations += int(spent)
        return np.array(ends[:, 0]), np.array(left)

    def velocity(self, theta: Weights) -> Weights:
        """As it is."""
        return self._phase.climb(theta)


@compiled
def _advanced(problem: Problem, theta: Any, lasts: Any, residual: Array, tolerance: Any) -> Any:
    flow = Dormant(problem, np.ones(()), None, residual)
    return advance_alone(flow, theta, lasts, tolerance, _MOST_TRIES)

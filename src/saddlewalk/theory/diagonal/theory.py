"""The theory of diagonal networks: which closed forms there are, and what they assume."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from saddlewalk.curves import Stopped
from saddlewalk.errors import InputError
from saddlewalk.problem import Problem
from saddlewalk.problem.scale import check_scale
from saddlewalk.tasks import Moments, sparse_regression
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.diagonal.accuracy import distance_of_limit, expected_error, off_size_one
from saddlewalk.theory.diagonal.finite_scale import finite_sequence
from saddlewalk.theory.diagonal.paper import Jump, agf_sequence, limit_sequence
from saddlewalk.theory.diagonal.regression import Regression
from saddlewalk.theory.diagonal.stages import clear_order, largest_cosine, stage_of
from saddlewalk.theory.merging import merged
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import Diagonal

_MOST_UNITS = 2_000
"""Real-time AGF answers within seconds up to so many units."""


class DiagonalTheory(AbstractTheory[Moments, Diagonal]):
    """Section 3: everything about a diagonal network is known in closed form."""

    methods: ClassVar[tuple[str, ...]] = ("closed", "limit", "paper")
    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 3, Theorem C.4, Corollary C.5, Eq 38",
        "pesme2023saddle: Pesme and Flammarion, Saddle-to-saddle dynamics in diagonal linear networks",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Diagonal units under a squared loss."""
        return isinstance(problem.units, Diagonal) and isinstance(problem.task, Moments)

    @classmethod
    def example(cls) -> Start:
        """Five coefficients, three of them learned, in a design with some correlation."""
        task = sparse_regression(samples=30, dim=5, sparsity=3, correlation=0.2)
        return Start(Problem(task, Diagonal()), 1e-12)

    @cached_property
    def regression(self) -> Regression:
        """The least squares problem behind the task."""
        return Regression.of(self.task)

    @cached_property
    def initial(self) -> float:
        """The scale behind p = q = alpha / sqrt(rate_u): learning rates rescale the start."""
        scale = self.start.scale
        if not 0 < scale < 1:
            raise InputError(f"The scale (alpha) must be a positive number below 1; got {scale}.")
        return scale / math.sqrt(self.units.rate_u)

    @cached_property
    def closed(self) -> Outcome:
        """Gradient flow from this scale, step by step; steps that flow into each other are one stage."""
        self._check(dormant=True)
        regression, clock = self.regression, self._clock
        steps, stopped = finite_sequence(regression, self.initial)
        listed = [stage_of(step, regression, 1 / clock) for step in steps]
        stages = merged(listed, [step.rate * clock for step in steps], self._initial_loss)
        return Outcome(
            stages=stages,
            stopped=stopped,
            assumptions=(clear_order(steps, -1 / math.log(self.initial)),),
            eta=self._eta,
            initial_loss=self._initial_loss,
            expected_error=expected_error(stages, steps, self._initial_loss),
        ).until(self.start.max_time)

    @cached_property
    def paper(self) -> Outcome:
        """AGF at finite scale as printed: a unit is active from norm 1, and the others wait meanwhile."""
        self._check(dormant=True)
        jumps, stopped = agf_sequence(self.regression, self._eta)
        return self._accelerated(jumps, stopped, self._eta, merge=False)

    @cached_property
    def limit(self) -> Outcome:
        """The limit process on its own clock, t = -log(alpha) s.

        It holds at finite scale, too: the norm 1 is reached after arccosh(1 / (2 alpha^2)) / 2, which is
        -log(alpha) up to alpha^4.
        """
        self._check(dormant=False)
        jumps, stopped = limit_sequence(self.regression)
        return self._accelerated(jumps, stopped, -math.log(self.initial), merge=True)

    def _accelerated(
        self, jumps: list[Jump], stopped: Stopped, eta: float, *, merge: bool
    ) -> Outcome:
        """Jumps in accelerated time as stages in time."""
        regression, clock = self.regression, self._clock
        stages = tuple(stage_of(jump, regression, eta / clock) for jump in jumps)
        if merge:
            stages = merged(stages, [jump.rate * clock for jump in jumps], self._initial_loss)
        return Outcome(
            stages=stages,
            stopped=stopped,
            assumptions=(
                _order_one(jumps, self.initial),
                clear_order(jumps, -1 / math.log(self.initial)),
            ),
            eta=eta,
            initial_loss=self._initial_loss,
            expected_error=distance_of_limit(stages, jumps, self._initial_loss, eta),
        )

    @property
    def _clock(self) -> float:
        """Learning rates speed up the clock."""
        return math.sqrt(self.units.rate_u * self.units.rate_v)

    @property
    def _eta(self) -> float:
        return -math.log(math.sqrt(2) * self.initial)

    @cached_property
    def _initial_loss(self) -> float:
        return self.regression.loss(np.zeros(self.regression.design.shape[1]))

    def _check(self, *, dormant: bool) -> None:
        if self.start.given is not None:
            raise InputError(
                "The closed form starts from (u, v) = (sqrt(2) alpha, 0); use method 'numeric' for a "
                "start of your own."
            )
        if not dormant:
            return
        check_scale(self.start.scale)
        if self._eta <= 0:
            raise InputError(
                f"At scale {self.start.scale:g} every unit starts with norm sqrt(2) alpha >= 1: none is "
                "dormant. Use a scale below 0.7."
            )

    @property
    def preferred(self) -> str:
        """Real-time AGF, which is the more exact; the closed form where there are too many units for it."""
        return "numeric" if self.regression.design.shape[1] <= _MOST_UNITS else "closed"

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """General position and a small start; the methods add what depends on their jumps."""
        closest = largest_cosine(self.regression.design / self.regression.lengths)
        norm = self.start.norm
        return (
            Assumption("initial norm of a unit", norm < 1, norm, "below 1; the smaller the better"),
            Assumption(
                "general position: largest |cosine| of two columns",
                closest < 1 - 1e-9,
                closest,
                "below 1",
            ),
        )


def _order_one(jumps: Sequence[Jump], start: float) -> Assumption:
    off_one = off_size_one(jumps, start)
    return Assumption(
        "coefficients of order one: largest |log norm| of a learned unit / log(1/scale)",
        off_one < 0.5,
        off_one,
        "well below 1 (it is about the relative error of the times); rescale X or y if not",
    )

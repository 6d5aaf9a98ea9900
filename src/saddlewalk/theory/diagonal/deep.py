"""The theory of deep diagonal networks: the same steps as with two layers, on a clock of their own."""

from functools import cached_property
from typing import ClassVar

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.problem import Problem
from saddlewalk.problem.scale import check_scale
from saddlewalk.tasks import Moments, sparse_regression
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.diagonal.finite_scale import finite_sequence
from saddlewalk.theory.diagonal.paper import limit_sequence
from saddlewalk.theory.diagonal.potential import ManyLayers
from saddlewalk.theory.diagonal.regression import Regression
from saddlewalk.theory.diagonal.stages import clear_order, largest_cosine, stage_of
from saddlewalk.theory.merging import merged
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import DeepDiagonal

_MOST_UNITS = 200
"""Real-time AGF of degree above 2 answers within seconds up to so many units."""


class DeepDiagonalTheory(AbstractTheory[Moments, DeepDiagonal]):
    """A product of L vectors: every coefficient is one unit of degree L."""

    methods: ClassVar[tuple[str, ...]] = ("closed", "limit")
    references: ClassVar[tuple[str, ...]] = (
        "pesme2023saddle: Pesme and Flammarion, Saddle-to-saddle dynamics in diagonal linear networks",
        "kunin2025agf: Alternating Gradient Flows, section 3: units of any order kappa",
        "woodworth2020kernel: Woodworth et al., Kernel and rich regimes: the potential at depth L",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Deep diagonal units with equal learning rates under a squared loss."""
        return (
            isinstance(problem.units, DeepDiagonal)
            and isinstance(problem.task, Moments)
            and problem.squared
            and bool(np.all(np.asarray(problem.rates) == 1))
        )

    @classmethod
    def example(cls) -> Start:
        """Five coefficients, three of them learned, in a design with some correlation."""
        task = sparse_regression(samples=30, dim=5, sparsity=3, correlation=0.2)
        return Start(Problem(task, DeepDiagonal(3)), 1e-3)

    @cached_property
    def regression(self) -> Regression:
        """The least squares problem behind the task."""
        return Regression.of(self.task)

    @cached_property
    def potential(self) -> ManyLayers:
        """s, and its walls."""
        return ManyLayers(check_scale(self.start.scale, self.units.depth), self.units.depth)

    @cached_property
    def closed(self) -> Outcome:
        """Gradient flow from this scale, step by step; exact between steps that do not overlap."""
        self._check()
        regression = self.regression
        steps, stopped = finite_sequence(regression, self.start.scale, layers=self.units.depth)
        listed = [stage_of(step, regression, 1.0) for step in steps]
        stages = merged(listed, [step.rate for step in steps], self._initial_loss)
        return Outcome(
            stages=stages,
            stopped=stopped,
            assumptions=(clear_order(steps, self._width_of_jump),),
            initial_loss=self._initial_loss,
        ).until(self.start.max_time)

    @cached_property
    def limit(self) -> Outcome:
        """The limit process of two layers on the clock of this depth, t = S_alpha s."""
        self._check()
        jumps, stopped = limit_sequence(self.regression)
        wall = self.potential.wall
        listed = tuple(stage_of(jump, self.regression, wall) for jump in jumps)
        rates = [
            self.potential.rate(jump.rate / 2, max(map(abs, jump.beta[list(jump.on)]), default=1.0))
            for jump in jumps
        ]
        return Outcome(
            stages=merged(listed, rates, self._initial_loss),
            stopped=stopped,
            assumptions=(clear_order(jumps, self._width_of_jump),),
            initial_loss=self._initial_loss,
        )

    @property
    def _width_of_jump(self) -> float:
        """Width of a jump beside a plateau: alpha^(L-2)."""
        return self.start.scale ** (self.units.depth - 2)

    @cached_property
    def _initial_loss(self) -> float:
        return self.regression.loss(np.zeros(self.regression.design.shape[1]))

    def _check(self) -> None:
        if self.start.given is not None:
            raise InputError(
                "The closed form starts from (alpha, ..., alpha, 0); use method 'numeric' for a start of "
                "your own."
            )
        if not self.start.scale < 0.5:
            raise InputError(
                f"At scale {self.start.scale:g} the weights start as large as they end: no unit is dormant. "
                "Use a scale below 0.5."
            )

    @property
    def preferred(self) -> str:
        """Real-time AGF; the closed form where there are too many units for it."""
        small = self.regression.design.shape[1] <= _MOST_UNITS
        return "numeric" if small else "closed"

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """General position, a small start, and walls that are far away beside the time of a jump."""
        closest = largest_cosine(self.regression.design / self.regression.lengths)
        part = self._width_of_jump
        return (
            Assumption("initial norm of a unit", self.start.norm < 1, self.start.norm, "below 1"),
            Assumption(
                "general position: largest |cosine| of two columns",
                closest < 1 - 1e-9,
                closest,
                "below 1",
            ),
            Assumption(
                "long plateaus: scale^(depth - 2), a jump beside a plateau",
                part < 0.1,
                part,
                "well below 1",
            ),
        )

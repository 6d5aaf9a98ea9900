"""Diagonal networks under any convex loss: order and times by the residual, from that at zero on."""

import math
from functools import cached_property
from typing import ClassVar

import numpy as np

from saddlewalk.curves import Stage, Stopped
from saddlewalk.errors import InputError
from saddlewalk.problem import Problem
from saddlewalk.tasks import Samples, from_arrays
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.diagonal.exclusive import Coordinate, never_meet
from saddlewalk.theory.diagonal.objective import Objective
from saddlewalk.theory.diagonal.paper import Jump, limit_sequence
from saddlewalk.theory.losses import minimum_is_finite
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import Diagonal

_LEAST = 1e-6
"""Part of the loss that a stage takes, at least."""


class DiagonalLossTheory(AbstractTheory[Samples, Diagonal]):
    """Section 3 with another loss: least squares becomes a convex objective, which may end at infinity."""

    methods: ClassVar[tuple[str, ...]] = ("closed", "limit")
    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 3, Theorem C.4",
        "pesme2023saddle: Pesme and Flammarion, whose Algorithm 2 asks of a loss that it is convex",
        "soudry2018implicit: Soudry et al., the implicit bias of gradient descent on separable data",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Diagonal units on samples under another loss than the squared one."""
        units, task = problem.units, problem.task
        return isinstance(units, Diagonal) and isinstance(task, Samples) and not problem.squared

    @classmethod
    def example(cls) -> Start:
        """Three inputs that never meet, each with a part of its samples on the wrong side."""
        place, size = np.arange(60) % 3, np.array([4.0, 2.0, 1.0])
        wrong = np.arange(60) // 3 % 10 < np.array([1, 2, 2])[place]
        x = size[place, None] * np.eye(3)[place]
        task = from_arrays(x, np.where(wrong, -1.0, 1.0) * np.array([1.0, -1.0, 1.0])[place])
        return Start(Problem(task, Diagonal(), "logistic"), 1e-8)

    @cached_property
    def objective(self) -> Objective:
        """The loss of the coefficients."""
        return Objective.of(self.start.problem)

    @property
    def _alpha(self) -> float:
        scale = self.start.scale
        if not 0 < scale < 1:
            raise InputError(f"The scale (alpha) must be a positive number below 1; got {scale}.")
        if self.start.given is not None:
            raise InputError(
                "The closed form starts from (u, v) = (sqrt(2) alpha, 0); use method 'numeric' for a "
                "start of your own."
            )
        return scale / math.sqrt(self.units.rate_u)

    @property
    def _gain(self) -> float:
        return math.sqrt(self.units.rate_u * self.units.rate_v)

    @cached_property
    def limit(self) -> Outcome:
        """Algorithm 2 of Pesme and Flammarion on this objective, on the clock t = -log(alpha) s."""
        eta = -math.log(self._alpha)
        jumps, stopped = limit_sequence(self.objective, most=10 * self.task.inputs)
        stages = tuple(self._stage(jump, eta / self._gain) for jump in jumps)
        return Outcome(stages, self._ended(stopped, stages), eta=eta, initial_loss=self._first)

    @cached_property
    def closed(self) -> Outcome:
        """Where inputs never meet: each coefficient by its integral, to rounding."""
        objective = self.objective
        if not never_meet(objective):
            raise InputError(
                "The closed form under this loss is for data in which each sample sees one input alone; some "
                "see several. Method 'limit' has the order and the times of a vanishing scale, 'numeric' "
                "those of this one."
            )
        alpha, gain = self._alpha, self._gain
        ways = [Coordinate.of(objective, k, alpha, gain) for k in range(self.task.inputs)]
        first = [float(way.slope(np.zeros(1))[0][0]) for way in ways]
        silent = self._first - sum(first)  # samples that see no input
        drops = np.array([a - way.end for a, way in zip(first, ways, strict=True)])

        def total(time: float) -> float:
            return silent + sum(way.loss(time) for way in ways)

        alone = [_middle(way, a) for a, way in zip(first, ways, strict=True)]
        order = [k for k in np.argsort(alone) if drops[k] > _LEAST * self._first]
        levels = self._first - np.concatenate([[0.0], np.cumsum(drops[order])])
        stages = []
        for place, k in enumerate(order):
            around = (0.5 * alone[k], 2 * max(way.time[-1] for way in ways))
            time = _crossing(total, 0.5 * (levels[place] + levels[place + 1]), around)
            feature = {"kind": "coordinate", "index": int(k), "sign": int(np.sign(ways[k].z[-1]))}
            stages.append(Stage(time, float(levels[place + 1]), (int(k),), feature))
        times = np.unique(np.concatenate([way.time[::4] for way in ways]))
        return Outcome(
            tuple(stages),
            self._ended(Stopped.NO_DORMANT, tuple(stages)),
            eta=-math.log(alpha),
            initial_loss=self._first,
            curve=(times, np.array([total(time) for time in times])),
        ).until(self.start.max_time)

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """A small start, inputs that never meet, and whether the minimum is anywhere."""
        norm, together = self.start.norm, np.count_nonzero(self.objective.design, axis=1)
        return (
            Assumption("initial norm of a unit", norm < 1, norm, "below 1; the smaller the better"),
            Assumption(
                "inputs that never meet: most inputs that a sample sees",
                bool(together.max() <= 1),
                float(together.max()),
                "1 for the closed form; with more, 'limit' and 'numeric' hold",
            ),
            *minimum_is_finite(self.start.problem),
        )

    @cached_property
    def _first(self) -> float:
        return self.objective.loss(np.zeros(self.task.inputs))

    def _ended(self, stopped: Stopped, stages: tuple[Stage, ...]) -> Stopped:
        least = self.objective.infimum
        last = stages[-1].loss if stages else self._first
        apart = self.start.problem.separation is not None
        separated = apart and last - least <= 1e-4 * (self._first - least)
        return Stopped.SEPARATED if separated else stopped

    def _stage(self, jump: Jump, unit_of_time: float) -> Stage:
        named = [
            {"kind": "coordinate", "index": unit, "sign": int(np.sign(jump.beta[unit]))}
            for unit in jump.on
        ]
        feature, *others = named or [{"kind": "adjustment"}]
        return Stage(
            time=jump.time * unit_of_time,
            loss=self.objective.loss(jump.beta),
            units=jump.on,
            dormant=jump.off,
            feature={**feature, "others": others} if others else feature,
        )


def _middle(way: Coordinate, first: float) -> float:
    """When a coordinate has lost half of what it will; infinite where it will lose nothing."""
    if len(way.z) == 1 or first <= way.end:
        return math.inf
    return _crossing(way.loss, 0.5 * (first + way.end), (0.0, float(way.time[-1])))


def _crossing(loss: object, level: float, between: tuple[float, float]) -> float:
    from scipy.optimize import brentq

    return float(brentq(lambda t: loss(t) - level, *between, xtol=1e-13, rtol=1e-13))  # type: ignore[operator]

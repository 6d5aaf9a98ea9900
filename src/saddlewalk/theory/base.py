"""What a theory of one network is: closed forms from one start, their hypotheses, and where they apply.

A theory is an object of one start. What its methods share (a regression, covariances, a sequence of jumps) is
a cached property, computed once, when it is first asked for; so is what each method predicts.
"""

import abc
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from saddlewalk.curves import Stage, Stopped
from saddlewalk.errors import InputError
from saddlewalk.problem import Parameters, Problem, mean_norm, norms
from saddlewalk.tasks import AbstractTask
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import AbstractUnits

TaskT = TypeVar("TaskT", bound=AbstractTask)
UnitsT = TypeVar("UnitsT", bound=AbstractUnits)


@dataclass(frozen=True)
class Start:
    """Where a prediction starts: the same parameters as in the simulation, made when asked for."""

    problem: Problem
    scale: float
    seed: int = 0
    given: Any = None
    """Parameters of the user's own, instead of scale and seed."""
    max_time: float = math.inf
    """When to stop, for the methods that walk through time."""
    progress: bool | None = None
    """Whether those methods show a progress line; by default on a terminal."""

    @cached_property
    def theta(self) -> Parameters:
        """The parameters `(width, size)`."""
        if self.given is None:
            return self.problem.initialize(self.scale, self.seed)
        return self.problem.checked_start(self.given)

    @cached_property
    def norms(self) -> np.ndarray:
        """The norm of each unit."""
        return norms(np.asarray(self.theta))[:, 0]

    @cached_property
    def norm(self) -> float:
        """Root mean square of the norms: the size of a unit; of the small ones where training has begun."""
        if self.given is None:
            return mean_norm(self.theta)
        small = np.asarray(self.theta)[self.norms < 1]
        return mean_norm(small if len(small) else self.theta)

    def check_dormant(self) -> None:
        """Units of norm 1 and more are not dormant: there is nothing to predict."""
        largest = float(self.norms.max())
        if not largest < 1:
            raise InputError(
                f"At scale {self.scale:g} the largest unit starts with norm {largest:.3g}: it is not "
                "dormant. Use a smaller scale."
            )


@dataclass(frozen=True)
class Outcome:
    """What one method predicts."""

    stages: tuple[Stage, ...]
    stopped: Stopped
    assumptions: tuple[Assumption, ...] = ()
    """Hypotheses of the method itself, measured."""
    eta: float | None = None
    """Factor between time and accelerated time, where it is not that of the initial norm."""
    curve: tuple[np.ndarray, np.ndarray] | None = None
    """Predicted loss along time, for methods that know it within a jump."""
    initial_loss: float | None = None
    """Loss with all units at zero; computed if it is not given."""
    rhs_evaluations: int | None = None
    """Right-hand sides that were evaluated, by methods that integrate."""
    expected_error: float | None = None
    """Expected relative error of the jump times, for methods that know it."""

    def until(self, max_time: float) -> "Outcome":
        """The same without what comes after a time."""
        stages = tuple(stage for stage in self.stages if stage.time <= max_time)
        curve = self.curve
        if curve is not None:
            curve = tuple(one[curve[0] <= max_time] for one in curve)  # type: ignore[assignment]
        return replace(
            self,
            stages=stages,
            stopped=self.stopped if len(stages) == len(self.stages) else Stopped.LIMIT,
            curve=curve,
            expected_error=self.expected_error if stages else None,
        )


class AbstractTheory(abc.ABC, Generic[TaskT, UnitsT]):
    """What is known about one kind of units on one kind of task, from one start.

    A method "closed" or "greedy-low-rank" is a cached property `closed` or `greedy_low_rank` that gives an
    `Outcome`.

    Parameters
    ----------
    start : the problem, and where its units start.
    """

    methods: ClassVar[tuple[str, ...]]
    """Names of the methods: "closed" (at this scale), "limit" (scale to zero), ..."""
    references: ClassVar[tuple[str, ...]]
    """The theorems behind the numbers, as `key: statement`."""

    def __init__(self, start: Start) -> None:
        if not self.covers(start.problem):
            raise InputError(f"{type(self).__name__} does not speak about this problem.")
        self.start = start
        self.task, self.units = cast(TaskT, start.problem.task), cast(UnitsT, start.problem.units)

    @classmethod
    @abc.abstractmethod
    def covers(cls, problem: Problem) -> bool:
        """Whether this theory speaks about this problem."""

    @classmethod
    @abc.abstractmethod
    def example(cls) -> Start:
        """A small start that the theory covers: what the contract of theories is tested on."""

    @property
    @abc.abstractmethod
    def audit(self) -> tuple[Assumption, ...]:
        """Each hypothesis of the theorems, measured on this problem."""

    @property
    def preferred(self) -> str:
        """What `method="auto"` takes: a method of this theory, or "numeric" where that does better."""
        return "numeric"

    def outcome(self, method: str) -> Outcome:
        """What one of the methods predicts."""
        if method not in self.methods:
            raise InputError(
                f"{type(self).__name__} has no method '{method}', but {', '.join(self.methods)}."
            )
        return getattr(self, method.replace("-", "_"))

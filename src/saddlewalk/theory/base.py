"""What a theory of one setting offers: closed forms, their hypotheses, and where they apply."""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from saddlewalk.curves import Stage, Stopped
from saddlewalk.errors import InputError
from saddlewalk.problem import Parameters, Problem, norms
from saddlewalk.theory.staircase import Assumption


@dataclass(frozen=True)
class Start:
    """Where a prediction starts: the same parameters as in the simulation, made when asked for."""

    problem: Problem
    scale: float
    seed: int = 0
    given: Any = None
    max_time: float = math.inf
    """When to stop, for the methods that walk through time."""

    @cached_property
    def theta(self) -> Parameters:
        """The parameters `(width, size)`."""
        if self.given is None:
            return self.problem.initialize(self.scale, self.seed)
        return self.problem.checked_start(self.given)

    @property
    def norms(self) -> np.ndarray:
        """The norm of each unit."""
        return np.asarray(norms(self.theta))[:, 0]

    @property
    def norm(self) -> float:
        """Root mean square of the norms: the size of a unit."""
        return float(jnp.sqrt(jnp.mean(norms(self.theta) ** 2)))


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


Method = Callable[[Start], Outcome]


class AbstractTheory(abc.ABC):
    """Closed forms for one kind of units on one kind of task."""

    references: ClassVar[tuple[str, ...]] = ()
    """The theorems behind the numbers, as `key: statement`."""

    @abc.abstractmethod
    def covers(self, problem: Problem) -> bool:
        """Whether this theory speaks about this problem."""

    @abc.abstractmethod
    def methods(self) -> dict[str, Method]:
        """Closed methods by name: "closed" (at this scale), "limit" (scale to zero), ..."""

    @abc.abstractmethod
    def audit(self, start: Start) -> tuple[Assumption, ...]:
        """Each hypothesis of the theorems, measured on this problem."""

    def preferred(self, start: Start) -> str:
        """What `method="auto"` takes: the closed form, or "numeric" where that does better."""
        return "closed"


def refuse_large_start(start: Start) -> None:
    """Units of norm 1 and more are not dormant: there is nothing to predict."""
    largest = float(start.norms.max())
    if not largest < 1:
        raise InputError(
            f"At scale {start.scale:g} the largest unit starts with norm {largest:.3g}: it is not "
            "dormant. Use a smaller scale."
        )

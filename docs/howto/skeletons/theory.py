"""A theory to copy: one linear neuron on white inputs, whose loss is a logistic function of time.

Copy this file to src/saddlewalk/theory/, rename the class, add it to `THEORIES` in
src/saddlewalk/theory/prediction.py: `pytest tests/test_contract_theories.py` tests it from then on. The first
line says the equation, with its number in the paper.
"""

import math
from functools import cached_property

import numpy as np

from saddlewalk.curves import Stage, Stopped
from saddlewalk.precision import float64
from saddlewalk.problem import Problem
from saddlewalk.tasks import Moments, from_moments
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import Dense


class OneMode(AbstractTheory[Moments, Dense]):
    """A rank-one map sigma u v^T is learned at time log(sigma / c^2) / (2 sigma), c the start along it."""

    methods = ("closed",)
    references = ("saxe2014exact: Saxe, McClelland and Ganguli, Eq 11",)

    @classmethod
    def covers(cls, problem):
        """One linear neuron, white inputs."""
        units, task = problem.units, problem.task
        linear = isinstance(units, Dense) and units.activation == "linear" and problem.width == 1
        return (
            linear
            and isinstance(task, Moments)
            and np.allclose(task.x.T @ task.x, np.eye(task.inputs))
        )

    @classmethod
    def example(cls):
        """What the contract is tested on: a map of rank one."""
        task = from_moments(np.eye(2), np.array([[2.0, 0.0]]))
        return Start(Problem(task, Dense(1, "linear")), 1e-6)

    @cached_property
    def mode(self):
        """Singular mode of Sigma_yx; what several methods share is a cached property."""
        left, values, right = np.linalg.svd(self.task.y.T @ self.task.x)
        return left[:, 0], float(values[0]), right[0]

    @cached_property
    def closed(self):
        """The method "closed": stages, why they end, and hypotheses of the method itself."""
        u, sigma, v = self.mode
        w, a = np.split(np.asarray(self.start.theta)[0], [self.task.inputs])
        along = float(w @ v + a @ u) / 2
        stage = Stage(
            time=(math.log(sigma) - 2 * math.log(abs(along))) / (2 * sigma) - _EARLY / sigma,
            loss=0.0,
            units=(),
            feature={"kind": "singular-mode", "index": 0, "value": sigma},
        )
        return Outcome((stage,), Stopped.NO_DORMANT)

    @property
    def preferred(self):
        """What `method="auto"` takes: this theory where its hypotheses hold."""
        return "closed" if all(one.holds for one in self.audit) else "numeric"

    @cached_property
    def audit(self):
        """Each hypothesis, measured, with what is needed."""
        norm = self.start.norm
        return (Assumption("initial norm of the neuron", norm < 1, norm, "below 1"),)


_EARLY = math.log(math.sqrt(2) + 1) / 2
"""The loss (1 - s)^2 is half at s = 1 - 1/sqrt(2), earlier than the strength s itself is."""

if __name__ == "__main__":
    with float64():
        print("jump at", OneMode(OneMode.example()).closed.stages[0].time)

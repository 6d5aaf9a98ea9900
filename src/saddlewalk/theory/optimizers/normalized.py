r"""Normalized descent follows gradient flow at unit speed: its clock is the length of the way.

:math:`dw/d\tau = -\nabla L/|\nabla L|`, :math:`\tau = \eta k`, is gradient flow with
:math:`d\tau = |\nabla L|\,dt`. So the order of AGF holds and each jump comes when the flow has gone so far;
plateaus, in which the flow hardly moves, take next to no time: growing from :math:`\alpha` is a way of length
:math:`O(1)` whatever the scale. Between saddles the network rests within a step, and swings.
"""

from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import LossCurve, Stopped
from saddlewalk.optimizers import AbstractOptimizer, NormalizedDescent
from saddlewalk.problem import Problem
from saddlewalk.theory.agf.walk import Walk
from saddlewalk.theory.base import Outcome
from saddlewalk.theory.optimizers.base import AbstractStepsTheory, outcome_of_curve
from saddlewalk.theory.staircase import Assumption

_POINTS = 2000
_CUT_SHORT = (Stopped.LIMIT, Stopped.STALLED, Stopped.SEPARATED)


class AlongTheFlow(AbstractStepsTheory):
    """Normalized descent of any sum of units."""

    methods: ClassVar[tuple[str, ...]] = ("flow",)
    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 2; its path, by its length",
        "murray2019normalized: Murray, Swenson and Kar, normalized descent evades saddles",
    )

    @classmethod
    def covers(cls, problem: Problem, rule: AbstractOptimizer) -> bool:
        """Smooth units with equal rates."""
        even = bool(np.all(np.asarray(problem.rates) == 1))
        return (
            isinstance(rule, NormalizedDescent)
            and even
            and problem.smooth  # at kinks a flow chatters, and its way is no length
            and problem.units.additive
            and not problem.adaptive
        )

    @cached_property
    def flow(self) -> Outcome:
        """The path of AGF by its length."""
        start = self.start
        if start.given is None:
            start.check_dormant()
        walk = Walk(start.problem, start.theta, real_time=True)
        stopped = walk.run()
        moments = sorted(walk.record.moments, key=lambda one: one.index)
        thetas = np.stack([np.asarray(one.theta) for one in moments])
        rows = np.array([one.index for one in moments])
        ways = _ways(thetas, turned=start.problem.units.rotatable)
        length = np.concatenate([[0.0], np.cumsum(ways)])
        curve: LossCurve = walk.record.curve
        even = np.linspace(0.0, min(length[-1], start.max_time), _POINTS)
        place = np.interp(even, length, np.arange(len(length)))
        loss = np.interp(np.interp(even, length, rows), np.arange(len(curve.loss)), curve.loss)
        if start.max_time < length[-1]:
            stopped = Stopped.LIMIT
        return outcome_of_curve(
            start.problem,
            even,
            loss,
            thetas[np.round(place).astype(int)],
            stopped=stopped if stopped in _CUT_SHORT else None,
            evaluations=walk.evaluations,
        )

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """Steps that are shorter than what they start from."""
        smallest = float(np.min(np.linalg.norm(np.asarray(self.start.theta), axis=-1)))
        ratio = float(self.rule.learning_rate) / max(smallest, float(np.finfo(float).tiny))
        return (
            Assumption(
                "a step is shorter than the smallest unit at the start: learning rate over its size",
                ratio < 1,
                ratio,
                "below 1: a longer step shakes units off the saddles at which the flow rests, and jumps come "
                "earlier",
            ),
        )


def _ways(
    thetas: Float[np.ndarray, "time width size"], *, turned: bool
) -> Float[np.ndarray, " steps"]:
    """How far it is from each moment to the next.

    The walk turns linear units into each other, which the network does not see. The flow never does: it is
    at right angles to all such turns, and its way is the distance between moments that are turned alike.
    """
    if not turned:
        return np.linalg.norm(np.diff(thetas, axis=0), axis=(1, 2))
    squares = np.sum(thetas**2, axis=(1, 2))
    alike = np.linalg.svd(thetas[1:] @ thetas[:-1].swapaxes(1, 2), compute_uv=False).sum(axis=1)
    return np.sqrt(np.maximum(squares[1:] + squares[:-1] - 2 * alike, 0.0))

"""Gradient descent and the heavy ball: AGF carries, on a clock with a correction (`stepped`, `leaps`)."""

from functools import cached_property
from typing import ClassVar, cast

from saddlewalk.curves import Stopped
from saddlewalk.optimizers import AbstractOptimizer, GradientDescent, Momentum
from saddlewalk.problem import Problem
from saddlewalk.problem.sharpness import sharpness
from saddlewalk.theory.agf.theory import complete, read_walk
from saddlewalk.theory.agf.walk import Walk
from saddlewalk.theory.base import Outcome
from saddlewalk.theory.losses import told_apart
from saddlewalk.theory.optimizers.base import AbstractStepsTheory
from saddlewalk.theory.optimizers.stepped import SteppedWalk
from saddlewalk.theory.staircase import Assumption


class Descending(AbstractStepsTheory):
    """Steps in proportion to the gradient, on units of any kind."""

    methods: ClassVar[tuple[str, ...]] = ("numeric",)
    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 2; plateaus and transitions in finite steps",
        "polyak1964: Polyak, the heavy ball",
        "cohen2021edge: Cohen et al., the edge of stability at 2/step, with momentum 2(1 + beta)/step",
    )

    @classmethod
    def covers(cls, problem: Problem, rule: AbstractOptimizer) -> bool:
        """Any sum of units without rates of their own."""
        return rule.proportional and problem.units.additive and not problem.adaptive

    @cached_property
    def numeric(self) -> Outcome:
        """AGF in real time, in steps."""
        start = self.start
        if start.given is None:
            start.check_dormant()
        rule = cast(GradientDescent | Momentum, self.rule)
        walk = SteppedWalk(start.problem, start.theta, rule, max_time=start.max_time)
        stopped = walk.run()
        stages, curve = read_walk(walk)
        sharpest = self._sharpest(walk, stopped)
        return Outcome(
            stages=stages,
            stopped=stopped,
            assumptions=(
                _stable(self.rule, sharpest),
                *self._small_steps(sharpest),
                *(() if stopped is Stopped.DIVERGED else (complete(walk, stopped),)),
                *told_apart(start.problem, walk.outputs),
            ),
            curve=(curve.time, curve.loss),
            initial_loss=float(curve.loss[0]),
            rhs_evaluations=walk.evaluations,
        )

    def _sharpest(self, walk: SteppedWalk, stopped: Stopped) -> float:
        """Sharpness of the sharpest plateau; of the flow's, where steps may swing or never came to one."""
        found = _sharpest_rest(walk)
        near = float(self.rule.learning_rate) > _NEAR_THE_EDGE * self.rule.largest_stable(found)
        if not (near or stopped is Stopped.DIVERGED):
            return found
        flow = Walk(walk.problem, self.start.theta, real_time=True, max_time=self.start.max_time)
        flow.run()
        return _sharpest_rest(flow)

    def _small_steps(self, sharpest: float) -> tuple[Assumption, ...]:
        rate, keeps = float(self.rule.learning_rate), float(getattr(self.rule, "momentum", 0.0))
        part = rate * sharpest / (1 - keeps) ** 2
        return (
            Assumption(
                "steps follow gradient flow: learning rate * sharpness / (1 - momentum)^2",
                part < _SMALL,
                part,
                f"below {_SMALL:g}; above, plateaus last longer than the flow's, which these times know",
            ),
        )

    @property
    def audit(self) -> tuple[Assumption, ...]:
        """Nothing beside that of AGF."""
        return ()


_SMALL = 0.1
"""Of a step: the flow is right to a few percent."""
_NEAR_THE_EDGE = 0.5
"""Part of the largest stable learning rate above which steps may rest elsewhere than the flow."""


def _sharpest_rest(walk: Walk) -> float:
    return max(sharpness(walk.problem, walk.record.nearest(row).theta) for row in walk.record.rests)


def _stable(rule: AbstractOptimizer, sharpest: float) -> Assumption:
    rate, most = float(rule.learning_rate), rule.largest_stable(sharpest)
    return Assumption(
        f"steps are stable where the network rests: learning rate over the largest stable one, {most:.4g}",
        rate < most,
        rate / most,
        "below 1: 2(1 + momentum) over the sharpness at the sharpest of the predicted plateaus",
    )

r"""Optimizers whose steps have a length of their own, on any network: many steps at once.

Sign descent, Adam, Muon and normalized descent have a clock :math:`\tau = \eta k` and no plateaus to be
skipped: all is over when each weight has gone as far as it must, whatever the scale. In the limit of small
steps they follow an inclusion :math:`\dot w \in \Delta(\nabla L(w))`, which does not know the learning rate.
It is followed in joined steps: n at once, with a learning rate n times as large and memories that fade n
times as fast.
"""

import math
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.optimizers import AbstractOptimizer, Adam, AdamW, Optax
from saddlewalk.problem import Problem, compiled, steps, tensors
from saddlewalk.programs import Bound
from saddlewalk.programs import compiled as program
from saddlewalk.theory.base import Outcome
from saddlewalk.theory.optimizers.base import AbstractStepsTheory, outcome_of_curve
from saddlewalk.theory.staircase import Assumption

_RESOLVED = 300
"""Joined steps in which a weight of natural size is reached."""
_FEWEST = 4
"""A prediction makes at most a quarter of the steps of a training."""
_PIECE = 50
"""Steps of a compiled call."""
_MOST_PIECES = 400
_BEGUN = 0.05
_GAIN = 1e-4
"""Part of the first loss that half of the steps must gain to go on."""
_LOUD = 100.0
"""Gradient over Adam's epsilon above which epsilon does not matter."""
_SMALL_STEP = 0.05


class InJoinedSteps(AbstractStepsTheory):
    """Any network, any rule whose steps can be joined."""

    methods: ClassVar[tuple[str, ...]] = ("numeric",)
    references: ClassVar[tuple[str, ...]] = (
        "jacobs2026steepest: Jacobs, Zhou and Burkholz, arXiv 2603.02064, steepest descents as mirror flows",
        "kingma2015adam: Kingma and Ba, Adam",
        "jordan2024muon: Jordan et al., Muon",
    )

    @classmethod
    def covers(cls, problem: Problem, rule: AbstractOptimizer) -> bool:
        """All but descent, whose plateaus are to be skipped, and what is known as functions alone."""
        return not (rule.proportional or isinstance(rule, Optax) or problem.adaptive)

    @property
    def together(self) -> int:
        """How many steps are joined: so many that a weight of natural size takes hundreds of them."""
        problem = self.start.problem
        length = math.sqrt(2 * abs(float(problem.loss(0 * self.start.theta))))
        natural = length ** (1 / max(problem.degree, 1))
        return max(_FEWEST, math.ceil(natural / (_RESOLVED * float(self.rule.learning_rate))))

    @cached_property
    def numeric(self) -> Outcome:
        """The joined steps until the loss falls no more, and the stages of their curve."""
        problem, many = self.start.problem, self.together
        theta, end = np.asarray(self.start.theta), self.start.max_time
        time, loss, thetas = follow(problem, theta, self.rule, many, end)
        return outcome_of_curve(problem, time, loss, thetas, evaluations=len(time))

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """Small steps, and for Adam gradients that are not lost in epsilon."""
        rate = float(self.rule.learning_rate)
        natural = self.together * rate * _RESOLVED
        found = [
            Assumption(
                "steps are small beside the weights that are learned: learning rate over their size",
                rate < _SMALL_STEP * natural,
                rate / natural,
                f"below {_SMALL_STEP:g}: weights come no nearer to where they belong than a step",
            )
        ]
        if isinstance(self.rule, Adam | AdamW):
            problem, theta = self.start.problem, self.start.theta
            slopes = tensors.gradients(problem, tensors.split(problem, theta))
            largest = max(float(jnp.abs(slope).max()) for slope in slopes.values())
            ratio = largest / max(float(self.rule.epsilon), 1e-300)
            found.append(
                Assumption(
                    "gradients at the start are not lost in Adam's epsilon: largest gradient over epsilon",
                    ratio > _LOUD,
                    ratio,
                    f"above {_LOUD:g}; below, Adam is the heavy ball at a rate of learning rate over epsilon "
                    "until gradients have passed epsilon",
                )
            )
        return tuple(found)


def follow(
    problem: Problem, theta: np.ndarray, rule: AbstractOptimizer, together: int, end: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, losses and parameters of joined steps until the loss has fallen, and falls no more.

    While weights are small each step counts: one by one at first, then ever more of them at once.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` at the start.
    rule : the optimizer.
    together : how many steps are joined at most.
    end : time to stop at in any case.
    """
    weights = steps.weights_of(problem, theta, rule)
    state, many = (weights, _numbers(rule).start(weights)), 1
    first = float(Bound(problem)(compiled.loss, theta))
    times, losses, thetas = [np.zeros(1)], [np.array([first])], [theta[None]]
    for _ in range(_MOST_PIECES):
        numbers = _numbers(rule.joined(many))
        state, (loss, place) = _piece(problem, numbers, state)
        step = many * rule.time_per_step
        times.append(times[-1][-1] + step * np.arange(1, _PIECE + 1))
        losses.append(np.asarray(loss))
        thetas.append(np.asarray(place))
        time, known = np.concatenate(times), np.concatenate(losses)
        least = np.minimum.accumulate(known)
        half = least[np.searchsorted(time, 0.5 * time[-1])]
        begun = half < (1 - _BEGUN) * abs(first)
        over = begun and half - least[-1] <= _GAIN * abs(first)
        if over or time[-1] >= end or not np.isfinite(known[-1]):
            break
        more = min(2 * many, together)
        state, many = (state[0], rule.remembered(state[1], many, more)), more
    good = np.isfinite(known) & (time <= end)
    return time[good], known[good], np.concatenate(thetas)[good]


def _numbers(rule: AbstractOptimizer) -> Any:
    """The rule with arrays for numbers, so that others are not compiled anew."""
    return jax.tree.map(lambda number: jnp.asarray(number, dtype=float), rule)


@program
def _piece(problem: Problem, rule: Any, state: Any) -> Any:
    def step(state: Any, _: None) -> tuple[Any, Any]:
        weights, memory = steps.moved(problem, problem, rule, *state)
        theta = steps.parameters_of(problem, weights, rule)
        return (weights, memory), (problem.loss(theta), theta)

    return jax.lax.scan(step, state, length=_PIECE)

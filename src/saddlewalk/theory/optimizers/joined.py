r"""Optimizers whose steps have a length of their own, on any network: many steps at once.

Sign descent, Adam, Muon and normalized descent have a clock :math:`\tau = \eta k` and no plateaus to be
skipped: all is over when each weight has gone as far as it must, whatever the scale. In the limit of small
steps they follow an inclusion :math:`\dot w \in \Delta(\nabla L(w))`, which does not know the learning rate.
It is followed in joined steps: n at once, with a learning rate n times as large and memories that fade n
times as fast.
"""

import math
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stopped
from saddlewalk.optimizers import AbstractOptimizer, Adam, AdamW, Optax
from saddlewalk.problem import Problem, compiled, steps, tensors
from saddlewalk.problem.endings import natural_size, separated_below, stands_still
from saddlewalk.programs import Bound
from saddlewalk.programs import compiled as program
from saddlewalk.theory.base import Outcome
from saddlewalk.theory.optimizers.base import AbstractStepsTheory, Curve, outcome_of_curve
from saddlewalk.theory.staircase import Assumption

_RESOLVED = 300
"""Joined steps in which a weight of natural size is reached."""
_FEWEST = 4
"""Steps are joined by so many at least, once weights have begun to grow."""
_PIECE = 50
"""Steps of a compiled call."""
_MOST_PIECES = 400
_GAIN = 1e-4
"""Part of what was gained in all that half of the time must gain to go on."""
_LOUD = 100.0
"""Gradient over Adam's epsilon above which epsilon does not matter."""
_SMALL_STEP = 0.05
"""Of a joined step, beside the weights that are learned; and of what weight decay takes away in it."""


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

    @cached_property
    def natural(self) -> float:
        """How far a weight goes, about."""
        return natural_size(self.start.problem)

    @property
    def together(self) -> int:
        """How many steps are joined: so many that a weight of natural size takes hundreds of them."""
        rate = float(self.rule.learning_rate)
        return max(_FEWEST, math.ceil(self.natural / (_RESOLVED * rate)))

    @cached_property
    def numeric(self) -> Outcome:
        """The joined steps until the loss falls no more, and the stages of their curve."""
        problem, theta = self.start.problem, np.asarray(self.start.theta)
        way = follow(
            problem, theta, self.rule, self.together, self.natural, end=self.start.max_time
        )
        time, loss, thetas, stopped = way
        return outcome_of_curve(problem, time, loss, thetas, stopped=stopped, evaluations=len(time))

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """Small steps, and for Adam gradients that are not lost in epsilon."""
        step = self.together * float(self.rule.learning_rate)
        found = [
            Assumption(
                "steps are small beside the weights that are learned: a joined step over their size",
                step < _SMALL_STEP * self.natural,
                step / self.natural,
                f"below {_SMALL_STEP:g}: weights come no nearer to where they belong than a step",
            )
        ]
        if self.rule.decay:
            gone = step * float(getattr(self.rule, "weight_decay", 0.0))
            found.append(
                Assumption(
                    "weight decay is slow: part of a weight that it takes away in a joined step",
                    gone < _SMALL_STEP,
                    gone,
                    f"below {_SMALL_STEP:g}; at 2 and above weights swing and grow for ever",
                )
            )
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


class Way(NamedTuple):
    """What joined steps saw."""

    time: Curve
    loss: Curve
    thetas: Float[np.ndarray, "time width size"]
    stopped: Stopped | None
    """Why they ended; `None` if the loss fell no more."""


def follow(
    problem: Problem,
    theta: np.ndarray,
    rule: AbstractOptimizer,
    together: int,
    enough: float,
    *,
    end: float = math.inf,
) -> Way:
    """Joined steps until the loss has fallen, and falls no more, or all samples are told apart.

    While weights are small each step counts: one by one at first, then ever more of them at once.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` at the start.
    rule : the optimizer.
    together : how many steps are joined at most.
    enough : time in which each weight can have gone as far as it must.
    end : time to stop at in any case.
    """
    weights = steps.weights_of(problem, theta, rule)
    state, many = (weights, _numbers(rule).start(weights)), 1
    first = float(Bound(problem)(compiled.loss, theta))
    apart = separated_below(problem, first, _GAIN)
    times, losses, thetas = [np.zeros(1)], [np.array([first])], [theta[None]]
    for _ in range(_MOST_PIECES):
        numbers = _numbers(rule.joined(many))
        state, (loss, place) = _piece(problem, numbers, state)
        step = many * rule.time_per_step
        times.append(times[-1][-1] + step * np.arange(1, _PIECE + 1))
        losses.append(np.asarray(loss))
        thetas.append(np.asarray(place))
        ended = _ended(np.concatenate(times), np.concatenate(losses), apart, enough, end)
        if ended is not None:
            break
        more = min(2 * many, together)
        state, many = (state[0], rule.remembered(state[1], many, more)), more
    count, stopped = ended or (None, Stopped.LIMIT)
    time, loss, place = (np.concatenate(part)[:count] for part in (times, losses, thetas))
    return Way(time, loss, place, stopped)


def _ended(
    time: Curve, loss: Curve, apart: float, enough: float, end: float
) -> tuple[int, Stopped | None] | None:
    """How many moments count, and why they are all; nothing while steps go on."""
    ends: list[tuple[int, Stopped]] = []
    finite = np.isfinite(loss)
    below = np.flatnonzero(loss <= apart)
    if len(below):
        ends.append((int(below[0]) + 1, Stopped.SEPARATED))
    if not finite.all():
        ends.append((int(np.argmin(finite)), Stopped.DIVERGED))
    if time[-1] >= end:
        ends.append((int(np.searchsorted(time, end, side="right")), Stopped.LIMIT))
    if ends:
        return min(ends, key=lambda one: one[0])
    if not stands_still(time, np.minimum.accumulate(loss), _GAIN, enough):
        return None
    return len(loss), Stopped.DIVERGED if loss[-1] > loss[0] else None


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

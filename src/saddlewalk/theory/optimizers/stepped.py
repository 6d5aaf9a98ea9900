"""AGF in the steps of gradient descent and of the heavy ball.

The walk is that of AGF in real time, from plateau to plateau (`theory.agf.walk`), with two changes:

- **dormant units** grow by the factor q of a step instead of :math:`e^{st}` (`leaps`), and a ball that rests
  has to get going;
- **active units** descend in the optimizer's own steps, with its inertia, from where they wake to where they
  rest. Dormant ones climb meanwhile, in steps as well.

Plateaus cost nothing however long they last; a transition costs as many gradients as it has steps.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.curves import Stopped
from saddlewalk.optimizers import GradientDescent, Momentum
from saddlewalk.problem import ParametersLike, Problem, compiled
from saddlewalk.programs import compiled as program
from saddlewalk.theory.agf.alternation import Margins
from saddlewalk.theory.agf.leap import leap_ahead, leap_of
from saddlewalk.theory.agf.phase import Phase
from saddlewalk.theory.agf.plateau import cross_plateau
from saddlewalk.theory.agf.transition import comes_to_rest, pass_transition
from saddlewalk.theory.agf.walk import Walk
from saddlewalk.theory.optimizers.leaps import Ball, stepped_leap

_GROWTH = 0.04
"""Growth of what grows fastest, in the exponent, from one recorded moment to the next."""
_RECORDS = 8
"""Moments of one compiled call; units wake and sleep at its end."""
_MOST_STEPS = 50_000
"""Of one transition; what has not come to rest by then creeps, and a creeping ball is gradient flow."""
_CREEPING = 5000
"""Steps in which a unit above degree 2 grows e-fold, that make its plateau one of gradient flow."""
_HUGE = 1e100
"""A weight of this size is on its way to infinity."""
_THROWN = 1e3
"""A loss of so many times the first one was thrown there by a step: what comes after it is no stage."""
_STILL = 1e-3
"""Part of a stage's gain within which a loss stands still, that swings."""
_CALLS_STILL = 200
"""Calls after which a loss that has not fallen to a new least one stands still."""
_TURNS = 4
"""Times, for each unit, that units wake, sleep and almost rest without a step in between. More often they
would do so for ever, as where a step has thrown them far off: then the next one is taken all the same."""
_MOST_SWINGS = 1000
"""Such steps of a whole walk. Steps that are stable need none."""


class SteppedWalk(Walk):
    """The walk of AGF on the clock of gradient descent or of the heavy ball.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` at the start.
    rule : the optimizer.
    max_time : stop there in any case.
    """

    def __init__(
        self,
        problem: Problem,
        theta: ParametersLike,
        rule: GradientDescent | Momentum,
        *,
        max_time: float = math.inf,
    ) -> None:
        super().__init__(problem, theta, real_time=True, max_time=max_time)
        self.ball = Ball(rule)
        self.balls = np.zeros_like(self.theta)
        self._last_loss = self.level
        self._first_plateau = True
        self._swings = 0
        self._first_loss = max(self.untrained, self.present_loss)

    def _alternate(self) -> Stopped:
        if self.begun:  # in the middle of a training balls are on their way
            self._follow(np.zeros_like(self.active))
            self._first_plateau = False
            stopped = self._descend()
            if stopped:
                return stopped
        for _ in range(self.at.most_rounds + 10 * self.problem.width):
            stopped = self.over or self._cross() or self._descend()
            if stopped:
                return stopped
        return Stopped.LIMIT

    # --- plateaus -------------------------------------------------------------------------------------------

    def _cross(self) -> Stopped | None:
        """Dormant units climb in steps, with the residual frozen, until the first wakes."""
        if (
            self.above_2 and self._creeps
        ):  # a step makes nothing of what is tiny: the ball is a clock
            resting = self.active.copy()
            stopped = cross_plateau(self)
            self._follow(resting)
            return stopped
        self.begin_phase()
        if self.rotatable and not self.active.all():
            self.mix_dormant()
        phase = self.phase(plateau=True)
        if not (self._first_plateau or self.above_2):
            self._follow(self.active, phase)
        self._first_plateau = False
        margins, steps = phase.margins(self.theta), self.at.first_steps
        while (margins.waking > self.at.at_event).all():
            idle = self.no_utility_left(np.asarray(margins.view.drive))
            if idle and not math.isfinite(self.leaves):
                return Stopped.NO_UTILITY
            if idle:
                self.lasted = min(self.leaves, self.max_time - self.began)
            if self.lasted > self.leaves - self.ball.time_per_step:
                break  # within this step
            if self.horizon <= self.ball.time_per_step or steps > self.at.most_steps:
                return Stopped.LIMIT
            ahead = self._leap(phase, margins)
            if ahead is None:
                self._climb(phase, margins, steps)
                steps = steps if self.above_2 else 2 * steps
                ahead = phase.margins(self.theta)
            margins = ahead
        self.end_tail(self.lasted)
        row = self.record.add(np.array([[self.time, self.present_loss, 0.0]]))
        self.record.add_moment(row, self.theta, self.active.copy(), self.record.last.output)
        self.wake(margins, self.at.at_event)
        return None

    @property
    def _creeps(self) -> bool:
        """Whether dormant units would take thousands of steps to grow at all."""
        residual = self.ask(compiled.residual, self._only_active)
        growth = self._growth(np.asarray(self.ask(compiled.climb, self.theta, residual)))
        fastest = float(growth[~self.active].max(initial=0.0))
        return fastest * self.ball.time_per_step * _CREEPING < 1

    def _follow(self, resting: np.ndarray, phase: Phase | None = None) -> None:
        """Balls of dormant units that have climbed for long, and of active ones that rest."""
        if phase is not None:
            leap = stepped_leap(self.problem, self.theta, self.balls, phase.climb, self.ball)
            if leap is not None:
                self.balls = np.where(resting[:, None], 0.0, leap.following(self.theta))
                return
        residual = self.ask(compiled.residual, self._only_active)
        climb = np.asarray(self.ask(compiled.climb, self.theta, residual))
        self.balls = np.where(resting[:, None], 0.0, self.ball.time_per_step * climb)

    def _leap(self, phase: Phase, margins: Margins) -> Margins | None:
        """Whole steps in closed form up to where the first unit wakes; none where it is not worth it."""
        start, active = self.theta, self.active[:, None]
        leap = stepped_leap(self.problem, start, self.balls, phase.climb, self.ball)
        if leap is None:
            return None
        fastest = np.maximum(leap.fastest, 1e-300)

        def moved(theta: np.ndarray) -> np.ndarray:
            return np.where(active, start, theta)

        time, margins = leap_ahead(
            leap,
            phase.climb,
            lambda theta: phase.margins(moved(theta)),
            margins,
            pace=np.where(self.active, 1e-300, 2.0 * fastest),
            late=self.late,
            horizon=self.horizon,
            at=self.at,
        )
        self.evaluations += leap.evaluations
        steps = leap.steps(time)
        if (
            not (time * float(leap.fastest.max()) > self.at.worth or time == self.horizon)
            or not steps
        ):
            return None
        self.theta, self.balls = (
            moved(leap.after(time)),
            np.where(active, 0.0, leap.balls_after(time)),
        )
        self.lasted += steps * self.ball.time_per_step
        return margins

    def _climb(self, phase: Phase, margins: Margins, most: int) -> None:
        """Steps of dormant units, where there is no closed form: they pass kinks."""
        leap = leap_of(self.problem, self.theta, phase.climb)
        rate = self._growth(np.asarray(phase.climb(self.theta))) if leap is None else leap.fastest
        fastest = np.maximum(rate, 1e-300)
        distance = np.asarray(margins.waking) + 0.5 * self.late
        if leap is None:  # above degree 2 growth is faster at the end of the way than now
            distance = np.minimum(distance, 2 * _GROWTH * _RECORDS)
        waking = distance / (2 * self.ball.growth(fastest))
        left = min(float(waking.min()), self.horizon) / self.ball.time_per_step
        steps = self._advance(int(min(most, max(1.0, left))), 1, plateau=phase)
        self.lasted += steps * self.ball.time_per_step

    # --- transitions ----------------------------------------------------------------------------------------

    def _descend(self) -> Stopped | None:
        """Active units descend in steps until they rest; dormant ones climb, wake and sleep meanwhile."""
        self.begin_phase()
        self._last_loss = self.present_loss
        self.near, lowest, since = self.at.near_rest, math.inf, 0
        taken = turns = 0
        while taken < _MOST_STEPS:
            if self.horizon <= 0:
                return Stopped.LIMIT
            phase = self.phase(plateau=False)
            margins = phase.margins(self.theta)
            turned = self.apply(margins)
            if not turned and self._seems_at_rest(margins):
                if comes_to_rest(self, margins):
                    return None
                turned = True
            turns = turns + 1 if turned else 0
            if 0 < turns <= _TURNS * self.problem.width:
                continue
            self._swings += turned
            if self._swings > _MOST_SWINGS:
                return Stopped.DIVERGED if self.present_loss > self.untrained else Stopped.LIMIT
            stride = 1 if turned else self._stride()
            steps = self._advance(stride, _RECORDS)
            taken, self.lasted = taken + steps, self.lasted + steps * self.ball.time_per_step
            loss = self.present_loss
            if self._is_thrown(loss):
                return Stopped.DIVERGED
            self.tell(loss)
            view = phase.margins(self.theta).view
            self.remember_drives(np.asarray(view.drive)[None])
            grain = _STILL * max(self.level - loss, 0.0)
            lowest, since = (loss, 0) if loss < lowest - grain else (lowest, since + 1)
            if since > _CALLS_STILL:
                self.rest()
                return None
        stopped = pass_transition(self)
        self._follow(self.active)
        return stopped

    def _is_thrown(self, loss: float) -> bool:
        """Whether steps have led beyond where there is anything to learn."""
        if not np.abs(self.theta).max() < _HUGE:  # also if it is no number
            return True
        lowest = self.infimum
        return lowest is not None and loss - lowest > _THROWN * (self._first_loss - lowest)

    def _seems_at_rest(self, margins: Margins) -> bool:
        """Whether the active units hardly move, or there are none."""
        return float(margins.resting) <= self.at.at_event or not self.active.any()

    def _stride(self) -> int:
        """Steps from one recorded moment to the next: what grows fastest sets it."""
        residual = self.ask(compiled.residual, self._only_active)
        push = np.asarray(self.ask(compiled.climb, self.theta, residual))
        fastest = float(self._growth(push).max())
        step = self.ball.time_per_step
        left = max(1.0, self.horizon / step / _RECORDS)
        return int(max(1, min(_GROWTH / max(fastest * step, 1e-12), left, 2000)))

    def _growth(self, push: np.ndarray) -> np.ndarray:
        """Velocity of each unit as a part of it."""
        size = np.sqrt(np.sum(self.theta**2, axis=1)) + 1e-300
        return np.sqrt(np.sum(push**2, axis=1)) / size

    def _advance(self, stride: int, records: int, plateau: Phase | None = None) -> int:
        """So many records, each after `stride` steps; in a transition the curve is kept."""
        frozen = plateau is not None
        residual = plateau.residual if plateau is not None else self.residual
        numbers = np.array([self.ball.rate, self.ball.momentum])
        state = (np.asarray(self.theta), self.balls)
        options = (self.active, residual, numbers, frozen, self.ball.nesterov)
        (theta, balls), seen = _run(self.problem, state, *options, np.asarray(stride), records)
        self.theta, self.balls = np.asarray(theta), np.asarray(balls)
        self.evaluations += stride * records
        if not frozen and np.abs(self.theta).max() < _HUGE:
            self._keep_rows(stride, *(np.asarray(part) for part in seen))
        return stride * records

    def _keep_rows(
        self, stride: int, loss: np.ndarray, thetas: np.ndarray, output: np.ndarray
    ) -> None:
        step = stride * self.ball.time_per_step
        steps = stride * np.arange(1, len(loss) + 1)
        time = self.began + (self.lasted + steps * self.ball.time_per_step)  # as `lasted` will be
        rate = np.diff(np.concatenate([[self._last_loss], loss])) / step
        rate = np.minimum(0.5 * (rate + np.append(rate[1:], rate[-1])), 0.0)
        self._last_loss = float(loss[-1])
        place = self.record.add(np.stack([time, loss, rate], axis=1))
        active = np.broadcast_to(self.active, (len(loss), len(self.active)))
        self.record.add_moments(place, thetas, active, output)


@program
def _run(
    problem: Problem,
    state: Any,
    active: Any,
    residual: Any,
    numbers: Any,
    frozen: bool,
    nesterov: bool,
    stride: Any,
    records: int,
) -> Any:
    rate, momentum = numbers[0], numbers[1]

    def only_active(theta: Any) -> Any:
        return jnp.where(active[:, None], theta, 0.0)

    def step(state: Any) -> Any:
        theta, balls = state
        against = residual if frozen else problem.residual(only_active(theta))
        push = rate * problem.climb(theta, against)
        ball = momentum * balls + push
        moved = theta + (momentum * ball + push if nesterov else ball)
        if frozen:
            moved, ball = only_dormant(moved, theta), only_dormant(ball, balls)
        return moved, ball

    def only_dormant(new: Any, old: Any) -> Any:
        return jnp.where(active[:, None], old, new)

    def record(state: Any, _: None) -> tuple[Any, Any]:
        state = jax.lax.fori_loop(0, stride, lambda _, now: step(now), state)
        theta = state[0]
        seen = problem.loss(only_active(theta)), theta, jnp.sqrt(problem.squares(theta))
        return state, seen

    return jax.lax.scan(record, state, length=records)

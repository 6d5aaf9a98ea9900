r"""Plateaus in closed form, in steps of the heavy ball: with the residual frozen every component c of a
dormant unit, with ball b and rate s (a singular value of G, or minus one), goes like

.. math:: \begin{pmatrix} c \\ b \end{pmatrix} \leftarrow M(s) \begin{pmatrix} c \\ b \end{pmatrix}, \qquad
          M = \begin{pmatrix} 1 + \eta s & \beta \\ \eta s & \beta \end{pmatrix}, \qquad
          M^n = p_n M - q_1 q_2\, p_{n-1}, \quad p_n = \frac{q_1^n - q_2^n}{q_1 - q_2}.

A ball that rests at the start has to get going: only the part :math:`(1 + \eta s - q_2)/(q_1 - q_2)` of a
unit grows like :math:`q_1^n`. Gradient descent is :math:`\beta = 0`, with :math:`q_1 = 1 + \eta s`.
"""

import abc
from collections.abc import Callable

import numpy as np
from jaxtyping import Complex, Float

from saddlewalk.optimizers import GradientDescent, Momentum
from saddlewalk.optimizers.growth import growth_per_step, roots
from saddlewalk.problem import Problem
from saddlewalk.theory.agf.leap import (
    AbstractLeap,
    Bilinear,
    Climbs,
    Proportional,
    Weights,
    back,
    leap_of,
)

Rates = Float[np.ndarray, "..."]
Roots = Complex[np.ndarray, "..."]
Function = Callable[[Rates], Rates]


class Ball:
    """How a component with a rate, and its ball, move in so many steps.

    Parameters
    ----------
    rule : gradient descent or momentum.
    """

    def __init__(self, rule: GradientDescent | Momentum) -> None:
        self.rate = float(rule.learning_rate)
        self.momentum = float(getattr(rule, "momentum", 0.0))
        self.nesterov = bool(getattr(rule, "nesterov", False))
        self.time_per_step = rule.time_per_step

    def growth(self, s: Rates) -> Rates:
        """log q over the time of a step: s itself for small steps."""
        slow = np.maximum(np.asarray(s, dtype=float), 0.0)
        found = growth_per_step(slow, self.rate, self.momentum, 0.0, self.nesterov)
        return found / self.time_per_step

    def matrix(self, s: Rates) -> tuple[Rates, Rates, Rates, Rates]:
        """The entries of M, row by row."""
        beta, gain = self.momentum, self.rate * np.asarray(s, dtype=float)
        ahead = 1 + beta if self.nesterov else 1.0
        over = beta**2 if self.nesterov else beta
        still = np.zeros_like(gain)
        return 1 + ahead * gain, over + still, gain, beta + still

    def power(self, s: Rates, steps: float) -> tuple[Rates, Rates, Rates, Rates]:
        """The entries of its power."""
        if steps == 0:
            one = np.ones_like(np.asarray(s, dtype=float))
            return one, 0 * one, 0 * one, one
        q1, q2 = roots(s, self.rate, self.momentum, 0.0, self.nesterov)
        now, before = _mean_power(q1, q2, steps), q1 * q2 * _mean_power(q1, q2, steps - 1)
        a, b, c, d = self.matrix(s)
        return (
            (now * a - before).real,
            (now * b).real,
            (now * c).real,
            (now * d - before).real,
        )

    def following(self, s: Rates) -> Rates:
        """The ball of a component of size 1 that has grown at its own rate for long."""
        q = roots(s, self.rate, self.momentum, 0.0, self.nesterov)[0].real
        _, _, c, d = self.matrix(s)
        return np.where(np.asarray(s) > 0, c / np.maximum(q - d, 1e-300), 0.0)


def _mean_power(q1: Roots, q2: Roots, steps: float) -> Roots:
    """The difference of two powers over that of their roots, which may be as near as they like."""
    if steps == 0:
        return np.zeros_like(q1)
    more = np.where(np.abs(q1) < np.abs(q2), q2, q1)
    less = np.where(np.abs(q1) < np.abs(q2), q1, q2)
    none = less == 0
    apart = np.log(np.where(none, 0.5, less) / np.where(none, 1.0, more))
    same = apart == 0
    terms = np.where(same, steps, np.expm1(steps * apart) / np.where(same, 1, np.expm1(apart)))
    return np.asarray(more ** (steps - 1) * np.where(none, 1.0, terms))


class _Stepped(AbstractLeap):
    """A leap of whole steps, for units and their balls."""

    ball: Ball
    _start: tuple[Weights, Weights]

    @abc.abstractmethod
    def _apply(self, function: Function, theta: Weights) -> Weights:
        """A function of the rates, applied to the components that have them."""

    def steps(self, time: float) -> float:
        """Whole steps that end by then."""
        return float(np.floor(time / self.ball.time_per_step + 1e-9))

    def after(self, time: float) -> Weights:
        """Units after so many steps."""
        return self._moved(self.steps(time), 0)

    def balls_after(self, time: float) -> Weights:
        """And their balls."""
        return self._moved(self.steps(time), 2)

    def _moved(self, steps: float, row: int) -> Weights:
        theta, balls = self._start
        return self._apply(lambda s: self.ball.power(s, steps)[row], theta) + self._apply(
            lambda s: self.ball.power(s, steps)[row + 1], balls
        )

    def following(self, theta: Weights) -> Weights:
        """Balls of units that have climbed this residual for long."""
        return self._apply(self.ball.following, theta)


class SteppedProportional(_Stepped, Proportional):
    """Each parameter has a rate of its own.

    Parameters
    ----------
    theta, balls : of the units `(width, size)`.
    climb : their velocity against the frozen residual.
    ball : how a component moves.
    """

    def __init__(self, theta: Weights, balls: Weights, climb: Climbs, ball: Ball) -> None:
        super().__init__(theta, climb)
        self._start, self.ball = (theta, balls), ball
        self.fastest = ball.growth(np.abs(self._rate)).max(axis=1)

    def _apply(self, function: Function, theta: Weights) -> Weights:
        return function(self._rate) * theta


class SteppedBilinear(_Stepped, Bilinear):
    """Incoming and outgoing weights: sum and difference of each singular pair have rates s and -s.

    Parameters
    ----------
    problem : units, data and loss.
    theta, balls : of the units `(width, size)`.
    climb : their velocity against the frozen residual.
    ball : how a component moves.
    """

    def __init__(
        self, problem: Problem, theta: Weights, balls: Weights, climb: Climbs, ball: Ball
    ) -> None:
        super().__init__(problem, theta, climb)
        self._start, self.ball = (theta, balls), ball
        self._mixed = problem.units.rotatable
        self.fastest = np.broadcast_to(ball.growth(self._values)[:, 0], len(theta))

    def _apply(self, function: Function, theta: Weights) -> Weights:
        scaled = theta / self._root
        self._w, self._a = scaled[:, ~self._out], scaled[:, self._out]
        w, a = self._along_modes(self._mixed)
        still = function(np.zeros(1))
        grown, shrunk = function(self._values) - still, function(-self._values) - still
        up, down = 0.5 * grown * (w + a), 0.5 * shrunk * (w - a)
        new_w = still * self._w + back(self._right, up + down)
        new_a = still * self._a + back(self._left, up - down)
        return self._joined(new_w, new_a)


def stepped_leap(
    problem: Problem, theta: Weights, balls: Weights, climb: Climbs, ball: Ball
) -> SteppedProportional | SteppedBilinear | None:
    """The closed form of a plateau in steps, for units that have one.

    Parameters
    ----------
    problem : units, data and loss.
    theta, balls : of the units `(width, size)` at its beginning.
    climb : the velocity of dormant units against the frozen residual.
    ball : how a component moves.
    """
    plain = leap_of(problem, theta, climb)
    if isinstance(plain, Proportional):
        return SteppedProportional(theta, balls, climb, ball)
    return SteppedBilinear(problem, theta, balls, climb, ball) if plain is not None else None

r"""Plateaus above degree 2: a clock that does not know the scale.

With the residual frozen dormant units do not feel each other. In direction u and logarithm l of the norm,

.. math:: \frac{du_i}{ds} = w_i\, P_{u_i} c_i, \qquad \frac{dl_i}{ds} = w_i\, u_i^\top c_i, \qquad
          c_i = \nabla U(e^{l_i} u_i)\, e^{-(\kappa-1) l_i}, \qquad
          \frac{dt}{ds} = \Big(\sum_j e^{p (\kappa-2) l_j}\Big)^{-1/p},

with weights :math:`w_i = e^{(\kappa-2) l_i} dt/ds`, of which the largest is near 1: nothing here is small,
whatever the scale, and once a unit has found its direction its logarithm grows in proportion to s. The power
p makes the sum a smooth maximum: with p = 1 a thousand units alike would slow the clock a thousand times.
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.ode import AbstractFlow, Piece, Watch, integrate
from saddlewalk.problem import Problem, norms
from saddlewalk.problem.motion import Either
from saddlewalk.programs import seldom
from saddlewalk.theory.agf.alternation import Alternation, Stand
from saddlewalk.theory.agf.leap import Weights
from saddlewalk.theory.agf.phase import Phase

_POWER = 8.0
"""Of the smooth maximum that sets the pace of the clock."""
_GROWTH = 0.5
"""Most growth in a step, in the exponent: what a step makes of what is tiny is then right to 1e-5."""
_PROBED = 1e-3
"""Norm at which the steepest utility is looked for."""
_LEADING = math.log(1e-16)
"""Logarithm of a norm below which a unit is its leading order, to the last digit."""


@seldom
def steepest(problem: Problem, residual: Any, probes: Any) -> Float[Array, ""]:
    """About the largest drive of a unit in any direction against a residual: some steps up from anywhere.

    Parameters
    ----------
    problem : units, data and loss.
    residual : what units climb against.
    probes : where they begin, as `anywhere` gives it.
    """

    def up(_: Any, now: tuple[Array, Array]) -> tuple[Array, Array]:
        probes, largest = now
        climbed = problem.climb(_PROBED * probes / norms(probes), residual)
        sizes = norms(climbed)
        return jnp.where(sizes > 0, climbed, 1.0), jnp.maximum(largest, jnp.max(sizes))

    largest = jax.lax.fori_loop(0, 4, up, (jnp.asarray(probes), jnp.zeros(())))[1]
    return jnp.maximum(largest / _PROBED ** (problem.pace_degree - 1), 1e-300)


def anywhere(shape: tuple[int, int]) -> Weights:
    """Units in random directions, always the same.

    Parameters
    ----------
    shape : of their parameters, `(width, size)`.
    """
    return np.random.default_rng(0).normal(size=shape)


class Clock(NamedTuple):
    """The clock of a plateau, on which nothing is small."""

    first: Float[Either, ""]
    """Logarithm of dt/ds at the beginning, with a minus."""
    drive: Float[Either, ""]
    """The largest drive: the natural unit of the velocity of a direction."""
    horizon: Float[Either, ""]
    """Time, on the same clock, at which it ends."""
    most: Float[Either, ""]
    """The longest step: beside a direction that was found, and rests, those that come next may be growing,
    too small to be seen by the error of a step."""

    @classmethod
    def of(cls, phase: Phase, theta: Weights, drive: float, horizon: float) -> "Clock":
        """Of a plateau of these units, which may last until the horizon."""
        degree = phase.problem.pace_degree
        logs = (degree - 2) * np.log(norms(theta))[~phase.active]
        first = float(np.logaddexp.reduce(_POWER * logs.ravel())) / _POWER
        fastest = phase.motion.ask_problem(steepest, phase.residual, anywhere(theta.shape))
        most = _GROWTH * drive / ((degree - 1) * float(fastest))
        numbers = (first, drive, horizon * math.exp(first) * drive, most)
        return cls(*(np.asarray(value, dtype=np.float64) for value in numbers))

    @property
    def unit(self) -> float:
        """Time in which the largest units would change, at the beginning."""
        return math.exp(-float(self.first)) / float(self.drive)


class Climb(AbstractFlow):
    """Dormant units of degree above 2 on their own clock.

    The state has two columns more than parameters: the logarithm of each norm, and the time that has passed
    over `Clock.unit`, the same in every row.
    """

    alternation: Alternation
    clock: Clock

    watches: ClassVar[bool] = True

    @property
    def reach(self) -> Either:
        """The longest step."""
        return self.clock.most

    @property
    def context(self) -> tuple[Stand, Clock]:
        """Where the walk stands, and its clock."""
        return self.alternation.context, self.clock

    def within(self, context: tuple[Stand, Clock]) -> "Climb":
        """Another plateau."""
        return Climb(self.alternation.within(context[0]), context[1])

    @property
    def slack(self) -> Array:
        """As for every unit that wakes."""
        return self.alternation.slack

    @staticmethod
    def state(theta: Weights) -> Float[np.ndarray, "width size_and_two"]:
        """Direction, logarithm of the norm, time."""
        norm = norms(theta)
        return np.concatenate([theta / norm, np.log(norm), np.zeros_like(norm)], axis=1)

    @staticmethod
    def parameters(y: Float[np.ndarray, "width size_and_two"]) -> Weights:
        """Back to the parameters."""
        return y[:, :-2] / norms(y[:, :-2]) * np.exp(y[:, -2:-1])

    def _climb(self, y: Array) -> tuple[Array, Array, Array]:
        """Parameters at which climbing is tried, their logarithms of norms, and the climb, scale-free."""
        power = self.alternation.problem.pace_degree - 1
        log_norm = jnp.maximum(y[:, -2:-1], _LEADING)
        theta = y[:, :-2] / norms(y[:, :-2]) * jnp.exp(log_norm)
        return theta, log_norm, self.alternation.push(theta) * jnp.exp(-power * log_norm)

    def velocity(self, y: Array) -> Array:
        """Of direction, logarithm and time."""
        _, _, climb = self._climb(y)
        direction = y[:, :-2] / norms(y[:, :-2])
        dormant = ~jnp.asarray(self.alternation.active)[:, None]
        power = (self.alternation.problem.pace_degree - 2) * y[:, -2:-1]
        total = jax.scipy.special.logsumexp(jnp.where(dormant, _POWER * power, -jnp.inf)) / _POWER
        weight = jnp.where(dormant, jnp.exp(power - total), 0.0) / self.clock.drive
        grows = jnp.sum(direction * climb, axis=1, keepdims=True)
        time = jnp.broadcast_to(jnp.exp(self.clock.first - total), grows.shape)
        return jnp.concatenate([weight * (climb - grows * direction), weight * grows, time], axis=1)

    def error_scale(self, y: Array) -> Array:
        """Directions and logarithms have none; time is measured by what has passed."""
        return jnp.ones_like(y).at[:, -1].set(1e-3 + y[:, -1])

    def symmetrizer(self, y: Array) -> Array:
        """Never asked for: steps are explicit."""
        return jnp.ones_like(y)

    def noise(self, y: Array) -> Array:
        """Never asked for: steps are explicit."""
        return jnp.zeros_like(y)

    def watch(self, y: Array, velocity: Array) -> Watch:
        """The first unit that wakes; what it would be larger is known below the leading order."""
        theta, log_norm, climb = self._climb(y)
        problem, rules = self.alternation.problem, self.alternation.rules
        power = problem.pace_degree - 1
        margins = self.alternation.margins(theta, climb * jnp.exp(power * log_norm))
        grows_by = jnp.where(rules.wakes_by_norm, 1.0, problem.degree)
        waking = margins.waking - grows_by * (y[:, -2] - log_norm[:, 0])
        late = 1e6 * (1 - y[0, -1] / self.clock.horizon)  # and no later than a millionth
        margin = jnp.minimum(jnp.minimum(jnp.min(waking), late), 1e3)
        return Watch(margin, self.context, jnp.asarray(True), margins.view.drive)


def on_own_clock(phase: Phase, theta: Weights, clock: Clock, **options: Any) -> Iterator[Piece]:
    """Pieces of a plateau on its own clock.

    Parameters
    ----------
    phase : a plateau.
    theta : parameters `(width, size)` at its beginning.
    clock : its clock.
    **options : those of `ode.Integration`.
    """
    y = Climb.state(theta)
    stepper = phase.motion.steps_of("explicit", y, lambda: Climb(phase.flow, clock))
    return integrate(stepper, y, context=(phase.stand, clock), **options)

r"""Plateaus: with the residual frozen dormant units do not feel each other, and cost next to nothing.

**Degree 2: a matrix exponential.** Units that are linear in their incoming weights w and in their outgoing
ones a have the utility
:math:`U = a^\top G w`, with a matrix G that the residual and (with kinks) the samples it sees decide. Then

.. math:: \dot w = G^\top a, \quad \dot a = G w, \qquad G = \sum_k \sigma_k u_k v_k^\top,

and each singular pair :math:`(v_k^\top w, u_k^\top a)` turns into itself by cosh and sinh of
:math:`\sigma_k t`. Units whose parameters move in proportion to themselves (a diagonal network) just go on in
their logarithms. Near the origin that holds for every unit of degree 2, and with kinks until a unit sees
other samples: so a leap is looked at again where it lands, and taken only as far as the climb there is what
the matrix says.

**Degree above 2: a clock that does not know the scale.** In direction u and logarithm l of the norm,

.. math:: \frac{du_i}{ds} = w_i\, P_{u_i} c_i, \qquad \frac{dl_i}{ds} = w_i\, u_i^\top c_i, \qquad
          c_i = \nabla U(e^{l_i} u_i)\, e^{-(\kappa-1) l_i}, \qquad
          \frac{dt}{ds} = \Big(\sum_j e^{(\kappa-2) l_j}\Big)^{-1},

with weights :math:`w_i = e^{(\kappa-2) l_i} dt/ds` that add up to 1: nothing here is small, whatever the
scale, and once a unit has found its direction its logarithm grows in proportion to s.
"""

import abc
import math
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.ode import AbstractFlow, Watch
from saddlewalk.problem import ParametersLike, Problem, compiled, norms
from saddlewalk.problem.motion import Either
from saddlewalk.theory.agf.alternation import Alternation
from saddlewalk.units.base import AbstractUnits

Weights = Float[np.ndarray, "width size"]
Climbs = Callable[[Weights], Weights]

_ROUNDING = 1e-13
"""A component below this part of a unit is none."""
_MOST_GROWTH = 330.0
"""Growth, in the exponent, whose square float64 can hold."""
_GROWTH = 0.5
"""Most growth in a step, in the exponent: what a step makes of what is tiny is then right to 1e-5."""
_PROBED = 1e-3
"""Norm at which the steepest utility is looked for."""
_LEADING = math.log(1e-16)
"""Logarithm of a norm below which a unit is its leading order, to the last digit."""


class AbstractLeap(abc.ABC):
    """Where dormant units are after some time with the residual frozen."""

    fastest: Float[np.ndarray, " width"]
    """The largest rate at which each unit's norm can grow."""

    @abc.abstractmethod
    def after(self, time: float) -> Weights:
        """The parameters after this time."""

    @abc.abstractmethod
    def velocity(self, theta: Weights) -> Weights:
        """How they move there, if the formula still holds."""


class Proportional(AbstractLeap):
    """Parameters that move in proportion to themselves.

    Parameters
    ----------
    theta : parameters `(width, size)`.
    climb : their velocity against the frozen residual.
    """

    def __init__(self, theta: Weights, climb: Climbs) -> None:
        self._theta = theta
        self._rate = climb(theta) / theta
        self.fastest = np.abs(self._rate).max(axis=1)

    def after(self, time: float) -> Weights:
        """Each grows or shrinks by an exponential."""
        return self._theta * np.exp(self._rate * time)

    def velocity(self, theta: Weights) -> Weights:
        """The same rates."""
        return self._rate * theta


class Bilinear(AbstractLeap):
    """Incoming weights and outgoing ones that turn into each other.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    climb : their velocity against the frozen residual.
    """

    def __init__(self, problem: Problem, theta: Weights, climb: Climbs) -> None:
        first, size = problem.units.place_of_outgoing(problem.shapes)
        self._out = np.zeros(problem.size, dtype=bool)
        self._out[first : first + size] = True
        # plain flow in parameters over the root of their learning rates
        self._root = np.sqrt(np.asarray(problem.rates))
        matrix = self._matrices(problem, theta, climb, size)
        left, self._values, self._right = np.linalg.svd(matrix, full_matrices=False)
        self._left = np.swapaxes(left, 1, 2)
        self.fastest = np.broadcast_to(self._values[:, 0], len(theta))
        scaled = theta / self._root
        self._w, self._a = scaled[:, ~self._out], scaled[:, self._out]
        self._pairs = self._along_modes(problem.units.rotatable)

    def _along_modes(self, mixed: bool) -> tuple[np.ndarray, np.ndarray]:
        """Components of w and a along the modes of G.

        Units that were mixed have none along the modes of units before them: what there is is rounding, and
        would outgrow them.
        """
        w, a = _along(self._right, self._w), _along(self._left, self._a)
        if mixed:
            size = np.sqrt(np.sum(self._w**2, axis=1) + np.sum(self._a**2, axis=1))
            lost = np.abs(w + a) <= _ROUNDING * size[:, None]
            w, a = np.where(lost, 0.5 * (w - a), w), np.where(lost, 0.5 * (a - w), a)
        return w, a

    def _matrices(
        self, problem: Problem, theta: Weights, climb: Climbs, outputs: int
    ) -> Float[np.ndarray, "units outputs inputs"]:
        """G of each unit: how its incoming weights move for each outgoing weight alone."""
        width = len(theta)
        shared = problem.units.rotatable  # what unit i climbs, every unit climbs
        rows = []
        for start in range(0, outputs, width if shared else 1):
            probe = np.array(theta)
            probe[:, self._out] = 0.0
            which = (start + np.arange(width)) % outputs if shared else np.full(width, start)
            probe[np.arange(width), np.flatnonzero(self._out)[which]] = 1.0
            moved = climb(probe)[:, ~self._out] / self._root[~self._out]
            rows.append(moved[: outputs - start][None] if shared else moved[:, None])
        return np.concatenate(rows, axis=1) * self._root[self._out][:, None]

    def after(self, time: float) -> Weights:
        """Singular pairs by cosh and sinh."""
        grown, mixed = np.cosh(self._values * time) - 1, np.sinh(self._values * time)
        w, a = self._pairs
        new_w = self._w + _back(self._right, grown * w + mixed * a)
        new_a = self._a + _back(self._left, grown * a + mixed * w)
        return self._joined(new_w, new_a)

    def velocity(self, theta: Weights) -> Weights:
        """One matrix and its transpose."""
        scaled = theta / self._root
        w = _back(self._right, self._values * _along(self._left, scaled[:, self._out]))
        a = _back(self._left, self._values * _along(self._right, scaled[:, ~self._out]))
        return self._joined(w, a)

    def _joined(self, w: np.ndarray, a: np.ndarray) -> Weights:
        both = np.empty((len(w), len(self._out)))
        both[:, ~self._out], both[:, self._out] = w, a
        return both * self._root


def _along(basis: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Components of each unit's vector along its basis, or along the one that all share."""
    if len(basis) == 1:
        return vectors @ basis[0].T
    return np.einsum("ukd,ud->uk", basis, vectors)


def _back(basis: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Vectors out of their components."""
    if len(basis) == 1:
        return components @ basis[0]
    return np.einsum("ukd,uk->ud", basis, components)


def leap_of(
    problem: Problem, theta: ParametersLike, residual: Float[np.ndarray, "..."]
) -> AbstractLeap | None:
    """The closed form of a plateau, for units that have one.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` at its beginning.
    residual : what the units climb against all along.
    """
    if problem.degree != 2 or problem.adaptive:
        return None
    climb = climb_of(problem, residual)
    if problem.units.multiplicative:
        return Proportional(np.asarray(theta), climb)
    if not _two_layers(problem.units, problem):
        return None
    return Bilinear(problem, np.asarray(theta), climb)


def climb_of(problem: Problem, residual: Float[np.ndarray, "..."]) -> Climbs:
    """The velocity of dormant units against a frozen residual.

    Parameters
    ----------
    problem : units, data and loss.
    residual : what the units climb against.
    """
    program = compiled.climb.of(problem)
    return lambda theta: np.asarray(program(theta, residual))


def _two_layers(units: AbstractUnits, problem: Problem) -> bool:
    _, size = units.place_of_outgoing(problem.shapes)
    return 0 < size < problem.size


def longest(leap: AbstractLeap) -> float:
    """How far a leap can be computed.

    Parameters
    ----------
    leap : the closed form of a plateau.
    """
    return _MOST_GROWTH / max(float(np.max(leap.fastest)), 1e-300)


def steepest(problem: Problem, residual: Float[np.ndarray, "..."]) -> float:
    """About the largest drive of a unit in any direction against a residual: some steps up from anywhere.

    Parameters
    ----------
    problem : units, data and loss.
    residual : what they climb against.
    """
    climb, power = climb_of(problem, residual), problem.pace_degree - 1
    probes = np.random.default_rng(0).normal(size=(problem.width, problem.size))
    largest = 0.0
    for _ in range(4):
        probes = climb(_PROBED * probes / norms(probes))
        sizes = norms(probes)
        largest = max(largest, float(sizes.max()) / _PROBED**power)
        probes = np.where(sizes > 0, probes, 1.0)
    return max(largest, 1e-300)


class Climb(AbstractFlow):
    """Dormant units of degree above 2 on their own clock.

    The state has two columns more than parameters: the logarithm of each norm, and the time that has passed
    over `unit`, the same in every row.
    """

    alternation: Alternation
    first: Float[Either, ""]
    """Logarithm of the sum over the norms to the power kappa - 2 at the beginning."""
    drive: Float[Either, ""]
    """The largest drive: the natural unit of the velocity of a direction."""
    horizon: Float[Either, ""]
    """Time, on the same clock, at which it ends."""
    most: Float[Either, ""]
    """The longest step: beside a direction that was found, and rests, those that come next may be growing,
    too small to be seen by the error of a step."""

    watches: ClassVar[bool] = True

    @property
    def reach(self) -> Either:
        """The longest step."""
        return self.most

    @classmethod
    def of(cls, flow: Alternation, theta: Weights, drive: float, horizon: float) -> "Climb":
        """The plateau of these units; it may last until the horizon."""
        degree = flow.problem.pace_degree
        logs = (degree - 2) * np.log(norms(theta))[~flow.active]
        first = float(np.logaddexp.reduce(logs.ravel()))
        most = _GROWTH * drive / ((degree - 1) * steepest(flow.problem, np.asarray(flow.residual)))
        numbers = (first, drive, horizon * math.exp(first) * drive, most)
        return cls(flow, *(np.asarray(value, dtype=np.float64) for value in numbers))

    @property
    def slack(self) -> Array:
        """As for every unit that wakes."""
        return self.alternation.slack

    @property
    def unit(self) -> float:
        """Time in which the largest units would change, at the beginning."""
        return math.exp(-float(self.first)) / float(self.drive)

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
        total = jax.scipy.special.logsumexp(jnp.where(dormant, power, -jnp.inf))
        weight = jnp.where(dormant, jnp.exp(power - total), 0.0) / self.drive
        grows = jnp.sum(direction * climb, axis=1, keepdims=True)
        time = jnp.broadcast_to(jnp.exp(self.first - total), grows.shape)
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
        late = 1e6 * (1 - y[0, -1] / self.horizon)  # and no later than a millionth
        margin = jnp.minimum(jnp.minimum(jnp.min(waking), late), 1e3)
        return Watch(margin, (), jnp.asarray(True), margins.view.drive)

r"""Plateaus of degree 2 in closed form: with the residual frozen, dormant units move by a matrix exponential.

Units that are linear in their incoming weights w and in their outgoing
ones a have the utility
:math:`U = a^\top G w`, with a matrix G that the residual and (with kinks) the samples it sees decide. Then

.. math:: \dot w = G^\top a, \quad \dot a = G w, \qquad G = \sum_k \sigma_k u_k v_k^\top,

and each singular pair :math:`(v_k^\top w, u_k^\top a)` turns into itself by cosh and sinh of
:math:`\sigma_k t`. Units whose parameters move in proportion to themselves (a diagonal network) just go on in
their logarithms. Near the origin that holds for every unit of degree 2, and with kinks until a unit sees
other samples: so a leap is looked at again where it lands, and taken only as far as the climb there is what
the matrix says.
"""

import abc
import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.problem import ParametersLike, Problem, norms
from saddlewalk.theory.agf.alternation import Margins
from saddlewalk.theory.agf.thresholds import Thresholds
from saddlewalk.units.base import AbstractUnits

Weights = Float[np.ndarray, "width size"]
Climbs = Callable[[Weights], Weights]

_ROUNDING = 1e-13
"""A component below this part of a unit is none."""
_MOST_GROWTH = 330.0
"""Growth, in the exponent, whose square float64 can hold."""
_STILL = 1e-290
"""The pace of a unit that does not move."""


class AbstractLeap(abc.ABC):
    """Where dormant units are after some time with the residual frozen."""

    exact: ClassVar[bool] = False
    """Whether it is true however far it goes; else that is looked at."""
    evaluations: int = 0
    """Right-hand sides that it took."""
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
        new_w = self._w + back(self._right, grown * w + mixed * a)
        new_a = self._a + back(self._left, grown * a + mixed * w)
        return self._joined(new_w, new_a)

    def velocity(self, theta: Weights) -> Weights:
        """One matrix and its transpose."""
        scaled = theta / self._root
        w = back(self._right, self._values * _along(self._left, scaled[:, self._out]))
        a = back(self._left, self._values * _along(self._right, scaled[:, ~self._out]))
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


def back(basis: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Vectors out of their components.

    Parameters
    ----------
    basis : of each unit, or the one that all share.
    components : along it.
    """
    if len(basis) == 1:
        return components @ basis[0]
    return np.einsum("ukd,uk->ud", basis, components)


def leap_of(problem: Problem, theta: ParametersLike, climb: Climbs) -> AbstractLeap | None:
    """The closed form of a plateau, for units that have one.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` at its beginning.
    climb : the velocity of dormant units against the frozen residual.
    """
    if problem.degree != 2 or problem.adaptive:
        return None
    if problem.units.multiplicative:
        return Proportional(np.asarray(theta), climb)
    if not _two_layers(problem.units, problem):
        return None
    return Bilinear(problem, np.asarray(theta), climb)


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


def leap_ahead(
    leap: AbstractLeap,
    climb: Climbs,
    look: Callable[[Weights], Margins],
    margins: Margins,
    *,
    pace: Float[np.ndarray, " width"],
    late: float,
    horizon: float,
    at: Thresholds,
) -> tuple[float, Margins]:
    """How far a leap is true, up to where the first unit wakes, and the margins there.

    Parameters
    ----------
    leap : the closed form of a plateau.
    climb : the velocity of dormant units, to check it with.
    look : margins of the units where a leap has put them.
    margins : the same at its beginning.
    pace : the fastest at which the output of each unit may grow; next to nothing for active ones.
    late : how much later a unit may wake, in the logarithm of its output.
    horizon : time at which the plateau ends in any case.
    at : how exact, and how often it is tried.
    """
    good, low, high = 0.0, 0.0, min(longest(leap), horizon)
    for _ in range(at.most_leaps):
        ahead = float(((margins.waking + 0.5 * late) / pace).min())
        time = low + ahead if low + ahead < high else 0.5 * (low + high)
        if low + ahead >= horizon and low == good and high == horizon:
            time = horizon
        if not leap.exact and time > good and not _is_true(leap, climb, good, time, pace, at):
            break
        good = max(good, time)
        tried = look(leap.after(time))
        nearest = float(tried.waking.min())
        if leap.exact and math.isnan(nearest):
            break  # a unit slides along a kink, by steps without number
        if nearest >= -late:
            low, margins = time, tried
        else:  # also if it is not a number: numbers have become too large
            high = time
        if -late <= nearest <= 0 or high - low <= 1e-9 * high:
            break
    return low, margins


def _is_true(
    leap: AbstractLeap,
    climb: Climbs,
    start: float,
    end: float,
    pace: Float[np.ndarray, " width"],
    at: Thresholds,
) -> bool:
    """Whether dormant units climb as a leap says, at some places between two times of it."""
    places = start + (end - start) * np.arange(1, at.leap_checks + 1) / at.leap_checks
    there = np.stack([leap.after(time) for time in places])
    says = np.stack([leap.velocity(theta) for theta in there])
    off, largest = norms(climb(there) - says)[..., 0], leap.fastest * norms(there)[..., 0]
    return bool((off <= at.leap_error * largest)[:, pace > _STILL].all())

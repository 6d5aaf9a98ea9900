r"""Sign descent on diagonal networks, exactly: every v moves at rate 1 until its own gradient vanishes.

With :math:`\tau = \eta k`, :math:`\dot u = \mathrm{sign}(g v)` and :math:`\dot v = \mathrm{sign}(g u)`, where
:math:`g = -\partial_\beta L = c - \Sigma\beta`. From :math:`(\sqrt 2\alpha, 0)` the difference
:math:`|u| - |v| = \sqrt 2\alpha` is kept, so that

.. math:: \beta_i = v_i (|v_i| + \sqrt 2\alpha), \qquad \dot v_i = \mathrm{sign}(g_i),

piecewise linear in v. A coefficient whose gradient has vanished stays where it vanishes (it slides) as long
as it can follow the others, :math:`|\dot v_i| \le 1`:
:math:`\beta_S = \Sigma_{SS}^{-1}(c_S - \Sigma_{SD}\beta_D)`. On white inputs :math:`\beta_i` is reached at
:math:`\tau = \sqrt{|\beta_i^*|}`, small ones first, whatever the scale: no :math:`\log(1/\alpha)`, no order
by strength, no plateau. Muon does the same, for it takes vectors as diagonal matrices.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stopped
from saddlewalk.optimizers import AbstractOptimizer, Muon, SignDescent
from saddlewalk.problem import Problem
from saddlewalk.tasks import Moments
from saddlewalk.theory.base import Outcome
from saddlewalk.theory.optimizers.base import AbstractStepsTheory, outcome_of_curve
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import Diagonal

_POINTS = 400
"""Of one piece, at which the curve is known and events are looked for."""
_MOST_PIECES = 200
_NOTHING = 1e-10

Vector = Float[np.ndarray, " d"]


class Piece(NamedTuple):
    """Between two events: times since the start, and the coefficients then."""

    time: Float[np.ndarray, " time"]
    v: Float[np.ndarray, "time d"]


class SignDiagonal:
    """The piecewise linear motion.

    Parameters
    ----------
    sigma, c : second moments of the inputs, and with the targets.
    a : the difference of u and v, that is kept.
    """

    def __init__(self, sigma: Float[np.ndarray, "d d"], c: Vector, a: float) -> None:
        self.sigma, self.c, self.a = sigma, c, a
        self.small = _NOTHING * float(np.abs(c).max(initial=1e-300))

    def beta(self, v: np.ndarray) -> np.ndarray:
        """Coefficients."""
        return v * (np.abs(v) + self.a)

    def back(self, beta: np.ndarray) -> np.ndarray:
        """The v behind coefficients."""
        root = 0.5 * (np.sqrt(self.a**2 + 4 * np.abs(beta)) - self.a)
        return np.sign(beta) * root

    def pieces(self, end: float) -> list[Piece]:
        """The motion up to a time, or to its rest.

        Parameters
        ----------
        end : time at which it is cut.
        """
        time, v = 0.0, np.zeros_like(self.c)
        way, slides = np.sign(self.c), np.abs(self.c) <= self.small
        found = []
        for _ in range(_MOST_PIECES):
            if not (~slides).any() or time >= end:
                break
            path = self._path(v, way, slides)
            reach = min(self._reach(v), end - time)
            lasts, who = self._first_event(path, way, slides, reach)
            ahead = np.linspace(0.0, lasts, _POINTS)
            found.append(Piece(time + ahead, path(ahead)))
            time, v = time + lasts, found[-1].v[-1]
            if who is None:
                break
            way, slides = self._after(v, way, slides, who)
        return found

    def _reach(self, v: Vector) -> float:
        """A time by which something happens."""
        return (
            2 * math.sqrt(float(np.abs(self.c).max()) / _least(self.sigma))
            + float(np.abs(v).max())
            + 1
        )

    def _path(
        self, v: Vector, way: Vector, slides: np.ndarray
    ) -> Callable[[np.ndarray], Float[np.ndarray, "time d"]]:
        inverse = np.linalg.pinv(self.sigma[np.ix_(slides, slides)])

        def path(ahead: np.ndarray) -> np.ndarray:
            moved = v + np.where(slides, 0.0, way) * ahead[:, None]
            if slides.any():
                others = self.beta(moved[:, ~slides])
                rest = self.c[slides] - others @ self.sigma[np.ix_(~slides, slides)]
                moved[:, slides] = self.back(rest @ inverse)
            return moved

        return path

    def _speeds(self, v: np.ndarray, way: Vector, slides: np.ndarray) -> np.ndarray:
        """How fast sliding ones must go, `(time, sliding)`."""
        pace = 2 * np.abs(v) + self.a
        others = (way * pace)[:, ~slides]
        inverse = np.linalg.pinv(self.sigma[np.ix_(slides, slides)])
        return -(others @ self.sigma[np.ix_(~slides, slides)]) @ inverse / pace[:, slides]

    def _first_event(
        self, path: Callable, way: Vector, slides: np.ndarray, reach: float
    ) -> tuple[float, int | None]:
        """When the first moving one loses its gradient, or a sliding one cannot follow; and which."""
        from scipy.optimize import brentq

        moving, sliding = np.flatnonzero(~slides), np.flatnonzero(slides)

        def margins(ahead: np.ndarray) -> np.ndarray:
            v = path(ahead)
            slope = (self.c - self.beta(v) @ self.sigma)[:, moving] * way[moving]
            if not len(sliding):
                return slope
            return np.concatenate([slope, 1 + 1e-9 - np.abs(self._speeds(v, way, slides))], axis=1)

        grid = np.linspace(0.0, reach, 20 * _POINTS)
        below = margins(grid) <= 0
        below[0] = False
        rows = np.where(below.any(axis=0), below.argmax(axis=0), len(grid))
        k = int(rows.min())
        if k >= len(grid):
            return reach, None
        first, who = reach, 0
        for column in np.flatnonzero(rows == k):
            one = lambda t, j=column: float(margins(np.array([t]))[0, j])  # noqa: E731
            low, high = grid[k - 1], grid[k]
            at = brentq(one, low, high, xtol=1e-15) if one(low) > 0 else low
            if at <= first:
                first, who = at, int(column)
        return first, int(np.concatenate([moving, sliding])[who])

    def _after(
        self, v: Vector, way: Vector, slides: np.ndarray, who: int
    ) -> tuple[Vector, np.ndarray]:
        """Who slides, and where to the others go, after an event of one of them."""
        way, slides = way.copy(), slides.copy()
        if slides[who]:
            k = int(np.flatnonzero(np.flatnonzero(slides) == who)[0])
            way[who] = np.sign(self._speeds(v[None], way, slides)[0, k])
            slides[who] = False
            return way, slides
        slides[who] = True
        k = int(np.flatnonzero(np.flatnonzero(slides) == who)[0])
        if abs(self._speeds(v[None], way, slides)[0, k]) > 1 + 1e-9:
            slides[who], way[who] = False, -way[who]
        return way, slides


def _least(sigma: np.ndarray) -> float:
    values = np.linalg.eigvalsh(sigma)
    return float(values[values > 1e-10 * values[-1]][0])


class SignOnDiagonal(AbstractStepsTheory):
    """Sign descent, and Muon, of a diagonal network from the start of the package."""

    any_start: ClassVar[bool] = False
    methods: ClassVar[tuple[str, ...]] = ("closed",)
    references: ClassVar[tuple[str, ...]] = (
        "jacobs2026steepest: Jacobs, Zhou and Burkholz, arXiv 2603.02064, steepest descents as mirror flows",
    )

    @classmethod
    def covers(cls, problem: Problem, rule: AbstractOptimizer) -> bool:
        """Squared loss, equal rates, exact signs."""
        units = problem.units
        exact = isinstance(rule, SignDescent) or (
            isinstance(rule, Muon) and rule.newton_schulz == 0 and rule.weight_decay == 0
        )
        return (
            exact
            and isinstance(units, Diagonal)
            and units.rate_u == units.rate_v == 1
            and isinstance(problem.task, Moments)
            and problem.squared
        )

    @cached_property
    def motion(self) -> SignDiagonal:
        """Of these data from this start."""
        task = cast(Moments, self.start.problem.task)
        x, y = np.asarray(task.x), np.asarray(task.y)
        return SignDiagonal(x.T @ x, (x.T @ y).ravel(), math.sqrt(2) * self.start.scale)

    @cached_property
    def closed(self) -> Outcome:
        """Exactly, in the limit of small steps."""
        pieces, problem = self.motion.pieces(self.start.max_time), self.start.problem
        if not pieces:  # no coefficient has a gradient
            return Outcome((), Stopped.NO_UTILITY)
        time = np.concatenate([piece.time for piece in pieces])
        new = np.concatenate([[True], np.diff(time) > 0])
        time, v = time[new], np.concatenate([piece.v for piece in pieces])[new]
        u = np.abs(v) + self.motion.a
        beta = self.motion.beta(v)
        first = float(problem.loss(0 * self.start.theta))
        loss = (
            first - beta @ self.motion.c + 0.5 * np.sum((beta @ self.motion.sigma) * beta, axis=1)
        )
        thetas = np.stack([u + v, u - v], axis=2) / math.sqrt(2)
        stopped = Stopped.LIMIT if time[-1] >= self.start.max_time else None
        return outcome_of_curve(problem, time, loss, thetas, stopped=stopped)

    @property
    def finished(self) -> dict[int, float]:
        """When each coefficient came to where it stays, on the clock of the learning rate."""
        pieces = self.motion.pieces(self.start.max_time)
        if not pieces:
            return {}
        last = pieces[-1].v[-1]
        times = np.concatenate([piece.time for piece in pieces])
        ways = np.concatenate([piece.v for piece in pieces])
        far = np.abs(ways - last) > 1e-9 * (1 + np.abs(last))
        return {
            int(i): float(times[np.flatnonzero(far[:, i])[-1] + 1])
            for i in np.flatnonzero(far.any(axis=0))
        }

    @property
    def audit(self) -> tuple[Assumption, ...]:
        """Small steps."""
        rate = float(self.rule.learning_rate)
        size = math.sqrt(
            float(np.abs(self.motion.c).max()) / float(np.diag(self.motion.sigma).max())
        )
        if not size > 0:  # nothing is learned
            return ()
        return (
            Assumption(
                "steps are small beside the weights that are learned: learning rate over their size",
                rate < 0.05 * size,
                rate / size,
                "below 0.05: weights come no nearer to where they belong than a step",
            ),
        )

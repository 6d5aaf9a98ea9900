r"""Diagonal networks at finite scale: :math:`\dot s = -g(\beta)`, :math:`\beta = \alpha^2 \sinh 2s`.

The paper calls a unit active when its norm is 1 and lets the others wait meanwhile. Here a unit rises to
its own rest, and what the others feel of it is exact up to the overlap of two jumps.

A plateau. The gradient g is frozen and s moves linearly. Unit i, if it woke next, would go to the rest
:math:`\beta_i = -g_i / h_i`, where :math:`h_i` is the squared length of its column after the active
columns are projected out (the Schur complement). If the active ones follow at once, it rises logistically
at the rate :math:`2|g_i|`, and is in the middle when the line that s followed on the plateau reaches
:math:`s_i^* = \frac12 \sinh^{-1}(\beta_i / \alpha^2)`. The first to get there is the next.

A transition. Let B be the active columns and the new one, and :math:`\beta \to \beta'`. In B s is known
before and after, and :math:`\int g = -\Delta s`. Since :math:`g - g' = X^\top X_B (\beta - \beta')_B`,

.. math::

    I = \int (\beta' - \beta)_B \, dt = (X_B^\top X_B)^{-1} \Delta s_B, \qquad
    s_k \leftarrow s_k - g'_k t + x_k^\top X_B I

for every dormant k, however slowly the active units follow. The prediction has made its step at the mean
time

.. math:: \tau = \frac{\Delta\beta^\top \Delta s}{|X_B \Delta\beta|^2}.

A unit that returns to dormancy (sign constraint, Eq 5) keeps the s of its wall until then, and moves with
g' from then on.

The loss above the new level is :math:`(1 - \beta_i(t)/\beta_i)^2` of the step: it passes the middle of
the step :math:`\log(1 + \sqrt2) / 2|g_i|` before the unit passes the middle of its rise.

With more than two layers s and the shape of a rise are others (`potential`); everything else is the same.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from saddlewalk.curves import Stopped
from saddlewalk.theory.diagonal.potential import AbstractPotential, potential_of
from saddlewalk.theory.diagonal.regression import Regression, Vector

_FOLLOW = 1.0
"""E-folds by which active units may delay a step that they must follow; if they are slower still, they have
not done so when the next one comes."""
_NOTHING = 1e-6
"""Part of the first loss that is as good as none: steps below it are not listed, as in a walk."""
_TIE = 1e-12
"""Units whose turns are closer than this, relatively, wake together."""
_DEPENDENT = 1e-10
"""A column of which no more than this is left beside the others is a combination of them."""


@dataclass(frozen=True)
class Transition:
    """One step down, in time."""

    time: float
    """When the loss passes the middle of the step."""
    rate: float
    """Growth rate of the unit that wakes: 2|g| with two layers."""
    beta: Vector
    """The coefficients after it."""
    on: tuple[int, ...]
    off: tuple[int, ...]
    gap: float
    """How much later the next candidate would have been, relative to the time of the jump."""
    delay: float
    """How much later it is because active units must follow, relative to the time of the jump."""


class Columns(NamedTuple):
    """The columns of a design that are in use, as an orthonormal basis times a triangle."""

    units: Int[np.ndarray, " active"]
    basis: Float[np.ndarray, "n rank"]
    triangle: Float[np.ndarray, "rank active"]
    independent: bool
    """Whether none is a combination of the others."""

    @classmethod
    def of(cls, design: Float[np.ndarray, "n d"], units: Int[np.ndarray, " active"]) -> "Columns":
        """These columns, in this order."""
        basis, triangle = np.linalg.qr(design[:, units])
        left = np.abs(np.diag(triangle))
        whole = np.linalg.norm(triangle, axis=0)
        full = len(left) == len(whole) and bool((left > _DEPENDENT * whole).all())
        return cls(units, np.asfortranarray(basis), np.asfortranarray(triangle), full)

    def extended(
        self, design: Float[np.ndarray, "n d"], more: Int[np.ndarray, " more"]
    ) -> "Columns":
        """With some columns more, one by one."""
        units = np.concatenate([self.units, more])
        if len(units) > len(design):  # there is no room for another direction
            return Columns.of(design, units)
        columns = self
        for unit in more:
            columns = columns._with(design[:, unit])
        return columns._replace(units=units)

    def _with(self, column: Float[np.ndarray, " n"]) -> "Columns":
        """One more, made orthogonal to those before it: twice, against rounding."""
        along = column @ self.basis
        left = column - self.basis @ along
        rest = left @ self.basis
        along, left = along + rest, left - self.basis @ rest
        length = math.sqrt(left @ left)
        rank, active = self.triangle.shape
        # LAPACK reads Fortran's order: in any other each of its calls would make a copy
        basis = np.empty((len(column), rank + 1), order="F")
        triangle = np.zeros((rank + 1, active + 1), order="F")
        basis[:, :rank], basis[:, rank] = self.basis, left / length if length > 0 else left
        triangle[:rank, :active], triangle[:rank, active] = self.triangle, along
        triangle[rank, active] = length
        far = length > _DEPENDENT * math.hypot(math.sqrt(along @ along), length)
        return Columns(self.units, basis, triangle, self.independent and far)

    def without(self, places: Int[np.ndarray, " some"]) -> "Columns":
        """Without those in some places; all must be independent."""
        from scipy.linalg import qr_delete

        basis, triangle = self.basis, self.triangle
        for place in places[::-1].tolist():
            basis, triangle = qr_delete(basis, triangle, place, which="col", check_finite=False)
        rank = triangle.shape[1]  # a square basis stays square
        kept = (np.asfortranarray(basis[:, :rank]), np.asfortranarray(triangle[:rank]))
        return Columns(np.delete(self.units, places), *kept, True)

    def beside(self, places: Int[np.ndarray, " some"]) -> Float[np.ndarray, "n some"]:
        """What those in some places have for themselves: a basis orthogonal to all others."""
        ones = np.zeros((len(self.units), len(places)), order="F")
        ones[places, np.arange(len(places))] = 1.0
        return self.basis @ np.linalg.qr(_solved(self.triangle, ones, transposed=True))[0]

    def solved(self, target: Float[np.ndarray, " n"]) -> Float[np.ndarray, " active"]:
        """Least squares with these columns; all must be independent."""
        return _solved(self.triangle, target @ self.basis)

    def holding(self, products: Float[np.ndarray, " active"]) -> Float[np.ndarray, " n"]:
        """The combination of the columns that has these products with them."""
        if self.independent:
            return self.basis @ _solved(self.triangle, products, transposed=True)
        inverse = np.linalg.pinv(self.triangle)
        return self.basis @ (self.triangle @ (inverse @ (inverse.T @ products)))


def _solved(triangle: np.ndarray, right: np.ndarray, transposed: bool = False) -> np.ndarray:
    """A triangle, or its transpose, inverted, times something: LAPACK without the ceremony around it."""
    if not len(triangle):
        return right
    from scipy.linalg.lapack import dtrtrs

    solution: np.ndarray = dtrtrs(triangle, right, trans=int(transposed))[0]
    return solution


class Plateau(NamedTuple):
    """Where a plateau begins, as if the step before it had been sudden."""

    time: float
    beta: Vector
    gradient: Vector
    """Of dormant units; 0 for active ones."""
    s: Vector
    lengths: Vector
    """Squared length h of each column beside the active ones: 0 of those themselves."""
    columns: Columns
    """Of active units, in the order in which they woke."""
    seen: float
    """When the loss passed the middle of the step before."""


def finite_sequence(
    regression: Regression, scale: float, most: int = 300, layers: int = 2
) -> tuple[list[Transition], Stopped]:
    """The steps of a diagonal network from a finite scale, one after the other.

    Parameters
    ----------
    regression : the least squares.
    scale : alpha, where p = q = alpha at the start; with more layers where these are (alpha, ..., alpha, 0).
    most : steps after which to stop.
    layers : weights of a coefficient.
    """
    potential = potential_of(scale, layers)
    plateau = first_plateau(regression)
    start = regression.loss(plateau.beta)
    found: list[Transition] = []
    while len(found) < most:
        if not plateau.gradient.any():
            done = plateau.beta.all()
            return found, Stopped.NO_DORMANT if done else Stopped.NO_UTILITY
        if regression.loss(plateau.beta) <= _NOTHING * start:
            return found, Stopped.LEARNED
        step, plateau = _transition(regression, potential, plateau)
        found.append(step)
    return found, Stopped.LIMIT


def first_plateau(regression: Regression) -> Plateau:
    """All units dormant, at time 0.

    Parameters
    ----------
    regression : the least squares.
    """
    none = np.zeros(regression.design.shape[1])
    return Plateau(
        time=0.0,
        seen=0.0,
        beta=none,
        gradient=regression.gradient(none),
        s=none,
        lengths=regression.lengths**2,
        columns=Columns.of(regression.design, np.zeros(0, dtype=int)),
    )


def turns(plateau: Plateau, potential: AbstractPotential) -> Vector:
    """Time until each unit would be in the middle of its rise; infinite without gradient.

    It is negative where a step made the gradient so small that a unit is beyond its rest already.

    Parameters
    ----------
    plateau : where s is, and where it moves.
    potential : the s of a coefficient.
    """
    # without gradient a unit has no turn: NaN goes through all that follows, and is infinite in the end
    pull = np.where(plateau.gradient != 0, np.abs(plateau.gradient), np.nan)
    goal = potential.travelled(pull / plateau.lengths)
    return np.fmin((goal + np.sign(plateau.gradient) * plateau.s) / pull, np.inf)


def _transition(
    regression: Regression, potential: AbstractPotential, before: Plateau
) -> tuple[Transition, Plateau]:
    """The next step down, and the plateau after it."""
    waits = turns(before, potential)
    first = float(waits.min())
    hit = (waits <= first + _TIE * (abs(first) + before.time)).nonzero()[0]
    columns = before.columns.extended(regression.design, hit)
    order = columns.units
    was = before.beta[order]
    beta, gradient, awake = _settled(regression, columns, _signs(before, hit))
    rest, s = beta[order], before.s[order]
    stays = rest != 0
    # a unit that falls asleep leaves its wall with the step
    wall = np.where(stays, potential.travelled(rest), s)
    moved = wall - s + gradient[order] * max(first, 0.0)
    change = rest - was
    pull, goal = _strongest(before, hit)
    rate = potential.rate(pull, goal)
    made = columns.triangle @ change
    step = float(made @ made)
    late = float(change @ moved) / step - first
    follow = stays & (was != 0)
    slow = rate * float(change[follow] @ moved[follow]) / step
    if slow > _FOLLOW:
        moved[follow] *= _FOLLOW / slow
    # a unit beyond its rest takes its step at once: nothing turns back in time
    tau = max(float(change @ moved) / step, 0.0)
    now = before.s + columns.holding(moved) @ regression.design - gradient * tau
    now[order] = wall
    after = Plateau(
        time=before.time + tau,
        seen=max(before.time + tau - potential.half_way(pull, goal), before.seen),
        beta=beta,
        gradient=gradient,
        s=now,
        lengths=_lengths(regression, columns, before, awake),
        columns=awake,
    )
    waits[hit] = np.inf
    later = float(waits.min()) - first if len(hit) == 1 else 0.0
    return _step(before, after, columns.units, rate, later, late), after


def _signs(before: Plateau, hit: Int[np.ndarray, " hit"]) -> Vector:
    """On which side of zero each active unit may be; 0 for dormant ones."""
    sign = np.sign(before.beta)
    sign[hit] = -np.sign(before.gradient[hit])
    return sign


def _strongest(before: Plateau, hit: Int[np.ndarray, " hit"]) -> tuple[float, float]:
    """The gradient of those units that wake, and the rest to which it would bring the strongest."""
    one = hit[np.argmax(np.abs(before.gradient[hit]))]
    pull = abs(float(before.gradient[one]))
    return pull, pull / float(before.lengths[one])


def _step(
    before: Plateau,
    after: Plateau,
    units: Int[np.ndarray, " active"],
    rate: float,
    later: float,
    delay: float,
) -> Transition:
    """The step between two plateaus; the next candidate is later by so much, and active units delay it."""
    was, now = before.beta[units] != 0, after.beta[units] != 0
    return Transition(
        time=after.seen,
        rate=rate,
        beta=after.beta,
        on=tuple(sorted(units[now & ~was].tolist())),
        off=tuple(sorted(units[was & ~now].tolist())),
        gap=later / after.time,
        delay=delay / after.time,
    )


def _settled(
    regression: Regression, columns: Columns, sign: Vector
) -> tuple[Vector, Vector, Columns]:
    """`Regression.minimize` without most of its cost; the gradient there, 0 for units that stay awake."""
    order, awake = columns.units, columns
    if columns.independent:
        beta = np.zeros_like(sign)
        beta[order] = columns.solved(regression.target)
        asleep = (~regression.felt(beta * sign)[order]).nonzero()[0]
        if len(asleep):
            awake = columns.without(asleep)
            beta = np.zeros_like(sign)
            beta[awake.units] = awake.solved(regression.target)
        gradient = regression.gradient(beta)
        if not len(asleep) or _is_minimum(regression, beta * sign, gradient * sign, awake.units):
            gradient[awake.units] = 0.0
            return beta, gradient, awake
    beta = regression.minimize(sign)
    gradient = np.where(beta != 0, 0.0, regression.gradient(beta))
    awake = columns if beta[order].all() else Columns.of(regression.design, order[beta[order] != 0])
    return beta, gradient, awake


def _is_minimum(
    regression: Regression, size: Vector, pushed: Vector, awake: Int[np.ndarray, " active"]
) -> bool:
    """Whether units rest on their sides of zero, and those that fell asleep are pushed back to it."""
    return bool(regression.felt(size)[awake].all() and (np.delete(pushed, awake) >= 0).all())


def _lengths(regression: Regression, columns: Columns, before: Plateau, awake: Columns) -> Vector:
    """Lengths beside the active columns: less by the directions of new ones, more by those of units that fell
    asleep."""
    design, whole = regression.design, regression.lengths**2
    if columns.independent:
        new = columns.basis[:, len(before.columns.units) :].T @ design
        lengths = before.lengths - np.sum(new**2, axis=0)
        if awake is not columns:
            lengths[columns.units] = 0.0
            free = columns.beside(np.flatnonzero(~np.isin(columns.units, awake.units))).T @ design
            lengths += np.sum(free**2, axis=0)
    else:
        basis = Columns.of(design, awake.units).basis
        lengths = whole - np.sum((basis.T @ design) ** 2, axis=0)
    lengths = np.maximum(lengths, _DEPENDENT * whole)
    lengths[awake.units] = 0.0
    return lengths

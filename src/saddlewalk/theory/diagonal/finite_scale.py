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

    @classmethod
    def of(cls, design: Float[np.ndarray, "n d"], units: Int[np.ndarray, " active"]) -> "Columns":
        """These columns, in this order."""
        return cls(units, *np.linalg.qr(design[:, units]))

    def extended(
        self, design: Float[np.ndarray, "n d"], more: Int[np.ndarray, " more"]
    ) -> "Columns":
        """With some columns more: each is made orthogonal to those before it, twice, against rounding."""
        if len(self.units) + len(more) > len(design):  # there is no room for another direction
            return Columns.of(design, np.concatenate([self.units, more]))
        basis, triangle = self.basis, self.triangle
        for unit in more:
            left, along = design[:, unit], np.zeros(basis.shape[1])
            for _ in range(2):
                part = basis.T @ left
                left, along = left - basis @ part, along + part
            length = float(np.linalg.norm(left))
            new = left / length if length > 0 else left
            triangle = np.block([[triangle, along[:, None]], [np.zeros(len(along)), length]])
            basis = np.concatenate([basis, new[:, None]], axis=1)
        return Columns(np.concatenate([self.units, more]), basis, triangle)

    @property
    def independent(self) -> bool:
        """Whether none is a combination of the others."""
        left = np.abs(np.diag(self.triangle))
        whole = np.linalg.norm(self.triangle, axis=0)
        return len(left) == len(whole) and bool((left > _DEPENDENT * whole).all())

    def over_gram(self, right: Float[np.ndarray, " active"]) -> Float[np.ndarray, " active"]:
        """The products of the columns with each other, inverted, times a vector."""
        if not self.independent:
            inverse = np.linalg.pinv(self.triangle)
            return inverse @ (inverse.T @ right)
        from scipy.linalg import solve_triangular

        return solve_triangular(
            self.triangle, solve_triangular(self.triangle, right, trans="T", check_finite=False)
        )


class Plateau(NamedTuple):
    """Where a plateau begins, as if the step before it had been sudden."""

    time: float
    beta: Vector
    gradient: Vector
    """Of dormant units; 0 for active ones."""
    s: Vector
    lengths: Vector
    """Squared length h of each column beside the active ones."""
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
    pull = np.abs(plateau.gradient)
    goal = potential.travelled(pull / plateau.lengths)
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = (goal + np.sign(plateau.gradient) * plateau.s) / pull
    return np.where(pull > 0, wait, np.inf)


def _transition(
    regression: Regression, potential: AbstractPotential, before: Plateau
) -> tuple[Transition, Plateau]:
    """The next step down, and the plateau after it."""
    waits = turns(before, potential)
    first = float(waits.min())
    hit = waits <= first + _TIE * (abs(first) + before.time)
    columns = before.columns.extended(regression.design, np.flatnonzero(hit))
    order = columns.units
    beta = _rest(regression, columns, np.sign(before.beta) - hit * np.sign(before.gradient))
    gradient, now = regression.gradient(beta), beta != 0
    # a unit that falls asleep leaves its wall with the step
    s = np.where(now, potential.travelled(beta), before.s)
    moved = (s - before.s + np.where(now, 0.0, gradient * max(first, 0.0)))[order]
    change = (beta - before.beta)[order]
    step = float(np.sum((columns.triangle @ change) ** 2))
    woken = np.flatnonzero(hit)[np.argmax(np.abs(before.gradient[hit]))]
    pull = float(np.abs(before.gradient[woken]))
    goal = pull / float(before.lengths[woken])
    rate = potential.rate(pull, goal)
    late = float(change @ moved) / step - first
    follow = now[order] & (before.beta != 0)[order]
    slow = rate * float(change[follow] @ moved[follow]) / step
    moved[follow] *= min(1.0, _FOLLOW / max(slow, _FOLLOW))
    # a unit beyond its rest takes its step at once: nothing turns back in time
    tau = max(float(change @ moved) / step, 0.0)
    felt = columns.basis @ (columns.triangle @ columns.over_gram(moved))
    drift = regression.design.T @ felt - gradient * tau
    drift[order] = 0.0
    awake = order[now[order]]
    after = Plateau(
        time=before.time + tau,
        seen=max(before.time + tau - potential.half_way(pull, goal), before.seen),
        beta=beta,
        gradient=np.where(now, 0.0, gradient),
        s=s + drift,
        lengths=_lengths(regression, columns, before, awake),
        columns=columns if len(awake) == len(order) else Columns.of(regression.design, awake),
    )
    later = float(np.min(waits[~hit], initial=np.inf)) - first
    return _step(before, after, rate, later if hit.sum() == 1 else 0.0, late), after


def _step(before: Plateau, after: Plateau, rate: float, later: float, delay: float) -> Transition:
    """The step between two plateaus; the next candidate is later by so much, and active units delay it."""
    was, now = before.beta != 0, after.beta != 0
    return Transition(
        time=after.seen,
        rate=rate,
        beta=after.beta,
        on=tuple(map(int, np.flatnonzero(now & ~was))),
        off=tuple(map(int, np.flatnonzero(was & ~now))),
        gap=later / after.time,
        delay=delay / after.time,
    )


def _rest(regression: Regression, columns: Columns, sign: Vector) -> Vector:
    """`Regression.minimize`, without its cost where all units keep their signs."""
    if not columns.independent:
        return regression.minimize(sign)
    from scipy.linalg import solve_triangular

    beta = np.zeros_like(sign)
    beta[columns.units] = solve_triangular(columns.triangle, columns.basis.T @ regression.target)
    return beta if (np.sign(beta) == sign).all() else regression.minimize(sign)


def _lengths(
    regression: Regression, columns: Columns, before: Plateau, active: Int[np.ndarray, " active"]
) -> Vector:
    """Lengths beside the active columns: where none fell asleep, less by the directions of the new ones."""
    design, whole = regression.design, regression.lengths**2
    if columns.independent and len(active) == len(columns.units):
        beside, basis = before.lengths, columns.basis[:, len(before.columns.units) :]
    else:
        beside, basis = whole, Columns.of(design, active).basis
    return np.maximum(beside - np.sum((basis.T @ design) ** 2, axis=0), _DEPENDENT * whole)

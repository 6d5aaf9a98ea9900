"""Plateaus: dormant units climb against a frozen residual, until the first wakes or active ones leave.

In closed form where there is one (`leap`, degree 2), on a clock of their own above degree 2 (`climb`), and
where units pass kinks each by steps of its own (`alone`).
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from saddlewalk.curves import Stopped
from saddlewalk.problem import ParametersLike
from saddlewalk.theory.agf.alone import Alone
from saddlewalk.theory.agf.alternation import Margins
from saddlewalk.theory.agf.climb import Climb, Clock, on_own_clock
from saddlewalk.theory.agf.leap import AbstractLeap, leap_ahead, leap_of
from saddlewalk.theory.agf.phase import Phase

if TYPE_CHECKING:
    from saddlewalk.theory.agf.walk import Walk


def cross_plateau(walk: "Walk") -> Stopped | None:
    """Dormant units climb with the residual frozen until the first wakes, or active ones leave.

    Parameters
    ----------
    walk : where it is, and the curve behind it.
    """
    walk.begin_phase()
    if walk.rotatable and not walk.active.all():
        walk.mix_dormant()
    phase = walk.phase(plateau=True)
    margins = phase.margins(walk.theta)
    steps, least = 0, walk.at.first_steps
    while (margins.waking > walk.at.at_event).all():
        idle = walk.no_utility_left(np.asarray(margins.view.drive))
        if idle and not math.isfinite(walk.leaves):
            return Stopped.NO_UTILITY
        if idle:
            walk.lasted = min(walk.leaves, walk.max_time - walk.began)
        if walk.lasted >= walk.leaves:
            break
        if walk.horizon <= 0 or steps >= walk.at.most_steps:
            return Stopped.LIMIT
        ahead = _leap(walk, phase, margins)
        if ahead is None:
            taken = _climb(walk, phase, least)
            if taken is None:
                return Stopped.STALLED
            steps, least = steps + taken, 2 * least
        margins = phase.margins(walk.theta) if ahead is None else ahead
    walk.end_tail(walk.lasted)
    row = walk.record.add(np.array([[walk.time, walk.present_loss, 0.0]]))
    walk.record.add_moment(row, walk.theta, walk.active.copy(), walk.record.last.output)
    walk.wake(margins, walk.at.at_event)
    return None


def _climb(walk: "Walk", phase: Phase, most: int) -> int | None:
    """Integrate dormant units; the steps that it took, or none if it stalled."""
    if walk.above_2:
        return _climb_on_own_clock(walk, phase)
    steps = 0
    for piece in walk.integrate(phase, "explicit", walk.tolerance(plateau=True), most):
        steps += piece.steps
        if piece.stalled:
            return None
    return steps


def _climb_on_own_clock(walk: "Walk", phase: Phase) -> int | None:
    clock = Clock.of(phase, walk.theta, float(walk.largest_drive.max()), walk.horizon)
    origin, start, steps = walk.lasted, walk.theta, 0
    limits = {"rtol": walk.tolerance(plateau=True), "max_steps": walk.at.most_steps}
    for piece in on_own_clock(phase, walk.theta, clock, **limits):
        steps += piece.steps
        walk.evaluations += piece.evaluations
        walk.theta = np.where(walk.active[:, None], start, Climb.parameters(piece.end))
        walk.lasted = origin + clock.unit * float(piece.end[0, -1])
        walk.remember_drives(piece.saved)
        walk.tell(walk.level)
        if piece.stalled:
            return None
        if walk.no_utility_left(piece.saved[-1]):
            break
    return steps


def _leap(walk: "Walk", phase: Phase, margins: Margins) -> Margins | None:
    """Go on in closed form to where the first unit wakes, as far as it is true; the margins there, or none
    if it is not worth it."""
    leap = leap_of(walk.problem, walk.theta, phase.climb)
    if leap is None:
        return None
    ahead = _try_leap(walk, phase, leap, margins)
    if ahead is None and not walk.problem.smooth and walk.problem.units.exchangeable:
        tolerance = walk.tolerance(plateau=True)
        ahead = _try_leap(walk, phase, Alone(phase, walk.theta, leap.fastest, tolerance), margins)
    return ahead


def _try_leap(walk: "Walk", phase: Phase, leap: AbstractLeap, margins: Margins) -> Margins | None:
    """One kind of leap."""
    start, horizon = walk.theta, walk.horizon
    fastest = np.maximum(leap.fastest, 1e-300)  # a unit that sees no sample does not move
    pace = np.where(walk.active, 1e-300, (2.0 if walk.real_time else 1.0) * fastest)

    def moved(theta: ParametersLike) -> np.ndarray:
        return np.where(walk.active[:, None], start, theta)

    time, margins = leap_ahead(
        leap,
        phase.climb,
        lambda theta: phase.margins(moved(theta)),
        margins,
        pace=pace,
        late=walk.late,
        horizon=horizon,
        at=walk.at,
    )
    walk.evaluations += leap.evaluations
    if not (time * float(leap.fastest.max()) > walk.at.worth or time == horizon):
        return None
    walk.theta, walk.lasted = moved(leap.after(time)), walk.lasted + time
    return margins

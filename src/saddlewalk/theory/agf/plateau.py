"""Plateaus: dormant units climb against a frozen residual, until the first wakes or active ones leave.

In closed form where there is one (`leap`, degree 2), on a clock of their own above degree 2 (`climb`), and by
steps where units pass kinks.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from saddlewalk import ode
from saddlewalk.curves import Stopped
from saddlewalk.problem import ParametersLike
from saddlewalk.theory.agf.alternation import Alternation, Margins
from saddlewalk.theory.agf.climb import Climb
from saddlewalk.theory.agf.leap import climb_of, leap_ahead, leap_of

if TYPE_CHECKING:
    from saddlewalk.theory.agf.walk import Walk


def cross_plateau(walk: "Walk") -> Stopped | None:
    """Dormant units climb with the residual frozen until the first wakes, or active ones leave.

    Parameters
    ----------
    walk : where it is, and the curve behind it.
    """
    walk.begin_phase()
    if walk.problem.units.rotatable and not walk.active.all():
        walk.mix_dormant()
    flow = walk.flow(plateau=True)
    margins = walk.margins(flow)
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
        if not _leap(walk, flow, margins):
            taken = _climb(walk, flow, least)
            if taken is None:
                return Stopped.STALLED
            steps, least = steps + taken, 2 * least
        margins = walk.margins(flow)
    walk.end_tail(walk.lasted)
    row = walk.record.add(np.array([[walk.time, walk.present_loss, 0.0]]))
    walk.record.add_moment(row, walk.theta, walk.active.copy(), walk.record.moments[-1].output)
    walk.wake(margins, walk.at.at_event)
    return None


def _climb(walk: "Walk", flow: Alternation, most: int) -> int | None:
    """Integrate dormant units; the steps that it took, or none if it stalled."""
    if walk.problem.pace_degree > 2:
        return _climb_on_own_clock(walk, flow)
    steps = 0
    for piece in walk.integrate(flow, "explicit", walk.tolerance(plateau=True), most):
        steps += piece.steps
        if piece.stalled:
            return None
    return steps


def _climb_on_own_clock(walk: "Walk", flow: Alternation) -> int | None:
    climb = Climb.of(flow, walk.theta, float(walk.largest_drive.max()), walk.horizon)
    origin, start, steps = walk.lasted, walk.theta, 0
    for piece in ode.integrate(
        climb,
        climb.state(walk.theta),
        kind="explicit",
        rtol=walk.tolerance(plateau=True),
        times=np.zeros(0),
        max_steps=walk.at.most_steps,
    ):
        steps += piece.steps
        walk.evaluations += piece.evaluations
        walk.theta = np.where(walk.active[:, None], start, climb.parameters(piece.end))
        walk.lasted = origin + climb.unit * float(piece.end[0, -1])
        walk.remember_drives(piece.saved)
        walk.tell(walk.level)
        if piece.stalled:
            return None
        if walk.no_utility_left(piece.saved[-1]):
            break
    return steps


def _leap(walk: "Walk", flow: Alternation, margins: Margins) -> bool:
    """Go on in closed form to where the first unit wakes, as far as it is true; was it worth it?"""
    residual = np.asarray(flow.residual)
    leap = leap_of(walk.problem, walk.theta, residual)
    if leap is None:
        return False
    start, horizon = walk.theta, walk.horizon
    fastest = np.maximum(leap.fastest, 1e-300)  # a unit that sees no sample does not move
    pace = np.where(walk.active, 1e-300, (2.0 if walk.real_time else 1.0) * fastest)

    def moved(theta: ParametersLike) -> np.ndarray:
        return np.where(walk.active[:, None], start, theta)

    time = leap_ahead(
        leap,
        climb_of(walk.problem, residual),
        lambda theta: walk.margins(flow, moved(theta)),
        margins,
        pace=pace,
        late=walk.late,
        horizon=horizon,
        at=walk.at,
    )
    if not (time * float(leap.fastest.max()) > walk.at.worth or time == horizon):
        return False
    walk.theta, walk.lasted = moved(leap.after(time)), walk.lasted + time
    return True

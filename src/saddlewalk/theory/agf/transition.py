"""Transitions: active units descend together until they rest; others wake and sleep meanwhile.

How a transition ends: what is left is a tail in closed form (`tail`), nothing is left, or what still moves no
longer matters (`settling`).
"""

import math
from typing import TYPE_CHECKING

import jax
import numpy as np

from saddlewalk import ode
from saddlewalk.curves import Stopped
from saddlewalk.problem import norms
from saddlewalk.problem.motion import drives
from saddlewalk.theory.agf.alternation import Margins
from saddlewalk.theory.agf.settling import Outlook, bottom_of_tail
from saddlewalk.theory.agf.tail import Relaxation, find_tail

if TYPE_CHECKING:
    from saddlewalk.theory.agf.walk import Walk


_NEARER = 0.5
"""Part of what counts as no drive that is asked for next, where a unit without it goes on all the same."""


def pass_transition(walk: "Walk") -> Stopped | None:
    """Active units descend until they rest; dormant ones wake and sleep meanwhile.

    Parameters
    ----------
    walk : where it is, and the curve behind it.
    """
    taken, spent, passed = 0, walk.evaluations, walk.age if walk.time == 0 else 0.0
    kind, patience = _kinds(walk)
    walk.begin_phase()
    walk.near, walk.idle_since = walk.at.near_rest, math.inf
    walk.last = walk.at.last if walk.problem.squared else 1.0
    while taken < walk.at.most_steps and walk.horizon > 0:
        phase = walk.phase(plateau=False)
        margins = phase.margins(walk.theta)
        if walk.apply(margins):
            continue
        if float(margins.resting) <= walk.at.at_event or not walk.active.any():
            if comes_to_rest(walk, margins):
                return None
            continue
        tolerance, before = walk.tolerance(plateau=False, kind=kind), taken
        walk.took_stiff_steps |= kind != "explicit"
        for piece in walk.integrate(phase, kind, tolerance, patience):
            taken += piece.steps
            passed += float(piece.time[-1])
            if piece.stalled:
                return Stopped.STALLED
            if piece.event:
                margins = jax.tree.map(lambda rows: rows[-1], piece.saved)
                reached = walk.reached(margins)
                if walk.rotatable and (np.asarray(margins.waking) <= reached).any():
                    walk.mix_dormant()  # what woke may be a trace of what others have learned
                    margins, reached = walk.margins_in_transition(), walk.at.at_event
                rests = not walk.apply(margins, reached) and float(margins.resting) <= reached
                if rests and comes_to_rest(walk, margins):
                    return None
            elif _settled(walk, piece, passed, walk.evaluations - spent):
                if _settle(walk):
                    return None
                spent = walk.evaluations
            if _wants_a_jacobian(walk, kind, piece):
                kind = "implicit"
                break
        if taken == before:  # not one step was good
            return Stopped.STALLED
        if taken >= patience and kind == "explicit":
            kind, patience = _stiff(walk), walk.at.most_steps
    return Stopped.LIMIT


def comes_to_rest(walk: "Walk", margins: Margins) -> bool:
    """Rest, if what is left is a tail in closed form, or nothing; else go on until nearer to it.

    Parameters
    ----------
    walk : where it is, and the curve behind it.
    margins : how far each event is there.
    """
    if walk.real_time:
        walk.active &= ~np.asarray(margins.dozing)
    learned = float(margins.view.loss) <= walk.nothing
    if walk.active.any() and not learned and _close_tail(walk):
        return True
    while walk.near > walk.at.exhausted:
        walk.near = max(0.1 * walk.near, walk.at.exhausted)
        if not _rests(walk, walk.near):
            return False
        if _rests(walk, walk.at.exhausted):  # and so at all between
            break
    if not learned and _goes_on(walk, margins) and _asks_for_less(walk):
        return False
    walk.rest()
    return True


def _asks_for_less(walk: "Walk") -> bool:
    """Ask for less drive than there is; False if the active units rest whatever is asked: calm beside dormant
    ones, which wake long before a slow one has come anywhere."""
    walk.near, last = walk.at.exhausted, walk.last
    while walk.last * walk.at.convergence > walk.near:  # below, `near` alone decides
        walk.last *= _NEARER
        if not _rests(walk, walk.near):
            return True
    walk.last = last
    return False


def _rests(walk: "Walk", near: float) -> bool:
    """Whether the active units are at rest, where this part of their drive counts as near to it."""
    kept, walk.near = walk.near, near
    rests = float(walk.margins_in_transition().resting) <= walk.at.at_event
    walk.near = kept
    return rests


def _goes_on(walk: "Walk", margins: Margins) -> bool:
    """Whether units with hardly any drive would still change in as much time as has passed.

    A slow unit has little drive beside the first ones, and yet much to gain beside what is left of the loss;
    and one that may have its minimum at infinity is approached like 1/time. As in `train` nothing more is
    waited for when there has been no drive for so many times as long as it took to lose it.
    """
    if not walk.real_time:
        return False
    time = walk.age + walk.time
    walk.idle_since = min(walk.idle_since, time)
    change = math.sqrt(walk.at.convergence)
    return bool((_growth(walk, margins) * time > change).any()) and change * time < walk.idle_since


def _close_tail(walk: "Walk") -> bool:
    """Rest where the tail of the transition leads, if it is one; the clock stands at its beginning."""
    if walk.theta.size > walk.at.dense_tail or walk.problem.adaptive:
        return False
    phase = walk.phase(plateau=False)
    # in any direction, not in theirs: what turns them may still be tiny
    size = norms(walk.theta[~walk.active])[:, 0].max(initial=0.0)
    growth = walk.largest_drive.max() * size ** (walk.problem.pace_degree - 2)
    factor = walk.at.slow if walk.problem.pace_degree > 2 else walk.at.slow_by_exponentials
    slow = factor * growth if walk.real_time and not walk.active.all() else 0.0
    relaxation = Relaxation.of(phase, phase.state(walk.theta), slow)
    walk.stiffest = float(relaxation.rates.max(initial=0.0))
    tail = find_tail(phase, walk.theta, relaxation, walk.at, walk.time, walk.real_time)
    if tail is None:
        return False
    before, awake, level = walk.theta, walk.active.copy(), walk.level
    walk.theta, walk.level, walk.tail = tail.theta, tail.loss, tail
    walk.apply(walk.margins_in_transition())
    if (walk.active & ~awake).any():  # it does not rest: somebody wakes on the way there
        walk.theta, walk.level, walk.tail, walk.active = before, level, None, awake
        return False
    return True


def _kinds(walk: "Walk") -> tuple[str, int]:
    """Steps that suit a transition, and how many of them are tried before stiff ones."""
    if not walk.problem.smooth or walk.problem.adaptive:
        return "explicit", walk.at.most_steps  # the others want a symmetric Jacobian
    # explicit steps would shake what is at rest more than the rest moves
    if (walk.begun and walk.time == 0) or _is_stiff(walk):
        return _stiff(walk), walk.at.most_steps
    if walk.problem.pace_degree <= 2:
        return "explicit", walk.at.stiff_after
    cheap = _stiff(walk) == "implicit"
    return "explicit", walk.at.stiff_after_above_2 * (1 if cheap else 2)


def _is_stiff(walk: "Walk") -> bool:
    """Whether active units that rest relax far faster than anything else moves."""
    if walk.stiffest == 0:
        return False
    growth = _growth(walk, walk.margins_in_transition())
    return bool(walk.stiffest > walk.at.far_stiffer * growth.max(initial=0.0))


def _growth(walk: "Walk", margins: Margins) -> np.ndarray:
    """Of the logarithms of the active units, at most."""
    size = norms(walk.theta[walk.active])[:, 0]
    drive = np.asarray(margins.view.drive)[walk.active]
    return np.asarray(drive * size ** (walk.problem.pace_degree - 2))


def _stiff(walk: "Walk") -> str:
    """Steps for what is stiff: with a dense Jacobian where that is small."""
    return "implicit" if walk.theta.size <= walk.at.dense else "stabilized"


def _wants_a_jacobian(walk: "Walk", kind: str, piece: ode.Piece) -> bool:
    """Whether stabilized steps have become so long that each takes more than a Jacobian would."""
    size = walk.theta.size
    return (
        kind == "stabilized"
        and size <= walk.at.most_dense
        and piece.evaluations > size * piece.steps
    )


def _settled(walk: "Walk", piece: ode.Piece, passed: float, spent: int) -> bool:
    """What still moves no longer matters."""
    view = piece.saved.view
    last = walk.no_utility_left(view.drive[-1])
    outlook = Outlook.of(
        np.asarray(view.loss),
        np.asarray(view.output)[:, walk.active],
        lasted=float(piece.time[-1] - piece.time[0]),
        passed=passed,
        level=walk.level,
        last=last,
    )
    if not walk.problem.smooth:
        return (last and _goes_nowhere(walk, piece)) or outlook.stands_on_kinks(walk.at)
    useful = view.drive[-1] > walk.at.convergence * walk.largest_drive
    if (walk.active & piece.saved.rising[-1] & useful).any():
        return False
    if outlook.has_faded(walk.at):
        return not _is_leaving(walk)
    # in Algorithm 1 the clock stands: nothing is lost when what is left is polished away
    return spent >= walk.at.long and (not walk.real_time or outlook.is_a_tail(walk.at, spent))


def _is_leaving(walk: "Walk") -> bool:
    """Whether the active units are on their way from a saddle, slowly as yet."""
    if not walk.real_time or walk.theta.size > walk.at.dense_tail or walk.problem.adaptive:
        return False
    phase = walk.phase(plateau=False)
    return bool(Relaxation.of(phase, phase.state(walk.theta), 0.0).grows.any())


def _goes_nowhere(walk: "Walk", piece: ode.Piece) -> bool:
    """Whether no unit makes any way over a piece: where `train` stops, too."""
    way = piece.states[-1] - piece.states[0]
    lasted = float(piece.time[-1] - piece.time[0])
    drive = drives(walk.problem, walk.theta, way / max(lasted, 1e-300))
    return bool((drive <= walk.at.convergence * walk.largest_drive)[walk.active].all())


def _settle(walk: "Walk") -> bool:
    """Rest here, or where a smooth loss has its bottom; False if that is no tail but a descent."""
    if walk.problem.smooth:
        bottom = bottom_of_tail(walk.phase(plateau=False), walk.theta, walk.level, walk.at)
        if bottom is None:
            return False
        walk.theta = bottom
        walk.apply(walk.margins_in_transition())
    walk.rest()
    return True

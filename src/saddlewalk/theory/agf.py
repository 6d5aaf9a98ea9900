r"""Alternating Gradient Flows for any sum of units: Algorithm 1, and its variant in real time.

**Algorithm 1** (`algorithm-1`). Dormant units climb; the first whose norm reaches 1, that is whose
accumulated utility reaches :math:`c_i/\eta` (Eq 3), wakes. The clock stops while the active units go to
a critical point of their loss. Units that collapse on the way return to dormancy in the state in
which they woke, with accumulated utility :math:`c_i/\eta` (appendix B.3).

**In real time** (`numeric`). At finite scale a transition takes time, in which dormant units go on
growing, and may wake before it is over. Here a unit wakes well before it is felt, and transitions
run in real time. Only plateaus are skipped over: there active units rest and the residual is
frozen, so the cost does not depend on how long they last.

**Aligned at once** (`instant-alignment`). Algorithm 1 in which dormant units need no time to find the
first maximum of their utility.
"""

import itertools
from dataclasses import replace

import numpy as np

from saddlewalk.curves.curve import LossCurve
from saddlewalk.curves.jumps import find_jumps, jump_between, turned_on
from saddlewalk.curves.stages import Stage
from saddlewalk.show.progress import Progress
from saddlewalk.theory.base import Outcome, Start
from saddlewalk.theory.naming import name_feature
from saddlewalk.theory.staircase import Assumption
from saddlewalk.theory.walk import Moment, Walk

_LEAST_DROP = 1e-6
"""A step of the loss below this part of the first loss is no stage."""


def in_real_time(start: Start) -> Outcome:
    """Real-time AGF at finite scale."""
    return _outcome(
        start, Walk(start.problem, start.theta, real_time=True, max_time=start.max_time)
    )


def algorithm_1(start: Start) -> Outcome:
    """Algorithm 1 as printed."""
    return _outcome(
        start, Walk(start.problem, start.theta, real_time=False, max_time=start.max_time)
    )


def instantly_aligned(start: Start) -> Outcome:
    """Algorithm 1 from a start at which every unit is aligned with the maximum that it climbs to.

    Up to the first jump this is the limit of vanishing scale for degree 2 (appendix B.4), and above
    the lower bound of Eq 17. Later on units turn as in Algorithm 1: one that is aligned with a
    feature already learned must first forget it.
    """
    walk = Walk(start.problem, start.theta, real_time=False, aligned=True, max_time=start.max_time)
    outcome = _outcome(start, walk)
    note = Assumption(
        "dormant units align at once",
        start.problem.degree == 2,
        float(start.problem.degree),
        "kappa = 2 and a vanishing scale; above 2 the first time is a lower bound (Eq 17)",
    )
    return replace(outcome, assumptions=(*outcome.assumptions, note))


def _outcome(start: Start, walk: Walk) -> Outcome:
    with Progress("predicting", None) as walk.bar:
        stopped = walk.run()
    curve = walk.curve if start.problem.smooth else walk.curve.evened()
    return Outcome(
        stages=_stages(walk, curve),
        stopped=stopped,
        assumptions=(_separate(walk, curve),),
        curve=(curve.time, curve.loss),
        initial_loss=float(curve.loss[0]),
    )


def _separate(walk: Walk, curve: LossCurve) -> Assumption:
    """Fig 7: in wide networks units wake before the last ones have come to rest."""
    landings = _landings(walk, curve)[1:]
    early = sum(row not in walk.rests for row in landings[:-1])
    part = early / len(landings) if landings else 0.0
    return Assumption(
        "separate transitions: part of the stages cut short by the next one",
        early == 0,
        part,
        "0 for a staircase; towards 1 it is a slide, which only real time follows",
    )


def _stages(walk: Walk, curve: LossCurve) -> tuple[Stage, ...]:
    """One stage from plateau to plateau, timed where the loss passes the middle."""
    stages = []
    for a, b in itertools.pairwise(_landings(walk, curve)):
        before, after = _moment(walk, a), _moment(walk, b)
        on, off = _changed(before, after, walk.problem.units.rotatable)
        jump = jump_between(curve.part(a, b), 0, b - a)
        stages.append(
            Stage(
                time=jump.time,
                loss=jump.after,
                units=on,
                dormant=off,
                feature=name_feature(walk.problem, before.alone, after.alone, on),
            )
        )
    return tuple(stages)


def _changed(before: Moment, after: Moment, mixed: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Units that turned on and off between two plateaus."""
    was, now = (np.where(m.active, m.output, 0.0) for m in (before, after))
    if mixed:
        return (), ()  # a basis vector is no neuron
    return turned_on(was, now), tuple(map(int, np.flatnonzero(before.active & ~after.active)))


def _landings(walk: Walk, curve: LossCurve) -> list[int]:
    """Rows of the curve on its plateaus: where all active units rested, and within a transition
    where the curve itself shows a rest before the next unit takes over."""
    landings = [0]
    rests = [*walk.rests[1:]]
    if walk.rests[-1] != len(curve.time) - 1:
        rests.append(len(curve.time) - 1)
    for rest in rests:
        start = landings[-1]
        if curve.loss[start] - curve.loss[rest] <= _LEAST_DROP * curve.loss[0]:
            continue  # nothing was gained: the units belong to the next stage
        landings += [start + jump.index_after for jump in find_jumps(curve.part(start, rest))[:-1]]
        landings.append(rest)
    return landings


def _moment(walk: Walk, row: int) -> Moment:
    """The remembered network nearest to a row of the curve."""
    return min(walk.moments, key=lambda moment: abs(moment.index - row))

r"""Alternating Gradient Flows for any sum of units: Algorithm 1, and its variant in real time.

**Algorithm 1** (`algorithm-1`). Dormant units climb; the first whose norm reaches 1, that is whose
accumulated utility reaches :math:`c_i/\eta` (Eq 3), wakes. The clock stops while the active units go to
a critical point of their loss. Units that collapse on the way return to dormancy in the state in
which they woke, with accumulated utility :math:`c_i/\eta` (appendix B.3).

**In real time** (`numeric`). At finite scale a transition takes time, in which dormant units go on
growing, and may wake before it is over. Here a unit wakes well before it is felt, and transitions
run in real time. Plateaus are skipped over: there active units rest and the residual is frozen, so the
cost does not depend on how long they last. So are the ends of transitions, which are exponentials.

**Aligned at once** (`instant-alignment`). Algorithm 1 in which dormant units need no time to find the
first maximum of their utility.
"""

import itertools
import math
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from saddlewalk.curves import LossCurve, Stage, Stopped, find_jumps, turned_on
from saddlewalk.curves.curve import GRAIN
from saddlewalk.curves.jumps import jump_between
from saddlewalk.curves.stages import acceleration
from saddlewalk.problem import Problem, compiled
from saddlewalk.show.progress import Progress
from saddlewalk.tasks import AbstractTask, from_arrays
from saddlewalk.theory.agf.naming import Change, name_features
from saddlewalk.theory.agf.record import Moment
from saddlewalk.theory.agf.walk import Walk
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.losses import told_apart
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import AbstractUnits, Dense

_LEAST_DROP = 1e-6
"""A step of the loss below this part of the loss without any unit is no stage."""
_LEFT = 0.01
"""Utility left at the end, as a part of that at the start, that is worth a word."""
_RISEN = 2.0
"""Growth of a unit's output that makes it one that was learned."""
_RISING, _RISING_AT_KINKS = 1.02, 1.5
"""A fall that becomes this much faster again is a stage to come, and not the end of one: by more than chords
err; and at a kink a velocity jumps, whatever becomes of it."""
_MOST = 0.5
"""Part of a fall that is most of it."""
_SWING = 1e-3
"""Part of what is gained by which a loss that swings rises again."""


class AlternatingGradientFlows(AbstractTheory[AbstractTask, AbstractUnits]):
    """The theory of every sum of units."""

    methods: ClassVar[tuple[str, ...]] = ("numeric", "algorithm-1", "instant-alignment")
    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 2, Algorithm 1, appendix B",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Sums of units; a deep network is none."""
        return problem.units.additive

    @classmethod
    def example(cls) -> Start:
        """Two neurons that learn the products of two inputs."""
        x = np.random.default_rng(0).normal(size=(40, 2))
        task = from_arrays(x, 2 * x[:, 0] ** 2 - x[:, 1] ** 2)
        return Start(Problem(task, Dense(2, "quadratic")), 1e-2)

    @cached_property
    def numeric(self) -> Outcome:
        """In real time, at finite scale."""
        return self._walked(real_time=True)

    @cached_property
    def algorithm_1(self) -> Outcome:
        """Algorithm 1 as printed."""
        return self._walked(real_time=False)

    @cached_property
    def instant_alignment(self) -> Outcome:
        """Algorithm 1 from a start at which every unit is aligned with the maximum that it climbs to.

        Up to the first jump this is the limit of vanishing scale for degree 2 (appendix B.4), and above
        the lower bound of Eq 17. Later on units turn as in Algorithm 1: one that is aligned with a
        feature already learned must first forget it.
        """
        outcome, degree = self._walked(real_time=False, aligned=True), self.start.problem.degree
        note = Assumption(
            "dormant units align at once",
            degree == 2,
            float(degree),
            "kappa = 2 and a vanishing scale; above 2 the first time is a lower bound (Eq 17)",
        )
        return replace(outcome, assumptions=(*outcome.assumptions, note))

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """A small start, and an origin that is a saddle."""
        norm, degree = self.start.norm, self.start.problem.degree
        blur = 1 / acceleration(min(norm, 0.5), self.start.problem.pace_degree)
        return (
            Assumption("initial norm of a unit", norm < 1, norm, "below 1; the smaller the better"),
            Assumption(
                "order kappa of the units in their parameters",
                degree >= 2 and math.isfinite(blur),
                float(degree),
                "at least 2, so that the origin is a saddle",
            ),
        )

    def _walked(self, *, real_time: bool, aligned: bool = False) -> Outcome:
        start = self.start
        if not real_time or start.given is None:
            start.check_dormant()
        walk = Walk(
            start.problem,
            start.theta,
            real_time=real_time,
            aligned=aligned,
            max_time=start.max_time,
        )
        with Progress("predicting", start.progress) as walk.bar:
            stopped = walk.run()
        curve = _curve_of(walk)
        landings = _landings(walk, curve)
        return Outcome(
            stages=_stages(walk, curve, landings),
            stopped=stopped,
            assumptions=(
                _separate(walk, landings),
                complete(walk, stopped),
                *_carried(walk, start.norm),
                *_kept_apart(walk),
                *(() if walk.separation is None else told_apart(walk.problem, walk.outputs)),
            ),
            curve=(curve.time, curve.loss),
            initial_loss=float(curve.loss[0]),
            rhs_evaluations=walk.evaluations,
        )


def read_walk(walk: Walk) -> tuple[tuple[Stage, ...], LossCurve]:
    """The stages of a walk that has come to its end, and its loss curve.

    Parameters
    ----------
    walk : from plateau to plateau.
    """
    curve = _curve_of(walk)
    return _stages(walk, curve, _landings(walk, curve)), curve


def _curve_of(walk: Walk) -> LossCurve:
    """The loss curve behind a walk; with kinks its slopes are those of chords, and beside stiff valleys."""
    curve = replace(walk.record.curve, endless=walk.separation is not None)
    if not walk.problem.smooth:
        return curve.evened()
    return curve.integrated() if walk.took_stiff_steps else curve


def _separate(walk: Walk, landings: list[int]) -> Assumption:
    """Fig 7: in wide networks units wake before the last ones have come to rest."""
    early = sum(row not in walk.record.rests for row in landings[1:-1])
    part = early / (len(landings) - 1) if len(landings) > 1 else 0.0
    return Assumption(
        "separate transitions: part of the stages cut short by the next one",
        early == 0,
        part,
        "0 for a staircase; towards 1 it is a slide, which only real time follows",
    )


def complete(walk: Walk, stopped: Stopped) -> Assumption:
    """An early end is told: there is something to learn that no unit of this network will, or not soon; or
    steps ran out before what was asked for.

    Parameters
    ----------
    walk : from plateau to plateau.
    stopped : why it ended.
    """
    if stopped in (Stopped.LIMIT, Stopped.STALLED):
        return Assumption(
            "not cut short: time at which the prediction ends",
            walk.time >= walk.max_time,
            walk.time,
            "an end of its own, or `max_time`; else steps ran out there, and later stages are not listed",
        )
    return Assumption(
        "nothing left: utility that a new unit would find at the end, as a part of that at the start",
        not walk.left > _LEFT,
        walk.left,
        "near 0; else a wider network would learn more, or these units may leave a saddle, at a time "
        "that is below rounding",
    )


def _carried(walk: Walk, norm: float) -> tuple[Assumption, ...]:
    """Units that are mixed carry each other's features: what is to grow must not drown in what has grown."""
    if not (walk.rotatable and walk.real_time):
        return ()
    least = walk.at.least_norm_of_mixed
    return (
        Assumption(
            "basis vectors kept apart in float64: initial norm of a unit",
            norm > least,
            norm,
            f"above {least:g}; below it late modes may come too early, by a part that is not known (the "
            "method `closed` has no such limit)",
        ),
    )


def _kept_apart(walk: Walk) -> tuple[Assumption, ...]:
    """Units that woke together are parallel, the more so the smaller the start; what parts them later has to
    be more than the last digit."""
    if walk.sure_until == math.inf:
        return ()
    return (
        Assumption(
            "units kept apart in float64: time from which a saddle may be left by rounding",
            False,
            walk.sure_until,
            "never; from then on jumps may come at other times and in another order than with exact numbers",
        ),
    )


def _stages(walk: Walk, curve: LossCurve, landings: list[int]) -> tuple[Stage, ...]:
    """One stage from plateau to plateau, timed where the loss passes the middle."""
    stages: list[Stage] = []
    changes: list[Change] = []
    for a, b in itertools.pairwise(landings):
        before, after = walk.record.nearest(a), walk.record.nearest(b)
        if a == 0 and walk.begun and _is_over(walk, after, curve.part(a, b)):
            continue  # the end of a stage that was learned before the start
        on, off = _changed(before, after, walk.problem.units.rotatable)
        jump = jump_between(curve.part(a, b), 0, b - a)
        stages.append(
            Stage(
                # the clock of Algorithm 1 stands in a transition, which no curve crosses
                time=jump.time if walk.real_time else float(curve.time[b]),
                loss=jump.after,
                units=on,
                dormant=off,
                feature={},
            )
        )
        changes.append(Change(before.alone, after.alone, on))
    features = name_features(walk.problem, walk.ask, changes)
    return tuple(
        replace(stage, feature=feature) for stage, feature in zip(stages, features, strict=True)
    )


def _is_over(walk: Walk, after: Moment, fall: LossCurve) -> bool:
    """Whether the fall since the start is the end of what was learned before: none that has risen made it."""
    return _is_fading(fall, walk.problem.smooth) and not _is_theirs(
        walk, after, float(fall.loss[0])
    )


def _is_theirs(walk: Walk, after: Moment, level: float) -> bool:
    """Whether units that had not settled at the start have risen, and the fall from there is theirs: without
    them most of it would be missing.

    A dormant unit that grows tenfold while others relax may be as good as dormant still.
    """
    first = walk.record.first
    risen = after.active & ~walk.settled & (after.output > _RISEN * first.output)
    if not risen.any():
        return False
    without = np.where(risen[:, None], first.theta, after.alone)
    loss, higher = (float(walk.ask(compiled.loss, some)) for some in (after.alone, without))
    return higher - loss > _MOST * (level - loss)


def _is_fading(fall: LossCurve, smooth: bool) -> bool:
    """Whether the loss falls ever more slowly: what was to be learned here has been.

    What relaxes is a sum of decaying exponentials (`tail`), which can only slow down; a fall that gets faster
    again has an origin of its own. Seen by chords: stiff steps know a velocity less well than a loss.
    """
    mean = (fall.loss[0] - fall.loss[-1]) / max(fall.time[-1] - fall.time[0], 1e-300)
    least = GRAIN * mean  # below it a loss at rest shows its rounding
    rate = np.maximum(-fall.evened().rate[1:], least)
    rising = _RISING if smooth else _RISING_AT_KINKS
    return bool((rate <= rising * np.minimum.accumulate(rate)).all())


def _changed(before: Moment, after: Moment, mixed: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Units that turned on and off between two plateaus."""
    was, now = (np.where(m.active, m.output, 0.0) for m in (before, after))
    if mixed:
        return (), ()  # a basis vector is no neuron
    return turned_on(was, now), tuple(map(int, np.flatnonzero(before.active & ~after.active)))


def _swings(curve: LossCurve, start: int, row: int, rest: int) -> bool:
    """Whether the loss only stands still to rise again, as that of a heavy ball does; no flow has it rise."""
    again = float(curve.loss[row:rest].max(initial=-math.inf)) - float(curve.loss[row])
    return again > _SWING * float(curve.loss[start] - curve.loss[rest])


def _landings(walk: Walk, curve: LossCurve) -> list[int]:
    """Rows of the curve on its plateaus: where all active units rested, and within a transition
    where the curve itself shows a rest before the next unit takes over."""
    landings = [0]
    rests = [*walk.record.rests[1:]]
    if walk.record.rests[-1] != len(curve.time) - 1:
        rests.append(len(curve.time) - 1)
    for rest in rests:
        start = landings[-1]
        if curve.loss[start] - curve.loss[rest] <= _LEAST_DROP * walk.untrained:
            continue  # nothing was gained: the units belong to the next stage
        rows = [start + jump.index_after for jump in find_jumps(curve.part(start, rest))[:-1]]
        between = [row for row in rows if not _swings(curve, start, row, rest)]
        landings += between if walk.problem.smooth else _beyond_chatter(curve, start, between, rest)
        landings.append(rest)
    return landings


def _beyond_chatter(curve: LossCurve, start: int, between: list[int], rest: int) -> list[int]:
    """Rests on a curve that chatters along kinks: those with a grain's fall on both sides."""
    grain = GRAIN * float(curve.loss[0] - curve.loss.min())
    kept, last = [], float(curve.loss[start])
    for row in between:
        here = float(curve.loss[row])
        if min(last - here, here - float(curve.loss[rest])) > grain:
            kept.append(row)
            last = here
    return kept

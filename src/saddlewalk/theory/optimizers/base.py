r"""What a theory of one network under one optimizer is, and how stages are read off the curve it predicts.

Which optimizer keeps the staircase? Its steps must shrink with the gradient: then dormant units grow
by a factor a step, plateaus last :math:`\log(1/\alpha)` and every saddle is felt. Where every step has a
length of its own (sign descent, Adam, Muon, normalized descent) a small unit takes as long from
:math:`\alpha` to 1 as from 1 to 2, all of them grow alike, and plateaus vanish as the scale falls.
"""

import abc
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import LossCurve, Stage, Stopped, find_jumps, turned_on
from saddlewalk.errors import InputError
from saddlewalk.optimizers import AbstractOptimizer
from saddlewalk.problem import Problem, compiled
from saddlewalk.programs import Bound
from saddlewalk.theory.agf.naming import Change, name_features
from saddlewalk.theory.base import Outcome, Start
from saddlewalk.theory.deep.first import looks_at
from saddlewalk.theory.deep.networks import OfProblem
from saddlewalk.theory.losses import told_apart
from saddlewalk.theory.staircase import Assumption

_FALL = 0.01
"""Part of the whole fall that is left out at both ends where rests are looked for."""
_PARTS = 200
"""Of the time of the fall."""
_SLOW = 0.1
"""Part of the steepest fall yet to come below which a loss rests: the tail of a fall is no rest."""
RESTING = 1 / 3
"""Part of the time of its fall that a loss must rest to be a staircase."""

_LEAST = 0.01
"""Part of the whole fall that makes a step of a slide a stage."""

Curve = Float[np.ndarray, " time"]


class AbstractStepsTheory(abc.ABC):
    """What is known of one problem under one optimizer, from one start.

    Parameters
    ----------
    start : the problem, and where its units start.
    rule : the optimizer.
    """

    methods: ClassVar[tuple[str, ...]]
    references: ClassVar[tuple[str, ...]]
    any_start: ClassVar[bool] = True
    """Whether it speaks about other starts than those that a scale and a seed make."""

    def __init__(self, start: Start, rule: AbstractOptimizer) -> None:
        self.start, self.rule = start, rule

    @classmethod
    @abc.abstractmethod
    def covers(cls, problem: Problem, rule: AbstractOptimizer) -> bool:
        """Whether this theory speaks about this problem under this optimizer."""

    @property
    @abc.abstractmethod
    def audit(self) -> tuple[Assumption, ...]:
        """Its hypotheses, measured on this problem."""

    def outcome(self, method: str) -> Outcome:
        """What one of the methods predicts."""
        if method not in self.methods:
            raise InputError(
                f"{type(self).__name__} has no method '{method}', but {', '.join(self.methods)}."
            )
        return getattr(self, method.replace("-", "_"))


def resting_share(time: Curve, loss: Curve) -> float:
    """Part of the time of its fall in which a loss hardly falls beside what is to come: above a third for
    a staircase, near 0 for a slide. The wait before it begins does not count, nor does its tail.

    Parameters
    ----------
    time, loss : the curve.
    """
    falling = np.minimum.accumulate(loss)
    whole = falling[0] - falling[-1]
    if not whole > 0:
        return 0.0
    begins = time[np.argmax(falling <= falling[0] - _FALL * whole)]
    ends = time[np.argmax(falling <= falling[-1] + _FALL * whole)]
    if not ends > begins:
        return 0.0
    drops = -np.diff(np.interp(np.linspace(begins, ends, _PARTS + 1), time, falling))
    to_come = np.maximum.accumulate(drops[::-1])[::-1]
    return float(np.mean(drops < _SLOW * to_come))


def staircase_or_slide(share: float) -> Assumption:
    """The hypothesis that there are plateaus at all, by the predicted curve.

    Parameters
    ----------
    share : part of the time of its fall in which the loss rests.
    """
    return Assumption(
        "a staircase is to be expected: part of its fall in which the predicted loss rests",
        share >= RESTING,
        share,
        f"at least {RESTING:.2g}; towards 0 the loss falls in one slide, because steps do not shrink with "
        "the gradient and all units grow alike",
    )


def end_of(share: float) -> Stopped:
    """How a prediction ends whose loss falls no more.

    Parameters
    ----------
    share : part of the time of its fall in which the loss rests.
    """
    return Stopped.CONVERGED if share >= RESTING else Stopped.NO_STAIRCASE


def outcome_of_curve(
    problem: Problem,
    time: Curve,
    loss: Curve,
    thetas: Float[np.ndarray, "time width size"],
    *,
    stopped: Stopped | None = None,
    evaluations: int | None = None,
) -> Outcome:
    """Stages of a predicted curve, found as in the curve of a run, and whether it is a staircase.

    Parameters
    ----------
    problem : units, data and loss.
    time, loss : the curve.
    thetas : parameters of the units at each of its points.
    stopped : why it ends; `None` if the loss falls no more.
    evaluations : gradients that it took.
    """
    curve = LossCurve(time, np.minimum.accumulate(loss), np.minimum(np.gradient(loss, time), 0.0))
    ask = Bound(problem)
    stages: list[Stage] = []
    changes: list[Change] = []
    for jump in find_jumps(curve.evened()):
        if jump.before - jump.after < _LEAST * (curve.loss[0] - curve.loss[-1]):
            continue  # weights that settle
        before, after = thetas[jump.index_before], thetas[jump.index_after]
        sizes = [np.asarray(ask(compiled.feature_lengths, theta)) for theta in (before, after)]
        one_by_one = problem.units.additive and not problem.units.rotatable
        units = turned_on(*sizes) if one_by_one else ()
        stages.append(Stage(time=jump.time, loss=jump.after, units=units, feature={}))
        changes.append(Change(0 * before if not stages[:-1] else before, after, units))
    features = _named(problem, ask, changes)
    share = resting_share(time, loss)
    named = tuple(
        Stage(time=one.time, loss=one.loss, units=one.units, feature=feature)
        for one, feature in zip(stages, features, strict=True)
    )
    return Outcome(
        stages=named,
        stopped=stopped or end_of(share),
        assumptions=(
            staircase_or_slide(share),
            *told_apart(problem, np.asarray(ask(compiled.function, thetas[-1]))),
        ),
        curve=(time, curve.loss),
        initial_loss=float(problem.loss(0 * thetas[0])),
        rhs_evaluations=evaluations,
    )


def _named(problem: Problem, ask: Bound, changes: list[Change]) -> list[dict[str, Any]]:
    """What each stage learned: of a deep network, what it added to the first layer."""
    if problem.units.additive:
        return name_features(problem, ask, changes) if changes else []
    network = OfProblem(problem)
    return [looks_at(network, np.asarray(one.after - one.before)[0]) for one in changes]

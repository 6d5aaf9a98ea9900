"""`predict`: the staircase of a network, without training it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from saddlewalk.curves.stages import acceleration
from saddlewalk.errors import InputError, nearest
from saddlewalk.precision import in_float64
from saddlewalk.problem import AbstractLoss, Problem
from saddlewalk.tasks import AbstractTask
from saddlewalk.theory.agf import algorithm_1, in_real_time, instantly_aligned
from saddlewalk.theory.attention import AttentionTheory
from saddlewalk.theory.base import AbstractTheory, Method, Outcome, Start, refuse_large_start
from saddlewalk.theory.bounds import utility_to_reach
from saddlewalk.theory.diagonal import DiagonalTheory
from saddlewalk.theory.linear import LinearTheory
from saddlewalk.theory.modular import ModularTheory
from saddlewalk.theory.staircase import Assumption, Staircase
from saddlewalk.units import AbstractUnits

NUMERIC: dict[str, Method] = {
    "numeric": in_real_time,
    "algorithm-1": algorithm_1,
    "instant-alignment": instantly_aligned,
}
"""Methods that every sum of units has."""
THEORIES: tuple[AbstractTheory, ...] = (
    DiagonalTheory(),
    LinearTheory(),
    AttentionTheory(),
    ModularTheory(),
)
"""Settings with closed forms."""
_REFERENCE = "kunin2025agf: Alternating Gradient Flows, section 2, Algorithm 1, appendix B"


@in_float64
def predict(
    task: AbstractTask,
    units: AbstractUnits,
    scale: float,
    seed: int = 0,
    method: str = "auto",
    rates: dict[str, float] | None = None,
    *,
    penalty: AbstractLoss | None = None,
    start: Any = None,
    adaptive: bool = False,
    eta: str = "norm",
    max_time: float = math.inf,
) -> Staircase:
    """Predict what is learned, in which order, when, and the loss between.

    Parameters
    ----------
    task, units : what is learned, and what is summed.
    scale : initialization scale alpha.
    seed : seed of the initialization, the same as in `train`.
    method : "numeric" (AGF in real time, for any units), "algorithm-1" (AGF as printed, for any
        units), "instant-alignment" (the same with dormant units aligned at once: the limit for degree
        2, the lower bounds of Eq 17 above), "closed" (the theorem's formulas at this scale), "limit"
        (scale to zero), or "auto": the closed form where there is one that gives times and its
        hypotheses hold, else "numeric".
    rates : learning rate of each layer by name, as in `train`.
    penalty : loss of one output against one target; squared error by default.
    start : parameters `(width, size)` to start from, instead of `scale` and `seed`.
    adaptive : give each unit the learning rate norm^(2-kappa) of its own (appendix B.5).
    max_time : where "numeric" and "algorithm-1" stop. They stop by themselves when every dormant unit's
        utility has fallen to 1e-4 of its largest, as `train` does.
    eta : what accelerated time is measured in: "norm" (that of a unit of mean size at the start, Eq
        20) or "mean" (the mean of the thresholds c_i over the units, section 2.1).
    """
    if eta not in ("norm", "mean"):
        raise InputError(f"eta must be 'norm' or 'mean'; got '{eta}'.")
    if not max_time > 0:
        raise InputError(f"The time limit must be positive; got {max_time}.")
    if isinstance(units, AbstractUnits) and not units.additive:
        raise InputError(
            "AGF predicts networks that are a sum of units; a deep network is none. `train` it, and look "
            "at its layers with `diagnose`."
        )
    problem = Problem(task, units, penalty, rates, adaptive=adaptive)
    origin = Start(problem, scale, seed, start, max_time)
    theory = next((t for t in THEORIES if not adaptive and t.covers(problem)), None)
    methods = {**(theory.methods() if theory else {}), **NUMERIC}
    if method != "auto" and method not in methods:
        raise InputError(
            f"{type(units).__name__} units have no method '{method}' on this task."
            f"{nearest(method, ['auto', *methods])}"
        )
    chosen = method
    if method == "auto":
        chosen = theory.preferred(origin) if theory and start is None else "numeric"
    if chosen in NUMERIC:
        refuse_large_start(origin)
    outcome = methods[chosen](origin)
    audit = theory.audit(origin) if theory else _general_audit(origin)
    if eta == "mean":
        outcome = replace(outcome, eta=_mean_threshold(origin))
    return _staircase(origin, chosen, outcome, audit, theory)


def _mean_threshold(start: Start) -> float:
    """The mean of c_i (Eq 3) over the units: the paper's learning rate."""
    return float(np.mean(utility_to_reach(start.norms, start.problem.pace_degree)))


def _staircase(
    start: Start,
    method: str,
    outcome: Outcome,
    audit: tuple[Assumption, ...],
    theory: AbstractTheory | None,
) -> Staircase:
    problem = start.problem
    eta = outcome.eta
    if eta is None:
        eta = acceleration(start.norm, problem.pace_degree)
    initial = outcome.initial_loss
    return Staircase(
        setting=problem.task.name,
        method=method,
        scale=start.scale,
        seed=start.seed,
        degree=problem.degree,
        eta=eta,
        initial_loss=float(problem.loss(0 * start.theta)) if initial is None else initial,
        _problem=problem,
        stages=tuple(replace(s, time_accelerated=s.time / eta) for s in outcome.stages),
        stopped=outcome.stopped,
        assumptions=(*audit, *outcome.assumptions),
        references=theory.references if theory else (_REFERENCE,),
        curve=None
        if outcome.curve is None
        else (tuple(outcome.curve[0].tolist()), tuple(outcome.curve[1].tolist())),
    )


def _general_audit(start: Start) -> tuple[Assumption, ...]:
    blur = 1 / acceleration(start.norm, start.problem.pace_degree)
    return (
        Assumption(
            "initial norm of a unit", start.norm < 1, start.norm, "below 1; the smaller the better"
        ),
        Assumption(
            "order kappa of the units in their parameters",
            start.problem.degree >= 2 and math.isfinite(blur),
            float(start.problem.degree),
            "at least 2, so that the origin is a saddle",
        ),
    )

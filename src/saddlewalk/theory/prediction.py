"""`predict`: the staircase of a network, without training it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from saddlewalk.curves.stages import acceleration
from saddlewalk.errors import InputError, check_number, checked_seed, nearest
from saddlewalk.optimizers import AbstractOptimizer, as_optimizer
from saddlewalk.precision import in_float64
from saddlewalk.problem import AnyLoss, Problem
from saddlewalk.problem.steps import check_batches
from saddlewalk.renamed import answer_old_arguments
from saddlewalk.tasks import AbstractTask
from saddlewalk.theory.agf import AlternatingGradientFlows
from saddlewalk.theory.attention import AttentionTheory
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.bounds import utility_to_reach
from saddlewalk.theory.composition import CompositionTheory
from saddlewalk.theory.deep import DeepLinearTheory, FirstEscapeTheory
from saddlewalk.theory.diagonal import DeepDiagonalTheory, DiagonalLossTheory, DiagonalTheory
from saddlewalk.theory.linear import LinearLossTheory, LinearTheory
from saddlewalk.theory.modular import ModularTheory
from saddlewalk.theory.optimizers.batches import batch_noise
from saddlewalk.theory.optimizers.prediction import predict_in_steps
from saddlewalk.theory.scales import comparable_inputs
from saddlewalk.theory.staircase import Assumption, Staircase
from saddlewalk.units import AbstractUnits

THEORIES: tuple[type[AbstractTheory], ...] = (
    DiagonalTheory,
    DeepDiagonalTheory,
    DiagonalLossTheory,
    LinearTheory,
    DeepLinearTheory,
    LinearLossTheory,
    AttentionTheory,
    ModularTheory,
    CompositionTheory,
    FirstEscapeTheory,
    AlternatingGradientFlows,
)
"""From the most special to the one that every sum of units has."""


def theories_of(problem: Problem) -> tuple[type[AbstractTheory], ...]:
    """The theories that speak about a problem, the most special first.

    Parameters
    ----------
    problem : units, data and loss.
    """
    general = (AlternatingGradientFlows,) if problem.adaptive else THEORIES
    return tuple(theory for theory in general if theory.covers(problem))


def methods_of(problem: Problem) -> tuple[str, ...]:
    """What `predict(method=...)` takes for a problem.

    Parameters
    ----------
    problem : units, data and loss.
    """
    theories = reversed(theories_of(problem))
    return ("auto", *dict.fromkeys(method for theory in theories for method in theory.methods))


@answer_old_arguments(penalty="loss")
@in_float64
def predict(
    task: AbstractTask,
    units: AbstractUnits,
    scale: float,
    seed: int = 0,
    *,
    method: str = "auto",
    rates: dict[str, float] | None = None,
    loss: AnyLoss = None,
    start: Any = None,
    adaptive: bool = False,
    eta: str = "norm",
    max_time: float = math.inf,
    optimizer: Any = None,
    learning_rate: float | None = None,
    momentum: float | None = None,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Staircase:
    """Predict what is learned, in which order, when, and the loss between.

    Parameters
    ----------
    task, units : what is learned, and what is summed.
    scale : initialization scale alpha.
    seed : seed of the initialization, the same as in `train`.
    method : "numeric" (AGF in real time, for any units), "algorithm-1" (AGF as printed, for any
        units), "instant-alignment" (the same with dormant units aligned at once: the limit for degree
        2, the lower bounds of Eq 17 above), "closed" (formulas at this scale), "limit" (scale to zero),
        "paper" (diagonal networks: the formulas as printed), or "auto": "numeric", and for diagonal networks
        of more than 2,000 units and linear ones of more than 20,000 weights "closed" (with more than 300
        modes and no `max_time`: "limit").
    rates : learning rate of each layer by name, as in `train`.
    loss : "squared" (the default), "cross-entropy", "logistic", "huber" or "huber:0.5", or a function of one
        output and one target, as for `losses.as_loss`.
    start : parameters `(width, size)` to start from, instead of `scale` and `seed`. They may come from the
        middle of a training: units that are in use are then active from the start, and the first stage
        that "numeric" predicts is the next one to come.
    adaptive : give each unit the learning rate norm^(2-kappa) of its own (appendix B.5).
    eta : what accelerated time is measured in: "norm" (that of a unit of mean size at the start, Eq
        20) or "mean" (the mean of the thresholds c_i over the units, section 2.1).
    max_time : where "numeric", "algorithm-1" and the closed forms of linear and diagonal networks stop. The
        first two stop by themselves when every dormant unit's utility has fallen to 1e-4 of its largest, as
        `train` does.
    optimizer : what makes finite steps, as in `train`: gradient flow if none is given. Methods are then
        "numeric" (AGF in steps, or joined steps where there is no plateau to skip), and where they exist
        "closed" (sign descent on diagonal, Muon on linear networks), "flow" (normalized descent).
    learning_rate, momentum : of an optimizer that is given by its name.
    batch_size : samples of each of its steps, as in `train`: what is predicted is for all data; an assumption
        says by how much batches move the first jump.
    progress : show a progress line on stderr; by default if it is a terminal.
    """
    rule = _checked_optimizer(optimizer, learning_rate, momentum, batch_size)
    if eta not in ("norm", "mean"):
        raise InputError(f"`eta` must be 'norm' or 'mean'; got '{eta}'.")
    check_number("max_time", max_time)
    checked_seed(seed)
    if not max_time > 0:
        raise InputError(f"`max_time` must be positive; got {max_time}.")
    problem = Problem(task, units, loss, rates, adaptive=adaptive)
    origin = Start(problem, scale, seed, start, max_time, progress)
    if rule is not None:
        chosen, outcome, audit, references = predict_in_steps(origin, rule, method)
        if batch_size is not None:
            full = Problem(task, units, loss, rates, keep_samples=True, adaptive=adaptive)
            check_batches(full, batch_size)
            audit = (*audit, batch_noise(origin, full, rule, batch_size, outcome))
        return _staircase(origin, chosen, outcome, (*_audit(origin), *audit), references)
    theories = [theory(origin) for theory in theories_of(problem)]
    if not theories:
        raise InputError(
            "Adaptive learning rates are those of units, and a deep network is no sum of units: leave out "
            "`adaptive`."
        )
    chosen = theories[0].preferred if method == "auto" and start is None else method
    chosen = "numeric" if chosen == "auto" else chosen
    theory = next((one for one in theories if chosen in one.methods), None)
    if theory is None:
        raise InputError(
            f"{type(units).__name__} units have no method '{method}' on this task."
            f"{nearest(method, methods_of(problem))}"
        )
    outcome = theory.outcome(chosen)
    if eta == "mean":
        outcome = replace(outcome, eta=_mean_threshold(origin))
    return _staircase(origin, chosen, outcome, theories[0].audit, theory.references)


def _checked_optimizer(
    optimizer: Any, learning_rate: float | None, momentum: float | None, batch_size: int | None
) -> AbstractOptimizer | None:
    """What makes the steps; numbers without it would be without effect."""
    if optimizer is not None:
        return as_optimizer(optimizer, learning_rate, momentum)
    given = {"learning_rate": learning_rate, "momentum": momentum, "batch_size": batch_size}
    for name, value in given.items():
        if value is not None:
            raise InputError(f"Gradient flow has no `{name}`: name an `optimizer`.")
    return None


def _audit(start: Start) -> tuple[Assumption, ...]:
    """What holds of the start, whatever moves the weights."""
    return theories_of(start.problem)[-1](start).audit


def _mean_threshold(start: Start) -> float:
    """The mean of c_i (Eq 3) over the units: the paper's learning rate."""
    return float(np.mean(utility_to_reach(start.norms, start.problem.pace_degree)))


def _staircase(
    start: Start,
    method: str,
    outcome: Outcome,
    audit: tuple[Assumption, ...],
    references: tuple[str, ...],
) -> Staircase:
    """A prediction with the audit of the most special theory that speaks about the problem."""
    problem, eta, initial = start.problem, outcome.eta, outcome.initial_loss
    if eta is None:
        eta = acceleration(start.norm, problem.pace_degree) if start.norm < 1 else 1.0
    if initial is None:
        initial = float(problem.loss(0 * start.theta))
    curve, names = outcome.curve, problem.task.input_names
    return Staircase(
        setting=problem.task.name,
        method=method,
        scale=start.scale,
        seed=start.seed,
        degree=problem.degree,
        eta=eta,
        initial_loss=initial,
        stages=tuple(stage.accelerated(eta).named(names) for stage in outcome.stages),
        stopped=outcome.stopped,
        assumptions=(*audit, *comparable_inputs(problem.task), *outcome.assumptions),
        references=references,
        expected_error=outcome.expected_error,
        rhs_evaluations=outcome.rhs_evaluations,
        curve=None if curve is None else (tuple(curve[0].tolist()), tuple(curve[1].tolist())),
        _problem=problem,
    )

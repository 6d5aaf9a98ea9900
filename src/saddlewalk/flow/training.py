"""`train`: simulate a network from a small start, by gradient flow or by finite steps."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from saddlewalk import ode
from saddlewalk.curves.stages import acceleration
from saddlewalk.errors import InputError, check_number, checked_seed, checked_whole, nearest
from saddlewalk.flow.continuous import integrate_flows
from saddlewalk.flow.recorder import STEP_FIELDS, Recorder
from saddlewalk.flow.steps import descend
from saddlewalk.flow.trajectory import Trajectory
from saddlewalk.optimizers import AbstractOptimizer, GradientDescent, Momentum, as_optimizer
from saddlewalk.precision import in_float64
from saddlewalk.problem import AnyLoss, Parameters, Problem, compiled, mean_norm, task_modes
from saddlewalk.renamed import answer_old_arguments
from saddlewalk.show.progress import Progress
from saddlewalk.tasks import AbstractTask, Modes
from saddlewalk.units import AbstractUnits

SOLVERS = ("auto", *ode.METHODS, "descent", "sgd")
Observables = dict[str, Callable[[np.ndarray], Any]]


@answer_old_arguments(penalty="loss")
@in_float64
def train(
    task: AbstractTask,
    units: AbstractUnits,
    scale: float,
    seed: int = 0,
    *,
    solver: str = "auto",
    rates: dict[str, float] | None = None,
    loss: AnyLoss = None,
    start: Any = None,
    adaptive: bool = False,
    tolerance: float | None = None,
    convergence: float = 1e-4,
    max_time: float = math.inf,
    max_steps: int = 1_000_000,
    times: Any = None,
    observables: Observables | None = None,
    most_saved: int = 512,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    momentum: float | None = None,
    optimizer: Any = None,
    progress: bool | None = None,
) -> Trajectory:
    r"""Train the network and return what happened.

    Ctrl-C ends the run and returns the part that was computed, `stopped == "interrupted"`.

    Parameters
    ----------
    task, units : what is learned, and what is summed.
    scale : initialization scale alpha.
    seed : seed of the initialization (the same start as in `predict`) and of mini-batches.
    solver : "explicit", "implicit" or "stabilized" gradient flow ("auto" takes explicit steps for
        degree 2, until they prove stiff, and for kinks and adaptive rates; else implicit ones, or
        stabilized ones where the Jacobian would be large), full-batch "descent", or "sgd".
    rates : learning rate of each layer by name; 1 where none is given.
    loss : "squared" (the default), "cross-entropy", "logistic", "huber" or "huber:0.5", or a function of one
        output and one target, as for `losses.as_loss`.
    start : parameters `(width, size)` to start from, instead of `scale` and `seed`.
    adaptive : give each unit the learning rate norm^(2-kappa) of its own (appendix B.5).
    tolerance : error of one step of the flow, relative to each unit's own norm; 1e-8 by default,
        1e-6 for stabilized steps, 1e-5 for units with kinks.
    convergence : stop when `|velocity_i| / |theta_i|^(kappa-1)` of every unit has fallen to this
        fraction of the largest it ever was, and none would change by its root in as much time as has passed
        (or none has had more for long): no unit, large or tiny, has utility left that matters beside what is
        left of the loss. (A gradient norm alone would stop at the first saddle.) 0 waits for ever.
    max_time, max_steps : stop there in any case. Time is at learning rate 1.
    times : moments at which parameters are wanted (dense output); else up to `most_saved` steps.
    observables : functions of the parameters, evaluated at the saved moments.
    most_saved : most moments at which parameters are kept, where no `times` are given.
    learning_rate, batch_size, momentum : for descent and SGD; 0.01, 32 and 0 by default.
    optimizer : finite steps instead of a flow: one of `saddlewalk.optimizers`, its name ("adam", with
        `learning_rate` and `momentum` beside it), or any gradient transformation of optax. With a
        `batch_size` on mini-batches, else on all data. Time is then that of a step (`time_per_step`): the
        learning rate, over 1 - momentum for the heavy ball, and 1 for optax.
    progress : show a progress line on stderr; by default if it is a terminal.
    """
    (path,) = train_many(
        [(task, units, scale, seed)],
        starts=[start],
        solver=solver,
        rates=rates,
        loss=loss,
        adaptive=adaptive,
        tolerance=tolerance,
        convergence=convergence,
        max_time=max_time,
        max_steps=max_steps,
        times=times,
        observables=observables,
        most_saved=most_saved,
        learning_rate=learning_rate,
        batch_size=batch_size,
        momentum=momentum,
        optimizer=optimizer,
        progress=progress,
    )
    return path


@answer_old_arguments(penalty="loss")
@in_float64
def train_many(
    networks: Sequence[tuple[AbstractTask, AbstractUnits, float, int]],
    *,
    starts: Sequence[Any] | None = None,
    solver: str = "auto",
    rates: dict[str, float] | None = None,
    loss: AnyLoss = None,
    adaptive: bool = False,
    tolerance: float | None = None,
    convergence: float = 1e-4,
    max_time: float = math.inf,
    max_steps: int = 1_000_000,
    times: Any = None,
    observables: Observables | None = None,
    most_saved: int = 512,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    momentum: float | None = None,
    optimizer: Any = None,
    progress: bool | None = None,
) -> list[Trajectory]:
    """Train networks of one shape as one compiled program, at the pace of the slowest.

    Parameters
    ----------
    networks : task, units, scale and seed of each; they differ in their numbers alone.
    starts : parameters of each to start from, instead of scale and seed.
    solver, rates, loss, adaptive : as in `train`, for every network.
    tolerance, convergence, max_time, max_steps : as in `train`, for every network.
    times, observables, most_saved : as in `train`, for every network.
    learning_rate, batch_size, momentum, optimizer : as in `train`, for every network.
    progress : show a progress line on stderr; by default if it is a terminal.
    """
    if not networks:
        return []
    kind = _checked_solver(solver)
    if optimizer is None:
        steps = {"learning_rate": learning_rate, "batch_size": batch_size, "momentum": momentum}
        _check_step_options(kind, steps)
        rule = _rule_of(kind, learning_rate, momentum)
        batch_size = 32 if kind == "sgd" and batch_size is None else batch_size
    else:
        _check_goes_with_steps(kind, tolerance, batch_size)
        rule = as_optimizer(optimizer, learning_rate, momentum)
    _check_observables(observables or {})
    _check_limits(max_time, max_steps, convergence, tolerance)
    checked_whole("most_saved", most_saved, least=1)
    if any(len(network) != 4 for network in networks):
        raise InputError("`networks` must hold task, units, scale and seed of each network.")
    problems = [
        Problem(task, units, loss, rates, keep_samples=batch_size is not None, adaptive=adaptive)
        for task, units, _, _ in networks
    ]
    seeds = [checked_seed(seed) for *_, seed in networks]
    thetas = [
        problem.initialize(scale, seed) if start is None else problem.checked_start(start)
        for problem, (*_, scale, _), seed, start in zip(
            problems, networks, seeds, starts or [None] * len(networks), strict=True
        )
    ]
    recorders = [Recorder(most_saved) for _ in networks]
    limits: dict[str, Any] = {
        "convergence": convergence,
        "max_time": max_time,
        "max_steps": max_steps,
    }
    wanted = _checked_times(times)
    with Progress("training", progress) as bar:
        if rule is not None:
            if len(wanted):
                raise InputError("Dense output (times) is there for gradient flow, not for steps.")
            outcomes = descend(
                problems,
                thetas,
                recorders,
                bar,
                optimizer=rule,
                batch_size=batch_size,
                seeds=seeds,
                **limits,
            )
        else:
            outcomes = integrate_flows(
                problems,
                thetas,
                recorders,
                bar,
                kind=kind,
                tolerance=tolerance,
                times=wanted,
                **limits,
            )
    paths = []
    for problem, (task, _, scale, seed), theta, recorder, outcome in zip(
        problems, networks, thetas, recorders, outcomes, strict=True
    ):
        info = {
            "kinked": not problem.smooth,
            "endless": problem.separation is not None,
            "setting": task.name,
            "scale": float(scale),
            "seed": int(seed),
            "kappa": problem.degree,
            "eta": _acceleration(problem, theta),
            "units": repr(problem.units),
            "layers": {name: list(shape) for name, shape in problem.shapes.items()},
            "rates": {name: float(rate) for name, rate in (rates or {}).items()},
            "convergence": convergence,
        }
        paths.append(_finished(problem, recorder, {**info, **outcome}, observables or {}))
    return paths


def _finished(
    problem: Problem, recorder: Recorder, info: dict[str, Any], observables: Observables
) -> Trajectory:
    modes = task_modes(problem)
    if modes is not None:
        info["modes"] = [
            {**name, "weight": weight}
            for name, weight in zip(modes.names, modes.weights.tolist(), strict=True)
        ]
    return recorder.finish(problem, {**_strength_of(problem, modes), **observables}, info)


def _strength_of(problem: Problem, modes: Modes | None) -> Observables:
    """How much of each mode of the task the network holds, where the task has modes."""
    if modes is None:
        return {}
    return {"strength": lambda theta: modes.strengths(compiled.function(problem, theta))}


def _acceleration(problem: Problem, theta: Parameters) -> float:
    norm = mean_norm(theta)
    return acceleration(norm, problem.pace_degree) if 0 < norm < 1 else 1.0


def _checked_solver(solver: str) -> str:
    if solver not in SOLVERS:
        raise InputError(f"Unknown solver '{solver}'.{nearest(solver, SOLVERS)}")
    return solver


def _rule_of(
    kind: str, learning_rate: float | None, momentum: float | None
) -> AbstractOptimizer | None:
    """The optimizer behind the solvers "descent" and "sgd"; none for a flow."""
    if kind not in ("descent", "sgd"):
        return None
    rate = 1e-2 if learning_rate is None else learning_rate
    return Momentum(rate, momentum) if momentum is not None else GradientDescent(rate)


def _check_goes_with_steps(kind: str, tolerance: float | None, batch_size: int | None) -> None:
    """Refuse what is there for gradient flow alone."""
    if kind not in ("auto", "sgd" if batch_size else "descent"):
        raise InputError(
            f"An `optimizer` makes finite steps; the `solver` '{kind}' does not. Leave one of them out."
        )
    if tolerance is not None:
        raise InputError(
            "`tolerance` is there for gradient flow, not for the steps of an `optimizer`."
        )
    if batch_size is not None:
        checked_whole("batch_size", batch_size, least=1)


def _check_step_options(kind: str, options: dict[str, Any]) -> None:
    given = [name for name, value in options.items() if value is not None]
    for name in given:
        check_number(name, options[name])
    takes = {"sgd": list(options), "descent": ["learning_rate", "momentum"]}.get(kind, [])
    foreign = [name for name in given if name not in takes]
    if foreign:
        raise InputError(
            f"`{foreign[0]}` goes with finite steps (solver 'sgd' or 'descent'), not with '{kind}'."
        )


def _check_observables(observables: Observables) -> None:
    if not isinstance(observables, dict) or not all(map(callable, observables.values())):
        raise InputError(
            f"`observables` must be functions of the parameters by name; got {observables!r:.60}."
        )
    own = {"strength", "time", "saved", "crossing", "parameters", *STEP_FIELDS}
    taken = [n for n in observables if n in own or n.startswith(("problem_", "crossing_"))]
    if taken:
        raise InputError(f"An observable cannot be called '{taken[0]}': the trajectory has one.")


def _check_limits(
    max_time: float, max_steps: int, convergence: float, tolerance: float | None
) -> None:
    check_number("max_time", max_time)
    check_number("convergence", convergence)
    if not max_time > 0:
        raise InputError(f"`max_time` must be positive; got {max_time}.")
    checked_whole("max_steps", max_steps, least=1)
    if not 0 <= convergence < 1:
        raise InputError(f"`convergence` must lie in [0, 1); got {convergence}.")
    if tolerance is not None:
        check_number("tolerance", tolerance)
    if tolerance is not None and not 1e-13 <= tolerance < 1:
        raise InputError(f"`tolerance` must lie between 1e-13 and 1; got {tolerance}.")


def _checked_times(times: Any) -> np.ndarray:
    if times is None:
        return np.zeros(0)
    try:
        wanted = np.unique(np.asarray(times, dtype=float))
    except (TypeError, ValueError):
        raise InputError(f"`times` must be numbers; got {times!r:.60}.") from None
    if wanted.size and (not np.isfinite(wanted).all() or wanted[0] < 0):
        raise InputError("`times` must be finite and not negative.")
    return wanted

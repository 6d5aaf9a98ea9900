"""`train`: simulate a network from a small start, by gradient flow or by finite steps."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk import ode
from saddlewalk.errors import InputError, nearest
from saddlewalk.flow.descent import descend
from saddlewalk.flow.gradient_flow import make_flow
from saddlewalk.flow.progress import Progress
from saddlewalk.flow.recorder import Recorder
from saddlewalk.flow.trajectory import Trajectory
from saddlewalk.precision import in_float64
from saddlewalk.problem import AbstractLoss, Parameters, Problem, norms
from saddlewalk.staircase import acceleration
from saddlewalk.tasks import AbstractTask
from saddlewalk.units import AbstractUnits

_SMALL = 600
"""Parameters up to which a dense Jacobian is cheap."""
_PATIENCE = 20_000
"""Explicit steps after which a small problem counts as stiff."""

SOLVERS = ("auto", "explicit", "implicit", "descent", "sgd")
Observables = dict[str, Callable[[np.ndarray], Any]]


@in_float64
def train(
    task: AbstractTask,
    units: AbstractUnits,
    scale: float,
    seed: int = 0,
    *,
    solver: str = "auto",
    rates: dict[str, float] | None = None,
    penalty: AbstractLoss | None = None,
    start: Any = None,
    tolerance: float = 1e-8,
    convergence: float = 1e-4,
    max_time: float = math.inf,
    max_steps: int = 1_000_000,
    times: Any = None,
    observables: Observables | None = None,
    most_saved: int = 512,
    learning_rate: float = 1e-2,
    batch_size: int = 32,
    momentum: float = 0.0,
    progress: bool | None = None,
) -> Trajectory:
    r"""Train the network and return what happened.

    Parameters
    ----------
    task, units : what is learned, and what is summed.
    scale : initialisation scale alpha.
    seed : seed of the initialisation (the same start as in `predict`) and of mini-batches.
    solver : "explicit" or "implicit" gradient flow ("auto" takes explicit steps for degree 2, until
        they prove stiff, and implicit ones above), full-batch "descent", or "sgd".
    rates : learning rate of each layer by name; 1 where none is given.
    penalty : loss of one output against one target; squared error by default.
    start : parameters `(width, size)` to start from, instead of `scale` and `seed`.
    tolerance : error of one step of the flow, relative to each unit's own norm.
    convergence : stop when the largest `|velocity_i| / |theta_i|^(kappa-1)` has fallen to this
        fraction of its first value: no unit, large or tiny, has utility left. (A gradient norm
        alone would stop at the first saddle.)
    max_time, max_steps : stop there in any case. Time is at learning rate 1.
    times : moments at which parameters are wanted (dense output); else up to `most_saved` steps.
    observables : functions of the parameters, evaluated at the saved moments.
    learning_rate, batch_size, momentum : for descent and SGD.
    progress : show a progress line on stderr; by default if it is a terminal.

    Ctrl-C ends the run and returns the part that was computed, `stopped == "interrupted"`.
    """
    units = units if rates is None else units.with_rates(rates)
    kind = _checked_solver(solver)
    problem = Problem(task, units, penalty, keep_samples=kind == "sgd")
    theta = problem.initialize(scale, seed) if start is None else _checked_start(start, problem)
    recorder = Recorder(most_saved)
    info = {
        "setting": task.name,
        "scale": scale,
        "seed": seed,
        "kappa": problem.degree,
        "eta": _acceleration(problem, theta),
    }
    run: Callable[..., dict[str, Any]] = descend if kind in ("descent", "sgd") else _flow
    with Progress("training", progress) as bar:
        outcome = run(
            problem,
            theta,
            recorder,
            bar,
            kind=kind,
            seed=seed,
            tolerance=tolerance,
            convergence=max(convergence, 10 * tolerance),
            max_time=max_time,
            max_steps=max_steps,
            times=_checked_times(times),
            learning_rate=learning_rate,
            batch_size=batch_size,
            momentum=momentum,
        )
    return recorder.finish(observables or {}, {**info, **outcome})


def _flow(
    problem: Problem,
    theta: Parameters,
    recorder: Recorder,
    bar: Progress,
    *,
    kind: str,
    tolerance: float,
    convergence: float,
    max_time: float,
    max_steps: int,
    times: np.ndarray,
    **_: Any,
) -> dict[str, Any]:
    flow, state = make_flow(problem, theta)
    enough = convergence * float(flow.drive)
    small = theta.size <= _SMALL
    stiff = problem.degree > 2 or kind == "implicit"
    solver = "implicit" if stiff and (small or kind == "implicit") else "explicit"
    run = _Run(flow, recorder, bar, enough, tolerance, times)
    limit = _PATIENCE if kind == "auto" and solver == "explicit" and small else max_steps
    stopped = run.advance(state, solver, max_time, min(limit, max_steps))
    if stopped == "limit" and run.steps < max_steps and run.time < max_time:
        solver = "explicit, then implicit"
        stopped = run.advance(run.state, "implicit", max_time, max_steps)
    return {
        "solver": solver,
        "stopped": stopped,
        "steps": run.steps,
        "rhs_evaluations": run.evaluations,
    }


class _Run:
    """The state of one gradient flow between pieces of integration."""

    def __init__(
        self,
        flow: Any,
        recorder: Recorder,
        bar: Progress,
        enough: float,
        tolerance: float,
        times: np.ndarray,
    ) -> None:
        self.flow, self.recorder, self.bar, self.enough = flow, recorder, bar, enough
        self.tolerance, self.times = tolerance, times
        self.steps = self.evaluations = 0
        self.time = 0.0
        self.state: Any = None

    def advance(self, state: Any, kind: str, max_time: float, max_steps: int) -> str:
        """Integrate on, and say why it stopped."""
        origin = self.time
        pieces = ode.integrate(
            self.flow,
            state,
            kind=kind,
            rtol=self.tolerance,
            times=self.times[self.times >= origin] - origin,
            max_time=max_time - origin,
            max_steps=max_steps - self.steps,
        )
        try:
            piece = next(pieces)
            while True:
                if self._record(piece, origin):
                    return "converged"
                if piece.stalled:
                    return "stalled: the velocity is not finite or not smooth enough for any step"
                self.flow = _after_event(self.flow, piece, origin, self.recorder)
                piece = pieces.send(self.flow)
        except StopIteration:
            return "limit"
        except KeyboardInterrupt:
            return "interrupted"

    def _record(self, piece: ode.Piece, origin: float) -> bool:
        calm = np.flatnonzero(piece.saved.drive <= self.enough)
        end = calm[0] + 1 if len(calm) else len(piece.time)
        fresh = slice(0 if self.steps == 0 else 1, end)  # a piece starts where the last one ended
        time = origin + piece.time
        self.recorder.add(time[fresh], jax.tree.map(lambda a: a[fresh], piece.saved))
        if piece.requested is not None:
            wanted = piece.requested_time <= piece.time[end - 1]
            self.recorder.add_requested(
                origin + piece.requested_time[wanted], piece.requested.parameters[wanted]
            )
        self.steps += piece.steps
        self.evaluations += piece.evaluations
        self.time, self.state = float(time[-1]), jnp.asarray(piece.end)
        loss = float(piece.saved.loss[-1])
        self.bar.update(f"time {self.time:.4g}, loss {loss:.4g}, {self.steps} steps")
        return len(calm) > 0


def _after_event(flow: Any, piece: ode.Piece, origin: float, recorder: Recorder) -> Any:
    """Note the unit whose norm passed 1, and look for the next crossing."""
    if not piece.event:
        return flow
    distance = np.abs(np.log(piece.saved.unit_norm[-1]))
    unit = int(np.argmin(distance))
    upward = not bool(flow.above[unit])
    recorder.add_crossing(origin + float(piece.time[-1]), unit, upward)
    return eqx.tree_at(lambda f: f.above, flow, flow.above.at[unit].set(upward))


def _acceleration(problem: Problem, theta: Parameters) -> float:
    norm = float(jnp.sqrt(jnp.mean(norms(theta) ** 2)))
    return acceleration(norm, problem.degree) if 0 < norm < 1 else 1.0


def _checked_solver(solver: str) -> str:
    if solver not in SOLVERS:
        raise InputError(f"Unknown solver '{solver}'.{nearest(solver, SOLVERS)}")
    return solver


def _checked_start(start: Any, problem: Problem) -> Parameters:
    theta = jnp.asarray(start, dtype=jnp.float64)
    if theta.shape != (problem.width, problem.size):
        raise InputError(
            f"start must have shape {(problem.width, problem.size)}; got {theta.shape}."
        )
    if not bool(jnp.all(jnp.isfinite(theta))):
        raise InputError("start holds NaN or infinite numbers.")
    return theta


def _checked_times(times: Any) -> np.ndarray:
    if times is None:
        return np.zeros(0)
    wanted = np.unique(np.asarray(times, dtype=float))
    if wanted.size and (not np.isfinite(wanted).all() or wanted[0] < 0):
        raise InputError("times must be finite and not negative.")
    return wanted

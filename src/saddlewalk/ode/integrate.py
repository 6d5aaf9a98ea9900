"""The only door to the ODE solvers: integrate a flow in short compiled pieces.

Between two pieces the caller gets what was saved, so a run can show progress, be interrupted without
losing anything, and be thinned; one program is compiled for one shape. Each piece starts its clock
at zero: at time 1e50 float64 cannot tell apart two moments of an event that lasts one second.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix

from saddlewalk.errors import InputError
from saddlewalk.ode.chebyshev import Chebyshev
from saddlewalk.ode.control import controller
from saddlewalk.ode.rosenbrock import Rosenbrock
from saddlewalk.ode.system import AbstractFlow, State

_FOREVER = 1e300
_FIRST_STEP = 0.01
_SHRINK, _MOST_REFUSED = 1e-3, 4
"""A piece without one good step is tried again with a shorter one, this often."""
_PIECE_FLOPS = 5e8
_PIECE_NUMBERS = 5e6
_PIECE_STEPS = (256, 64, 16)
"""Steps a piece: the most that keeps it well below a second and its results small, so that Ctrl-C
is answered. Chosen by counting, not by timing: a run repeats bit for bit."""

EVALUATIONS = {"explicit": 6, "implicit": 7, "stabilized": 500}
"""Right-hand sides a step, the implicit method's Jacobian not counted; for the stabilized method a
guess, of which a run counts the true number."""


class Piece(NamedTuple):
    """What one piece of an integration brought."""

    time: np.ndarray
    saved: Any
    requested_time: np.ndarray
    requested: Any
    end: np.ndarray
    steps: int
    evaluations: int
    event: bool
    stalled: bool


def _solve(
    flow: AbstractFlow,
    kind: str,
    rtol: Any,
    y0: State,
    dt0: Any,
    horizon: Any,
    times: Any,
    steps: int,
) -> Any:
    solver = _solver(flow, kind)
    save = lambda t, y, args: flow.observe(y)  # noqa: E731
    subs = [
        diffrax.SubSaveAt(t0=True, steps=True, fn=save),
        diffrax.SubSaveAt(ts=times, fn=save) if times.size else None,
        diffrax.SubSaveAt(t1=True),
    ]
    event = diffrax.Event(
        lambda t, y, args, **_: flow.margin(y),
        # flip: the margin falls; no check, since on the interpolant it may just miss the root
        optimistix.Bisection(rtol=1e-10, atol=1e-12, flip=True),  # type: ignore[call-arg]
        direction=False,
    )
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: flow.velocity(y)),
        solver,
        0.0,
        horizon,
        dt0,
        y0,
        saveat=diffrax.SaveAt(subs=[sub for sub in subs if sub is not None], solver_state=True),
        stepsize_controller=controller(flow, rtol),
        event=event if flow.watches else None,
        max_steps=steps,
        throw=False,
    )
    happened = jnp.asarray(solution.event_mask if flow.watches else False)
    codes = diffrax.RESULTS
    usual = (solution.result == codes.successful) | (solution.result == codes.event_occurred)
    coarse = solution.result == codes.dt_min_reached
    # an event found, but not to the last digit that was asked for, is an event
    fine = usual | coarse | happened | (solution.result == codes.max_steps_reached)
    flags = happened, coarse, fine
    counted = solution.solver_state.evaluations if kind == "stabilized" else None
    return solution.ts, solution.ys, {**solution.stats, "counted": counted}, flags


def _solver(flow: AbstractFlow, kind: str) -> Any:
    if kind == "explicit":
        return diffrax.Tsit5()
    return Rosenbrock(flow) if kind == "implicit" else Chebyshev(flow)


_advance = eqx.filter_jit(_solve)


@eqx.filter_jit
def _advance_batch(
    moving: Any, still: Any, kind: str, numbers: tuple[Any, ...], y0: Any, times: Any, steps: int
) -> Any:
    """The same piece for many flows, which differ in their arrays alone."""

    def one(arrays: Any, rtol: Any, dt0: Any, horizon: Any, y: State, wanted: Any) -> Any:
        return _solve(eqx.combine(arrays, still), kind, rtol, y, dt0, horizon, wanted, steps)

    rtol, dt0, horizon = numbers
    return jax.vmap(one)(moving, rtol, dt0, horizon, y0, times)


class Integration:
    """One integration between its compiled pieces: where it is, and what it asks for next."""

    def __init__(
        self,
        flow: AbstractFlow,
        start: State,
        *,
        kind: str,
        rtol: float,
        times: np.ndarray,
        max_time: float = math.inf,
        max_steps: int = 1_000_000,
    ) -> None:
        if kind not in EVALUATIONS:
            raise InputError(f"Unknown kind of step '{kind}'. Known: {', '.join(EVALUATIONS)}.")
        self.flow, self.kind, self.times = flow, kind, times
        self.length = _piece_length(flow, start, kind)
        self._rtol, self._max_time, self._max_steps = rtol, max_time, max_steps
        self.state: Any = start
        self._origin, self._taken, self._refused = 0.0, 0, 0
        self._last_step: float | None = None
        self._waiting = np.ones(len(times), dtype=bool)
        self._per_step = EVALUATIONS[kind] + (start.size if kind == "implicit" else 0)
        self._stopped = False

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do."""
        return self._stopped or self._origin >= self._max_time or self._taken >= self._max_steps

    def stop(self) -> None:
        """Ask for nothing more."""
        self._stopped = True

    def begin_with(self, step: float) -> None:
        """Try this step first."""
        self._last_step = step

    def request(self) -> tuple[tuple[Any, ...], Any, np.ndarray]:
        """Tolerance, first step and horizon of the next piece, its start, and the moments wanted.

        One that is over asks for a piece of no length.
        """
        self._dt0 = (
            _first_step(self.flow, self.state) if self._last_step is None else self._last_step
        )
        self._horizon = 0.0 if self.over else min(self._max_time - self._origin, _FOREVER)
        wanted = np.clip(self.times - self._origin, 0.0, self._horizon)
        numbers = (self._rtol, self._dt0, self._horizon)
        return tuple(np.asarray(value, dtype=float) for value in numbers), self.state, wanted

    def accept(self, out: Any) -> Piece | None:
        """Take what a piece brought; `None` where it brought no step and is to be tried again."""
        ts, ys, stats, (event, coarse, fine) = out
        times, origin = self.times, self._origin
        kept = int(stats["num_accepted_steps"]) + 1
        if kept == 1 and fine and not event and self._refused < _MOST_REFUSED:
            # the step was far too long, and the piece too short to find a better one
            self._refused, self._taken = self._refused + 1, self._taken + int(stats["num_steps"])
            self._last_step = _SHRINK * self._dt0
            return None
        self._refused = 0
        now = self._waiting
        if len(times):
            now = self._waiting & np.isfinite(ts[1]) & (times <= origin + self._horizon)
        self._waiting = self._waiting & ~now
        piece = Piece(
            time=origin + ts[0][:kept],
            saved=jax.tree.map(lambda a, n=kept: a[:n], ys[0]),
            requested_time=times[now],
            requested=jax.tree.map(lambda a, n=now: a[n], ys[1]) if now.any() else None,
            end=ys[-1][0],
            steps=int(stats["num_steps"]),
            evaluations=_evaluations(stats, self._per_step),
            event=bool(event),
            stalled=not bool(fine) or kept == 1,
        )
        # the local clock, not the global one: at time 1e50 a difference of two times is 0
        steps = np.diff(ts[0][:kept])
        self._last_step = None if coarse or len(steps) == 0 else float(steps[-2:].max())
        self._taken += piece.steps
        self.state, self._origin = piece.end, float(piece.time[-1])
        self._stopped = piece.stalled or piece.event
        return piece


def integrate(flow: AbstractFlow, start: State, **options: Any) -> Iterator[Piece]:
    """Yield pieces of the solution until an event, `max_time` or `max_steps`.

    The options are those of an `Integration`. To stop earlier leave the loop.
    """
    for pieces in integrate_batch([Integration(flow, start, **options)]):
        yield from pieces.values()


def integrate_batch(runs: Sequence[Integration]) -> Iterator[dict[int, Piece]]:
    """Yield pieces of many solutions, by their number, until all are over.

    Flows of one kind and one shape run as one program, at the pace of the slowest.
    """
    step = _alone(runs[0]) if len(runs) == 1 else _batch_stepper(runs)
    while not all(run.over for run in runs):
        waiting = [not run.over for run in runs]
        outs = step()
        accepted = {k: runs[k].accept(out) for k, out in enumerate(outs) if waiting[k]}
        yield {k: piece for k, piece in accepted.items() if piece is not None}


def _alone(run: Integration) -> Callable[[], list[Any]]:
    def step() -> list[Any]:
        (rtol, dt0, horizon), y, wanted = jax.tree.map(jnp.asarray, run.request())
        out = _advance(run.flow, run.kind, rtol, y, dt0, horizon, wanted, run.length)
        return [jax.device_get(out)]

    return step


def _batch_stepper(runs: Sequence[Integration]) -> Callable[[], list[Any]]:
    moving, still = stack_arrays([run.flow for run in runs])
    kind, length = runs[0].kind, min(run.length for run in runs)
    states = stacked([run.state for run in runs])
    rates = np.asarray(_fastest_rates(moving, still, states))
    for run, rate in zip(runs, rates, strict=True):
        run.begin_with(_step_of(float(rate)))

    def step() -> list[Any]:
        numbers, states, wanted = stacked([run.request() for run in runs])
        out = _advance_batch(moving, still, kind, numbers, states, wanted, length)
        return unstacked(jax.device_get(out), len(runs))

    return step


def stack_arrays(trees: Sequence[Any]) -> tuple[Any, Any]:
    """The arrays of many trees as one, with a leading axis, and the rest, which must be the same in all."""
    split = [eqx.partition(tree, _is_array) for tree in trees]
    still = split[0][1]
    shapes = {tuple(leaf.shape for leaf in jax.tree.leaves(arrays)) for arrays, _ in split}
    if len(shapes) > 1 or not all(eqx.tree_equal(rest, still) for _, rest in split[1:]):
        raise InputError("Networks that run together must differ in their numbers alone.")
    return stacked([arrays for arrays, _ in split]), still


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array)


def stacked(trees: Sequence[Any]) -> Any:
    """Many trees of arrays as one, with a leading axis; one transfer for each leaf."""
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(jax.device_get(leaves))), *trees)


def unstacked(tree: Any, many: int) -> list[Any]:
    """The trees along the leading axis."""
    return [jax.tree.map(lambda leaf, k=k: leaf[k], tree) for k in range(many)]


def _evaluations(stats: Any, per_step: int) -> int:
    """Right-hand sides of a piece; a method that counts does so on accepted steps only."""
    if stats["counted"] is None:
        return per_step * int(stats["num_steps"])
    accepted = max(1, int(stats["num_accepted_steps"]))
    return round(float(stats["counted"]) * int(stats["num_steps"]) / accepted)


def _fastest_rate(flow: AbstractFlow, y: State) -> Any:
    return jnp.max(jnp.abs(flow.velocity(y)) / flow.error_scale(y))


_rate_of = eqx.filter_jit(_fastest_rate)


@eqx.filter_jit
def _fastest_rates(moving: Any, still: Any, states: Any) -> Any:
    return jax.vmap(lambda arrays, y: _fastest_rate(eqx.combine(arrays, still), y))(moving, states)


def _first_step(flow: AbstractFlow, y: State) -> float:
    return _step_of(float(_rate_of(flow, jnp.asarray(y))))


def _step_of(rate: float) -> float:
    return _FIRST_STEP / rate if rate > 0 else 1.0


def _piece_length(flow: AbstractFlow, y: State, kind: str) -> int:
    """A guess from sizes alone: each unit looks at each number that the flow holds."""
    held = 1 + sum(leaf.size for leaf in jax.tree.leaves(flow) if hasattr(leaf, "size"))
    calls = EVALUATIONS[kind] + (y.size if kind == "implicit" else 0)
    most = min(_PIECE_FLOPS / (2.0 * held * len(y) * calls), _PIECE_NUMBERS / y.size)
    return next((n for n in _PIECE_STEPS if n <= most), _PIECE_STEPS[-1])

"""The only door to the ODE solvers: integrate a flow in short compiled pieces.

Between two pieces the caller gets what was saved, so a run can show progress, be interrupted without
losing anything, and be thinned; one program is compiled for one shape. Each piece starts its clock
at zero: at time 1e50 float64 cannot tell apart two moments of an event that lasts one second.
"""

import math
from collections.abc import Iterator
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

EVALUATIONS = {"explicit": 6, "implicit": 7, "stabilised": 500}
"""Right-hand sides a step, the implicit method's Jacobian not counted; for the stabilised method a
guess, of which a run counts the true number."""


class Piece(NamedTuple):
    """What one piece of an integration brought."""

    time: np.ndarray
    saved: Any
    requested_time: np.ndarray
    requested: Any
    end: State
    steps: int
    evaluations: int
    event: bool
    stalled: bool


@eqx.filter_jit
def _advance(
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
    counted = solution.solver_state.evaluations if kind == "stabilised" else None
    return solution.ts, solution.ys, {**solution.stats, "counted": counted}, flags


def _solver(flow: AbstractFlow, kind: str) -> Any:
    if kind == "explicit":
        return diffrax.Tsit5()
    return Rosenbrock(flow) if kind == "implicit" else Chebyshev(flow)


def integrate(
    flow: AbstractFlow,
    start: State,
    *,
    kind: str,
    rtol: float,
    times: np.ndarray,
    max_time: float = math.inf,
    max_steps: int = 1_000_000,
) -> Iterator[Piece]:
    """Yield pieces of the solution until an event, `max_time` or `max_steps`.

    To stop earlier leave the loop.
    """
    if kind not in EVALUATIONS:
        raise InputError(f"Unknown kind of step '{kind}'. Known: {', '.join(EVALUATIONS)}.")
    y, origin, taken, last_step, refused = start, 0.0, 0, None, 0
    length = _piece_length(flow, start, kind)
    per_step = EVALUATIONS[kind] + (start.size if kind == "implicit" else 0)
    waiting = np.ones(len(times), dtype=bool)
    while origin < max_time and taken < max_steps:
        dt0 = _first_step(flow, y) if last_step is None else last_step
        horizon = min(max_time - origin, _FOREVER)
        wanted = np.clip(times - origin, 0.0, horizon)
        numbers = (jnp.asarray(value, dtype=jnp.float64) for value in (rtol, dt0, horizon))
        rtol_, dt0_, horizon_ = numbers
        out = _advance(flow, kind, rtol_, y, dt0_, horizon_, jnp.asarray(wanted), length)
        ts, ys, stats, (event, coarse, fine) = jax.device_get(out)
        kept = int(stats["num_accepted_steps"]) + 1
        if kept == 1 and fine and not event and refused < _MOST_REFUSED:
            # the step was far too long, and the piece too short to find a better one
            refused, taken = refused + 1, taken + int(stats["num_steps"])
            last_step = _SHRINK * dt0
            continue
        refused = 0
        now = waiting & np.isfinite(ts[1]) & (times <= origin + horizon) if len(times) else waiting
        waiting = waiting & ~now
        piece = Piece(
            time=origin + ts[0][:kept],
            saved=jax.tree.map(lambda a, n=kept: a[:n], ys[0]),
            requested_time=times[now],
            requested=jax.tree.map(lambda a, n=now: a[n], ys[1]) if now.any() else None,
            end=ys[-1][0],
            steps=int(stats["num_steps"]),
            evaluations=_evaluations(stats, per_step),
            event=bool(event),
            stalled=not bool(fine) or kept == 1,
        )
        # the local clock, not the global one: at time 1e50 a difference of two times is 0
        steps = np.diff(ts[0][:kept])
        last_step = None if coarse or len(steps) == 0 else float(steps[-2:].max())
        taken += piece.steps
        y, origin = jnp.asarray(piece.end), float(piece.time[-1])
        yield piece
        if piece.stalled or piece.event:
            return


def _evaluations(stats: Any, per_step: int) -> int:
    """Right-hand sides of a piece; a method that counts does so on accepted steps only."""
    if stats["counted"] is None:
        return per_step * int(stats["num_steps"])
    accepted = max(1, int(stats["num_accepted_steps"]))
    return round(float(stats["counted"]) * int(stats["num_steps"]) / accepted)


@eqx.filter_jit
def _fastest_rate(flow: AbstractFlow, y: State) -> Any:
    return jnp.max(jnp.abs(flow.velocity(y)) / flow.yardstick(y))


def _first_step(flow: AbstractFlow, y: State) -> float:
    rate = float(_fastest_rate(flow, y))
    return _FIRST_STEP / rate if rate > 0 else 1.0


def _piece_length(flow: AbstractFlow, y: State, kind: str) -> int:
    """A guess from sizes alone: each unit looks at each number that the flow holds."""
    held = 1 + sum(leaf.size for leaf in jax.tree.leaves(flow) if hasattr(leaf, "size"))
    calls = EVALUATIONS[kind] + (y.size if kind == "implicit" else 0)
    most = min(_PIECE_FLOPS / (2.0 * held * len(y) * calls), _PIECE_NUMBERS / y.size)
    return next((n for n in _PIECE_STEPS if n <= most), _PIECE_STEPS[-1])

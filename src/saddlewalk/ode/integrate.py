"""The only door to the ODE solvers: integrate a flow in short compiled pieces.

Between two pieces the caller gets what was saved, so a run can show progress, be interrupted without
losing anything, and be thinned; one program is compiled for one shape. Each piece starts its clock
at zero: at time 1e50 float64 cannot tell apart two moments of an event that lasts one second.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.ode.chebyshev import Chebyshev
from saddlewalk.ode.loop import Begin, run_piece
from saddlewalk.ode.method import AbstractMethod
from saddlewalk.ode.rosenbrock import Rosenbrock
from saddlewalk.ode.runge_kutta import RungeKutta
from saddlewalk.ode.system import AbstractFlow, StateLike
from saddlewalk.programs import Bound, compiled, fetched, is_array

METHODS: dict[str, type[AbstractMethod]] = {
    "explicit": RungeKutta,
    "implicit": Rosenbrock,
    "stabilized": Chebyshev,
}
_FOREVER = 1e300
_NEVER = np.zeros(0)
_MOST_REFUSED = 4
"""Pieces without one good step after which an integration has stalled."""
_PIECE_FLOPS = 5e8
_PIECE_NUMBERS = 5e6
_PIECE_STEPS = (256, 64, 16)
"""Steps a piece: the most that keeps it well below a second and its results small, so that Ctrl-C
is answered. Chosen by counting, not by timing: a run repeats bit for bit."""


class Piece(NamedTuple):
    """What one piece of an integration brought."""

    time: np.ndarray
    states: np.ndarray
    """States that were kept."""
    saved: Any
    """What the flow says of each of them."""
    requested_time: np.ndarray
    requested: Any
    end: np.ndarray
    context: Any
    """Of the flow, at the end."""
    steps: int
    evaluations: int
    event: bool
    stalled: bool


class Stepper:
    """The steps of a flow: one compiled piece, which serves every integration of it, in whatever context.

    Parameters
    ----------
    flow : the system.
    kind : of the steps: one of `METHODS`.
    like : a state: its shape decides how many steps make a piece.
    """

    def __init__(self, flow: AbstractFlow, kind: str, like: StateLike) -> None:
        if kind not in METHODS:
            raise InputError(f"Unknown kind of step '{kind}'. Known: {', '.join(METHODS)}.")
        self.method = METHODS[kind](flow)
        self.init, self.context = self.method.init, flow.context
        self.length = _piece_length(self.method, like)

    @cached_property
    def piece(self) -> Callable[..., Any]:
        """One piece: where it ends, its moments and states, what was seen of them, and what it took."""
        if self.method.flow.watches:
            bound = Bound(self.method, self.length)
            return lambda *given: bound(_piece, *given)
        step, look = _piece.of(self.method, self.length), _observed.of(self.method.flow)

        def run(begin: Begin, *request: Any) -> Any:
            end, time, states, _, counts = step(begin, *request)
            return (end, *fetched((time, states, look(states, counts[0]), counts)))

        return run


class Integration:
    """One integration between its compiled pieces: where it is, and what it asks for next.

    Parameters
    ----------
    stepper : the system, and the kind of its steps.
    start : its state at time 0.
    rtol : error of one step, relative to the flow's `error_scale`.
    context : of the flow at the start; its own by default.
    times : moments at which the state is wanted; none if empty.
    max_time, max_steps : stop there in any case.
    """

    def __init__(
        self,
        stepper: Stepper,
        start: StateLike,
        *,
        rtol: float,
        context: Any = None,
        times: np.ndarray = _NEVER,
        max_time: float = math.inf,
        max_steps: int = 1_000_000,
    ) -> None:
        self.stepper, self.times, start = stepper, times, np.asarray(start)
        context = stepper.context if context is None else context
        self.begin = Begin(start, stepper.init(start), context, np.zeros(()))
        self._rtol, self._max_time, self._max_steps = rtol, max_time, max_steps
        self._origin, self._taken, self._refused = 0.0, 0, 0
        self._stopped = False

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do."""
        return self._stopped or self._origin >= self._max_time or self._taken >= self._max_steps

    def stop(self) -> None:
        """Ask for nothing more."""
        self._stopped = True

    def request(self) -> tuple[Any, Any, np.ndarray]:
        """Tolerance and horizon of the next piece, and the moments wanted in it.

        One that is over asks for a piece of no length.
        """
        horizon = 0.0 if self.over else min(self._max_time - self._origin, _FOREVER)
        return self._rtol, horizon, self.times - self._origin

    def accept(self, out: Any) -> Piece | None:
        """Take what a piece brought; `None` where it brought no step and is to be tried again."""
        end, time, states, saved, (kept, tried, evaluations, event) = out
        first, self.begin = self._taken == 0, end
        self._taken += int(tried)
        if kept == 0 and not event and self._refused < _MOST_REFUSED:
            self._refused += (
                1  # the step was far too long, and the piece too short for a better one
            )
            return None
        self._refused, rows = 0, int(kept) + 1
        local = time[:rows]
        asked = (
            np.isin(local, self.times - self._origin)
            if len(self.times)
            else np.zeros(rows, dtype=bool)
        )
        asked[0] &= first  # else it was the end of the piece before
        piece = Piece(
            time=self._origin + local,
            states=states[:rows],
            saved=jax.tree.map(lambda a: a[:rows], saved),
            requested_time=self._origin + local[asked],
            requested=jax.tree.map(lambda a: a[:rows][asked], saved) if asked.any() else None,
            end=np.asarray(end.y),
            context=end.context,
            steps=int(tried),
            evaluations=round(float(evaluations)),
            event=bool(event),
            stalled=bool(kept == 0 and not event),
        )
        self._origin = float(piece.time[-1])
        self._stopped = piece.stalled or piece.event
        return piece


def integrate(
    flow: AbstractFlow | Stepper, start: StateLike, kind: str = "explicit", **options: Any
) -> Iterator[Piece]:
    """Yield pieces of the solution until an event, `max_time` or `max_steps`.

    The options are those of an `Integration`. To stop earlier leave the loop.

    Parameters
    ----------
    flow : the system, or its steps, made before.
    start : its state at time 0.
    kind : of the steps: one of `METHODS`.
    **options : `rtol`, `context`, `times`, `max_time` and `max_steps`, as in `Integration`.
    """
    stepper = flow if isinstance(flow, Stepper) else Stepper(flow, kind, start)
    for pieces in integrate_batch([Integration(stepper, start, **options)]):
        yield from pieces.values()


def integrate_batch(runs: Sequence[Integration]) -> Iterator[dict[int, Piece]]:
    """Yield pieces of many solutions, by their number, until all are over.

    Flows of one kind and one shape run as one program, at the pace of the slowest.

    Parameters
    ----------
    runs : what to integrate: flows of one kind and one shape.
    """
    advance = _one_by_one(runs[0]) if len(runs) == 1 else _all_at_once(runs)
    while not all(run.over for run in runs):
        waiting = [not run.over for run in runs]
        outs = advance()
        accepted = {k: runs[k].accept(out) for k, out in enumerate(outs) if waiting[k]}
        yield {k: piece for k, piece in accepted.items() if piece is not None}


def _one_by_one(run: Integration) -> Callable[[], list[Any]]:
    return lambda: [run.stepper.piece(run.begin, *run.request())]


def _all_at_once(runs: Sequence[Integration]) -> Callable[[], list[Any]]:
    """The same piece for many flows, which differ in their arrays alone."""
    methods = [run.stepper.method for run in runs]
    moving, still = stack_arrays(methods)
    moving_flow, still_flow = stack_arrays([method.flow for method in methods])
    length = min(run.stepper.length for run in runs)

    def advance() -> list[Any]:
        begin = stacked([run.begin for run in runs])
        requests = stacked([run.request() for run in runs])
        end, time, states, saved, counts = _map_lanes(
            _piece_of, still, moving, begin, *requests, length=length
        )
        if not methods[0].flow.watches:
            saved = _map_lanes(_observed_of, still_flow, moving_flow, states, counts[0])
        return unstacked(jax.device_get((end, time, states, saved, counts)), len(runs))

    return advance


# --- what is compiled ---------------------------------------------------------------------------------------


def _piece_of(
    method: AbstractMethod, begin: Begin, rtol: Any, horizon: Any, wanted: Any, *, length: int
) -> Any:
    """Where a piece ends, its moments and states, what was seen of them, and what it took."""
    last = run_piece(method, begin, rtol, horizon, wanted, length)
    end = Begin(last.y, last.memory, last.context, last.h)
    counts = (last.kept, last.tried, last.evaluations, last.event)
    return end, last.times, last.states, last.seens, counts


def _observed_of(flow: AbstractFlow, states: Any, kept: Any) -> Any:
    """What the flow has to say of each state that was kept; compiled once, whatever makes the steps."""
    shape = jax.eval_shape(flow.observe, states[0])
    empty = jax.tree.map(lambda one: jnp.zeros((len(states), *one.shape), one.dtype), shape)

    def one(k: Any, seen: Any) -> Any:
        now = flow.observe(states[k])
        return jax.tree.map(lambda rows, row: rows.at[k].set(row), seen, now)

    return jax.lax.fori_loop(0, kept + 1, one, empty)


_observed = compiled(_observed_of)


@compiled
def _piece(method: AbstractMethod, length: int, *given: Any) -> Any:
    return _piece_of(method, *given, length=length)


@compiled
def _map_lanes(function: Callable, still: Any, moving: Any, *given: Any, **fixed: Any) -> Any:
    """A function of a method and arrays, for many methods that share all but their arrays."""
    return jax.vmap(lambda arrays, *one: function(eqx.combine(arrays, still), *one, **fixed))(
        moving, *given
    )


# --- many trees as one --------------------------------------------------------------------------------------


def stack_arrays(trees: Sequence[Any]) -> tuple[Any, Any]:
    """The arrays of many trees as one, with a leading axis, and the rest, which must be the same in all.

    Parameters
    ----------
    trees : trees of one structure, with arrays of one shape.
    """
    split = [eqx.partition(tree, is_array) for tree in trees]
    still = split[0][1]
    shapes = {tuple(leaf.shape for leaf in jax.tree.leaves(arrays)) for arrays, _ in split}
    if len(shapes) > 1 or not all(eqx.tree_equal(rest, still) for _, rest in split[1:]):
        raise InputError("Networks that run together must differ in their numbers alone.")
    return stacked([arrays for arrays, _ in split]), still


def stacked(trees: Sequence[Any]) -> Any:
    """Many trees of arrays as one, with a leading axis; one transfer for each leaf.

    Parameters
    ----------
    trees : trees of arrays, of one structure and one shape.
    """
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(jax.device_get(leaves))), *trees)


def unstacked(tree: Any, many: int) -> list[Any]:
    """The trees along the leading axis.

    Parameters
    ----------
    tree : arrays with a leading axis.
    many : length of that axis.
    """
    return [jax.tree.map(lambda leaf, k=k: leaf[k], tree) for k in range(many)]


def _piece_length(method: AbstractMethod, y: StateLike) -> int:
    """A guess from sizes alone."""
    calls = method.flow.work(y) * method.typical_evaluations(y)
    most = min(_PIECE_FLOPS / (2.0 * calls), _PIECE_NUMBERS / y.size)
    return next((n for n in _PIECE_STEPS if n <= most), _PIECE_STEPS[-1])

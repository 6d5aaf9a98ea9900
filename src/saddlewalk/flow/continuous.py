"""Follow a gradient flow piece by piece until no unit, large or tiny, has utility left."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk import ode
from saddlewalk.curves import Stopped
from saddlewalk.errors import InputError
from saddlewalk.flow.gradient_flow import Snapshot, first_snapshots, make_flow
from saddlewalk.flow.recorder import Recorder
from saddlewalk.flow.rest import Rest
from saddlewalk.interrupts import answering_interrupts, may_return_part
from saddlewalk.problem import Parameters, Problem
from saddlewalk.show.progress import Progress

_SMALL = 150
"""Parameters up to which a dense Jacobian is cheap."""
_PATIENCE = 20_000
"""Explicit steps after which a small problem counts as stiff."""
_KINKED_TOLERANCE = 1e-5


class FlowRun:
    """One gradient flow between pieces of integration: where it is, and what it cost.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` at the start.
    first : what there is to see at the start.
    recorder : what keeps the run.
    bar : the progress line.
    rest : when to stop for lack of motion.
    max_steps : most steps of the whole run.
    """

    def __init__(
        self,
        problem: Problem,
        theta: Parameters,
        first: Snapshot,
        recorder: Recorder,
        bar: Progress,
        rest: Rest,
        max_steps: int,
    ) -> None:
        self.flow = make_flow(problem, theta, first)
        self.state = self.flow.state(theta)
        self.recorder, self.bar = recorder, bar
        self.rest, self.max_steps = rest, max_steps
        self.steps = self.evaluations = 0
        self.time = 0.0
        recorder.add(np.zeros(1), jax.tree.map(lambda a: np.asarray(a)[None], first))

    def integration(
        self, kind: str, rtol: float, times: np.ndarray, max_time: float, max_steps: int
    ) -> ode.Integration:
        """What is left to integrate from here."""
        self._origin = self.time
        return ode.Integration(
            ode.Stepper(self.flow, kind, self.state),
            self.state,
            rtol=rtol,
            times=times[times >= self.time] - self.time,
            max_time=max_time - self.time,
            max_steps=max_steps - self.steps,
        )

    def take(self, piece: ode.Piece) -> Stopped | None:
        """Keep a piece, and say why it was the last if it was."""
        if self._record(piece, self._origin, self.max_steps - self.steps):
            return self.rest.reason
        if piece.stalled:
            return Stopped.STALLED
        return None

    def _record(self, piece: ode.Piece, origin: float, steps_left: int) -> bool:
        """Keep what is new in a piece, up to convergence; say whether it was reached."""
        calm = self.rest.first(piece.saved, origin + piece.time)
        end = min(len(piece.time) if calm is None else calm + 1, steps_left + 1)
        fresh = slice(1, end)  # a piece starts where the last one ended
        time = origin + piece.time
        self.recorder.add(time[fresh], jax.tree.map(lambda a: a[fresh], piece.saved))
        if piece.requested is not None:
            wanted = piece.requested_time <= piece.time[end - 1]
            self.recorder.add_requested(
                origin + piece.requested_time[wanted], piece.requested.parameters[wanted]
            )
        self.steps += min(piece.steps, steps_left)
        self.evaluations += piece.evaluations
        self.time, self.state = float(time[-1]), jnp.asarray(piece.end)
        loss = float(piece.saved.loss[-1])
        self.bar.update(f"time {self.time:.4g}, loss {loss:.4g}, {self.steps} steps")
        return calm is not None


def integrate_flows(
    problems: Sequence[Problem],
    starts: Sequence[Parameters],
    recorders: Sequence[Recorder],
    bar: Progress,
    *,
    kind: str,
    tolerance: float | None,
    convergence: float,
    max_time: float,
    max_steps: int,
    times: np.ndarray,
) -> list[dict[str, Any]]:
    """Gradient flows of one shape, with the steps that suit them unless `kind` says.

    Parameters
    ----------
    problems : units, data and loss of each network; one shape.
    starts : parameters `(width, size)` of each at the start.
    recorders : what keeps each run.
    bar : the progress line.
    kind : "explicit", "implicit" or "stabilized"; "auto" takes what suits the first problem.
    tolerance : error of one step, relative to each unit's own norm; `None` for the solver's own.
    convergence : part of its largest drive at which a unit rests.
    max_time, max_steps : stop there in any case.
    times : moments at which parameters are wanted; none if empty.
    """
    problem = problems[0]
    if problem.adaptive and kind in ("implicit", "stabilized"):
        raise InputError(
            f"`solver` '{kind}' is for a gradient flow in a fixed metric, which adaptive rates are not. "
            "Take 'auto' or 'explicit'."
        )
    smooth, small = problem.smooth, starts[0].size <= _SMALL
    solver = _suitable(problem, small) if kind == "auto" else kind
    rtol = tolerance
    if rtol is None:
        rtol = ode.METHODS[solver].tolerance if smooth else _KINKED_TOLERANCE
    runs = [
        FlowRun(*given, bar, Rest(given[0], given[2], convergence), max_steps)
        for given in zip(
            problems, starts, first_snapshots(problems, starts), recorders, strict=True
        )
    ]
    may_switch = kind == "auto" and solver == "explicit" and smooth and not problem.adaptive
    patience = min(_PATIENCE, max_steps) if may_switch else max_steps
    ends = _advance(runs, solver, rtol, times, max_time, patience)
    outcomes = []
    for run, end in zip(runs, list(ends), strict=True):
        solvers, stopped = solver, end
        to_go = run.steps < max_steps and run.time < max_time and Stopped.INTERRUPTED not in ends
        if stopped is Stopped.LIMIT and to_go:
            stiff = "implicit" if small else "stabilized"
            solvers = f"explicit, then {stiff}"
            (stopped,) = _advance([run], stiff, rtol, times, max_time, max_steps)
            ends.append(stopped)  # Ctrl-C here ends the others, too
        outcomes.append(
            {
                "solver": solvers,
                "tolerance": rtol,
                "stopped": stopped,
                "steps": run.steps,
                "rhs_evaluations": run.evaluations,
            }
        )
    return outcomes


@answering_interrupts()
def _advance(
    runs: Sequence[FlowRun],
    kind: str,
    rtol: float,
    times: np.ndarray,
    max_time: float,
    max_steps: int,
) -> list[Stopped]:
    """Integrate on, and say of each why it stopped."""
    left = [run.integration(kind, rtol, times, max_time, max_steps) for run in runs]
    ends = [Stopped.LIMIT] * len(runs)
    try:
        for pieces in ode.integrate_batch(left):
            for k, piece in pieces.items():
                end = runs[k].take(piece)
                if end is not None:
                    ends[k] = end
                    left[k].stop()
    except KeyboardInterrupt:
        if not may_return_part():
            raise
        return [
            Stopped.INTERRUPTED if not one.over else end
            for one, end in zip(left, ends, strict=True)
        ]
    return ends


def _suitable(problem: Problem, small: bool) -> str:
    """Explicit steps where plateaus are short or there are kinks; else steps for stiff problems."""
    if problem.degree == 2 or problem.adaptive or not problem.smooth:
        return "explicit"
    return "implicit" if small else "stabilized"

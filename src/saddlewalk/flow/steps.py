"""Finite steps for comparison: full-batch gradient descent and mini-batch SGD, with momentum."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.curves import Stopped
from saddlewalk.errors import InputError
from saddlewalk.flow.gradient_flow import Snapshot, first_snapshots, take_snapshot
from saddlewalk.flow.recorder import Recorder
from saddlewalk.flow.rest import Rest
from saddlewalk.interrupts import answering_interrupts, may_return_part
from saddlewalk.ode import stack_arrays, unstacked
from saddlewalk.problem import Parameters, Problem
from saddlewalk.show.progress import Progress
from saddlewalk.tasks import Samples

Pace = tuple[jax.Array, jax.Array]
"""Learning rate and momentum: numbers of the program, so that another one is not compiled anew."""
_RECORDS = 20_000
"""Moments recorded in a run to its step limit."""
_PIECE_RECORDS, _PIECE_NUMBERS, _PIECE_FLOPS = 256, 5e6, 1e9
"""Moments recorded in one compiled call, as long as their parameters fit and it does not take long."""
_FLOPS, _SNAPSHOT = 6, 4
"""Of a step, for each unit and number of the data; and what a record costs, in steps."""


class DescentRun:
    """One descent between its compiled pieces.

    Parameters
    ----------
    start : what there is to see at the start.
    recorder : what keeps the run.
    rest : when to stop for lack of motion.
    """

    def __init__(self, start: Snapshot, recorder: Recorder, rest: Rest) -> None:
        self.recorder, self.rest = recorder, rest
        self.steps, self.stopped = 0, Stopped.LIMIT
        recorder.add(np.zeros(1), jax.tree.map(lambda a: np.asarray(a)[None], start))

    @property
    def over(self) -> bool:
        """Whether it converged or diverged."""
        return self.stopped is not Stopped.LIMIT

    def take(self, steps: np.ndarray, time: np.ndarray, seen: Snapshot) -> None:
        """Keep the records of a piece, up to the one at which it comes to rest or blows up."""
        finite = np.isfinite(seen.loss)
        end = len(steps) if finite.all() else int(np.argmin(finite))
        calm = self.rest.first(jax.tree.map(lambda a: a[:end], seen), time[:end])
        if calm is not None:
            end, self.stopped = calm + 1, self.rest.reason
        elif end < len(steps):
            self.stopped = Stopped.DIVERGED
        if end:
            self.steps = int(steps[end - 1])
            self.recorder.add(time[:end], jax.tree.map(lambda a: a[:end], seen))


@answering_interrupts()
def descend(
    problems: Sequence[Problem],
    starts: Sequence[Parameters],
    recorders: Sequence[Recorder],
    bar: Progress,
    *,
    learning_rate: float,
    momentum: float,
    batch_size: int | None,
    seeds: Sequence[int],
    convergence: float,
    max_time: float,
    max_steps: int,
) -> list[dict[str, Any]]:
    """Steps of `learning_rate`; one step takes `learning_rate / (1 - momentum)` of flow time.

    Parameters
    ----------
    problems : units, data and loss of each network; one shape.
    starts : parameters `(width, size)` of each at the start.
    recorders : what keeps each run.
    bar : the progress line.
    learning_rate, momentum : of the steps.
    batch_size : samples of a mini-batch; `None` takes them all.
    seeds : seed of the mini-batches of each network.
    convergence : part of its largest drive at which a unit rests.
    max_time, max_steps : stop there in any case; time is flow time.
    """
    _check(problems[0], learning_rate, batch_size, momentum)
    step_time = learning_rate / (1 - momentum)
    total = min(max_steps, math.ceil(max_time / step_time) if max_time < math.inf else max_steps)
    stride = math.ceil(total / _RECORDS)
    records = min(total // stride, _piece_records(problems[0], starts[0], stride))
    runs = [
        DescentRun(first, recorder, Rest(problem, first, convergence, finite_steps=True))
        for problem, first, recorder in zip(
            problems, first_snapshots(problems, starts), recorders, strict=True
        )
    ]
    carries = [
        (start, jnp.zeros_like(start), jax.random.key(seed))
        for start, seed in zip(starts, seeds, strict=True)
    ]
    pace = jnp.asarray(learning_rate, dtype=float), jnp.asarray(momentum, dtype=float)
    advance = _stepper(problems, pace, carries, batch_size or 0)
    done = 0
    try:
        while done < total and not all(run.over for run in runs):
            left = total - done
            # what is left over at the end is less than a record, or than a piece
            every, many = (stride, min(records, left // stride)) if left >= stride else (left, 1)
            seen = advance(every, many)
            steps = done + every * np.arange(1, many + 1)
            for run, snapshots in zip(runs, seen, strict=True):
                if not run.over:
                    run.take(steps, step_time * steps, snapshots)
            done = int(steps[-1])
            bar.update(f"step {done}, loss {float(seen[0].loss[-1]):.4g}", done / total)
    except KeyboardInterrupt:
        if not may_return_part():
            raise
        for run in runs:
            run.stopped = run.stopped if run.over else Stopped.INTERRUPTED
    return [
        {
            "solver": "sgd" if batch_size else "descent",
            "stopped": run.stopped,
            "steps": run.steps,
            "rhs_evaluations": run.steps,
            "learning_rate": learning_rate,
            "momentum": momentum,
            **({"batch_size": batch_size} if batch_size else {}),
        }
        for run in runs
    ]


def _piece_records(problem: Problem, theta: Parameters, stride: int) -> int:
    """As many as keep a compiled call well below a second and its results small."""
    held = 1 + sum(leaf.size for leaf in jax.tree.leaves(problem) if hasattr(leaf, "size"))
    work = _FLOPS * held * len(theta) * (stride + _SNAPSHOT)
    most = min(_PIECE_RECORDS, _PIECE_NUMBERS / theta.size, _PIECE_FLOPS / work)
    return max(1, int(most))


def _stepper(
    problems: Sequence[Problem], pace: Pace, carries: Sequence[Any], batch: int
) -> Callable[[int, int], list[Snapshot]]:
    """A function that makes the next piece of every descent, and gives what it saw."""
    many = len(problems) > 1
    moving, still = stack_arrays(problems) if many else eqx.partition(problems[0], eqx.is_array)
    carry = jax.tree.map(lambda *leaves: jnp.stack(leaves), *carries) if many else carries[0]
    run = _run_batch if many else _run

    def advance(stride: int, records: int) -> list[Snapshot]:
        nonlocal carry
        carry, seen = run(moving, still, pace, carry, stride, records, batch)
        seen = jax.device_get(seen)
        return unstacked(seen, len(problems)) if many else [seen]

    return advance


def _steps(
    moving: Any, still: Any, pace: Pace, carry: Any, stride: int, records: int, batch: int
) -> tuple[Any, Snapshot]:
    """So many records, each after `stride` steps."""
    problem = eqx.combine(moving, still)
    rate, momentum = pace

    def step(state: Any, _: None) -> tuple[Any, None]:
        theta, memory, key = state
        key, draw = jax.random.split(key)
        seen = _minibatch(problem, draw, batch) if batch else problem
        memory = momentum * memory + seen.velocity(theta)
        return (theta + rate * memory, memory, key), None

    def record(state: Any, _: None) -> tuple[Any, Snapshot]:
        state, _ = jax.lax.scan(step, state, length=stride)
        return state, take_snapshot(problem, state[0])

    return jax.lax.scan(record, carry, length=records)


_run = eqx.filter_jit(_steps)


@eqx.filter_jit
def _run_batch(
    moving: Any, still: Any, pace: Pace, carry: Any, stride: int, records: int, batch: int
) -> tuple[Any, Snapshot]:
    return jax.vmap(
        lambda arrays, state: _steps(arrays, still, pace, state, stride, records, batch)
    )(moving, carry)


def _minibatch(problem: Problem, key: Any, size: int) -> Problem:
    """The same problem on a random draw of samples, with replacement, by their weights."""
    task = problem.task
    assert isinstance(task, Samples)
    rows = jax.random.choice(key, len(task.weights), (size,), p=jnp.asarray(task.weights))
    x, y = jnp.asarray(task.x)[rows], jnp.asarray(task.y)[rows]
    drawn = Samples(task.name, x, y, jnp.full(size, 1.0 / size))
    return eqx.tree_at(lambda p: p.task, problem, drawn)


def _check(problem: Problem, learning_rate: float, batch_size: int | None, momentum: float) -> None:
    if not 0 < learning_rate < math.inf:
        raise InputError(f"The learning rate must be positive; got {learning_rate}.")
    if not 0 <= momentum < 1:
        raise InputError(f"The momentum must lie in [0, 1); got {momentum}.")
    if batch_size is None:
        return
    if not isinstance(problem.task, Samples):
        raise InputError("SGD needs samples; this task is given by its moments.")
    if batch_size < 1:
        raise InputError(f"The batch size must be at least 1; got {batch_size}.")

r"""Finite steps of an optimizer: :math:`w \leftarrow w + \Delta(g, m)`, on all data or on mini-batches."""

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
from saddlewalk.flow.rest import Rest, Standstill
from saddlewalk.interrupts import answering_interrupts, may_return_part
from saddlewalk.ode import stack_arrays, unstacked
from saddlewalk.optimizers import AbstractOptimizer, Optax
from saddlewalk.problem import Parameters, Problem, steps
from saddlewalk.show.progress import Progress
from saddlewalk.tasks import Samples

_RECORDS = 20_000
"""Moments recorded in a run to its step limit, at most about."""
_FINE = 500
"""A record comes after this part of the steps so far: times are known to a fifth of a percent."""
_PIECE_RECORDS, _PIECE_NUMBERS, _PIECE_FLOPS = 64, 5e6, 1e9
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

    def __init__(self, start: Snapshot, recorder: Recorder, rest: Rest | Standstill) -> None:
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
        blown = end < len(steps)
        if calm is not None and not (blown and calm == end - 1):
            end, self.stopped = calm + 1, self.rest.reason
        elif blown:
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
    optimizer: AbstractOptimizer,
    batch_size: int | None,
    seeds: Sequence[int],
    convergence: float,
    max_time: float,
    max_steps: int,
) -> list[dict[str, Any]]:
    """Steps of an optimizer, each of which takes its `time_per_step`.

    Parameters
    ----------
    problems : units, data and loss of each network; one shape.
    starts : parameters `(width, size)` of each at the start.
    recorders : what keeps each run.
    bar : the progress line.
    optimizer : what makes a step of a gradient.
    batch_size : samples of a mini-batch; `None` takes them all.
    seeds : seed of the mini-batches of each network.
    convergence : part of its largest drive at which a unit rests.
    max_time, max_steps : stop there in any case; time is flow time.
    """
    _check(problems[0], optimizer, batch_size)
    step_time = optimizer.time_per_step
    total = min(max_steps, math.ceil(max_time / step_time) if max_time < math.inf else max_steps)
    records, longest = _piece(problems[0], starts[0], total)
    runs = [
        DescentRun(first, recorder, _rest(problem, first, convergence, optimizer))
        for problem, first, recorder in zip(
            problems, first_snapshots(problems, starts), recorders, strict=True
        )
    ]
    rule = jax.tree.map(lambda number: jnp.asarray(number, dtype=float), optimizer)
    first_weights = [
        steps.weights_of(problem, start, rule)
        for problem, start in zip(problems, starts, strict=True)
    ]
    carries = [
        (weights, rule.start(weights), jax.random.key(seed))
        for weights, seed in zip(first_weights, seeds, strict=True)
    ]
    advance = _stepper(problems, rule, carries, batch_size or 0)
    done = 0
    try:
        while done < total and not all(run.over for run in runs):
            left = total - done
            every = min(max(1, done // _FINE), longest)
            # what is left over at the end is less than a piece, or than a record
            every, many = (min(every, left // records), records) if left >= records else (left, 1)
            seen = advance(every, many)
            counts = done + every * np.arange(1, many + 1)
            for run, snapshots in zip(runs, seen, strict=True):
                if not run.over:
                    run.take(counts, step_time * counts, snapshots)
            done = int(counts[-1])
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
            "optimizer": optimizer.to_json(),
            "learning_rate": optimizer.learning_rate,
            "momentum": getattr(optimizer, "momentum", 0.0),
            **({"batch_size": batch_size} if batch_size else {}),
        }
        for run in runs
    ]


def _piece(problem: Problem, theta: Parameters, total: int) -> tuple[int, int]:
    """Records of a compiled call, and steps of each at most: results are small, and it takes no second."""
    held = 1 + sum(leaf.size for leaf in jax.tree.leaves(problem) if hasattr(leaf, "size"))
    work = _FLOPS * held * len(theta)
    most = min(_PIECE_RECORDS, _PIECE_NUMBERS / theta.size, _PIECE_FLOPS / (work * _SNAPSHOT))
    records = max(1, min(int(most), total))
    return records, max(math.ceil(total / _RECORDS), int(_PIECE_FLOPS / (work * records)))


def _stepper(
    problems: Sequence[Problem], rule: AbstractOptimizer, carries: Sequence[Any], batch: int
) -> Callable[[int, int], list[Snapshot]]:
    """A function that makes the next piece of every descent, and gives what it saw."""
    many = len(problems) > 1
    moving, still = stack_arrays(problems) if many else eqx.partition(problems[0], eqx.is_array)
    carry = jax.tree.map(lambda *leaves: jnp.stack(leaves), *carries) if many else carries[0]
    run = _run_batch if many else _run

    def advance(stride: int, records: int) -> list[Snapshot]:
        nonlocal carry
        carry, seen = run(moving, still, rule, carry, jnp.asarray(stride), records, batch)
        seen = jax.device_get(seen)
        return unstacked(seen, len(problems)) if many else [seen]

    return advance


def _steps(
    moving: Any,
    still: Any,
    rule: AbstractOptimizer,
    carry: Any,
    stride: jax.Array,
    records: int,
    batch: int,
) -> tuple[Any, Snapshot]:
    """So many records, each after `stride` steps."""
    problem = eqx.combine(moving, still)

    def step(_: Any, state: Any) -> Any:
        weights, memory, key = state
        key, draw = jax.random.split(key)
        seen = _minibatch(problem, draw, batch) if batch else problem
        weights, memory = steps.moved(problem, seen, rule, weights, memory)
        return weights, memory, key

    def record(state: Any, _: None) -> tuple[Any, Snapshot]:
        state = jax.lax.fori_loop(0, stride, step, state)
        return state, take_snapshot(problem, steps.parameters_of(problem, state[0], rule))

    return jax.lax.scan(record, carry, length=records)


_run = eqx.filter_jit(_steps)


@eqx.filter_jit
def _run_batch(
    moving: Any,
    still: Any,
    rule: AbstractOptimizer,
    carry: Any,
    stride: jax.Array,
    records: int,
    batch: int,
) -> tuple[Any, Snapshot]:
    return jax.vmap(
        lambda arrays, state: _steps(arrays, still, rule, state, stride, records, batch)
    )(moving, carry)


def _minibatch(problem: Problem, key: Any, size: int) -> Problem:
    """The same problem on a random draw of samples, with replacement, by their weights."""
    task = problem.task
    assert isinstance(task, Samples)
    rows = jax.random.choice(key, len(task.weights), (size,), p=jnp.asarray(task.weights))
    x, y = jnp.asarray(task.x)[rows], jnp.asarray(task.y)[rows]
    drawn = Samples(task.name, x, y, jnp.full(size, 1.0 / size))
    return eqx.tree_at(lambda p: p.task, problem, drawn)


def _rest(
    problem: Problem, first: Snapshot, convergence: float, optimizer: AbstractOptimizer
) -> Rest | Standstill:
    """Where steps shrink with the gradient units come to rest; where they do not, the loss does."""
    if optimizer.proportional:
        return Rest(problem, first, convergence, finite_steps=True)
    clocked = not isinstance(optimizer, Optax)
    return Standstill(problem, float(first.loss), convergence, clocked=clocked)


def _check(problem: Problem, optimizer: AbstractOptimizer, batch_size: int | None) -> None:
    if problem.adaptive and not optimizer.proportional:
        raise InputError(
            f"Adaptive rates of gradient flow go with 'descent' and 'momentum'; '{optimizer.word}' has steps "
            "of its own. Leave out `adaptive`."
        )
    if batch_size is not None:
        steps.check_batches(problem, batch_size)

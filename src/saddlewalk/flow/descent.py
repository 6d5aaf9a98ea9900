"""Finite steps for comparison: full-batch gradient descent and mini-batch SGD, with momentum."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from saddlewalk.errors import InputError
from saddlewalk.flow.gradient_flow import Snapshot, take_snapshot
from saddlewalk.flow.recorder import Recorder
from saddlewalk.problem import Parameters, Problem
from saddlewalk.progress import Progress
from saddlewalk.tasks import Samples

_RECORDS = 20_000
"""Moments recorded in a run to its step limit."""


def descend(
    problem: Problem,
    theta: Parameters,
    recorder: Recorder,
    bar: Progress,
    *,
    learning_rate: float,
    momentum: float,
    batch_size: int | None,
    seed: int,
    convergence: float,
    max_time: float,
    max_steps: int,
) -> dict[str, Any]:
    """Steps of `learning_rate`; one step takes `learning_rate / (1 - momentum)` of flow time."""
    _check(problem, learning_rate, batch_size, momentum)
    optimizer = optax.sgd(learning_rate, momentum if momentum > 0 else None)
    step_time = learning_rate / (1 - momentum)
    total = min(max_steps, math.ceil(max_time / step_time) if max_time < math.inf else max_steps)
    stride = math.ceil(total / _RECORDS)
    snapshot = eqx.filter_jit(take_snapshot)
    first = jax.device_get(snapshot(problem, theta))
    recorder.add(np.zeros(1), _one(first))
    carry = (theta, optimizer.init(theta), jax.random.key(seed))
    stopped, done, largest = "limit", 0, first.drive
    try:
        while done < total:
            steps = min(stride, total - done)
            carry = _run(problem, optimizer, carry, steps, batch_size or 0)
            done += steps
            now = jax.device_get(snapshot(problem, carry[0]))
            if not np.isfinite(now.loss):
                stopped = "diverged: use a smaller learning rate"
                break
            recorder.add(np.array([done * step_time]), _one(now))
            bar.update(f"step {done}, loss {float(now.loss):.4g}", done / total)
            largest = np.maximum(largest, now.drive)
            if (now.drive <= convergence * largest).all():
                stopped = "converged"
                break
    except KeyboardInterrupt:
        stopped = "interrupted"
    return {
        "solver": "sgd" if batch_size else "descent",
        "stopped": stopped,
        "steps": done,
        "rhs_evaluations": done,
        "learning_rate": learning_rate,
        "momentum": momentum,
        **({"batch_size": batch_size} if batch_size else {}),
    }


def _one(snapshot: Snapshot) -> Snapshot:
    return jax.tree.map(lambda a: np.asarray(a)[None], snapshot)


@eqx.filter_jit
def _run(problem: Problem, optimizer: Any, carry: Any, steps: int, batch: int) -> Any:
    def step(state: Any, _: None) -> tuple[Any, None]:
        theta, memory, key = state
        key, draw = jax.random.split(key)
        seen = _minibatch(problem, draw, batch) if batch else problem
        updates, memory = optimizer.update(-seen.velocity(theta), memory)
        return (theta + updates, memory, key), None

    return jax.lax.scan(step, carry, length=steps)[0]


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

"""Many networks at once: every seed and every cell of a grid in one compiled program.

Networks are trees of arrays with two leading axes, (seed, cell). A seed has its own data and its own order
of mini-batches, which its cells share: a comparison between cells is a paired one, and the data are read
once for all of them.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.figures.networks.optimizers import Optimizer

Loss = Callable[[Any, Any], jax.Array]
"""A network and data (a tree of arrays with samples first) give a number."""
_PIECE = 1000
"""Most steps in one compiled call: mini-batches of so many steps are drawn at a time."""


def train_ensemble(
    loss: Loss,
    networks: Any,
    data: Any,
    optimizer: Optimizer,
    *,
    checkpoints: Sequence[int],
    batch_size: int | None = None,
    rates: Any = 1.0,
    seed: int = 0,
) -> Iterator[tuple[int, Any]]:
    """Train all networks and yield `(step, networks)` at the checkpoints.

    Parameters
    ----------
    loss : loss of one network on the samples of a batch.
    networks : tree of arrays `(seeds, cells, ...)`; leaves that are no arrays are left alone.
    data : tree of arrays `(seeds, samples, ...)`.
    optimizer : any optax optimizer; its updates are multiplied by `rates`.
    checkpoints : steps at which the networks are wanted, rising; 0 is the start.
    batch_size : samples of a step, epoch after epoch in random order; all of them by default.
    rates : what the updates of each cell are multiplied by: a number, or one a cell.
    seed : seed of the order of samples.
    """
    stops = sorted(set(checkpoints))
    if not stops or stops[0] < 0:
        raise InputError(f"Checkpoints must be steps from 0 on; got {list(checkpoints)}.")
    seeds, samples = jax.tree.leaves(data)[0].shape[:2]
    if batch_size is not None and not 1 <= batch_size <= samples:
        raise InputError(f"A batch of {batch_size} cannot be drawn from {samples} samples.")
    moving, fixed = eqx.partition(networks, eqx.is_inexact_array)
    cells = jax.tree.leaves(moving)[0].shape[1]
    pace = jnp.broadcast_to(jnp.asarray(rates), (cells,))
    memory = jax.vmap(jax.vmap(optimizer.init))(moving)
    drawn = _batches(seeds, samples, batch_size, seed)
    done = 0
    for stop in stops:
        while done < stop:
            steps = min(_PIECE, stop - done)
            rows = (
                None if drawn is None else jnp.asarray(np.stack([*itertools.islice(drawn, steps)]))
            )
            moving, memory = _advance(
                loss, optimizer, fixed, moving, memory, data, pace, rows, steps
            )
            done += steps
        yield done, eqx.combine(moving, fixed)


def stacked(networks: Sequence[Sequence[Any]]) -> Any:
    """Networks in rows (seeds) and columns (cells) as one tree with two leading axes.

    Parameters
    ----------
    networks : trees of one structure, a row a seed.
    """
    return stacked_trees([stacked_trees(row) for row in networks])


def stacked_trees(trees: Sequence[Any]) -> Any:
    """Trees of the same shape as one, with a new first axis; leaves that are no arrays are left alone.

    Parameters
    ----------
    trees : trees of one structure.
    """
    return jax.tree.map(
        lambda *leaves: jnp.stack(leaves) if eqx.is_array_like(leaves[0]) else leaves[0], *trees
    )


@eqx.filter_jit
def _advance(
    loss: Loss,
    optimizer: Optimizer,
    fixed: Any,
    moving: Any,
    memory: Any,
    data: Any,
    pace: jax.Array,
    rows: jax.Array | None,
    steps: int,
) -> tuple[Any, Any]:
    def one(weights: Any, state: Any, batch: Any, rate: jax.Array) -> tuple[Any, Any]:
        gradient = jax.grad(lambda w: loss(eqx.combine(w, fixed), batch))(weights)
        updates, state = optimizer.update(gradient, state, weights)
        return jax.tree.map(lambda w, u: w + rate.astype(w.dtype) * u, weights, updates), state

    cells = jax.vmap(one, in_axes=(0, 0, None, 0))

    def of_seed(weights: Any, state: Any, own: Any, index: jax.Array | None) -> tuple[Any, Any]:
        batch = own if index is None else jax.tree.map(lambda a: a[index], own)
        return cells(weights, state, batch, pace)

    def step(carry: Any, index: jax.Array | None) -> tuple[Any, None]:
        weights, state = carry
        return jax.vmap(of_seed)(weights, state, data, index), None

    return jax.lax.scan(step, (moving, memory), rows, length=steps)[0]


def _batches(seeds: int, samples: int, size: int | None, seed: int) -> Iterator[np.ndarray] | None:
    """Rows `(seeds, size)` of the data, batch after batch; every epoch is shuffled anew."""
    if size is None:
        return None
    return (
        np.stack(rows)
        for rows in zip(*(_stream(samples, size, seed, s) for s in range(seeds)), strict=True)
    )


def _stream(samples: int, size: int, seed: int, which: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng([seed, which])
    left = np.zeros(0, dtype=np.int32)
    while True:
        while len(left) < size:
            left = np.concatenate([left, rng.permutation(samples).astype(np.int32)])
        yield left[:size]
        left = left[size:]

"""Features of this package's own networks: FACT, AGOP and eNFA of dense and convolutional layers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from saddlewalk.errors import InputError
from saddlewalk.features.layers import LayerFeatures
from saddlewalk.features.report import NetworkFeatures
from saddlewalk.flow.trajectory import Trajectory
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.problem.where import network_at
from saddlewalk.tasks import Samples


@in_float64
def network_features(
    where: Trajectory | Problem | Any,
    weights: Any = None,
    *,
    at: int = -1,
    weight_decay: float | None = None,
    batch_size: int = 256,
) -> NetworkFeatures:
    """The layers of a two-layer or deep network on its task's samples, batch after batch.

    Parameters
    ----------
    where : a run, or a problem.
    weights : parameters `(width, size)` of the problem; a run has its own.
    at : number of the saved moment of a run; the last by default.
    weight_decay : lambda of the loss `mean + lambda/2 |weights|^2`; without it matrices hold up to a factor.
    batch_size : samples that are looked at together: what memory holds.
    """
    problem, theta = network_at(where, weights, at)
    task = _samples_of(problem)
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1; got {batch_size}.")
    x, y, w = (jnp.asarray(a) for a in (task.x, task.y, task.weights))
    if jax.eval_shape(problem.units.gradient_factors, problem.weights(theta), x[0]) is None:
        raise InputError(
            "These units are no dense or convolutional layers: their weights multiply nothing as a matrix."
        )
    sums: Any = None
    for start in range(0, len(x), batch_size):
        rows = slice(start, start + batch_size)
        part = _sums_over_batch(problem, jnp.asarray(theta), x[rows], y[rows], w[rows])
        sums = part if sums is None else jax.tree.map(jnp.add, sums, part)

    def features(name: str) -> LayerFeatures:
        gradient, loss_square, output_square = (np.asarray(total) for total in sums[name])
        weight = _as_matrix(problem, theta, name)
        return LayerFeatures(name, weight, gradient, loss_square, output_square, weight_decay)

    # JAX sorts the names of a dictionary that passes through it
    return NetworkFeatures(tuple(features(name) for name in problem.shapes if name in sums))


def _samples_of(problem: Problem) -> Samples:
    if not isinstance(problem.task, Samples):
        raise InputError(
            "Features are averages over samples, and this problem keeps the moments of its data alone. "
            "Give one that keeps them, with the weights: network_features(sw.Problem(task, units, "
            "keep_samples=True), path.parameters[-1])."
        )
    return problem.task


@eqx.filter_jit
def _sums_over_batch(
    problem: Problem, theta: Array, x: Array, y: Array, weights: Array
) -> dict[str, Any]:
    """Weighted sums over a batch: gradient of the loss, g g^T, and sum_c q q^T, by layer."""
    named = problem.weights(theta)

    def one(x: Array, y: Array, weight: Array) -> dict[str, Any]:
        factors = problem.units.gradient_factors(named, x)
        assert factors is not None
        slope = jax.grad(problem.sample_loss)(problem.units.combine(named, x), y)
        found = {}
        for name, (reads, worth) in factors.items():
            # a dense layer reads at one place
            h, q = jnp.atleast_2d(reads), worth.reshape(len(slope), -1, worth.shape[-1])
            g = jnp.einsum("c,cph->ph", slope, q)
            found[name] = (
                weight * g.T @ h,
                weight * g.T @ g,
                weight * jnp.einsum("cpi,cpj->ij", q, q),
            )
        return found

    return jax.tree.map(lambda values: jnp.sum(values, axis=0), jax.vmap(one)(x, y, weights))


def _as_matrix(problem: Problem, theta: np.ndarray, name: str) -> np.ndarray:
    """A layer's weights as a matrix (outputs, inputs)."""
    values = np.asarray(problem.weights(theta)[name])
    if not problem.units.additive:
        return values[0]
    if name == next(iter(problem.shapes)):
        return values
    # (units, outputs, ...): what all units answer goes to each output
    return np.ascontiguousarray(np.swapaxes(values, 0, 1).reshape(values.shape[1], -1))

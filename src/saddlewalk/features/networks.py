"""Features of this package's own networks: FACT, AGOP and eNFA of dense and convolutional layers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from saddlewalk.errors import InputError
from saddlewalk.features.layers import LayerFeatures, NetworkFeatures
from saddlewalk.precision import in_float64
from saddlewalk.problem import ParametersLike, Problem
from saddlewalk.tasks import Samples

_BATCH = 256


@in_float64
def network_features(
    problem: Problem, theta: ParametersLike, weight_decay: float | None = None, batch: int = _BATCH
) -> NetworkFeatures:
    """The layers of a two-layer or deep network on its task's samples, batch after batch."""
    if not isinstance(problem.task, Samples):
        raise InputError(
            "Features are averages over samples; make the problem with keep_samples=True."
        )
    theta = jnp.asarray(theta, dtype=jnp.float64)
    x, y, w = (jnp.asarray(a) for a in (problem.task.x, problem.task.y, problem.task.weights))
    if jax.eval_shape(problem.units.gradient_factors, problem.weights(theta), x[0]) is None:
        raise InputError(
            "These units are no dense or convolutional layers: their weights multiply nothing as a matrix."
        )
    sums: Any = None
    for start in range(0, len(x), batch):
        rows = slice(start, start + batch)
        part = _sums(problem, theta, x[rows], y[rows], w[rows])
        sums = part if sums is None else jax.tree.map(jnp.add, sums, part)

    def features(name: str) -> LayerFeatures:
        gradient, loss_square, output_square = (np.asarray(total) for total in sums[name])
        weight = _matrix(problem, theta, name)
        return LayerFeatures(name, weight, gradient, loss_square, output_square, weight_decay)

    # JAX sorts the names of a dictionary that passes through it
    return NetworkFeatures(tuple(features(name) for name in problem.shapes if name in sums))


@eqx.filter_jit
def _sums(problem: Problem, theta: Array, x: Array, y: Array, weights: Array) -> dict[str, Any]:
    """Weighted sums over a batch: gradient of the loss, g g^T, and sum_c q q^T, by layer."""
    named = problem.weights(theta)

    def one(x: Array, y: Array, weight: Array) -> dict[str, Any]:
        factors = problem.units.gradient_factors(named, x)
        assert factors is not None
        slope = jax.grad(problem.penalty)(problem.units.combine(named, x), y)
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


def _matrix(problem: Problem, theta: Array, name: str) -> np.ndarray:
    """A layer's weights as a matrix (outputs, inputs)."""
    values = np.asarray(problem.weights(theta)[name])
    if not problem.units.additive:
        return values[0]
    if name == next(iter(problem.shapes)):
        return values
    # (units, outputs, ...): what all units answer goes to each output
    return np.swapaxes(values, 0, 1).reshape(values.shape[1], -1)

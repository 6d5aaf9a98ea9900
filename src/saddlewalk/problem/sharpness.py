r"""How sharp the loss is where a network rests, and how large steps may be there.

A direction of sharpness h is stable under steps :math:`\eta` up to :math:`\eta h = 2(1 + \beta)`
(`optimizers.growth`). Sharpness is the largest eigenvalue of the Hessian, in parameters over the roots of
their learning rates.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.problem.problem import ParametersLike, Problem
from saddlewalk.programs import seldom

_POWERS = 300


def sharpness(problem: Problem, theta: ParametersLike) -> float:
    """The largest eigenvalue of the Hessian, by power iteration.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    return float(_sharpness(problem, np.asarray(theta)))


@seldom
def _sharpness(problem: Problem, theta: ParametersLike) -> jax.Array:
    gradient = jax.grad(problem.loss)
    root = jnp.sqrt(jnp.asarray(problem.rates))
    theta = jnp.asarray(theta)

    def hessian(way: jax.Array) -> jax.Array:
        return root * jax.jvp(gradient, (theta,), (root * way,))[1]

    def power(_: Any, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        way, shift = state
        image = hessian(way) + shift * way
        return image / jnp.maximum(jnp.linalg.norm(image), 1e-300), shift

    first = jax.random.normal(jax.random.key(0), theta.shape, dtype=theta.dtype)
    first = first / jnp.linalg.norm(first)
    # the eigenvalue of largest size first; shifted by it, the largest one is found whatever its sign
    way, _ = jax.lax.fori_loop(0, _POWERS, power, (first, jnp.zeros(())))
    largest = jnp.abs(jnp.sum(way * hessian(way)))
    way, _ = jax.lax.fori_loop(0, _POWERS, power, (first, largest))
    return jnp.sum(way * hessian(way))

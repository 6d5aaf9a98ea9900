"""The ends of the spectrum of a Hessian, by Lanczos iterations on Hessian-vector products (ARPACK)."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from saddlewalk.diagnose.patience import go_on
from saddlewalk.problem import Problem, compiled, norms

SHRUNK = 1e-6
"""Norm at which units that are left over feel the saddle alone."""
_SPARE = 16
"""Of units that are left over, so many stand for all: those that grow fastest."""
_POWERS = 30
_LANCZOS = 1e-5
"""Error of an eigenvalue, as a part of the largest."""
_DENSE = 40
"""Parameters up to which the whole Hessian costs no more."""

_FEW_PRODUCTS = 8

Product = Callable[[np.ndarray], np.ndarray]


class Curvatures(NamedTuple):
    """How the loss curves at a point, in coordinates in which all learning rates are 1."""

    largest: float
    smallest: Float[np.ndarray, " few"]
    """The few smallest eigenvalues, rising."""
    direction: Float[np.ndarray, "width size"]
    """Unit vector of the parameters along the smallest."""


def curvatures(problem: Problem, point: Array, few: int) -> Curvatures:
    """The largest eigenvalue of the Hessian, the few smallest, and the direction of the smallest.

    Units that are left over feel nothing of each other, so of many the fastest stand for all.

    Parameters
    ----------
    problem : units, data and loss.
    point : parameters `(width, size)` of the critical point.
    few : how many of the smallest eigenvalues.
    """
    rows = _rows_that_matter(problem, point)
    fewer = problem if len(rows) == problem.width else problem.resized(len(rows))
    largest, values, vectors = _spectrum(fewer, point[rows], few)
    direction = np.zeros(point.shape)
    direction[rows] = vectors[:, 0].reshape(len(rows), -1) * np.sqrt(np.asarray(problem.rates))
    return Curvatures(largest, values, direction / np.linalg.norm(direction))


def steepness(problem: Problem, theta: Array) -> float:
    """About the largest curvature, in size, by a few products with the Hessian.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    way, found = np.random.default_rng(0).normal(size=theta.shape) / math.sqrt(theta.size), 0.0
    for _ in range(_FEW_PRODUCTS):
        way = np.asarray(compiled.hessian_product(problem, theta, jnp.asarray(way)))
        found = float(np.linalg.norm(way))
        if found == 0:
            break
        way = way / found
    return found


def growth_rates(problem: Problem, units: Array, residual: Array) -> Float[np.ndarray, " width"]:
    """How fast each of some tiny units grows against a residual: the largest curvature of its utility.

    Units that are tiny feel nothing of each other, so one product serves all: power iterations side by side.

    Parameters
    ----------
    problem : units, data and loss.
    units : parameters `(width, size)` of the tiny units.
    residual : what they climb against, in function space.
    """
    return np.asarray(_growth_rates(problem, units, residual))


@eqx.filter_jit
def _growth_rates(problem: Problem, units: Array, residual: Array) -> Array:
    pace = jnp.sqrt(problem.rates)

    def product(way: Array) -> Array:
        climb = lambda theta: problem.climb(theta, residual)  # noqa: E731
        return jax.jvp(climb, (units,), (pace * way,))[1] / pace

    def longer(_: Any, way: Array) -> Array:
        # twice, because a way that grows and one that shrinks as fast come in pairs
        further = product(product(way))
        return further / jnp.maximum(norms(further), 1e-300)

    way = jax.random.normal(jax.random.key(0), units.shape, dtype=jnp.float64)
    way = jax.lax.fori_loop(0, _POWERS, longer, way / norms(way))
    return norms(product(way))[:, 0]


def _rows_that_matter(problem: Problem, point: Array) -> np.ndarray:
    rows = np.arange(problem.width)
    if not problem.units.exchangeable or problem.width <= 2 * _SPARE:
        return rows
    left = np.asarray(norms(point)[:, 0] <= 10 * SHRUNK)
    rates = growth_rates(problem, point, compiled.residual(problem, point))
    spare = np.flatnonzero(left)[np.argsort(-rates[left])[:_SPARE]]
    return np.sort(np.concatenate([np.flatnonzero(~left), spare]))


def _spectrum(problem: Problem, theta: Array, few: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Largest eigenvalue of the Hessian, the few smallest, and their vectors."""
    pace = np.broadcast_to(np.sqrt(np.asarray(problem.rates)), theta.shape).ravel()

    def product(w: np.ndarray) -> np.ndarray:
        direction = jnp.asarray((pace * w).reshape(theta.shape))
        return pace * np.asarray(compiled.hessian_product(problem, theta, direction)).ravel()

    return spectrum(product, theta.size, few)


def spectrum(product: Product, size: int, few: int) -> tuple[float, np.ndarray, np.ndarray]:
    """The largest eigenvalue of a symmetric operator (0 if it is negative), the few smallest, rising, and
    their vectors.

    Lanczos iterations find the ends of a spectrum to a part of its width, so the smallest are found
    as the largest of (largest I - H): zeros, of which symmetries make many, then cost nothing.

    Parameters
    ----------
    product : the operator, as a function of a vector.
    size : of the vectors.
    few : how many of the smallest eigenvalues.
    """

    def patient(w: np.ndarray) -> np.ndarray:
        go_on("looking for the smallest curvatures")
        return product(w)

    if size <= max(3 * few, _DENSE):
        values, vectors = np.linalg.eigh(np.stack([patient(row) for row in np.eye(size)]))
        return float(max(values[-1], 0.0)), values[:few], vectors[:, :few]
    top = float(_extreme(patient, size, 1)[0][-1])
    bound = max(top, 0.0) + 1e-3 * abs(top) + 1e-300
    values, vectors = _extreme(lambda w: bound * w - patient(w), size, few)
    order = np.argsort(-values)
    return max(top, 0.0), bound - values[order], vectors[:, order]


def _extreme(product: Product, size: int, few: int) -> tuple[np.ndarray, np.ndarray]:
    """The few largest eigenvalues of a symmetric operator, as far as they were found, and their vectors."""
    start = np.random.default_rng(0).normal(size=size)
    if not np.any(product(start)):  # no curvature at all, as at the origin of a deep network
        return np.zeros(few), np.eye(size, few)
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        return eigsh(
            operator, k=few, which="LA", tol=_LANCZOS, v0=start, maxiter=8, ncv=max(30, 2 * few + 1)
        )
    except ArpackNoConvergence as partly:
        if len(partly.eigenvalues):
            return partly.eigenvalues, partly.eigenvectors
        return eigsh(operator, k=1, which="LA", tol=1e-2, v0=start, maxiter=100)

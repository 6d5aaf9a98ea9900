r"""How :math:`(K + n\lambda I)\,\alpha = y` is solved: by Cholesky, or without holding K.

Conjugate gradients need products with K alone, which blocks of rows give in O(n) memory. They are
preconditioned by a Nyström approximation :math:`U \Lambda U^\top \approx K` from some of the samples
(Frangella, Tropp and Udell, 2023): with :math:`\lambda_r` the smallest eigenvalue that it has and
:math:`\mu = n\lambda`,

.. math:: P^{-1} v = v - U \left(1 - \frac{\lambda_r + \mu}{\Lambda + \mu}\right) U^\top v .
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from saddlewalk.problem.memory import memory_of_this_machine

Matrix = Any
SOLVERS = ("auto", "cholesky", "iterative", "tree")
_LANDMARKS = 1000
"""Samples that the preconditioner is made of, at most."""
_MOST_STEPS = 500
_JITTER = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)
"""Added to the diagonal, relative to its mean, until it can be factored; less than a rounding is left out."""
_PART_OF_MEMORY = 0.8
"""What may be taken of it."""
_IF_UNKNOWN = 2.0**34
"""Bytes, where the system does not say."""


def fits(xp: ModuleType, n: int, itemsize: int, copies: int) -> bool:
    """Whether so many matrices of n x n fit into memory.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    n : number of samples.
    itemsize : bytes of a number.
    copies : how many matrices.
    """
    return copies * n * n * itemsize < _PART_OF_MEMORY * _memory(xp)


def most_that_fit(xp: ModuleType, itemsize: int, copies: int) -> int:
    """The largest n for which so many matrices of n x n fit into memory.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    itemsize : bytes of a number.
    copies : how many matrices.
    """
    return max(1, int((_PART_OF_MEMORY * _memory(xp) / (copies * itemsize)) ** 0.5))


def cholesky(xp: ModuleType, matrix: Matrix, y: Matrix) -> Matrix | None:
    """The solution; `None` if the matrix is not positive definite in this precision.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    matrix : K + n lambda, which is overwritten.
    y : targets `(n, c)`.
    """
    if xp is np:
        import scipy.linalg

        try:
            # the transpose of a symmetric matrix is in LAPACK's order: it is overwritten, not copied
            factor = scipy.linalg.cho_factor(
                matrix.T, lower=True, overwrite_a=True, check_finite=False
            )
        except np.linalg.LinAlgError:
            return None
        alpha = scipy.linalg.cho_solve(factor, y, check_finite=False)
    elif hasattr(matrix, "new_tensor"):
        factor, failed = xp.linalg.cholesky_ex(matrix)
        if bool(failed):
            return None
        alpha = xp.cholesky_solve(y, factor)
    else:
        import jax.scipy.linalg

        alpha = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(matrix, lower=True), y)
    return alpha if bool(xp.all(xp.isfinite(alpha))) else None


def solved(
    xp: ModuleType, matrix: Matrix, ridge: float, y: Matrix, weights: Matrix | None = None
) -> tuple[Matrix | None, float]:
    """alpha, and the jitter that it took; `None` where there is none. The kernel matrix is left as it is.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    matrix : the kernel matrix `(n, n)`.
    ridge : what is added to its diagonal.
    y : targets `(n, c)`.
    weights : of the samples, or `None`.
    """
    diagonal = xp.diagonal(matrix)
    mean = float(xp.sum(diagonal)) / len(matrix)
    extra = ridge if weights is None else ridge / weights
    for jitter in jitters(xp, matrix):
        alpha = cholesky(xp, _with_diagonal(matrix, diagonal + (extra + jitter * mean)), y)
        if alpha is not None:
            return alpha, jitter
    return None, 0.0


def _with_diagonal(matrix: Matrix, diagonal: Matrix) -> Matrix:
    """A copy."""
    if hasattr(matrix, "at"):
        here = np.arange(len(matrix))
        return matrix.at[here, here].set(diagonal)
    copy = matrix.clone() if hasattr(matrix, "clone") else matrix.copy()
    copy.reshape(-1)[:: len(matrix) + 1] = diagonal
    return copy


def jitters(xp: ModuleType, model: Matrix) -> list[float]:
    """What may be added to a diagonal, in order.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    model : an array of the precision.
    """
    felt = float(xp.finfo(model.dtype).eps)
    return [jitter for jitter in _JITTER if jitter == 0 or jitter > felt]


def conjugate_gradients(
    xp: ModuleType,
    product: Callable[[Matrix], Matrix],
    precondition: Callable[[Matrix], Matrix],
    y: Matrix,
    start: Matrix | None = None,
    most: int | None = None,
) -> tuple[Matrix | None, float]:
    """The solution for all columns of y at once, and the largest relative residual that is left.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    product : multiplies by K + n lambda.
    precondition : multiplies by an approximate inverse of it.
    y : targets `(n, c)`.
    start : where to begin; `None` for 0.
    most : steps after which there is no solution; `None` for as many as are sensible, and what they gave.
    """
    tolerance = 1e-8 if y.dtype.itemsize == 8 else 1e-5
    size = xp.sqrt(xp.sum(y**2, axis=0)).clip(xp.finfo(y.dtype).tiny)
    alpha = xp.zeros_like(y) if start is None else start
    residual = y if start is None else y - product(start)
    eased = precondition(residual)
    direction, strength = eased, xp.sum(residual * eased, axis=0)
    for _ in range(most or _MOST_STEPS):
        answer = product(direction)
        step = _ratio(xp, strength, xp.sum(direction * answer, axis=0))
        alpha, residual = alpha + step * direction, residual - step * answer
        left = float(xp.max(xp.sqrt(xp.sum(residual**2, axis=0)) / size))
        if not left > tolerance:
            return alpha, left
        eased = precondition(residual)
        before, strength = strength, xp.sum(residual * eased, axis=0)
        direction = eased + _ratio(xp, strength, before) * direction
    return (alpha if most is None else None), left


def nystrom(
    xp: ModuleType, columns: Matrix, landmarks: np.ndarray, ridge: float
) -> Callable[[Matrix], Matrix]:
    """The preconditioner from columns `(n, r)` of the kernel at r landmarks.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    columns : the kernel between all samples and the landmarks.
    landmarks : which samples these are.
    ridge : n lambda.
    """
    corner = columns[landmarks]
    values, axes = xp.linalg.eigh((corner + corner.T) / 2)
    floor = xp.finfo(columns.dtype).eps * len(landmarks) * values[-1]
    roots = columns @ (axes[:, values > floor] / xp.sqrt(values[values > floor]))
    spectrum, turn = xp.linalg.eigh(roots.T @ roots)
    basis = roots @ (turn / xp.sqrt(spectrum))
    shrink = 1 - (spectrum[0] + ridge) / (spectrum + ridge)
    return lambda v: v - basis @ (shrink[:, None] * (basis.T @ v))


def choose_landmarks(n: int) -> np.ndarray:
    """Which samples the preconditioner is made of.

    Parameters
    ----------
    n : number of samples.
    """
    return np.random.default_rng(0).choice(n, min(n, _LANDMARKS), replace=False)


def _ratio(xp: ModuleType, above: Matrix, below: Matrix) -> Matrix:
    """0 where a column is solved already."""
    return xp.where(below > 0, above / xp.where(below > 0, below, 1), 0)


def _memory(xp: ModuleType) -> float:
    """Bytes of the machine or container, or of the accelerator."""
    if xp.__name__ == "torch":
        if xp.cuda.is_available():
            return float(xp.cuda.get_device_properties(0).total_memory)
    elif xp is not np:
        import jax

        known = jax.devices()[0].memory_stats() or {}
        if "bytes_limit" in known:
            return float(known["bytes_limit"])
    there = memory_of_this_machine()
    return there if np.isfinite(there) else _IF_UNKNOWN

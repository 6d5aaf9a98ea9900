r"""Powers of symmetric matrices, and how alike two matrices are: what FACT, AGOP and the NFA are compared by.

Everything that is a root of a product comes from singular values of its factor: :math:`(F F^\top)^s` has the
eigenvalues :math:`\sigma^{2s}`, and forming :math:`F F^\top` first would lose half of the digits.

Functions with an argument `xp` take the array module: NumPy, or `torch` or `jax.numpy` for a GPU.
"""

import math
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float

Matrix = Float[np.ndarray, "_ _"]


def matrix_power(matrix: Any, exponent: float, xp: ModuleType = np) -> Any:
    """Power of a positive semidefinite matrix, or of a diagonal; eigenvalues below 0 count as 0.

    Parameters
    ----------
    matrix : a symmetric matrix `(d, d)`, or its diagonal `(d,)`.
    exponent : the power, positive.
    xp : NumPy, `torch` or `jax.numpy`.
    """
    if matrix.ndim == 1:
        return matrix.clip(0) ** exponent
    values, axes = xp.linalg.eigh((matrix + matrix.T) / 2)
    return (axes * values.clip(0) ** exponent) @ axes.T


def symmetrized(factor: Any, exponent: float = 0.5, xp: ModuleType = np) -> Any:
    """(F F^T)^s: from the singular values of F.

    Parameters
    ----------
    factor : F `(d, k)`, or the diagonal `(d,)` of one that is diagonal.
    exponent : s; 1/2 makes F symmetric and leaves its size.
    xp : NumPy, `torch` or `jax.numpy`.
    """
    if factor.ndim == 1:
        return xp.abs(factor) ** (2 * exponent)
    left, values, _ = xp.linalg.svd(factor, full_matrices=False)
    return (left * values ** (2 * exponent)) @ left.T


def symmetrized_product(left: Matrix, right: Matrix) -> Matrix:
    """(F F^T)^(1/2) of a product F = left right, whose rank may be far below its size.

    Parameters
    ----------
    left, right : the factors `(d, k)` and `(k, m)`.
    """
    basis, inner = np.linalg.qr(left)
    return basis @ symmetrized(inner @ right) @ basis.T


def pearson(first: Matrix, second: Matrix) -> float:
    """Correlation of the entries; NaN of a single entry.

    Parameters
    ----------
    first, second : matrices of one shape.
    """
    return cosine(first - first.mean(), second - second.mean())


def cosine(first: Matrix, second: Matrix) -> float:
    """<A, B> / |A| |B|; NaN if one of them is zero.

    Parameters
    ----------
    first, second : matrices of one shape.
    """
    size = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.sum(first * second)) / size if size > 0 else math.nan

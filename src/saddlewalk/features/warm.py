r"""The next machine from the last one's factor: M changes little from update to update, and so does K.

With :math:`L L^\top` the factor of an earlier :math:`K + \mu`, conjugate gradients on the new one,
preconditioned by it and begun at the last :math:`\alpha`, end after a few steps of :math:`O(n^2)`; a
factor costs :math:`O(n^3)`. It serves for as long as M is near: where that takes too long, a new one is made.

Both live in one matrix of n x n: L in one triangle, K in the other. With several outputs the steps are
several times as long, and it would not pay.
"""

import math
from typing import Any

import numpy as np
import scipy.linalg

from saddlewalk.features.solvers import conjugate_gradients

Matrix = Any
FEWEST = 1500
"""Samples from which on it pays at all."""
_STEPS_A_FACTOR = 1 / 80
"""Steps that take less than a factor, for each sample."""
_NEAR = 0.6
"""Part of the metric that may have changed since the factor was made."""


class Factor:
    """A Cholesky factor, and room for the matrix after it.

    Parameters
    ----------
    matrix : K + ridge `(n, n)`, in C order, which is overwritten.
    metric : M that it was made with.
    """

    def __init__(self, matrix: Matrix, metric: Matrix) -> None:
        self.metric = metric
        # the transpose of a symmetric matrix is in LAPACK's order: it is overwritten, not copied
        self.lower, _ = scipy.linalg.cho_factor(
            matrix.T, lower=True, overwrite_a=True, check_finite=False
        )
        self._mine = np.diagonal(self.lower).copy()

    def serves(self, metric: Matrix) -> bool:
        """Whether another metric is near enough.

        Parameters
        ----------
        metric : M, or its diagonal.
        """
        changed = float(np.linalg.norm(metric - self.metric))
        return changed <= _NEAR * float(np.linalg.norm(self.metric))

    def solve(self, y: Matrix) -> Matrix:
        """The solution for the matrix that was factored.

        Parameters
        ----------
        y : targets `(n, 1)`.
        """
        # LAPACK's way, which is for many columns, would take several times as long
        (trsv,) = scipy.linalg.get_blas_funcs(("trsv",), (self.lower, y))
        half = trsv(self.lower, y[:, 0], lower=1)
        return trsv(self.lower, half, lower=1, trans=1, overwrite_x=1)[:, None]

    def place(self, rows: slice, values: Matrix) -> None:
        """Put rows of another matrix, `(rows, n)`, where the factor is not; its diagonal is left out.

        Parameters
        ----------
        rows : which ones.
        values : what they hold.
        """
        other = self.lower.T  # in C order, whose lower triangle is free
        other[rows, : rows.start] = values[:, : rows.start]
        below = np.tril_indices(rows.stop - rows.start, -1)
        other[rows, rows][below] = values[:, rows][below]

    def solve_other(self, diagonal: Matrix, y: Matrix, start: Matrix) -> Matrix | None:
        """The solution for the matrix that was placed; `None` where a new factor would be faster.

        Parameters
        ----------
        diagonal : of that matrix.
        y : targets `(n, 1)`.
        start : a solution for a matrix nearby.
        """
        (symv,) = scipy.linalg.get_blas_funcs(("symv",), (self.lower, y))
        shift = (diagonal - self._mine)[:, None]

        def product(v: Matrix) -> Matrix:
            return symv(1.0, self.lower, v[:, 0], lower=0)[:, None] + shift * v

        most = max(4, math.ceil(len(y) * _STEPS_A_FACTOR))
        found, left = conjugate_gradients(np, product, self.solve, y, start, most)
        return None if found is None or not np.isfinite(left) else found

r"""Recursive Feature Machines: a kernel machine, its features, a new metric, and again (Algorithm 1).

.. math:: \alpha = (K_M(X, X) + n\lambda I)^{-1} y, \qquad M \leftarrow
          \begin{cases} \mathrm{AGOP}^{s} & \text{"agop" (NFA)} \\
          (\mathrm{FACT}\,\mathrm{FACT}^\top)^{1/2} & \text{"fact"} \\
          (\mathrm{FACT}\, M M\, \mathrm{FACT}^\top)^{1/4} & \text{"fact-geometric"}\end{cases}

M is scaled to trace d after every step. Where K grows like :math:`M^p` the plain FACT step sends a factor c
in M to :math:`c^{-p}`: without the scaling it diverges, which the paper reports and answers by stopping.

The kernel is held once (its Cholesky factor takes its place), and features are computed from blocks of rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from saddlewalk.errors import InputError, nearest
from saddlewalk.features import machine_matrices
from saddlewalk.features.kernels import AbstractKernel

Matrix = Any
UPDATES = ("agop", "fact", "fact-geometric")
_BLOCK_NUMBERS = 2**24
"""Entries of the kernel that are held at once besides the factor."""
_JITTER = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)
"""Added to the diagonal, relative to its mean, until the factorisation succeeds; float32 starts later."""


@dataclass(frozen=True)
class Machine:
    """A fitted kernel machine: f(x) = K_M(x, centers) alpha."""

    kernel: AbstractKernel
    metric: Matrix
    centers: Matrix
    alpha: Matrix
    jitter: float = 0.0
    """What had to be added to the diagonal, relative to its mean."""

    def predict(self, xp: ModuleType, x: Matrix) -> Matrix:
        """Outputs `(n, c)`, in blocks."""
        parts = [
            self.kernel.value(xp, self.kernel.geometry(xp, x[rows], self.centers, self.metric))
            @ self.alpha
            for rows in _blocks(len(x), len(self.centers))
        ]
        return xp.concatenate(parts, axis=0)


@dataclass(frozen=True)
class Recursion:
    """What does not change between the steps of a recursive feature machine."""

    kernel: AbstractKernel
    ridge: float
    """lambda; the diagonal of the kernel gets n lambda."""
    update: str | None
    power: float = 0.5
    """The exponent s of the AGOP."""
    xp: ModuleType = np

    def __post_init__(self) -> None:
        if self.update is not None and self.update not in UPDATES:
            raise InputError(f"Unknown update '{self.update}'.{nearest(self.update, UPDATES)}")

    def machines(self, x: Matrix, y: Matrix, metric: Matrix) -> Iterator[Machine]:
        """One machine after another, each with the features of the one before. Ends where numbers end."""
        while True:
            machine = self.fit(x, y, metric)
            if machine is None:
                return
            yield machine
            if self.update is None:
                return
            metric = self.next_metric(machine)
            if not bool(self.xp.all(self.xp.isfinite(metric))) or not bool(self.xp.any(metric)):
                return

    def fit(self, x: Matrix, y: Matrix, metric: Matrix) -> Machine | None:
        """The machine for one metric; `None` if no factorisation succeeds."""
        for jitter in _JITTER:
            matrix = self._kernel_matrix(x, metric, jitter)
            alpha = _solve(self.xp, matrix, y)
            if alpha is not None:
                return Machine(self.kernel, metric, x, alpha, jitter)
        return None

    def next_metric(self, machine: Machine) -> Matrix:
        """The update of line 6, scaled to trace d."""
        x, metric = machine.centers, machine.metric
        if self.update == "agop" and self._few_samples(machine):
            new = matrix_power(self.xp, self._agop_by_samples(machine), self.power)
        elif self.update == "agop":
            new = matrix_power(
                self.xp, self._features(machine_matrices.agop_rows, machine) / len(x), self.power
            )
        else:
            matrix = self._features(machine_matrices.fact_rows, machine)
            new = _symmetrized(self.xp, matrix, metric, geometric=self.update == "fact-geometric")
        return scaled(self.xp, new, x.shape[1])

    def _few_samples(self, machine: Machine) -> bool:
        """Whether one product of n x n matrices is cheaper than one of n x d for each output."""
        n, outputs = machine.alpha.shape
        return (
            not self.kernel.radial
            and machine.metric.ndim == 2
            and 2 * outputs * machine.centers.shape[1] > n
        )

    def _agop_by_samples(self, machine: Machine) -> Matrix:
        r""":math:`\frac1n M X^\top (S^\top S \circ A) X M` (Proposition 5.1)."""
        x, alpha = machine.centers, machine.alpha
        geometry = self._among(x, machine.metric, slice(0, len(x)))
        slope = self.kernel.slope(self.xp, geometry, self.kernel.value(self.xp, geometry))
        xm = x @ machine.metric
        return xm.T @ (((slope.T @ slope) * (alpha @ alpha.T)) @ xm) / len(x)

    def _features(self, rows_of: Any, machine: Machine) -> Matrix:
        """A sum over blocks of rows of the kernel."""
        xp, x, metric = self.xp, machine.centers, machine.metric
        total: Any = 0.0
        for rows in _blocks(len(x), len(x)):
            geometry = self._among(x, metric, rows)
            slope = self.kernel.slope(xp, geometry, self.kernel.value(xp, geometry))
            total = total + rows_of(xp, self.kernel, x, machine.alpha, slope, metric, rows)
        return total

    def _among(self, x: Matrix, metric: Matrix, rows: slice) -> Matrix:
        """Geometry of some samples against all; of a sample and itself exactly, for r has a root there."""
        geometry = self.kernel.geometry(self.xp, x[rows], x, metric)
        if not self.kernel.radial:
            return geometry
        here = np.arange(rows.stop - rows.start)
        if self.xp is np:
            geometry[here, here + rows.start] = 0
            return geometry
        return geometry.at[here, here + rows.start].set(0)

    def _kernel_matrix(self, x: Matrix, metric: Matrix, jitter: float) -> Matrix:
        xp = self.xp
        matrix = self.kernel.value(xp, self._among(x, metric, slice(0, len(x))))
        extra = len(x) * self.ridge + jitter * float(xp.mean(xp.diagonal(matrix)))
        return matrix + extra * xp.eye(len(x), dtype=matrix.dtype)


def scaled(xp: ModuleType, metric: Matrix, trace: float) -> Matrix:
    """The metric with this trace."""
    total = xp.sum(metric) if metric.ndim == 1 else xp.trace(metric)
    return metric * (trace / total)


def matrix_power(xp: ModuleType, matrix: Matrix, power: float) -> Matrix:
    """Power of a positive semidefinite matrix, or of a diagonal."""
    if matrix.ndim == 1:
        return xp.maximum(matrix, 0) ** power
    values, axes = xp.linalg.eigh((matrix + matrix.T) / 2)
    return (axes * xp.maximum(values, 0) ** power) @ axes.T


def _symmetrized(xp: ModuleType, fact: Matrix, metric: Matrix, geometric: bool) -> Matrix:
    """(F F^T)^(1/2), or (F M M F^T)^(1/4): U S^p U^T of a singular value decomposition."""
    if fact.ndim == 1:
        return xp.sqrt(xp.abs(fact * metric)) if geometric else xp.abs(fact)
    left, values, _ = xp.linalg.svd(fact @ metric if geometric else fact)
    return (left * (xp.sqrt(values) if geometric else values)) @ left.T


def _solve(xp: ModuleType, matrix: Matrix, y: Matrix) -> Matrix | None:
    """Cholesky; `None` if the matrix is not positive definite in this precision."""
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
    else:
        import jax.scipy.linalg

        alpha = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(matrix, lower=True), y)
    return alpha if bool(xp.all(xp.isfinite(alpha))) else None


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    size = max(1, _BLOCK_NUMBERS // max(columns, 1))
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))

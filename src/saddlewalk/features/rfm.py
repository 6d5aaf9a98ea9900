r"""Recursive Feature Machines: a kernel machine, its features, a new metric, and again (Algorithm 1).

.. math:: \alpha = (K_M(X, X) + n\lambda I)^{-1} y, \qquad M \leftarrow
          \begin{cases} \mathrm{AGOP}^{s} & \text{"agop" (NFA)} \\
          (\mathrm{FACT}\,\mathrm{FACT}^\top)^{1/2} & \text{"fact"} \\
          (\mathrm{FACT}\, M M\, \mathrm{FACT}^\top)^{1/4} & \text{"fact-geometric"}\end{cases}

M is scaled to trace d after every step. Where K grows like :math:`M^p` the plain FACT step sends a factor c
in M to :math:`c^{-p}`: without the scaling it diverges, which the paper reports and answers by stopping.

The kernel is held once (its Cholesky factor takes its place), and features are computed from blocks of rows;
where even one matrix of n x n does not fit, the machine is solved for by products with such blocks.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from saddlewalk.errors import InputError, nearest
from saddlewalk.features import machines, solvers
from saddlewalk.features.kernels import AbstractKernel
from saddlewalk.features.matrix_functions import matrix_power, symmetrized

Matrix = Any
UPDATES = ("agop", "fact", "fact-geometric")
_BLOCK_NUMBERS, _BLOCK_ROWS = 2**18, 64
"""Entries of the kernel that are held at once besides the factor: what a cache holds, but not too few rows.

On an accelerator a thousand times as many."""
_JITTER = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)
"""Added to the diagonal, relative to its mean, until it can be factored; less than a rounding is left out."""


@dataclass(frozen=True)
class Machine:
    """A fitted kernel machine: f(x) = K_M(x, centers) alpha.

    Parameters
    ----------
    kernel : the kernel.
    metric : M `(d, d)`, or its diagonal.
    centers : the samples it was fitted to.
    alpha : coefficients `(n, c)`.
    jitter : what had to be added to the diagonal, relative to its mean.
    residual : part of the targets that an iterative solver left.
    weights : of the samples `(n,)`, or `None`.
    """

    kernel: AbstractKernel
    metric: Matrix
    centers: Matrix
    alpha: Matrix
    jitter: float = 0.0
    """What had to be added to the diagonal, relative to its mean."""
    residual: float = 0.0
    """What an iterative solver left of the targets, relative to them."""
    weights: Matrix | None = None

    def predict(self, xp: ModuleType, x: Matrix) -> Matrix:
        """Outputs `(n, c)`, in blocks."""
        parts = [
            self.kernel.value(xp, self.kernel.geometry(xp, x[rows], self.centers, self.metric))
            @ self.alpha
            for rows in _blocks(xp, len(x), len(self.centers))
        ]
        return xp.concatenate(parts, axis=0)


@dataclass(frozen=True)
class Recursion:
    """What does not change between the steps of a recursive feature machine.

    Parameters
    ----------
    kernel : the kernel.
    ridge : lambda; the diagonal of the kernel gets n lambda.
    update : one of `UPDATES`, or `None` for no features.
    agop_power : the exponent s of the AGOP.
    xp : NumPy or `jax.numpy`.
    solver : "cholesky", "iterative" or "auto".
    most_features : inputs that an update leaves in the metric, the largest of its diagonal; `None` for all.
    """

    kernel: AbstractKernel
    ridge: float
    """lambda; the diagonal of the kernel gets n lambda."""
    update: str | None
    agop_power: float = 0.5
    """The exponent s of the AGOP."""
    xp: ModuleType = np
    solver: str = "auto"
    """"cholesky", "iterative", or by whether the kernel matrix fits into memory."""
    most_features: int | None = None

    def __post_init__(self) -> None:
        if self.solver not in solvers.SOLVERS:
            raise InputError(
                f"Unknown solver '{self.solver}'.{nearest(self.solver, solvers.SOLVERS)}"
            )
        if self.update is not None and self.update not in UPDATES:
            raise InputError(f"Unknown update '{self.update}'.{nearest(self.update, UPDATES)}")

    def machines(
        self, x: Matrix, y: Matrix, metric: Matrix, weights: Matrix | None = None
    ) -> Iterator[Machine]:
        """One machine after another, each with the features of the one before. Ends where numbers end."""
        while True:
            machine = self.fit(x, y, metric, weights)
            if machine is None:
                return
            yield machine
            if self.update is None:
                return
            metric = self.next_metric(machine)
            if not bool(self.xp.all(self.xp.isfinite(metric))) or not bool(self.xp.any(metric)):
                return

    def fit(
        self, x: Matrix, y: Matrix, metric: Matrix, weights: Matrix | None = None
    ) -> Machine | None:
        """The machine for one metric; `None` if it cannot be solved for.

        A sample of weight w has n lambda / w on its diagonal: what w samples in one place would be.
        """
        if not self._holds_kernel(x):
            return self._fit_iteratively(x, y, metric, weights)
        felt = self.xp.finfo(x.dtype).eps
        ridge = len(x) * self.ridge / (1.0 if weights is None else weights)
        for jitter in (value for value in _JITTER if value == 0 or value > felt):
            alpha = solvers.cholesky(self.xp, self._kernel_matrix(x, metric, ridge, jitter), y)
            if alpha is not None:
                return Machine(self.kernel, metric, x, alpha, jitter, weights=weights)
        return None

    def _holds_kernel(self, x: Matrix) -> bool:
        if self.solver == "auto":
            # on an accelerator nothing is done in place
            copies = 2 if self.xp is np else 4
            return solvers.fits(self.xp, len(x), x.dtype.itemsize, copies)
        return self.solver == "cholesky"

    def _fit_iteratively(
        self, x: Matrix, y: Matrix, metric: Matrix, weights: Matrix | None
    ) -> Machine | None:
        """With s the roots of the weights: (s K s + n lambda) (alpha / s) = s y."""
        xp, ridge = self.xp, len(x) * self.ridge
        root = xp.ones((len(x), 1), dtype=x.dtype) if weights is None else weights[:, None] ** 0.5
        chosen = solvers.choose_landmarks(len(x))
        at_landmarks = self.kernel.value(xp, self.kernel.geometry(xp, x, x[chosen], metric))
        precondition = solvers.nystrom(xp, root * at_landmarks * root[chosen].T, chosen, ridge)

        def product(v: Matrix) -> Matrix:
            moved = root * v
            parts = [
                self.kernel.value(xp, geometry) @ moved for _, geometry in self.blocks(x, metric)
            ]
            return root * xp.concatenate(parts, axis=0) + ridge * v

        alpha, residual = solvers.conjugate_gradients(xp, product, precondition, root * y)
        if not bool(xp.all(xp.isfinite(alpha))):
            return None
        return Machine(self.kernel, metric, x, root * alpha, residual=residual, weights=weights)

    def next_metric(self, machine: Machine) -> Matrix:
        """The update of line 6, scaled to trace d."""
        if self.update == "agop":
            new = matrix_power(self.agop(machine), self.agop_power, self.xp)
        elif self.update == "fact":
            new = symmetrized(self.fact(machine), 0.5, self.xp)
        else:
            new = symmetrized(_product(self.fact(machine), machine.metric), 0.25, self.xp)
        return scaled(self.xp, self._partial(new), machine.centers.shape[1])

    def _partial(self, metric: Matrix) -> Matrix:
        """The metric of the inputs that matter most alone, if not all are wanted."""
        if self.most_features is None or self.most_features >= len(metric):
            return metric
        diagonal = metric if metric.ndim == 1 else self.xp.diagonal(metric)
        kept = self.xp.zeros_like(diagonal)
        best = np.argsort(-np.asarray(diagonal), kind="stable")[: self.most_features]
        if self.xp is np:
            kept[best] = 1
        else:
            kept = kept.at[best].set(1)
        return metric * kept if metric.ndim == 1 else metric * kept * kept[:, None]

    def agop(self, machine: Machine) -> Matrix:
        """The average gradient outer product of a machine, summed over its outputs."""
        if self._cheaper_by_samples(machine):
            return self._agop_by_samples(machine)
        rows_of = functools.partial(machines.agop_rows, weights=machine.weights)
        return self._sum_over_blocks(rows_of, machine) / len(machine.centers)

    def fact(self, machine: Machine) -> Matrix:
        """FACT of a machine (Lemma F.1)."""
        return _product(machine.metric, self._sum_over_blocks(machines.fact_rows, machine))

    def _cheaper_by_samples(self, machine: Machine) -> bool:
        """Whether one product of n x n matrices is cheaper than one of n x d for each output."""
        n, outputs = machine.alpha.shape
        return (
            not self.kernel.radial
            and solvers.fits(self.xp, n, machine.alpha.dtype.itemsize, copies=6)
            and machine.metric.ndim == 2
            and 2 * outputs * machine.centers.shape[1] > n
        )

    def _agop_by_samples(self, machine: Machine) -> Matrix:
        r""":math:`\frac1n M X^\top (S^\top S \circ A) X M` (Proposition 5.1)."""
        x, alpha = machine.centers, machine.alpha
        geometry = self._whole_geometry(x, machine.metric)
        slope = self.kernel.slope(self.xp, geometry, self.kernel.value(self.xp, geometry))
        xm = x @ machine.metric
        weighted = slope if machine.weights is None else machine.weights[:, None] * slope
        return xm.T @ (((slope.T @ weighted) * (alpha @ alpha.T)) @ xm) / len(x)

    def _sum_over_blocks(self, rows_of: Any, machine: Machine) -> Matrix:
        """A sum over blocks of rows of the kernel."""
        xp, x, metric = self.xp, machine.centers, machine.metric
        total: Any = 0.0
        for rows, geometry in self.blocks(x, metric):
            slope = self.kernel.slope(xp, geometry, self.kernel.value(xp, geometry))
            total = total + rows_of(xp, self.kernel, x, machine.alpha, slope, metric, rows)
        return total

    def blocks(self, x: Matrix, metric: Matrix) -> Iterator[tuple[slice, Matrix]]:
        """Geometry of some samples against all, block after block."""
        left, right = self.kernel.factors(self.xp, x, metric)
        for rows in _blocks(self.xp, len(x), len(x)):
            yield rows, self._geometry_of_rows(left, right, rows)

    def _whole_geometry(self, x: Matrix, metric: Matrix) -> Matrix:
        return self._geometry_of_rows(*self.kernel.factors(self.xp, x, metric), slice(0, len(x)))

    def _geometry_of_rows(self, left: Matrix, right: Matrix, rows: slice) -> Matrix:
        """Of a sample and itself exactly 0: the distance has a root there, which rounding would enlarge."""
        geometry = self.kernel.product(self.xp, left[rows], right)
        if not self.kernel.radial:
            return geometry
        here = np.arange(rows.stop - rows.start)
        if self.xp is np:
            geometry[here, here + rows.start] = 0
            return geometry
        return geometry.at[here, here + rows.start].set(0)

    def _kernel_matrix(self, x: Matrix, metric: Matrix, ridge: Any, jitter: float) -> Matrix:
        """K + ridge; the jitter is relative to the mean of its diagonal."""
        xp, n = self.xp, len(x)
        if xp is np:
            matrix = np.empty((n, n), x.dtype)
            for rows, geometry in self.blocks(x, metric):
                matrix[rows] = self.kernel.value(xp, geometry)
            diagonal = np.einsum("ii->i", matrix)
            diagonal += ridge + jitter * diagonal.mean()
            return matrix
        # machines with other ridges share what is compiled
        return _compiled_kernel()(replace(self, ridge=0.0), x, metric, ridge, jitter)


@functools.cache
def _compiled_kernel() -> Any:
    """K + ridge at once: nothing between the distances and K is kept."""
    import jax

    def values(recursion: Recursion, x: Matrix, metric: Matrix, ridge: Any, jitter: Any) -> Matrix:
        matrix = recursion.kernel.value(recursion.xp, recursion._whole_geometry(x, metric))
        here = np.arange(len(x))
        extra = ridge + jitter * recursion.xp.diagonal(matrix).mean()
        return matrix.at[here, here].add(extra.astype(matrix.dtype))

    return jax.jit(values, static_argnums=0)


def scaled(xp: ModuleType, metric: Matrix, trace: float) -> Matrix:
    """The metric with this trace.

    Parameters
    ----------
    xp : NumPy or `jax.numpy`.
    metric : M, or its diagonal.
    trace : what its trace shall be.
    """
    total = xp.sum(metric) if metric.ndim == 1 else xp.trace(metric)
    return metric * (trace / total)


def _product(left: Matrix, right: Matrix) -> Matrix:
    """Of two matrices, or of two diagonals."""
    return left * right if left.ndim == 1 else left @ right


def _blocks(xp: ModuleType, rows: int, columns: int) -> Iterator[slice]:
    numbers = _BLOCK_NUMBERS if xp is np else 1024 * _BLOCK_NUMBERS
    size = max(_BLOCK_ROWS, numbers // max(columns, 1))
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))

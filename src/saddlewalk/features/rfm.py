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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from saddlewalk.errors import InputError, nearest
from saddlewalk.features import machines, solvers, trees, warm
from saddlewalk.features.arrays import like, on_host
from saddlewalk.features.kernels import AbstractKernel
from saddlewalk.features.matrix_functions import matrix_power, symmetrized

Matrix = Any
UPDATES = ("agop", "fact", "fact-geometric")
_BLOCK_NUMBERS, _BLOCK_ROWS = 2**18, 64
"""Entries of the kernel that are held at once besides the factor: what a cache holds, but not too few rows.

On an accelerator a thousand times as many."""


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

    @property
    def leaves(self) -> "tuple[Machine, ...]":
        """A machine is a tree of one leaf."""
        return (self,)

    def moved(self, move: Callable[[Any], Any]) -> "Machine":
        """With arrays elsewhere, and without its weights, which predictions do not need.

        Parameters
        ----------
        move : what is done to each of them.
        """
        metric, centers, alpha = map(move, (self.metric, self.centers, self.alpha))
        return replace(self, metric=metric, centers=centers, alpha=alpha, weights=None)

    def predict(self, xp: ModuleType, x: Matrix) -> Matrix:
        """Outputs `(n, c)`, in blocks."""
        parts = [
            self.kernel.value(xp, self.kernel.geometry(xp, x[rows], self.centers, self.metric))
            @ self.alpha
            for rows in _blocks(xp, len(x), len(self.centers))
        ]
        return xp.concatenate(parts, axis=0)


AnyMachine = Machine | trees.Mosaic


@dataclass(frozen=True)
class Recursion:
    """What does not change between the steps of a recursive feature machine.

    Parameters
    ----------
    kernel : the kernel.
    ridge : lambda; the diagonal of the kernel gets n lambda.
    update : one of `UPDATES`, or `None` for no features.
    agop_power : the exponent s of the AGOP.
    xp : NumPy, `torch` or `jax.numpy`.
    solver : "cholesky", "iterative", "tree" or "auto".
    most_features : inputs that an update leaves in the metric, the largest of its diagonal; `None` for all.
    leaf_size : samples that a leaf of a tree has, at most.
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
    leaf_size: int = 5000

    def __post_init__(self) -> None:
        if self.solver not in solvers.SOLVERS:
            raise InputError(
                f"Unknown solver '{self.solver}'.{nearest(self.solver, solvers.SOLVERS)}"
            )
        if self.update is not None and self.update not in UPDATES:
            raise InputError(f"Unknown update '{self.update}'.{nearest(self.update, UPDATES)}")

    def machines(
        self, x: Matrix, y: Matrix, metric: Matrix, weights: Matrix | None = None
    ) -> Iterator[AnyMachine]:
        """One machine after another, each with the features of the one before. Ends where numbers end."""
        factor: warm.Factor | None = None
        machine: AnyMachine | None = None
        while True:
            if self._keeps_factor(x, y):
                machine, factor = self._fit_again(x, y, metric, weights, machine, factor)
            else:
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
    ) -> AnyMachine | None:
        """The machine for one metric; `None` if it cannot be solved for.

        A sample of weight w has n lambda / w on its diagonal: what w samples in one place would be. Each leaf
        of a tree is a machine of its own, with the same lambda.
        """
        if self.solver == "tree":
            return self._fit_tree(x, y, metric, weights)
        if not self._holds_kernel(x):
            return self._fit_iteratively(x, y, metric, weights)
        ridge = len(x) * self.ridge / (1.0 if weights is None else weights)
        for jitter in solvers.jitters(self.xp, x):
            alpha = solvers.cholesky(self.xp, self._kernel_matrix(x, metric, ridge, jitter), y)
            if alpha is not None:
                return Machine(self.kernel, metric, x, alpha, jitter, weights=weights)
        return None

    def _keeps_factor(self, x: Matrix, y: Matrix) -> bool:
        many = self.xp is np and len(x) >= warm.FEWEST and y.shape[1] == 1
        return many and self.solver != "tree" and self._holds_kernel(x)

    def _fit_again(
        self,
        x: Matrix,
        y: Matrix,
        metric: Matrix,
        weights: Matrix | None,
        before: AnyMachine | None,
        factor: warm.Factor | None,
    ) -> tuple[Machine | None, warm.Factor | None]:
        """The machine, and the factor that it was found with: the last one's for as long as it pays."""
        ridge = len(x) * self.ridge / (1.0 if weights is None else weights)
        if factor is not None and before is not None and factor.serves(metric):
            diagonal = np.empty(len(x), x.dtype)
            for rows, geometry in self.blocks(x, metric):
                values = self.kernel.value(np, geometry)
                factor.place(rows, values)
                diagonal[rows] = np.diagonal(values, rows.start)
            alpha = factor.solve_other(diagonal + ridge, y, before.alpha)
            if alpha is not None:
                return Machine(self.kernel, metric, x, alpha, weights=weights), factor
        for jitter in solvers.jitters(np, x):
            factor = None  # one matrix at a time
            try:
                factor = warm.Factor(self._kernel_matrix(x, metric, ridge, jitter), metric)
            except np.linalg.LinAlgError:
                continue
            alpha = factor.solve(y)
            if np.isfinite(alpha).all():
                return Machine(self.kernel, metric, x, alpha, jitter, weights=weights), factor
        return None, None

    def _fit_tree(
        self, x: Matrix, y: Matrix, metric: Matrix, weights: Matrix | None
    ) -> AnyMachine | None:
        tree, parts = trees.grow(x, metric, self.leaf_size, self.xp)
        alone = replace(self, solver="cholesky")
        leaves: list[Machine] = []
        for rows in parts:
            leaf = alone.fit(x[rows], y[rows], metric, None if weights is None else weights[rows])
            if leaf is None:
                return None
            leaves.extend(leaf.leaves)
        return trees.Mosaic(tree, leaves) if len(leaves) > 1 else leaves[0]

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
        root = xp.ones_like(x[:, :1]) if weights is None else weights[:, None] ** 0.5
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

    def next_metric(self, machine: AnyMachine) -> Matrix:
        """The update of line 6, scaled to trace d."""
        if self.update == "agop":
            new = matrix_power(self.agop(machine), self.agop_power, self.xp)
        elif self.update == "fact":
            new = symmetrized(self.fact(machine), 0.5, self.xp)
        else:
            new = symmetrized(_product(self.fact(machine), machine.metric), 0.25, self.xp)
        return scaled(self.xp, self._partial(new), len(machine.metric))

    def _partial(self, metric: Matrix) -> Matrix:
        """The metric of the inputs that matter most alone, if not all are wanted."""
        if self.most_features is None or self.most_features >= len(metric):
            return metric
        diagonal = metric if metric.ndim == 1 else self.xp.diagonal(metric)
        kept = np.zeros(len(metric))
        kept[np.argsort(-on_host(diagonal), kind="stable")[: self.most_features]] = 1
        kept = like(kept, metric)
        return metric * kept if metric.ndim == 1 else metric * kept * kept[:, None]

    def agop(self, machine: AnyMachine) -> Matrix:
        """The average gradient outer product of a machine, summed over its outputs."""
        total = sum(self._agop_of_leaf(leaf) for leaf in machine.leaves)
        return total / sum(len(leaf.centers) for leaf in machine.leaves)

    def _agop_of_leaf(self, leaf: Machine) -> Matrix:
        """The sum over its samples."""
        if self._cheaper_by_samples(leaf):
            return self._agop_by_samples(leaf)
        rows_of = functools.partial(machines.agop_rows, weights=leaf.weights)
        return self._sum_over_blocks(rows_of, leaf)

    def fact(self, machine: AnyMachine) -> Matrix:
        """FACT of a machine (Lemma F.1): of a tree, the sum over leaves, as it is for their objectives."""
        total = sum(self._sum_over_blocks(machines.fact_rows, leaf) for leaf in machine.leaves)
        return _product(machine.metric, total)

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
        r""":math:`M X^\top (S^\top S \circ A) X M`: n times Proposition 5.1."""
        x, alpha = machine.centers, machine.alpha
        geometry = self.whole_geometry(x, machine.metric)
        slope = self.kernel.slope(self.xp, geometry, self.kernel.value(self.xp, geometry))
        xm = x @ machine.metric
        weighted = slope if machine.weights is None else machine.weights[:, None] * slope
        return xm.T @ (((slope.T @ weighted) * (alpha @ alpha.T)) @ xm)

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

    def whole_geometry(self, x: Matrix, metric: Matrix) -> Matrix:
        """Of all samples with each other."""
        return self._geometry_of_rows(*self.kernel.factors(self.xp, x, metric), slice(0, len(x)))

    def _geometry_of_rows(self, left: Matrix, right: Matrix, rows: slice) -> Matrix:
        """Of a sample and itself exactly 0: the distance has a root there, which rounding would enlarge."""
        geometry = self.kernel.product(self.xp, left[rows], right)
        if not self.kernel.radial:
            return geometry
        here = np.arange(rows.stop - rows.start)
        if hasattr(geometry, "at"):  # JAX changes nothing in place
            return geometry.at[here, here + rows.start].set(0)
        geometry[here, here + rows.start] = 0
        return geometry

    def _kernel_matrix(self, x: Matrix, metric: Matrix, ridge: Any, jitter: float) -> Matrix:
        """K + ridge; the jitter is relative to the mean of its diagonal."""
        xp, n = self.xp, len(x)
        if not hasattr(x, "at"):
            matrix = np.empty((n, n), x.dtype) if xp is np else x.new_empty((n, n))
            for rows, geometry in self.blocks(x, metric):
                matrix[rows] = self.kernel.value(xp, geometry)
            diagonal = matrix.reshape(-1)[:: n + 1]
            diagonal += ridge + jitter * diagonal.mean()
            return matrix
        # machines with other ridges share what is compiled
        return _compiled_kernel()(replace(self, ridge=0.0), x, metric, ridge, jitter)


@functools.cache
def _compiled_kernel() -> Any:
    """K + ridge at once: nothing between the distances and K is kept."""
    import jax

    def values(recursion: Recursion, x: Matrix, metric: Matrix, ridge: Any, jitter: Any) -> Matrix:
        matrix = recursion.kernel.value(recursion.xp, recursion.whole_geometry(x, metric))
        here = np.arange(len(x))
        extra = ridge + jitter * recursion.xp.diagonal(matrix).mean()
        return matrix.at[here, here].add(extra.astype(matrix.dtype))

    return jax.jit(values, static_argnums=0)


def scaled(xp: ModuleType, metric: Matrix, trace: float) -> Matrix:
    """The metric with this trace.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    metric : M, or its diagonal.
    trace : what its trace shall be.
    """
    total = xp.sum(metric) if metric.ndim == 1 else xp.trace(metric)
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # of nothing: no number, which is looked for
        return metric * (trace / total)


def _product(left: Matrix, right: Matrix) -> Matrix:
    """Of two matrices, or of two diagonals."""
    return left * right if left.ndim == 1 else left @ right


def _blocks(xp: ModuleType, rows: int, columns: int) -> Iterator[slice]:
    numbers = _BLOCK_NUMBERS if xp is np else 1024 * _BLOCK_NUMBERS
    size = max(_BLOCK_ROWS, numbers // max(columns, 1))
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))

r"""Update, bandwidth, ridge and number of updates of a Recursive Feature Machine, by held-out error.

The data are cut into folds. In each, the recursion sees the other folds alone; all folds go one step, then
the setting with the smallest mean error on what was held out leads the next step. A step needs one matrix of
distances for all bandwidths, and one eigendecomposition :math:`K = Q S Q^\top` for all ridges:

.. math:: f(x) = K(x, X)\, Q\, (S + \mu)^{-1} Q^\top y

(with weights W, of :math:`W^{1/2} K W^{1/2}`).

After the first step a bandwidth and its two neighbors are tried. The metrics of the folds are averaged: each
has seen another part of the data, and their spread says how sure they are. The leave-one-out error, which is
closed, would not do: the metric has seen the sample that is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saddlewalk.features.kernels import AbstractKernel
from saddlewalk.features.rfm import Recursion

Matrix = Any
Folds = Sequence[tuple[np.ndarray, np.ndarray]]
BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""That are tried, in units of the root mean squared distance of two samples."""
RIDGES = tuple(10.0**k for k in range(-5, 2))
"""That are tried: what is added to the diagonal, in units of its mean."""
_PATIENCE = 2
"""Updates without a gain after which no more are made."""


@dataclass(frozen=True)
class Setting:
    """One setting of a machine, and how it does where it was not fitted.

    Parameters
    ----------
    update : the feature update, or `None`.
    step : how many updates were made.
    kernel : the kernel with its bandwidth.
    ridge : what is added to the diagonal of the kernel matrix.
    error : mean squared error on the held-out folds.
    metrics : the metric of every fold `(folds, d, d)`, or their diagonals `(folds, d)`.
    """

    update: str | None
    step: int
    kernel: AbstractKernel
    ridge: float
    error: float
    metrics: Matrix


@dataclass(frozen=True)
class Search:
    """What is searched, and on what.

    Parameters
    ----------
    x, y : inputs `(n, d)` and centered targets `(n, c)`.
    folds : pairs of rows: to fit to, and to judge by.
    kernels : the kernel with every bandwidth, in order.
    ridges : what may be added to the diagonal of the kernel matrix; NaN errors are never chosen.
    agop_power : exponent of the AGOP.
    weights : of the samples `(n,)`, or `None`.
    most_features : inputs that an update leaves in the metric, or `None` for all.
    """

    x: Matrix
    y: Matrix
    folds: Folds
    kernels: Sequence[AbstractKernel]
    ridges: Sequence[float]
    agop_power: float = 0.5
    weights: Matrix | None = None
    most_features: int | None = None

    def best(
        self, metric: Matrix, updates: Sequence[str], steps: int
    ) -> tuple[Setting, list[float]]:
        """The best setting, and the error after each update of its kind.

        Parameters
        ----------
        metric : where the recursion starts.
        updates : kinds of updates that are tried.
        steps : most updates.
        """
        first = self._judged(
            None, 0, np.stack([metric] * len(self.folds)), range(len(self.kernels))
        )
        paths = [self._path(first, update, steps) for update in updates]
        path = min(paths, key=lambda path: min(one.error for one in path), default=[first])
        return min(path, key=lambda one: one.error), [one.error for one in path]

    def _path(self, setting: Setting, update: str, steps: int) -> list[Setting]:
        """One kind of update from a first setting on, until it brings nothing more."""
        path, best = [setting], 0
        for step in range(1, steps + 1):
            metrics = self._next_metrics(path[-1], update)
            if metrics is None:
                break
            here = self.kernels.index(path[-1].kernel)
            near = range(max(here - 1, 0), min(here + 2, len(self.kernels)))
            path.append(self._judged(update, step, metrics, near))
            if path[-1].error < path[best].error:
                best = step
            if step - best >= _PATIENCE or not np.isfinite(path[-1].error):
                break
        return path

    def _next_metrics(self, setting: Setting, update: str) -> Matrix | None:
        new: list[Matrix] = []
        for (rows, _), metric in zip(self.folds, setting.metrics, strict=True):
            recursion = Recursion(
                setting.kernel,
                setting.ridge / len(rows),
                update,
                self.agop_power,
                solver="cholesky",
                most_features=self.most_features,
            )
            machine = recursion.fit(self.x[rows], self.y[rows], metric, self._weights(rows))
            new.append(None if machine is None else recursion.next_metric(machine))
            if new[-1] is None or not np.isfinite(new[-1]).all() or not new[-1].any():
                return None
        return np.stack(new)

    def _weights(self, rows: np.ndarray) -> Matrix | None:
        return None if self.weights is None else self.weights[rows]

    def held_out(self, setting: Setting) -> Matrix:
        """Outputs `(n, c)` for every sample by the machine that has not seen it; NaN where none is.

        Parameters
        ----------
        setting : of the machines.
        """
        outputs = np.full(self.y.shape, np.nan)
        for (rows, held), metric in zip(self.folds, setting.metrics, strict=True):
            recursion = Recursion(
                setting.kernel, setting.ridge / len(rows), None, solver="cholesky"
            )
            machine = recursion.fit(self.x[rows], self.y[rows], metric, self._weights(rows))
            if machine is not None:
                outputs[held] = machine.predict(np, self.x[held])
        return outputs

    def _judged(
        self, update: str | None, step: int, metrics: Matrix, tried: Sequence[int]
    ) -> Setting:
        """The best bandwidth and ridge for these metrics."""
        kernels = [self.kernels[k] for k in tried]
        errors = np.mean(
            [
                self._errors(kernels, *fold, metric)
                for fold, metric in zip(self.folds, metrics, strict=True)
            ],
            axis=0,
        )
        errors = np.where(np.isfinite(errors), errors, np.inf)
        k, r = (int(index) for index in np.unravel_index(np.argmin(errors), errors.shape))
        return Setting(update, step, kernels[k], self.ridges[r], float(errors[k, r]), metrics)

    def _errors(
        self, kernels: Sequence[AbstractKernel], rows: np.ndarray, held: np.ndarray, metric: Matrix
    ) -> Matrix:
        """Mean squared errors `(bandwidths, ridges)` on held-out samples."""
        seen, y, truth = self.x[rows], self.y[rows], self.y[held]
        among = Recursion(kernels[0], 0.0, None)._whole_geometry(seen, metric)
        across = kernels[0].geometry(np, self.x[held], seen, metric)
        errors = np.full((len(kernels), len(self.ridges)), np.inf)
        root = np.ones(len(rows)) if self.weights is None else np.sqrt(self.weights[rows])
        for k, kernel in enumerate(kernels):
            values, axes = np.linalg.eigh(root[:, None] * kernel.value(np, among) * root)
            values = np.maximum(values, 0)
            left, right = (kernel.value(np, across) * root) @ axes, axes.T @ (root[:, None] * y)
            for r, ridge in enumerate(self.ridges):
                inverse = 1 / np.maximum(values + ridge, np.finfo(values.dtype).eps * values[-1])
                squares = np.mean((left @ (inverse[:, None] * right) - truth) ** 2, axis=1)
                errors[k, r] = np.average(squares, weights=self._weights(held))
        return errors


def with_bandwidths(kernel: AbstractKernel, lengths: Sequence[float]) -> list[AbstractKernel]:
    """A kernel with several bandwidths.

    Parameters
    ----------
    kernel : the kernel.
    lengths : the bandwidths.
    """
    return [replace(kernel, bandwidth=float(length)) for length in lengths]


def typical_length(x: Matrix, radial: bool) -> float:
    """The root mean squared distance of two samples; for inner-product kernels the root mean squared norm.

    Parameters
    ----------
    x : inputs `(n, d)`.
    radial : whether distances count.
    """
    square = 2 * np.sum(np.var(x, axis=0)) if radial else np.mean(np.sum(x**2, axis=1))
    return float(np.sqrt(square)) if square > 0 else 1.0

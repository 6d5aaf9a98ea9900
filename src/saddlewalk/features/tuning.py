r"""Update, bandwidth, ridge and number of updates of a Recursive Feature Machine, by held-out error.

The data are cut into folds. In each, the recursion sees the other folds alone; all folds go one step, then
the setting with the smallest mean error on what was held out leads the next step. Bandwidths share one matrix
of distances, and each bandwidth and ridge costs a Cholesky factor,

.. math:: f(x) = K(x, X)\, (K + \mu)^{-1} y

(with weights w: :math:`K + \mu / w`), which for 1,000 samples takes a fortieth of an eigendecomposition, so
that few of them are tried: all on a part of the samples (halving), then, with all samples and after each
update, the neighbors of the best until none is better.

The metrics of the folds are averaged: each has seen another part of the data, and their spread says how sure
they are. The leave-one-out error, which is closed, would not do: the metric has seen the sample that is left
out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from saddlewalk.features.arrays import like, on_host
from saddlewalk.features.kernels import AbstractKernel
from saddlewalk.features.rfm import Machine, Recursion
from saddlewalk.features.solvers import solved

Matrix = Any
Folds = Sequence[tuple[np.ndarray, np.ndarray]]
Pair = tuple[int, int]
"""Which bandwidth, and which ridge."""
BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""That are tried, in units of the root mean squared distance of two samples."""
RIDGES = tuple(10.0**k for k in range(-5, 2))
"""That are tried: what is added to the diagonal, in units of its mean."""
PATIENCE = 2
"""Updates without a gain after which no more are made, if nothing else is said."""
_FEW = 300
"""Samples of a fold that all settings are tried on."""
_CLEARLY = 0.7
"""An update that leaves less than this part of the first error ends another kind that leaves more."""


@dataclass(frozen=True)
class Setting:
    """One setting of a machine, and how it does where it was not fitted.

    Parameters
    ----------
    update : the feature update, or `None`.
    step : how many updates were made.
    pair : which bandwidth, and which ridge.
    kernel : the kernel with its bandwidth.
    ridge : what is added to the diagonal of the kernel matrix.
    error : mean squared error on the held-out folds.
    machines : of every fold; `None` where one cannot be solved for.
    metrics : the metric of every fold.
    """

    update: str | None
    step: int
    pair: Pair
    kernel: AbstractKernel
    ridge: float
    error: float
    machines: Sequence[Machine | None]
    metrics: Sequence[Matrix]


@dataclass(frozen=True)
class Search:
    """What is searched, and on what.

    Parameters
    ----------
    x, y : inputs `(n, d)` and centered targets `(n, c)`.
    folds : pairs of rows: to fit to, and to judge by.
    kernels : the kernel with every bandwidth, in order.
    ridges : what may be added to the diagonal of the kernel matrix, in order.
    agop_power : exponent of the AGOP.
    weights : of the samples `(n,)`, or `None`.
    most_features : inputs that an update leaves in the metric, or `None` for all.
    xp : NumPy, `torch` or `jax.numpy`.
    patience : updates without a gain after which no more of their kind are made.
    """

    x: Matrix
    y: Matrix
    folds: Folds
    kernels: Sequence[AbstractKernel]
    ridges: Sequence[float]
    agop_power: float = 0.5
    weights: Matrix | None = None
    most_features: int | None = None
    xp: ModuleType = np
    patience: float = PATIENCE

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
        metrics = [metric] * len(self.folds)
        first = self._walk(None, 0, metrics, self._roughly_best(metrics))
        paths = {update: [first] for update in updates}
        for _ in range(steps):
            for update in self._worth_it(paths):
                paths[update] += self._next(paths[update], update)
        path = min(paths.values(), key=lambda path: min(one.error for one in path), default=[first])
        return min(path, key=lambda one: one.error), [one.error for one in path]

    def near(self, update: str | None, step: int, metric: Matrix, start: Pair = (0, 0)) -> Setting:
        """The best setting with this metric, from one to better neighbors.

        Parameters
        ----------
        update, step, metric : what it was fitted with.
        start : where to begin.
        """
        return self._walk(update, step, [metric] * len(self.folds), start)

    def like_x(self, values: np.ndarray) -> Matrix:
        """An array where the inputs are.

        Parameters
        ----------
        values : an array of NumPy.
        """
        return like(values, self.x)

    def held_out(self, setting: Setting) -> np.ndarray:
        """Outputs `(n, c)` for every sample by the machine that has not seen it; NaN where none is.

        Parameters
        ----------
        setting : of the machines.
        """
        outputs = np.full(tuple(self.y.shape), np.nan)
        for (_, held), machine in zip(self.folds, setting.machines, strict=True):
            if machine is not None:
                outputs[held] = on_host(machine.predict(self.xp, self.x[held]))
        return outputs

    def _worth_it(self, paths: dict[str, list[Setting]]) -> list[str]:
        """Kinds of updates that may bring more; not one that is behind where another is far ahead."""
        best = {update: min(one.error for one in path) for update, path in paths.items()}
        first = next((path[0].error for path in paths.values()), 0.0)
        leading = min(best.values(), default=np.inf)
        return [
            update
            for update, path in paths.items()
            if not (leading < _CLEARLY * first and best[update] > leading)
            and not self._at_rest(path)
        ]

    def _at_rest(self, path: list[Setting]) -> bool:
        errors = [one.error for one in path]
        if not np.isfinite(errors[-1]) or path[-1].machines[0] is None:
            return True
        return len(path) - 1 - int(np.argmin(errors)) >= self.patience

    def _next(self, path: list[Setting], update: str) -> list[Setting]:
        """One more setting, or none where numbers end."""
        metrics = self._next_metrics(path[-1], update)
        return [] if metrics is None else [self._walk(update, len(path), metrics, path[-1].pair)]

    def _next_metrics(self, setting: Setting, update: str) -> list[Matrix] | None:
        recursion = Recursion(
            setting.kernel, 0.0, update, self.agop_power, self.xp, "cholesky", self.most_features
        )
        new: list[Matrix] = []
        for machine in setting.machines:
            if machine is None:
                return None
            metric = recursion.next_metric(machine)
            if not bool(self.xp.all(self.xp.isfinite(metric))) or not bool(self.xp.any(metric)):
                return None
            new.append(metric)
        return new

    def _roughly_best(self, metrics: Sequence[Matrix]) -> Pair:
        """Of all pairs, on few samples."""
        thin = lambda rows: rows[np.linspace(0, len(rows) - 1, min(len(rows), _FEW)).astype(int)]  # noqa: E731
        few = replace(self, folds=[(thin(rows), thin(held)) for rows, held in self.folds])
        every = [(k, r) for k in range(len(self.kernels)) for r in range(len(self.ridges))]
        trial = _Trial(few, metrics)
        trial.make(every)
        return trial.best()

    def _walk(
        self, update: str | None, step: int, metrics: Sequence[Matrix], start: Pair
    ) -> Setting:
        """From a bandwidth and a ridge to better neighbors, until there is none."""
        trial, here = _Trial(self, metrics), start
        trial.make([start])
        while True:
            near = self._near(here)
            if len(self.folds[0][0]) > _FEW:
                trial.make(near, [0])
                near = [pair for pair in near if trial.error(pair, 0) < trial.error(here, 0)]
            trial.make(near)
            if here == (here := trial.best()):
                break
        k, r = here
        return Setting(
            update, step, here, self.kernels[k], self.ridges[r], trial.error(here),
            trial.machines(here), metrics,
        )  # fmt: skip

    def _near(self, pair: Pair) -> list[Pair]:
        k, r = pair
        return [
            (i, j)
            for i, j in ((k - 1, r), (k + 1, r), (k, r - 1), (k, r + 1))
            if 0 <= i < len(self.kernels) and 0 <= j < len(self.ridges)
        ]


@dataclass(frozen=True)
class _Trial:
    """Machines of one metric a fold, and how they do: fitted when asked for, once."""

    search: Search
    metrics: Sequence[Matrix]
    found: dict[tuple[Pair, int], tuple[Machine | None, float]] = field(default_factory=dict)
    """For a pair and a fold, the machine and its error."""
    geometry: dict[int, tuple[Matrix, Matrix]] = field(default_factory=dict)
    """Of each fold: among its samples, and from those that are held out to them."""

    def error(self, pair: Pair, fold: int | None = None) -> float:
        """On one fold, or the mean of all; infinite where there is none."""
        folds = range(len(self.metrics)) if fold is None else (fold,)
        error = float(np.mean([self.found.get((pair, f), (None, np.inf))[1] for f in folds]))
        return error if np.isfinite(error) else np.inf

    def machines(self, pair: Pair) -> list[Machine | None]:
        """Of all folds."""
        return [self.found[pair, fold][0] for fold in range(len(self.metrics))]

    def best(self) -> Pair:
        """With the smallest error; where there is none, the largest ridge."""
        return min(
            {pair for pair, _ in self.found}, key=lambda pair: (self.error(pair), -pair[1], pair)
        )

    def make(self, pairs: Sequence[Pair], folds: Sequence[int] | None = None) -> None:
        """Those that are not there yet."""
        for fold in range(len(self.metrics)) if folds is None else folds:
            new = [pair for pair in pairs if (pair, fold) not in self.found]
            made = self._in_fold(new, fold, self.metrics[fold])
            self.found.update({(pair, fold): one for pair, one in zip(new, made, strict=True)})

    def _geometry(self, fold: int, seen: Matrix, held: Matrix) -> tuple[Matrix, Matrix]:
        if fold not in self.geometry:
            search, metric = self.search, self.metrics[fold]
            kernel = search.kernels[0]
            among = Recursion(kernel, 0.0, None, xp=search.xp).whole_geometry(seen, metric)
            self.geometry[fold] = among, kernel.geometry(search.xp, held, seen, metric)
        return self.geometry[fold]

    def _in_fold(
        self, pairs: Sequence[Pair], fold: int, metric: Matrix
    ) -> list[tuple[Machine | None, float]]:
        """A machine and its mean squared error on held-out samples for each pair."""
        if not pairs:
            return []
        search, xp = self.search, self.search.xp
        rows, held = search.folds[fold]
        seen, y, truth = search.x[rows], search.y[rows], search.y[held]
        weights = None if search.weights is None else search.weights[rows]
        mass = None if search.weights is None else on_host(search.weights[held])
        among, across = self._geometry(fold, seen, search.x[held])
        machines: dict[Pair, Machine] = {}
        outputs: dict[Pair, Matrix] = {}
        for k in sorted({k for k, _ in pairs}):
            kernel = search.kernels[k]
            matrix, new = kernel.value(xp, among), kernel.value(xp, across)
            for pair in (pair for pair in pairs if pair[0] == k):
                alpha, jitter = solved(xp, matrix, search.ridges[pair[1]], y, weights)
                if alpha is not None:
                    machines[pair] = Machine(kernel, metric, seen, alpha, jitter, weights=weights)
                    outputs[pair] = new @ alpha
        squares = {p: np.mean(on_host(out - truth) ** 2, axis=1) for p, out in outputs.items()}
        errors = {p: float(np.average(some, weights=mass)) for p, some in squares.items()}
        return [(machines.get(pair), errors.get(pair, np.inf)) for pair in pairs]


def with_bandwidths(kernel: AbstractKernel, lengths: Sequence[float]) -> list[AbstractKernel]:
    """A kernel with several bandwidths.

    Parameters
    ----------
    kernel : the kernel.
    lengths : the bandwidths.
    """
    return [replace(kernel, bandwidth=float(length)) for length in lengths]

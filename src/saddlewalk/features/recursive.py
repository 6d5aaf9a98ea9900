"""How an estimator finds its metric and its machine: search on few samples, sharpen on more, fit to all.

Columns that are categories, and values that are missing, become numbers first (`encoding`). Everything that
is "auto" is chosen on folds that are held out (`tuning`); `best_params_` says what it is. Of many samples
some are searched on, and the metric that they gave is made sharper with the others (`sharpening`); then a
machine of more samples than a fold has judges bandwidth and ridge once more, by what is held out. Where
nothing is "auto", each iteration is judged on a held-out part of the data, and the metric of the best one is
kept. The machine is fitted anew with the metric on all data: one machine, or a tree of them (`trees`). What
was held out makes probabilities (`probabilities`).
"""

import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from saddlewalk.errors import InputError
from saddlewalk.features import sharpening, tuning
from saddlewalk.features.arrays import Device, on_host
from saddlewalk.features.checks import check_columns, check_numbers, check_settings
from saddlewalk.features.encoding import Columns
from saddlewalk.features.held_out import FEWEST_TO_JUDGE, folds, split
from saddlewalk.features.interactions import interactions, plot_interactions
from saddlewalk.features.kernels import kernel_named
from saddlewalk.features.lengths import length_scale, spreads
from saddlewalk.features.rfm import AnyMachine, Recursion
from saddlewalk.features.scale import leaf_for, precision_for
from saddlewalk.features.sharpening import Samples, sharpen
from saddlewalk.features.trees import rows_in_a_leaf
from saddlewalk.features.tuning import BANDWIDTHS, RIDGES, Search, Setting, with_bandwidths

_MOST_TO_SEARCH = 1500
"""Samples that settings are searched on, at most."""
_MOST_TO_SHARPEN = {False: 100_000, True: 300_000}
"""Samples that the metric is updated with after a search, at most; and on an accelerator."""
_MOST_TO_JUDGE_AGAIN = 2500
"""Samples of the machines that bandwidth and ridge are judged with once more, at most."""
_CANDIDATES = ("agop", "fact")
_NO_WORSE = 1e-12
_SOLVED = 1e-4
"""Part of the targets that an iterative solver may leave."""
_BLAS = ThreadpoolController()


def _threads_for(n: int) -> AbstractContextManager[Any]:
    """One thread for so few samples: two would wait for each other longer than they work."""
    return _BLAS.limit(limits=1, user_api="blas") if n <= _MOST_TO_SEARCH else nullcontext()


class RecursiveFeatureMachine(BaseEstimator):
    """What classifier and regressor share: everything but the coding of targets.

    As scikit-learn asks, settings are taken as they come and checked in `fit`; what they mean is said there.

    Parameters
    ----------
    update, kernel, bandwidth, ridge, iterations, diagonal, agop_power, exponent, degree, constant : of the
        recursion.
    max_features, categorical_features, standardize : of the inputs.
    validation_fraction, patience, warm_start : of the search.
    solver, leaf_size, dtype, device : of the computation.
    random_state : seed of all that is drawn.
    """

    best_params_: dict[str, Any]
    validation_scores_: np.ndarray
    machine_: AnyMachine

    def __init__(
        self,
        update: Any = "auto",
        kernel: Any = "laplace",
        bandwidth: Any = "auto",
        ridge: Any = "auto",
        iterations: Any = 5,
        diagonal: Any = False,
        agop_power: Any = 0.5,
        exponent: Any = 1.0,
        degree: Any = 2,
        constant: Any = 1.0,
        max_features: Any = None,
        categorical_features: Any = "from_dtype",
        standardize: Any = "auto",
        validation_fraction: Any = 0.2,
        patience: Any = None,
        warm_start: Any = False,
        solver: Any = "auto",
        leaf_size: Any = "auto",
        dtype: Any = "auto",
        device: Any = "cpu",
        random_state: Any = None,
    ):
        self.update = update
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.ridge = ridge
        self.iterations = iterations
        self.diagonal = diagonal
        self.agop_power = agop_power
        self.exponent = exponent
        self.degree = degree
        self.constant = constant
        self.max_features = max_features
        self.categorical_features = categorical_features
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.warm_start = warm_start
        self.solver = solver
        self.leaf_size = leaf_size
        self.dtype = dtype
        self.device = device
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _read(self, X: Any, y: Any, **checks: Any) -> tuple[np.ndarray, Any]:
        """The table as numbers, in which NaN is missing, and the targets."""
        check_settings(self)
        if checks.get("y_numeric"):
            check_numbers(y)
        check_columns(X)
        # a bandwidth that is given is one of the inputs as they are
        given = not isinstance(self.bandwidth, str)
        scales = False if given and self.standardize == "auto" else self.standardize
        self.columns_ = Columns.of(X, self.categorical_features, scales)
        return validate_data(
            self,
            self.columns_.numbers(X),
            y,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            **checks,
        )

    def _fit(
        self,
        x: np.ndarray,
        targets: np.ndarray,
        labels: np.ndarray | None,
        weights: np.ndarray | None,
    ) -> None:
        """Find the metric, then fit the machine with it; `targets` are `(n, c)`, weights at least 0."""
        if weights is not None:
            felt = weights > 0
            x, targets, weights = x[felt], targets[felt], weights[felt] / weights[felt].mean()
            labels = None if labels is None else labels[felt]
        self.__dict__.pop("feature_interactions_", None)
        device = Device.named(self.device)
        self.intercept_ = np.average(targets, axis=0, weights=weights)
        targets = targets - self.intercept_
        # outputs may have other units; codes of classes have one
        self.spread_ = np.ones(targets.shape[1])
        if labels is None:
            self.spread_ = spreads(targets, self.intercept_, weights)
        targets = targets / self.spread_
        with _threads_for(0):
            x = self.columns_.fit(x, weights, targets, self.random_state)
        radial = self.kernel not in ("polynomial", "exponential")
        length = length_scale(self.bandwidth, x, radial)
        self.kernel_ = kernel_named(self.kernel, length, self.exponent, self.degree, self.constant)
        # distances do not see where the origin is, but rounding does
        self.offset_ = (
            x.mean(axis=0, dtype=np.float64) if radial else np.zeros(x.shape[1])
        ).astype(x.dtype)
        self.dtype_ = precision_for(self, len(x), device)
        kind = (
            replace(self.kernel_, bandwidth=1.0), self.diagonal, self.columns_.scaled,
            tuple(self.columns_.blocks),
        )  # fmt: skip
        before = self._fit_before(kind)
        with device.precision(self.dtype_), _threads_for(len(x)):
            samples = Samples(
                device.array(x - self.offset_, self.dtype_),
                device.array(targets, self.dtype_),
                None if weights is None else device.array(weights, self.dtype_),
            )
            self._fit_to(samples, labels, before, device)
        self._fitted = kind, self._automatic()
        with np.errstate(over="ignore"):
            self.validation_scores_ = self.validation_scores_ * np.mean(self.spread_**2)
            alpha = self.machine_.alpha
            self.dual_coef_ = (alpha * self.spread_).astype(alpha.dtype)

    def _fit_to(
        self,
        samples: Samples,
        labels: np.ndarray | None,
        before: AnyMachine | None,
        device: Device,
    ) -> None:
        learns = bool(device.xp.any(samples.y != 0)) and self.iterations > 0
        rows = self._rows_to_search(len(samples))
        search = self._search_on(samples, labels, rows, device)
        with _threads_for(len(rows)):
            found = self._found(search, before, learns)
        metric = device.array(self._start(samples.x.shape[1], found, before), self.dtype_)
        recursion = self._recursion(found, len(samples), device, before)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        cut = sharpening.cut_off(len(samples), seed)
        some = len(rows) < len(samples)
        if found is None:
            self.n_iter_, self.validation_scores_ = 0, np.zeros(0)
            if learns and recursion.update is not None:
                metric = self._best_metric(recursion, samples, metric, labels)
        elif some and learns and self.update is not None:
            metric = self._sharpened(recursion, samples, metric, cut, device)
        if some:
            search, rows = self._search_again(search, samples, cut, recursion.leaf_size, device)
        if some and found is not None:
            update, there = self.best_params_["update"], search.like_x(on_host(metric))
            found = search.near(update, self.n_iter_, there, found.pair)
            recursion = self._recursion(found, len(samples), device, before)
        machine = recursion.fit(samples.x, samples.y, metric, samples.weights)
        if machine is None:
            raise InputError(
                "The kernel matrix cannot be factored, even with a larger diagonal. Raise the ridge."
            )
        self._warn_of_conditioning(machine)
        self.machine_ = machine.moved(on_host)
        self._held_out = None
        judged = found is not None or self.validation_fraction is not None
        if labels is not None and judged and len(rows) >= FEWEST_TO_JUDGE:
            seen = None if search.weights is None else on_host(search.weights)
            with _threads_for(len(rows)):
                found = found or self._as_given(search, recursion, len(samples))
                self._held_out = (search.held_out(found), labels[rows], seen)

    def _as_given(self, search: Search, recursion: Recursion, n: int) -> Setting:
        """The machine at the end, as if it had been found."""
        ridge = recursion.ridge * rows_in_a_leaf(n, recursion.leaf_size)
        search = replace(search, kernels=[self.kernel_], ridges=[ridge])
        return search.near(recursion.update, self.n_iter_, search.like_x(self.machine_.metric))

    def _found(self, search: Search, before: AnyMachine | None, learns: bool) -> Setting | None:
        """The best setting of all that is "auto"; `None` where nothing is, or it was found before."""
        self.feature_importances_std_: np.ndarray | None = None
        if not self._automatic() or before is not None:
            return None
        chosen = _CANDIDATES if self.update == "auto" else (self.update,)
        steps = self.iterations if learns else 0
        d = search.x.shape[1]
        found, errors = search.best(
            search.like_x(np.ones(d) if self.diagonal else np.eye(d)),
            [u for u in chosen if u is not None and steps],
            steps,
        )
        self.n_iter_ = found.step
        self.validation_scores_ = np.array(errors)
        return found

    def _automatic(self) -> frozenset[str]:
        """Which settings are "auto"."""
        settings = {"update": self.update, "bandwidth": self.bandwidth, "ridge": self.ridge}
        return frozenset(name for name, value in settings.items() if _is_auto(value))

    def _fit_before(self, kind: Any) -> AnyMachine | None:
        """What to go on from: a machine of the same kind, for which was found what is to be found now."""
        kind_before, found_before = getattr(self, "_fitted", (None, frozenset()))
        same = self.warm_start and kind == kind_before and self._automatic() <= found_before
        return self.machine_ if same else None

    def _start(self, d: int, found: Setting | None, before: AnyMachine | None) -> np.ndarray:
        """Where the metric starts: where the search ended, or the fit before, or all inputs alike."""
        if found is not None:
            return self._mean_metric(found)
        if before is not None:
            return before.metric
        return np.ones(d) if self.diagonal else np.eye(d)

    def _mean_metric(self, found: Setting) -> np.ndarray:
        """The mean of the folds' metrics; the spread of their diagonals is kept."""
        metrics = np.stack([on_host(metric) for metric in found.metrics]).astype(np.float64)
        parts = metrics if self.diagonal else np.einsum("fii->fi", metrics)
        parts = self.columns_.summed(parts / parts.sum(axis=1, keepdims=True))
        self.feature_importances_std_ = np.std(parts, axis=0)
        return np.mean(metrics, axis=0)

    def _recursion(
        self, found: Setting | None, n: int, device: Device, before: AnyMachine | None
    ) -> Recursion:
        """With the settings that were found, or as given; `best_params_` says which."""
        update, ridge = self.update, self.ridge
        leaf = leaf_for(self, n, device)
        if before is not None:
            update = self.best_params_["update"] if _is_auto(update) else update
            ridge = self.best_params_["ridge"] if _is_auto(ridge) else ridge
            self.kernel_ = before.kernel if _is_auto(self.bandwidth) else self.kernel_
        if found is not None:
            self.kernel_, update = found.kernel, found.update
            ridge = found.ridge / rows_in_a_leaf(n, leaf)
        self.best_params_ = {
            "update": update,
            "bandwidth": self.kernel_.bandwidth,
            "ridge": float(ridge),
        }
        solver = self.solver
        if solver == "auto":
            solver = "tree" if n > leaf else "cholesky"
        return Recursion(
            self.kernel_, ridge, update, self.agop_power, device.xp, solver,
            self._most_features(), leaf,
        )  # fmt: skip

    def _most_features(self) -> int | None:
        """As a number of inputs; a fraction is one of the columns' inputs."""
        if self.max_features is None:
            return None
        if isinstance(self.max_features, Integral):
            return int(self.max_features)
        return max(1, int(self.max_features * len(self.columns_.blocks)))

    def _search_on(
        self, samples: Samples, labels: np.ndarray | None, rows: np.ndarray, device: Device
    ) -> Search:
        """Everything that is "auto", on some samples; JAX would compile for every size."""
        length = self.kernel_.bandwidth
        lengths = [length * b for b in BANDWIDTHS] if _is_auto(self.bandwidth) else [length]
        x, y, weights = self._to_search(samples.part(rows), device)
        size = float(np.mean(self._diagonal_of_kernel(on_host(x))))
        if self.ridge == "auto":
            ridges = [size * r for r in RIDGES]
        else:  # as much as the machine at the end, or each leaf of a tree of them, will have
            n = len(samples)
            ridges = [self.ridge * rows_in_a_leaf(n, leaf_for(self, n, device))]
        classes = None if labels is None else labels[rows]
        cut = folds(len(rows), classes, self.random_state, len(rows) < len(samples))
        xp = np if device.place is None else device.xp
        return Search(
            x, y, cut, with_bandwidths(self.kernel_, lengths), ridges, self.agop_power, weights,
            self._most_features(), xp, self.patience or tuning.PATIENCE,
        )  # fmt: skip

    def _to_search(self, some: Samples, device: Device) -> tuple[Any, Any, Any]:
        values = some.x, some.y, some.weights
        if device.place is not None:
            return values
        x, y, weights = (v if v is None else on_host(v).astype(self.dtype_) for v in values)
        return x, y, weights

    def _search_again(
        self, search: Search, samples: Samples, cut: Any, leaf: int, device: Device
    ) -> tuple[Search, np.ndarray]:
        """The search on more samples, judged by others, and which samples these are."""
        held, rest = cut
        rest = rest[: max(len(search.folds[0][0]), min(leaf, _MOST_TO_JUDGE_AGAIN))]
        rows = np.concatenate([rest, held])
        x, y, weights = self._to_search(samples.part(rows), device)
        once = [(np.arange(len(rest)), np.arange(len(rest), len(rows)))]
        return replace(search, x=x, y=y, weights=weights, folds=once), rows

    def _diagonal_of_kernel(self, x: np.ndarray) -> np.ndarray:
        squares = np.zeros(len(x)) if self.kernel_.radial else np.sum(x**2, axis=1)
        return np.asarray(self.kernel_.value(np, squares))

    def _rows_to_search(self, n: int) -> np.ndarray:
        rows = np.arange(n)
        if n <= _MOST_TO_SEARCH:
            return rows
        return np.sort(check_random_state(self.random_state).permutation(n)[:_MOST_TO_SEARCH])

    def _sharpened(
        self, recursion: Recursion, samples: Samples, metric: Any, cut: Any, device: Device
    ) -> Any:
        """The metric after more updates, with more samples than were searched on."""
        total = recursion.ridge * rows_in_a_leaf(len(samples), recursion.leaf_size)

        def recursion_for(update: str, n: int) -> Recursion:
            leaf = min(recursion.leaf_size, n)
            return replace(
                recursion, update=update, ridge=total / rows_in_a_leaf(n, leaf), leaf_size=leaf
            )

        kinds = _CANDIDATES if self.update == "auto" else (self.update,)
        found = sharpen(
            recursion_for, kinds, samples, metric, self.iterations,
            _MOST_TO_SHARPEN[device.accelerated], cut, self.patience or sharpening.PATIENCE,
        )  # fmt: skip
        self.validation_scores_ = np.array(
            [*self.validation_scores_[: self.n_iter_ + 1], *found.errors]
        )
        self.n_iter_ += len(found.errors)
        self.best_params_["update"] = found.update or recursion.update
        return found.metric

    def _best_metric(
        self, recursion: Recursion, samples: Samples, metric: Any, labels: np.ndarray | None
    ) -> Any:
        """The metric of the iteration with the smallest error on held-out samples."""
        xp = recursion.xp
        rows, validation = split(len(samples), labels, self.validation_fraction, self.random_state)
        scores: list[float] = []
        best, best_metric = np.inf, metric
        self.n_iter_ = 0
        seen, judged = samples.part(rows), samples.part(validation if len(validation) else rows)
        mass = None if judged.weights is None else on_host(judged.weights)
        for step, machine in enumerate(recursion.machines(seen.x, seen.y, metric, seen.weights)):
            squares = on_host((machine.predict(xp, judged.x) - judged.y) ** 2)
            error = float(np.average(np.mean(squares, axis=1), weights=mass))
            if not np.isfinite(error):
                self._warn_of_divergence(len(scores))
                break
            scores.append(error)
            if error < best * (1 - _NO_WORSE) or not len(validation):
                best, best_metric, self.n_iter_ = error, machine.metric, step
            if step == self.iterations or (
                self.patience is not None and step - self.n_iter_ >= self.patience
            ):
                break
        else:
            self._warn_of_divergence(len(scores))
        self.validation_scores_ = np.array(scores)
        return best_metric

    def _warn_of_conditioning(self, machine: AnyMachine) -> None:
        said = ""
        if machine.jitter > 0:
            said = f"is singular in {self.dtype_}: {machine.jitter:g} of its diagonal was added"
        elif machine.residual > _SOLVED:
            said = f"is so badly conditioned that {machine.residual:.1g} of the targets is left unsolved"
        if said:
            warnings.warn(
                f"The kernel matrix {said}. Raise the ridge, or drop duplicate rows.",
                ConvergenceWarning,
                stacklevel=5,
            )

    @staticmethod
    def _warn_of_divergence(machines: int) -> None:
        warnings.warn(
            f"The features diverged after {machines} machines; the best iterate is kept.",
            ConvergenceWarning,
            stacklevel=6,
        )

    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        check_columns(X)
        x = validate_data(
            self,
            self.columns_.numbers(X),
            reset=False,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
        )
        outputs = self._outputs_of(self.columns_.transform(x) - self.offset_)
        return outputs * self.spread_ + self.intercept_

    def _outputs_of(self, x: np.ndarray) -> np.ndarray:
        """Of encoded inputs, from the middle of the data; targets have mean 0 and spread 1."""
        device = Device.named(self.device)
        with device.precision(self.dtype_):
            there = self.machine_.moved(lambda values: device.array(values, self.dtype_))
            outputs = there.predict(device.xp, device.array(x, self.dtype_))
        return on_host(outputs)

    @property
    def feature_matrix_(self) -> np.ndarray:
        """The metric M `(d, d)`, of trace d: which directions of the encoded inputs matter."""
        check_is_fitted(self)
        metric = self.machine_.metric
        return np.diag(metric) if metric.ndim == 1 else metric

    @property
    def feature_importances_(self) -> np.ndarray:
        """The diagonal of M, as parts of its trace, summed over the inputs of each column."""
        diagonal = np.diag(self.feature_matrix_)
        return self.columns_.summed(diagonal / diagonal.sum())

    @cached_property
    def feature_interactions_(self) -> np.ndarray:
        """How much columns act together, as parts of the variance of the outputs; computed when asked for."""
        check_is_fitted(self)
        return interactions(self._outputs_of, self.machine_.centers, self.columns_.blocks)

    def plot_interactions(self, target: Any = None) -> Any:
        """A picture of `feature_interactions_`.

        Parameters
        ----------
        target : a file, axes of one's own, or `None` for a new figure.
        """
        matrix = self.feature_interactions_
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(len(matrix))])
        return plot_interactions(matrix, list(names), target)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"

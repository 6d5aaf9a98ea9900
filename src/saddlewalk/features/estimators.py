"""Recursive Feature Machines as scikit-learn estimators.

    from saddlewalk.features import RFMClassifier

    model = make_pipeline(StandardScaler(), RFMClassifier(update="fact")).fit(X, y)
    model[-1].feature_matrix_

Columns that are categories, and values that are missing, become numbers first (`encoding`). Everything that
is "auto" is chosen on folds that are held out (`tuning`); `best_params_` says what it is. Where nothing is,
each iteration is judged on a held-out part of the data, and the metric of the best one is kept. The machine
is fitted anew with the metric on all data. What was held out makes probabilities (`probabilities`).
"""

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from numbers import Integral, Real
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from saddlewalk.errors import InputError
from saddlewalk.features.encoding import Columns
from saddlewalk.features.held_out import folds, split
from saddlewalk.features.interactions import interactions, plot_interactions
from saddlewalk.features.kernels import AbstractKernel, kernel_named
from saddlewalk.features.probabilities import probabilities, steepness
from saddlewalk.features.rfm import Machine, Recursion
from saddlewalk.features.tuning import (
    BANDWIDTHS,
    RIDGES,
    Search,
    Setting,
    typical_length,
    with_bandwidths,
)

_MEDIAN_SAMPLES = 1000
_MOST_TO_SEARCH = 1500
"""Samples that settings are searched on, at most."""
_CANDIDATES = ("agop", "fact")
_LITTLE_PATIENCE = 1
"""Updates without a gain that end what is done with all samples after a search on some."""
_NO_WORSE = 1e-12
_SOLVED = 1e-4
"""Part of the targets that an iterative solver may leave."""


class _RecursiveFeatureMachine(BaseEstimator):
    """What classifier and regressor share: everything but the coding of targets.

    As scikit-learn asks, settings are taken as they come and checked in `fit`.
    """

    best_params_: dict[str, Any]

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
        standardize: Any = False,
        validation_fraction: Any = 0.2,
        patience: Any = None,
        warm_start: Any = False,
        solver: Any = "auto",
        dtype: Any = "float64",
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
        self.dtype = dtype
        self.device = device
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _read(self, X: Any, y: Any, **checks: Any) -> tuple[np.ndarray, Any]:
        """The table as numbers, in which NaN is missing, and the targets."""
        self._check_settings()
        self.columns_ = Columns.of(X, self.categorical_features, self.standardize)
        return validate_data(
            self,
            self.columns_.numbers(X),
            y,
            dtype=np.float64,
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
        before = getattr(self, "machine_", None) if self.warm_start else None
        if weights is not None:
            felt = weights > 0
            x, targets, weights = x[felt], targets[felt], weights[felt] / weights[felt].mean()
            labels = None if labels is None else labels[felt]
        self.__dict__.pop("feature_interactions_", None)
        xp = _array_module(self.device)
        x = self.columns_.fit(x, weights)
        self.intercept_ = np.average(targets, axis=0, weights=weights)
        self.kernel_ = self._kernel(x)
        # distances do not see where the origin is, but rounding does
        self.offset_ = x.mean(axis=0) if self.kernel_.radial else np.zeros(x.shape[1])
        x, centered = x - self.offset_, targets - self.intercept_
        rows = self._rows_to_search(len(x))
        search = self._search_on(x, centered, labels, weights, rows)
        found = self._found(search, before, bool(np.any(centered)))
        metric = self._start(x.shape[1], found, before)
        recursion = self._recursion(found, len(x), xp, before)
        with _precision(xp, self.dtype):
            inputs, outputs, metric = (
                xp.asarray(values, dtype=self.dtype) for values in (x, centered, metric)
            )
            mass = None if weights is None else xp.asarray(weights, dtype=self.dtype)
            learns = recursion.update is not None and self.iterations > 0 and np.any(centered)
            if found is None:
                self.n_iter_, self.validation_scores_ = 0, np.zeros(0)
            if learns and (found is None or len(x) > _MOST_TO_SEARCH):
                # the folds saw only some of the samples: all of them make the metric sharper
                patience = self.patience if found is None else _LITTLE_PATIENCE
                metric = self._best_metric(
                    recursion, inputs, outputs, metric, labels, mass, patience
                )
            machine = recursion.fit(inputs, outputs, metric, mass)
        if machine is None:
            raise InputError(
                "The kernel matrix cannot be factored, even with a larger diagonal. Raise the ridge."
            )
        self._warn_of_conditioning(machine)
        on_host = (
            np.asarray(values) for values in (machine.metric, machine.centers, machine.alpha)
        )
        metric, centers, self.dual_coef_ = on_host
        self.machine_ = replace(
            machine, metric=metric, centers=centers, alpha=self.dual_coef_, weights=None
        )
        self._held_out = None
        if labels is not None and (found is not None or self.validation_fraction is not None):
            setting = found or self._setting_of(metric, len(search.folds), len(x))
            self._held_out = (search.held_out(setting), labels[rows], search.weights)

    def _found(self, search: Search, before: Machine | None, learns: bool) -> Setting | None:
        """The best setting of all that is "auto"; `None` where nothing is, or it was found before."""
        self.feature_importances_std_: np.ndarray | None = None
        if not self._searches() or before is not None:
            return None
        chosen = _CANDIDATES if self.update == "auto" else (self.update,)
        steps = self.iterations if learns else 0
        d = search.x.shape[1]
        found, errors = search.best(
            np.ones(d) if self.diagonal else np.eye(d),
            [u for u in chosen if u is not None and steps],
            steps,
        )
        self.n_iter_, self.validation_scores_ = found.step, np.array(errors)
        return found

    def _searches(self) -> bool:
        return "auto" in (self.update, self.ridge) or _is_auto(self.bandwidth)

    def _start(self, d: int, found: Setting | None, before: Machine | None) -> np.ndarray:
        """Where the metric starts: where the search ended, or the fit before, or all inputs alike."""
        if found is not None:
            return self._mean_metric(found)
        if before is not None and len(before.metric) == d:
            return before.metric
        return np.ones(d) if self.diagonal else np.eye(d)

    def _setting_of(self, metric: np.ndarray, folds: int, n: int) -> Setting:
        """What was given, as if it had been found."""
        update, ridge = self.best_params_["update"], self.best_params_["ridge"] * n
        return Setting(
            update, self.n_iter_, self.kernel_, ridge, np.nan, np.stack([metric] * folds)
        )

    def _recursion(
        self, found: Setting | None, n: int, xp: ModuleType, before: Machine | None
    ) -> Recursion:
        """With the settings that were found, or as given; `best_params_` says which."""
        update, ridge = self.update, self.ridge
        if before is not None and self._searches():
            self.kernel_ = before.kernel
            update, ridge = self.best_params_["update"], self.best_params_["ridge"]
        if found is not None:
            self.kernel_, update, ridge = found.kernel, found.update, found.ridge / n
        self.best_params_ = {
            "update": update,
            "bandwidth": self.kernel_.bandwidth,
            "ridge": float(ridge),
        }
        return Recursion(
            self.kernel_, ridge, update, self.agop_power, xp, self.solver, self._most_features()
        )

    def _most_features(self) -> int | None:
        """As a number of inputs; a fraction is one of the columns' inputs."""
        if self.max_features is None:
            return None
        if isinstance(self.max_features, Integral):
            return int(self.max_features)
        return max(1, int(self.max_features * len(self.columns_.blocks)))

    def _search_on(
        self,
        x: np.ndarray,
        centered: np.ndarray,
        labels: np.ndarray | None,
        weights: np.ndarray | None,
        rows: np.ndarray,
    ) -> Search:
        """Everything that is "auto", on some samples."""
        length = self.kernel_.bandwidth
        lengths = [length * b for b in BANDWIDTHS] if _is_auto(self.bandwidth) else [length]
        size = float(np.mean(self._diagonal_of_kernel(x[rows])))
        ridges = [size * r for r in RIDGES] if self.ridge == "auto" else [self.ridge * len(x)]
        classes = None if labels is None else labels[rows]
        return Search(
            np.ascontiguousarray(x[rows]), centered[rows], folds(len(rows), classes, self.random_state),
            with_bandwidths(self.kernel_, lengths), ridges, self.agop_power,
            None if weights is None else weights[rows], self._most_features(),
        )  # fmt: skip

    def _mean_metric(self, found: Setting) -> np.ndarray:
        """The mean of the folds' metrics; the spread of their diagonals is kept."""
        parts = found.metrics if self.diagonal else np.einsum("fii->fi", found.metrics)
        parts = self.columns_.summed(parts / parts.sum(axis=1, keepdims=True))
        self.feature_importances_std_ = np.std(parts, axis=0)
        return np.mean(found.metrics, axis=0)

    def _diagonal_of_kernel(self, x: np.ndarray) -> np.ndarray:
        squares = np.zeros(len(x)) if self.kernel_.radial else np.sum(x**2, axis=1)
        return np.asarray(self.kernel_.value(np, squares))

    def _rows_to_search(self, n: int) -> np.ndarray:
        rows = np.arange(n)
        if n <= _MOST_TO_SEARCH:
            return rows
        return np.sort(check_random_state(self.random_state).permutation(n)[:_MOST_TO_SEARCH])

    def _warn_of_conditioning(self, machine: Machine) -> None:
        said = ""
        if machine.jitter > 0:
            said = f"is singular in {self.dtype}: {machine.jitter:g} of its diagonal was added"
        elif machine.residual > _SOLVED:
            said = f"is so badly conditioned that {machine.residual:.1g} of the targets is left unsolved"
        if said:
            warnings.warn(
                f"The kernel matrix {said}. Raise the ridge, or drop duplicate rows.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _best_metric(
        self,
        recursion: Recursion,
        x: Any,
        y: Any,
        metric: Any,
        labels: np.ndarray | None,
        weights: Any,
        patience: int | None,
    ) -> Any:
        """The metric of the iteration with the smallest error on held-out samples."""
        xp = recursion.xp
        rows, validation = split(len(x), labels, self.validation_fraction, self.random_state)
        scores: list[float] = []
        best, best_metric = np.inf, metric
        self.n_iter_ = 0
        seen = None if weights is None else weights[rows]
        judged = validation if len(validation) else rows
        mass = np.ones(len(judged)) if weights is None else np.asarray(weights[judged])
        for step, machine in enumerate(recursion.machines(x[rows], y[rows], metric, seen)):
            squares = xp.mean((machine.predict(xp, x[judged]) - y[judged]) ** 2, axis=1)
            error = float(np.average(np.asarray(squares), weights=mass))
            if not np.isfinite(error):
                self._warn_of_divergence(len(scores))
                break
            scores.append(error)
            if error < best * (1 - _NO_WORSE) or not len(validation):
                best, best_metric, self.n_iter_ = error, machine.metric, step
            if step == self.iterations or (
                patience is not None and step - self.n_iter_ >= patience
            ):
                break
        else:
            self._warn_of_divergence(len(scores))
        self.validation_scores_ = np.array(scores)
        return best_metric

    @staticmethod
    def _warn_of_divergence(machines: int) -> None:
        warnings.warn(
            f"The features diverged after {machines} machines; the best iterate is kept.",
            ConvergenceWarning,
            stacklevel=5,
        )

    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x = validate_data(
            self,
            self.columns_.numbers(X),
            reset=False,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
        )
        return self._outputs_of(self.columns_.transform(x) - self.offset_)

    def _outputs_of(self, x: np.ndarray) -> np.ndarray:
        """Of encoded inputs, from the middle of the data."""
        xp, machine = _array_module(self.device), self.machine_
        with _precision(xp, self.dtype):
            there = replace(
                machine,
                **{
                    name: xp.asarray(getattr(machine, name))
                    for name in ("metric", "centers", "alpha")
                },
            )
            outputs = np.asarray(there.predict(xp, xp.asarray(x, dtype=self.dtype)))
        return outputs + self.intercept_

    def _kernel(self, x: np.ndarray) -> AbstractKernel:
        length = self.bandwidth
        if _is_auto(length):
            length = typical_length(x, self.kernel not in ("polynomial", "exponential"))
        elif length == "median":
            length = self._median_distance(x)
        elif isinstance(length, str) or not np.isscalar(length):
            raise InputError(f"The bandwidth must be a number, 'auto' or 'median'; got {length!r}.")
        return kernel_named(self.kernel, float(length), self.exponent, self.degree, self.constant)

    def _median_distance(self, x: np.ndarray) -> float:
        """Median distance of some samples; for inner-product kernels the median norm."""
        rng = np.random.default_rng(0)
        some = x[rng.choice(len(x), min(len(x), _MEDIAN_SAMPLES), replace=False)]
        if self.kernel in ("polynomial", "exponential"):
            typical = float(np.median(np.linalg.norm(some, axis=1)))
        else:
            apart = euclidean_distances(some)[np.triu_indices(len(some), 1)]
            typical = float(np.median(apart)) if apart.size else 1.0
        return typical if typical > 0 else 1.0

    def _check_settings(self) -> None:
        if self.ridge != "auto" and (
            not isinstance(self.ridge, Real) or not float(self.ridge) >= 0
        ):
            raise InputError(f"The ridge must not be negative, or be 'auto'; got {self.ridge}.")
        if not isinstance(self.iterations, int | np.integer) or self.iterations < 0:
            raise InputError(f"iterations must be a whole number from 0 on; got {self.iterations}.")
        if self.patience is not None and not self.patience >= 1:
            raise InputError(f"patience must be at least 1, or None; got {self.patience}.")
        if not self.agop_power > 0:
            raise InputError(f"agop_power must be positive; got {self.agop_power}.")
        if self.degree != int(self.degree) or self.degree < 1 or not self.constant >= 0:
            raise InputError(
                "A polynomial kernel has a whole degree from 1 on and a constant that is not negative; got "
                f"{self.degree} and {self.constant}."
            )
        most: Any = self.max_features
        whole = isinstance(most, Integral)
        if most is not None and not (
            most >= 1 if whole else isinstance(most, float) and 0 < most <= 1
        ):
            raise InputError(
                "max_features must be a whole number from 1 on, a part of all above 0 and up to 1, or None; "
                f"got {most!r}."
            )
        if np.dtype(self.dtype).name not in ("float32", "float64"):
            raise InputError(f"dtype must be 'float32' or 'float64'; got {self.dtype!r}.")
        if self.validation_fraction is not None and not 0 < self.validation_fraction < 1:
            raise InputError(
                f"validation_fraction must lie between 0 and 1, or be None; got {self.validation_fraction}."
            )

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


class RFMRegressor(RegressorMixin, MultiOutputMixin, _RecursiveFeatureMachine):
    """Kernel ridge regression with a metric that is learned from its own features.

    Parameters
    ----------
    update : "agop" (NFA-RFM), "fact", "fact-geometric" (FACT-RFM without and with averaging), `None` for
        plain kernel ridge regression, or "auto": none, AGOP or FACT, by held-out error.
    kernel : "laplace", "gaussian", "generalized-laplace" (with `exponent`), "polynomial" (with `degree` and
        `constant`) or "exponential".
    bandwidth : length scale of the kernel; "median" takes the median distance of the data, "auto" the best of
        some on held-out samples.
    ridge : lambda; n lambda is added to the diagonal of the kernel matrix; "auto" takes the best of some.
    iterations : most feature updates.
    diagonal : learn a scale for each input instead of a full matrix.
    agop_power : exponent of the AGOP.
    exponent : of the generalized Laplace kernel.
    degree, constant : of the polynomial kernel.
    max_features : inputs that updates leave in the metric, the most important ones: a number, or a part of
        all; `None` for all.
    categorical_features : columns that are categories: "from_dtype" (categories and strings of a pandas
        frame), positions, names or a mask, or `None`.
    standardize : divide each column by its spread, categories too.
    validation_fraction : part of the data by which the iteration is chosen where nothing is "auto" (else
        folds are held out); `None` takes the last.
    patience : stop when so many updates brought nothing better; `None` makes all of them.
    warm_start : begin with the metric, and with the settings, that the fit before has found.
    solver : "cholesky"; "iterative" (conjugate gradients with a Nystrom preconditioner), which never holds
        the n x n kernel matrix; or "auto": the first where that matrix fits into memory.
    dtype : "float64" or "float32".
    device : "cpu" (NumPy and LAPACK) or "jax" (the device that JAX computes on: a GPU if it has one).
    random_state : seed of the split.

    Attributes
    ----------
    best_params_ : update, bandwidth and ridge of the machine.
    feature_matrix_, feature_importances_ : the learned metric, of trace d, and its diagonal a column.
    feature_interactions_ : how much columns act together, as parts of the variance (`plot_interactions`).
    columns_ : how columns became inputs.
    feature_importances_std_ : spread of the importances over folds; `None` where nothing is "auto".
    n_iter_ : the update that was kept; validation_scores_ : mean squared error after each.
    dual_coef_ : coefficients of the machine.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RFMRegressor":
        """Learn the metric and the machine.

        Parameters
        ----------
        X : a table `(n, columns)`; NaN is missing.
        y : targets `(n,)` or `(n, outputs)`.
        sample_weight : how much each sample counts, at least 0.
        """
        x, y = self._read(X, y, multi_output=True, y_numeric=True)
        weights = _weights(sample_weight, x)
        self._one_output = y.ndim == 1
        self._fit(x, np.asarray(y, dtype=float).reshape(len(y), -1), None, weights)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Outputs, in the shape of the targets."""
        outputs = self._outputs(X)
        return outputs[:, 0] if self._one_output else outputs


class RFMClassifier(ClassifierMixin, _RecursiveFeatureMachine):
    """Classification by regression on the classes, with a learned metric.

    Two classes are one output of -1 and 1, more are one output each.

    Parameters
    ----------
    update : "agop" (NFA-RFM), "fact", "fact-geometric" (FACT-RFM without and with averaging), `None` for
        plain kernel ridge regression, or "auto": none, AGOP or FACT, by held-out error.
    kernel : "laplace", "gaussian", "generalized-laplace" (with `exponent`), "polynomial" (with `degree` and
        `constant`) or "exponential".
    bandwidth : length scale of the kernel; "median" takes the median distance of the data, "auto" the best of
        some on held-out samples.
    ridge : lambda; n lambda is added to the diagonal of the kernel matrix; "auto" takes the best of some.
    iterations : most feature updates.
    diagonal : learn a scale for each input instead of a full matrix.
    agop_power : exponent of the AGOP.
    exponent : of the generalized Laplace kernel.
    degree, constant : of the polynomial kernel.
    max_features : inputs that updates leave in the metric, the most important ones: a number, or a part of
        all; `None` for all.
    categorical_features : columns that are categories: "from_dtype" (categories and strings of a pandas
        frame), positions, names or a mask, or `None`.
    standardize : divide each column by its spread, categories too.
    validation_fraction : part of the data by which the iteration is chosen where nothing is "auto" (else
        folds are held out); `None` takes the last.
    patience : stop when so many updates brought nothing better; `None` makes all of them.
    warm_start : begin with the metric, and with the settings, that the fit before has found.
    solver : "cholesky"; "iterative" (conjugate gradients with a Nystrom preconditioner), which never holds
        the n x n kernel matrix; or "auto": the first where that matrix fits into memory.
    dtype : "float64" or "float32".
    device : "cpu" (NumPy and LAPACK) or "jax" (the device that JAX computes on: a GPU if it has one).
    random_state : seed of the split.
    class_weight : how much each class counts: a dictionary, "balanced" or `None`.

    Attributes
    ----------
    classes_ : the labels.
    steepness_ : of the probabilities; `None` where nothing was held out, and the nearest ones are taken.
    best_params_, feature_matrix_, feature_importances_, feature_importances_std_, feature_interactions_,
    columns_, n_iter_, validation_scores_, dual_coef_ : as of `RFMRegressor`.
    """

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
        standardize: Any = False,
        validation_fraction: Any = 0.2,
        patience: Any = None,
        warm_start: Any = False,
        solver: Any = "auto",
        dtype: Any = "float64",
        device: Any = "cpu",
        random_state: Any = None,
        class_weight: Any = None,
    ):
        super().__init__(
            update,
            kernel,
            bandwidth,
            ridge,
            iterations,
            diagonal,
            agop_power,
            exponent,
            degree,
            constant,
            max_features,
            categorical_features,
            standardize,
            validation_fraction,
            patience,
            warm_start,
            solver,
            dtype,
            device,
            random_state,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "RFMClassifier":
        """Learn the metric and the machine.

        Parameters
        ----------
        X : a table `(n, columns)`; NaN is missing.
        y : labels `(n,)`.
        sample_weight : how much each sample counts, at least 0.
        """
        x, y = self._read(X, y)
        check_classification_targets(y)
        weights = _weights(sample_weight, x)
        self.classes_, codes = np.unique(y, return_inverse=True)
        seen = codes if weights is None else codes[weights > 0]
        if len(np.unique(seen)) < 2:
            raise ValueError("Classification needs at least two classes; there is 1 class.")
        if self.class_weight is not None:
            by_class = compute_class_weight(
                self.class_weight, classes=self.classes_, y=y, sample_weight=weights
            )[codes]
            weights = by_class if weights is None else weights * by_class
        two = len(self.classes_) == 2
        targets = 2.0 * codes[:, None] - 1.0 if two else np.eye(len(self.classes_))[codes]
        self._fit(x, targets, codes, weights)
        self.steepness_ = self._steepness()
        return self

    def _steepness(self) -> float | None:
        """Of the probabilities, by what was held out; `None` where nothing was."""
        if self._held_out is None:
            return None
        outputs, labels, weights = self._held_out
        known = np.isfinite(outputs).all(axis=1)
        del self._held_out
        if not known.any():
            return None
        mass = None if weights is None else weights[known]
        return steepness(self._by_class(outputs[known] + self.intercept_), labels[known], mass)

    def decision_function(self, X: Any) -> np.ndarray:
        """One number a sample for two classes (positive: the second), else one a class."""
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, calibrated on held-out samples; the most likely class is the predicted one."""
        return probabilities(self._by_class(self._outputs(X)), self.steepness_)

    def _by_class(self, outputs: np.ndarray) -> np.ndarray:
        """One output a class, also where there are two."""
        if len(self.classes_) > 2:
            return outputs
        return np.column_stack([1 - outputs[:, 0], 1 + outputs[:, 0]]) / 2

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class."""
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            return self.classes_[(outputs[:, 0] > 0).astype(int)]
        return self.classes_[np.argmax(outputs, axis=1)]


def _weights(given: Any, x: np.ndarray) -> np.ndarray | None:
    if given is None:
        return None
    return _check_sample_weight(given, x, dtype=np.float64, ensure_non_negative=True)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _array_module(device: str) -> ModuleType:
    if device == "cpu":
        return np
    if device != "jax":
        raise InputError(f"device must be 'cpu' or 'jax'; got {device!r}.")
    import jax.numpy as jnp

    return jnp


@contextlib.contextmanager
def _precision(xp: ModuleType, dtype: str) -> Iterator[None]:
    """JAX computes in float64, and float32 in full, inside the package's own contexts alone."""
    if xp is np:
        yield
        return
    from saddlewalk.precision import exact_products, float64

    with exact_products(), float64() if np.dtype(dtype) == np.float64 else contextlib.nullcontext():
        yield

"""Recursive Feature Machines as scikit-learn estimators.

    from saddlewalk.features import RFMClassifier

    model = make_pipeline(StandardScaler(), RFMClassifier(update="fact")).fit(X, y)
    model[-1].feature_matrix_

Everything that is "auto" is chosen on folds that are held out (`tuning`); `best_params_` says what it is.
Where nothing is, each iteration is judged on a held-out part of the data, and the metric of the best one is
kept. The machine is fitted anew with the metric on all data.
"""

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from saddlewalk.errors import InputError
from saddlewalk.features.kernels import AbstractKernel, kernel_named
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
_MOST_TO_SEARCH, _FEW = 1500, 500
"""Samples that settings are searched on, at most; up to how many there are five folds."""
_CANDIDATES = ("agop", "fact")
_LITTLE_PATIENCE = 1
"""Updates without a gain that end what is done with all samples after a search on some."""
_FEWEST_TO_JUDGE = 4
"""With fewer samples to judge by, all iterations are made and the last is taken."""
_NO_WORSE = 1e-12
_SOLVED = 1e-4
"""Part of the targets that an iterative solver may leave."""


class _RecursiveFeatureMachine(BaseEstimator):
    """What classifier and regressor share: everything but the coding of targets.

    As scikit-learn asks, settings are taken as they come and checked in `fit`.
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
        validation_fraction: Any = 0.2,
        patience: Any = None,
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
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.solver = solver
        self.dtype = dtype
        self.device = device
        self.random_state = random_state

    def _fit(self, x: np.ndarray, targets: np.ndarray, labels: np.ndarray | None) -> None:
        """Find the metric, then fit the machine with it; `targets` are `(n, c)`."""
        self._check_settings()
        xp = _array_module(self.device)
        self.intercept_ = targets.mean(axis=0)
        self.kernel_ = self._kernel(x)
        # distances do not see where the origin is, but rounding does
        self.offset_ = x.mean(axis=0) if self.kernel_.radial else np.zeros(x.shape[1])
        x = x - self.offset_
        found = self._search(x, targets - self.intercept_, labels)
        recursion = self._recursion(found, len(x), xp)
        with _precision(xp, self.dtype):
            inputs, centered, metric = (
                xp.asarray(values, dtype=self.dtype)
                for values in (x, targets - self.intercept_, np.ones(x.shape[1]))
            )
            metric = metric if self.diagonal else xp.diag(metric)
            learns = recursion.update is not None and self.iterations > 0 and bool(xp.any(centered))
            if found is not None:
                metric = xp.asarray(self._mean_metric(found), dtype=self.dtype)
            else:
                self.n_iter_, self.validation_scores_ = 0, np.zeros(0)
            if learns and (found is None or len(x) > _MOST_TO_SEARCH):
                # the folds saw only some of the samples: all of them make the metric sharper
                patience = self.patience if found is None else _LITTLE_PATIENCE
                metric = self._best_metric(recursion, inputs, centered, metric, labels, patience)
            machine = recursion.fit(inputs, centered, metric)
        if machine is None:
            raise InputError(
                "The kernel matrix cannot be factored, even with a larger diagonal. Raise the ridge."
            )
        self._warn_of_conditioning(machine)
        on_host = (
            np.asarray(values) for values in (machine.metric, machine.centers, machine.alpha)
        )
        metric, centers, self.dual_coef_ = on_host
        self.machine_ = replace(machine, metric=metric, centers=centers, alpha=self.dual_coef_)

    def _recursion(self, found: Setting | None, n: int, xp: ModuleType) -> Recursion:
        """With the settings that were found, or as given; `best_params_` says which."""
        update, ridge = self.update, self.ridge
        if found is not None:
            self.kernel_, update, ridge = found.kernel, found.update, found.ridge / n
        self.best_params_ = {
            "update": update,
            "bandwidth": self.kernel_.bandwidth,
            "ridge": float(ridge),
        }
        return Recursion(self.kernel_, ridge, update, self.agop_power, xp, self.solver)

    def _search(
        self, x: np.ndarray, centered: np.ndarray, labels: np.ndarray | None
    ) -> Setting | None:
        """The best setting of all that is "auto"; `None` where nothing is."""
        if "auto" not in (self.update, self.ridge) and not _is_auto(self.bandwidth):
            self.feature_importances_std_ = None
            return None
        rows = self._rows_to_search(len(x))
        length = self.kernel_.bandwidth
        lengths = [length * b for b in BANDWIDTHS] if _is_auto(self.bandwidth) else [length]
        size = float(np.mean(self._diagonal_of_kernel(x[rows])))
        ridges = [size * r for r in RIDGES] if self.ridge == "auto" else [self.ridge * len(x)]
        chosen = _CANDIDATES if self.update == "auto" else (self.update,)
        search = Search(
            np.ascontiguousarray(x[rows]), centered[rows], self._folds(len(rows), labels, rows),
            with_bandwidths(self.kernel_, lengths), ridges, self.agop_power,
        )  # fmt: skip
        start = np.ones(x.shape[1]) if self.diagonal else np.eye(x.shape[1])
        steps = self.iterations if np.any(centered) else 0
        found, errors = search.best(start, [u for u in chosen if u is not None and steps], steps)
        self.n_iter_, self.validation_scores_ = found.step, np.array(errors)
        return found

    def _mean_metric(self, found: Setting) -> np.ndarray:
        """The mean of the folds' metrics; the spread of their diagonals is kept."""
        parts = found.metrics if self.diagonal else np.einsum("fii->fi", found.metrics)
        self.feature_importances_std_ = np.std(parts / parts.sum(axis=1, keepdims=True), axis=0)
        return np.mean(found.metrics, axis=0)

    def _diagonal_of_kernel(self, x: np.ndarray) -> np.ndarray:
        squares = np.zeros(len(x)) if self.kernel_.radial else np.sum(x**2, axis=1)
        return np.asarray(self.kernel_.value(np, squares))

    def _rows_to_search(self, n: int) -> np.ndarray:
        rows = np.arange(n)
        if n <= _MOST_TO_SEARCH:
            return rows
        return np.sort(check_random_state(self.random_state).permutation(n)[:_MOST_TO_SEARCH])

    def _folds(self, n: int, labels: np.ndarray | None, rows: np.ndarray) -> Any:
        """Five for few samples, three for many; as many of each class in each as there can be."""
        count = max(2, min(n, 5 if n <= _FEW else 3))
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        if n < _FEWEST_TO_JUDGE:
            return [(np.arange(n), np.arange(n))]
        if labels is not None and np.unique(labels[rows], return_counts=True)[1].max() >= count:
            with warnings.catch_warnings():
                # a class with fewer samples than folds is in some of them
                warnings.simplefilter("ignore", UserWarning)
                cut = StratifiedKFold(count, shuffle=True, random_state=seed)
                return list(cut.split(np.zeros(n), labels[rows]))
        return list(KFold(count, shuffle=True, random_state=seed).split(np.zeros(n)))

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
        patience: int | None,
    ) -> Any:
        """The metric of the iteration with the smallest error on held-out samples."""
        xp = recursion.xp
        rows, validation = self._split(len(x), labels)
        scores: list[float] = []
        best, best_metric = np.inf, metric
        self.n_iter_ = 0
        for step, machine in enumerate(recursion.machines(x[rows], y[rows], metric)):
            judged = validation if len(validation) else rows
            error = float(xp.mean((machine.predict(xp, x[judged]) - y[judged]) ** 2))
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

    def _split(self, n: int, labels: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        everything = np.arange(n)
        if self.validation_fraction is None or n * self.validation_fraction < _FEWEST_TO_JUDGE:
            return everything, everything[:0]
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        strata = labels
        if labels is not None:
            counts = np.unique(labels, return_counts=True)[1]
            judging = int(self.validation_fraction * n)
            if counts.min() < 2 or min(judging, n - judging) <= len(counts):
                strata = None
        rows, validation = train_test_split(
            everything, test_size=self.validation_fraction, random_state=seed, stratify=strata
        )
        return np.sort(rows), np.sort(validation)

    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64) - self.offset_
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
        if np.dtype(self.dtype).name not in ("float32", "float64"):
            raise InputError(f"dtype must be 'float32' or 'float64'; got {self.dtype!r}.")
        if self.validation_fraction is not None and not 0 < self.validation_fraction < 1:
            raise InputError(
                f"validation_fraction must lie between 0 and 1, or be None; got {self.validation_fraction}."
            )

    @property
    def feature_matrix_(self) -> np.ndarray:
        """The metric M `(d, d)`, of trace d: which directions of the input matter."""
        check_is_fitted(self)
        metric = self.machine_.metric
        return np.diag(metric) if metric.ndim == 1 else metric

    @property
    def feature_importances_(self) -> np.ndarray:
        """The diagonal of M, as parts of its trace."""
        diagonal = np.diag(self.feature_matrix_)
        return diagonal / diagonal.sum()


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
    validation_fraction : part of the data by which the iteration is chosen where nothing is "auto" (else
        folds are held out); `None` takes the last.
    patience : stop when so many updates brought nothing better; `None` makes all of them.
    solver : "cholesky"; "iterative" (conjugate gradients with a Nystrom preconditioner), which never holds
        the n x n kernel matrix; or "auto": the first where that matrix fits into memory.
    dtype : "float64" or "float32".
    device : "cpu" (NumPy and LAPACK) or "jax" (the device that JAX computes on: a GPU if it has one).
    random_state : seed of the split.

    Attributes
    ----------
    best_params_ : update, bandwidth and ridge of the machine.
    feature_matrix_, feature_importances_ : the learned metric, of trace d, and its diagonal.
    feature_importances_std_ : spread of the importances over folds; `None` where nothing is "auto".
    n_iter_ : the update that was kept; validation_scores_ : mean squared error after each.
    dual_coef_ : coefficients of the machine.
    """

    def fit(self, X: Any, y: Any) -> "RFMRegressor":
        """Learn the metric and the machine."""
        x, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64)
        self._one_output = y.ndim == 1
        self._fit(x, np.asarray(y, dtype=float).reshape(len(y), -1), None)
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
    validation_fraction : part of the data by which the iteration is chosen where nothing is "auto" (else
        folds are held out); `None` takes the last.
    patience : stop when so many updates brought nothing better; `None` makes all of them.
    solver : "cholesky"; "iterative" (conjugate gradients with a Nystrom preconditioner), which never holds
        the n x n kernel matrix; or "auto": the first where that matrix fits into memory.
    dtype : "float64" or "float32".
    device : "cpu" (NumPy and LAPACK) or "jax" (the device that JAX computes on: a GPU if it has one).
    random_state : seed of the split.

    Attributes
    ----------
    classes_ : the labels.
    best_params_, feature_matrix_, feature_importances_, feature_importances_std_, n_iter_,
    validation_scores_, dual_coef_ : as of `RFMRegressor`.
    """

    def fit(self, X: Any, y: Any) -> "RFMClassifier":
        """Learn the metric and the machine."""
        x, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("Classification needs at least two classes; there is 1 class.")
        two = len(self.classes_) == 2
        self._fit(
            x, 2.0 * codes[:, None] - 1.0 if two else np.eye(len(self.classes_))[codes], codes
        )
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """One number a sample for two classes (positive: the second), else one a class."""
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict_proba(self, X: Any) -> np.ndarray:
        """The nearest probabilities to the outputs; the most likely class is the one that is predicted."""
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            outputs = np.column_stack([1 - outputs[:, 0], 1 + outputs[:, 0]]) / 2
        return _on_simplex(outputs)

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class."""
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            return self.classes_[(outputs[:, 0] > 0).astype(int)]
        return self.classes_[np.argmax(outputs, axis=1)]


def _on_simplex(points: np.ndarray) -> np.ndarray:
    """Each row moved to the nearest one that is not negative and sums to 1."""
    falling = -np.sort(-points, axis=1)
    many = np.arange(1, points.shape[1] + 1)
    shifts = (np.cumsum(falling, axis=1) - 1) / many
    last = np.sum(falling > shifts, axis=1) - 1
    return np.maximum(points - shifts[np.arange(len(points)), last][:, None], 0)


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

"""Recursive Feature Machines as scikit-learn estimators.

    from saddlewalk.features import RFMClassifier

    model = make_pipeline(StandardScaler(), RFMClassifier(update="fact")).fit(X, y)
    model[-1].feature_matrix_

Here is how targets are coded; how machines are found is in `recursive`.
"""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from saddlewalk.errors import InputError
from saddlewalk.features.checks import check_labels
from saddlewalk.features.probabilities import probabilities, steepness
from saddlewalk.features.recursive import RecursiveFeatureMachine


class RFMRegressor(RegressorMixin, MultiOutputMixin, RecursiveFeatureMachine):
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
    iterations : most feature updates; after a search on some of the samples, on each level of more of them.
    diagonal : learn a scale for each input instead of a full matrix.
    agop_power : exponent of the AGOP.
    exponent : of the generalized Laplace kernel.
    degree, constant : of the polynomial kernel.
    max_features : inputs that updates leave in the metric, the most important ones: a number, or a part of
        all; `None` for all.
    categorical_features : columns that are categories: "from_dtype" or `None` (categories and words of a
        pandas frame), or positions, names or a mask of others beside these.
    standardize : divide each column by its spread, categories too; "auto" where spreads differ and that
        makes the error on samples that are left out smaller (never where the bandwidth is a number).
    validation_fraction : part of the data by which the iteration is chosen where nothing is "auto" (else
        folds are held out, and a part of what they have not seen); `None` takes the last.
    patience : stop when so many updates brought nothing better; `None`: two in a search, one on a level of
        more samples, and where nothing is "auto" make all of them.
    warm_start : begin with the metric of the fit before, and with what it found of the settings that are
        "auto". With other inputs, another kernel, or where it has not found all of these, search anew.
    solver : "cholesky"; "iterative" (conjugate gradients with a Nystrom preconditioner), exact without the
        n x n kernel matrix; "tree": a machine for each part of space; or "auto": Cholesky up to `leaf_size`
        samples, a tree above.
    leaf_size : samples of a part, at most (and some in its borders); "auto": 10,000, less for more than
        250,000 samples so that time grows in proportion to them; 30,000 on an accelerator.
    dtype : "float64", "float32", or "auto": single precision for more than 2,000 samples where the ridge is
        "auto", and on an accelerator.
    device : "cpu" (NumPy and LAPACK); "torch" (the GPU that PyTorch sees, if any) or a device of PyTorch's,
        such as "cuda:1"; or "jax" (the device of JAX, which compiles for each new size).
    random_state : seed of the split.

    Attributes
    ----------
    best_params_ : update, bandwidth and ridge of the machine.
    feature_matrix_, feature_importances_ : the learned metric, of trace d, and its diagonal a column.
    feature_interactions_ : how much columns act together, as parts of the variance (`plot_interactions`).
    columns_ : how columns became inputs.
    feature_importances_std_ : spread of the importances over the folds of the search, of at most 1,500
        samples; `None` where nothing is "auto".
    n_iter_ : how many updates were kept, of all levels; validation_scores_ : mean squared error after each
        (of several outputs the mean part of their variances that is left, times their mean variance).
    intercept_, spread_ : mean and standard deviation of each output, in units of which all are learned alike.
    machine_ : the machine, or the tree of machines, of targets in these units; dual_coef_ : its coefficients
        in units of the targets, of one leaf after another.
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


class RFMClassifier(ClassifierMixin, RecursiveFeatureMachine):
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
    iterations : most feature updates; after a search on some of the samples, on each level of more of them.
    diagonal : learn a scale for each input instead of a full matrix.
    agop_power : exponent of the AGOP.
    exponent : of the generalized Laplace kernel.
    degree, constant : of the polynomial kernel.
    max_features : inputs that updates leave in the metric, the most important ones: a number, or a part of
        all; `None` for all.
    categorical_features : columns that are categories: "from_dtype" or `None` (categories and words of a
        pandas frame), or positions, names or a mask of others beside these.
    standardize : divide each column by its spread, categories too; "auto" where spreads differ and that
        makes the error on samples that are left out smaller (never where the bandwidth is a number).
    validation_fraction : part of the data by which the iteration is chosen where nothing is "auto" (else
        folds are held out, and a part of what they have not seen); `None` takes the last.
    patience : stop when so many updates brought nothing better; `None`: two in a search, one on a level of
        more samples, and where nothing is "auto" make all of them.
    warm_start : begin with the metric of the fit before, and with what it found of the settings that are
        "auto". With other inputs, another kernel, or where it has not found all of these, search anew.
    solver : "cholesky"; "iterative" (conjugate gradients with a Nystrom preconditioner), exact without the
        n x n kernel matrix; "tree": a machine for each part of space; or "auto": Cholesky up to `leaf_size`
        samples, a tree above.
    leaf_size : samples of a part, at most (and some in its borders); "auto": 10,000, less for more than
        250,000 samples so that time grows in proportion to them; 30,000 on an accelerator.
    dtype : "float64", "float32", or "auto": single precision for more than 2,000 samples where the ridge is
        "auto", and on an accelerator.
    device : "cpu" (NumPy and LAPACK); "torch" (the GPU that PyTorch sees, if any) or a device of PyTorch's,
        such as "cuda:1"; or "jax" (the device of JAX, which compiles for each new size).
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
        standardize: Any = "auto",
        validation_fraction: Any = 0.2,
        patience: Any = None,
        warm_start: Any = False,
        solver: Any = "auto",
        leaf_size: Any = "auto",
        dtype: Any = "auto",
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
            leaf_size,
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
        if y is not None:
            check_labels(y)
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
            )
            if by_class.min() < 0:
                raise InputError(f"class_weight must not be negative; got {self.class_weight}.")
            by_class = by_class[codes]
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

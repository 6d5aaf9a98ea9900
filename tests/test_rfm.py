"""Recursive Feature Machines: matrices against autodiff, scikit-learn's checks, tasks that need features."""

import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import saddlewalk as sw
from saddlewalk.features import RFMClassifier, RFMRegressor, solvers
from saddlewalk.features.kernels import KERNELS, kernel_named
from saddlewalk.features.probabilities import on_simplex
from saddlewalk.features.rfm import Machine, Recursion
from saddlewalk.features.tuning import Search, with_bandwidths


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small matrices: threads of linear algebra would wait for each other, and for other tests."""
    with threadpool_limits(1):
        yield


RNG = np.random.default_rng(0)
X, ALPHA = RNG.normal(size=(9, 3)), RNG.normal(size=(9, 2))
ROOT = RNG.normal(size=(3, 3))
METRICS = {"full": ROOT.T @ ROOT, "diagonal": np.array([0.5, 2.0, 1.0])}


def by_hand(name, metric):
    """The kernel as a function of two points, written anew."""
    M, L = jnp.diag(metric) if metric.ndim == 1 else jnp.asarray(metric), 1.3
    square = lambda a, b: (a - b) @ M @ (a - b)  # noqa: E731
    return {
        "laplace": lambda a, b: jnp.exp(-jnp.sqrt(square(a, b)) / L),
        "gaussian": lambda a, b: jnp.exp(-square(a, b) / (2 * L**2)),
        "generalized-laplace": lambda a, b: jnp.exp(-((jnp.sqrt(square(a, b)) / L) ** 1.4)),
        "polynomial": lambda a, b: (a @ M @ b / L**2 + 0.5) ** 3,
        "exponential": lambda a, b: jnp.exp(a @ M @ b / L**2),
    }[name]


@pytest.mark.parametrize("shape", METRICS)
@pytest.mark.parametrize("name", KERNELS)
def test_matrices_against_autodiff(name, shape, monkeypatch):
    """Definitions of AGOP and of FACT (Lemma F.1) with gradients by JAX, sample by sample."""
    metric, kernel = METRICS[shape], kernel_named(name, 1.3, 1.4, 3, 0.5)
    with sw.float64():
        function = by_hand(name, metric)
        values = jax.vmap(jax.vmap(function, (None, 0)), (0, None))(jnp.asarray(X), jnp.asarray(X))
        slopes = np.array(
            jax.vmap(jax.vmap(jax.grad(function), (None, 0)), (0, None))(
                jnp.asarray(X), jnp.asarray(X)
            )
        )
    if kernel.radial:
        slopes[np.arange(9), np.arange(9)] = 0.0  # the kink of x - x
    geometry = Recursion(kernel, 0.0, None).whole_geometry(X, metric)
    K = kernel.value(np, geometry)
    np.testing.assert_allclose(K, values, rtol=1e-10, atol=1e-12)
    fact = sum(
        np.outer(slopes[i, j], X[i]) * (ALPHA[j] @ ALPHA[i]) for i in range(9) for j in range(9)
    )
    gradients = np.einsum("ijd,jc->icd", slopes, ALPHA)
    agop = np.einsum("icd,ice->de", gradients, gradients)
    if metric.ndim == 1:
        fact, agop = np.diag(fact), np.diag(agop)
    recursion = Recursion(kernel, 0.0, None)
    machine = Machine(kernel, metric, X, ALPHA)
    np.testing.assert_allclose(recursion.fact(machine), fact, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(recursion.agop(machine), agop / 9, rtol=1e-9, atol=1e-10)
    # and as sums over blocks of rows, none of which holds all of the kernel
    monkeypatch.setattr("saddlewalk.features.rfm._BLOCK_NUMBERS", 1)
    monkeypatch.setattr("saddlewalk.features.rfm._BLOCK_ROWS", 4)
    monkeypatch.setattr(solvers, "fits", lambda *_, **__: False)
    np.testing.assert_allclose(recursion.fact(machine), fact, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(recursion.agop(machine), agop / 9, rtol=1e-9, atol=1e-10)


def test_proposition_5_1():
    """Inner-product kernels: FACT M and AGOP differ in tau and k' alone; FACT M is semidefinite."""
    M, kernel = METRICS["full"], kernel_named("exponential", 1.3)
    t = X @ M @ X.T
    slope = np.exp(t / 1.69) / 1.69
    tau = slope.T @ slope / 9
    A = ALPHA @ ALPHA.T
    recursion, machine = Recursion(kernel, 0.0, None), Machine(kernel, M, X, ALPHA)
    fact, agop = recursion.fact(machine), recursion.agop(machine)
    np.testing.assert_allclose(fact @ M, M @ X.T @ (slope * A) @ X @ M, rtol=1e-9)
    np.testing.assert_allclose(agop, M @ X.T @ (tau * A) @ X @ M, rtol=1e-9)
    assert np.linalg.eigvalsh((fact @ M + M @ fact.T) / 2).min() > -1e-10


def test_fact_is_the_gradient_of_an_objective():
    """FACT = -M dJ/dM for J = y (K_M + n lambda)^-1 y: what the update makes stationary."""
    y, ridge = RNG.normal(size=(9, 1)), 0.02
    kernel, M = kernel_named("gaussian", 1.3), METRICS["full"]
    recursion = Recursion(kernel, ridge, "fact")
    fact = recursion.fact(recursion.fit(X, y, M))
    with sw.float64():

        def objective(metric):
            delta = jnp.asarray(X)[:, None] - jnp.asarray(X)[None]
            K = jnp.exp(-jnp.einsum("ijd,de,ije->ij", delta, metric, delta) / (2 * 1.69))
            return jnp.sum(y * jnp.linalg.solve(K + 9 * ridge * jnp.eye(9), y))

        slope = np.asarray(jax.grad(objective)(jnp.asarray(M)))
    np.testing.assert_allclose(fact, -M @ (slope + slope.T) / 2, rtol=1e-8)


def test_without_updates_it_is_kernel_ridge():
    y = RNG.normal(size=9)
    ours = RFMRegressor(update=None, kernel="gaussian", bandwidth=1.3, ridge=0.01).fit(X, y)
    peer = KernelRidge(alpha=0.09, kernel="rbf", gamma=1 / (2 * 1.69)).fit(X, y - y.mean())
    new = RNG.normal(size=(5, 3))
    np.testing.assert_allclose(ours.predict(new), peer.predict(new) + y.mean(), rtol=1e-8)


@pytest.mark.parametrize("kernel", ["laplace", "gaussian", "polynomial"])
def test_iterative_solver_finds_what_cholesky_finds(kernel):
    x = RNG.normal(size=(300, 5))
    y = np.column_stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2], np.zeros(300)])
    machine = kernel_named(kernel, 2.0, constant=1.0)
    metric = np.diag([3.0, 1.0, 0.5, 0.3, 0.2])
    direct, iterative = (
        Recursion(machine, 1e-4, "fact", solver=solver).fit(x, y, metric)
        for solver in ("cholesky", "iterative")
    )
    np.testing.assert_allclose(
        iterative.alpha, direct.alpha, atol=1e-5 * np.abs(direct.alpha).max()
    )
    assert iterative.residual < 1e-8
    assert not iterative.alpha[:, 2].any()


def test_preconditioner_is_the_inverse_where_all_samples_are_landmarks(monkeypatch):
    """Then P = K + ridge up to the scale of its smallest eigenvalue, and one step solves."""
    x = RNG.normal(size=(40, 3))
    K = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / 2)
    order = RNG.permutation(40)
    precondition = solvers.nystrom(np, K[:, order], order, 0.1)
    y = RNG.normal(size=(40, 2))
    smallest = np.linalg.eigvalsh(K)[0]
    truth = (smallest + 0.1) * np.linalg.solve(K + 0.1 * np.eye(40), y)
    np.testing.assert_allclose(precondition(y), truth, atol=1e-6)


def test_without_the_kernel_matrix_it_is_the_same(monkeypatch):
    x = RNG.normal(size=(200, 4))
    y = np.sin(2 * x[:, 0])
    given = {"bandwidth": "median", "ridge": 1e-3, "random_state": 0}
    held = RFMRegressor("fact", **given).fit(x, y)
    monkeypatch.setattr(solvers, "cholesky", None)
    monkeypatch.setattr("saddlewalk.features.rfm._BLOCK_NUMBERS", 1)
    free = RFMRegressor("fact", solver="iterative", **given).fit(x, y)
    np.testing.assert_allclose(free.feature_matrix_, held.feature_matrix_, rtol=1e-4, atol=1e-6)
    with pytest.warns(ConvergenceWarning, match="unsolved"):
        RFMRegressor(None, kernel="gaussian", bandwidth=50.0, ridge=0.0, solver="iterative").fit(
            np.repeat(x, 2, axis=0), RNG.normal(size=400)
        )


@parametrize_with_checks(
    [
        RFMRegressor(),
        RFMRegressor(update="fact"),
        RFMClassifier(),
        RFMClassifier(update="fact", diagonal=True),
    ],
    # copies fall into folds in another way than weights do; without folds: test_rfm_options.py
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": "folds"},
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


# --- what is chosen by itself -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_errors_of_a_search_are_those_of_another_library(name):
    """Every bandwidth and ridge, fold by fold, by scikit-learn's kernel ridge regression."""
    x, y = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 2))
    kernels, ridges = with_bandwidths(kernel_named(name, 1.0), [0.7, 1.3]), [0.01, 0.5]
    folds = [(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]
    truth = np.zeros((2, 2))
    for i, kernel in enumerate(kernels):
        for j, ridge in enumerate(ridges):
            for seen, held in folds:
                apart = lambda a, b: np.linalg.norm(a[:, None] - b, axis=2) / kernel.bandwidth  # noqa: B023, E731
                shape = (
                    (lambda r: np.exp(-r)) if name == "laplace" else (lambda r: np.exp(-(r**2) / 2))
                )
                peer = KernelRidge(alpha=ridge, kernel="precomputed")
                peer.fit(shape(apart(x[seen], x[seen])), y[seen])
                found = peer.predict(shape(apart(x[held], x[seen])))
                truth[i, j] += np.mean((found - y[held]) ** 2) / 2
    best, errors = Search(x, y, folds, kernels, ridges).best(np.eye(3), [], 0)
    assert errors == [pytest.approx(truth.min(), rel=1e-8)]
    i, j = np.unravel_index(truth.argmin(), truth.shape)
    assert (best.kernel, best.ridge, best.step) == (kernels[i], ridges[j], 0)


def test_as_it_comes_it_is_no_worse_than_a_search_by_hand():
    """Twelve settings by hand, each judged by cross-validation, then on samples that none has seen."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(900, 12))
    y = np.sin(2 * x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=900)
    grid = {
        "update": ["agop", "fact"],
        "bandwidth": [2.5, 5.0, 10.0],
        "ridge": [1e-5, 1e-3],
    }
    by_hand = GridSearchCV(RFMRegressor(random_state=0), grid, cv=3).fit(x[:300], y[:300])
    by_itself = RFMRegressor(random_state=0).fit(x[:300], y[:300])
    assert by_itself.score(x[300:], y[300:]) > by_hand.score(x[300:], y[300:]) - 0.01
    assert set(by_itself.best_params_) == {"update", "bandwidth", "ridge"}
    assert np.sort(np.argsort(-by_itself.feature_importances_)[:2]).tolist() == [0, 1]
    spread = by_itself.feature_importances_std_
    assert spread.shape == (12,)
    assert spread.max() < by_itself.feature_importances_[:2].min()


def test_what_was_chosen_can_be_given():
    """The search ends where a machine with its settings and its metric stands."""
    x = RNG.normal(size=(120, 4))
    y = np.abs(x[:, 0])
    found = RFMRegressor(random_state=0).fit(x, y)
    assert found.best_params_["update"] in ("agop", "fact")
    given = Recursion(
        kernel_named("laplace", found.best_params_["bandwidth"]),
        found.best_params_["ridge"],
        found.best_params_["update"],
    ).fit(x, (y - y.mean())[:, None], found.feature_matrix_)
    new = RNG.normal(size=(10, 4))
    np.testing.assert_allclose(given.predict(np, new)[:, 0] + y.mean(), found.predict(new))


def test_the_update_is_chosen_by_data():
    """Parity of two inputs, which no kernel learns without features from so few samples."""
    x, y, new, truth, support = parity(2, 400, 20)
    model = RFMClassifier(random_state=0).fit(x, y)
    assert model.best_params_["update"] is not None
    assert model.score(new, truth) > 0.97
    np.testing.assert_array_equal(np.sort(np.argsort(-model.feature_importances_)[:2]), support)


def test_more_samples_than_are_searched_on(monkeypatch):
    """What a search on some samples found is made sharper with all of them."""
    x = np.random.default_rng(2).normal(size=(1600, 10))
    y = np.sin(x[:, 0]) * x[:, 1] + x[:, 2] ** 2
    monkeypatch.setattr("saddlewalk.features.recursive._MOST_TO_SEARCH", 200)
    some = RFMRegressor(random_state=0).fit(x[:600], y[:600])
    searched = RFMRegressor(random_state=0).fit(x[:200], y[:200])
    assert some.score(x[600:], y[600:]) > searched.score(x[600:], y[600:])
    assert some.dual_coef_.shape == (600, 1)


# --- tasks ------------------------------------------------------------------------------------------------


def parity(k, n, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1, 1], size=(n + 1000, d)) / np.sqrt(d)
    support = np.sort(rng.choice(d, k, replace=False))
    y = np.where(np.prod(x[:, support], axis=1) > 0, "even", "odd")
    return x[:n], y[:n], x[n:], y[n:], support


@pytest.mark.parametrize("update", [None, "agop", "fact", "fact-geometric"])
def test_sparse_parity(update):
    """k = 3 of 30 inputs, n = 2,000: kernel ridge guesses, features find the support.

    The paper's size, 50 inputs, is that of the figure fact-5.
    """
    x, y, new, truth, support = parity(3, 2000, 30)
    model = RFMClassifier(
        update=update, kernel="gaussian", bandwidth=0.5, ridge=1e-6, iterations=6, dtype="float32",
        random_state=0,
    ).fit(x, y)  # fmt: skip
    if update is None:
        assert model.score(new, truth) < 0.7
        return
    assert model.score(new, truth) == 1.0
    np.testing.assert_array_equal(np.sort(np.argsort(-model.feature_importances_)[:3]), support)
    assert np.trace(model.feature_matrix_) == pytest.approx(30, rel=1e-4)


def test_late_iterations_do_not_harm():
    """The paper's FACT iteration diverges; scaled, and with the best iterate kept, it does not."""
    x, y, new, truth, _ = parity(2, 500, 50)
    model = RFMClassifier("fact", "gaussian", 0.5, ridge=1e-6, iterations=40, random_state=0)
    assert model.fit(x, y).score(new, truth) > 0.97
    assert len(model.validation_scores_) == 41


def test_in_pipelines_and_searches():
    x, y = load_wine(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    frame = pd.DataFrame(x, columns=[f"f{k}" for k in range(13)])
    pipe = make_pipeline(
        StandardScaler().set_output(transform="pandas"), RFMClassifier(random_state=0)
    )
    assert cross_val_score(pipe, frame, names, cv=3).mean() > 0.95
    grid = {"rfmclassifier__update": ["agop", "fact"], "rfmclassifier__ridge": [1e-3, 1e-2]}
    search = GridSearchCV(pipe, grid, cv=2).fit(frame, names)
    best = search.best_estimator_
    copy = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(copy.predict(frame), best.predict(frame))
    assert best[-1].feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_allclose(best.predict_proba(frame).sum(axis=1), 1.0)


def test_features_help_on_digits():
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(x))
    x, y = x[rows] / 16, y[rows]
    score = {
        update: RFMClassifier(update, random_state=0).fit(x[:600], y[:600]).score(x[600:], y[600:])
        for update in (None, "agop", "fact")
    }
    assert min(score["agop"], score["fact"]) >= score[None] - 0.005
    assert max(score.values()) > 0.95


def test_several_outputs_and_precisions():
    x = RNG.normal(size=(80, 4))
    y = np.column_stack([x[:, 0] ** 2, x[:, 1]])
    double = RFMRegressor("fact", random_state=0).fit(x, y)
    single = RFMRegressor("fact", dtype="float32", random_state=0).fit(x, y)
    assert double.predict(x).shape == (80, 2)
    assert single.dual_coef_.dtype == np.float32
    np.testing.assert_allclose(single.predict(x), double.predict(x), atol=1e-2)


def test_jax_does_the_same_as_numpy():
    x = RNG.normal(size=(60, 4))
    y = np.sin(x[:, 0])
    for update in ("agop", "fact-geometric"):
        given = {"bandwidth": "median", "ridge": 1e-3, "iterations": 2, "random_state": 0}
        here = RFMRegressor(update, **given).fit(x, y)
        there = RFMRegressor(update, device="jax", **given).fit(x, y)
        np.testing.assert_allclose(
            there.feature_matrix_, here.feature_matrix_, rtol=1e-6, atol=1e-8
        )


# --- bad input --------------------------------------------------------------------------------------------


def test_duplicate_rows_without_ridge():
    x = np.repeat(RNG.normal(size=(20, 3)), 2, axis=0)
    with pytest.warns(ConvergenceWarning, match="singular"):
        model = RFMRegressor(ridge=0.0, random_state=0).fit(x, x[:, 0])
    assert np.isfinite(model.predict(x)).all()


def test_constant_features_and_few_samples():
    x = np.column_stack([RNG.normal(size=30), np.ones(30)])
    model = RFMRegressor("fact", random_state=0).fit(x, x[:, 0])
    assert model.score(x, x[:, 0]) > 0.9
    few = RFMClassifier(random_state=0).fit(np.eye(4), ["a", "b", "c", "d"])
    assert list(few.predict(np.eye(4))) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_origin_does_not_matter(dtype):
    """Distances are the same wherever the data lie; rounding must not see it."""
    x = RNG.normal(size=(60, 3))
    y = np.sin(x[:, 0])
    here = RFMRegressor("fact", dtype=dtype, random_state=0).fit(x, y)
    there = RFMRegressor("fact", dtype=dtype, random_state=0).fit(x + 4096.0, y)
    np.testing.assert_allclose(there.predict(x + 4096.0), here.predict(x), atol=1e-3)


def test_constant_targets_and_divergence(monkeypatch):
    x = RNG.normal(size=(40, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constant = RFMRegressor(random_state=0).fit(x, np.full(40, 3.0))
    np.testing.assert_allclose(constant.predict(x), 3.0)
    honest = Machine.predict
    calls = iter(range(100))
    broken = lambda self, xp, x: honest(self, xp, x) * (np.nan if next(calls) == 2 else 1.0)  # noqa: E731
    monkeypatch.setattr(Machine, "predict", broken)
    model = RFMRegressor("fact", bandwidth="median", ridge=1e-3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="diverged after 2 machines"):
        model.fit(x, x[:, 0] ** 2)
    assert np.isfinite(model.predict(x)).all()


def test_probabilities_are_the_nearest():
    """Against a search over the simplex."""
    points = RNG.normal(size=(20, 3))
    found = on_simplex(points)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    a, b = np.meshgrid(np.linspace(0, 1, 201), np.linspace(0, 1, 201))
    grid = np.stack([a, b, 1 - a - b], axis=-1)[a + b <= 1]
    for point, near in zip(points, found, strict=True):
        best = np.sum((grid - point) ** 2, axis=1).min()
        assert np.sum((near - point) ** 2) <= best + 1e-12
        assert near.argmax() == point.argmax()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"update": "fakt"}, "fact"),
        ({"kernel": "laplas"}, "laplace"),
        ({"bandwidth": -1.0}, "bandwidth must be positive"),
        ({"bandwidth": "mean"}, "'auto' or 'median'"),
        ({"ridge": "some"}, "or be 'auto'"),
        ({"ridge": -1.0}, "ridge must not be negative"),
        ({"iterations": 2.5}, "whole number"),
        ({"dtype": "float16"}, "float32"),
        ({"device": "tpu"}, "'cpu' .NumPy."),
        ({"bandwidth": None}, "'median'"),
        ({"patience": 0}, "patience"),
        ({"agop_power": -1.0}, "agop_power"),
        ({"degree": 2.5}, "whole degree"),
        ({"degree": "x"}, "whole degree"),
        ({"constant": None}, "whole degree"),
        ({"agop_power": "x"}, "positive number; got 'x'"),
        ({"agop_power": None}, "positive number"),
        ({"patience": "x"}, "patience must be at least 1"),
        ({"validation_fraction": "x"}, "between 0 and 1"),
        ({"ridge": np.array([1.0, 2.0])}, "or be 'auto'"),
        ({"dtype": "double precision"}, "float32"),
        ({"kernel": "generalized-laplace", "exponent": "x"}, "exponent"),
        ({"diagonal": "yes"}, "diagonal must be True or False"),
        ({"warm_start": "no"}, "warm_start must be True or False"),
        ({"solver": "iterativ"}, "iterative"),
        ({"validation_fraction": 1.5}, "between 0 and 1"),
        ({"kernel": "generalized-laplace", "exponent": 3.0}, "exponent"),
    ],
)
def test_wrong_settings(settings, words):
    with pytest.raises(sw.InputError, match=words):
        RFMRegressor(**settings).fit(X, X[:, 0])


@pytest.mark.parametrize(
    ("labels", "settings", "words"),
    [
        (["a", None, "b"] * 3, {}, "label of sample 1 is missing"),
        (["a", "b", "b"] * 3, {"class_weight": {"a": -1, "b": 1}}, "must not be negative"),
    ],
)
def test_wrong_labels(labels, settings, words):
    with pytest.raises(sw.InputError, match=words):
        RFMClassifier(**settings).fit(X, labels)

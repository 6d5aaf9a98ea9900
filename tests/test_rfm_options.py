"""Weights, categories, missing values, partial metrics, warm starts, probabilities, interactions."""

import importlib.util
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, make_classification
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import saddlewalk as sw
from saddlewalk.errors import InputError
from saddlewalk.features import RFMClassifier, RFMRegressor
from saddlewalk.features.kernels import kernel_named
from saddlewalk.features.rfm import Recursion
from saddlewalk.features.tuning import Search
from saddlewalk.features.units import left_out_error

TORCH = "torch" if importlib.util.find_spec("torch") else "cpu"
GIVEN = {
    "kernel": "gaussian",
    "bandwidth": 2.0,
    "ridge": 1e-2,
    "validation_fraction": None,
    "iterations": 2,
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small matrices: threads of linear algebra would wait for each other."""
    with threadpool_limits(1):
        yield


def held_out_by_chance(estimator):
    """Samples that are repeated fall into folds in another way than samples that weigh more."""
    name = "check_sample_weight_equivalence_on_dense_data"
    if estimator.dtype == "float32":
        # equal to 1e-3, and 1e-4, where the checks want 1e-7
        rounding = "single precision"
        return {name: rounding, "check_methods_subset_invariance": rounding}
    if estimator.validation_fraction is None:
        return {}
    return {name: "what is held out is drawn from the samples, whatever they weigh"}


@parametrize_with_checks(
    [
        RFMRegressor("agop", **GIVEN),
        RFMRegressor("fact", solver="iterative", **GIVEN),
        RFMClassifier("fact", class_weight="balanced", **GIVEN),
        RFMClassifier("agop", standardize=True, **GIVEN),
        RFMClassifier(standardize=True, warm_start=True, max_features=2, iterations=2),
        RFMRegressor("agop", **GIVEN | {"kernel": "polynomial"}),
        RFMRegressor("agop", categorical_features=[0], device=TORCH, **GIVEN),
        RFMClassifier("agop", dtype="float32", **GIVEN),
    ],
    expected_failed_checks=held_out_by_chance,
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def table(n, seed=0):
    """A color that matters in two groups of two, a number that does, one that does not."""
    rng = np.random.default_rng(seed)
    color = rng.choice(["red", "green", "blue", "black"], n)
    size, noise = rng.normal(size=(2, n))
    y = np.where(np.isin(color, ["red", "blue"]), np.sin(2 * size), -np.sin(2 * size))
    frame = pd.DataFrame({"size": size, "color": pd.Categorical(color), "noise": noise})
    return frame, y


# --- weights ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["cholesky", "iterative"])
@pytest.mark.parametrize("update", ["agop", "fact"])
@pytest.mark.parametrize("kernel", ["laplace", "polynomial"])
def test_a_weight_is_a_number_of_copies(kernel, update, solver):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(25, 3)), rng.normal(size=(25, 2))
    times = rng.integers(1, 4, 25)
    copies = np.repeat(np.arange(25), times)
    settings = kernel_named(kernel, 1.5, degree=3, constant=1.0), 1e-2, update
    recursion = Recursion(*settings, solver=solver)
    weights = times / times.mean()
    light = recursion.fit(x, y, np.eye(3), weights)
    heavy = recursion.fit(x[copies], y[copies], np.eye(3))
    new = rng.normal(size=(5, 3))
    np.testing.assert_allclose(light.predict(np, new), heavy.predict(np, new), atol=1e-6)
    metrics = [recursion.next_metric(machine) for machine in (light, heavy)]
    np.testing.assert_allclose(*metrics, atol=1e-5)


def test_errors_of_a_weighted_search():
    """The same copies, in the same folds."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=(30, 1))
    times = rng.integers(1, 4, 30)
    copies = np.repeat(np.arange(30), times)
    halves = [(np.arange(15), np.arange(15, 30)), (np.arange(15, 30), np.arange(15))]
    of = lambda rows: np.flatnonzero(np.isin(copies, rows))  # noqa: E731
    kernels = [kernel_named("laplace", 2.0)]
    light = Search(x, y, halves, kernels, [0.1, 1.0], weights=times.astype(float))
    heavy = Search(x[copies], y[copies], [(of(a), of(b)) for a, b in halves], kernels, [0.1, 1.0])
    for search in (light, heavy):
        search.best(np.eye(3), ["agop"], 2)
    assert light.best(np.eye(3), ["agop"], 2)[1] == pytest.approx(
        heavy.best(np.eye(3), ["agop"], 2)[1]
    )


def test_balanced_classes_find_the_rare_one():
    x, y = make_classification(600, 5, weights=[0.93], class_sep=0.7, random_state=0)
    plain, balanced = (
        RFMClassifier(class_weight=w, random_state=0).fit(x[:300], y[:300])
        for w in (None, "balanced")
    )
    rare = y[300:] == 1
    found = [np.mean(model.predict(x[300:])[rare] == 1) for model in (plain, balanced)]
    assert found[1] > found[0]


# --- columns ----------------------------------------------------------------------------------------------


def test_categories_are_blocks_of_the_metric():
    frame, y = table(400)
    model = RFMRegressor(standardize=True, random_state=0).fit(frame[:300], y[:300])
    assert model.feature_matrix_.shape == (6, 6)
    assert model.feature_importances_.shape == model.feature_importances_std_.shape == (3,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_[2] < model.feature_importances_[:2].min() / 4
    assert model.score(frame[300:], y[300:]) > 0.8
    # levels that act alike are near to each other: black, blue, green, red
    metric = model.feature_matrix_[1:5, 1:5]
    apart = np.add.outer(np.diag(metric), np.diag(metric)) - 2 * metric
    assert max(apart[0, 2], apart[1, 3]) < min(apart[0, 1], apart[0, 3], apart[1, 2], apart[2, 3])


def test_the_order_of_categories_and_strings_do_not_matter():
    frame, y = table(120)
    model = RFMRegressor("agop", **GIVEN).fit(frame, y)
    turned = frame.assign(
        color=frame["color"].cat.reorder_categories(["red", "green", "black", "blue"])
    )
    np.testing.assert_allclose(model.predict(turned), model.predict(frame))
    words = frame.assign(color=frame["color"].astype("string"))
    np.testing.assert_allclose(
        RFMRegressor("agop", **GIVEN).fit(words, y).predict(words), model.predict(frame)
    )
    objects = frame.assign(color=frame["color"].astype(object))
    for chosen in ("from_dtype", ["color"]):
        model_of = RFMRegressor("agop", categorical_features=chosen, **GIVEN).fit(objects, y)
        np.testing.assert_allclose(model_of.predict(objects), model.predict(frame))
    codes = np.column_stack([frame["size"], frame["color"].cat.codes, frame["noise"]])
    array = RFMRegressor("agop", categorical_features=[1], **GIVEN).fit(codes, y)
    np.testing.assert_allclose(array.predict(codes), model.predict(frame))


def test_unknown_and_missing_values():
    frame, y = table(200)
    model = RFMRegressor("agop", standardize=True, **GIVEN).fit(frame, y)
    strange = frame[:5].assign(color=pd.Categorical(["violet"] * 5))
    missing = frame[:5].assign(color=pd.Categorical([None] * 5, frame["color"].cat.categories))
    with pytest.warns(UserWarning, match="such as 'black': they count as unknown"):
        unknown = model.predict(strange)
    np.testing.assert_allclose(unknown, model.predict(missing))
    each = [
        model.predict(frame[:5].assign(color=pd.Categorical([c] * 5)))
        for c in ("red", "green", "blue", "black")
    ]
    assert np.all(unknown < np.max(each, axis=0) + 1e-9)
    assert np.all(unknown > np.min(each, axis=0) - 1e-9)
    rng = np.random.default_rng(0)
    holes = rng.uniform(size=200) < 0.3
    with_holes = frame.assign(size=frame["size"].where(~holes))
    # that a value is missing says something here
    target = np.where(holes, 2.0, y)
    model = RFMRegressor("agop", standardize=True, **GIVEN).fit(with_holes, target)
    assert np.abs(model.predict(with_holes)[holes] - 2.0).mean() < 0.2
    assert model.feature_matrix_.shape == (7, 7)
    assert np.isfinite(model.predict(with_holes.assign(noise=np.nan))).all()


def test_objects_that_are_numbers_or_missing():
    frame, y = table(60)
    holes = frame.assign(
        size=frame["size"].mask(frame["size"] > 1), color=frame["color"].where(frame["size"] < 1)
    )
    objects = holes.astype(object)
    objects["size"] = objects["size"].where(objects["size"].notna(), pd.NA)
    objects["color"] = objects["color"].where(objects["color"].notna(), None)
    model, other = (RFMRegressor("agop", **GIVEN).fit(one, y) for one in (holes, objects))
    np.testing.assert_allclose(other.predict(objects), model.predict(holes))


def test_standardized_columns_are_those_of_a_scaler():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)) * [1, 100, 0.01] + 5, rng.normal(size=60)
    by_itself = RFMRegressor("agop", standardize=True, **GIVEN).fit(x, y)
    by_hand = RFMRegressor("agop", **GIVEN).fit((x - x.mean(0)) / x.std(0), y)
    np.testing.assert_allclose(by_itself.predict(x), by_hand.predict((x - x.mean(0)) / x.std(0)))


def test_units_are_no_matter_where_they_tell_nothing():
    x, y = load_diabetes(return_X_y=True, scaled=False)
    machines = [RFMRegressor(random_state=0, standardize=how) for how in ("auto", True, False)]
    auto, always, never = (one.fit(x, y).feature_importances_ for one in machines)
    np.testing.assert_allclose(auto, always)
    assert np.abs(never - always).max() > 0.1
    assert machines[0].columns_.scaled
    # of two columns of noise in small units nothing is gained
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 12)) * np.r_[1, 1, np.full(10, 0.01)]
    assert not RFMRegressor(random_state=0).fit(z, np.sin(z[:, 0]) * z[:, 1]).columns_.scaled
    # a bandwidth that is given is one of the inputs as they are
    assert not RFMRegressor(bandwidth=100.0, random_state=0).fit(x, y).columns_.scaled


@pytest.mark.parametrize("weights", [None, np.arange(200) % 3])
def test_units_of_targets_are_no_matter(weights):
    """What is predicted has the units that it was given in, and each output counts alike."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5))
    y = np.column_stack([np.sin(2 * x[:, 0]), x[:, 1] * x[:, 2]])
    y = y / np.sqrt(np.cov(y.T, aweights=weights, bias=True).diagonal())
    units = np.array([1e-3, 1e200])
    here, there = (RFMRegressor(random_state=0).fit(x, z, weights) for z in (y, y * units))
    np.testing.assert_allclose(there.predict(x) / units, here.predict(x), atol=1e-6)
    assert there.best_params_ == here.best_params_
    np.testing.assert_allclose(there.dual_coef_ / units, here.dual_coef_, rtol=1e-4, atol=1e-6)
    far = 40.0 * y + 3.0
    assert RFMRegressor(random_state=0).fit(x, far, weights).validation_scores_ == pytest.approx(
        1600 * here.validation_scores_, rel=1e-4
    )


def test_coefficients_are_those_of_the_outputs():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 3)), 7.0 + 30.0 * rng.normal(size=50)
    model = RFMRegressor(**GIVEN | {"update": None, "ridge": 1e-3}).fit(x, y)
    apart = np.linalg.norm(x[:, None] - x, axis=2)
    kernel = np.exp(-(apart**2) / 8)
    np.testing.assert_allclose(kernel @ model.dual_coef_[:, 0] + y.mean(), model.predict(x))
    truth = np.linalg.solve(kernel + 50 * 1e-3 * np.eye(50), y - y.mean())
    np.testing.assert_allclose(model.dual_coef_[:, 0], truth)


def test_left_out_errors_are_those_of_leaving_out():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    y -= y.mean(axis=0)
    kernel = np.exp(-np.linalg.norm(x[:, None] - x, axis=2) / np.sqrt(2 * x.var(axis=0).sum()))
    errors = []
    for ridge in (1e-3, 1e-2, 1e-1, 1.0):
        missed = []
        for k in range(12):
            rest = np.arange(12) != k
            fitted = np.linalg.solve(kernel[np.ix_(rest, rest)] + ridge * np.eye(11), y[rest])
            missed.append(y[k] - kernel[k, rest] @ fitted)
        errors.append(np.mean(np.square(missed)))
    assert left_out_error(x, y) == pytest.approx(min(errors), rel=1e-9)


def test_a_category_may_be_any_number():
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], size=(100, 1))
    model = RFMRegressor(categorical_features=[0], iterations=1, random_state=0).fit(x, 3 * x[:, 0])
    assert model.score(x, 3 * x[:, 0]) > 0.999
    frame = pd.DataFrame({"c": x[:, 0]})
    model = RFMRegressor(categorical_features=["c"], iterations=1, random_state=0)
    assert model.fit(frame, 3 * x[:, 0]).score(frame, 3 * x[:, 0]) > 0.999


def test_nothing_is_said_of_columns_that_are_constant():
    y = np.random.default_rng(0).normal(size=30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RFMRegressor(random_state=0).fit(np.ones((30, 3)), y)
    np.testing.assert_allclose(model.predict(np.ones((1, 3))), y.mean())


def test_too_few_samples_to_judge_probabilities():
    x = np.random.default_rng(0).normal(size=(3, 3))
    assert RFMClassifier(random_state=0).fit(x, [0, 1, 0]).steepness_ is None


@pytest.mark.parametrize(
    ("table", "targets", "said"),
    [
        (np.eye(3), ["red", "blue", "red"], "Take RFMClassifier"),
        (pd.DataFrame({"d": pd.date_range("2020-01-01", periods=3)}), [1, 2, 3], "'d' is a date"),
        (pd.DataFrame({"d": pd.period_range("2020", periods=3, freq="D")}), [1, 2, 3], "is a date"),
        (pd.DataFrame({"d": [pd.Interval(0, 1)] * 3}), [1, 2, 3], "is an interval"),
        (pd.DataFrame({"c": ["red", 2.5, None]}, dtype=object), [1, 2, 3], "'c' has words and"),
        (pd.DataFrame({"c": [(1, 2)] * 3}), [1, 2, 3], "'c' holds no numbers, as .1, 2."),
        (pd.DataFrame(np.eye(3), columns=["a", "b", "a"]), [1, 2, 3], "two columns 'a'"),
        (np.array([["a", 1.0]] * 3, dtype=object), [1, 2, 3], "Give a pandas frame"),
        ([["a", 1.0]] * 3, [1, 2, 3], "Give a pandas frame"),
        (np.array([["a"]] * 3), [1, 2, 3], "Give a pandas frame"),
    ],
)
def test_what_is_no_number(table, targets, said):
    with pytest.raises(InputError, match=said):
        RFMRegressor().fit(table, targets)


def test_words_where_there_were_numbers():
    frame, y = table(20)
    model = RFMRegressor("agop", **GIVEN).fit(frame[["size"]], y)
    with pytest.raises(InputError, match="'size' holds no numbers"):
        model.predict(frame[["color"]].set_axis(["size"], axis=1).astype(object))


# --- the metric -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("diagonal", [False, True])
def test_partial_metrics(diagonal):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 12))
    y = np.sin(2 * x[:, 3]) * x[:, 7]
    model = RFMRegressor(max_features=2, diagonal=diagonal, random_state=0).fit(x, y)
    np.testing.assert_array_equal(np.flatnonzero(model.feature_importances_), [3, 7])
    assert np.trace(model.feature_matrix_) == pytest.approx(12)


def test_warm_starts_go_on():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 8))
    y = np.sin(2 * x[:, 0]) * x[:, 1]
    settings = {"bandwidth": 4.0, "ridge": 1e-4, "validation_fraction": None}
    whole = RFMRegressor("agop", iterations=4, **settings).fit(x, y)
    halves = RFMRegressor("agop", iterations=2, warm_start=True, **settings).fit(x, y).fit(x, y)
    np.testing.assert_allclose(halves.feature_matrix_, whole.feature_matrix_, atol=1e-8)
    auto = RFMRegressor(warm_start=True, random_state=0).fit(x[:200], y[:200])
    chosen = auto.best_params_
    assert auto.fit(x, y).best_params_ == chosen
    assert auto.dual_coef_.shape == (300, 1)


def test_warm_starts_take_what_is_automatic_and_nothing_else():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 4))
    y = np.sin(2 * x[:, 0]) * x[:, 1]
    model = RFMRegressor(warm_start=True, random_state=0, iterations=2).fit(x, y)
    found = model.best_params_
    given = model.set_params(ridge=10.0).fit(x, y).best_params_
    assert given == found | {"ridge": 10.0}
    assert model.set_params(update=None).fit(x, y).best_params_ == given | {"update": None}
    # nobody has searched for a ridge since, for another kernel, or for another shape of the metric
    for other in ({"ridge": "auto", "update": "auto"}, {"kernel": "gaussian"}, {"diagonal": True}):
        anew = RFMRegressor(**model.set_params(**other).get_params()).fit(x, y)
        assert model.fit(x, y).best_params_ == anew.best_params_
        np.testing.assert_array_equal(model.feature_matrix_, anew.feature_matrix_)
    assert model.set_params(diagonal=False).fit(x, y).machine_.metric.ndim == 2
    assert model.fit(x[:, :3], y).feature_matrix_.shape == (3, 3)


@pytest.mark.parametrize("given", [{}, {"bandwidth": 2.0, "ridge": 0.1}])
def test_patience_is_how_many_updates_without_a_gain(given):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 120, 4))
    for patience in (1, 2, 3, 6):
        model = RFMRegressor("agop", iterations=6, patience=patience, random_state=0, **given)
        errors = model.fit(x, y[:, 0]).validation_scores_
        best = np.minimum.accumulate(errors)
        waited = [k - int(np.argmin(errors[: k + 1])) for k in range(len(errors))]
        assert len(errors) == 7 or waited[-1] == patience
        assert max(waited[:-1], default=0) < patience
        assert model.n_iter_ == int(np.argmin(best))


# --- what is predicted ------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_calibrated(classes):
    """Labels are drawn with probabilities that are known."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1600, 4))
    scores = 2.0 * x[:, :classes]
    truth = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(classes, p=p) for p in truth])
    model = RFMClassifier(random_state=0).fit(x[:400], y[:400])
    found = model.predict_proba(x[400:])
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(x[400:]))
    nearest = RFMClassifier(random_state=0).fit(x[:400], y[:400])
    nearest.steepness_ = None
    losses = [
        log_loss(y[400:], np.clip(p, 1e-15, 1))
        for p in (truth[400:], found, nearest.predict_proba(x[400:]))
    ]
    assert losses[1] < losses[0] + 0.06
    assert losses[1] < losses[2]
    sure = found.max(axis=1)
    right = model.predict(x[400:]) == y[400:]
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 1.0)):
        among = (sure >= low) & (sure < high)
        assert abs(sure[among].mean() - right[among].mean()) < 0.1


def test_interactions_of_a_known_function():
    """Of x0 x1 + 2 x2 with unit variances: 1 between the first two, 1, 1 and 4 at all, of 5."""
    from saddlewalk.features.interactions import interactions

    x = np.random.default_rng(0).normal(size=(4000, 4))
    found = interactions(lambda x: x[:, :1] * x[:, 1:2] + 2 * x[:, 2:3], x, np.arange(4))
    truth = np.diag([1.0, 1.0, 4.0, 0.0])
    truth[0, 1] = truth[1, 0] = 1.0
    np.testing.assert_allclose(found, truth / 5, atol=0.12)
    assert abs(found[[0, 1], [2, 2]]).max() < 1e-20


def test_interactions_of_a_machine(tmp_path):
    frame, y = table(300)
    model = RFMRegressor(standardize=True, random_state=0).fit(frame, y)
    found = model.feature_interactions_
    np.testing.assert_array_equal(found, found.T)
    assert found[0, 1] > 10 * max(found[0, 2], found[1, 2])
    model.plot_interactions(tmp_path / "interactions.png")
    assert (tmp_path / "interactions.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_features": 0}, "whole number from 1 on"),
        ({"max_features": 1.5}, "up to 1"),
        ({"categorical_features": "all"}, "'from_dtype'"),
        ({"categorical_features": [7]}, "column 7"),
        ({"categorical_features": ["hue"]}, "'hue'"),
        ({"categorical_features": [True, False]}, "2 answers of yes or no for 3 columns"),
        ({"categorical_features": 1}, "must be a list"),
    ],
)
def test_wrong_settings(settings, words):
    with pytest.raises(sw.InputError, match=words):
        RFMRegressor(**settings).fit(*table(20))

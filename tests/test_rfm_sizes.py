"""Many samples: trees against a mixture by hand, solves from old factors, levels, arrays of PyTorch."""

import tracemalloc

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import saddlewalk as sw
from saddlewalk.features import (
    RFMClassifier,
    RFMRegressor,
    recursive,
    sharpening,
    trees,
    tuning,
    warm,
)
from saddlewalk.features.kernels import kernel_named
from saddlewalk.features.rfm import Machine, Recursion
from saddlewalk.features.sharpening import Samples, cut_off, levels, sharpen

RNG = np.random.default_rng(0)
METRIC = np.diag([4.0, 1.0, 0.2, 0.1])
LAPLACE = kernel_named("laplace", 2.0)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small matrices: threads of linear algebra would wait for each other, and for other tests."""
    with threadpool_limits(1):
        yield


def problem(n, d=4):
    x = RNG.normal(size=(n, d))
    return x, (np.sin(2 * x[:, 0]) * x[:, 1])[:, None]


# --- trees ------------------------------------------------------------------------------------------------


def by_hand(tree, x, leaves):
    """One point at a time: its output is the mean of both sides, by where it is in the border."""
    if isinstance(tree, int):
        leaf = leaves[tree]
        apart = np.sqrt(np.einsum("ij,jk,ik->i", leaf.centers - x, leaf.metric, leaf.centers - x))
        return np.exp(-apart / 2.0) @ leaf.alpha
    place = x @ tree.direction - tree.at
    part = min(1.0, max(0.0, 0.5 + place / (2 * tree.width)))
    return (1 - part) * by_hand(tree.below, x, leaves) + part * by_hand(tree.above, x, leaves)


def test_a_tree_is_a_mixture_of_its_leaves():
    x, y = problem(600)
    machine = Recursion(LAPLACE, 1e-4, None, solver="tree", leaf_size=100).fit(x, y, METRIC)
    assert len(machine.leaves) == 8
    new = RNG.normal(size=(40, 4))
    truth = np.array([by_hand(machine.tree, point, machine.leaves) for point in new])
    np.testing.assert_allclose(machine.predict(np, new), truth, atol=1e-8)
    near, far = (np.mean((m.predict(np, new) - np.sin(2 * new[:, :1]) * new[:, 1:2]) ** 2) for m in (
        machine, Recursion(LAPLACE, 1e-4, None).fit(x[:100], y[:100], METRIC)))  # fmt: skip
    assert near < far


def test_every_leaf_has_the_samples_that_count_there():
    x, _ = problem(500)
    tree, parts = trees.grow(x, METRIC, 70, np)
    inside = np.zeros(500)
    for leaf, rows, weight in trees.routes(tree, x, np.arange(500), np.ones(500)):
        np.testing.assert_array_equal(np.sort(rows), np.sort(parts[leaf]))
        np.add.at(inside, rows, weight)
    np.testing.assert_allclose(inside, 1)
    assert max(map(len, parts)) < 1.5 * 70


def test_outputs_are_continuous_across_cuts():
    x, y = problem(800)
    machine = Recursion(LAPLACE, 1e-4, None, solver="tree", leaf_size=100).fit(x, y, METRIC)
    line = np.linspace(-2, 2, 20_001)[:, None] * np.array([[1.0, 0.3, 0.0, 0.0]])
    steps = np.abs(np.diff(machine.predict(np, line)[:, 0]))
    assert steps.max() < 0.01


def test_first_cut_is_across_what_matters_most():
    x = RNG.normal(size=(400, 4))
    tree, _ = trees.grow(x, METRIC, 200, np)
    direction = np.abs(tree.direction) / np.linalg.norm(tree.direction)
    assert direction[0] > 0.99


@pytest.mark.parametrize("inputs", ["one point", "two points"])
def test_what_cannot_be_cut_is_dealt_out(inputs):
    x = np.zeros((300, 2))
    if inputs == "two points":
        x[:3] = 1.0
    y = RNG.normal(size=(300, 1))
    machine = Recursion(LAPLACE, 1e-2, None, solver="tree", leaf_size=100).fit(x, y, np.eye(2))
    assert max(len(leaf.centers) for leaf in machine.leaves) <= 100
    assert machine.predict(np, x[-1:])[0, 0] == pytest.approx(y[x[:, 0] == 0].mean(), abs=0.02)


@pytest.mark.parametrize("update", ["agop", "fact"])
def test_features_of_a_tree_are_those_of_its_leaves(update):
    """From autodiff-tested parts: a machine that was cut by hand has the same."""
    x, y = problem(200)
    recursion = Recursion(LAPLACE, 1e-3, update, solver="tree", leaf_size=100)
    machine = recursion.fit(x, y, METRIC)
    alone = Recursion(LAPLACE, 1e-3, update)
    if update == "agop":
        sizes = [len(leaf.centers) for leaf in machine.leaves]
        truth = np.average([alone.agop(leaf) for leaf in machine.leaves], axis=0, weights=sizes)
        np.testing.assert_allclose(recursion.agop(machine), truth)
    else:
        truth = sum(alone.fact(leaf) for leaf in machine.leaves)
        np.testing.assert_allclose(recursion.fact(machine), truth)
    assert np.trace(recursion.next_metric(machine)) == pytest.approx(4)


def test_memory_bounds_the_leaves(monkeypatch, tmp_path):
    """That of the container, where it has less than the machine."""
    x, y = problem(400)
    (tmp_path / "memory.max").write_text(f"{4 * 8 * 100**2 / 0.8:.0f}\n")
    monkeypatch.setattr("saddlewalk.problem.memory._LIMITS", (tmp_path / "memory.max",))
    model = RFMRegressor(update=None, bandwidth=3.0, ridge=1e-4, random_state=0).fit(x, y[:, 0])
    assert len(model.machine_.leaves) > 2
    assert model.score(x, y[:, 0]) > 0.9


def test_a_tree_holds_the_kernel_of_one_leaf():
    """Of 6,000 samples the whole matrix has 288 MB, that of a leaf with its borders 2."""
    x, y = problem(6000)
    model = RFMRegressor("agop", bandwidth=3.0, ridge=1e-4, iterations=1, leaf_size=400)
    tracemalloc.start()
    model.fit(x, y[:, 0])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(model.machine_.leaves) == 16
    assert most < 16 * 2**20


@pytest.mark.parametrize("options", [{}, {"leaf_size": 40}, {"solver": "iterative"}])
def test_a_ridge_that_is_given_is_the_ridge_of_the_machine(options):
    """Also of a tree, whose leaves have a few of the samples each, and where all else is searched for."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    model = RFMRegressor(ridge=1e-2, iterations=1, random_state=0, **options).fit(x, x[:, 0])
    assert model.best_params_["ridge"] == pytest.approx(1e-2)


@parametrize_with_checks(
    [RFMRegressor("agop", bandwidth=3.0, ridge=1e-3, iterations=1, leaf_size=15)],
    # the two sides are averaged by weights that weigh the samples of a cut once
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": "cuts"},
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_of_trees(estimator, check):
    check(estimator)


def test_a_classifier_of_many_samples_is_a_tree():
    x, y = problem(2400)
    labels = np.where(y[:, 0] > 0, "up", "down")
    model = RFMClassifier(leaf_size=500, random_state=0).fit(x[:2000], labels[:2000])
    assert len(model.machine_.leaves) == 4
    assert model.dtype_ == "float64"
    assert model.score(x[2000:], labels[2000:]) > 0.9
    assert np.abs(model.predict_proba(x[:5]).sum(axis=1) - 1).max() < 1e-12
    assert model.feature_importances_[:2].sum() > 0.8


# --- solves from the factor before ------------------------------------------------------------------------


def test_a_factor_solves_the_matrix_after_it():
    x = RNG.normal(size=(300, 3))
    kernel = lambda scale: np.exp(-np.linalg.norm((x[:, None] - x) * scale, axis=2))  # noqa: E731
    y = RNG.normal(size=(300, 1))
    one, other = (kernel(np.array(s)) + 0.1 * np.eye(300) for s in ([1, 1, 1], [1.2, 1, 0.9]))
    factor = warm.Factor(one.copy(), np.eye(3))
    start = factor.solve(y)
    np.testing.assert_allclose(one @ start, y, atol=1e-10)
    for rows in (slice(0, 100), slice(100, 250), slice(250, 300)):
        factor.place(rows, other[rows])
    found = factor.solve_other(np.diagonal(other), y, start)
    assert found is None  # four steps are not enough for so few samples
    warm_steps = pytest.MonkeyPatch()
    with warm_steps.context() as patch:
        patch.setattr(warm, "_STEPS_A_FACTOR", 1.0)
        found = factor.solve_other(np.diagonal(other), y, start)
    np.testing.assert_allclose(found, np.linalg.solve(other, y), atol=1e-6)


def test_machines_from_old_factors_are_the_same(monkeypatch):
    x, y = problem(250)
    recursion = Recursion(LAPLACE, 1e-3, "agop")
    solved = []
    again = warm.Factor.solve_other

    def counted(self, *given):  # fmt: skip
        solved.append(again(self, *given))
        return solved[-1]

    fresh = [m.alpha for _, m in zip(range(7), recursion.machines(x, y, np.eye(4)), strict=False)]
    monkeypatch.setattr(warm, "FEWEST", 10)
    monkeypatch.setattr(warm, "_STEPS_A_FACTOR", 1.0)
    monkeypatch.setattr(warm.Factor, "solve_other", counted)
    kept = [m.alpha for _, m in zip(range(7), recursion.machines(x, y, np.eye(4)), strict=False)]
    assert any(alpha is not None for alpha in solved)
    for one, other in zip(kept, fresh, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * np.abs(other).max())


# --- levels -----------------------------------------------------------------------------------------------


def test_levels_end_with_all():
    assert list(levels(2000)) == [2000]
    assert list(levels(8000)) == [1500, 4500, 8000]
    assert list(levels(100_000)) == [1500, 4500, 13_500, 40_500, 100_000]


def test_more_samples_make_the_metric_sharper():
    x, y = problem(1200, 10)
    few = Recursion(kernel_named("laplace", 8.0), 1e-5, "agop").fit(x[:60], y[:60], np.eye(10))
    rough = Recursion(few.kernel, 1e-5, "agop").next_metric(few)
    made = lambda update, n: Recursion(few.kernel, 1e-2 / n, update)  # noqa: E731
    found = sharpen(made, ("agop", "fact"), Samples(x, y), rough, 4, 100_000, cut_off(1200, 0))
    part = lambda m: np.diag(m)[:2].sum() / np.trace(m)  # noqa: E731
    assert part(found.metric) > 0.9 > part(rough)
    assert found.update in ("agop", "fact")
    assert np.all(np.diff(found.errors) < 0)


def test_patience_of_a_level(monkeypatch):
    """Of errors that are told, a level makes updates until so many in a row have brought nothing."""
    x, y = problem(100)
    told = [0.5, 0.4, 0.4, 0.3, 0.3, 0.3, 0.2, 0.2, 0.2, 0.2]
    scale = float(np.mean(y**2))
    for patience, made in ((1, 3), (2, 6), (3, 10)):
        errors = iter(told)
        monkeypatch.setattr(sharpening, "_error", lambda *_, e=errors: scale * next(e))
        recursion = Recursion(LAPLACE, 1e-3, "agop")
        found = sharpen(
            lambda *_, r=recursion: r, ["agop"], Samples(x, y), np.eye(4), 9, 100,
            cut_off(100, 0), patience,
        )  # fmt: skip
        assert 10 - len(list(errors)) == made
        assert found.error == pytest.approx(scale * min(told[:made]))


def test_bandwidth_and_ridge_are_judged_with_the_metric_at_the_end(monkeypatch):
    """By scikit-learn's kernel ridge regression: no neighbor leaves less on what was held out."""
    monkeypatch.setattr(recursive, "_MOST_TO_SEARCH", 100)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 6))
    y = np.sin(2 * x[:, 0]) * x[:, 1] + 0.3 * rng.normal(size=900)
    model = RFMRegressor(random_state=0).fit(x, y)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    held, rest = cut_off(900, seed)
    z = x @ np.linalg.cholesky(model.feature_matrix_)

    def left(bandwidth, ridge):
        kernel = np.exp(-euclidean_distances(z) / bandwidth)
        peer = KernelRidge(alpha=900 * ridge, kernel="precomputed")
        peer.fit(kernel[np.ix_(rest, rest)], y[rest] - y.mean())
        return np.mean((peer.predict(kernel[np.ix_(held, rest)]) - y[held] + y.mean()) ** 2)

    bandwidth, ridge = model.best_params_["bandwidth"], model.best_params_["ridge"]
    widest = 1.01 * tuning.BANDWIDTHS[-1] * np.sqrt(2 * x.var(axis=0).sum())
    here = left(bandwidth, ridge)
    for wider in (0.5, 2.0):
        assert here < left(wider * bandwidth, ridge) or wider * bandwidth > widest
    for more in (0.1, 10.0):
        assert here < left(bandwidth, more * ridge) or 900 * more * ridge < 0.99 * tuning.RIDGES[0]


@pytest.mark.parametrize("given", [{}, {"update": "agop", "bandwidth": 8.0, "ridge": 1e-7}])
def test_probabilities_of_many_samples_are_those_of_a_machine_of_many(given, monkeypatch):
    """Labels without noise: a machine of few samples would be far less sure than it may be."""
    monkeypatch.setattr(recursive, "_MOST_TO_SEARCH", 200)
    x = np.random.default_rng(0).normal(size=(4000, 10))
    labels = (np.sin(2 * x[:, 0]) * x[:, 1] > 0).astype(int)
    model = RFMClassifier(random_state=0, **given).fit(x[:2000], labels[:2000])
    new, truth = x[2000:], labels[2000:]
    outputs = model.decision_function(new)
    as_steep = [log_loss(truth, 1 / (1 + np.exp(-a * outputs))) for a in np.geomspace(0.5, 50, 60)]
    assert log_loss(truth, model.predict_proba(new)) < 1.05 * min(as_steep)


# --- where arrays are -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"kernel": "polynomial"},
        {"diagonal": True, "max_features": 2},
        {"leaf_size": 50},
        {"solver": "iterative", "update": "fact", "bandwidth": 3.0, "ridge": 1e-3},
    ],
)
def test_pytorch_does_the_same_as_numpy(given):
    pytest.importorskip("torch")
    x, y = problem(120)
    here, there = (
        RFMRegressor(device=device, dtype="float64", random_state=0, **given).fit(x, y[:, 0])
        for device in ("cpu", "torch")
    )
    assert there.best_params_ == pytest.approx(here.best_params_)
    np.testing.assert_allclose(there.feature_matrix_, here.feature_matrix_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(there.predict(x), here.predict(x), atol=1e-5)
    assert isinstance(there.machine_, trees.Mosaic | Machine)
    assert isinstance(there.dual_coef_, np.ndarray)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"device": "cuda:99"}, "no device"),
        ({"device": "npu"}, "'torch'"),
        ({"leaf_size": 3}, "from 10 on"),
        ({"leaf_size": 100.0}, "whole number"),
    ],
)
def test_wrong_settings(settings, words):
    pytest.importorskip("torch")
    x, y = problem(30)
    with pytest.raises(sw.InputError, match=words):
        RFMRegressor(**settings).fit(x, y[:, 0])

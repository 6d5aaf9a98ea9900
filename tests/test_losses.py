"""Losses: what is known of each, labels as classes, minima at infinity, closed forms: against other tools."""

import itertools
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from scipy import integrate, optimize, special
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import saddlewalk as sw
from saddlewalk.cli.main import main
from saddlewalk.features.networks import network_features
from saddlewalk.losses import NAMES, CrossEntropy, Huber, Logistic, SquaredError, as_loss
from saddlewalk.precision import in_float64
from saddlewalk.problem.description import describe, rebuild
from saddlewalk.theory.diagonal import DiagonalLossTheory
from saddlewalk.theory.diagonal.exclusive import Coordinate
from saddlewalk.theory.diagonal.objective import Objective
from saddlewalk.theory.linear import LinearLossTheory
from saddlewalk.theory.losses import separable_part

RNG = np.random.default_rng(0)
KNOWN = [SquaredError(), Huber(0.7), CrossEntropy(), Logistic()]
TARGETS = {
    SquaredError: RNG.normal(size=(6, 3)),
    Huber: RNG.normal(size=(6, 3)),
    CrossEntropy: np.eye(3)[[0, 1, 2, 2, 1, 0]],
    Logistic: RNG.choice([-1.0, 1.0], size=(6, 3)),
}
OUTPUTS = 2 * RNG.normal(size=(6, 3))


@pytest.fixture(scope="module")
def overlapping():
    return sw.tasks.gaussian_classes(60, 4, 3, 3.0, seed=0)


@pytest.fixture(scope="module")
def apart():
    return sw.tasks.gaussian_classes(60, 4, 3, 9.0, seed=2)


# --- each loss by itself ------------------------------------------------------------------------------------


@in_float64
def test_values_are_those_of_other_libraries():
    y = TARGETS[CrossEntropy]
    ours = np.mean(
        [CrossEntropy()(*map(jnp.asarray, pair)) for pair in zip(OUTPUTS, y, strict=True)]
    )
    assert ours == pytest.approx(log_loss(y, special.softmax(OUTPUTS, axis=1)), rel=1e-12)
    assert Huber(0.7)(jnp.asarray(OUTPUTS[0]), jnp.asarray(y[0])) == pytest.approx(
        special.huber(0.7, OUTPUTS[0] - y[0]).sum()
    )
    two = jnp.array([0.0, 1.3])
    for label, hot in ((1.0, [0.0, 1.0]), (-1.0, [1.0, 0.0])):
        one = Logistic()(jnp.array([1.3]), jnp.array([label]))
        assert one == pytest.approx(float(CrossEntropy()(two, jnp.array(hot))), rel=1e-12)


@pytest.mark.parametrize("loss", KNOWN, ids=lambda one: type(one).__name__)
@in_float64
def test_slope_curvature_and_infimum_are_what_they_say(loss):
    y = TARGETS[type(loss)]
    for f, t in zip(OUTPUTS, map(jnp.asarray, y), strict=True):
        rise = optimize.approx_fprime(f, lambda g, t=t: float(loss(jnp.asarray(g), t)), 1e-7)
        np.testing.assert_allclose(loss.slope(jnp.asarray(f), t), rise, atol=1e-5)
        bend = np.linalg.eigvalsh(jax.hessian(loss)(jnp.asarray(f), jnp.asarray(t)))
        assert -1e-12 <= bend.min() <= bend.max() <= loss.curvature + 1e-12
        assert loss(jnp.asarray(f), t) >= loss.infimum(np.asarray(t)[None])[0]
    assert loss.attained(y).all() == (not loss.classifies)
    # towards the lowest loss, wherever it is
    far = 60 * (2 * y - 1) if isinstance(loss, CrossEntropy) else 60 * y if loss.classifies else y
    reached = [float(loss(*map(jnp.asarray, pair))) for pair in zip(far, y, strict=True)]
    np.testing.assert_allclose(reached, loss.infimum(y), atol=1e-12)


@in_float64
def test_probabilities_have_a_minimum_at_finite_logits():
    soft = np.array([[0.2, 0.5, 0.3]])
    cost = lambda f: float(CrossEntropy()(jnp.asarray(f), jnp.asarray(soft[0])))  # noqa: E731
    found = optimize.minimize(cost, np.zeros(3), options={"gtol": 1e-9})
    assert CrossEntropy().infimum(soft)[0] == pytest.approx(found.fun, abs=1e-10)
    assert CrossEntropy().attained(soft).all()
    np.testing.assert_array_equal(
        CrossEntropy().margins(OUTPUTS[:1], soft) > 0, OUTPUTS[:1].argmax() == 1
    )


# --- targets ------------------------------------------------------------------------------------------------


def test_labels_become_what_a_loss_reads():
    whole = np.array([3.0, 7.0, 3.0, 5.0])[:, None]
    hot = CrossEntropy().encode(whole)
    np.testing.assert_array_equal(hot, np.eye(3)[[0, 2, 0, 1]])
    assert CrossEntropy().encode(hot) is hot
    np.testing.assert_allclose(CrossEntropy().encode(np.eye(3) - 1 / 3), np.eye(3))
    for two in ([[0.0], [1.0]], [[-1.0], [1.0]], [[4.0], [9.0]], np.eye(2)):
        np.testing.assert_array_equal(Logistic().encode(np.asarray(two)), [[-1.0], [1.0]])
    numbers = RNG.normal(size=(4, 2))
    assert Huber().encode(numbers) is numbers


def test_words_are_labels_in_tables_and_archives(tmp_path):
    x = RNG.normal(size=(12, 2))
    words = np.array(["yes", "no"] * 6)
    task = sw.tasks.from_arrays(x, words)
    np.testing.assert_array_equal(
        sw.Problem(task, sw.units.Dense(2), "logistic").task.y[:, 0], [1, -1] * 6
    )
    rows = "\n".join(f"{a},{b},{word}" for (a, b), word in zip(x, words, strict=True))
    (tmp_path / "d.csv").write_text(f"a,b,answer\n{rows}\n")
    np.savez(tmp_path / "d.npz", X=x, y=words)
    np.testing.assert_array_equal(sw.tasks.from_arrays(x, words.astype("S")).y, task.y)
    (tmp_path / "gap.csv").write_text("a,b,c\n1,2,yes\n3,4,no\n5,6,\n")
    with pytest.raises(sw.InputError, match=r"line 4.*empty"):
        sw.Run.of("relu", data=str(tmp_path / "gap.csv"), loss="logistic").predict()
    for file in ("d.csv", "d.npz"):
        run = sw.Run.of("relu", data=str(tmp_path / file), loss="logistic")
        np.testing.assert_array_equal(run.task.y[:, 0], [1, -1] * 6)
    assert sw.Run.of("relu", data=str(tmp_path / "d.csv"), loss="cross-entropy").task.outputs == 2


BAD = [
    ("cross-entropy", [0.5, 1.0, 2.0], "is no label of a class.*whole numbers or words.*'squared'"),
    ("cross-entropy", [2.0, 2.0, 2.0], "single class, 2"),
    ("logistic", [0.0, 1.0, 2.0], "two classes apart; the target has 3.*cross-entropy"),
    ("logistic", np.eye(3), "two classes apart; the target has 3"),
    ("logistic", [[0.5, 1.0]] * 3, "must hold -1 and 1"),
    ("cross-entropy", [[0.7, 0.7], [1, 0], [0, 1]], "no probabilities of classes: in row 0"),
    ("cross-entropy", [[1.0, 0.0]] * 3, "single class"),
    ("cross-entropy", np.arange(3.0).repeat(1) * 2 + 1, None),
]


@pytest.mark.parametrize(("loss", "y", "words"), BAD)
def test_targets_that_are_no_classes_are_refused_with_a_remedy(loss, y, words):
    task = sw.tasks.from_arrays(RNG.normal(size=(3, 2)), np.asarray(y))
    if words is None:
        assert sw.Problem(task, sw.units.Dense(2), loss).task.outputs == 3
        return
    with pytest.raises(sw.InputError, match=words):
        sw.Problem(task, sw.units.Dense(2), loss)


def test_numbers_are_no_classes():
    y = RNG.permutation(100).astype(float)
    with pytest.raises(sw.InputError, match="100 different values in 100 samples"):
        CrossEntropy().encode(y[:, None])


def test_moments_and_tasks_of_numbers_are_refused():
    with pytest.raises(sw.InputError, match="moments"):
        sw.Problem(sw.tasks.linear_map(3, 3), sw.units.Dense(3, "linear"), "cross-entropy")
    with pytest.raises(sw.InputError, match="no probabilities"):
        sw.Problem(
            sw.tasks.modular_addition(5, {1: 2.0}), sw.units.QuadraticPair(3), "cross-entropy"
        )


def test_stored_networks_know_the_same_losses():
    torch = pytest.importorskip("torch")
    from saddlewalk.features.stored import targets_and_loss

    words = np.array(["no", "yes", "yes", "no"])
    y, cost = targets_and_loss("logistic", words, torch.float64, (1,))
    f = torch.tensor([[0.3], [-1.0], [2.0], [0.1]], dtype=torch.float64)
    assert float(cost(f, y)) == pytest.approx(float(torch.nn.SoftMarginLoss()(f, y)))
    labels, _ = targets_and_loss("cross-entropy", words, torch.float64, (2,))
    assert labels.tolist() == [0, 1, 1, 0]
    _, huber = targets_and_loss("huber", np.ones(4), torch.float64, (1,))
    assert float(huber(f, y)) == pytest.approx(float(torch.nn.HuberLoss()(f, y)))
    with pytest.raises(sw.InputError, match="'half-mse' is now 'squared'"):
        targets_and_loss("half-mse", words, torch.float64, (2,))


# --- names --------------------------------------------------------------------------------------------------


def test_losses_by_name_and_by_function():
    assert [type(as_loss(name)) for name in NAMES] == [SquaredError, CrossEntropy, Logistic, Huber]
    assert as_loss("huber:0.25").delta == 0.25
    own = as_loss(lambda f, y: jnp.sum((f - y) ** 4))
    assert own(jnp.array([2.0]), jnp.array([0.0])) == 16
    assert own.infimum(np.ones((2, 1))) is None
    for wrong, words in [
        ("hubr", "Did you mean 'huber'"),
        ("huber:wide", "huber:0.5"),
        ("huber:-1", "must be positive"),
        ("mse", "2/c times 'squared'"),
        (Huber, r"Huber\(\) instead of Huber"),
        (3.0, "one of squared, cross-entropy"),
        (lambda f, y: f - y, "is one number"),
        (lambda f: f, "output, target"),
    ]:
        with pytest.raises(sw.InputError, match=words):
            as_loss(wrong)


def test_old_names_answer_with_the_new_ones(overlapping):
    for verb in (sw.predict, sw.train):
        with pytest.raises(TypeError, match="`penalty` is now `loss`"):
            verb(overlapping, sw.units.Dense(2), 1e-3, penalty=CrossEntropy())
    with pytest.raises(TypeError, match="`penalty` is now `loss`"):
        sw.Problem(overlapping, sw.units.Dense(2), penalty=CrossEntropy())
    with pytest.raises(AttributeError, match=r"is now saddlewalk\.losses\.SquaredError"):
        _ = (
            sw.problem.SquaredError
            if hasattr(sw, "problem")
            else __import__("saddlewalk.problem", fromlist=["x"]).SquaredError
        )


@in_float64
def test_a_problem_comes_back_from_its_description(overlapping):
    for loss in ("huber:0.5", "cross-entropy", "logistic"):
        task = overlapping if loss != "logistic" else sw.tasks.gaussian_classes(20, 3, 2)
        words, arrays = describe(sw.Problem(task, sw.units.Dense(2), loss))
        assert rebuild(words, arrays).sample_loss == as_loss(loss)
    old = {"class": "saddlewalk.problem:SquaredError", "fields": {}}
    words["penalty"] = old
    del words["loss"]
    assert rebuild(words, arrays).squared  # as files of 0.1 have it


# --- minima at infinity -------------------------------------------------------------------------------------


def test_separable_parts_of_inequalities():
    x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert separable_part(x[:2]) == 1.0
    assert separable_part(x * np.array([1, -1, -1, 1])[:, None]) == 0.0  # exclusive or
    some = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, 3.0]])
    assert separable_part(some) == 0.5


def test_the_audit_says_whether_the_minimum_is_finite(overlapping, apart):
    found = {}
    for name, task in (("overlapping", overlapping), ("apart", apart)):
        stairs = sw.predict(task, sw.units.Dense(3, "linear"), 1e-6, loss="cross-entropy")
        (one,) = [a for a in stairs.assumptions if a.name.startswith("a minimum at finite")]
        found[name] = one.holds, one.value, stairs.stopped
        classes = task.y.argmax(axis=1)
        fit = LogisticRegression(C=1e6, fit_intercept=False, max_iter=5000).fit(task.x, classes)
        assert (fit.score(task.x, classes) == 1.0) == (one.value == 1.0)
    assert found["overlapping"][:2] == (True, 0.0)
    assert found["apart"] == (False, 1.0, "separated")


def test_the_end_of_a_linear_network_is_the_convex_minimum(overlapping):
    """Two ways to the minimum of multinomial regression: a flow from zero, and scikit-learn."""
    classes = overlapping.y.argmax(axis=1)
    fit = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=10_000)
    fit.fit(overlapping.x, classes)
    best = log_loss(classes, fit.predict_proba(overlapping.x))
    units = sw.units.Dense(4, "linear")
    stairs = sw.predict(overlapping, units, 1e-6, loss="cross-entropy")
    path = sw.train(overlapping, units, 1e-6, loss="cross-entropy")
    assert stairs.stages[-1].loss == pytest.approx(best, abs=1e-6)
    assert path.loss[-1] == pytest.approx(best, abs=1e-6)
    assert path.stopped == "converged"
    report = sw.compare(stairs, path)
    assert report.order
    assert max(report.time_error) < 5e-3


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_separable_data_end_the_staircase(apart, activation):
    units = sw.units.Dense(4, activation)
    path = sw.train(apart, units, 1e-4, 2, loss="cross-entropy")
    stairs = sw.predict(apart, units, 1e-4, 2, loss="cross-entropy")
    assert path.stopped == stairs.stopped == "separated"
    assert "right side" in stairs.stopped.sentence
    with sw.float64():
        outputs = np.asarray(path.problem.function(path.parameters[-1]))
    assert (outputs.argmax(axis=1) == apart.y.argmax(axis=1)).all()
    assert path.loss[-1] < 2e-4 * path.loss[0]
    report = sw.compare(stairs, path)
    assert report.order
    assert np.median(report.time_error) < 0.01
    assert len(report.stages_observed) == len(stairs.stages)


@in_float64
def test_what_goes_on_after_separation():
    """On from where `train` ends, with SciPy along log t: directions turn, and what is small grows."""
    x = np.array([[5.0, 0.0], [-5.0, 0.0], [1.0, 2.0], [-1.0, -2.0]])
    y = np.array([1.0, -1.0, 1.0, -1.0])
    path = sw.train(sw.tasks.from_arrays(x, y), sw.units.Diagonal(), 1e-2, loss="logistic")
    assert path.stopped == "separated"
    for said in ("right side", "like 1/time", "weights grow", "turn", "small go on growing"):
        assert said in path.stopped.sentence
    start = np.asarray(path.parameters[-1]).ravel()  # (p, q) of each coefficient

    def coefficients(pq):
        p, q = pq.reshape(2, 2).T
        return (p**2 - q**2) / 2

    def velocity(log_t, pq):
        unsaid = np.exp(log_t + special.log_expit(-y * (x @ coefficients(pq))))
        push = (y * unsaid) @ x / 4
        return (pq.reshape(2, 2) * np.stack([push, -push], axis=1)).ravel()

    def even(log_t, pq):
        return np.subtract(*coefficients(pq))

    first = math.log(path.data["saved"].values[-1])
    run = integrate.solve_ivp(
        velocity,
        (first, 720.0),
        start,
        "LSODA",
        [math.log(1e6), math.log(1e12)],
        events=even,
        rtol=1e-9,
        atol=1e-12,
    )
    begin, *later = [coefficients(pq) for pq in (start, *run.y.T)]
    assert run.t_events[0][0] == pytest.approx(690.1, abs=0.1)
    np.testing.assert_allclose(coefficients(run.y_events[0][0]), 232, rtol=0.01)
    np.testing.assert_allclose(begin, [8.39, 0.30], rtol=0.02)
    np.testing.assert_allclose(later[-1], [25.6, 2.8], rtol=0.01)
    # twice the utility of what is active: its logarithm gains twice as much
    gains = np.log(later[-1] / begin)
    assert gains[1] == pytest.approx(2 * gains[0], rel=0.01)
    on_clock = [
        np.logaddexp(0, -y * (x @ beta)).mean() * t * np.log(t)
        for beta, t in zip(later, (1e6, 1e12), strict=True)
    ]
    assert on_clock[1] == pytest.approx(on_clock[0], rel=0.05)  # not 1/t: that is off by two


def test_a_tail_at_infinity_is_no_stage():
    """The loss of one separable sample, log(1 + exp(-s)) with s growing like log t, falls once."""
    time = np.geomspace(1e-2, 1e8, 4000)
    s = special.lambertw(np.exp(1.0) * (1 + time)).real - 1  # e^s s' + s' = 1, nearly
    loss = np.log1p(np.exp(-s))
    curve = sw.curves.LossCurve.of(time, loss)
    from dataclasses import replace

    endless = replace(curve, endless=True)
    assert len(sw.curves.find_jumps(endless)) == 1
    assert endless.flattest(10.0, 1e8) > endless.flattest(1e-2, 1e-1)


# --- closed forms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "huber:0.5"])
@in_float64
def test_inputs_that_never_meet_are_integrated_exactly(loss):
    task = DiagonalLossTheory.example().problem.task
    stairs = sw.predict(task, sw.units.Diagonal(), 1e-4, loss=loss, method="closed")
    objective = Objective.of(sw.Problem(task, sw.units.Diagonal(), loss))

    # p and q themselves, not z: another coordinate system
    def velocity(_, log_pq):
        p, q = np.exp(log_pq).reshape(2, -1)
        g = objective.gradient((p**2 - q**2) / 2)
        return np.concatenate([-g, g])

    def middle(level):
        def event(_, log_pq):
            p, q = np.exp(log_pq).reshape(2, -1)
            return objective.loss((p**2 - q**2) / 2) - level

        return event

    levels = np.array(stairs.loss_levels)
    run = integrate.solve_ivp(
        velocity,
        (0, 1.05 * stairs.jump_times[-1]),
        np.full(2 * task.inputs, np.log(1e-4)),
        method="DOP853",
        rtol=1e-11,
        atol=1e-12,
        max_step=stairs.jump_times[-1] / 400,
        events=[middle(level) for level in 0.5 * (levels[1:] + levels[:-1])],
    )
    seen = [float(times[0]) for times in run.t_events]
    np.testing.assert_allclose(stairs.jump_times, seen, rtol=1e-8)


@in_float64
def test_the_way_to_infinity_is_an_exponential_integral():
    """Between two times the coefficient of separable samples is at log + Ei, for beta far above alpha^2."""
    a, weight = 2.0, 1.0
    objective = Objective(Logistic(), np.array([[a]]), np.ones((1, 1)), np.ones(1), 0.0)
    way = Coordinate.of(objective, 0, 1e-9, 1.0)
    first, last = 0.3 * way.time[-1] + 0.5 * way.time[-1], 0.99 * way.time[-1]
    beta = np.array([way.beta(first), way.beta(last)])
    assert beta[0] > 1e-10
    closed = (np.log(beta) + special.expi(a * beta)) / (2 * weight * a)
    assert np.diff(closed)[0] == pytest.approx(last - first, rel=1e-8)


@in_float64
def test_orthonormal_classes_in_closed_form():
    """All modes at once: t = [Ei(s) + (c - 1) log s] / 2, against the flow of the two layers."""
    c = 4
    task = sw.tasks.from_arrays(np.eye(c), np.eye(c))
    problem = sw.Problem(task, sw.units.Dense(c, "linear"), "cross-entropy")
    center = np.eye(c) - 1 / c
    start = np.concatenate([1e-2 * center, 1e-2 * center], axis=1)  # (w_i, a_i) of unit i
    path = sw.train(task, problem.units, 1e-2, loss="cross-entropy", start=start, tolerance=1e-12)
    rows = [k for k in range(len(path.data["saved"].values)) if k % 7 == 0]
    strengths = []
    for k in rows:
        theta = path.parameters[k]
        strengths.append(np.trace(theta[:, c:].T @ theta[:, :c]) / (c - 1))
    s = np.array(strengths)
    closed = 0.5 * (special.expi(s) + (c - 1) * np.log(s))
    np.testing.assert_allclose(
        closed - closed[0],
        path.data["saved"].values[rows] - path.data["saved"].values[rows[0]],
        atol=2e-7,
        rtol=1e-7,
    )


@in_float64
def test_the_first_time_of_mirrored_classes():
    """Classes that are mirrored about one axis: the mode cannot turn, and its integral is the first time."""
    half = RNG.normal(size=(20, 3))
    x = np.concatenate([half, half * [1, -1, -1]])
    y = np.where(x[:, 0] + 0.5 * np.tile(RNG.normal(size=20), 2) > 0, 1.0, -1.0)
    task, units = sw.tasks.from_arrays(x, y), sw.units.Dense(2, "linear")
    closed = sw.predict(task, units, 1e-7, 3, loss="logistic", method="closed")
    path = sw.train(task, units, 1e-7, 3, loss="logistic", tolerance=1e-11)
    assert sw.compare(closed, path).time_error[0] < 1e-6
    turned = [a for a in closed.assumptions if a.name.startswith("the first mode keeps")]
    assert turned[0].value < 1e-5


@in_float64
def test_ranks_end_at_the_convex_minimum(overlapping):
    start = LinearLossTheory.example()
    theory = LinearLossTheory(start)
    task = start.problem.task
    fit = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=10_000)
    fit.fit(task.x, task.y.argmax(axis=1))
    best = log_loss(task.y.argmax(axis=1), fit.predict_proba(task.x))
    assert theory.limit.stages[-1].loss == pytest.approx(best, abs=1e-7)
    walked = sw.predict(task, start.problem.units, 1e-12, loss="cross-entropy")
    np.testing.assert_allclose(theory.limit.stages[0].loss, walked.stages[0].loss, atol=0.02)


@pytest.mark.parametrize(
    ("method", "turned"),
    [("closed", 0.0), ("closed", 0.3), ("limit", 0.0), ("limit", 0.3), ("numeric", 0.0)],
)
def test_where_nothing_is_accelerated_nothing_is_learned(method, turned):
    """Exclusive or: the gradient at zero vanishes, but for rounding where the square is turned."""
    x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    x = x @ np.array([[np.cos(turned), -np.sin(turned)], [np.sin(turned), np.cos(turned)]])
    task = sw.tasks.from_arrays(x, np.array([1.0, -1.0, -1.0, 1.0]))
    stairs = sw.predict(task, sw.units.Dense(3, "linear"), 1e-4, loss="logistic", method=method)
    assert stairs.stages == ()
    assert stairs.stopped == "no utility left"
    (kept,) = [a for a in stairs.assumptions if a.name.startswith("the first mode keeps")]
    assert kept.holds
    assert kept.value == 0.0


def test_stages_that_flow_into_each_other_are_one():
    """Where `numeric` has one stage, and where two; between them the limit is early, and says so."""
    units = sw.units.Dense(3, "linear")
    for seed, stages, scale in ((1, 1, 1e-2), (0, 2, 1e-2), (1, 2, 1e-8)):
        task = sw.tasks.gaussian_classes(60, 4, 3, 3.0, seed=seed)
        closed, numeric = (
            sw.predict(task, units, scale, loss="cross-entropy", method=method)
            for method in ("closed", "numeric")
        )
        assert len(closed.stages) == len(numeric.stages) == stages
        assert closed.stages[-1].loss == pytest.approx(numeric.stages[-1].loss, abs=1e-5)
        (later,) = [a for a in closed.assumptions if a.name.startswith("later stages")]
        assert later.holds == (later.value < 0.1)
        if seed == 0:
            early = 1 - closed.jump_times[1] / numeric.jump_times[1]
            assert 0.2 < early < 0.3
            assert not later.holds


def test_the_wait_of_later_stages_ends_as_the_scale_vanishes():
    """The first stage comes to rest in a time of its own, the wait grows like log(1/alpha)."""
    task, units = sw.tasks.gaussian_classes(60, 4, 3, 3.0, seed=3), sw.units.Dense(3, "linear")
    parts = []
    for scale in (1e-6, 1e-12):
        stairs = sw.predict(task, units, scale, loss="cross-entropy", method="limit")
        parts.append(next(a for a in stairs.assumptions if a.name.startswith("later stages")))
    assert parts[0].value == pytest.approx(2 * parts[1].value, rel=0.05)
    assert [one.holds for one in parts] == [False, True]


def cases_of_closed_forms():
    sparse = sw.tasks.sparse_regression(samples=40, dim=4)
    alone = DiagonalLossTheory.example().problem.task
    clouds = sw.tasks.gaussian_classes(60, 4, 3, 3.0)
    return {
        "linear": (clouds, sw.units.Dense(3, "linear"), "cross-entropy"),
        "diagonal, any loss": (alone, sw.units.Diagonal(), "logistic"),
        "diagonal": (sparse, sw.units.Diagonal(), "squared"),
        "deep diagonal": (sparse, sw.units.DeepDiagonal(3), "squared"),
    }


@pytest.mark.parametrize("name", list(cases_of_closed_forms()))
def test_closed_forms_end_at_the_largest_time(name):
    task, units, loss = cases_of_closed_forms()[name]
    whole = sw.predict(task, units, 1e-4, loss=loss, method="closed")
    assert len(whole.stages) > 1
    end = 0.5 * (whole.jump_times[0] + whole.jump_times[1])
    cut = sw.predict(task, units, 1e-4, loss=loss, method="closed", max_time=end)
    assert cut.jump_times == whole.jump_times[:1]
    assert cut.loss_levels == whole.loss_levels[:2]
    assert cut.stopped == "limit"
    later = sw.predict(
        task, units, 1e-4, loss=loss, method="closed", max_time=2 * whole.jump_times[-1]
    )
    assert later.stopped == whole.stopped
    assert later.jump_times == whole.jump_times


def test_closed_forms_that_do_not_hold_are_refused(overlapping):
    two = sw.tasks.gaussian_classes(30, 3, 2)
    with pytest.raises(sw.InputError, match="each sample sees one input alone"):
        sw.predict(two, sw.units.Diagonal(), 1e-4, loss="logistic", method="closed")
    limit = sw.predict(two, sw.units.Diagonal(), 1e-8, loss="logistic", method="limit")
    numeric = sw.predict(two, sw.units.Diagonal(), 1e-8, loss="logistic")
    assert limit.stages[0].feature["index"] == numeric.stages[0].feature["index"]
    assert limit.stages[0].time == pytest.approx(numeric.stages[0].time, rel=0.1)


# --- diagnostics --------------------------------------------------------------------------------------------


@in_float64
def test_fact_holds_with_cross_entropy_and_weight_decay(overlapping):
    """The theorem at a stationary point that scipy found, with the gradients of JAX."""
    decay, units = 0.01, sw.units.Dense(4, "tanh")
    problem = sw.Problem(overlapping, units, "cross-entropy")

    @jax.jit
    def cost(flat):
        return problem.loss(flat.reshape(4, -1)) + 0.5 * decay * jnp.sum(flat**2)

    both = jax.jit(jax.value_and_grad(cost))
    start = 0.5 * np.asarray(problem.initialize(0.5, 1)).ravel()
    options = {"ftol": 1e-16, "gtol": 1e-10, "maxiter": 5000}
    found = optimize.minimize(
        lambda z: tuple(np.asarray(v, dtype=float) for v in both(z)),
        start,
        jac=True,
        method="L-BFGS-B",
        options=options,
    )
    theta = found.x.reshape(4, -1)
    assert np.abs(both(found.x)[1]).max() < 1e-6
    report = network_features(problem, theta, weight_decay=decay)
    for layer in report.layers:
        gram = layer.weight.T @ layer.weight
        np.testing.assert_allclose(layer.fact, gram, atol=1e-4 * np.abs(gram).max())


@in_float64
def test_width_saddle_test_and_regime_take_the_loss(overlapping):
    units = sw.units.Dense(5, "relu")
    path = sw.train(overlapping, units, 1e-4, loss="cross-entropy", max_time=40.0)
    problem = path.problem
    phases = sw.diagnose.find_phases(path)
    assert phases.phases
    width = sw.diagnose.effective_width(path)
    # which units point the same way, and what each of these groups is worth: two count, one does not
    theta, x = np.asarray(path.parameters[-1]), np.asarray(overlapping.x)
    unit = theta / np.linalg.norm(theta, axis=1, keepdims=True)
    groups = {tuple(row) for row in (unit @ unit.T > 0.999).tolist()}
    hidden = np.maximum(x @ theta[:, :4].T, 0)
    worth = sorted(
        0.5 * np.mean(np.sum((hidden[:, list(of)] @ theta[list(of), 4:]) ** 2, axis=1))
        for of in groups
    )
    assert len(worth) == 3
    assert 4 * worth[0] < width.tolerance < worth[1] / 50
    assert width.width == 2
    doubled = problem.resized(10)
    layer = problem.take(path.parameters[-1])
    both = type(layer)(
        np.concatenate([layer.incoming] * 2), np.concatenate([0.5 * layer.outgoing] * 2)
    )
    theta = doubled.put(np.zeros((10, problem.size)), both)
    assert sw.diagnose.effective_width(doubled, theta).width == width.width
    # rich: the kernel turns, while at its first pace hardly any loss would be gone; and it is not late
    regime = sw.diagnose.find_regime(path)
    kernels = []
    for state in (path.parameters[0], path.parameters[-1]):
        rows = jax.jacobian(problem.function)(jnp.asarray(state)).reshape(len(x) * 3, -1)
        kernels.append(np.asarray(rows @ rows.T))
    inner = [float(np.sum(a * b)) for a, b in itertools.combinations_with_replacement(kernels, 2)]
    turned = 1 - inner[1] / math.sqrt(inner[0] * inner[2])
    assert regime.kernel_distance == pytest.approx(turned, rel=1e-6)
    assert turned > 0.1
    slope = np.asarray(jax.grad(problem.loss)(jnp.asarray(path.parameters[0])))
    assert 40.0 * np.sum(slope**2) < 1e-3 * path.loss[0]
    assert regime.name == "rich"


@in_float64
def test_the_saddle_test_sees_the_curvature_of_the_loss(overlapping):
    """At the saddle of one trained tanh unit beside one at zero, against the dense Hessian."""
    problem = sw.Problem(overlapping, sw.units.Dense(2, "tanh"), "cross-entropy")
    grad = jax.jit(jax.value_and_grad(lambda z: problem.loss(jnp.stack([z, 0 * z]))))
    start = np.asarray(problem.initialize(1.0, 0))[0]
    one = optimize.minimize(
        lambda z: tuple(np.asarray(v, dtype=float) for v in grad(z)), start, jac=True, tol=1e-10
    ).x
    theta = np.stack([one, 0 * one])
    dense = jax.hessian(lambda flat: problem.loss(flat.reshape(2, -1)))(theta.ravel())
    report = sw.diagnose.saddle_test(problem, theta)
    assert report.eigenvalues[0] == pytest.approx(np.linalg.eigvalsh(dense)[0], rel=1e-4, abs=1e-8)


# --- the command line ---------------------------------------------------------------------------------------


def test_commands_take_a_loss(tmp_path):
    command = "predict linear --classes 3 --dim 4 --samples 60 --loss cross-entropy --json"
    told = CliRunner().invoke(main, command.split())
    assert told.exit_code == 0, told.output
    record = json.loads(told.stdout)
    assert record["initial_loss"] == pytest.approx(np.log(3))
    for wrong, words in [
        ("predict relu --loss cross-entropy", "no probabilities of classes"),
        ("predict linear --loss logistic", "--classes"),
        ("predict relu --classes 3 --loss logistic", "two classes apart"),
        ("predict relu --classes 3 --outputs 2", "--outputs"),
        ("predict relu --separation 3", "--classes"),
        ("predict linear --samples 30", "--classes"),
        ("predict relu --classes 9 --dim 4", "larger than"),
    ]:
        told = CliRunner().invoke(main, wrong.split())
        assert told.exit_code == 2, wrong
        assert words in told.output, told.output


def test_standardized_inputs_leave_classes_alone(tmp_path):
    """Labels have no scale: with a loss of classes `standardize` is about the inputs alone."""
    rng = np.random.default_rng(0)
    rows = [
        f"{100 * a:.6f},{b:.6f},{'yes' if a > 0 else 'no'}" for a, b in rng.normal(size=(12, 2))
    ]
    file = tmp_path / "labels.csv"
    file.write_text("\n".join(["size,shade,ripe", *rows]))
    for loss in ("cross-entropy", "logistic"):
        run = sw.Run.of("linear", data=str(file), standardize=True, loss=loss)
        np.testing.assert_allclose(np.mean(run.task.x, axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(np.var(run.task.x, axis=0), 1)
        assert set(np.unique(run.task.y)) <= {-1.0, 0.0, 1.0}

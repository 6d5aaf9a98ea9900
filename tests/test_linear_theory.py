"""The fully connected linear network: the limit, the curve at finite scale, and gradient flow."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import saddlewalk as sw
from saddlewalk.diagnose import loss_curve
from saddlewalk.theory import linear
from saddlewalk.theory.base import Start
from saddlewalk.theory.linear import Covariances, Layers, LinearTheory
from saddlewalk.theory.staircase import Staircase

COUNTER_EXAMPLE = (np.diag([1.0, 0.1]), np.diag([1.0, 5.0]))
"""Sigma_xx and B with sigma = (1, 0.5) and mu = (1, 2.5): the orders differ."""


def orthogonal(rng, d):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def random_problem(kind, seed, d=10, c=None):
    """Sigma_xx and B, with covariances that commute ("aligned", "shuffled", "white") or not."""
    rng = np.random.default_rng(seed)
    b = rng.normal(size=(c or d, d))
    powers = 1.0 / np.arange(1, d + 1)
    if kind == "wishart":
        x = rng.normal(size=(3 * d, d))
        return x.T @ x / (3 * d), b
    if kind == "white":
        return np.eye(d), b
    v = orthogonal(rng, d) if kind == "power" else np.linalg.svd(b)[2].T
    return (v * (rng.permutation(powers) if kind == "shuffled" else powers)) @ v.T, b


def figure_4():
    """The draw of Fig 4: rotation and B are the second and fourth block of NumPy's seed 0."""
    draws = np.random.RandomState(0).randn(4, 10, 10)
    q = np.linalg.qr(draws[1])[0]
    b, eigenvalues = draws[3], np.arange(1, 11) ** -2.0
    v = np.linalg.svd(b)[2].T
    return ((v * eigenvalues) @ v.T, b), ((q * eigenvalues) @ q.T, b)


def task_of(xx, b):
    return sw.tasks.from_moments((xx + xx.T) / 2, b @ xx)


def covariances_of(xx, b):
    return Covariances.of(task_of(xx, b))


def start_of(xx, b, width, scale, seed=0):
    return Start(sw.Problem(task_of(xx, b), sw.units.Dense(width, "linear")), scale, seed)


def predict(method, xx, b, width, scale, seed=0):
    """What a method says of each mode, also of those that flow into each other."""
    with sw.float64():
        start = start_of(xx, b, width, scale, seed)
        outcome = LinearTheory(start).outcome(method)
    each = tuple(part for stage in outcome.stages for part in stage.parts or (stage,))
    return replace(outcome, stages=each), -math.log(start.norm)


def staircase(outcome, scale, eta, seed=0):
    return Staircase(
        "moments",
        "closed",
        scale,
        seed,
        2,
        eta,
        outcome.initial_loss,
        outcome.stages,
        outcome.stopped,
    )


def gradient_flow(xx, b, theta, times, tolerance=1e-6):
    """Loss of the network by an explicit solver, with no part of the package."""
    d, (width, size) = len(xx), theta.shape

    def velocity(_, flat):
        z = flat.reshape(width, size)
        w, a = z[:, :d], z[:, d:]
        gradient = (b - a.T @ w) @ xx
        return np.hstack([a @ gradient, w @ gradient.T]).ravel()

    def loss(flat):
        gap = b - flat.reshape(width, size)[:, d:].T @ flat.reshape(width, size)[:, :d]
        return 0.5 * np.trace(gap @ xx @ gap.T)

    tiny = tolerance * np.abs(theta).max()
    span = (0.0, times[-1])
    path = solve_ivp(
        velocity, span, theta.ravel(), "DOP853", times, rtol=1e-3 * tolerance, atol=tiny
    )
    return np.array([loss(state) for state in path.y.T])


# The limit


def test_figure_4():
    """Jump times of both panels, from the authors' closed form."""
    commuting, general = (covariances_of(*problem) for problem in figure_4())
    times = [event.time for event in linear.limit_events(commuting)]
    expected = [0.1759, 0.8106, 2.331, 5.933, 11.15, 20.94, 31.77, 80.11, 131.1, 3126]
    np.testing.assert_allclose(times, expected, rtol=5e-4)
    np.testing.assert_allclose(times, linear.gidel_times(commuting.singular[1]), rtol=1e-9)
    times = [event.time for event in linear.limit_events(general)]
    expected = [0.4277, 1.3319, 2.7444, 5.910, 8.366, 11.40, 37.94, 48.81, 64.64, 1468]
    np.testing.assert_allclose(times, expected, rtol=5e-4)
    # tau = 1/sigma (Eq 47) is wrong where modes meet
    assert linear.gidel_times(general.singular[1])[5] == pytest.approx(14.58, rel=1e-3)


def test_the_recursion_is_the_printed_one():
    """Eq 6 with its double sum, against the accumulated utilities."""
    covariances = covariances_of(*random_problem("wishart", 5, 6))
    modes = covariances.explained[0]
    sigma = [
        np.linalg.svd(covariances.cross - modes[:, :k] @ modes[:, :k].T @ covariances.cross)[1]
        for k in range(6)
    ]
    waits = []
    for i in range(1, 7):
        done = sum(sigma[j][i - j - 1] * waits[j] for j in range(i - 1))
        waits.append((1 - done) / sigma[i - 1][0])
    times = linear.conjecture_4_1(covariances.cross, modes)
    np.testing.assert_allclose(times, np.cumsum(waits), rtol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_reduced_rank_regression_is_the_best_map_of_its_rank(seed):
    """Against factors optimized from several random starts."""
    xx, b = random_problem("wishart", seed, 4, c=3)
    covariances = covariances_of(xx, b)
    rng = np.random.default_rng(seed)
    for rank in (1, 2):

        def cost(flat, rank=rank):
            a, w = flat[: 3 * rank].reshape(3, rank), flat[3 * rank :].reshape(rank, 4)
            gap = b - a @ w
            pull = gap @ xx
            slope = np.concatenate([-(pull @ w.T).ravel(), -(a.T @ pull).ravel()])
            return 0.5 * np.trace(gap @ pull.T), slope

        runs = [minimize(cost, rng.normal(size=7 * rank), jac=True) for _ in range(5)]
        best = min(run.fun for run in runs)
        gap = b - linear.reduced_rank_regression(covariances, rank)
        assert 0.5 * np.trace(gap @ xx @ gap.T) == pytest.approx(best, rel=1e-6)
        assert 0.5 * covariances.explained[1][rank:].sum() == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("kind", ["power", "wishart", "aligned", "shuffled", "white"])
def test_greedy_low_rank_learning_finds_the_limit(kind):
    """Algorithm 3 knows neither regression nor families of modes, and gives the same staircase."""
    for seed in range(4):
        xx, b = random_problem(kind, seed, 6, c=5)
        limit, _ = predict("limit", xx, b, 7, 1e-6)
        greedy, _ = predict("greedy-low-rank", xx, b, 7, 1e-6)
        assert [s.feature for s in greedy.stages] == [s.feature for s in limit.stages]
        for one, other in zip(greedy.stages, limit.stages, strict=True):
            assert one.time == pytest.approx(other.time, rel=1e-3)
            assert one.loss == pytest.approx(other.loss, abs=1e-4 * limit.initial_loss)


def test_modes_that_never_meet_go_their_own_ways():
    """Two independent problems side by side: both sequences, merged."""
    parts = [random_problem("wishart", seed, 3) for seed in (1, 2)]
    zero = np.zeros((3, 3))
    both = [np.block([[one, zero], [zero, other]]) for one, other in zip(*parts, strict=True)]
    apart = [event for part in parts for event in linear.limit_events(covariances_of(*part))]
    together = linear.limit_events(covariances_of(*both))
    assert len(linear.families(covariances_of(*both))) == 2
    expected = sorted((event.time, event.explained) for event in apart)
    np.testing.assert_allclose([(e.time, e.explained) for e in together], expected, rtol=1e-9)


def test_where_the_orders_of_sigma_and_mu_differ():
    """The flow follows sigma; Conjecture 4.1 as printed follows mu, and the audit says so."""
    xx, b = COUNTER_EXAMPLE
    covariances = covariances_of(xx, b)
    printed = linear.conjecture_4_1(covariances.cross, covariances.explained[0])
    np.testing.assert_allclose(printed, [1.0, 1.5])
    limit, eta = predict("limit", xx, b, 4, 1e-6)
    np.testing.assert_allclose([s.time / eta for s in limit.stages], [1.0, 2.0])
    np.testing.assert_allclose([s.loss for s in limit.stages], [1.25, 0.0], atol=1e-12)
    assert [s.feature["index"] for s in limit.stages] == [1, 0]
    with sw.float64():
        start = start_of(xx, b, 4, 1e-6)
        failed = [a.name for a in LinearTheory(start).audit if not a.holds]
        assert LinearTheory(start).preferred == "numeric"
        assert LinearTheory(start_of(xx, b, 5_001, 1e-6)).preferred == "closed"
        # one unit alone learns the first mode of sigma, and then gives way to that of mu
        narrow = start_of(xx, b, 1, 1e-6)
        assert LinearTheory(narrow).preferred == "numeric"
        sentences = [a.needed for a in LinearTheory(narrow).audit]
    assert len(failed) == 1
    assert "orders of sigma and mu" in failed[0]
    assert any("1 will never be learned; the learned ones give way" in text for text in sentences)


@pytest.mark.parametrize("angle", [0.0, 0.03, 0.3])
def test_the_curve_tends_to_the_limit(angle):
    """Differences of accelerated times are a constant / log(1/scale), down to scale 1e-130.

    At a small angle modes meet although the orders of sigma and mu differ: in the limit the flow
    goes to the minimum of its rank in no time, however long it rests at another saddle before.
    """
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    xx, b = turn @ COUNTER_EXAMPLE[0] @ turn.T, COUNTER_EXAMPLE[1]
    limit = np.array([event.time for event in linear.limit_events(covariances_of(xx, b))])
    offsets = []
    for scale in (1e-30, 1e-60, 1e-130):
        outcome, eta = predict("closed", xx, b, 3, scale)
        offsets.append([s.time - eta * tau for s, tau in zip(outcome.stages, limit, strict=True)])
    np.testing.assert_allclose(offsets[1], offsets[2], atol=0.05)
    np.testing.assert_allclose(offsets[0], offsets[2], atol=0.2)


# Formulas


def test_growth_on_a_plateau_solves_its_equation():
    rng = np.random.default_rng(0)
    w, a, gradient = (rng.normal(size=shape) for shape in ((4, 5), (3, 4), (3, 5)))
    now = linear.grow(Layers(w, a), gradient, 1.3)

    def velocity(_, flat):
        w, a = flat[:20].reshape(4, 5), flat[20:].reshape(3, 4)
        return np.concatenate([(a.T @ gradient).ravel(), (gradient @ w.T).ravel()])

    start = np.concatenate([w.ravel(), a.ravel()])
    end = solve_ivp(velocity, (0, 1.3), start, rtol=1e-11, atol=1e-11).y[:, -1]
    # up to the turn of the hidden space, which leaves all products of layers as they are; it drops
    # the direction in which nothing grows
    w, a = end[:20].reshape(4, 5), end[20:].reshape(3, 4)
    growing = a.T @ np.linalg.svd(gradient)[0] + w @ np.linalg.svd(gradient)[2][:3].T
    kept = np.linalg.qr(growing)[0]
    np.testing.assert_allclose(now.a @ now.w, a @ kept @ kept.T @ w, rtol=1e-6)
    np.testing.assert_allclose(now.a @ now.a.T, a @ kept @ kept.T @ a.T, rtol=1e-6)


def test_weak_modes_survive_beside_strong_ones():
    """The second mode off the first one's direction, after the first grew e^100 times more."""
    rng = np.random.default_rng(1)
    w, a = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    now = linear.grow(Layers(w, a), np.diag([2.0, 1.0]), 100.0)
    first, second = (w + a.T).T / 2
    off = second - first * (first @ second) / (first @ first)
    assert np.linalg.norm(now.w[1]) == pytest.approx(np.linalg.norm(off) * math.exp(100), rel=1e-9)


def test_each_layer_follows_its_flow_exactly():
    covariances = covariances_of(*random_problem("wishart", 3, 4))
    rng = np.random.default_rng(2)
    layers = Layers(rng.normal(size=(3, 4)), rng.normal(size=(4, 3)))
    gradient = lambda w, a: covariances.gradient(Layers(w, a))  # noqa: E731
    outer = solve_ivp(
        lambda _, a: (gradient(layers.w, a.reshape(4, 3)) @ layers.w.T).ravel(),
        (0, 0.7),
        layers.a.ravel(),
        rtol=1e-11,
        atol=1e-11,
    )
    inner = solve_ivp(
        lambda _, w: (layers.a.T @ gradient(w.reshape(3, 4), layers.a)).ravel(),
        (0, 0.7),
        layers.w.ravel(),
        rtol=1e-11,
        atol=1e-11,
    )
    found = (
        linear.relax_outer(covariances, layers, 0.7).a,
        linear.relax_inner(covariances, layers, 0.7).w,
    )
    np.testing.assert_allclose(found[0].ravel(), outer.y[:, -1], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found[1].ravel(), inner.y[:, -1], rtol=1e-6, atol=1e-8)


def test_steps_are_of_second_order():
    covariances = covariances_of(*random_problem("wishart", 3, 4))
    ends = []
    for count in (8, 16, 512):
        rng = np.random.default_rng(2)
        layers = Layers(0.5 * rng.normal(size=(3, 4)), 0.5 * rng.normal(size=(4, 3)))
        for _ in range(count):
            layers = linear.descend(covariances, layers, 0.5 / count)
        ends.append(layers.map)
    coarse, fine = (np.abs(end - ends[2]).max() for end in ends[:2])
    assert coarse / fine == pytest.approx(4.0, rel=0.15)


def test_the_matrix_logistic_function_is_exact_for_white_inputs():
    """Balanced layers, no small scale: W = R A^T with the modes of B as both bases."""
    rng = np.random.default_rng(3)
    b = np.diag([2.0, 1.2, 0.7])
    a = 0.3 * rng.normal(size=(3, 4))
    covariances = covariances_of(np.eye(3), b)
    theta = np.hstack([a.T, a.T])
    modes = linear.UncorrelatedModes.of(covariances, Layers.of(covariances, theta))
    times = np.linspace(0.0, 6.0, 13)
    expected = gradient_flow(np.eye(3), b, theta, times, tolerance=1e-9)
    for time, loss in zip(times[1:], expected[1:], strict=True):
        gap = np.diag(modes.rest) - linear.logistic_map(modes, time)
        assert 0.5 * np.sum(gap**2) == pytest.approx(loss, rel=1e-6)


# Against gradient flow


@pytest.mark.parametrize("kind", ["aligned", "shuffled", "power", "wishart"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_jump_times_at_finite_scale(kind, seed):
    """The first eight of ten modes, in the middle of each step down, and the plateaus between."""
    xx, b = random_problem(kind, seed)
    outcome, eta = predict("closed", xx, b, 10, 1e-4, seed)
    limit, _ = predict("limit", xx, b, 10, 1e-4, seed)
    stairs = staircase(outcome, 1e-4, eta, seed)
    units, end = sw.units.Dense(10, "linear"), 1.1 * stairs.jump_times[8]
    path = sw.train(task_of(xx, b), units, 1e-4, seed, convergence=0.0, max_time=end)
    # the middles of the limit's steps are passed by both curves, even where no plateau is seen
    levels = np.array([limit.initial_loss, *(stage.loss for stage in limit.stages)])
    middles = 0.5 * (levels[:-1] + levels[1:])[:8]
    time, loss = outcome.curve
    seen = np.array([loss_curve(path).crossing(middle) for middle in middles])
    np.testing.assert_allclose(np.interp(-middles, -loss, time), seen, rtol=0.006)
    # where plateaus are seen on both sides of a jump, the stages agree
    agreement = sw.compare(stairs, path)
    drops = -np.diff(stairs.loss_levels)
    off = np.array(agreement.level_error[:8]) * stairs.initial_loss
    flat = np.append(True, off < 0.02 * np.minimum(drops[:8], drops[1:9]))
    visible = flat[:-1] & flat[1:]
    assert visible.sum() >= 2
    assert np.array(agreement.time_error)[:8][visible].max() < 0.01


@pytest.mark.parametrize("scale", [1e-1, 1e-3, 1e-6])
def test_the_curve_is_that_of_an_independent_solver(scale):
    """Three modes that meet, more units than modes, fewer outputs than inputs."""
    xx, b = random_problem("wishart", 7, 5, c=3)
    outcome, _ = predict("closed", xx, b, 4, scale)
    with sw.float64():
        theta = np.asarray(start_of(xx, b, 4, scale).theta)
    time, loss = outcome.curve
    expected = gradient_flow(xx, b, theta, time[::8])
    np.testing.assert_allclose(loss[::8], expected, atol=0.01 * outcome.initial_loss)


def test_close_modes_are_learned_in_the_order_of_the_start():
    """Singular values 0.1% apart at scale 1e-3: whichever has the larger seed comes first."""
    xx, b = np.eye(2), np.diag([1.0, 0.999])
    firsts = []
    for seed in range(6):
        outcome, _ = predict("closed", xx, b, 2, 1e-3, seed)
        with sw.float64():
            theta = np.asarray(start_of(xx, b, 2, 1e-3, seed).theta)
        sums = theta[:, :2] + theta[:, 2:]
        larger = int(np.argmax(np.linalg.norm(sums, axis=0)))
        firsts.append(outcome.stages[0].feature["index"])
        assert firsts[-1] == larger
    assert set(firsts) == {0, 1}
    with sw.float64():
        failed = [a for a in LinearTheory(start_of(xx, b, 2, 1e-3)).audit if not a.holds]
    assert any("distinct" in a.name and "initialization" in a.needed for a in failed)


@pytest.mark.parametrize("kind", ["white", "wishart"])
def test_too_few_units(kind):
    xx, b = random_problem(kind, 1, 5)
    explained = covariances_of(xx, b).explained[1]
    for method in LinearTheory.methods:
        outcome, _ = predict(method, xx, b, 3, 1e-4)
        assert outcome.stopped == "no dormant units"
        assert len(outcome.stages) == 3
        lost = 0.5 * explained[3:].sum()
        assert outcome.stages[-1].loss == pytest.approx(lost, abs=1e-3 * outcome.initial_loss)
    with sw.float64():
        failed = [a for a in LinearTheory(start_of(xx, b, 3, 1e-4)).audit if not a.holds]
    assert any("2 will never be learned" in a.needed for a in failed)


def test_deficient_covariances_and_noise():
    """A silent input, a target of rank 2, and a part of y that no map explains."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(40, 5))
    x[:, 2] = 0.0
    b = rng.normal(size=(4, 2)) @ rng.normal(size=(2, 5))
    noise = rng.normal(size=(40, 4))
    noise -= x @ np.linalg.lstsq(x, noise, rcond=None)[0]
    task = sw.tasks.from_arrays(x, x @ b.T + noise)
    floor = 0.5 * np.mean(np.sum(noise**2, axis=1))
    with sw.float64():
        start = Start(sw.Problem(task, sw.units.Dense(6, "linear")), 1e-5)
        modes = start.problem.task.modes()
        failed = [a.name for a in LinearTheory(start).audit if not a.holds]
        theory = LinearTheory(start)
        outcomes = [theory.outcome(method) for method in theory.methods]
    assert any("full rank" in name for name in failed)
    for outcome in outcomes:
        assert outcome.stopped == "no utility left"
        assert outcome.stages[-1].loss == pytest.approx(floor, rel=1e-5)
        for stage in outcome.stages:
            name = modes.names[stage.feature["index"]]
            assert stage.feature["value"] == pytest.approx(name["value"], rel=1e-9)


def test_nothing_to_learn():
    for method in LinearTheory.methods:
        outcome, _ = predict(method, np.eye(3), np.zeros((2, 3)), 3, 1e-4)
        assert outcome.stages == ()
        assert outcome.stopped == "no utility left"


def test_what_is_covered():
    task = task_of(np.eye(2), np.eye(2))
    linear_units = sw.units.Dense(2, "linear")
    assert LinearTheory.covers(sw.Problem(task, linear_units))
    assert not LinearTheory.covers(sw.Problem(task, linear_units, rates={"a": 2.0}))
    samples = sw.tasks.from_arrays(np.eye(2), np.eye(2))
    assert not LinearTheory.covers(sw.Problem(samples, sw.units.Dense(2, "tanh")))
    assert LinearTheory.covers(sw.Problem(samples, linear_units))
    with sw.float64(), pytest.raises(sw.InputError, match="not dormant"):
        LinearTheory(Start(sw.Problem(task, linear_units), 3.0)).outcome("closed")


@pytest.mark.parametrize("commuting", [True, False])
def test_a_closed_form_that_is_cut_is_the_beginning_of_the_whole(commuting):
    task, units = sw.tasks.linear_map(5, 4, commuting=commuting), sw.units.Dense(5, "linear")
    whole = sw.predict(task, units, 1e-4, method="closed")
    end = 0.5 * (whole.jump_times[1] + whole.jump_times[2])
    cut = sw.predict(task, units, 1e-4, method="closed", max_time=end)
    assert len(cut.stages) == 2
    assert cut.stopped == "limit"
    np.testing.assert_allclose(cut.jump_times, whole.jump_times[:2], rtol=1e-3)
    none = sw.predict(task, units, 1e-4, method="closed", max_time=0.2 * whole.jump_times[0])
    assert len(none.stages) == 0
    assert none.stopped == "limit"


def test_many_modes_are_timed_by_their_squares():
    """Above 200 outputs singular values are roots of eigenvalues; the times are those of true ones."""
    rng = np.random.default_rng(0)
    cross, modes = rng.normal(size=(210, 220)), np.linalg.qr(rng.normal(size=(210, 210)))[0]
    rows = modes.T @ cross
    rates = [np.linalg.svd(rows[k:], compute_uv=False) for k in range(210)]
    times = linear.conjecture_4_1(cross, modes)
    np.testing.assert_allclose(times, linear.accumulated_times(rates), rtol=1e-9)
    top = linear.top_output(rows)
    np.testing.assert_allclose(abs(top @ np.linalg.svd(rows)[0][:, 0]), 1.0, rtol=1e-9)


@pytest.mark.parametrize(("commuting", "scale"), [(True, 3e-2), (False, 1e-2), (False, 1e-4)])
def test_closed_forms_say_how_much_they_err(commuting, scale):
    """Against gradient flow: the error is what was expected, within a factor 3."""
    task, units = (
        sw.tasks.linear_map(5, 4, commuting=commuting, seed=1),
        sw.units.Dense(5, "linear"),
    )
    path = sw.train(task, units, scale, seed=1)
    exact = np.array([stage.time for stage in path.stages])
    for method in ("closed", "limit"):
        stairs = sw.predict(task, units, scale, seed=1, method=method)
        error = np.mean(np.abs(np.array(stairs.jump_times) / exact - 1))
        assert error / 3 < stairs.expected_error < 3 * error


def test_modes_that_flow_into_each_other_are_one_stage():
    """A curve that does not rest between two modes shows one jump, and the list has one stage, with parts."""
    task, units = sw.tasks.linear_map(8, 6, seed=0), sw.units.Dense(8, "linear")
    closed, numeric = (
        sw.predict(task, units, 1e-8, method=method) for method in ("closed", "numeric")
    )
    parts = [len(stage.parts) for stage in closed.stages]
    assert parts == [0, 0, 2, 0, 0]
    np.testing.assert_allclose(closed.jump_times, numeric.jump_times, rtol=2e-3)
    joined = closed.stages[2]
    first, second = joined.parts
    assert first.time < joined.time < second.time
    assert joined.loss == second.loss


def test_the_default_at_tiny_scales_stays_affine():
    """In log(1/alpha): the jump times at 1e-120 are where those at 1e-10 and 1e-24 point to."""
    task, units = sw.tasks.linear_map(8, 6, seed=2), sw.units.Dense(6, "linear")
    decades = np.array([10, 24, 120])
    stairs = [sw.predict(task, units, 10.0**-d, seed=2) for d in decades]
    assert [one.method for one in stairs] == ["numeric", "numeric", "closed"]
    first, second, last = (np.array([s.jump_times[0], s.jump_times[-1]]) for s in stairs)
    slope = (second - first) / (decades[1] - decades[0])
    np.testing.assert_allclose(last, second + slope * (decades[2] - decades[1]), rtol=2e-3)

"""Linear attention and the bounds on jump times: formulas against moments, minimization and flows."""

import math

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.optimize import minimize

import saddlewalk as sw
from saddlewalk.theory import attention
from saddlewalk.theory.base import Start
from saddlewalk.theory.bounds import norm_after, utility_to_reach, waiting_time

VALUES = np.array([0.96, 0.48, 0.32, 0.24])
CONTEXT = 32


# --- bounds (appendix B.2) ------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [2, 2.5, 3, 4, 7])
def test_waiting_time_against_the_growth_of_a_norm(degree):
    """d|theta|/dt = kappa U |theta|^(kappa-1), integrated, hits the threshold at that time."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        norm, utility, threshold = rng.uniform(0.05, 0.4), rng.uniform(0.1, 3), rng.uniform(0.5, 1)
        time = waiting_time(norm, utility, degree, threshold)
        flow = solve_ivp(
            lambda t, n, u=utility: degree * u * n ** (degree - 1),
            (0.0, 0.999 * time),
            [norm],
            method="DOP853",
            rtol=1e-12,
            atol=1e-14,
        )
        accumulated = degree * utility * 0.999 * time
        assert norm_after(norm, accumulated, degree) == pytest.approx(flow.y[0, -1], rel=1e-7)
        reached = norm_after(norm, utility_to_reach(norm, degree, threshold), degree)
        assert reached == pytest.approx(threshold, rel=1e-8)
        direct = quad(lambda n: n ** (1 - degree), norm, threshold)[0] / (degree * utility)
        assert time == pytest.approx(direct, rel=1e-9)


def test_waiting_time_is_continuous_in_the_degree_and_stable():
    exact = waiting_time(1e-5, 0.7, 2)
    assert exact == pytest.approx(-math.log(1e-5) / 1.4, rel=1e-14)
    for gap in (1e-4, 1e-8, 1e-12):
        assert waiting_time(1e-5, 0.7, 2 + gap) == pytest.approx(exact, rel=10 * gap)
        close = norm_after(1e-5, 8.0, 2 + gap)
        assert close == pytest.approx(norm_after(1e-5, 8.0, 2), rel=100 * gap)
    # a start just below the threshold, where the difference of powers would cancel
    assert waiting_time(1 - 1e-12, 1.0, 3) == pytest.approx(1e-12 / 3, rel=1e-3)


def test_waiting_time_at_the_edges():
    assert waiting_time(2.0, 1.0, 3) == 0
    assert waiting_time(0.1, 0.0, 3) == math.inf
    assert waiting_time(1e-100, 1.0, 6) == math.inf
    assert norm_after(0.5, 2.5, 3) == math.inf
    times = waiting_time(0.1, np.array([1.0, 2.0, 0.0]), 3)
    np.testing.assert_allclose(times, [3.0, 1.5, math.inf])


# --- the population problem -----------------------------------------------------------------------


def random_axes(seed, d=4):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def random_heads(rng, heads, d=4):
    return rng.normal(size=heads), rng.normal(size=(heads, d)), rng.normal(size=(heads, d))


def flat(value, key, query):
    return np.concatenate([value[:, None], key, query], axis=1)


def loss_and_slope(matrix, covariance, context):
    """E(beta x - beta S M x)^2 / 2 by the moments of S, and its gradient in M."""
    d = len(covariance)
    moment = context * np.trace(covariance) * covariance + context * (context + 1) * (
        covariance @ covariance
    )
    loss = 0.5 * (
        np.trace(covariance)
        - 2 * context * np.trace(covariance @ matrix @ covariance)
        + np.trace(matrix @ covariance @ matrix.T @ moment)
    )
    slope = -context * covariance @ np.eye(d) @ covariance + moment @ matrix @ covariance
    return loss, slope


@pytest.fixture(scope="module")
def rotated():
    """The covariance of Fig 5 in a random basis, with its problem for five heads."""
    axes = random_axes(0)
    task = sw.tasks.in_context_regression(VALUES, CONTEXT, axes)
    return (axes * VALUES) @ axes.T, sw.Problem(task, sw.units.LinearAttention(5))


def test_population_loss_by_its_moments(rotated):
    covariance, problem = rotated
    rng = np.random.default_rng(1)
    for _ in range(3):
        value, key, query = random_heads(rng, 5)
        expected, slope = loss_and_slope(np.einsum("h,hi,hj", value, key, query), covariance, 32)
        with sw.float64():
            theta = flat(value, key, query)
            assert float(problem.loss(theta)) == pytest.approx(expected, rel=1e-10)
            velocity = problem.velocity(theta)
        np.testing.assert_allclose(velocity[:, 0], -np.sum(key @ slope * query, 1), rtol=1e-9)


def test_population_loss_by_monte_carlo():
    axes = random_axes(3)
    rng = np.random.default_rng(2)
    value, key, query = random_heads(rng, 5)
    theta = flat(0.1 * value, 0.3 * key, 0.3 * query)
    samples = sw.tasks.in_context_sequences(VALUES, CONTEXT, axes, sequences=40_000, seed=4)
    context, last = np.split(np.asarray(samples.x), 2, axis=1)
    matrix = np.einsum("h,hi,hj", 0.1 * value, 0.3 * key, 0.3 * query)
    errors = 0.5 * (np.asarray(samples.y)[:, 0] - np.sum(context @ matrix * last, axis=1)) ** 2
    problem = sw.Problem(
        sw.tasks.in_context_regression(VALUES, CONTEXT, axes), sw.units.LinearAttention(5)
    )
    with sw.float64():
        expected = float(problem.loss(theta))
    spread = errors.std() / math.sqrt(len(errors))
    assert abs(errors.mean() - expected) < 4 * spread < 0.1 * expected


@pytest.mark.parametrize("learned", [0, 1, 3])
def test_utility(rotated, learned):
    """Eq 49 against <f, r> with the residual of heads that have learned components."""
    covariance, problem = rotated
    rng = np.random.default_rng(5)
    size = np.cbrt(attention.amplitudes(VALUES, CONTEXT))
    axes = np.asarray(problem.task.axes)
    active = np.zeros((5, 9))
    for k in range(learned):
        active[k] = size[k] * np.concatenate([[1.0], axes[:, k], axes[:, k]])
    value, key, query = random_heads(rng, 5)
    with sw.float64():
        direct = problem.utility(flat(value, key, query), problem.residual(active))
    formula = attention.utility(value, key, query, covariance, CONTEXT, learned)
    np.testing.assert_allclose(formula, direct, rtol=1e-8)


def test_maximal_utility_is_that_of_the_first_component_left_and_there_is_no_other_maximum():
    rng = np.random.default_rng(6)

    def climb(squares):
        def negative(theta):
            size = np.linalg.norm(theta)
            value, key, query = np.split(theta / size, [1, 5])
            utility = CONTEXT * value[0] * np.sum(key * squares * query)
            slope = CONTEXT * np.concatenate(
                [[np.sum(key * squares * query)], value * squares * query, value * squares * key]
            )
            return -utility, -(slope - 3 * utility * theta / size) / size

        run = minimize(negative, rng.normal(size=9), jac=True, method="L-BFGS-B")
        return -run.fun

    for learned, best in enumerate(attention.maximal_utility(VALUES, CONTEXT)):
        left = np.where(np.arange(4) < learned, 0.0, VALUES)
        for _ in range(4):
            assert climb(left**2) == pytest.approx(best, rel=1e-6)


def test_levels_are_the_least_loss_of_so_many_heads():
    """Eq 57 (not Eq 7) against minimization over k heads, random spectra; and the paper's numbers."""
    numbers = [1, 0.56219, 0.35555, 0.22510, 0.13220]
    np.testing.assert_allclose(attention.levels(VALUES, CONTEXT), numbers, atol=1e-5)
    rng = np.random.default_rng(7)
    for context in (1, 5):
        values = np.sort(rng.uniform(0.1, 1, size=4))[::-1]
        covariance = np.diag(values)
        levels = attention.levels(values, context)
        for heads in (1, 2, 4):

            def objective(t, heads=heads, covariance=covariance, context=context):
                key, query = t.reshape(2, heads, 4)
                loss, slope = loss_and_slope(key.T @ query, covariance, context)
                return loss, np.concatenate([(query @ slope.T).ravel(), (key @ slope).ravel()])

            best = min(
                (minimize(objective, rng.normal(size=8 * heads), jac=True) for _ in range(3)),
                key=lambda run: run.fun,
            )
            assert best.fun == pytest.approx(levels[heads], rel=1e-8)
        key, query = best.x.reshape(2, 4, 4)
        amplitudes = attention.amplitudes(values, context)
        np.testing.assert_allclose(key.T @ query, np.diag(amplitudes), atol=1e-3)


def test_levels_are_rest_points_of_the_problem(rotated):
    """With k components learned by balanced heads the gradient is zero and the loss is the level."""
    _, problem = rotated
    axes = np.asarray(problem.task.axes)
    amplitudes = attention.amplitudes(VALUES, CONTEXT)
    theta = np.zeros((5, 9))
    with sw.float64():
        for k, level in enumerate(attention.levels(VALUES, CONTEXT)[1:]):
            theta[k] = np.cbrt(amplitudes[k]) * np.concatenate([[1.0], axes[:, k], axes[:, k]])
            norm = attention.equilibrium_norm(amplitudes)[k]
            assert np.linalg.norm(theta[k]) == pytest.approx(norm, rel=1e-12)
            assert float(problem.loss(theta)) == pytest.approx(level, rel=1e-12)
            assert np.abs(problem.velocity(theta)).max() < 1e-12
    assert attention.equilibrium_norm(amplitudes)[0] == pytest.approx(0.537, abs=1e-3)


# --- the prediction -------------------------------------------------------------------------------


def learning_times(theta, values, context, stop, rates=1.0):
    """When half of each component's loss is gone, by integrating the flow in the eigenbasis."""
    heads, d = theta.shape[0], len(values)
    covariance = np.diag(values)
    amplitudes = attention.amplitudes(values, context)

    def velocity(t, y):
        value, key, query = np.split(y.reshape(heads, -1), [1, 1 + d], axis=1)
        _, slope = loss_and_slope((value * key).T @ query, covariance, context)
        by_query, by_key = query @ slope.T, key @ slope
        rows = [np.sum(key * by_query, 1, keepdims=True), value * by_query, value * by_key]
        return -(rates * np.concatenate(rows, axis=1)).ravel()

    def passes(k):
        def strength(t, y):
            value, key, query = np.split(y.reshape(heads, -1), [1, 1 + d], axis=1)
            held = np.sum(value[:, 0] * key[:, k] * query[:, k])
            return held / amplitudes[k] - (1 - math.sqrt(0.5))

        return strength

    events = [passes(k) for k in range(d)]
    flow = solve_ivp(
        velocity, (0, stop), theta.ravel(), method="LSODA", rtol=1e-7, atol=1e-12, events=events
    )
    return [float(times[0]) if len(times) else math.inf for times in flow.t_events]


def closed(values, heads, scale, seed=0, given=None, **options):
    task = sw.tasks.in_context_regression(values, CONTEXT)
    start = Start(sw.Problem(task, sw.units.LinearAttention(heads), **options), scale, seed, given)
    with sw.float64():
        return (
            attention.AttentionTheory(start).outcome("closed"),
            attention.AttentionTheory(start).audit,
            np.asarray(start.theta),
        )


def failed(audit):
    return " | ".join(assumption.name for assumption in audit if not assumption.holds)


def test_closed_prediction(rotated):
    _, problem = rotated
    assert attention.AttentionTheory.covers(problem)
    outcome, audit, _ = closed(VALUES, 5, 1e-3)
    np.testing.assert_allclose(
        [outcome.initial_loss, *(s.loss for s in outcome.stages)],
        attention.levels(VALUES, CONTEXT),
        rtol=1e-14,
    )
    assert [s.feature for s in outcome.stages] == list(problem.task.modes().names)
    assert failed(audit) == ""
    assert outcome.stopped == "no utility left"
    assert "lower bound" in outcome.assumptions[0].needed
    assert 0 < outcome.assumptions[0].value < 1
    samples = sw.tasks.in_context_sequences(VALUES, CONTEXT, sequences=64)
    assert not attention.AttentionTheory.covers(sw.Problem(samples, sw.units.LinearAttention(5)))


@pytest.mark.parametrize("scale", [0.3, 0.1, 1e-2])
def test_the_first_time_is_a_lower_bound(scale):
    for seed in range(4):
        outcome, _, theta = closed(VALUES, 5, scale, seed)
        bound = outcome.stages[0].time
        stop = 100 / (np.linalg.norm(theta, axis=1).max() * 32 * VALUES[0] ** 2)
        assert bound <= min(learning_times(theta, VALUES, CONTEXT, stop))


def test_the_bound_is_exact_for_a_small_aligned_head():
    aligned = np.array([[1.0, 1.0, 0, 0, 0, 1.0, 0, 0, 0]]) / math.sqrt(3)
    for norm, error in ((1e-2, 0.1), (1e-3, 0.01)):
        outcome, _, theta = closed(VALUES, 1, norm, given=norm * aligned)
        bound = outcome.stages[0].time
        assert outcome.assumptions[0].holds
        assert outcome.stopped == "no dormant units"
        time = learning_times(theta, VALUES, CONTEXT, 3 * bound)[0]
        assert bound < time < (1 + error) * bound


def test_later_times_are_no_bound_if_heads_grew_on_earlier_components():
    """Against Eq 7 with l = 0: a head that lost the first race is large, and takes the next feature."""
    first = np.array([1.0, 1.0, 0, 0, 0, 1.0, 0, 0, 0])
    second = np.array([0.98, 0.96, 0.2, 0, 0, 0.96, 0.2, 0, 0])
    start = 1e-3 * np.stack([first, second]) / math.sqrt(3)
    outcome, _, theta = closed(VALUES, 2, 1e-3, given=start)
    times = learning_times(theta, VALUES, CONTEXT, outcome.stages[1].time)
    assert times[0] > outcome.stages[0].time
    assert times[1] < outcome.stages[1].time


def test_learning_rates_of_the_layers():
    """Rates r are the plain flow of theta / sqrt(r): exact for a head that is aligned there."""
    rates = {"V": 9.0, "K": 1.0, "Q": 0.25}
    root = np.repeat([3.0, 1.0, 0.5], [1, 4, 4])
    aligned = 1e-3 * root * np.array([[1.0, 1.0, 0, 0, 0, 1.0, 0, 0, 0]])
    outcome, _, theta = closed(VALUES, 1, 1e-3, given=aligned, rates=rates)
    bound = outcome.stages[0].time
    time = learning_times(theta, VALUES, CONTEXT, 3 * bound, root**2)[0]
    assert bound < time < 1.02 * bound


def test_fewer_heads_than_components():
    outcome, audit, _ = closed(VALUES, 2, 1e-3)
    assert [s.feature["index"] for s in outcome.stages] == [0, 1]
    assert outcome.stopped == "no dormant units"
    assert "never learned: component 2, 3" in failed(audit)


@pytest.mark.parametrize(
    ("values", "scale", "words"),
    [
        ([1.0, 1.0, 0.5, 0.1], 1e-3, "components 0 and 1 differ by 0.0% and may swap"),
        ([1.0, 0.5, 0.45, 0.1], 1e-3, "components 1 and 2 differ by 10.0%"),
        (VALUES, 0.2, "largest initial norm"),
    ],
)
def test_audit_names_what_fails(values, scale, words):
    _, audit, _ = closed(values, 5, scale)
    assert words in failed(audit)


def test_norm_one_and_more_is_refused():
    with pytest.raises(sw.InputError, match="not dormant"):
        closed(VALUES, 5, 3.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 0.0], 4), "positive eigenvalues"),
        (([1.0, -1.0], 4), "positive eigenvalues"),
        (([[1.0, 2.0]], 4), "vector"),
        (([], 4), "at least one"),
        (([1.0, np.nan], 4), "NaN or infinite"),
        (([1.0, 0.5], 0), "at least 1; got 0"),
        (([1.0, 0.5], 2, np.ones((2, 2))), "orthogonal"),
        (([1.0, 0.5], 2, np.eye(3)), "orthogonal"),
    ],
)
def test_bad_tasks(arguments, message):
    with pytest.raises(sw.InputError, match=message):
        sw.tasks.in_context_regression(*arguments)


def test_sequences_need_a_number():
    with pytest.raises(sw.InputError, match="at least one sequence"):
        sw.tasks.in_context_sequences(VALUES, 4, sequences=0)

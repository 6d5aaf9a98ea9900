"""Modular addition: the Fourier formulas against sums over all pairs and against minimization."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

import saddlewalk as sw
from saddlewalk.theory import modular
from saddlewalk.theory.base import Start
from saddlewalk.theory.bounds import waiting_time


def words(x):
    return _words(tuple(x))


@functools.cache
def _words(x):
    """All pairs of words and their sum, by loops."""
    p = len(x)
    pairs = list(itertools.product(range(p), repeat=2))
    first = np.array([np.roll(x, a) for a, _ in pairs])
    second = np.array([np.roll(x, b) for _, b in pairs])
    return first, second, np.array([np.roll(x, a + b) for a, b in pairs])


def network(x, theta):
    first, second, _ = words(x)
    u, v, w = np.split(theta, 3, axis=1)
    return (first @ u.T + second @ v.T) ** 2 @ w


def loss(x, theta):
    return 0.5 * np.mean(np.sum((words(x)[2] - network(x, theta)) ** 2, axis=1))


def gradient(x, theta):
    first, second, target = words(x)
    u, v, w = np.split(theta, 3, axis=1)
    inner = first @ u.T + second @ v.T
    error = inner**2 @ w - target
    slope = 2 * inner * (error @ w.T)
    parts = [slope.T @ first, slope.T @ second, (inner**2).T @ error]
    return np.concatenate(parts, axis=1) / len(target)


def brute_utility(x, theta, residual):
    return np.array([np.mean(np.sum(network(x, row[None]) * residual, axis=1)) for row in theta])


def without(x, frequencies):
    """The encoding with some frequencies removed."""
    transform = np.fft.rfft(x)
    transform[list(frequencies)] = 0
    return np.fft.irfft(transform, n=len(x))


def climb(x, theta):
    """The normalized utility that L-BFGS reaches from a start, and where."""
    first, second, target = words(x)
    p = len(x)

    def negative(t):
        size = np.linalg.norm(t)
        u, v, w = np.split(t / size, 3)
        inner, pull = first @ u + second @ v, target @ w
        value = np.mean(inner**2 * pull)
        slope = 2 * inner * pull
        full = np.concatenate([slope @ first, slope @ second, inner**2 @ target]) / p**2
        return -value, -(full - 3 * value * t / size) / size

    run = minimize(negative, theta, jac=True, method="L-BFGS-B", options={"gtol": 1e-11})
    return -run.fun, run.x / np.linalg.norm(run.x)


def random_encoding(p, seed):
    x = np.random.default_rng(seed).normal(size=p)
    return x - x.mean()


def even_encoding(p, rng):
    """Magnitudes of the same order, so that no frequency is swallowed by another."""
    transform = rng.uniform(2, 4, size=p // 2 + 1) * np.exp(2j * math.pi * rng.random(p // 2 + 1))
    transform[0] = 0
    if p % 2 == 0:
        transform[-1] = abs(transform[-1])
    return np.fft.irfft(transform, n=p)


def random_waves(rng, neurons):
    return rng.uniform(0.3, 1.5, size=(3, neurons)), rng.uniform(0, 2 * math.pi, (3, neurons))


@pytest.mark.parametrize("p", [3, 4, 5, 8, 9])
def test_utility_in_the_fourier_domain_is_the_sum_over_all_pairs(p):
    """Lemma F.2, and Theorem F.9 with the index mended, for any set of learned frequencies."""
    rng = np.random.default_rng(p)
    for seed in range(5):
        x = random_encoding(p, seed)
        theta = rng.normal(size=(4, 3 * p))
        for learned in ([], [1], [p // 2], [1, p // 2]):
            formula = modular.utility(x, *np.split(theta, 3, axis=1), learned)
            target = words(without(x, learned))[2]
            direct = brute_utility(x, theta, target)
            np.testing.assert_allclose(formula, direct, rtol=1e-7, atol=1e-12)


def test_utility_is_the_problem_s_own(problem, encoding):
    theta = np.random.default_rng(1).normal(size=(problem.width, problem.size))
    with sw.float64():
        direct = problem.utility(theta, problem.residual(0 * theta))
    formula = modular.utility(encoding, *np.split(theta, 3, axis=1))
    np.testing.assert_allclose(formula, direct, rtol=1e-9)


@pytest.mark.parametrize("p", [7, 8])
def test_largest_utility_on_the_sphere(p):
    """Theorem 5.1 and its Nyquist counterpart; every frequency is a local maximum besides."""
    rng = np.random.default_rng(p)
    x = even_encoding(p, rng)
    transform = np.fft.rfft(x)
    top = {k: modular.maximal_utility(p, k, abs(transform[k])) for k in range(1, p // 2 + 1)}
    reached = np.array([climb(x, rng.normal(size=3 * p))[0] for _ in range(15)])
    assert reached.max() == pytest.approx(max(top.values()), rel=1e-7)
    for k, value in top.items():
        phases = (0.0, math.pi) if 2 * k == p else (0.4, 1.3)
        peak = modular.maximizer(p, k, transform[k], *phases)[0]
        assert np.linalg.norm(peak) == pytest.approx(1.0, rel=1e-12)
        assert modular.utility(x, *np.split(peak, 3)) == pytest.approx(value, rel=1e-12)
        for _ in range(5):
            nearby, where = climb(x, peak + 0.02 * rng.normal(size=3 * p))
            assert nearby == pytest.approx(value, rel=1e-7)
            assert np.abs(np.fft.rfft(where[-p:])).argmax() == k


def test_no_other_local_maxima_than_waves_of_one_frequency():
    rng = np.random.default_rng(0)
    x = even_encoding(7, rng)
    top = [modular.maximal_utility(7, k, abs(np.fft.rfft(x)[k])) for k in (1, 2, 3)]
    for _ in range(15):
        value, _ = climb(x, rng.normal(size=21))
        assert np.abs(np.array(top) / value - 1).min() < 1e-6


@pytest.mark.parametrize(("p", "k"), [(5, 1), (7, 3), (9, 2), (9, 3), (8, 1), (8, 2), (4, 1)])
def test_cost_of_aligned_neurons(p, k):
    """Lemma F.6, with the terms it lacks where p divides 4 xi; other frequencies do not matter."""
    rng = np.random.default_rng(k)
    for seed in range(3):
        x = random_encoding(p, seed)
        coefficient = complex(np.fft.rfft(x)[k])
        amplitudes, phases = random_waves(rng, 4)
        theta = modular.aligned_neurons(p, k, amplitudes, phases)
        direct = 0.5 * np.mean(np.sum(network(x, theta) ** 2, axis=1))
        formula = modular.aligned_cost(p, k, coefficient, amplitudes, phases)
        assert formula == pytest.approx(direct, rel=1e-10)
        gained = modular.utility(x, *np.split(theta, 3, axis=1)).sum()
        angle = phases[0] + phases[1] - phases[2] - np.angle(coefficient)
        z = np.sum(np.prod(amplitudes, axis=0) * np.cos(angle))
        best = modular.maximal_utility(p, k, abs(coefficient))
        assert gained == pytest.approx(best * z, rel=1e-9)  # Eq 74
        # Theorem F.7: no aligned neurons do better
        total = 0.5 * np.sum(x**2)
        assert loss(x, theta) == pytest.approx(direct - gained + total, rel=1e-10)
        assert loss(x, theta) > total - modular.share(p, k, abs(coefficient))


def test_lemma_f_6_says_where_it_does_not_hold():
    waves = np.ones((3, 2))
    with pytest.raises(ValueError, match="no phase"):
        modular.aligned_cost(8, 4, 1.0 + 0j, waves, waves)


@pytest.mark.parametrize(
    ("p", "k", "neurons"),
    [(5, 2, 6), (7, 1, 7), (9, 3, 8), (8, 1, 11), (8, 2, 6), (8, 4, 2), (8, 4, 6), (3, 1, 6)],
)
def test_construction_learns_a_frequency_exactly(p, k, neurons):
    """Theorem F.7 and Lemma F.8: level, function, new utility, and rest."""
    rng = np.random.default_rng(neurons)
    x = random_encoding(p, k)
    coefficient = complex(np.fft.rfft(x)[k])
    theta = modular.minimizer(p, k, coefficient, neurons)
    level = 0.5 * np.sum(x**2) - modular.share(p, k, abs(coefficient))
    assert loss(x, theta) == pytest.approx(level, abs=1e-12)
    learned = modular.learned_function(p, k, coefficient)
    np.testing.assert_allclose(network(x, theta), learned, atol=1e-12)
    np.testing.assert_allclose(words(x)[2] - learned, words(without(x, [k]))[2], atol=1e-12)
    fresh = rng.normal(size=(3, 3 * p))
    direct = brute_utility(x, fresh, words(x)[2] - network(x, theta))
    formula = modular.utility(x, *np.split(fresh, 3, axis=1), [k])
    np.testing.assert_allclose(formula, direct, atol=1e-9 * (1 + np.abs(direct).max()))


@pytest.mark.parametrize(("p", "k", "neurons"), [(7, 1, 5), (8, 4, 1)])
def test_construction_says_how_many_neurons_it_needs(p, k, neurons):
    with pytest.raises(ValueError, match="at least"):
        modular.minimizer(p, k, 1.0 + 0j, neurons)


@pytest.mark.parametrize(("p", "k"), [(11, 1), (11, 2), (16, 1), (16, 3), (16, 4), (9, 3)])
def test_aligned_neurons_are_drawn_to_three_times_their_frequency(p, k):
    """F.2.1: the gradient leaves the harmonic only towards 3 xi, and not at all once squares cancel."""
    x = random_encoding(p, 0)
    rng = np.random.default_rng(5)

    def pulled(theta):
        parts = np.split(gradient(x, theta), 3, axis=1)
        power = sum(np.sum(np.abs(np.fft.rfft(part)) ** 2, axis=0) for part in parts)
        return set(np.flatnonzero(power > 1e-20 * power.max()))

    theta = modular.aligned_neurons(p, k, *random_waves(rng, 3))
    outside = {b for a, b in modular.escapes(p, range(1, p // 2 + 1)) if a == k and a + b != p / 2}
    assert pulled(theta) - {k} == outside
    balanced = modular.minimizer(p, k, complex(np.fft.rfft(x)[k]), 6) * 1.3
    assert pulled(balanced) == {k}


@pytest.mark.parametrize(("neurons", "seed"), [(1, 6), (2, 42), (3, 57), (4, 32), (5, 30)])
def test_part_of_a_frequency_that_few_neurons_learn(neurons, seed):
    """The table of `parts_learned` against minimization of the loss itself, from a lucky start."""
    x = np.cos(2 * math.pi / 5 * np.arange(5))

    def objective(t):
        theta = t.reshape(neurons, 15)
        return loss(x, theta), gradient(x, theta).ravel()

    start = np.random.default_rng(seed).normal(size=15 * neurons)
    options = {"maxiter": 300, "ftol": 1e-10}
    run = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    gone = 1 - run.fun / (0.5 * np.sum(x**2))
    most = modular.parts_learned(5, (1,), neurons)[0]
    assert most - 3e-3 < gone < most + 1e-9


@pytest.fixture(scope="module")
def encoding():
    return np.asarray(sw.tasks.modular_addition(7, spectrum={1: 6.0, 2: 2 + 2j, 3: 1.0}).encoding)


@pytest.fixture(scope="module")
def problem(encoding):
    return sw.Problem(sw.tasks.modular_addition(encoding=encoding), sw.units.QuadraticPair(18))


def outcome_and_audit(task, width, scale=1e-3, **options):
    start = Start(sw.Problem(task, sw.units.QuadraticPair(width), **options), scale)
    with sw.float64():
        return modular.ModularTheory(start).outcome("closed"), modular.ModularTheory(start).audit


def failed(audit):
    return " | ".join(assumption.name for assumption in audit if not assumption.holds)


def test_closed_levels_and_features(problem, encoding):
    assert modular.ModularTheory.covers(problem)
    start = Start(problem, 1e-3)
    with sw.float64():
        outcome, audit = (
            modular.ModularTheory(start).outcome("closed"),
            modular.ModularTheory(start).audit,
        )
        initial = float(problem.loss(0 * start.theta))
        norm = start.norms.max()
    assert outcome.initial_loss == pytest.approx(initial, rel=1e-12)
    sizes = np.array([6.0, math.sqrt(8), 1.0])
    levels = [s.loss for s in outcome.stages]
    np.testing.assert_allclose(levels, [9 / 7, 1 / 7, 0.0], atol=1e-13)
    assert [s.feature for s in outcome.stages] == list(problem.task.modes().names)
    # Eq 9 with its constant: within the part of a neuron that is needed to be felt
    printed = math.sqrt(3) * 7**1.5 / (math.sqrt(2) * sizes**3) / norm
    times = np.array([s.time for s in outcome.stages])
    assert (times < printed).all()
    np.testing.assert_allclose(times, printed, rtol=0.02)
    assert failed(audit).startswith("resonances")
    assert "from 1 to 3, from 2 to 1, from 3 to 2" in failed(audit)
    assert outcome.stopped == "no utility left"
    assert modular.ModularTheory(start).preferred == "numeric"


def test_waiting_times_of_the_paper_s_figure():
    """p = 20: the bounds 764, 6109, 48873 epochs of 0.01, drawn in the authors' notebook."""
    utilities = np.array(
        [modular.maximal_utility(20, k, m) for k, m in ((1, 10), (3, 5), (5, 2.5))]
    )
    epochs = waiting_time(math.sqrt(2) * 1e-2, utilities, 3) / 0.01
    np.testing.assert_allclose(epochs, [764, 6109, 48873], rtol=1e-3)


def test_nyquist_can_come_first_against_its_magnitude():
    task = sw.tasks.modular_addition(6, spectrum={1: 10.0, 3: 9.5})
    outcome, audit = outcome_and_audit(task, 12)
    assert [s.feature["frequency"] for s in outcome.stages] == [3, 1]
    np.testing.assert_allclose([s.loss for s in outcome.stages], [100 / 6, 0.0], atol=1e-12)
    assert "p is even" in failed(audit)


@pytest.mark.parametrize(
    ("p", "spectrum", "width", "words"),
    [
        (7, {1: 4.0, 3: 4.0}, 12, "1 and 3 differ by 0.0%"),
        (7, {2: 4.0, 1: 3.8}, 12, "2 and 1 differ by 5.0%"),
        (20, {1: 10.0, 3: 5.0, 5: 2.5}, 18, "from 1 to 3, 5 with itself"),
        (10, {1: 4.0, 4: 2.0}, 12, "from 1 to 4"),
        (11, {1: 4.0, 2: 2.0}, 7, "too few to learn frequency 2 fully"),
        (11, {1: 4.0, 2: 2.0}, 4, "frequency 1 fully; frequency 2 will never be learned"),
    ],
)
def test_audit_names_what_fails(p, spectrum, width, words):
    _, audit = outcome_and_audit(sw.tasks.modular_addition(p, spectrum), width)
    assert words in failed(audit)


def test_audit_of_a_large_start():
    _, audit = outcome_and_audit(sw.tasks.modular_addition(7, {1: 6.0}), 6, scale=0.5)
    assert "largest initial norm" in failed(audit)


def test_few_neurons_learn_less():
    task = sw.tasks.modular_addition(11, spectrum={1: 4.0, 2: 2.0})
    outcome, _ = outcome_and_audit(task, 6)
    np.testing.assert_allclose([s.loss for s in outcome.stages], [4 / 11, 4 / 11 * 8 / 9])
    alone, _ = outcome_and_audit(task, 4)
    assert [s.feature["frequency"] for s in alone.stages] == [1]
    assert alone.stopped == "no dormant units"


def test_learning_rates_rescale_the_bound():
    """Rates (4, 4, 4) are a clock four times as fast."""
    task = sw.tasks.modular_addition(7, {1: 6.0})
    plain, _ = outcome_and_audit(task, 6)
    fast, _ = outcome_and_audit(task, 6, rates={"u": 4.0, "v": 4.0, "w": 4.0})
    assert fast.stages[0].time == pytest.approx(plain.stages[0].time / 4, rel=1e-9)


def test_norm_one_and_more_is_refused():
    with pytest.raises(sw.InputError, match="not dormant"):
        outcome_and_audit(sw.tasks.modular_addition(7, {1: 6.0}), 6, scale=2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoding": np.ones(5)}, "not constant"),
        ({"encoding": np.ones((5, 2))}, "vector of p numbers"),
        ({"encoding": [1.0, 2.0]}, "at least 3"),
        ({"encoding": [1.0, np.nan, 2.0]}, "NaN or infinite"),
        ({"encoding": [1.0, 2.0, 4.0], "p": 5}, "3 numbers, but p is 5"),
        ({"p": 2, "spectrum": {1: 1.0}}, "at least 3"),
        ({"p": 7, "spectrum": {1: 1e80}}, "Rescale"),
        ({"p": 7, "spectrum": {4: 1.0}}, "from 1 to p/2 = 3; got 4"),
        ({"p": 7, "spectrum": {0: 1.0}}, "from 1 to p/2 = 3; got 0"),
        ({"p": 7, "spectrum": {1: 0.0}}, "nothing to learn"),
        ({"p": 7, "spectrum": {}}, "nothing to learn"),
        ({"p": 7, "spectrum": {1: np.inf}}, "finite number"),
        ({"p": 8, "spectrum": {4: 1j}}, "real"),
        ({"spectrum": {1: 1.0}}, "needs p"),
        ({"p": 7}, "either an encoding"),
    ],
)
def test_bad_tasks(arguments, message):
    with pytest.raises(sw.InputError, match=message):
        sw.tasks.modular_addition(**arguments)


def test_small_encodings_are_not_constant():
    """What counts is the shape of an encoding, not its size."""
    x = random_encoding(7, 0)
    tiny = sw.tasks.modular_addition(encoding=1e-12 * x)
    np.testing.assert_allclose(tiny.spectrum, 1e-12 * np.abs(np.fft.rfft(x)), rtol=1e-6, atol=1e-20)

"""Which unit or direction grows first near a saddle, and when: against integration and gradient flow."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import saddlewalk as sw
from saddlewalk.theory.timescales import (
    between_directions,
    blow_up_time,
    mechanism,
    separation,
    separation_exponent,
)
from saddlewalk.units import Dense, Layer, LinearAttention

SEEDS = range(20)


def integrated_blow_up(s, a, v):
    """Eq 48 in arc length, until the norm is 1e9 of the first."""

    def rhs(_, y):
        v, a = y[0], y[1:-1]
        return np.concatenate([[2 * np.sum(s * a * a)], 2 * v * s * a, [1.0]]) / np.linalg.norm(
            y[:-1]
        )

    def large(_, y):
        return math.log10(np.linalg.norm(y[:-1])) - 9

    large.terminal = True
    start = np.concatenate([[v], a, [0.0]])
    path = solve_ivp(rhs, (0, 1e4), start, rtol=1e-11, atol=1e-14, events=large, method="DOP853")
    return path.y[-1, -1] if path.status == 1 else math.inf


@pytest.mark.parametrize("signs", ["both", "positive", "negative"])
def test_time_to_infinity_against_integration(signs):
    """Eq 56 and beyond: outgoing weights and eigenvalues of either sign."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        s = rng.normal(size=rng.integers(1, 5))
        s = {"both": s, "positive": np.abs(s), "negative": -np.abs(s)}[signs]
        a = rng.normal(size=len(s)) * 10 ** rng.uniform(-1, 0)
        v = rng.normal() * 10 ** rng.uniform(-1, 0)
        expected = integrated_blow_up(s, a, v)
        assert blow_up_time(s, a, v) == pytest.approx(expected, rel=1e-6)


def test_time_to_infinity_scales_with_the_start():
    s, a, v = np.array([1.0, -0.5]), np.array([0.3, 0.2]), 0.1
    assert blow_up_time(s, 1e-6 * a, 1e-6 * v) == pytest.approx(1e6 * blow_up_time(s, a, v))
    assert blow_up_time(s, 0 * a, 0.0) == math.inf
    assert blow_up_time(s, 0 * a, 1.0) == math.inf  # no incoming weight: nothing ever moves


def test_exponent_of_theorem_4():
    assert separation_exponent(np.array([2.0, 1.0, 0.5])) == pytest.approx(0.5)
    assert separation_exponent(np.array([2.0, 2.0, 0.5])) == pytest.approx(0.75)
    assert separation_exponent(np.array([3.0, 3.0])) == 1.0


def test_the_rest_is_small_to_the_power_of_the_exponent():
    """Theorem 4: double the exponents of the scale, square the part outside the first direction."""
    rng = np.random.default_rng(1)
    sigma = np.diag([2.0, 1.2])
    theta = rng.normal(size=(30, 4))
    parts = []
    for eps in (1e-4, 1e-8):
        units = Layer(eps * theta[:, 2:], eps * theta[:, :2])
        found = between_directions(sigma, units)
        assert found.first == 0
        assert found.exponent == pytest.approx(0.4)
        time = found.duration
        growing = np.array([[1, 0, 1, 0], [0, 1, 0, 1]]) / 2  # (q_k, r_k) of a diagonal Sigma
        c = eps * theta @ growing.T
        rest = np.linalg.norm(c[:, 1]) * math.exp(1.2 * time)
        parts.append(rest)
    assert math.log(parts[1]) / math.log(parts[0]) == pytest.approx(2.0, rel=0.2)


def first_jump(path, before, after):
    """When the loss passes the middle of its first step."""
    return sw.diagnose.loss_curve(path).crossing(0.5 * (before + after), 0.0)


def test_duration_of_the_first_plateau_of_linear_networks():
    """Within 5% at scale 1e-6, over 20 seeds."""
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    target = basis @ np.diag([2.0, 1.0, 0.4])
    task = sw.tasks.from_moments(np.eye(3), target)
    units = Dense(12, "linear")
    with sw.float64():
        problem = sw.Problem(task, units)
        errors = []
        for seed in SEEDS:
            theta = problem.initialize(1e-6, seed)
            found = separation(problem, theta)
            assert found.mechanism == "between directions"
            np.testing.assert_allclose(found.values, [2.0, 1.0, 0.4], rtol=1e-9)
            path = sw.train(task, units, 1e-6, seed, max_time=1.3 * found.duration)
            seen = first_jump(path, float(path.loss[0]), float(path.loss[0]) - 2.0)
            errors.append(abs(found.duration - seen) / seen)
    assert max(errors) < 0.05


@pytest.mark.slow
def test_which_quadratic_unit_wins_and_when(teacher):
    """Eq 56 within 5% at scale 1e-6, and the right unit in at least 19 of 20."""
    units = Dense(6, "quadratic")
    with sw.float64():
        problem = sw.Problem(teacher, units)
        errors, winners = [], 0
        for seed in SEEDS:
            theta = problem.initialize(1e-6, seed)
            found = separation(problem, theta)
            assert found.mechanism == "between units"
            path = sw.train(teacher, units, 1e-6, seed, max_time=1.05 * found.duration)
            grown = path.data["unit_norm"].values
            winners += int(np.argmax(grown[-1]) == found.first)
            seen = path.time[np.argmax(grown.max(axis=1) > 0.1)]
            errors.append(abs(found.duration - seen) / seen)
    assert winners >= 19
    assert max(errors) < 0.05


def test_mechanisms_by_order(teacher, small_regression):
    with sw.float64():
        for activation, words in {
            "sigmoid": "none",
            "tanh": "between directions",
            "z-tanh-z": "between units",
            "cubic": "between units",
        }.items():
            assert mechanism(sw.Problem(teacher, Dense(2, activation))) == words
        attention = sw.Problem(sw.tasks.in_context_regression([2.0, 1.0]), LinearAttention(2))
        theta = attention.initialize(1e-3)
        assert separation(attention, theta).mechanism == "between units"
        cubic = sw.Problem(teacher, Dense(2, "cubic"))
        with pytest.raises(sw.InputError, match="order 3"):
            separation(cubic, cubic.initialize(1e-3))
        kinked = sw.Problem(small_regression, Dense(2, "relu"))
        with pytest.raises(sw.InputError, match="kink"):
            separation(kinked, kinked.initialize(1e-3))


def test_a_readout_of_zero_takes_the_sign_of_its_velocity():
    near = blow_up_time(np.array([-1.0]), np.array([0.5]), -1e-12)
    assert blow_up_time(np.array([-1.0]), np.array([0.5]), 0.0) == pytest.approx(near, rel=1e-6)
    # a component that is not there does not matter
    assert math.isfinite(blow_up_time(np.array([1.0, 1e-3]), np.array([0.0, 0.5]), 0.1))


def test_refusals_and_units_at_zero(small_regression):
    with sw.float64():
        deep = sw.Problem(small_regression, sw.units.Deep((Dense(3, "linear"), Dense(3, "linear"))))
        with pytest.raises(sw.InputError, match="sums of units"):
            separation(deep, deep.initialize(1e-3))
        assert mechanism(deep, "layer 2") == "between directions"
        linear = sw.Problem(small_regression, Dense(3, "linear"))
        assert separation(linear, np.zeros((3, 5))).duration == math.inf
        rated = sw.Problem(small_regression, Dense(3, "linear"), rates={"w": 4.0})
        np.testing.assert_allclose(
            separation(rated, np.ones((3, 5))).values,
            2 * separation(linear, np.ones((3, 5))).values,
        )
        squared = sw.Problem(
            sw.tasks.from_arrays(np.eye(2), [1.0, 2.0]), Dense(2, lambda z: jnp.maximum(z, 0) ** 2)
        )
        with pytest.raises(sw.InputError, match="not quadratic"):
            separation(squared, squared.initialize(1e-3))


@pytest.mark.parametrize(("of_inputs", "of_targets"), [(1, 1), (30, 1), (1, 30), (1 / 30, 5)])
@pytest.mark.parametrize("rates", [None, {"w": 4.0}])
def test_times_of_directions_know_the_size_of_the_data(of_inputs, of_targets, rates):
    """Against the first jump of gradient flow; the time at which the map holds 1 is up to 15% off."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    task = sw.tasks.from_arrays(
        of_inputs * x, of_targets * x @ [[1.5, 0.0], [0.0, 0.3], [0.0, 0.0]]
    )
    units, scale = sw.units.Dense(2, "linear"), 1e-6
    path = sw.train(task, units, scale, rates=rates)
    found = separation(sw.Problem(task, units, rates=rates), path.parameters[0])
    assert found.duration == pytest.approx(path.stages[0].time, rel=0.01)

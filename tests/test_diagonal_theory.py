"""The diagonal network: exact AGF, the limit process, and their meeting with gradient flow."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import saddlewalk as sw
from oracles import pesme_flammarion, random_design
from saddlewalk.theory.diagonal import (
    Dormancy,
    Regression,
    accumulate,
    agf_sequence,
    limit_sequence,
    waiting_times,
)

UNITS = sw.units.Diagonal()


@pytest.mark.parametrize("block", range(8))
def test_limit_process_equals_the_oracle(block):
    """Order, times and levels, on random designs with and without returns to dormancy."""
    returns = 0
    for seed in range(15 * block, 15 * block + 15):
        x, y = random_design(seed)
        expected = pesme_flammarion(x, y)
        stairs = sw.predict(sw.tasks.from_arrays(x, y), UNITS, 1e-8, method="limit")
        assert [set(s.units) for s in stairs.stages] == [e[2] for e in expected]
        assert [set(s.dormant) for s in stairs.stages] == [e[3] for e in expected]
        times = [s.time_accelerated for s in stairs.stages]
        np.testing.assert_allclose(times, [e[0] for e in expected], rtol=1e-8)
        levels = np.array([s.loss for s in stairs.stages])
        assert np.abs(levels - [e[1] for e in expected]).max() < 1e-8 * stairs.initial_loss
        returns += sum(bool(s.dormant) for s in stairs.stages)
    assert returns > 0


def test_accumulated_utility_solves_its_differential_equation():
    """Eq 31/32 against integrating u' = -g v, v' = -g u from (sqrt 2 alpha, 0), then with -g."""
    alpha, g = 1e-3, 0.7
    eta = -math.log(math.sqrt(2) * alpha)
    state = Dormancy(np.zeros(1), np.zeros(1))
    weights = np.array([math.sqrt(2) * alpha, 0.0])
    for gradient, time in ((g, 0.6), (-g, 0.9), (g, 0.25)):
        state = accumulate(state, np.array([gradient]), time, eta)
        weights = solve_ivp(
            lambda t, w, k=gradient: [-k * w[1], -k * w[0]],
            (0.0, eta * time),
            weights,
            rtol=1e-12,
            atol=1e-16,
        ).y[:, -1]
        expected = math.log(np.hypot(*weights) / (math.sqrt(2) * alpha)) / eta
        assert state.accumulated_utility[0] == pytest.approx(expected, rel=1e-8)
        assert state.sign[0] == np.sign(weights[0] * weights[1])


def test_waiting_time_is_when_the_norm_reaches_one():
    alpha, g = 1e-4, -1.3
    eta = -math.log(math.sqrt(2) * alpha)
    state = accumulate(Dormancy(np.zeros(1), np.zeros(1)), np.array([0.5]), 0.4, eta)
    wait = waiting_times(state, np.array([g]), eta)[0]
    after = accumulate(state, np.array([g]), wait, eta)
    assert after.accumulated_utility[0] == pytest.approx(1.0, rel=1e-12)
    assert np.isinf(waiting_times(state, np.array([0.0]), eta)[0])


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6), alpha=st.sampled_from([0.3, 1e-2, 1e-8]))
def test_minimum_satisfies_the_optimality_conditions(seed, alpha):
    """Eq 5 at every stage: signs kept, gradient zero where active, no gain at the wall."""
    x, y = random_design(seed)
    regression = Regression.of(sw.tasks.from_arrays(x, y))
    jumps, _ = agf_sequence(regression, -math.log(math.sqrt(2) * alpha))
    size = np.linalg.norm(x, axis=0) * np.linalg.norm(y) / len(y)
    for jump in jumps:
        gradient = x.T @ (x @ jump.beta - y) / len(y)
        active = jump.beta != 0
        assert (np.abs(gradient[active]) < 1e-9 * size[active]).all()
        assert (np.sign(jump.beta[active]) == jump.state.sign[active]).all()
        walled = ~active & (jump.state.accumulated_utility == 1.0)
        assert (jump.state.sign[walled] * gradient[walled] > -1e-9 * size[walled]).all()


def test_loss_levels_fall_and_end_at_least_squares():
    x, y = random_design(7)
    task = sw.tasks.from_arrays(x, y)
    stairs = sw.predict(task, UNITS, 1e-6, method="closed")
    levels = np.array(stairs.loss_levels)
    assert (np.diff(levels) < 0).all()
    best = 0.5 * np.mean((x @ np.linalg.lstsq(x, y, rcond=None)[0] - y) ** 2)
    assert levels[-1] == pytest.approx(best, abs=1e-10 * levels[0])


def test_theorem_3_1_finite_scale_tends_to_the_limit(fig3):
    """In accelerated time the two sequences converge like log(2) / (2 log 1/alpha)."""
    regression = Regression.of(fig3)
    limit = np.array([jump.time for jump in limit_sequence(regression)[0]])
    gaps = []
    for alpha in (1e-2, 1e-8, 1e-32, 1e-128):
        finite, _ = agf_sequence(regression, -math.log(math.sqrt(2) * alpha))
        gaps.append(np.abs(np.array([jump.time for jump in finite]) / limit - 1).max())
        for one, other in zip(finite, limit_sequence(regression)[0], strict=True):
            np.testing.assert_allclose(one.beta, other.beta, rtol=1e-10)
    assert gaps[0] > 3 * gaps[1] > 9 * gaps[2] > 27 * gaps[3]
    assert gaps[3] < 2e-3


@pytest.mark.parametrize("seed", [1, 2, 3, 5])
def test_jump_time_error_falls_with_the_scale(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, 5))
    task = sw.tasks.from_arrays(x, x @ (4.0 * rng.choice([-1, 1], 5) / np.arange(1, 6)))
    errors = []
    for alpha in (1e-2, 1e-4, 1e-8, 1e-12):
        agreement = sw.compare(
            sw.predict(task, UNITS, alpha, method="closed"), sw.train(task, UNITS, alpha)
        )
        errors.append(np.mean(agreement.time_error))
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[3] < 0.05


def test_fig_8_returns_to_dormancy_and_comes_back_with_the_other_sign():
    task = sw.tasks.agf_figure_8()
    stairs = sw.predict(task, UNITS, 1e-6, method="closed")
    assert [(s.units, s.dormant) for s in stairs.stages] == [((0,), ()), ((1,), (0,)), ((0,), ())]
    assert [s.feature["sign"] for s in stairs.stages] == [1, 1, -1]
    # raw times and levels printed by the authors' notebook at alpha = 1e-6
    np.testing.assert_allclose(stairs.jump_times, [2.667, 8.292, 47.765], rtol=1e-4)
    np.testing.assert_allclose(stairs.loss_levels[:3], [2.31110, 1.11465, 0.07], rtol=1e-5)


def test_rates_of_u_and_v_rescale_clock_and_scale(fig3):
    rates = {"u": 4.0, "v": 0.25}
    stairs = sw.predict(fig3, UNITS, 1e-8, rates=rates)
    path = sw.train(fig3, UNITS, 1e-8, rates=rates)
    plain = sw.predict(fig3, UNITS, 0.5e-8)
    np.testing.assert_allclose(stairs.jump_times, plain.jump_times, rtol=1e-12)
    assert max(sw.compare(stairs, path).time_error) < 0.08


def test_equal_columns_tie_and_are_reported():
    x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
    stairs = sw.predict(sw.tasks.from_arrays(x, x @ [1.0, -1.0]), UNITS, 1e-4, method="closed")
    assert stairs.stages[0].units == (0, 1)
    failed = [a.name for a in stairs.assumptions if not a.holds]
    assert any("clear order" in name for name in failed)


@pytest.mark.parametrize(
    ("units", "options", "message"),
    [
        (UNITS, {"scale": 0.9}, "none is dormant"),
        (UNITS, {"scale": 2.0, "method": "limit"}, "positive number below 1"),
        (UNITS, {"scale": 1e-200}, "underflow"),
        (UNITS, {"scale": 1e-3, "method": "close"}, "Did you mean 'closed'"),
        (sw.units.Dense(3), {"scale": 1e-3, "method": "closed"}, "no method 'closed' on this task"),
        (sw.units.Dense(3), {"scale": 2.0}, "it is not dormant"),
    ],
)
def test_bad_predictions(fig3, units, options, message):
    with pytest.raises(sw.InputError, match=message):
        sw.predict(fig3, units, **options)

"""Plateaus and jumps on curves whose stages are known, at any scale of time and loss."""

import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.curves import Jump, find_plateaus, plateau_before
from saddlewalk.diagnose import LossCurve, find_jumps


def sigmoids(time, jumps, levels, sharpness):
    """A staircase with logistic steps: the exact midpoint of each step is its jump."""
    loss = np.full_like(time, levels[0])
    for when, a, b, k in zip(jumps, levels[:-1], levels[1:], sharpness, strict=True):
        loss = loss + (b - a) * 0.5 * (1 + np.tanh(0.5 * k * (time - when)))
    return loss


JUMPS = [10.0, 25.0, 60.0]
LEVELS = [8.0, 3.0, 1.0, 0.0]
TIME = np.linspace(0.0, 100.0, 2001)


@pytest.mark.parametrize("time_unit", [1.0, 1e-6, 1e40])
@pytest.mark.parametrize("loss_unit", [1.0, 1e-12, 1e9])
def test_jumps_are_found_at_any_scale(time_unit, loss_unit):
    loss = sigmoids(TIME, JUMPS, LEVELS, [2.0, 3.0, 1.0])
    jumps = find_jumps(LossCurve.of(TIME * time_unit, loss * loss_unit))
    np.testing.assert_allclose([j.time / time_unit for j in jumps], JUMPS, rtol=2e-3)
    np.testing.assert_allclose([j.after / loss_unit for j in jumps], LEVELS[1:], atol=2e-3)


def test_heights_over_three_decades():
    """The last step is 1e-3 of the first."""
    loss = sigmoids(TIME, JUMPS, [1.0, 3e-2, 1e-3, 0.0], [3.0, 3.0, 3.0])
    assert len(find_jumps(LossCurve.of(TIME, loss))) == 3


def test_exponential_decay_is_one_jump_without_plateaus():
    assert len(find_jumps(LossCurve.of(TIME, np.exp(-0.2 * TIME)))) == 1


def test_slow_tail_is_not_a_jump():
    """A step followed by a tail like 1/t: one jump."""
    loss = sigmoids(TIME, [10.0], [1.0, 0.0], [3.0]) + 1e-3 / (1 + TIME)
    assert len(find_jumps(LossCurve.of(TIME, loss))) == 1


@pytest.mark.parametrize("noise", [1e-4, 1e-3, 1e-2])
def test_noise_makes_no_jumps(noise):
    """Someone else's noisy curve: the three steps and no others."""
    loss = sigmoids(TIME, JUMPS, LEVELS, [2.0, 3.0, 1.0])
    for seed in range(5):
        rough = loss + noise * np.random.default_rng(seed).normal(size=len(TIME))
        jumps = find_jumps(LossCurve.of(TIME, rough))
        np.testing.assert_allclose([j.time for j in jumps], JUMPS, rtol=0.02)


def test_constant_loss_has_no_jump():
    assert find_jumps(LossCurve.of(TIME, np.ones_like(TIME))) == []


def test_crossing_uses_the_slope():
    """Cubic interpolation between few points: a logistic step on a coarse grid."""
    time = np.linspace(0, 20, 21) + 0.3
    exact = lambda t: 0.5 * (1 - np.tanh(0.25 * (t - 10)))  # noqa: E731
    slope = -0.125 / np.cosh(0.25 * (time - 10)) ** 2
    curve = LossCurve.of(time, exact(time), slope)
    assert curve.crossing(0.5) == pytest.approx(10.0, abs=1e-3)
    assert np.isnan(curve.crossing(-1.0))


@pytest.mark.parametrize(
    ("time", "loss", "message"),
    [
        ([0, 1], [1, 0], "at least 3"),
        ([0, 2, 1], [1, 1, 0], "must increase"),
        ([0, 1, 2], [1, np.nan, 0], "must be finite"),
    ],
)
def test_bad_curves(time, loss, message):
    with pytest.raises(sw.InputError, match=message):
        LossCurve.of(time, loss)


def test_stages_seen_in_gradient_flow(fig3_paths):
    stages = sw.diagnose.observed_stages(fig3_paths[1e-12])
    assert [s.units for s in stages] == [(1,), (2,), (3,), (0,), (4,)]
    np.testing.assert_allclose(
        [s.loss for s in stages][:4], [13.3230, 2.26703, 0.988054, 0.165564], rtol=1e-2
    )


def test_return_to_dormancy_is_seen():
    task = sw.tasks.agf_figure_8()
    stages = sw.diagnose.observed_stages(sw.train(task, sw.units.Diagonal(), 1e-6))
    assert [(s.units, s.dormant) for s in stages] == [((0,), ()), ((1,), (0,)), ((0,), ())]


def test_a_chattering_slope_makes_no_jumps():
    """Two jumps of known place; the slope at every other point is that across a kink, a thousand times
    too steep or none. Chords see the two jumps, the slopes themselves many more."""
    time = np.linspace(0.0, 100.0, 4001)
    step = lambda at: 1 / (1 + np.exp(2 * (time - at)))  # noqa: E731
    loss = step(30.0) + 0.5 * step(70.0)
    rate = np.gradient(loss, time) * np.where(np.arange(len(time)) % 2, 1e3, 1e-3)
    chatters = LossCurve.of(time, loss, rate)
    times = [jump.time for jump in find_jumps(chatters.evened())]
    assert times == pytest.approx([30.0, 70.0], abs=0.2)
    assert len(find_jumps(chatters)) != 2


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_lasts_makes_no_jumps(seed):
    """Two drops and a slow tail, with the noise of minibatches: it is remembered for some thirty steps."""
    rng, time = np.random.default_rng(seed), np.arange(4000.0)
    drops = 0.24 / (1 + np.exp((time - 300) / 20)) + 0.17 / (1 + np.exp((time - 1200) / 60))
    clean = drops + 0.07 + 0.03 * np.exp(-time / 4000)
    noise = np.zeros(len(time))
    for k in range(1, len(time)):
        noise[k] = 0.97 * noise[k - 1] + 2e-4 * rng.normal()
    jumps = find_jumps(LossCurve.of(time, clean + noise))
    assert len(jumps) == 2
    assert [jump.time for jump in jumps] == pytest.approx([300, 1200], rel=0.05)


# --- plateaus ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "pace"),
    [
        (lambda t: 1 - t, 1.0),  # a tenth in a tenth of the time, four more in four
        # exponential decay: a tenth takes log(10/9), half of it log(2)
        (lambda t: np.exp(-40 * t), 0.25 * (np.log(2) - np.log(10 / 9)) / np.log(10 / 9)),
        (
            lambda t: 1 - t**4,
            0.25 * ((5**0.25) - 1),
        ),  # a tenth after 0.1^(1/4), half after 0.5^(1/4)
    ],
    ids=["line", "exponential", "power"],
)
def test_the_pace_of_known_curves(loss, pace):
    t = np.linspace(0, 1, 40_001)
    values = loss(t)
    curve = LossCurve.of(t, values)
    middle = curve.crossing(0.5 * (values[0] + values[-1]))
    jump = Jump(middle, float(values[0]), float(values[-1]), 0, len(t) - 1)
    found = plateau_before(curve, jump)
    assert found.pace == pytest.approx(pace, rel=1e-3)
    assert found.stands == (pace < 2 / 3)


def test_a_staircase_has_a_plateau_before_each_step():
    curve = LossCurve.of(TIME, sigmoids(TIME, JUMPS, LEVELS, [2.0, 3.0, 1.0]))
    found = find_plateaus(curve)
    np.testing.assert_allclose([one.middle for one in found], JUMPS, rtol=2e-3)
    # logistic with rate k: a tenth of the step is gone log(9)/k before its middle, and to come as long after
    np.testing.assert_allclose(
        [one.end for one in found], np.array(JUMPS) - np.log(9) / np.array([2, 3, 1]), rtol=5e-3
    )
    assert found[0].begin == 0
    assert JUMPS[0] < found[1].begin < found[1].end < JUMPS[1]


@pytest.mark.parametrize(
    "loss",
    [
        lambda t: np.exp(-t / 8),  # an ordinary training
        lambda t: 1 / (1 + t),
        lambda t: 2 - t / 100,  # even
        lambda t: 1 - 0.05 / (1 + np.exp(-(t - 50))),  # a drop of a twentieth
        lambda t: np.ones_like(t),
    ],
    ids=["exponential", "hyperbolic", "line", "small", "flat"],
)
def test_what_is_no_plateau(loss):
    assert find_plateaus(LossCurve.of(TIME, loss(TIME))) == []


def test_noise_does_not_make_plateaus():
    rng = np.random.default_rng(0)
    loss = np.exp(-TIME / 8) + 0.02 + 2e-3 * rng.normal(size=len(TIME))
    assert find_plateaus(LossCurve.of(TIME, loss)) == []


def test_slopes_of_stiff_steps_are_not_those_of_the_loss():
    """Beside a steep valley the squared gradient is many times the fall of the loss, by another factor
    in each piece: that makes no stages. Where it is the fall, nothing changes."""
    time = np.linspace(0, 100, 2000)
    steps = [
        1 / (1 + np.exp(rate * (time - middle))) for rate, middle in ((4.0, 20.0), (0.3, 60.0))
    ]
    loss = sum(steps)
    rate = -(4.0 * steps[0] * (1 - steps[0]) + 0.3 * steps[1] * (1 - steps[1]))
    true = LossCurve.of(time, loss, rate)
    assert np.array_equal(true.integrated().rate, true.rate)
    beside = np.where(np.arange(2000) // 60 % 2 == 0, 20.0, 5.0)
    shaken = LossCurve.of(time, loss, np.where(time > 50, beside * rate, rate))
    assert len(find_jumps(true)) == 2
    assert len(find_jumps(shaken)) > 2
    mended = find_jumps(shaken.integrated())
    assert [jump.time for jump in mended] == pytest.approx([20, 60], abs=0.1)
    assert [jump.after for jump in mended] == pytest.approx([1, 0], abs=1e-2)


def test_a_curve_at_the_noise_of_its_steps_has_its_jumps_at_once():
    """Weak steps join their neighbors one by one, and there are a hundred thousand of them."""
    time = np.linspace(0, 100, 300_000)
    loss = 1 / (1 + np.exp(time - 50)) + 1e-9 * np.random.default_rng(0).normal(size=len(time))
    (jump,) = find_jumps(LossCurve(time, loss, np.gradient(loss, time)))
    assert jump.time == pytest.approx(50, abs=1e-3)

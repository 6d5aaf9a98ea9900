"""AGF for any sum of units: each phase against an independent integration, the whole against
gradient flow, closed forms and a network of the test's own."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import saddlewalk as sw
from saddlewalk import ode
from saddlewalk.curves.stages import describe
from saddlewalk.losses import AbstractLoss
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.programs import Bound
from saddlewalk.tasks.base import modes_that_grew
from saddlewalk.theory.agf.naming import Change, name_features
from saddlewalk.theory.agf.theory import read_walk
from saddlewalk.theory.agf.thresholds import Thresholds
from saddlewalk.theory.agf.walk import Walk
from saddlewalk.units import AbstractUnits

DIAGONAL = sw.units.Diagonal()


class Cubic(AbstractUnits):
    """An architecture that is not in the package."""

    width: int

    def layers(self, inputs, outputs):
        return {"w": (inputs,), "a": (outputs,)}

    def respond(self, weights, x):
        return weights["a"] * (weights["w"] @ x) ** 3


class Huber(AbstractLoss):
    """A loss that is not in the package."""

    def __call__(self, output, target):
        return jnp.sum(jnp.sqrt(1 + (target - output) ** 2) - 1)


def climb(problem, theta, time):
    """Dormant units alone, for some time, through the package."""
    walk = Walk(problem, theta, real_time=False)
    flow = walk.phase(plateau=True).flow
    pieces = ode.integrate(
        flow,
        flow.state(theta),
        kind="explicit",
        rtol=1e-9,
        times=np.zeros(0),
        max_time=time,
    )
    return np.asarray(list(pieces)[-1].end)


@in_float64
def test_dormant_linear_units_follow_the_matrix_exponential(small_regression):
    """Z' = [[0, G^T], [G, 0]] Z with G = Sigma_yx, for the weights [w; a] of every neuron."""
    problem = Problem(small_regression, sw.units.Dense(4, "linear"))
    theta = problem.initialize(1e-5, 0)
    x, y = np.asarray(small_regression.x), np.asarray(small_regression.y)
    g = y.T @ x / len(x)
    generator = np.block([[np.zeros((3, 3)), g.T], [g, np.zeros((2, 2))]])
    expected = (expm(2.0 * generator) @ np.asarray(theta).T).T
    ended = climb(problem, theta, 2.0)
    assert np.abs(ended - expected).max() < 1e-6 * np.abs(expected).min(axis=1).max()


@in_float64
def test_dormant_heads_follow_their_utility():
    """Eq 49 and 12: U = N V Q' Sigma^2 K, integrated by SciPy."""
    values, context, heads = np.array([2.0, 1.0]), 5, 3
    task = sw.tasks.in_context_regression(values, context)
    problem = Problem(task, sw.units.LinearAttention(heads))
    theta = np.asarray(problem.initialize(0.05, 1))
    m = context * np.diag(values**2)

    def velocity(_, flat):
        v, k, q = np.split(flat.reshape(heads, 5), [1, 3], axis=1)
        both = np.sum(k * (q @ m), axis=1, keepdims=True)
        return np.concatenate([both, v * (q @ m), v * (k @ m)], axis=1).ravel()

    expected = solve_ivp(velocity, (0, 1.0), theta.ravel(), rtol=1e-11, atol=1e-14).y[:, -1]
    ended = climb(problem, jnp.asarray(theta), 1.0)
    np.testing.assert_allclose(ended.ravel(), expected, rtol=1e-6, atol=1e-9)


def design(seed, correlation=0.7):
    """Six samples, four inputs: a shape that the tests below share."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(6, 4))
    for j in range(1, 4):
        x[:, j] = correlation * x[:, j - 1] + np.sqrt(1 - correlation**2) * x[:, j]
    return sw.tasks.from_arrays(x, x @ rng.normal(size=4) + 0.3 * rng.normal(size=6))


def test_algorithm_1_equals_the_closed_form_of_diagonal_networks():
    """Units on and off, times and levels, with returns to dormancy among them."""
    returns = 0
    for seed in range(12):
        task = design(seed)
        exact = sw.predict(task, DIAGONAL, 1e-6, method="paper")
        found = sw.predict(task, DIAGONAL, 1e-6, method="algorithm-1")
        visible = [s for s in exact.stages if s.units]
        assert [s.units for s in found.stages] == [s.units for s in visible]
        assert [s.dormant for s in found.stages] == [s.dormant for s in visible]
        np.testing.assert_allclose(found.jump_times, [s.time for s in visible], rtol=5e-6)
        levels = np.abs(np.subtract(found.loss_levels, exact.loss_levels))
        assert levels.max() < 1e-6 * exact.initial_loss
        assert found.stopped == exact.stopped
        returns += sum(bool(s.dormant) for s in exact.stages)
    assert returns > 0


def test_a_collapsed_unit_comes_back_with_the_other_sign():
    """Fig 8: coefficient 0 turns on, off, and on again."""
    task = sw.tasks.agf_figure_8()
    for method in ("numeric", "algorithm-1"):
        stairs = sw.predict(task, DIAGONAL, 1e-6, method=method)
        assert [s.units for s in stairs.stages] == [(0,), (1,), (0,)]
        assert [s.dormant for s in stairs.stages] == [(), (0,), ()]
        assert [s.feature["sign"] for s in stairs.stages] == [1, 1, -1]
        np.testing.assert_allclose(stairs.loss_levels[1:3], [1.11465, 0.07], rtol=1e-5)


def test_units_that_tie_wake_together():
    """Two coordinates with the same pull, orthogonal to each other."""
    x = np.zeros((6, 4))
    x[0, 0] = x[1, 1] = 2.0
    x[2, 2] = x[3, 3] = 1.0
    task = sw.tasks.from_arrays(x, x @ np.array([1.0, -1.0, 0.7, 0.3]))
    for method in ("numeric", "algorithm-1"):
        stairs = sw.predict(task, DIAGONAL, 1e-6, method=method)
        assert [s.units for s in stairs.stages] == [(0, 1), (2,), (3,)]


@pytest.mark.parametrize("scale", [1e-3, 1e-8])
def test_real_time_agrees_with_gradient_flow_on_diagonal_networks(scale):
    for seed in (0, 3, 5):
        task = design(seed)
        path = sw.train(task, DIAGONAL, scale)
        real = sw.compare(sw.predict(task, DIAGONAL, scale, method="numeric"), path)
        printed = sw.compare(sw.predict(task, DIAGONAL, scale, method="algorithm-1"), path)
        assert real.order
        assert max(real.time_error) < 2e-3
        assert max(real.level_error) < 2e-3
        assert np.mean(real.time_error) < 0.1 * np.nanmean(printed.time_error)


def test_real_time_agrees_with_gradient_flow_on_attention():
    task, units = sw.tasks.in_context_regression([4, 2, 1], 16), sw.units.LinearAttention(4)
    worst = []
    for scale in (1e-2, 1e-4):
        errors = []
        for seed in range(3):
            stairs = sw.predict(task, units, scale, seed)
            report = sw.compare(stairs, sw.train(task, units, scale, seed))
            assert stairs.method == "numeric"
            assert report.order
            errors += report.time_error
            exact = sw.predict(task, units, scale, seed, method="closed").loss_levels
            # at 1e-2 a plateau is short, and left before its level is reached
            np.testing.assert_allclose(
                stairs.loss_levels, exact, rtol={1e-2: 1e-3, 1e-4: 1e-6}[scale]
            )
        worst.append(max(errors))
    assert worst[0] < 3e-4
    assert worst[1] < 1e-5


def test_a_feature_that_comes_much_later_is_not_lost():
    """Two heads' worth of components, the second 1,600 times weaker: leftovers must not mislead."""
    task, units = sw.tasks.in_context_regression([4, 0.1, 0.1001], 16), sw.units.LinearAttention(4)
    stairs = sw.predict(task, units, 1e-3, 0)
    report = sw.compare(stairs, sw.train(task, units, 1e-3, 0, convergence=1e-6))
    assert max(report.time_error) < 1e-3


def test_basis_vectors_of_linear_networks():
    """Neurons turned into basis vectors (Dense.mix): the closed form and gradient flow agree."""
    task, units = sw.tasks.linear_map(3, 3, decay=1.0, commuting=True), sw.units.Dense(4, "linear")
    stairs = sw.predict(task, units, 1e-6, method="numeric")
    closed = sw.predict(task, units, 1e-6, method="closed")
    path = sw.train(task, units, 1e-6)
    assert [s.feature["index"] for s in stairs.stages] == [
        s.feature["index"] for s in closed.stages
    ]
    np.testing.assert_allclose(stairs.jump_times, closed.jump_times, rtol=2e-3)
    assert max(sw.compare(stairs, path).time_error) < 1e-3


def test_large_targets_do_not_loop():
    """Units that wake at norm 1 far below their size must not fall asleep at once."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 4))
    task = sw.tasks.from_arrays(x, x @ np.array([1e4, -5e3, 2e3, 1e3]))
    found = sw.predict(task, DIAGONAL, 1e-6, method="algorithm-1")
    exact = sw.predict(task, DIAGONAL, 1e-6, method="paper")
    np.testing.assert_allclose(found.jump_times, exact.jump_times, rtol=1e-6)


def test_bad_starts(small_regression):
    units = sw.units.Dense(2, "tanh")
    start = np.full((2, 5), 1e-3)
    with pytest.raises(sw.InputError, match="unit of zeros"):
        sw.predict(small_regression, units, 1e-3, start=start * [[1], [0]])
    with pytest.raises(sw.InputError, match="it is not dormant"):
        sw.predict(small_regression, units, 1e-3, start=start * [[1], [1e4]], method="algorithm-1")


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_real_time_agrees_with_gradient_flow_on_relu(seed):
    task, units = sw.tasks.hidden_directions(samples=60, dim=4, outputs=2), sw.units.Dense(5)
    stairs = sw.predict(task, units, 1e-8, seed)
    report = sw.compare(stairs, sw.train(task, units, 1e-8, seed))
    assert report.order
    assert report.time_error[0] < 1e-3
    # units slide along kinks for hundreds of time units, and steps across them err: training itself
    # moves the last jump by 3% when its tolerance falls from 1e-5 to 1e-7
    assert np.mean(report.time_error) < 0.1
    feature = stairs.stages[0].feature
    assert feature["kind"] == "direction"
    assert np.linalg.norm(feature["vector"]) == pytest.approx(1.0)
    answers = np.maximum(np.asarray(task.x) @ feature["vector"], 0.0)
    assert feature["active_samples"] == np.flatnonzero(answers > 0).tolist()


def test_a_rest_that_rounding_hides_is_found():
    """The drive at rest is a difference of numbers 1e9 as large: its event is met to 1e-6, not to 1e-9."""
    task = sw.tasks.sparse_regression(samples=20, dim=2, sparsity=2)
    stairs = sw.predict(task, sw.units.Diagonal(), 1e-3, method="instant-alignment")
    assert len(stairs.stages) == 2
    assert stairs.stages[-1].loss < 1e-6 * stairs.initial_loss


@pytest.fixture(scope="module")
def cubic():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = x[:, 0] ** 3 - 0.4 * x[:, 1] ** 3
    return sw.tasks.from_arrays(x, y / np.std(y)), Cubic(3)


def test_a_users_own_unit_is_predicted_trained_and_compared(cubic):
    task, units = cubic
    stairs = sw.predict(task, units, 1e-2, 0)
    report = sw.compare(stairs, sw.train(task, units, 1e-2, 0))
    assert stairs.degree == 4
    assert report.order
    assert max(report.time_error) < 1e-2
    directions = [np.abs(s.feature["vector"]) for s in stairs.stages]
    assert np.argmax(directions[0]) == 0


def test_another_loss_is_predicted_too(cubic):
    task, units = cubic
    stairs = sw.predict(task, units, 1e-2, 0, loss=Huber())
    report = sw.compare(stairs, sw.train(task, units, 1e-2, 0, loss=Huber()))
    assert stairs.stages
    assert max(report.time_error) < 1e-2


def test_adaptive_rates_are_predicted_too(cubic):
    """With eta_i = norm^(2-kappa) plateaus last log(1/alpha) again (appendix B.5)."""
    task, units = cubic
    times = []
    for scale in (1e-2, 1e-4):
        stairs = sw.predict(task, units, scale, 0, adaptive=True)
        path = sw.train(task, units, scale, 0, adaptive=True)
        report = sw.compare(stairs, path)
        assert max(report.time_error) < 1e-2
        times.append(stairs.jump_times[0])
    assert 1.5 < times[1] / times[0] < 2.5


def test_a_start_of_ones_own(fig3):
    start = np.full((5, 2), 1e-5) * np.arange(1, 6)[:, None]
    stairs = sw.predict(fig3, DIAGONAL, 1e-5, start=start)
    report = sw.compare(stairs, sw.train(fig3, DIAGONAL, 1e-5, start=start))
    assert stairs.method == "numeric"
    assert max(report.time_error) < 2e-3


def test_the_reason_for_the_end_is_told(small_regression):
    narrow = sw.predict(small_regression, sw.units.Dense(1, "tanh"), 1e-3)
    assert narrow.stopped == "no dormant units"
    attention = sw.predict(
        sw.tasks.in_context_regression([4, 2, 1], 16), sw.units.LinearAttention(4), 1e-4
    )
    assert attention.stopped == "no utility left"


def test_alignment_at_once_gives_the_bounds_of_eq_17():
    """Attention: the first head to wake is the largest one at full utility (Eq 58 with its -1)."""
    task, units = sw.tasks.in_context_regression([4, 2, 1], 16), sw.units.LinearAttention(4)
    stairs = sw.predict(task, units, 1e-4, 0, method="instant-alignment")
    with sw.float64():
        start = np.asarray(Problem(task, units).initialize(1e-4, 0))
    largest = np.linalg.norm(start, axis=1).max()
    bound = (1 / largest - 1) * np.sqrt(3) / (16 * 4.0**2)
    real = sw.predict(task, units, 1e-4, 0, method="algorithm-1")
    assert stairs.jump_times[0] == pytest.approx(bound, rel=1e-6)
    assert stairs.jump_times[0] < real.jump_times[0]
    assert stairs.loss_levels[:2] == pytest.approx(real.loss_levels[:2], rel=1e-6)


def test_alignment_at_once_is_the_limit_for_degree_two():
    """Diagonal networks: |g| per coordinate, so norm 1 is reached after -log(sqrt2 alpha)/|g|."""
    task = design(0)
    x, y = np.asarray(task.x), np.asarray(task.y)[:, 0]
    strongest = np.abs(x.T @ y / len(y)).max()
    stairs = sw.predict(task, DIAGONAL, 1e-6, method="instant-alignment")
    expected = -np.log(np.sqrt(2) * 1e-6) / strongest
    assert stairs.jump_times[0] == pytest.approx(expected, rel=1e-6)


def test_accelerated_time_in_units_of_the_mean_threshold():
    task, units = sw.tasks.in_context_regression([4, 2, 1], 16), sw.units.LinearAttention(4)
    with sw.float64():
        norm = np.linalg.norm(np.asarray(Problem(task, units).initialize(1e-4, 0)), axis=1)
    stairs = sw.predict(task, units, 1e-4, 0, method="closed", eta="mean")
    assert stairs.eta == pytest.approx(np.mean(1 / norm - 1), rel=1e-12)
    with pytest.raises(sw.InputError, match="'norm' or 'mean'"):
        sw.predict(task, units, 1e-4, 0, method="closed", eta="other")


def test_all_units_of_a_stage_are_named_the_largest_first():
    """Orthogonal inputs with coefficients of one size: all of them are learned at once."""
    x = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 6)))[0] * np.sqrt(12)
    beta = np.array([2.0, -2.0, 0.0, 2.0, -2.0, 0.0])
    problem = sw.Problem(sw.tasks.from_arrays(x, x @ beta), DIAGONAL)
    (stage,) = sw.predict(problem.task, DIAGONAL, 1e-4, method="numeric").stages
    named = [stage.feature, *stage.feature["others"]]
    assert {f["index"]: f["sign"] for f in named} == {0: 1, 1: -1, 3: 1, 4: -1}
    assert stage.described.startswith("4 coordinates: ")
    assert stage.described.endswith(" and 1 more")

    after = np.array([[1.0, 0.1], [0.1, 3.0], [0.0, 0.0], [2.0, 0.1], [0.0, 0.0], [0.0, 0.0]])
    with sw.float64():
        (feature,) = name_features(problem, Bound(problem), [Change(0 * after, after, (0, 1, 3))])
    assert describe(feature) == "3 coordinates: 1 (-), 3 (+), 0 (+)"


@in_float64
def test_every_mode_is_named_once():
    # three equal modes, two, and one: no direction tells the equal ones apart, so they are learned together.
    # A network that is too large to be remembered at every step is so all the same where the loss changes
    y = np.diag([2.0, 2.0, 2.0, 1.0, 1.0, 0.5])
    problem = sw.Problem(sw.tasks.from_arrays(np.eye(6), y), sw.units.Dense(6, "linear"))
    for remembered in (3000, 0):
        walk = Walk(
            problem,
            problem.initialize(1e-4),
            real_time=True,
            thresholds=Thresholds(remembered=remembered),
        )
        walk.run()
        stages = read_walk(walk)[0]
        modes = [[f["index"] for f in (s.feature, *s.feature.get("others", ()))] for s in stages]
        assert [sorted(some) for some in modes] == [[0, 1, 2], [3, 4], [5]]
        assert stages[0].described == f"3 modes: {modes[0][0]}, {modes[0][1]}, {modes[0][2]}"
        assert stages[1].learned == f"modes {modes[1][0]}, {modes[1][1]}"
        assert stages[2].learned == "mode 5"


def test_a_mode_belongs_to_the_stage_that_took_most_of_it():
    # loss of a mode: weight (1 - strength)^2. The first takes 0.36 of its own in stage 0 and the rest in
    # stage 1; the second is learned in stage 0; the third never
    weights = [4.0, 1.0, 1.0]
    before, after = [[0, 0, 0], [0.2, 1, 0]], [[0.2, 1, 0], [1, 1, 0.01]]
    found = modes_that_grew(weights, before, after)
    assert found == [([1], 0), ([0], 0)]


class Logistic(AbstractLoss):
    """-log of the probability of a label of 1 or -1."""

    def __call__(self, output, target):
        return jnp.sum(jnp.logaddexp(0.0, -output * target))


def test_linear_neurons_under_another_loss_learn_a_direction():
    """From a small start the first direction is that of E y x, whatever the loss."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    y = np.sign(x[:, 0] + 0.3 * x[:, 1])
    units = sw.units.Dense(3, "linear")
    stairs = sw.predict(sw.tasks.from_arrays(x, y), units, 1e-3, loss=Logistic())
    feature = stairs[0].feature
    assert feature["kind"] == "direction"
    separates = (x @ feature["vector"]) * y
    assert separates.min() > 0 or separates.max() < 0


def test_neurons_with_biases_are_predicted():
    """Neither of the two steps is odd in the inputs: without biases they cannot be learned."""
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = np.tanh(2 * x[:, 0] - 1) + 0.5 * np.tanh(x[:, 1] + 0.5)
    task, units = sw.tasks.from_arrays(x, y), sw.units.Dense(4, "tanh", bias=True)
    stairs = sw.predict(task, units, 1e-3, max_time=300.0)
    report = sw.compare(stairs, sw.train(task, units, 1e-3, max_time=300.0))
    assert report.order
    assert len(stairs) == report.stages_reached == 2
    assert max(report.time_error) < 2e-3
    assert stairs.loss_levels[-1] < 1e-3 * stairs.initial_loss

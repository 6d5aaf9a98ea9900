"""Conserved quantities, rescaled starts, activation patterns, and the verdict on a run."""

import dataclasses
import json

import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.balance import alpha_of, conserved_quantities, rescaled
from saddlewalk.diagnose import conserved_drift
from saddlewalk.diagnose.regime import LATE, delay_of
from saddlewalk.theory.lazyrich import Neuron, neuron_preconditioner
from saddlewalk.units import find_incoming_degree as incoming_degree

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = np.maximum(X @ RNG.normal(size=(3, 2)), 0) @ [1.0, -0.5]
ONE = sw.tasks.from_arrays(X, Y)
TWO = sw.tasks.from_arrays(X, np.column_stack([Y, X[:, 0]]))

RELU = sw.units.Dense(4, "relu")

DEGREES = {
    "relu": (sw.units.Dense(4, "relu"), 1),
    "leaky": (sw.units.Dense(4, "leaky-relu"), 1),
    "linear": (sw.units.Dense(4, "linear"), 1),
    "quadratic": (sw.units.Dense(4, "quadratic"), 2),
    "cubic": (sw.units.Dense(4, "cubic"), 3),
    "tanh": (sw.units.Dense(4, "tanh"), None),
    "convolution": (sw.units.Convolution(4, activation="relu"), 1),
}


@pytest.mark.parametrize("name", DEGREES)
def test_degree_in_incoming_weights(name):
    units, degree = DEGREES[name]
    assert incoming_degree(units, 3, 2) == degree


def test_degree_of_attention_and_pairs():
    assert incoming_degree(sw.units.LinearSelfAttention(2), 6, 1) == 2  # keys times queries
    assert incoming_degree(sw.units.LinearSelfAttention(2, merged=True), 6, 1) == 1
    assert incoming_degree(sw.units.SoftmaxSelfAttention(2, tokens=3), 6, 1) is None
    assert incoming_degree(sw.units.QuadraticPair(2), 4, 1) == 2


FLOWS = {
    "relu": (TWO, sw.units.Dense(4, "relu"), {}),
    "relu, rates": (ONE, sw.units.Dense(4, "relu"), {"w": 0.5, "a": 2.0}),
    "quadratic, rates": (ONE, sw.units.Dense(3, "quadratic"), {"w": 3.0}),
    "convolution": (ONE, sw.units.Convolution(3, activation="relu"), {"u": 2.0}),
    "deep": (
        ONE,
        sw.units.Deep((sw.units.Dense(4, "relu"), sw.units.Dense(3, "relu"))),
        {"w2": 0.5},
    ),
}


@pytest.mark.parametrize("name", FLOWS)
def test_gradient_flow_conserves(name):
    """The velocity has no part that would change delta, though it changes the units' sizes."""
    task, units, rates = FLOWS[name]
    problem = sw.Problem(task, units, rates=rates)
    start = 0.7 * np.random.default_rng(3).normal(size=(problem.width, problem.size))
    with sw.float64():
        velocity = np.asarray(problem.velocity(start))
    h = 1e-6
    for layer, here in conserved_quantities(problem, start).items():
        ahead, behind = (
            conserved_quantities(problem, start + s * h * velocity)[layer] for s in (1, -1)
        )
        rate = (ahead.deltas - behind.deltas) / (2 * h)
        growth = (ahead.sizes - behind.sizes) / (2 * h)
        assert np.abs(rate).max() < 1e-6 * max(1.0, np.abs(growth).max())
        assert np.abs(growth).max() > 1e-3
        np.testing.assert_array_less(np.abs(here.deltas), here.sizes + 1e-12)


def test_matrix_of_linear_networks_is_conserved():
    problem = sw.Problem(TWO, sw.units.Dense(4, "linear"), rates={"w": 0.5, "a": 2.0})
    start = np.random.default_rng(4).normal(size=(4, problem.size))
    kept = conserved_quantities(problem, start)["units"]
    w, a = start[:, :3], start[:, 3:]
    np.testing.assert_allclose(kept.matrix, 0.5 * a @ a.T - 2.0 * w @ w.T, rtol=1e-12)
    np.testing.assert_allclose(np.diag(kept.matrix), kept.deltas, rtol=1e-12)


LINEAR = sw.units.Dense(4, "linear")
RATES = {"w": 0.5, "a": 2.0}


@pytest.fixture(scope="module")
def linear_run():
    """Gradient flow of a linear network with two learning rates."""
    start = 0.5 * np.random.default_rng(5).normal(size=(4, 5))
    return sw.train(TWO, LINEAR, 1.0, start=start, rates=RATES, max_time=3.0, progress=False)


@pytest.fixture(scope="module")
def relu_run():
    """A small ReLU network on its way."""
    return sw.train(ONE, RELU, 0.5, max_time=5.0, most_saved=40, progress=False)


def test_a_linear_run_keeps_its_matrix(linear_run):
    first, last = (conserved_quantities(linear_run, at=k)["units"] for k in (0, -1))
    np.testing.assert_allclose(last.matrix, first.matrix, atol=1e-6)
    assert np.abs(linear_run.parameters[-1] - linear_run.parameters[0]).max() > 0.1


def test_drift_measures_the_step_size(linear_run):
    """Gradient flow keeps delta; descent loses it in proportion to its steps."""
    flow = conserved_drift(linear_run).largest
    coarse, fine = (
        conserved_drift(
            sw.train(
                TWO, LINEAR, 1.0, start=linear_run.parameters[0], rates=RATES, max_time=3.0,
                solver="descent", learning_rate=rate, progress=False,
            )
        ).largest
        for rate in (0.01, 0.005)
    )  # fmt: skip
    assert flow < 1e-6
    assert coarse / fine == pytest.approx(2.0, rel=0.1)
    assert fine > 100 * flow


def test_drift_is_a_result_by_layer(linear_run, tmp_path):
    drift = conserved_drift(linear_run, linear_run.problem)
    assert dict(drift) == {"units": drift["units"]}
    assert drift.largest == drift["units"].largest
    assert "largest relative drift" in str(drift["units"])
    check_kept(drift, tmp_path)


def test_traits_are_found_once_for_all_moments(relu_run, monkeypatch):
    problem = relu_run.problem
    problem.incoming_degree(), problem.relations()

    def again(*given):
        raise AssertionError("found twice")

    monkeypatch.setattr("saddlewalk.units.traits.find_incoming_degree", again)
    monkeypatch.setattr("saddlewalk.units.traits.find_relations", again)
    assert len(conserved_drift(relu_run)["units"].time) > 10


def test_drift_refuses(relu_run):
    units = sw.units.Dense(4, "tanh")
    path = sw.train(ONE, units, 0.1, progress=False, max_steps=10, solver="descent")
    with pytest.raises(sw.InputError, match="not homogeneous"):
        conserved_drift(path)
    with pytest.raises(sw.InputError, match="does not belong"):
        conserved_drift(path, sw.Problem(ONE, sw.units.Dense(5, "tanh")))
    adaptive = sw.Problem(ONE, sw.units.Dense(2, "quadratic"), adaptive=True)
    with pytest.raises(sw.InputError, match="conserve nothing"):
        conserved_quantities(adaptive, np.ones((2, 4)))


# --- starts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [-3.0, 0.0, 0.4])
def test_given_delta_keeps_the_function(delta):
    problem = sw.Problem(TWO, sw.units.Dense(4, "relu"), rates={"w": 0.5, "a": 2.0})
    theta = np.random.default_rng(6).normal(size=(4, problem.size))
    moved = rescaled(problem, theta, delta=delta)
    np.testing.assert_allclose(
        conserved_quantities(problem, moved)["units"].deltas, delta, atol=1e-12
    )
    with sw.float64():
        np.testing.assert_allclose(problem.function(moved), problem.function(theta), rtol=1e-10)


def test_scale_and_delta_of_the_paper():
    """|a||w| = tau^2 and a^2 - w^2 = delta; alpha = exp(asinh(delta / 2 tau^2) / 2) does the same."""
    problem = sw.Problem(ONE, sw.units.Dense(4, "relu"))
    theta = np.random.default_rng(7).normal(size=(4, problem.size))
    tau, delta = 0.3, 0.7
    moved = rescaled(problem, theta, tau=tau, delta=delta)
    w, a = np.linalg.norm(moved[:, :3], axis=1), np.abs(moved[:, 3])
    np.testing.assert_allclose(a * w, tau**2, rtol=1e-12)
    np.testing.assert_allclose(a**2 - w**2, delta, rtol=1e-12)
    alpha = alpha_of(tau, delta)
    assert tau**2 * (alpha**2 - alpha**-2) == pytest.approx(delta)
    balanced = rescaled(problem, theta, tau=tau, delta=0.0)
    np.testing.assert_allclose(rescaled(problem, balanced, alpha=alpha), moved, rtol=1e-12)


@pytest.mark.parametrize(
    "units", [sw.units.Dense(3, "quadratic"), sw.units.Convolution(3, activation="relu")]
)
def test_given_alpha_keeps_the_function(units):
    problem = sw.Problem(ONE, units)
    theta = np.random.default_rng(8).normal(size=(3, problem.size))
    moved = rescaled(problem, theta, alpha=3.0)
    assert np.abs(moved - theta).max() > 0.1
    with sw.float64():
        np.testing.assert_allclose(problem.function(moved), problem.function(theta), rtol=1e-10)


def test_deep_networks_trade_first_for_last_layer():
    units = sw.units.Deep((sw.units.Dense(4, "relu"), sw.units.Dense(3, "relu")))
    problem = sw.Problem(ONE, units)
    theta = np.random.default_rng(9).normal(size=(1, problem.size))
    moved = rescaled(problem, theta, alpha=2.0)
    np.testing.assert_allclose(moved[0, :12], theta[0, :12] / 2)
    np.testing.assert_allclose(moved[0, -3:], theta[0, -3:] * 2)
    with sw.float64():
        np.testing.assert_allclose(problem.function(moved), problem.function(theta), rtol=1e-10)
        grown = rescaled(problem, theta, tau=2.0)
        np.testing.assert_allclose(problem.function(grown), 8 * problem.function(theta), rtol=1e-10)


@pytest.mark.parametrize(
    "units",
    [
        sw.units.Deep((sw.units.Dense(3, "tanh"),) * 2, skips=((1, 2),)),
        sw.units.Deep((sw.units.Dense(3, "quadratic"), sw.units.Dense(3, "relu"))),
    ],
)
def test_deep_networks_that_would_change_are_refused(units):
    problem = sw.Problem(ONE, units)
    theta = np.random.default_rng(14).normal(size=(1, problem.size))
    with pytest.raises(sw.InputError, match="changes the function"):
        rescaled(problem, theta, alpha=3.0)
    through = sw.units.Deep((sw.units.Dense(3, "relu"),) * 2, skips=((1, 2),))
    other = sw.Problem(ONE, through)
    theta = np.random.default_rng(15).normal(size=(1, other.size))
    assert rescaled(other, theta, alpha=3.0).shape == theta.shape


def test_diagonal_networks_conserve_their_difference():
    units = sw.units.Diagonal()
    path = sw.train(ONE, units, 0.3, rates={"u": 0.5, "v": 2.0}, progress=False, max_time=20.0)
    drift = conserved_drift(path)["units"]
    assert drift.largest < 1e-6
    assert (drift.sizes[-1] / drift.sizes[0]).max() > 2
    with pytest.raises(sw.InputError, match="cannot be rescaled apart"):
        rescaled(path.problem, path.parameters[0], alpha=2.0)


def test_sides():
    problem = sw.Problem(ONE, sw.units.Dense(2, "relu"))
    side = lambda *rows: conserved_quantities(problem, 1.0 * np.array(rows))["units"].side  # noqa: E731
    assert side([0, 0, 1, 3], [0, 0, 1, 2]) == "upstream"
    assert side([0, 0, 3, 1], [0, 0, 2, 1]) == "downstream"
    assert side([0, 0, 1, 1], [0, 0, 2, 2.1]) == "balanced"
    assert side([0, 0, 0, 10], [0, 0, 10, 0]) == "mixed"


def test_rescaling_refuses():
    relu = sw.Problem(ONE, sw.units.Dense(4, "relu"))
    theta = np.ones((4, 4))
    with pytest.raises(sw.InputError, match="give one"):
        rescaled(relu, theta, alpha=1.0, delta=1.0)
    with pytest.raises(sw.InputError, match="tau must be positive"):
        rescaled(relu, theta, tau=-1.0)
    with pytest.raises(sw.InputError, match="cannot be rescaled"):
        rescaled(relu, np.zeros((4, 4)), delta=1.0)
    with pytest.raises(sw.InputError, match="not homogeneous"):
        rescaled(sw.Problem(ONE, sw.units.Dense(4, "tanh")), theta, alpha=2.0)
    with pytest.raises(sw.InputError, match="degree 1"):
        rescaled(sw.Problem(ONE, sw.units.Dense(4, "quadratic")), theta, delta=2.0)
    with pytest.raises(sw.InputError, match="must have shape"):
        rescaled(relu, theta[:2], delta=2.0)
    deep = sw.Problem(ONE, sw.units.Deep((sw.units.Dense(2, "relu"),)))
    with pytest.raises(sw.InputError, match="balanced by alpha"):
        rescaled(deep, np.ones((1, deep.size)), delta=2.0)


# --- activation patterns ------------------------------------------------------------------------------


def test_patterns_and_hamming_distance():
    problem = sw.Problem(ONE, sw.units.Dense(4, "relu"))
    theta, other = np.random.default_rng(10).normal(size=(2, 4, 4))
    found = sw.diagnose.activation_patterns(problem, theta, x=X)
    np.testing.assert_array_equal(found, X @ theta[:, :3].T > 0)
    switched = sum(
        (X[i] @ theta[k, :3] > 0) != (X[i] @ other[k, :3] > 0) for i in range(12) for k in range(4)
    )
    distance = sw.diagnose.hamming_distance(
        found, sw.diagnose.activation_patterns(problem, other, x=X)
    )
    assert distance == pytest.approx(switched / 48)


def test_patterns_of_deep_networks():
    units = sw.units.Deep((sw.units.Dense(4, "relu"), sw.units.Dense(3, "relu")), skips=())
    problem = sw.Problem(ONE, units)
    theta = np.random.default_rng(11).normal(size=(1, problem.size))
    w1, w2 = theta[0, :12].reshape(4, 3), theta[0, 12:24].reshape(3, 4)
    first = X @ w1.T
    second = np.maximum(first, 0) @ w2.T
    np.testing.assert_array_equal(
        sw.diagnose.activation_patterns(problem, theta, x=X), np.column_stack([first, second]) > 0
    )


def plane(points=81):
    ticks = np.linspace(-1, 1, points) + 1e-3
    return np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2), points


@pytest.mark.parametrize("deep", [False, True])
def test_two_colors_are_enough(deep):
    """Neighboring points of a grid that differ in one neuron differ in color; in none, in neither."""
    task = sw.tasks.from_arrays(X[:, :2], Y)
    units = sw.units.Deep((sw.units.Dense(5, "relu"), sw.units.Dense(4, "relu"))) if deep else (
        sw.units.Dense(6, "relu")
    )  # fmt: skip
    problem = sw.Problem(task, units)
    theta = np.random.default_rng(12).normal(size=(problem.width, problem.size))
    grid, points = plane()
    colors = sw.diagnose.region_colors(problem, theta, x=grid).reshape(points, points)
    patterns = sw.diagnose.activation_patterns(problem, theta, x=grid).reshape(points, points, -1)
    switched = (patterns[:, 1:] != patterns[:, :-1]).sum(axis=2)
    differ = colors[:, 1:] != colors[:, :-1]
    assert (switched == 1).sum() > 50
    assert differ[switched == 1].all()
    assert not differ[switched == 0].any()


def test_redundant_neurons_count_once(tmp_path):
    """A mirrored network has every boundary twice; its colors are those of one half."""
    task = sw.tasks.from_arrays(X[:, :2], Y)
    half = np.random.default_rng(13).normal(size=(4, 3))
    mirrored = np.concatenate([half, half * [-1, -1, 1]])
    grid, _ = plane()
    both = sw.diagnose.region_colors(sw.Problem(task, sw.units.Dense(8, "relu")), mirrored, x=grid)
    one = sw.diagnose.region_colors(sw.Problem(task, sw.units.Dense(4, "relu")), half, x=grid)
    assert (both == one).all() or (both != one).all()
    with pytest.raises(sw.InputError, match="two inputs"):
        sw.diagnose.draw_partition(sw.Problem(ONE, sw.units.Dense(2, "relu")), np.ones((2, 4)))
    attention = sw.Problem(
        sw.tasks.in_context_tokens(2, 4, 8, products=True), sw.units.LinearSelfAttention(1)
    )
    with pytest.raises(sw.InputError, match="no neurons"):
        sw.diagnose.activation_patterns(attention, np.ones((1, attention.size)))


# --- the verdict --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def teacher_runs():
    """A small teacher and student in the four corners of the phase portrait."""
    rng = np.random.default_rng(0)
    x, teacher = (rng.normal(size=(m, 2)) for m in (20, 3))
    x, teacher = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, teacher))
    task = sw.tasks.from_arrays(x, np.maximum(x @ teacher.T, 0) @ [1, -1, 1])
    units = sw.units.Dense(20, "relu")
    problem = sw.Problem(task, units)
    base = rng.normal(size=(20, 3))
    corners = {}
    for tau, delta in ((0.1, 0.0), (2.0, 0.0), (0.1, 1.0), (0.1, -1.0)):
        start = rescaled(problem, base, tau=tau, delta=delta)
        path = sw.train(
            task, units, tau, start=start, convergence=1e-5, max_time=1e3, progress=False
        )
        corners[tau, delta] = sw.diagnose.find_regime(path)
    return corners


def test_verdicts_of_the_phase_portrait(teacher_runs):
    names = {corner: found.name for corner, found in teacher_runs.items()}
    assert names == {
        (0.1, 0.0): "rich",
        (2.0, 0.0): "lazy",
        (0.1, 1.0): "rich",
        (0.1, -1.0): "lazy",
    }
    sides = [found.sides["units"] for found in teacher_runs.values()]
    assert sides == ["balanced", "balanced", "upstream", "downstream"]
    upstream, balanced = teacher_runs[0.1, 1.0], teacher_runs[0.1, 0.0]
    # upstream is rich by switching activations, not by moving far
    last = lambda found, name: float(found.data[name][-1])  # noqa: E731
    assert last(upstream, "hamming_distance") > last(balanced, "hamming_distance")
    assert last(upstream, "parameter_distance") < 0.5 * last(balanced, "parameter_distance")


def check_kept(result, folder):
    """A result prints the same after a round trip through a file, and draws where it is told."""
    again = type(result).load(result.save(folder / "result.nc"))
    assert str(again) == str(result)
    assert again._repr_html_() == result._repr_html_()
    assert json.dumps(again.to_json(), allow_nan=False) == json.dumps(result.to_json())
    result.plot(folder / "result.png")
    assert (folder / "result.png").stat().st_size > 5_000
    axes = again.plot()
    assert result.plot(axes) is axes


@pytest.mark.parametrize("look", [sw.diagnose.find_regime, conserved_drift])
def test_another_problem_of_the_same_shape_is_refused(relu_run, look):
    other = sw.Problem(sw.tasks.from_arrays(X, Y + 0.1), RELU)
    with pytest.raises(sw.InputError, match="does not belong"):
        look(relu_run, other)
    with pytest.raises(sw.InputError, match="Give a run first"):
        look(other)


def test_a_run_and_a_problem_with_weights_agree(relu_run):
    problem, theta = relu_run.problem, relu_run.parameters[3]
    for look in (
        sw.diagnose.tangent_kernel,
        sw.diagnose.activation_patterns,
        sw.diagnose.region_colors,
    ):
        np.testing.assert_array_equal(look(relu_run, at=3), look(problem, theta))
    here, there = conserved_quantities(relu_run, at=3), conserved_quantities(problem, theta)
    np.testing.assert_array_equal(here["units"].deltas, there["units"].deltas)
    assert sw.diagnose.conserved_quantities is conserved_quantities
    with pytest.raises(sw.InputError, match="needs weights"):
        conserved_quantities(problem)


def test_a_linear_run_needs_no_problem(linear_run, tmp_path):
    """Its data are known by their moments, which have the place of samples."""
    found = sw.diagnose.find_regime(linear_run, moments=8)
    compressed = sw.Problem(TWO, LINEAR, rates=RATES)
    assert str(sw.diagnose.find_regime(linear_run, compressed, moments=8)) == str(found)
    kept = sw.Problem(TWO, LINEAR, rates=RATES, keep_samples=True)
    assert sw.diagnose.find_regime(linear_run, kept, moments=8).name == found.name
    assert found.conserved["units"].matrix is not None
    check_kept(found, tmp_path)


def test_regime_prints_saves_and_draws(teacher_runs, tmp_path):
    found = teacher_runs[0.1, 1.0]
    assert "regime: rich" in str(found)
    assert "upstream" in str(found)
    record = found.to_json()
    assert record["layers"]["units"]["deltas"] == pytest.approx([1.0] * 20)
    assert record["at_end"]["kernel_distance"] == pytest.approx(found.kernel_distance)
    check_kept(found, tmp_path)


def test_delay_separates_the_single_neuron():
    """Downstream the kernel turns late, balanced it turns with the loss, upstream never."""
    time = np.concatenate([[0], np.geomspace(1e-4, 500, 2001)])
    delays, turns = {}, {}
    for delta in (-16.0, -4.0, 0.0, 4.0):
        path = Neuron.with_delta(delta, [0.8, 0.6], [0.0, 1.0]).at(time)
        kernels = [neuron_preconditioner(beta, delta) for beta in path.beta]
        distance = np.array([sw.diagnose.kernel_distance(kernels[0], k) for k in kernels])
        pace = (path.loss[0] - path.loss[1]) / time[1]
        delays[delta], turns[delta] = delay_of(time, path.loss, distance, pace), distance[-1]
    assert delays[-16.0] > delays[-4.0] > LATE > delays[0.0]
    assert turns[4.0] < 0.01 < turns[0.0] < turns[-4.0]


def test_delayed_rich_run():
    """A linear network that narrows, far downstream: it first fits in the span of its start."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 3))
    task = sw.tasks.from_arrays(x, x @ [1.0, -0.5, 0.3])
    units = sw.units.Dense(1, "linear")
    problem = sw.Problem(task, units)
    start = rescaled(problem, np.array([[0.5, 0.5, 1.0, 1.0]]), delta=-8.0)
    path = sw.train(task, units, 1.0, start=start, convergence=1e-6, progress=False)
    found = sw.diagnose.find_regime(path)
    assert found.name == sw.diagnose.RegimeKind.DELAYED_RICH == "delayed rich"
    assert found.sides == {"units": "downstream"}
    assert found.delay > LATE


@pytest.mark.parametrize("samples", [100, 400])
def test_a_relu_network_far_downstream_is_delayed_and_a_cut_run_does_not_tell(samples):
    """With few steps the kernel has not turned yet; in the end it has, and balanced it does at once."""
    rng = np.random.default_rng(0)
    x, teacher = rng.normal(size=(samples, 30)), rng.normal(size=(3, 30))
    teacher /= np.linalg.norm(teacher, axis=1, keepdims=True)
    task = sw.tasks.from_arrays(x, np.maximum(x @ teacher.T, 0) @ [1.0, -1.0, 1.0])
    units = sw.units.Dense(20, "relu")
    problem = sw.Problem(task, units)
    with sw.float64():
        start = problem.initialize(0.1)

    def regime(delta, end):
        theta = rescaled(problem, start, tau=0.1, delta=delta)
        path = sw.train(task, units, 0.1, start=theta, max_time=end, progress=False)
        return sw.diagnose.find_regime(path, moments=24, progress=False)

    cut = regime(-1.0, 1.5)
    assert cut.name == "too early to say"
    assert "train on until less than 20% of the loss is left" in str(cut)
    assert regime(-1.0, 30.0).name == "delayed rich"
    assert regime(0.0, 30.0).name == "rich"


def test_several_outputs_turn_between_each_other():
    """Upstream and widening (Theorem 6): the kernel turns between outputs, while its trace stands still."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(8, 2)) / np.sqrt(8)
    task = sw.tasks.from_arrays(x, x @ rng.normal(size=(2, 3)) * np.sqrt(8))
    units = sw.units.Dense(2, "linear")
    start = np.column_stack([0.1 * rng.normal(size=(2, 2)), 12 * rng.normal(size=(2, 3))])
    path = sw.train(task, units, 1.0, start=start, max_time=3e4, convergence=0.0, progress=False)
    found = sw.diagnose.find_regime(path)
    w, a = start[:, :2], start[:, 2:]
    assert sw.theory.lazyrich.linear_regime(a, w, x, np.asarray(task.y)).name == "delayed rich"
    assert found.name == "delayed rich"
    ends = [sw.diagnose.tangent_kernel(path, at=k, x=x, traced=True) for k in (0, -1)]
    assert sw.diagnose.kernel_distance(*ends) < 1e-3 < 0.1 < found.kernel_distance


def test_growth_alone_is_not_lazy():
    """One input: the kernel has one direction, and grows by many orders."""
    task = sw.tasks.from_arrays([[1.0], [2.0]], [1.0, 2.0])
    units = sw.units.Dense(1, "linear")
    path = sw.train(task, units, 1e-3, progress=False)
    found = sw.diagnose.find_regime(path)
    assert found.kernel_distance < 1e-6
    assert float(found.data["kernel_growth"][-1]) > 1e3
    assert found.name == "rich"
    assert "hamming_distance" not in found.data  # linear neurons switch nothing


def test_regime_refuses(relu_run):
    problem = relu_run.problem
    late = dataclasses.replace(relu_run, data=relu_run.data.isel(saved=slice(1, None)))
    with pytest.raises(sw.InputError, match="did not keep its start"):
        sw.diagnose.find_regime(late)
    with pytest.raises(sw.InputError, match="kernel is zero"):
        sw.diagnose.DistancesFromStart(problem, np.ones((4, 4)), x=np.zeros((3, 3)))(
            np.ones((4, 4))
        )
    with pytest.raises(sw.InputError, match="must have shape"):
        sw.diagnose.tangent_kernel(problem, np.ones((3, 4)))


def test_delay_between_coarse_moments():
    """The first moment after the start may be late; what lies between counts, not the moment."""
    time, distance = np.array([0.0, 10.0, 20.0]), np.array([0.0, 1.0, 1.0])
    assert delay_of(time, np.array([1.0, 0.5, 0.0]), distance, pace=1.0) == pytest.approx(1.0)


def test_observables_of_a_run(relu_run):
    problem, start = relu_run.problem, relu_run.parameters[0]
    distances = sw.diagnose.DistancesFromStart(problem, start)
    path = sw.train(
        ONE, RELU, 0.5, max_time=5.0, observables=distances.observables(),
        most_saved=20, progress=False,
    )  # fmt: skip
    seen = path.data["kernel_distance"].values
    assert seen[0] == 0
    assert 0 < seen[-1] <= 1
    assert path.data["parameter_distance"].values[-1] == pytest.approx(
        np.linalg.norm(path.parameters[-1] - start)
    )
    assert {"hamming_distance", "target_alignment", "kernel_growth"} <= set(path.data)

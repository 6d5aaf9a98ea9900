"""Depth: exact modes, the walk of deep linear networks, deep diagonal networks, first escapes, and balance.

Known from elsewhere: SciPy's integrators at tight tolerance, mpmath, automatic differentiation, and training.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import saddlewalk as sw
from saddlewalk.balance import he_start, imbalances
from saddlewalk.settings import Run
from saddlewalk.theory.deep import aligned_start, escape, modes, predict_first_escape
from saddlewalk.theory.diagonal import ManyLayers
from saddlewalk.units import Deep, DeepDiagonal

X = np.random.default_rng(0).normal(size=(40, 3))
Y = 2 * np.maximum(X @ [1.0, 0.5, 0.0], 0) - np.maximum(X @ [-0.2, 0.5, -1.0], 0)
TASK = sw.tasks.from_arrays(X, Y)


# --- modes of deep linear networks ----------------------------------------------------------------


@pytest.mark.parametrize("depth", [2, 3, 4, 7])
def test_a_mode_is_what_tight_integration_gives(depth):
    sigma, variance, start = 1.7, 0.6, 1e-4
    middle = float(modes.time_to(start, 0.5 * sigma / variance, sigma, variance, depth))
    times = np.array([0.2, 0.8, 1.0, 1.1]) * middle
    flow = lambda _, s: depth * s ** (2 - 2 / depth) * (sigma - variance * s)  # noqa: E731
    found = solve_ivp(flow, (0, times[-1]), [start], "DOP853", times, rtol=1e-13, atol=1e-300).y[0]
    ours = modes.strength_at(times, start, sigma, variance, depth)
    assert ours == pytest.approx(found, rel=1e-9)


def test_the_time_of_a_mode_by_quadrature():
    for depth in (3, 5):
        exact = mpmath.quad(
            lambda s, L=depth: 1 / (L * s ** (2 - mpmath.mpf(2) / L) * (2 - 0.5 * s)),
            [mpmath.mpf("1e-3"), 0.01, 0.1, 1, 3.9],
        )
        assert float(modes.time_to(1e-3, 3.9, 2.0, 0.5, depth)) == pytest.approx(
            float(exact), rel=1e-12
        )


@pytest.fixture(scope="module")
def whitened():
    """Three modes, whitened inputs."""
    return sw.tasks.linear_map(3, 3, decay=0.0, seed=1)


def test_aligned_modes_are_gradient_flow_of_all_layers(whitened):
    units = Deep.linear(3, 4)
    problem = sw.Problem(whitened, units)
    start = aligned_start(problem, 1e-2)
    closed = sw.predict(whitened, units, 1e-2, start=start, method="closed")
    assert all(one.holds for one in closed.assumptions)
    x, y = np.asarray(problem.task.x), np.asarray(problem.task.y)
    size = (1e-2 / 3) ** 3

    def flow(_, w):
        a, b, c = w[:12].reshape(4, 3), w[12:28].reshape(4, 4), w[28:].reshape(3, 4)
        gap = y.T @ x - c @ b @ a @ (x.T @ x)
        return np.concatenate(
            [((c @ b).T @ gap).ravel(), (c.T @ gap @ a.T).ravel(), (gap @ (b @ a).T).ravel()]
        )

    assert np.linalg.svd(_product(start[0]))[1][0] == pytest.approx(size, rel=1e-9)
    for stage, before in zip(closed.stages, closed.loss_levels, strict=False):
        middle = 0.5 * (before + stage.loss)

        def passed(_, w, middle=middle):
            gap = y.T - _product(w) @ x.T
            return 0.5 * float(np.sum(gap**2)) + float(problem.task.offset) - middle

        passed.terminal = True
        seen = solve_ivp(
            flow, (0, 2 * stage.time), start[0], "DOP853", events=passed, rtol=1e-12, atol=1e-14
        )
        assert stage.time == pytest.approx(seen.t_events[0][0], rel=1e-8)
    gaps = np.diff(closed.jump_times)
    assert (gaps > 0).all()
    assert [stage.feature["index"] for stage in closed] == [0, 1, 2]
    numeric = sw.predict(whitened, units, 1e-2, start=start, method="numeric")
    assert numeric.jump_times == pytest.approx(closed.jump_times, rel=1e-4)


def _product(w):
    return w[28:].reshape(3, 4) @ w[12:28].reshape(4, 4) @ w[:12].reshape(4, 3)


@pytest.mark.parametrize(("decay", "scale"), [(0.0, 1e-2), (1.0, 1e-3)])
def test_a_random_start_of_three_linear_layers(decay, scale):
    task = sw.tasks.linear_map(3, 3, decay=decay, seed=1)
    units = Deep.linear(3, 4)
    stairs = sw.predict(task, units, scale, 1)
    path = sw.train(task, units, scale, 1)
    report = sw.compare(stairs, path)
    assert report.order
    assert len(stairs) == report.stages_reached == len(report.stages_observed) == 3
    assert max(report.time_error) < 2e-4
    assert max(report.level_error) < 1e-3


def test_closed_modes_say_what_they_need(whitened):
    with pytest.raises(sw.InputError, match=r"aligned start.*Use method 'numeric'"):
        sw.predict(whitened, Deep.linear(3, 4), 1e-2, method="closed")
    with pytest.raises(sw.InputError, match=r"not dormant. Use a smaller scale"):
        sw.predict(whitened, Deep.linear(3, 4), 5.0)
    with pytest.raises(sw.InputError, match="at least 2 layers"):
        Deep.linear(1, 4)
    with pytest.raises(sw.InputError, match="whole number"):
        Deep.of(0, 4)
    with pytest.raises(sw.InputError, match="deep linear network"):
        aligned_start(sw.Problem(TASK, Deep.of(3, 4, "tanh")), 1e-2)
    with pytest.raises(sw.InputError, match="underflow"):
        sw.predict(whitened, Deep.linear(4, 4), 1e-200)


# --- deep diagonal networks -----------------------------------------------------------------------


@pytest.mark.parametrize("depth", [3, 4, 6])
def test_the_potential_is_an_integral(depth):
    scale, potential = 1e-2, ManyLayers(1e-2, depth)
    for beta in (-2.0, 1e-7, 1e-3, 0.7):
        z = float(potential.last_weight(np.array([beta]))[0])
        assert z * (scale**2 + z**2) ** (0.5 * (depth - 1)) == pytest.approx(beta, rel=1e-12)
        exact = mpmath.quad(
            lambda y: (scale**2 + y**2) ** (-(depth - 1) / 2),
            [0, *sorted([z / 50, z / 5]), z] if z > 0 else [0, z / 50, z / 5, z],
        )
        assert float(potential.travelled(np.array([beta]))[0]) == pytest.approx(
            float(exact), rel=1e-9
        )
    far = mpmath.quad(
        lambda y: (scale**2 + y**2) ** (-(depth - 1) / 2), [0, scale, 10 * scale, mpmath.inf]
    )
    assert potential.wall == pytest.approx(float(far), rel=1e-9)


def test_one_coefficient_is_exact():
    x = np.ones((1, 1))
    for depth, scale in ((3, 1e-2), (5, 1e-1)):
        stairs = sw.predict(
            sw.tasks.from_arrays(x, x[:, 0]), DeepDiagonal(depth), scale, method="closed"
        )
        start = np.full(depth, scale)
        start[-1] = 0.0

        def flow(_, w):
            gap = 1 - np.prod(w)
            return gap * np.array([np.prod(np.delete(w, k)) for k in range(len(w))])

        def passed(_, w):
            return np.prod(w) - (1 - 1 / math.sqrt(2))

        passed.terminal = True
        seen = solve_ivp(flow, (0, 1e5), start, "DOP853", events=passed, rtol=1e-12, atol=1e-14)
        assert stairs.jump_times == pytest.approx([seen.t_events[0][0]], rel=1e-8)


def test_correlated_inputs_at_depth_three():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 5))
    task = sw.tasks.from_arrays(x, x @ (rng.normal(size=5) * 2))
    path = sw.train(task, DeepDiagonal(3), 1e-2)
    for method, error in (("numeric", 1e-4), ("closed", 2e-3), ("limit", 3e-2)):
        report = sw.compare(sw.predict(task, DeepDiagonal(3), 1e-2, method=method), path)
        assert report.order, method
        assert report.stages_reached == len(report.predicted) == len(report.stages_observed)
        assert max(report.time_error) < error, method


def test_deep_diagonal_networks_say_what_they_need():
    with pytest.raises(sw.InputError, match=r"at least 3 layers; got 2. For 2 there is `Diagonal`"):
        DeepDiagonal(2)
    with pytest.raises(sw.InputError, match="one output"):
        sw.predict(sw.tasks.from_arrays(X, X), DeepDiagonal(3), 1e-2)
    with pytest.raises(sw.InputError, match=r"scale below 0.5"):
        sw.predict(TASK, DeepDiagonal(3), 0.7, method="closed")
    assert isinstance(Run.of("deep-diagonal", depth=2).units, sw.units.Diagonal)


# --- first escapes --------------------------------------------------------------------------------


@pytest.mark.parametrize(("activation", "scale"), [("relu", 1e-2), ("tanh", 1e-2), ("gelu", 3e-3)])
def test_the_first_escape_is_that_of_training(activation, scale):
    units = Deep.of(3, 4, activation)
    stairs = sw.predict(TASK, units, scale, 2)
    assert len(stairs) == 1
    assert stairs.degree == 3
    path = sw.train(TASK, units, scale, 2, max_time=1.3 * stairs.jump_times[0])
    report = sw.compare(stairs, path)
    assert report.time_error[0] < 2e-3
    rests = [stage.loss for stage in path.stages]  # the run may go on from the plateau after it
    assert min(abs(loss / stairs[0].loss - 1) for loss in rests) < 0.03
    first = path.parameters[-1][0][:12].reshape(4, 3)
    top = np.linalg.svd(first)[2][0]
    assert abs(top @ stairs[0].feature["vector"]) > 0.99


@pytest.mark.parametrize(
    ("layers", "width", "seed"),
    [
        (("w1", "w2", "readout"), 4, 3),
        pytest.param(("w1", "readout"), 3, 0, marks=pytest.mark.slow),
        pytest.param(("w1", "w2", "w3", "readout"), 4, 2, marks=pytest.mark.slow),
    ],
)
def test_small_layers_count_and_not_the_depth(layers, width, seed):
    """t = a size^-(r-2) + b in training, with r of four tanh layers shrunk, and in what is predicted."""
    units, excess = Deep.of(4, width, "tanh"), len(layers) - 2
    problem = sw.Problem(TASK, units)
    factors, trained = (1e-1, 1e-2, 1e-3), []
    for factor in factors:
        start = he_start(problem, dict.fromkeys(layers, factor), seed=seed)
        stairs = sw.predict(TASK, units, 1.0, start=start)
        until = 1.1 * stairs.jump_times[0]
        path = sw.train(TASK, units, 1.0, start=start, max_time=until, tolerance=1e-8)
        trained.append(path.curve.crossing(0.5 * sum(stairs.loss_levels)))
        assert stairs.jump_times == pytest.approx(trained[-1:], rel=1e-3)
        degree = next(one for one in stairs.assumptions if one.name.startswith("degree r"))
        if factor < 0.1:  # the least that is found to be small
            assert degree.value == len(layers)
    slope = math.log10((trained[2] - trained[1]) / (trained[1] - trained[0]))
    assert slope == pytest.approx(excess, abs=0.15)  # a factor of 0.1 is not yet small
    smallest = he_start(problem, dict.fromkeys(layers, 1e-6), seed=seed)
    far = sw.predict(TASK, units, 1.0, start=smallest).jump_times[0]
    steps = (1e6**excess - 1e3**excess) / (1e3**excess - 1e2**excess) if excess else 3.0
    assert far == pytest.approx(trained[2] + steps * (trained[2] - trained[1]), rel=2e-2)


def test_power_activations_are_of_a_higher_degree():
    """x^2, three layers: 1, 2 + 1 and 6 + 1 weights are multiplied."""
    assert sw.predict(TASK, Deep.of(3, 4, "quadratic"), 0.1).degree == 7


def test_a_he_start_with_two_small_layers_is_that_of_tight_integration():
    units = Deep.of(3, 4, "tanh")
    problem = sw.Problem(TASK, units)
    start = he_start(problem, {"w2": 1e-3, "readout": 1e-3}, seed=1)
    stairs = sw.predict(TASK, units, 1.0, start=start)
    with sw.float64():
        slope = jax.jit(jax.value_and_grad(problem.loss))
        middle = 0.5 * sum(stairs.loss_levels)

        def passed(_, w):
            return float(slope(w[None])[0]) - middle

        passed.terminal = True
        seen = solve_ivp(
            lambda _, w: -np.asarray(slope(w[None])[1])[0],
            (0, 2 * stairs.jump_times[0]),
            start[0],
            events=passed,
            rtol=1e-8,
            atol=1e-11,
        )
    assert stairs.jump_times[0] == pytest.approx(seen.t_events[0][0], rel=2e-3)


@pytest.mark.parametrize(("factor", "shorter"), [(1e-3, 1.0), (1e-2, 0.3)])
def test_a_he_start_of_relu_layers_is_that_of_small_euler_steps(factor, shorter, monkeypatch):
    """Small layers beside large ones, with kinks: what steps of the large ones' size made late.

    Nor must short steps end a jump where it falls slower for one of them.
    """
    monkeypatch.setattr(escape, "_SHORT", shorter * escape._SHORT)
    task = sw.tasks.hidden_directions(samples=60, dim=4, outputs=2, features=2, seed=0)
    units = Deep.of(4, 6, "relu")
    problem = sw.Problem(task, units)
    start = he_start(problem, {"w1": factor, "readout": factor})
    stairs = sw.predict(task, units, 1.0, start=start)
    middle, step = 0.5 * sum(stairs.loss_levels), 2e-4
    with sw.float64():

        def moved(state):
            w, steps, _ = state
            loss, slope = jax.value_and_grad(problem.loss)(w)
            return w - step * slope, steps + 1, loss

        goes_on = lambda state: (state[2] > middle) & (state[1] < 60_000)  # noqa: E731
        run = jax.jit(lambda w: jax.lax.while_loop(goes_on, moved, (w, 0, jnp.inf)))
        passed = step * (int(run(jnp.asarray(start))[1]) - 1)
    assert stairs.jump_times[0] == pytest.approx(passed, rel=1e-3)


def test_any_module_by_its_landscape():
    """The same network as an Equinox module: the same jump."""
    from saddlewalk.landscape import FunctionLandscape

    units = Deep.of(3, 4, "tanh")
    problem = sw.Problem(TASK, units)
    with sw.float64():
        theta = np.asarray(problem.initialize(1e-2, 2))[0]
        parameters = {
            "a": jnp.asarray(theta[:12].reshape(4, 3)),
            "b": jnp.asarray(theta[12:28].reshape(4, 4)),
            "c": jnp.asarray(theta[28:].reshape(1, 4)),
        }
    answer = lambda p, x: p["c"] @ jnp.tanh(p["b"] @ jnp.tanh(p["a"] @ x))  # noqa: E731
    place = FunctionLandscape(answer, parameters, (X, Y[:, None]), "squared")
    stairs = predict_first_escape(place)
    ours = sw.predict(TASK, units, 1e-2, 2)
    clock = (
        place.loss(place.weights) / ours.initial_loss
    )  # the user's loss may be a multiple of ours
    assert stairs.jump_times[0] * clock == pytest.approx(ours.jump_times[0], rel=1e-3)
    assert stairs.degree == 3
    with pytest.raises(sw.InputError, match="There is no layer 'd'"):
        predict_first_escape(place, small=("d",))
    place.rounding = 1e-7  # as in single precision
    with pytest.raises(sw.InputError, match=r"dtype=torch\.float64"):
        predict_first_escape(place)


def test_first_escapes_say_what_they_need():
    units = Deep.of(3, 4, "tanh")
    problem = sw.Problem(TASK, units)
    with pytest.raises(sw.InputError, match=r"No layer starts small.*he_start"):
        sw.predict(TASK, units, 1.0, start=he_start(problem))
    with pytest.raises(sw.InputError, match=r"degree 1.*At least two layers"):
        sw.predict(TASK, units, 1.0, start=he_start(problem, {"readout": 1e-4}))
    with pytest.raises(sw.InputError, match="must be positive"):
        he_start(problem, {"readout": 0.0})
    with pytest.raises(sw.InputError, match="There is no layer 'w9'"):
        he_start(problem, {"w9": 0.1})
    with pytest.raises(sw.InputError, match="no sum of units: leave out `adaptive`"):
        sw.predict(TASK, units, 1e-2, adaptive=True)
    with pytest.raises(sw.InputError, match="no method 'closed'"):
        sw.predict(TASK, units, 1e-2, method="closed")


# --- the imbalance of layers ----------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu", "linear"])
def test_the_imbalance_identity_by_automatic_differentiation(activation):
    units = Deep.of(3, 4, activation)
    problem = sw.Problem(TASK, units, keep_samples=True)
    sigma = sw.units.ACTIVATIONS[activation]
    with sw.float64():
        theta = 0.8 * np.random.default_rng(3).normal(size=(1, problem.size))
        a, b, c = (
            theta[0, :12].reshape(4, 3),
            theta[0, 12:28].reshape(4, 4),
            theta[0, 28:].reshape(1, 4),
        )
        x, y = jnp.asarray(X), jnp.asarray(Y[:, None])
        first, slope = sigma(x @ a.T), jax.vmap(jax.vmap(jax.grad(sigma)))

        def tail(h):
            return 0.5 * jnp.mean(jnp.sum((y - sigma(h @ b.T) @ c.T) ** 2, axis=1))

        z1 = x @ a.T
        pull = jax.grad(tail)(first)
        expected = -2 * np.sum(np.asarray(pull * (first - z1 * slope(z1))), axis=0)
    found = imbalances(problem, theta)
    assert found["layer 1"].rates == pytest.approx(expected, abs=1e-12)
    if activation in ("relu", "linear"):
        assert np.abs(found["layer 1"].rates).max() < 1e-13
        assert found["layer 2"].relative < 1e-13
    else:
        assert np.abs(found["layer 1"].rates).max() > 1e-4


def test_weighted_for_powers_and_small_of_order_k():
    square = sw.Problem(TASK, sw.units.Dense(3, "quadratic"))
    theta = np.random.default_rng(0).normal(size=(3, square.size))
    (one,) = imbalances(square, theta).values()
    assert one.power == 2
    assert np.abs(one.rates).max() < 1e-12
    (plain,) = imbalances(square, theta, power=1.0).values()
    assert np.abs(plain.rates).max() > 1e-2
    for activation, order in (("tanh", 2), ("gelu", 1)):
        problem = sw.Problem(TASK, Deep.of(3, 4, activation))
        theta = np.random.default_rng(1).normal(size=(1, problem.size))
        large, small = (imbalances(problem, t * theta)["layer 1"].relative for t in (1e-2, 1e-3))
        assert math.log10(large / small) == pytest.approx(order, abs=0.15), activation


def test_the_rate_is_that_of_a_run():
    units = Deep.of(3, 4, "tanh")
    times = np.linspace(0, 60, 601)
    path = sw.train(TASK, units, 0.3, 0, times=times, max_time=60.0, tolerance=1e-10)
    found = [imbalances(path, at=k)["layer 1"] for k in range(0, len(path.parameters), 5)]
    seen = path.data["saved"].values[::5]
    differences = np.array([one.differences for one in found])
    rates = np.array([one.rates for one in found])
    from scipy.integrate import simpson

    change = simpson(rates, seen, axis=0)
    assert change == pytest.approx(differences[-1] - differences[0], abs=1e-4)
    assert np.abs(change).max() > 1e-3


def test_imbalances_say_what_they_need():
    with pytest.raises(sw.InputError, match="`power` must be positive"):
        imbalances(sw.Problem(TASK, Deep.of(3, 4, "tanh")), np.ones((1, 32)), power=-1.0)
    with pytest.raises(sw.InputError, match="no hidden layer"):
        imbalances(sw.Problem(TASK, DeepDiagonal(3)), np.ones((3, 3)))


def test_settings_of_deep_networks():
    run = Run.of("deep-linear", aligned=True, method="closed", dim=3, outputs=3)
    assert run.predict().stopped.value == "no utility left"
    with pytest.raises(sw.InputError, match="`aligned` is a start of its own"):
        Run.of("deep-linear", aligned=True, tau=0.1)
    with pytest.raises(sw.InputError, match="deep linear network"):
        Run.of("relu", aligned=True).predict()
    with pytest.raises(sw.InputError, match="at least 2 layers"):
        Run.of("deep", depth=1).predict()
    assert isinstance(Run.of("deep", activation="tanh").units, eqx.Module)


# --- at every scale -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "trained", "scales"),
    [(3, 1e-4, (1e-18, 1e-30, 1e-75, 1e-130)), (4, 1e-3, (1e-18, 1e-30, 1e-75))],
)
def test_deep_linear_stages_are_those_of_training_at_any_scale(depth, trained, scales):
    """Gradient flow of degree L in the small layers has t ~ scale^(2 - L): what is trained at one scale is
    known at all. Inputs are correlated, so that what one mode learns turns those that sleep."""
    task, units = sw.tasks.linear_map(3, 3, seed=1), Deep.linear(depth=depth, width=4)
    path = sw.train(task, units, trained, 1)
    seen = np.array([stage.time for stage in path.stages]) * trained ** (depth - 2)
    for scale in scales:
        stairs = sw.predict(task, units, scale, 1, method="numeric")
        assert np.allclose(np.array(stairs.jump_times) * scale ** (depth - 2), seen, rtol=2e-3), (
            scale
        )
        assert np.allclose([s.loss for s in stairs], [s.loss for s in path.stages], atol=1e-4)
        assert stairs.stopped is sw.curves.Stopped.LEARNED


def test_two_deep_linear_layers_are_affine_in_the_logarithm():
    """Degree 2: each factor of 10 in the scale adds the same time, far below what float64 can add to 1."""
    task, units = sw.tasks.linear_map(3, 3, seed=1), Deep.linear(depth=2, width=4)
    times = [
        sw.predict(task, units, scale, 1, method="numeric").jump_times
        for scale in (1e-10, 1e-40, 1e-70, 1e-100)
    ]
    assert np.allclose(np.diff(times, 2, axis=0), 0, atol=1e-3 * np.max(times[0]))

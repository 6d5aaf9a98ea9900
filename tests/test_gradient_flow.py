"""Gradient flow against other formulations, other integrators, and laws that hold exactly."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import saddlewalk as sw
from oracles import mirror_flow

DIAGONAL = sw.units.Diagonal()


@pytest.mark.parametrize("scale", [0.5, 1e-2, 1e-6, 1e-12, 1e-30])
def test_loss_agrees_with_mirror_descent_at_every_saved_time(fig3, scale):
    """The oracle integrates another ODE (in the dual variable) with DOP853 at 1e-12."""
    end = 5 * max(1.0, -math.log(scale))
    path = sw.train(fig3, DIAGONAL, scale, max_time=end, convergence=0.0)
    expected = mirror_flow(fig3.x, fig3.y[:, 0], scale, path.time)
    assert np.abs(path.loss - expected).max() < 1e-6 * expected[0]


@pytest.mark.parametrize("scale", [1e-16, 1e-30, 1e-100])
def test_jump_times_at_tiny_scales(fig3, scale):
    path = sw.train(fig3, DIAGONAL, scale)
    stairs = sw.predict(fig3, DIAGONAL, scale)
    seen = np.array(sw.compare(stairs, path).jump_times)
    grid = np.unique(np.concatenate([seen * f for f in np.linspace(0.98, 1.02, 81)]))
    curve = mirror_flow(fig3.x, fig3.y[:, 0], scale, grid, rtol=1e-10)
    levels = stairs.loss_levels
    middles = 0.5 * (np.array(levels[:-1]) + levels[1:])
    exact = np.interp(-middles, -curve, grid)
    np.testing.assert_allclose(seen, exact, rtol=1e-3)


@pytest.mark.parametrize("solver", ["explicit", "implicit"])
@pytest.mark.parametrize("scale", [1e-2, 1e-12])
def test_conserved_quantity(fig3, scale, solver):
    """u^2 - v^2 = 2 p q = 2 alpha^2."""
    path = sw.train(fig3, DIAGONAL, scale, solver=solver)
    conserved = 2 * np.prod(path.parameters, axis=2)
    assert np.abs(conserved / (2 * scale**2) - 1).max() < 1e-8


def test_explicit_and_implicit_steps_agree(fig3, fig3_paths):
    implicit = sw.train(fig3, DIAGONAL, 1e-6, solver="implicit")
    crossings = [path.data["crossing"].values for path in (implicit, fig3_paths[1e-6])]
    np.testing.assert_allclose(*crossings, rtol=1e-6)


def test_events_are_where_the_norm_passes_one(fig3):
    probe = sw.train(fig3, DIAGONAL, 1e-6)
    times, units = probe.data["crossing"].values, probe.data["crossing_unit"].values
    assert list(units) == [1, 2, 3, 0, 4]
    at_events = sw.train(fig3, DIAGONAL, 1e-6, times=times)
    norm = np.linalg.norm(at_events.parameters[: len(times)], axis=2)
    np.testing.assert_allclose(norm[np.arange(5), units], 1.0, rtol=1e-3)


def test_a_unit_that_comes_to_rest_at_norm_one():
    """beta = 1/2 rests at norm exactly 1; equal coefficients cross together."""
    x = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 3)))[0] * np.sqrt(8)
    rest = sw.train(sw.tasks.from_arrays(x, x @ [2.0, 0.5, 0.3]), DIAGONAL, 1e-6)
    assert rest.stopped == "converged"
    both = sw.train(sw.tasks.from_arrays(x, x @ [2.0, 2.0, 1.0]), DIAGONAL, 1e-6)
    assert sorted(both.data["crossing_unit"].values) == [0, 1, 2]


def test_dense_output_at_requested_times(fig3):
    wanted = np.linspace(0.0, 20.0, 11)
    path = sw.train(fig3, DIAGONAL, 1e-6, times=wanted, max_time=20.0)
    np.testing.assert_allclose(path.data["saved"], wanted)
    expected = mirror_flow(fig3.x, fig3.y[:, 0], 1e-6, wanted)
    beta = DIAGONAL.coefficients(path.parameters)
    loss = 0.5 * np.mean((beta @ fig3.x.T - fig3.y[:, 0]) ** 2, axis=1)
    assert np.abs(loss - expected).max() < 1e-5 * expected[0]


@pytest.fixture(scope="module")
def quadratic_paths(teacher):
    units = sw.units.Dense(5, "quadratic")
    return {s: sw.train(teacher, units, s, seed=1) for s in (1e-3, 1e-20, 1e-50)}


def test_relu_neurons_train():
    """Kinks: the flow at its default tolerance against descent with small steps."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(30, 3))
    task = sw.tasks.from_arrays(x, np.maximum(x @ [1.0, -1.0, 0.5], 0.0))
    units = sw.units.Dense(3, "relu")
    flow = sw.train(task, units, 0.05, max_time=20.0)
    steps = sw.train(task, units, 0.05, solver="descent", learning_rate=2e-3, max_time=20.0)
    assert flow.info["tolerance"] == 1e-5
    gap = np.abs(np.interp(steps.time, flow.time, flow.loss) - steps.loss).max()
    assert gap < 0.02 * steps.loss[0]
    assert flow.loss[-1] < 0.2 * flow.loss[0]


def test_degree_three_agrees_with_a_tight_reference(teacher, quadratic_paths):
    path = quadratic_paths[1e-3]
    assert path.info["solver"] == "implicit"
    problem = sw.Problem(teacher, sw.units.Dense(5, "quadratic"))
    with sw.float64():
        velocity = eqx.filter_jit(problem.velocity)
        start = np.asarray(problem.initialize(1e-3, 1))
        loss = eqx.filter_vmap(problem.loss)
        keep = path.time <= path.time[np.argmax(path.loss < 0.3 * path.loss[0])] * 1.2
        solution = solve_ivp(
            lambda t, y: np.asarray(velocity(jnp.asarray(y.reshape(5, 4)))).ravel(),
            (0.0, path.time[keep][-1]),
            start.ravel(),
            method="DOP853",
            t_eval=path.time[keep],
            rtol=1e-12,
            atol=1e-16,
        )
        expected = np.asarray(loss(jnp.asarray(solution.y.T.reshape(-1, 5, 4))))
    assert np.abs(path.loss[keep] - expected).max() < 1e-5 * expected[0]


def test_dense_output_on_long_plateaus(teacher):
    """Between two steps of length 1e19 the interpolant must not be rounding times the step."""
    units = sw.units.Dense(5, "quadratic")
    wanted = np.linspace(0.0, 4e19, 41)
    path = sw.train(teacher, units, 1e-20, seed=1, times=wanted, max_time=4e19)
    with sw.float64():
        problem = sw.Problem(teacher, units)
        losses = [float(problem.loss(jnp.asarray(theta))) for theta in path.parameters]
    direct = np.interp(path.data["saved"], path.time, path.loss)
    np.testing.assert_allclose(losses, direct, rtol=1e-2)


def test_degree_three_scales_as_one_over_alpha(quadratic_paths):
    """Theorem B.2: as alpha -> 0 everything happens at times proportional to 1/alpha."""
    level = 0.5 * quadratic_paths[1e-20].loss[0]
    early, late = (
        sw.diagnose.loss_curve(quadratic_paths[s]).crossing(level) * s for s in (1e-20, 1e-50)
    )
    assert early == pytest.approx(late, rel=1e-6)
    assert quadratic_paths[1e-50].stopped == "converged"
    assert quadratic_paths[1e-50].loss[-1] < 1e-6 * quadratic_paths[1e-50].loss[0]


def test_cost_grows_with_the_logarithm_of_the_scale(quadratic_paths):
    steps = {s: p.info["steps"] for s, p in quadratic_paths.items()}
    assert steps[1e-50] < 4 * steps[1e-20] < 50 * steps[1e-3]


def test_stops_at_a_minimum_and_not_at_a_saddle(fig3_paths):
    for path in fig3_paths.values():
        assert path.stopped == "converged"
        assert path.loss[-1] < 1e-5 * path.loss[0]


def test_columns_of_very_different_size_are_all_waited_for():
    """The utility of each unit is compared with its own past, not with the largest of all."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)) * [1e2, 1.0, 1e-2]
    task = sw.tasks.from_arrays(x, x @ [1e-2, 1.0, 1e2])
    path = sw.train(task, DIAGONAL, 1e-6)
    assert path.stopped == "converged"
    assert path.loss[-1] < 1e-6 * path.loss[0]


def test_step_limit(fig3):
    path = sw.train(fig3, DIAGONAL, 1e-6, max_steps=7)
    assert path.info["steps"] == 7
    assert len(path.time) <= 8


def test_time_limit(fig3):
    path = sw.train(fig3, DIAGONAL, 1e-6, max_time=5.0)
    assert path.stopped == "limit"
    assert path.time[-1] == pytest.approx(5.0)


def test_descent_approaches_the_flow_as_the_learning_rate_falls(fig3):
    flow = sw.train(fig3, DIAGONAL, 1e-2, max_time=6.0)
    gaps = []
    for rate in (4e-3, 2e-3, 1e-3):
        path = sw.train(fig3, DIAGONAL, 1e-2, solver="descent", learning_rate=rate, max_time=6.0)
        flow_loss = np.interp(path.time, flow.time, flow.loss)
        gaps.append(np.abs(path.loss - flow_loss).max())
    assert gaps[0] > 1.8 * gaps[1] > 3.2 * gaps[2]


def test_sgd_is_noisy_descent_with_the_same_mean(fig3):
    runs = [
        sw.train(
            fig3,
            DIAGONAL,
            0.3,
            seed=seed,
            solver="sgd",
            batch_size=5,
            learning_rate=1e-3,
            max_time=0.2,
        )
        for seed in range(2)
    ]
    full = sw.train(fig3, DIAGONAL, 0.3, solver="descent", learning_rate=1e-3, max_time=0.2)
    assert runs[0].loss[-1] != runs[1].loss[-1]
    for run in runs:
        assert run.loss[-1] == pytest.approx(full.loss[-1], rel=0.2)
        assert run.info["batch_size"] == 5


def test_too_large_a_learning_rate_is_reported(fig3):
    path = sw.train(fig3, DIAGONAL, 0.5, solver="descent", learning_rate=10.0, max_time=5000.0)
    assert path.stopped.startswith("diverged")


@pytest.mark.parametrize("activation", ["tanh", "linear"])
def test_one_program_for_one_shape(small_regression, activation):
    """Another seed, scale, limit, tolerance or data set of the same shape compiles nothing."""
    compiled = []
    units = sw.units.Dense(3, activation)
    sw.train(small_regression, units, 1e-2, max_time=4.0)
    other = sw.tasks.from_arrays(small_regression.x[::-1], 2 * small_regression.y)

    def listen(event, duration, **_):
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        sw.train(other, units, 1e-4, seed=7, max_time=9.0, tolerance=1e-7)
        assert compiled == []
        sw.train(small_regression, sw.units.Dense(4, activation), 1e-2, max_time=4.0)
        assert compiled  # the listener does hear compilations
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_interruption_leaves_a_usable_result(fig3, monkeypatch, tmp_path):
    from saddlewalk.show.progress import Progress

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "update", interrupt)
    path = sw.train(fig3, DIAGONAL, 1e-6)
    assert path.stopped == "interrupted"
    assert 0 < path.time[-1] < 58
    assert sw.Trajectory.load(path.save(tmp_path / "part.nc")).stopped == "interrupted"


def test_observables_and_a_start_of_ones_own(fig3):
    start = np.full((5, 2), 1e-3)
    path = sw.train(
        fig3,
        DIAGONAL,
        1e-3,
        start=start,
        observables={"beta": DIAGONAL.coefficients},
        max_time=2.0,
        most_saved=10,
    )
    assert path.data["beta"].shape == path.data["parameters"].shape[:2]
    assert path.data.sizes["saved"] <= 11
    np.testing.assert_allclose(path.parameters[0], start)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "euler"}, "Unknown solver"),
        ({"start": np.ones((2, 2))}, r"shape \(5, 2\)"),
        ({"start": np.full((5, 2), np.nan)}, "NaN"),
        ({"times": [-1.0]}, "not negative"),
        ({"solver": "descent", "learning_rate": 0.0}, "learning rate must be positive"),
        ({"solver": "sgd", "batch_size": 0}, "batch size"),
        ({"solver": "descent", "momentum": 1.0}, "momentum"),
        ({"solver": "descent", "times": [1.0]}, "not for steps"),
        ({"scale": -1.0}, "positive number"),
        ({"scale": 1e-200}, "underflow"),
        ({"start": np.zeros((5, 2))}, "never leave"),
        ({"max_steps": 0}, "at least 1"),
        ({"observables": {"loss": np.sum}}, "cannot be called 'loss'"),
        ({"learning_rate": 0.1}, "goes with finite steps"),
        ({"seed": -3}, "whole number"),
        ({"max_time": 0.0}, "must be positive"),
        ({"max_time": math.nan}, "must be positive"),
        ({"tolerance": 1e-20}, "tolerance"),
        ({"convergence": -1.0}, "convergence"),
    ],
)
def test_bad_options(fig3, options, message):
    with pytest.raises(sw.InputError, match=message):
        sw.train(fig3, DIAGONAL, **{"scale": 1e-3, **options})


class BiasedTanh(sw.units.AbstractUnits):
    """a tanh(w x + b)."""

    width: int

    def layers(self, inputs, outputs):
        return {"w": (inputs,), "b": (1,), "a": (outputs,)}

    def respond(self, weights, x):
        return weights["a"] * jnp.tanh(weights["w"] @ x + weights["b"][0])


def test_a_slow_stage_is_waited_for():
    """A plateau on which every drive is 1e-4 of its largest, and after which a tenth of the loss is left: by
    an integrator of its own."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 4))
    y = x[:, 0] * (x[:, 0] > 0) - 0.4 * x[:, 1]
    path = sw.train(sw.tasks.from_arrays(x, y), BiasedTanh(4), 0.01, seed=2)

    def split(flat):
        theta = flat.reshape(4, 6)
        hidden = np.tanh(x @ theta[:, :4].T + theta[:, 4])
        return theta, hidden, hidden @ theta[:, 5] - y

    def velocity(_, flat):
        theta, hidden, error = split(flat)
        back = error[:, None] * theta[:, 5] * (1 - hidden**2) / len(x)
        gradient = np.concatenate(
            [back.T @ x, back.sum(0)[:, None], (hidden.T @ error / len(x))[:, None]], 1
        )
        return -gradient.ravel()

    late = solve_ivp(velocity, (0, 3e4), path.parameters[0].ravel(), "LSODA", rtol=1e-9, atol=1e-12)
    level = 0.5 * np.mean(split(late.y[:, -1])[2] ** 2)
    assert path.stopped == "converged"
    assert path.loss[-1] < level < 0.12 * path.loss[np.searchsorted(path.time, 1700.0)]


def test_a_unit_that_grows_slowly_beside_kinks_is_no_end():
    """Steps along kinks stay short, so it is not waited for; but the run does not say "converged"."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = x @ [2, -1, 0.5] + 0.01 * rng.normal(size=60)
    task = sw.tasks.from_arrays(np.column_stack([x, np.full(60, 3.0)]), y)
    path = sw.train(task, sw.units.Dense(3, "relu"), 1e-6, seed=1, max_time=5000)
    assert path.stopped == "slow"
    tiny = path.data["unit_norm"].values[:, 1]
    assert tiny[-1] < 1e-4
    assert tiny[-1] > 1.001 * tiny[np.searchsorted(path.time, 0.8 * path.time[-1])]


@pytest.mark.parametrize("seed", [0, 2])
def test_a_deep_network_does_not_rest_at_a_saddle(seed):
    """Deep linear networks reach every map: the only minimum has loss 0."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 3))
    y = x @ (np.linalg.qr(rng.normal(size=(3, 3)))[0] * [2.0, 1.0, 0.3])
    units = sw.units.Deep((sw.units.Dense(4, "linear"), sw.units.Dense(4, "linear")))
    path = sw.train(sw.tasks.from_arrays(x, y), units, 0.1, seed)
    assert path.stopped == "converged"
    assert path.loss[-1] < 1e-6 * path.loss[0]

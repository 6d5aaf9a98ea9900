"""Optimizers, step by step against PyTorch and optax, and predictions under them against brute force."""

import math

import jax
import numpy as np
import optax
import pytest
from click.testing import CliRunner

import saddlewalk as sw
from saddlewalk.cli.main import main
from saddlewalk.curves import Stopped
from saddlewalk.optimizers import growth, optimizer_named
from saddlewalk.problem import tensors
from saddlewalk.problem.sharpness import sharpness
from saddlewalk.theory.base import Start
from saddlewalk.theory.optimizers.base import resting_share
from saddlewalk.theory.optimizers.leaps import Ball, stepped_leap
from saddlewalk.theory.optimizers.muon import MuonOnLinear
from saddlewalk.theory.optimizers.signs import SignOnDiagonal
from saddlewalk.theory.optimizers.stepped import SteppedWalk

opt = sw.optimizers
STEPS = 40


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3))
    return sw.tasks.from_arrays(x, rng.normal(size=(20, 2))), sw.units.Dense(4, "relu")


def steps_of(network, rule, **options):
    """Parameters after every step."""
    path = sw.train(
        *network,
        0.5,
        optimizer=rule,
        max_steps=STEPS,
        convergence=0,
        most_saved=STEPS + 1,
        **options,
    )
    assert len(path.parameters) == STEPS + 1
    return path.parameters


def torch_steps(network, make):
    """The same network in PyTorch, under one of its own optimizers."""
    torch = pytest.importorskip("torch")
    task, units = network
    with sw.float64():
        theta = np.asarray(sw.Problem(task, units).initialize(0.5, 0))
    x, y = (torch.tensor(np.asarray(part)) for part in (task.x, task.y))
    w = torch.nn.Parameter(torch.tensor(theta[:, :3].copy()))
    a = torch.nn.Parameter(torch.tensor(theta[:, 3:].T.copy()))
    optimizer, seen = make(torch, [w, a]), [theta]
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = 0.5 * ((torch.relu(x @ w.T) @ a.T - y) ** 2).sum(dim=1).mean()
        loss.backward()
        optimizer.step()
        seen.append(np.concatenate([w.detach().numpy(), a.detach().numpy().T], axis=1))
    return np.stack(seen)


@pytest.mark.parametrize(
    ("rule", "make"),
    [
        (opt.GradientDescent(0.05), lambda t, w: t.optim.SGD(w, lr=0.05)),
        (opt.Momentum(0.05, 0.8), lambda t, w: t.optim.SGD(w, lr=0.05, momentum=0.8)),
        (
            opt.Momentum(0.05, 0.8, nesterov=True),
            lambda t, w: t.optim.SGD(w, lr=0.05, momentum=0.8, nesterov=True),
        ),
        (opt.Adam(0.02), lambda t, w: t.optim.Adam(w, lr=0.02)),
        (
            opt.AdamW(0.02, 0.8, 0.95, 1e-6, weight_decay=0.3),
            lambda t, w: t.optim.AdamW(w, lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3),
        ),
    ],
    ids=lambda one: getattr(one, "word", ""),
)
def test_steps_are_those_of_pytorch(network, rule, make):
    np.testing.assert_allclose(steps_of(network, rule), torch_steps(network, make), atol=1e-12)


def test_muon_is_that_of_pytorch_in_double_precision(network, monkeypatch):
    torch = pytest.importorskip("torch")
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this PyTorch has no Muon")
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.double)  # it would round to 8 bits
    rule = opt.Muon(0.02, momentum=0.9, weight_decay=0.1, shape_factor=True)
    theirs = torch_steps(
        network, lambda t, w: t.optim.Muon(w, lr=0.02, momentum=0.9, weight_decay=0.1)
    )
    np.testing.assert_allclose(steps_of(network, rule), theirs, atol=1e-12)


def rows_come_in(weights):
    """To optax a matrix is that of x W, here of W x."""
    return {name: optax.contrib.MuonDimensionNumbers(1, 0) for name in weights}


@pytest.mark.parametrize(
    ("rule", "theirs"),
    [
        (opt.Momentum(0.05, 0.8), optax.sgd(0.05, momentum=0.8)),
        (opt.Adam(0.02), optax.adam(0.02)),
        (opt.AdamW(0.02, weight_decay=0.3), optax.adamw(0.02, weight_decay=0.3)),
        (opt.SignDescent(0.02), optax.sign_sgd(0.02)),
        (
            opt.NormalizedDescent(0.02),
            optax.chain(optax.normalize_by_update_norm(eps=0.0), optax.scale(-0.02)),
        ),
        (
            opt.Muon(0.02, nesterov=False, epsilon=1e-300),
            optax.chain(
                optax.contrib.scale_by_muon(
                    nesterov=False, eps=1e-300, weight_dimension_numbers=rows_come_in
                ),
                optax.scale(-0.02),
            ),
        ),
    ],
    ids=lambda one: getattr(one, "word", ""),
)
def test_steps_are_those_of_optax(network, rule, theirs):
    # theirs go through `train` as they are: the same gradients, their own arithmetic
    np.testing.assert_allclose(steps_of(network, rule), steps_of(network, theirs), atol=1e-12)


def test_any_optax_transformation_trains_as_in_a_loop_of_its_own(network):
    task, units = network
    rule = optax.adabelief(0.02)
    with sw.float64():
        problem = sw.Problem(task, units)
        weights = problem.initialize(0.5, 0)
        state, seen = rule.init(weights), [np.asarray(weights)]
        for _ in range(STEPS):
            updates, state = rule.update(jax.grad(problem.loss)(weights), state, weights)
            weights = optax.apply_updates(weights, updates)
            seen.append(np.asarray(weights))
    np.testing.assert_allclose(steps_of(network, rule), np.stack(seen), atol=1e-12)


def test_diagonal_networks_move_in_u_and_v():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 3))
    task = sw.tasks.from_arrays(x, x @ np.array([1.0, -2.0, 0.5]))
    found = steps_of((task, sw.units.Diagonal()), opt.Adam(0.02))
    sigma, c = x.T @ x / 30, x.T @ (x @ np.array([1.0, -2.0, 0.5])) / 30
    w = np.stack([np.full(3, math.sqrt(2) * 0.5), np.zeros(3)])  # u and v
    m, v = np.zeros((2, 3)), np.zeros((2, 3))
    for k in range(1, STEPS + 1):
        g = (sigma @ (w[0] * w[1]) - c) * w[::-1]
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w = w - 0.02 * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
        theta = np.stack([w[0] + w[1], w[0] - w[1]], axis=1) / math.sqrt(2)
        np.testing.assert_allclose(found[k], theta, atol=1e-12)


def test_tensors_are_the_parameters_in_another_order(network):
    with sw.float64():
        for problem in (
            sw.Problem(*network),
            sw.Problem(network[0], sw.units.Deep((sw.units.Dense(3), sw.units.Dense(2)))),
        ):
            theta = problem.initialize(0.3, 0)
            parts = tensors.split(problem, theta)
            np.testing.assert_array_equal(tensors.joined(problem, parts), theta)
        assert {
            name: part.shape
            for name, part in tensors.split(
                sw.Problem(*network), sw.Problem(*network).initialize(0.3, 0)
            ).items()
        } == {"w": (4, 3), "a": (2, 4)}


def test_old_names_of_descent_go_on_answering(network):
    old = sw.train(*network, 0.5, solver="descent", learning_rate=0.02, momentum=0.5, max_steps=30)
    new = sw.train(*network, 0.5, optimizer=opt.Momentum(0.02, 0.5), max_steps=30)
    np.testing.assert_array_equal(old.parameters, new.parameters)
    assert new.time[-1] == pytest.approx(30 * 0.04)
    assert new.info["optimizer"] == {
        "name": "momentum",
        "learning_rate": 0.02,
        "momentum": 0.5,
        "nesterov": False,
    }


def test_mini_batches_go_with_every_optimizer(network):
    path = sw.train(
        *network, 0.5, optimizer="adam", learning_rate=0.01, batch_size=8, max_steps=200
    )
    assert path.info["batch_size"] == 8
    assert path.loss[-1] < path.loss[0]


# --- growth of a direction ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_growth_per_step_is_that_of_many_steps(momentum, nesterov):
    rate, s = 0.01, 3.0
    c, ball = 1.0, 0.0
    for _ in range(400):
        before = c
        ball = momentum * ball - s * c
        c = c - rate * (momentum * ball - s * c if nesterov else ball)
    found = growth.growth_per_step(np.array(s), rate, momentum, 0.0, nesterov)
    assert math.log(c / before) == pytest.approx(float(found), rel=1e-9)


def test_the_heavy_ball_grows_by_the_root_of_its_quadratic():
    from mpmath import mp, mpf, polyroots

    mp.dps = 30
    rate, beta, s = mpf("0.002"), mpf("0.9"), mpf(3)
    x = max(
        polyroots([1, 1 - beta - rate * s, -rate * s], extraprec=200), key=lambda root: root.real
    )
    found = growth.growth_per_step(np.array(3.0), 0.002, 0.9)
    assert math.expm1(float(found)) == pytest.approx(float(x), rel=1e-12)
    assert float(x) == pytest.approx(0.0436, abs=1e-4)  # the clock says 0.06


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_beyond_the_largest_stable_rate_a_minimum_is_left(momentum, nesterov):
    sharp, most = 7.0, growth.largest_rate(7.0, momentum, nesterov)
    for part, stays in ((0.99, True), (1.01, False)):
        c, ball = 1.0, 0.0
        for _ in range(5000):
            ball = momentum * ball + sharp * c
            c = c - part * most * (momentum * ball + sharp * c if nesterov else ball)
            if abs(c) > 1e6:
                break
        assert (abs(c) < 1) == stays


@pytest.mark.parametrize("units", [sw.units.Diagonal(), sw.units.Dense(3, "linear")])
def test_a_leap_of_steps_is_so_many_steps(units):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(30, 3))
    y = x @ rng.normal(size=(3, 1 if isinstance(units, sw.units.Diagonal) else 2))
    with sw.float64():
        problem = sw.Problem(sw.tasks.from_arrays(x, y), units)
        theta = np.array(problem.initialize(1e-5, 0))
        theta *= rng.uniform(0.5, 1.5, size=theta.shape)
        balls = 1e-6 * rng.normal(size=theta.shape)
        residual = problem.residual(0 * theta)
        climb = lambda th: np.asarray(problem.climb(th, residual))  # noqa: E731
        leap = stepped_leap(problem, theta, balls, climb, Ball(opt.Momentum(0.02, 0.7)))
        time = 60 * 0.02 / 0.3
        now, ball = theta, balls
        for _ in range(60):
            ball = 0.7 * ball + 0.02 * climb(now)
            now = now + ball
        assert leap.steps(time) == 60
        np.testing.assert_allclose(leap.after(time), now, rtol=1e-9)
        np.testing.assert_allclose(leap.balls_after(time), ball, rtol=1e-8)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.81])
def test_powers_of_a_step_are_right_where_both_roots_are_one(momentum, nesterov):
    """By multiplying; the roots meet at rate * s = -(1 - sqrt(beta))^2 for the heavy ball."""
    rule = opt.Momentum(0.1, momentum, nesterov=nesterov) if momentum else opt.GradientDescent(0.1)
    ball = Ball(rule)
    double = -((1 - math.sqrt(momentum)) ** 2) / (1 + momentum * nesterov) / 0.1
    rates = np.array([double, double * (1 + 1e-13), double * (1 + 1e-9), 0.0, 2.0, -3.0])
    matrices = np.moveaxis(np.array(ball.matrix(rates)).reshape(2, 2, -1), -1, 0)
    for steps in (0, 1, 2, 37):
        found = np.moveaxis(np.array(ball.power(rates, steps)).reshape(2, 2, -1), -1, 0)
        true = np.stack([np.linalg.matrix_power(one, steps) for one in matrices])
        np.testing.assert_allclose(found, true, rtol=1e-9, atol=1e-12)


# --- the staircase in steps ---------------------------------------------------------------------------------


def test_momentum_is_predicted_in_its_own_steps():
    task, units = sw.tasks.linear_map(3, 3, decay=1.0, seed=0), sw.units.Dense(3, "linear")
    rule = opt.Momentum(4e-3)
    path = sw.train(task, units, 1e-6, optimizer=rule)
    report = sw.compare(sw.predict(task, units, 1e-6, optimizer=rule), path)
    assert report.order
    assert len(report.predicted) == len(path.stages)
    assert max(report.time_error) < 0.005
    flow = sw.compare(sw.predict(task, units, 1e-6), path)
    assert max(flow.time_error) > 0.05  # what the clock alone says


def test_descent_with_large_steps_is_late_and_predicted_so():
    task = sw.tasks.sparse_regression(samples=40, dim=4, sparsity=3)
    rule = opt.GradientDescent(0.1)
    path = sw.train(task, sw.units.Diagonal(), 1e-6, optimizer=rule)
    stairs = sw.predict(task, sw.units.Diagonal(), 1e-6, optimizer=rule)
    assert max(sw.compare(stairs, path).time_error) < 0.01
    assert max(sw.compare(sw.predict(task, sw.units.Diagonal(), 1e-6), path).time_error) > 0.02


def test_the_audit_says_the_largest_stable_learning_rate():
    task = sw.tasks.sparse_regression(samples=40, dim=4, sparsity=3)
    stairs = sw.predict(task, sw.units.Diagonal(), 1e-6, optimizer=opt.GradientDescent(0.01))
    (stable,) = [one for one in stairs.assumptions if "stable" in one.name]
    most = 0.01 / stable.value
    assert stable.holds
    for part, stays in ((0.9, True), (1.2, False)):
        path = sw.train(
            task,
            sw.units.Diagonal(),
            1e-6,
            optimizer=opt.GradientDescent(part * most),
            max_steps=20_000,
        )
        assert (path.stopped is Stopped.CONVERGED and path.loss[-1] < 1e-4) == stays
    for part in (0.7, 1.2, 5.0, 50.0):  # whatever becomes of its own steps
        stairs = sw.predict(
            task, sw.units.Diagonal(), 1e-6, optimizer=opt.GradientDescent(part * most)
        )
        (stable,) = [one for one in stairs.assumptions if "stable" in one.name]
        assert stable.holds == (part < 1)
        assert stable.value == pytest.approx(part, rel=0.01)


def test_steps_that_throw_a_network_off_end_and_name_a_stable_rate(tmp_path):
    """Units that wake and sleep at every look, without a step in between, once went on for ever."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    words = np.where(x[:, 0] > 0, "dog", "cat")
    rows = [",".join([*map(str, row), word]) for row, word in zip(x, words, strict=True)]
    table = tmp_path / "w.csv"
    table.write_text("a,b,c,label\n" + "\n".join(rows))
    relu = ["relu", "--width", "4", "--loss", "cross-entropy", "--data", str(table)]
    steps = ["--optimizer", "descent", "--learning-rate", "50"]
    run = CliRunner().invoke(main, ["predict", *relu, *steps])
    assert run.exit_code == 0, run.output
    assert "diverged: use a smaller learning rate" in run.output
    assert "assumption FAILS: steps are stable where the network rests" in run.output
    task, units = sw.tasks.from_arrays(x, words == "dog"), sw.units.Dense(4, "relu")
    thrown = sw.train(
        task, units, 1e-6, loss="cross-entropy", optimizer=opt.GradientDescent(50.0), max_steps=20
    )
    assert thrown.loss[-1] > 1e10  # and so it is


def test_ten_times_the_stable_rate_of_a_heavy_ball():
    task = sw.tasks.hidden_directions(samples=60, dim=4, outputs=2, seed=0)
    units = sw.units.Dense(4, "relu")

    def stable(rate):
        stairs = sw.predict(task, units, 1e-6, optimizer=opt.Momentum(rate))
        (found,) = [one for one in stairs.assumptions if "stable" in one.name]
        return stairs, found

    most = 0.1 / stable(0.1)[1].value
    stairs, found = stable(10 * most)
    assert stairs.stopped is Stopped.DIVERGED
    assert not found.holds
    assert found.value > 5
    path = sw.train(task, units, 1e-6, optimizer=opt.Momentum(10 * most), max_steps=2000)
    assert path.loss.max() > 1e3 * path.loss[0]


def test_units_that_turn_for_ever_take_their_steps(monkeypatch):
    """Where waking and sleeping never ends steps are taken all the same, and lead where they led before."""
    task = sw.tasks.sparse_regression(samples=40, dim=3, sparsity=2)
    honest = SteppedWalk.apply
    monkeypatch.setattr(SteppedWalk, "apply", lambda *given: honest(*given) or True)
    stairs = sw.predict(task, sw.units.Diagonal(), 1e-3, optimizer=opt.GradientDescent(1e-2))
    assert stairs.stopped is Stopped.LEARNED
    assert stairs.loss_levels[-1] < 1e-6 * stairs.loss_levels[0]


def test_sharpness_is_the_largest_eigenvalue_of_the_hessian(network):
    with sw.float64():
        problem = sw.Problem(network[0], network[1], rates={"a": 0.5})
        theta = problem.initialize(0.7, 3)
        hessian = np.asarray(jax.hessian(problem.loss)(theta)).reshape(theta.size, theta.size)
        root = np.sqrt(np.tile(np.asarray(problem.rates), len(theta)))
        largest = np.linalg.eigvalsh(root * hessian * root[:, None])[-1]
        assert sharpness(problem, theta) == pytest.approx(largest, rel=1e-3)


# --- optimizers whose steps have a length of their own ------------------------------------------------------


def test_sign_descent_of_a_diagonal_network_is_known_exactly():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(12, 5)) @ rng.normal(size=(5, 5))
    y = x @ np.array([1.0, -0.3, 0.0, 2.0, 0.6])
    stairs = sw.predict(
        sw.tasks.from_arrays(x, y), sw.units.Diagonal(), 1e-2, optimizer=opt.SignDescent(1e-3)
    )
    assert stairs.method == "closed"
    sigma, c, step = x.T @ x / 12, x.T @ y / 12, 2e-5
    u, v, losses = np.full(5, math.sqrt(2) * 1e-2), np.zeros(5), []
    for _ in range(int(1.5 / step)):
        beta = u * v
        losses.append(0.5 * np.mean((y - x @ beta) ** 2))
        g = c - sigma @ beta
        u, v = u + step * np.sign(g * v), v + step * np.sign(g * u)
    time = step * np.arange(len(losses))
    predicted = np.interp(time, *map(np.asarray, stairs.curve))
    assert np.abs(predicted - losses).max() < 3e-3 * losses[0]


def test_on_white_inputs_small_coefficients_come_first_and_at_once():
    beta = np.array([4.0, -1.0, 0.25])
    task = sw.tasks.from_moments(np.eye(3), beta[None])
    with sw.float64():
        theory = SignOnDiagonal(
            Start(sw.Problem(task, sw.units.Diagonal()), 1e-9), opt.SignDescent(1e-3)
        )
        for index, time in theory.finished.items():
            assert time == pytest.approx(math.sqrt(abs(beta[index])), abs=1e-6)
    times = [
        sw.predict(task, sw.units.Diagonal(), scale, optimizer="sign").jump_times
        for scale in (1e-4, 1e-12)
    ]
    np.testing.assert_allclose(times[0], times[1], rtol=1e-3)  # no log(1/scale)


def test_muon_learns_all_modes_at_one_rate():
    matrix = np.random.default_rng(0).normal(size=(3, 3))
    task, units = sw.tasks.from_moments(np.eye(3), matrix), sw.units.Dense(4, "linear")
    rule = opt.Muon(1e-3, momentum=0.9, newton_schulz=0)
    path = sw.train(task, units, 1e-6, optimizer=rule, max_steps=4000)
    stairs = sw.predict(task, units, 1e-6, optimizer=rule)
    assert stairs.method == "closed"
    assert stairs.stopped is Stopped.NO_STAIRCASE
    assert sw.compare(stairs, path).time_error[0] < 0.01
    with sw.float64():
        problem = sw.Problem(task, units)
        finished = MuonOnLinear(Start(problem, 1e-6), rule).finished
        held = np.array([np.linalg.svd(th[:, :3].T @ th[:, 3:])[1] for th in path.parameters])
    sigma = np.linalg.svd(matrix)[1]
    assert finished[-1] < finished[0]  # the smallest first
    for k in range(3):
        place = np.argmax(held[:, k] >= 0.98 * sigma[k])
        assert path.data["saved"].values[place] == pytest.approx(finished[k], rel=0.05)


@pytest.mark.parametrize("word", ["adam", "muon", "sign"])
def test_where_the_staircase_vanishes_the_prediction_says_so_and_the_run_shows_it(word):
    task, units = sw.tasks.linear_map(3, 3, decay=1.0, seed=1), sw.units.Dense(3, "linear")
    stairs = sw.predict(task, units, 1e-8, optimizer=word, learning_rate=2e-3)
    path = sw.train(task, units, 1e-8, optimizer=word, learning_rate=2e-3, max_steps=10_000)
    assert stairs.stopped is Stopped.NO_STAIRCASE
    assert not all(one.holds for one in stairs.assumptions if "staircase" in one.name)
    assert resting_share(path.time, path.loss) < 1 / 3
    assert sw.compare(stairs, path).time_error[0] < 0.05
    flow = sw.predict(task, units, 1e-8)
    assert resting_share(*map(np.asarray, flow.curve)) > 1 / 3
    assert stairs.rhs_evaluations < path.info["steps"] / 2


def test_normalized_descent_goes_the_way_of_the_flow():
    task = sw.tasks.sparse_regression(samples=40, dim=4, sparsity=3)
    rule = opt.NormalizedDescent(3e-4)
    stairs = sw.predict(task, sw.units.Diagonal(), 1e-4, optimizer=rule)
    path = sw.train(task, sw.units.Diagonal(), 1e-4, optimizer=rule, max_steps=60_000)
    assert stairs.method == "flow"
    report = sw.compare(stairs, path)
    assert report.order
    assert max(report.time_error) < 0.02


def test_resting_share_of_stairs_and_slides():
    time = np.linspace(0, 10, 2001)
    stairs = 2 - 1 / (1 + np.exp(-20 * (time - 2))) - 1 / (1 + np.exp(-20 * (time - 8)))
    assert resting_share(time, stairs) > 0.7
    assert resting_share(time, np.exp(-time)) == 0
    assert resting_share(time, np.maximum(1 - time / 5, 0)) == 0


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("adm", "Did you mean 'adam'"),
        ("sign:weight_decay=0.1", "does not know weight decay; adamw and muon do"),
        ("adam:beta1=1.5", r"`beta1` must lie in \[0, 1\)"),
        ("adam:learning_rate=0", "must be positive"),
        ("descent:momentum=0.9", "take the optimizer 'momentum'"),
        ("adam:beta3=1", "has no `beta3`"),
        ("adam:beta1", "must look like"),
        ("muon:momentum=x", "must be a number"),
        ("adamw:weight_decay=-1", "at least 0"),
        ("adam:epsilon=-1.0", "`epsilon` must be finite and at least 0"),
    ],
)
def test_what_no_optimizer_knows_is_said(text, said):
    with pytest.raises(sw.InputError, match=said):
        optimizer_named(text)


def test_numbers_of_other_optimizers_are_refused_in_python_too():
    decaying = [word for word, one in opt.OPTIMIZERS.items() if one.decay]
    with pytest.raises(sw.InputError, match=f"{' and '.join(decaying)} do"):
        opt.Momentum(weight_decay=0.1)
    with pytest.raises(sw.InputError, match="take the optimizer 'momentum'"):
        opt.GradientDescent(momentum=0.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"optimizer": "adam", "solver": "implicit"}, "Leave one of them out"),
        ({"optimizer": "adam", "tolerance": 1e-6}, "gradient flow"),
        ({"optimizer": opt.Adam(), "learning_rate": 0.1}, "has its own"),
        ({"optimizer": opt.Adam}, "must be an object"),
        ({"optimizer": 3}, "gradient transformation of optax"),
        ({"optimizer": "momentum:momentum=0.5", "momentum": 0.9}, "Two numbers for `momentum`"),
        ({"optimizer": "adam", "times": [1.0]}, "not for steps"),
        ({"optimizer": "adam", "batch_size": 0}, "batch_size"),
    ],
)
def test_options_that_do_not_go_together_are_refused(network, options, said):
    with pytest.raises(sw.InputError, match=said):
        sw.train(*network, 0.1, **options)


def test_predictions_refuse_what_no_theory_knows(network):
    with pytest.raises(sw.InputError, match="No theory knows"):
        sw.predict(*network, 1e-3, optimizer=optax.lion(1e-3))
    with pytest.raises(sw.InputError, match="no method 'closed'"):
        sw.predict(*network, 1e-3, optimizer="adam", method="closed")
    with pytest.raises(sw.InputError, match="name an `optimizer`"):
        sw.predict(*network, 1e-3, learning_rate=0.1)


def test_the_command_line_takes_an_optimizer():
    run = CliRunner().invoke(
        main,
        [
            "compare",
            "diagonal",
            "--dim",
            "3",
            "--sparsity",
            "2",
            "--optimizer",
            "sign",
            "--learning-rate",
            "0.002",
        ],
    )
    assert run.exit_code == 0, run.output
    assert "assumption FAILS: a staircase is to be expected" in run.output
    wrong = CliRunner().invoke(main, ["predict", "diagonal", "--learning-rate", "0.1"])
    assert wrong.exit_code == 2
    assert "name an --optimizer" in wrong.output
    decay = CliRunner().invoke(main, ["predict", "diagonal", "--weight-decay", "0.1"])
    assert decay.exit_code == 2
    assert "--optimizer adamw:weight_decay=0.1" in decay.output
    assert "--decay" not in decay.output


# --- what is conserved, and the edge of stability -----------------------------------------------------------


def test_muon_keeps_the_difference_of_the_roots_of_its_layers_once_aligned():
    from scipy.linalg import sqrtm

    matrix = np.random.default_rng(0).normal(size=(4, 4))
    task, units = sw.tasks.from_moments(np.eye(4), matrix), sw.units.Dense(4, "linear")
    left, _, right = np.linalg.svd(matrix)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    aligned = np.hstack([0.1 * turn @ right, 0.2 * turn @ left.T])
    for rate in (4e-3, 1e-3):
        for start, kept in ((aligned, True), (None, False)):
            path = sw.train(
                task,
                units,
                0.1,
                start=start,
                optimizer=opt.Muon(rate, momentum=0.5, newton_schulz=0),
                max_steps=int(0.8 / rate),
                convergence=0,
            )
            assert path.loss[-1] < 0.5 * path.loss[0]
            w, a = path.parameters[:, :, :4], path.parameters[:, :, 4:]
            first, last = (np.real(sqrtm(a[k] @ a[k].T) - sqrtm(w[k] @ w[k].T)) for k in (0, -1))
            own = sw.diagnose.conserved_drift(path)["units"].matrices
            np.testing.assert_allclose(own[[0, -1]], [first, last], atol=1e-6)
            changed = np.linalg.norm(last - first) / np.linalg.norm(first)
            assert changed < 1e-6 if kept else changed > 0.5  # whatever the learning rate


def test_sign_descent_keeps_the_difference_of_sizes():
    task = sw.tasks.sparse_regression(samples=40, dim=3, sparsity=2)
    path = sw.train(task, sw.units.Diagonal(), 0.1, optimizer=opt.SignDescent(1e-3), max_steps=2000)
    u, v = path.problem.units.weights(path.parameters)
    kept = np.abs(u) - np.abs(v)
    learned = np.abs(u[-1] * v[-1]) > 0.1  # the others swing through zero, a step at a time
    assert 0 < learned.sum() < 3
    assert np.abs(kept - kept[0])[:, learned].max() < 4e-3
    drift = sw.diagnose.conserved_drift(path)["units"].deltas[:, learned]
    assert np.abs(drift - drift[0]).max() < 4e-3
    adam = sw.train(task, sw.units.Diagonal(), 0.1, optimizer=opt.Adam(1e-3), max_steps=2000)
    assert sw.diagnose.conserved_drift(adam)["units"].largest > 0.2  # of the flow's: Adam is none


def test_the_edge_of_stability_is_seen_in_a_run():
    task = sw.tasks.sparse_regression(samples=40, dim=4, sparsity=3)
    units = sw.units.Diagonal()
    calm = sw.diagnose.find_stability(
        sw.train(task, units, 1e-3, optimizer=opt.GradientDescent(1e-2))
    )
    assert calm.edge == pytest.approx(2 / 1e-2)
    assert calm.passed is None
    rule = opt.GradientDescent(1.1 * calm.largest_stable)
    wild = sw.diagnose.find_stability(sw.train(task, units, 1e-3, optimizer=rule, max_steps=1000))
    assert wild.passed is not None
    assert "WARNING" in str(wild)
    assert wild.largest_stable is None  # it has not been where it would rest
    assert "did not come to rest" in str(wild)
    assert sw.diagnose.find_stability(
        sw.train(task, units, 1e-3, optimizer=opt.Momentum(1e-3), max_steps=100)
    ).edge == pytest.approx(2 * 1.9 / 1e-3)


def test_momentum_above_degree_2_has_to_get_going():
    task, units = sw.tasks.in_context_regression([4, 2, 1], 16), sw.units.LinearAttention(3)
    rule = opt.GradientDescent(5e-3)
    path = sw.train(task, units, 1e-2, optimizer=rule, max_steps=20_000)
    late = sw.compare(sw.predict(task, units, 1e-2, optimizer=rule), path)
    flow = sw.compare(sw.predict(task, units, 1e-2), path)
    assert late.order
    assert late.time_error[0] < 2e-3 < 0.01 < flow.time_error[0]


def test_a_prediction_from_the_middle_of_a_training_has_its_balls_on_their_way():
    task, units = sw.tasks.linear_map(3, 3, decay=1.0, seed=0), sw.units.Dense(3, "linear")
    rule = opt.Momentum(4e-3)
    path = sw.train(task, units, 1e-6, optimizer=rule)
    first, second = path.stages[:2]
    saved = path.data["saved"].values
    at = int(np.searchsorted(saved, 0.5 * (first.time + second.time)))
    ahead = sw.predict(task, units, 1e-6, optimizer=rule, start=path.parameters[at])
    left = second.time - saved[at]
    assert ahead.jump_times[0] == pytest.approx(left, rel=0.05)


# --- edges --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three_modes():
    return sw.tasks.linear_map(3, 3, decay=1.0, seed=1), sw.units.Dense(3, "linear")


@pytest.mark.parametrize(
    "rule",
    [
        opt.SignDescent(2e-3),
        opt.NormalizedDescent(2e-3),
        opt.Adam(2e-3),
        opt.Muon(2e-3, newton_schulz=0),
    ],
    ids=lambda rule: rule.word,
)
def test_a_prediction_that_is_cut_off_says_so(three_modes, rule):
    stairs = sw.predict(*three_modes, 1e-6, optimizer=rule, max_time=0.1)
    assert stairs.stopped is Stopped.LIMIT
    assert np.asarray(stairs.curve[0])[-1] <= 0.1 * (1 + 1e-9)
    task = sw.tasks.sparse_regression(samples=40, dim=4, sparsity=3)
    for end, stopped in ((0.1, True), (20.0, False)):
        stairs = sw.predict(task, sw.units.Diagonal(), 1e-4, optimizer=rule, max_time=end)
        assert (stairs.stopped is Stopped.LIMIT) == stopped


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (opt.Adam(10.0), "a joined step over their size"),
        (opt.SignDescent(10.0), "a joined step over their size"),
        (opt.AdamW(2e-3, weight_decay=300.0), "weight decay is slow"),
    ],
    ids=["adam", "sign", "adamw"],
)
def test_steps_that_are_too_long_fail_the_audit(three_modes, rule, said):
    stairs = sw.predict(*three_modes, 1e-3, optimizer=rule)
    assert any(said in one.name and not one.holds for one in stairs.assumptions)
    small = sw.predict(*three_modes, 1e-3, optimizer=opt.AdamW(2e-3, weight_decay=1e-3))
    assert all(one.holds for one in small.assumptions if "step" in one.name)


def test_the_audit_asks_for_the_smallest_mode_that_matters():
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 3)))
    x = q * np.sqrt(40)
    rule = opt.Muon(0.04, newton_schulz=0)
    for modes, holds in (([1.0, 0.9, 1e-4], True), ([1.0, 0.3, 1e-4], False)):
        task = sw.tasks.from_arrays(x, x * modes)
        stairs = sw.predict(
            task, sw.units.Dense(3, "linear"), 1e-3, optimizer=rule, method="closed"
        )
        (steps,) = [one for one in stairs.assumptions if "steps are small" in one.name]
        assert steps.holds == holds
    assert steps.value == pytest.approx(0.04 / np.sqrt(0.3))


def test_nothing_is_learned_of_targets_that_inputs_know_nothing_of():
    x = np.random.default_rng(0).normal(size=(20, 2))
    task = sw.tasks.from_arrays(np.r_[x, x], np.r_[np.ones(20), -np.ones(20)])
    linear, deep = sw.units.Dense(3, "linear"), sw.units.Deep.linear(3, 3)
    cases = [
        (linear, 1e-4, {}),
        (linear, 1e-4, {"method": "closed"}),
        (linear, 1e-4, {"optimizer": opt.Momentum(1e-2)}),
        (sw.units.Diagonal(), 1e-4, {"optimizer": opt.SignDescent(1e-2)}),
        (deep, 1e-2, {}),
    ]
    for units, scale, how in cases:
        stairs = sw.predict(task, units, scale, **how)
        assert stairs.stopped is Stopped.NO_UTILITY
        assert not stairs.stages


def test_steps_that_blow_up_have_diverged(three_modes):
    path = sw.train(*three_modes, 1e-3, optimizer=optax.sgd(20.0), max_steps=2000)
    assert path.stopped is Stopped.DIVERGED


@pytest.mark.parametrize("word", ["adam", "sign", "momentum", "descent"])
def test_samples_that_are_told_apart_end_a_run_and_its_prediction(word):
    x = np.random.default_rng(0).normal(size=(40, 3))
    task, units = sw.tasks.from_arrays(x, np.sign(x[:, :1])), sw.units.Dense(3, "linear")
    rate = 2e-3 if word in ("adam", "sign") else 2e-2
    options = {"optimizer": word, "learning_rate": rate, "loss": "logistic"}
    path = sw.train(task, units, 1e-4, **options)
    stairs = sw.predict(task, units, 1e-4, **options)
    assert path.stopped is stairs.stopped is Stopped.SEPARATED
    with sw.float64():
        outputs = np.asarray(path.problem.function(path.parameters[-1]))
    assert np.array_equal(np.sign(outputs[:, 0]), np.sign(x[:, 0]))
    assert any(
        "a minimum at finite weights" in one.name and not one.holds for one in stairs.assumptions
    )
    if word in ("adam", "sign"):  # the others wait until nothing new can come
        assert stairs.curve[0][-1] == pytest.approx(path.time[-1], rel=0.1)


@pytest.mark.parametrize(
    ("units", "rule"),
    [
        (sw.units.Dense(4, "linear"), opt.GradientDescent(1e-2)),
        (sw.units.Dense(4, "relu"), opt.Momentum(1e-3, 0.9)),
    ],
    ids=["linear", "relu"],
)
def test_batches_shake_the_first_jump_as_much_as_is_said(units, rule):
    """Against the spread over many draws of the batches, from one start."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    y = x @ rng.normal(size=(4, 3)) + 0.5 * rng.normal(size=(200, 3))
    task, options = sw.tasks.from_arrays(x, y), {"optimizer": rule, "batch_size": 4}
    stairs = sw.predict(task, units, 1e-8, **options)
    (said,) = [one for one in stairs.assumptions if "batches" in one.name]
    first = stairs.stages[0]
    with sw.float64():
        theta = np.asarray(sw.Problem(task, units).initialize(1e-8, 0))
    times = []
    for seed in range(30):
        end = {"max_time": 1.3 * first.time, "convergence": 0}
        path = sw.train(task, units, 1e-8, seed, start=theta, **options, **end)
        times.append(path.time[np.argmax(path.loss < 0.5 * (stairs.initial_loss + first.loss))])
    assert np.mean(times) == pytest.approx(first.time, rel=0.01)
    assert said.holds
    assert said.value == pytest.approx(np.std(times, ddof=1) / first.time, rel=0.4)
    fours = sw.predict(task, units, 1e-8, optimizer=rule, batch_size=64)
    (less,) = [one for one in fours.assumptions if "batches" in one.name]
    assert less.value == pytest.approx(said.value / 4)


def test_batches_that_no_theory_knows_are_told(three_modes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    task, units = sw.tasks.from_arrays(x, x), sw.units.Dense(3, "linear")
    for size, holds in ((5, False), (50, True)):
        stairs = sw.predict(task, units, 1e-3, optimizer="adam", batch_size=size)
        (said,) = [one for one in stairs.assumptions if "batch" in one.name]
        assert (said.holds, said.value) == (holds, size / 50)
    with pytest.raises(sw.InputError, match="name an `optimizer`"):
        sw.predict(task, units, 1e-3, batch_size=5)
    with pytest.raises(sw.InputError, match="needs samples"):
        sw.predict(*three_modes, 1e-3, optimizer="adam", batch_size=5)


def test_where_much_loss_stays_steps_still_come_to_an_end():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(400, 3))
    y = 0.15 * x[:, :1] + rng.normal(size=(400, 1))  # 2% of the loss can be learned
    task, units = sw.tasks.from_arrays(x, y), sw.units.Dense(3, "linear")
    options = {"optimizer": "adam", "learning_rate": 2e-3}
    path = sw.train(task, units, 1e-3, **options)
    stairs = sw.predict(task, units, 1e-3, **options)
    least = 0.5 * np.mean((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2)
    assert path.stopped is Stopped.CONVERGED
    for loss in (path.loss[-1], np.asarray(stairs.curve[1])[-1]):
        assert loss == pytest.approx(least, rel=2e-3)


def test_normalized_time_is_the_length_of_the_flows_way(three_modes):
    task, units = three_modes
    stairs = sw.predict(task, units, 1e-5, optimizer=opt.NormalizedDescent(1e-3))
    path = sw.train(task, units, 1e-5, tolerance=1e-10, most_saved=20_000)
    way = np.linalg.norm(np.diff(path.parameters, axis=0), axis=(1, 2)).sum()
    assert np.asarray(stairs.curve[0])[-1] == pytest.approx(way, rel=0.03)
    assert any("shorter than the smallest unit" in one.name for one in stairs.assumptions)


@pytest.mark.parametrize("word", ["adam", "muon"])
def test_deep_networks_are_predicted_in_joined_steps(word):
    run = sw.Run.of("deep")
    task, units = run.task, run.units
    options = {"optimizer": word, "learning_rate": 2e-3}
    stairs = sw.predict(task, units, run.scale, **options)
    report = sw.compare(stairs, sw.train(task, units, run.scale, **options))
    assert report.order
    assert max(report.time_error) < 0.02
    assert len(stairs.stages[0].feature["vector"]) == task.x.shape[1]
    with pytest.raises(sw.InputError, match="told for sums of units"):
        sw.predict(task, units, run.scale, optimizer="momentum", learning_rate=2e-3)

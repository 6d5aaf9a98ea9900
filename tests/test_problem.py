"""Loss, residual and utility against sums written out by hand and against autodiff."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.losses import AbstractLoss
from saddlewalk.precision import in_float64
from saddlewalk.problem import norms


class Logistic(AbstractLoss):
    def __call__(self, output, target):
        return jnp.sum(jnp.logaddexp(0.0, -target * output))


def by_hand(task, theta, activation):
    total = 0.0
    outputs = np.zeros_like(task.y)
    for s in range(len(task.x)):
        for unit in theta:
            outputs[s] += unit[3:] * activation(unit[:3] @ task.x[s])
        total += task.weights[s] * 0.5 * np.sum((task.y[s] - outputs[s]) ** 2)
    return total, outputs


@pytest.fixture(scope="module")
def setup(small_regression):
    problem = sw.Problem(small_regression, sw.units.Dense(4, "tanh"))
    theta = np.random.default_rng(5).normal(size=(4, 5))
    return problem, theta


def test_loss_is_half_the_mean_over_samples_of_the_sum_over_outputs(setup):
    problem, theta = setup
    expected, _ = by_hand(problem.task, theta, np.tanh)
    with sw.float64():
        assert float(problem.loss(theta)) == pytest.approx(expected, rel=1e-13)


def test_residual_of_the_squared_loss_is_target_minus_output(setup):
    problem, theta = setup
    _, outputs = by_hand(problem.task, theta, np.tanh)
    with sw.float64():
        residual = problem.residual(theta)
    expected = problem.task.weights[:, None] * (problem.task.y - outputs)
    np.testing.assert_allclose(residual, expected, rtol=1e-12)


@pytest.mark.parametrize("penalty", [None, Logistic()])
def test_utility_is_minus_the_first_order_change_of_the_loss(small_regression, penalty):
    """A new unit times epsilon in function space, by central differences, for any loss."""
    problem = sw.Problem(small_regression, sw.units.Dense(4, "relu"), penalty)
    rng = np.random.default_rng(6)
    active, dormant = rng.normal(size=(4, 5)), rng.normal(size=(4, 5))
    with sw.float64():
        utility = problem.utility(dormant, problem.residual(active))
        function = jnp.sum(problem.features(active), axis=0)
        for i, feature in enumerate(problem.features(dormant)):
            up, down = (problem.cost(function + e * feature) for e in (1e-5, -1e-5))
            assert float(utility[i]) == pytest.approx(float(-(up - down) / 2e-5), rel=1e-6)


def test_small_units_move_along_the_gradient_of_their_utility(setup):
    """Eq 12: at a vanishing network, velocity = gradient of the utility against the target."""
    problem, theta = setup
    with sw.float64():
        small = 1e-7 * theta
        residual = problem.residual(0 * theta)
        climb = jax.grad(lambda t: jnp.sum(problem.utility(t, residual)))(small)
        np.testing.assert_allclose(problem.velocity(small), climb, rtol=1e-6)


def test_weights_act_like_repeated_samples(small_regression):
    x, y = small_regression.x, small_regression.y
    weighted = sw.tasks.from_arrays(x[:2], y[:2], weights=[2, 1])
    repeated = sw.tasks.from_arrays(x[[0, 0, 1]], y[[0, 0, 1]])
    theta = np.random.default_rng(0).normal(size=(4, 5))
    units = sw.units.Dense(4, "tanh")
    with sw.float64():
        assert float(sw.Problem(weighted, units).loss(theta)) == pytest.approx(
            float(sw.Problem(repeated, units).loss(theta)), rel=1e-13
        )


def test_linear_units_see_the_same_loss_on_fewer_samples(small_regression):
    units = sw.units.Dense(4, "linear")
    theta = np.random.default_rng(7).normal(size=(4, 5))
    short = sw.Problem(small_regression, units)
    full = sw.Problem(small_regression, units, keep_samples=True)
    assert len(short.task.x) == 3
    assert len(full.task.x) == 10
    with sw.float64():
        assert float(short.loss(theta)) == pytest.approx(float(full.loss(theta)), rel=1e-12)
        np.testing.assert_allclose(short.velocity(theta), full.velocity(theta), rtol=1e-10)
        lengths = [jax.vmap(p.task.length)(p.features(theta)) for p in (short, full)]
        np.testing.assert_allclose(*lengths, rtol=1e-12)


def test_population_moments_give_the_expected_loss():
    """E 1/2 |y - M x|^2 = 1/2 tr(Syy) - tr(M Sxy) + 1/2 tr(M Sxx M'), written out."""
    rng = np.random.default_rng(8)
    root = rng.normal(size=(5, 5))
    joint = root @ root.T
    xx, yx, yy = joint[:3, :3], joint[3:, :3], joint[3:, 3:]
    problem = sw.Problem(sw.tasks.from_moments(xx, yx, yy), sw.units.Dense(4, "linear"))
    theta = rng.normal(size=(4, 5))
    m = theta[:, 3:].T @ theta[:, :3]
    expected = 0.5 * np.trace(yy) - np.sum(m * yx) + 0.5 * np.trace(m @ xx @ m.T)
    with sw.float64():
        assert float(problem.loss(theta)) == pytest.approx(expected, rel=1e-11)


def test_rank_deficient_moments():
    xx = np.diag([2.0, 1.0, 0.0])
    task = sw.tasks.from_moments(xx, [[1.0, -1.0, 0.0]])
    assert task.x.shape == (2, 3)
    with pytest.raises(sw.InputError, match="range of Sigma_xx"):
        sw.tasks.from_moments(xx, [[1.0, -1.0, 0.5]])


def test_moments_are_for_linear_units_and_squared_loss_only():
    task = sw.tasks.from_moments(np.eye(3), [[1.0, -1.0, 0.5]])
    for units, penalty in [
        (sw.units.Dense(2, "relu"), None),
        (sw.units.Dense(2, "linear"), Logistic()),
    ]:
        with pytest.raises(sw.InputError, match="give samples"):
            sw.Problem(task, units, penalty)
    with pytest.raises(sw.InputError, match="SGD needs samples"):
        sw.train(task, sw.units.Dense(2, "linear"), 0.1, solver="sgd")


def test_norms_do_not_underflow():
    with sw.float64():
        theta = jnp.full((1, 4), 1e-200)
        assert float(norms(theta)[0, 0]) == pytest.approx(2e-200, rel=1e-12)
        assert float(norms(0 * theta)[0, 0]) == 0.0


def test_the_users_jax_configuration_is_left_alone(small_regression):
    sw.train(small_regression, sw.units.Dense(3, "tanh"), 0.5, max_time=0.1)
    assert jnp.ones(1).dtype == jnp.float32


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones(3), np.ones(3), "two dimensions"),
        (np.eye(3), np.ones(4), "3 samples and y has 4"),
        ([[1.0, np.nan], [0.0, 1.0]], [1.0, 2.0], r"NaN or infinite, first at \(0, 1\)"),
        (np.zeros((0, 2)), [], "empty"),
        ([["a"]], [1.0], "must hold numbers"),
        (np.eye(2), [0.0, 0.0], "nothing to learn"),
    ],
)
def test_bad_data(x, y, message):
    with pytest.raises(sw.InputError, match=message):
        sw.tasks.from_arrays(x, y)


@pytest.mark.parametrize("width", [10**9, 10**30])
def test_a_network_that_no_machine_holds_is_refused_before_anything_is_allocated(fig3, width):
    units = sw.units.Dense(width, "relu")
    for verb in (sw.predict, sw.train):
        with pytest.raises(sw.InputError, match=r"needs at least .* GB .*Take a smaller `width`"):
            verb(fig3, units, 1e-6)


def test_memory_that_is_short_in_the_midst_is_told_in_a_sentence():
    """A vector of 2^58 bytes fits nowhere; XLA says so in its own words."""

    @in_float64
    def too_large():
        return jax.numpy.zeros(2**55).block_until_ready()

    with pytest.raises(sw.InputError, match="not enough memory"):
        too_large()


WRONG = """
import numpy as np, saddlewalk as sw
from saddlewalk.losses import SquaredError

class Misspelt(sw.units.AbstractUnits):
    width: int

    def layers(self, inputs, outputs):
        return {"weight": (inputs,), "a": (outputs,)}

    def respond(self, weights, x):
        return weights["a"] * (weights["wieght"] @ x)

x = np.random.default_rng(0).normal(size=(6, 3))
task, units = sw.tasks.from_arrays(x, x[:, 0]), sw.units.Dense(2, "tanh")
calls = [lambda: sw.units.Dense("relu"), lambda: sw.units.Dense(3, 5), lambda: sw.units.Deep(3)]
calls += [lambda: sw.units.Convolution("two")]
for given in (
    {"scale": "small"}, {"loss": SquaredError}, {"loss": "mse"}, {"rates": 2.0},
    {"rates": {"w": "fast"}}, {"seed": 1.5}, {"seed": "a"}, {"max_time": "long"}, {"start": {"w": 1.0}},
    {"units": Misspelt(2)},
):
    for verb in (sw.predict, sw.train):
        full = {"units": units, "scale": 0.1, **given}
        calls.append(lambda verb=verb, full=full: verb(task, **full))
for given in ({"solver": 3}, {"learning_rate": "x"}, {"times": "x"}, {"observables": 3}, {"most_saved": 0}):
    calls.append(lambda given=given: sw.train(task, units, 0.1, **given))
for call in calls:
    try:
        call()
        print("nothing was raised")
    except sw.InputError as error:
        print(error)
sw.train(task, units, np.array(0.1), np.int64(0), max_time=1.0)
"""


def test_wrong_arguments_are_sentences():
    """In a process without the checks of types that the tests have: no other error ends it."""
    out = subprocess.run([sys.executable, "-c", WRONG], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr[-2000:]
    said = out.stdout.splitlines()
    assert len(said) == 29
    assert "nothing was raised" not in said
    assert "SquaredError() instead of SquaredError" in out.stdout
    assert "'wieght', which `layers` does not name. Did you mean 'weight'?" in out.stdout

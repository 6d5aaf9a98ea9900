"""The tangent kernel against the full Jacobian, and what is made of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.diagnose import kernel_distance, network_kernel, tangent_kernel, target_alignment

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 4))
ONE, TWO = sw.tasks.from_arrays(X, X[:, 0]), sw.tasks.from_arrays(X, X[:, :2])

CASES = {
    "relu": (ONE, sw.units.Dense(5, "relu"), {"w": 0.5, "a": 3.0}),
    "tanh, two outputs": (TWO, sw.units.Dense(5, "tanh"), {}),
    "deep": (
        TWO,
        sw.units.Deep((sw.units.Dense(3, "relu"), sw.units.Dense(4, "tanh"))),
        {"w2": 0.3, "readout": 2.0},
    ),
    "deep with a skip": (
        ONE,
        sw.units.Deep((sw.units.Dense(3, "tanh"),) * 3, skips=((1, 2),)),
        {},
    ),
    "convolution": (ONE, sw.units.Convolution(3, activation="relu"), {"u": 0.2}),
    "deep convolution": (
        TWO,
        sw.units.Deep((sw.units.Convolution(3, 2, 1, "tanh"), sw.units.Dense(4, "relu"))),
        {"u1": 0.2, "w2": 2.0},
    ),
    "quadratic pair": (TWO, sw.units.QuadraticPair(3), {"w": 2.0}),
    "diagonal": (ONE, sw.units.Diagonal(), {}),
}


def from_jacobian(problem, theta):
    """J R J^T with the Jacobian of all outputs at once."""
    with sw.float64():
        answers = lambda th: jax.vmap(  # noqa: E731
            lambda x: problem.units.combine(problem.weights(th), x)
        )(jnp.asarray(X)).ravel()
        J = jax.jacobian(answers)(jnp.asarray(theta)).reshape(len(X) * problem.task.outputs, -1)
        return np.asarray((J * jnp.tile(jnp.asarray(problem.rates), len(theta))) @ J.T)


@pytest.mark.parametrize("name", CASES)
def test_against_the_jacobian(name):
    task, units, rates = CASES[name]
    problem = sw.Problem(task, units, rates=rates, keep_samples=True)
    theta = np.random.default_rng(1).normal(size=(problem.width, problem.size))
    truth = from_jacobian(problem, theta)
    scale = np.abs(truth).max()
    found = np.asarray(tangent_kernel(problem, theta, x=X))
    assert np.abs(found - truth).max() < 1e-10 * scale
    c = problem.task.outputs
    traced = np.einsum("icjc->ij", truth.reshape(len(X), c, len(X), c))
    found = np.asarray(tangent_kernel(problem, theta, x=X, traced=True))
    assert np.abs(found - traced).max() < 1e-10 * scale


@pytest.mark.parametrize("memory", [1.0, 1e4, None])
def test_any_network_in_blocks_of_any_size(memory):
    """Trees of parameters and of rates; the same kernel whatever the memory."""
    parameters = {
        "w": RNG.normal(size=(3, 4)),
        "b": RNG.normal(size=3),
        "a": RNG.normal(size=(2, 3)),
    }
    rates = {name: np.full(np.shape(v), r) for (name, v), r in
             zip(parameters.items(), (0.5, 2.0, 1.0), strict=True)}  # fmt: skip

    def network(p, x):
        return p["a"] @ jnp.tanh(p["w"] @ x + p["b"])

    with sw.float64():
        tree = jax.tree.map(jnp.asarray, parameters)
        J = jax.vmap(jax.jacobian(network), (None, 0))(tree, jnp.asarray(X))
        truth = sum(
            jnp.einsum("icp,jep->icje", *(2 * [np.sqrt(rates[k]).ravel() * J[k].reshape(6, 2, -1)]))
            for k in parameters
        ).reshape(12, 12)
        found = network_kernel(network, tree, X, rates=rates, memory=memory)
        np.testing.assert_allclose(found, truth, rtol=1e-10, atol=1e-12)


def test_adaptive_rates_enter_the_kernel(teacher):
    """The kernel says how fast outputs move: f' = sum_i w_i K r_i under the problem's own velocity."""
    units = sw.units.Dense(3, "quadratic")
    problem = sw.Problem(teacher, units, adaptive=True)
    theta = np.random.default_rng(2).normal(size=(3, problem.size))
    with sw.float64():
        move = jax.jvp(problem.function, (jnp.asarray(theta),), (problem.velocity(theta),))[1]
        residual = problem.residual(jnp.asarray(theta))  # holds the weights of the samples
        kernel = tangent_kernel(problem, theta)
        np.testing.assert_allclose(kernel @ residual.ravel(), move.ravel(), rtol=1e-9)


def test_kernel_distance():
    kernel = X @ X.T
    assert kernel_distance(kernel, 7 * kernel) < 1e-30
    other = np.diag(np.arange(6.0))
    cosine = np.sum(kernel * other) / (np.linalg.norm(kernel) * np.linalg.norm(other))
    assert kernel_distance(kernel, other) == pytest.approx(1 - cosine)
    assert kernel_distance(np.diag([1.0, 0]), np.diag([0, 1.0])) == pytest.approx(1.0)
    with pytest.raises(sw.InputError, match="shapes"):
        kernel_distance(kernel, np.eye(2))


def test_target_alignment():
    y = RNG.normal(size=6)
    assert target_alignment(np.outer(y, y), y) == pytest.approx(1.0)
    across = np.linalg.svd(y[None])[2][1]
    assert target_alignment(np.outer(across, across), y) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(sw.InputError, match="rows"):
        target_alignment(np.eye(6), y[:4])


def test_refusals():
    problem = sw.Problem(ONE, sw.units.Dense(2, "relu"))
    with pytest.raises(sw.InputError, match=r"x must have shape \(n, 4\)"):
        tangent_kernel(problem, np.ones((2, 5)), x=np.ones((3, 7)))
    with pytest.raises(sw.InputError, match="answer a vector"):
        network_kernel(lambda p, x: p @ x, jnp.ones(4), X)


def test_samples_that_are_not_kept_are_asked_for():
    """Linear units need moments alone; a kernel is one of the task's samples."""
    x = np.random.default_rng(0).normal(size=(9, 3))
    task, units = sw.tasks.from_arrays(x, x[:, :1]), sw.units.Dense(2, "linear")
    theta = np.random.default_rng(1).normal(size=(2, 4))
    with pytest.raises(sw.InputError, match="moments, not samples"):
        tangent_kernel(sw.Problem(task, units), theta)
    kept = tangent_kernel(sw.Problem(task, units, keep_samples=True), theta)
    w, a = theta[:, :3], theta[:, 3:]
    by_hand = float((a**2).sum()) * x @ x.T + (x @ w.T) @ (x @ w.T).T
    np.testing.assert_allclose(kept, by_hand, rtol=1e-10)
    np.testing.assert_allclose(tangent_kernel(sw.Problem(task, units), theta, x=x), by_hand)


def test_parameters_that_are_not_finite_are_refused():
    with pytest.raises(sw.InputError, match="NaN"):
        network_kernel(lambda w, x: w @ x, np.full((1, 2), np.nan), np.eye(2))

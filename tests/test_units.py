"""The contract every family of units obeys, and the order kappa found at the origin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.units.base import size_of, unpack

HOMOGENEOUS = {
    "diagonal": (sw.units.Diagonal(), 3, 1, 2),
    "linear": (sw.units.Dense(4, "linear"), 3, 2, 2),
    "relu": (sw.units.Dense(4, "relu"), 3, 2, 2),
    "leaky-relu": (sw.units.Dense(4, "leaky-relu"), 3, 2, 2),
    "quadratic": (sw.units.Dense(4, "quadratic"), 3, 2, 3),
    "cubic": (sw.units.Dense(4, "cubic"), 3, 2, 4),
}
SMOOTH = {
    "tanh": (sw.units.Dense(4, "tanh"), 2),
    "sin": (sw.units.Dense(4, "sin"), 2),
    "gelu": (sw.units.Dense(4, "gelu"), 2),
    "z-tanh-z": (sw.units.Dense(4, "z-tanh-z"), 3),
    "own": (sw.units.Dense(4, lambda z: z**5 / (1 + z**2)), 6),
}


def respond(units, inputs, outputs, theta, x):
    return units.respond(unpack(units.layers(inputs, outputs), theta), units.view(x, 1))


@pytest.fixture(params=HOMOGENEOUS)
def family(request):
    units, inputs, outputs, degree = HOMOGENEOUS[request.param]
    rng = np.random.default_rng(1)
    with sw.float64():
        theta = jnp.asarray(rng.normal(size=size_of(units.layers(inputs, outputs))))
        x = jnp.asarray(rng.normal(size=inputs))
        yield (
            (lambda t: respond(units, inputs, outputs, t, x)),
            theta,
            degree,
            units,
            inputs,
            outputs,
        )


def test_scaling_by_t_scales_the_output_by_t_to_the_kappa(family):
    f, theta, degree, *_ = family
    np.testing.assert_allclose(f(0.37 * theta), 0.37**degree * f(theta), rtol=1e-12)


def test_euler_identity(family):
    f, theta, degree, *_ = family
    _, derivative = jax.jvp(f, (theta,), (theta,))
    np.testing.assert_allclose(derivative, degree * f(theta), rtol=1e-12)


def test_zero_at_the_origin_and_shape_and_jit(family):
    f, theta, _, _, _, outputs = family
    assert not np.any(f(0 * theta))
    assert f(theta).shape == (outputs,)
    np.testing.assert_allclose(jax.jit(f)(theta), f(theta), rtol=1e-13)


def test_degree_is_found(family):
    _, _, degree, units, inputs, outputs = family
    assert sw.units.find_degree(units, inputs, outputs) == degree


@pytest.mark.parametrize("name", SMOOTH)
def test_degree_is_the_leading_taylor_order(name):
    units, degree = SMOOTH[name]
    assert sw.units.find_degree(units, 3, 2) == degree


def test_units_that_are_not_zero_at_the_origin_are_refused_or_of_order_one():
    class Offset(sw.units.AbstractUnits):
        width: int

        def layers(self, inputs, outputs):
            return {"a": (outputs,)}

        def respond(self, weights, x):
            return 1.0 + weights["a"]

    with pytest.raises(sw.InputError, match="not zero at zero"):
        sw.units.find_degree(Offset(2), 3, 2)
    sigmoid = sw.units.Dense(2, jax.nn.sigmoid)  # a * sigmoid(0): first order in a
    assert sw.units.find_degree(sigmoid, 3, 2) == 1


def test_initial_norms_have_mean_square_alpha_squared(small_regression):
    problem = sw.Problem(small_regression, sw.units.Dense(4000, "relu"))
    with sw.float64():
        theta = np.asarray(problem.initialize(1e-3, seed=0))
    assert np.mean(np.sum(theta**2, axis=1)) == pytest.approx(1e-6, rel=0.03)
    half = np.sum(theta[:, :3] ** 2, axis=1)
    assert np.mean(half) == pytest.approx(5e-7, rel=0.05)


@pytest.mark.parametrize("units", [sw.units.Dense(3, "tanh"), sw.units.Dense(3, "linear")])
def test_all_units_at_once_are_the_sum_of_each(units, small_regression):
    problem = sw.Problem(small_regression, units, keep_samples=True)
    with sw.float64():
        theta = problem.initialize(1.0, 3)
        total = jnp.sum(problem.features(theta), axis=0)
        np.testing.assert_allclose(problem.function(theta), total, rtol=1e-12)


def test_all_diagonal_units_at_once(fig3):
    problem = sw.Problem(fig3, sw.units.Diagonal())
    with sw.float64():
        theta = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)))
        total = jnp.sum(problem.features(theta), axis=0)
        np.testing.assert_allclose(problem.function(theta), total, rtol=1e-12)


def test_layer_rates_are_the_rates_of_the_weights(small_regression):
    """d/dt of the weights is minus rate times gradient."""
    plain = sw.Problem(small_regression, sw.units.Dense(3, "tanh"))
    rated = sw.Problem(small_regression, sw.units.Dense(3, "tanh"), rates={"w": 0.25, "a": 4.0})
    factor = np.array([0.25] * 3 + [4.0] * 2)
    with sw.float64():
        theta = plain.initialize(1.0, seed=2)
        np.testing.assert_array_equal(theta, rated.initialize(1.0, seed=2))
        np.testing.assert_allclose(rated.velocity(theta), factor * plain.velocity(theta))


@pytest.mark.parametrize("solver", ["explicit", "implicit"])
def test_rates_conserve_the_balance_between_layers(small_regression, solver):
    """|w|^2 / rate_w - |a|^2 / rate_a is conserved by linear units, for each neuron."""
    path = sw.train(
        small_regression,
        sw.units.Dense(3, "linear"),
        0.3,
        solver=solver,
        rates={"w": 0.2, "a": 3.0},
        max_time=20.0,
    )
    w, a = path.parameters[..., :3], path.parameters[..., 3:]
    balance = np.sum(w**2, axis=2) / 0.2 - np.sum(a**2, axis=2) / 3.0
    np.testing.assert_allclose(balance, np.broadcast_to(balance[0], balance.shape), atol=1e-6)


def test_diagonal_rates_of_u_and_v(fig3):
    problem = sw.Problem(fig3, sw.units.Diagonal(), rates={"u": 3.0, "v": 0.5})
    units = problem.units
    with sw.float64():
        theta = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)))
        u, v = units.weights(theta)
        du, dv = jax.jvp(units.weights, (theta,), (problem.velocity(theta),))[1]

        def loss(u, v):
            return 0.5 * jnp.mean((fig3.x @ (u * v) - fig3.y[:, 0]) ** 2)

        gu, gv = jax.grad(loss, argnums=(0, 1))(u, v)
        np.testing.assert_allclose(du, -3.0 * gu, rtol=1e-10)
        np.testing.assert_allclose(dv, -0.5 * gv, rtol=1e-10)
        start = problem.initialize(1e-3, 0)
        np.testing.assert_allclose(units.weights(start)[0], np.sqrt(2) * 1e-3)


def test_float32_is_refused(small_regression):
    problem = sw.Problem(small_regression, sw.units.Dense(3, "tanh"))
    with pytest.raises(sw.InputError, match=r"with saddlewalk.float64\(\)"):
        problem.initialize(1e-50)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sw.units.Dense(0), "width must be at least 1"),
        (lambda: sw.units.Dense(3, "rellu"), "Did you mean 'relu'"),
        (lambda: sw.units.Dense(3).rated({"w": -1.0}, {"w": (2,)}), "must be positive"),
        (lambda: sw.units.Dense(3).rated({"b": 1.0}, {"w": (2,)}), "no layer 'b'"),
        (lambda: sw.units.Diagonal().rated({"w": 1.0}, {}), "Layers: u, v"),
        (lambda: sw.units.Diagonal().layers(3, 2), "one output"),
    ],
)
def test_bad_units(make, message):
    with pytest.raises(sw.InputError, match=message):
        make()


class Biased(sw.units.AbstractUnits):
    """ReLU neurons with a bias, which says nothing about its kink."""

    width: int

    def layers(self, inputs, outputs):
        return {"w": (inputs,), "b": (), "a": (outputs,)}

    def respond(self, weights, x):
        return weights["a"] * jnp.maximum(weights["w"] @ x + weights["b"], 0)


@pytest.mark.parametrize(
    ("units", "smooth"),
    [
        (Biased(3), False),
        (sw.units.Dense(3, jnp.abs), False),
        (sw.units.Dense(3, jax.nn.silu), True),
        (sw.units.Dense(3, lambda z: jnp.tanh(20 * z)), True),
        *((sw.units.Dense(3, lambda z, f=f: f(z)), name not in ("relu", "leaky-relu"))
          for name, f in sw.units.ACTIVATIONS.items()),
    ],
)  # fmt: skip
def test_kinks_are_found(units, smooth):
    assert sw.units.is_smooth(units, 4, 2) == smooth

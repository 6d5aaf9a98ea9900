"""The contract every family of units obeys, and the order kappa found at the origin.

A family is tested as soon as `saddlewalk.units` exports it, on the network that its `example` gives.
"""

import dataclasses
import inspect
import runpy
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.units import AbstractUnits, Layer
from saddlewalk.units.base import size_of, unpack

SKELETON = Path(__file__).parent.parent / "docs" / "howto" / "skeletons" / "unit.py"
EXPORTED = {
    name: value
    for name, value in vars(sw.units).items()
    if inspect.isclass(value) and issubclass(value, AbstractUnits) and not inspect.isabstract(value)
}
FAMILIES = {**EXPORTED, "skeleton": runpy.run_path(str(SKELETON))["Gated"]}
NOT_HOMOGENEOUS = ("SoftmaxSelfAttention", "Recurrent")


@dataclasses.dataclass
class Network:
    """The example of a family, at random weights and inputs."""

    name: str
    units: AbstractUnits
    inputs: int
    outputs: int

    def __post_init__(self):
        rng = np.random.default_rng(1)
        self.shapes = self.units.layers(self.inputs, self.outputs)
        self.width = self.units.count(self.inputs)
        self.theta = rng.normal(size=(self.width, size_of(self.shapes)))
        self.x = jnp.asarray(rng.normal(size=(5, self.inputs)))

    @property
    def degree(self):
        """What the package says, found once."""
        return sw.units.traits_of(self.units, self.inputs, self.outputs).degree

    def weights(self, theta):
        return jax.vmap(lambda row: unpack(self.shapes, row))(jnp.asarray(theta))

    def function(self, theta, units=None, shapes=None):
        """All outputs on all inputs, `(samples, outputs)`: one compiled program a shape."""
        units, shapes = units or self.units, shapes or self.shapes
        return _function(units, tuple(shapes.items()), jnp.asarray(theta), self.x)


@eqx.filter_jit
def _function(units, shapes, theta, x):
    weights = jax.vmap(lambda row: unpack(dict(shapes), row))(theta)
    return jax.vmap(lambda one: units.combine(weights, one))(x)


@pytest.fixture(scope="module", params=FAMILIES)
def example(request):
    with sw.float64():
        return Network(request.param, *FAMILIES[request.param].example())


@pytest.fixture
def network(example):
    with sw.float64():
        yield example


def test_every_family_of_the_package_is_exported():
    def below(cls):
        return {cls, *(deeper for one in cls.__subclasses__() for deeper in below(one))}

    own = {cls for cls in below(AbstractUnits) if cls.__module__.startswith("saddlewalk.")}
    assert {cls for cls in own if not inspect.isabstract(cls)} == set(EXPORTED.values())


def test_a_family_without_an_example_is_told_to_add_one():
    class Bare(sw.units.Dense):
        example = AbstractUnits.__dict__["example"]

    with pytest.raises(NotImplementedError, match="add a classmethod `example`"):
        Bare.example()


def test_shape_and_zero_at_the_origin(network):
    for scale, zero in ((1.0, False), (0.0, True)):
        answers = np.asarray(network.function(scale * network.theta))
        assert answers.shape == (5, network.outputs)
        assert np.isfinite(answers).all()
        assert np.any(answers) != zero
    one = network.units.view(network.x[0], 0)
    first = unpack(network.shapes, jnp.asarray(network.theta[0]))
    assert network.units.respond(first, one).shape == (network.outputs,)


def test_degree_is_the_scaling_exponent_near_the_origin(network):
    small = 2.0**-20
    near, nearer = (
        np.asarray(network.function(t * network.theta), float) for t in (small, small / 2)
    )
    alive = np.abs(nearer) > 0
    assert alive.any()
    np.testing.assert_allclose(np.log2(near[alive] / nearer[alive]), network.degree, atol=1e-3)


def test_euler_identity(network):
    """Homogeneous units: f(t theta) = t^kappa f(theta), and theta grad f = kappa f."""
    degree, theta = network.degree, jnp.asarray(network.theta)
    answers, slope = jax.jvp(network.function, (theta,), (theta,))
    if network.name in NOT_HOMOGENEOUS:  # and really are not
        assert not np.allclose(slope, degree * answers, rtol=1e-3)
        return
    np.testing.assert_allclose(network.function(0.37 * theta), 0.37**degree * answers, rtol=1e-10)
    np.testing.assert_allclose(slope, degree * answers, rtol=1e-10)


def test_jit_and_vmap_agree_with_plain_calls(network):
    weights = network.weights(network.theta)
    plain = [network.units.combine(weights, one) for one in network.x]
    np.testing.assert_allclose(network.function(network.theta), plain, rtol=1e-11, atol=1e-13)


def test_one_trace_serves_all_weights_and_equal_units(network):
    traces = 0

    @eqx.filter_jit
    def answer(units, theta):
        nonlocal traces
        traces += 1
        weights = jax.vmap(lambda row: unpack(network.shapes, row))(theta)
        return units.combine(weights, network.x[0])

    for k in range(3):
        units, *_ = FAMILIES[network.name].example()
        answer(units, jnp.asarray(k * network.theta))
    assert traces == 1


def test_the_network_is_the_sum_of_its_units(network):
    if not network.units.additive:
        assert network.width == 1
    rows = [unpack(network.shapes, jnp.asarray(row)) for row in network.theta]
    respond = jax.jit(lambda row, x, k: network.units.respond(row, network.units.view(x, k)))
    for x, answer in zip(network.x, network.function(network.theta), strict=True):
        parts = [respond(row, x, k) for k, row in enumerate(rows)]
        np.testing.assert_allclose(answer, np.sum(parts, axis=0), rtol=1e-11, atol=1e-13)


def as_matrix(network, name, values):
    """Weights (or gradients, with leading axes for outputs) of a layer as a matrix (neurons, reads)."""
    lead = values.ndim - 1 - len(network.shapes[name])
    if not network.units.additive:
        return values[(slice(None),) * lead + (0,)]
    if name == next(iter(network.shapes)):
        return values
    swapped = np.swapaxes(values, lead, lead + 1)
    return swapped.reshape(*swapped.shape[: lead + 1], -1)


def test_gradient_factors_and_preactivations_are_those_of_autodiff(network):
    weights, x = network.weights(network.theta), network.x[0]
    units = network.units
    if jax.eval_shape(units.gradient_factors, weights, x) is None:
        pytest.skip("gradients are no outer products")
    # compiled as one: operation by operation takes many times as long
    factors, found, slopes = jax.jit(
        lambda named: (
            units.gradient_factors(named, x),
            units.preactivations(named, x),
            jax.jacrev(lambda moved: units.combine(moved, x))(named),
        )
    )(weights)
    assert set(factors) == set(network.shapes)
    entering = []
    for name in network.shapes:
        reads, worth = factors[name]
        h = np.atleast_2d(reads)
        q = np.asarray(worth).reshape(network.outputs, len(h), -1)
        truth = as_matrix(network, name, np.asarray(slopes[name]))
        product = np.einsum("cpi,pj->cij", q, h)
        np.testing.assert_allclose(product, truth, rtol=1e-10, atol=1e-12)
        entering.append((as_matrix(network, name, np.asarray(weights[name])) @ h.T).ravel())
    # what enters a neuron is what its weights make of what they read; the last layer has no neurons
    np.testing.assert_allclose(found, np.concatenate(entering[:-1]), rtol=1e-10, atol=1e-12)


def test_units_can_be_taken_permuted_and_put_back(network):
    before = network.function(network.theta)
    for layer in network.units.hidden:
        taken = network.units.take(network.shapes, network.theta, layer)
        same = network.units.put(network.shapes, network.theta, taken, layer)
        np.testing.assert_array_equal(same, network.theta)
        turned = Layer(*(np.asarray(part)[::-1] for part in taken))
        other = network.units.put(network.shapes, network.theta, turned, layer)
        assert not np.array_equal(other, network.theta)
        np.testing.assert_allclose(network.function(other), before, rtol=1e-10, atol=1e-12)


def test_a_unit_can_be_split_into_two(network):
    """Half of the outgoing weights each: a wider network, and the same function."""
    before = network.function(network.theta)
    for layer in network.units.hidden:
        u, v = (np.asarray(p) for p in network.units.take(network.shapes, network.theta, layer))
        half = np.concatenate([v[:1] / 2, v[1:], v[:1] / 2])
        wider = network.units.resized(len(u) + 1, layer)
        split = Layer(np.concatenate([u, u[:1]]), half)
        theta = network.units.put(network.shapes, network.theta, split, layer)
        shapes = wider.layers(network.inputs, network.outputs)
        assert theta.shape == (wider.count(network.inputs), size_of(shapes))
        after = network.function(theta, wider, shapes)
        np.testing.assert_allclose(after, before, rtol=1e-10, atol=1e-12)


def test_starts_are_proportional_to_the_scale(network):
    def start(scale):
        key = jax.random.key(0)
        return network.units.initialize(network.shapes, network.width, scale, key)

    assert start(1.0).shape == network.theta.shape
    np.testing.assert_allclose(start(1e-3), 1e-3 * start(1.0), rtol=1e-12)


def test_the_skeleton_runs(capsys):
    runpy.run_path(str(SKELETON), run_name="__main__")
    assert capsys.readouterr().out == "order 3\n"


# --- activations, starts and rates ------------------------------------------------------------------------

DEGREES = {
    **{"linear": 2, "relu": 2, "leaky-relu": 2, "tanh": 2, "sin": 2, "gelu": 2},
    **{"quadratic": 3, "z-tanh-z": 3, "1-cos": 3, "log-cosh": 3, "cubic": 4, "z2-tanh-z": 4},
    "sigmoid": 1,  # a * sigmoid(0): first order in a
}


@pytest.mark.parametrize("name", sw.units.ACTIVATIONS)
def test_degree_is_the_leading_taylor_order(name):
    assert sw.units.find_degree(sw.units.Dense(4, name), 3, 2) == DEGREES[name]


def test_units_that_are_not_zero_at_the_origin_are_refused():
    class Offset(sw.units.AbstractUnits):
        width: int

        def layers(self, inputs, outputs):
            return {"a": (outputs,)}

        def respond(self, weights, x):
            return 1.0 + weights["a"]

    with pytest.raises(sw.InputError, match="not zero at zero"):
        sw.units.find_degree(Offset(2), 3, 2)
    own = sw.units.Dense(4, lambda z: z**5 / (1 + z**2))
    assert sw.units.find_degree(own, 3, 2) == 6


def test_initial_norms_have_mean_square_alpha_squared(small_regression):
    problem = sw.Problem(small_regression, sw.units.Dense(4000, "relu"))
    with sw.float64():
        theta = np.asarray(problem.initialize(1e-3, seed=0))
    assert np.mean(np.sum(theta**2, axis=1)) == pytest.approx(1e-6, rel=0.03)
    half = np.sum(theta[:, :3] ** 2, axis=1)
    assert np.mean(half) == pytest.approx(5e-7, rel=0.05)


def test_layer_rates_are_the_rates_of_the_weights(small_regression):
    """d/dt of the weights is minus rate times gradient."""
    plain = sw.Problem(small_regression, sw.units.Dense(3, "tanh"))
    rated = sw.Problem(small_regression, sw.units.Dense(3, "tanh"), rates={"w": 0.25, "a": 4.0})
    factor = np.array([0.25] * 3 + [4.0] * 2)
    with sw.float64():
        theta = plain.initialize(1.0, seed=2)
        np.testing.assert_array_equal(theta, rated.initialize(1.0, seed=2))
        np.testing.assert_allclose(rated.velocity(theta), factor * plain.velocity(theta))


def test_rates_conserve_the_balance_between_layers(small_regression):
    """|w|^2 / rate_w - |a|^2 / rate_a is conserved by linear units, for each neuron.

    By implicit steps; explicit ones have such a test in test_regimes.py.
    """
    units, rates = sw.units.Dense(3, "linear"), {"w": 0.2, "a": 3.0}
    path = sw.train(small_regression, units, 0.3, solver="implicit", rates=rates, max_time=5.0)
    w, a = path.parameters[..., :3], path.parameters[..., 3:]
    balance = np.sum(w**2, axis=2) / 0.2 - np.sum(a**2, axis=2) / 3.0
    assert np.abs(path.parameters[-1] - path.parameters[0]).max() > 0.1
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
        (lambda: sw.units.Dense(0), "whole number of at least 1; got 0"),
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


@pytest.mark.parametrize("activation", ["relu", "tanh", "quadratic"])
def test_a_bias_is_one_more_input_that_is_always_1(activation):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    biased = sw.Problem(sw.tasks.from_arrays(x, y), sw.units.Dense(3, activation, bias=True))
    ones = sw.tasks.from_arrays(np.c_[x, np.ones(12)], y)
    plain = sw.Problem(ones, sw.units.Dense(3, activation))
    theta = rng.normal(size=(3, 5))
    assert biased.degree == plain.degree
    assert biased.relations() == plain.relations()
    with sw.float64():
        np.testing.assert_allclose(biased.loss(theta), plain.loss(theta), rtol=1e-14)
        np.testing.assert_allclose(biased.velocity(theta), plain.velocity(theta), rtol=1e-12)
        np.testing.assert_allclose(biased.squares(theta), plain.squares(theta), rtol=1e-14)
    kernels = [sw.diagnose.tangent_kernel(problem, theta) for problem in (biased, plain)]
    np.testing.assert_allclose(*kernels, rtol=1e-12)


def test_biases_are_those_of_pytorch():
    """Hidden and output biases of a deep network: loss and gradients against torch."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    layers = (sw.units.Dense(4, "tanh", bias=True), sw.units.Dense(3, "relu", bias=True))
    problem = sw.Problem(sw.tasks.from_arrays(x, y), sw.units.Deep(layers, output_bias=True))
    theta = rng.normal(size=(1, problem.size))
    linear = [torch.nn.Linear(*sizes, dtype=torch.float64) for sizes in ((2, 4), (4, 3), (3, 2))]
    order = ["w1", "b1", "w2", "b2", "readout", "bias"]
    with sw.float64():
        weights = {name: np.array(value[0]) for name, value in problem.weights(theta).items()}
        velocity = {
            name: np.array(v[0]) for name, v in problem.weights(problem.velocity(theta)).items()
        }
        loss = float(problem.loss(theta))
    held = [p for layer in linear for p in layer.parameters()]
    for name, parameter in zip(order, held, strict=True):
        parameter.data = torch.from_numpy(weights[name])
    hidden = torch.relu(linear[1](torch.tanh(linear[0](torch.from_numpy(x)))))
    theirs = 0.5 * ((linear[2](hidden) - torch.from_numpy(y)) ** 2).sum(1).mean()
    theirs.backward()
    assert loss == pytest.approx(theirs.item(), rel=1e-12)
    for name, parameter in zip(order, held, strict=True):
        np.testing.assert_allclose(-velocity[name], parameter.grad.numpy(), rtol=1e-10, atol=1e-13)
    flat = lambda th: problem.function(th.reshape(1, -1)).ravel()  # noqa: E731
    with sw.float64():
        jacobian = np.asarray(jax.jacrev(flat)(jnp.asarray(theta[0])))
    kernel = sw.diagnose.tangent_kernel(problem, theta)
    np.testing.assert_allclose(
        np.asarray(kernel).ravel(), (jacobian @ jacobian.T).ravel(), rtol=1e-9, atol=1e-12
    )


def test_linear_neurons_take_a_column_of_ones():
    with pytest.raises(sw.InputError, match="a column of ones"):
        sw.units.Dense(3, "linear", bias=True)

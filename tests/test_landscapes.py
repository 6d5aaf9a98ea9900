"""Any network as a function of its weights: against dense derivatives, and nothing is changed."""

import copy

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.landscape import FunctionLandscape, landscape_of
from saddlewalk.landscape.hidden import hidden_layers

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # threads cost more than these networks
nn = torch.nn

from saddlewalk.landscape import ModuleLandscape  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


class Attends(nn.Module):
    """Fused attention, whose kernels have no second derivative."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(3, 9), nn.Linear(3, 2)

    def forward(self, x):
        q, k, v = self.qkv(x.reshape(len(x), 2, 3)).chunk(3, dim=-1)
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v)[:, -1])


class Reads(nn.Module):
    """A recurrent network that returns a pair."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRU(2, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, x):
        states, last = self.cell(x.reshape(len(x), 3, 2))
        return self.out(states[:, -1]), last


NETWORKS = {
    "tanh": lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)),
    "normalized": lambda: nn.Sequential(
        nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2)
    ),
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 3), nn.GELU(), nn.Flatten(), nn.Linear(12, 2)
    ),
    "attention": Attends,
    "transformer": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 2)), nn.TransformerEncoderLayer(2, 1, 4, batch_first=True), nn.Flatten(),
        nn.Linear(6, 2),
    ),
    "recurrent": Reads,
}  # fmt: skip


def make(name, dtype=torch.float64):
    torch.manual_seed(0)
    return NETWORKS[name]().to(dtype)


def probe(dtype=torch.float64):
    draw = torch.Generator().manual_seed(1)
    return (
        torch.randn(7, 6, generator=draw, dtype=dtype),
        torch.randn(7, 2, generator=draw, dtype=dtype),
    )


def first(answer):
    return answer[0] if isinstance(answer, tuple) else answer


def dense(module, x, y, loss):
    """Gradient, Hessian and Jacobian by finite differences of PyTorch's own first derivatives."""
    quiet = copy.deepcopy(module).eval()
    parts = list(quiet.parameters())

    def at(flat):
        start = 0
        for part in parts:
            stop = start + part.numel()
            part.data = torch.from_numpy(flat[start:stop]).reshape(part.shape)
            start = stop

    def gradient(flat):
        at(flat)
        found = torch.autograd.grad(loss(first(quiet(x)), y), parts, allow_unused=True)
        return np.concatenate(
            [
                np.zeros(p.numel()) if g is None else g.reshape(-1).numpy()
                for g, p in zip(found, parts, strict=True)
            ]
        )

    def outputs(flat):
        at(flat)
        return first(quiet(x)).detach().numpy().ravel()

    w = np.concatenate([p.detach().numpy().ravel() for p in parts])
    step = 1e-5 * np.eye(len(w))
    hessian = [(gradient(w + e) - gradient(w - e)) / 2e-5 for e in step]
    jacobian = [(outputs(w + e) - outputs(w - e)) / 2e-5 for e in step]
    return gradient(w), np.array(hessian), np.array(jacobian).T


@pytest.mark.parametrize("name", NETWORKS)
def test_derivatives_of_modules(name):
    module, (x, y) = make(name), probe()
    loss = nn.MSELoss()
    slope, hessian, jacobian = dense(module, x, y, loss)
    place = ModuleLandscape(module, (x, y), loss)
    w = place.weights
    value, gradient = place.loss_and_gradient(w)
    assert value == pytest.approx(loss(first(module.eval()(x)), y).item(), rel=1e-12)
    np.testing.assert_allclose(gradient, slope, atol=1e-12)
    rng = np.random.default_rng(0)
    v, u = rng.normal(size=place.size), rng.normal(size=(7, 2))
    near = {"rtol": 1e-6, "atol": 1e-7}
    np.testing.assert_allclose(place.hessian_product(w, v), hessian @ v, **near)
    np.testing.assert_allclose(place.outputs_along(w, v).ravel(), jacobian @ v, **near)
    np.testing.assert_allclose(place.weights_along(w, u), jacobian.T @ u.ravel(), **near)
    np.testing.assert_allclose(place.jacobian(w), jacobian, **near)
    np.testing.assert_allclose(place.jacobian(w, slice(2, 4)), jacobian[4:8], **near)
    change = (
        place.cost(place.outputs(w) + 1e-6 * u) - place.cost(place.outputs(w) - 1e-6 * u)
    ) / 2e-6
    assert -np.sum(place.residual(place.outputs(w)) * u) == pytest.approx(change, rel=1e-6)


def test_jax_against_its_own_dense_derivatives():
    def network(tree, one):
        return jnp.tanh(one @ tree["w"]) @ tree["a"] * tree["scale"]

    rng = np.random.default_rng(0)
    tree = {"w": rng.normal(size=(3, 4)), "a": rng.normal(size=(4, 2)), "scale": 1.3, "count": 7}
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    place = FunctionLandscape(network, tree, (x, y), "squared")
    assert place.names == ("a", "scale", "w")
    w, v = place.weights, rng.normal(size=place.size)
    with sw.float64():
        plain = lambda w: network_of(w, network, x)  # noqa: E731
        hessian = np.asarray(jax.hessian(plain_loss(plain, y))(w))
        slope = np.asarray(jax.grad(plain_loss(plain, y))(w))
        jacobian = np.asarray(jax.jacobian(plain)(w)).reshape(10, -1)
        value = float(plain_loss(plain, y)(w))
    assert place.loss(w) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(place.loss_and_gradient(w)[1], slope, rtol=1e-10)
    np.testing.assert_allclose(place.hessian_product(w, v), hessian @ v, rtol=1e-8)
    np.testing.assert_allclose(place.jacobian(w), jacobian, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(place.outputs_along(w, v).ravel(), jacobian @ v, rtol=1e-9)
    assert place.tree_of(w)["count"] == 7
    assert not jax.config.read("jax_enable_x64")
    kept = FunctionLandscape(network, tree, (x, y), "squared", frozen=("a", "scale"))
    assert kept.names == ("w",)


def network_of(w, network, x):
    tree = {"a": w[:8].reshape(4, 2), "scale": w[8], "w": w[9:].reshape(3, 4)}
    return jax.vmap(lambda one: network(tree, one))(x)


def plain_loss(outputs, y):
    return lambda w: jnp.mean(0.5 * jnp.sum((outputs(w) - y) ** 2, axis=1))


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_torch_and_jax_agree(loss):
    ours = eqx.nn.MLP(6, 3, 4, 1, activation=jnp.tanh, key=jax.random.key(0))
    theirs = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    x = probe()[0].numpy()
    y = np.arange(7) % 3 if loss == "cross-entropy" else np.eye(3)[np.arange(7) % 3]
    one = landscape_of(ours, (x, y), loss)
    other = landscape_of(theirs, (x, y), loss)
    w = np.random.default_rng(0).normal(size=one.size)
    v = np.random.default_rng(1).normal(size=one.size)
    assert one.size == other.size
    assert [p.shape for p in one.parameters] == [p.shape for p in other.parameters]
    np.testing.assert_allclose(one.outputs(w), other.outputs(w), rtol=1e-10)
    assert one.loss(w) == pytest.approx(other.loss(w), rel=1e-12)
    np.testing.assert_allclose(
        one.loss_and_gradient(w)[1], other.loss_and_gradient(w)[1], rtol=1e-9, atol=1e-14
    )
    np.testing.assert_allclose(one.hessian_product(w, v), other.hessian_product(w, v), rtol=1e-9)
    np.testing.assert_allclose(one.jacobian(w), other.jacobian(w), rtol=1e-9, atol=1e-14)
    names = (
        [layer.width for layer in hidden_layers(one)],
        [layer.width for layer in hidden_layers(other)],
    )
    assert names == ([4], [4])


# --- nothing is changed -----------------------------------------------------------------------------


def trained(look):
    """Ten steps of a network with everything that could be disturbed."""
    module, (x, y) = make("normalized", torch.float32), probe(torch.float32)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    place = ModuleLandscape(module, (x, y), nn.MSELoss())
    for _ in range(10):
        optimizer.zero_grad()
        nn.MSELoss()(module(x), y).backward()
        if look:
            w = place.weights
            place.loss_and_gradient(w)
            place.hessian_product(w, w)
            place.jacobian(w)
            hidden_layers(place)
        optimizer.step()
    return module


def test_a_training_that_is_looked_at_is_the_same_bit_for_bit():
    one, other = trained(False), trained(True)
    for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(one[0].weight.grad, other[0].weight.grad)


@pytest.mark.parametrize("training", [False, True])
def test_modes_buffers_and_random_numbers_stay(training):
    module, data = make("normalized"), probe()
    module.train()
    module[3].eval()
    before = [part.training for part in module.modules()]
    buffers = {name: one.clone() for name, one in module.named_buffers()}
    state = torch.get_rng_state()
    place = ModuleLandscape(module, data, "squared", training=training)
    one, other = place.outputs(place.weights), place.outputs(place.weights)
    np.testing.assert_array_equal(one, other)
    place.hessian_product(place.weights, place.weights)
    assert [part.training for part in module.modules()] == before
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one, buffers[name]) for name, one in module.named_buffers())
    assert all(p.grad is None and p.requires_grad for p in module.parameters())
    calm = module.eval()(data[0]).detach().numpy()
    assert np.allclose(one, calm) is not training


def test_precision_is_the_modules_unless_asked():
    module, data = make("tanh", torch.float32), probe(torch.float32)
    place = ModuleLandscape(module, data, "squared")
    np.testing.assert_array_equal(place.outputs(place.weights), module(data[0]).detach().double())
    assert place.rounding == pytest.approx(1.2e-7, rel=0.1)
    double = ModuleLandscape(module, data, "squared", dtype=torch.float64)
    assert module[0].weight.dtype == torch.float32
    exact = copy.deepcopy(module).double()(data[0].double()).detach()
    np.testing.assert_allclose(double.outputs(double.weights), exact, rtol=1e-14)


def test_frozen_and_compiled_and_wrapped_modules():
    module, data = make("tanh"), probe()
    module[0].requires_grad_(False)
    place = ModuleLandscape(module, data, "squared")
    assert place.names == ("2.weight", "2.bias")
    wrapped = torch.nn.DataParallel(torch.compile(module, backend="eager"))
    other = ModuleLandscape(wrapped, data, "squared")
    assert other.names == place.names
    np.testing.assert_array_equal(other.weights_of(wrapped.state_dict()), place.weights)


def test_weights_follow_the_module_and_go_both_ways():
    module, data = make("tanh"), probe()
    place = ModuleLandscape(module, data, "squared")
    before = place.weights
    with torch.no_grad():
        module[0].bias += 1.0
    parts = place.split(place.weights - before)
    np.testing.assert_allclose(parts["0.bias"], 1.0)
    np.testing.assert_array_equal(place.join(place.split(before)), before)


# --- bad input --------------------------------------------------------------------------------------


def refused(match, module=None, data=None, loss="squared", **options):
    with pytest.raises(sw.InputError, match=match):
        ModuleLandscape(module or make("tanh"), probe() if data is None else data, loss, **options)


def test_bad_probes_losses_and_modules_are_refused():
    x, y = probe()
    refused(r"does not take the inputs of the probe, \(7, 5\)", data=(x[:, :5], y))
    refused(r"torch.float64, on cpu.*of torch.float32", data=(x.float(), y))
    refused("are on meta, the module is on cpu", data=(x.to("meta"), y))
    refused("NaN", data=(x * np.nan, y))
    refused("pair", data=x)
    refused("must hold numbers", data=(np.array(["a"]), y))
    refused(r"must be one number.*\(7, 2\).*mean", loss=nn.MSELoss(reduction="none"))
    refused("must be one number", loss=lambda f, y: 0.0)
    refused("Did you mean 'squared'", loss="squarred")
    refused("must be a function", loss=3)
    refused(r"does not take outputs of shape \(7, 2\)", loss=nn.CrossEntropyLoss(), data=(x, y[:3]))
    frozen = make("tanh").requires_grad_(False)
    refused("All parameters are frozen", module=frozen)
    refused("no tensor", select=lambda answer: 3.0)
    with pytest.raises(sw.InputError, match=r"torch.nn.Module; got str"):
        ModuleLandscape("network", (x, y), "squared")
    place = ModuleLandscape(make("tanh"), (x, y), "squared")
    with pytest.raises(sw.InputError, match=r"one vector of 38 numbers; got \(3,\)"):
        place.loss(np.zeros(3))
    with pytest.raises(sw.InputError, match=r"no '0.weight'"):
        place.weights_of({"other": 1})
    cut = ModuleLandscape(make("tanh"), (x, y), lambda f, y: torch.tensor(1.0, dtype=torch.float64))
    with pytest.raises(sw.InputError, match="cuts the graph"):
        cut.loss_and_gradient(cut.weights)


def test_bad_input_of_jax():
    network = lambda tree, x: tree @ x  # noqa: E731
    x, y = np.ones((4, 3)), np.ones((4, 2))
    tree = np.ones((2, 3))
    with pytest.raises(sw.InputError, match="does not take one input"):
        FunctionLandscape(network, tree, (x[:, :2], y), "squared")
    with pytest.raises(sw.InputError, match="4 inputs and 3 targets"):
        FunctionLandscape(network, tree, (x, y[:3]), "squared")
    with pytest.raises(sw.InputError, match=r"shape \(4,\)"):
        FunctionLandscape(network, tree, (x, y), lambda f, y: jnp.sum((f - y) ** 2, axis=1))
    with pytest.raises(sw.InputError, match="frozen"):
        FunctionLandscape(network, np.ones((2, 3), dtype=int), (x, y), "squared")
    with pytest.raises(sw.InputError, match="no parameter 'b'"):
        FunctionLandscape(network, tree, (x, y), "squared", frozen=("b",))
    with pytest.raises(sw.InputError, match="a PyTorch module, an Equinox module"):
        landscape_of("network", (x, y), "squared")

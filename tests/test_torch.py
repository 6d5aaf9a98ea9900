"""The balance of PyTorch networks: functions stay, balances are what was asked for."""

import numpy as np
import pytest

import saddlewalk as sw

torch = pytest.importorskip("torch")
torch.set_num_threads(1)  # threads cost more than these networks
nn = torch.nn

from saddlewalk.balance import rescaled  # noqa: E402
from saddlewalk.torch import conserved_deltas, rescale_layers, rescale_units  # noqa: E402


def two_layers(bias=False):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8, bias=bias), nn.ReLU(), nn.Linear(8, 2)).double()


def convolutional():
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 6), nn.ReLU(),
        nn.Linear(6, 3),
    ).double()  # fmt: skip
    nn.init.zeros_(net[4].bias)
    return net


@pytest.mark.parametrize("alpha", [0.2, 5.0])
def test_first_and_last_layer(alpha):
    net, x = convolutional(), torch.randn(5, 1, 8, 8, dtype=torch.float64)
    before, weight = net(x), net[0].weight.detach().clone()
    after = rescale_layers(net, alpha=alpha)(x)
    torch.testing.assert_close(after, before, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(net[0].weight * alpha, weight)


@pytest.mark.parametrize("delta", [-2.0, 0.0, 0.5])
def test_delta_of_each_neuron(delta):
    net, x = two_layers(), torch.randn(7, 3, dtype=torch.float64)
    before = net(x)
    torch.testing.assert_close(rescale_units(net, delta=delta)(x), before, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(conserved_deltas(net), torch.full((8,), delta, dtype=torch.float64))


def test_same_as_in_this_package():
    net = two_layers()
    theta = np.concatenate(
        [net[0].weight.detach().numpy(), net[2].weight.detach().numpy().T], axis=1
    )
    x = np.random.default_rng(0).normal(size=(6, 3))
    problem = sw.Problem(sw.tasks.from_arrays(x, x[:, :2]), sw.units.Dense(8, "relu"),
                         rates={"w": 2.0, "a": 0.5})  # fmt: skip
    rescale_units(net, tau=0.3, delta=0.4, rates=(0.5, 2.0))
    expected = rescaled(problem, theta, tau=0.3, delta=0.4)
    np.testing.assert_allclose(net[0].weight.detach().numpy(), expected[:, :3], rtol=1e-10)
    np.testing.assert_allclose(net[2].weight.detach().numpy().T, expected[:, 3:], rtol=1e-10)


def test_small_steps_keep_delta_and_large_ones_do_not():
    drifts = []
    for rate in (2e-2, 2e-3):
        net, x = two_layers(), torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator())
        start = conserved_deltas(net).detach()
        optimizer = torch.optim.SGD(net.parameters(), lr=rate)
        for _ in range(round(1 / rate)):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x), x[:, :2]).backward()
            optimizer.step()
        drifts.append(float((conserved_deltas(net) - start).abs().max()))
    assert drifts[1] < 0.2 * drifts[0]


def test_refusals():
    with pytest.raises(sw.InputError, match="Tanh is not positively homogeneous"):
        rescale_layers(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)), alpha=2.0)
    with pytest.raises(sw.InputError, match="alpha must be positive"):
        rescale_layers(two_layers(), alpha=0.0)
    with pytest.raises(sw.InputError, match="no layer 'head'"):
        rescale_layers(two_layers(), alpha=2.0, last="head")
    with pytest.raises(sw.InputError, match="at least two"):
        rescale_layers(nn.Linear(2, 2), alpha=2.0)
    net = convolutional()
    nn.init.ones_(net[4].bias)
    with pytest.raises(sw.InputError, match="bias of '4'"):
        rescale_layers(net, alpha=2.0)
    with pytest.raises(sw.InputError, match="counts it as an incoming weight"):
        rescale_units(two_layers(bias=True), delta=1.0)
    with pytest.raises(sw.InputError, match="two linear layers"):
        rescale_units(convolutional(), delta=1.0)
    with pytest.raises(sw.InputError, match="two linear layers"):
        conserved_deltas(convolutional())
    with pytest.raises(sw.InputError, match="Tanh is not positively homogeneous"):
        rescale_units(
            nn.Sequential(nn.Linear(2, 2, bias=False), nn.Tanh(), nn.Linear(2, 1)), delta=1.0
        )
    with pytest.raises(sw.InputError, match="two positive numbers"):
        conserved_deltas(two_layers(), rates=(-1.0, 1.0))


class Hidden(nn.Module):
    """A network whose forward pass does more than its modules say."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4, bias=False), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def test_an_example_shows_what_modules_hide():
    net, x = Hidden().double(), torch.randn(5, 3, dtype=torch.float64)
    before = net(x)
    with pytest.raises(sw.InputError, match="outputs change"):
        rescale_layers(net, alpha=3.0, example=x)
    torch.testing.assert_close(net(x), before)  # and nothing is left behind
    rescale_layers(convolutional(), alpha=3.0, example=torch.randn(2, 1, 8, 8, dtype=torch.float64))


def test_all_layers_by_tau():
    net, x = two_layers(), torch.randn(5, 3, dtype=torch.float64)
    nn.init.zeros_(net[2].bias)
    before = net(x)
    torch.testing.assert_close(rescale_layers(net, tau=2.0)(x), 4 * before)


def test_a_bias_is_an_incoming_weight():
    """Under small steps delta with the bias is kept, without it not."""
    torch.manual_seed(3)
    net = two_layers(bias=True)
    start = conserved_deltas(net)
    x = torch.randn(20, 3, dtype=torch.float64)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    biased = net[0].bias.detach().square().clone()
    for _ in range(500):
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), x[:, :2] ** 2).backward()
        optimizer.step()
    moved = (net[0].bias.detach().square() - biased).abs().max()
    assert (conserved_deltas(net) - start).abs().max() < 0.1 * moved


class Functional(torch.nn.Module):
    """An activation that no registered module shows."""

    def __init__(self, activation):
        super().__init__()
        self.first, self.second = (
            torch.nn.Linear(3, 5, bias=False),
            torch.nn.Linear(5, 2, bias=False),
        )
        self.activation = activation

    def forward(self, x):
        return self.second(self.activation(self.first(x)))


@pytest.mark.parametrize(
    "rescale",
    [lambda net: rescale_units(net, delta=0.5), lambda net: rescale_layers(net, alpha=3.0)],
)
def test_a_function_that_would_change_is_refused_and_left_alone(rescale):
    torch.manual_seed(0)
    net, x = Functional(torch.tanh), torch.randn(20, 3)
    before, weights = net(x), [w.clone() for w in net.parameters()]
    with pytest.raises(sw.InputError, match="homogeneous"):
        rescale(net)
    # to the last bit: multiplied and divided by 3 they are not
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), weights, strict=True))
    clipped = Functional(lambda z: torch.clamp(z, -5, 5))  # what small inputs do not tell
    with pytest.raises(sw.InputError, match="homogeneous"):
        rescale(clipped)
    good = Functional(torch.relu)
    before = good(x)
    torch.testing.assert_close(rescale(good)(x), before, rtol=1e-4, atol=1e-6)

"""The balance of PyTorch networks: functions stay, balances are what was asked for."""

import numpy as np
import pytest

import saddlewalk as sw

torch = pytest.importorskip("torch")
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
    for rate in (1e-2, 1e-3):
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

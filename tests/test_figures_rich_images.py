"""Fig 5 (a) and (b) of Get rich quick: the networks against torch, the measures against brute force."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import convolve2d, correlate2d

from saddlewalk.diagnose.tangent_kernel import kernel_distance, network_kernel
from saddlewalk.figures.networks import distances
from saddlewalk.figures.networks import filters as filter_networks
from saddlewalk.figures.networks import lenet as lenet_networks
from saddlewalk.figures.networks.runs import joined
from saddlewalk.figures.rich import filters as rich_filters
from saddlewalk.figures.rich import lenet as rich_lenet
from saddlewalk.tasks import public


@pytest.fixture
def mnist():
    if public.find_local("mnist") is None:
        pytest.skip("mnist is not on this machine (SADDLEWALK_DATA, cache)")


def pictures(count, side, colors, seed=0):
    return np.random.default_rng(seed).normal(size=(count, side, side, colors)).astype(np.float32)


def biased(network, seed=3):
    """The same weights with biases that are not zero."""
    rng = np.random.default_rng(seed)
    biases = tuple(jnp.asarray(rng.normal(size=b.shape), jnp.float32) for b in network.biases)
    return lenet_networks.LeNet(network.weights, biases)


# ---------------------------------------------------------------- LeNet-5


def torch_lenet(torch, network):
    """The same network from torch's own layers; images have their channels first there."""
    nn = torch.nn
    layers = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    w = [np.array(each) for each in network.weights]
    weights = [
        w[0].reshape(5, 5, 1, 6).transpose(3, 2, 0, 1),
        w[1].reshape(5, 5, 6, 16).transpose(3, 2, 0, 1),
        w[2].reshape(5, 5, 16, 120).transpose(2, 0, 1, 3).reshape(400, 120).T,
        w[3].T,
        w[4].T,
    ]
    trained = [layer for layer in layers if hasattr(layer, "weight")]
    with torch.no_grad():
        for layer, weight, bias in zip(trained, weights, network.biases, strict=True):
            layer.weight.copy_(torch.tensor(weight.copy()))
            layer.bias.copy_(torch.tensor(np.array(bias)))
    return layers


@pytest.mark.slow
def test_lenet_is_that_of_torch():
    torch = pytest.importorskip("torch")
    network, x = biased(lenet_networks.lenet(0)), pictures(3, 28, 1)
    other = torch_lenet(torch, network)(torch.tensor(x.transpose(0, 3, 1, 2)))
    ours = lenet_networks.respond(network, jnp.asarray(x))
    np.testing.assert_allclose(ours, other.detach().numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.1, 3.0])
def test_alpha_keeps_the_function_of_zero_biases_alone(alpha):
    x = jnp.asarray(pictures(4, 28, 1))
    plain, scaled = lenet_networks.lenet(0), lenet_networks.lenet(0, alpha)
    np.testing.assert_allclose(scaled.weights[0] * alpha, plain.weights[0], rtol=1e-5)
    np.testing.assert_allclose(scaled.weights[-1] / alpha, plain.weights[-1], rtol=1e-5)
    expected = lenet_networks.respond(plain, x)
    np.testing.assert_allclose(lenet_networks.respond(scaled, x), expected, rtol=1e-3, atol=1e-4)
    moved = lenet_networks.respond(biased(scaled), x) - lenet_networks.respond(biased(plain), x)
    assert float(jnp.abs(moved).max()) > 0.1


def active_neurons(network, image):
    """Signs of all hidden neurons, filter by filter, with scipy's correlation."""
    w, b = ([np.array(a, dtype=float) for a in each] for each in (network.weights, network.biases))
    maps, signs = [np.pad(image[:, :, 0].astype(float), 2)], []
    for k, channels in ((0, 1), (1, 6)):
        filters = w[k].reshape(5, 5, channels, -1)
        z = [
            sum(correlate2d(maps[c], filters[:, :, c, f], "valid") for c in range(channels))
            + b[k][f]
            for f in range(filters.shape[-1])
        ]
        signs.append(np.stack(z, axis=-1).ravel() > 0)
        maps = [
            np.array([[max(0.0, one[i : i + 2, j : j + 2].max()) for j in range(0, len(one), 2)]
                      for i in range(0, len(one), 2)])
            for one in z
        ]  # fmt: skip
    x = np.stack(maps, axis=-1).ravel()
    for k in (2, 3):
        z = x @ w[k] + b[k]
        signs.append(z > 0)
        x = np.maximum(z, 0)
    return np.concatenate(signs)


def test_hamming_distance_by_brute_force():
    networks, x = [biased(lenet_networks.lenet(0)), lenet_networks.lenet(1)], pictures(2, 28, 1)
    patterns = [lenet_networks.activation_patterns(network, jnp.asarray(x)) for network in networks]
    assert patterns[0].shape == (2, 6 * 28 * 28 + 16 * 10 * 10 + 120 + 84)
    flipped = sum(
        int(a != b)
        for image in x
        for a, b in zip(*(active_neurons(network, image) for network in networks), strict=True)
    )
    measured = float(distances.hamming_distance(*patterns))
    # a neuron within rounding of zero may differ
    assert measured * patterns[0].size == pytest.approx(flipped, abs=3)
    assert 0.2 < measured < 0.8
    assert float(distances.hamming_distance(patterns[0], patterns[0])) == 0.0


@pytest.mark.slow
def test_kernel_of_lenet_is_that_of_any_network():
    network, x = biased(lenet_networks.lenet(0, 2.0)), jnp.asarray(pictures(3, 28, 1))
    quick = jax.jit(lenet_networks.lenet_kernel)(network, x).reshape(30, 30)
    slow = network_kernel(lambda net, one: lenet_networks.respond(net, one[None])[0], network, x)
    np.testing.assert_allclose(quick, slow, rtol=2e-3, atol=1e-4 * float(jnp.abs(slow).max()))


def test_distance_of_kernels_on_the_device():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 6, 6)).astype(np.float32)
    distance = float(distances.turned(jnp.asarray(first), jnp.asarray(second)))
    assert distance == pytest.approx(kernel_distance(first, second), rel=1e-5)


def test_checkpoints_need_few_programs():
    wanted, stops = rich_lenet.checkpoints(500)
    assert wanted == [0, 1, 2, 5, 10, 20, 50, 100, 200, 500]
    assert set(wanted) <= set(stops)
    assert set(np.diff(stops)) == {1, 10, 100}


def made_up_lenets(order):
    """Distances that rise with time, and with alpha if order is 1; parameters do not follow alpha."""
    alphas, steps = np.array([0.25, 1.0, 4.0]), np.array([0, 1, 10, 100])
    far = np.array([0, 0.2, 0.6, 1.0]) * (2.0 ** (order * np.arange(3)))[None, :, None]
    far = far * np.array([0.95, 1.0])[:, None, None]
    moved = np.broadcast_to([0, 0.1, 0.5, 1.0], far.shape) * np.array([[1.0], [1.4], [1.1]])
    flat = np.ones(far.shape)
    return rich_lenet.LeNetRuns(
        alphas, steps, 1e-3, 10.0, far, far / 10, far / 4, moved, flat, flat
    )


def test_claims_of_5a_can_fail(tmp_path):
    right, wrong = (made_up_lenets(order) for order in (1, -1))
    result = rich_lenet.figure_of({"adam": right, "sgd": wrong})
    result.write(tmp_path)
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    held = [claim.holds for claim in result.claims]
    assert held[:5] == [True] * 5
    assert held[5:] == [True, False, False, True, True]
    stored = json.loads((tmp_path / "result.json").read_text())["numbers"]["adam"]
    again = joined([rich_lenet.LeNetRuns.from_json(stored), wrong])
    assert again.kernel.shape == (4, 3, 4)
    np.testing.assert_array_equal(again.kernel[:2], right.kernel)


@pytest.mark.slow
def test_figure_5a_in_small(mnist, monkeypatch, tmp_path):
    small = {"alphas": (0.5, 2.0), "seeds": (0, 1), "steps": 3, "batch_size": 8, "images": 32,
             "measured": 4, "tested": 20}  # fmt: skip
    monkeypatch.setattr(rich_lenet, "REDUCED", small)
    result = rich_lenet.figure_5a()
    result.write(tmp_path)
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    assert len(result.claims) == 10
    assert all(claim.holds for claim in result.claims if "same function" in claim.statement)
    # the figure can be made again from what was written
    stored = json.loads((tmp_path / "result.json").read_text())["numbers"]
    runs = {name: rich_lenet.LeNetRuns.from_json(each) for name, each in stored.items()}
    again = rich_lenet.figure_of(runs)
    assert [claim.measured for claim in again.claims] == [claim.measured for claim in result.claims]
    for each in runs.values():
        assert each.kernel.shape == each.hamming.shape == (2, 2, 4)
        for key in ("kernel", "traced", "hamming", "parameter"):
            assert np.all(getattr(each, key)[:, :, 0] < 1e-10)
            assert np.all(getattr(each, key)[:, :, 1:] > 1e-10)
    twice = joined([runs["adam"], runs["adam"]])
    assert twice.kernel.shape == (4, 2, 4)


# ---------------------------------------------------------------- filters of 15 x 15


def test_smoothness_is_that_of_scipy():
    rng = np.random.default_rng(0)
    filters = rng.normal(size=(2, 3, 15, 15))
    lopsided = rng.normal(size=(3, 3))  # shows a convolution that is a correlation
    for kernel in (rich_filters.KERNEL, rich_filters.LAPLACIAN, lopsided):
        expected = [
            [np.sum(convolve2d(w / np.linalg.norm(w), kernel, "valid") ** 2) for w in row]
            for row in filters
        ]
        np.testing.assert_allclose(rich_filters.smoothness(filters, kernel), expected, rtol=1e-12)


def test_smoothness_of_known_filters():
    """The printed kernel sums to -1, so a constant is not perfectly smooth by it."""
    assert rich_filters.KERNEL.sum() == -1.0
    assert rich_filters.LAPLACIAN.sum() == 0.0
    constant = np.ones((15, 15))
    assert rich_filters.smoothness(constant) == pytest.approx(169 / 225)
    assert rich_filters.smoothness(constant, rich_filters.LAPLACIAN) == pytest.approx(0.0)
    assert rich_filters.smoothness(7.0 * constant) == pytest.approx(169 / 225)
    noise = np.random.default_rng(0).normal(size=(2000, 15, 15))
    expected = 169 / 225 * np.sum(rich_filters.KERNEL**2)
    assert rich_filters.smoothness(noise).mean() == pytest.approx(expected, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [1, 2])
def test_filter_network_is_that_of_torch(stride):
    torch = pytest.importorskip("torch")
    network = filter_networks.filter_net(0, 1.5, (4, 5), stride)
    x = torch.tensor(pictures(3, 32, 3).transpose(0, 3, 1, 2))
    for size, step, filters in zip((15, 3), (stride, 1), network.filters, strict=True):
        w = np.array(filters).reshape(size, size, x.shape[1], -1).transpose(3, 2, 0, 1)
        x = torch.nn.functional.conv2d(x, torch.tensor(w.copy()), stride=step, padding=size // 2)
        x = torch.nn.functional.batch_norm(x, None, None, training=True, eps=1e-5)
        x = torch.nn.functional.max_pool2d(torch.relu(x), 2)
    expected = 0.125 * x.amax(dim=(2, 3)).numpy() @ np.array(network.readout)
    ours = filter_networks.respond(network, jnp.asarray(pictures(3, 32, 3)))
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)


def test_length_of_normalized_filters_is_not_seen():
    x = jnp.asarray(pictures(3, 32, 3))
    outputs = [
        filter_networks.respond(filter_networks.filter_net(0, alpha, (4, 5), 2), x)
        for alpha in (0.1, 1.0, 10.0)
    ]
    np.testing.assert_allclose(outputs[0], outputs[1], atol=2e-3)
    np.testing.assert_allclose(outputs[2], outputs[1], atol=2e-3)


def test_moments_come_from_the_reference():
    network = filter_networks.filter_net(0, 1.0, (4, 5), 2)
    x = jnp.asarray(pictures(5, 32, 3))
    alone = filter_networks.respond(network, x[:3])
    with_others = filter_networks.respond(network, x, 3)
    np.testing.assert_allclose(with_others[:3], alone, rtol=1e-4, atol=1e-5)


def made_up_filters(order):
    """Filters that become smooth, the more the larger alpha if order is 1."""
    alphas, time = np.array([0.1, 1.0, 10.0]), np.array([0.0, 0.5, 1.0])
    fallen = (1 - time * (0.5 + 0.2 * order * np.array([[-1], [0], [1]])))[None]
    smooth = 4 * fallen * np.array([0.95, 1.0])[:, None, None]
    good = np.broadcast_to(0.1 + 0.5 * time, smooth.shape)
    pictures = np.random.default_rng(0).uniform(-1, 1, size=(3, 4, 15, 15, 3))
    return rich_filters.FilterRuns(
        alphas, time, 64, smooth, smooth, fallen * np.ones(smooth.shape), good, good, pictures
    )


def test_claims_of_5b_can_fail(tmp_path):
    right, wrong = (rich_filters.figure_of(made_up_filters(order)) for order in (1, -1))
    right.write(tmp_path)
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    assert right.verdict == "reproduced"
    assert [claim.holds for claim in wrong.claims] == [False, False, True, True]


@pytest.mark.slow
def test_figure_5b_in_small(cifar, monkeypatch, tmp_path):
    small = {"alphas": (0.1, 1.0, 10.0), "seeds": (0, 1), "widths": (4, 8), "stride": 4, "images": 64,
             "tested": 20, "batch_size": 16, "steps": 8, "looks": 2}  # fmt: skip
    monkeypatch.setattr(rich_filters, "REDUCED", small)
    result = rich_filters.figure_5b()
    result.write(tmp_path)
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    assert "64 images" in result.title
    assert len(result.claims) == 4
    # the direction shows after a few steps already
    assert [claim.holds for claim in result.claims[:2]] == [True, True]
    stored = json.loads((tmp_path / "result.json").read_text())["numbers"]
    runs = rich_filters.FilterRuns.from_json(stored)
    again = rich_filters.figure_of(runs)
    assert [claim.measured for claim in again.claims] == [claim.measured for claim in result.claims]
    assert runs.filters.shape == (3, 4, 15, 15, 3)
    assert np.all(runs.aligned[:, :, 0] == pytest.approx(1.0))
    assert joined([runs, runs]).smooth.shape == (4, 3, 3)

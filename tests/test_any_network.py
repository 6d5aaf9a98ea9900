"""Diagnoses of any network: where the answer is known, and the same as for networks that are built here."""

import copy

import equinox as eqx
import jax
import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.diagnose.landscapes.kernel import kernel_of
from saddlewalk.landscape.hidden import hidden_layers

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
nn = torch.nn

import saddlewalk.torch as st  # noqa: E402

HALF = lambda f, y: 0.5 * ((f - y) ** 2).sum(1).mean()  # noqa: E731
STRENGTHS = np.array([3.0, 2.0, 0.8])


def two_layers(hidden, readout, activation=None):
    middle = [] if activation is None else [activation]
    module = nn.Sequential(
        nn.Linear(hidden.shape[1], len(hidden), bias=False),
        *middle,
        nn.Linear(len(hidden), len(readout), bias=False),
    ).double()
    with torch.no_grad():
        module[0].weight.copy_(torch.as_tensor(hidden))
        module[-1].weight.copy_(torch.as_tensor(readout))
    return module


@pytest.fixture(scope="module")
def whitened():
    """Inputs with covariance 1, and targets S x: every saddle of two linear layers is known."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    x = x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / 40)).T
    return torch.tensor(x), torch.tensor(x * STRENGTHS)


def learned(modes, small=0.0, width=6):
    """Two linear layers that have learned so many modes, and small weights besides."""
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0][:, :3]
    root = np.sqrt(STRENGTHS) * (np.arange(3) < modes)
    noise = small * rng.normal(size=(2, width, 3))
    return two_layers(turn * root + noise[0], (turn * root + noise[1]).T)


# --- saddles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("small", [0.0, 1e-3])
@pytest.mark.parametrize("modes", [0, 1, 2])
def test_strict_saddles_of_linear_networks(whitened, modes, small):
    """After k modes the next one grows at the rate of its strength, in weights in and out alike."""
    module = learned(modes, small)
    report = st.saddle_test(module, whitened, HALF)
    assert report.kind == "strict saddle"
    assert report.escape_rate == pytest.approx(STRENGTHS[modes], rel=1e-2)
    way = st.ModuleLandscape(module, whitened, HALF).split(report.direction)
    into = np.linalg.norm(way["0.weight"], axis=0)
    assert into[modes] ** 2 == pytest.approx(0.5, abs=0.05)
    assert np.isnan(report.duration)


def test_eigenvalues_are_those_of_the_dense_hessian(whitened):
    module = learned(1, 0.3)
    place = st.ModuleLandscape(module, whitened, HALF)

    def cost(flat):
        w, a = flat[:18].reshape(6, 3), flat[18:].reshape(3, 6)
        return HALF(whitened[0] @ w.T @ a.T, whitened[1])

    dense = torch.autograd.functional.hessian(cost, torch.tensor(place.weights)).numpy()
    values = np.linalg.eigvalsh(dense)
    report = sw.diagnose.saddle_test(place, eigenvalues=4)
    np.testing.assert_allclose(report.eigenvalues, values[:4], atol=1e-4 * values[-1])
    assert report.largest_eigenvalue == pytest.approx(values[-1], rel=1e-4)


def test_minimum_and_what_is_on_its_way(whitened):
    assert st.saddle_test(learned(3), whitened, HALF).kind == "minimum"
    report = st.saddle_test(learned(3, 1e-9), whitened, HALF)
    assert report.kind == "minimum"
    assert report.duration == np.inf
    assert report.direction is None
    on_its_way = st.saddle_test(learned(3, 0.3), whitened, HALF)
    assert on_its_way.kind == "not a fixed point"
    assert np.isnan(on_its_way.escape_rate)


@pytest.mark.parametrize("size", [0.0, 0.05])
def test_degenerate_saddle_of_three_layers(whitened, size):
    torch.manual_seed(0)
    module = nn.Sequential(*(nn.Linear(3, 3, bias=False) for _ in range(3))).double()
    with torch.no_grad():
        for part in module.parameters():
            part.mul_(size)
    report = st.saddle_test(module, whitened, HALF)
    assert report.kind == "degenerate saddle"
    assert report.escape_rate == 0


def test_relu_and_quadratic_starts():
    torch.manual_seed(0)
    x = torch.randn(100, 4, dtype=torch.float64)
    y = torch.relu(x[:, :1]) - torch.relu(x[:, 1:2]) + x[:, 2:3] ** 2
    rng = np.random.default_rng(0)
    hidden, readout = 1e-3 * rng.normal(size=(8, 4)), 1e-3 * rng.normal(size=(1, 8))
    relu = two_layers(hidden, readout, nn.ReLU())
    report, problem = st.saddle_test(relu, (x, y), HALF), st.as_problem(relu, (x, y), HALF)
    assert report.kind == "strict saddle"
    # the fastest of these units, by the machinery for sums of units
    known = sw.diagnose.saddle_test(problem.problem, problem.weights, progress=False)
    assert known.kind == report.kind
    assert report.escape_rate == pytest.approx(-known.eigenvalues[0], rel=0.02)

    class Square(nn.Module):
        def forward(self, z):
            return z**2

    square = two_layers(30 * hidden, 30 * readout, Square())
    assert st.saddle_test(square, (x, y), HALF).kind == "degenerate saddle"


def test_cross_entropy_has_no_minimum_on_separable_data():
    x = torch.tensor([[1.0, 0.2], [0.8, -0.3], [-1.1, 0.1], [-0.9, 0.4]], dtype=torch.float64)
    labels = torch.tensor([0, 0, 1, 1])
    rng = np.random.default_rng(0)
    module = two_layers(rng.normal(size=(4, 2)), rng.normal(size=(2, 4)), nn.Tanh())
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    for _ in range(5_000):
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(module(x), labels).backward()
        optimizer.step()
    report = st.saddle_test(module, (x, labels), nn.CrossEntropyLoss())
    assert report.kind == "no finite minimum"


def test_bad_arguments(whitened):
    place = st.ModuleLandscape(learned(1), whitened, HALF)
    for wrong in ({"eigenvalues": 0}, {"scale": -1.0}, {"limit": 0.0}, {"at": 3}):
        with pytest.raises(sw.InputError):
            sw.diagnose.saddle_test(place, **wrong)
    with pytest.raises(sw.InputError, match="NaN"):
        sw.diagnose.saddle_test(place, np.full(place.size, np.nan))
    report = sw.diagnose.saddle_test(place, limit=1e-9)
    assert report.kind == "not decided"


# --- widths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "name", "relation"),
    [
        (nn.Tanh(), "tanh", "equal"),
        (nn.ReLU(), "relu", "proportional"),
        (None, "linear", "dependent"),
    ],
)
def test_units_that_were_copied_by_hand(activation, name, relation):
    rng = np.random.default_rng(0)
    w, a = rng.normal(size=(2, 3)), rng.normal(size=(1, 2))
    factor = 1.0 if name == "tanh" else 2.0
    hidden = np.vstack([w, factor * w, np.zeros((1, 3)), rng.normal(size=(1, 3))])
    readout = np.hstack([0.5 * a, 0.5 * a / factor, rng.normal(size=(1, 1)), np.zeros((1, 1))])
    module = two_layers(hidden, readout, activation)
    x = torch.tensor(rng.normal(size=(50, 3)))
    y = module(x).detach() + 0.03 * torch.tensor(rng.normal(size=(50, 1)))
    found = st.effective_widths(module, (x, y), HALF)["0"]
    problem = st.as_problem(module, (x, y), HALF)
    known = sw.diagnose.effective_width(problem.problem, problem.weights)
    assert (found.width, found.relation) == (1 if name == "linear" else 2, relation)
    assert found.width == known.width
    if name != "linear":  # of which the moments know the loss that no network avoids
        assert found.tolerance == pytest.approx(known.tolerance, rel=1e-6)


def test_every_layer_of_a_deep_network_and_of_equinox():
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1)
    ).double()
    with torch.no_grad():
        module[0].weight[3:], module[0].bias[3:] = module[0].weight[:3], module[0].bias[:3]
        module[4].weight[:, 2:] = 0
    x = torch.randn(50, 3, dtype=torch.float64)
    y = module(x).detach() + 0.05 * torch.randn(50, 1, dtype=torch.float64)
    widths = st.effective_widths(module, (x, y), nn.MSELoss(), tolerance=1e-12)
    assert {name: one.width for name, one in widths.items()} == {"0": 3, "2": 2}
    ours = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))
    place = sw.diagnose.landscape_of(ours, (x.numpy(), y.numpy()), "squared")
    assert list(sw.diagnose.effective_widths(place)) == ["layers.0"]
    with pytest.raises(sw.InputError, match=r"Known: layers\.0"):
        sw.diagnose.effective_width(place, layer="3")


def test_a_network_without_hidden_layers_is_told():
    x = torch.randn(10, 3)
    assert st.effective_widths(nn.Linear(3, 2), (x, x[:, :2]), "squared") == {}
    with pytest.raises(sw.InputError, match="no hidden layer"):
        sw.diagnose.effective_width(st.ModuleLandscape(nn.Linear(3, 2), (x, x[:, :2]), "squared"))


# --- kernels, regimes, what is conserved ------------------------------------------------------------


def test_tangent_kernel_and_its_distance(whitened):
    x, y = whitened
    rng = np.random.default_rng(0)
    module = two_layers(rng.normal(size=(5, 3)), rng.normal(size=(3, 5)), nn.Tanh())
    parts = [
        torch.cat(
            [
                g.reshape(-1)
                for g in torch.autograd.grad(one, module.parameters(), retain_graph=True)
            ]
        )
        for one in module(x[:6]).reshape(-1)
    ]
    jacobian = torch.stack(parts).numpy()
    kernel = st.tangent_kernel(module, x[:6])
    np.testing.assert_allclose(kernel, jacobian @ jacobian.T, rtol=1e-10)
    problem = st.as_problem(module, (x, y), HALF)
    known = sw.diagnose.tangent_kernel(problem.problem, problem.weights, x=x[:6].numpy())
    np.testing.assert_allclose(kernel, known, rtol=1e-10)
    place = st.ModuleLandscape(module, (x[:6], y[:6]), HALF)
    np.testing.assert_allclose(kernel_of(place, place.weights, room=0), kernel, rtol=1e-9)
    traced = sw.diagnose.tangent_kernel(place, traced=True)
    np.testing.assert_allclose(
        traced, kernel.reshape(6, 3, 6, 3).trace(axis1=1, axis2=3), rtol=1e-10
    )
    before = copy.deepcopy(module.state_dict())
    assert st.kernel_distance(module, x, before) == 0
    with torch.no_grad():
        module[0].weight.mul_(3.0)
    other = st.tangent_kernel(module, x)
    module.load_state_dict(before)
    expected = sw.diagnose.kernel_distance(st.tangent_kernel(module, x), other)
    moved = {name: 3.0 * one if name == "0.weight" else one for name, one in before.items()}
    assert st.kernel_distance(module, x, before, moved) == pytest.approx(expected, rel=1e-9)


def train(module, x, y, rate, steps, keep):
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    states = []
    for step in range(steps + 1):
        if step % keep == 0:
            states.append(copy.deepcopy(module.state_dict()))
        optimizer.zero_grad()
        HALF(module(x), y).backward()
        optimizer.step()
    return states, rate * keep * np.arange(len(states))


def test_lazy_and_rich():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(20, 3)))
    y = torch.tanh(x[:, :1] - x[:, 1:2])
    wide = two_layers(rng.normal(size=(400, 3)), rng.normal(size=(1, 400)), nn.Tanh())
    with torch.no_grad():
        wide[-1].weight[:, 200:] = -wide[-1].weight[:, :200]
        wide[0].weight[200:] = wide[0].weight[:200]
    states, times = train(wide, x, y, 2e-3, 200, 50)
    lazy = st.find_regime(wide, (x, y), HALF, states, times=times)
    assert lazy.name == "lazy"
    assert lazy.conserved == {}
    narrow = two_layers(0.1 * rng.normal(size=(5, 3)), 0.1 * rng.normal(size=(1, 5)), nn.ReLU())
    states, times = train(narrow, x, y, 0.05, 600, 60)
    rich = st.find_regime(narrow, (x, y), HALF, states, times=times)
    assert rich.name == "rich"
    assert list(rich.conserved) == ["0"]
    assert rich.data["loss"][-1] < 0.2 * rich.data["loss"][0]
    two = st.find_regime(narrow, (x, y), HALF, [states[0], narrow])
    assert np.isnan(two.delay)
    assert two.to_json()["delay"] is None
    with pytest.raises(sw.InputError, match="two states or more"):
        st.find_regime(narrow, (x, y), HALF, states[:1])
    with pytest.raises(sw.InputError, match="rising numbers"):
        st.find_regime(narrow, (x, y), HALF, states[:2], times=[1.0, 1.0])


def test_what_is_conserved():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(20, 3)))
    y = torch.relu(x[:, :1])
    module = two_layers(rng.normal(size=(5, 3)), rng.normal(size=(1, 5)), nn.ReLU())
    found = st.conserved_quantities(module, x)["0"]
    np.testing.assert_allclose(found.deltas, st.conserved_deltas(module), rtol=1e-12)
    assert found.matrix is None
    drifts = []
    for rate in (0.02, 0.01):
        again = copy.deepcopy(module)
        states, times = train(again, x, y, rate, int(4 / rate), int(1 / rate))
        drifts.append(st.conserved_drift(again, x, states, times=times).largest)
    assert drifts[0] / drifts[1] == pytest.approx(2.0, rel=0.1)  # the square of the rate, a step
    with pytest.raises(sw.InputError, match="not homogeneous"):
        st.conserved_quantities(two_layers(rng.normal(size=(5, 3)), np.ones((1, 5)), nn.Tanh()), x)
    with pytest.raises(sw.InputError, match="no hidden layer"):
        st.conserved_quantities(nn.Linear(3, 2).double(), x)


def test_hidden_layers_of_many_kinds():
    def found(module, x):
        place = st.ModuleLandscape(module.double(), (x, x[:, 0]), lambda f, y: f.sum())
        return {
            one.name: (one.width, one.degree, one.parity, str(one.relations[-1]))
            for one in hidden_layers(place)
        }

    torch.manual_seed(0)
    flat = torch.randn(20, 5, dtype=torch.float64)
    deep = nn.Sequential(
        nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 4), nn.Linear(4, 2)
    )
    assert found(deep, flat) == {
        "0": (6, 1, 0, "proportional"), "2": (6, None, -1, "zero"), "4": (4, 1, -1, "dependent")
    }  # fmt: skip
    images = torch.randn(20, 1, 8, 8, dtype=torch.float64)
    convolutional = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 2),
        nn.Flatten(),
        nn.Linear(20, 3),
    )
    assert found(convolutional, images) == {
        "0": (4, 1, 0, "proportional"),
        "3": (5, 1, -1, "dependent"),
    }
    normalized = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 2))
    assert found(normalized, flat) == {}
    tokens = torch.randn(10, 4, 8, dtype=torch.float64)
    block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    assert found(block, tokens) == {"linear1": (16, 1, 0, "proportional")}

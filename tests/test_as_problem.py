"""Modules that are a sum of units: the same answers, the same gradients, forecasts of their own training."""

import warnings

import jax
import numpy as np
import pytest

import saddlewalk as sw

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
nn = torch.nn
F = nn.functional

from saddlewalk.landscape.recognized import two_layers  # noqa: E402
from saddlewalk.torch import as_problem  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:The output bias is trained")


class Written(nn.Module):
    """Two layers in one's own words."""

    def __init__(self, forward, *shapes):
        super().__init__()
        self.p = nn.ParameterList([nn.Parameter(torch.randn(shape)) for shape in shapes])
        self.steps = forward

    def forward(self, x):
        return self.steps(x, *[self.p[k] for k in range(len(self.p))])


def squared(z):
    return z * z


def pair(activation, bias=True, out=True):
    return nn.Sequential(nn.Linear(6, 5, bias=bias), activation, nn.Linear(5, 2, bias=out))


def pictures(*layers):
    return nn.Sequential(*layers)


MODULES = {
    "relu": lambda: pair(nn.ReLU()),
    "no bias": lambda: pair(nn.ReLU(), False, False),
    "leaky": lambda: pair(nn.LeakyReLU()),
    "leaky 0.2": lambda: pair(nn.LeakyReLU(0.2)),
    "tanh": lambda: pair(nn.Tanh()),
    "sigmoid": lambda: pair(nn.Sigmoid()),
    "gelu": lambda: pair(nn.GELU()),
    "gelu by tanh": lambda: pair(nn.GELU(approximate="tanh")),
    "silu": lambda: pair(nn.SiLU()),
    "softplus": lambda: pair(nn.Softplus()),
    "linear": lambda: nn.Sequential(nn.Linear(6, 5, bias=False), nn.Linear(5, 2, bias=False)),
    "linear with biases": lambda: nn.Sequential(nn.Linear(6, 5), nn.Identity(), nn.Linear(5, 2)),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(6, 5)), pair(nn.Tanh())[1:]),
    "square": lambda: Written(lambda x, w, a: (x @ w.T) ** 2 @ a, (5, 6), (5, 2)),
    "product": lambda: Written(lambda x, w, a: F.linear(squared(F.linear(x, w)), a), (5, 6), (2, 5)),
    "cube": lambda: Written(lambda x, w, a: torch.pow(x @ w, 3) @ a.T, (6, 5), (2, 5)),
    "mean field": lambda: Written(
        lambda x, w, a: torch.relu(x / 2 @ w.T * 0.5) @ a / 5, (5, 6), (5, 2)
    ),
    "added biases": lambda: Written(
        lambda x, w, b, a, c: 3 * (torch.sin(x @ w + b) @ a + c), (6, 5), (5,), (5, 2), (2,)
    ),
}  # fmt: skip
IMAGES = {
    "flat": lambda: pictures(nn.Conv1d(1, 3, 2, stride=2, bias=False), nn.ReLU(), nn.Flatten(),
                             nn.Linear(9, 2)),
    "channels": lambda: pictures(nn.Conv1d(2, 3, 2, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(21, 2)),
    "pooled": lambda: pictures(nn.Conv2d(2, 3, (2, 3), padding=(0, 1)), nn.ReLU(), nn.AvgPool2d((2, 1)),
                               nn.Flatten(), nn.Linear(18, 2, bias=False)),
    "global": lambda: pictures(nn.Conv2d(2, 4, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                               nn.Linear(4, 2)),
}  # fmt: skip
SHAPES = {"flat": (1, 6), "channels": (2, 6), "pooled": (2, 5, 3), "global": (2, 4, 4)}


def data(shape=(6,)):
    draw = torch.Generator().manual_seed(1)
    kinds = {"generator": draw, "dtype": torch.float64}
    return torch.randn(9, *shape, **kinds), torch.randn(9, 2, **kinds)


def check(module, x, y, loss):
    """Answers and gradients of units and module, which PyTorch computes by itself."""
    found = as_problem(module, (x, y), loss)
    problem = sw.Problem(found.task, found.units, found.loss, keep_samples=True)
    with sw.float64():
        ours = np.asarray(problem.function(found.weights))
        value, slope = jax.value_and_grad(problem.loss)(found.weights)
    offset = 0.0 if found.offset is None else found.offset
    np.testing.assert_allclose(ours + offset, module(x).detach(), rtol=1e-12, atol=1e-12)
    module.zero_grad()
    cost = loss(module(x), y)
    cost.backward()
    assert found.clock * float(value) == pytest.approx(cost.item(), rel=1e-12)
    theirs = {name: p.grad.numpy() for name, p in module.named_parameters()}
    for name, part in found.arrays_of(np.asarray(slope)).items():
        np.testing.assert_allclose(found.clock * part, theirs[name], rtol=1e-9, atol=1e-13)
    back = found.to_module(2 * found.weights)
    for name, part in back.named_parameters():
        factor = 2.0 if name in {place.name for place in found.places.values()} else 1.0
        np.testing.assert_allclose(
            part.detach(), factor * dict(module.named_parameters())[name].detach()
        )
    arrays = {name: p.detach().numpy() for name, p in back.named_parameters()}
    np.testing.assert_allclose(found.weights_of(arrays), 2 * found.weights)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_neurons(name):
    torch.manual_seed(0)
    found = check(MODULES[name]().double(), *data(), nn.MSELoss())
    assert found.clock == pytest.approx(1.0)  # 2 / outputs
    assert isinstance(found.units, sw.units.Dense)


@pytest.mark.parametrize("name", IMAGES)
def test_kernels(name):
    torch.manual_seed(0)
    found = check(IMAGES[name]().double(), *data(SHAPES[name]), nn.MSELoss(reduction="sum"))
    assert found.clock == pytest.approx(18.0)  # twice the samples
    kind = sw.units.Convolution if name == "flat" else sw.units.PooledConvolution
    assert isinstance(found.units, kind)


def test_cross_entropy_with_labels_and_a_bias():
    torch.manual_seed(0)
    x, _ = data()
    labels = torch.arange(9) % 2
    found = check(pair(nn.Tanh()).double(), x, labels, nn.CrossEntropyLoss())
    assert found.clock == pytest.approx(1.0)
    np.testing.assert_array_equal(found.task.y, np.eye(2)[labels])


def test_own_loss_and_float32():
    torch.manual_seed(0)
    x, y = (one.float() for one in data())
    found = as_problem(
        pair(nn.ReLU(), False, False), (x, y), lambda f, y: 3 * ((f - y) ** 2).sum(1).mean()
    )
    assert found.clock == pytest.approx(6.0)
    assert "6 times half the mean squared distance" in str(found)
    with pytest.raises(sw.InputError, match="neither a squared error nor a cross-entropy"):
        as_problem(pair(nn.ReLU()), (x, y), nn.L1Loss())


def test_a_trained_output_bias_is_said():
    x, y = data()
    with pytest.warns(UserWarning, match="no part of a sum of units"):
        found = as_problem(pair(nn.ReLU()).double(), (x, y), "squared")
    assert "held fixed" in str(found)
    module = pair(nn.ReLU()).double()
    module[2].bias.requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_problem(module, (x, y), "squared").notes == ()


class Skips(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)) + x)


class Asks(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(6, 2)

    def forward(self, x):
        return self.one(x) if x.sum() > 0 else self.one(-x)


class Repeats(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x):
        return torch.cat([self.two(x), self.one(x)], dim=1)[:, :2]


def frozen(k):
    module = pair(nn.ReLU())
    module[k].requires_grad_(False)
    return module


@pytest.mark.parametrize(
    ("module", "match"),
    [
        (nn.Sequential(*pair(nn.ReLU()), nn.ReLU(), nn.Linear(2, 2)), r"'3' \(activation\) does not fit"),
        (nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)),
         r"'1' \(BatchNorm1d\)"),
        (nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 2)), r"'1' is a Dropout of 0.5"),
        (nn.Sequential(nn.Linear(6, 5), nn.Softmax(1), nn.Linear(5, 2)), r"'1' \(Softmax\)"),
        (nn.Sequential(nn.ReLU(), nn.Linear(6, 5), nn.Linear(5, 2)), r"'0' \(activation\)"),
        (nn.Linear(6, 2), "fewer than two layers"),
        (Skips(), "takes more than what the layer before it gave"),
        (Asks(), "cannot be followed step by step"),
        (Repeats(), "takes more than"),
        (frozen(0), "'0.weight' is frozen"),
        (frozen(2), "'2.weight' is frozen"),
        (Written(lambda x, w, v: (x @ w) * (x @ v), (6, 2), (6, 2)), "takes more than"),
    ],
)  # fmt: skip
def test_what_is_not_recognized_is_said(module, match):
    with pytest.raises(sw.InputError, match=match):
        as_problem(module.double(), data(), "squared")


def test_overlapping_averages_are_refused():
    module = nn.Sequential(nn.Conv1d(1, 3, 2), nn.ReLU(), nn.AvgPool1d(3, stride=1), nn.Flatten(),
                           nn.Linear(9, 2)).double()  # fmt: skip
    with pytest.raises(sw.InputError, match="overlap"):
        as_problem(module, data((1, 6)), "squared")


class Heads(nn.Module):
    """Linear attention as in the paper, on the context and the query."""

    def __init__(self):
        super().__init__()
        self.key = nn.Parameter(torch.randn(4, 3))
        self.query = nn.Parameter(torch.randn(4, 3))
        self.value = nn.Parameter(torch.randn(4, 1))

    def forward(self, x):
        return ((x[:, :3] @ self.key.T) * (x[:, 3:] @ self.query.T)) @ self.value


def test_units_that_the_user_names():
    torch.manual_seed(0)
    x, y = data()
    module, heads = Heads().double(), sw.units.LinearAttention(4)
    names = {"K": "key", "Q": "query", "V": "value"}
    found = as_problem(module, (x, y[:, :1]), nn.MSELoss(), units=heads, names=names)
    assert found.clock == pytest.approx(2.0)
    np.testing.assert_allclose(found.to_module(found.weights)(x).detach(), module(x).detach())
    with pytest.raises(sw.InputError, match="no parameter 'V'"):
        as_problem(module, (x, y[:, :1]), "squared", units=heads)
    with pytest.raises(sw.InputError, match="answers otherwise"):
        as_problem(Shifted().double(), (x, y[:, :1]), "squared", units=heads, names=names)


class Shifted(Heads):
    def forward(self, x):
        return super().forward(x) + 1.0


def test_arrays_alone():
    rng = np.random.default_rng(0)
    w, b, a = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=(2, 4))
    x, y = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    found = two_layers(
        x, y, lambda f: float(np.mean((f - y) ** 2)), w, a, activation="tanh", bias=b
    )
    with sw.float64():
        ours = np.asarray(found.problem.function(found.weights))
    np.testing.assert_allclose(ours, np.tanh(x @ w.T + b) @ a.T, rtol=1e-12)
    np.testing.assert_allclose(found.arrays_of(found.weights)["readout"], a)
    with pytest.raises(sw.InputError, match="no PyTorch module"):
        found.to_module(found.weights)


def test_forecast_of_a_training():
    """A ReLU network on its first plateau, gradient descent in PyTorch: when does the loss fall?"""
    torch.manual_seed(0)
    x = torch.randn(256, 8, dtype=torch.float64)
    y = torch.relu(x[:, :1]) + 0.5 * torch.relu(-x[:, 1:2])
    module = nn.Sequential(
        nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 1, bias=False)
    ).double()
    with torch.no_grad():
        for part in module.parameters():
            part.mul_(1e-4 / part.norm(dim=1).mean())
    rate, loss, losses, taken = 0.01, nn.MSELoss(), [], {}
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    for step in range(2000):
        taken[step] = {name: p.detach().clone() for name, p in module.named_parameters()}
        optimizer.zero_grad()
        cost = loss(module(x), y)
        cost.backward()
        optimizer.step()
        losses.append(cost.item())
    level = 0.7 * losses[0]
    drop = int(np.argmax(np.array(losses) < level))
    half = drop // 2
    module.load_state_dict(taken[half])
    found = as_problem(module, (x, y), loss)
    stairs = sw.predict(
        found.task, found.units, found.scale, start=found.weights, progress=False, max_time=100.0
    )
    times, curve = map(np.array, stairs.curve)
    left = found.steps(times[np.argmax(curve < level / found.clock)], rate)
    assert abs(left - (drop - half)) < 0.05 * (drop - half)
    assert found.time(left, rate) == pytest.approx(left * rate * found.clock)

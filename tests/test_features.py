"""Features at convergence: matrices against autodiff, and the theorem at exact critical points."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

import saddlewalk as sw
from saddlewalk.features import FeatureHistory, gradient_features, network_features
from saddlewalk.features.equinox import equinox_features
from saddlewalk.features.matrix_functions import (
    cosine,
    matrix_power,
    pearson,
    symmetrized,
    symmetrized_product,
)
from saddlewalk.features.report import NetworkFeatures, _as_image

torch = pytest.importorskip("torch")
nn = torch.nn

from saddlewalk.features.stored import stored_features  # noqa: E402
from saddlewalk.features.torch import lightning_callback, module_features  # noqa: E402

RNG = np.random.default_rng(0)
DECAY = 0.02


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Networks of a dozen numbers: threads would wait for each other, and for other tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)


def dense():
    return nn.Sequential(
        nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Softplus(), nn.Linear(4, 2)
    )


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(3, 2, 2), nn.Tanh(),
        nn.Flatten(), nn.Linear(2, 2),
    )  # fmt: skip


def squared(answers, targets):
    """Half the squared error, as in the paper."""
    return 0.5 * ((answers - targets) ** 2).sum(dim=1).mean()


CASES = {
    "dense, squared": (dense, (3,), squared),
    "dense, cross-entropy": (dense, (3,), nn.CrossEntropyLoss()),
    "convolution, squared": (convolutional, (1, 4, 4), squared),
    "convolution, cross-entropy": (convolutional, (1, 4, 4), nn.CrossEntropyLoss()),
}


def data(shape, loss, n=24):
    rng = np.random.default_rng(1)
    x = torch.tensor(rng.normal(size=(n, *shape)))
    score = x.reshape(n, -1)[:, :2]
    labels = (score[:, 0] > score[:, 1]).long()
    return x, labels if isinstance(loss, nn.CrossEntropyLoss) else torch.tanh(2 * score)


def to_critical_point(net, x, y, loss):
    """L-BFGS, then Newton's method on the whole Hessian, in float64."""
    names, shapes = zip(*((k, v.shape) for k, v in net.named_parameters()), strict=True)
    ends = np.cumsum([int(np.prod(s)) for s in shapes])

    def split(flat):
        parts = torch.tensor_split(flat, ends[:-1].tolist())
        return {k: p.reshape(s) for k, p, s in zip(names, parts, shapes, strict=True)}

    def objective(flat):
        answers = torch.func.functional_call(net, split(flat), (x,))
        return loss(answers, y) + DECAY / 2 * flat @ flat

    def value_and_slope(flat):
        point = torch.tensor(flat, requires_grad=True)
        value = objective(point)
        return float(value.detach()), torch.autograd.grad(value, point)[0].numpy()

    start = torch.cat([p.detach().reshape(-1) for p in net.parameters()]).numpy()
    flat = torch.tensor(minimize(value_and_slope, start, jac=True, method="L-BFGS-B",
                                 options={"maxiter": 5000, "gtol": 1e-9, "ftol": 1e-16}).x)  # fmt: skip
    for _ in range(4):
        slope, curvature = torch.func.grad(objective)(flat), torch.func.hessian(objective)(flat)
        flat = flat - torch.linalg.pinv(curvature, rcond=1e-9) @ slope
    assert torch.func.grad(objective)(flat).norm() < 1e-9
    for name, value in split(flat).items():
        net.get_parameter(name).data.copy_(value)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch.func, of its own
@pytest.mark.parametrize("name", CASES)
def test_theorem_3_1_at_a_critical_point(name):
    make, shape, loss = CASES[name]
    torch.manual_seed(0)
    net = make().double()
    x, y = data(shape, loss)
    before = module_features(net, [(x, y)], loss, DECAY)
    assert min(layer.residual for layer in before.layers) > 0.1
    to_critical_point(net, x, y, loss)
    for layer in module_features(net, [(x[:10], y[:10]), (x[10:], y[10:])], loss, DECAY).layers:
        scale = np.abs(layer.feature_matrix).max()
        assert scale > 1e-2
        assert layer.residual < 1e-6
        for found, truth in (
            (layer.fact, layer.feature_matrix),
            (layer.candidates()["sqrt(FACT FACT^T)"], layer.feature_matrix),
            (layer.backward_fact, layer.weight @ layer.weight.T),
        ):
            assert np.abs(found - truth).max() < 1e-6 * scale
        assert layer.correlations()["FACT"] == pytest.approx(1.0, abs=1e-9)
        assert layer.implied_weight_decay == pytest.approx(DECAY, rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_matrices_against_per_sample_autodiff(name):
    """The definitions with nabla_h: gradients with respect to each layer's input, or input patch."""
    make, shape, loss = CASES[name]
    torch.manual_seed(1)
    net = make().double()
    x, y = data(shape, loss, 7)
    found = module_features(net, [(x[:4], y[:4]), (x[4:], y[4:])], loss, DECAY)
    for layer in found.layers:
        fact, enfa, agop = (np.zeros_like(layer.feature_matrix) for _ in range(3))
        position = int(layer.name)
        part = net[position]
        for i in range(7):
            h = net[:position](x[i : i + 1]).detach()
            if isinstance(part, nn.Linear):
                patches = h.reshape(1, -1)
            else:
                padded = nn.functional.pad(h, (part.padding[0],) * 4)
                patches = nn.functional.unfold(padded, part.kernel_size)[0].T

            def after(patches, part=part, position=position, h=h):
                z = patches @ part.weight.reshape(len(part.weight), -1).T + part.bias
                if not isinstance(part, nn.Linear):
                    side = h.shape[-1] + 2 * part.padding[0] - part.kernel_size[0] + 1
                    z = z.T.reshape(1, -1, side, side)
                return net[position + 1 :](z)

            patches = patches.detach().requires_grad_()
            g = torch.autograd.grad(loss(after(patches), y[i : i + 1]), patches)[0]
            fact -= (g.T @ patches).detach().numpy() / (7 * DECAY)
            enfa += (g.T @ g).detach().numpy() / 7
            for c in range(2):
                q = torch.autograd.grad(after(patches)[0, c], patches)[0]
                agop += (q.T @ q).detach().numpy() / 7
        for ours, truth in ((layer.fact, fact), (layer.enfa, enfa), (layer.agop, agop)):
            np.testing.assert_allclose(ours, truth, rtol=1e-10, atol=1e-10 * np.abs(truth).max())


def test_networks_of_this_package_agree_with_torch():
    units = sw.units.Deep((sw.units.Dense(5, "tanh"), sw.units.Dense(4, "relu")))
    x = RNG.normal(size=(20, 3))
    y = np.tanh(x[:, :2])
    problem = sw.Problem(sw.tasks.from_arrays(x, y), units)
    theta = RNG.normal(size=(1, problem.size))
    ours = network_features(problem, theta, weight_decay=DECAY, batch_size=7)
    net = nn.Sequential(
        nn.Linear(3, 5, bias=False), nn.Tanh(), nn.Linear(5, 4, bias=False), nn.ReLU(),
        nn.Linear(4, 2, bias=False),
    ).double()  # fmt: skip
    for part, layer in zip((net[0], net[2], net[4]), ours.layers, strict=True):
        part.weight.data.copy_(torch.tensor(layer.weight))
    theirs = module_features(net, [(torch.tensor(x), torch.tensor(y))], squared, DECAY)
    for one, other in zip(ours.layers, theirs.layers, strict=True):
        for name, matrix in one.candidates().items():
            np.testing.assert_allclose(matrix, other.candidates()[name], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_equinox_modules_agree_with_torch(name):
    """The same weights, once with hooks in PyTorch and once with nudges in JAX."""
    make, shape, loss = CASES[name]
    torch.manual_seed(3)
    net = make().double()
    x, y = data(shape, loss, 8)
    cut = (
        5 if name == "dense, squared" else 4
    )  # batches of two sizes are compiled twice: once is enough
    theirs = module_features(net, [(x, y)], loss, DECAY)

    def translated(part):
        if isinstance(part, nn.Linear):
            new = eqx.nn.Linear(part.in_features, part.out_features, key=jax.random.key(0))
            bias = part.bias.detach().numpy()
        elif isinstance(part, nn.Conv2d):
            new = eqx.nn.Conv2d(
                part.in_channels, part.out_channels, part.kernel_size, padding=part.padding,
                key=jax.random.key(0),
            )  # fmt: skip
            bias = part.bias.detach().numpy()[:, None, None]
        else:
            plain = {
                nn.Tanh: jnp.tanh, nn.Softplus: jax.nn.softplus, nn.Flatten: jnp.ravel,
                nn.AvgPool2d: eqx.nn.AvgPool2d(2, 2),
            }[type(part)]  # fmt: skip
            return plain if isinstance(plain, eqx.Module) else eqx.nn.Lambda(plain)
        arrays = (jnp.asarray(part.weight.detach().numpy()), jnp.asarray(bias))
        return eqx.tree_at(lambda one: (one.weight, one.bias), new, arrays)

    def penalty(answer, target):
        if isinstance(loss, nn.CrossEntropyLoss):
            return -jax.nn.log_softmax(answer)[target]
        return 0.5 * jnp.sum((answer - target) ** 2)

    with sw.float64():
        module = eqx.nn.Sequential([translated(part) for part in net])
        pairs = [(a.numpy(), b.numpy()) for a, b in ((x[:cut], y[:cut]), (x[cut:], y[cut:]))]
        ours = equinox_features(module, pairs, penalty, DECAY)
    assert [layer.name for layer in ours.layers] == [
        f".layers[{layer.name}]".lstrip(".") for layer in theirs.layers
    ]
    for one, other in zip(ours.layers, theirs.layers, strict=True):
        for key, matrix in (one.candidates() | one.backward_candidates()).items():
            truth = (other.candidates() | other.backward_candidates())[key]
            np.testing.assert_allclose(matrix, truth, rtol=1e-7, atol=1e-8 * np.abs(truth).max())


class Tokens(eqx.Module):
    """One layer for many tokens."""

    layer: eqx.nn.Linear

    def __call__(self, x):
        return jax.vmap(self.layer)(x).sum(axis=0)


class Scanned(Tokens):
    """The same, one after another."""

    def __call__(self, x):
        return jax.lax.map(self.layer, x).sum(axis=0)


def test_shared_layers_of_equinox_are_refused():
    layer = eqx.nn.Linear(2, 3, key=jax.random.key(0))
    penalty = lambda answer, target: jnp.sum((answer - target) ** 2)  # noqa: E731
    for shared in (Tokens(layer), Scanned(layer)):
        with pytest.raises(sw.InputError, match="more than once"):
            equinox_features(shared, [(np.ones((4, 5, 2)), np.ones((4, 3)))], penalty)
    with pytest.raises(sw.InputError, match="no batches"):
        equinox_features(layer, [], penalty)
    with pytest.raises(sw.InputError, match="one number"):
        equinox_features(layer, [(np.ones((4, 2)), np.ones((4, 3)))], lambda a, t: (a - t) ** 2)
    with pytest.raises(sw.InputError, match="pairs"):
        module_features(nn.Linear(2, 3), (torch.ones(4, 2), torch.ones(4, 3)), nn.MSELoss())
    with pytest.raises(sw.InputError, match="no linear or convolutional"):
        equinox_features(eqx.nn.Lambda(jnp.tanh), [(np.ones((4, 2)), np.ones((4, 2)))], penalty)


def test_scalar_answers_and_whole_numbers_as_inputs():
    """The same network with one output as a vector and as a scalar."""
    key = jax.random.key(0)
    vector = eqx.nn.MLP(3, 1, 4, 1, jnp.tanh, key=key)
    scalar = eqx.nn.MLP(3, "scalar", 4, 1, jnp.tanh, key=key)
    x, y = np.arange(12).reshape(4, 3), np.ones(4)
    penalty = lambda answer, target: jnp.sum((answer - target) ** 2)  # noqa: E731
    one = equinox_features(vector, [(x, y[:, None])], penalty)
    other = equinox_features(scalar, [(x, y), (x[:0], y[:0])], penalty)
    for first, second in zip(one.layers, other.layers, strict=True):
        np.testing.assert_allclose(first.agop, second.agop, rtol=1e-5)
        np.testing.assert_allclose(first.enfa, second.enfa, rtol=1e-5)


def test_activations_in_place_and_modes_that_are_mixed():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 2))
    plain[2].eval()  # frozen on purpose, in a module that trains
    hasty = nn.Sequential(plain[0], nn.ReLU(inplace=True), plain[2], plain[3])
    batch = [(torch.randn(20, 3), torch.randn(20, 2))]
    with pytest.warns(UserWarning, match="BatchNorm1d acts otherwise in training"):
        one = module_features(plain, batch, nn.MSELoss(), DECAY)
    assert [part.training for part in plain] == [True, True, False, True]
    with pytest.warns(UserWarning, match="acts otherwise"):
        other = module_features(hasty, batch, nn.MSELoss(), DECAY)
    for first, second in zip(one.layers, other.layers, strict=True):
        np.testing.assert_allclose(first.agop, second.agop, atol=1e-7)
        np.testing.assert_allclose(first.enfa, second.enfa, atol=1e-7)


def test_frozen_layers_no_grad_and_half_precision():
    net = dense()
    net[0].weight.requires_grad_(False)
    batch = [(torch.randn(20, 3), torch.randn(20, 2))]
    with torch.no_grad():
        found = module_features(net, batch, nn.MSELoss(), agop=False)
    assert [layer.name for layer in found.layers] == ["2", "4"]
    assert "AGOP" not in found[0].correlations()
    with pytest.raises(sw.InputError, match="frozen"):
        module_features(net, batch, nn.MSELoss(), layers=["0"])
    half = dense().bfloat16()
    rough = module_features(half, [tuple(a.bfloat16() for a in batch[0])], nn.MSELoss())
    assert np.isfinite(rough[0].fact).all()
    weights = {"0": net[2].weight}
    assert gradient_features(weights, weights)["0"].fact.shape == (5, 5)


@pytest.mark.parametrize(("decay", "words"), [(0.0, "positive"), (-0.1, "positive")])
def test_weight_decays_that_are_none(decay, words):
    with pytest.raises(sw.InputError, match=words):
        module_features(dense(), [(torch.randn(4, 3), torch.randn(4, 2))], nn.MSELoss(), decay)


def test_numbers_that_are_no_numbers():
    x = torch.randn(4, 3)
    x[0, 0] = np.nan
    with pytest.raises(sw.InputError, match="not finite"):
        module_features(dense(), [(x, torch.randn(4, 2))], nn.MSELoss())
    one = module_features(nn.Linear(3, 1), [(torch.randn(9, 3), torch.randn(9, 1))], nn.MSELoss())
    assert one[0].to_json()["pearson"]["bFACT"] is None
    assert " - " in str(one)


def test_fact_from_weights_and_gradients_alone():
    W, G = RNG.normal(size=(2, 3, 4))
    found = gradient_features({"first": W}, {"first": G}, 0.5)
    np.testing.assert_allclose(found["first"].fact, -2 * W.T @ G)
    assert set(found["first"].correlations()) == {
        "FACT", "sqrt(FACT FACT^T)", "bFACT", "sqrt(bFACT bFACT^T)",
    }  # fmt: skip
    assert "-" in str(found)
    with pytest.raises(sw.InputError, match="pass over the data"):
        _ = found[0].agop
    with pytest.raises(sw.InputError, match="named alike"):
        gradient_features({"first": W}, {"second": G})
    with pytest.raises(sw.InputError, match="same shape"):
        gradient_features({"first": W}, {"first": G.T})


def test_history_of_a_training(tmp_path):
    """Towards a critical point the residual falls and FACT comes close to W^T W."""
    make, shape, loss = CASES["dense, squared"]
    torch.manual_seed(0)
    net = make().double()
    x, y = data(shape, loss)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9, weight_decay=DECAY)
    history = FeatureHistory()
    with pytest.raises(sw.InputError, match="Nothing has been recorded"):
        history.to_xarray()
    assert "nothing has been recorded" in str(history)
    for step in range(601):
        if step % 200 == 0:
            numbers = history.record(step, module_features(net, [(x, y)], loss, DECAY))
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()
    found = history.to_xarray()
    assert found["pearson"].sizes == {"step": 4, "layer": 3, "matrix": 12}
    assert float(found["residual"][-1].max()) < 0.05 < 0.3 < float(found["residual"][0].min())
    assert numbers["0/FACT"] == float(found["pearson"].sel(layer="0", matrix="FACT")[-1]) > 0.99
    assert len(history.plot().axes) == 3
    history.plot(tmp_path / "backward.png", backward=True)
    assert (tmp_path / "backward.png").stat().st_size > 5000
    again = FeatureHistory.load(history.save(tmp_path / "history.nc"))
    assert str(again) == str(history)
    assert "4 records, step 0 to 600" in str(again)
    assert json.dumps(again.to_json()) == json.dumps(history.to_json())
    assert again.series("0", "FACT")[-1] == numbers["0/FACT"]
    again.record(800, module_features(net, [(x, y)], loss, DECAY))
    assert len(again) == 5
    with pytest.raises(sw.InputError, match="changed since the first record"):
        history.record(700, module_features(net, [(x, y)], loss, DECAY, layers=["0"]))


@pytest.mark.filterwarnings("ignore")  # Lightning's advice about workers and loggers
def test_lightning_callback(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    make, shape, loss = CASES["dense, squared"]

    class Learner(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = make().double()

        def training_step(self, batch, index):
            return loss(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1, weight_decay=DECAY)

    pairs = torch.utils.data.TensorDataset(*data(shape, loss))
    loader = torch.utils.data.DataLoader(pairs, batch_size=8)
    callback = lightning_callback(loader, loss, DECAY, every=2, part="net")
    trainer = lightning.Trainer(
        max_epochs=3, callbacks=[callback], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
        default_root_dir=tmp_path,
    )  # fmt: skip
    learner = Learner()
    trainer.fit(learner, loader)
    assert callback.history.to_xarray()["step"].values.tolist() == [0, 2]
    now = module_features(learner.net, loader, loss, DECAY)
    logged = float(trainer.callback_metrics["features/0/FACT"])
    assert logged == pytest.approx(now["0"].correlations()["FACT"], abs=1e-6)


def answers(problem, theta, x):
    with sw.float64():
        weights = problem.weights(jnp.asarray(theta))
        return np.asarray(jax.vmap(lambda one: problem.units.combine(weights, one))(jnp.asarray(x)))


def test_convolutions_of_this_package_agree_with_torch():
    """Alone and as the first layer of a deep network: nn.Conv1d with the same weights."""
    x = RNG.normal(size=(20, 6))
    y = np.tanh(x[:, :2])
    kernel = sw.units.Convolution(3, kernel=2, stride=2, activation="tanh")
    for units in (kernel, sw.units.Deep((kernel, sw.units.Dense(4, "relu")))):
        problem = sw.Problem(sw.tasks.from_arrays(x, y), units)
        theta = RNG.normal(size=(problem.width, problem.size))
        ours = network_features(problem, theta, weight_decay=DECAY, batch_size=10)
        net = nn.Sequential(
            nn.Conv1d(1, 3, 2, stride=2, bias=False), nn.Tanh(), nn.Flatten(),
            *((nn.Linear(9, 4, bias=False), nn.ReLU()) if problem.width == 1 else ()),
            nn.Linear(4 if problem.width == 1 else 9, 2, bias=False),
        ).double()  # fmt: skip
        for parameter, layer in zip(net.parameters(), ours.layers, strict=True):
            parameter.data.copy_(torch.tensor(layer.weight).reshape(parameter.shape))
        mine = answers(problem, theta, x)
        pairs = (torch.tensor(x)[:, None], torch.tensor(y))
        np.testing.assert_allclose(mine, net(pairs[0]).detach().numpy(), atol=1e-12)
        theirs = module_features(net, [pairs], squared, DECAY)
        for one, other in zip(ours.layers, theirs.layers, strict=True):
            for name, matrix in one.candidates().items():
                np.testing.assert_allclose(matrix, other.candidates()[name], rtol=1e-6, atol=1e-9)


def test_two_layers_of_this_package():
    """The weights of a sum of units as matrices; FACT is minus W^T times the problem's own gradient."""
    x = RNG.normal(size=(10, 3))
    problem = sw.Problem(sw.tasks.from_arrays(x, x[:, :2] ** 2), sw.units.Dense(4, "quadratic"))
    theta = RNG.normal(size=(4, problem.size))
    found = network_features(problem, theta, weight_decay=0.1)
    with sw.float64():
        slope = np.asarray(jax.grad(problem.loss)(jnp.asarray(theta)))
    np.testing.assert_allclose(found["w"].fact, -theta[:, :3].T @ slope[:, :3] / 0.1, rtol=1e-10)
    np.testing.assert_allclose(found["a"].fact, -theta[:, 3:] @ slope[:, 3:].T / 0.1, rtol=1e-10)
    assert "residual" in str(found)
    assert found.to_json()["layers"][0]["shape"] == [4, 3]


@pytest.fixture(scope="module")
def trained():
    """A run that saved a few moments, put together by hand: nothing has to be compiled for it."""
    rng = np.random.default_rng(4)
    x, time = rng.normal(size=(10, 3)), np.arange(4.0)
    units = sw.units.Dense(4, "quadratic")
    problem = sw.Problem(sw.tasks.from_arrays(x, x[:, :2] ** 2), units)
    saved = {"time": time, "parameters": rng.normal(size=(4, 4, 5))}
    none = {name: np.zeros(0) for name in ("time", "unit", "upward")}
    return sw.Trajectory.from_arrays({"time": time, "loss": time}, saved, none, {}, problem)


def test_features_of_a_run(trained):
    """A run knows its problem and its weights; a problem is given them."""
    theta = trained.parameters
    for at in (-1, 0, 2):
        found = network_features(trained, at=at)
        same = network_features(trained.problem, theta[at])
        np.testing.assert_array_equal(found["w"].weight, theta[at][:, :3])
        np.testing.assert_array_equal(found["w"].fact, same["w"].fact)
    many = len(theta)
    for give, words in (
        (lambda: network_features(trained, theta[0]), "has its own weights"),
        (lambda: network_features(trained, at=many), f"has {many} saved moments"),
        (lambda: network_features(trained.problem), "needs weights"),
        (lambda: network_features(trained.problem, theta[0], at=0), "moment of a run"),
        (lambda: network_features(trained.problem, theta[0][:, :2]), r"shape \(4, 5\)"),
        (lambda: network_features(trained.problem, np.nan * theta[0]), "NaN"),
        (lambda: network_features(theta[0]), "Give a run"),
        (lambda: network_features(trained, batch_size=0), "batch_size must be at least 1"),
    ):
        with pytest.raises(sw.InputError, match=words):
            give()
    linear = sw.Problem(trained.problem.task, sw.units.Dense(4, "linear"))
    with pytest.raises(sw.InputError, match="keep_samples=True"):
        network_features(linear, theta[0])


@pytest.mark.parametrize("decay", [None, 0.1])
def test_features_are_kept_whole(trained, tmp_path, decay):
    W, G = RNG.normal(size=(2, 3, 4))
    for found in (
        network_features(trained, weight_decay=decay),
        gradient_features({"a/b.0": W, "1": W.T}, {"a/b.0": G, "1": G.T}, decay),
    ):
        again = NetworkFeatures.load(found.save(tmp_path / "features.nc"))
        assert str(again) == str(found)
        assert "<table>" in again._repr_html_()
        assert json.dumps(again.to_json()) == json.dumps(found.to_json())
        np.testing.assert_array_equal(again[0].gradient, found[0].gradient)


def test_measures():
    A = RNG.normal(size=(4, 4))
    assert pearson(A, 3 * A + 1) == pytest.approx(1.0)
    assert pearson(A, A.T) == pytest.approx(np.corrcoef(A.ravel(), A.T.ravel())[0, 1])
    assert cosine(A, -A) == pytest.approx(-1.0)
    assert np.isnan(cosine(A, 0 * A))
    assert np.isnan(pearson(A[:1, :1], A[1:2, 1:2]))
    for left, right in ((A, np.eye(4)), (A[:, :2], A[:2]), (A[:2], A)):
        S, F = symmetrized_product(left, right), left @ right
        np.testing.assert_allclose(S @ S, F @ F.T, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(S, S.T)
        assert np.linalg.eigvalsh(S).min() > -1e-12
    root = matrix_power(A @ A.T, 0.5)
    np.testing.assert_allclose(root @ root, A @ A.T, rtol=1e-9)
    fourth = symmetrized(A, 0.25)
    np.testing.assert_allclose(fourth @ fourth @ fourth @ fourth, A @ A.T, rtol=1e-9)
    for diagonal in (matrix_power(np.array([4.0, -1e-9]), 0.5), symmetrized(np.array([-2.0, 0.0]))):
        np.testing.assert_allclose(diagonal, [2.0, 0.0])


def test_picture(tmp_path):
    net = nn.Linear(4, 3)
    x = torch.randn(6, 4)
    found = module_features(net, [(x, x[:, :3])], nn.MSELoss())
    assert len(found.plot().axes) == 1 + 4
    figure = found.plot(tmp_path / "features.png", image=(2, 2), directions=3)
    assert len(figure.axes) == 1 + 3
    assert (tmp_path / "features.png").stat().st_size > 5000


def test_refusals():
    x = torch.randn(4, 3)
    with pytest.raises(sw.InputError, match="no linear"):
        module_features(nn.ReLU(), [(x, x)], nn.MSELoss())
    with pytest.raises(sw.InputError, match="There are no batches"):
        module_features(nn.Linear(3, 1), [], nn.MSELoss())
    with pytest.raises(sw.InputError, match="no layer 'head'"):
        module_features(nn.Linear(3, 1), [(x, x)], nn.MSELoss(), layers=["head"])

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(self.layer(x))

    with pytest.raises(sw.InputError, match="more than once"):
        module_features(Twice(), [(x, x)], nn.MSELoss())


# --- stored networks ----------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    torch.manual_seed(0)
    net = dense()
    net[1], net[3] = nn.ReLU(), nn.ReLU()
    x = RNG.normal(size=(30, 3)).astype(np.float32)
    labels = (x[:, 0] > 0).astype(int)
    torch.save(net.state_dict(), tmp_path / "net.pt")
    np.savez(tmp_path / "data.npz", X=x, y=labels)
    return tmp_path, net, x, labels


def test_a_stored_network_is_the_network(stored):
    folder, net, x, labels = stored
    batches = [(torch.tensor(x), torch.tensor(labels))]
    truth = module_features(net, batches, nn.CrossEntropyLoss(), 0.01)
    found = stored_features(
        folder / "net.pt", x, labels, "relu", "cross-entropy", 0.01, batch_size=8
    )
    for one, other in zip(found.layers, truth.layers, strict=True):
        np.testing.assert_allclose(one.fact, other.fact, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(one.agop, other.agop, rtol=1e-3, atol=1e-5)


def test_diagnose_a_stored_network(stored):
    from click.testing import CliRunner

    from saddlewalk.cli import main

    folder = stored[0]
    arguments = ["diagnose", str(folder / "net.pt"), "--data", str(folder / "data.npz")]
    options = [
        "--loss",
        "cross-entropy",
        "--weight-decay",
        "0.01",
        "--activation",
        "relu",
        "--json",
        "--out",
        str(folder / "out"),
    ]
    done = CliRunner().invoke(main, [*arguments, *options])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert [layer["shape"] for layer in record["layers"]] == [[5, 3], [4, 5], [2, 4]]
    assert (folder / "out" / "figure.png").stat().st_size > 5000
    kept = NetworkFeatures.load(folder / "out" / "result.nc")
    assert [layer.weight_decay for layer in kept.layers] == [0.01] * 3


class Foreign(nn.Sequential):
    """A layer of the user's own, which only its code can rebuild."""


def test_whole_modules_of_plain_layers(stored):
    folder = stored[0]
    net = convolutional()
    x, y = (a.numpy() for a in data((1, 4, 4), squared))
    torch.save(net, folder / "conv.pt")
    found = stored_features(folder / "conv.pt", x, y, loss="squared", weight_decay=0.01)
    x32, y32 = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    truth = module_features(net, [(x32, y32)], squared, 0.01)
    for one, other in zip(found.layers, truth.layers, strict=True):
        np.testing.assert_allclose(one.fact, other.fact, rtol=1e-3, atol=1e-5)


def test_stored_networks_are_read_safely(stored):
    folder, _, x, labels = stored
    torch.save(Foreign(nn.Linear(3, 2)), folder / "foreign.pt")
    with pytest.raises(sw.InputError, match="no network that can be read safely"):
        stored_features(folder / "foreign.pt", x, labels)
    (folder / "zero.pt").write_bytes(b"")
    with pytest.raises(sw.InputError, match="damaged"):
        stored_features(folder / "zero.pt", x, labels)
    torch.save({"model": dense().state_dict(), "epoch": 3}, folder / "checkpoint.pt")
    with pytest.raises(sw.InputError, match="under 'model'"):
        stored_features(folder / "checkpoint.pt", x, labels)
    with pytest.raises(sw.InputError, match="with which activation"):
        stored_features(folder / "net.pt", x, labels)
    with pytest.raises(sw.InputError, match="no file"):
        stored_features(folder / "none.pt", x, labels)
    with pytest.raises(sw.InputError, match="cannot read inputs of shape"):
        stored_features(folder / "net.pt", x[:, :2], labels, "relu")
    with pytest.raises(sw.InputError, match="cross-entropy"):
        stored_features(folder / "net.pt", x, labels, "relu", loss="crossentropy")
    torch.save(convolutional().state_dict(), folder / "conv.pt")
    with pytest.raises(sw.InputError, match="Only fully connected"):
        stored_features(folder / "conv.pt", x, labels, "relu")
    disguised = nn.Sequential(nn.Linear(3, 2))
    disguised.forward = nn.Identity
    torch.save(disguised, folder / "disguised.pt")
    with pytest.raises(sw.InputError, match="not as PyTorch makes it"):
        stored_features(folder / "disguised.pt", x, labels)
    torch.save(nn.Sequential(nn.ReLU()), folder / "empty.pt")
    with pytest.raises(sw.InputError, match="no weights"):
        stored_features(folder / "empty.pt", x, labels)


def test_targets_must_fit_the_network(stored):
    folder, _, x, labels = stored
    file = folder / "net.pt"
    for loss in ("mse", "squared"):
        with pytest.raises(sw.InputError, match="gives 2 numbers a sample and the data 1"):
            stored_features(file, x, labels, "relu", loss=loss)
    for wrong in (labels + 0.5, labels + 1, labels - 1, labels * np.nan):
        with pytest.raises(sw.InputError, match="from 0 to 1"):
            stored_features(file, x, wrong, "relu", loss="cross-entropy")
    with pytest.raises(sw.InputError, match="a single label, 'a'"):
        stored_features(file, x, np.full(30, "a"), "relu", loss="cross-entropy")
    with pytest.raises(sw.InputError, match="one-hot"):
        stored_features(file, x, np.full((30, 2), 0.5), "relu", loss="cross-entropy")
    one, other = (
        stored_features(file, x, y, "relu", loss="cross-entropy")
        for y in (labels, np.eye(2)[labels])
    )
    np.testing.assert_array_equal(one[0].fact, other[0].fact)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["net.pt", "--scale", "3"], "--scale says nothing about a stored network"),
        (["net.pt", "--regime"], "--regime says nothing"),
        (["diagonal", "--weight-decay", "0.1"], "--weight-decay says nothing about a setting"),
    ],
)
def test_options_that_do_not_apply_are_refused(arguments, words):
    from click.testing import CliRunner

    from saddlewalk.cli import main

    done = CliRunner().invoke(main, ["diagnose", *arguments])
    assert done.exit_code == 2
    assert words in done.output


@pytest.mark.parametrize("image", ["2,2", "4,1", "2x2"])
def test_images_on_the_command_line(tmp_path, image):
    from click.testing import CliRunner

    from saddlewalk.cli import main

    torch.save(nn.Sequential(nn.Linear(4, 2)), tmp_path / "net.pt")
    np.savez(tmp_path / "data.npz", X=RNG.normal(size=(20, 4)), y=RNG.normal(size=(20, 2)))
    arguments = ["diagnose", str(tmp_path / "net.pt"), "--data", str(tmp_path / "data.npz")]
    done = CliRunner().invoke(main, [*arguments, "--image", image, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    wrong = CliRunner().invoke(main, [*arguments, "--image", "3,3"])
    assert wrong.exit_code == 2
    assert "with 4 numbers" in wrong.output


def test_directions_as_images():
    pixels = np.arange(12.0)
    np.testing.assert_array_equal(_as_image(pixels, (3, 4)), pixels.reshape(3, 4))
    colors = _as_image(np.arange(27.0), (3, 3, 3))
    assert colors.shape == (3, 3, 3)
    assert (colors.min(), colors.max()) == (0.0, 1.0)
    assert _as_image(np.arange(9.0), (1, 28, 28)).shape == (3, 3)  # a patch
    assert _as_image(np.arange(27.0), (3, 32, 32)).shape == (3, 3, 3)
    assert _as_image(np.arange(10.0), (28, 28)) is None


def test_a_table_of_a_very_wide_layer_takes_no_matrix_of_its_inputs_squared(monkeypatch):
    from saddlewalk.features.layers import LayerFeatures
    from saddlewalk.features.report import NetworkFeatures

    rng = np.random.default_rng(0)
    weight, gradient = rng.normal(size=(2, 3, 2001))
    layer = LayerFeatures("wide", weight, gradient, weight_decay=0.3)
    off, size = weight.T @ (0.3 * weight + gradient), 0.3 * weight.T @ weight
    residual = np.linalg.norm(off) / np.linalg.norm(size)
    np.testing.assert_allclose(layer.residual, residual, rtol=1e-12)

    def refuse(self, *_):
        raise AssertionError("a matrix of inputs times inputs")

    monkeypatch.setattr(LayerFeatures, "correlations", refuse)
    monkeypatch.setattr(LayerFeatures, "feature_matrix", property(refuse))
    assert "-: more than 2000 inputs" in str(NetworkFeatures((layer,)))

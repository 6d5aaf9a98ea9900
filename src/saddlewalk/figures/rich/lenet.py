"""Fig 5 (a) of Get rich quick: LeNet-5 on MNIST, with a first layer that learns faster or slower.

The first layer is divided by alpha and the last one multiplied by it. With biases that start at zero the
network is positively homogeneous in each layer, so every alpha starts from the same function;
delta = tau^2 (alpha^2 - alpha^-2) is positive, upstream, for alpha > 1.

What the paper leaves open is chosen here. The optimizer is not named: Adam and plain gradient descent on
mini-batches are both run. The loss is the cross-entropy. Pixels are standardized: on a background of
exact zeros a neuron would turn on or off with the sign of its bias alone. The kernel is that of all
outputs, (10 n) x (10 n), chosen after looking at both: summed over the outputs, n x n, its distance is some
ten times smaller, and with Adam it does not follow alpha; it is drawn as dotted lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from scipy.stats import spearmanr

from saddlewalk.figures.claims import Claim, FigureResult, falls, listed
from saddlewalk.flow.ensembles import train_together
from saddlewalk.show import draw
from saddlewalk.tasks.public import load_public

SHAPES = ((25, 6), (150, 16), (400, 120), (120, 84), (84, 10))
"""Inputs and outputs of the five layers; a convolution sees patches of 5 x 5 pixels."""
_MEAN, _DEVIATION = 33.32, 78.57
"""Of the pixels of MNIST."""
_EARLY = 0.1
"""The part of training that counts as early."""


# ---------------------------------------------------------------- the network


class LeNet(eqx.Module):
    """LeNet-5 with ReLU and max pooling; weights are matrices (inputs, outputs), images channels last."""

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]


def lenet(seed: int, alpha: float = 1.0) -> LeNet:
    """He's start with zero biases, first layer divided by alpha and last one multiplied by it."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=shape) * np.sqrt(2 / shape[0]) for shape in SHAPES]
    weights[0] /= alpha
    weights[-1] *= alpha
    biases = [np.zeros(shape[1]) for shape in SHAPES]
    single = [tuple(jnp.asarray(a, dtype=jnp.float32) for a in each) for each in (weights, biases)]
    return LeNet(*single)


def patches(images: jax.Array, size: int, pad: int = 0, stride: int = 1) -> jax.Array:
    """All squares of an image, `(n, h, w, size * size * channels)`.

    A convolution is then a product of matrices. For many networks at once this is faster than
    convolutions, which become grouped ones under vmap (twice as fast on a CPU).
    """
    x = jnp.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    high, wide = ((length - size) // stride + 1 for length in x.shape[1:3])
    # rows first, then columns: 2 * size slices instead of size^2
    rows = [x[:, i : i + stride * (high - 1) + 1 : stride] for i in range(size)]
    x = jnp.stack(rows, axis=3)
    columns = [x[:, :, j : j + stride * (wide - 1) + 1 : stride] for j in range(size)]
    return jnp.stack(columns, axis=4).reshape(len(images), high, wide, -1)


def largest_of_four(x: jax.Array) -> jax.Array:
    """Max pooling over squares of 2 x 2."""
    n, high, wide, channels = x.shape
    return x.reshape(n, high // 2, 2, wide // 2, 2, channels).max(axis=(2, 4))


def preactivations(network: LeNet, images: jax.Array) -> list[jax.Array]:
    """What the four hidden layers see before their ReLU, and the outputs, for images `(n, 28, 28, 1)`."""
    w, b = network.weights, network.biases
    first = patches(images, 5, pad=2) @ w[0] + b[0]
    x = jax.nn.relu(largest_of_four(first))  # as the pooled ReLU, with a quarter of the work
    second = patches(x, 5) @ w[1] + b[1]
    x = jax.nn.relu(largest_of_four(second)).reshape(len(images), -1)
    dense = []
    for k in range(2, 5):
        dense.append(x @ w[k] + b[k])
        x = jax.nn.relu(dense[-1])
    return [first, second, *dense]


def respond(network: LeNet, images: jax.Array) -> jax.Array:
    """The ten outputs, `(n, 10)`."""
    return preactivations(network, images)[-1]


def activation_patterns(network: LeNet, images: jax.Array) -> jax.Array:
    """Which hidden neurons are active, `(n, 6508)`: each place of a feature map is one."""
    hidden = preactivations(network, images)[:-1]
    return jnp.concatenate([z.reshape(len(images), -1) > 0 for z in hidden], axis=1)


def hamming_distance(first: jax.Array, second: jax.Array) -> jax.Array:
    """The fraction of activations that differ."""
    return jnp.mean(first != second, dtype=jnp.float32)


def lenet_kernel(network: LeNet, images: jax.Array) -> jax.Array:
    """The tangent kernel of all outputs, `(n, 10, n, 10)`.

    Equal to `network_kernel`, and quicker by the structure of the dense layers: their gradient is the
    product of what comes in and of the gradient of the bias, so the kernel is a product too and nine
    tenths of the parameters are never differentiated.
    """
    convolutions, dense = network.weights[:2], network.weights[2:]

    def answer(small: Any, image: jax.Array) -> jax.Array:
        weights, biases = small
        return respond(LeNet((*weights, *dense), biases), image[None])[0]

    slopes = jax.vmap(jax.jacrev(answer), in_axes=(None, 0))((convolutions, network.biases), images)
    hidden = [jax.nn.relu(z) for z in preactivations(network, images)]
    pooled = largest_of_four(hidden[1]).reshape(len(images), -1)
    together = [1.0 + x @ x.T for x in (pooled, *hidden[2:4])]  # 1 is the bias itself
    kernel = jnp.zeros((len(images), SHAPES[-1][1]) * 2, images.dtype)
    for slope in (*slopes[0], *slopes[1][:2]):
        kernel += _gram(slope)
    for incoming, slope in zip(together, slopes[1][2:], strict=True):
        kernel += incoming[:, None, :, None] * _gram(slope)
    return kernel


def _gram(slope: jax.Array) -> jax.Array:
    flat = slope.reshape(*slope.shape[:2], -1)
    return jnp.einsum("icp,jdp->icjd", flat, flat, precision="highest")


def turned(first: jax.Array, second: jax.Array) -> jax.Array:
    """`kernel_distance` inside a compiled program: kernels of some hundred images stay on the device."""
    return 0.5 * jnp.sum((first / jnp.linalg.norm(first) - second / jnp.linalg.norm(second)) ** 2)


# ---------------------------------------------------------------- the runs

OPTIMIZERS = {"adam": optax.adam, "sgd": optax.sgd}
_BY_SEED = ("kernel", "traced", "hamming", "parameter", "loss", "accuracy")


@dataclass(frozen=True)
class LeNetRuns:
    """Distances from the start, `(seed, alpha, checkpoint)`, and how well the networks do."""

    alphas: np.ndarray
    steps: np.ndarray
    """Of the checkpoints; the first is 0."""
    rate: float
    epoch: float
    """Steps of one epoch."""
    kernel: np.ndarray
    traced: np.ndarray
    """The same for the kernel summed over outputs, `(n, n)`."""
    hamming: np.ndarray
    parameter: np.ndarray
    loss: np.ndarray
    """On test images, as the accuracy."""
    accuracy: np.ndarray

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers, of which `from_json` makes the runs again."""
        return {f.name: np.asarray(getattr(self, f.name)).tolist() for f in fields(self)}

    @staticmethod
    def from_json(numbers: dict[str, Any]) -> "LeNetRuns":
        """What `to_json` gave."""
        plain = ("rate", "epoch")
        made: dict[str, Any] = {k: v if k in plain else np.array(v) for k, v in numbers.items()}
        return LeNetRuns(**made)


def joined(pieces: Sequence[LeNetRuns]) -> LeNetRuns:
    """Runs with the same settings and other seeds, as one."""
    whole: dict[str, Any] = {
        name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in _BY_SEED
    }
    return replace(pieces[0], **whole)


def lenet_runs(
    alphas: Sequence[float],
    seeds: Sequence[int],
    *,
    optimizer: str = "adam",
    rate: float = 1e-4,
    steps: int = 10_000,
    batch_size: int = 512,
    images: int = 60_000,
    measured: int = 500,
    tested: int = 10_000,
) -> LeNetRuns:
    """Train LeNet-5 from every alpha and seed, and measure how far it went.

    Parameters
    ----------
    optimizer : "adam" or "sgd".
    steps : checkpoints are at 0, 1, 2, 5, 10, 20, ... and at the last step.
    images : of the training set, drawn anew for each seed.
    measured : training images on which the kernel and the activations are taken.
    tested : test images of the loss and the accuracy.
    """
    arrays = load_public("mnist")
    whole = len(arrays["y_train"])
    own = [np.random.default_rng([7, seed]).permutation(whole)[:images] for seed in seeds]
    data = tuple(np.stack([arrays[key][rows] for rows in own]) for key in ("X_train", "y_train"))
    probe = jnp.asarray(arrays["X_train"][:measured])
    test = tuple(jnp.asarray(arrays[key][:tested]) for key in ("X_test", "y_test"))
    networks = stacked([[lenet(seed, alpha) for alpha in alphas] for seed in seeds])
    wanted, stops = checkpoints(steps)
    path = train_together(
        cross_entropy, networks, jax.tree.map(jnp.asarray, data), OPTIMIZERS[optimizer](rate),
        checkpoints=stops, batch_size=batch_size, seed=seeds[0],
    )  # fmt: skip
    seen = [_observe(networks, now, probe, test) for step, now in path if step in wanted]
    return LeNetRuns(
        np.array(alphas, dtype=float),
        np.array(wanted),
        rate,
        min(images, whole) / batch_size,
        **{name: np.stack([one[name] for one in seen], axis=2) for name in _BY_SEED},
    )


def stacked(networks: Sequence[Sequence[Any]]) -> Any:
    """Networks in rows (seeds) and columns (cells) as one tree with two leading axes."""
    rows = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *row) for row in networks]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)


def checkpoints(steps: int) -> tuple[list[int], list[int]]:
    """Steps to measure at, 1 2 5 10 20 ..., and all steps to stop at.

    The stops between are 1, 10, 100, ... apart, since every new distance compiles a new program.
    """
    powers = [10**k for k in range(len(str(steps)))]
    wanted = sorted({0, steps} | {m * p for p in powers for m in (1, 2, 5) if m * p <= steps})
    stops = {m * p for p in powers for m in range(10) if m * p <= steps}
    return wanted, sorted(stops | {steps})


def cross_entropy(network: LeNet, batch: Any) -> jax.Array:
    """Mean over images (bytes) and their labels."""
    images, labels = batch
    outputs = respond(network, standardized(images))
    return optax.softmax_cross_entropy_with_integer_labels(outputs, labels).mean()


def standardized(images: jax.Array) -> jax.Array:
    """Bytes `(n, 28, 28)` as inputs of the network, `(n, 28, 28, 1)`."""
    return (images[..., None].astype(jnp.float32) - _MEAN) / _DEVIATION


def _observe(starts: LeNet, networks: LeNet, probe: jax.Array, test: Any) -> dict[str, np.ndarray]:
    """Every measure at one checkpoint, `(seed, alpha)`."""
    shape = networks.biases[0].shape[:2]
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (starts, networks))
    measured = _measure(flat, probe, test)
    return {key: np.asarray(each, dtype=float).reshape(shape) for key, each in measured.items()}


@jax.jit
def _measure(pairs: tuple[LeNet, LeNet], probe: jax.Array, test: Any) -> dict[str, jax.Array]:
    """Pair by pair: the kernels of all networks would not fit at once."""
    x = standardized(probe)

    def one(pair: tuple[LeNet, LeNet]) -> dict[str, jax.Array]:
        kernels = [lenet_kernel(network, x) for network in pair]
        active = [activation_patterns(network, x) for network in pair]
        theta = [ravel_pytree(network)[0] for network in pair]
        return {
            "kernel": turned(*kernels),
            "traced": turned(*(jnp.einsum("icjc->ij", kernel) for kernel in kernels)),
            "hamming": hamming_distance(*active),
            "parameter": jnp.linalg.norm(theta[1] - theta[0]),
            **_success(pair[1], test),
        }

    return jax.lax.map(one, pairs)


def _success(network: LeNet, test: Any) -> dict[str, jax.Array]:
    right = respond(network, standardized(test[0])).argmax(axis=1) == test[1]
    return {"loss": cross_entropy(network, test), "accuracy": jnp.mean(right)}


# ---------------------------------------------------------------- the figure

REDUCED: dict[str, Any] = {
    "alphas": (0.25, 1.0, 4.0), "seeds": (0, 1), "steps": 500, "batch_size": 32, "images": 2000,
    "measured": 50, "tested": 1000,
}  # fmt: skip
FULL: dict[str, Any] = {
    "alphas": (0.25, 0.5, 1.0, 2.0, 4.0), "seeds": tuple(range(8)), "steps": 10_000,
    "batch_size": 512, "images": 60_000, "measured": 500, "tested": 10_000,
}  # fmt: skip
RATES = {False: {"adam": 1e-3, "sgd": 1e-3}, True: {"adam": 1e-4, "sgd": 1e-3}}
"""By `full`. The paper's 1e-4 where there are steps enough; plain gradient descent would need all of the
paper's 500 epochs with it, and is as good as the flow with ten times more."""
_NAMES = {"adam": "Adam", "sgd": "plain SGD"}


def figure_5a(full: bool = False) -> FigureResult:
    """Kernel, activations and parameters of LeNet-5 leave their start, for several alpha.

    The reduced run has 2,000 images of MNIST, 3 values of alpha, 2 seeds and 16 times smaller batches;
    the full one (for a GPU) all of MNIST, 5 values, 8 seeds and 85 of the paper's 500 epochs.
    """
    return figure_of({name: lenet_runs(**settings(name, full)) for name in OPTIMIZERS})


def settings(optimizer: str, full: bool) -> dict[str, Any]:
    """What `lenet_runs` is called with for one of the two optimizers."""
    return {**(FULL if full else REDUCED), "optimizer": optimizer, "rate": RATES[full][optimizer]}


def figure_of(runs: dict[str, LeNetRuns]) -> FigureResult:
    """The figure and its claims from runs by optimizer, made here or elsewhere."""
    some = next(iter(runs.values()))
    seeds = some.kernel.shape[0]
    epochs = some.steps[-1] / some.epoch
    return FigureResult(
        "rich-5a",
        f"LeNet-5 on MNIST, first layer / alpha, last layer x alpha ({seeds} seeds, {epochs:.3g} epochs)",
        tuple(claim for name, each in runs.items() for claim in _claims(_NAMES[name], each)),
        _draw(runs),
        {name: each.to_json() for name, each in runs.items()},
    )


def _claims(name: str, runs: LeNetRuns) -> list[Claim]:
    alphas = listed(runs.alphas)
    early = _reached_early(runs)
    standard = int(np.argmin(np.abs(np.log(runs.alphas))))
    by_pattern, by_parameter = (_rank_correlation(runs, key) for key in ("hamming", "parameter"))
    loss = runs.loss[:, :, 0]
    change = float(np.max(np.ptp(loss, axis=1) / loss.mean(axis=1)))
    return [
        Claim(f"{name}: every alpha starts from the same function (relative spread of the loss)",
              f"{change:.2g}", change < 1e-3),
        Claim(f"{name}: kernel distance at the end rises with alpha ({alphas})",
              f"{_ends(runs, 'kernel')}; summed over outputs {_ends(runs, 'traced')}",
              _rises(runs, "kernel")),
        Claim(f"{name}: Hamming distance at the end rises with alpha ({alphas})",
              _ends(runs, "hamming"), _rises(runs, "hamming")),
        Claim(f"{name}: the kernel of the standard start, alpha = {runs.alphas[standard]:g}, moves early: "
              f"half of its distance in a tenth of training (part reached, alpha {alphas})",
              listed(np.round(early, 3)), bool(early[standard] > 0.5)),
        Claim(f"{name}: the kernel goes with activation patterns, not with parameters (rank "
              "correlation over alphas and seeds at the end; growth from smallest to largest alpha)",
              f"Hamming {by_pattern:.2f}, parameters {by_parameter:.2f}; kernel "
              f"x{_growth(runs, 'kernel'):.2g}, Hamming x{_growth(runs, 'hamming'):.2g}, "
              f"parameters x{_growth(runs, 'parameter'):.2g}", by_pattern > by_parameter + 0.2),
    ]  # fmt: skip


def _mean_end(runs: LeNetRuns, key: str) -> np.ndarray:
    return getattr(runs, key)[:, :, -1].mean(axis=0)


def _ends(runs: LeNetRuns, key: str) -> str:
    """Means over seeds at the end, and in how many seeds they rise."""
    each = getattr(runs, key)[:, :, -1]
    rising = sum(bool(np.all(np.diff(row) > 0)) for row in each)
    return f"{listed(np.round(_mean_end(runs, key), 4))} (in {rising} of {len(each)} seeds)"


def _rises(runs: LeNetRuns, key: str) -> bool:
    return falls(-_mean_end(runs, key))


def _growth(runs: LeNetRuns, key: str) -> float:
    ends = _mean_end(runs, key)
    return float(ends[-1] / ends[0])


def _reached_early(runs: LeNetRuns) -> np.ndarray:
    """Kernel distance after the first part of training, by that at the end, for every alpha."""
    soon = int(np.flatnonzero(runs.steps <= _EARLY * runs.steps[-1])[-1])
    mean = runs.kernel.mean(axis=0)
    return mean[:, soon] / mean[:, -1]


def _rank_correlation(runs: LeNetRuns, key: str) -> float:
    ends = (getattr(runs, each)[:, :, -1].ravel() for each in ("kernel", key))
    return float(spearmanr(*ends).statistic)


_PANELS = {
    "kernel": "kernel distance S(0, t)",
    "hamming": "Hamming distance",
    "parameter": "parameter distance",
    "accuracy": "test accuracy",
}


def _draw(runs: dict[str, LeNetRuns]) -> Any:
    with draw.styled():
        rows = len(runs)
        figure, axes = draw.new_figure(rows, 4, width=14, height=3.2 * rows, squeeze=False)
        for row, (name, each) in zip(axes, runs.items(), strict=True):
            colors = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(each.alphas)))
            for one, (key, label) in zip(row, _PANELS.items(), strict=True):
                _panel(one, each, key, colors)
                one.set_title(f"{_NAMES[name]}: {label}", fontsize=10)
            row[0].plot([], [], color="0.4", linestyle=":", label="summed over outputs")
            row[0].legend(fontsize=7)
    return figure


def _panel(axes: Any, runs: LeNetRuns, key: str, colors: Any) -> None:
    """Means over seeds, and the span between the lowest and the highest seed."""
    values = getattr(runs, key)
    for k, (alpha, color) in enumerate(zip(runs.alphas, colors, strict=True)):
        axes.plot(
            runs.steps, values[:, k].mean(axis=0), color=color, label=rf"$\alpha$ = {alpha:g}"
        )
        low, high = values[:, k].min(axis=0), values[:, k].max(axis=0)
        axes.fill_between(runs.steps, low, high, color=color, alpha=0.2, linewidth=0)
        if key == "kernel":
            axes.plot(runs.steps, runs.traced[:, k].mean(axis=0), color=color, linestyle=":")
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(0, runs.steps[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step")

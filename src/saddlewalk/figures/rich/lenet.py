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
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.stats import spearmanr

from saddlewalk.figures.claims import Claim, FigureResult, falls, listed
from saddlewalk.figures.drawing import mean_and_span, shades
from saddlewalk.figures.networks.distances import hamming_distance, turned
from saddlewalk.figures.networks.ensembles import stacked, train_ensemble
from saddlewalk.figures.networks.lenet import (
    LeNet,
    activation_patterns,
    cross_entropy,
    lenet,
    lenet_kernel,
    standardized,
    success,
)
from saddlewalk.figures.networks.optimizers import optax
from saddlewalk.figures.networks.runs import SeedRuns
from saddlewalk.show import draw
from saddlewalk.tasks.public import load_public

_EARLY = 0.1
"""The part of training that counts as early."""


# ---------------------------------------------------------------- the runs

OPTIMIZERS = ("adam", "sgd")


@dataclass(frozen=True)
class LeNetRuns(SeedRuns):
    """Distances from the start, `(seed, alpha, checkpoint)`, and how well the networks do."""

    by_seed: ClassVar[tuple[str, ...]] = (
        "kernel",
        "traced",
        "hamming",
        "parameter",
        "loss",
        "accuracy",
    )
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
    alphas : what the first layer is divided by, and the last one multiplied by.
    seeds : of the starts and of the images; the first is that of the batches, too.
    optimizer : "adam" or "sgd".
    rate : learning rate.
    steps : of the training; checkpoints are at 0, 1, 2, 5, 10, 20, ... and at the last.
    batch_size : images of one step.
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
    path = train_ensemble(
        cross_entropy, networks, jax.tree.map(jnp.asarray, data), getattr(optax, optimizer)(rate),
        checkpoints=stops, batch_size=batch_size, seed=seeds[0],
    )  # fmt: skip
    seen = [_observe(networks, now, probe, test) for step, now in path if step in wanted]
    return LeNetRuns(
        np.array(alphas, dtype=float),
        np.array(wanted),
        rate,
        min(images, whole) / batch_size,
        **{name: np.stack([one[name] for one in seen], axis=2) for name in LeNetRuns.by_seed},
    )


def checkpoints(steps: int) -> tuple[list[int], list[int]]:
    """Steps to measure at, 1 2 5 10 20 ..., and all steps to stop at.

    The stops between are 1, 10, 100, ... apart, since every new distance compiles a new program.

    Parameters
    ----------
    steps : number of the last step.
    """
    powers = [10**k for k in range(len(str(steps)))]
    wanted = sorted({0, steps} | {m * p for p in powers for m in (1, 2, 5) if m * p <= steps})
    stops = {m * p for p in powers for m in range(10) if m * p <= steps}
    return wanted, sorted(stops | {steps})


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
            **success(pair[1], test),
        }

    return jax.lax.map(one, pairs)


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

    Parameters
    ----------
    full : the full run.
    """
    return figure_of({name: lenet_runs(**settings(name, full)) for name in OPTIMIZERS})


def settings(optimizer: str, full: bool) -> dict[str, Any]:
    """What `lenet_runs` is called with for one of the two optimizers.

    Parameters
    ----------
    optimizer : "adam" or "sgd".
    full : of the full run; else of the reduced one.
    """
    return {**(FULL if full else REDUCED), "optimizer": optimizer, "rate": RATES[full][optimizer]}


def figure_of(runs: dict[str, LeNetRuns]) -> FigureResult:
    """The figure and its claims from runs by optimizer, made here or elsewhere.

    Parameters
    ----------
    runs : what `lenet_runs` gave, by optimizer.
    """
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


def _ends(runs: LeNetRuns, key: str) -> str:
    """Means over seeds at the end, and in how many seeds they rise."""
    each = getattr(runs, key)[:, :, -1]
    rising = sum(bool(np.all(np.diff(row) > 0)) for row in each)
    return f"{listed(np.round(runs.at_end(key), 4))} (in {rising} of {len(each)} seeds)"


def _rises(runs: LeNetRuns, key: str) -> bool:
    return falls(-runs.at_end(key))


def _growth(runs: LeNetRuns, key: str) -> float:
    ends = runs.at_end(key)
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
            colors = shades(len(each.alphas))
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
        mean_and_span(axes, runs.steps, values[:, k], color, rf"$\alpha$ = {alpha:g}")
        if key == "kernel":
            axes.plot(runs.steps, runs.traced[:, k].mean(axis=0), color=color, linestyle=":")
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(0, runs.steps[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("step")

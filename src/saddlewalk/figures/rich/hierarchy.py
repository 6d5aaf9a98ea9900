r"""Fig 5c of Get Rich Quick: relative scale and the sample complexity of the Random Hierarchy Model.

The first layer is divided by :math:`\alpha`, the readout multiplied by it: the function at the start is
the same, and for :math:`\alpha > 1` (upstream) the first layer learns faster than the readout.

The parameterization is that of the code of the Random Hierarchy Model: weights N(0, 1), sums divided by
the square root of their length in hidden layers and by their length in the readout, so that the rate is
0.1 times the width. Momentum 0.9, batches of 128, no bias, no weight decay. The cosine of the rate reaches
zero at 80% of the epochs and, as in PyTorch, rises again after. The paper does not give the sizes of
the training sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.figures.claims import Claim, FigureResult, falls, listed
from saddlewalk.figures.drawing import shades
from saddlewalk.figures.networks.ensembles import stacked_trees, train_ensemble
from saddlewalk.figures.networks.optimizers import optax
from saddlewalk.figures.networks.perceptron import WIDTH, Weights, accuracy, class_loss, perceptrons
from saddlewalk.show import draw
from saddlewalk.tasks.hierarchy import random_hierarchy

ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
PARTS = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4)
"""Sizes of the training set, as parts of all 131,072 data."""
SEEDS, EPOCHS, TESTED = 6, 250, 20_000
THRESHOLD = 0.5
"""Test accuracy at which training sets are compared; chance is 1/8."""
_RATE, _MOMENTUM, _BATCH, _DECAYED = 0.1 * WIDTH, 0.9, 128, 0.8
_FITTED = 0.99


@dataclass(frozen=True)
class HierarchyRuns:
    """Accuracies `(sizes, seeds, alphas)` at the end of training."""

    alphas: tuple[float, ...]
    sizes: tuple[int, ...]
    train: np.ndarray
    test: np.ndarray

    @property
    def middle(self) -> int:
        """Index of the size at which balanced networks are nearest to the threshold."""
        balanced = self.test.mean(axis=1)[:, int(np.argmin(np.abs(np.log(self.alphas))))]
        return int(np.argmin(np.abs(balanced - THRESHOLD)))

    @property
    def needed(self) -> np.ndarray:
        """Training size at which the mean test accuracy reaches the threshold, one an alpha."""
        return np.array([size_needed(self.sizes, curve) for curve in self.test.mean(axis=1).T])

    def joined(self, other: "HierarchyRuns") -> "HierarchyRuns":
        """These sizes and then those of another run."""
        return HierarchyRuns(
            self.alphas,
            self.sizes + other.sizes,
            np.concatenate([self.train, other.train]),
            np.concatenate([self.test, other.test]),
        )


def figure_5c(full: bool = False) -> FigureResult:
    """Test accuracy against the size of the training set, one line an alpha.

    In small: half of the seeds, no training set of more than 1/16 of the data, 5,000 test data.
    Hierarchy, network, alphas and epochs are the paper's.

    Parameters
    ----------
    full : with all sizes, seeds and test data.
    """
    runs = (
        hierarchy_accuracy() if full else hierarchy_accuracy(parts=PARTS[:4], seeds=3, tested=5000)
    )
    return hierarchy_figure(runs)


def hierarchy_figure(runs: HierarchyRuns) -> FigureResult:
    """Picture and claims of runs that were made before, at once or size by size.

    Parameters
    ----------
    runs : what `hierarchy_accuracy` gave.
    """
    seeds = runs.test.shape[1]
    mean = runs.test.mean(axis=1)
    at = runs.sizes[runs.middle]
    ordered = int(np.sum(np.all(np.diff(_three(runs)) > 0, axis=1)))
    return FigureResult(
        "rich-5c",
        "fast first layers learn a hierarchy from fewer samples",
        (
            Claim(
                "the test accuracies compare networks that fit their training data "
                "(smallest training accuracy)",
                f"{runs.train.min():.4g}",
                bool(runs.train.min() >= _FITTED),
            ),
            Claim(
                f"{at} training data: mean test accuracy rises with alpha = {listed(runs.alphas)}",
                listed(mean[runs.middle]),
                falls(-mean[runs.middle]),
            ),
            Claim(
                f"{at} training data: downstream < balanced < upstream, seed by seed "
                f"(alpha = {listed(_three_alphas(runs))})",
                f"{ordered} of {seeds} seeds",
                ordered == seeds,
            ),
            Claim(
                f"training data needed for {THRESHOLD:.0%} fall with alpha (inf: more than "
                f"{runs.sizes[-1]})",
                listed(runs.needed),
                _fall_where_reached(runs.needed),
            ),
        ),
        _draw(runs),
        {
            "alphas": list(runs.alphas),
            "sizes": list(runs.sizes),
            "test": np.round(runs.test, 5).tolist(),
            "train": np.round(runs.train, 5).tolist(),
            "needed": [float(value) if np.isfinite(value) else None for value in runs.needed],
        },
    )


def hierarchy_accuracy(
    alphas: Sequence[float] = ALPHAS,
    parts: Sequence[float] = PARTS,
    seeds: int = SEEDS,
    epochs: int = EPOCHS,
    tested: int = TESTED,
    **hierarchy: int,
) -> HierarchyRuns:
    """Train every alpha and seed on training sets of every size, and test.

    A seed draws the rules, the data and the network. Its alphas share all of them, and its smaller training
    sets are the beginning of the larger ones, whatever the sizes: runs of single sizes can be joined.

    Parameters
    ----------
    alphas : what the first layer is divided by, and the readout multiplied by.
    parts : sizes of the training sets, as parts of all data.
    seeds : number of repetitions.
    epochs : of each training.
    tested : number of test data.
    **hierarchy : settings of `random_hierarchy`.
    """
    models = [random_hierarchy(**hierarchy, seed=seed) for seed in range(seeds)]
    sizes = tuple(round(part * models[0].total) for part in parts)
    splits = [model.split(max(sizes), tested, seed) for seed, model in enumerate(models)]
    train, test = (_stacked([split[side] for split in splits]) for side in (0, 1))
    starts = [
        perceptrons(alphas, models[0].inputs, models[0].classes, seed) for seed in range(seeds)
    ]
    networks = stacked_trees(starts)
    accuracies = [
        _train(networks, tuple(array[:, :size] for array in train), test, epochs) for size in sizes
    ]
    on_train, on_test = (np.stack(side) for side in zip(*accuracies, strict=True))
    return HierarchyRuns(tuple(alphas), sizes, on_train, on_test)


def size_needed(
    sizes: Sequence[int], accuracy: np.ndarray | Sequence[float], level: float = THRESHOLD
) -> float:
    """Where a curve first reaches a level, on a line between logarithms of sizes; infinite if nowhere.

    Parameters
    ----------
    sizes : of the training sets, rising.
    accuracy : at each of them.
    level : accuracy that is wanted.
    """
    reached = np.flatnonzero(np.asarray(accuracy) >= level)
    if len(reached) == 0:
        return np.inf
    k = int(reached[0])
    if k == 0:
        return float(sizes[0])
    part = (level - accuracy[k - 1]) / (accuracy[k] - accuracy[k - 1])
    return float(sizes[k - 1] * (sizes[k] / sizes[k - 1]) ** part)


def _train(networks: Weights, train: Any, test: Any, epochs: int) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies `(seeds, alphas)` on training and test data."""
    samples = train[0].shape[1]
    batch = min(_BATCH, samples)
    steps = max(epochs * samples // batch, 1)

    def rate(step: jax.Array) -> jax.Array:
        return 0.5 * _RATE * (1 + jnp.cos(jnp.pi * step / (_DECAYED * steps)))

    optimizer = optax.sgd(rate, momentum=_MOMENTUM)
    run = train_ensemble(
        class_loss, networks, train, optimizer, checkpoints=[steps], batch_size=batch, seed=samples
    )
    _, trained = next(run)
    on_train, on_test = (np.asarray(accuracy(trained, *data), float) for data in (train, test))
    return on_train, on_test


def _stacked(data: list[Any]) -> tuple[jax.Array, jax.Array]:
    x, labels = zip(*data, strict=True)
    return jnp.asarray(np.stack(x)), jnp.asarray(np.stack(labels).astype(np.int32))


def _three(runs: HierarchyRuns) -> np.ndarray:
    """Test accuracies `(seeds, 3)` at the middle size: most downstream, balanced, most upstream."""
    return runs.test[runs.middle][:, [runs.alphas.index(alpha) for alpha in _three_alphas(runs)]]


def _three_alphas(runs: HierarchyRuns) -> tuple[float, ...]:
    return min(runs.alphas), min(runs.alphas, key=lambda a: abs(np.log(a))), max(runs.alphas)


def _fall_where_reached(needed: np.ndarray) -> bool:
    """Sizes fall from the first alpha that reaches the threshold on, and at least three do."""
    finite = np.isfinite(needed)
    late = np.all(np.diff(finite.astype(int)) >= 0)
    return bool(late and finite.sum() > 2 and falls(needed[finite]))


def _draw(runs: HierarchyRuns) -> Any:
    seeds = runs.test.shape[1]
    with draw.styled():
        figure, (left, right) = draw.new_figure(1, 2, width=10)
        colors = shades(len(runs.alphas))
        for k, (alpha, color) in enumerate(zip(runs.alphas, colors, strict=True)):
            each = runs.test[:, :, k]
            mean = each.mean(axis=1)
            # a little beside each other: ranges over the seeds would hide one another
            beside = np.array(runs.sizes) * 1.03 ** (k - len(runs.alphas) / 2)
            ends = np.stack([mean - each.min(axis=1), each.max(axis=1) - mean])
            left.errorbar(
                beside, mean, ends, fmt="o-", ms=4, lw=1.6, elinewidth=0.8, color=color,
                label=rf"$\alpha$ = {alpha:g}",
            )  # fmt: skip
        left.axhline(THRESHOLD, color="0.6", linewidth=0.8)
        left.set(xlabel="training data", ylabel="test accuracy", ylim=(0, 1))
        left.set_title(f"mean of {seeds} seeds, bars from the smallest to the largest", fontsize=10)
        left.legend(fontsize=8)
        for seed in range(seeds):
            one = [size_needed(runs.sizes, curve) for curve in runs.test[:, seed].T]
            label = None if seed else "one seed"
            right.plot(runs.alphas, one, ".-", color="0.6", lw=0.8, label=label)
        right.plot(runs.alphas, runs.needed, "ko-", ms=4, lw=1.6, label="mean accuracy")
        right.set(
            xscale="log",
            xlabel=r"$\alpha$ (first layer / $\alpha$, readout $\times\, \alpha$)",
            ylabel=f"training data needed for {THRESHOLD:.0%}",
        )
        right.set_title(f"no point where {runs.sizes[-1]} are too few", fontsize=10)
        right.legend(fontsize=8)
        for axis, scale in ((left.xaxis, left.set_xscale), (right.yaxis, right.set_yscale)):
            scale("log")
            axis.set_ticks(runs.sizes, labels=[f"{size}" for size in runs.sizes])
            axis.set_ticks([], minor=True)
    return figure

"""Fig 5 (b) of Get rich quick: filters of a convolutional network that start small become smooth.

The paper trains the small ResNet of the DAWN benchmark on CIFAR-10, with a first convolution of 15 x 15
pixels instead of 3 x 3 and no weight decay. Here the network has one convolution of 15 x 15, some of
3 x 3 and a readout, each convolution followed by batch normalization, as there; residual branches,
half precision and augmented images are left out. The rate rises to the same peak and falls as in the
script, with the same momentum.

**What alpha does.** The filters of the first layer are divided by alpha: alpha > 1 is the smaller start,
upstream, as everywhere in the paper. (The caption of its supplementary figure calls alpha < 1 the small
one, against its own text.) Batch normalization makes the network blind to the length of a filter, so
alpha does not change the function at the start; the direction of a filter, however, turns at the rate

    d(w/|w|)/dt = -eta/|w|^2 * (gradient with respect to the direction),

that is alpha^2 times faster. A filter that starts small forgets its random start and becomes what the
gradients of natural images made of it, which is smooth; one that starts large keeps its noise.

**Smoothness** is the paper's: the squared norm of the filter of one color, at unit norm, convolved with
the 3 x 3 kernel that it prints; the smaller, the smoother. Only places where the kernel lies inside the
filter count ("valid"): beyond its border a filter has no values. The printed kernel sums to -1 and not to
0, so it is no Laplacian: a constant filter has 169/225 = 0.75, white noise 3.94 on average.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.figures.claims import Claim, FigureResult, falls, listed
from saddlewalk.figures.drawing import mean_and_span, shades
from saddlewalk.figures.networks.ensembles import stacked, train_ensemble
from saddlewalk.figures.networks.filters import (
    COLORS,
    PEAK,
    SIDE,
    FilterNet,
    ImageLoss,
    accuracies,
    as_images,
    descent,
    filter_net,
)
from saddlewalk.figures.networks.runs import SeedRuns
from saddlewalk.show import draw
from saddlewalk.tasks.public import load_public

KERNEL = np.array([[-0.25, -0.5, -0.25], [-0.5, 2.0, -0.5], [-0.25, -0.5, -0.25]])
"""As printed."""
LAPLACIAN = KERNEL + np.diag([0.0, 1.0, 0.0])
"""With the center that makes it sum to zero."""
_SHOWN = 24
"""Filters that are kept for the picture."""


# ---------------------------------------------------------------- the runs


def smoothness(filters: Any, kernel: np.ndarray = KERNEL) -> np.ndarray:
    """Squared norm of filters `(..., 15, 15)` at unit norm, convolved with a kernel (the valid part).

    Parameters
    ----------
    filters : of one color each.
    kernel : of 3 x 3.
    """
    w = np.asarray(filters, dtype=float)
    w = w / np.linalg.norm(w, axis=(-2, -1), keepdims=True)
    high, wide = (length - 2 for length in w.shape[-2:])
    answer = sum(
        kernel[2 - i, 2 - j] * w[..., i : i + high, j : j + wide]
        for i in range(3)
        for j in range(3)
    )
    return np.asarray(np.sum(np.square(answer), axis=(-2, -1)))


@dataclass(frozen=True)
class FilterRuns(SeedRuns):
    """What became of the filters, `(seed, alpha, checkpoint)`, and how well the networks do."""

    by_seed: ClassVar[tuple[str, ...]] = ("smooth", "laplacian", "aligned", "train", "test")
    alphas: np.ndarray
    epochs: np.ndarray
    """Of the checkpoints; the first is 0."""
    images: int
    """In the training set."""
    smooth: np.ndarray
    """Mean over filters and colors."""
    laplacian: np.ndarray
    """The same with the kernel that sums to zero."""
    aligned: np.ndarray
    """Cosine between a filter and its start, mean over filters."""
    train: np.ndarray
    """Accuracy."""
    test: np.ndarray
    filters: np.ndarray
    """Some at the end for the first seed, `(alpha, filter, 15, 15, 3)`, largest value 1."""


def filter_runs(
    alphas: Sequence[float],
    seeds: Sequence[int],
    *,
    widths: Sequence[int] = (64, 128, 256),
    stride: int = 1,
    images: int = 50_000,
    tested: int = 1000,
    batch_size: int = 512,
    steps: int = 1200,
    looks: int = 8,
    peak: float = PEAK,
) -> FilterRuns:
    """Train the network from every alpha and seed, and follow its first filters.

    Parameters
    ----------
    alphas : what the first filters are divided by.
    seeds : of the starts; the first is that of the batches, too.
    widths : outputs of the convolutions; each halves the picture, which `stride` divides first.
    stride : of the first convolution.
    images : of the training set, or as many as there are.
    tested : images on which accuracies are taken, of the training and of the test set.
    batch_size : images of one step.
    steps : of the training, rounded to a multiple of `looks`.
    looks : checkpoints after the start, equally far from each other.
    peak : highest rate.
    """
    arrays = load_public("cifar10")
    rows = np.random.default_rng(7).permutation(len(arrays["y_train"]))[:images]
    x, y = arrays["X_train"][rows], arrays["y_train"][rows]
    moments = tuple(np.float32(f(x, axis=(0, 1, 2))) for f in (np.mean, np.std))
    known = [(arrays["X_test"], arrays["y_test"]), (x, y)]
    exams = [tuple(jnp.asarray(a[:tested]) for a in pair) for pair in known]
    networks = stacked([[filter_net(s, a, widths, stride) for a in alphas] for s in seeds])
    every = max(1, round(steps / looks))
    task = ImageLoss(*(jnp.asarray(moment) for moment in moments))
    path = train_ensemble(
        task, networks, _for_each_seed((x, y), len(seeds)), descent(every * looks, peak),
        checkpoints=[every * k for k in range(looks + 1)], batch_size=batch_size, seed=seeds[0],
    )  # fmt: skip
    seen = [_observe(task, networks, now, exams) for _, now in path]
    last = as_images(seen[-1].pop("filters")[0])[:, :_SHOWN]
    return FilterRuns(
        np.array(alphas, dtype=float),
        np.arange(looks + 1) * every * batch_size / len(x),
        len(x),
        **{name: np.stack([one[name] for one in seen], axis=2) for name in FilterRuns.by_seed},
        filters=np.round(last / np.abs(last).max(axis=(2, 3, 4), keepdims=True), 3),
    )


def _for_each_seed(data: Any, seeds: int) -> Any:
    return jax.tree.map(lambda a: jnp.asarray(np.broadcast_to(a, (seeds, *a.shape))), data)


def _observe(
    task: ImageLoss, starts: FilterNet, networks: FilterNet, exams: Any
) -> dict[str, np.ndarray]:
    """Every measure at one checkpoint, `(seed, alpha)`, and the first filters."""
    shape = networks.readout.shape[:2]
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), networks)
    right = accuracies(task, flat, exams)
    test, train = (np.asarray(part, dtype=float).reshape(shape) for part in right)
    begun, now = (np.asarray(each.filters[0], dtype=float) for each in (starts, networks))
    lengths = [np.linalg.norm(each, axis=-2) for each in (begun, now)]
    cosine = np.sum(begun * now, axis=-2) / (lengths[0] * lengths[1])
    colors = np.moveaxis(as_images(now), -1, -3)
    return {
        "smooth": smoothness(colors).mean(axis=(-2, -1)),
        "laplacian": smoothness(colors, LAPLACIAN).mean(axis=(-2, -1)),
        "aligned": cosine.mean(axis=-1),
        "train": train,
        "test": test,
        "filters": now,
    }


# ---------------------------------------------------------------- the figure

REDUCED: dict[str, Any] = {
    "alphas": (0.1, 1.0, 10.0), "seeds": (0, 1), "widths": (16, 32), "stride": 2, "images": 1000,
    "tested": 500, "batch_size": 64, "steps": 200, "looks": 5,
}  # fmt: skip
FULL: dict[str, Any] = {
    "alphas": (0.1, 0.3, 1.0, 3.0, 10.0), "seeds": (0, 1, 2, 3), "widths": (64, 128, 256),
    "stride": 1, "images": 50_000, "tested": 1000, "batch_size": 512, "steps": 1200, "looks": 8,
}  # fmt: skip
_COMPARABLE = 0.05
"""Accuracies that differ by less are the same."""
_COLUMNS = 8
"""Filters side by side."""


def figure_5b(full: bool = False) -> FigureResult:
    """First filters for several alpha: their pictures, their smoothness, and the accuracies.

    The reduced run has 16 filters, 1,000 images, 3 values of alpha and 2 seeds; the full one (for a GPU)
    64 filters at every pixel, all images that are on the machine, 5 values and 4 seeds.

    Parameters
    ----------
    full : the full run.
    """
    return figure_of(filter_runs(**(FULL if full else REDUCED)))


def figure_of(runs: FilterRuns) -> FigureResult:
    """The figure and its claims from runs made here or elsewhere.

    Parameters
    ----------
    runs : what `filter_runs` gave.
    """
    return FigureResult(
        "rich-5b",
        f"filters of 15 x 15 on {runs.images:,} images of CIFAR-10, divided by alpha at the start "
        f"({len(runs.smooth)} seeds, {runs.epochs[-1]:.3g} epochs)",
        tuple(_claims(runs)),
        _draw(runs),
        runs.to_json(),
    )


def _claims(runs: FilterRuns) -> list[Claim]:
    alphas = listed(runs.alphas)
    start = runs.smooth[:, :, 0].mean()
    smooth, laplacian, aligned = (runs.at_end(key) for key in ("smooth", "laplacian", "aligned"))
    claims = [
        Claim(f"the smaller the filters start, the smoother they become (alpha {alphas}; smoothness, "
              f"{start:.3g} at the start)",
              f"{listed(np.round(smooth, 3))} (in {_falling(runs)} of {len(runs.smooth)} seeds); with "
              f"a kernel that sums to zero {listed(np.round(laplacian, 3))}", falls(smooth)),
        Claim("the smaller the filters start, the faster they learn (cosine with their start)",
              listed(np.round(aligned, 3)), falls(aligned)),
    ]  # fmt: skip
    for key, name in (("train", "training"), ("test", "test")):
        ends = runs.at_end(key)
        spread = float(np.std(getattr(runs, key)[:, :, -1], axis=0).max())
        statement = f"all alpha reach comparable {name} accuracy (within {_COMPARABLE:g})"
        measured = f"{listed(np.round(ends, 3))}, deviation of seeds up to {spread:.2g}"
        claims.append(Claim(statement, measured, bool(np.ptp(ends) < _COMPARABLE)))
    return claims


def _falling(runs: FilterRuns) -> int:
    return sum(falls(row) for row in runs.smooth[:, :, -1])


def _draw(runs: FilterRuns) -> Any:
    with draw.styled():
        tall = 0.6 * -(-runs.filters.shape[1] // _COLUMNS)  # inches of the rows of filters
        figure, axes = draw.new_figure(
            2, 3, width=13, height=tall + 3.8, gridspec_kw={"height_ratios": [tall, 3.2]}
        )
        middle = len(runs.alphas) // 2
        for one, k in zip(axes[0], (0, middle, len(runs.alphas) - 1), strict=True):
            one.imshow(mosaic(runs.filters[k]), interpolation="nearest")
            one.set_title(rf"filters at the end, $\alpha$ = {runs.alphas[k]:g}", fontsize=10)
            one.set_axis_off()
        _draw_smoothness_along(axes[1, 0], runs)
        _draw_by_alpha(axes[1, 1], runs, {"smooth": "smoothness at the end"})
        axes[1, 1].axhline(runs.smooth[:, :, 0].mean(), color="0.5", linestyle=":", label="start")
        axes[1, 1].set_ylim(bottom=0)
        _draw_by_alpha(axes[1, 2], runs, {"train": "training accuracy", "test": "test accuracy"})
        axes[1, 2].set_ylim(0, 1)
        for one in axes[1]:
            one.legend(fontsize=8)
    return figure


def mosaic(filters: np.ndarray) -> np.ndarray:
    """Filters `(n, 15, 15, 3)` side by side as one picture; gray is zero.

    Parameters
    ----------
    filters : with values from -1 to 1.
    """
    rows = -(-len(filters) // _COLUMNS)
    picture = np.ones((rows * (SIDE + 1), _COLUMNS * (SIDE + 1), COLORS))
    for k, one in enumerate(filters):
        top, left = (place * (SIDE + 1) for place in divmod(k, _COLUMNS))
        picture[top : top + SIDE, left : left + SIDE] = 0.5 + 0.5 * one
    return picture[:-1, :-1]


def _draw_smoothness_along(axes: Any, runs: FilterRuns) -> None:
    colors = shades(len(runs.alphas))
    for k, (alpha, color) in enumerate(zip(runs.alphas, colors, strict=True)):
        mean_and_span(axes, runs.epochs, runs.smooth[:, k], color, rf"$\alpha$ = {alpha:g}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("epoch")
    axes.set_ylabel("smoothness (small is smooth)")


def _draw_by_alpha(axes: Any, runs: FilterRuns, shown: dict[str, str]) -> None:
    """The mean over seeds, and every seed as a dot."""
    for color, (key, label) in enumerate(shown.items()):
        each = getattr(runs, key)[:, :, -1]
        axes.plot(runs.alphas, each.mean(axis=0), color=f"C{color}", label=label)
        axes.plot(runs.alphas, each.T, ".", color=f"C{color}")
    axes.set_xscale("log")
    axes.set_xlabel(r"$\alpha$ (first filters are divided by it)")

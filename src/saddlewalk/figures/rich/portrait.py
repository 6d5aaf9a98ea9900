"""Fig 1b of Get Rich Quick and its supporting figure: the student of a teacher, over scale and balance."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from saddlewalk.figures.claims import Claim, FigureResult, close, falls, listed
from saddlewalk.figures.rich.students import Grid, Portrait, portrait
from saddlewalk.show import draw

PAPER_KERNEL = {100: 0.2385, 1_000: 0.5370, 10_000: 0.6102, 100_000: 0.6150}
"""Largest kernel distance of the grid after so many steps, as the official notebooks print it."""
REDUCED = Grid(
    taus=(0.1, 0.2, 0.45, 0.95, 2.0),
    deltas=(-1.0, -0.5, -0.125, 0.0, 0.125, 0.5, 1.0),
    seeds=(100, 101),
    steps=(100, 1_000),
    tested=2_000,
)


def figure_1b(full: bool = False) -> FigureResult:
    """Test error and kernel distance over scale and balance; `full`: the paper's grid, seeds and steps.

    Parameters
    ----------
    full : the paper's grid, seeds and steps; else a reduced grid.
    """
    grid = Grid() if full else REDUCED
    return portrait_figure(portrait(grid), grid)


def portrait_figure(measured: Portrait, grid: Grid) -> FigureResult:
    """The picture and the claims of Fig 1b, from measured numbers.

    Parameters
    ----------
    measured : what `portrait` gave.
    grid : what it was measured on.
    """
    mean = {name: values.mean(axis=1) for name, values in measured.items()}
    test, kernel = mean["test"], mean["kernel"]
    balanced = int(np.argmin(np.abs(np.array(grid.deltas))))
    best = [_place(values.argmin(), grid) for values in test]
    early = measured["test"][0, :, 0]  # (seeds, deltas) at the smallest tau
    seeds = measured["test"].shape[1]
    return FigureResult(
        "rich-1b",
        f"phase portrait over tau and delta: test error and kernel distance, {seeds} seeds",
        (
            Claim(
                "the test error is lowest upstream at small scale (tau, delta of the best cell at "
                f"{listed(grid.steps)} steps)",
                "; ".join(f"{tau:.3g}, {delta:.3g}" for tau, delta in best),
                all(tau == grid.taus[0] and delta > 0 for tau, delta in best),
            ),
            Claim(
                f"at tau = {grid.taus[0]:g} upstream learns first (test error after {grid.steps[0]} steps, "
                f"delta = {grid.deltas[0]:g}, 0, {grid.deltas[-1]:g}; range of the last over seeds)",
                f"{listed(early.mean(axis=0)[[0, balanced, -1]])}; "
                f"{early[:, -1].min():.3g} to {early[:, -1].max():.3g}",
                bool((early[:, -1] < 0.5 * early[:, [0, balanced]].min(axis=1)).all()),
            ),
            Claim(
                "far downstream the kernel stands still while upstream it turns (kernel distance after "
                f"{grid.steps[0]} steps at the smallest scale, same deltas; balanced at the largest scale)",
                listed([*kernel[0, 0, [0, balanced, -1]], kernel[0, -1, balanced]]),
                bool(max(kernel[0, 0, 0], kernel[0, -1, balanced]) < 0.02 and kernel[0, 0, -1] > 0.1),
            ),
            Claim(
                f"later it turns there too: delayed rich (the first of these at {listed(grid.steps)} steps)",
                listed(kernel[:, 0, 0]),
                bool((np.diff(kernel[:, 0, 0]) > 0).all()),
            ),
            Claim(
                "the kernel turns most at small scale, slightly downstream (tau, delta of the largest "
                "distance at the end)",
                "{:.3g}, {:.3g}: ".format(*_place(kernel[-1].argmax(), grid)) + f"{kernel[-1].max():.3g}",
                kernel[-1].argmax() // len(grid.deltas) == 0
                and -0.3 < _place(kernel[-1].argmax(), grid)[1] < 0,
            ),
            Claim(
                "largest kernel distance of the grid, within a quarter of the paper's "
                + listed(PAPER_KERNEL[step] for step in grid.steps),
                listed(kernel.max(axis=(1, 2))),
                close((kernel[k].max() / PAPER_KERNEL[step] for k, step in enumerate(grid.steps)),
                      [1.0] * len(grid.steps), 0.25),
            ),
        ),
        _draw_portrait(mean, grid, ("test", "kernel")),
        _numbers(measured, grid),
    )  # fmt: skip


def _place(cell: Any, grid: Grid) -> tuple[float, float]:
    """tau and delta of a cell."""
    return grid.cells[int(cell)]


def figure_supporting(full: bool = False) -> FigureResult:
    """Hamming and parameter distance and the training loss on the same grid.

    Parameters
    ----------
    full : the paper's grid, seeds and steps; else a reduced grid.
    """
    grid = Grid() if full else REDUCED
    return supporting_figure(portrait(grid), grid)


def supporting_figure(measured: Portrait, grid: Grid) -> FigureResult:
    """The picture and the claims of the supporting figure, from measured numbers.

    Parameters
    ----------
    measured : what `portrait` gave.
    grid : what it was measured on.
    """
    mean = {name: values.mean(axis=1)[-1] for name, values in measured.items()}
    balanced = int(np.argmin(np.abs(np.array(grid.deltas))))
    hamming, moved = mean["hamming"], mean["parameters"]
    switched = [hamming[0, -1], hamming[0, balanced], hamming[0, 0], hamming[-1, balanced]]
    return FigureResult(
        "rich-supporting",
        "activations that switch and parameters that move, over tau and delta",
        (
            Claim(
                "activations switch most upstream, then balanced, then downstream, and hardly at large scale "
                "(sum over neurons: delta = 1, 0, -1 at the smallest tau, 0 at the largest)",
                listed(switched),
                falls(switched) and bool(switched[3] < 0.05 * switched[0]),
            ),
            Claim(
                "upstream the parameters move less than balanced, though more activations switch (parameter "
                "distance at the smallest tau, delta = 1 and 0)",
                listed([moved[0, -1], moved[0, balanced]]),
                bool(moved[0, -1] < moved[0, balanced] and hamming[0, -1] >= hamming[0, balanced]),
            ),
            Claim(
                "most that switch (the authors: 20.3, 21.0, 21.2 of 50 after 100, 1,000, 10,000 steps)",
                f"{hamming.max():.3g}",
                bool(18 < hamming.max() < 25),
            ),
        ),
        _draw_portrait({k: v.mean(axis=1) for k, v in measured.items()}, grid,
                       ("hamming", "parameters", "train")),
        _numbers(measured, grid),
    )  # fmt: skip


def _numbers(measured: Portrait, grid: Grid) -> dict[str, Any]:
    return {
        "tau": list(grid.taus),
        "delta": list(grid.deltas),
        "steps": list(grid.steps),
        **{name: values.mean(axis=1).tolist() for name, values in measured.items()},
        "extremes over the grid (mean over seeds)": {
            name: [[float(v.min()), float(v.max())] for v in values.mean(axis=1)]
            for name, values in measured.items()
        },
    }


_NAMES = {
    "test": "test error",
    "kernel": "kernel distance",
    "hamming": "activations switched",
    "parameters": "parameter distance",
    "train": "training loss",
}


def _draw_portrait(mean: dict[str, np.ndarray], grid: Grid, names: Sequence[str]) -> Any:
    with draw.styled():
        figure, axes = draw.new_figure(
            len(names), len(grid.steps), 3.3 * len(grid.steps) + 1, 3.0 * len(names), squeeze=False
        )
        for row, name in zip(axes, names, strict=True):
            log = name in ("test", "train")
            shown = np.log10(np.maximum(mean[name], 1e-10)) if log else mean[name]
            for one, values, step in zip(row, shown, grid.steps, strict=True):
                image = functools.partial(
                    one.pcolormesh, grid.deltas, grid.taus, values, shading="nearest"
                )
                mesh = image(cmap="viridis", vmin=shown.min(), vmax=shown.max())
                one.set(yscale="log", xlabel=r"$\delta$", ylabel=r"$\tau$")
                one.set_title(f"{_NAMES[name]}, step {step:,}", fontsize=9)
                one.grid(False)
            label = f"log10 {_NAMES[name]}" if log else _NAMES[name]
            figure.colorbar(mesh, ax=list(row), label=label)
    return figure

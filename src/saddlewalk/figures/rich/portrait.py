"""Fig 1b of Get Rich Quick and its supporting figure: the student of a teacher, over scale and balance."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from saddlewalk.figures.claims import Claim, FigureResult, close, falls, listed
from saddlewalk.figures.rich.teacher import HIDDEN, drawn, on_sphere, squared_error
from saddlewalk.flow.ensembles import train_together
from saddlewalk.precision import in_float64
from saddlewalk.show import draw
from saddlewalk.theory.lazyrich import piecewise_kernel

RATE = 5e-3
_PLAIN = optax.sgd(1.0)
"""One object: another one, though equal, would be compiled anew."""


@dataclass(frozen=True)
class Grid:
    """What the phase portrait runs over; the defaults are the paper's."""

    taus: tuple[float, ...] = tuple(np.logspace(-1, 0.3, 17).tolist())
    deltas: tuple[float, ...] = tuple(np.linspace(-1, 1, 17).tolist())
    seeds: tuple[int, ...] = tuple(range(100, 116))
    steps: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    dim: int = 100
    samples: int = 1000
    tested: int = 10_000

    @property
    def cells(self) -> list[tuple[float, float]]:
        """tau and delta of each cell, row by row of tau."""
        return [(tau, delta) for tau in self.taus for delta in self.deltas]


PAPER_KERNEL = {100: 0.2385, 1_000: 0.5370, 10_000: 0.6102, 100_000: 0.6150}
"""Largest kernel distance of the grid after so many steps, as the official notebooks print it."""
REDUCED = Grid(
    taus=(0.1, 0.2, 0.45, 0.95, 2.0),
    deltas=(-1.0, -0.5, -0.125, 0.0, 0.125, 0.5, 1.0),
    seeds=(100, 101),
    steps=(100, 1_000),
    tested=2_000,
)
MEASURES = ("test", "kernel", "hamming", "parameters", "train")
Portrait = dict[str, Float[np.ndarray, "steps seeds taus deltas"]]


# --- Fig 1b and the supporting figure ------------------------------------------------------------------


@functools.lru_cache(maxsize=1)  # two figures show the same grid
@in_float64
def portrait(grid: Grid = REDUCED) -> Portrait:
    """Train every cell and every seed at once, and measure them at the grid's steps."""
    draws = [drawn(seed, grid.dim, grid.samples) for seed in grid.seeds]
    start = jnp.asarray([[given.start(*cell) for cell in grid.cells] for given in draws])
    data = jnp.asarray([given.x for given in draws]), jnp.asarray([given.y for given in draws])
    test_x = on_sphere(np.random.default_rng(201), grid.tested, grid.dim)
    test = jnp.asarray(test_x), jnp.asarray([given.answer(test_x) for given in draws])
    rates = jnp.asarray([RATE / tau**2 for tau, _ in grid.cells])
    seen = [
        _measure(start, networks, data, test)
        for _, networks in train_together(
            squared_error, start, data, optax.sgd(1.0), checkpoints=grid.steps, rates=rates
        )
    ]
    shape = (len(draws), len(grid.taus), len(grid.deltas))
    return {
        name: np.stack([np.asarray(one[name], dtype=float).reshape(shape) for one in seen])
        for name in MEASURES
    }


def _numbers_of(
    first: Float[Array, "h size"],
    last: Float[Array, "h size"],
    data: tuple[Array, Array],
    test: tuple[Array, Array],
) -> dict[str, Float[Array, ""]]:
    x = data[0]
    switched = (x @ first[:, :-1].T > 0) != (x @ last[:, :-1].T > 0)
    return {
        "test": squared_error(last, test),
        "train": squared_error(last, data),
        "kernel": _kernel_distance(first, last, x),
        # as in the paper: summed over the neurons
        "hamming": jnp.sum(jnp.mean(switched, axis=0)),
        "parameters": jnp.linalg.norm(last - first),
    }


@jax.jit
def _measure(
    start: Float[Array, "seeds cells h size"],
    now: Float[Array, "seeds cells h size"],
    data: tuple[Array, Array],
    test: tuple[Array, Array],
) -> dict[str, Float[Array, "seeds cells"]]:
    def seed(given: tuple[Array, ...]) -> dict[str, Array]:
        first, last, x, y, test_y = given
        # kernels are n x n: a few cells at a time
        return jax.lax.map(
            lambda pair: _numbers_of(pair[0], pair[1], (x, y), (test[0], test_y)),
            (first, last),
            batch_size=4,
        )

    return jax.lax.map(seed, (start, now, *data, test[1]))


@jax.jit
def _measure_lanes(
    start: Float[Array, "lanes h size"],
    now: Float[Array, "lanes h size"],
    data: tuple[Array, Array],
    test: tuple[Array, Array],
) -> dict[str, Float[Array, " lanes"]]:
    def lane(given: tuple[Array, ...]) -> dict[str, Array]:
        first, last, x, y, test_y = given
        return _numbers_of(first, last, (x, y), (test[0], test_y))

    return jax.lax.map(lane, (start, now, *data, test[1]), batch_size=8)


@dataclass(frozen=True)
class Student:
    """One cell of the portrait, for sweeps: a student of this scale, balance and seed after so many steps."""

    name: str = "student"

    def __call__(self, **cell: Any) -> dict[str, float]:
        """Its numbers."""
        (numbers,) = self.together([cell])
        return numbers

    def program(self, cell: Mapping[str, Any]) -> str:
        """Students that were trained as long on as many samples."""
        return str(self._sizes(cell))

    def size(self, cell: Mapping[str, Any]) -> int:
        """Bytes of the samples, and of the answers of every neuron and their derivatives."""
        _, dim, samples, _ = self._sizes(cell)
        return 8 * samples * (dim + 6 * HIDDEN)

    @in_float64
    def together(self, cells: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
        """Train and measure students of one program."""
        steps, dim, samples, tested = self._sizes(cells[0])
        drawn_by = {seed: drawn(seed, dim, samples) for seed in {cell["seed"] for cell in cells}}
        draws = [drawn_by[cell["seed"]] for cell in cells]
        starts = [
            given.start(cell["tau"], cell["delta"])[None]
            for given, cell in zip(draws, cells, strict=True)
        ]
        start = jnp.asarray(np.stack(starts))
        seen_by = {seed: given.y for seed, given in drawn_by.items()}
        data = (
            jnp.asarray(np.stack([given.x for given in draws])),
            jnp.asarray(np.stack([seen_by[cell["seed"]] for cell in cells])),
        )
        test_x = on_sphere(np.random.default_rng(201), tested, dim)
        answers = {seed: given.answer(test_x) for seed, given in drawn_by.items()}
        test = jnp.asarray(test_x), jnp.asarray([answers[cell["seed"]] for cell in cells])
        # a rate of its own for each: steps of size 1 on a loss that is multiplied by it
        rates = jnp.asarray([RATE / cell["tau"] ** 2 for cell in cells])
        trained = train_together(
            _paced_error, start, (*data, rates[:, None]), _PLAIN, checkpoints=[steps]
        )
        ((_, networks),) = trained
        found = jax.device_get(_measure_lanes(start[:, 0], networks[:, 0], data, test))
        return [{name: float(found[name][k]) for name in MEASURES} for k in range(len(cells))]

    @staticmethod
    def _sizes(cell: Mapping[str, Any]) -> tuple[int, int, int, int]:
        paper = Grid()
        defaults = {"dim": paper.dim, "samples": paper.samples, "tested": paper.tested}
        return cell["steps"], *(cell.get(name, value) for name, value in defaults.items())


student = Student()


def _paced_error(theta: Array, data: tuple[Array, Array, Array]) -> Array:
    return data[2][0] * squared_error(theta, data[:2])


def _kernel_distance(first: Array, last: Array, x: Array) -> Array:
    kernels = [piecewise_kernel(theta[:, -1], theta[:, :-1], x) for theta in (first, last)]
    one, other = (kernel / jnp.linalg.norm(kernel) for kernel in kernels)
    return 0.5 * jnp.sum((one - other) ** 2)


def figure_1b(full: bool = False) -> FigureResult:
    """Test error and kernel distance over scale and balance; `full`: the paper's grid, seeds and steps."""
    grid = Grid() if full else REDUCED
    return portrait_figure(portrait(grid), grid)


def portrait_figure(measured: Portrait, grid: Grid) -> FigureResult:
    """The picture and the claims of Fig 1b, from measured numbers."""
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
    """Hamming and parameter distance and the training loss on the same grid."""
    grid = Grid() if full else REDUCED
    return supporting_figure(portrait(grid), grid)


def supporting_figure(measured: Portrait, grid: Grid) -> FigureResult:
    """The picture and the claims of the supporting figure, from measured numbers."""
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

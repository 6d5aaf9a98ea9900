"""Students of a teacher over scale and balance: trained all at once for a grid, or as cells of a sweep."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.figures.networks.distances import turned
from saddlewalk.figures.networks.ensembles import train_ensemble
from saddlewalk.figures.networks.optimizers import Optimizer, optax
from saddlewalk.figures.networks.student import HIDDEN, drawn, on_sphere, squared_error
from saddlewalk.precision import in_float64
from saddlewalk.theory.lazyrich import piecewise_kernel

RATE = 5e-3


@functools.cache
def _plain() -> Optimizer:
    """Plain steps. One object: another one, though equal, would be compiled anew."""
    return optax.sgd(1.0)


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


MEASURES = ("test", "kernel", "hamming", "parameters", "train")
Portrait = dict[str, Float[np.ndarray, "steps seeds taus deltas"]]


@functools.lru_cache(maxsize=1)  # two figures show the same grid
@in_float64
def portrait(grid: Grid) -> Portrait:
    """Train every cell and every seed at once, and measure them at the grid's steps.

    Parameters
    ----------
    grid : scales, balances, seeds, steps and sizes.
    """
    draws = [drawn(seed, grid.dim, grid.samples) for seed in grid.seeds]
    start = jnp.asarray([[given.start(*cell) for cell in grid.cells] for given in draws])
    data = jnp.asarray([given.x for given in draws]), jnp.asarray([given.y for given in draws])
    test_x = _test_inputs(grid.tested, grid.dim)
    test = jnp.asarray(test_x), jnp.asarray([given.answer(test_x) for given in draws])
    rates = jnp.asarray([RATE / tau**2 for tau, _ in grid.cells])
    seen = [
        _measure(start, networks, data, test)
        for _, networks in train_ensemble(
            squared_error, start, data, _plain(), checkpoints=grid.steps, rates=rates
        )
    ]
    shape = (len(draws), len(grid.taus), len(grid.deltas))
    return {
        name: np.stack([np.asarray(one[name], dtype=float).reshape(shape) for one in seen])
        for name in MEASURES
    }


def _test_inputs(many: int, dim: int) -> np.ndarray:
    """The same for all seeds, and for the grid as for a sweep."""
    return on_sphere(np.random.default_rng(201), many, dim)


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
        test_x = _test_inputs(tested, dim)
        answers = {seed: given.answer(test_x) for seed, given in drawn_by.items()}
        test = jnp.asarray(test_x), jnp.asarray([answers[cell["seed"]] for cell in cells])
        # a rate of its own for each: steps of size 1 on a loss that is multiplied by it
        rates = jnp.asarray([RATE / cell["tau"] ** 2 for cell in cells])
        trained = train_ensemble(
            _paced_error, start, (*data, rates[:, None]), _plain(), checkpoints=[steps]
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
    return turned(*kernels)

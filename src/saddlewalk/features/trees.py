r"""Many small machines for many samples: a tree that cuts space in halves, with soft borders.

Each cut is a plane through the middle of the samples, across the direction in which the metric M says that
they differ most. Samples near a cut belong to both sides, and outputs are mixed there: with p the distance
from the plane and w the width of the border,

.. math:: f(x) = a\, f_{above}(x) + (1 - a)\, f_{below}(x), \qquad
          a = \min(1, \max(0, \tfrac12 + p / 2w)).

So f is continuous, n samples cost n / m machines of m samples, and memory is that of one of them:
:math:`O(m^2 + n d)`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from saddlewalk.features.arrays import like, on_host
from saddlewalk.features.matrix_functions import matrix_power

Matrix = Any
BORDER = 0.1
"""Half the width of a border, in units of the spread of the samples across it."""
_SOME = 4096
"""Samples that a direction is found from."""
_MOST_ON_A_SIDE = 0.75
"""A part of the samples; where a cut leaves more, they are dealt out, and the two sides are averaged."""


@dataclass(frozen=True)
class Cut:
    """A plane, and what is on its sides: cuts, or the numbers of leaves.

    Parameters
    ----------
    direction : across the plane `(d,)`; `None` where samples were dealt out.
    at : where the plane is, along it.
    width : half of its border.
    below, above : the sides.
    """

    direction: Matrix | None
    at: float
    width: float
    below: "Cut | int"
    above: "Cut | int"

    def part_above(self, x: Matrix) -> np.ndarray:
        """How much each of some points is above `(n,)`, between 0 and 1."""
        if self.direction is None:
            return np.full(len(x), 0.5)
        return _part_above(on_host(x @ self.direction) - self.at, self.width)


@dataclass(frozen=True)
class Mosaic:
    """Machines, each for its part of space.

    Parameters
    ----------
    tree : the cuts, or 0 where there is one leaf.
    leaves : a machine each, with one kernel and one metric.
    """

    tree: Cut | int
    leaves: Sequence[Any]

    @property
    def kernel(self) -> Any:
        """Of all leaves."""
        return self.leaves[0].kernel

    @property
    def metric(self) -> Matrix:
        """Of all leaves."""
        return self.leaves[0].metric

    @property
    def jitter(self) -> float:
        """The largest."""
        return max(leaf.jitter for leaf in self.leaves)

    @property
    def residual(self) -> float:
        """The largest."""
        return max(leaf.residual for leaf in self.leaves)

    @cached_property
    def centers(self) -> np.ndarray:
        """Of all leaves, one after another."""
        return np.concatenate([on_host(leaf.centers) for leaf in self.leaves])

    @cached_property
    def alpha(self) -> np.ndarray:
        """Of all leaves, one after another."""
        return np.concatenate([on_host(leaf.alpha) for leaf in self.leaves])

    def moved(self, move: Callable[[Any], Any]) -> "Mosaic":
        """With arrays elsewhere.

        Parameters
        ----------
        move : what is done to each of them.
        """
        return Mosaic(_moved(self.tree, move), [leaf.moved(move) for leaf in self.leaves])

    def predict(self, xp: ModuleType, x: Matrix) -> Matrix:
        """Outputs `(n, c)`."""
        outputs = np.zeros((len(x), self.leaves[0].alpha.shape[1]))
        for leaf, rows, parts in routes(self.tree, x, np.arange(len(x)), np.ones(len(x))):
            here = on_host(self.leaves[leaf].predict(xp, x[rows]))
            outputs[rows] += parts[:, None] * here
        return like(outputs, x)


def routes(
    tree: Cut | int, x: Matrix, rows: np.ndarray, parts: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """For each leaf that some points reach: its number, which points these are, and how much they are there.

    Parameters
    ----------
    tree : the cuts.
    x : all points `(n, d)`.
    rows : those that are here.
    parts : how much each of them is here.
    """
    if not len(rows):
        return
    if isinstance(tree, int):
        yield tree, rows, parts
        return
    above = tree.part_above(x[rows])
    for side, part in ((tree.below, 1 - above), (tree.above, above)):
        here = part > 0
        yield from routes(side, x, rows[here], (parts * part)[here])


def grow(
    x: Matrix, metric: Matrix, most: int, xp: ModuleType
) -> tuple[Cut | int, list[np.ndarray]]:
    """The cuts, and which samples each leaf has: about `most`, and those in its borders.

    Parameters
    ----------
    x : samples `(n, d)`.
    metric : M, or its diagonal.
    most : samples that a leaf has, at most, besides the borders.
    xp : NumPy, `torch` or `jax.numpy`.
    """
    root = matrix_power(metric, 0.5, xp)
    leaves: list[np.ndarray] = []
    rng = np.random.default_rng(0)

    def side(rows: np.ndarray, inside: int) -> Cut | int:
        if inside <= most or len(rows) < 2:
            leaves.append(rows)
            return len(leaves) - 1
        some = x[rng.choice(rows, min(len(rows), _SOME), replace=False)]
        direction = _longest(some, root, xp)
        places = on_host(x[rows] @ direction)
        for at in (np.median(places), np.mean(places)):
            above = places > at
            if max(above.mean(), 1 - above.mean()) <= _MOST_ON_A_SIDE:
                break
        else:
            odd = rng.permutation(len(rows)) % 2 == 1
            return Cut(None, 0.0, 0.0, side(rows[~odd], inside // 2), side(rows[odd], inside // 2))
        width = BORDER * float(np.std(places))
        part = _part_above(places - at, width)
        inside_above = round(inside * float(above.mean()))
        return Cut(
            direction, float(at), width,
            side(rows[part < 1], inside - inside_above), side(rows[part > 0], inside_above),
        )  # fmt: skip

    return side(np.arange(len(x)), len(x)), leaves


def rows_in_a_leaf(n: int, most: int) -> int:
    """How many of n samples a leaf has, besides its borders, where all cuts are in the middle.

    Parameters
    ----------
    n : number of samples.
    most : that a leaf may have.
    """
    while n > most:
        n = -(-n // 2)
    return n


def _longest(x: Matrix, root: Matrix, xp: ModuleType) -> Matrix:
    """The direction in which samples differ most under the metric."""
    moved = x * root if root.ndim == 1 else x @ root
    moved = moved - xp.sum(moved, axis=0) / len(moved)
    axis = xp.linalg.eigh(moved.T @ moved)[1][:, -1]
    return axis * root if root.ndim == 1 else root @ axis


def _part_above(places: np.ndarray, width: float) -> np.ndarray:
    if width == 0:
        return (places > 0).astype(float)
    return np.clip(0.5 + places / (2 * width), 0.0, 1.0)


def _moved(tree: Cut | int, move: Callable[[Any], Any]) -> Cut | int:
    if isinstance(tree, int):
        return tree
    direction = None if tree.direction is None else move(tree.direction)
    sides = _moved(tree.below, move), _moved(tree.above, move)
    return Cut(direction, tree.at, tree.width, *sides)

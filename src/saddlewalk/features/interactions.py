r"""Which columns act together: total interaction indices of a fitted function (Liu and Owen, 2006).

With :math:`x^{a}` a sample whose column a comes from another sample,

.. math:: \Upsilon_{ab} = \frac{1}{4}\, E\left[\left(f(x) - f(x^{a}) - f(x^{b}) + f(x^{ab})\right)^2\right],
          \qquad \Upsilon_{aa} = \frac{1}{2}\, E\left[\left(f(x) - f(x^{a})\right)^2\right]

in units of the variance of f. Off the diagonal it is 0 exactly if f is a sum of a function without a and one
without b; the entries of the metric are not: of :math:`x_1 x_2` the metric is diagonal.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from saddlewalk.show import draw

_MOST_PREDICTIONS = 200_000
_FEWEST_PAIRS, _MOST_PAIRS = 10, 400


def interactions(
    function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, blocks: np.ndarray, seed: int = 0
) -> np.ndarray:
    """The matrix of all columns.

    Parameters
    ----------
    function : outputs `(n, c)` of inputs `(n, d)`.
    x : samples `(n, d)`.
    blocks : the column that each input belongs to `(d,)`.
    seed : of the pairs of samples.
    """
    columns = int(blocks[-1]) + 1
    count = int(np.clip(_MOST_PREDICTIONS // columns**2, _FEWEST_PAIRS, _MOST_PAIRS))
    rng = np.random.default_rng(seed)
    here = rng.choice(len(x), count)
    there = (here + rng.integers(1, len(x), count)) % len(x) if len(x) > 1 else here
    first, other = x[here], x[there]
    base = function(first)
    alone = [function(_moved(first, other, blocks, [a])) for a in range(columns)]
    found = np.zeros((columns, columns))
    for a in range(columns):
        found[a, a] = np.mean(np.sum((base - alone[a]) ** 2, axis=1)) / 2
        for b in range(a):
            both = function(_moved(first, other, blocks, [a, b]))
            mixed = base - alone[a] - alone[b] + both
            found[a, b] = found[b, a] = np.mean(np.sum(mixed**2, axis=1)) / 4
    variance = float(np.sum(np.var(function(x[rng.permutation(len(x))[:1000]]), axis=0)))
    return found / variance if variance > 0 else found


def plot_interactions(matrix: np.ndarray, names: Sequence[str], target: Any = None) -> Any:
    """A picture of the matrix; the diagonal, what a column does at all, is written beside its name.

    Parameters
    ----------
    matrix : interactions `(columns, columns)`.
    names : of the columns.
    target : a file, axes, or `None` for a new figure.
    """
    between = np.where(np.eye(len(matrix), dtype=bool), np.nan, matrix)
    with draw.canvas(target, height=max(3.0, min(9.0, 1.5 + 0.25 * len(matrix)))) as axes:
        picture = axes.imshow(between, cmap="Blues", vmin=0)
        axes.figure.colorbar(picture, ax=axes, label="acts together, part of the variance")
        places = np.arange(len(matrix))
        totals = [
            f"{name} ({total:.2g})" for name, total in zip(names, np.diag(matrix), strict=True)
        ]
        axes.set_yticks(places, totals)
        axes.set_xticks(places, list(names), rotation=90)
        axes.grid(False)
    return axes


def _moved(
    first: np.ndarray, other: np.ndarray, blocks: np.ndarray, columns: list[int]
) -> np.ndarray:
    return np.where(np.isin(blocks, columns), other, first)

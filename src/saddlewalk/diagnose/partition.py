"""Which neurons are active where: patterns, how many changed, and the partition of the plane.

A piecewise-linear network is linear on each activation region. Crossing a boundary switches one neuron, so
regions with an even and with an odd number of active neurons are neighbors, and two colors are enough
(Proposition 17 of Get Rich Quick), if no two neurons switch at once: such redundant ones count as one.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from saddlewalk.diagnose.inputs import inputs_of
from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem, network_at
from saddlewalk.problem.where import Where

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EVEN, ODD = "#f4ead5", "#b9d3e8"


@in_float64
def activation_patterns(
    where: Where, weights: Any = None, *, at: int = -1, x: Any = None
) -> Bool[np.ndarray, "n hidden"]:
    """Whether each hidden neuron is active at each input.

    Parameters
    ----------
    where : a run, or a problem.
    weights : parameters `(width, size)`; with a problem, and only then.
    at : number of the saved moment of a run; the last by default.
    x : inputs `(n, d)`; by default the task's samples.
    """
    problem, theta = network_at(where, weights, at)
    z = _preactivations(problem, jnp.asarray(theta), jnp.asarray(inputs_of(problem, x)))
    if z is None:
        raise InputError("These units have no neurons that could be active or not.")
    return np.asarray(z) > 0


def hamming_distance(first: Any, second: Any) -> float:
    """The part of all activations that switched between two patterns.

    Parameters
    ----------
    first, second : patterns `(n, hidden)` of the same neurons at the same inputs.
    """
    one, other = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if one.shape != other.shape:
        raise InputError(f"The patterns have shapes {one.shape} and {other.shape}.")
    return float(np.mean(one != other))


def region_colors(
    where: Where, weights: Any = None, *, at: int = -1, x: Any = None
) -> Bool[np.ndarray, " n"]:
    """One of two colors for each input: no two neighboring regions have the same.

    Parameters
    ----------
    where : a run, or a problem.
    weights : parameters `(width, size)`; with a problem, and only then.
    at : number of the saved moment of a run; the last by default.
    x : inputs `(n, d)`; by default the task's samples. Give a fine grid: neurons that switch at the same
        places among the inputs are taken for one.
    """
    patterns = activation_patterns(where, weights, at=at, x=x)
    return patterns[:, _distinct(patterns)].sum(axis=1) % 2 == 1


def draw_partition(
    where: Where,
    weights: Any = None,
    *,
    at: int = -1,
    target: "str | Path | Axes | None" = None,
    extent: float = 1.0,
    points: int = 301,
) -> "Axes":
    """Color the square [-extent, extent]^2 by region; data with two inputs only.

    Parameters
    ----------
    where : a run, or a problem.
    weights : parameters `(width, size)`; with a problem, and only then.
    at : number of the saved moment of a run; the last by default.
    target : a file for the picture, axes of one's own, or nothing.
    extent : half the side of the square.
    points : points of the grid along a side.
    """
    problem, theta = network_at(where, weights, at)
    if problem.task.inputs != 2:
        raise InputError(f"A plane is colored for two inputs; there are {problem.task.inputs}.")
    ticks = np.linspace(-extent, extent, points)
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    colors = region_colors(problem, theta, x=grid).reshape(points, points)
    from matplotlib.colors import ListedColormap

    from saddlewalk.show import draw

    with draw.canvas(target) as axes:
        axes.imshow(
            colors,
            origin="lower",
            extent=(-extent, extent, -extent, extent),
            cmap=ListedColormap([EVEN, ODD]),
            vmin=0,
            vmax=1,
            interpolation="nearest",
        )
        axes.grid(False)
        axes.set_aspect("equal")
    return axes


@eqx.filter_jit
def _preactivations(
    problem: Problem, theta: Array, x: Float[Array, "n d"]
) -> Float[Array, "n hidden"] | None:
    weights = problem.weights(theta)
    return jax.vmap(lambda one: problem.units.preactivations(weights, one))(x)


def _distinct(patterns: Bool[np.ndarray, "n hidden"]) -> Int[np.ndarray, " some"]:
    """One neuron of each set that switches at the same places among these inputs; w and -w do."""
    _, first = np.unique(patterns ^ patterns[:1], axis=1, return_index=True)
    return first

"""Pieces that several figures draw with."""

from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saddlewalk.show import draw


def shades(count: int) -> Any:
    """Colors from dark to light, one a curve.

    Parameters
    ----------
    count : number of colors.
    """
    return draw.matplotlib.colormaps["viridis"](np.linspace(0, 0.9, count))


def blank_figure(width: float, height: float) -> Figure:
    """A figure without axes, made without a global backend or state.

    Parameters
    ----------
    width, height : size in inches.
    """
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def mean_and_span(axes: Any, x: np.ndarray, values: np.ndarray, color: Any, label: str) -> None:
    """Mean over seeds, and the span between the lowest and the highest one.

    Parameters
    ----------
    axes : drawn into.
    x : places of the points.
    values : one row a seed.
    color, label : of the curve.
    """
    axes.plot(x, values.mean(axis=0), color=color, label=label)
    low, high = values.min(axis=0), values.max(axis=0)
    axes.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)


def show_matrix(axes: Any, matrix: np.ndarray, title: str, *, size: float | None = None) -> None:
    """A matrix as a picture; around zero in red and blue if the size of its entries is given.

    Parameters
    ----------
    axes : drawn into.
    matrix : what is shown.
    title : above it.
    size : entry that has the strongest color, of either sign.
    """
    if size is None:
        axes.imshow(matrix, cmap="viridis")
    else:
        axes.imshow(matrix, cmap="RdBu_r", vmin=-size, vmax=size)
    axes.set_title(title, fontsize=9)
    axes.grid(False)

"""Pictures of a sweep: a heat map over two axes, or slices along one with the spread over the others."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from saddlewalk import draw
from saddlewalk.errors import InputError, nearest

_MOST_LINES = 8
_SEEDS = ("seed", "data_seed")
"""Axes over which there is a spread, and no line for each."""


def plot_sweep(
    found: xr.Dataset,
    variable: str,
    target: str | Path,
    x: str | None = None,
    y: str | None = None,
    threshold: float | None = None,
) -> None:
    """Draw one variable of a sweep: the mean over axes that are not shown, without cells that are not done.

    Parameters
    ----------
    x, y : axes of a heat map; with x alone there is a line for every value of the others, with the spread
        over seeds. By default the first axes of the sweep.
    threshold : contour of the heat map at this value.
    """
    _known(variable, [str(name) for name in found.data_vars])
    axes = [str(name) for name in found[variable].dims]
    for name in (x, y):
        if name is not None:
            _known(name, axes)
    shown = [name for name in axes if name not in _SEEDS] or axes
    first = x or shown[0]
    values = found[variable].load()
    with draw.styled():
        figure, one = draw.new_figure(1, 1, 6, 4.2)
        second = y or next((name for name in shown if name != first and x is None), None)
        if second is None:
            _lines(one, values, first)
        else:
            _heat_map(figure, one, values, first, second, threshold)
        draw.save(figure, target)


def _heat_map(
    figure: Any, one: Any, values: xr.DataArray, x: str, y: str, threshold: float | None
) -> None:
    others = [name for name in values.dims if name not in (x, y)]
    grid = values.mean(others).transpose(y, x)
    across, up = np.arange(grid.sizes[x]), np.arange(grid.sizes[y])
    mesh = one.pcolormesh(across, up, grid.values, shading="nearest")
    figure.colorbar(mesh, label=str(values.name))
    if threshold is not None and min(grid.shape) > 1:
        one.contour(across, up, grid.values, levels=[threshold], colors="white")
    one.set(xlabel=x, ylabel=y)
    for axis, name in ((one.xaxis, x), (one.yaxis, y)):
        places = np.unique(np.linspace(0, grid.sizes[name] - 1, 6).round().astype(int))
        axis.set_ticks(places, [_label(grid[name].values[k]) for k in places])
    one.grid(False)


def _lines(one: Any, values: xr.DataArray, x: str) -> None:
    """Mean and range over seeds; a line for each combination of the other axes."""
    others = [name for name in values.dims if name not in (x, *_SEEDS)]
    stacked = values.stack(line=others) if others else values.expand_dims("line", axis=-1)
    if stacked.sizes["line"] > _MOST_LINES:
        raise InputError(
            f"That would be {stacked.sizes['line']} lines; name a second axis for a heat map."
        )
    for k in range(stacked.sizes["line"]):
        line = stacked.isel(line=k)
        spread = [name for name in line.dims if name in _SEEDS and name != x]
        at = np.arange(line.sizes[x]) if line[x].dtype.kind not in "if" else line[x].values
        label = ", ".join(f"{name} = {_label(line[name].values[()])}" for name in others)
        drawn = one.plot(at, line.mean(spread).values, "o-", label=label or None)[0]
        if spread:
            low, high = line.min(spread).values, line.max(spread).values
            one.fill_between(at, low, high, alpha=0.2, color=drawn.get_color())
    positive = values[x].dtype.kind == "f" and float(values[x].min()) > 0
    if positive and float(values[x].max()) > 30 * float(values[x].min()):
        one.set_xscale("log")
    one.set(xlabel=x, ylabel=str(values.name))
    if others:
        one.legend(fontsize=8)


def _label(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)


def _known(name: str, names: list[str]) -> None:
    if name not in names:
        raise InputError(f"The sweep has no '{name}'.{nearest(name, names)}")

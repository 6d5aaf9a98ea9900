"""Pictures of a sweep: a heat map over two axes, or slices along one with the spread over the others."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from saddlewalk.errors import InputError, nearest
from saddlewalk.show import draw
from saddlewalk.sweep.plan import SAMPLE

_MOST_LINES = 8
_SEEDS = ("seed", "data_seed")
"""Axes over which there is a spread, and no line for each."""


def plot_sweep(
    found: xr.Dataset,
    variable: str,
    target: str | Path | None = None,
    x: str | None = None,
    y: str | None = None,
    threshold: float | None = None,
) -> None:
    """Draw one variable of a sweep: the mean over axes that are not shown, without cells that are not done.

    Parameters
    ----------
    found : what `sweep` or `open_results` returned.
    variable : name of what was measured.
    target : file to write; without one a notebook shows the picture.
    x, y : axes of a heat map; with x alone there is a line for every value of the others, with the spread
        over seeds. By default the first axes of the sweep.
    threshold : contour of the heat map at this value.
    """
    _known(variable, [str(name) for name in found.data_vars])
    axes = [str(name) for name in found[variable].dims]
    drawn = [str(name) for name in found.coords if found[name].dims == (SAMPLE,) and name != SAMPLE]
    for name in (x, y):
        if name is not None:
            _known(name, axes + drawn)
    if x is not None and x == y:
        raise InputError(f"'{x}' cannot be both axes of a figure.")
    shown = [name for name in axes if name not in _SEEDS] or axes
    first = x or shown[0]
    values = found[variable].load()
    with draw.styled():
        figure, one = draw.new_figure(1, 1, 6, 4.2)
        second = y or next((name for name in shown if name != first and x is None), None)
        if drawn and first in (*drawn, SAMPLE):
            _scatter(figure, one, found, values, x or drawn[0], y)
        elif second is None or second == first:
            _lines(one, values, first)
        else:
            _heat_map(figure, one, values, first, second, threshold)
        draw.save(figure, target)


def _scatter(
    figure: Any, one: Any, found: xr.Dataset, values: xr.DataArray, x: str, y: str | None
) -> None:
    """Configurations that were drawn: the value against a parameter, or in color over two."""
    mean = values.mean([name for name in values.dims if name != SAMPLE])
    if y is None:
        one.plot(found[x], mean, "o")
        one.set(xlabel=x, ylabel=_title(values, [SAMPLE]))
    else:
        points = one.scatter(found[x], found[y], c=mean)
        figure.colorbar(points, label=_title(values, [SAMPLE]))
        one.set(xlabel=x, ylabel=y)
    for axis, name in (("x", x), ("y", y)):
        if name is not None and _spans_decades(found[name].values):
            getattr(one, f"set_{axis}scale")("log")


def _spans_decades(numbers: np.ndarray) -> bool:
    known = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else np.zeros(0)
    return bool(len(known) and known.min() > 0 and known.max() > 30 * known.min())


def _title(values: xr.DataArray, shown: list[str]) -> str:
    """The name, and over what there is a mean."""
    others = [str(name) for name in values.dims if name not in shown and values.sizes[name] > 1]
    return f"{values.name} (mean over {', '.join(others)})" if others else str(values.name)


def _heat_map(
    figure: Any, one: Any, values: xr.DataArray, x: str, y: str, threshold: float | None
) -> None:
    others = [name for name in values.dims if name not in (x, y)]
    grid = values.mean(others).transpose(y, x)
    across, up = np.arange(grid.sizes[x]), np.arange(grid.sizes[y])
    norm = "log" if _spans_decades(grid.values.ravel()) else "linear"
    one.set_facecolor("0.85")  # where nothing is known
    mesh = one.pcolormesh(across, up, grid.values, shading="nearest", norm=norm)
    figure.colorbar(mesh, label=_title(values, [x, y]))
    if threshold is not None and min(grid.shape) > 1:
        line = one.contour(across, up, grid.values, levels=[threshold], colors="white")
        one.clabel(line, fontsize=8)
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
    if _spans_decades(values[x].values):
        one.set_xscale("log")
    if _spans_decades(values.values.ravel()):
        one.set_yscale("log")
    one.set(xlabel=x, ylabel=str(values.name))
    if others:
        one.legend(fontsize=8)


def _label(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)


def _known(name: str, names: list[str]) -> None:
    if name not in names:
        raise InputError(f"The sweep has no '{name}'.{nearest(name, names)}")

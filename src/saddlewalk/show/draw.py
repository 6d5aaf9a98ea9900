"""Pictures: matplotlib functions of plain results. Nothing that computes imports this at start."""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np

from saddlewalk.show.labels import name_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OBSERVED = "#1b6ca8"
PREDICTED = "#c8102e"

_MOST_NAMED = 10
_WIDE = 50.0
_VISIBLE = 1e-6
_UNSEEN = 0.01
_NEAR = 0.05

STYLE: dict[Any, Any] = {
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "font.size": 10,
    "svg.hashsalt": "saddlewalk",
    "savefig.dpi": 160,
}


@contextmanager
def styled() -> Iterator[None]:
    """The package's look, for the time of one figure; the caller's settings stay as they are."""
    with matplotlib.rc_context(STYLE):
        yield


def new_figure(
    rows: int = 1, columns: int = 1, width: float = 7.0, height: float = 4.2, **layout: Any
) -> Any:
    """A figure and its axes, made without a global backend or state.

    Parameters
    ----------
    rows, columns : number of axes below and beside each other.
    width, height : size of the figure in inches.
    **layout : options of Matplotlib's `Figure.subplots`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **layout)


@contextmanager
def two_panels(target: "str | Path | None") -> Iterator[tuple["Axes", "Axes"]]:
    """Two axes above each other that share their times; saved to a path at the end.

    Parameters
    ----------
    target : file to save to; `None` saves nothing.
    """
    with styled():
        figure, (upper, lower) = new_figure(
            2, 1, height=6.4, sharex=True, gridspec_kw={"height_ratios": [3, 2]}
        )
        yield upper, lower
        save(figure, target)


def save(figure: Any, target: "str | Path | None") -> None:
    """Write a figure where there is a path to write it to; without one, a notebook shows it.

    Parameters
    ----------
    figure : a Matplotlib figure.
    target : file to write; `None` writes nothing. SVG is written without a date.
    """
    if target is not None:
        figure.savefig(target, metadata={"Date": None} if str(target).endswith("svg") else None)
    elif (ipython := _of_notebook()) is not None:
        sink = io.BytesIO()
        figure.savefig(sink, format="png", dpi=100)
        ipython.display.display_png(sink.getvalue(), raw=True)


def _of_notebook() -> Any:
    """IPython, if the kernel of a notebook runs this; it is not imported for the question."""
    ipython = sys.modules.get("IPython")
    return ipython if ipython and hasattr(ipython.get_ipython(), "kernel") else None


@contextmanager
def canvas(target: "str | Path | Axes | None" = None, height: float = 4.2) -> Iterator["Axes"]:
    """An axis to draw on: the caller's own, or a new one that is saved to a path at the end.

    Parameters
    ----------
    target : a file, axes of one's own, or nothing.
    height : height of a new figure in inches.
    """
    if target is not None and not isinstance(target, str | Path):
        yield target
        return
    with styled():
        figure, axes = new_figure(height=height)
        yield axes
        save(figure, target)


def staircase(axes: "Axes", stairs: Any, end: float | None, **line: Any) -> None:
    """The predicted loss, as a curve or as a step function.

    Parameters
    ----------
    axes : where to draw.
    stairs : a `Staircase`.
    end : last time that is shown.
    **line : options of Matplotlib's `plot` that replace the look of the line.
    """
    levels = stairs.loss_levels
    last = end if end is not None else 1.25 * max(stairs.jump_times, default=0.8)
    shown = [stage for stage in stairs.stages if stage.time <= last]
    options = {"color": PREDICTED, "linewidth": 1.6, "linestyle": "--", "zorder": 3}
    look = {"label": f"predicted ({stairs.method})", **options, **line}
    if stairs.curve is not None:
        time, loss = stairs.curve
        axes.plot([*time, max(last, time[-1])], [*loss, loss[-1]], **look)
    else:
        steps = [0.0, *(stage.time for stage in shown), last]
        axes.step(steps, [*levels[: len(shown) + 1], levels[len(shown)]], where="post", **look)
    loss_axes(axes, levels)


def name_stages(
    axes: "Axes", stages: Sequence[Any], levels: Sequence[float], color: str = PREDICTED
) -> None:
    """What is learned, beside each jump in sight: the large ones first, where there is room.

    To be called last, when scales and legend are there.

    Parameters
    ----------
    axes : where the losses were drawn.
    stages : of a `Staircase` or a `Trajectory`.
    levels : losses before the first and after each.
    color : of the names.
    """
    before, named = "", []
    for stage, level in zip(stages, levels, strict=False):
        # a feature that grows in several steps is named at the first
        if (
            stage.learned != before
            and stage.time <= axes.get_xlim()[1]
            and level >= axes.get_ylim()[0]
        ):
            named.append((level - stage.loss, (stage.time, level, stage.learned)))
        before = stage.learned
    largest_first = [point for _, point in sorted(named, key=lambda one: -one[0])]
    missing = name_points(axes, largest_first, color=color)
    if missing:
        axes.text(
            *(0.01, 0.02, f"{missing} more jump{'s' * (missing > 1)}: see the table"),
            transform=axes.transAxes,
            color=color,
            fontsize=8,
        )


def growth(axes: "Axes", time: Any, values: Any, names: Sequence[str], label: str) -> None:
    """What each part of a network has grown to, along time: the largest by name, the others in gray.

    Parameters
    ----------
    axes : where to draw.
    time : moments `(time,)`.
    values : of each part, `(time, part)`.
    names : of the parts.
    label : what the values are.
    """
    largest = np.argsort(-np.abs(values).max(axis=0), kind="stable")
    others = largest[_MOST_NAMED:]
    if len(others):
        few = "others: 1" if len(others) == 1 else f"others: {len(others)}"
        lines = axes.plot(time, values[:, others], color="0.75", linewidth=0.8)
        lines[0].set_label(few)
    for k in sorted(largest[:_MOST_NAMED]):
        axes.plot(time, values[:, k], label=names[k], linewidth=1.6)
    axes.set_ylabel(label)
    axes.set_xlabel("time (learning rate 1)")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.05))


def loss_curve(axes: "Axes", time: Any, loss: Any, **line: Any) -> None:
    """A simulated loss curve.

    Parameters
    ----------
    axes : where to draw.
    time, loss : moments, and the loss at each, `(time,)`.
    **line : options of Matplotlib's `plot` that replace the look of the line.
    """
    options = {"color": OBSERVED, "linewidth": 2.0, "label": "gradient flow", **line}
    axes.plot(time, loss, **options)
    loss_axes(axes, loss)


def loss_axes(axes: "Axes", loss: Any) -> None:
    """Labels, and a loss axis that starts at zero.

    Parameters
    ----------
    axes : what to label.
    loss : losses that must fit in.
    """
    axes.set_xlabel("time (learning rate 1)")
    axes.set_ylabel("loss")
    axes.set_ylim(bottom=0.0, top=max(axes.get_ylim()[1], 1.08 * float(max(loss))))


def end_of_fall(time: Any, loss: Any, levels: Sequence[float] = ()) -> float:
    """When a loss curve has its fall behind it, as far as can be seen: a picture must not end before.

    Parameters
    ----------
    time, loss : moments, and the loss at each, `(time,)`.
    levels : losses that are told apart; if they span decades, so does the axis (`stretch`).
    """
    low = float(min(loss))
    unseen = _UNSEEN * (loss[0] - low)
    if levels and (seen := _lowest_seen(levels)) is not None:
        unseen = max(_NEAR * low, _UNSEEN * seen)
    return float(time[int(np.argmax(np.asarray(loss) - low <= unseen))])


def _lowest_seen(levels: Sequence[float]) -> float | None:
    """The lowest level that is not as good as nothing, where a linear axis would not show it."""
    top = max(levels)
    lowest = min(level for level in levels if level > _VISIBLE * top) if top > 0 else top
    return lowest if top > _WIDE * lowest > 0 else None


def stretch(axes: "Axes", times: Any, levels: Any, end: float) -> None:
    """Logarithmic axes where the stages would not be seen on linear ones, with zero where it is reached.

    Parameters
    ----------
    axes : what to stretch.
    times : moments that must be told apart.
    levels : losses that must be told apart.
    end : last time that is shown.
    """
    first = min(times)
    if first > 0 and end > _WIDE * first:
        axes.set_xscale("log")
        axes.set_xlim(0.3 * first, end)
    top, seen = max(levels), _lowest_seen(levels)
    if seen is not None:
        floor = 0.3 * seen
        lowest = min(float(np.min(line.get_ydata(), initial=top)) for line in axes.lines)
        if lowest < floor:  # what falls to nothing stays in sight
            axes.set_yscale("symlog", linthresh=floor, linscale=0.4)
            axes.set_ylim(-0.15 * floor, 2 * top)
        else:
            axes.set_yscale("log")
            axes.set_ylim(floor, 2 * top)

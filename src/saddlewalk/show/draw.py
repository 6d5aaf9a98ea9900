"""Pictures: matplotlib functions of plain results. Nothing that computes imports this at start."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OBSERVED = "#1b6ca8"
PREDICTED = "#c8102e"

_MOST_LABELS = 20
_WIDE = 50.0
_VISIBLE = 1e-6

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
    """Write a figure where there is a path to write it to.

    Parameters
    ----------
    figure : a Matplotlib figure.
    target : file to write; `None` writes nothing. SVG is written without a date.
    """
    if target is not None:
        figure.savefig(target, metadata={"Date": None} if str(target).endswith("svg") else None)


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


def staircase(axes: "Axes", stairs: Any, end: float | None = None, **line: Any) -> None:
    """The predicted loss, as a curve or as a step function, with what turns on at each jump.

    Parameters
    ----------
    axes : where to draw.
    stairs : a `Staircase`.
    end : last time that is shown; by default a quarter beyond the last jump.
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
    named = shown if len(shown) <= _MOST_LABELS else []
    before = ""
    for stage, level in zip(named, levels, strict=False):
        if stage.learned == before:
            continue  # a feature that grows in several steps is named at the first
        before = stage.learned
        axes.annotate(
            before,
            (stage.time, level),
            xytext=(2, 3),
            textcoords="offset points",
            color=PREDICTED,
            fontsize=8,
            annotation_clip=True,
        )
    loss_axes(axes, levels)


def strengths(axes: "Axes", time: Any, strength: Any, names: list[str]) -> None:
    """How much of each mode the network holds, along time.

    Parameters
    ----------
    axes : where to draw.
    time : moments `(time,)`.
    strength : part of each mode that the network holds, `(time, mode)`.
    names : of the modes; the first few are drawn.
    """
    for k, name in enumerate(names[:_MOST_LABELS]):
        axes.plot(time, strength[:, k], label=name, linewidth=1.6)
    axes.axhline(1.0, color="0.6", linewidth=0.8)
    axes.set_ylabel("part learned")
    axes.set_xlabel("time (learning rate 1)")
    axes.legend(fontsize=8, ncols=1 + len(names) // 6)


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


def stretch(axes: "Axes", times: Any, levels: Any) -> None:
    """Logarithmic axes where the stages would not be seen on linear ones.

    Parameters
    ----------
    axes : what to stretch.
    times : moments that must be told apart.
    levels : losses that must be told apart.
    """
    first, last = min(times), max(times)
    if first > 0 and last > _WIDE * first:
        axes.set_xscale("log")
        axes.set_xlim(0.3 * first, 1.5 * last)
    top = max(levels)
    seen = [level for level in levels if level > _VISIBLE * top]
    if top > _WIDE * min(seen):
        axes.set_yscale("log")
        axes.set_ylim(0.3 * min(seen), 2 * top)

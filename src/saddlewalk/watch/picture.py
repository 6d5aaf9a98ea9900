"""The picture of a watch: the loss with its plateaus and forecasts, forecasts as they were made, and
what grows."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from saddlewalk.show import draw
from saddlewalk.watch.losses import falling
from saddlewalk.watch.outlook import State

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saddlewalk.watch.record import WatchRecord

Curve = Float[np.ndarray, " look"]
Lengths = Float[np.ndarray, "look unit"]

_MOST_LINES = 8
_GREY = "0.6"
_COLORS = {
    State.PLATEAU: "#e3a857",
    State.FALLING: "#8fb8d9",
    State.NO_DROP: "#b9b9b9",
    State.MINIMUM: "#7fb685",
    State.RATE_ENDS: "#8a8a8a",
    State.NOT_FINITE: "#d96c6c",
    State.NOT_FAR: "#cfcfcf",
    State.BY_HEART: "#b79bc9",
    State.UNKNOWN: "#dddddd",
}


def draw_record(record: "WatchRecord", target: "str | Path | None") -> Any:
    """Four axes above each other.

    Parameters
    ----------
    record : what a watch has seen.
    target : file to save to, or nothing.
    """
    with draw.styled():
        figure, axes = draw.new_figure(
            4, 1, height=10.2, sharex=True, gridspec_kw={"height_ratios": [3, 2, 2, 1.4]}
        )
        _loss(axes[0], record)
        _forecasts(axes[1], record)
        if record.looks and record.units:
            _sizes(axes[2], record)
            _growth(axes[3], record)
        axes[3].set_xlabel("step")
        draw.save(figure, target)
    return axes


def _loss(axes: "Axes", record: "WatchRecord") -> None:
    noisy = len(record.losses) > 2 and np.any(np.diff(record.losses) > 0)
    faint: dict[str, Any] = {"alpha": 0.35, "linewidth": 0.7} if noisy else {"linewidth": 1.2}
    axes.plot(record.steps, record.losses, color=draw.OBSERVED, label="loss", **faint)
    if noisy:
        axes.plot(record.steps, falling(record.losses), color=draw.OBSERVED, linewidth=1.4)
    held = any(np.isfinite(look.held_out) for look in record.looks)
    if held:
        axes.plot(
            *record.told, color=draw.OBSERVED, linewidth=1.4, linestyle="--", label="held out"
        )
    looks = [look for look in record.looks if np.isfinite(look.loss)]
    for state, color in _COLORS.items():
        some = [look for look in looks if look.state is state]
        if some:
            axes.scatter(
                [look.step for look in some],
                [look.held_out if held else look.loss for look in some],
                color=color,
                edgecolor="0.3",
                linewidth=0.5,
                s=26,
                zorder=4,
                label=str(state),
            )
    for told in record.forecasts:
        axes.plot([told.low, told.high], [told.middle] * 2, color=draw.PREDICTED, linewidth=1.5)
        axes.plot(told.step, told.middle, "|", color=draw.PREDICTED, markersize=9)
    if record.forecasts:
        axes.plot([], [], "|-", color=draw.PREDICTED, label="middle of the next drop, as forecast")
    shown = np.concatenate([record.losses, record.told[1]])
    if len(shown) and shown.min() > 0 and shown.max() > 50 * shown.min():
        axes.set_yscale("log")
    axes.set_ylabel("loss")
    axes.set_title(record.title)
    axes.legend(loc="best", fontsize=8)


def _forecasts(axes: "Axes", record: "WatchRecord") -> None:
    """Each forecast where it was made, as the step that it named, beside the step at which the drop came."""
    for one in record.outcomes:
        told = one.forecast
        axes.plot([told.made] * 2, [told.low, told.high], color=draw.PREDICTED, linewidth=1.2)
        axes.plot(told.made, told.step, "o", color=draw.PREDICTED, markersize=3.5)
        if one.vague:
            axes.fill_between(
                [told.made, one.latest],
                one.earliest,
                one.latest,
                color=draw.OBSERVED,
                alpha=0.12,
                lw=0,
            )
        elif np.isfinite(one.happened):
            axes.plot(
                [told.made, one.happened], [one.happened] * 2, color=draw.OBSERVED, linewidth=0.8
            )
    end = float(record.steps[-1]) if len(record.steps) else 1.0
    axes.plot([0, end], [0, end], color=_GREY, linewidth=0.8, linestyle=":")
    axes.plot([], [], "o-", color=draw.PREDICTED, markersize=3.5, label="forecast, 80% interval")
    axes.plot(
        [], [], color=draw.OBSERVED, linewidth=0.8, label="when it came, or between which steps"
    )
    axes.plot([], [], color=_GREY, linewidth=0.8, linestyle=":", label="now")
    if record.forecasts:
        told_steps = [one.step for one in record.forecasts]
        axes.set_ylim(0, 1.15 * max(end, float(np.quantile(told_steps, 0.9))))
    else:
        axes.text(
            0.5, 0.6, "no forecast was made", transform=axes.transAxes, ha="center", color="0.4"
        )
    axes.set_ylabel("step of the next drop")
    axes.legend(loc="upper left", fontsize=8)


def _changing(record: "WatchRecord") -> tuple[Curve, Lengths, list[int]]:
    """Steps and lengths of units at looks, and which units change most."""
    steps = np.array([look.step for look in record.looks], dtype=float)
    sizes = np.array([look.sizes for look in record.looks])
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.abs(np.log(sizes.max(axis=0) / np.maximum(sizes.min(axis=0), 1e-300)))
    most = np.argsort(-np.nan_to_num(change * sizes.max(axis=0)))[:_MOST_LINES]
    return steps, sizes, [int(unit) for unit in most]


def _sizes(axes: "Axes", record: "WatchRecord") -> None:
    """Lengths of the units that change most."""
    steps, sizes, chosen = _changing(record)
    for unit in chosen:
        axes.plot(steps, sizes[:, unit], linewidth=1.2, marker=".", label=record.units[unit])
    seen = sizes[:, chosen]
    if (seen > 0).all() and seen.max() > 50 * seen.min():
        axes.set_yscale("log")
    axes.set_ylabel("length of units")
    _widths(axes, record)
    axes.legend(loc="center left", bbox_to_anchor=(1.1, 0.5), fontsize=7)


def _growth(axes: "Axes", record: "WatchRecord") -> None:
    """How much these units have grown in one step, from one look to the next."""
    steps, sizes, chosen = _changing(record)
    kept = np.append(np.diff(steps) > 0, True)  # of two looks at one step the last
    steps, sizes = steps[kept], sizes[kept]
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = 100 * np.diff(np.log(sizes), axis=0) / np.diff(steps)[:, None]
    if len(rates):
        for k, unit in enumerate(chosen):
            axes.stairs(rates[:, unit], steps, baseline=None, color=f"C{k}", linewidth=1.2)
    axes.axhline(0.0, color=_GREY, linewidth=0.8, linestyle=":")
    axes.set_ylabel("growth, % a step")


def _widths(axes: "Axes", record: "WatchRecord") -> None:
    """Units in use, on a scale of their own to the right."""
    layers = sorted({name for look in record.looks for name in look.widths})
    if not layers:
        return
    beside = axes.twinx()
    for name in layers:
        seen = [(look.step, look.widths[name]) for look in record.looks if name in look.widths]
        beside.step(
            *zip(*seen, strict=True), where="post", color="0.3", linewidth=1.0, linestyle="--"
        )
    beside.set_ylabel("units in use (dashed)")
    beside.set_ylim(bottom=0)
    beside.grid(visible=False)

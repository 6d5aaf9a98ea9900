"""Fig 6 of Alternating Gradient Flows: modular addition is learned one frequency at a time."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from saddlewalk.figures.agf.fourier import (
    FourierRun,
    Neurons,
    at_waking,
    trained,
    walked,
)
from saddlewalk.figures.claims import Claim, FigureResult, close, listed
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem, compiled
from saddlewalk.show import draw
from saddlewalk.tasks import ModularAddition, modular_addition
from saddlewalk.theory.modular import ordered_frequencies, share
from saddlewalk.units import QuadraticPair

SPECTRUM = MappingProxyType({1: 10.0, 3: 5.0, 5: 2.5})
_LONGER = 5.0
"""Gradient flow runs until this many times AGF's last jump."""
_INPUTS = ((0, 0), (2, 5), (4, 9))
_COLORS = ("#0b5394", "#e9a100", "#d1495b", "#2a9d8f", "#7b5ea7", "#8c564b")
_SILENT = "0.75"

Colors = dict[int, str]


@in_float64
def figure_6(
    p: int = 20, spectrum: Mapping[int, float] = SPECTRUM, width: int = 18, scale: float = 1e-2
) -> FigureResult:
    """Output power by frequency, outputs at four moments, output weights, spectra and phases.

    With the paper's scale alpha a neuron has E|theta|^2 = 2 alpha^2 at the start.

    Parameters
    ----------
    p : the modulus.
    spectrum : size of the transform of the encoding, by frequency.
    width : number of neurons.
    scale : the paper's alpha.
    """
    task = modular_addition(p, spectrum)
    problem = Problem(task, QuadraticPair(width))
    levels = _levels(task)
    agf = walked(problem, math.sqrt(2) * scale, levels)
    end = _LONGER * max(agf.jumps, default=float(agf.time[-1]))
    flow, heard = trained(problem, math.sqrt(2) * scale, levels, end)
    return figure_of(problem, agf, flow, heard)


@in_float64
def figure_of(
    problem: Problem, agf: FourierRun, flow: FourierRun, heard: np.ndarray
) -> FigureResult:
    """The figure and its claims from runs made here or elsewhere.

    Parameters
    ----------
    problem : modular addition and its neurons.
    agf : what AGF predicts.
    flow : what gradient flow does.
    heard : neurons whose output counts at the end.
    """
    task = problem.task
    assert isinstance(task, ModularAddition)
    order, levels = ordered_frequencies(task), _levels(task)
    neurons = Neurons.of(task, flow.theta[-1], heard)
    waking = Neurons.of(task, at_waking(agf.theta), heard)
    errors = [abs(a - b) / b for a, b in zip(agf.jumps, flow.jumps, strict=False)]
    orders = [agf.order(order), flow.order(order)]
    spread = [neurons.mean_direction(k) for k in order]
    sizes = {k: int(np.sum(neurons.heard & (neurons.frequency == k))) for k in order}
    purity = float(neurons.purity[heard].min())
    alignment = float(np.cos(waking.misalignment[heard]).min())
    return FigureResult(
        "agf-6",
        "stepwise Fourier decomposition in modular addition",
        (
            Claim(
                f"frequencies in the order {list(order)} (AGF, gradient flow)",
                f"{orders[0]} {orders[1]}",
                orders == [list(order)] * 2,
            ),
            Claim(f"levels {listed(levels)} (Eq 9), AGF", listed(agf.levels), _near(agf, levels)),
            Claim("the same levels, gradient flow", listed(flow.levels), _near(flow, levels)),
            Claim(
                "AGF has the jump time of each frequency within 1%",
                listed(errors),
                len(errors) == len(order) and max(errors) < 0.01,
            ),
            Claim(
                "neurons group by frequency: least part of the power of w in one of them",
                f"{purity:.4g}; neurons of a frequency: {sizes}",
                purity > 0.9 and all(sizes.values()),
            ),
            Claim(
                "neurons wake with phases s_u + s_v = s_w + s_x: least cosine of the difference",
                f"{alignment:.4g}",
                alignment > 0.9,
            ),
            Claim(
                "phases spread: mean direction of the squares in Eq 77 (0 even, 1 all alike)",
                listed(spread),
                max(spread) < 0.25,
            ),
        ),
        _draw(problem, agf, flow, neurons),
        {
            "time_predicted": agf.jumps,
            "time_simulated": flow.jumps,
            "time_error": errors,
            "levels_predicted": agf.levels,
            "levels_simulated": flow.levels,
            "neurons": neurons.to_json(),
        },
    )


def _levels(task: ModularAddition) -> list[float]:
    """The loss before, between and after the frequencies (Eq 9)."""
    order = ordered_frequencies(task)
    shares = [share(task.p, k, float(task.spectrum[k])) for k in order]
    return [math.fsum(shares[i:]) for i in range(len(order) + 1)]


def _near(run: FourierRun, levels: list[float]) -> bool:
    return len(run.levels) == len(levels) and close(run.levels, levels, 1e-3)


def _draw(problem: Problem, agf: FourierRun, flow: FourierRun, neurons: Neurons) -> Any:
    task = problem.task
    assert isinstance(task, ModularAddition)
    colors = {k: _COLORS[i % len(_COLORS)] for i, k in enumerate(ordered_frequencies(task))}
    times = [0.5 * flow.jumps[0], *np.sqrt(np.multiply(flow.jumps[:-1], flow.jumps[1:]))]
    moments = [int(np.argmin(np.abs(flow.time - t))) for t in (*times, flow.time[-1])]
    with draw.styled():
        figure, axes = draw.new_figure(2, 2, width=13.0, height=9.0)
        _draw_power(axes[0, 0], task, agf, flow, moments, colors)
        _draw_outputs(axes[0, 1], problem, flow, moments)
        _draw_weights(axes[1, 0], neurons, colors)
        _draw_spectra(axes[1, 1], neurons, colors)
    return figure


def _draw_power(
    axes: Any,
    task: ModularAddition,
    agf: FourierRun,
    flow: FourierRun,
    moments: list[int],
    colors: Colors,
) -> None:
    for k, color in colors.items():
        line = {"color": color, "linewidth": 3, "label": f"frequency {k}"}
        axes.plot(flow.time, flow.power[:, k], **line)
    for k, color in colors.items():
        axes.axhline(task.spectrum[k] ** 2, color=color, linewidth=0.8, alpha=0.7)
        axes.plot(agf.time, agf.power[:, k], "k--", linewidth=1.2)
    axes.plot([], [], "k--", linewidth=1.2, label="AGF in real time")
    axes.set_xscale("log")
    axes.set_yscale("log")
    strongest, weakest = (f(task.spectrum[k] ** 2 for k in colors) for f in (max, min))
    axes.set_ylim(1e-3 * weakest, 3 * strongest)
    axes.set_xlim(0.04 * flow.jumps[0], flow.time[-1])
    axes.set_xlabel("time (learning rate 1)")
    axes.set_ylabel(r"output power $E|\hat f[k]|^2$")
    axes.plot(
        flow.time[moments],
        [2.2 * strongest] * len(moments),
        "kv",
        markersize=6,
        clip_on=False,
        zorder=5,
    )
    axes.legend(loc="center left", frameon=True, framealpha=1, edgecolor="none")
    _title(axes, "(a) output power spectrum")


def _draw_outputs(axes: Any, problem: Problem, flow: FourierRun, moments: list[int]) -> None:
    task = problem.task
    assert isinstance(task, ModularAddition)
    panels = _split(axes, len(_INPUTS), len(moments))
    shown = range(task.p)
    largest = float(np.abs(task.y).max())
    for column, moment in enumerate(moments):
        outputs = np.asarray(compiled.function(problem, flow.theta[moment]))
        for row, (a, b) in enumerate(_INPUTS):
            pair, panel = (a % task.p) * task.p + b % task.p, panels[row][column]
            panel.plot(shown, np.asarray(task.y)[pair], color="0.7", linewidth=3)
            panel.plot(shown, outputs[pair], color=draw.OBSERVED, linewidth=1.4)
            _bare(panel, 1.15 * largest)
            if column == 0:
                panel.set_ylabel(f"{a} + {b}")
        panels[-1][column].set_xlabel(f"time {float(f'{flow.time[moment]:.2g}'):g}")
    _title(panels[0][0], "(b) outputs at the moments marked in (a); target gray")


def _draw_weights(axes: Any, neurons: Neurons, colors: Colors) -> None:
    columns = min(6, len(neurons.weights))
    rows = -(-len(neurons.weights) // columns)
    panels = [panel for row in _split(axes, rows, columns) for panel in row]
    _title(
        panels[0],
        "(c) output weights of all neurons, each to its own scale; gray ones carry nothing",
    )
    for panel, neuron in zip(panels, neurons.sorted, strict=False):
        weights = neurons.weights[neuron]
        panel.plot(weights, color=_color(neurons, neuron, colors), marker="o", markersize=2.5)
        _bare(panel, 1.15 * float(np.abs(weights).max()))
        panel.set_xlabel(f"neuron {neuron}", fontsize=8)
    for panel in panels[len(neurons.weights) :]:
        panel.remove()


def _draw_spectra(axes: Any, neurons: Neurons, colors: Colors) -> None:
    """Each neuron a row with its power at each frequency; phases of the heard ones on a circle."""
    figure, grid = axes.figure, axes.get_subplotspec().subgridspec(1, 2, width_ratios=(1, 1.1))
    axes.remove()
    image, circle = figure.add_subplot(grid[0]), figure.add_subplot(grid[1], projection="polar")
    order, half = neurons.sorted, neurons.spectrum.shape[1]
    for row, neuron in enumerate(order):
        size = 100 * neurons.spectrum[neuron]
        color = _color(neurons, neuron, colors)
        image.scatter(np.arange(1, half + 1), np.full(half, row), s=size, color=color, marker="s")
    image.set_yticks(range(len(order)), [str(neuron) for neuron in order], fontsize=7)
    image.set_ylim(len(order) - 0.5, -0.5)
    image.set_xticks(range(1, half + 1))
    image.set_xlabel("frequency")
    image.set_ylabel("neuron")
    _title(image, r"(d) power of $\hat w$ by frequency, and phase at the dominant one")
    rings = {k: i + 2 for i, k in enumerate(colors)}
    for neuron in order[: int(neurons.heard.sum())]:
        k = int(neurons.frequency[neuron])
        circle.plot(
            [neurons.phase[neuron]] * 2, [0, rings[k]], color=colors[k], linewidth=1, alpha=0.5
        )
        circle.plot(neurons.phase[neuron], rings[k], "o", color=colors[k], markersize=6)
    circle.set_rticks([])
    circle.set_thetagrids([0, 90, 180, 270])
    circle.grid(alpha=0.25)


def _split(axes: Any, rows: int, columns: int) -> list[list[Any]]:
    """Smaller axes in the place of one."""
    figure, grid = axes.figure, axes.get_subplotspec().subgridspec(rows, columns)
    axes.remove()
    return [[figure.add_subplot(grid[i, j]) for j in range(columns)] for i in range(rows)]


def _title(axes: Any, words: str) -> None:
    """A title that may be wider than its axes."""
    axes.set_title(" ", fontsize=11)
    place = {"xycoords": "axes fraction", "xytext": (0, 6), "textcoords": "offset points"}
    axes.annotate(words, (0, 1), fontsize=11, in_layout=False, **place)


def _bare(axes: Any, largest: float) -> None:
    axes.set_ylim(-largest, largest)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)


def _color(neurons: Neurons, neuron: int, colors: Colors) -> str:
    """The color of its frequency, or gray."""
    return colors[int(neurons.frequency[neuron])] if neurons.heard[neuron] else _SILENT

"""The picture of a network that learns a group: power by representation, neurons, and multiplication tables.

What the network takes the product of two elements for is the element whose word is nearest to its answer. A
network that knows only some representations cannot tell all elements apart: of those equally near, it
is right by chance.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from saddlewalk.curves.stages import mode_name
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem, compiled
from saddlewalk.show import draw
from saddlewalk.tasks import GroupComposition, ModularAddition

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saddlewalk.agreement.comparison import Agreement

_MOMENTS = 150
_TABLES = 5
_HEARD = 0.01
_TIED = 1e-6
_MOST_NEURONS = 40
_SILENT = "0.75"

Outputs = Float[np.ndarray, "n order"]


class Seen(NamedTuple):
    """What a network takes each product for.

    Parameters
    ----------
    elements : the nearest element for each sample.
    right : part of the samples on which it is the product; ties count by chance.
    sure : length of each answer beside that of a word.
    """

    elements: Int[np.ndarray, " n"]
    right: float
    sure: Float[np.ndarray, " n"]


def composes(problem: Problem | None) -> bool:
    """Whether a problem is to learn a group, with a picture of its own; modular addition has the common one.

    Parameters
    ----------
    problem : units, data and loss; `None` where a file could not hold them.
    """
    task = None if problem is None else problem.task
    return isinstance(task, GroupComposition) and not isinstance(task, ModularAddition)


def power(task: GroupComposition, outputs: Outputs) -> Float[np.ndarray, " representations"]:
    """Mean power of the outputs in each representation of the encoding.

    Parameters
    ----------
    task : what is learned.
    outputs : of a network, for all samples.
    """
    found = []
    for name in task.pairs:
        one = task.group.representation(name)
        coefficients = outputs @ one.matrices.reshape(task.order, -1)
        part = np.mean(np.sum(coefficients**2, axis=1))
        found.append(one.multiplicity / task.order * part)
    return np.array(found)


def read_table(task: GroupComposition, outputs: Outputs) -> Seen:
    """The elements that a network's answers are nearest to.

    Parameters
    ----------
    task : what is learned.
    outputs : of a network, for all samples.
    """
    words = task.group.orbit(np.asarray(task.encoding))
    scores = outputs @ words.T
    size = float(words[0] @ words[0])
    tied = scores >= scores.max(axis=1, keepdims=True) - _TIED * size
    products = task.group.compose(*np.asarray(task.tuples).T)
    chance = tied[np.arange(len(products)), products] / tied.sum(axis=1)
    sure = np.linalg.norm(outputs, axis=1) / np.sqrt(size)
    return Seen(np.argmax(scores, axis=1), float(chance.mean()), sure)


def by_representation(
    task: GroupComposition, theta: Float[np.ndarray, "width size"]
) -> Float[np.ndarray, "width representations"]:
    """Part of the power of each neuron's weights in each representation of the encoding.

    Parameters
    ----------
    task : what is learned.
    theta : weights of the neurons, one vector of the group's length after the other.
    """
    words = theta.reshape(len(theta), -1, task.order)
    found = []
    for name in task.pairs:
        one = task.group.representation(name)
        coefficients = words @ one.matrices.reshape(task.order, -1)
        found.append(one.multiplicity / task.order * np.sum(coefficients**2, axis=(1, 2)))
    total = np.sum(words**2, axis=(1, 2))
    return np.stack(found, axis=1) / np.maximum(total, np.finfo(float).tiny)[:, None]


@in_float64
def plot(report: "Agreement", target: "str | Path | None") -> "Axes":
    """Loss and power along time, neurons by representation, tables at the plateaus.

    Parameters
    ----------
    report : prediction and simulation of composition in a group.
    target : file to save to; `None` saves nothing.
    """
    problem = report.observed.problem
    task = problem.task
    assert isinstance(task, GroupComposition)
    plateaus = _plateaus(report)
    with draw.styled():
        figure, axes = draw.new_figure(1, 1, width=11.0, height=9.6)
        outer = axes.get_subplotspec().subgridspec(2, 1, height_ratios=(5, 2))
        upper = outer[0].subgridspec(2, 2, width_ratios=(2.4, 1), height_ratios=(3, 2))
        axes.remove()
        losses = figure.add_subplot(upper[0, 0])
        powers = figure.add_subplot(upper[1, 0], sharex=losses)
        neurons = figure.add_subplot(upper[:, 1])
        tables = outer[1].subgridspec(1, max(1, len(plateaus)))
        report.draw_losses(losses)
        losses.set_xlabel("")
        _draw_power(powers, report, problem, task)
        _draw_neurons(neurons, report, problem, task)
        for place, (moment, name) in enumerate(plateaus):
            _draw_table(figure.add_subplot(tables[place]), report, moment, name, place == 0)
        draw.name_stages(losses, report.predicted.stages, report.predicted.loss_levels)
        draw.save(figure, target)
    return losses


def _plateaus(report: "Agreement") -> list[tuple[float, str]]:
    """Times in the middle of the plateaus after each representation, or part of one, and its name."""
    known = [
        (time, mode_name(stage.feature) or "")
        for time, stage in zip(report.jump_times, report.predicted.stages, strict=True)
        if np.isfinite(time)
    ]
    last = [
        k for k, (_, name) in enumerate(known) if k + 1 == len(known) or known[k + 1][1] != name
    ]
    ends = [*(known[k + 1][0] for k in last[:-1]), float(report.observed.time[-1])]
    middles = [(0.5 * (known[k][0] + end), known[k][1]) for k, end in zip(last, ends, strict=False)]
    return middles[: _TABLES - 1] + middles[-1:] if len(middles) > _TABLES else middles


def _outputs(report: "Agreement", time: float) -> np.ndarray:
    path = report.observed
    row = int(np.argmin(np.abs(path.data["saved"].values - time)))
    return np.asarray(compiled.function(path.problem, path.parameters[row]))


def _colors(task: GroupComposition) -> dict[str, Any]:
    shades = draw.matplotlib.colormaps["tab10"](range(10))
    return {name: shades[k % len(shades)] for k, name in enumerate(task.pairs)}


def _draw_power(axes: Any, report: "Agreement", problem: Problem, task: GroupComposition) -> None:
    path = report.observed
    every = path.data["saved"].values
    rows = np.unique(np.linspace(0, len(every) - 1, min(_MOMENTS, len(every))).astype(int))
    grown = np.array(
        [power(task, np.asarray(compiled.function(problem, path.parameters[k]))) for k in rows]
    )
    wanted = power(task, np.asarray(task.y))
    for k, (name, color) in enumerate(_colors(task).items()):
        axes.plot(every[rows], grown[:, k], color=color, linewidth=1.8, label=name)
        axes.axhline(wanted[k], color=color, linewidth=0.8, linestyle=":")
    for stage in report.predicted.stages:
        axes.axvline(stage.time, color=draw.PREDICTED, linestyle="--", linewidth=0.5, alpha=0.6)
    axes.set_ylim(0, 1.15 * wanted.max())
    axes.set_ylabel("output power")
    axes.set_xlabel("time (learning rate 1)")
    axes.legend(fontsize=8, loc="center right")


def _draw_neurons(axes: Any, report: "Agreement", problem: Problem, task: GroupComposition) -> None:
    theta = report.observed.parameters[-1]
    if not problem.units.additive:
        axes.set_axis_off()
        return
    parts = by_representation(task, theta)
    length = np.asarray(compiled.feature_lengths(problem, theta))
    heard = length > _HEARD * length.max()
    order = sorted(
        range(len(theta)), key=lambda k: (not heard[k], int(parts[k].argmax()), -length[k])
    )
    shown = order[:_MOST_NEURONS]
    colors = list(_colors(task).values())
    for row, neuron in enumerate(shown):
        own = [color if heard[neuron] else _SILENT for color in colors]
        axes.scatter(
            np.arange(len(colors)),
            np.full(len(colors), row),
            s=90 * parts[neuron],
            c=own,
            marker="s",
        )
    axes.set_xticks(range(len(colors)), list(task.pairs), rotation=90 if len(colors) > 5 else 0)
    axes.set_xlim(-0.6, len(colors) - 0.4)
    axes.set_yticks(range(len(shown)), [str(k) for k in shown], fontsize=7)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_ylabel("neuron")
    more = f", {len(order) - len(shown)} more" if len(order) > len(shown) else ""
    axes.set_title(f"neurons by representation{more}\n(gray: not heard)", fontsize=9)


def _draw_table(axes: Any, report: "Agreement", time: float, name: str, first: bool) -> None:
    """Products of the first two elements, the others being the identity; pale where the answer is small."""
    task = report.observed.problem.task
    assert isinstance(task, GroupComposition)
    seen = read_table(task, _outputs(report, time))
    n, tuples = task.order, np.asarray(task.tuples)
    shown = (tuples[:, 2:] == task.group.identity).all(axis=1)
    image = np.ones((n, n, 4))
    colors = draw.matplotlib.colormaps["hsv"](np.arange(n) / n)
    pale = np.clip(seen.sure, 0.0, 1.0)[:, None]
    painted = pale * colors[seen.elements] + (1 - pale)
    image[tuples[shown, 0], tuples[shown, 1]] = painted[shown]
    axes.imshow(image, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    if first:
        axes.set_ylabel("first element")
    axes.set_xlabel(f"second; {100 * seen.right:.0f}% right", fontsize=8)
    axes.set_title(f"after {name}\ntime {time:.3g}", fontsize=9)

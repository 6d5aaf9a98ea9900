"""One panel of Saddle-to-Saddle Dynamics: a network trained from a small start, with its plateaus.

The paper's loss has no factor 1/2, so its levels are twice ours, and its learning rate times steps is half
of our time.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlewalk.diagnose import LossCurve, Phases, find_jumps, find_phases, loss_curve
from saddlewalk.figures.drawing import blank_figure
from saddlewalk.flow import Trajectory, train
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.show import draw
from saddlewalk.tasks import AbstractTask, Samples, from_arrays, in_context_tokens
from saddlewalk.units import AbstractUnits

SAMPLES = 8192
CONVOLVED = np.array([1, 1, -1, 1]) / np.sqrt(5)
"""The linear map that convolutions learn."""


@dataclass(frozen=True)
class Panel:
    """What is trained, from weights N(0, eps^2), until when."""

    title: str
    task: AbstractTask
    units: AbstractUnits
    eps: float
    end: float
    seed: int = 0
    solver: str = "explicit"
    saddles: bool = True
    """Whether the kind of each plateau is looked for."""


@dataclass(frozen=True)
class Run:
    """A panel and what happened."""

    panel: Panel
    problem: Problem
    path: Trajectory
    phases: Phases

    def weights(self, phase: int) -> np.ndarray:
        """Two incoming weights of each unit of the first hidden layer, those that grow most, on a plateau."""
        last, here = (
            np.asarray(self.problem.take(self.phases[k].parameters).incoming) for k in (-1, phase)
        )
        return here[:, np.sort(np.argsort(-np.abs(last).max(axis=0), kind="stable")[:2])]

    @property
    def middle(self) -> int:
        """The plateau after the first jump."""
        return min(1, len(self.phases) - 1)

    def to_json(self) -> dict[str, Any]:
        """Phases and cost."""
        return {**self.phases.to_json(), "steps": self.path.info["steps"]}


@in_float64
def run(panel: Panel) -> Run:
    """Train a panel's network and find its plateaus.

    Parameters
    ----------
    panel : what is trained.
    """
    problem = Problem(panel.task, panel.units)
    start = small_start(problem, panel.eps, panel.seed)
    path = train(
        panel.task,
        panel.units,
        panel.eps,
        start=start,
        solver=panel.solver,
        tolerance=1e-6 if problem.smooth else None,
        convergence=1e-8,
        max_time=panel.end,
        most_saved=2000,
        progress=False,
    )
    return Run(panel, problem, path, find_phases(path, problem, saddles=panel.saddles))


def small_start(problem: Problem, eps: float, seed: int) -> np.ndarray:
    """Independent weights N(0, eps^2).

    Parameters
    ----------
    problem : units, data and loss.
    eps : standard deviation.
    seed : seed of the draw.
    """
    return eps * np.random.default_rng(seed).normal(size=(problem.width, problem.size))


def jump_times(path: Trajectory, below: float = np.inf) -> list[float]:
    """Times of the jumps, from when the loss is below some value: large weights start far above.

    Parameters
    ----------
    path : a simulation.
    below : loss under which jumps begin to count.
    """
    curve = loss_curve(path)
    keep = slice(int(np.argmax(curve.loss < below)), None)
    kept = LossCurve.of(curve.time[keep], curve.loss[keep], curve.rate[keep])
    return [jump.time for jump in find_jumps(kept)]


def draw_panels(runs: list[Run], columns: int) -> Any:
    """Each panel's loss above, and its first-layer weights after the first drop and at the end.

    Parameters
    ----------
    runs : the panels.
    columns : panels beside each other.
    """
    rows = -(-len(runs) // columns)
    with draw.styled():
        figure = blank_figure(3.6 * columns, 4.2 * rows)
        boxes = np.asarray(figure.subfigures(rows, columns, squeeze=False)).ravel()
        for box, one in zip(boxes, runs, strict=False):
            _draw_panel(box, one)
    return figure


def _draw_panel(box: Any, one: Run) -> None:
    axes = box.subplot_mosaic([["loss", "loss"], ["middle", "end"]])
    loss = axes["loss"]
    loss.plot(one.path.time, one.path.loss, color=draw.OBSERVED, linewidth=2)
    for phase in one.phases:
        middle = 0.5 * (phase.start + phase.end)
        loss.annotate(
            " ".join(str(width.width) for width in phase.widths),
            (middle, phase.loss),
            xytext=(0, 3),
            textcoords="offset points",
            color=draw.PREDICTED,
            ha="center",
        )
    loss.set_ylim(bottom=0.0, top=1.15 * one.path.loss[0])
    loss.set_xlabel("time (learning rate 1)")
    loss.set_ylabel("loss")
    loss.set_title(one.panel.title)
    names = {"middle": "after the first drop", "end": "at the end"}
    for name, place in (("middle", one.middle), ("end", len(one.phases) - 1)):
        points = one.weights(place)
        axes[name].plot(*points.T, "k.", markersize=4)
        size = 1.15 * float(np.abs(points).max())
        axes[name].set(xlim=(-size, size), ylim=(-size, size), aspect="equal")
        axes[name].set_title(names[name], fontsize=8)
        axes[name].tick_params(labelsize=7)


# --- the data ---------------------------------------------------------------------------------------


def gaussian(covariance: Any, samples: int, seed: int = 0) -> np.ndarray:
    """Gaussian inputs.

    Parameters
    ----------
    covariance : of the inputs, `(d, d)`.
    samples : how many.
    seed : seed of the draw.
    """
    matrix = np.asarray(covariance, dtype=float)
    return np.random.default_rng(seed).multivariate_normal(np.zeros(len(matrix)), matrix, samples)


def identity_map(samples: int = SAMPLES) -> Samples:
    """y = x for correlated inputs (the paper does not print its W*).

    Parameters
    ----------
    samples : how many.
    """
    x = gaussian([[1, 1], [1, 4]], samples)
    return from_arrays(x, x, name="linear map")


def patches(samples: int = SAMPLES, split: bool = False) -> Samples:
    """A linear map of four inputs, as one number or as one a patch.

    Parameters
    ----------
    samples : how many.
    split : one output a patch; else their sum.
    """
    x = gaussian(np.diag([1, 1, 2, 1]), samples)
    return from_arrays(x, _convolved(x, split), name="patches")


def two_points() -> Samples:
    """Two orthogonal points."""
    return from_arrays([[1, 0.5], [-1, 2]], [1, -1], name="two points")


def four_points(split: bool = False) -> Samples:
    """Four orthogonal points in two patches.

    Parameters
    ----------
    split : one output a patch; else their sum.
    """
    x = np.diag([2, 2, 2 * np.sqrt(2), 2])
    return from_arrays(x, _convolved(x, split), name="four points")


def _convolved(x: np.ndarray, split: bool) -> np.ndarray:
    each = (x * CONVOLVED).reshape(len(x), 2, 2).sum(axis=2)
    return each if split else each.sum(axis=1)


def tokens(samples: int = SAMPLES, products: bool = True) -> Samples:
    """Linear regression in context.

    Parameters
    ----------
    samples : number of contexts.
    products : as in `in_context_tokens`.
    """
    return in_context_tokens(2, 32, samples, products=products)


def teacher(
    activation: Any, directions: Any, samples: int = SAMPLES, split: bool = False
) -> Samples:
    """Two units of the same kind as those that learn, added up or one an output.

    Parameters
    ----------
    activation : of the teacher's units.
    directions : their incoming weights, one row a unit.
    samples : how many.
    split : one output a unit; else their sum.
    """
    x = gaussian(np.eye(2), samples)
    answers = np.asarray(activation(x @ np.asarray(directions, dtype=float).T))
    return from_arrays(x, answers if split else answers.sum(axis=1), name="teacher")

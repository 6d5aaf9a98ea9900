"""Natural data: a smooth loss on images, taken apart into what each unit takes off it."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from saddlewalk.figures.claims import Claim, FigureResult
from saddlewalk.flow import Trajectory, train
from saddlewalk.precision import float64
from saddlewalk.problem import Parameters, Problem
from saddlewalk.show import draw
from saddlewalk.tasks import (
    Samples,
    images,
)
from saddlewalk.theory.agf import Walk
from saddlewalk.units import Dense

IMAGES, COMPONENTS, WIDTH, IMAGE_SCALE, IMAGE_END = 500, 16, 12, 1e-20, 3000.0


def natural_data() -> FigureResult:
    """A ReLU network on images: the smooth loss as a sum of what each unit takes off it."""
    task = images("cifar10", samples=IMAGES, components=COMPONENTS)
    units = Dense(WIDTH, "relu")
    problem = Problem(task, units)
    path = train(
        task,
        units,
        IMAGE_SCALE,
        max_time=IMAGE_END,
        observables={"slope": lambda theta: _slope(problem, theta)},
        most_saved=4000,
        progress=None,
    )
    time, taken = path.data["saved"].values, _taken(path)
    fallen = path.loss[0] - np.interp(time, path.time, path.loss)
    explained = float(np.abs(taken.sum(axis=1) - fallen).max() / fallen[-1])
    spans = [_span(time, column) for column in taken.T]
    overlapping = np.mean([sum(a < t < b for a, b in spans) for t in np.array(spans).mean(axis=1)])
    half = {unit: float(np.mean(span)) for unit, span in enumerate(spans)}
    walk = _walk(problem)
    output = np.stack([moment.output for moment in walk.record.moments])
    rows = [moment.index for moment in walk.record.moments]
    wakes = [
        _wakes(walk.record.curve.time[rows], output),
        _wakes(path.time, path.data["unit_output"].values),
    ]
    late = np.abs(wakes[0] / wakes[1] - 1)
    distance = np.interp(time, walk.record.curve.time, walk.record.curve.loss) - (
        path.loss[0] - fallen
    )
    gap = float(np.abs(distance).max() / fallen[-1])
    aligned = _alignment(task, _weights_at(path, half))
    chance = float(
        np.mean(_alignment(task, np.random.default_rng(0).normal(size=(2000, COMPONENTS))))
    )
    with draw.styled():
        figure, (left, right) = draw.new_figure(1, 2, width=10.5, height=4.2)
        order = np.argsort([half[unit] for unit in range(WIDTH)])
        left.stackplot(time, *(taken.T[order]), linewidth=0)
        left.plot(time, fallen, "k", linewidth=1.5, label="fall of the loss")
        left.set(xlabel="time (learning rate 1)", ylabel="taken off the loss, by unit")
        left.set_xlim(0.8 * min(a for a, _ in spans), time[-1])
        left.legend(loc="upper left")
        draw.loss_curve(right, path.time, path.loss, linewidth=3)
        right.plot(
            walk.record.curve.time,
            walk.record.curve.loss,
            "k--",
            linewidth=1.3,
            label="AGF in real time",
        )
        right.set_ylim(path.loss[-1] - 0.1 * fallen[-1], path.loss[0] + 0.1 * fallen[-1])
        right.set_xlim(0.8 * min(a for a, _ in spans), time[-1])
        right.legend()
    return FigureResult(
        "study-natural-data",
        f"a smooth loss taken apart: ReLU network of {WIDTH} units on {task.name}",
        (
            Claim(
                "along gradient flow the fall of the loss is the sum of what each unit takes off: "
                "minus int grad_i L . d theta_i (largest difference, part of the fall)",
                f"{explained:.2g}",
                explained < 0.02,
            ),
            Claim(
                "transitions overlap (units that are in theirs when one is half way, mean)",
                f"{overlapping:.2g}",
                bool(overlapping > 1.5),
            ),
            Claim(
                "AGF in real time predicts the smooth curve to 8% of the fall (largest difference)",
                f"{gap:.2g}",
                gap < 0.08,
            ),
            Claim(
                "and the order in which units reach half of their size (rank correlation; median error "
                "of the times)",
                f"{_rank_agreement(*wakes):.3f} {np.median(late):.2g}",
                _rank_agreement(*wakes) > 0.9,
            ),
            Claim(
                "but they are no singular directions of the labels' covariance (overlap of their input "
                "weights with the nearest, half way, mean; and of random ones)",
                f"{np.mean(aligned):.2f} {chance:.2f}",
                bool(chance < np.mean(aligned) < 0.9),
            ),
        ),
        figure,
        {
            "taken": taken[-1].tolist(),
            "span": [list(map(float, span)) for span in spans],
            "half_size_predicted": wakes[0].tolist(),
            "half_size_simulated": wakes[1].tolist(),
            "alignment": list(map(float, aligned)),
        },
    )


def _slope(problem: Problem, theta: Any) -> Float[np.ndarray, "unit p"]:
    with float64():
        return np.asarray(_climb(problem, jnp.asarray(theta)))


@eqx.filter_jit
def _climb(problem: Problem, theta: Parameters) -> Parameters:
    return problem.climb(theta, problem.residual(theta))


def _taken(path: Trajectory) -> Float[np.ndarray, "t unit"]:
    """What each unit has taken off the loss: the line integral of its gradient along its way.

    Not the integral of the squared gradient: along a kink the velocity is not where the unit goes.
    """
    slope = path.data["slope"].values
    steps = 0.5 * (slope[1:] + slope[:-1]) * np.diff(path.parameters, axis=0)
    taken = np.cumsum(steps.sum(axis=2), axis=0)
    return np.concatenate([np.zeros((1, taken.shape[1])), taken])


def _walk(problem: Problem) -> Walk:
    with float64():
        walk = Walk(problem, problem.initialize(IMAGE_SCALE, 0), real_time=True, max_time=IMAGE_END)
        walk.run()
        return walk


def _wakes(time: np.ndarray, output: np.ndarray) -> Float[np.ndarray, " unit"]:
    """When each unit first has half of the size that it has in the end."""
    return time[np.argmax(output >= 0.5 * output[-1], axis=0)]


def _span(time: np.ndarray, taken: np.ndarray) -> tuple[float, float]:
    """When a unit has taken a tenth, and nine tenths, of all that it will."""
    part = taken / max(float(taken[-1]), 1e-300)
    return float(np.interp(0.1, part, time)), float(np.interp(0.9, part, time))


def _weights_at(path: Trajectory, moments: dict[int, float]) -> Float[np.ndarray, "unit d"]:
    """Input weights of each unit at a moment of its own."""
    rows = np.clip(
        np.searchsorted(path.data["saved"].values, list(moments.values())),
        0,
        len(path.parameters) - 1,
    )
    return np.asarray(path.parameters)[rows, list(moments), :COMPONENTS]


def _alignment(task: Samples, weights: Float[np.ndarray, "unit d"]) -> Float[np.ndarray, " unit"]:
    """Cosine of each unit's input weights with the nearest singular direction of E[y x^T]."""
    covariance = np.asarray(task.y).T @ np.asarray(task.x)
    _, values, directions = np.linalg.svd(covariance, full_matrices=False)
    real = directions[values > 1e-9 * values[0]]
    return np.abs(weights @ real.T).max(axis=1) / np.linalg.norm(weights, axis=1)


def _rank_agreement(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation."""
    return float(spearmanr(first, second).statistic)

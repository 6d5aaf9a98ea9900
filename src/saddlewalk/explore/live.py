"""Flows that the page integrates itself: data of diagonal and linear networks, and starts, for every slider.

The page gets the virtual samples of the data, or what made data are made of, so that their correlation, their
noise or their spectrum can be changed there.
"""

from typing import Any

import numpy as np

from saddlewalk.explore.packed import packed
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.settings import Run
from saddlewalk.tasks import Moments
from saddlewalk.tasks.regression import draw_map, draw_regression
from saddlewalk.units import Dense, Diagonal

Live = dict[str, Any]
_SEEDS = 6
_MOST_NUMBERS = 250_000
"""Numbers of all starts: for larger networks there are fewer seeds and one width."""
_LARGEST = 64
"""Inputs of a diagonal network up to which a slider answers at once."""
_MOST_WORK = 21_000
"""And the work of a linear one: 16 inputs, outputs and units take up to half a second."""


def live_flow(run: Run, seeds: int = _SEEDS) -> Live | None:
    """What the page needs to integrate these networks; `None` where it cannot.

    Parameters
    ----------
    run : the setting with its options; scale and seed are where the sliders start.
    seeds : how many starts, and how many sets of made data.
    """
    problem = run.problem
    plain = run.weights is None and not problem.adaptive and problem.squared
    units = problem.units
    known = isinstance(units, Diagonal) or (isinstance(units, Dense) and units.rotatable)
    flows = run.motion.optimizer is None and run.training.solver not in ("descent", "sgd")
    if not (plain and known and flows and isinstance(problem.task, Moments)):
        return None
    if _too_large(problem):
        return None
    return {
        "kind": "diagonal" if isinstance(units, Diagonal) else "linear",
        "scale": run.scale,
        "names": list(problem.task.input_names)
        or [f"coordinate {k}" for k in range(problem.task.inputs)],
        "data": _data(run, seeds),
        **({} if isinstance(units, Diagonal) else _starts(run, seeds)),
    }


def _too_large(problem: Problem) -> bool:
    """Whether a slider would wait: products of matrices at every step, singular values at every point."""
    inputs, outputs = problem.task.inputs, problem.task.outputs
    if isinstance(problem.units, Diagonal):
        return inputs > _LARGEST
    return inputs * outputs * (4 * problem.width + min(inputs, outputs)) > _MOST_WORK


def _data(run: Run, seeds: int) -> Live:
    """Data as they are, or what makes them: a slider for the draw, and for what can be turned."""
    options = run.to_json()
    if options.get("data") or options.get("standardize"):
        task: Any = run.problem.task
        return {"kind": "given", "draws": [_points(task)]}
    first = int(options["data_seed"])
    draws = list(range(first, first + seeds))
    if run.setting == "diagonal":
        sizes = {name: options[name] for name in ("samples", "dim", "sparsity")}
        return {
            "kind": "regression",
            "seeds": draws,
            "correlation": options["correlation"],
            "noise": options["noise"],
            "draws": [_regression(sizes, seed) for seed in draws],
        }
    sizes = {name: options[name] for name in ("dim", "outputs", "commuting")}
    return {
        "kind": "map",
        "seeds": draws,
        "decay": options["decay"],
        "draws": [_map(sizes, seed) for seed in draws],
    }


def _points(task: Moments) -> Live:
    return {"x": packed(task.x), "y": packed(task.y), "floor": float(task.offset)}


def _regression(sizes: dict[str, Any], seed: int) -> Live:
    x, beta, noise = draw_regression(**sizes, seed=seed)
    return {"x": packed(x), "beta": packed(beta), "noise": packed(noise)}


def _map(sizes: dict[str, Any], seed: int) -> Live:
    linear, axes = draw_map(**sizes, seed=seed)
    return {"map": packed(linear), "axes": packed(axes)}


@in_float64
def _starts(run: Run, seeds: int) -> Live:
    """Starts at scale 1, in the basis of the hidden layer of `Dense.mix`, and the way back to the units."""
    problem = run.problem
    most = min(problem.width, 12)
    size = problem.size
    widths = sorted({*range(1, most + 1), problem.width})
    if seeds * sum(widths) * size > _MOST_NUMBERS:
        widths, seeds = [problem.width], 1
    first = run.start.seed
    numbers = list(range(first, first + seeds))
    found = [[_start(problem.resized(width), seed) for seed in numbers] for width in widths]
    return {"widths": widths, "width": problem.width, "seeds": numbers, "starts": found}


def _start(problem: Problem, seed: int) -> Live:
    theta = np.asarray(problem.initialize(1e-3, seed)) * 1e3
    task: Any = problem.task  # of virtual samples, so that the first residual is the targets
    mixed = np.asarray(problem.units.mix(theta, np.asarray(task.x), np.asarray(task.y)))
    back = np.linalg.lstsq(mixed.T, theta.T, rcond=None)[0].T
    return {"mixed": packed(mixed), "back": packed(back)}

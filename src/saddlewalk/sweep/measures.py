"""What can be measured in a cell: each verb of the package, reduced to a few numbers.

A cell names a setting of the command line and its options, and the options of the verb, side by side:
`{"setting": "diagonal", "dim": 10, "scale": 1e-6, "seed": 3}`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import saddlewalk as sw
from saddlewalk.errors import InputError, nearest
from saddlewalk.settings import find_setting, make_problem

_NAN = float("nan")
_PREDICT = ("scale", "seed", "method")
_TRAIN = (
    *("scale", "seed", "solver", "adaptive", "tolerance", "convergence", "max_time", "max_steps"),
    *("learning_rate", "batch_size", "momentum"),
)


def predict(**cell: Any) -> dict[str, float]:
    """How many features, when the first and the last, and the loss after it."""
    task, units, options = _problem(cell, _PREDICT)
    stairs = sw.predict(task, units, **options)
    return {
        "stages": len(stairs.stages),
        **_ends(stairs.jump_times),
        "loss": stairs.loss_levels[-1],
    }


def train(**cell: Any) -> dict[str, float]:
    """Loss at start and end, and how long it took to halve it and to come to rest."""
    task, units, options = _problem(cell, _TRAIN)
    path = sw.train(task, units, **options, progress=False)
    halved = np.flatnonzero(path.loss <= path.loss[0] / 2)
    return {
        "loss": float(path.loss[-1]),
        "initial_loss": float(path.loss[0]),
        "time": float(path.time[-1]),
        "time_half": float(path.time[halved[0]]) if len(halved) else _NAN,
    }


def compare(**cell: Any) -> dict[str, float]:
    """Whether the order is right, and the largest errors of times and levels in the stages reached."""
    foresee = {name: cell.pop(name) for name in ("method",) if name in cell}
    task, units, options = _problem(cell, _TRAIN)
    seen = {name: value for name, value in options.items() if name in (*_PREDICT, "adaptive")}
    agreement = sw.compare(
        sw.predict(task, units, **seen, **foresee),
        sw.train(task, units, **options, progress=False),
    )
    return {
        "order": float(agreement.order),
        "stages_predicted": len(agreement.predicted.stages),
        "stages_observed": len(agreement.stages_observed),
        "stages_reached": agreement.stages_reached,
        "time_error": _largest(agreement.time_error),
        "level_error": _largest(agreement.level_error),
    }


def diagnose(**cell: Any) -> dict[str, float]:
    """Plateaus of a training, the longest of them, and the effective width at the end."""
    task, units, options = _problem(cell, _TRAIN)
    path = sw.train(task, units, **options, progress=False)
    phases = sw.diagnose.find_phases(path, sw.Problem(task, units))
    return {
        "plateaus": len(phases),
        "longest": max((phase.duration for phase in phases), default=_NAN),
        "width": phases[-1].width if len(phases) and phases[-1].widths else _NAN,
        "loss": float(path.loss[-1]),
    }


def regime(**cell: Any) -> dict[str, float]:
    """How far the tangent kernel turned, how late, and how far the parameters went."""
    task, units, options = _problem(cell, _TRAIN)
    path = sw.train(task, units, **options, progress=False)
    found = sw.diagnose.find_regime(path, sw.Problem(task, units, keep_samples=True))
    names = ("kernel_distance", "kernel_growth", "parameter_distance")
    ends = {name: float(found.data[name][-1]) for name in names}
    return {**ends, "delay": float(found.delay), "loss": float(path.loss[-1])}


MEASURES: dict[str, Callable[..., dict[str, float]]] = {
    function.__name__: function for function in (predict, train, compare, diagnose, regime)
}


def find_measure(name: str) -> Callable[..., dict[str, float]]:
    """A measure by its name."""
    if name not in MEASURES:
        raise InputError(f"Unknown measure '{name}'.{nearest(name, MEASURES)}")
    return MEASURES[name]


def check_parameters(measure: str, setting: str, names: list[str]) -> None:
    """Refuse parameters that a measure or its setting does not take, before anything runs."""
    own = {"predict": _PREDICT, "compare": (*_TRAIN, "method")}.get(measure, _TRAIN)
    known = ["setting", *own, *find_setting(setting).options]
    for name in names:
        if name not in known:
            raise InputError(
                f"'{measure}' of '{setting}' has no parameter '{name}'.{nearest(name, known)}"
            )


def _problem(cell: Mapping[str, Any], own: tuple[str, ...]) -> tuple[Any, Any, dict[str, Any]]:
    """Task, units, and what is left for the verb; the scale is the setting's if none is given."""
    setting = cell["setting"]
    options = {name: value for name, value in cell.items() if name in own}
    made = {name: v for name, v in cell.items() if name != "setting" and name not in own}
    task, units, _ = make_problem(setting, made)
    return task, units, {"scale": find_setting(setting).scale, **options}


def _ends(times: Any) -> dict[str, float]:
    known = [float(time) for time in times]
    return {
        "time_first": known[0] if known else _NAN,
        "time_last": known[-1] if known else _NAN,
    }


def _largest(errors: list[float]) -> float:
    known = [error for error in errors if np.isfinite(error)]
    return max(known) if known else _NAN

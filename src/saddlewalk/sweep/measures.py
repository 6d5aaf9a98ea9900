"""What can be measured in a cell: each verb of the package, reduced to a few numbers.

A cell names a setting and the options of a run, side by side, as the command line does:
`{"setting": "diagonal", "dim": 10, "scale": 1e-6, "seed": 3}`.
"""

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saddlewalk.agreement import Agreement, compare
from saddlewalk.diagnose import find_phases, find_regime
from saddlewalk.errors import InputError, nearest
from saddlewalk.explore.stores import curves_of
from saddlewalk.features import RFMClassifier, RFMRegressor
from saddlewalk.flow import Trajectory
from saddlewalk.settings import Run, find_setting, run_options, train_runs
from saddlewalk.sweep.results import Series
from saddlewalk.tasks import Samples

Numbers = dict[str, Any]
_NAN = float("nan")
_TRAINED = ("start", "motion", "training")
_ESTIMATORS = {"regressor": RFMRegressor, "classifier": RFMClassifier}
_FIT = ("estimator", "held_out", "seed", *RFMRegressor().get_params())
_MOMENTS, _COPIES, _BYTES = 256, 4, 8
"""Recorded moments of a piece of a training, and how often a batch has them in memory."""


@dataclass(frozen=True)
class Prediction:
    """Numbers of a prediction."""

    name: str = "predict"

    def options(self, setting: str) -> list[str]:
        """Parameters of a cell."""
        return list(run_options(setting, "start", "motion", "prediction"))

    def __call__(self, **cell: Any) -> Numbers:
        """How many features, when the first and the last, and the loss after it."""
        stairs = Run.of(**cell).predict(progress=False)
        return {
            "stages": len(stairs.stages),
            **_ends(stairs.jump_times),
            "loss": stairs.loss_levels[-1],
        }


@dataclass(frozen=True)
class Training:
    """Numbers of a training; networks of one shape can be trained together."""

    name: str
    reduce: Callable[[Run, Trajectory], Numbers]
    parts: tuple[str, ...] = _TRAINED
    """Parts of a run whose options a cell may have."""

    def options(self, setting: str) -> list[str]:
        """Parameters of a cell."""
        return list(run_options(setting, *self.parts))

    def __call__(self, **cell: Any) -> Numbers:
        """Train one network."""
        (numbers,) = self.together([cell])
        return numbers

    def program(self, cell: Mapping[str, Any]) -> str:
        """All that is fixed when a program is compiled."""
        options = run_options(cell["setting"])
        fixed = {k: v for k, v in cell.items() if k not in options or not options[k].same_program}
        return json.dumps(fixed, sort_keys=True, default=str)

    def together(self, cells: Sequence[Mapping[str, Any]]) -> list[Numbers]:
        """Train networks of one program."""
        runs = [Run.of(**cell) for cell in cells]
        paths = train_runs(runs, progress=False)
        return [self.reduce(run, path) for run, path in zip(runs, paths, strict=True)]

    def size(self, cell: Mapping[str, Any]) -> int:
        """Bytes of a piece of the training."""
        problem = Run.of(**cell).problem
        return _COPIES * _MOMENTS * _BYTES * problem.width * problem.size


@dataclass(frozen=True)
class Fit:
    """Numbers of a Recursive Feature Machine on samples of a setting, or of `data`."""

    name: str = "fit"

    def options(self, setting: str) -> list[str]:
        """Parameters of a cell."""
        return [*_FIT, *find_setting(setting).options]

    def __call__(
        self, estimator: str = "regressor", held_out: float = 0.25, seed: int = 0, **cell: Any
    ) -> Numbers:
        """Scores (R^2, or accuracy) on the samples it saw and on those held out, and iterations."""
        from sklearn.model_selection import train_test_split

        if estimator not in _ESTIMATORS:
            raise InputError(f"Unknown estimator '{estimator}'.{nearest(estimator, _ESTIMATORS)}")
        options = {name: cell.pop(name) for name in _FIT if name in cell}
        task = Run.of(**cell).task
        if not isinstance(task, Samples):
            raise InputError(f"An estimator needs samples; '{task.name}' is given by its moments.")
        y = np.asarray(task.y) if estimator == "regressor" else _labels(np.asarray(task.y))
        seen_x, new_x, seen_y, new_y = train_test_split(
            np.asarray(task.x), y, test_size=held_out, random_state=seed
        )
        model = _ESTIMATORS[estimator](**{"random_state": seed, **options}).fit(seen_x, seen_y)
        return {
            "test_score": float(model.score(new_x, new_y)),
            "train_score": float(model.score(seen_x, seen_y)),
            "iterations": float(model.n_iter_),
        }


def _trained(run: Run, path: Trajectory) -> Numbers:
    """Loss at start and end, and how long it took to halve it and to come to rest."""
    halved = np.flatnonzero(path.loss <= path.loss[0] / 2)
    return {
        "loss": float(path.loss[-1]),
        "initial_loss": float(path.loss[0]),
        "time": float(path.time[-1]),
        "time_half": float(path.time[halved[0]]) if len(halved) else _NAN,
    }


def _compared(run: Run, path: Trajectory) -> Numbers:
    """Whether the order is right, and the largest errors of times and levels in the stages reached."""
    return _numbers_of(compare(run.predict(progress=False), path))


def _numbers_of(agreement: Agreement) -> Numbers:
    return {
        "order": float(agreement.order),
        "stages_predicted": len(agreement.predicted.stages),
        "stages_observed": len(agreement.stages_observed),
        "stages_reached": agreement.stages_reached,
        "time_error": _largest(agreement.time_error),
        "level_error": _largest(agreement.level_error),
    }


def _curved(run: Run, path: Trajectory) -> Numbers:
    """The numbers of a comparison, and its curves, for `saddlewalk explore`."""
    agreement = compare(run.predict(progress=False), path)
    curves = {name: Series(values) for name, values in curves_of(agreement).items()}
    return {**_numbers_of(agreement), **curves}


def _diagnosed(run: Run, path: Trajectory) -> Numbers:
    """Plateaus of a training, the longest of them, and the effective width at the end."""
    phases = find_phases(path, progress=False)
    return {
        "plateaus": len(phases),
        "longest": max((phase.duration for phase in phases), default=_NAN),
        "width": phases[-1].width if len(phases) and phases[-1].widths else _NAN,
        "loss": float(path.loss[-1]),
    }


def _placed(run: Run, path: Trajectory) -> Numbers:
    """How far the tangent kernel turned, how late, and how far the parameters went."""
    found = find_regime(path, progress=False)
    names = ("kernel_distance", "kernel_growth", "parameter_distance")
    ends = {name: float(found.data[name][-1]) for name in names}
    return {**ends, "delay": float(found.delay), "loss": float(path.loss[-1])}


MEASURES: dict[str, Any] = {
    measure.name: measure
    for measure in (
        Prediction(),
        Training("train", _trained),
        Training("compare", _compared, (*_TRAINED, "prediction")),
        Training("curves", _curved, (*_TRAINED, "prediction")),
        Training("diagnose", _diagnosed),
        Training("regime", _placed),
        Fit(),
    )
}


def find_measure(name: str, beside: Path | None = None) -> Callable[..., Mapping[str, float]]:
    """A measure by its name, or `module:function` of one's own, also from a folder beside.

    Parameters
    ----------
    name : one of `MEASURES`, or `module:function`.
    beside : folder in which the module may lie; the working folder by default.
    """
    if ":" in name:
        module, function = name.split(":", 1)
        for folder in (str(beside or "."), "."):
            if folder not in sys.path:
                sys.path.append(folder)
        try:
            return getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise InputError(f"There is no measure '{name}': {error}.") from error
    if name not in MEASURES:
        raise InputError(f"Unknown measure '{name}'.{nearest(name, MEASURES)}")
    return MEASURES[name]


def check_parameters(measure: Any, setting: str | None, names: Sequence[str]) -> None:
    """Refuse parameters that a measure or its setting does not take, before anything runs.

    Parameters
    ----------
    measure : the name of one of the package, or a function.
    setting : name of the setting, for a measure of the package.
    names : parameters that are to be given.
    """
    if isinstance(measure, str):
        if setting is None:
            raise InputError(f"'{measure}' needs a setting.")
        whose = f"'{measure}' of '{setting}'"
        known = ["setting", *MEASURES[measure].options(setting)]
    else:
        taken = inspect.signature(measure).parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in taken):
            return
        whose, known = "The measure", [one.name for one in taken]
    for name in names:
        if name not in known:
            raise InputError(f"{whose} has no parameter '{name}'.{nearest(name, known)}")


def _labels(y: np.ndarray) -> np.ndarray:
    """Classes: the largest of several outputs, or the number itself."""
    return y.argmax(axis=1) if y.ndim > 1 and y.shape[1] > 1 else y.ravel().astype(int)


def _ends(times: Any) -> Numbers:
    known = [float(time) for time in times]
    return {
        "time_first": known[0] if known else _NAN,
        "time_last": known[-1] if known else _NAN,
    }


def _largest(errors: list[float]) -> float:
    known = [error for error in errors if np.isfinite(error)]
    return max(known) if known else _NAN

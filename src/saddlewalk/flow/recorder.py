"""Collects a run piece by piece: every step's loss, and as many parameter snapshots as fit."""

from typing import Any

import numpy as np

from saddlewalk.flow.crossings import norm_crossings
from saddlewalk.flow.gradient_flow import Snapshot
from saddlewalk.flow.trajectory import Trajectory
from saddlewalk.problem import Problem

STEP_FIELDS = (
    "loss",
    "loss_rate",
    "loss_curvature",
    "drive",
    "unit_norm",
    "unit_growth",
    "unit_output",
)


class Recorder:
    """Grows with the run. Parameters are thinned to at most `most_saved` moments, evenly by step.

    Parameters
    ----------
    most_saved : most moments whose parameters are kept; at least 2.
    """

    def __init__(self, most_saved: int) -> None:
        self._most = max(2, most_saved)
        self._stride = 1
        self._seen = 0
        self._time: list[np.ndarray] = []
        self._steps: list[dict[str, np.ndarray]] = []
        self._saved: list[tuple[float, np.ndarray]] = []
        self._requested: list[tuple[float, np.ndarray]] = []
        self._last: tuple[float, np.ndarray] | None = None

    def add(self, time: np.ndarray, snapshots: Snapshot) -> None:
        """Append consecutive moments of the run."""
        if len(time) == 0:
            return
        parameters = np.asarray(snapshots.parameters)
        for k in range(len(time)):
            if (self._seen + k) % self._stride == 0:
                # a copy: a view would keep the whole piece
                self._saved.append((float(time[k]), parameters[k].copy()))
        self._seen += len(time)
        self._last = (float(time[-1]), parameters[-1].copy())
        self._time.append(np.asarray(time))
        self._steps.append({name: np.asarray(getattr(snapshots, name)) for name in STEP_FIELDS})
        while len(self._saved) > self._most:
            self._saved = self._saved[::2]
            self._stride *= 2

    def add_requested(self, time: np.ndarray, parameters: np.ndarray) -> None:
        """Append moments that the user asked for; they are never thinned out."""
        self._requested += list(zip(time.tolist(), np.asarray(parameters), strict=True))

    def finish(
        self, problem: Problem, observables: dict[str, Any], info: dict[str, Any]
    ) -> Trajectory:
        """The trajectory so far."""
        moments = list(self._requested or self._saved)
        if self._last is not None and moments[-1][0] < self._last[0]:
            moments.append(self._last)
        parameters = np.stack([theta for _, theta in moments])
        time = np.concatenate(self._time)
        steps = {
            name: np.concatenate([piece[name] for piece in self._steps]) for name in STEP_FIELDS
        }
        growth = steps.pop("unit_growth")
        crossings = norm_crossings(time, steps["unit_norm"], growth)
        return Trajectory.from_arrays(
            {"time": time, **steps},
            {
                "time": np.array([moment for moment, _ in moments]),
                "parameters": parameters,
                **{name: _evaluate(f, parameters) for name, f in observables.items()},
            },
            {
                "time": np.array([c[0] for c in crossings]),
                "unit": np.array([c[1] for c in crossings], dtype=int),
                "upward": np.array([c[2] for c in crossings], dtype=bool),
            },
            info,
            problem,
        )


def _evaluate(observable: Any, parameters: np.ndarray) -> np.ndarray:
    return np.stack([np.asarray(observable(theta)) for theta in parameters])

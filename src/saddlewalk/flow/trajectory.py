"""A trajectory: what really happened, as labeled data. Diagnostics are functions of it."""

import functools
import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from saddlewalk.curves import LossCurve, Stage, Stopped
from saddlewalk.errors import InputError
from saddlewalk.flow import observed
from saddlewalk.precision import float64
from saddlewalk.problem import Problem
from saddlewalk.problem.kept import known, problem_of, with_problem, without_problem
from saddlewalk.show import text
from saddlewalk.store import AbstractResult

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_SHOWN = 2000
"""Points of a loss curve in the machine-readable output."""
_SAME = 1e-6
"""Losses of one network that differ by less, relatively, are the same."""


@dataclass(frozen=True)
class Trajectory(AbstractResult):
    """A simulated training run: an xarray Dataset with dimensions time, saved, unit, parameter.

    `loss` and its derivatives `loss_rate`, `loss_curvature`, `drive`, `unit_norm`, `unit_output` are
    known at every `time`; `parameters` and observables at the fewer times `saved`; `crossing` lists
    when a unit's norm passed 1.
    """

    result_kind: ClassVar[str] = "trajectory"

    data: "xr.Dataset"
    _problem: Problem | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_arrays(
        cls,
        steps: dict[str, np.ndarray],
        saved: dict[str, np.ndarray],
        crossings: dict[str, np.ndarray],
        info: dict[str, Any],
        problem: Problem | None = None,
    ) -> "Trajectory":
        """Label the arrays. `info` is anything JSON can hold: setting, scale, seed, solver, ..."""
        import xarray as xr

        per_unit = {"drive", "unit_norm", "unit_output"}
        data = xr.Dataset(
            {
                **{
                    name: (("time", "unit") if name in per_unit else ("time",), values)
                    for name, values in steps.items()
                    if name != "time"
                },
                **{
                    name: (("saved", *_dimensions(name, values)), values)
                    for name, values in saved.items()
                    if name != "time"
                },
                "crossing_unit": ("crossing", crossings["unit"]),
                "crossing_upward": ("crossing", crossings["upward"]),
            },
            coords={
                "time": steps["time"],
                "saved": saved["time"],
                "crossing": crossings["time"],
            },
            attrs={"info": json.dumps(info)},
        )
        return cls(data, problem)

    @property
    def info(self) -> dict[str, Any]:
        """Setting, scale, seed, solver, counts, and why the run stopped."""
        return json.loads(self.data.attrs["info"])

    @property
    def time(self) -> np.ndarray:
        """Gradient-flow time at learning rate 1."""
        return self.data["time"].values

    @property
    def loss(self) -> np.ndarray:
        """Loss at each time."""
        return self.data["loss"].values

    @property
    def parameters(self) -> np.ndarray:
        """Parameters `(saved, unit, parameter)`."""
        return self.data["parameters"].values

    @property
    def problem(self) -> Problem:
        """What was trained: units, data and loss."""
        return known(self._problem, "run")

    def of(self, problem: Problem) -> "Trajectory":
        """The same run with its problem, where a file could not hold it.

        Parameters
        ----------
        problem : units, data and loss; refused if it gives another loss to the parameters of the run.
        """
        if problem is self._problem:
            return self
        if self.parameters.shape[1:] != (problem.width, problem.size):
            raise InputError(
                f"The run does not belong to this problem: its parameters have shape "
                f"{self.parameters.shape[1:]}, those of the problem {(problem.width, problem.size)}."
            )
        for theta, loss in self._losses_of_parameters():
            with float64():
                here = float(problem.loss(theta))
            if not math.isclose(here, loss, rel_tol=_SAME, abs_tol=_SAME * float(self.loss.max())):
                raise InputError(
                    f"The run does not belong to this problem: parameters at which it had loss {loss:.6g} "
                    f"have loss {here:.6g} there. Give the task, units and loss that were trained."
                )
        return replace(self, _problem=problem)

    def _losses_of_parameters(self) -> list[tuple[np.ndarray, float]]:
        """Moments at which both are known: the last, and the first if it was saved."""
        moments = self.data["saved"].values
        ends = [(0, 0), (-1, -1)]
        return [
            (self.parameters[k], float(self.loss[j])) for k, j in ends if moments[k] == self.time[j]
        ]

    @functools.cached_property
    def curve(self) -> LossCurve:
        """The loss with its slope, and for a flow its curvature."""
        return observed.loss_curve(self)

    @functools.cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Jumps of the loss, and the units that turned on and off: seen in this run alone."""
        return observed.observed_stages(self)

    @property
    def stopped(self) -> Stopped:
        """Why the run ended."""
        return Stopped(self.info["stopped"])

    @property
    def method(self) -> str:
        """What moved the parameters, in words."""
        named = {"descent": "gradient descent", "sgd": "SGD"}
        return named.get(self.info["solver"], "gradient flow")

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form (what `saddlewalk train --json` prints)."""
        keep = np.unique(np.linspace(0, len(self.time) - 1, _SHOWN).astype(int))
        return {
            **self.info,
            "final_loss": float(self.loss[-1]),
            "time": self.time[keep].tolist(),
            "loss": self.loss[keep].tolist(),
            "stages": [stage.to_json() for stage in self.stages],
        }

    def to_xarray(self) -> "xr.Dataset":
        """The labeled data themselves, and the description of the problem."""
        return with_problem(self.data, self._problem)

    @classmethod
    def from_xarray(cls, data: "xr.Dataset") -> "Trajectory":
        """The run behind its labeled data, bit for bit."""
        return cls(without_problem(data), problem_of(data))

    def plot(self, target: "str | Path | Axes | None" = None) -> "Axes":
        """Draw the loss curve; a path saves the picture, an axis draws into it."""
        from saddlewalk.show import draw

        with draw.canvas(target) as axes:
            draw.loss_curve(axes, self.time, self.loss, label=self.method)
            axes.set_title(f"{self.info['setting']}, scale {self.info['scale']:g}")
            axes.legend()
        return axes

    def parts(self) -> tuple[text.Table | str, ...]:
        """How it went, in a table."""
        info = self.info
        rows = [
            ["solver", info["solver"]],
            ["steps", str(info["steps"])],
            ["right-hand sides", str(info["rhs_evaluations"])],
            ["end time", text.number(float(self.time[-1]))],
            ["first loss", text.number(float(self.loss[0]))],
            ["last loss", text.number(float(self.loss[-1]))],
            ["stopped", self.stopped.sentence],
        ]
        title = f"{info['setting']}: simulated, scale {info['scale']:g}, seed {info['seed']}"
        return (text.Table(title, ["", "value"], rows),)


def _dimensions(name: str, values: np.ndarray) -> tuple[str, ...]:
    if name == "parameters":
        return ("unit", "parameter")
    return tuple(f"{name}_{k}" for k in range(values.ndim - 1))

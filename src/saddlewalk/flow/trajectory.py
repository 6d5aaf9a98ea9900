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
from saddlewalk.tasks.samples import finite_numbers

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_SHOWN = 2000
"""Points of a loss curve in the machine-readable output."""
_OWN = "own"
"""The solver of a run that was not simulated here."""
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
        steps: dict[str, Any],
        saved: dict[str, Any],
        crossings: dict[str, Any] | None = None,
        info: dict[str, Any] | None = None,
        problem: Problem | None = None,
    ) -> "Trajectory":
        """Label the arrays of a run: a simulation, or a training of one's own. For that, times, losses and
        some weights are enough::

            Trajectory.from_arrays(
                {"time": rate * steps, "loss": losses},
                {"time": rate * checkpoints, "parameters": weights},
                problem=sw.Problem(task, units),
            )

        Parameters
        ----------
        steps : `time` and `loss`, and what else was seen of every step. Time is that of gradient flow: the
            learning rate times the number of steps. The loss is that of all data, as the problem has it.
        saved : `time` and `parameters` `(moments, width, size)`, and observables, at fewer times.
        crossings : `time`, `unit` and `upward`: when a unit's norm passed 1.
        info : anything JSON can hold: setting, scale, seed, solver, ...
        problem : units, data and loss; for a run of one's own refused if it gives its weights another loss.
        """
        import xarray as xr

        own = info is None
        if own:
            steps, saved, info = _own(steps, saved, problem)
        crossings = crossings or {name: np.zeros(0) for name in ("time", "unit", "upward")}
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
        return cls(data).of(problem) if own and problem is not None else cls(data, problem)

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

    @property
    def known_problem(self) -> Problem | None:
        """The same, or `None` where a file could not hold it."""
        return self._problem

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
    def title(self) -> str:
        """What was learned, and from which scale, where that is known."""
        scale = self.info["scale"]
        return self.info["setting"] + ("" if scale is None else f", scale {scale:g}")

    @property
    def method(self) -> str:
        """What moved the parameters, in words."""
        named = {"descent": "gradient descent", "sgd": "SGD", _OWN: "training"}
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

    def plot(
        self, target: "str | Path | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "Axes":
        """The loss with what it learned; a path saves the picture, an axis draws into it.

        A picture of its own has a second panel: what grows meanwhile, where that is known.
        """
        from saddlewalk.show import draw

        target = ax or target
        if not (target is None or isinstance(target, str | Path)) or "unit_output" not in self.data:
            with draw.canvas(target) as axes:
                self._draw_loss(axes)
            return axes
        with draw.two_panels(target) as (axes, lower):
            draw.growth(lower, *observed.what_grows(self))
            self._draw_loss(axes)
            axes.set_xlabel("")
        return axes

    def _draw_loss(self, axes: "Axes") -> None:
        from saddlewalk.show import draw

        times = [stage.time for stage in self.stages]
        levels = [float(self.loss[0]), *(stage.loss for stage in self.stages)]
        draw.loss_curve(axes, self.time, self.loss, label=self.method)
        ends = draw.end_of_fall(self.time, self.loss, levels)
        end = min(float(self.time[-1]), max([1.1 * ends, *(1.25 * time for time in times)]))
        if self.stopped is not Stopped.LIMIT and times:
            axes.set_xlim(0.0, end)
        if times:
            draw.stretch(axes, times, levels, axes.get_xlim()[1])
        axes.set_title(self.title)
        axes.legend()
        draw.name_stages(axes, self.stages, levels, draw.OBSERVED)

    def parts(self) -> tuple[text.Table | str, ...]:
        """How it went, in a table."""
        info = self.info
        rows = [
            ["solver", info["solver"]],
            ["steps", str(info["steps"])],
            ["right-hand sides", text.number(info["rhs_evaluations"], 12)],
            ["end time", text.number(float(self.time[-1]))],
            ["first loss", text.number(float(self.loss[0]))],
            ["last loss", text.number(float(self.loss[-1]))],
            ["stopped", self.stopped.sentence],
        ]
        title = f"{info['setting']}: {'' if info['solver'] == _OWN else 'simulated, '}"
        known = [f"{name} {info[name]:g}" for name in ("scale", "seed") if info[name] is not None]
        return (text.Table(title + ", ".join(known or [self.method]), ["", "value"], rows),)


def _own(
    steps: dict[str, Any], saved: dict[str, Any], problem: Problem | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a run of one's own, checked, and what is known of it."""
    for named, needed in ((steps, ("time", "loss")), (saved, ("time", "parameters"))):
        missing = [name for name in needed if name not in named]
        if missing:
            hint = " Time is the learning rate times the number of steps." * ("time" in missing)
            raise InputError(
                f"A run needs {' and '.join(needed)}; {', '.join(missing)} is missing "
                f"(there is {', '.join(map(str, named)) or 'nothing'}).{hint}"
            )
    seen, kept = (
        {name: finite_numbers(name, values) for name, values in named.items()}
        for named in (steps, saved)
    )
    for named, many in ((seen, "loss"), (kept, "parameters")):
        times = named["time"]
        if times.ndim != 1 or not len(times) or not (np.diff(times) > 0).all():
            raise InputError("The times of a run must rise, from one entry to the next.")
        if len(named[many]) != len(times):
            raise InputError(f"There are {len(times)} times and {len(named[many])} of `{many}`.")
    if kept["parameters"].ndim != 3:
        raise InputError(
            "`parameters` must have shape (moments, width, size): the weights of all units at each moment; "
            f"got {kept['parameters'].shape}."
        )
    info = {
        "setting": "own run" if problem is None else problem.task.name,
        "scale": None,
        "seed": None,
        "solver": _OWN,
        "steps": len(seen["time"]),
        "rhs_evaluations": None,
        "stopped": Stopped.LIMIT.value,
    }
    return seen, kept, info


def _dimensions(name: str, values: np.ndarray) -> tuple[str, ...]:
    if name == "parameters":
        return ("unit", "parameter")
    return tuple(f"{name}_{k}" for k in range(values.ndim - 1))

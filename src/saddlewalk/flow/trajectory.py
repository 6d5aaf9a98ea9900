"""A trajectory: what really happened, as labeled data. Diagnostics are functions of it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlewalk import store
from saddlewalk.curves.staircase import ending
from saddlewalk.errors import InputError
from saddlewalk.show import text

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from saddlewalk.problem import Problem


@dataclass(frozen=True)
class Trajectory:
    """A simulated training run: an xarray Dataset with dimensions time, saved, unit, parameter.

    `loss` and its derivatives `loss_rate`, `loss_curvature`, `drive`, `unit_norm`, `unit_output` are
    known at every `time`; `parameters` and observables at the fewer times `saved`; `crossing` lists
    when a unit's norm passed 1.
    """

    data: "xr.Dataset"

    @classmethod
    def from_arrays(
        cls,
        steps: dict[str, np.ndarray],
        saved: dict[str, np.ndarray],
        crossings: dict[str, np.ndarray],
        info: dict[str, Any],
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
            attrs={"kind": "trajectory", "info": json.dumps(info)},
        )
        return cls(data)

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

    def parameters_for(self, problem: "Problem") -> np.ndarray:
        """The parameters, after a look whether the run can be one of this problem."""
        if self.parameters.shape[1:] != (problem.width, problem.size):
            raise InputError(
                "The run does not belong to this problem: its parameters have another shape."
            )
        return self.parameters

    @property
    def stopped(self) -> str:
        """Why the run ended."""
        return self.info["stopped"]

    @property
    def method(self) -> str:
        """What moved the parameters, in words."""
        named = {"descent": "gradient descent", "sgd": "SGD"}
        return named.get(self.info["solver"], "gradient flow")

    def to_xarray(self) -> "xr.Dataset":
        """The labeled data themselves."""
        return self.data

    def save(self, path: str | Path) -> Path:
        """Write everything to one netCDF file."""
        return store.save_dataset(self.data, path)

    @classmethod
    def load(cls, path: str | Path) -> "Trajectory":
        """Read a trajectory back, bit for bit."""
        return cls(store.load_dataset(path, "trajectory"))

    def plot(self, target: "str | Path | Axes | None" = None) -> "Axes":
        """Draw the loss curve; a path saves the picture, an axis draws into it."""
        from saddlewalk.show import draw

        with draw.canvas(target) as axes:
            draw.loss_curve(axes, self.time, self.loss, label=self.method)
            axes.set_title(f"{self.info['setting']}, scale {self.info['scale']:g}")
            axes.legend()
        return axes

    def __str__(self) -> str:
        info = self.info
        rows = [
            ["solver", info["solver"]],
            ["steps", str(info["steps"])],
            ["right-hand sides", str(info["rhs_evaluations"])],
            ["end time", text.number(float(self.time[-1]))],
            ["first loss", text.number(float(self.loss[0]))],
            ["last loss", text.number(float(self.loss[-1]))],
            ["stopped", ending(info["stopped"])],
        ]
        title = f"{info['setting']}: simulated, scale {info['scale']:g}, seed {info['seed']}"
        return text.table(title, ["", "value"], rows)


def _dimensions(name: str, values: np.ndarray) -> tuple[str, ...]:
    if name == "parameters":
        return ("unit", "parameter")
    return tuple(f"{name}_{k}" for k in range(values.ndim - 1))

"""Drift of what gradient flow conserves: how far a simulation is from gradient flow.

For a flow it is a health check of the solver. Under finite steps it measures the step size: a step of descent
changes delta by the square of the learning rate. Sign descent and Muon conserve quantities of their own
(`balance.steps`), whose drift it is under them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.balance import Conserved, conserved_in_steps, conserved_quantities
from saddlewalk.diagnose.moments import spread
from saddlewalk.errors import InputError
from saddlewalk.problem import Problem
from saddlewalk.problem.where import run_of
from saddlewalk.show import text
from saddlewalk.store import AbstractResult

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from saddlewalk.flow import Trajectory

_MOST = 64
_ROUNDING = 1e-17
"""What a logarithmic axis shows in place of no drift at all."""


@dataclass(frozen=True, eq=False)
class Drift:
    """The conserved quantities of one hidden layer along a trajectory."""

    layer: str
    time: Float[np.ndarray, " moments"]
    deltas: Float[np.ndarray, "moments width"]
    sizes: Float[np.ndarray, "moments width"]
    matrices: Float[np.ndarray, "moments width width"] | None
    """The matrix Delta, where units can be mixed."""

    @property
    def relative(self) -> Float[np.ndarray, " moments"]:
        """Largest change of a delta since the start, over that unit's size; of Delta, over all sizes."""
        change = np.abs(self.deltas - self.deltas[0]) / np.maximum(self.sizes, self.sizes[0])
        largest = change.max(axis=1)
        if self.matrices is None:
            return largest
        moved = np.linalg.norm(self.matrices - self.matrices[0], axis=(1, 2))
        return np.maximum(largest, moved / self.sizes.sum(axis=1))

    @property
    def largest(self) -> float:
        """The largest relative drift of all moments."""
        return float(self.relative.max())

    def __str__(self) -> str:
        return str(self.table())

    def table(self) -> text.Table:
        """What is printed."""
        rows = [
            ["moments", str(len(self.time))],
            [
                "delta, smallest and largest",
                f"{self.deltas[0].min():.4g}, {self.deltas[0].max():.4g}",
            ],
            ["largest relative drift", text.number(self.largest)],
        ]
        return text.Table(f"conserved quantities of {self.layer}", ["", "value"], rows)


@dataclass(frozen=True, eq=False)
class ConservedDrift(AbstractResult, Mapping[str, Drift]):
    """The drift of each hidden layer that has conserved quantities, by its name."""

    result_kind: ClassVar[str] = "conserved drift"

    layers: dict[str, Drift]

    def __getitem__(self, layer: str) -> Drift:
        return self.layers[layer]

    def __iter__(self) -> Iterator[str]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def largest(self) -> float:
        """The largest relative drift of all layers and moments."""
        return max(drift.largest for drift in self.layers.values())

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "largest": self.largest,
            "layers": {
                name: {
                    "largest": drift.largest,
                    "time": drift.time.tolist(),
                    "relative": drift.relative.tolist(),
                    "deltas": drift.deltas[0].tolist(),
                }
                for name, drift in self.layers.items()
            },
        }

    def to_xarray(self) -> "xr.DataTree":
        """A group for each layer, with dimensions `time` and `unit`."""
        import xarray as xr

        return xr.DataTree.from_dict(
            {f"/layer_{k}": _labeled(drift) for k, drift in enumerate(self.layers.values())}
        )

    @classmethod
    def from_xarray(cls, data: "xr.DataTree") -> "ConservedDrift":
        """The drift behind its labeled data."""
        groups = [data[f"layer_{k}"].to_dataset() for k in range(len(data.children))]
        drifts = [
            Drift(
                group.attrs["layer"],
                group["time"].values,
                group["deltas"].values,
                group["sizes"].values,
                group["matrices"].values if "matrices" in group else None,
            )
            for group in groups
        ]
        return cls({drift.layer: drift for drift in drifts})

    def plot(
        self, target: "str | Path | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "Axes":
        """Relative drift along time; a path saves the picture, an axis draws into it.

        Parameters
        ----------
        target : a file, axes of one's own, or nothing.
        ax : axes of one's own, by the name that other libraries have for them.
        """
        from saddlewalk.show import draw

        with draw.canvas(ax or target) as axes:
            for name, drift in self.layers.items():
                axes.plot(drift.time, np.maximum(drift.relative, _ROUNDING), label=name)
            axes.set_yscale("log")
            axes.set_xlabel("time (learning rate 1)")
            axes.set_ylabel("relative drift")
            axes.set_title("what is conserved")
            axes.legend()
        return axes

    def parts(self) -> tuple[text.Table | str, ...]:
        """One table a layer."""
        return tuple(drift.table() for drift in self.layers.values())


def conserved_drift(path: "Trajectory", problem: Problem | None = None) -> ConservedDrift:
    """By hidden layer: how well the run kept what gradient flow keeps, or its own optimizer.

    Under Muon layers that are not aligned change it by its own size while they align.

    Parameters
    ----------
    path : the run.
    problem : units, data and loss; by default those of the run.
    """
    run = run_of(path, problem)
    moments = spread(len(run.parameters), _MOST)
    found = [_kept(run, int(k)) for k in moments]
    if not found[0]:
        raise InputError(
            "These units are not homogeneous in their incoming weights: nothing is kept. How fast the "
            "balance of their layers changes is in `saddlewalk.balance.imbalances`."
        )
    return ConservedDrift(
        {
            layer: Drift(
                layer,
                run.data["saved"].values[moments],
                np.stack([one[layer].deltas for one in found]),
                np.stack([one[layer].sizes for one in found]),
                _stacked([one[layer].matrix for one in found]),
            )
            for layer in found[0]
        }
    )


def _kept(run: "Trajectory", moment: int) -> dict[str, Conserved]:
    """What the flow keeps, or the optimizer of this run if it keeps something else."""
    word = run.info.get("optimizer", {}).get("name", "")
    own = conserved_in_steps(run.problem, run.parameters[moment], word)
    return conserved_quantities(run, at=moment) if own is None else own


def _labeled(drift: Drift) -> "xr.Dataset":
    import xarray as xr

    values: dict[str, Any] = {
        "deltas": (("time", "unit"), drift.deltas),
        "sizes": (("time", "unit"), drift.sizes),
        "relative": ("time", drift.relative),
    }
    if drift.matrices is not None:
        values["matrices"] = (("time", "unit", "other_unit"), drift.matrices)
    return xr.Dataset(values, coords={"time": drift.time}, attrs={"layer": drift.layer})


def _stacked(matrices: list[np.ndarray | None]) -> np.ndarray | None:
    known = [matrix for matrix in matrices if matrix is not None]
    return np.stack(known) if known else None

"""Drift of what gradient flow conserves: how far a simulation is from gradient flow.

For a flow it is a health check of the solver. Under finite steps it measures the step size: a step of descent
changes delta by the square of the learning rate.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlewalk.balance import conserved_quantities
from saddlewalk.errors import InputError
from saddlewalk.flow import Trajectory
from saddlewalk.problem import Problem
from saddlewalk.show import text

_MOST = 64


@dataclass(frozen=True)
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
        rows = [
            ["moments", str(len(self.time))],
            [
                "delta, smallest and largest",
                f"{self.deltas[0].min():.4g}, {self.deltas[0].max():.4g}",
            ],
            ["largest relative drift", text.number(self.largest)],
        ]
        return str(text.Table(f"conserved quantities of {self.layer}", ["", "value"], rows))


def conserved_drift(path: Trajectory, problem: Problem) -> dict[str, Drift]:
    """By hidden layer: how well the run kept what gradient flow keeps."""
    parameters = path.of(problem).parameters
    moments = spread(len(parameters), _MOST)
    found = [conserved_quantities(problem, parameters[k]) for k in moments]
    if not found[0]:
        raise InputError("These units are not homogeneous in their incoming weights: none is kept.")
    return {
        layer: Drift(
            layer,
            path.data["saved"].values[moments],
            np.stack([one[layer].deltas for one in found]),
            np.stack([one[layer].sizes for one in found]),
            _stacked([one[layer].matrix for one in found]),
        )
        for layer in found[0]
    }


def _stacked(matrices: list[np.ndarray | None]) -> np.ndarray | None:
    known = [matrix for matrix in matrices if matrix is not None]
    return np.stack(known) if known else None


def spread(many: int, most: int) -> np.ndarray:
    """At most so many of the moments 0 .. many - 1, the first and the last among them."""
    return np.unique(np.linspace(0, many - 1, min(many, most)).round().astype(int))

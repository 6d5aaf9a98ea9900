"""A diagnostic to copy: how unequal the units of a network are.

Copy this file to src/saddlewalk/diagnose/, rename what is in it, export the function and its result in
src/saddlewalk/diagnose/__init__.py: tests/test_contract_diagnostics.py and test_contract_results.py test
both from then on (give the result an example there). It returns numbers, never a verdict alone.
"""

import json
from dataclasses import asdict, dataclass

import numpy as np

from saddlewalk.problem import network_at
from saddlewalk.show import draw, text
from saddlewalk.store import AbstractResult


@dataclass(frozen=True)
class Inequality(AbstractResult):
    """How unequal units are."""

    result_kind = "inequality"

    norms: tuple[float, ...]
    """Norm of each unit, the largest first."""

    @property
    def share_of_largest(self):
        """Part of the sum that the largest has."""
        return self.norms[0] / sum(self.norms)

    def parts(self):
        """What is printed, and shown in a notebook."""
        rows = [
            ["units", str(len(self.norms))],
            ["share of the largest", text.percent(self.share_of_largest)],
        ]
        return (text.Table("inequality of units", ["", "value"], rows),)

    def to_json(self):
        """The machine-readable form."""
        return {"norms": list(self.norms), "share_of_largest": self.share_of_largest}

    def to_xarray(self):
        """Labeled data that hold everything."""
        import xarray as xr

        return xr.Dataset(
            {"norm": ("unit", list(self.norms))}, attrs={"record": json.dumps(asdict(self))}
        )

    @classmethod
    def from_xarray(cls, data):
        """The result behind its labeled data."""
        return cls(tuple(data["norm"].values.tolist()))

    def plot(self, target=None):
        """The norms, the largest first."""
        with draw.canvas(target) as axes:
            axes.bar(range(len(self.norms)), self.norms)
            axes.set(xlabel="unit", ylabel="norm")
        return axes


def unit_inequality(where, weights=None, *, at=-1):
    """How unequal the norms of the units are.

    Parameters
    ----------
    where : a run, or a problem.
    weights : parameters `(width, size)`, with a problem.
    at : number of the saved moment of a run; the last by default.
    """
    _, theta = network_at(where, weights, at)
    return Inequality(tuple(sorted(np.linalg.norm(theta, axis=1).tolist(), reverse=True)))


if __name__ == "__main__":
    import saddlewalk as sw

    run = sw.Run.of(
        "relu", samples=10, dim=2, outputs=1, features=1, width=2, scale=0.1, max_time=1.0
    )
    print(unit_inequality(run.train(progress=False)))

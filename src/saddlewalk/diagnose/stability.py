r"""The edge of stability: how sharp the loss is along a run, beside what its steps can stand.

Gradient descent leaves a direction of sharpness h when :math:`\eta h > 2`, the heavy ball at
:math:`2(1 + \beta)`. Below, finite steps are late by what :math:`\eta h/(1 - \beta)^2` says; well below it
the run is gradient flow. Along a run sharpness grows from saddle to saddle: a learning rate that is good for
the first may be too large for the last. Adam, Muon and their kin have no such edge in these weights.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from saddlewalk.curves import Stopped
from saddlewalk.diagnose.moments import early_and_late
from saddlewalk.optimizers import OPTIMIZERS
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.problem.sharpness import sharpness
from saddlewalk.problem.where import run_of
from saddlewalk.show import text
from saddlewalk.store import AbstractResult

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from saddlewalk.flow import Trajectory

_MOST = 24


@dataclass(frozen=True)
class Stability(AbstractResult):
    """Sharpness along a run, and the edge beyond which its steps leave a minimum."""

    result_kind: ClassVar[str] = "stability"

    time: tuple[float, ...]
    sharpness: tuple[float, ...]
    learning_rate: float | None
    """Of steps in proportion to the gradient; `None` for a flow, and for steps of a length of their own."""
    edge: float | None
    """Sharpness at which a minimum is left."""
    flow: float | None
    """Sharpness at which steps are no flow any more: plateaus would last a tenth longer."""
    rested: bool = True
    """Whether the run came to rest; if not, it has not been where it would be sharpest."""

    @property
    def passed(self) -> float | None:
        """When the edge was passed; `None` if it was not, or there is none."""
        beyond = [
            t for t, h in zip(self.time, self.sharpness, strict=True) if h > (self.edge or math.inf)
        ]
        return beyond[0] if beyond else None

    @property
    def largest_stable(self) -> float | None:
        """The largest learning rate that would stand the sharpest place of a run that came to rest."""
        if not self.rested or self.edge is None or self.learning_rate is None:
            return None
        if max(self.sharpness) <= 0:
            return None
        return self.learning_rate * self.edge / max(self.sharpness)

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        record = {name: list(getattr(self, name)) for name in ("time", "sharpness")}
        found = {"passed": self.passed, "largest_stable": self.largest_stable}
        return {**asdict(self), **record, **found}

    def to_xarray(self) -> "xr.Dataset":
        """Sharpness along `time`; the rest in the attributes."""
        import xarray as xr

        return xr.Dataset(
            {"sharpness": ("time", list(self.sharpness))},
            coords={"time": list(self.time)},
            attrs={"record": json.dumps(asdict(self))},
        )

    @classmethod
    def from_xarray(cls, data: "xr.Dataset") -> "Stability":
        """The result behind its labeled data."""
        record = json.loads(data.attrs["record"])
        lists = {name: tuple(record[name]) for name in ("time", "sharpness")}
        return cls(**{**record, **lists})

    def plot(
        self, target: "str | Path | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "Axes":
        """Sharpness along time, and the edge; a path saves the picture, an axis draws into it.

        Parameters
        ----------
        target : a file, axes of one's own, or nothing.
        ax : axes of one's own, by the name that other libraries have for them.
        """
        from saddlewalk.show import draw

        with draw.canvas(ax or target) as axes:
            axes.plot(self.time, self.sharpness, label="sharpness")
            if self.edge is not None:
                axes.axhline(self.edge, linestyle="--", color="black", label="edge of stability")
            axes.set(xlabel="time", ylabel="sharpness", title="sharpness and the edge of stability")
            axes.legend()
        return axes

    def parts(self) -> tuple[text.Table | str, ...]:
        """A table, and a warning if the edge was passed."""
        rows = [
            ["sharpness at the start", text.number(self.sharpness[0])],
            ["largest sharpness", text.number(max(self.sharpness))],
            ["sharpness at the end", text.number(self.sharpness[-1])],
        ]
        if self.edge is not None:
            rows.append(
                ["edge of stability, 2(1 + momentum)/learning rate", text.number(self.edge)]
            )
        if self.largest_stable is not None:
            rows.append(["largest stable learning rate", text.number(self.largest_stable)])
        return (text.Table("sharpness along the run", ["", "value"], rows), *self._warnings)

    @property
    def _warnings(self) -> tuple[str, ...]:
        """What its steps were too large for."""
        lines = []
        if self.passed is not None:
            lines.append(
                f"WARNING: the edge of stability was passed at time {text.number(self.passed)}: steps leave "
                "what they should settle in"
            )
        elif self.flow is not None and max(self.sharpness) > self.flow:
            lines.append(
                "steps are no gradient flow here: learning rate * sharpness / (1 - momentum)^2 reaches "
                f"{text.number(max(self.sharpness) / self.flow / 10)}; predict with this optimizer"
            )
        if self.edge is not None and not self.rested:
            lines.append(
                "the run did not come to rest: how sharp it is there, and with that the largest stable "
                "learning rate, is known from a prediction with this optimizer, or from a run that rests"
            )
        return tuple(lines)


@in_float64
def find_stability(path: "Trajectory", problem: Problem | None = None) -> Stability:
    """Sharpness along a run, and how near its steps came to the edge of stability.

    Parameters
    ----------
    path : the run.
    problem : units, data and loss; by default those of the run.
    """
    run = run_of(path, problem)
    saved = run.data["saved"].values
    if run.info["stopped"] == Stopped.DIVERGED.value:  # up to where the loss was least
        saved = saved[saved <= run.time[int(np.argmin(run.loss))]]
    moments = early_and_late(saved, _MOST)
    record = dict(run.info.get("optimizer") or {})
    kind = OPTIMIZERS.get(record.pop("name", ""))
    rule = kind(**record) if kind is not None and kind.proportional else None
    edge = flow = None
    if rule is not None:
        edge = rule.largest_stable(1.0) / float(rule.learning_rate)
        flow = 0.1 * (1 - float(getattr(rule, "momentum", 0.0))) ** 2 / float(rule.learning_rate)
    return Stability(
        time=tuple(run.data["saved"].values[moments].tolist()),
        sharpness=tuple(sharpness(run.problem, run.parameters[k]) for k in moments),
        learning_rate=None if rule is None else float(rule.learning_rate),
        edge=edge,
        flow=flow,
        rested=run.info["stopped"] in (Stopped.CONVERGED.value, Stopped.SEPARATED.value),
    )

"""The phases of a training run: each plateau with its length, loss, effective widths and kind."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlewalk.curves.curve import LossCurve
from saddlewalk.curves.jumps import find_jumps
from saddlewalk.diagnose.saddles import SaddleReport, saddle_test
from saddlewalk.diagnose.width import EffectiveWidth, effective_width
from saddlewalk.errors import InputError
from saddlewalk.problem import Problem
from saddlewalk.show import text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saddlewalk.flow import Trajectory

_EXTENT = 0.05
"""A plateau reaches as far as the loss stays within this part of the smaller drop beside it."""


_COLORS = {
    "strict saddle": "C1",
    "degenerate saddle": "C4",
    "minimum": "C2",
    "not a fixed point": "0.5",
    "-": "0.5",
}


@dataclass(frozen=True)
class Phase:
    """One plateau of a training run."""

    start: float
    end: float
    loss: float
    widths: tuple[EffectiveWidth, ...]
    """One for each hidden layer."""
    saddle: SaddleReport | None
    parameters: np.ndarray
    """Where the plateau is flattest."""

    @property
    def duration(self) -> float:
        """How long it lasted."""
        return self.end - self.start

    @property
    def width(self) -> int:
        """Effective width of the first hidden layer."""
        return self.widths[0].width


@dataclass(frozen=True)
class Phases:
    """All plateaus of a run, in order."""

    path: "Trajectory" = field(repr=False)
    phases: tuple[Phase, ...]

    @property
    def setting(self) -> str:
        """What was learned."""
        return self.path.info["setting"]

    def __iter__(self) -> Iterator[Phase]:
        return iter(self.phases)

    def __len__(self) -> int:
        return len(self.phases)

    def __getitem__(self, index: int) -> Phase:
        return self.phases[index]

    @property
    def widths(self) -> list[int]:
        """Effective width of the first hidden layer on each plateau."""
        return [phase.width for phase in self.phases]

    @property
    def kinds(self) -> list[str]:
        """What kind of point each plateau is at."""
        return ["-" if p.saddle is None else p.saddle.kind for p in self.phases]

    def save(self, path: str | Path) -> Path:
        """Write the run to one netCDF file; `to_json` has the phases."""
        return self.path.save(path)

    def plot(self, target: "str | Path | Axes | None" = None) -> "Axes":
        """The loss with its plateaus marked, and their effective widths."""
        from saddlewalk.show import draw

        last = float(self.path.time[-1])
        shown = min(last, 1.4 * self.phases[-1].start) if len(self.phases) > 1 else last
        with draw.canvas(target) as axes:
            draw.loss_curve(axes, self.path.time, self.path.loss, label=self.path.method)
            kinds = [kind for kind in _COLORS if kind in self.kinds]
            for phase, kind in zip(self.phases, self.kinds, strict=True):
                look: dict[str, Any] = {
                    "color": _COLORS[kind],
                    "linewidth": 4,
                    "solid_capstyle": "butt",
                }
                axes.plot([phase.start, phase.end], [phase.loss] * 2, **look)
                axes.annotate(
                    ", ".join(str(one.width) for one in phase.widths),
                    (0.5 * (phase.start + min(phase.end, shown)), phase.loss),
                    xytext=(0, 4),
                    textcoords="offset points",
                    ha="center",
                )
            for kind in kinds:
                axes.plot([], [], color=_COLORS[kind], linewidth=4, label=kind)
            axes.legend()
            axes.set_xlim(0.0, shown)
            axes.set_title(f"{self.setting}, scale {self.path.info['scale']:g}: effective width")
        return axes

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "setting": self.setting,
            "phases": [
                {
                    "start": phase.start,
                    "duration": phase.duration,
                    "loss": phase.loss,
                    "widths": {one.layer: one.width for one in phase.widths},
                    "relations": {
                        one.layer: None if one.relation is None else str(one.relation)
                        for one in phase.widths
                    },
                    "kind": None if phase.saddle is None else phase.saddle.kind,
                    "escape_rate": None if phase.saddle is None else phase.saddle.escape_rate,
                }
                for phase in self.phases
            ],
        }

    def __str__(self) -> str:
        rows = [
            [
                str(k),
                " ".join(str(one.width) for one in phase.widths) or "-",
                " ".join(_others(one) for one in phase.widths) or "-",
                kind,
                text.number(phase.duration, 4),
                text.number(phase.loss, 4),
            ]
            for k, (phase, kind) in enumerate(zip(self.phases, self.kinds, strict=True))
        ]
        columns = ["phase", "effective width", "the others are", "kind", "duration", "loss"]
        return str(text.Table(f"{self.setting}: plateaus", columns, rows, left=4))


def _others(one: EffectiveWidth) -> str:
    """What the units are that are not used, in a word."""
    return "-" if one.relation is None or one.width == one.actual else str(one.relation)


def find_phases(path: "Trajectory", problem: Problem, *, saddles: bool = True) -> Phases:
    """The plateaus of a run: how long, at which loss, how many units in use, what kind of point."""
    if isinstance(path, Problem):
        raise InputError("find_phases takes a run, then its problem: find_phases(path, problem).")
    path = path.of(problem)
    curve = path.curve
    jumps = find_jumps(curve)
    rests = [0] if not jumps else [jump.index_before for jump in jumps] + [jumps[-1].index_after]
    drops = -np.diff(curve.loss[rests]) if len(rests) > 1 else np.array([curve.loss[0]])
    found = []
    for k, rest in enumerate(rests):
        drop = float(min(drops[max(k - 1, 0) : k + 1]))
        start, end = _extent(curve, rest, _EXTENT * drop)
        theta = path.parameters[
            int(np.argmin(np.abs(path.data["saved"].values - curve.time[rest])))
        ]
        found.append(
            Phase(
                start,
                end,
                float(curve.loss[rest]),
                tuple(
                    effective_width(problem, theta, layer, tolerance=_EXTENT * drop)
                    for layer in problem.units.hidden
                ),
                saddle_test(problem, theta, scale=drop) if saddles else None,
                theta,
            )
        )
    return Phases(path, tuple(found))


def _extent(curve: LossCurve, rest: int, margin: float) -> tuple[float, float]:
    """From when to when the loss stays within a margin of that at one point."""
    near = np.abs(curve.loss - curve.loss[rest]) <= margin
    before, after = np.flatnonzero(~near[:rest]), np.flatnonzero(~near[rest:])
    first = before[-1] + 1 if before.size else 0
    last = rest + after[0] - 1 if after.size else len(near) - 1
    return float(curve.time[first]), float(curve.time[last])

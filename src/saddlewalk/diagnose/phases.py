"""The phases of a training run: each plateau with its length, loss, effective widths and kind."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.curves.curve import LossCurve
from saddlewalk.curves.jumps import Jump, find_jumps
from saddlewalk.diagnose.critical_points import Origin
from saddlewalk.diagnose.kinds import PointKind
from saddlewalk.diagnose.saddles import SaddleReport, classify, origin_of
from saddlewalk.diagnose.width import MATTERS, EffectiveWidth, width_of
from saddlewalk.problem import Problem
from saddlewalk.problem.where import run_of
from saddlewalk.show import text
from saddlewalk.show.progress import Progress
from saddlewalk.store import AbstractResult

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from saddlewalk.flow import Trajectory

_COLORS = {
    PointKind.STRICT_SADDLE: "C1",
    PointKind.DEGENERATE_SADDLE: "C4",
    PointKind.NEAR_SADDLE: "C5",
    PointKind.MINIMUM: "C2",
    PointKind.NO_MINIMUM: "C2",
    PointKind.NOT_FIXED: "0.5",
    PointKind.NOT_DECIDED: "0.5",
    PointKind.NOT_TESTED: "0.5",
}


@dataclass(frozen=True, eq=False)
class Phase:
    """One plateau of a training run."""

    start: float
    end: float
    loss: float
    widths: tuple[EffectiveWidth, ...]
    """One for each hidden layer."""
    saddle: SaddleReport | None
    parameters: Float[np.ndarray, "unit parameter"] = field(repr=False)
    """Where the plateau is flattest."""

    @property
    def duration(self) -> float:
        """How long it lasted."""
        return self.end - self.start

    @property
    def width(self) -> int:
        """Effective width of the first hidden layer."""
        return self.widths[0].width

    @property
    def kind(self) -> PointKind:
        """What kind of point it is at."""
        return PointKind.NOT_TESTED if self.saddle is None else self.saddle.kind

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        relations = {one.layer: one.to_json()["relation"] for one in self.widths}
        report = {} if self.saddle is None else self.saddle.to_json()
        return {
            "start": self.start,
            "duration": self.duration,
            "loss": self.loss,
            "widths": {one.layer: one.width for one in self.widths},
            "relations": relations,
            "kind": report.get("kind"),
            "escape_rate": report.get("escape_rate"),
        }


@dataclass(frozen=True, eq=False)
class Phases(AbstractResult):
    """All plateaus of a run, in order."""

    result_kind: ClassVar[str] = "phases"

    path: "Trajectory" = field(repr=False)
    phases: tuple[Phase, ...]

    @property
    def problem(self) -> Problem:
        """What was trained."""
        return self.path.problem

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
    def kinds(self) -> list[PointKind]:
        """What kind of point each plateau is at."""
        return [phase.kind for phase in self.phases]

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {"setting": self.setting, "phases": [phase.to_json() for phase in self.phases]}

    def to_xarray(self) -> "xr.DataTree":
        """Plateaus along a dimension `phase`, what was found on each of them, and the run."""
        import xarray as xr

        numbers = {name: [getattr(p, name) for p in self.phases] for name in _NUMBERS}
        plateaus = xr.Dataset(
            {
                **{name: ("phase", values) for name, values in numbers.items()},
                "parameters": (
                    ("phase", "unit", "parameter"),
                    np.stack([phase.parameters for phase in self.phases]),
                ),
            }
        )
        found = {
            f"/phase_{k}/width_{j}": one.to_xarray()
            for k, phase in enumerate(self.phases)
            for j, one in enumerate(phase.widths)
        }
        reports = {
            f"/phase_{k}/saddle": phase.saddle.to_xarray()
            for k, phase in enumerate(self.phases)
            if phase.saddle is not None
        }
        tree = {"/plateaus": plateaus, **found, **reports, "/run": self.path.to_xarray()}
        return xr.DataTree.from_dict(tree)

    @classmethod
    def from_xarray(cls, data: "xr.DataTree") -> "Phases":
        """The phases behind their labeled data, with their run."""
        from saddlewalk.flow import Trajectory

        plateaus = data["plateaus"].to_dataset()
        phases = tuple(
            _from_group(plateaus.isel(phase=k), data.children.get(f"phase_{k}"))
            for k in range(plateaus.sizes["phase"])
        )
        return cls(Trajectory.from_xarray(data["run"].to_dataset()), phases)

    def plot(
        self, target: "str | Path | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "Axes":
        """The loss with its plateaus marked, and their effective widths.

        Parameters
        ----------
        target : a file, axes of one's own, or nothing.
        ax : axes of one's own, by the name that other libraries have for them.
        """
        from saddlewalk.show import draw
        from saddlewalk.show.labels import name_points

        last, starts = float(self.path.time[-1]), [phase.start for phase in self.phases[1:]]
        levels = [phase.loss for phase in self.phases]
        ends = draw.end_of_fall(self.path.time, self.path.loss, levels)
        shown = min(last, max(1.4 * starts[-1], 1.1 * ends)) if starts else last
        with draw.canvas(ax or target) as axes:
            draw.loss_curve(axes, self.path.time, self.path.loss, label=self.path.method)
            for phase in self.phases:
                span, color = [phase.start, phase.end], _COLORS[phase.kind]
                axes.plot(span, [phase.loss] * 2, color=color, linewidth=4, solid_capstyle="butt")
            for kind in (kind for kind in _COLORS if kind in self.kinds):
                axes.plot([], [], color=_COLORS[kind], linewidth=4, label=str(kind))
            axes.legend()
            axes.set_xlim(0.0, shown)
            if starts:
                draw.stretch(axes, starts, levels, shown)
            widths = any(phase.widths for phase in self.phases)
            axes.set_title(self.path.title + (": effective width" if widths else ": plateaus"))
            left = axes.get_xlim()[0]
            longest_first = sorted(self.phases, key=lambda phase: phase.start - phase.end)
            name_points(
                axes, [_width_of(phase, axes, left, shown) for phase in longest_first], fontsize=10
            )
        return axes

    def parts(self) -> tuple[text.Table | str, ...]:
        """One plateau a line."""
        rows = [
            [
                str(k),
                " ".join(str(one.width) for one in phase.widths) or "-",
                " ".join(one.others for one in phase.widths) or "-",
                str(phase.kind),
                text.number(phase.duration, 4),
                text.number(phase.loss, 4),
            ]
            for k, phase in enumerate(self.phases)
        ]
        columns = ["phase", "effective width", "the others are", "kind", "duration", "loss"]
        return (text.Table(f"{self.setting}: plateaus", columns, rows, left=4),)


_NUMBERS = ("start", "end", "loss")


def _from_group(plateau: "xr.Dataset", group: Any) -> Phase:
    """One plateau out of its numbers and what was found on it (units of no hidden layer have nothing)."""
    found = {} if group is None else group.children
    names = [f"width_{j}" for j in range(len(found)) if f"width_{j}" in found]
    report = found.get("saddle")
    return Phase(
        **{name: float(plateau[name]) for name in _NUMBERS},
        widths=tuple(EffectiveWidth.from_xarray(found[name].to_dataset()) for name in names),
        saddle=None if report is None else SaddleReport.from_xarray(report.to_dataset()),
        parameters=plateau["parameters"].values,
    )


def _width_of(phase: Phase, axes: "Axes", first: float, last: float) -> tuple[float, float, str]:
    """The middle of what is seen of a plateau, and its effective widths."""
    start, end = (min(max(time, first), last) for time in (phase.start, phase.end))
    scale = axes.get_xaxis().get_transform()
    middle = float(scale.inverted().transform(0.5 * scale.transform([start, end]).sum()))
    return middle, phase.loss, ", ".join(str(one.width) for one in phase.widths)


def find_phases(
    path: "Trajectory",
    problem: Problem | None = None,
    *,
    saddles: bool = True,
    progress: bool | None = None,
) -> Phases:
    """The plateaus of a run: how long, at which loss, how many units in use, what kind of point.

    Parameters
    ----------
    path : the run.
    problem : units, data and loss; by default those of the run.
    saddles : find out, too, what kind of point each plateau is at, which takes longer.
    progress : show a progress line on stderr; by default if it is a terminal.
    """
    run = run_of(path, problem)
    curve = run.curve
    jumps = find_jumps(curve)
    rests, drops = _plateaus(curve, jumps)
    ends = [*(jump.time for jump in jumps), None]
    found = []
    with Progress("phases", progress) as bar:
        origin = origin_of(run.problem) if saddles else None
        for k, (rest, drop, end) in enumerate(zip(rests, drops, ends, strict=True)):
            bar.update(f"plateau {k + 1} of {len(rests)}", k / len(rests))
            found.append(_phase(run, curve, rest, drop, origin, end))
    return Phases(run, tuple(found))


def _plateaus(curve: LossCurve, jumps: list[Jump]) -> tuple[list[int], list[float]]:
    """The flattest point of each plateau, and the smaller drop of the loss beside it."""
    if not jumps:
        return [0], [float(curve.loss[0])]
    rests = [*(jump.index_before for jump in jumps), jumps[-1].index_after]
    drops = -np.diff(curve.loss[rests])
    return rests, [float(min(drops[max(k - 1, 0) : k + 1])) for k in range(len(rests))]


def _phase(
    run: "Trajectory",
    curve: LossCurve,
    rest: int,
    drop: float,
    origin: Origin | None,
    jump: float | None,
) -> Phase:
    problem, saved = run.problem, run.data["saved"].values
    moment = int(np.argmin(np.abs(saved - curve.time[rest])))
    theta = run.parameters[moment]
    tolerance = MATTERS * drop
    widths = tuple(width_of(problem, theta, layer, tolerance) for layer in problem.units.hidden)
    report = None
    if origin is not None:
        left = None if jump is None else max(jump - float(saved[moment]), 0.0)
        report = classify(problem, theta, origin, scale=drop, widths=widths, left=left)
    start, end = _extent(curve, rest, tolerance)
    return Phase(start, end, float(curve.loss[rest]), widths, report, theta)


def _extent(curve: LossCurve, rest: int, margin: float) -> tuple[float, float]:
    """From when to when the loss stays within a margin of that at one point."""
    near = np.abs(curve.loss - curve.loss[rest]) <= margin
    before, after = np.flatnonzero(~near[:rest]), np.flatnonzero(~near[rest:])
    first = before[-1] + 1 if before.size else 0
    last = rest + after[0] - 1 if after.size else len(near) - 1
    return float(curve.time[first]), float(curve.time[last])

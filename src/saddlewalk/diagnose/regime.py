"""Lazy, rich or delayed rich: how far the tangent kernel of a run turned, and when.

A run is **lazy** if the kernel stands still, **rich** if it turns, and **delayed rich** if it begins to turn
long after learning began: when, at its first speed, the loss would have fallen already. Of a run that was cut
while its kernel stood still and most was left to learn, it is **too early to say**. Why is said by the
conserved quantities: upstream, balanced or downstream. All numbers behind the verdict are kept.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.balance import Conserved, Side, conserved_quantities
from saddlewalk.curves import Stopped
from saddlewalk.diagnose.distances import DistancesFromStart
from saddlewalk.diagnose.kinds import RegimeKind
from saddlewalk.diagnose.moments import early_and_late
from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.problem.where import run_of
from saddlewalk.show import text
from saddlewalk.show.progress import Progress
from saddlewalk.store import AbstractResult

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from saddlewalk.flow import Trajectory

STILL = 0.05
"""Kernel distance below which the kernel counts as standing still."""
LATE = 1.0
"""Delay above which richness is a delayed one: at its first pace the loss would have fallen by then."""
UNLEARNED = 0.2
"""Part of the loss above which a run that was cut does not tell whether its kernel will turn."""
_BEGUN = 0.1
"""Part of its whole way at which the kernel has begun to turn."""
GREW = 2.0
"""Factor by which the kernel's norm may change while it counts as standing still."""
_AT_END = {
    "hamming_distance": "activations switched",
    "parameter_distance": "parameter distance",
    "target_alignment": "kernel-target alignment at the end",
}
"""What is printed of the end of a run, where it has a meaning."""


@dataclass(frozen=True, eq=False)
class Regime(AbstractResult):
    """A verdict on a run, and the numbers it rests on."""

    result_kind: ClassVar[str] = "regime"

    name: RegimeKind
    data: "xr.Dataset"
    """By time: loss, kernel_distance, kernel_growth, parameter_distance, and where they have a meaning
    hamming_distance and target_alignment."""
    conserved: dict[str, Conserved]
    """At the start, by hidden layer; empty where nothing is conserved."""
    balance_at_end: dict[str, float]

    @property
    def kernel_distance(self) -> float:
        """S(0, t) at the end of the run."""
        return float(self.data["kernel_distance"][-1])

    @property
    def delay(self) -> float:
        """When the kernel began to turn, over the time that learning would take at its first pace; NaN where
        times are not known."""
        return float(self.data.attrs["delay"])

    @property
    def sides(self) -> dict[str, Side]:
        """upstream, balanced or downstream, by hidden layer."""
        return {name: one.side for name, one in self.conserved.items()}

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        last = {str(name): float(values[-1]) for name, values in self.data.data_vars.items()}
        return {
            "regime": str(self.name),
            "delay": None if math.isnan(self.delay) else self.delay,
            "at_end": last,
            "layers": {
                name: {
                    "side": str(self.sides[name]),
                    "balance": one.balance,
                    "balance_at_end": self.balance_at_end[name],
                    "degree": one.degree,
                    "deltas": one.deltas.tolist(),
                }
                for name, one in self.conserved.items()
            },
            "time": self.data["time"].values.tolist(),
            **{str(name): values.values.tolist() for name, values in self.data.data_vars.items()},
        }

    def to_xarray(self) -> "xr.DataTree":
        """What was measured along the run, and a group for what each hidden layer conserves."""
        import xarray as xr

        along = self.data.assign_attrs(regime=str(self.name))
        layers = {
            f"/layer_{k}": _labeled(one, self.balance_at_end[name])
            for k, (name, one) in enumerate(self.conserved.items())
        }
        return xr.DataTree.from_dict({"/along": along, **layers})

    @classmethod
    def from_xarray(cls, data: "xr.DataTree") -> "Regime":
        """The verdict behind its labeled data."""
        along = data["along"].to_dataset()
        groups = [data[f"layer_{k}"].to_dataset() for k in range(len(data.children) - 1)]
        return cls(
            RegimeKind(along.attrs["regime"]),
            along,
            {group.attrs["layer"]: _conserved(group) for group in groups},
            {group.attrs["layer"]: float(group.attrs["balance_at_end"]) for group in groups},
        )

    def plot(
        self, target: "str | Path | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "Axes":
        """The loss, and how far the kernel and the activation patterns went, along time.

        Parameters
        ----------
        target : a file, axes of one's own, or nothing.
        ax : axes of one's own, by the name that other libraries have for them.
        """
        from saddlewalk.show import draw

        with draw.canvas(ax or target) as axes:
            later = self.data.isel(time=slice(1, None))  # time 0 has no place on a logarithmic axis
            first = float(self.data["loss"][0])
            axes.plot(later["time"], later["loss"] / first, color="0.5", label="loss / first loss")
            curves = {
                "kernel_distance": (draw.PREDICTED, "-", "kernel distance S(0, t)"),
                "hamming_distance": (draw.OBSERVED, "-", "activations switched"),
                "target_alignment": ("k", ":", "kernel-target alignment"),
            }
            for name, (color, line, words) in curves.items():
                if name in later:
                    axes.plot(later["time"], later[name], line, color=color, label=words)
            axes.set_ylabel("part of 1")
            axes.set_xlabel("time (learning rate 1)")
            axes.set_xscale("log")
            axes.set_ylim(0, 1.02)
            axes.set_title(", ".join([self.name, *self.sides.values()]))
            axes.legend(fontsize=8)
        return axes

    def parts(self) -> tuple[text.Table | str, ...]:
        """The verdict, and the numbers at the end of the run."""
        first, last = (text.number(float(self.data["loss"][k])) for k in (0, -1))
        rows = [
            ["loss, first and last", f"{first}, {last}"],
            ["kernel distance S(0, end)", text.number(self.kernel_distance)],
            ["kernel norm, end over start", text.number(float(self.data["kernel_growth"][-1]))],
        ]
        if self.name is RegimeKind.TOO_EARLY:
            rows.append(
                ["missing", f"train on until less than {UNLEARNED:.0%} of the loss is left"]
            )
        elif self.name is not RegimeKind.LAZY and not math.isnan(self.delay):
            rows.append([f"delay of the turn (above {LATE:g}: late)", text.number(self.delay)])
        rows += [
            [words, text.number(float(self.data[name][-1]))]
            for name, words in _AT_END.items()
            if name in self.data
        ]
        for name, one in self.conserved.items():
            rows += _layer_rows(one, self.balance_at_end[name])
        return (text.Table(f"regime: {self.name.sentence}", ["", "value"], rows),)


def _layer_rows(one: Conserved, balance_at_end: float) -> list[list[str]]:
    return [
        [f"{one.layer}: side", str(one.side)],
        [
            f"{one.layer}: balance (delta/kappa), start, end",
            f"{one.balance:.3g}, {balance_at_end:.3g}",
        ],
        [
            f"{one.layer}: delta, smallest, largest",
            f"{one.deltas.min():.3g}, {one.deltas.max():.3g}",
        ],
    ]


def _labeled(one: Conserved, balance_at_end: float) -> "xr.Dataset":
    import xarray as xr

    values: dict[str, Any] = {"deltas": ("unit", one.deltas), "sizes": ("unit", one.sizes)}
    if one.matrix is not None:
        values["matrix"] = (("unit", "other_unit"), one.matrix)
    words = {"layer": one.layer, "degree": one.degree, "balance_at_end": balance_at_end}
    return xr.Dataset(values, attrs=words)


def _conserved(group: "xr.Dataset") -> Conserved:
    return Conserved(
        group.attrs["layer"],
        int(group.attrs["degree"]),
        group["deltas"].values,
        group["sizes"].values,
        group["matrix"].values if "matrix" in group else None,
    )


@in_float64
def find_regime(
    path: "Trajectory",
    problem: Problem | None = None,
    *,
    x: Any = None,
    moments: int = 40,
    progress: bool | None = None,
) -> Regime:
    """Which regime a run was in: lazy, rich or delayed rich, or that it was cut too early to say.

    Parameters
    ----------
    path : the run; it must hold its start.
    problem : units, data and loss; by default those of the run.
    x : inputs `(n, d)` at which kernels are taken; by default the task's samples, some of them if many.
    moments : at how many saved moments to look, about.
    progress : show a progress line on stderr; by default if it is a terminal.
    """
    run = run_of(path, problem)
    saved = run.data["saved"].values
    if saved[0] > 0:
        raise InputError("The run did not keep its start: train with times that include 0.")
    distances = DistancesFromStart(run.problem, run.parameters[0], x=x)
    rows = early_and_late(saved, max(moments, 4))
    seen = []
    with Progress("regime", progress) as bar:
        for k, row in enumerate(rows):
            bar.update(f"kernel {k + 1} of {len(rows)}", k / len(rows))
            seen.append(distances(run.parameters[row]))
    data = _along(run, saved[rows], seen)
    name = verdict(
        data["kernel_distance"].values,
        data["kernel_growth"].values,
        data.attrs["delay"],
        _unlearned(run),
    )
    if run.problem.adaptive:  # nothing is conserved
        return Regime(name, data, {}, {})
    last = conserved_quantities(run)
    ends = {layer: one.balance for layer, one in last.items()}
    return Regime(name, data, conserved_quantities(run, at=0), ends)


def _along(
    run: "Trajectory", times: Float[np.ndarray, " moments"], seen: list[dict[str, float]]
) -> "xr.Dataset":
    """What was seen along a run, with its loss, and the delay of the kernel's turn."""
    import xarray as xr

    loss = np.interp(times, run.time, run.loss)
    measured = {name: np.array([one[name] for one in seen]) for name in seen[0]}
    known = run.data.get("loss_rate")
    pace = -float(run.curve.rate[0] if known is None else known[0])
    delay = delay_of(times, loss, measured["kernel_distance"], pace)
    values = {"loss": loss, **measured}
    return xr.Dataset(
        {name: ("time", numbers) for name, numbers in values.items()},
        coords={"time": times},
        attrs={"delay": delay},
    )


def _unlearned(run: "Trajectory") -> float:
    """Part of the loss that a run had left when it was cut; 0 if it came to its end."""
    if run.stopped not in (Stopped.LIMIT, Stopped.INTERRUPTED):
        return 0.0
    floor = float(run.problem.task.floor)
    return float((run.loss[-1] - floor) / max(run.loss[0] - floor, 1e-300))


def verdict(
    distance: Float[np.ndarray, " moments"],
    growth: Float[np.ndarray, " moments"],
    delay: float,
    unlearned: float = 0.0,
) -> RegimeKind:
    """The regime, from the kernel's turn and growth along a run and the delay of its turn.

    Parameters
    ----------
    distance, growth : distance of the kernel from the first one, and its norm over the first norm.
    delay : when the kernel began to turn, as `delay_of` has it.
    unlearned : part of the loss that a run had left when it was cut; 0 if it came to its end.
    """
    if distance.max() < STILL:
        if not (growth.min() > 1 / GREW and growth.max() < GREW):
            return RegimeKind.RICH
        return RegimeKind.TOO_EARLY if unlearned > UNLEARNED else RegimeKind.LAZY
    return RegimeKind.DELAYED_RICH if delay > LATE else RegimeKind.RICH


def delay_of(
    time: Float[np.ndarray, " moments"],
    loss: Float[np.ndarray, " moments"],
    distance: Float[np.ndarray, " moments"],
    pace: float,
) -> float:
    """How often the loss would have fallen, at its first pace, when the kernel began to turn.

    Parameters
    ----------
    time, loss, distance : moments, the loss there, and the distance of the kernel from the first one.
    pace : how fast the loss falls at the start.
    """
    fall, level = float(loss[0] - loss.min()), _BEGUN * float(distance.max())
    after = int(np.argmax(distance >= level))
    if after == 0 or fall <= 0:
        return 0.0
    # linear between two moments, which may be coarse at the start of a long run
    part = (level - distance[after - 1]) / (distance[after] - distance[after - 1])
    begun = time[after - 1] + part * (time[after] - time[after - 1])
    return float(begun) * pace / fall

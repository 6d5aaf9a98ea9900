"""`compare`: the one place where a prediction meets a simulation.

The simulated time of a predicted jump is the moment at which the simulated loss passes the middle
between the plateau before and the plateau after. A plateau's level is the simulated loss at its
flattest point between the two jumps beside it. Blind to the prediction, jumps are also found in the
curve alone; their number is reported beside it.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from saddlewalk.agreement import composition
from saddlewalk.curves import LossCurve, Stage, Stopped
from saddlewalk.curves.reading import read_stages
from saddlewalk.curves.stages import identity
from saddlewalk.errors import InputError
from saddlewalk.flow import Trajectory
from saddlewalk.flow.observed import what_grows
from saddlewalk.problem import Problem
from saddlewalk.show import text
from saddlewalk.store import AbstractResult
from saddlewalk.theory.staircase import Staircase

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_GREW = 0.05
"""A unit takes part in a stage if it changes by this part of the one that changes most; half of what
makes a prediction name it, so that no unit is lost on the border."""
_LEAST_LEVEL = 1e-6
"""Part of the first loss below which a level is as good as none: two of them are not compared."""
_BEYOND = 0.1
"""Part of a step below its level at which the next one has begun."""
_NOTABLE = 0.01
"""Mean error of the jump times from which a more exact method is named."""


@dataclass(frozen=True)
class Agreement(AbstractResult):
    """A staircase and a trajectory side by side, with numbers for how well they agree."""

    result_kind: ClassVar[str] = "agreement"

    predicted: Staircase
    observed: Trajectory
    jump_times: tuple[float, ...]
    """Simulated time of each predicted jump; NaN where the simulation did not get that far."""
    loss_levels: tuple[float, ...]
    """Simulated level after each predicted jump; NaN where there is no plateau."""
    order: bool
    """Whether the predicted units turned on in the predicted order, in the stages reached."""

    @property
    def problem(self) -> Problem:
        """What was predicted and trained."""
        return self.observed.problem

    @property
    def stages_observed(self) -> tuple[Stage, ...]:
        """Found in the simulated curve alone."""
        return self.observed.stages

    @property
    def stages_reached(self) -> int:
        """Predicted stages that the simulation ran long enough to see."""
        return len(_known(self.jump_times))

    @property
    def time_error(self) -> list[float]:
        """|t_predicted - t_simulated| / t_simulated of each jump."""
        pairs = zip(self.predicted.jump_times, self.jump_times, strict=True)
        return [abs(t - seen) / seen for t, seen in pairs]

    @property
    def level_error(self) -> list[float]:
        """|level_predicted - level_simulated| / initial loss after each jump."""
        pairs = zip(self.predicted.loss_levels[1:], self.loss_levels, strict=True)
        return [abs(level - seen) / self.predicted.initial_loss for level, seen in pairs]

    @property
    def level_error_relative(self) -> list[float]:
        """|level_predicted - level_simulated| / level_simulated after each jump.

        NaN where both are below 1e-6 of the initial loss, which is as good as none.
        """
        pairs = zip(self.predicted.loss_levels[1:], self.loss_levels, strict=True)
        least = _LEAST_LEVEL * self.predicted.initial_loss
        return [
            abs(level - seen) / max(abs(seen), 1e-300) if max(level, seen) > least else math.nan
            for level, seen in pairs
        ]

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form (what `saddlewalk compare --json` prints)."""
        return {
            "predicted": self.predicted.to_json(),
            "observed": self.observed.to_json(),
            "agreement": {
                "order": self.order,
                "stages_predicted": len(self.predicted.stages),
                "stages_observed": len(self.stages_observed),
                "stages_reached": self.stages_reached,
                "time_observed": [_finite(t) for t in self.jump_times],
                "time_error": [_finite(e) for e in self.time_error],
                "level_error": [_finite(e) for e in self.level_error],
                "level_error_relative": [_finite(e) for e in self.level_error_relative],
            },
        }

    def to_xarray(self) -> "xr.DataTree":
        """Predicted and simulated numbers along a dimension `stage`, with both results beside them."""
        import xarray as xr

        numbers = xr.Dataset(
            {
                "time_predicted": ("stage", self.predicted.jump_times),
                "time_observed": ("stage", list(self.jump_times)),
                "time_error": ("stage", self.time_error),
                "loss_predicted": ("stage", self.predicted.loss_levels[1:]),
                "loss_observed": ("stage", list(self.loss_levels)),
                "level_error": ("stage", self.level_error),
                "level_error_relative": ("stage", self.level_error_relative),
            },
            attrs={"order": int(self.order)},
        )
        return xr.DataTree.from_dict(
            {
                "/agreement": numbers,
                "/predicted": self.predicted.to_xarray(),
                "/observed": self.observed.to_xarray(),
            }
        )

    @classmethod
    def from_xarray(cls, data: "xr.DataTree") -> "Agreement":
        """Prediction and simulation, laid over each other again."""
        stairs = Staircase.from_xarray(data["predicted"].to_dataset())
        return compare(stairs, Trajectory.from_xarray(data["observed"].to_dataset()))

    def plot(
        self, target: "str | Path | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "Axes":
        """Prediction over simulation; a path saves the picture, an axis draws into it.

        A picture of its own has a second panel: what grows in the simulation meanwhile. Where a group is
        learned it has more: power by representation, neurons, and the table as the network sees it.
        """
        from saddlewalk.show import draw

        target = ax or target
        if not (target is None or isinstance(target, str | Path)):
            with draw.canvas(target) as axes:
                self.draw_losses(axes)
                draw.name_stages(axes, self.predicted.stages, self.predicted.loss_levels)
            return axes
        if composition.composes(self.observed.known_problem):
            return composition.plot(self, target)
        with draw.two_panels(target) as (axes, lower):
            self.draw_losses(axes)
            axes.set_xlabel("")
            draw.growth(lower, *what_grows(self.observed))
            for stage in self.predicted.stages:
                lower.axvline(stage.time, color=draw.PREDICTED, linestyle="--", linewidth=0.7)
            draw.name_stages(axes, self.predicted.stages, self.predicted.loss_levels)
        return axes

    def draw_losses(self, axes: "Axes") -> None:
        """The predicted loss over the simulated one.

        Parameters
        ----------
        axes : where to draw.
        """
        from saddlewalk.show import draw

        known = [*self.predicted.jump_times, *_known(self.jump_times)]
        levels = self.predicted.loss_levels
        ends = draw.end_of_fall(self.observed.time, self.observed.loss, levels)
        end = max(1.25 * max(known), 1.1 * ends) if known else float(self.observed.time[-1])
        draw.loss_curve(axes, self.observed.time, self.observed.loss, label=self.observed.method)
        draw.staircase(axes, self.predicted, end=end)
        axes.set_xlim(0.0, end)
        if known:
            draw.stretch(axes, known, levels, end)
        axes.set_title(f"{self.predicted.setting}, scale {self.predicted.scale:g}")
        axes.legend()

    def _order_in_words(self) -> str:
        if self.stages_reached == 0:
            return "not seen: no stage was reached"
        reached, all_of_them = self.stages_reached, len(self.predicted.stages)
        part = (
            "" if reached == all_of_them else f" in the {reached} of {all_of_them} stages reached"
        )
        return ("as predicted" if self.order else "NOT as predicted") + part

    def parts(self) -> tuple[text.Table | str, ...]:
        """Stage by stage, how far apart they are, and the assumptions that fail."""
        columns = [
            "stage",
            "time",
            "simulated",
            "error",
            "loss after",
            "simulated",
            "error",
            "of level",
            "learned",
        ]
        rows = []
        for k, stage in enumerate(self.predicted.stages):
            rows.append(
                [
                    str(k + 1),
                    text.number(stage.time),
                    text.number(self.jump_times[k]),
                    text.percent(self.time_error[k]),
                    text.number(stage.loss),
                    text.number(self.loss_levels[k]),
                    text.percent(self.level_error[k]),
                    text.percent(self.level_error_relative[k]),
                    stage.learned,
                ]
            )
        errors = _known(self.time_error)
        title = f"{self.predicted.setting}: predicted ({self.predicted.method}) and simulated"
        lines: list[text.Table | str] = [
            text.Table(f"{title}, scale {self.predicted.scale:g}", columns, rows),
            f"order {self._order_in_words()}; "
            f"stages: {len(self.predicted.stages)} predicted, "
            f"{len(self.stages_observed)} found in the curve alone",
        ]
        if self.predicted.stopped is Stopped.FIRST_STAGE:
            lines.append(f"the prediction ends there: {self.predicted.stopped.sentence}")
        if self.stages_reached < len(self.predicted.stages):
            lines.append(
                f"the simulation ended (time {self.observed.time[-1]:.4g}, {self.observed.stopped}) "
                f"after {self.stages_reached} of {len(self.predicted.stages)} predicted stages"
            )
        if errors:
            mean, most = float(np.mean(errors)), max(errors)
            lines.append(
                f"jump times: mean error {text.percent(mean)}, largest {text.percent(most)}"
            )
            if self.predicted.method in ("closed", "limit") and mean > _NOTABLE:
                lines.append(
                    "formulas are for smaller scales: method 'numeric' follows each transition"
                )
        if any(map(math.isnan, self.level_error_relative[: self.stages_reached])):
            lines.append(
                "of level: - where there is no plateau, or less than "
                f"{_LEAST_LEVEL:g} of the first loss is left"
            )
        lines += [str(a) for a in self.predicted.assumptions if not a.holds]
        return tuple(lines)


def compare(stairs: Staircase, path: Trajectory) -> Agreement:
    """Lay a predicted staircase over a simulated trajectory.

    Parameters
    ----------
    stairs : what `predict` returned.
    path : what `train` returned, from the same start.
    """
    if not isinstance(stairs, Staircase) or not isinstance(path, Trajectory):
        raise InputError("compare takes a prediction, then a simulation: compare(stairs, path).")
    _check_they_belong_together(stairs, path)
    reading = read_stages(_as_far_as_predicted(stairs, path.curve), stairs.loss_levels)
    missing = (math.nan,) * (len(stairs.stages) - len(reading.rests))
    return Agreement(
        predicted=stairs,
        observed=path,
        jump_times=(*reading.times, *missing),
        loss_levels=(*reading.levels, *missing),
        order=_modes_in_order(stairs, path, len(reading.rests))
        if "modes" in path.info
        else _units_in_order(stairs, path, reading.rests),
    )


def _as_far_as_predicted(stairs: Staircase, curve: LossCurve) -> LossCurve:
    """The simulated curve up to where it leaves the last level, if more is to come that was not predicted."""
    if stairs.stopped is not Stopped.FIRST_STAGE or not stairs.stages:
        return curve
    before, after = stairs.loss_levels[-2:]
    left = np.flatnonzero(curve.loss < after - _BEYOND * (before - after))
    return curve.part(0, int(left[0])) if len(left) else curve


def _check_they_belong_together(stairs: Staircase, path: Trajectory) -> None:
    """Refuse a prediction and a simulation of different networks, naming what differs."""
    differences = [
        f"{name}: {predicted} and {simulated}"
        for name, predicted, simulated in (
            ("scale", f"{stairs.scale:g}", f"{path.info['scale']:g}"),
            ("seed", stairs.seed, path.info["seed"]),
            ("task", stairs.setting, path.info["setting"]),
            *_parts_of_problems(stairs, path),
        )
        if predicted != simulated
    ]
    start = float(path.loss[0])
    if not differences and not math.isclose(start, stairs.initial_loss, rel_tol=0.5):
        differences.append(f"loss at the start: {stairs.initial_loss:g} and {start:g}")
    if not differences and not _same_losses(stairs, path):
        differences.append(
            "data: the simulated weights have other losses on those of the prediction"
        )
    if differences:
        raise InputError(
            "The prediction and the simulation are of different problems. They differ in "
            f"{'; '.join(differences)}. Compare what `predict` and `train` give for the same task, "
            "units, scale and seed."
        )


def _parts_of_problems(stairs: Staircase, path: Trajectory) -> list[tuple[str, str, str]]:
    """What can be told of both problems in words, where both are known."""
    if stairs.known_problem is None or path.known_problem is None:
        return [("degree", str(stairs.degree), str(path.info["kappa"]))]
    one, other = stairs.known_problem, path.known_problem
    return [
        ("units", str(one.units), str(other.units)),
        ("loss", str(one.sample_loss), str(other.sample_loss)),
        ("rates", str(dict(one.layer_rates)), str(dict(other.layer_rates))),
        ("adaptive", str(one.adaptive), str(other.adaptive)),
        ("inputs", str(one.task.inputs), str(other.task.inputs)),
        ("outputs", str(one.task.outputs), str(other.task.outputs)),
    ]


def _same_losses(stairs: Staircase, path: Trajectory) -> bool:
    """Whether the simulated weights have the losses of the simulation on the data of the prediction."""
    if stairs.known_problem is None:
        return True
    try:
        path.of(stairs.known_problem)
    except InputError:
        return False
    return True


def _modes_in_order(stairs: Staircase, path: Trajectory, reached: int) -> bool:
    """The modes of the task passed the middle of their growth in the predicted order."""
    names = [identity(name) for name in path.info["modes"]]
    predicted = [identity(stage.feature) for stage in stairs.stages[:reached]]
    first = list(dict.fromkeys(name for name in predicted if name in names))
    if not first:
        return False
    strength = path.data["strength"].values[:, [names.index(name) for name in first]]
    above = strength >= 0.5 * strength[-1]
    moments = np.argmax(above, axis=0)
    grown = strength[-1] > 0.1
    return bool(grown.all() and (np.diff(moments) >= 0).all())


def _units_in_order(stairs: Staircase, path: Trajectory, points: list[int]) -> bool:
    """Each predicted unit grew in its stage, and the first of each did so in the predicted order.

    Its moment is when its output last rose through the middle between its sizes on the plateau
    before and after; the stages that the run did not reach are not judged. Only the first: on a slow
    tail units of one stage go on growing while the next begins. Where a stage has parts, those units are
    judged that took part in what can be seen of it.
    """
    if not points:
        return False
    output = path.data["unit_output"].values
    latest, before = 0, 0
    for stage, after in zip(stairs.stages, points, strict=False):
        change = np.abs(output[after] - output[before])
        moments = []
        for unit in stage.units:
            start, end = output[before, unit], output[after, unit]
            if end <= start or change[unit] < _GREW * change.max():
                if stage.parts and unit != stage.feature.get("index"):
                    continue
                return False
            low = np.flatnonzero(output[: after + 1, unit] < 0.5 * (start + end))
            moments.append(int(low[-1]))
        if moments and min(moments) < latest:
            return False
        latest, before = min(moments, default=latest), after
    return True


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _known(values: Any) -> list[float]:
    return [value for value in values if math.isfinite(value)]

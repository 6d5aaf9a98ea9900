"""The staircase: what gradient flow from a small start will look like, and what that rests on."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from saddlewalk.curves.stages import Stage
from saddlewalk.curves.stopped import Stopped
from saddlewalk.errors import InputError
from saddlewalk.precision import float64
from saddlewalk.problem import Problem
from saddlewalk.problem.kept import known, problem_of, with_problem
from saddlewalk.show import text
from saddlewalk.store import AbstractResult

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Assumption:
    """One hypothesis behind a prediction, measured on the data at hand."""

    name: str
    holds: bool
    value: float | None
    """`None` where there is nothing to measure."""
    needed: str

    def to_json(self) -> dict[str, Any]:
        """The hypothesis with the field names of the machine-readable output."""
        return {
            "name": self.name,
            "holds": bool(self.holds),
            "value": self.value,
            "needed": self.needed,
        }

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "FAILS"
        return (
            f"assumption {verdict}: {self.name} = {text.number(self.value)} (needed: {self.needed})"
        )


@dataclass(frozen=True)
class Staircase(AbstractResult):
    """A predicted sequence of stages, with the assumptions it rests on."""

    result_kind: ClassVar[str] = "staircase"

    setting: str
    method: str
    scale: float
    seed: int
    degree: int
    eta: float
    """`eta_alpha`: time divided by it is accelerated time."""
    initial_loss: float
    stages: tuple[Stage, ...]
    stopped: Stopped
    assumptions: tuple[Assumption, ...] = ()
    references: tuple[str, ...] = field(default=())
    """The theorems behind the numbers, as `key: statement`."""
    curve: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Predicted loss along time, where the method knows it within the jumps."""
    rhs_evaluations: int | None = None
    """Right-hand sides that were evaluated, by methods that integrate."""
    expected_error: float | None = None
    """Expected relative error of the jump times, where the method knows it."""
    _problem: Problem | None = field(default=None, repr=False, compare=False)

    @property
    def problem(self) -> Problem:
        """What was predicted: units, data and loss."""
        return known(self._problem, "prediction")

    @property
    def known_problem(self) -> Problem | None:
        """The same, or `None` where a file could not hold it."""
        return self._problem

    def of(self, problem: Problem) -> "Staircase":
        """The same prediction with its problem, where a file could not hold it.

        Parameters
        ----------
        problem : units, data and loss; refused if the loss before learning is another one.
        """
        with float64():
            start = float(problem.loss(np.zeros((problem.width, problem.size))))
        if problem.degree != self.degree or not math.isclose(
            start, self.initial_loss, rel_tol=1e-6
        ):
            raise InputError(
                f"This prediction is of units of order {self.degree} that start at loss "
                f"{self.initial_loss:g}; the problem has order {problem.degree} and starts at {start:g}."
            )
        return replace(self, _problem=problem)

    def __len__(self) -> int:
        return len(self.stages)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __getitem__(self, index: int) -> Stage:
        return self.stages[index]

    @property
    def jump_times(self) -> list[float]:
        """When each jump happens."""
        return [stage.time for stage in self.stages]

    @property
    def loss_levels(self) -> list[float]:
        """The loss before the first jump and after each one."""
        return [self.initial_loss, *(stage.loss for stage in self.stages)]

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form (what `saddlewalk predict --json` prints)."""
        return {
            "setting": self.setting,
            "method": self.method,
            "scale": self.scale,
            "seed": self.seed,
            "kappa": self.degree,
            "eta": self.eta,
            "initial_loss": self.initial_loss,
            "stages": [stage.to_json() for stage in self.stages],
            "assumptions": [assumption.to_json() for assumption in self.assumptions],
            "stopped": self.stopped.value,
            "references": list(self.references),
            "curve": None
            if self.curve is None
            else {"time": list(self.curve[0]), "loss": list(self.curve[1])},
            "expected_error": self.expected_error,
            "rhs_evaluations": self.rhs_evaluations,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Staircase":
        """Rebuild a staircase from its machine-readable form."""
        stages = tuple(map(Stage.from_json, record["stages"]))
        audit = tuple(Assumption(**item) for item in record["assumptions"])
        return cls(
            setting=record["setting"],
            method=record["method"],
            scale=record["scale"],
            seed=record["seed"],
            degree=record["kappa"],
            eta=record["eta"],
            initial_loss=record["initial_loss"],
            stages=stages,
            stopped=Stopped(record["stopped"]),
            assumptions=audit,
            references=tuple(record["references"]),
            curve=None
            if record["curve"] is None
            else (tuple(record["curve"]["time"]), tuple(record["curve"]["loss"])),
            expected_error=record.get("expected_error"),
            rhs_evaluations=record.get("rhs_evaluations"),
        )

    def to_xarray(self) -> "xr.Dataset":
        """Stages along a dimension `stage`; the whole record in the attributes."""
        import xarray as xr

        data = xr.Dataset(
            {
                "time": ("stage", self.jump_times),
                "time_accelerated": ("stage", [s.time_accelerated for s in self.stages]),
                "loss": ("stage", [s.loss for s in self.stages]),
            },
            attrs={"record": json.dumps(self.to_json())},
        )
        return with_problem(data, self._problem)

    @classmethod
    def from_xarray(cls, data: "xr.Dataset") -> "Staircase":
        """The staircase behind its labeled form."""
        stairs = cls.from_json(json.loads(data.attrs["record"]))
        return replace(stairs, _problem=problem_of(data))

    def plot(
        self, target: "str | Path | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "Axes":
        """Draw the staircase; a path saves the picture, an axis draws into it."""
        from saddlewalk.show import draw

        with draw.canvas(ax or target) as axes:
            end = 1.25 * max(self.jump_times, default=0.8)
            if self.curve is not None:
                end = max(end, 1.1 * draw.end_of_fall(*self.curve, self.loss_levels))
            draw.staircase(axes, self, end=end)
            axes.set_xlim(0.0, end)
            if self.stages:
                draw.stretch(axes, self.jump_times, self.loss_levels, end)
            axes.set_title(f"{self.setting}, scale {self.scale:g}")
            axes.legend()
            draw.name_stages(axes, self.stages, self.loss_levels)
        return axes

    def citation(self) -> str:
        """The theorems and papers that the numbers rest on."""
        return "\n".join(self.references)

    def parts(self) -> tuple[text.Table | str, ...]:
        """The stages, why they end, and the assumptions, those that fail first."""
        title = f"{self.setting}: predicted by {self.method}, scale {self.scale:g}"
        columns = ["stage", "time", "time/eta", "loss after", "unit on", "unit off", "feature"]
        rows = [["start", "0", "0", text.number(self.initial_loss), "", "", ""]]
        for k, s in enumerate(self.stages, 1):
            rows.append(
                [
                    str(k),
                    text.number(s.time),
                    text.number(s.time_accelerated),
                    text.number(s.loss),
                    " ".join(map(str, s.units)),
                    " ".join(map(str, s.dormant)),
                    s.described,
                ]
            )
        audit = sorted(self.assumptions, key=lambda assumption: assumption.holds)
        ending = [f"stopped: {self.stopped.sentence}"]
        if self.expected_error is not None:
            ending.append(f"expected error of the times: {text.percent(self.expected_error)}")
        return (text.Table(title, columns, rows), *ending, *map(str, audit))

"""The staircase: what gradient flow from a small start looks like, predicted or observed.

A stage is one jump: when it happens, the loss level after it, the units that become active and the
feature they carry. Time is gradient-flow time at learning rate 1; `time_accelerated` is
`time / eta`, with `eta = -log(norm)` for degree 2 and `norm**(2 - degree)` above, where `norm` is
the size of a unit at the start (Eq 3, 20).
"""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saddlewalk import store
from saddlewalk.errors import InputError
from saddlewalk.show import text

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


def acceleration(norm: float, degree: int) -> float:
    """`eta_alpha`: how much slower everything is when units start at this norm (Eq 20)."""
    return -math.log(norm) if degree == 2 else norm ** (2 - degree)


@dataclass(frozen=True)
class Stage:
    """One jump of the loss."""

    time: float
    loss: float
    units: tuple[int, ...]
    feature: dict[str, Any]
    time_accelerated: float = math.nan
    dormant: tuple[int, ...] = ()
    """Units that left the active set in this jump (appendix B.3)."""

    @property
    def learned(self) -> str:
        """In two words: the mode of the task, or the units that turned on."""
        units = " ".join(["unit", "+".join(map(str, self.units))]) if self.units else ""
        return mode_name(self.feature) or units

    def to_json(self) -> dict[str, Any]:
        """The stage with the field names of the machine-readable output."""
        return {
            "time": self.time,
            "time_accelerated": self.time_accelerated,
            "loss": self.loss,
            "units": list(self.units),
            "dormant": list(self.dormant),
            "feature": self.feature,
        }


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
class Staircase:
    """A predicted sequence of stages, with the assumptions it rests on."""

    setting: str
    method: str
    scale: float
    seed: int
    degree: int
    eta: float
    """`eta_alpha`: time divided by it is accelerated time."""
    initial_loss: float
    stages: tuple[Stage, ...]
    stopped: str
    assumptions: tuple[Assumption, ...] = ()
    references: tuple[str, ...] = field(default=())
    """The theorems behind the numbers, as `key: statement`."""
    curve: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Predicted loss along time, where the method knows it within the jumps."""

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
            "stopped": self.stopped,
            "references": list(self.references),
            "curve": None
            if self.curve is None
            else {"time": list(self.curve[0]), "loss": list(self.curve[1])},
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Staircase":
        """Rebuild a staircase from its machine-readable form."""
        stages = tuple(
            Stage(**{**stage, "units": tuple(stage["units"]), "dormant": tuple(stage["dormant"])})
            for stage in record["stages"]
        )
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
            stopped=record["stopped"],
            assumptions=audit,
            references=tuple(record["references"]),
            curve=None
            if record["curve"] is None
            else (tuple(record["curve"]["time"]), tuple(record["curve"]["loss"])),
        )

    def to_xarray(self) -> "xr.Dataset":
        """Stages along a dimension `stage`; the whole record in the attributes."""
        import xarray as xr

        return xr.Dataset(
            {
                "time": ("stage", self.jump_times),
                "time_accelerated": ("stage", [s.time_accelerated for s in self.stages]),
                "loss": ("stage", [s.loss for s in self.stages]),
            },
            attrs={"kind": "staircase", "record": json.dumps(self.to_json())},
        )

    def save(self, path: str | Path) -> Path:
        """Write everything to one netCDF file."""
        return store.save_dataset(self.to_xarray(), path)

    @classmethod
    def load(cls, path: str | Path) -> "Staircase":
        """Read a staircase back."""
        return cls.from_dataset(store.load_dataset(path, "staircase"))

    @classmethod
    def from_dataset(cls, data: "xr.Dataset") -> "Staircase":
        """The staircase behind its labeled form."""
        return cls.from_json(json.loads(data.attrs["record"]))

    def plot(self, target: "str | Path | Axes | None" = None) -> "Axes":
        """Draw the staircase; a path saves the picture, an axis draws into it."""
        from saddlewalk.show import draw

        with draw.canvas(target) as axes:
            draw.staircase(axes, self)
            if self.stages:
                draw.stretch(axes, self.jump_times, self.loss_levels)
            axes.set_title(f"{self.setting}, scale {self.scale:g}")
            axes.legend()
        return axes

    def citation(self) -> str:
        """The theorems and papers that the numbers rest on."""
        return "\n".join(self.references)

    def __str__(self) -> str:
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
                    describe(s.feature),
                ]
            )
        lines = [text.table(title, columns, rows), f"stopped: {ending(self.stopped)}"]
        # what fails comes first
        lines += [str(a) for a in sorted(self.assumptions, key=lambda a: a.holds)]
        return "\n".join(lines)


def ending(stopped: str) -> str:
    """Why something ended, as a sentence where one word is not enough."""
    if stopped == "limit":
        return (
            "limit: the largest time or number of steps was reached, and something was still moving"
        )
    return stopped


def describe(feature: dict[str, Any]) -> str:
    """A feature in a few words: `coordinate 3 (+)`, `frequency 1, phase 0.3`."""
    kind = str(feature.get("kind", ""))
    if kind == "coordinate":
        return f"coordinate {feature['index']} ({'+' if feature['sign'] > 0 else '-'})"
    if kind == "direction":
        seen = feature.get("active_samples")
        where = "" if seen is None else f", active on {len(seen)} samples"
        return f"direction of {len(feature['vector'])} inputs{where}"
    name = mode_name(feature)
    shown = ("kind", "index", "frequency") if name else ("kind",)
    rest = [_short(k, v) for k, v in feature.items() if k not in shown]
    return ", ".join([name or kind, *rest])


_MODES = {"fourier": "frequency", "singular-mode": "mode", "principal-component": "component"}


def mode_name(feature: dict[str, Any]) -> str | None:
    """A mode of the task in two words; `None` for features that belong to single units."""
    word = _MODES.get(feature.get("kind", ""))
    return word and f"{word} {feature.get('frequency', feature.get('index'))}"


def _short(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"{name} of {len(value)}"
    shown = text.number(value + 0.0) if isinstance(value, float) else str(value)  # no -0
    return f"{name} {shown}"


def check_scale(scale: float, degree: int = 2) -> float:
    """A scale whose products of weights float64 can hold."""
    if not math.isfinite(scale) or scale <= 0:
        raise InputError(f"The scale (alpha) must be a positive number; got {scale}.")
    smallest = 1e-280 ** (1 / max(2, degree - 1))
    if scale < smallest:
        raise InputError(
            f"The scale {scale:g} is below {smallest:.0e}, where products of weights underflow in "
            "float64. (For the limit of vanishing scale there is a method 'limit' in some settings.)"
        )
    return float(scale)

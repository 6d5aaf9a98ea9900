"""A stage is one jump of the loss: when it happens, the level after it, who turned on, and what was learned.

Time is gradient-flow time at learning rate 1; `time_accelerated` is `time / eta`, with `eta = -log(norm)` for
degree 2 and `norm**(2 - degree)` above, where `norm` is the size of a unit at the start (Eq 3, 20).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from saddlewalk.show import text


def acceleration(norm: float, degree: int) -> float:
    """`eta_alpha`: how much slower everything is when units start at this norm (Eq 20).

    Parameters
    ----------
    norm : norm of a unit at the start; below 1.
    degree : order kappa of a unit in its parameters; at least 2.
    """
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
    parts: tuple["Stage", ...] = ()
    """Steps that follow so closely that the loss does not rest between them."""

    @property
    def learned(self) -> str:
        """In a few words: the mode of the task, or the units that turned on."""
        if self.parts:
            return _listed([mode_name(part.feature) or _unit(part.units) for part in self.parts])
        return mode_name(self.feature) or _unit(self.units)

    @property
    def described(self) -> str:
        """What was learned, with its numbers: that of up to three parts where there are parts."""
        if self.parts:
            return _listed([describe(part.feature) for part in self.parts])
        return describe(self.feature)

    def accelerated(self, eta: float) -> "Stage":
        """The same stage with its time, and those of its parts, in accelerated time, too.

        Parameters
        ----------
        eta : acceleration eta_alpha.
        """
        parts = tuple(part.accelerated(eta) for part in self.parts)
        return replace(self, time_accelerated=self.time / eta, parts=parts)

    def to_json(self) -> dict[str, Any]:
        """The stage with the field names of the machine-readable output."""
        return {
            "time": self.time,
            "time_accelerated": self.time_accelerated,
            "loss": self.loss,
            "units": list(self.units),
            "dormant": list(self.dormant),
            "feature": self.feature,
            "parts": [part.to_json() for part in self.parts],
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Stage":
        """The stage behind its machine-readable form.

        Parameters
        ----------
        record : what `to_json` returned; files of older versions have no "parts".
        """
        return cls(
            time=record["time"],
            time_accelerated=record["time_accelerated"],
            loss=record["loss"],
            units=tuple(record["units"]),
            dormant=tuple(record["dormant"]),
            feature=record["feature"],
            parts=tuple(map(cls.from_json, record.get("parts", ()))),
        )


def describe(feature: dict[str, Any]) -> str:
    """A feature in a few words: `coordinate 3 (+)`, `frequency 1, phase 0.3`.

    Parameters
    ----------
    feature : what was learned, as in `Stage.feature`: its "kind", and what goes with it.
    """
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


_NAMED = 3
"""Parts of a stage that are named; the others are counted."""
_MODES = {"fourier": "frequency", "singular-mode": "mode", "principal-component": "component"}


def mode_name(feature: dict[str, Any]) -> str | None:
    """A mode of the task in two words; `None` for features that belong to single units.

    Parameters
    ----------
    feature : what was learned: its "kind", and its "index" or "frequency".
    """
    word = _MODES.get(feature.get("kind", ""))
    return word and f"{word} {feature.get('frequency', feature.get('index'))}"


def _unit(units: tuple[int, ...]) -> str:
    return " ".join(["unit", "+".join(map(str, units))]) if units else ""


def _listed(names: list[str]) -> str:
    """Up to three names, and how many more there are; the word that they share is said once."""
    names = [name for name in names if name]
    if not names:
        return ""
    kind = names[0].split(" ")[0] + " "
    shown = ", ".join([names[0], *(name.removeprefix(kind) for name in names[1:_NAMED])])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _short(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"{name} of {len(value)}"
    shown = text.number(value + 0.0) if isinstance(value, float) else str(value)  # no -0
    return f"{name} {shown}"

"""A stage is one jump of the loss: when it happens, the level after it, who turned on, and what was learned.

Time is gradient-flow time at learning rate 1; `time_accelerated` is `time / eta`, with `eta = -log(norm)` for
degree 2 and `norm**(2 - degree)` above, where `norm` is the size of a unit at the start (Eq 3, 20).
"""

import math
from collections.abc import Sequence
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
        """In a few words: the mode of the task, inputs by name, or the units that turned on."""
        if self.parts:
            return _listed([part.learned for part in self.parts])
        named = mode_name(self.feature) or inputs_named(self.feature)
        kind = self.feature.get("kind")
        if named is None and (kind == "coordinate" or (kind == "direction" and not self.units)):
            return describe(self.feature)
        return named or _unit(self.units)

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

    def named(self, names: Sequence[str]) -> "Stage":
        """The same stage with the names of the inputs that it, and each of its parts, is about.

        Parameters
        ----------
        names : of all inputs; empty if they have no names.
        """
        if not names:
            return self
        parts = tuple(part.named(names) for part in self.parts)
        return replace(self, feature=with_names(self.feature, names), parts=parts)

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
    """A feature in a few words: `coordinate 3 (+)`, `rooms (+)`, `frequency 1, phase 0.3`.

    Parameters
    ----------
    feature : what was learned, as in `Stage.feature`: its "kind", and what goes with it; "others" are the
        features of further units that turned on, the larger ones first.
    """
    if feature.get("others"):
        return _several(feature)
    kind = str(feature.get("kind", ""))
    if kind == "coordinate":
        return inputs_named(feature) or _signed(f"coordinate {feature['index']}", feature["sign"])
    if kind == "direction":
        seen = feature.get("active_samples")
        where = "" if seen is None else f", active on {len(seen)} samples"
        inputs = inputs_named(feature) or f"{len(feature['vector'])} inputs"
        return f"direction of {inputs}{where}"
    name = mode_name(feature)
    shown = _IDENTITY if name else ("kind",)
    rest = [_short(k, v) for k, v in feature.items() if k not in shown]
    return ", ".join([name or kind, *rest])


def with_names(feature: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A feature with the names of its inputs: "name" of a coordinate, "names" of the largest of a direction.

    Parameters
    ----------
    feature : what was learned.
    names : of all inputs; empty if they have no names.
    """
    if not names:
        return feature
    named = dict(feature)
    if feature.get("kind") == "coordinate":
        named["name"] = names[feature["index"]]
    if feature.get("kind") == "direction" and len(feature["vector"]) == len(names):
        named["names"] = [names[k] for k in _largest(feature["vector"])]
    if "others" in feature:
        named["others"] = [with_names(other, names) for other in feature["others"]]
    return named


def inputs_named(feature: dict[str, Any]) -> str | None:
    """A feature by the names of its inputs, `rooms (+), age (-)`; `None` if they have none.

    Parameters
    ----------
    feature : what was learned, as `with_names` gave it.
    """
    others = feature.get("others", ())
    if "name" in feature and "sign" in feature:
        first = _signed(feature["name"], feature["sign"])
        return _listed([first, *(_signed(other["name"], other["sign"]) for other in others)])
    if "names" in feature:
        vector = feature["vector"]
        pairs = zip(feature["names"], _largest(vector), strict=True)
        first = ", ".join(_signed(name, vector[k]) for name, k in pairs)
        return first + (f"; {len(others)} more units" if others else "")
    return None


def _largest(vector: Sequence[float]) -> list[int]:
    """Places of up to three inputs that count most; none that hardly counts."""
    order = sorted(range(len(vector)), key=lambda k: -abs(vector[k]))
    return [k for k in order[:_NAMED] if abs(vector[k]) > _FAINT * abs(vector[order[0]])]


def _signed(name: str, value: float) -> str:
    return f"{name} ({'+' if value > 0 else '-' if value < 0 else '0'})"


_NAMED = 3
"""Parts of a stage, and inputs of a direction, that are named; the others are counted, or left out."""
_FAINT = 1e-3
"""Part of the largest weight below which an input is not named."""
_MODES = {"fourier": "frequency", "singular-mode": "mode", "principal-component": "component"}
_IDENTITY = ("kind", "index", "frequency", "name", "part")
_MANY = {"frequency": "frequencies", "mode": "modes", "component": "components"}


def mode_name(feature: dict[str, Any]) -> str | None:
    """A mode of the task in two words, or several; `None` for features that belong to single units.

    Parameters
    ----------
    feature : what was learned: its "kind", and its "index", "frequency", or "name" and "part".
    """
    if feature.get("kind") == "representation":
        return _listed([_part_name(part) for part in (feature, *feature.get("others", ()))])
    word = _MODES.get(feature.get("kind", ""))
    if word is None:
        return None
    modes = [feature, *feature.get("others", ())]
    numbers = [str(mode.get("frequency", mode.get("index"))) for mode in modes]
    return f"{word if len(modes) == 1 else _MANY[word]} {_listed(numbers)}"


def _part_name(feature: dict[str, Any]) -> str:
    whole = feature.get("part", "all") == "all"
    return feature["name"] if whole else f"{feature['name']} {feature['part']}"


def identity(feature: dict[str, Any]) -> tuple[Any, ...]:
    """What tells one mode of a task from another, without its numbers.

    Parameters
    ----------
    feature : what was learned.
    """
    return tuple(feature.get(key) for key in _IDENTITY)


def _several(feature: dict[str, Any]) -> str:
    """Those of several units, the largest first: `14 coordinates: 29 (+), 3 (-), 8 (+) and 11 more`."""
    largest = {name: value for name, value in feature.items() if name != "others"}
    names = [describe(largest), *map(describe, feature["others"])]
    kind = feature["kind"]
    if kind in _MODES:
        return f"{len(names)} {(mode_name(feature) or '').replace(' ', ': ', 1)}"
    if kind == "direction":
        return f"{len(names)} directions, the largest {names[0].removeprefix('direction ')}"
    return f"{len(names)} {kind}s: {_listed(names).removeprefix(kind + ' ')}"


def _unit(units: tuple[int, ...]) -> str:
    if len(units) > _NAMED + 1:
        return f"{len(units)} units: {_listed([*map(str, units)])}"
    return " ".join(["unit", "+".join(map(str, units))]) if units else "adjustment"


def _listed(names: list[str]) -> str:
    """Up to three names, and how many more there are; the word that they share is said once."""
    names = [name for name in names if name]
    if not names:
        return ""
    kind = names[0].split(" ")[0] + " "
    comma = "; " if any(", " in name for name in names) else ", "
    shown = comma.join([names[0], *(name.removeprefix(kind) for name in names[1:_NAMED])])
    return shown + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _short(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"{name} of {len(value)}"
    shown = text.number(value + 0.0) if isinstance(value, float) else str(value)  # no -0
    return f"{name} {shown}"

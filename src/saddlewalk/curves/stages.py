"""A stage is one jump of the loss: when it happens, the level after it, who turned on, and what was learned.

Time is gradient-flow time at learning rate 1; `time_accelerated` is `time / eta`, with `eta = -log(norm)` for
degree 2 and `norm**(2 - degree)` above, where `norm` is the size of a unit at the start (Eq 3, 20).
"""

import math
from dataclasses import dataclass
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


_MODES = {"fourier": "frequency", "singular-mode": "mode", "principal-component": "component"}


def mode_name(feature: dict[str, Any]) -> str | None:
    """A mode of the task in two words; `None` for features that belong to single units.

    Parameters
    ----------
    feature : what was learned: its "kind", and its "index" or "frequency".
    """
    word = _MODES.get(feature.get("kind", ""))
    return word and f"{word} {feature.get('frequency', feature.get('index'))}"


def _short(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"{name} of {len(value)}"
    shown = text.number(value + 0.0) if isinstance(value, float) else str(value)  # no -0
    return f"{name} {shown}"

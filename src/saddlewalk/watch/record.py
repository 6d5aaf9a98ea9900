"""What a watch has seen: losses, looks, forecasts, and what came of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.show import text
from saddlewalk.store import AbstractResult
from saddlewalk.watch.forecast import Forecast, Reason
from saddlewalk.watch.losses import falling
from saddlewalk.watch.outlook import State

if TYPE_CHECKING:
    import xarray as xr

_NUMBERS = ("step", "loss", "gradient_norm", "seen", "seconds", "evaluations", "chance", "held_out")
_TOLD = ("made", "step", "low", "high", "before", "after", "growth")
_VAGUE = 0.05
"""A drop is timed if the losses beside it are no further apart than this part of the time until it."""
_SAME_DROP = 0.5
"""Forecasts are of one drop if they name middles of which one is no further from the other than this part."""

Curve = Float[np.ndarray, " bin"]


@dataclass(frozen=True)
class Look:
    """A training at one moment."""

    step: int
    loss: float
    """On the probe."""
    gradient_norm: float
    state: State
    seen: float
    """Steps that were looked ahead, or until the learning rate comes to its end."""
    seconds: float
    evaluations: int
    """Gradients that it took."""
    widths: dict[str, int] = field(default_factory=dict)
    """Effective width of each hidden layer, where it was looked at."""
    forecast: Forecast | None = None
    sizes: Float[np.ndarray, " unit"] = field(default_factory=lambda: np.zeros(0), repr=False)
    """Length of each unit."""
    chance: float = math.nan
    """A score, and no frequency, for a loss that stands still and a drop that comes, known when or not."""
    held_out: float = math.nan
    """Loss of data that are held out; where there are such, state and forecast are about it."""
    saddle: str = ""
    """The kind of saddle it is near, in words, where this was tested."""

    def numbers(self) -> dict[str, float]:
        """What a logger takes: numbers by name."""
        found = {
            "watch/loss": self.loss,
            "watch/gradient_norm": self.gradient_norm,
            "watch/plateau": float(self.state is State.PLATEAU),
            "watch/drop_chance": self.chance,
            **{f"watch/width/{name}": float(width) for name, width in self.widths.items()},
        }
        if math.isfinite(self.held_out):
            found["watch/held_out_loss"] = self.held_out
        told = self.forecast
        if told is not None:
            found |= {
                "watch/next_drop": told.step,
                "watch/next_drop_low": told.low,
                "watch/next_drop_high": told.high,
                "watch/growth": told.growth,
            }
        return found


class Outcome(NamedTuple):
    """A forecast beside what happened."""

    forecast: Forecast
    happened: float
    """The step at which the loss passed the middle, on a line between the two steps beside it; NaN if it has
    not yet."""
    earliest: float
    latest: float
    """Steps with a known loss between which it passed: far apart where a loss is known now and then."""

    @property
    def error(self) -> float:
        """Of the time left, relative."""
        return (self.forecast.step - self.happened) / (self.happened - self.forecast.made)

    @property
    def inside(self) -> bool:
        """Whether it came within the interval, as far as is known."""
        return self.forecast.low <= self.latest and self.earliest <= self.forecast.high

    @property
    def vague(self) -> bool:
        """Whether it is known only between which steps it came."""
        return self.latest - self.earliest > _VAGUE * (self.latest - self.forecast.made)

    @property
    def least_error(self) -> float:
        """Logarithm of (true / forecast) time left, of the nearest step at which it may have come."""
        nearest = min(max(self.forecast.step, self.earliest), self.latest)
        return math.log((nearest - self.forecast.made) / self.forecast.left)

    @property
    def came(self) -> str:
        """When it came, in words."""
        if math.isnan(self.happened):
            return "-"
        if not self.vague:
            return f"{self.happened:,.0f}"
        return f"between {math.ceil(self.earliest):,} and {math.ceil(self.latest):,}"


@dataclass(frozen=True, eq=False)
class WatchRecord(AbstractResult):
    """All that a watch knows of a training."""

    result_kind: ClassVar[str] = "watch"

    steps: Curve
    losses: Curve
    """As training reported them: means over bins, and where each is in steps."""
    looks: tuple[Look, ...]
    units: tuple[str, ...]
    """What the units are called whose lengths each look has."""
    title: str = "training"

    @property
    def forecasts(self) -> tuple[Forecast, ...]:
        """All of them, as they were made."""
        return tuple(look.forecast for look in self.looks if look.forecast is not None)

    @property
    def outcomes(self) -> list[Outcome]:
        """Each forecast beside what happened."""
        curve = self.told
        return [first_below(*curve, one) for one in self.forecasts]

    @property
    def told(self) -> tuple[Curve, Curve]:
        """Steps and losses that states and forecasts are about: of held-out data at each look, where there
        are such."""
        held = [(look.step, look.held_out) for look in self.looks if np.isfinite(look.held_out)]
        if not held:
            return self.steps, self.losses
        steps, losses = np.array(held, dtype=float).T
        return steps, losses

    def mistakes(self, now: float = -math.inf) -> list[float]:
        """Logarithms of (true / forecast) time left, one for each drop: the median of its forecasts.

        A drop that has not come though its interval is over counts as if it came now; one that may have come
        within its interval, for all that is known, does not count.

        Parameters
        ----------
        now : the present step.
        """
        drops: list[tuple[float, list[float]]] = []
        for one in self.outcomes:
            if not one.forecast.left > 0 or (one.vague and one.inside):
                continue
            error = one.least_error
            if math.isnan(one.happened):
                if not now > one.forecast.high:
                    continue
                error = math.log((now - one.forecast.made) / one.forecast.left)
            for level, errors in drops:
                if abs(level - one.forecast.middle) <= _SAME_DROP * level:
                    errors.append(error)
                    break
            else:
                drops.append((one.forecast.middle, [error]))
        return [float(np.median(errors)) for _, errors in drops]

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "title": self.title,
            "steps": self.steps.tolist(),
            "loss": self.losses.tolist(),
            "looks": [
                {
                    **{name: _plain(getattr(look, name)) for name in _NUMBERS},
                    "state": str(look.state),
                    "saddle": look.saddle,
                    "widths": look.widths,
                    "forecast": None if look.forecast is None else look.forecast.to_json(),
                }
                for look in self.looks
            ],
            "outcomes": [
                {
                    "made": o.forecast.made,
                    "forecast": o.forecast.step,
                    "happened": _plain(o.happened),
                    "between": [_plain(o.earliest), _plain(o.latest)],
                }
                for o in self.outcomes
            ],
        }

    def to_xarray(self) -> "xr.DataTree":
        """The curve, and the looks along a dimension `look`, with what each of them forecast."""
        import xarray as xr

        curve = xr.Dataset({"loss": ("step", self.losses)}, coords={"step": self.steps})
        told = [look.forecast for look in self.looks]
        layers = sorted({name for look in self.looks for name in look.widths})
        looks = xr.Dataset(
            {
                **{n: ("look", [float(getattr(k, n)) for k in self.looks]) for n in _NUMBERS},
                "state": ("look", [str(look.state) for look in self.looks]),
                "saddle": ("look", [look.saddle for look in self.looks]),
                **{
                    f"forecast_{name}": (
                        "look",
                        [math.nan if one is None else getattr(one, name) for one in told],
                    )
                    for name in _TOLD
                },
                "forecast_reason": (
                    "look",
                    ["" if one is None else str(one.reason) for one in told],
                ),
                "forecast_grows": ("look", ["" if one is None else one.grows for one in told]),
                "width": (
                    ("look", "layer"),
                    np.array(
                        [[look.widths.get(name, -1) for name in layers] for look in self.looks],
                        dtype=int,
                    ).reshape(len(self.looks), len(layers)),
                ),
                "size": (
                    ("look", "unit"),
                    np.array([look.sizes for look in self.looks]).reshape(
                        len(self.looks), len(self.units)
                    ),
                ),
            },
            coords={"layer": np.array(layers, dtype=str), "unit": np.array(self.units, dtype=str)},
        )
        tree = xr.DataTree.from_dict({"/curve": curve, "/looks": looks})
        tree.attrs = {"title": self.title}
        return tree

    @classmethod
    def from_xarray(cls, data: "xr.DataTree") -> "WatchRecord":
        """The record behind its labeled data."""
        curve, looks = data["curve"].to_dataset(), data["looks"].to_dataset()
        layers = [str(name) for name in looks["layer"].values]
        made = tuple(_look(looks, k, layers) for k in range(looks.sizes["look"]))
        return cls(
            steps=curve["step"].values.astype(float),
            losses=curve["loss"].values.astype(float),
            looks=made,
            units=tuple(str(name) for name in looks["unit"].values),
            title=str(data.attrs.get("title", "training")),
        )

    def plot(self, target: "str | Path | None" = None) -> Any:
        """Loss with plateaus and forecasts, forecasts as they were made, and what grows.

        Parameters
        ----------
        target : a file, or nothing; returned are the four axes.
        """
        from saddlewalk.watch.picture import draw_record

        return draw_record(self, target)

    def parts(self) -> tuple[text.Table | str, ...]:
        """The looks with their forecasts, and what came of them."""
        rows, curve = [], self.told
        for look in self.looks:
            one = look.forecast
            rows.append(
                [
                    f"{look.step:,}",
                    str(look.state),
                    text.number(look.loss if np.isnan(look.held_out) else look.held_out, 4),
                    "-" if np.isnan(look.chance) else f"{100 * look.chance:.0f}%",
                    " ".join(str(width) for width in look.widths.values()) or "-",
                    "-" if one is None else f"{one.step:,.0f}",
                    "-" if one is None else f"{one.low:,.0f} to {one.high:,.0f}",
                    "-" if one is None else first_below(*curve, one).came,
                    "-" if one is None or not one.grows else one.grows,
                ]
            )
        columns = [
            "step",
            "state",
            "loss",
            "drop?",
            "width",
            "next drop",
            "between",
            "came",
            "what grows",
        ]
        return (text.Table(f"{self.title}: what was seen", columns, rows, left=2),)


def first_below(steps: Curve, losses: Curve, forecast: Forecast) -> Outcome:
    """When the loss passed the middle of a drop that was forecast.

    Parameters
    ----------
    steps, losses : the curve.
    forecast : the forecast.
    """
    level = falling(losses)
    below = np.flatnonzero((level < forecast.middle) & (steps > forecast.made))
    if len(below) == 0:
        return Outcome(forecast, math.nan, math.nan, math.nan)
    k, latest = int(below[0]), float(steps[below[0]])
    earliest = max(float(steps[k - 1]), forecast.made) if k else forecast.made
    if k == 0 or level[k - 1] <= forecast.middle:
        return Outcome(forecast, latest, earliest, latest)
    part = (level[k - 1] - forecast.middle) / (level[k - 1] - level[k])
    passed = steps[k - 1] + part * (steps[k] - steps[k - 1])
    after = np.nextafter(forecast.made, math.inf)
    return Outcome(forecast, float(max(passed, after)), earliest, latest)


def _look(looks: Any, k: int, layers: Sequence[str]) -> Look:
    row = looks.isel(look=k)
    told = None
    if np.isfinite(float(row["forecast_made"])):
        told = Forecast(
            **{name: float(row[f"forecast_{name}"]) for name in _TOLD},
            reason=Reason(str(row["forecast_reason"].values)),
            grows=str(row["forecast_grows"].values),
        )
    numbers = {name: float(row[name]) for name in _NUMBERS}
    widths = {name: int(row["width"].values[j]) for j, name in enumerate(layers)}
    return Look(
        step=int(numbers.pop("step")),
        evaluations=int(numbers.pop("evaluations")),
        state=State(str(row["state"].values)),
        widths={name: width for name, width in widths.items() if width >= 0},
        forecast=told,
        sizes=row["size"].values,
        saddle=str(row["saddle"].values),
        **numbers,
    )


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None

r"""Is this network at a saddle, which way does it leave, and when?

1. **Fixed point.** A network on a plateau is near a critical point, not on it. That point is found
   (`critical_points`), and if the loss hardly changes on the way, the network rests there.
2. **Strict saddle.** The smallest eigenvalues of the Hessian there (`curvature`). The units that are left
   over keep their directions and are shrunk: what is negative only because they are not zero is no curvature
   of the saddle. Directions along which the function does not change have eigenvalue zero, and do not count.
3. **Degenerate saddle.** Where units grow by order 3 or more, a unit at zero feels no curvature. What
   decides is whether a new unit has utility against the residual (`new_units`). For deep networks a descent
   from beside the point decides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.diagnose.critical_points import critical_point, falls_when_kicked, loss_at
from saddlewalk.diagnose.curvature import curvatures
from saddlewalk.diagnose.kinds import PointKind
from saddlewalk.diagnose.new_units import best_new_unit, time_to_grow
from saddlewalk.diagnose.width import EffectiveWidth
from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem, compiled, network_at
from saddlewalk.problem.where import Where
from saddlewalk.show import text
from saddlewalk.store import AbstractResult

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_NEGATIVE = 1e-4
"""Curvature, as a part of the largest, that counts as negative."""
_FAINT = 1e-6
_USEFUL = 1e-2
"""Utility, as a part of that of the best first unit, that counts as left."""
_NUMBERS = (
    "loss",
    "gradient_norm",
    "distance",
    "largest_eigenvalue",
    "utility",
    "escape_rate",
    "duration",
)


@dataclass(frozen=True, eq=False)
class SaddleReport(AbstractResult):
    """What kind of point a network rests at, and how it leaves."""

    result_kind: ClassVar[str] = "saddle report"

    kind: PointKind
    loss: float
    gradient_norm: float
    distance: float
    """To the fixed point nearby, in function space, relative to the function."""
    eigenvalues: Float[np.ndarray, " few"]
    """The smallest of the Hessian there, rising."""
    largest_eigenvalue: float
    utility: float
    """Largest utility of a new unit, as a part of what the first one had; NaN if none can be added."""
    escape_rate: float
    """Exponential rate at which a strict saddle is left; 0 elsewhere."""
    duration: float
    """How long the network will stay from now on; infinite at a minimum, NaN if not known."""
    direction: Float[np.ndarray, "..."] | None = field(repr=False, default=None)
    """Unit vector of the parameters along which a strict saddle is left, or the new unit."""

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form; `null` for what is infinite or not known."""
        numbers = {name: _finite(getattr(self, name)) for name in _NUMBERS}
        direction = None if self.direction is None else self.direction.tolist()
        return {
            "kind": str(self.kind),
            **numbers,
            "eigenvalues": self.eigenvalues.tolist(),
            "direction": direction,
        }

    def to_xarray(self) -> "xr.Dataset":
        """All numbers by name; the kind in the attributes."""
        import xarray as xr

        numbers: dict[str, Any] = {name: ((), getattr(self, name)) for name in _NUMBERS}
        numbers["eigenvalues"] = ("eigenvalue", self.eigenvalues)
        if self.direction is not None:
            numbers["direction"] = (("unit", "parameter")[-self.direction.ndim :], self.direction)
        return xr.Dataset(numbers, attrs={"point": str(self.kind)})

    @classmethod
    def from_xarray(cls, data: "xr.Dataset") -> "SaddleReport":
        """The report behind its labeled data."""
        return cls(
            kind=PointKind(data.attrs["point"]),
            eigenvalues=data["eigenvalues"].values,
            direction=data["direction"].values if "direction" in data else None,
            **{name: float(data[name]) for name in _NUMBERS},
        )

    def plot(self, target: "str | Path | Axes | None" = None) -> "Axes":
        """The smallest eigenvalues; a path saves the picture, an axis draws into it.

        Parameters
        ----------
        target : a file, axes of one's own, or nothing.
        """
        from saddlewalk.show import draw

        with draw.canvas(target) as axes:
            number = np.arange(1, len(self.eigenvalues) + 1)
            colors = np.where(self.eigenvalues < 0, draw.PREDICTED, draw.OBSERVED)
            axes.bar(number, self.eigenvalues, color=colors, width=0.6)
            axes.axhline(0.0, color="0.4", linewidth=0.8)
            axes.set_xticks(number)
            axes.set_xlabel("smallest eigenvalues of the Hessian")
            axes.set_ylabel("curvature")
            axes.set_title(f"{self.kind} at loss {text.number(self.loss, 4)}")
        return axes

    def parts(self) -> tuple[text.Table | str, ...]:
        """The kind in a sentence, and the numbers behind it."""
        rows = [
            ["loss", text.number(self.loss)],
            ["gradient norm", text.number(self.gradient_norm, 3)],
            ["relative distance to the fixed point", text.number(self.distance, 3)],
            ["smallest eigenvalues", " ".join(text.number(v, 3) for v in self.eigenvalues)],
            ["largest eigenvalue", text.number(self.largest_eigenvalue, 3)],
            ["utility left for a new unit", text.percent(self.utility)],
            ["escape rate", text.number(self.escape_rate, 3)],
            ["time left here", text.number(self.duration, 4)],
        ]
        return (text.Table(self.kind.sentence, ["", "value"], rows),)


def saddle_test(
    where: Where,
    weights: Any = None,
    *,
    at: int = -1,
    eigenvalues: int = 3,
    scale: float | None = None,
) -> SaddleReport:
    """Classify where a network is: at a strict or a degenerate saddle, at a minimum, or on its way.

    Parameters
    ----------
    where : a run, or a problem.
    weights : parameters `(width, size)`; with a problem, and only then.
    at : number of the saved moment of a run; the last by default.
    eigenvalues : how many of the smallest to report.
    scale : a change of the loss that matters; by default the smaller of what has been learned and
        what is left to learn.
    """
    if eigenvalues < 1:
        raise InputError(f"At least one eigenvalue is looked at; got {eigenvalues}.")
    if scale is not None and not scale > 0:
        raise InputError(f"The scale is a positive change of the loss; got {scale}.")
    problem, theta = network_at(where, weights, at)
    return classify(problem, theta, origin_of(problem), eigenvalues=eigenvalues, scale=scale)


class Origin(NamedTuple):
    """A network that says nothing: what there is to learn. The same for all moments of a run."""

    loss: float
    utility: float
    """Of the best first unit; NaN if there is no such thing."""


@in_float64
def origin_of(problem: Problem) -> Origin:
    """The network before it has learned anything.

    Parameters
    ----------
    problem : units, data and loss.
    """
    zero = jnp.zeros((problem.width, problem.size))
    return Origin(loss_at(problem, zero), best_new_unit(problem, zero).utility)


@in_float64
def classify(
    problem: Problem,
    theta: Float[np.ndarray, "width size"],
    origin: Origin,
    *,
    eigenvalues: int = 3,
    scale: float | None = None,
    widths: Sequence[EffectiveWidth] = (),
) -> SaddleReport:
    """The saddle test for parameters that were checked, with what is known of the network already.

    Parameters
    ----------
    problem, theta : the network.
    origin : what there was to learn.
    eigenvalues, scale : as in `saddle_test`.
    widths : effective widths of this network.
    """
    here = jnp.asarray(theta)
    loss, gradient = compiled.loss_and_gradient(problem, here)
    matters = _scale(problem, float(loss), origin) if scale is None else scale
    near = critical_point(problem, here, scale=matters, empty=origin.loss, widths=widths)
    new = best_new_unit(problem, near.theta)
    empty = abs(origin.loss)
    # where not even the first unit has utility, it does not tell saddles from minima
    tells = near.spare and origin.utility > _FAINT * empty
    useful = new.utility / origin.utility if tells else math.nan
    curved = curvatures(problem, near.theta, eigenvalues)
    unit = np.nanmax([curved.largest, origin.utility, _NEGATIVE * empty])
    strict = bool(curved.smallest[0] < -_NEGATIVE * unit)
    kind = _kind(problem, near.theta, near.rests, strict, useful, origin.loss)
    rate = -float(curved.smallest[0]) if strict else problem.degree * new.utility
    return SaddleReport(
        kind=kind,
        loss=float(loss),
        gradient_norm=float(jnp.linalg.norm(gradient)),
        distance=_distance(problem, here, near.theta),
        eigenvalues=curved.smallest,
        largest_eigenvalue=curved.largest,
        utility=useful,
        escape_rate=rate if kind is PointKind.STRICT_SADDLE else 0.0,
        duration=_duration(kind, problem, here, near.theta, new.utility),
        direction=(curved.direction if strict else new.theta) if kind.is_saddle else None,
    )


def _kind(
    problem: Problem, point: Array, rests: bool, strict: bool, useful: float, empty: float
) -> PointKind:
    if not rests:
        return PointKind.NOT_FIXED
    if strict:
        return PointKind.STRICT_SADDLE
    if useful > _USEFUL:
        return PointKind.STRICT_SADDLE if problem.degree == 2 else PointKind.DEGENERATE_SADDLE
    if math.isnan(useful) and falls_when_kicked(problem, point, empty):
        return PointKind.DEGENERATE_SADDLE
    return PointKind.MINIMUM


def _duration(
    kind: PointKind, problem: Problem, theta: Array, point: Array, utility: float
) -> float:
    if kind.is_saddle:
        return time_to_grow(problem, theta, point, utility)
    return math.inf if kind is PointKind.MINIMUM else 0.0


def _scale(problem: Problem, loss: float, origin: Origin) -> float:
    """The smaller of what has been learned and what is left; of nearly nothing, a part of all."""
    left = loss - float(problem.task.floor)
    least = 1e-3 * min(abs(origin.loss), max(loss, 1e-300))
    return max(min(abs(origin.loss - loss), left), least)


def _distance(problem: Problem, theta: Array, point: Array) -> float:
    """Distance of two networks in function space, relative to the first."""
    one, other = (compiled.function(problem, place) for place in (theta, point))
    length = float(compiled.length(problem.task, one))
    return float(compiled.length(problem.task, one - other)) / length if length else 0.0


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

r"""Is this network at a saddle, which way does it leave, and when?

1. **Fixed point.** A network without a gradient is looked at where it is. One on a plateau is near a critical
   point, not on it. That point is found (`critical_points`), and if the loss hardly changes on the way, the
   network rests there.
2. **Strict saddle.** The smallest eigenvalues of the Hessian there (`curvature`). The units that are left
   over keep their directions and are shrunk: what is negative only because they are not zero is no curvature
   of the saddle. Directions along which the function does not change have eigenvalue zero, and do not count.
3. **Degenerate saddle.** Where units grow by order 3 or more, a unit at zero feels no curvature. What
   decides is whether a new unit has utility against the residual (`new_units`). For deep networks a descent
   from beside the point decides.
4. **Near a saddle.** Where units move along kinks, or still settle when the next one has begun to grow, there
   is no such point. If the loss falls by less than matters while a new unit grows e-fold, the plateau is
   real, and how fast it is left is known from the residual.

How long it lasts is what `predict` says from these weights (`forecast`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.diagnose.critical_points import (
    CriticalPoint,
    Origin,
    critical_point,
    falls_when_kicked,
    loss_at,
)
from saddlewalk.diagnose.curvature import SHRUNK, Curvatures, curvatures, growth_rates
from saddlewalk.diagnose.forecast import time_left
from saddlewalk.diagnose.kinds import PointKind
from saddlewalk.diagnose.new_units import NewUnit, best_new_unit
from saddlewalk.diagnose.patience import OutOfTimeError, patience
from saddlewalk.diagnose.unbounded import falls_for_ever
from saddlewalk.diagnose.width import MATTERS, EffectiveWidth
from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.landscape.where import Anywhere
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem, compiled, network_at
from saddlewalk.show import text
from saddlewalk.show.progress import Progress
from saddlewalk.store import AbstractResult
from saddlewalk.theory.bounds import waiting_time

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_SLOPES = 10.0
"""Slopes, over the units' lengths, that may pass for curvature where units do not quite rest."""
_TINY = 1e-3
"""Part of the largest unit below which one feels the residual alone."""
_GROWS = 1e-4
"""Growth of a new unit, as a part of the largest curvature, that counts where there is no fixed point."""
_FAINT = 1e-6
_USEFUL = 1e-2
"""Utility, as a part of that of the best first unit, that counts as left."""
_ROUNDING = 1e-12
"""Force, as a part of what is felt in another place, and curvature, as a part of the largest, that is only
rounding."""
_LEARNED, _LEFT = 0.05, 1e-4
"""Parts of all there is to learn below which less that has been learned, or is left, makes no difference."""
_SLOWLY = 0.2
"""Part of what matters that a plateau may lose while a new unit grows e-fold."""
_UNKNOWN = 1e-6
"""A size for what is about to grow where it has none of its own."""
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
    """Exponential rate at which a saddle is left; 0 where it is left by a power of time, or never; NaN where
    there is no fixed point."""
    duration: float
    """Time until the next jump of the loss; infinite if none comes, NaN if that is not known."""
    direction: Float[np.ndarray, "..."] | None = field(repr=False, default=None)
    """Unit vector of the parameters along which a strict saddle is left, one row a unit, or the new unit."""

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form; `null` for what is infinite or not known."""
        numbers = {name: _finite(getattr(self, name)) for name in _NUMBERS}
        direction = None if self.direction is None else self.direction.tolist()
        return {
            "kind": str(self.kind),
            **numbers,
            "eigenvalues": [_finite(value) for value in self.eigenvalues.tolist()],
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

    def plot(
        self, target: "str | Path | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "Axes":
        """The smallest eigenvalues; a path saves the picture, an axis draws into it.

        Parameters
        ----------
        target : a file, axes of one's own, or nothing.
        ax : axes of one's own, by the name that other libraries have for them.
        """
        from saddlewalk.show import draw

        with draw.canvas(ax or target) as axes:
            number = np.arange(1, len(self.eigenvalues) + 1)
            rounding = _FAINT * max(self.largest_eigenvalue, float(np.abs(self.eigenvalues).max()))
            colors = np.where(self.eigenvalues < -rounding, draw.PREDICTED, draw.OBSERVED)
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
    where: Anywhere,
    weights: Any = None,
    *,
    at: int = -1,
    eigenvalues: int = 3,
    scale: float | None = None,
    limit: float = 120.0,
    progress: bool | None = None,
) -> SaddleReport:
    """Classify where a network is: at a strict or a degenerate saddle, at a minimum, or on its way.

    Parameters
    ----------
    where : a run, a problem, or the landscape of any network.
    weights : parameters `(width, size)` with a problem, and only then; of a landscape another state than its
        present one.
    at : number of the saved moment of a run; the last by default.
    eigenvalues : how many of the smallest to report.
    scale : a change of the loss that matters; by default the smaller of what has been learned and
        what is left to learn.
    limit : seconds after which the search ends, in networks of a million weights; the report then says that
        nothing was decided, with the numbers that are known.
    progress : show a progress line on stderr; by default if it is a terminal.
    """
    if eigenvalues < 1:
        raise InputError(f"At least one eigenvalue is looked at; got {eigenvalues}.")
    if scale is not None and not scale > 0:
        raise InputError(f"The scale is a positive change of the loss; got {scale}.")
    if not limit > 0:
        raise InputError(f"`limit` must be a positive number of seconds; got {limit}.")
    if isinstance(where, AbstractLandscape):
        from saddlewalk.diagnose.landscapes.saddles import saddle_report

        place = where.weights_at(weights, at)
        with Progress("saddle test", progress) as bar, patience(limit, bar):
            return saddle_report(where, place, eigenvalues=eigenvalues, scale=scale)
    problem, theta = network_at(where, weights, at)
    with Progress("saddle test", progress) as bar, patience(limit, bar):
        origin = origin_of(problem)
        try:
            return classify(problem, theta, origin, eigenvalues=eigenvalues, scale=scale)
        except OutOfTimeError:
            return _undecided(problem, theta, origin, eigenvalues)


@in_float64
def _undecided(
    problem: Problem, theta: Float[np.ndarray, "width size"], origin: Origin, eigenvalues: int
) -> SaddleReport:
    """What is known without a search."""
    here = jnp.asarray(theta)
    loss, gradient = compiled.loss_and_gradient(problem, here)
    new = best_new_unit(problem, here)
    return SaddleReport(
        kind=PointKind.NOT_DECIDED,
        loss=float(loss),
        gradient_norm=float(jnp.linalg.norm(gradient)),
        distance=math.nan,
        eigenvalues=np.full(eigenvalues, math.nan),
        largest_eigenvalue=math.nan,
        utility=new.utility / origin.utility if origin.utility > 0 else math.nan,
        escape_rate=math.nan,
        duration=math.nan,
    )


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
    left: float | None = None,
) -> SaddleReport:
    """The saddle test for parameters that were checked, with what is known of the network already.

    Parameters
    ----------
    problem, theta : the network.
    origin : what there was to learn.
    eigenvalues, scale : as in `saddle_test`.
    widths : effective widths of this network.
    left : time until the next jump of the loss, where it is known and need not be predicted.
    """
    here = jnp.asarray(theta)
    loss, gradient = compiled.loss_and_gradient(problem, here)
    matters = _scale(problem, float(loss), origin) if scale is None else scale
    near = critical_point(problem, here, scale=matters, origin=origin, widths=widths)
    curved = curvatures(problem, near.theta, eigenvalues)
    ways = _ways_out(problem, near, curved, origin)
    kind = _kind(problem, near, ways, float(jnp.vdot(gradient, gradient)), matters, origin)
    return SaddleReport(
        kind=kind,
        loss=float(loss),
        gradient_norm=float(jnp.linalg.norm(gradient)),
        distance=_distance(problem, here, near.theta),
        eigenvalues=curved.smallest,
        largest_eigenvalue=curved.largest,
        utility=ways.useful,
        escape_rate=_escape_rate(kind, ways),
        duration=_duration(kind, problem, theta, near, ways, matters)
        if left is None or not kind.is_saddle
        else left,
        direction=ways.direction if kind.is_saddle else None,
    )


class _WaysOut(NamedTuple):
    """How a point can be left."""

    strict: bool
    """Along negative curvature."""
    rate: float
    useful: float
    """Utility of a new unit, as a part of what the first one had; NaN where there is no such thing."""
    utility: float
    direction: Float[np.ndarray, "..."] | None


def _ways_out(
    problem: Problem, near: CriticalPoint, curved: Curvatures, origin: Origin
) -> _WaysOut:
    new = best_new_unit(problem, near.theta) if near.spare.any() else NewUnit(math.nan, None)
    # where not even the first unit has utility, it does not tell saddles from minima
    tells = origin.utility > _FAINT * abs(origin.loss)
    useful = new.utility / origin.utility if tells else math.nan
    curvature, by_new = -float(curved.smallest[0]), 0.0
    least = _least(problem, near, curved)
    if not near.rests and near.spare.any():  # the curvature of units that move says nothing
        residual = compiled.residual(problem, near.theta)
        curvature = float(growth_rates(problem, near.theta, residual)[near.spare].max())
        least = _GROWS * np.nanmax([curved.largest, origin.utility, _GROWS * abs(origin.loss)])
    zeros = near.spare & ~np.any(np.asarray(near.theta), axis=1)
    if problem.degree == 2 and useful > _USEFUL and zeros.any():
        by_new = problem.degree * new.utility  # a unit of zeros may take any direction
    strict = max(curvature, by_new) > least
    along = curved.direction if strict and curvature >= (1 - _GROWS) * by_new else new.theta
    return _WaysOut(strict, max(curvature, by_new), useful, new.utility, along)


def _least(problem: Problem, near: CriticalPoint, curved: Curvatures) -> float:
    r"""Negative curvature that is there for certain: beyond rounding, and what units not quite at rest feel.

    Along a symmetry :math:`e^{tA}\theta` the loss is constant, so :math:`H A\theta = -A^\top g`: a slope g
    that is left curves it by up to :math:`|g_i|/|\theta_i|` for unit i. At a fixed point there is rounding
    alone: a Rayleigh quotient is never below the smallest eigenvalue.
    """
    slope = np.asarray(compiled.loss_and_gradient(problem, near.theta)[1])
    rows = problem.width if problem.units.additive else 1
    force, size = (
        np.linalg.norm(part.reshape(rows, -1), axis=1) for part in (slope, np.asarray(near.theta))
    )
    # what drives a tiny unit, or one that is left over, is its growth
    large = size > max(_TINY * size.max(), 10 * SHRUNK)
    if problem.units.additive:
        large &= ~near.spare
    unrest = float(np.max(force[large] / size[large], initial=0.0))
    scale = max(curved.largest, float(np.abs(curved.smallest).max()))
    return _SLOPES * max(unrest, _of_tiny_units(problem, near)) + _ROUNDING * scale


def _of_tiny_units(problem: Problem, near: CriticalPoint) -> float:
    """Curvature that is there because units that are left over are tiny and not zero, above order 2."""
    if problem.degree <= 2 or not near.spare.any():
        return 0.0
    residual = compiled.residual(problem, near.theta)
    return float(growth_rates(problem, near.theta, residual)[near.spare].max())


def _kind(
    problem: Problem,
    near: CriticalPoint,
    ways: _WaysOut,
    falling: float,
    matters: float,
    origin: Origin,
) -> PointKind:
    if not near.rests:
        slow = falling < _SLOWLY * matters * ways.rate
        leaves = ways.strict or ways.useful > _USEFUL
        return PointKind.NEAR_SADDLE if leaves and (near.settled or slow) else PointKind.NOT_FIXED
    if ways.strict:
        return PointKind.STRICT_SADDLE
    if ways.useful > _USEFUL and problem.degree > 2:
        return PointKind.DEGENERATE_SADDLE
    if math.isnan(ways.useful) and falls_when_kicked(problem, near.theta, origin.loss):
        return PointKind.DEGENERATE_SADDLE
    return PointKind.NO_MINIMUM if falls_for_ever(problem, near.theta) else PointKind.MINIMUM


def _escape_rate(kind: PointKind, ways: _WaysOut) -> float:
    if kind is PointKind.NOT_FIXED:
        return math.nan
    return ways.rate if kind.is_saddle and ways.strict else 0.0


def _duration(
    kind: PointKind,
    problem: Problem,
    theta: Float[np.ndarray, "width size"],
    near: CriticalPoint,
    ways: _WaysOut,
    matters: float,
) -> float:
    if kind is PointKind.NOT_FIXED:
        return math.nan
    if kind in (PointKind.MINIMUM, PointKind.NO_MINIMUM) or near.force < _ROUNDING:
        return math.inf
    horizon = _horizon(problem, theta, near, ways)
    left = time_left(problem, theta, horizon, MATTERS * matters)
    # one that leaves, and for which no stage that matters is predicted: nobody knows
    return math.nan if ways.strict and math.isinf(left) else left


def _horizon(
    problem: Problem,
    theta: Float[np.ndarray, "width size"],
    near: CriticalPoint,
    ways: _WaysOut,
) -> float:
    """By when the largest of the units that are left over should have grown."""
    size = float(np.linalg.norm(theta[near.spare], axis=1).max(initial=_UNKNOWN))
    if ways.strict:
        return (1 - math.log(min(size, 0.5))) / ways.rate
    if ways.utility > 0:
        return float(waiting_time(size, ways.utility, problem.degree))
    return math.inf


def _scale(problem: Problem, loss: float, origin: Origin) -> float:
    """The smaller of what has been learned and what is left, neither taken for less than a part of all."""
    floor = float(problem.task.floor)
    everything = max(abs(origin.loss) - floor, 1e-300)
    learned = max(abs(origin.loss - loss), _LEARNED * everything)
    return min(learned, max(loss - floor, _LEFT * everything))


def _distance(problem: Problem, theta: Array, point: Array) -> float:
    """Distance of two networks in function space, relative to the first."""
    one, other = (compiled.function(problem, place) for place in (theta, point))
    length = float(compiled.length(problem.task, one))
    return float(compiled.length(problem.task, one - other)) / length if length else 0.0


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

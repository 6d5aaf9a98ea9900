"""Effective width: how many units a hidden layer really uses.

The smallest number of units that is found to give the same function, when units that are zero are dropped and
those that are equal, proportional or linearly dependent (as far as the activation admits) are merged. Weights
that the activation cannot tell apart are equal: (u, v) and (-u, -v) of tanh, u and -u, u and 2u of a square.
The same means: as close in function space as matters for the loss. A part of the function matters if it
is worth more than 5% of the smaller of two drops of the loss, the one before and the one to come. Within
a trajectory these are known; for a network alone they are taken as what has been learned and what is
left to learn. So the tolerance comes from the data and from how far the network is.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from saddlewalk.diagnose.manifolds import (
    Merged,
    Symmetry,
    contributions,
    merge,
    padded,
    symmetry_of,
)
from saddlewalk.diagnose.moments import spread
from saddlewalk.diagnose.patience import go_on
from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.landscape.hidden import hidden_layers
from saddlewalk.landscape.where import Anywhere
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem, compiled, network_at
from saddlewalk.problem.where import run_of
from saddlewalk.show import text
from saddlewalk.store import AbstractResult
from saddlewalk.units import Layer, Relation

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from saddlewalk.flow import Trajectory

MATTERS = 0.05
"""Part of a drop of the loss below which a part of the function does not count."""
RESOLVED = 1e-4
"""Part of what has been learned that counts in any case (1% of the function)."""
_DROPPED = 0.25
"""Part of the tolerance that dropped units may take; the rest is for what is merged."""
NOTHING = 1e-3
"""A network that has learned less than this part of the loss has width 0."""


Enough = Callable[..., bool]


@dataclass(frozen=True, eq=False)
class EffectiveWidth(AbstractResult):
    """How many units a hidden layer uses, and by which relation the others are superfluous."""

    result_kind: ClassVar[str] = "effective width"

    layer: str
    width: int
    relation: Relation | None
    """The relation with the smallest width; `None` if the network has learned nothing yet."""
    by_relation: dict[str, int]
    actual: int
    tolerance: float
    """Loss below which a part of the function does not count."""
    units: Layer = field(repr=False)
    """The narrower layer with nearly the same function."""
    members: tuple[tuple[int, ...], ...] = field(repr=False, default=())
    """Which units of the layer each of the narrower one stands for; of dependent ones, all together."""

    @property
    def others(self) -> str:
        """What the units are that are not used, in a word; a dash if there are none."""
        return "-" if self.relation is None or self.width == self.actual else str(self.relation)

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "layer": self.layer,
            "width": self.width,
            "relation": None if self.relation is None else str(self.relation),
            "by_relation": self.by_relation,
            "actual": self.actual,
            "tolerance": self.tolerance,
            "members": [list(some) for some in self.members],
        }

    def to_xarray(self) -> "xr.Dataset":
        """The weights of the narrower layer; the numbers in the attributes."""
        import xarray as xr

        weights = {
            "incoming": (("narrow_unit", "weight_in"), np.asarray(self.units.incoming)),
            "outgoing": (("narrow_unit", "weight_out"), np.asarray(self.units.outgoing)),
        }
        return xr.Dataset(weights, attrs={"record": json.dumps(self.to_json())})

    @classmethod
    def from_xarray(cls, data: "xr.Dataset") -> "EffectiveWidth":
        """The result behind its labeled data."""
        record = json.loads(data.attrs["record"])
        relation = record.pop("relation")
        record["members"] = tuple(map(tuple, record.get("members", ())))
        layer = Layer(data["incoming"].values, data["outgoing"].values)
        return cls(**record, relation=None if relation is None else Relation(relation), units=layer)

    def plot(
        self, target: "str | Path | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "Axes":
        """The units that are left by each relation; a path saves the picture, an axis draws into it.

        Parameters
        ----------
        target : a file, axes of one's own, or nothing.
        ax : axes of one's own, by the name that other libraries have for them.
        """
        from saddlewalk.show import draw

        with draw.canvas(ax or target) as axes:
            counts = self.by_relation or {"nothing learned": 0}
            axes.bar(list(counts), list(counts.values()), color=draw.OBSERVED, width=0.6)
            axes.axhline(self.actual, color="0.5", linestyle="--", label="units there are")
            axes.set_ylabel("units that are left")
            axes.set_title(f"{self.layer}: {self.width} of {self.actual} units are used")
            axes.legend()
        return axes

    def parts(self) -> tuple[text.Table | str, ...]:
        """How many units are left by each relation."""
        if self.relation is None:
            title = f"{self.layer}: nothing learned, {self.actual} units"
        else:
            title = f"{self.layer}: {self.width} of {self.actual} units"
        left = [[name, str(count)] for name, count in self.by_relation.items()]
        rows = [*left, ["there are", str(self.actual)]]
        return (text.Table(title, ["merged as", "units left"], rows),)


def effective_width(
    where: Anywhere,
    weights: Any = None,
    *,
    at: int = -1,
    layer: str | None = None,
    tolerance: float | None = None,
) -> EffectiveWidth:
    """How many units of a hidden layer the network really uses.

    Parameters
    ----------
    where : a run, a problem, or the landscape of any network.
    weights : parameters `(width, size)` with a problem, and only then; of a landscape another state than its
        present one.
    at : number of the saved moment of a run; the last by default.
    layer : the hidden layer; the first by default.
    tolerance : loss below which a part of the function does not count; by default taken from the data.
    """
    if tolerance is not None and not tolerance >= 0:
        raise InputError(f"The tolerance is a loss, and not negative; got {tolerance}.")
    if isinstance(where, AbstractLandscape):
        from saddlewalk.diagnose.landscapes.width import width_of_layer

        return width_of_layer(where, where.weights_at(weights, at), layer, tolerance)
    problem, theta = network_at(where, weights, at)
    return width_of(problem, theta, layer, tolerance)


def effective_widths(
    where: Anywhere, weights: Any = None, *, at: int = -1, tolerance: float | None = None
) -> dict[str, EffectiveWidth]:
    """How many units each hidden layer of the network really uses, by the name of the layer.

    Parameters
    ----------
    where : a run, a problem, or the landscape of any network.
    weights : parameters `(width, size)` with a problem, and only then; of a landscape another state than its
        present one.
    at : number of the saved moment of a run; the last by default.
    tolerance : loss below which a part of the function does not count; by default taken from the data.
    """
    if isinstance(where, AbstractLandscape):
        layers: Iterable[str] = [one.name for one in hidden_layers(where)]
    else:
        layers = network_at(where, weights, at)[0].units.hidden
    return {
        name: effective_width(where, weights, at=at, layer=name, tolerance=tolerance)
        for name in layers
    }


@in_float64
def width_of(
    problem: Problem,
    theta: Float[np.ndarray, "width size"],
    layer: str | None = None,
    tolerance: float | None = None,
) -> EffectiveWidth:
    """The same for parameters that were checked.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    layer : name of the hidden layer; the first by default.
    tolerance : change of the loss that does not count, as in `effective_width`.
    """
    name = problem.layer_named(layer)
    units = problem.take(theta, layer)
    whole = compiled.function(problem, jnp.asarray(theta))
    empty = float(problem.cost(0 * whole))
    loss, learned = float(problem.cost(whole)), _worth(problem, whole)
    floor = float(problem.task.floor)
    if tolerance is None:
        tolerance = max(MATTERS * min(learned, loss - floor), RESOLVED * learned)
    if learned <= NOTHING * (empty - floor):
        none = Layer(np.asarray(units.incoming)[:0], np.asarray(units.outgoing)[:0])
        return EffectiveWidth(name, 0, None, {}, units.width, tolerance, none)

    def enough(some: Layer, part: float = 1.0) -> bool:
        """Whether these units in place of all give the same function, but for what does not count."""
        go_on("looking which units are used")
        other = problem.put(theta, padded(some, units.width), layer)
        lost = _worth(problem, compiled.function(problem, jnp.asarray(other)) - whole)
        return lost <= part * tolerance

    sizes = contributions(problem, theta, layer=layer)
    symmetry = symmetry_of(problem, layer)
    return fewest(name, units, problem.relations(layer), sizes, enough, symmetry, tolerance)


def fewest(
    name: str,
    units: Layer,
    relations: Iterable[Relation],
    sizes: np.ndarray,
    enough: Enough,
    symmetry: Symmetry,
    tolerance: float,
) -> EffectiveWidth:
    """The relation by which the fewest units of a layer are left.

    Parameters
    ----------
    name : of the layer.
    units : all units of it.
    relations : what may make a unit superfluous.
    sizes : how much each unit does.
    enough : whether some units in place of all (and a part of the tolerance) give the same function.
    symmetry : what of their incoming weights their answers do not tell.
    tolerance : loss below which a part of the function does not count.
    """
    found = {
        relation: narrowest(units, relation, sizes, enough, symmetry) for relation in relations
    }
    counts = {relation: merged.units.width for relation, merged in found.items()}
    best = min(reversed(counts), key=counts.__getitem__)  # of equals, the widest
    return EffectiveWidth(
        layer=name,
        width=counts[best],
        relation=best,
        by_relation={str(relation): count for relation, count in counts.items()},
        actual=units.width,
        tolerance=tolerance,
        units=found[best].units,
        members=tuple(tuple(map(int, some)) for some in found[best].members),
    )


def units_in_use(
    problem: Problem, theta: Float[np.ndarray, "width size"], tolerance: float
) -> Bool[np.ndarray, " width"]:
    """The fewest units of a sum whose others together do not count.

    Parameters
    ----------
    problem, theta : the network.
    tolerance : loss below which a part of the function does not count.
    """
    order = np.argsort(contributions(problem, theta))
    low, high = 0, len(order)  # units that may be left out; too many
    while high - low > 1:
        middle = (low + high) // 2
        without = np.zeros_like(theta)
        without[order[:middle]] = theta[order[:middle]]
        lost = _worth(problem, compiled.function(problem, jnp.asarray(without)))
        low, high = (middle, high) if lost <= tolerance else (low, middle)
    used = np.ones(len(order), dtype=bool)
    used[order[:low]] = False
    return used


def widths_along(
    path: "Trajectory",
    problem: Problem | None = None,
    *,
    layer: str | None = None,
    moments: int = 60,
) -> tuple[Float[np.ndarray, " moments"], Int[np.ndarray, " moments"]]:
    """Times of a run, evenly among the saved ones, and the effective width of a hidden layer there.

    Parameters
    ----------
    path : the run.
    problem : units, data and loss; by default those of the run.
    layer : the hidden layer; the first by default.
    moments : at how many saved moments to look, at most.
    """
    if moments < 1:
        raise InputError(f"The number of moments must be at least 1; got {moments}.")
    run = run_of(path, problem)
    saved = run.data["saved"].values
    rows = spread(len(saved), moments)
    found = [effective_width(run, at=int(row), layer=layer).width for row in rows]
    return saved[rows], np.array(found)


def narrowest(
    units: Layer, relation: Relation, sizes: np.ndarray, enough: Enough, symmetry: Symmetry
) -> Merged:
    """The fewest units to which one relation merges a layer; those that do nothing are dropped, first
    and last.

    Parameters
    ----------
    units : all units of the layer.
    relation : what makes a unit superfluous.
    sizes : how much each unit does.
    enough : whether some units in place of all give the same function.
    symmetry : what of their incoming weights their answers do not tell.
    """
    if relation in (Relation.ZERO, Relation.DEPENDENT):
        return _first(lambda h: merge(units, relation, h, sizes), units.width, enough)
    sparing = lambda some: enough(some, _DROPPED)  # noqa: E731
    few = _first(lambda h: merge(units, Relation.ZERO, h, sizes), units.width, sparing).units.width
    large = np.argsort(-sizes)[:few]
    kept = Layer(np.asarray(units.incoming)[large], np.asarray(units.outgoing)[large])
    merged, groups = _first(lambda h: merge(kept, relation, h, sizes[large], symmetry), few, enough)
    # merged units may cancel
    strength = np.linalg.norm(merged.outgoing, axis=1) * np.linalg.norm(merged.incoming, axis=1)
    last, left = _first(lambda h: merge(merged, Relation.ZERO, h, strength), merged.width, enough)
    return Merged(last, tuple(large[groups[int(one[0])]] for one in left))


def _first(make: Callable[[int], Merged], largest: int, enough: Enough) -> Merged:
    """The smallest layer that is enough: from 1 up by doubling, then by bisection."""
    low, high = 0, 1
    while high < largest and not enough(make(high).units):
        low, high = high, 2 * high
    high = min(high, largest)
    while high - low > 1:
        middle = (low + high) // 2
        if enough(make(middle).units):
            high = middle
        else:
            low = middle
    return make(high)


def _worth(problem: Problem, function: Array) -> float:
    """Half the squared length of a function: what it is worth in the units of the squared loss."""
    return 0.5 * float(compiled.length(problem.task, function)) ** 2

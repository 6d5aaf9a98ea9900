"""Effective width: how many units a hidden layer really uses.

The smallest number of units that is found to give the same function, when units that are zero are dropped and
those that are equal, proportional or linearly dependent (as far as the activation admits) are merged.
The same means: as close in function space as matters for the loss. A part of the function matters if it
is worth more than 5% of the smaller of two drops of the loss, the one before and the one to come. Within
a trajectory these are known; for a network alone they are taken as what has been learned and what is
left to learn. So the tolerance comes from the data and from how far the network is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from saddlewalk.diagnose.manifolds import contributions, merge, padded
from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.problem import ParametersLike, Problem
from saddlewalk.units import Layer, Relation

if TYPE_CHECKING:
    from saddlewalk.flow import Trajectory

_SHARE = 0.05
"""Part of a drop of the loss below which a part of the function does not count."""
_RESOLVED = 1e-4
"""Part of what has been learned that counts in any case (1% of the function)."""
_DROPPED = 0.25
"""Part of the tolerance that dropped units may take; the rest is for what is merged."""
_NOTHING = 1e-3
"""A network that has learned less than this part of the loss has width 0."""


Enough = Callable[..., bool]


@dataclass(frozen=True)
class EffectiveWidth:
    """How many units a hidden layer uses, and by which relation the others are superfluous."""

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

    def __str__(self) -> str:
        if self.relation is None:
            return f"{self.layer}: nothing learned, {self.actual} units"
        others = ", ".join(f"{name} {count}" for name, count in self.by_relation.items())
        return f"{self.layer}: {self.width} of {self.actual} units (merged as {others})"


@in_float64
def effective_width(
    problem: Problem,
    theta: ParametersLike,
    layer: str | None = None,
    *,
    tolerance: float | None = None,
) -> EffectiveWidth:
    """How many units of a hidden layer (the first by default) the network really uses.

    `tolerance` is the loss below which a part of the function does not count; by default it is taken
    from the data.
    """
    name = problem.layer_named(layer)
    units = problem.take(theta, layer)
    if np.shape(theta)[0] != problem.width:
        raise InputError(f"The network has {problem.width} units; got {np.shape(theta)[0]}.")
    whole = _function(problem, jnp.asarray(theta))
    empty = float(problem.cost(0 * whole))
    loss, learned = float(problem.cost(whole)), _worth(problem, whole)
    floor = float(getattr(problem.task, "offset", 0.0))
    if tolerance is None:
        tolerance = max(_SHARE * min(learned, loss - floor), _RESOLVED * learned)
    if learned <= _NOTHING * (empty - floor):
        none = Layer(np.asarray(units.incoming)[:0], np.asarray(units.outgoing)[:0])
        return EffectiveWidth(name, 0, None, {}, units.width, tolerance, none)

    def enough(some: Layer, part: float = 1.0) -> bool:
        """Whether these units in place of all give the same function, but for what does not count."""
        other = problem.put(theta, padded(some, units.width), layer)
        lost = _worth(problem, _function(problem, jnp.asarray(other)) - whole)
        return lost <= part * tolerance

    sizes, admitted = (
        contributions(problem, theta, layer),
        problem.relations(layer),
    )
    found = {relation: _narrowest(units, relation, sizes, enough) for relation in admitted}
    best = min(reversed(found), key=lambda relation: found[relation].width)  # of equals, the widest
    counts = {str(relation): merged.width for relation, merged in found.items()}
    return EffectiveWidth(
        name, found[best].width, best, counts, units.width, tolerance, found[best]
    )


def widths_along(
    path: "Trajectory", problem: Problem, layer: str | None = None, moments: int = 60
) -> tuple[Float[np.ndarray, " moments"], Int[np.ndarray, " moments"]]:
    """Times of a run, evenly among the saved ones, and the effective width of a hidden layer there."""
    saved = path.data["saved"].values
    rows = np.unique(np.linspace(0, len(saved) - 1, moments).astype(int))
    found = [effective_width(problem, path.parameters[row], layer).width for row in rows]
    return saved[rows], np.array(found)


def _narrowest(units: Layer, relation: Relation, sizes: np.ndarray, enough: Enough) -> Layer:
    """The fewest units to which one relation merges a layer; those that do nothing are dropped, first
    and last."""
    if relation in (Relation.ZERO, Relation.DEPENDENT):
        return _first(lambda h: merge(units, relation, h, sizes), units.width, enough)
    sparing = lambda some: enough(some, _DROPPED)  # noqa: E731
    few = _first(lambda h: merge(units, Relation.ZERO, h, sizes), units.width, sparing).width
    large = np.argsort(-sizes)[:few]
    kept = Layer(np.asarray(units.incoming)[large], np.asarray(units.outgoing)[large])
    merged = _first(lambda h: merge(kept, relation, h, sizes[large]), kept.width, enough)
    # merged units may cancel
    strength = np.linalg.norm(merged.outgoing, axis=1) * np.linalg.norm(merged.incoming, axis=1)
    return _first(lambda h: merge(merged, Relation.ZERO, h, strength), merged.width, enough)


def _first(make: Callable[[int], Layer], largest: int, enough: Enough) -> Layer:
    """The smallest layer that is enough: from 1 up by doubling, then by bisection."""
    low, high = 0, 1
    while high < largest and not enough(make(high)):
        low, high = high, 2 * high
    high = min(high, largest)
    while high - low > 1:
        middle = (low + high) // 2
        if enough(make(middle)):
            high = middle
        else:
            low = middle
    return make(high)


def _worth(problem: Problem, function: Array) -> float:
    """Half the squared length of a function: what it is worth in the units of the squared loss."""
    return 0.5 * float(problem.task.length(function)) ** 2


_function = eqx.filter_jit(lambda problem, theta: problem.function(theta))

r"""Invariant manifolds: weights with which a network is narrower than it looks (Theorem 3, F.3, F.4).

Gradient flow keeps units equal, zero, proportional (phi of degree 1) or linearly dependent (phi linear)
once they are. On such a manifold the function is that of a network with fewer units.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist, pdist, squareform

from saddlewalk.diagnose.patience import go_on
from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.problem import ParametersLike, Problem, compiled, network_at
from saddlewalk.problem.where import Where
from saddlewalk.units import Layer, Relation

Matrix = Float[np.ndarray, "width size"]


def manifold_distance(units: Layer, relation: Relation | str, width: int) -> float:
    """Distance of a layer's weights to the manifold of an effective width, relative to their norm.

    Exact for zero and dependent units; for equal and proportional ones the distance to the best
    grouping that hierarchical clustering finds.

    Parameters
    ----------
    units : a hidden layer, as `problem.take(theta, layer)` gives it.
    relation : what makes units superfluous there: equal, zero, proportional or dependent.
    width : how many units are left on the manifold.
    """
    theta = units.theta
    whole = float(np.linalg.norm(theta))
    if not width >= 0:
        raise InputError(f"An effective width is not negative; got {width}.")
    if width >= len(theta) or whole == 0:
        return 0.0
    match Relation(relation):
        case Relation.ZERO:
            left = np.sort(np.linalg.norm(theta, axis=1))[: len(theta) - width]
        case Relation.DEPENDENT:
            left = np.linalg.svd(theta, compute_uv=False)[width:]
        case _ if width == 0:
            return 1.0
        case Relation.EQUAL:
            groups = [theta[g] for g in group(theta, width)]
            left = np.array([np.linalg.norm(one - one.mean(axis=0)) for one in groups])
        case Relation.PROPORTIONAL:
            theta = theta[np.any(theta != 0, axis=1)]  # zero is proportional to anything
            groups = [theta[g] for g in group(_directions(theta), width)]
            left = np.concatenate([np.linalg.svd(one, compute_uv=False)[1:] for one in groups])
    return float(np.linalg.norm(left)) / whole


@in_float64
def reduce(
    where: Where,
    weights: Any = None,
    *,
    relation: Relation | str,
    width: int,
    at: int = -1,
    layer: str | None = None,
) -> tuple[Problem, np.ndarray]:
    """The network with a hidden layer merged to fewer units: the narrower problem and its parameters.

    Near a manifold of this effective width the function is nearly the same; on it, the same.

    Parameters
    ----------
    where : a run, or a problem.
    weights : parameters `(width, size)`; with a problem, and only then.
    relation : what the units that are merged are: equal, zero, proportional or dependent.
    width : how many units to keep.
    at : number of the saved moment of a run; the last by default.
    layer : the hidden layer; the first by default.
    """
    problem, theta = network_at(where, weights, at)
    admitted = problem.relations(layer)
    if relation not in admitted:
        raise InputError(
            f"These units cannot be merged as {relation}; they admit: {', '.join(admitted)}."
        )
    kind = Relation(relation)
    units = problem.take(theta, layer)
    if not 1 <= width <= units.width:
        raise InputError(f"A layer of {units.width} units cannot be reduced to {width}.")
    sizes = contributions(problem, theta, layer=layer)
    merged = merge(units, kind, width, sizes, symmetry_of(problem, layer)).units
    return problem.resized(width, layer), problem.put(theta, merged, layer)


class Merged(NamedTuple):
    """Fewer units in place of many."""

    units: Layer
    members: tuple[np.ndarray, ...]
    """Which of the many each of the few stands for; dependent units stand for all together."""


class Symmetry(NamedTuple):
    """Which multiples of its incoming weights give a unit the same answer, but for a factor."""

    parity: int = 0
    """1 if the answer is even, -1 if it is odd, 0 if neither."""
    degree: int | None = None

    def factor(self, multiple: np.ndarray) -> np.ndarray:
        """The factor of the answer for a multiple of the incoming weights."""
        size = 1.0 if self.degree is None else np.abs(multiple) ** self.degree
        return size * np.where(multiple < 0, self.parity, 1)

    def in_pairs(self, relation: Relation | None) -> bool:
        """Whether opposite incoming weights make no difference; proportional are positive multiples only."""
        return self.parity != 0 and relation is Relation.EQUAL

    def on_rays(self, relation: Relation | None) -> bool:
        """Whether the length of the incoming weights makes no difference. Of units of degree 1 that is said
        of proportional ones, which stay so; of others, equal is what the answer cannot tell apart."""
        return relation is Relation.PROPORTIONAL or (self.degree or 0) > 1


def symmetry_of(problem: Problem, layer: str | None = None) -> Symmetry:
    """The symmetry of the units of a hidden layer.

    Parameters
    ----------
    problem : units, data and loss.
    layer : name of the hidden layer; the first by default.
    """
    return Symmetry(
        problem.traits.parity(problem.layer_named(layer)), problem.incoming_degree(layer)
    )


def merge(
    units: Layer,
    relation: Relation,
    width: int,
    sizes: np.ndarray,
    symmetry: Symmetry = Symmetry(),  # noqa: B008
) -> Merged:
    """At most `width` units in place of all, by one relation; `sizes` say how much each unit does.

    Parameters
    ----------
    units : the units of a hidden layer.
    relation : which units make one superfluous.
    width : number of units that are left.
    sizes : how much each unit does, `(units,)`: the larger count more.
    symmetry : what of their incoming weights their answers do not tell.
    """
    u, v = np.asarray(units.incoming), np.asarray(units.outgoing)
    if relation is Relation.ZERO:
        kept = np.sort(np.argsort(-sizes)[:width])
        return Merged(Layer(u[kept], v[kept]), tuple(kept[:, None]))
    if relation is Relation.DEPENDENT:
        left, values, right = np.linalg.svd(v.T @ u, full_matrices=False)
        root = np.sqrt(values[:width])[:, None]
        rank = len(root)
        mixed = Layer(root * right[:rank], root * left[:, :rank].T)
        return _padded(mixed, (np.arange(len(u)),) * rank, width)
    rays = symmetry.on_rays(relation)
    # a unit without incoming weights lies on any ray
    rows = np.flatnonzero(np.any(u != 0, axis=1)) if rays else np.arange(len(u))
    places = _directions(u) if rays else u
    multiple = np.linalg.norm(u, axis=1) if rays else np.ones(len(u))
    weight = np.maximum(sizes, 1e-300)
    pairs = symmetry.in_pairs(relation)
    groups = [rows[some] for some in group(places[rows], width, pairs)] if len(rows) else []
    merged_u, merged_v = np.zeros((len(groups), u.shape[1])), np.zeros((len(groups), v.shape[1]))
    for k, members in enumerate(groups):
        share = weight[members] / weight[members].sum()
        lead = places[members[np.argmax(share)]]
        sign = np.where(pairs & (places[members] @ lead < 0), -1.0, 1.0)
        center = (share * sign) @ places[members]
        length = np.linalg.norm(center)
        if rays:
            center = center / length if length > 0 else lead
        merged_u[k] = center
        merged_v[k] = symmetry.factor(sign * multiple[members]) @ v[members]
    merged = Layer(merged_u, merged_v)
    evened = balanced(merged) if relation is Relation.PROPORTIONAL else merged
    return _padded(evened, tuple(groups), width)


def balanced(units: Layer) -> Layer:
    """Units of degree 1 with weights in and out of equal norm, as a small start leads to.

    Parameters
    ----------
    units : the units of a hidden layer, of degree 1 in their incoming weights.
    """
    u, v = np.asarray(units.incoming), np.asarray(units.outgoing)
    into, out = (np.linalg.norm(part, axis=1, keepdims=True) for part in (u, v))
    factor = np.sqrt(np.where((into > 0) & (out > 0), out / np.maximum(into, 1e-300), 1.0))
    return Layer(u * factor, v / factor)


def padded(units: Layer, width: int) -> Layer:
    """With units of zeros up to some width.

    Parameters
    ----------
    units : the units of a hidden layer.
    width : number of units in the end; not less than there are.
    """
    more = [(0, width - units.width), (0, 0)]
    return Layer(np.pad(np.asarray(units.incoming), more), np.pad(np.asarray(units.outgoing), more))


def _padded(units: Layer, members: tuple[np.ndarray, ...], width: int) -> Merged:
    """With units of zeros, which stand for none."""
    none = (np.zeros(0, dtype=int),) * (width - units.width)
    return Merged(padded(units, width), (*members, *none))


def group(places: Matrix, groups: int, pairs: bool = False) -> list[np.ndarray]:
    """Points in some number of groups (hierarchical clustering), as lists of indices.

    Parameters
    ----------
    places : the points, `(points, coordinates)`.
    groups : number of groups, at most.
    pairs : take a point and its opposite for one.
    """
    if len(places) <= groups or len(places) == 1:
        return [np.array([k]) for k in range(len(places))]
    if pairs:
        tree = linkage(np.minimum(pdist(places), _sums(places)), method="average")
    else:
        tree = linkage(places, method="ward")
    labels = fcluster(tree, groups, criterion="maxclust")
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def _sums(places: Matrix) -> np.ndarray:
    """Distance of each point from the opposite of each later one, as `pdist` lists them."""
    return squareform(cdist(places, -places), checks=False)


@in_float64
def contributions(
    where: Where, weights: Any = None, *, at: int = -1, layer: str | None = None
) -> Float[np.ndarray, " units"]:
    """How far the function moves, in function space, when each unit of a hidden layer is removed.

    Parameters
    ----------
    where : a run, or a problem.
    weights : parameters `(width, size)`; with a problem, and only then.
    at : number of the saved moment of a run; the last by default.
    layer : the hidden layer; the first by default.
    """
    problem, theta = network_at(where, weights, at)
    if problem.units.additive:
        return np.asarray(compiled.feature_lengths(problem, jnp.asarray(theta)))
    units = problem.take(theta, layer)
    whole = compiled.function(problem, jnp.asarray(theta))
    found = []
    for k in range(units.width):
        go_on("looking how much each unit does")
        without = compiled.function(problem, _without(problem, theta, units, k, layer))
        found.append(float(compiled.length(problem.task, whole - without)))
    return np.array(found)


def _without(
    problem: Problem, theta: ParametersLike, units: Layer, unit: int, layer: str | None
) -> ParametersLike:
    """The network when a unit of a hidden layer says nothing."""
    outgoing = np.array(units.outgoing)
    outgoing[unit] = 0.0
    return jnp.asarray(problem.put(theta, Layer(units.incoming, outgoing), layer))


def _directions(u: Matrix) -> Matrix:
    norm = np.linalg.norm(u, axis=1, keepdims=True)
    return u / np.where(norm > 0, norm, 1.0)

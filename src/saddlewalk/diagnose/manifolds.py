r"""Invariant manifolds: weights with which a network is narrower than it looks (Theorem 3, F.3, F.4).

Gradient flow keeps units equal, zero, proportional (phi of degree 1) or linearly dependent (phi linear)
once they are. On such a manifold the function is that of a network with fewer units.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.cluster.hierarchy import fcluster, linkage

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
    merged = merge(units, kind, width, contributions(problem, theta, layer=layer))
    return problem.resized(width, layer), problem.put(theta, merged, layer)


def merge(units: Layer, relation: Relation, width: int, sizes: np.ndarray) -> Layer:
    """At most `width` units in place of all, by one relation; `sizes` say how much each unit does.

    Parameters
    ----------
    units : the units of a hidden layer.
    relation : which units make one superfluous.
    width : number of units that are left.
    sizes : how much each unit does, `(units,)`: the larger count more.
    """
    u, v = np.asarray(units.incoming), np.asarray(units.outgoing)
    if relation is Relation.ZERO:
        kept = np.sort(np.argsort(-sizes)[:width])
        return Layer(u[kept], v[kept])
    if relation is Relation.DEPENDENT:
        left, values, right = np.linalg.svd(v.T @ u, full_matrices=False)
        root = np.sqrt(values[:width])[:, None]
        rank = len(root)
        merged = Layer(root * right[:rank], root * left[:, :rank].T)
        return padded(merged, width)
    proportional = relation is Relation.PROPORTIONAL
    if proportional:  # a unit without incoming weights belongs to any group
        some = np.any(u != 0, axis=1)
        u, v, sizes = u[some], v[some], sizes[some]
        if not len(u):
            return padded(Layer(u, v), width)
    norm = np.linalg.norm(u, axis=1, keepdims=True)
    places = _directions(u) if proportional else u
    gain = norm if proportional else np.ones_like(norm)
    weight = np.maximum(sizes, 1e-300)
    merged_u, merged_v = [], []
    for members in group(places, width):
        share = weight[members] / weight[members].sum()
        center = share @ places[members]
        length = np.linalg.norm(center)
        if proportional:
            center = center / length if length > 0 else places[members[np.argmax(share)]]
        merged_u.append(center)
        merged_v.append(np.sum(gain[members] * v[members], axis=0))
    merged = Layer(np.stack(merged_u), np.stack(merged_v))
    return padded(balanced(merged) if proportional else merged, width)


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


def group(places: Matrix, groups: int) -> list[np.ndarray]:
    """Points in some number of groups (Ward's hierarchical clustering), as lists of indices.

    Parameters
    ----------
    places : the points, `(points, coordinates)`.
    groups : number of groups, at most.
    """
    if len(places) <= groups or len(places) == 1:
        return [np.array([k]) for k in range(len(places))]
    labels = fcluster(linkage(places, method="ward"), groups, criterion="maxclust")
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


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
    if problem.units.exchangeable:
        return np.asarray(compiled.feature_lengths(problem, jnp.asarray(theta)))
    units = problem.take(theta, layer)
    whole = compiled.function(problem, jnp.asarray(theta))
    found = []
    for k in range(units.width):
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

"""The critical point beside a network: its gradient vanishes, and the units that it does not use are zero.

A network without a gradient is its own critical point. One on a plateau is near a critical point, not on it.
It is reduced to the units that it really uses, and this narrow network is moved to where its gradient
vanishes. By Theorem 1 the narrow fixed point is one of the wide network, in which each unit keeps its share
of what it was merged into, and the units that do nothing are zero.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool
from scipy.optimize import least_squares, minimize

from saddlewalk.diagnose.curvature import SHRUNK, steepness
from saddlewalk.diagnose.manifolds import Symmetry, symmetry_of
from saddlewalk.diagnose.patience import go_on
from saddlewalk.diagnose.width import MATTERS, EffectiveWidth, units_in_use, width_of
from saddlewalk.problem import Problem, compiled
from saddlewalk.units import Layer, Relation

_EXACT = 1e-7
"""Force on a unit, as a part of what it would feel in another place, that counts as none."""
_DENSE = 500
"""Parameters of a narrow network up to which a saddle of its own is looked for with a dense Hessian."""
_STILL, _SLOW = 1e-7, 3e-4
"""A relative gradient below the first is none, below the second as good as none."""
_KICK = 1e-2
_FALLEN = 1e-2
"""Part of the loss by which a descent from beside a point must lower it."""


class Origin(NamedTuple):
    """A network that says nothing: what there is to learn. The same for all moments of a run."""

    loss: float
    utility: float
    """Of the best first unit; NaN if there is no such thing."""


class CriticalPoint(NamedTuple):
    """A point of zero gradient beside a network."""

    theta: Array
    """Parameters, each unit in its own row."""
    rests: bool
    """Whether the network rests there: the gradient vanishes, and the loss is hardly another one."""
    settled: bool
    """Whether at least the loss does not fall any more while the units that are left over stay zero."""
    spare: Bool[np.ndarray, " width"]
    """Units that are zero there, and feel it."""
    force: float
    """On the network as it is, as a part of what it would feel in another place."""


class _Network(NamedTuple):
    problem: Problem
    theta: np.ndarray


class _Merge(NamedTuple):
    """A hidden layer of a network, and the fewer units that were put in its place."""

    wide: _Network
    found: EffectiveWidth


def critical_point(
    problem: Problem,
    theta: Array,
    *,
    scale: float,
    origin: Origin,
    widths: Sequence[EffectiveWidth] = (),
) -> CriticalPoint:
    """The critical point beside a network.

    Parameters
    ----------
    problem, theta : the network.
    scale : a change of the loss that matters.
    origin : the network that says nothing.
    widths : effective widths of this network that are known already.
    """
    force = _force(problem, theta, origin)
    start = np.asarray(theta)
    if force < _EXACT:
        return CriticalPoint(theta, True, True, ~np.any(start, axis=1), force)
    found = _reduced(_Network(problem, start), MATTERS * scale, widths)
    if found is None:  # nothing learned: the origin
        point, used, still, settled = 0 * start, np.zeros(len(start), dtype=bool), True, True
    elif found[1] or not problem.units.additive:
        narrow, merges = found
        moved, still, settled = _refined(narrow, scale, origin.loss)
        point, used = _unmerged(narrow, moved, merges)
    else:  # units that cannot be exchanged, but can be zero
        used = units_in_use(problem, start, MATTERS * scale)
        zeros = np.where(used[:, None], start, _shrunk(start))
        point, still, settled = _refined(_Network(problem, zeros), scale, origin.loss, used)
    feels = _feels(problem, theta)
    if not problem.units.additive:  # its rows are no units
        used = np.ones(len(start), dtype=bool)
    else:  # left over: shrunk, so that kinks stay where they are
        left = np.where(feels[:, None], _shrunk(start), start)
        point = np.where(used[:, None], point, left)
    change = abs(loss_at(problem, jnp.asarray(point)) - loss_at(problem, theta))
    near = bool(change < MATTERS * scale)
    return CriticalPoint(jnp.asarray(point), still and near, settled and near, ~used & feels, force)


def _feels(problem: Problem, theta: Array) -> Bool[np.ndarray, " rows"]:
    """Which rows are not dead: those with a gradient, and units that are heard, which feel nothing where
    their samples happen to be fitted to the last digit."""
    feels = np.any(np.asarray(compiled.loss_and_gradient(problem, theta)[1]) != 0, axis=1)
    if problem.units.additive:
        feels |= np.asarray(compiled.feature_lengths(problem, theta)) > 0
    return feels


def _force(problem: Problem, theta: Array, origin: Origin) -> float:
    """The largest force on a unit, as a part of what it would feel if it were moved by its own length:
    of a large unit by the curvature, of a small one by the utility of the best."""
    slope = np.asarray(compiled.loss_and_gradient(problem, theta)[1])
    if not slope.any():
        return 0.0
    rows = problem.width if problem.units.additive else 1
    force, size = (
        np.linalg.norm(part.reshape(rows, -1), axis=1) for part in (slope, np.asarray(theta))
    )
    elsewhere = steepness(problem, theta) * size
    if origin.utility > 0:
        first = problem.degree * origin.utility * size ** (problem.degree - 1)
        elsewhere = np.minimum(elsewhere, first)
    felt = force > 0
    with np.errstate(divide="ignore"):
        return float(np.max(force[felt] / elsewhere[felt]))


def falls_when_kicked(problem: Problem, point: Array, empty: float) -> bool:
    """Where utility does not decide: whether a descent from beside the point leaves it.

    Parameters
    ----------
    problem : units, data and loss.
    point : parameters `(width, size)` of the point.
    empty : loss of a network that says nothing.
    """
    start, rng = np.asarray(point), np.random.default_rng(0)
    size = max(float(np.linalg.norm(start)), 1.0) / math.sqrt(start.size)
    beside = jnp.asarray(start + _KICK * size * rng.normal(size=start.shape))
    end = loss_at(problem, jnp.asarray(_descended(problem, beside, empty, 300)))
    loss = loss_at(problem, point)
    return bool(loss - end > _FALLEN * max(loss, 1e-6 * empty))


def loss_at(problem: Problem, theta: Array) -> float:
    """The loss, from the program that gives the gradient too: it is compiled in any case.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    return float(compiled.loss_and_gradient(problem, theta)[0])


# --- narrower and wider -----------------------------------------------------------------------------


def _reduced(
    network: _Network, tolerance: float, widths: Sequence[EffectiveWidth]
) -> tuple[_Network, list[_Merge]] | None:
    """The network with each hidden layer merged to the units that it uses, where units may be zero."""
    problem = network.problem
    layers = [name for name in problem.units.hidden if Relation.ZERO in problem.relations(name)]
    # what is known is known of the whole network: it serves for the layer that is merged first
    known = {one.layer: one for one in widths if one.tolerance == tolerance}
    merges: list[_Merge] = []
    for layer in layers:
        found = known.get(layer) if not merges else None
        found = found or width_of(*network, layer, tolerance)
        if found.relation is None:
            return None
        merges.append(_Merge(network, found))
        theta = network.problem.put(network.theta, found.units, layer)
        network = _Network(network.problem.resized(found.width, layer), theta)
    return network, merges


def _unmerged(
    narrow: _Network, point: np.ndarray, merges: list[_Merge]
) -> tuple[np.ndarray, Bool[np.ndarray, " width"]]:
    """A point of the narrow network as one of the wide, and which units of the first layer it uses."""
    problem, used = narrow.problem, np.ones(len(narrow.theta), dtype=bool)
    for wide, found in reversed(merges):
        units = wide.problem.take(wide.theta, found.layer)
        symmetry = symmetry_of(wide.problem, found.layer)
        shared = _shared(units, found, problem.take(point, found.layer), symmetry)
        point = problem.put(point, shared, found.layer)
        problem, used = wide.problem, np.isin(np.arange(units.width), sum(found.members, ()))
    return point, used


def _shared(wide: Layer, found: EffectiveWidth, moved: Layer, symmetry: Symmetry) -> Layer:
    r"""Units :math:`u_i = \sum_k A_{ik} u_k,\ v_i = \sum_k B_{ik} v_k` that answer as the moved ones do: each
    has the part in them that it had in those that it was merged to; the others are zero."""
    into, out = (
        np.asarray(many) @ np.linalg.pinv(np.asarray(few))
        for many, few in zip(wide, found.units, strict=True)
    )
    if found.relation is Relation.DEPENDENT:
        out = out @ np.linalg.pinv(into.T @ out)
    else:
        rays = found.relation is not Relation.ZERO and symmetry.on_rays(found.relation)
        length = np.linalg.norm(wide.incoming, axis=1), np.linalg.norm(moved.incoming, axis=1)
        into, weights = np.zeros_like(out), np.asarray(wide.outgoing)
        for k, some in enumerate(map(list, found.members)):
            turned = np.asarray(wide.incoming)[some] @ np.asarray(found.units.incoming)[k] < 0
            multiple = np.where(turned & symmetry.in_pairs(found.relation), -1.0, 1.0)
            if rays:
                multiple = multiple * length[0][some] / max(length[1][k], 1e-300)
            factor = (
                symmetry.factor(multiple) if rays else np.where(multiple < 0, symmetry.parity, 1)
            )
            part = weights[some] @ np.asarray(found.units.outgoing)[k]
            whole = factor @ part
            into[some, k], out[:, k] = multiple, 0.0
            out[some, k] = part / whole if whole else 1 / (factor * len(some))
    return Layer(into @ moved.incoming, out @ moved.outgoing)


def _shrunk(theta: np.ndarray) -> np.ndarray:
    """Each unit in its direction, as small as the saddle alone is felt."""
    norm = np.linalg.norm(theta, axis=1, keepdims=True)
    return theta * SHRUNK / np.maximum(norm, SHRUNK)


# --- where the gradient vanishes --------------------------------------------------------------------


def _refined(
    network: _Network, scale: float, empty: float, free: np.ndarray | None = None
) -> tuple[np.ndarray, bool, bool]:
    """Where the gradient of a narrow network vanishes, whether it does, and whether the loss rests.

    Gradient flow leads a narrow network to a minimum of its own, which is found by descent. If that
    goes far away, the narrow network may itself be at a saddle, which is found by Gauss-Newton steps.
    Units that are not `free` stay where they are.
    """
    problem, theta = network
    free = np.ones(len(theta), dtype=bool) if free is None else free

    def slope(place: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = compiled.loss_and_gradient(problem, jnp.asarray(place))
        return float(value), np.where(free[:, None], np.asarray(gradient), 0.0)

    loss, gradient = slope(theta)
    if _relative(theta, gradient, empty) < _STILL:
        return theta, True, True
    point = _descended(problem, jnp.asarray(theta), empty, free=free)
    end, gradient = slope(point)
    settled = loss - end < MATTERS * scale
    if settled and _relative(point, gradient, empty) < _SLOW:
        return point, True, True
    if theta.size > _DENSE:
        return point, False, settled
    balanced = _balanced_forces(problem, theta, free)
    still = _relative(balanced, slope(balanced)[1], empty) < _SLOW
    return (balanced, True, True) if still else (point, False, settled)


def _descended(
    problem: Problem, theta: Array, empty: float, most: int = 1000, free: np.ndarray | None = None
) -> np.ndarray:
    """A minimum beside a point, among the places of the units that are free."""
    unit = max(abs(empty), 1e-300)  # the criteria of the method are absolute
    start = np.asarray(theta)
    rows = slice(None) if free is None else np.flatnonzero(free)

    def placed(flat: np.ndarray) -> np.ndarray:
        place = start.copy()
        place[rows] = flat.reshape(-1, start.shape[1])
        return place

    def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        go_on("looking for the fixed point beside the network")
        value, slope = compiled.loss_and_gradient(problem, jnp.asarray(placed(flat)))
        return float(value) / unit, np.asarray(slope)[rows].ravel() / unit

    options = {"maxiter": most, "maxfun": 2 * most, "gtol": 1e-11, "ftol": 1e-16, "maxcor": 30}
    found = minimize(cost, start[rows].ravel(), jac=True, method="L-BFGS-B", options=options)
    return placed(found.x)


def _balanced_forces(problem: Problem, theta: np.ndarray, free: np.ndarray) -> np.ndarray:
    """A point of zero gradient of any kind, by least squares on the gradient."""
    moves = np.repeat(free, theta.shape[1])

    def placed(flat: np.ndarray) -> Array:
        place = theta.ravel().copy()
        place[moves] = flat
        return jnp.asarray(place.reshape(theta.shape))

    found = least_squares(
        lambda f: np.asarray(compiled.loss_and_gradient(problem, placed(f))[1]).ravel()[moves],
        theta.ravel()[moves],
        jac=lambda f: np.asarray(compiled.hessian(problem, placed(f)))[np.ix_(moves, moves)],
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
        max_nfev=200,
    )
    return np.asarray(placed(found.x))


def _relative(theta: np.ndarray, gradient: np.ndarray, empty: float) -> float:
    """Gradient in units of loss over norm, which no rescaling of the data changes."""
    if not gradient.any():
        return 0.0
    size = float(np.linalg.norm(gradient) * np.linalg.norm(theta))
    return size / max(abs(empty), 1e-300)

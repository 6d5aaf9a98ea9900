"""The critical point beside a network: its gradient vanishes, and the units that it does not use are zero.

A network on a plateau is near a critical point, not on it. It is reduced to the units that it really uses,
and this narrow network is moved to where its gradient vanishes. By Theorem 1 the narrow fixed point, with the
units that are left over at zero, is one of the wide network.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.optimize import least_squares, minimize

from saddlewalk.diagnose.curvature import SHRUNK
from saddlewalk.diagnose.manifolds import padded
from saddlewalk.diagnose.width import MATTERS, EffectiveWidth, width_of
from saddlewalk.problem import Problem, compiled
from saddlewalk.units import Layer, Relation

_DENSE = 500
"""Parameters of a narrow network up to which a saddle of its own is looked for with a dense Hessian."""
_STILL, _SLOW = 1e-7, 3e-4
"""A relative gradient below the first is none, below the second as good as none."""
_KICK = 1e-2
_FALLEN = 1e-2
"""Part of the loss by which a descent from beside a point must lower it."""


class CriticalPoint(NamedTuple):
    """A point of zero gradient beside a network."""

    theta: Array
    rests: bool
    """Whether the network rests there: the gradient vanishes, and the loss is hardly another one."""
    spare: bool
    """Whether units are left over."""


def critical_point(
    problem: Problem,
    theta: Array,
    *,
    scale: float,
    empty: float,
    widths: Sequence[EffectiveWidth] = (),
) -> CriticalPoint:
    """The critical point beside a network.

    Parameters
    ----------
    problem, theta : the network.
    scale : a change of the loss that matters.
    empty : loss of the network that says nothing.
    widths : effective widths of this network that are known already.
    """
    reduction = _reduced(problem, np.asarray(theta), MATTERS * scale, widths)
    if reduction is None:  # nothing learned: the origin
        point, still, spare = jnp.asarray(_small(np.asarray(theta), problem)), True, True
    else:
        narrow, small, layers = reduction
        refined, still = _refined(narrow, jnp.asarray(small), scale, empty)
        point, spare = _widened(problem, theta, narrow, np.asarray(refined), layers)
    change = abs(loss_at(problem, point) - loss_at(problem, theta))
    return CriticalPoint(point, bool(still and change < MATTERS * scale), spare)


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
    end = loss_at(problem, _descended(problem, beside, empty, 300))
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
    problem: Problem, theta: np.ndarray, tolerance: float, widths: Sequence[EffectiveWidth]
) -> tuple[Problem, np.ndarray, list[str]] | None:
    """The network with each hidden layer merged to the units that it uses, where units may be zero."""
    layers = [name for name in problem.units.hidden if Relation.ZERO in problem.relations(name)]
    # what is known is known of the whole network: it serves for the layer that is merged first
    known = {one.layer: one for one in widths if one.tolerance == tolerance}
    for k, layer in enumerate(layers):
        found = known.get(layer) if k == 0 else None
        found = found or width_of(problem, theta, layer, tolerance)
        if found.relation is None:
            return None
        theta = problem.put(theta, found.units, layer)
        problem = problem.resized(found.width, layer)
    return problem, theta, layers


def _widened(
    problem: Problem, theta: Array, narrow: Problem, point: np.ndarray, layers: list[str]
) -> tuple[Array, bool]:
    """The narrow network with the units that are left over, shrunk; and whether there are any."""
    spare = False
    for layer in layers:
        wide, units = problem.take(theta, layer), narrow.take(point, layer)
        spare |= units.width < wide.width
        rest = _left_over(wide, units)
        wider = Layer(
            np.vstack([units.incoming, rest.incoming]),
            np.vstack([units.outgoing, rest.outgoing]),
        )
        point = narrow.put(point, wider, layer)
        narrow = narrow.resized(wide.width, layer)
    return jnp.asarray(point), spare


def _left_over(wide: Layer, units: Layer) -> Layer:
    """The smallest units, shrunk, in place of those that are not used; in a deep network, zeros."""
    count = wide.width - units.width
    if units.theta.shape[1] != wide.theta.shape[1]:  # the layers around are narrower meanwhile
        return padded(Layer(units.incoming[:0], units.outgoing[:0]), count)
    size = np.linalg.norm(wide.theta, axis=1)
    rest = np.argsort(size)[:count]
    factor = (SHRUNK / np.maximum(size[rest], SHRUNK))[:, None]
    return Layer(factor * wide.incoming[rest], factor * wide.outgoing[rest])


def _small(theta: np.ndarray, problem: Problem) -> np.ndarray:
    """The units of a network that has learned nothing, shrunk; a deep one at zero."""
    if not problem.units.exchangeable:
        return 0 * theta
    norm = np.linalg.norm(theta, axis=1, keepdims=True)
    return theta * SHRUNK / np.maximum(norm, SHRUNK)


# --- where the gradient vanishes --------------------------------------------------------------------


def _refined(problem: Problem, theta: Array, scale: float, empty: float) -> tuple[Array, bool]:
    """Where the gradient of a narrow network vanishes, and whether it does.

    Gradient flow leads a narrow network to a minimum of its own, which is found by descent. If that
    goes far away, the narrow network may itself be at a saddle, which is found by Gauss-Newton steps.
    """
    loss, gradient = compiled.loss_and_gradient(problem, theta)
    if _relative(theta, gradient, empty) < _STILL:
        return theta, True
    point = _descended(problem, theta, empty)
    end, slope = compiled.loss_and_gradient(problem, point)
    if float(loss - end) < MATTERS * scale and _relative(point, slope, empty) < _SLOW:
        return point, True
    if theta.size > _DENSE:
        return point, False
    point = _balanced_forces(problem, theta)
    return point, _relative(point, compiled.loss_and_gradient(problem, point)[1], empty) < _SLOW


def _descended(problem: Problem, theta: Array, empty: float, most: int = 1000) -> Array:
    """A minimum beside a point."""
    unit = max(abs(empty), 1e-300)  # the criteria of the method are absolute

    def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = compiled.loss_and_gradient(problem, jnp.asarray(flat).reshape(theta.shape))
        return float(value) / unit, np.asarray(slope).ravel() / unit

    options = {"maxiter": most, "maxfun": 2 * most, "gtol": 1e-11, "ftol": 1e-16, "maxcor": 30}
    flat = np.asarray(theta).ravel()
    found = minimize(cost, flat, jac=True, method="L-BFGS-B", options=options)
    return jnp.asarray(found.x).reshape(theta.shape)


def _balanced_forces(problem: Problem, theta: Array) -> Array:
    """A point of zero gradient of any kind, by least squares on the gradient."""
    place = lambda flat: jnp.asarray(flat).reshape(theta.shape)  # noqa: E731
    found = least_squares(
        lambda flat: np.asarray(compiled.loss_and_gradient(problem, place(flat))[1]).ravel(),
        np.asarray(theta).ravel(),
        jac=lambda flat: np.asarray(compiled.hessian(problem, place(flat))),
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
        max_nfev=200,
    )
    return place(found.x)


def _relative(theta: Array, gradient: Array, empty: float) -> float:
    """Gradient in units of loss over norm, which no rescaling of the data changes."""
    if not gradient.any():
        return 0.0
    size = float(jnp.linalg.norm(gradient) * jnp.linalg.norm(theta))
    return size / max(abs(empty), 1e-300)

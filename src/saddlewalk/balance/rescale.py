r"""Starts of one's choice: the same units with another scale, and another balance of their layers.

:math:`\|v\| \|u\| = \tau^2` and :math:`\delta = \eta_u \|v\|^2 - \eta_v \|u\|^2`, which fix both norms.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.problem import ParametersLike, Problem
from saddlewalk.units import Layer

_PROBES = 8
_SAME = 1e-9


def rescaled(
    problem: Problem,
    theta: ParametersLike,
    *,
    delta: float | None = None,
    alpha: float | None = None,
    tau: float | None = None,
) -> Float[np.ndarray, "width size"]:
    r"""The same units with scale and balance of one's choice; directions stay.

    `delta` and `alpha` do not change the function; `tau` does.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    delta : the conserved quantity of every unit of a two-layer network.
    alpha : instead of delta, the factor by which outgoing weights grow and incoming ones fall (for degree p,
        outgoing ones by its p-th power). In a deep network the readout grows and the first layer falls.
    tau : scale of every unit of a two-layer network, :math:`\|v\| \|u\| = \tau^2`; in a deep network the
        factor by which all layers grow.
    """
    _check(delta, alpha, tau)
    theta = np.asarray(theta, dtype=float)
    if theta.shape != (problem.width, problem.size):
        wanted = (problem.width, problem.size)
        raise InputError(f"The parameters must have shape {wanted}; got {theta.shape}.")
    if not problem.units.additive:
        return _deep(problem, theta, delta, alpha, 1.0 if tau is None else tau)
    if not problem.units.hidden:
        raise InputError("The two layers of these units cannot be rescaled apart.")
    layer = problem.layer_named(None)
    degree = _known_degree(problem, layer)
    units = problem.take(theta, layer)
    u, v = np.asarray(units.incoming), np.asarray(units.outgoing)
    if alpha is not None:
        u, v = u / alpha, v * alpha**degree
        return problem.put(theta, Layer(*_to_product(u, v, tau)), layer)
    if delta is None:
        return problem.put(theta, Layer(*_to_product(u, v, tau)), layer)
    if degree != 1:
        raise InputError(
            "delta can be set for units of degree 1 in their incoming weights; use alpha."
        )
    u, v = _to_product(u, v, tau)
    eta_u, eta_v = _uniform_rates(problem, layer)
    from_u, from_v = _norms(u), _norms(v)
    size = math.sqrt(eta_u * eta_v) * from_u * from_v
    large = (abs(delta) + np.hypot(delta, 2 * size)) / 2
    small = np.divide(size**2, large, out=np.zeros_like(large), where=large > 0)
    outgoing, incoming = (large, small) if delta >= 0 else (small, large)
    u, v = u * (np.sqrt(incoming / eta_v) / from_u), v * (np.sqrt(outgoing / eta_u) / from_v)
    return problem.put(theta, Layer(u, v), layer)


def _known_degree(problem: Problem, layer: str) -> int:
    degree = problem.incoming_degree(layer)
    if degree is None:
        raise InputError(
            "These units are not homogeneous in their incoming weights: no rescaling of the layers keeps "
            "their function."
        )
    return degree


def _deep(
    problem: Problem, theta: np.ndarray, delta: float | None, alpha: float | None, tau: float
) -> np.ndarray:
    if delta is not None:
        raise InputError("In a deep network the layers are balanced by alpha, not by one delta.")
    names = list(problem.shapes)
    factor = dict.fromkeys(names, tau)
    if alpha is not None:
        factor[names[0]] /= alpha
        factor[names[-1]] *= alpha
    sizes = [math.prod(problem.shapes[name]) for name in names]
    moved = theta * np.repeat([factor[name] / tau for name in names], sizes)
    if not _same_function(problem, theta, moved):
        raise InputError(
            "Dividing the first layer and multiplying the last changes the function of this network: what "
            "lies between is not homogeneous of degree 1 (an activation, a skip or attention)."
        )
    return tau * moved


@in_float64
def _same_function(problem: Problem, theta: np.ndarray, other: np.ndarray) -> bool:
    """Whether two networks answer alike to random inputs."""
    x = jnp.asarray(np.random.default_rng(3).normal(size=(_PROBES, problem.task.inputs)))

    def answers(theta: np.ndarray) -> jax.Array:
        weights = problem.weights(jnp.asarray(theta))
        return jax.vmap(lambda one: problem.units.combine(weights, one))(x)

    first, second = answers(theta), answers(other)
    return bool(jnp.max(jnp.abs(first - second)) <= _SAME * jnp.max(jnp.abs(first)))


def _to_product(u: np.ndarray, v: np.ndarray, tau: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Both grow by the same factor until |u| |v| = tau^2."""
    if not np.all(_norms(u) > 0) or not np.all(_norms(v) > 0):
        raise InputError("A unit without incoming or outgoing weights cannot be rescaled.")
    if tau is None:
        return u, v
    grow = tau / np.sqrt(_norms(u) * _norms(v))
    return u * grow, v * grow


def _uniform_rates(problem: Problem, layer: str) -> tuple[float, float]:
    rate = problem.take(np.broadcast_to(problem.rates, (problem.width, problem.size)), layer)
    both = [np.unique(np.asarray(part)) for part in (rate.incoming, rate.outgoing)]
    if any(len(each) > 1 for each in both):
        raise InputError("A given delta needs one learning rate for all incoming weights.")
    return float(both[0][0]), float(both[1][0])


def _norms(values: np.ndarray) -> Float[np.ndarray, "width 1"]:
    return np.linalg.norm(values, axis=1, keepdims=True)


def _check(delta: float | None, alpha: float | None, tau: float | None) -> None:
    if delta is not None and alpha is not None:
        raise InputError("delta and alpha both set the balance of the layers: give one.")
    if delta is not None and not math.isfinite(delta):
        raise InputError(f"delta must be finite; got {delta}.")
    for name, value in (("alpha", alpha), ("tau", tau)):
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"{name} must be positive; got {value}.")


def alpha_of(tau: float, delta: float) -> float:
    r"""The layer factor that gives a balanced unit of scale tau this delta.

    :math:`\delta = \tau^2 (\alpha^2 - \alpha^{-2})` (the paper prints :math:`\delta^2`).

    Parameters
    ----------
    tau : scale of the unit, :math:`\|v\| \|u\| = \tau^2`.
    delta : the conserved quantity wanted.
    """
    _check(delta, None, tau)
    ratio = delta / (2 * tau**2)
    return math.exp(math.asinh(ratio) / 2)

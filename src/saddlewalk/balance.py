r"""How a unit's scale splits between its layers: what gradient flow conserves, and how to choose it.

A unit :math:`\phi(z; u)\, v` whose answer is homogeneous of degree p in its incoming weights does not change
when u grows by a factor c and v falls by :math:`c^p`. By Noether's argument gradient flow with layer rates
conserves

.. math:: \delta = \eta_u \|v\|^2 - \eta_v \|u\|^2 / p ,

for a neuron :math:`a\,\sigma(w^\top x)` the :math:`\eta_w a^2 - \eta_a\|w\|^2` of Get Rich Quick. Where
:math:`\phi` is linear in u, units can be mixed and the whole matrix
:math:`\Delta = \eta_u V V^\top - \eta_v U U^\top` is conserved. **Upstream** (delta > 0) the incoming
weights are the smaller and learn faster; **downstream** (delta < 0) the outgoing ones do.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.problem import ParametersLike, Problem
from saddlewalk.units import AbstractUnits, Diagonal, Layer, Relation
from saddlewalk.units.base import size_of, unpack

_PROBES = 8
_SAME = 1e-9
_FACTORS = (2.0, 0.3, 100.0)
_TWICE = 1 / 3
"""Balance at which one layer outweighs the other by two to one."""


class Conserved(NamedTuple):
    """What gradient flow conserves in one hidden layer."""

    layer: str
    degree: int
    """Degree p of a unit in its incoming weights."""
    deltas: Float[np.ndarray, " width"]
    """delta of each unit."""
    sizes: Float[np.ndarray, " width"]
    r"""kappa of each unit, :math:`\eta_u \|v\|^2 + \eta_v \|u\|^2/p`: what delta is to be compared with."""
    matrix: Float[np.ndarray, "width width"] | None
    """The matrix Delta, where units can be mixed; its diagonal are the deltas."""

    @property
    def balance(self) -> float:
        """Sum of deltas over sum of kappas: from -1 (all weight comes in) to 1 (all goes out)."""
        total = float(self.sizes.sum())
        return float(self.deltas.sum()) / total if total > 0 else 0.0

    @property
    def side(self) -> str:
        """upstream, balanced or downstream (one layer has twice the weight of the other), or mixed."""
        total = float(self.sizes.sum())
        if abs(self.balance) >= _TWICE:
            return "upstream" if self.balance > 0 else "downstream"
        return "mixed" if float(np.abs(self.deltas).sum()) >= _TWICE * total > 0 else "balanced"


def conserved_quantities(problem: Problem, theta: ParametersLike) -> dict[str, Conserved]:
    """By hidden layer, for those that have any: their units must be homogeneous in what comes in."""
    if problem.adaptive:
        raise InputError("Adaptive learning rates conserve nothing.")
    if isinstance(problem.units, Diagonal):
        return {"units": _diagonal(problem.units, np.asarray(theta))}
    found = {}
    for layer in problem.units.hidden:
        degree = incoming_degree(problem.units, problem.task.inputs, problem.task.outputs, layer)
        if degree is not None:
            found[layer] = _conserved(problem, theta, layer, degree)
    return found


def rescaled(
    problem: Problem,
    theta: ParametersLike,
    *,
    delta: float | None = None,
    alpha: float | None = None,
    tau: float | None = None,
) -> Float[np.ndarray, "width size"]:
    r"""The same units with scale and balance of one's choice; directions stay.

    Two-layer networks: with `tau`, every unit gets :math:`\|v\| \|u\| = \tau^2`; with `delta`, its conserved
    quantity; with `alpha`, instead, v grows and u falls by that factor (for degree p, v by its p-th power).
    Deep networks: the readout grows and the first layer falls by `alpha`, and all layers grow by `tau`.
    `delta` and `alpha` do not change the function; `tau` does.
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


@in_float64
def incoming_degree(
    units: AbstractUnits, inputs: int, outputs: int, layer: str = "units"
) -> int | None:
    """The degree p of a unit's answer in its incoming weights, found by trying; `None` if it has none."""
    alone, inputs, outputs = units.alone(layer, inputs, outputs)
    shapes = alone.layers(inputs, outputs)
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(_PROBES, size_of(shapes)))
    x = rng.normal(size=(_PROBES, inputs))
    incoming, outgoing = alone.take(shapes, theta)

    def answer(factor: float) -> np.ndarray:
        scaled = alone.put(shapes, theta, Layer(factor * np.asarray(incoming), outgoing))
        respond = lambda th, one: alone.respond(unpack(shapes, th), one)  # noqa: E731
        return np.asarray(jax.vmap(respond)(jnp.asarray(scaled), x))

    plain, doubled = answer(1.0), answer(2.0)
    if not np.any(plain):
        return None
    degree = round(math.log2(np.linalg.norm(doubled) / np.linalg.norm(plain)))
    for factor in _FACTORS:
        if np.abs(answer(factor) / factor**degree - plain).max() > _SAME * np.abs(plain).max():
            return None
    return degree if degree >= 1 else None


def _conserved(problem: Problem, theta: ParametersLike, layer: str, degree: int) -> Conserved:
    units = problem.take(theta, layer)
    u, v = np.asarray(units.incoming), np.asarray(units.outgoing)
    rate = problem.take(np.broadcast_to(problem.rates, np.shape(theta)), layer)
    eta_u, eta_v = np.asarray(rate.incoming), np.asarray(rate.outgoing)
    # with several rates in a layer the invariant is a sum over them; the first ones set its unit
    unit = eta_u[0, 0] * eta_v[0, 0]
    outgoing = unit * np.sum(v**2 / eta_v, axis=1)
    incoming = unit * np.sum(u**2 / eta_u, axis=1) / degree
    matrix = None
    if Relation.DEPENDENT in problem.relations(layer):
        matrix = unit * ((v / eta_v) @ v.T - (u / eta_u) @ u.T)
    return Conserved(layer, degree, outgoing - incoming, outgoing + incoming, matrix)


def _diagonal(units: Diagonal, theta: np.ndarray) -> Conserved:
    """The weights u (in) and v (out) of each coordinate; there is nothing to mix."""
    u, v = units.weights(theta)
    outgoing, incoming = units.rate_u * v**2, units.rate_v * u**2
    return Conserved("units", 1, outgoing - incoming, outgoing + incoming, None)


def _known_degree(problem: Problem, layer: str) -> int:
    degree = incoming_degree(problem.units, problem.task.inputs, problem.task.outputs, layer)
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
    """
    _check(delta, None, tau)
    ratio = delta / (2 * tau**2)
    return math.exp(math.asinh(ratio) / 2)

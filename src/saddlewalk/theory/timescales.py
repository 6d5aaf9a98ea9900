r"""Who grows first near a saddle (section 5 and appendices G, H of Saddle-to-Saddle Dynamics).

A unit that is small climbs its utility, :math:`\dot\theta = \nabla U`, and the lowest order of U decides.
With phi of order 1 in u, :math:`U = v^\top \Sigma u`, and the singular **directions** of Sigma separate,

.. math:: \|(I - P)\theta\| = O(\epsilon^{1 - s_{r+1}/s_1}) \quad\text{when}\quad \|P \theta\| = O(1)
          \qquad\text{(Theorem 4).}

Along a direction the map holds :math:`m` with :math:`\dot m = 2 m (s - q m)`, q the curvature of the loss: it
grows to :math:`s/q`, and half of the loss that it takes is gone at :math:`m/(s/q - m) = \sqrt 2 - 1`. Theorem
4 says when m is of order 1, which is the same for data and targets of size 1 alone.

With phi of order 2 and one output, :math:`U = v\, u^\top \Sigma u`, the **units** separate. Let
:math:`a_k = r_k^\top u / \sqrt 2` along the eigenvectors of Sigma and :math:`d\tau = 2 v\, dt`. Then
:math:`a_k = a_k(0)\, e^{s_k \tau}`, :math:`v^2 - |a|^2` is conserved, and one quadrature is left:

.. math:: v^2 = F(\tau) = v_0^2 + \sum_k a_k(0)^2 (e^{2 s_k \tau} - 1), \qquad
          2 t = \int \frac{|d\tau|}{\sqrt{F(\tau)}} .

The time to infinity is Eq 56 (with :math:`\pi = e^{s_m \tau}`), and it holds beyond it: a unit whose v has
the wrong sign first goes back to where F = 0, where v changes sign, and then grows. Nothing is assumed
about the signs of the eigenvalues.
"""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import quad
from scipy.optimize import brentq

from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.problem import ParametersLike, Problem
from saddlewalk.units import Layer, find_degree

_EQUAL = 1e-6
"""Singular values this close, relatively, count as one of higher multiplicity."""
_HALF = math.sqrt(2) - 1
"""m / (s/q - m) at which half of the loss is gone."""
_DEEP = 700.0
"""Largest exponent that float64 holds."""


@dataclass(frozen=True)
class Separation:
    """What separates near a saddle, and when the first feature has grown."""

    mechanism: str
    """"between directions", "between units", or "none"."""
    values: np.ndarray
    """Singular values of Sigma, or its eigenvalues, the largest in size first."""
    exponent: float
    """1 - s_{r+1}/s_1: how much smaller than 1 the rest is, as a power of the scale; 1 for units."""
    times: np.ndarray
    """When each unit would become infinite (between units), or when half of the loss that each direction
    takes is gone (between directions)."""

    @property
    def first(self) -> int:
        """The unit or direction that grows first."""
        return int(np.argmin(self.times))

    @property
    def duration(self) -> float:
        """How long the plateau lasts."""
        return float(np.min(self.times, initial=math.inf))


@in_float64
def separation(
    problem: Problem, theta: ParametersLike, residual: Array | None = None
) -> Separation:
    """Timescales of the small units `theta`, near the saddle that leaves this residual (else zero).

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` of the small units.
    residual : what the saddle leaves, in function space; by default that of a network that says nothing.
    """
    if not problem.units.exchangeable or problem.adaptive:
        raise InputError(
            "Times are known for sums of units, with learning rates that do not adapt."
        )
    if residual is None:
        residual = problem.residual(0 * jnp.asarray(theta))
    order = problem.degree - 1
    # in units of the root of its learning rate a parameter moves as if that were 1
    pace = Layer(*(np.sqrt(part[0]) for part in problem.take(np.asarray(problem.rates)[None])))
    given = problem.take(theta)
    units = Layer(given.incoming / pace.incoming, given.outgoing / pace.outgoing)
    if order < 1:
        return Separation("none", np.zeros(0), 0.0, np.zeros(units.width))
    if order == 1:
        sigma = coupling(problem, residual) * np.outer(pace.outgoing, pace.incoming)
        return between_directions(sigma, units, _curvatures(problem, sigma, pace))
    if order == 2 and units.outgoing.shape[1] == 1:
        sigma = quadratic_coupling(problem, residual) * np.outer(pace.incoming, pace.incoming)
        return between_units(float(pace.outgoing[0]) * sigma, units)
    raise InputError(
        "Times are known for units of order 1 in their incoming weights, and for order 2 with one "
        f"outgoing weight; these have order {order} and {units.outgoing.shape[1]}."
    )


def mechanism(problem: Problem, layer: str | None = None) -> str:
    """What a small start separates in a hidden layer, by the order of phi in its incoming weights.

    Parameters
    ----------
    problem : units, data and loss.
    layer : name of the hidden layer; the first by default.
    """
    task = problem.task
    alone = problem.units.alone(problem.layer_named(layer), task.inputs, task.outputs)
    order = find_degree(*alone) - 1
    return "none" if order < 1 else "between directions" if order == 1 else "between units"


# --- order 1: directions ---------------------------------------------------------------------------


def coupling(problem: Problem, residual: Array) -> Float[np.ndarray, "fan_out fan_in"]:
    """Sigma of U = v Sigma u: the mixed derivative of the utility of a unit at zero.

    Parameters
    ----------
    problem : units, data and loss.
    residual : what the saddle leaves, in function space.
    """
    if not problem.smooth:
        raise InputError("Units with kinks may have no linear part at zero; use `predict`.")
    return np.asarray(_mixed(problem, residual))


def between_directions(
    sigma: Float[np.ndarray, "fan_out fan_in"],
    units: Layer,
    curvatures: Float[np.ndarray, " modes"] | None = None,
) -> Separation:
    r"""Theorem 4: all units together along each singular direction.

    The map :math:`\sum_i v_i u_i^\top` holds :math:`e^{2 s_k t} \sum_i c_{ki}^2` of direction k, with
    :math:`c_{ki}` of Eq 35, while that is small.

    Parameters
    ----------
    sigma : the coupling, as `coupling` gives it, for learning rates 1.
    units : the small units.
    curvatures : q of the loss along each singular direction: a time is when half of the loss is gone that the
        direction takes; `None`: when the map holds 1 of it, as in the theorem.
    """
    left, values, right = np.linalg.svd(sigma, full_matrices=False)
    growing = values > max(_EQUAL * values[0], 1e-300)
    c = (np.asarray(units.outgoing) @ left + np.asarray(units.incoming) @ right.T)[:, growing] / 2
    held = np.sum(c**2, axis=0)
    reached = 1.0 if curvatures is None else _HALF * (values / curvatures)[growing]
    with np.errstate(divide="ignore"):
        times = np.log(reached / held) / (2 * values[growing])
    return Separation("between directions", values, separation_exponent(values), times)


def _curvatures(
    problem: Problem, sigma: Float[np.ndarray, "fan_out fan_in"], pace: Layer
) -> Float[np.ndarray, " modes"]:
    """Second derivative of the loss along each singular direction, from a network that says nothing."""
    left, _, right = np.linalg.svd(sigma, full_matrices=False)
    rows = jnp.asarray(right * pace.incoming), jnp.asarray(left.T * pace.outgoing)
    found = _curvatures_along(problem, *rows)
    return np.maximum(np.asarray(found), 1e-300)


def separation_exponent(values: Float[np.ndarray, " modes"]) -> float:
    """1 - s_{r+1}/s_1, r the multiplicity of the largest; 1 if there is no other.

    Parameters
    ----------
    values : singular values s_k of the coupling, in any order.
    """
    falling = np.sort(np.abs(values))[::-1]
    if not np.any(falling):
        return 0.0
    others = falling[falling < (1 - _EQUAL) * falling[0]]
    return 1 - float(others[0] / falling[0]) if others.size else 1.0


# --- order 2: units --------------------------------------------------------------------------------


def quadratic_coupling(problem: Problem, residual: Array) -> Float[np.ndarray, "fan_in fan_in"]:
    """Sigma of U = v u Sigma u: half the second derivative of the utility of a unit with v = 1.

    Parameters
    ----------
    problem : units, data and loss.
    residual : what the saddle leaves, in function space.
    """
    sigma = np.asarray(_curved(problem, residual))
    u = 1e-4 * np.random.default_rng(0).normal(size=len(sigma))
    utility = float(_utility_of_one(problem, residual, jnp.asarray(u), jnp.ones(1)))
    if abs(utility - u @ sigma @ u) > 1e-2 * max(abs(utility), 1e-12 * float(u @ u)):
        raise InputError("The units are not quadratic near zero: their curvature jumps there.")
    return sigma


def between_units(sigma: Float[np.ndarray, "fan_in fan_in"], units: Layer) -> Separation:
    """Proposition 5: when each unit alone would become infinite (Eq 56).

    Parameters
    ----------
    sigma : the coupling, as `quadratic_coupling` gives it, for learning rates 1.
    units : the small units, with one outgoing weight each.
    """
    values, vectors = np.linalg.eigh((sigma + sigma.T) / 2)
    a = np.asarray(units.incoming) @ vectors / math.sqrt(2)
    v = np.asarray(units.outgoing)[:, 0]
    times = np.array([blow_up_time(values, a_i, v_i) for a_i, v_i in zip(a, v, strict=True)])
    order = np.argsort(-np.abs(values))
    return Separation("between units", values[order], 1.0, times)


def blow_up_time(s: Float[np.ndarray, " k"], a: Float[np.ndarray, " k"], v: Any) -> float:
    """Time at which a unit with projections a and outgoing weight v would become infinite.

    Parameters
    ----------
    s : eigenvalues of the coupling.
    a : projections of the incoming weights on its eigenvectors, over the root of 2.
    v : the outgoing weight.
    """
    s, a = s[a != 0], a[a != 0]
    size = math.sqrt(float(v) ** 2 + float(a @ a))
    if size == 0 or not np.any(s):
        return math.inf
    # Everything scales: 1/(|s| size) is the unit of time.
    steep = float(np.abs(s).max())
    s, a, v = s / steep, a / size, float(v) / size
    if v == 0:  # it takes the sign of its first velocity
        away = float(np.sign(np.sum(s * a**2)))
        return _integral(s, a, v, 0.0, away) / (2 * steep * size) if away else math.inf
    ahead = math.copysign(1.0, v)
    turn = _turning_point(s, a, v, ahead)
    if turn is None:
        total = _integral(s, a, v, 0.0, ahead)
    else:  # back to v = 0, and away on the other side
        total = _integral(s, a, v, turn, -ahead, end=0.0) + _integral(s, a, v, turn, -ahead)
    return total / (2 * steep * size)


def _squared(s: np.ndarray, a: np.ndarray, v: float, tau: float) -> float:
    """F(tau) = v^2 along the way."""
    return v**2 + float(np.sum(a**2 * np.expm1(2 * s * tau)))


def _turning_point(s: np.ndarray, a: np.ndarray, v: float, ahead: float) -> float | None:
    """The tau ahead at which v would be zero, if there is one: F is convex, so it has two at most."""
    slope = float(np.sum(2 * s * a**2)) * ahead
    if slope >= 0:
        return None
    step = 1.0
    while _squared(s, a, v, ahead * step) > 0:
        growing = float(np.sum(2 * s * ahead * a**2 * np.exp(2 * s * ahead * step))) >= 0
        if growing or step > _DEEP / 4:
            low = _lowest(s, a, v, ahead, step)
            if low is None:
                return None
            step = low
            break
        step *= 2
    return float(brentq(lambda tau: _squared(s, a, v, ahead * tau), 0.0, step)) * ahead


def _lowest(s: np.ndarray, a: np.ndarray, v: float, ahead: float, end: float) -> float | None:
    """Where F is least before `end`, if it is not positive there."""
    slope = lambda tau: float(np.sum(2 * s * ahead * a**2 * np.exp(2 * s * ahead * tau)))  # noqa: E731
    place = brentq(slope, 0.0, end) if slope(end) > 0 else end
    return place if _squared(s, a, v, ahead * place) <= 0 else None


def _integral(
    s: np.ndarray, a: np.ndarray, v: float, start: float, sign: float, end: float | None = None
) -> float:
    """Integral of 1/sqrt(F) from tau = start in one direction, to an end or to infinity.

    From a zero of F the root is taken out by tau = start + sign x^2; in the tail, where the largest
    exponent alone counts, the rest is added in closed form.
    """
    rate = float(np.max(sign * s * (np.abs(a) > 0)))
    if end is None and rate <= 0:
        return math.inf
    last = abs(end - start) if end is not None else _far(s, a, v, start, sign, rate)

    def integrand(x: float) -> float:
        square = _squared(s, a, v, start + sign * x * x)
        return 2 * x / math.sqrt(square) if square > 0 else 0.0

    marks = [m for m in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0) if m * m < last]
    total = quad(integrand, 0.0, math.sqrt(last), limit=400, points=marks or None)[0]
    if end is None:
        total += 1 / (rate * math.sqrt(_squared(s, a, v, start + sign * last)))
    return total


def _far(s: np.ndarray, a: np.ndarray, v: float, start: float, sign: float, rate: float) -> float:
    """A distance beyond which F grows like its largest exponent alone, to twelve digits."""
    leading = np.abs(sign * s - rate) < 1e-12
    strength = float(np.sum(a[leading] ** 2))
    distance = 1.0
    while distance * rate < _DEEP / 4:
        square = _squared(s, a, v, start + sign * distance)
        alone = strength * math.exp(2 * rate * (sign * start + distance))
        if square > 0 and abs(alone / square - 1) < 1e-12:
            break
        distance *= 1.5
    return distance


# --- utility of one unit as a function of (u, v) ----------------------------------------------------


def _utility_of_one(problem: Problem, residual: Array, u: Array, v: Array) -> Array:
    rows = jnp.zeros((problem.width, problem.size))
    before, _ = problem.units.place_of_outgoing(problem.shapes)
    row = jnp.concatenate([u[:before], v, u[before:]])
    return problem.utility(rows.at[0].set(row), residual)[0]


def _sizes(problem: Problem) -> tuple[int, int]:
    _, fan_out = problem.units.place_of_outgoing(problem.shapes)
    return problem.size - fan_out, fan_out


@eqx.filter_jit
def _mixed(problem: Problem, residual: Array) -> Array:
    fan_in, fan_out = _sizes(problem)
    in_u = lambda v: jax.grad(lambda u: _utility_of_one(problem, residual, u, v))(jnp.zeros(fan_in))  # noqa: E731
    return jax.jacobian(in_u)(jnp.zeros(fan_out)).T


@eqx.filter_jit
def _curvatures_along(problem: Problem, incoming: Array, outgoing: Array) -> Array:
    before, _ = problem.units.place_of_outgoing(problem.shapes)
    rows = jnp.zeros((problem.width, problem.size))

    def along(u: Array, v: Array) -> Array:
        def one(u: Array) -> Array:
            row = jnp.concatenate([u[:before], v, u[before:]])
            return problem.features(rows.at[0].set(row))[0]

        _, linear = jax.jvp(one, (0 * u,), (u,))
        slope = jax.grad(lambda m: problem.cost(m * linear))
        return jax.grad(slope)(0.0)

    return jax.vmap(along)(incoming, outgoing)


@eqx.filter_jit
def _curved(problem: Problem, residual: Array) -> Array:
    fan_in, _ = _sizes(problem)
    return 0.5 * jax.hessian(lambda u: _utility_of_one(problem, residual, u, jnp.ones(1)))(
        jnp.zeros(fan_in)
    )

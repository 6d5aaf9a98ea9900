r"""Is this network at a saddle, which way does it leave, and when?

1. **Fixed point.** A network on a plateau is near a critical point, not on it. It is reduced to the
   units that it really uses, and this narrow network is moved to where its gradient vanishes. If the
   loss hardly changes, the network rests there: by Theorem 1 the narrow fixed point, with the units that
   are left over at zero, is one of the wide network.
2. **Strict saddle.** The smallest eigenvalues of the Hessian there, by Lanczos iterations on
   Hessian-vector products (ARPACK). The units that are left over keep their directions and are
   shrunk: what is negative only because they are not zero is no curvature of the saddle. Directions along
   which the function does not change have eigenvalue zero, and do not count.
3. **Degenerate saddle.** Where units grow by order 3 or more, a unit at zero feels no curvature. What
   decides is whether a new unit has utility against the residual,
   :math:`\max_{|\theta| = 1} U(\theta; r) > 0` (Eq 1). For deep networks a descent from beside the point
   decides.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import least_squares, minimize
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from saddlewalk.diagnose.manifolds import padded
from saddlewalk.diagnose.width import effective_width
from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.problem import ParametersLike, Problem, norms
from saddlewalk.show import text
from saddlewalk.theory.timescales import separation
from saddlewalk.units import Layer, Relation

_SHRUNK = 1e-6
"""Norm at which units that are left over feel the saddle alone."""
_DENSE = 500
"""Parameters of a narrow network up to which a saddle of its own is looked for with a dense Hessian."""
_AT_REST = 0.05
"""The loss may change by this part of the smaller of what is learned and what is left, on the way to the
critical point. A relative gradient below the next number is none, below the second as good as none."""
_STILL, _SLOW = 1e-7, 3e-4
_NEGATIVE = 1e-4
"""Curvature, as a part of the largest, that counts as negative."""
_FAINT = 1e-6
_LANCZOS = 1e-5
"""Error of an eigenvalue, as a part of the largest."""
_USEFUL = 1e-2
"""Utility, as a part of that of the best first unit, that counts as left."""
_PROBES, _CLIMBS, _SPARE = 16, 200, 16
_KICK = 1e-2
_GROWN = 0.3
"""A unit below this part of the largest norm has not grown yet."""


@dataclass(frozen=True)
class SaddleReport:
    """What kind of point a network rests at, and how it leaves."""

    kind: str
    """"strict saddle", "degenerate saddle", "minimum" or "not a fixed point"."""
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
    """Exponential rate at which a strict saddle is left; 0 elsewhere."""
    duration: float
    """How long the network will stay from now on; infinite at a minimum, NaN if not known."""
    direction: Any = field(repr=False, default=None)
    """Unit vector of the parameters along which a strict saddle is left, or the new unit."""

    def __str__(self) -> str:
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
        return str(text.Table(self.kind, ["", "value"], rows))


@in_float64
def saddle_test(
    problem: Problem, theta: ParametersLike, *, eigenvalues: int = 3, scale: float | None = None
) -> SaddleReport:
    """Classify where a network is.

    Parameters
    ----------
    eigenvalues : how many of the smallest to report.
    scale : a change of the loss that matters; by default the smaller of what has been learned and
        what is left to learn.
    """
    at = jnp.asarray(theta, dtype=jnp.float64)
    if at.shape != (problem.width, problem.size):
        raise InputError(f"theta must have shape {(problem.width, problem.size)}; got {at.shape}.")
    loss, gradient = _slope(problem, at)
    matters = _scale(problem, float(loss), scale)
    point, rests, spare = _critical_point(problem, at, matters)
    first, _ = _best_unit(problem, 0 * at)
    now, unit = _best_unit(problem, point)
    empty = abs(float(problem.loss(0 * at)))
    # where not even the first unit has utility, it does not tell saddles from minima
    useful = now / first if spare and first > _FAINT * empty else math.nan
    largest, values, escape = _curvatures(problem, point, eigenvalues)
    strict = bool(values[0] < -_NEGATIVE * np.nanmax([largest, first, _NEGATIVE * empty]))
    kind = _kind(problem, point, rests, strict, useful)
    left = kind in ("strict saddle", "degenerate saddle")
    rate = -float(values[0]) if strict else problem.degree * now
    direction = escape if strict else unit
    return SaddleReport(
        kind=kind,
        loss=float(loss),
        gradient_norm=float(jnp.linalg.norm(gradient)),
        distance=_distance(problem, at, point),
        eigenvalues=values,
        largest_eigenvalue=largest,
        utility=useful,
        escape_rate=rate if kind == "strict saddle" else 0.0,
        duration=_duration(problem, at, point, now) if left else _stay(kind),
        direction=direction if left else None,
    )


def _kind(problem: Problem, point: Array, rests: bool, strict: bool, useful: float) -> str:
    if not rests:
        return "not a fixed point"
    if strict:
        return "strict saddle"
    if useful > _USEFUL:
        return "strict saddle" if problem.degree == 2 else "degenerate saddle"
    if math.isnan(useful) and _falls_when_kicked(problem, point):
        return "degenerate saddle"
    return "minimum"


def _stay(kind: str) -> float:
    return math.inf if kind == "minimum" else 0.0


# --- the critical point nearby ----------------------------------------------------------------------


def _scale(problem: Problem, loss: float, given: float | None) -> float:
    if given is not None:
        return given
    empty = float(problem.loss(jnp.zeros((problem.width, problem.size))))
    left = loss - float(getattr(problem.task, "offset", 0.0))
    return max(min(abs(empty - loss), left), 1e-3 * min(abs(empty), max(loss, 1e-300)))


def _critical_point(problem: Problem, theta: Array, scale: float) -> tuple[Array, bool, bool]:
    """The critical point beside `theta`, whether the network rests there, and whether units are left."""
    reduction = _reduced(problem, np.asarray(theta), scale)
    if reduction is None:  # nothing learned: the origin
        point, still, spare = _small(np.asarray(theta), problem), True, True
    else:
        narrow, small, layers = reduction
        refined, still = _refined(narrow, jnp.asarray(small), scale)
        point, spare = np.asarray(refined), False
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
    change = abs(float(problem.loss(jnp.asarray(point)) - problem.loss(theta)))
    return jnp.asarray(point), bool(still and change < _AT_REST * scale), spare


def _reduced(
    problem: Problem, theta: np.ndarray, scale: float
) -> tuple[Problem, np.ndarray, list[str]] | None:
    """The network with each hidden layer merged to the units that it uses, where units may be zero."""
    layers = [name for name in problem.units.hidden if Relation.ZERO in problem.relations(name)]
    for layer in layers:
        found = effective_width(problem, theta, layer, tolerance=_AT_REST * scale)
        if found.relation is None:
            return None
        theta = problem.put(theta, found.units, layer)
        problem = problem.resized(found.width, layer)
    return problem, theta, layers


def _left_over(wide: Layer, units: Layer) -> Layer:
    """The smallest units, shrunk, in place of those that are not used; in a deep network, zeros."""
    count = wide.width - units.width
    if units.theta.shape[1] != wide.theta.shape[1]:  # the layers around are narrower meanwhile
        return padded(Layer(units.incoming[:0], units.outgoing[:0]), count)
    size = np.linalg.norm(wide.theta, axis=1)
    rest = np.argsort(size)[:count]
    factor = (_SHRUNK / np.maximum(size[rest], _SHRUNK))[:, None]
    return Layer(factor * wide.incoming[rest], factor * wide.outgoing[rest])


def _small(theta: np.ndarray, problem: Problem) -> np.ndarray:
    """The units of a network that has learned nothing, shrunk; a deep one at zero."""
    if problem.units.hidden != ("units",):
        return 0 * theta
    norm = np.linalg.norm(theta, axis=1, keepdims=True)
    return theta * _SHRUNK / np.maximum(norm, _SHRUNK)


def _refined(problem: Problem, theta: Array, scale: float) -> tuple[Array, bool]:
    """Where the gradient of a narrow network vanishes, and whether it does.

    Gradient flow leads a narrow network to a minimum of its own, which is found by descent. If that
    goes far away, the narrow network may itself be at a saddle, which is found by Gauss-Newton steps.
    """
    loss, gradient = _slope(problem, theta)
    if _relative(problem, theta, gradient) < _STILL:
        return theta, True
    point = _descended(problem, theta)
    end, slope = _slope(problem, point)
    if float(loss - end) < _AT_REST * scale and _relative(problem, point, slope) < _SLOW:
        return point, True
    if theta.size > _DENSE:
        return point, False
    point = _balanced_forces(problem, theta)
    return point, _relative(problem, point, _slope(problem, point)[1]) < _SLOW


def _descended(problem: Problem, theta: Array, most: int = 1000) -> Array:
    """A minimum beside a point."""

    unit = max(
        abs(float(problem.loss(0 * theta))), 1e-300
    )  # the criteria of the method are absolute

    def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _slope(problem, jnp.asarray(flat).reshape(theta.shape))
        return float(value) / unit, np.asarray(slope).ravel() / unit

    options = {"maxiter": most, "maxfun": 2 * most, "gtol": 1e-11, "ftol": 1e-16, "maxcor": 30}
    flat = np.asarray(theta).ravel()
    found = minimize(cost, flat, jac=True, method="L-BFGS-B", options=options)
    return jnp.asarray(found.x).reshape(theta.shape)


def _balanced_forces(problem: Problem, theta: Array) -> Array:
    """A point of zero gradient of any kind, by least squares on the gradient."""
    place = lambda flat: jnp.asarray(flat).reshape(theta.shape)  # noqa: E731
    found = least_squares(
        lambda flat: np.asarray(_slope(problem, place(flat))[1]).ravel(),
        np.asarray(theta).ravel(),
        jac=lambda flat: np.asarray(_hessian(problem, place(flat))),
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
        max_nfev=200,
    )
    return place(found.x)


def _relative(problem: Problem, theta: Array, gradient: Array) -> float:
    """Gradient in units of loss over norm, which no rescaling of the data changes."""
    if not gradient.any():
        return 0.0
    loss = abs(float(problem.loss(0 * theta)))
    return float(jnp.linalg.norm(gradient) * jnp.linalg.norm(theta)) / max(loss, 1e-300)


def _distance(problem: Problem, theta: Array, point: Array) -> float:
    """Distance of two networks in function space, relative to the first."""
    one, other = problem.function(theta), problem.function(point)
    length = float(problem.task.length(one))
    return float(problem.task.length(one - other)) / length if length else 0.0


# --- curvature --------------------------------------------------------------------------------------


def _curvatures(problem: Problem, point: Array, few: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Largest eigenvalue of the Hessian, the few smallest, and the direction of the smallest.

    Units that are left over feel nothing of each other, so of many the most promising stand for all.
    """
    rows = np.arange(problem.width)
    if problem.units.hidden == ("units",) and problem.width > 2 * _SPARE:
        norm = norms(point)
        useful = problem.utility(point / norm, problem.residual(point))
        left = np.asarray(norm[:, 0] <= 10 * _SHRUNK)
        spare = np.flatnonzero(left)[np.argsort(-np.asarray(useful)[left])[:_SPARE]]
        rows = np.sort(np.concatenate([np.flatnonzero(~left), spare]))
    fewer = problem if len(rows) == problem.width else problem.resized(len(rows))
    largest, values, vectors = _spectrum(fewer, point[rows], few)
    direction = np.zeros(point.shape)
    direction[rows] = vectors[:, 0].reshape(len(rows), -1) * np.sqrt(np.asarray(problem.rates))
    return largest, values, direction / np.linalg.norm(direction)


def _spectrum(problem: Problem, theta: Array, few: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Largest eigenvalue of the Hessian, the few smallest, and their vectors.

    Lanczos iterations find the ends of a spectrum to a part of its width, so the smallest are found
    as the largest of (largest I - H): zeros, of which symmetries make many, then cost nothing.
    """
    size = theta.size

    pace = np.broadcast_to(np.sqrt(np.asarray(problem.rates)), theta.shape).ravel()

    def product(w: np.ndarray) -> np.ndarray:
        """The Hessian in coordinates in which all learning rates are 1."""
        direction = jnp.asarray((pace * w).reshape(theta.shape))
        return pace * np.asarray(_curve(problem, theta, direction)).ravel()

    if size <= max(3 * few, 40):
        values, vectors = np.linalg.eigh(np.stack([product(row) for row in np.eye(size)]))
        return float(max(values[-1], 0.0)), values[:few], vectors[:, :few]
    top = float(_extreme(product, size, 1)[0][-1])
    bound = max(top, 0.0) + 1e-3 * abs(top) + 1e-300
    values, vectors = _extreme(lambda w: bound * w - product(w), size, few)
    order = np.argsort(-values)
    return max(top, 0.0), bound - values[order], vectors[:, order]


def _extreme(product: Any, size: int, few: int) -> tuple[np.ndarray, np.ndarray]:
    start = np.random.default_rng(0).normal(size=size)
    if not np.any(product(start)):  # no curvature at all, as at the origin of a deep network
        return np.zeros(few), np.eye(size, few)
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        return eigsh(
            operator, k=few, which="LA", tol=_LANCZOS, v0=start, maxiter=8, ncv=max(30, 2 * few + 1)
        )
    except ArpackNoConvergence as partly:
        if len(partly.eigenvalues):
            return partly.eigenvalues, partly.eigenvectors
        return eigsh(operator, k=1, which="LA", tol=1e-2, v0=start, maxiter=100)


# --- new units --------------------------------------------------------------------------------------


def _best_unit(problem: Problem, theta: Array) -> tuple[float, Any]:
    """Largest utility, at norm 1, of a new unit, and the unit; NaN where a unit cannot be at zero."""
    if problem.units.hidden != ("units",) or Relation.ZERO not in problem.traits.relations(
        problem.layer_named(None)
    ):
        return math.nan, None
    utilities, units = _best_utilities(problem.resized(_PROBES), problem.residual(theta))
    best = int(jnp.argmax(utilities))
    return float(utilities[best]), np.asarray(units[best])


@eqx.filter_jit
def _best_utilities(probes: Problem, residual: Array) -> tuple[Array, Array]:
    """Utilities, at norm 1, of units that climbed from random directions."""
    small = 1e-3
    theta = jax.random.normal(jax.random.key(0), (probes.width, probes.size), dtype=jnp.float64)

    def utilities(theta: Array) -> Array:
        return probes.utility(small * theta, residual) / small**probes.degree

    def climb(_: Any, theta: Array) -> Array:
        push = probes.climb(small * theta, residual) / small ** (probes.degree - 1)
        # power iteration with a shift that keeps it climbing
        step = push + (probes.degree - 1) * norms(push) * theta
        return step / jnp.maximum(norms(step), 1e-300)

    theta = jax.lax.fori_loop(0, _CLIMBS, climb, theta / norms(theta))
    return utilities(theta), theta


def _falls_when_kicked(problem: Problem, point: Array) -> bool:
    """Where utility does not decide: whether a descent from beside the point leaves it."""
    start, rng = np.asarray(point), np.random.default_rng(0)
    size = max(float(np.linalg.norm(start)), 1.0) / math.sqrt(start.size)
    beside = jnp.asarray(start + _KICK * size * rng.normal(size=start.shape))
    end, loss = (float(problem.loss(th)) for th in (_descended(problem, beside, 300), point))
    empty = float(problem.loss(0 * point))
    return bool(loss - end > _USEFUL * max(loss, 1e-6 * empty))


# --- how long ---------------------------------------------------------------------------------------


def _duration(problem: Problem, theta: Array, point: Array, utility: float) -> float:
    """Time until the next feature has grown, from the units as they are now."""
    if math.isnan(utility):
        return math.nan
    kappa, norm = problem.degree, np.asarray(norms(theta))[:, 0]
    # linear units that have grown hold some of every direction; others have taken their place
    small = np.flatnonzero(
        (norm < _GROWN * norm.max()) | (Relation.DEPENDENT in problem.relations())
    )
    size = float(norm[small].max(initial=0.0))
    if size == 0:
        return math.inf
    try:
        fewer = problem.resized(len(small))
        return separation(fewer, theta[small], problem.residual(point)).duration
    except InputError:  # no closed form: the largest unit, as if it were aligned
        pace = kappa * utility
        return -math.log(size) / pace if kappa == 2 else size ** (2 - kappa) / ((kappa - 2) * pace)


_slope = eqx.filter_jit(lambda problem, theta: jax.value_and_grad(problem.loss)(theta))


@eqx.filter_jit
def _curve(problem: Problem, theta: Array, direction: Array) -> Array:
    """Hessian times a direction."""
    return jax.jvp(jax.grad(problem.loss), (theta,), (direction,))[1]


@eqx.filter_jit
def _hessian(problem: Problem, theta: Array) -> Array:
    """The Hessian of a narrow network, as a matrix."""
    loss = lambda flat: problem.loss(flat.reshape(theta.shape))  # noqa: E731
    return jax.hessian(loss)(theta.ravel())

r"""The end of a transition in closed form: near their rest active units relax by exponentials.

With the Jacobian of the velocity at a point, symmetric in the metric of the flow and so
:math:`-J = \sum_k \lambda_k e_k e_k^\top`, a gradient flow goes on as

.. math:: y(t) = y^* - \sum_k e^{-\lambda_k t}\, \frac{v_k}{\lambda_k}\, e_k, \qquad
          y^* = y + \sum_k \frac{v_k}{\lambda_k}\, e_k,

a Newton step that the flow itself takes, in the directions in which the loss is not flat. Meanwhile dormant
units climb against a residual that is not yet that of rest. What they get of the difference is its integral
over time, and that is in closed form, too:

.. math:: \int_0^\infty (r(t) - r^*)\, dt = -\sum_k \frac{v_k}{\lambda_k^2}\; Dr(y^*)\, e_k .

They take it at once, and the plateau begins. It is a tail if the Newton step lands where hardly any velocity
is left, and if what is lost by taking everything at once (the product of what dormant units get with how much
they grow meanwhile, or with what the Newton step is off) is less than they may err.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from saddlewalk.problem import Problem, norms
from saddlewalk.programs import compiled, seldom
from saddlewalk.theory.agf.alternation import Alternation, Stand
from saddlewalk.theory.agf.phase import Phase
from saddlewalk.theory.agf.thresholds import Thresholds

_FAINT = 1e-8
"""A logarithm whose parameter is this small beside the others is not felt: it goes where it is pushed."""
_FLAT = 1e-9
"""Relaxation, as a part of the fastest, that is none."""
_LEAVES = 1e-7
"""A negative one that is none, but rounding."""
_NOISE = 1e-17
"""Velocity along a direction, relative to what it might be, that is rounding: of two parallel units it is a
difference of small numbers, each right to its own last digit."""
_LAST_DIGIT = 1e-15
"""Way from a saddle, as a part of the state, that rounding of the state makes."""
_SEEN = 12
"""Points of the loss curve along a tail."""

State = Float[np.ndarray, "width size"]


@dataclass(frozen=True)
class Relaxation:
    """The velocity of the active units and its Jacobian at one point, by the modes of the Jacobian."""

    start: State
    kept: np.ndarray
    """Which numbers of the state take part, flat."""
    symmetrizer: Float[np.ndarray, " kept"]
    logarithmic: bool
    slow: float
    rates: Float[np.ndarray, " modes"]
    """Of relaxation, the slowest first; negative where the flow leaves a saddle."""
    modes: Float[np.ndarray, "kept modes"]
    velocity: Float[np.ndarray, " modes"]

    @classmethod
    def of(cls, phase: Phase, y: State, slow: float) -> "Relaxation":
        """Of the active units of a phase; what changes more slowly than this counts as at rest."""
        velocity, jacobian = phase.ask(_linearized, y)
        weight = _metric(phase, y).ravel()
        kept = np.repeat(phase.active, y.shape[1])
        kept &= weight > _FAINT * weight[kept].max(initial=0.0)
        s = weight[kept]
        matrix = -jacobian[kept][:, kept] * (s[:, None] / s)
        rates, modes = np.linalg.eigh(0.5 * (matrix + matrix.T))
        speed = modes.T @ (s * velocity.ravel()[kept])
        return cls(y, kept, s, phase.sign is not None, slow, rates, modes, speed)

    @cached_property
    def bends(self) -> np.ndarray:
        """Modes along which the loss is not flat."""
        return self.rates > max(_FLAT * np.abs(self.rates).max(initial=0.0), self.slow)

    @cached_property
    def _falls(self) -> np.ndarray:
        """Modes along which the loss falls."""
        return self.rates < -max(_LEAVES * np.abs(self.rates).max(initial=0.0), self.slow)

    @cached_property
    def grows(self) -> np.ndarray:
        """Modes along which the flow leaves a saddle, more than rounding does."""
        noise = _NOISE * np.abs(self.rates).max(initial=0.0) * np.linalg.norm(self._felt)
        return self._falls & (np.abs(self.velocity) > noise)

    def along(self, amplitudes: Float[np.ndarray, " modes"]) -> State:
        """A change of the state out of those of its modes."""
        change = np.zeros(self.start.size)
        change[self.kept] = self.modes @ amplitudes / self.symmetrizer
        return change.reshape(self.start.shape)

    def over(self, power: int) -> Float[np.ndarray, " modes"]:
        """Velocity over a power of the rate, mode by mode; nothing where the loss is flat, or falls."""
        safe = np.where(self.bends, self.rates, 1.0)
        return np.where(self.bends, self.velocity / safe**power, 0.0)

    @property
    def newton(self) -> tuple[Float[np.ndarray, "size size"], Float[np.ndarray, "size size"]]:
        """Matrices that take a velocity, flat, to its modes where the loss is not flat, and these to the
        change of the state to which they lead; filled with zeros, so that one program serves all."""
        into, change = np.zeros((2, self.start.size, self.start.size))
        bent = self.modes[:, self.bends]
        many = np.arange(bent.shape[1])[:, None]
        into[many, np.flatnonzero(self.kept)] = (self.symmetrizer[:, None] * bent).T
        change[np.flatnonzero(self.kept), many] = (bent / self.symmetrizer[:, None]).T
        change[:, many[:, 0]] /= self.rates[self.bends]
        return into, change

    def leaves(self, noticeable: float) -> float:
        """Time after which the flow is this far from a saddle, as a part of the state; 0 if it is now."""
        size = noticeable * np.linalg.norm(self._felt)
        rate = -self.rates[self.grows]
        away = np.abs(self.velocity[self.grows]) / rate
        times = np.log(np.maximum(size / away, 1.0)) / rate
        return float(times.min(initial=np.inf))

    def may_leave(self, noticeable: float) -> float:
        """Time after which it would be by what rounding makes, along modes in which no more is seen."""
        hidden = np.abs(self.velocity) <= -self.rates * _LAST_DIGIT * np.linalg.norm(self._felt)
        fastest = -float(self.rates[self._falls & hidden].min(initial=0.0))
        return math.log(noticeable / _LAST_DIGIT) / fastest if fastest > 0 else math.inf

    @property
    def _felt(self) -> np.ndarray:
        """The state, in its metric; a change of 1 in a logarithm is one of all of it."""
        return self.symmetrizer * np.where(self.logarithmic, 1.0, self.start.ravel()[self.kept])

    def is_settled(self, part: float) -> bool:
        """Whether all but a part of the velocity leads to where the loss rises in all directions."""
        lost = np.linalg.norm(self.velocity[~self.bends & ~self.grows])
        return bool(lost <= part * np.linalg.norm(self.velocity[~self.grows]))


@dataclass(frozen=True)
class Tail:
    """What is left of a transition: where it leads, what dormant units get, and the loss meanwhile."""

    relaxation: Relaxation
    begins: float
    """The time of the clock."""
    leaves: float
    """Time after which its units leave a saddle, if they rest at one."""
    may_leave: float
    """Time after which they might, by what is below rounding."""
    signs: State | None
    """Of the parameters, where the state is their logarithms."""
    end: State
    loss: float
    """At the end."""
    theta: State
    """All units, at the end of the tail but for the time that it takes."""

    @property
    def lasts(self) -> float:
        """Time after which nothing of it is left."""
        slowest = self.relaxation.rates[self.relaxation.bends].min(initial=np.inf)
        return 30.0 / slowest if np.isfinite(slowest) else 0.0

    def parameters(self, time: float) -> State:
        """Of the active units, after some time of it."""
        r = self.relaxation
        faded = np.where(r.bends, np.exp(-np.maximum(r.rates, 0.0) * time), 0.0)
        rate = np.where(r.grows, -r.rates, 1.0)
        away = np.expm1(np.minimum(rate * time, 700.0)) * r.velocity / rate
        risen = np.where(r.grows, away, 0.0)
        state = self.end + r.along(risen - r.over(1) * faded)
        return state if self.signs is None else self.signs * np.exp(state)

    def curve(self, time: float) -> Float[np.ndarray, "points 3"]:
        """Time from its beginning, loss and rate, as far as the tail is seen in some time."""
        end = min(time, self.lasts)
        fastest = np.abs(self.relaxation.rates).max(initial=1e-300)
        times = np.geomspace(min(0.1 / fastest, 0.5 * end), end, _SEEN) if end > 0 else np.zeros(0)
        r = self.relaxation
        fading = np.exp(-2 * np.outer(times, np.where(r.bends, r.rates, 0.0)))
        left, falls = np.where(r.bends, r.over(1) * r.velocity, 0.0), r.velocity**2 * r.bends
        return np.stack([times, self.loss + 0.5 * fading @ left, -fading @ falls], axis=1)


def find_tail(
    phase: Phase,
    theta: State,
    relaxation: Relaxation,
    at: Thresholds,
    time: float,
    real_time: bool,
) -> Tail | None:
    """The tail of a transition from here, if this is one.

    Parameters
    ----------
    phase : a transition.
    theta : parameters `(width, size)`.
    relaxation : of its active units, here.
    at : what a tail may leave out.
    time : of the clock.
    real_time : whether dormant units move meanwhile.
    """
    leaves = relaxation.leaves(at.leaving)
    if leaves == 0 or not relaxation.is_settled(at.tail_error):
        return None
    later, limits = -relaxation.along(relaxation.over(2)), np.array([at.tail_rest, at.tail_step])
    landing, loss, got, grows = phase.ask(
        _landed, relaxation.start, later, theta, *relaxation.newton, limits
    )
    end, whole = landing.end, max(float(np.linalg.norm(relaxation.velocity)), 1e-300)
    off, last = float(landing.first) / whole, float(landing.left) / whole
    if not (off <= at.tail_step and last <= at.tail_near):
        return None
    if not real_time:
        got, grows = 0 * got, 0 * grows
    dormant = ~phase.active
    size = np.maximum(norms(theta)[:, 0], 1e-300)  # a dormant unit may have shrunk to nothing
    gets = (norms(got)[:, 0] / size)[dormant]
    lasts = _ratio(relaxation.over(3), relaxation.over(2))
    growth = np.abs(grows[dormant]).max(initial=0.0)
    if not bool((gets * (off + gets + growth * lasts) <= at.tail_error).all()):
        return None
    moved = theta * np.exp(got / theta) if phase.sign is not None else theta + got
    large = relaxation.kept.reshape(theta.shape)
    still = phase.active[:, None] & ~large & (phase.sign is None)
    landed = np.where(large, phase.parameters(end), np.where(still, theta, moved))
    may = relaxation.may_leave(at.leaving)
    return Tail(relaxation, time, leaves, may, phase.sign, end, float(loss), landed)


def _ratio(small: np.ndarray, large: np.ndarray) -> float:
    return float(np.linalg.norm(small)) / max(float(np.linalg.norm(large)), 1e-300)


def _metric(phase: Phase, y: State) -> State:
    """The factors of `Alternation.symmetrizer`, without JAX."""
    if phase.sign is not None:
        return np.exp(y)
    return np.broadcast_to(1 / np.sqrt(np.asarray(phase.problem.rates)), y.shape)


@compiled
def _linearized(problem: Problem, drive: Any, sign: Any, stand: Stand, y: Any) -> Any:
    """Velocity and Jacobian."""
    flow = Alternation(problem, drive, sign, *stand)
    flat = lambda z: _velocity(flow, z.reshape(y.shape)).ravel()  # noqa: E731
    start = jnp.asarray(y).ravel()
    return _velocity(flow, jnp.asarray(y)), jax.jacfwd(flat)(start)


def _velocity(flow: Alternation, y: Any) -> Any:
    """That of a transition."""
    theta = flow.parameters(y)
    return flow.along(y, flow.push_against(flow.present_residual(theta), theta))


class Landing(NamedTuple):
    """Newton steps towards where a tail leads, and the velocity that is left along its modes."""

    end: Any
    modes: Any
    """The velocity there, by its modes."""
    left: Any
    """How much that is."""
    before: Any
    """The same a step before."""
    first: Any
    """The same after the first step."""


@seldom
def _landed(
    problem: Problem,
    drive: Any,
    sign: Any,
    stand: Stand,
    y: Any,
    direction: Any,
    theta: Any,
    into: Any,
    change: Any,
    limits: Any,
) -> Any:
    """Newton steps, as long as each leaves a small part of the velocity, until hardly any is left; the loss
    there, what units get of the residual's change, and how they grow."""
    flow = Alternation(problem, drive, sign, *stand)
    rest, part = limits

    def modes_at(state: Any) -> Any:
        return into @ _velocity(flow, state).ravel()

    def step(now: Landing) -> Landing:
        end = now.end + (change @ now.modes).reshape(now.end.shape)
        modes = modes_at(end)
        left = jnp.sqrt(jnp.sum(modes**2))
        first = jnp.where(jnp.isinf(now.before), left, now.first)
        return Landing(end, modes, left, now.left, first)

    start = modes_at(jnp.asarray(y))
    whole = jnp.sqrt(jnp.sum(start**2))
    begin = Landing(jnp.asarray(y), start, whole, jnp.asarray(jnp.inf), whole)
    landing = jax.lax.while_loop(
        lambda now: (now.left > rest * whole) & (now.left <= part * now.before), step, begin
    )

    def residual(state: Any) -> Any:
        return problem.residual(flow.only_active(flow.parameters(state)))

    theta = jnp.asarray(theta)
    now, turn = jax.jvp(residual, (landing.end,), (jnp.asarray(direction),))
    growth = jnp.sum(problem.climb(theta, now) * (theta / norms(theta) ** 2), axis=1)
    loss = flow.active_loss(flow.parameters(landing.end))
    return landing, loss, problem.climb(theta, turn), growth

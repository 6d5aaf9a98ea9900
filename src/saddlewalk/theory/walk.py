"""The walk of AGF from plateau to plateau: who is active, what time it is, and the loss curve behind."""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from saddlewalk import ode
from saddlewalk.curves import LossCurve, Stopped
from saddlewalk.problem import Parameters, ParametersLike, Problem, norms
from saddlewalk.problem.motion import drives, signs
from saddlewalk.show.progress import Progress
from saddlewalk.tasks.base import AbstractPoints
from saddlewalk.theory.alternation import Alignment, Alternation, Margins, Phase, View

WAKE = 3e-4
"""Output, as a part of that at rest, at which a unit wakes in real time."""
_SLEEP = 0.1
"""An active unit is dormant again at this part of the output at which units wake."""
_COLLAPSE = 1e-3
"""In Algorithm 1 an active unit is dormant again at this part of its output at rest."""
_CALM = 1e-10
"""In real time the active units rest when the loss they would lose while a dormant one grows by a
factor of e is below this part of what the stage has gained."""
_EXHAUSTED = 1e-9
"""They rest in any case, and in Algorithm 1 only then, when their drive has fallen to this part of its
largest."""
CONVERGENCE = 1e-4
"""A dormant unit has no utility left when its drive has fallen to this part of its largest."""
_PLATEAU_TOLERANCE = 1e-9
_TRANSITION_TOLERANCE = 1e-6
_KINKED_TOLERANCE = {True: 1e-5, False: 1e-4}
"""In real time and in Algorithm 1. Steps across kinks err in proportion to it, and their number grows
as much; at 1e-4 a ReLU network may end in another minimum."""
_PATIENCE = 256
"""Explicit steps after which a transition counts as stiff."""
_MOST_STEPS = 100_000
_SLIDING, _FADING = 1e-4, 1e-6
"""Active units have settled when the loss falls by less than this part of the stage's gain in as much
time as has passed; the second in the last stage. The more was spent on it, the more may be left."""
_GROWING, _SMALL_OUTPUT = 0.3, 0.1
"""Nor must a unit below this part of the largest output grow by more than that part meanwhile."""
_STILL = 1e-2
"""With kinks no unit at all must change by more than this part."""
_MOST_ROUNDS = 100
_LONG = 20_000
"""Right-hand sides after which the tail of a transition may be cut short."""
_POLISH = 500
_NEAR = 0.5
"""Change of the logarithm of a norm within which the bottom of a tail is taken instead of a point on it."""
_TAIL = 0.1
"""Part of a stage's gain that its tail may hold."""
_ALIGNED = 1e-7
"""Part of a gradient that may still turn a unit that counts as aligned."""
_AT_EVENT = 1e-6
_SMALL = 3000
"""Parameters up to which the network is remembered at every step."""


@dataclass(frozen=True)
class Moment:
    """The network at one point of the predicted curve."""

    index: int
    """Row of the curve."""
    theta: ParametersLike
    active: np.ndarray
    output: np.ndarray
    """Length of each unit in function space."""

    @property
    def alone(self) -> Parameters:
        """The active units, with the dormant ones at zero."""
        return jnp.where(jnp.asarray(self.active)[:, None], jnp.asarray(self.theta), 0.0)


class Walk:
    """The state of the algorithm between two events, and the loss curve behind it."""

    def __init__(
        self,
        problem: Problem,
        theta: Parameters,
        *,
        real_time: bool,
        aligned: bool = False,
        max_time: float = math.inf,
    ) -> None:
        self.problem, self.theta, self.real_time = problem, theta, real_time
        self.aligned, self.max_time = aligned, max_time
        self.bar: Progress | None = None
        self.active = np.zeros(problem.width, dtype=bool)
        self.woke_as = theta
        self.time = 0.0
        self.evaluations = 0
        self.sign = signs(problem, theta)
        push = _climb(problem, theta, _residual(problem, 0 * theta))
        self.largest_drive = np.asarray(drives(problem, theta, push))
        if problem.units.rotatable:  # units will be mixed: they have no past of their own
            self.largest_drive = np.full(problem.width, self.largest_drive.max())
        self.level = float(_loss(problem, 0 * theta))
        self._curve: list[np.ndarray] = [np.array([[0.0, self.level, 0.0, 0.0]])]
        self._points = 1
        self.moments = [Moment(0, theta, self.active.copy(), np.zeros(problem.width))]
        self.rests = [0]

    def run(self) -> Stopped:
        """Alternate until nothing is left to learn; the reason is returned."""
        if self.aligned and not self.problem.units.rotatable:
            self._align_dormant()
        for _ in range(_MOST_ROUNDS + 10 * self.problem.width):
            if self.active.all():
                return Stopped.NO_DORMANT
            stopped = self._cross_plateau() or self._pass_transition()
            if stopped:
                return stopped
        return Stopped.LIMIT

    def _cross_plateau(self) -> Stopped | None:
        """Dormant units climb with the residual frozen until the first wakes."""
        if self.problem.units.rotatable:
            self._mix_dormant()
        flow = self._flow(plateau=True)
        if self._no_utility_left(np.asarray(_drives_of(flow, self.theta))):
            return Stopped.NO_UTILITY
        if not bool(jnp.any(self._margins(flow).waking <= _AT_EVENT)):
            steps = 0
            for piece in self._integrate(flow, "explicit", self._tolerance(_PLATEAU_TOLERANCE)):
                steps += piece.steps
                if piece.event:
                    break
                if self._no_utility_left(piece.saved.drive[-1]):
                    return Stopped.NO_UTILITY
                if piece.stalled:
                    return Stopped.STALLED
                if steps >= _MOST_STEPS or self.time >= self.max_time:
                    return Stopped.LIMIT
        self._wake(self._margins(flow))
        return None

    def _pass_transition(self) -> Stopped | None:
        """Active units descend until they rest; dormant ones wake and sleep meanwhile."""
        taken, spent, passed, kind = 0, self.evaluations, 0.0, "explicit"
        while taken < _MOST_STEPS and self.time < self.max_time:
            flow = self._flow(plateau=False)
            margins = self._margins(flow)
            if self._apply(margins):
                continue
            if float(margins.resting) <= _AT_EVENT or not self.active.any():
                self._rest()
                return None
            tolerance = self._tolerance(_TRANSITION_TOLERANCE)
            for piece in self._integrate(flow, kind, tolerance, _PATIENCE):
                taken += piece.steps
                passed += float(piece.time[-1])
                if piece.stalled:
                    return Stopped.STALLED
                if piece.event:
                    self._apply(self._margins(flow), _AT_EVENT)
                elif self._settled(piece, passed, self.evaluations - spent):
                    if self._settle(flow):
                        return None
                    spent = self.evaluations
            if taken >= _PATIENCE and self.problem.smooth:
                kind = "stabilized"
        return Stopped.LIMIT

    def _settled(self, piece: ode.Piece, passed: float, spent: int) -> bool:
        """What still moves no longer matters: at this pace the loss would not change noticeably in
        as much time as has passed, and no small unit is growing.

        A unit that slides along a kink has a velocity for ever and yet goes nowhere; a smooth one
        may slow down like a power of time; two may grow for ever while their sum rests, where the
        best of two units is a limit that no two units reach.
        """
        ahead, view = passed / max(float(piece.time[-1] - piece.time[0]), 1e-300), piece.saved
        fall = float(view.loss[0] - view.loss[-1]) * ahead / (self.level - float(view.loss[-1]))
        last, smooth = self._no_utility_left(view.drive[-1]), self.problem.smooth
        if smooth and last and fall < _FADING:
            return True
        if smooth and (spent < _LONG or not self.real_time):
            return spent >= _LONG
        was, now = np.maximum(np.asarray(view.output)[[0, -1]][:, self.active], 1e-300)
        growth = np.log(now / was) * ahead
        if not smooth:
            still = np.abs(growth).max(initial=0.0) <= _STILL
            return bool(still) and fall < (_FADING if last else _SLIDING)
        small = now < _SMALL_OUTPUT * now.max(initial=0.0)
        patience = max(1.0, spent / _LONG)
        return bool(growth[small].max(initial=0.0) <= _GROWING) and fall < _SLIDING * patience

    def _settle(self, flow: Alternation) -> bool:
        """Rest here, or where a smooth loss has its bottom; False if that is no tail but a descent."""
        if self.problem.smooth:
            if not self._polish(flow):
                return False
            self._apply(self._margins(self._flow(plateau=False)))
        self._rest()
        return True

    def _polish(self, flow: Alternation) -> bool:
        """The end of a long tail: to the critical point beside which gradient flow has settled.

        Where the loss is flat the flow slows down like a power of time; its place no longer
        changes, and a quasi-Newton method finds the bottom.
        """
        shape, start = self.theta.shape, flow.state(self.theta)
        active = np.broadcast_to(self.active[:, None], shape).ravel()
        y = np.array(start).ravel()

        def cost(some: np.ndarray) -> tuple[float, np.ndarray]:
            y[active] = some
            loss, slope = _active_loss(flow, jnp.asarray(y.reshape(shape)))
            return float(loss), np.asarray(slope).ravel()[active]

        options = {"maxiter": _POLISH, "maxfun": 2 * _POLISH, "gtol": 1e-12, "ftol": 1e-15}
        before = cost(y[active].copy())[0]
        found = minimize(cost, y[active].copy(), jac=True, method="L-BFGS-B", options=options)
        if before - found.fun > _TAIL * (self.level - before):
            return False  # the flow is passing a saddle
        y[active] = found.x
        theta = flow.parameters(jnp.asarray(y.reshape(shape)))
        ratio = norms(theta)[self.active] / norms(self.theta)[self.active]
        if float(jnp.abs(jnp.log(ratio)).max()) < _NEAR:  # else the bottom is infinitely far away
            self.theta = theta
        return True

    def _flow(self, plateau: bool) -> Alternation:
        wake, sleep = (WAKE, _SLEEP * WAKE) if self.real_time else (1.0, _COLLAPSE)
        number = lambda value: jnp.asarray(value, dtype=jnp.float64)  # noqa: E731
        phase = Phase(
            dormant_move=jnp.asarray(plateau or self.real_time),
            active_move=jnp.asarray(not plateau),
            wakes_by_norm=jnp.asarray(not self.real_time),
            wake=number(wake),
            sleep=number(sleep),
            calm=number(_CALM if self.real_time else 0.0),
            largest=number(np.maximum(self.largest_drive, 1e-300)),
            idle=number(CONVERGENCE if plateau or self.real_time else _EXHAUSTED),
            exhausted=number(_EXHAUSTED),
            level=number(self.level),
        )
        only_active = jnp.where(jnp.asarray(self.active)[:, None], self.theta, 0.0)
        return Alternation(
            self.problem,
            jnp.asarray(self.largest_drive.max()),
            self.sign,
            jnp.asarray(self.active),
            _residual(self.problem, only_active),
            phase,
        )

    def _mix_dormant(self) -> None:
        """Turn the dormant units so that each carries a feature; nothing else changes."""
        task = self.problem.task
        assert isinstance(task, AbstractPoints)
        residual = _residual(self.problem, self.moments[-1].alone)
        theta = np.array(self.theta)
        theta[~self.active] = self.problem.units.mix(theta[~self.active], task.x, residual)
        self.theta = jnp.asarray(theta)

    def _align_dormant(self) -> None:
        """Turn every dormant unit, at its norm, to the maximum of utility that it climbs to."""
        dormant, norm = jnp.asarray(~self.active)[:, None], norms(self.theta)
        residual = _residual(self.problem, self.moments[-1].alone)
        flow = Alignment(self.problem, jnp.ones(()), None, residual, norm)
        pieces = ode.integrate(
            flow,
            self.theta / norm,
            kind="explicit",
            rtol=self._tolerance(_PLATEAU_TOLERANCE),
            times=np.zeros(0),
            max_steps=_MOST_STEPS,
        )
        for piece in pieces:
            turning = np.where(self.active, 0.0, piece.saved[-1])
            if turning.max() <= _ALIGNED or piece.stalled:
                break
        direction = jnp.asarray(piece.end) / norms(jnp.asarray(piece.end))
        self.theta = jnp.where(dormant, norm * direction, self.theta)

    def _integrate(self, flow: Alternation, kind: str, rtol: float, most: int = _MOST_STEPS) -> Any:
        """Advance `theta` and the clock piece by piece, and keep the loss curve."""
        origin = self.time
        runs = self.real_time or bool(flow.phase.dormant_move)
        pieces = ode.integrate(
            flow,
            flow.state(self.theta),
            kind=kind,
            rtol=rtol,
            times=np.zeros(0),
            max_steps=most,
            max_time=self.max_time - origin if runs else math.inf,
        )
        for piece in pieces:
            self.theta = flow.parameters(jnp.asarray(piece.end))
            self.evaluations += piece.evaluations
            view = piece.saved
            time = origin + piece.time if runs else np.full(len(piece.time), origin)
            slopes = (view.rate, view.curvature) if runs else (0 * view.rate, 0 * view.rate)
            self.time = float(time[-1])
            self._keep(np.stack([time, view.loss, *slopes], axis=1), view)
            if self.bar is not None:
                loss, awake = float(view.loss[-1]), int(self.active.sum())
                self.bar.update(f"time {self.time:.4g}, loss {loss:.4g}, {awake} units awake")
            if not self.problem.units.rotatable:
                self.largest_drive = np.maximum(self.largest_drive, view.drive.max(axis=0))
            yield piece

    def _margins(self, flow: Alternation) -> Margins:
        return jax.device_get(_margins_of(flow, self.theta))

    def _apply(self, margins: Margins, tolerance: float = 0.0) -> bool:
        """Let units sleep and wake; say whether any did."""
        asleep = np.asarray(margins.sleeping) <= tolerance
        self.active &= ~asleep
        if asleep.any() and not self.real_time:
            self.theta = jnp.where(jnp.asarray(asleep)[:, None], self.woke_as, self.theta)
        woke = self._wake(margins, tolerance) if self.real_time else False
        return bool(asleep.any()) or woke

    def _wake(self, margins: Margins, tolerance: float = _AT_EVENT) -> bool:
        """Units at the threshold become active, several at once if they tie."""
        woken = np.asarray(margins.waking) <= tolerance
        self.woke_as = jnp.where(jnp.asarray(woken)[:, None], self.theta, self.woke_as)
        self.active |= woken
        return bool(woken.any())

    def _no_utility_left(self, drive: np.ndarray) -> bool:
        return not (drive > CONVERGENCE * self.largest_drive)[~self.active].any()

    def _rest(self) -> None:
        only_active = jnp.where(jnp.asarray(self.active)[:, None], self.theta, 0.0)
        self.level = float(_loss(self.problem, only_active))
        last = self.moments[-1]
        self._curve.append(np.array([[self.time, self.level, 0.0, 0.0]]))
        self.moments.append(Moment(self._points, self.theta, self.active.copy(), last.output))
        self.rests.append(self._points)
        self._points += 1

    def _keep(self, rows: np.ndarray, view: View) -> None:
        """Append to the curve, and remember the network at every row, or at the last if it is large."""
        first = 0 if self.theta.size <= _SMALL else len(rows) - 1
        self.moments += [
            Moment(
                self._points + k, view.parameters[k], self.active.copy(), np.asarray(view.output[k])
            )
            for k in range(first, len(rows))
        ]
        self._curve.append(rows)
        self._points += len(rows)

    def _tolerance(self, smooth: float) -> float:
        return smooth if self.problem.smooth else _KINKED_TOLERANCE[self.real_time]

    @property
    def curve(self) -> LossCurve:
        """The predicted loss along time."""
        time, loss, rate, curvature = np.concatenate(self._curve).T
        return LossCurve.of(time, loss, rate, curvature)


@eqx.filter_jit
def _active_loss(flow: Alternation, y: Parameters) -> Any:
    return jax.value_and_grad(lambda state: flow.active_loss(flow.parameters(state)))(y)


_residual = eqx.filter_jit(lambda problem, theta: problem.residual(theta))
_climb = eqx.filter_jit(lambda problem, theta, residual: problem.climb(theta, residual))
_loss = eqx.filter_jit(lambda problem, theta: problem.loss(theta))
_drives_of = eqx.filter_jit(lambda flow, th: drives(flow.problem, th, flow.push(th)))
_margins_of = eqx.filter_jit(lambda flow, theta: flow.margins(theta))

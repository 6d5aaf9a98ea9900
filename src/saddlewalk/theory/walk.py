"""The walk of AGF from plateau to plateau: who is active, what time it is, and the loss curve behind."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk import ode
from saddlewalk.curve import LossCurve
from saddlewalk.motion import drives, signs
from saddlewalk.problem import Parameters, ParametersLike, Problem, norms
from saddlewalk.progress import Progress
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
"""In Algorithm 1 they rest when their drive has fallen to this part of its largest."""
_CONVERGENCE = 1e-4
"""A dormant unit has no utility left when its drive has fallen to this part of its largest."""
_PLATEAU_TOLERANCE = 1e-9
_TRANSITION_TOLERANCE = 1e-6
_KINKED_TOLERANCE = 1e-4
_PATIENCE = 256
"""Explicit steps after which a transition counts as stiff."""
_MOST_STEPS = 100_000
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
        self, problem: Problem, theta: Parameters, *, real_time: bool, aligned: bool = False
    ) -> None:
        self.problem, self.theta, self.real_time = problem, theta, real_time
        self.aligned = aligned
        self.bar: Progress | None = None
        self.active = np.zeros(problem.width, dtype=bool)
        self.woke_as = theta
        self.time = 0.0
        self.evaluations = 0
        self.sign = signs(problem, theta)
        residual = eqx.filter_jit(lambda p, th: p.residual(0 * th))(problem, theta)
        push = eqx.filter_jit(lambda p, th, r: p.climb(th, r))(problem, theta, residual)
        self.largest_drive = np.asarray(drives(problem, theta, push))
        if problem.units.rotatable:  # units will be mixed: they have no past of their own
            self.largest_drive = np.full(problem.width, self.largest_drive.max())
        self.level = float(eqx.filter_jit(lambda p, th: p.loss(0 * th))(problem, theta))
        self._curve: list[np.ndarray] = [np.array([[0.0, self.level, 0.0, 0.0]])]
        self._points = 1
        self.moments = [Moment(0, theta, self.active.copy(), np.zeros(problem.width))]
        self.rests = [0]

    def run(self) -> str:
        """Alternate until nothing is left to learn; the reason is returned."""
        while True:
            if self.active.all():
                return "no dormant units"
            stopped = self._cross_plateau()
            if stopped:
                return stopped
            stopped = self._pass_transition()
            if stopped:
                return stopped

    def _cross_plateau(self) -> str:
        """Dormant units climb with the residual frozen until the first wakes."""
        if self.problem.units.rotatable:
            self._mix_dormant()
        if self.aligned:
            self._align_dormant()
        flow = self._flow(plateau=True)
        if self._no_utility_left(np.asarray(_drives_of(flow, self.theta))):
            return "no utility left"
        if not bool(jnp.any(self._margins(flow).waking <= _AT_EVENT)):
            steps = 0
            for piece in self._integrate(flow, "explicit", self._tolerance(_PLATEAU_TOLERANCE)):
                steps += piece.steps
                if piece.event:
                    break
                if self._no_utility_left(piece.saved.drive[-1]):
                    return "no utility left"
                if piece.stalled:
                    return "stalled: a dormant unit's velocity is not finite or not smooth"
                if steps >= _MOST_STEPS:
                    return "limit"
        self._wake(self._margins(flow))
        return ""

    def _pass_transition(self) -> str:
        """Active units descend until they rest; dormant ones wake and sleep meanwhile."""
        taken, kind = 0, "explicit"
        while taken < _MOST_STEPS:
            flow = self._flow(plateau=False)
            margins = self._margins(flow)
            if self._apply(margins):
                continue
            if float(margins.resting) <= 0 or not self.active.any():
                self._rest()
                return ""
            tolerance = self._tolerance(_TRANSITION_TOLERANCE)
            budget = _PATIENCE if kind == "explicit" else _MOST_STEPS
            for piece in self._integrate(flow, kind, tolerance, budget):
                taken += piece.steps
                if piece.stalled:
                    return "stalled: the velocity is not finite or not smooth enough for any step"
                if piece.event:
                    margins = self._margins(flow)
                    if float(margins.resting) <= _AT_EVENT:
                        self._rest()
                        return ""
                    self._apply(margins, _AT_EVENT)
            kind = "stabilised" if taken >= _PATIENCE else kind
        return "limit"

    def _flow(self, plateau: bool) -> Alternation:
        wake, sleep = (WAKE, _SLEEP * WAKE) if self.real_time else (1.0, _COLLAPSE)
        spent = _CONVERGENCE if self.real_time else _EXHAUSTED
        number = lambda value: jnp.asarray(value, dtype=jnp.float64)  # noqa: E731
        phase = Phase(
            dormant_move=jnp.asarray(plateau or self.real_time),
            active_move=jnp.asarray(not plateau),
            wakes_by_norm=jnp.asarray(not self.real_time),
            wake=number(wake),
            sleep=number(sleep),
            calm=number(_CALM),
            slowest=number(1e-3 / self.time if self.time > 0 else 1.0),
            spent=number(spent * np.maximum(self.largest_drive, 1e-300)),
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
            flow, flow.state(self.theta), kind=kind, rtol=rtol, times=np.zeros(0), max_steps=most
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
        return not (drive > _CONVERGENCE * self.largest_drive)[~self.active].any()

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
        return smooth if self.problem.units.smooth else max(smooth, _KINKED_TOLERANCE)

    @property
    def curve(self) -> LossCurve:
        """The predicted loss along time."""
        time, loss, rate, curvature = np.concatenate(self._curve).T
        return LossCurve.of(time, loss, rate, curvature)


_residual = eqx.filter_jit(lambda problem, theta: problem.residual(theta))
_loss = eqx.filter_jit(lambda problem, theta: problem.loss(theta))
_drives_of = eqx.filter_jit(lambda flow, th: drives(flow.problem, th, flow.push(th)))
_margins_of = eqx.filter_jit(lambda flow, theta: flow.margins(theta))

"""The walk of AGF from plateau to plateau: who is active, what time it is, and the loss curve behind.

.. code-block:: text

                 every unit is dormant
                           |
                           v
      +-------->  PLATEAU: dormant units climb, active ones rest, the residual is frozen
      |                    |
      |                    |  a unit WAKES: its output is `wake` of what it would be at rest (in real
      |                    |  time), or its norm is 1 (Algorithm 1); several at once if they tie
      |                    v
      |           TRANSITION: active units descend together; in real time dormant ones go on climbing,
      |             |   ^  |  in Algorithm 1 they and the clock stand still (cost minimization)
      |             +---+  |  units WAKE and SLEEP meanwhile, and the motion starts anew
      |                    |
      |                    |  the active ones REST: calm beside the dormant ones that wait, or
      |                    |  exhausted, or on a tail that no longer matters (`settling`)
      +--------------------+

    It ends when no unit is dormant, when no dormant unit has utility left, at a limit, or when steps stall.

Why does a unit wake? Its utility U and the bend B of the loss along it (`alternation`) say how large it would
be at rest, and B/U is the part of this that it has. Below `wake` nobody feels it, so that until then the
residual does not know about it. The numbers that decide are in `thresholds`, with their reasons.
"""

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
from saddlewalk.problem import ParametersLike, Problem, compiled, norms
from saddlewalk.problem.motion import drives, signs
from saddlewalk.show.progress import Progress
from saddlewalk.tasks.base import AbstractPoints
from saddlewalk.theory.agf.alternation import Alignment, Alternation, Margins, Rules, View
from saddlewalk.theory.agf.settling import Outlook
from saddlewalk.theory.agf.thresholds import Thresholds


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
    def alone(self) -> ParametersLike:
        """The active units, with the dormant ones at zero."""
        return np.where(self.active[:, None], np.asarray(self.theta), 0.0)


class Walk:
    """The state of the algorithm between two events, and the loss curve behind it.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` at the start.
    real_time : AGF in real time; else Algorithm 1 as printed, in which the clock stands during jumps.
    aligned : turn dormant units to their maxima of utility at once.
    max_time : stop there in any case.
    thresholds : the numbers that decide; the package's own by default.
    """

    def __init__(
        self,
        problem: Problem,
        theta: ParametersLike,
        *,
        real_time: bool,
        aligned: bool = False,
        max_time: float = math.inf,
        thresholds: Thresholds | None = None,
    ) -> None:
        # between two pieces everything is NumPy: nothing small is compiled
        theta = np.asarray(theta)
        self.problem, self.theta, self.real_time = problem, theta, real_time
        self.at = Thresholds() if thresholds is None else thresholds
        self.aligned, self.max_time = aligned, max_time
        self.bar: Progress | None = None
        self.active = np.zeros(problem.width, dtype=bool)
        self.woke_as = theta
        self.time = 0.0
        self.evaluations = 0
        self.sign = signs(problem, theta)
        push = compiled.climb(problem, theta, compiled.residual(problem, 0 * theta))
        self.largest_drive = drives(problem, theta, np.asarray(push))
        if problem.units.rotatable:  # units will be mixed: they have no past of their own
            self.largest_drive = np.full(problem.width, self.largest_drive.max())
        self.level = float(compiled.loss(problem, 0 * theta))
        self._curve: list[np.ndarray] = [np.array([[0.0, self.level, 0.0, 0.0]])]
        self._points = 1
        self.moments = [Moment(0, theta, self.active.copy(), np.zeros(problem.width))]
        self.rests = [0]

    def run(self) -> Stopped:
        """Alternate until nothing is left to learn; the reason is returned."""
        if self.aligned and not self.problem.units.rotatable:
            self._align_dormant()
        for _ in range(self.at.most_rounds + 10 * self.problem.width):
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
        margins = self._margins(flow)
        if self._no_utility_left(np.asarray(margins.drive)):
            return Stopped.NO_UTILITY
        if not (margins.waking <= self.at.at_event).any():
            steps = 0
            for piece in self._integrate(
                flow, "explicit", self._tolerance(self.at.plateau_tolerance)
            ):
                steps += piece.steps
                if piece.event:
                    break
                if self._no_utility_left(piece.saved.drive[-1]):
                    return Stopped.NO_UTILITY
                if piece.stalled:
                    return Stopped.STALLED
                if steps >= self.at.most_steps or self.time >= self.max_time:
                    return Stopped.LIMIT
        margins = self._margins(flow)
        self._wake(margins, self._reached(margins))
        return None

    def _pass_transition(self) -> Stopped | None:
        """Active units descend until they rest; dormant ones wake and sleep meanwhile."""
        taken, spent, passed, kind = 0, self.evaluations, 0.0, "explicit"
        while taken < self.at.most_steps and self.time < self.max_time:
            flow = self._flow(plateau=False)
            margins = self._margins(flow)
            if self._apply(margins):
                continue
            if float(margins.resting) <= self.at.at_event or not self.active.any():
                self._rest()
                return None
            tolerance, before = self._tolerance(self.at.transition_tolerance), taken
            for piece in self._integrate(flow, kind, tolerance, self.at.stiff_after):
                taken += piece.steps
                passed += float(piece.time[-1])
                if piece.stalled:
                    return Stopped.STALLED
                if piece.event:
                    margins = self._margins(flow)
                    reached = self._reached(margins)
                    if not self._apply(margins, reached) and float(margins.resting) <= reached:
                        self._rest()
                        return None
                elif self._settled(piece, passed, self.evaluations - spent):
                    if self._settle(flow):
                        return None
                    spent = self.evaluations
            if taken == before:  # not one step was good
                return Stopped.STALLED
            if taken >= self.at.stiff_after and self.problem.smooth and not self.problem.adaptive:
                kind = "stabilized"  # needs a Jacobian that is symmetric in some metric
        return Stopped.LIMIT

    def _settled(self, piece: ode.Piece, passed: float, spent: int) -> bool:
        """What still moves no longer matters."""
        view = piece.saved
        outlook = Outlook.of(
            np.asarray(view.loss),
            np.asarray(view.output)[:, self.active],
            lasted=float(piece.time[-1] - piece.time[0]),
            passed=passed,
            level=self.level,
            last=self._no_utility_left(view.drive[-1]),
        )
        if not self.problem.smooth:
            return outlook.stands_on_kinks(self.at)
        if outlook.has_faded(self.at):
            return True
        # in Algorithm 1 the clock stands: nothing is lost when what is left is polished away
        return spent >= self.at.long and (not self.real_time or outlook.is_a_tail(self.at, spent))

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
            loss, slope = _active_loss(flow, y.reshape(shape))
            return float(loss), np.asarray(slope).ravel()[active]

        options = {
            "maxiter": self.at.polish,
            "maxfun": 2 * self.at.polish,
            "gtol": 1e-12,
            "ftol": 1e-15,
        }
        before = cost(y[active].copy())[0]
        found = minimize(cost, y[active].copy(), jac=True, method="L-BFGS-B", options=options)
        if before - found.fun > self.at.tail * (self.level - before):
            return False  # the flow is passing a saddle
        y[active] = found.x
        theta = flow.parameters(y.reshape(shape))
        ratio = norms(theta)[self.active] / norms(self.theta)[self.active]
        if np.abs(np.log(ratio)).max() < self.at.near:  # else the bottom is infinitely far away
            self.theta = theta
        return True

    def _flow(self, plateau: bool) -> Alternation:
        """The motion of this phase, from where the units are."""
        at, real_time = self.at, self.real_time
        wake, sleep = (at.wake, at.sleep * at.wake) if real_time else (1.0, at.collapse)
        numbers = {
            "wake": wake,
            "sleep": sleep,
            "calm": at.calm if real_time else 0.0,
            "patient": at.patient,
            "least_alignment": at.least_alignment,
            "largest": np.maximum(self.largest_drive, 1e-300),
            "idle": at.convergence if plateau or real_time else at.exhausted,
            "exhausted": at.exhausted,
            "last": at.last,
            "level": self.level,
        }
        rules = Rules(
            dormant_move=jnp.asarray(plateau or real_time),
            active_move=jnp.asarray(not plateau),
            wakes_by_norm=jnp.asarray(not real_time),
            **{name: jnp.asarray(value, dtype=jnp.float64) for name, value in numbers.items()},
        )
        return Alternation(
            self.problem,
            jnp.asarray(self.largest_drive.max()),
            self.sign,
            jnp.asarray(self.active),
            compiled.residual(self.problem, self._only_active),
            rules,
        )

    def _mix_dormant(self) -> None:
        """Turn the dormant units so that each carries a feature; nothing else changes."""
        task = self.problem.task
        assert isinstance(task, AbstractPoints)
        residual = compiled.residual(self.problem, self.moments[-1].alone)
        theta = np.array(self.theta)
        theta[~self.active] = self.problem.units.mix(theta[~self.active], task.x, residual)
        self.theta = theta

    def _align_dormant(self) -> None:
        """Turn every dormant unit, at its norm, to the maximum of utility that it climbs to."""
        norm = norms(self.theta)
        residual = compiled.residual(self.problem, self.moments[-1].alone)
        flow = Alignment(self.problem, jnp.ones(()), None, residual, jnp.asarray(norm))
        pieces = ode.integrate(
            flow,
            self.theta / norm,
            kind="explicit",
            rtol=self._tolerance(self.at.plateau_tolerance),
            times=np.zeros(0),
            max_steps=self.at.most_steps,
        )
        for piece in pieces:
            turning = np.where(self.active, 0.0, piece.saved[-1])
            if turning.max() <= self.at.aligned or piece.stalled:
                break
        direction = piece.end / norms(piece.end)
        self.theta = np.where(self.active[:, None], self.theta, norm * direction)

    def _integrate(self, flow: Alternation, kind: str, rtol: float, most: int | None = None) -> Any:
        """Advance `theta` and the clock piece by piece, and keep the loss curve."""
        origin = self.time
        runs = self.real_time or bool(flow.rules.dormant_move)
        pieces = ode.integrate(
            flow,
            flow.state(self.theta),
            kind=kind,
            rtol=rtol,
            times=np.zeros(0),
            max_steps=self.at.most_steps if most is None else most,
            max_time=self.max_time - origin if runs else math.inf,
        )
        for piece in pieces:
            self.theta = flow.parameters(piece.end)
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

    @property
    def _only_active(self) -> ParametersLike:
        """The parameters with those of dormant units at zero."""
        return np.where(self.active[:, None], self.theta, 0.0)

    def _margins(self, flow: Alternation) -> Margins:
        return jax.device_get(_margins_of(flow, self.theta))

    def _reached(self, margins: Margins) -> float:
        """Margin at which events happen where one was located: rounding may leave it short of zero."""
        units = np.minimum(margins.waking, margins.sleeping).min()
        return max(self.at.at_event, min(float(units), float(margins.resting)))

    def _apply(self, margins: Margins, tolerance: float = 0.0) -> bool:
        """Let units sleep and wake; say whether any did."""
        asleep = np.asarray(margins.sleeping) <= tolerance
        self.active &= ~asleep
        if asleep.any() and not self.real_time:
            self.theta = np.where(asleep[:, None], self.woke_as, self.theta)
        woke = self._wake(margins, tolerance) if self.real_time else False
        return bool(asleep.any()) or woke

    def _wake(self, margins: Margins, tolerance: float) -> bool:
        """Units at the threshold become active, several at once if they tie."""
        woken = np.asarray(margins.waking) <= tolerance
        self.woke_as = np.where(woken[:, None], self.theta, self.woke_as)
        self.active |= woken
        return bool(woken.any())

    def _no_utility_left(self, drive: np.ndarray) -> bool:
        return not (drive > self.at.convergence * self.largest_drive)[~self.active].any()

    def _rest(self) -> None:
        self.level = float(compiled.loss(self.problem, self._only_active))
        last = self.moments[-1]
        self._curve.append(np.array([[self.time, self.level, 0.0, 0.0]]))
        self.moments.append(Moment(self._points, self.theta, self.active.copy(), last.output))
        self.rests.append(self._points)
        self._points += 1

    def _keep(self, rows: np.ndarray, view: View) -> None:
        """Append to the curve, and remember the network at every row, or at the last if it is large."""
        first = 0 if self.theta.size <= self.at.remembered else len(rows) - 1
        self.moments += [
            Moment(
                self._points + k, view.parameters[k], self.active.copy(), np.asarray(view.output[k])
            )
            for k in range(first, len(rows))
        ]
        self._curve.append(rows)
        self._points += len(rows)

    def _tolerance(self, smooth: float) -> float:
        if self.problem.smooth:
            return smooth
        return self.at.kinked_tolerance if self.real_time else self.at.kinked_tolerance_printed

    @property
    def curve(self) -> LossCurve:
        """The predicted loss along time."""
        time, loss, rate, curvature = np.concatenate(self._curve).T
        return LossCurve.of(time, loss, rate, curvature)


@eqx.filter_jit
def _active_loss(flow: Alternation, y: ParametersLike) -> Any:
    return jax.value_and_grad(lambda state: flow.active_loss(flow.parameters(state)))(y)


_margins_of = eqx.filter_jit(lambda flow, theta: flow.margins(theta))

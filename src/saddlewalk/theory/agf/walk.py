"""The walk of AGF from plateau to plateau: who is active, what time it is, and the loss curve behind.

.. code-block:: text

                 every unit is dormant
                           |
                           v
      +-------->  PLATEAU: dormant units climb, active ones rest, the residual is frozen
      |                    |
      |                    |  active ones LEAVE a saddle at which they rested, or
      |                    |  a unit WAKES: its output is `wake` of what it would be at rest (in real
      |                    |  time), or its norm is 1 (Algorithm 1); several at once if they tie
      |                    v
      |           TRANSITION: active units descend together; in real time dormant ones go on climbing,
      |             |   ^  |  in Algorithm 1 they and the clock stand still (cost minimization)
      |             +---+  |  units WAKE and SLEEP meanwhile, and the motion starts anew
      |                    |
      |                    |  the active ones REST: what is left is a `tail`, known in closed form; or they
      |                    |  are calm beside the dormant ones that wait, or exhausted, or on a tail
      |                    |  that no longer matters (`settling`)
      +--------------------+

    It ends when no unit is dormant, when no dormant unit has utility left, at a limit, or when steps stall.

Why does a unit wake? Its utility U and the bend B of the loss along it (`alternation`) say how large it would
be at rest, and B/U is the part of this that it has. Below `wake` nobody feels it, so that until then the
residual does not know about it. The numbers that decide are in `thresholds`, with their reasons.
"""

import math
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import ThreadpoolController

from saddlewalk import ode
from saddlewalk.curves import Stopped
from saddlewalk.problem import ParametersLike, Problem, compiled, norms
from saddlewalk.problem.motion import drives, signs
from saddlewalk.programs import seldom
from saddlewalk.show.progress import Progress
from saddlewalk.tasks.base import AbstractPoints
from saddlewalk.theory.agf.alignment import aligned
from saddlewalk.theory.agf.alternation import Alternation, Margins, Rules
from saddlewalk.theory.agf.climb import Climb, steepest
from saddlewalk.theory.agf.leap import climb_of, leap_ahead, leap_of
from saddlewalk.theory.agf.record import Moment, Record
from saddlewalk.theory.agf.settling import Outlook, bottom_of_tail
from saddlewalk.theory.agf.tail import Relaxation, Tail, find_tail
from saddlewalk.theory.agf.thresholds import Thresholds

_BLAS = ThreadpoolController()


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
        self.problem, self.real_time = problem, real_time
        apart = problem.units.rotatable and real_time
        self.theta: np.ndarray = _apart(theta) if apart else theta
        self.at = Thresholds() if thresholds is None else thresholds
        self.aligned, self.max_time = aligned, max_time
        self.bar: Progress | None = None
        self.woke_as = self.theta
        self.time = 0.0
        self.evaluations = 0
        self.sign = signs(problem, self.theta)
        self.residual = np.asarray(compiled.residual(problem, 0 * self.theta))
        push = compiled.climb(problem, self.theta, self.residual)
        self.largest_drive = drives(problem, self.theta, np.asarray(push))
        if problem.units.rotatable:  # units will be mixed: they have no past of their own
            self.largest_drive = np.full(problem.width, self.largest_drive.max())
        self.level = float(compiled.loss(problem, 0 * self.theta))
        # a loss that cannot be negative, and is hardly there, has no stage left in it
        self.nothing = self.at.nothing * self.level if problem.squared else 0.0
        self.near = self.at.near_rest
        self.tail: Tail | None = None
        self.active, self.settled = np.zeros((2, problem.width), dtype=bool)
        if real_time:
            self._find_awake()
        self.begun = bool(self.active.any())
        settled = np.where(self.settled[:, None], self.theta, 0.0)
        self.record = Record()
        output = np.asarray(compiled.feature_lengths(problem, settled))
        first = Moment(0, self.theta, self.settled.copy(), output)
        self.record.add_rest(0.0, float(compiled.loss(problem, settled)), 0.0, first)

    def _find_awake(self) -> None:
        """Units that are in use already, where training has begun, and those that are where they belong.

        A unit is in use if it is too large to be dormant beside the target. It has settled if the loss would
        hardly fall along it; else it is about to be felt, and the level is the loss without it. Rest is
        judged by what was gained since the loss of nothing at all.
        """
        length = np.asarray(compiled.feature_lengths(self.problem, self.theta))
        target = math.sqrt(2 * self.level) if self.level > 0 else 1.0
        waking = np.asarray(self._margins(self._flow(plateau=True)).waking)
        self.active = (waking <= 0) | (length > self._wakes_at * target)
        if self.active.any():
            rising = np.asarray(self._margins(self._flow(plateau=False)).rising)
            self.settled = self.active & ~rising

    def run(self) -> Stopped:
        """Alternate until nothing is left to learn; the reason is returned."""
        if self.aligned and not self.problem.units.rotatable:
            self.theta = aligned(
                self.problem, self.theta, self.active, self._tolerance(plateau=True), self.at
            )
        # small matrices: two threads would wait for each other
        with _BLAS.limit(limits=1) if self.theta.size <= self.at.dense_tail else nullcontext():
            stopped = self._alternate()
            self._end_tail(self.max_time)
        return stopped

    @property
    def left(self) -> float:
        """Utility that a new unit would find now, as a part of what one finds at the start."""
        now, start = (
            steepest(self.problem, np.asarray(compiled.residual(self.problem, theta)))
            for theta in (self._only_active, 0 * self.theta)
        )
        return now / start

    def _alternate(self) -> Stopped:
        if self.begun:
            stopped = self._pass_transition()
            if stopped:
                return stopped
        for _ in range(self.at.most_rounds + 10 * self.problem.width):
            if self.level <= self.nothing:
                return Stopped.LEARNED
            if self.active.all() and not math.isfinite(self._leaves):
                return Stopped.NO_DORMANT
            stopped = self._cross_plateau() or self._pass_transition()
            if stopped:
                return stopped
        return Stopped.LIMIT

    # --- plateaus -------------------------------------------------------------------------------------------

    def _cross_plateau(self) -> Stopped | None:
        """Dormant units climb with the residual frozen until the first wakes, or active ones leave."""
        if self.problem.units.rotatable and not self.active.all():
            self._mix_dormant()
        flow = self._flow(plateau=True)
        margins = self._margins(flow)
        steps, least = 0, self.at.first_steps
        while (margins.waking > self.at.at_event).all():
            idle = self._no_utility_left(np.asarray(margins.view.drive))
            if idle and not math.isfinite(self._leaves):
                return Stopped.NO_UTILITY
            if idle:
                self.time = min(self._leaves, self.max_time)
            if self.time >= self.max_time or steps >= self.at.most_steps:
                return Stopped.LIMIT
            if self.time >= self._leaves:
                break
            if not self._leap(flow, margins):
                taken = self._climb(flow, least)
                if taken is None:
                    return Stopped.STALLED
                steps, least = steps + taken, 2 * least
            margins = self._margins(flow)
        self._end_tail(self.time)
        row = self.record.add(np.array([[self.time, self._present_loss, 0.0]]))
        self.record.add_moment(row, self.theta, self.active.copy(), self.record.moments[-1].output)
        self._wake(margins, self.at.at_event)
        return None

    @property
    def _horizon(self) -> float:
        """Time that a plateau may last."""
        return min(self.max_time, self._leaves) - self.time

    @property
    def _leaves(self) -> float:
        """When active units will have left the saddle at which they rest, if it is one."""
        if self.tail is None or not self.real_time:  # Algorithm 1 rests at every critical point
            return math.inf
        return self.tail.begins + self.tail.leaves

    def _climb(self, flow: Alternation, most: int) -> int | None:
        """Integrate dormant units; the steps that it took, or none if it stalled."""
        if self.problem.pace_degree > 2:
            return self._climb_on_own_clock(flow)
        steps = 0
        for piece in self._integrate(flow, "explicit", self._tolerance(plateau=True), most):
            steps += piece.steps
            if piece.stalled:
                return None
        return steps

    def _climb_on_own_clock(self, flow: Alternation) -> int | None:
        climb = Climb.of(flow, self.theta, float(self.largest_drive.max()), self._horizon)
        origin, start, steps = self.time, self.theta, 0
        for piece in ode.integrate(
            climb,
            climb.state(self.theta),
            kind="explicit",
            rtol=self._tolerance(plateau=True),
            times=np.zeros(0),
            max_steps=self.at.most_steps,
        ):
            steps += piece.steps
            self.evaluations += piece.evaluations
            self.theta = np.where(self.active[:, None], start, climb.parameters(piece.end))
            self.time = origin + climb.unit * float(piece.end[0, -1])
            self._remember_drives(piece.saved)
            self._tell(self.level)
            if piece.stalled:
                return None
            if self._no_utility_left(piece.saved[-1]):
                break
        return steps

    def _leap(self, flow: Alternation, margins: Margins) -> bool:
        """Go on in closed form to where the first unit wakes, as far as it is true; was it worth it?"""
        residual = np.asarray(flow.residual)
        leap = leap_of(self.problem, self.theta, residual)
        if leap is None:
            return False
        start, horizon = self.theta, self._horizon
        fastest = np.maximum(leap.fastest, 1e-300)  # a unit that sees no sample does not move
        pace = np.where(self.active, 1e-300, (2.0 if self.real_time else 1.0) * fastest)

        def moved(theta: ParametersLike) -> np.ndarray:
            return np.where(self.active[:, None], start, theta)

        time = leap_ahead(
            leap,
            climb_of(self.problem, residual),
            lambda theta: jax.device_get(_margins_of(flow, moved(theta))),
            margins,
            pace=pace,
            late=self._late,
            horizon=horizon,
            at=self.at,
        )
        if not (time * float(leap.fastest.max()) > self.at.worth or time == horizon):
            return False
        self.theta, self.time = moved(leap.after(time)), self.time + time
        return True

    # --- transitions ----------------------------------------------------------------------------------------

    def _pass_transition(self) -> Stopped | None:
        """Active units descend until they rest; dormant ones wake and sleep meanwhile."""
        taken, spent, passed = 0, self.evaluations, 0.0
        kind, patience = self._kinds
        self.near = self.at.near_rest
        while taken < self.at.most_steps and self.time < self.max_time:
            flow = self._flow(plateau=False)
            margins = self._margins(flow)
            if self._apply(margins):
                continue
            if float(margins.resting) <= self.at.at_event or not self.active.any():
                if self._comes_to_rest(margins):
                    return None
                continue
            tolerance, before = self._tolerance(plateau=False, kind=kind), taken
            for piece in self._integrate(flow, kind, tolerance, patience):
                taken += piece.steps
                passed += float(piece.time[-1])
                if piece.stalled:
                    return Stopped.STALLED
                if piece.event:
                    margins = jax.tree.map(lambda rows: rows[-1], piece.saved)
                    reached = self._reached(margins)
                    rests = not self._apply(margins, reached) and float(margins.resting) <= reached
                    if rests and self._comes_to_rest(margins):
                        return None
                elif self._settled(piece, passed, self.evaluations - spent):
                    if self._settle():
                        return None
                    spent = self.evaluations
            if taken == before:  # not one step was good
                return Stopped.STALLED
            if taken >= patience:
                kind, patience = self._stiff, self.at.most_steps
        return Stopped.LIMIT

    def _comes_to_rest(self, margins: Margins) -> bool:
        """Rest, if what is left is a tail in closed form, or nothing; else go on until nearer to it."""
        if self.real_time:
            self.active &= ~np.asarray(margins.dozing)
        learned = float(margins.view.loss) <= self.nothing
        while True:
            if self.active.any() and not learned and self._close_tail():
                return True
            if self.near <= self.at.exhausted:
                self._rest()
                return True
            self.near = max(0.1 * self.near, self.at.exhausted)
            if float(self._margins(self._flow(plateau=False)).resting) > self.at.at_event:
                return False

    def _close_tail(self) -> bool:
        """Rest where the tail of the transition leads, if it is one; the clock stands at its beginning."""
        if self.theta.size > self.at.dense_tail or self.problem.adaptive:
            return False
        flow = self._flow(plateau=False)
        # in any direction, not in theirs: what turns them may still be tiny
        size = norms(self.theta[~self.active])[:, 0].max(initial=0.0)
        growth = self.largest_drive.max() * size ** (self.problem.pace_degree - 2)
        factor = self.at.slow if self.problem.pace_degree > 2 else self.at.slow_by_exponentials
        slow = factor * growth if self.real_time and not self.active.all() else 0.0
        relaxation = Relaxation.of(flow, flow.state(self.theta), slow)
        tail = find_tail(flow, self.theta, relaxation, self.at, self.time, self.real_time)
        if tail is None:
            return False
        before, awake, level = self.theta, self.active.copy(), self.level
        self.theta, self.level, self.tail = tail.theta, tail.loss, tail
        self._apply(self._margins(self._flow(plateau=False)))
        if (self.active & ~awake).any():  # it does not rest: somebody wakes on the way there
            self.theta, self.level, self.tail, self.active = before, level, None, awake
            return False
        return True

    def _end_tail(self, time: float) -> None:
        """Draw the tail of the last transition up to this time, and put its units where they are then."""
        tail, self.tail = self.tail, None
        if tail is None:
            return
        lasted = max(time - tail.begins, 0.0) if self.real_time else math.inf
        rows = tail.curve(lasted)
        if not self.real_time:
            rows[:, 0], rows[:, 2] = 0.0, 0.0
        if len(rows):
            self.record.add(rows + np.array([tail.begins, 0.0, 0.0]))
        grown = min(lasted, tail.leaves)
        if self.real_time and (lasted < tail.lasts or math.isfinite(tail.leaves)):
            felt = tail.relaxation.kept.reshape(self.theta.shape) & self.active[:, None]
            self.theta = np.where(felt, tail.parameters(grown), self.theta)
        output = np.asarray(compiled.feature_lengths(self.problem, self.theta))
        last = Moment(0, self.theta, self.active.copy(), output)
        row = rows[-1] if len(rows) else [0.0, tail.loss, 0.0]
        self.record.add_rest(tail.begins + row[0], row[1], row[2], last)

    @property
    def _present_loss(self) -> float:
        """Of the active units, on a plateau; where they are leaving a saddle it has begun to fall."""
        return float(compiled.loss(self.problem, self._only_active))

    @property
    def _kinds(self) -> tuple[str, int]:
        """Steps that suit a transition, and how many of them are tried before stiff ones."""
        if not self.problem.smooth or self.problem.adaptive:
            return "explicit", self.at.most_steps  # the others want a symmetric Jacobian
        above = self.problem.pace_degree > 2
        return "explicit", self.at.stiff_after_above_2 if above else self.at.stiff_after

    @property
    def _stiff(self) -> str:
        """Steps for what is stiff: with a dense Jacobian where that is small."""
        return "implicit" if self.theta.size <= self.at.dense else "stabilized"

    def _settled(self, piece: ode.Piece, passed: float, spent: int) -> bool:
        """What still moves no longer matters."""
        view = piece.saved.view
        last = self._no_utility_left(view.drive[-1])
        outlook = Outlook.of(
            np.asarray(view.loss),
            np.asarray(view.output)[:, self.active],
            lasted=float(piece.time[-1] - piece.time[0]),
            passed=passed,
            level=self.level,
            last=last,
        )
        if not self.problem.smooth:
            return (last and self._goes_nowhere(piece)) or outlook.stands_on_kinks(self.at)
        useful = view.drive[-1] > self.at.convergence * self.largest_drive
        if (self.active & piece.saved.rising[-1] & useful).any():
            return False
        if outlook.has_faded(self.at):
            return True
        # in Algorithm 1 the clock stands: nothing is lost when what is left is polished away
        return spent >= self.at.long and (not self.real_time or outlook.is_a_tail(self.at, spent))

    def _goes_nowhere(self, piece: ode.Piece) -> bool:
        """Whether no unit makes any way over a piece: where `train` stops, too."""
        way = piece.states[-1] - piece.states[0]
        lasted = float(piece.time[-1] - piece.time[0])
        drive = drives(self.problem, self.theta, way / max(lasted, 1e-300))
        return bool((drive <= self.at.convergence * self.largest_drive)[self.active].all())

    def _settle(self) -> bool:
        """Rest here, or where a smooth loss has its bottom; False if that is no tail but a descent."""
        if self.problem.smooth:
            flow = self._flow(plateau=False)
            bottom = bottom_of_tail(flow, self.theta, self.level, self.at)
            if bottom is None:
                return False
            self.theta = bottom
            self._apply(self._margins(self._flow(plateau=False)))
        self._rest()
        return True

    def _flow(self, plateau: bool) -> Alternation:
        """The motion of this phase, from where the units are."""
        at, real_time = self.at, self.real_time
        wake, sleep = (
            (self._wakes_at, at.sleep * self._wakes_at) if real_time else (1.0, at.collapse)
        )
        numbers = {
            "wake": wake,
            "sleep": sleep,
            "calm": at.calm if real_time else 0.0,
            "patient": at.patient,
            "least_alignment": at.least_alignment
            if self.problem.pace_degree == 2
            else at.least_alignment_above_2,
            "largest": np.maximum(self.largest_drive, 1e-300),
            "idle": at.convergence if plateau or real_time else at.exhausted,
            "near": self.near,
            "last": at.last,
            "level": self.level,
            "nothing": self.nothing,
            "late": self._late,
        }
        rules = Rules(
            dormant_move=np.asarray(plateau or real_time),
            active_move=np.asarray(not plateau),
            wakes_by_norm=np.asarray(not real_time),
            stops=np.asarray(plateau or not real_time),
            **{name: np.asarray(value, dtype=np.float64) for name, value in numbers.items()},
        )
        if plateau:  # looked at on plateaus alone
            self.residual = np.asarray(compiled.residual(self.problem, self._only_active))
        drive = np.asarray(self.largest_drive.max())
        return Alternation(self.problem, drive, self.sign, self.active, self.residual, rules)

    def _mix_dormant(self) -> None:
        """Turn the dormant units so that each carries a feature; nothing else changes."""
        task = self.problem.task
        assert isinstance(task, AbstractPoints)
        residual = compiled.residual(self.problem, self._only_active)
        theta = np.array(self.theta)
        theta[~self.active] = self.problem.units.mix(theta[~self.active], task.x, residual)
        self.theta = theta

    def _integrate(self, flow: Alternation, kind: str, rtol: float, most: int | None = None) -> Any:
        """Advance `theta` and the clock piece by piece, and in a transition keep the loss curve."""
        origin = self.time
        runs = self.real_time or bool(flow.rules.dormant_move)
        pieces = ode.integrate(
            flow,
            flow.state(self.theta),
            kind=kind,
            rtol=rtol,
            times=np.zeros(0),
            max_steps=self.at.most_steps if most is None else most,
            max_time=self._horizon if runs else math.inf,
        )
        for piece in pieces:
            self.theta, self.active = flow.parameters(piece.end), np.array(piece.context)
            self.evaluations += piece.evaluations
            view = piece.saved.view
            time = origin + piece.time if runs else np.full(len(piece.time), origin)
            self.time = float(time[-1])
            if flow.rules.active_move:
                rows = np.stack([time, view.loss, view.rate if runs else 0 * view.rate], axis=1)
                self._keep(rows, piece, flow)
            self._tell(float(view.loss[-1]))
            self._remember_drives(view.drive)
            yield piece

    def _tell(self, loss: float) -> None:
        """Say on the progress line where the walk is."""
        if self.bar is not None:
            awake = int(self.active.sum())
            self.bar.update(f"time {self.time:.4g}, loss {loss:.4g}, {awake} units awake")

    def _remember_drives(self, drive: np.ndarray) -> None:
        """Each unit is judged by the largest drive it ever had."""
        if not self.problem.units.rotatable:
            self.largest_drive = np.maximum(self.largest_drive, drive.max(axis=0))

    @property
    def _only_active(self) -> ParametersLike:
        """The parameters with those of dormant units at zero."""
        return np.where(self.active[:, None], self.theta, 0.0)

    def _margins(self, flow: Alternation) -> Margins:
        return jax.device_get(_margins_of(flow, self.theta))

    @property
    def _wakes_at(self) -> float:
        """Part of its output at rest at which a unit wakes."""
        return self.at.wake if self.problem.pace_degree == 2 else self.at.wake_above_2

    @property
    def _late(self) -> float:
        """How late a unit may wake: it hardly matters in real time, and is a stage's time in Algorithm 1."""
        return self.at.late if self.real_time else self.at.prompt

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
        here = Moment(0, self.theta, self.active.copy(), self.record.moments[-1].output)
        self.record.add_rest(self.time, self.level, 0.0, here)

    def _keep(self, rows: np.ndarray, piece: ode.Piece, flow: Alternation) -> None:
        """Append to the curve, and remember the network at every row, or at the last if it is large."""
        first = 0 if self.theta.size <= self.at.remembered else len(rows) - 1
        theta, place = flow.parameters(piece.states[first:]), self.record.add(rows)
        for k in range(first, len(rows)):
            seen = (theta[k - first], piece.contexts[k], piece.saved.view.output[k])
            self.record.add_moment(place + k, *seen)

    def _tolerance(self, plateau: bool, kind: str = "explicit") -> float:
        at = self.at
        if kind == "stabilized":
            return at.stabilized_tolerance
        if plateau:
            return at.plateau_tolerance if self.problem.smooth else at.kinked_plateau_tolerance
        return at.transition_tolerance if self.problem.smooth else at.kinked_transition_tolerance


def _apart(theta: np.ndarray) -> np.ndarray:
    """Rotatable units turned so that what they hold together is held by as few as can be."""
    turn = np.linalg.svd(theta, full_matrices=True)[0]
    return turn.T @ theta


@seldom
def _margins_of(flow: Alternation, theta: ParametersLike) -> Margins:
    now = jnp.asarray(theta)
    return flow.margins(now, flow.push(now))

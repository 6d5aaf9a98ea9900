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
from functools import cached_property
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from saddlewalk import ode
from saddlewalk.curves import Stopped
from saddlewalk.problem import ParametersLike, Problem, compiled
from saddlewalk.problem.motion import drives, signs
from saddlewalk.programs import Bound, on_device
from saddlewalk.show.progress import Progress
from saddlewalk.tasks.base import AbstractPoints
from saddlewalk.theory.agf.alignment import aligned
from saddlewalk.theory.agf.alternation import Margins, Rules, Stand
from saddlewalk.theory.agf.climb import anywhere, steepest
from saddlewalk.theory.agf.parting import parted_units
from saddlewalk.theory.agf.phase import Motion, Phase
from saddlewalk.theory.agf.plateau import cross_plateau
from saddlewalk.theory.agf.record import Moment, Record, telling
from saddlewalk.theory.agf.tail import Tail
from saddlewalk.theory.agf.thresholds import Thresholds
from saddlewalk.theory.agf.transition import pass_transition

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
        problem = on_device(problem)
        self.problem, self.real_time = problem, real_time
        self.above_2, self.rotatable = problem.pace_degree > 2, problem.units.rotatable
        apart = self.rotatable and real_time
        self.theta: np.ndarray = _apart(theta) if apart else theta
        self.at = Thresholds() if thresholds is None else thresholds
        self.aligned, self.max_time = aligned, max_time
        self.bar: Progress | None = None
        self.woke_as = self.theta
        self.age = self.began = self.lasted = 0.0
        self.evaluations = 0
        self.sign = signs(problem, self.theta)
        self.ask = Bound(problem)
        self.residual = self.ask(compiled.residual, 0 * self.theta)
        push = self.ask(compiled.climb, self.theta, self.residual)
        self.largest_drive = drives(problem, self.theta, push)
        if self.rotatable:  # units will be mixed: they have no past of their own
            self.largest_drive = np.full(problem.width, self.largest_drive.max())
        self.level = self.untrained = float(self.ask(compiled.loss, 0 * self.theta))
        self.infimum, self.separation = problem.infimum, problem.separation
        self.near, self.last = self.at.near_rest, self.at.last
        self.idle_since, self.stiffest, self.took_stiff_steps = math.inf, 0.0, False
        self.tail: Tail | None = None
        self.sure_until = math.inf
        self.active, self.settled = np.zeros((2, problem.width), dtype=bool)
        if real_time:
            self._find_awake()
        self.begun = bool(self.active.any())
        settled = np.where(self.settled[:, None], self.theta, 0.0)
        self.record = Record()
        output = self.ask(compiled.feature_lengths, self.theta)
        first = Moment(0, self.theta, self.settled.copy(), output)
        self.record.add_rest(0.0, float(self.ask(compiled.loss, settled)), 0.0, first)

    def _find_awake(self) -> None:
        """Units that are in use already, where training has begun, and those that are where they belong.

        A unit is in use if it is too large to be dormant beside the target. It has settled if the loss would
        hardly fall along it; else it is about to be felt, and the level is the loss without it. Rest is
        judged by what was gained since the loss of nothing at all.
        """
        length = self.ask(compiled.feature_lengths, self.theta)
        target = math.sqrt(2 * self.level) if self.level > 0 else 1.0
        waking = self.phase(plateau=True).margins(self.theta).waking
        self.active = (waking <= 0) | (length > self._wakes_at * target)
        if self.active.any():
            self.settled = self.active & ~self.margins_in_transition().rising
            self.age = 0.0 if self.problem.adaptive else self._least_age()

    def _least_age(self) -> float:
        """How long the training before must have taken: gradient flow loses the square of its velocity in a
        unit of time, so that it cannot have come this far sooner."""
        gained = self.untrained - float(self.ask(compiled.loss, self.theta))
        way = float(np.sum(self.theta**2 / np.asarray(self.problem.rates)))
        return way / gained if gained > 0 else 0.0

    def run(self) -> Stopped:
        """Alternate until nothing is left to learn; the reason is returned."""
        if self.aligned and not self.rotatable:
            self.theta = aligned(
                self.problem, self.theta, self.active, self.tolerance(plateau=True), self.at
            )
        # small matrices: two threads would wait for each other
        with _BLAS.limit(limits=1) if self.theta.size <= self.at.dense_tail else nullcontext():
            stopped = self._alternate()
            if self.tail is not None:
                self.end_tail(self.max_time - self.tail.begins)
        return stopped

    @property
    def time(self) -> float:
        """The clock: when this phase began, and how long it has lasted.

        Two numbers: at time 1e30 float64 does not know of the moments in which active units leave a saddle.
        """
        return self.began + self.lasted

    def begin_phase(self) -> None:
        """A plateau or a transition begins now."""
        self.began, self.lasted = self.time, 0.0

    @property
    def outputs(self) -> np.ndarray:
        """The active units' sum in function space."""
        return np.asarray(self.ask(compiled.function, self._only_active))

    @property
    def left(self) -> float:
        """Utility that a new unit would find now, as a part of what one finds at the start."""

        def drive_at(theta: np.ndarray) -> float:
            residual = self.ask(compiled.residual, theta)
            return float(self.ask(steepest, residual, anywhere(theta.shape)))

        return drive_at(np.asarray(self._only_active)) / drive_at(0 * self.theta)

    def _alternate(self) -> Stopped:
        if self.begun:
            stopped = pass_transition(self)
            if stopped:
                return stopped
        for _ in range(self.at.most_rounds + 10 * self.problem.width):
            stopped = self.over or cross_plateau(self) or pass_transition(self)
            if stopped:
                return stopped
        return Stopped.LIMIT

    @property
    def over(self) -> Stopped | None:
        """Why nothing comes after this plateau, if all is learned or all units are active."""
        if self.infimum is not None and self.level <= self._nothing_at_all:
            return Stopped.LEARNED if self.separation is None else Stopped.SEPARATED
        if self.active.all() and not math.isfinite(self.leaves):
            return Stopped.NO_DORMANT
        return None

    # --- plateaus -------------------------------------------------------------------------------------------

    @property
    def horizon(self) -> float:
        """Time that a phase may go on."""
        return min(self.max_time - self.began, self.leaves) - self.lasted

    @property
    def nothing(self) -> float:
        """A loss at which a stage is over for certain: one that cannot be negative, and is hardly there,
        and little beside that before the stage, whose own level is to be known."""
        if self.infimum is None:
            return 0.0
        of_stage = self.at.nothing_of_stage * (self.level - self.infimum)
        return min(self._nothing_at_all, self.infimum + of_stage)

    @property
    def _nothing_at_all(self) -> float:
        """A loss at which all is learned: of one that falls like 1/time, where `train` ends, too."""
        assert self.infimum is not None
        whole = self.untrained - self.infimum
        if self.separation is None:
            return self.infimum + self.at.nothing * whole
        return self.infimum + min(self.at.convergence * whole, self.separation)

    @property
    def leaves(self) -> float:
        """How long a plateau lasts until active units have left the saddle at which they rest, if any."""
        if self.tail is None or not self.real_time:  # Algorithm 1 rests at every critical point
            return math.inf
        return self.tail.leaves

    # --- transitions ----------------------------------------------------------------------------------------

    def end_tail(self, lasted: float) -> None:
        """Draw the tail of the last transition as long as it lasted; its units are where they are then."""
        tail, self.tail = self.tail, None
        if tail is None:
            return
        lasted = lasted if self.real_time else math.inf
        rows = tail.curve(lasted)
        if not self.real_time:
            rows[:, 0], rows[:, 2] = 0.0, 0.0
        if len(rows):
            self.record.add(rows + np.array([tail.begins, 0.0, 0.0]))
        if self.real_time and lasted > tail.may_leave:
            self.sure_until = min(self.sure_until, tail.begins + tail.may_leave)
        grown = min(lasted, tail.leaves)
        if self.real_time and (lasted < tail.lasts or math.isfinite(tail.leaves)):
            felt = tail.relaxation.kept.reshape(self.theta.shape) & self.active[:, None]
            self.theta = np.where(felt, tail.parameters(grown), self.theta)
        output = self.ask(compiled.feature_lengths, self.theta)
        last = Moment(0, self.theta, self.active.copy(), output)
        row = rows[-1] if len(rows) else [0.0, tail.loss, 0.0]
        self.record.add_rest(tail.begins + row[0], row[1], row[2], last)

    @property
    def present_loss(self) -> float:
        """Of the active units, on a plateau; where they are leaving a saddle it has begun to fall."""
        return float(self.ask(compiled.loss, self._only_active))

    def phase(self, plateau: bool) -> Phase:
        """A plateau or a transition, from where the units are."""
        if plateau:  # looked at on plateaus alone
            self.residual = self.ask(compiled.residual, self._only_active)
        largest, numbers = np.maximum(self.largest_drive, 1e-300), np.array(self._rules(plateau))
        return Phase(self._motion, Stand(self.active, self.residual, largest, numbers))

    @cached_property
    def _motion(self) -> Motion:
        """How the units move, in whatever phase."""
        return Motion(self.problem, np.asarray(self.largest_drive.max()), self.sign)

    def _rules(self, plateau: bool) -> Rules:
        at, real_time = self.at, self.real_time
        wake, sleep = (
            (self._wakes_at, at.sleep * self._wakes_at) if real_time else (1.0, at.collapse)
        )
        return Rules(
            dormant_move=plateau or real_time,
            active_move=not plateau,
            wakes_by_norm=not real_time,
            wake=wake,
            sleep=sleep,
            calm=at.calm if real_time else 0.0,
            patient=at.patient,
            least_alignment=at.least_alignment_above_2 if self.above_2 else at.least_alignment,
            idle=at.convergence if plateau or real_time else at.exhausted,
            near=self.near,
            last=self.last,
            level=self.level,
            nothing=self.nothing,
            late=self.late,
            stops=plateau or not real_time or self.rotatable,
        )

    def mix_dormant(self) -> None:
        """Turn the units so that each dormant one carries a feature, and nothing that active ones carry."""
        task = self.problem.task
        assert isinstance(task, AbstractPoints)
        residual = self.ask(compiled.residual, self._only_active)
        theta = parted_units(self.theta, self.active)
        theta[~self.active] = self.problem.units.mix(theta[~self.active], task.x, residual)
        self.theta = theta

    def integrate(self, phase: Phase, kind: str, rtol: float, most: int | None = None) -> Any:
        """Advance `theta` and the clock piece by piece, and in a transition keep the loss curve."""
        origin, began = self.lasted, self.began
        plateau = not phase.active_move
        runs = self.real_time or plateau
        pieces = phase.integrate(
            self.theta,
            kind,
            rtol=rtol,
            max_steps=self.at.most_steps if most is None else most,
            max_time=self.horizon if runs else math.inf,
        )
        for piece in pieces:
            # copies: what is remembered of a view would keep the whole piece
            self.theta = np.array(phase.parameters(piece.end))
            self.active = np.array(piece.context.active)
            self.evaluations += piece.evaluations
            view = piece.saved.view
            if runs:
                self.lasted = origin + float(piece.time[-1])
            time = began + (origin + piece.time if runs else np.full(len(piece.time), origin))
            if not plateau:
                rows = np.stack([time, view.loss, view.rate if runs else 0 * view.rate], axis=1)
                self._keep(rows, piece, phase)
            self.tell(float(view.loss[-1]))
            self.remember_drives(view.drive)
            yield piece

    def tell(self, loss: float) -> None:
        """Say on the progress line where the walk is."""
        if self.bar is not None:
            awake = int(self.active.sum())
            self.bar.update(f"time {self.time:.4g}, loss {loss:.4g}, {awake} units awake")

    def remember_drives(self, drive: np.ndarray) -> None:
        """Each unit is judged by the largest drive it ever had."""
        if not self.rotatable:
            self.largest_drive = np.maximum(self.largest_drive, drive.max(axis=0))

    @property
    def _only_active(self) -> ParametersLike:
        """The parameters with those of dormant units at zero."""
        return np.where(self.active[:, None], self.theta, 0.0)

    def margins_in_transition(self) -> Margins:
        """How far each event is, while active units move."""
        return self.phase(plateau=False).margins(self.theta)

    @property
    def _wakes_at(self) -> float:
        """Part of its output at rest at which a unit wakes."""
        return self.at.wake_above_2 if self.above_2 else self.at.wake

    @property
    def late(self) -> float:
        """How late a unit may wake: it hardly matters in real time, and is a stage's time in Algorithm 1."""
        return self.at.late if self.real_time else self.at.prompt

    def reached(self, margins: Margins) -> float:
        """Margin at which events happen where one was located: rounding may leave it short of zero."""
        units = np.minimum(margins.waking, margins.sleeping).min()
        return max(self.at.at_event, min(float(units), float(margins.resting)))

    def apply(self, margins: Margins, tolerance: float = 0.0) -> bool:
        """Let units sleep and wake; say whether any did."""
        asleep = np.asarray(margins.sleeping) <= tolerance
        self.active &= ~asleep
        if asleep.any() and not self.real_time:
            self.theta = np.where(asleep[:, None], self.woke_as, self.theta)
        woke = self.wake(margins, tolerance) if self.real_time else False
        return bool(asleep.any()) or woke

    def wake(self, margins: Margins, tolerance: float) -> bool:
        """Units at the threshold become active, several at once if they tie."""
        woken = np.asarray(margins.waking) <= tolerance
        self.woke_as = np.where(woken[:, None], self.theta, self.woke_as)
        self.active |= woken
        return bool(woken.any())

    def no_utility_left(self, drive: np.ndarray) -> bool:
        """Whether no dormant unit is driven any more, beside what it once was."""
        return not (drive > self.at.convergence * self.largest_drive)[~self.active].any()

    def rest(self) -> None:
        """Active units rest where they are: a new level."""
        self.level = self.present_loss
        here = Moment(0, self.theta, self.active.copy(), self.record.last.output)
        self.record.add_rest(self.time, self.level, 0.0, here)

    def _keep(self, rows: np.ndarray, piece: ode.Piece, phase: Phase) -> None:
        """Append to the curve, and remember the network at every row; at those that tell if it is large."""
        place, active, output = self.record.add(rows), piece.saved.active, piece.saved.view.output
        if self.theta.size <= self.at.remembered:
            self.record.add_moments(place, phase.parameters(piece.states), active, output)
            return
        kept = telling(rows[:, 1])
        for k, moved in zip(kept.tolist(), phase.parameters(piece.states[kept]), strict=True):
            self.record.add_moment(place + k, moved.copy(), active[k].copy(), output[k].copy())

    def tolerance(self, plateau: bool, kind: str = "explicit") -> float:
        """Error of a step, in a phase and of a kind."""
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

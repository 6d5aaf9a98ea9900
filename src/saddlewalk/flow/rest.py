"""When a training has come to rest, by flow or by steps."""

import math

import numpy as np
from jaxtyping import Bool, Float

from saddlewalk.curves import Stopped
from saddlewalk.flow.gradient_flow import Snapshot
from saddlewalk.problem import Problem
from saddlewalk.problem.endings import natural_size, separated_below, stands_still

_STILL = 1e-13
"""A drive this small, relatively, is rounding: nothing moves, whatever is left to learn."""
_TINY = 1e-2
"""Part of the largest unit below which one has yet to come."""
_PATIENCE = 3.0
"""A deep network waits so many times as long as a unit with the utility that is left would take."""
_PATIENCE_OF_SHORT_STEPS = 2.0
"""Where steps cannot grow while nothing happens, at kinks and in descents, nothing is waited for longer than
so many times as long as it took to lose all drive."""

Moments = Bool[np.ndarray, " time"]
Times = Float[np.ndarray, " time"]


class Rest:
    r"""When a training has come to rest. Of every unit, large or tiny, is asked with c = `convergence`:

    - It has no drive: :math:`|v|/|\theta|^{\kappa-1}` is at most c times the largest it ever was.
    - It goes nowhere: in as much time as has passed it would change by at most :math:`\sqrt c` of itself.
      A slow unit has little drive beside the first ones, and yet much to gain beside what is left of the
      loss. (The root, since the loss is of second order in it.) Below :math:`c^2` of the first loss
      nothing is left to gain.

    A loss without a finite minimum lets units go for ever. Where every sample is on its right side, and only
    the part c of the loss is left, nothing new comes: the training is over. Where some never are, nothing
    more is waited for when there has been no drive for :math:`1/\sqrt c` times as long as it took to lose it
    (twice as long where steps cannot grow: at kinks, and in descents).

    Where a network that rests at a saddle looks as at a minimum (linear neurons, which are all active after
    the first jump; deep networks, which are one unit), a new unit must find nothing either; or, for deep
    ones, so much time has passed that a unit with that much utility would have come. At a saddle of a deep
    linear network no unit of one layer finds anything: only all layers together leave it. There
    :math:`1/\sqrt c` times as long is waited as it took to lose all drive.

    Parameters
    ----------
    problem : units, data and loss.
    first : what there is to see at the start.
    convergence : the part c.
    finite_steps : a descent, and no flow.
    """

    def __init__(
        self, problem: Problem, first: Snapshot, convergence: float, finite_steps: bool = False
    ) -> None:
        self._slides = not (problem.smooth or finite_steps)
        self._short_steps = finite_steps or not problem.smooth
        self._degree = problem.pace_degree
        self._deep = not problem.units.additive
        self._together = self._deep and self._degree > 2 and problem.units.linear_in == "input"
        self._convergence = convergence
        self._largest = np.asarray(first.drive)
        self._opportunity = float(first.opportunity)
        self._change = math.sqrt(convergence)
        self._soon = 1 / _PATIENCE_OF_SHORT_STEPS if self._short_steps else self._change
        least = problem.infimum or 0.0
        self._nothing = least + convergence**2 * abs(float(first.loss) - least)
        self._separated = separated_below(problem, float(first.loss), convergence)
        self._apart = -math.inf if problem.separation is None else least + problem.separation
        self._idle_since = math.inf
        self.reason = Stopped.CONVERGED
        """Why the training ended, once `first` has found that it rests."""

    def first(self, seen: Snapshot, time: Times) -> int | None:
        """First of some moments at which the training rests; of a flow with kinks it is the last or none.

        A unit that slides along a kink has a velocity at every moment and yet goes nowhere: there it is
        the way made over all these moments that counts.

        Parameters
        ----------
        seen : what there was to see at each of these moments.
        time : since the start of the training.
        """
        if not len(time):
            return None
        largest = np.maximum.accumulate(np.concatenate([self._largest[None], seen.drive]))[1:]
        self._largest = largest[-1]
        drive = self._net_drive(seen, time) if self._slides else np.asarray(seen.drive)
        idle: Moments = np.all(drive <= self._convergence * largest, axis=1)
        still = (drive <= _STILL * largest).all(axis=1)
        for_long = self._for_long(idle, time)
        # a deep linear network that stands this still may be at a saddle that it is long to leave
        if self._together:
            still &= for_long
        settled = self._goes_nowhere(drive, seen, time) | (seen.loss <= self._nothing) | for_long
        rests = np.flatnonzero(idle & (still | (settled & self._nothing_new(seen, time, for_long))))
        apart = np.flatnonzero(seen.loss <= self._separated)
        if len(apart):
            self.reason = Stopped.SEPARATED
            return int(apart[0])
        if not len(rests):
            return None
        row = len(time) - 1 if self._slides else int(rests[0])
        if for_long[row] and self._some_unit_grows(drive[row], seen, float(time[row]), row):
            self.reason = Stopped.SLOW
        elif seen.loss[row] <= self._apart:
            self.reason = Stopped.SEPARATED
        return row

    def _some_unit_grows(
        self, drive: Float[np.ndarray, " width"], seen: Snapshot, time: float, row: int
    ) -> bool:
        """Whether a unit that is tiny yet is on its way all the same: a saddle, and no minimum."""
        norm = np.maximum(seen.unit_norm, 1e-300)
        with np.errstate(over="ignore"):
            change = drive * norm[row] ** (self._degree - 2) * time
        tiny = norm[row] < _TINY * norm[row].max()
        return bool((tiny & (norm[row] > norm[0]) & (change > self._change)).any())

    def _net_drive(self, seen: Snapshot, time: Times) -> Float[np.ndarray, "time width"]:
        """By the way from the first moment to the last: one drive for all of them."""
        way = np.linalg.norm(seen.parameters[-1] - seen.parameters[0], axis=1)
        norm = np.maximum(seen.unit_norm[-1], 1e-300)
        net = way / (norm ** (self._degree - 1) * (time[-1] - time[0]) + 1e-300)
        return np.broadcast_to(net, seen.drive.shape)

    def _goes_nowhere(
        self, drive: Float[np.ndarray, "time width"], seen: Snapshot, time: Times
    ) -> Moments:
        norm = np.maximum(seen.unit_norm, 1e-300)
        with np.errstate(over="ignore"):  # tiny units of degree 1
            change = drive * norm ** (self._degree - 2) * time[:, None]
        return (change <= self._change).all(axis=1)

    def _for_long(self, idle: Moments, time: Times) -> Moments:
        """Whether units have had no drive for so long that nothing more is waited for."""
        busy = np.flatnonzero(~idle)
        if not idle[-1]:
            self._idle_since = math.inf
        elif len(busy) or math.isinf(self._idle_since):
            self._idle_since = float(time[busy[-1] + 1 if len(busy) else 0])
        return self._soon * time > self._idle_since

    def _nothing_new(self, seen: Snapshot, time: Times, for_long: Moments) -> Moments:
        """Whether a new unit would find nothing, or had time enough to come."""
        self._opportunity = max(self._opportunity, float(seen.opportunity.max()))
        if self._together:
            return for_long | (np.asarray(seen.loss) <= self._nothing)
        part = np.asarray(seen.opportunity) / (self._opportunity or 1.0)
        late = (part * time >= _PATIENCE * self._idle_since) | (for_long & self._short_steps)
        return (part <= self._convergence) | (late & self._deep)


class Standstill:
    """When a training whose steps have a length of their own has come as near as it will.

    Its weights swing by a step around where they belong, and never rest. But each can go as far as the run
    has steps, so there are no long plateaus: it is at its end when the second half of all steps has not
    brought more than the part `convergence` of what was gained in all. Where every sample is on its right
    side, and only that part of the loss is left, it is over, too.

    Parameters
    ----------
    problem : units, data and loss.
    first_loss : before the first step.
    convergence : part of the gain that is no gain.
    clocked : whether time is how far a weight can have gone, and not steps alone.
    """

    def __init__(
        self, problem: Problem, first_loss: float, convergence: float, *, clocked: bool
    ) -> None:
        self._part, self._separated = (
            convergence,
            separated_below(problem, first_loss, convergence),
        )
        self._enough = natural_size(problem) if clocked else math.inf
        self._time, self._least = [np.zeros(1)], [np.full(1, first_loss)]
        self.reason = Stopped.CONVERGED
        """Why the training ended."""

    def first(self, seen: Snapshot, time: Times) -> int | None:
        """The last of some moments, if it stands still there; or the first at which samples are told apart.

        Parameters
        ----------
        seen : what there was to see at each of these moments.
        time : since the start of the training.
        """
        if not len(time):
            return None
        self._time.append(np.asarray(time))
        self._least.append(np.minimum.accumulate(np.minimum(seen.loss, self._least[-1][-1])))
        apart = np.flatnonzero(seen.loss <= self._separated)
        if len(apart):
            self.reason = Stopped.SEPARATED
            return int(apart[0])
        times, least = np.concatenate(self._time), np.concatenate(self._least)
        if not (self._part > 0 and stands_still(times, least, self._part, self._enough)):
            return None
        if seen.loss[-1] > least[0]:  # a loss above its first one has not come near anything
            self.reason = Stopped.DIVERGED
        return len(time) - 1

r"""A plateau: the loss stands still, and then falls by a part that matters, faster than it did before.

Of a drop from :math:`L_a` to :math:`L_b` the plateau before it lasts from the moment at which the loss has
come within a tenth of :math:`L_a - L_b` of :math:`L_a` until it has fallen by a tenth. Its **pace** is how
fast the loss falls meanwhile, as a part of how fast it falls from there to the middle of the drop: 1 on a
straight line, more where the loss falls slower and slower, as in any ordinary training, nearly 0 before a
saddle is left. Below `STILL` it is a plateau. One rule for everybody who asks: the watch, of a future that
was followed ahead, and those who judge it, of what came.
"""

from dataclasses import dataclass

import numpy as np

from saddlewalk.curves.curve import LossCurve
from saddlewalk.curves.jumps import Jump, find_jumps

LEAST = 0.1
"""Part of the loss by which it must fall for a drop."""
STILL = 2 / 3
"""Pace of a plateau at most."""
LASTS = 0.05
"""Part of the whole time that a plateau lasts at least: what is shorter is a bend."""
_TOP = 0.1
"""Part of the drop within which the loss stands still."""


@dataclass(frozen=True)
class Plateau:
    """What is before a drop, whether the loss stands still there or not."""

    begin: float
    end: float
    """Between these two the loss is within a tenth of the drop of its level."""
    middle: float
    """When the drop has come half way."""
    before: float
    after: float
    pace: float
    """How fast the loss falls on it, as a part of how fast it falls afterwards."""

    @property
    def matters(self) -> bool:
        """Whether the loss falls by a part that matters."""
        return self.before - self.after >= LEAST * abs(self.before)

    @property
    def stands(self) -> bool:
        """Whether the loss stands still, and long enough to be seen."""
        return self.pace <= STILL and self.end - self.begin >= LASTS * self.middle


def find_plateaus(curve: LossCurve) -> list[Plateau]:
    """The plateaus of a loss curve that end in drops that matter.

    Parameters
    ----------
    curve : the loss along time.
    """
    all_ = (plateau_before(curve, jump) for jump in find_jumps(curve))
    return [one for one in all_ if one.matters and one.stands]


def plateau_before(curve: LossCurve, jump: Jump) -> Plateau:
    """What is before one of the jumps of a curve.

    Parameters
    ----------
    curve : the loss along time.
    jump : one of its jumps.
    """
    margin = _TOP * (jump.before - jump.after)
    first = int(np.argmax(curve.loss <= jump.before + margin))
    begin = float(curve.time[first])
    end = curve.crossing(jump.before - margin, begin)
    fallen = float(curve.loss[first]) - (jump.before - margin)
    later = jump.before - margin - 0.5 * (jump.before + jump.after)
    stayed, fell = end - begin, jump.time - end
    pace = fallen * fell / (later * stayed) if stayed > 0 else np.inf
    return Plateau(begin, end, jump.time, jump.before, jump.after, float(pace))

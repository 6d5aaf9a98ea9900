"""When a transition that would take for ever may be cut short: what still moves no longer matters.

A unit that slides along a kink has a velocity for ever and yet goes nowhere; a smooth one may slow down like
a power of time; two may grow for ever while their sum rests, where the best of two units is a limit that no
two units reach. So the pace of the last piece is extended over as much time as has passed.
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from saddlewalk.problem import ParametersLike, Problem, norms
from saddlewalk.programs import compiled
from saddlewalk.theory.agf.alternation import Alternation, Stand
from saddlewalk.theory.agf.phase import Phase
from saddlewalk.theory.agf.thresholds import Thresholds

_TINY = 1e-300


@dataclass(frozen=True)
class Outlook:
    """What would change in as much time as has passed in a transition, at the pace of its last piece."""

    fall: float
    """Of the loss, as a part of what the stage has gained."""
    growth: Float[np.ndarray, " active"]
    """Of the logarithm of each active unit's output."""
    output: Float[np.ndarray, " active"]
    """Length of each active unit in function space, now."""
    last: bool
    """Whether no dormant unit has utility left: the last stage."""

    @classmethod
    def of(
        cls,
        loss: Float[np.ndarray, " moments"],
        output: Float[np.ndarray, "moments active"],
        *,
        lasted: float,
        passed: float,
        level: float,
        last: bool,
    ) -> "Outlook":
        """From the losses and outputs along a piece that `lasted` so long, in a transition from `level`."""
        ahead = passed / max(lasted, _TINY)
        gained = level - float(loss[-1])
        # a stage that has gained nothing yet has not begun to end
        fall = float(loss[0] - loss[-1]) * ahead / gained if gained > 0 else np.inf
        was, now = np.maximum(output[[0, -1]], _TINY)
        return cls(fall, np.log(now / was) * ahead, now, last)

    def stands_on_kinks(self, at: Thresholds) -> bool:
        """With kinks: neither the loss nor any unit at all would change."""
        still = np.abs(self.growth).max(initial=0.0) <= at.still
        return bool(still) and self.fall < (at.fading if self.last else at.sliding)

    def has_faded(self, at: Thresholds) -> bool:
        """Nobody waits for the end, and the loss would not change."""
        return self.last and self.fall < at.fading and not self._taking_over(at)

    def is_a_tail(self, at: Thresholds, spent: int) -> bool:
        """After much work: no small unit is about to take over, and the loss would hardly change.

        The more was spent, the more may be left.
        """
        return not self._taking_over(at) and self.fall < at.sliding * max(1.0, spent / at.long)

    def _taking_over(self, at: Thresholds) -> bool:
        """Whether a small unit would grow."""
        small = self.output < at.small_output * self.output.max(initial=0.0)
        return bool(self.growth[small].max(initial=0.0) > at.growing)


def bottom_of_tail(
    phase: Phase, theta: ParametersLike, level: float, at: Thresholds
) -> np.ndarray | None:
    """The critical point beside which gradient flow has settled; none if it is passing a saddle.

    Where the loss is flat the flow slows down like a power of time; its place no longer changes, and a
    quasi-Newton method finds the bottom. A bottom that is infinitely far away is not taken.

    Parameters
    ----------
    phase : the transition.
    theta : parameters `(width, size)`.
    level : loss on the plateau before.
    at : how much a tail may hold, and how far its bottom may be.
    """
    from scipy.optimize import minimize

    shape, awake = np.shape(theta), phase.active
    active = np.repeat(awake, shape[1])
    y = np.array(phase.state(np.asarray(theta))).ravel()

    def cost(some: np.ndarray) -> tuple[float, np.ndarray]:
        y[active] = some
        loss, slope = phase.ask(_active_loss, y.reshape(shape))
        return float(loss), slope.ravel()[active]

    options = {"maxiter": at.polish, "maxfun": 2 * at.polish, "gtol": 1e-12, "ftol": 1e-15}
    before = cost(y[active].copy())[0]
    found = minimize(cost, y[active].copy(), jac=True, method="L-BFGS-B", options=options)
    if before - found.fun > at.tail * (level - before):
        return None
    y[active] = found.x
    bottom = phase.parameters(y.reshape(shape))
    ratio = norms(bottom)[awake] / norms(np.asarray(theta))[awake]
    return bottom if np.abs(np.log(ratio)).max() < at.near else np.asarray(theta)


@compiled
def _active_loss(problem: Problem, drive: Any, sign: Any, stand: Stand, y: ParametersLike) -> Any:
    flow = Alternation(problem, drive, sign, *stand)
    return jax.value_and_grad(lambda state: flow.active_loss(flow.parameters(state)))(y)

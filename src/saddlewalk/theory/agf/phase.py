"""A plateau or a transition, seen from NumPy: what stands now, and programs compiled once for the whole walk.

Between two pieces of a walk only a few small arrays change: who is active, the residual they leave, the rules
of the phase. Programs are bound to all the rest once, so that a question costs microseconds.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk import ode
from saddlewalk.problem import ParametersLike, Problem, compiled
from saddlewalk.programs import Bound, Program, seldom
from saddlewalk.theory.agf.alternation import Alternation, Margins, Rules, Stand


class Motion:
    """How the units of one walk move, in whatever phase.

    Parameters
    ----------
    problem : units, data and loss.
    drive : the natural size of a velocity.
    sign : of the parameters, where their logarithms are the coordinates.
    """

    def __init__(self, problem: Problem, drive: np.ndarray, sign: np.ndarray | None) -> None:
        self.problem, self.drive, self.sign = problem, drive, sign
        self.ask, self.ask_problem = Bound(problem, drive, sign), Bound(problem)
        self._steppers: dict[tuple[str, tuple[int, ...]], ode.Stepper] = {}

    def flow(self, stand: Stand) -> Alternation:
        """The differential equation of a phase."""
        return Alternation(self.problem, self.drive, self.sign, *stand)

    def steps_of(self, kind: str, like: np.ndarray, flow: Callable[[], Any]) -> ode.Stepper:
        """The steps of a flow of these units, made once for each kind: of its shape, in any context."""
        key = (kind, like.shape)
        if key not in self._steppers:
            self._steppers[key] = ode.Stepper(flow(), kind, like)
        return self._steppers[key]


class Phase:
    """The motion of one phase, from where the walk stands.

    Parameters
    ----------
    motion : how these units move.
    stand : who is active, the residual they leave, and the rules of the phase.
    """

    def __init__(self, motion: Motion, stand: Stand) -> None:
        self.motion, self.stand = motion, stand
        self.problem, self.sign = motion.problem, motion.sign
        self.active, self.residual = np.asarray(stand.active), stand.residual
        self.active_move = Rules(*stand.numbers).active_move > 0

    @property
    def flow(self) -> Alternation:
        """The system of differential equations."""
        return self.motion.flow(self.stand)

    def state(self, theta: np.ndarray) -> np.ndarray:
        """The coordinates of these parameters."""
        return theta if self.sign is None else np.log(np.abs(theta))

    def parameters(self, y: np.ndarray) -> np.ndarray:
        """Back to the parameters."""
        return y if self.sign is None else self.sign * np.exp(y)

    def ask(self, program: Program, *arrays: Any) -> Any:
        """What a program of the problem, drive and signs, where the walk stands, and some arrays says."""
        return self.motion.ask(program, self.stand, *arrays)

    def climb(
        self, theta: Float[np.ndarray, "*many width size"]
    ) -> Float[np.ndarray, "*many width size"]:
        """How dormant units climb against the residual, here or at many places."""
        program = compiled.climb if np.ndim(theta) == 2 else compiled.climbs
        return self.motion.ask_problem(program, theta, self.stand.residual)

    def margins(self, theta: ParametersLike) -> Margins:
        """How far each event is for these parameters."""
        return self.ask(_margins_of, theta)

    def integrate(self, theta: np.ndarray, kind: str, **options: Any) -> Any:
        """Pieces of the motion from these parameters; the options are those of `ode.Integration`."""
        y = self.state(theta)
        stepper = self.motion.steps_of(kind, y, lambda: self.flow)
        return ode.integrate(stepper, y, context=self.stand, **options)


@seldom
def _margins_of(problem: Problem, drive: Any, sign: Any, stand: Stand, theta: Any) -> Margins:
    flow = Alternation(problem, drive, sign, *stand)
    # no branch on whether active units rest, for which XLA would start a thread
    return flow.margins(theta, flow.push_against(flow.present_residual(theta), theta))

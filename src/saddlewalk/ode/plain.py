"""Small flows followed from NumPy: nothing is compiled around them, and a flow may be any function.

Steps are those of SciPy's Dormand and Prince methods, of order 8, or of order 5 where kinks forbid small errors.
The curve between two steps is known too: it is kept at some places within each.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.integrate import DOP853, RK45

Vector = Float[np.ndarray, " size"]
Until = Callable[[float, Vector], bool]
_WITHIN = 4
"""Places kept within a step."""


class Followed(NamedTuple):
    """What a flow did."""

    time: Float[np.ndarray, " moments"]
    states: Float[np.ndarray, "moments size"]
    evaluations: int
    stopped: bool
    """Whether `until` ended it; else a limit did."""

    @property
    def end(self) -> Vector:
        """The last state."""
        return self.states[-1]


def follow(
    velocity: Callable[[Vector], Vector],
    start: Vector,
    until: Until,
    *,
    rtol: float,
    atol: float | Vector,
    smooth: bool = True,
    max_time: float = np.inf,
    max_step: float = np.inf,
    max_steps: int = 20_000,
) -> Followed:
    """The flow from a start until something is the case after a step.

    Parameters
    ----------
    velocity : of a state.
    start : the state at time 0.
    until : says of time and state after each step whether to stop.
    rtol, atol : error of a step, relative and absolute.
    smooth : whether the velocity has no kinks.
    max_time, max_steps : stop there in any case.
    max_step : the longest step.
    """
    method = DOP853 if smooth else RK45
    solver = method(
        lambda _, y: velocity(y), 0.0, start, max_time, rtol=rtol, atol=atol, max_step=max_step
    )
    time, states, stopped = [0.0], [np.asarray(start)], False
    inner = np.arange(1, _WITHIN) / _WITHIN
    for _ in range(max_steps):
        if solver.status != "running":
            break
        solver.step()
        if solver.status == "failed":
            break
        between, before = solver.dense_output(), float(solver.t_old or 0.0)
        for part in inner:
            time.append(before + part * (solver.t - before))
            states.append(between(time[-1]))
        time.append(float(solver.t))
        states.append(solver.y.copy())
        if until(time[-1], states[-1]):
            stopped = True
            break
    return Followed(np.array(time), np.array(states), solver.nfev, stopped)

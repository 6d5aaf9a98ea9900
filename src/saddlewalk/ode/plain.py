"""Small flows followed from NumPy: nothing is compiled around them, and a flow may be any function.

Where the flow is smooth, steps are those of SciPy's Dormand and Prince method of order 8; the curve within
a step is kept at some places, too. With kinks they are those of Bogacki and Shampine, of order 3, and never
shorter than a least step: a flow that slides along a kink crosses it at every step, however short, and goes
its way all the same.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Vector = Float[np.ndarray, " size"]
Until = Callable[[float, Vector], bool]
_WITHIN = 4
"""Places kept of a step where the flow is smooth: steps are long, and a curve wants more than their ends."""


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
    least_step: float | None = None,
    max_time: float = np.inf,
    max_step: float = np.inf,
    max_steps: int = 20_000,
    within: int = _WITHIN,
) -> Followed:
    """The flow from a start until something is the case after a step.

    Parameters
    ----------
    velocity : of a state.
    start : the state at time 0.
    until : says of time and state after each step whether to stop.
    rtol, atol : error of a step, relative and absolute.
    least_step : the shortest step where the velocity has kinks; `None` if it has none.
    max_time : stop there in any case.
    max_step : the longest step.
    max_steps : stop after so many in any case.
    within : places that are kept of a step without kinks, its end with them.
    """
    if least_step is not None:
        return _past_kinks(
            velocity, start, until, rtol, atol, least_step, max_time, max_step, max_steps
        )
    from scipy.integrate import DOP853

    solver = DOP853(
        lambda _, y: velocity(y), 0.0, start, max_time, rtol=rtol, atol=atol, max_step=max_step
    )
    time, states, stopped = [0.0], [np.asarray(start)], False
    inner = np.arange(1, within) / within
    for _ in range(max_steps):
        if solver.status != "running":
            break
        solver.step()
        if solver.status == "failed":
            break
        if within > 1:  # three more right-hand sides
            between, before = solver.dense_output(), float(solver.t_old or 0.0)
            places = before + inner * (solver.t - before)
            time.extend(places.tolist())
            states.extend(between(places).T)
        time.append(float(solver.t))
        states.append(solver.y.copy())
        if until(time[-1], states[-1]):
            stopped = True
            break
    return Followed(np.array(time), np.array(states), solver.nfev, stopped)


def _past_kinks(
    velocity: Callable[[Vector], Vector],
    y: Vector,
    until: Until,
    rtol: float,
    atol: float | Vector,
    least: float,
    max_time: float,
    max_step: float,
    max_steps: int,
) -> Followed:
    time, states, slope = [0.0], [np.asarray(y)], velocity(y)
    h, evaluations, stopped = least, 1, False
    while len(time) <= max_steps and time[-1] < max_time:
        h = min(max(h, least), max_step, max_time - time[-1])
        middle = velocity(y + 0.5 * h * slope)
        late = velocity(y + 0.75 * h * middle)
        end = y + h * (2 * slope + 3 * middle + 4 * late) / 9
        last = velocity(end)
        evaluations += 3
        gap = h * (-5 * slope / 72 + middle / 12 + late / 9 - last / 8)
        size = atol + rtol * np.maximum(np.abs(y), np.abs(end))
        error = float(np.sqrt(np.mean((gap / size) ** 2)))
        if error <= 1 or h <= least:
            time.append(time[-1] + h)
            states.append(end)
            y, slope = end, last
            if until(time[-1], y):
                stopped = True
                break
        h *= min(4.0, max(0.3, 0.9 * max(error, 1e-9) ** (-1 / 3)))
    return Followed(np.array(time), np.array(states), evaluations, stopped)

r""":math:`S_i = \frac{1}{2\eta}\log\cosh(\cdot)`: the diagonal linear network (section 3, appendix C).

Utility maximization. With the gradient :math:`g = \nabla_\beta L` frozen, the utility of coordinate
i is :math:`-u_i v_i g_i`, and its accumulated utility has the closed form of Eq 31,

.. math::

    S_i(\tau + t) = \frac{1}{2\eta} \log\cosh\!\big( 2\eta\,(2 U_i^* t) + \zeta_i
        \cosh^{-1} e^{2\eta S_i(\tau)} \big), \qquad U_i^* = \tfrac12 |g_i|,

where :math:`\zeta_i = \operatorname{sgn}(-g_i)\rho_i` says whether the unit grows or must first shrink
through zero (Eq 32). The next unit is the first to reach :math:`S_i = 1` (Eq 37).
:math:`\eta = -\log(\sqrt2\alpha)` is minus the log-norm at the start :math:`(u, v) = (\sqrt2\alpha, 0)`.

Cost minimization. A coefficient can change sign only by passing through dormancy, so the active
ones go to the minimum of the loss under sign constraints (Eq 5): non-negative least squares.

In the limit :math:`\alpha \to 0`, :math:`\log\cosh x \to |x|`, and this becomes the algorithm of Pesme
and Flammarion (Algorithm 2), :math:`s_i \leftarrow s_i - \tau g_i` until some :math:`|s_i| = 1`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stopped
from saddlewalk.theory.diagonal.objective import Objective
from saddlewalk.theory.diagonal.regression import Regression, Vector

_TIE = 1e-12
"""Jump times closer than this, relatively, are one jump."""


@dataclass(frozen=True)
class Dormancy:
    """Accumulated utility S and sign rho of every unit: all that utility maximization must know."""

    accumulated_utility: Vector
    sign: Vector


def accumulate(state: Dormancy, gradient: Vector, time: float, eta: float) -> Dormancy:
    """Eq 31 and 32: accumulated utility and sign after `time` (in accelerated time).

    Parameters
    ----------
    state : accumulated utility and sign of every unit.
    gradient : of the loss in the coefficients beta; 0 for active units.
    time : accelerated time that passes.
    eta : acceleration eta_alpha of this scale.
    """
    reach = _arccosh_exp(2 * eta * state.accumulated_utility)
    signed = state.sign * reach - 2 * eta * gradient * time
    return Dormancy(_log_cosh(signed) / (2 * eta), np.sign(signed))


def waiting_times(state: Dormancy, gradient: Vector, eta: float) -> Vector:
    """Eq 37: accelerated time until each unit has accumulated utility 1; infinite at rest.

    Parameters
    ----------
    state : accumulated utility and sign of every unit.
    gradient : of the loss in the coefficients beta; 0 for active units.
    eta : acceleration eta_alpha of this scale.
    """
    toward = np.sign(-gradient) * state.sign
    threshold = _arccosh_exp(np.full_like(gradient, 2 * eta))
    missing = threshold - toward * _arccosh_exp(2 * eta * state.accumulated_utility)
    with np.errstate(divide="ignore"):
        return np.where(gradient != 0, missing / (2 * eta * np.abs(gradient)), np.inf)


def accumulate_limit(state: Dormancy, gradient: Vector, time: float) -> Dormancy:
    """Algorithm 2: `s - t g`, kept as |s| and its sign.

    Parameters
    ----------
    state : accumulated utility and sign of every unit.
    gradient : g, of the loss in the coefficients beta; 0 for active units.
    time : accelerated time t that passes.
    """
    s = state.sign * state.accumulated_utility - time * gradient
    return Dormancy(np.abs(s), np.sign(s))


def waiting_times_limit(state: Dormancy, gradient: Vector) -> Vector:
    """Eq 40: accelerated time until `s_i - t g_i = +-1`.

    Parameters
    ----------
    state : accumulated utility and sign of every unit.
    gradient : g, of the loss in the coefficients beta; 0 for active units.
    """
    s = state.sign * state.accumulated_utility
    with np.errstate(divide="ignore"):
        return np.where(gradient != 0, (1 + np.sign(gradient) * s) / np.abs(gradient), np.inf)


@dataclass(frozen=True)
class Jump:
    """One stage of the sequence, in accelerated time."""

    time: float
    beta: Vector
    on: tuple[int, ...]
    off: tuple[int, ...]
    gap: float
    """How much later the next candidate would have been, relative to the time of the jump."""
    state: Dormancy
    """Accumulated utility and sign of every unit right after the jump."""
    rate: float = math.nan
    """Growth rate 2|g| of the unit that turns on, in time (not in accelerated time)."""


def sequence(
    regression: Regression | Objective,
    wait: Callable[[Dormancy, Vector], Vector],
    move: Callable[[Dormancy, Vector, float], Dormancy],
    most: int,
) -> tuple[list[Jump], Stopped]:
    """The alternation: wait for the next unit, minimize over the active ones, repeat.

    Parameters
    ----------
    regression : the least squares, or another convex loss of the coefficients.
    wait : time until each unit turns on, from the state and the gradient.
    move : the state after some time, from the state, the gradient and the time.
    most : jumps after which to stop.
    """
    d = regression.design.shape[1]
    state = Dormancy(np.zeros(d), np.zeros(d))
    beta, active, time = np.zeros(d), np.zeros(d, dtype=bool), 0.0
    jumps: list[Jump] = []
    while len(jumps) < most:
        gradient = np.where(active, 0.0, regression.gradient(beta))
        if not gradient.any():
            return jumps, Stopped.NO_DORMANT if active.all() else Stopped.NO_UTILITY
        waits = wait(state, gradient)
        first = float(waits.min())
        hit = waits <= first * (1 + _TIE) + _TIE * time
        state = move(state, gradient, first)
        time += first
        state = Dormancy(
            np.where(hit | active, 1.0, state.accumulated_utility),
            np.where(hit, np.sign(-gradient), state.sign),
        )
        beta = regression.minimize(np.where(hit | active, state.sign, 0.0))
        now = beta != 0
        later = float(np.min(waits[~hit], initial=np.inf)) - first
        gap = 0.0 if hit.sum() > 1 else later / time
        jumps.append(
            Jump(
                time=time,
                beta=beta,
                on=tuple(map(int, np.flatnonzero(now & ~active))),
                off=tuple(map(int, np.flatnonzero(active & ~now))),
                gap=gap,
                state=state,
                rate=2 * float(np.abs(gradient[hit]).max()),
            )
        )
        active = now
    return jumps, Stopped.LIMIT


def agf_sequence(
    regression: Regression | Objective, eta: float, most: int = 100_000
) -> tuple[list[Jump], Stopped]:
    """AGF at finite scale: Eq 31, 32 and 37 between the minimizations of Eq 5.

    Parameters
    ----------
    regression : the least squares.
    eta : acceleration eta_alpha of this scale.
    most : jumps after which to stop.
    """
    return sequence(
        regression,
        lambda state, gradient: waiting_times(state, gradient, eta),
        lambda state, gradient, time: accumulate(state, gradient, time, eta),
        most,
    )


def limit_sequence(
    regression: Regression | Objective, most: int = 100_000
) -> tuple[list[Jump], Stopped]:
    """Pesme and Flammarion's Algorithm 2: the limit of vanishing scale.

    Parameters
    ----------
    regression : the least squares.
    most : jumps after which to stop.
    """
    return sequence(regression, waiting_times_limit, accumulate_limit, most)


def accumulated_utility(
    regression: Regression, jumps: list[Jump], eta: float, times: Float[np.ndarray, " time"]
) -> Float[np.ndarray, "time d"]:
    """S_i with the sign of the coefficient, along accelerated time: what Fig 8 d draws.

    Parameters
    ----------
    regression : the least squares.
    jumps : what `agf_sequence` gave.
    eta : acceleration eta_alpha of this scale.
    times : moments in accelerated time.
    """
    d = regression.design.shape[1]
    starts = [0.0, *(jump.time for jump in jumps)]
    states = [Dormancy(np.zeros(d), np.zeros(d)), *(jump.state for jump in jumps)]
    betas = [np.zeros(d), *(jump.beta for jump in jumps)]
    path = np.empty((len(times), d))
    for row, time in enumerate(times):
        k = int(np.searchsorted(starts, time, side="right")) - 1
        gradient = np.where(betas[k] != 0, 0.0, regression.gradient(betas[k]))
        now = accumulate(states[k], gradient, time - starts[k], eta)
        path[row] = now.sign * now.accumulated_utility
    return path


def _log_cosh(x: Vector) -> Vector:
    return np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - math.log(2)


def _arccosh_exp(x: Vector) -> Vector:
    """arccosh(exp(x)) for x >= 0, without overflow: x + log(1 + sqrt(1 - exp(-2x)))."""
    x = np.maximum(x, 0.0)
    return x + np.log1p(np.sqrt(-np.expm1(-2 * x)))

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
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stage, Stopped
from saddlewalk.errors import InputError
from saddlewalk.problem import Problem
from saddlewalk.problem.scale import check_scale
from saddlewalk.tasks import Moments, Samples, compress, sparse_regression
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import Diagonal

_REST = 1e-10
"""A gradient this small, relative to the largest possible one, is zero."""
_FAINT = 1e-12
"""A coefficient whose part of the prediction is this small, relatively, is zero."""
_TIE = 1e-12
"""Jump times closer than this, relatively, are one jump."""

Vector = Float[np.ndarray, " d"]


@dataclass(frozen=True)
class Regression:
    """Least squares in function space: :math:`L(\\beta) = \\frac12 |A\\beta - b|^2 + L_0`."""

    design: Float[np.ndarray, "n d"]
    target: Float[np.ndarray, " n"]
    offset: float

    @classmethod
    def of(cls, task: Samples | Moments) -> "Regression":
        """The regression behind a task with one output."""
        moments = task if isinstance(task, Moments) else compress(task)
        return cls(np.asarray(moments.x), np.asarray(moments.y)[:, 0], float(moments.offset))

    def loss(self, beta: Vector) -> float:
        """Half the squared distance (zero where it is rounding error), and what no beta can avoid."""
        distance = float(np.linalg.norm(self.design @ beta - self.target))
        exact = distance <= _FAINT * float(np.linalg.norm(self.target))
        return self.offset + (0.0 if exact else 0.5 * distance**2)

    def gradient(self, beta: Vector) -> Vector:
        """Gradient in the coefficients, exactly zero where it is rounding error."""
        gradient = self.design.T @ (self.design @ beta - self.target)
        largest = np.linalg.norm(self.design, axis=0) * np.linalg.norm(self.target)
        return np.where(np.abs(gradient) > _REST * largest, gradient, 0.0)

    def minimize(self, sign: Vector) -> Vector:
        """Eq 5: the minimum with `sign_i beta_i >= 0` where sign is +-1 and `beta_i = 0` where it is 0.

        If the plain minimum over the active coefficients keeps their signs it is the one; else the
        support comes from non-negative least squares, and the values from a plain solve on it.
        """
        active = np.flatnonzero(sign)
        beta = np.zeros(len(sign))
        if len(active) == 0:
            return beta
        beta[active] = np.linalg.lstsq(self.design[:, active], self.target, rcond=None)[0]
        if not (np.sign(beta[active]) == sign[active]).all():
            from scipy.optimize import nnls

            size, _ = nnls(self.design[:, active] * sign[active], self.target)
            support = active[size > 0]
            beta = np.zeros(len(sign))
            beta[support] = np.linalg.lstsq(self.design[:, support], self.target, rcond=None)[0]
        share = np.abs(beta) * np.linalg.norm(self.design, axis=0)
        return np.where(share > _FAINT * np.linalg.norm(self.target), beta, 0.0)


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


def sequence(
    regression: Regression,
    wait: Callable[[Dormancy, Vector], Vector],
    move: Callable[[Dormancy, Vector, float], Dormancy],
    most: int,
) -> tuple[list[Jump], Stopped]:
    """The alternation: wait for the next unit, minimize over the active ones, repeat.

    Parameters
    ----------
    regression : the least squares.
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
            )
        )
        active = now
    return jumps, Stopped.LIMIT


def agf_sequence(
    regression: Regression, eta: float, most: int = 100_000
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


def limit_sequence(regression: Regression, most: int = 100_000) -> tuple[list[Jump], Stopped]:
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


class DiagonalTheory(AbstractTheory[Moments, Diagonal]):
    """Section 3: everything about a diagonal network is known in closed form."""

    methods: ClassVar[tuple[str, ...]] = ("closed", "limit")
    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 3, Theorem C.4, Corollary C.5, Eq 38",
        "pesme2023saddle: Pesme and Flammarion, Saddle-to-saddle dynamics in diagonal linear networks",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Diagonal units under a squared loss."""
        return isinstance(problem.units, Diagonal) and isinstance(problem.task, Moments)

    @classmethod
    def example(cls) -> Start:
        """Five coefficients, three of them learned, in a design with some correlation."""
        task = sparse_regression(samples=30, dim=5, sparsity=3, correlation=0.2)
        return Start(Problem(task, Diagonal()), 1e-12)

    @cached_property
    def regression(self) -> Regression:
        """The least squares problem behind the task."""
        regression = Regression.of(self.task)
        silent = np.flatnonzero(np.linalg.norm(regression.design, axis=0) == 0)
        if len(silent):
            raise InputError(
                f"Input {silent[0]} is zero everywhere: its unit can learn nothing. Remove it."
            )
        return regression

    @cached_property
    def initial(self) -> float:
        """The scale behind p = q = alpha / sqrt(rate_u): learning rates rescale the start."""
        scale = self.start.scale
        if not 0 < scale < 1:
            raise InputError(f"The scale (alpha) must be a positive number below 1; got {scale}.")
        return scale / math.sqrt(self.units.rate_u)

    @cached_property
    def closed(self) -> Outcome:
        """AGF at finite scale."""
        check_scale(self.start.scale)
        eta = -math.log(math.sqrt(2) * self.initial)
        if eta <= 0:
            raise InputError(
                f"At scale {self.start.scale:g} every unit starts with norm sqrt(2) alpha >= 1: none is "
                "dormant. Use a scale below 0.7."
            )
        return self._outcome(agf_sequence(self.regression, eta), eta)

    @cached_property
    def limit(self) -> Outcome:
        """The limit process on its own clock, t = -log(alpha) s.

        It holds at finite scale, too: the norm 1 is reached after arccosh(1 / (2 alpha^2)) / 2, which is
        -log(alpha) up to alpha^4.
        """
        return self._outcome(limit_sequence(self.regression), -math.log(self.initial))

    def _outcome(self, found: tuple[list[Jump], Stopped], eta: float) -> Outcome:
        if self.start.given is not None:
            raise InputError(
                "The closed form starts from (u, v) = (sqrt(2) alpha, 0); use method 'numeric' for a "
                "start of your own."
            )
        jumps, stopped = found
        clock = math.sqrt(self.units.rate_u * self.units.rate_v)  # rates speed up the clock
        regression = self.regression
        return Outcome(
            stages=tuple(_stage(jump, regression, eta / clock) for jump in jumps),
            stopped=stopped,
            assumptions=_audit_of_jumps(jumps, self.initial),
            eta=eta,
            initial_loss=regression.loss(np.zeros(regression.design.shape[1])),
        )

    @property
    def preferred(self) -> str:
        """The closed form where its hypotheses hold."""
        measured = (*self.audit, *self.closed.assumptions)
        return "closed" if all(assumption.holds for assumption in measured) else "numeric"

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """General position and a small start; the methods add what depends on their jumps."""
        design = self.regression.design
        columns = design / np.linalg.norm(design, axis=0)
        cosine = np.abs(columns.T @ columns) - np.eye(columns.shape[1])
        closest = float(cosine.max()) if cosine.size > 1 else 0.0
        norm = self.start.norm
        return (
            Assumption("initial norm of a unit", norm < 1, norm, "below 1; the smaller the better"),
            Assumption(
                "general position: largest |cosine| of two columns",
                closest < 1 - 1e-9,
                closest,
                "below 1",
            ),
        )


def _stage(jump: Jump, regression: Regression, unit_of_time: float) -> Stage:
    lead = jump.on[0] if jump.on else -1
    return Stage(
        time=jump.time * unit_of_time,
        loss=regression.loss(jump.beta),
        units=jump.on,
        dormant=jump.off,
        feature={
            "kind": "coordinate",
            "index": lead,
            "sign": int(np.sign(jump.beta[lead])) if jump.on else 0,
        },
    )


def _audit_of_jumps(jumps: list[Jump], start: float) -> tuple[Assumption, ...]:
    gap = min((jump.gap for jump in jumps), default=math.inf)
    depth = -math.log(start)
    blur = 1 / depth
    # a unit rests at norm sqrt(2 |beta|); the theory calls it active at 1
    sizes = [abs(beta) for jump in jumps for beta in jump.beta if beta != 0]
    off_one = max((abs(0.5 * math.log(2 * size)) for size in sizes), default=0.0) / depth
    return (
        Assumption(
            "coefficients of order one: largest |log norm| of a learned unit / log(1/scale)",
            off_one < 0.5,
            off_one,
            "well below 1 (it is about the relative error of the times); rescale X or y if not",
        ),
        Assumption(
            "clear order: smallest relative lead of a jump over the next candidate",
            gap > blur,
            gap if math.isfinite(gap) else None,
            f"above 1/log(1/scale) = {blur:.2g}, the error of the times; below, order may depend on it",
        ),
    )


def _log_cosh(x: Vector) -> Vector:
    return np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - math.log(2)


def _arccosh_exp(x: Vector) -> Vector:
    """arccosh(exp(x)) for x >= 0, without overflow: x + log(1 + sqrt(1 - exp(-2x)))."""
    x = np.maximum(x, 0.0)
    return x + np.log1p(np.sqrt(-np.expm1(-2 * x)))

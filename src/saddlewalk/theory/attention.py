r""":math:`A_k = 1/(\operatorname{tr}\Sigma + (N+1)\lambda_k)`: linear attention learns principal components.

Regression in context with N examples, tokens of covariance :math:`\Sigma = \sum_k \lambda_k v_k v_k^\top`,
heads :math:`\theta = (V, K, Q)` of degree 3 (section 4, appendix E).

Utility maximization. With components 1 ... k - 1 learned (Eq 49),

.. math::

    \mathcal U(\theta) = N V\, Q^\top \Big(\Sigma^2 - \sum_{h<k} \lambda_h^2 v_h v_h^\top\Big) K,
    \qquad \mathcal U^* = \frac{N \lambda_k^2}{3\sqrt3}
    \quad\text{at}\quad (V, K, Q) = \tfrac{1}{\sqrt3} (\pm 1, \pm v_k, \pm v_k).

Cost minimization. Heads on different components do not see each other. Each goes to
:math:`V |K| |Q| = A_k`, balanced, so with norm :math:`\sqrt3 A_k^{1/3}`, and the loss is (Eq 57; Eq 7
prints :math:`\lambda_i` for :math:`\lambda_i^2`)

.. math:: \ell^{(k)} = \frac12 \Big( \operatorname{tr}\Sigma - \sum_{h \le k} N \lambda_h^2 A_h \Big).

Jump times have no closed form: heads align while they grow. What is closed is a lower bound
(`saddlewalk.theory.bounds`).
"""

import math
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stage, Stopped
from saddlewalk.problem import Problem
from saddlewalk.tasks import InContextRegression
from saddlewalk.theory.base import AbstractTheory, Method, Outcome, Start, refuse_large_start
from saddlewalk.theory.bounds import bounds_from_start
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import LinearAttention

Eigenvalues = Float[np.ndarray, " d"]

_CLEAR = 0.2
"""Relative gap of two eigenvalues above which random starts swap them in less than 1% of races
between heads (6% to 11% at a gap of 0.1, 40% at 0.02)."""
_SMALL = 0.1
"""Initial norm, relative to that of a learned head, above which jump times err by more than 10%."""
_ALIGNED = 0.9


def amplitudes(eigenvalues: Eigenvalues, context: float | int) -> Eigenvalues:
    r"""What each head converges to: :math:`A_k = 1/(\operatorname{tr}\Sigma + (N+1)\lambda_k)`."""
    return 1 / (eigenvalues.sum() + (context + 1) * eigenvalues)


def shares(eigenvalues: Eigenvalues, context: float | int) -> Eigenvalues:
    """How much the loss falls with each component."""
    return 0.5 * context * eigenvalues**2 * amplitudes(eigenvalues, context)


def levels(eigenvalues: Eigenvalues, context: float | int) -> Float[np.ndarray, " stages"]:
    """Eq 57: the loss after 0, 1, ... components."""
    learned = np.cumsum(np.concatenate([[0.0], shares(eigenvalues, context)]))
    return 0.5 * eigenvalues.sum() - learned


def maximal_utility(eigenvalues: Eigenvalues, context: float | int) -> Eigenvalues:
    """Largest utility of a head of norm 1 on each component."""
    return context * eigenvalues**2 / (3 * math.sqrt(3))


def utility(
    values: Float[np.ndarray, " heads"],
    keys: Float[np.ndarray, "heads d"],
    queries: Float[np.ndarray, "heads d"],
    covariance: Float[np.ndarray, "d d"],
    context: float | int,
    learned: int = 0,
) -> Float[np.ndarray, " heads"]:
    """Eq 49: utility of heads once the `learned` largest components are."""
    size, axes = np.linalg.eigh(covariance)
    missing = np.where(np.arange(len(size)) < len(size) - learned, size, 0.0)
    return context * values * np.sum((keys @ axes) * missing**2 * (queries @ axes), axis=1)


def equilibrium_norm(amplitude: Eigenvalues) -> Eigenvalues:
    r"""Norm :math:`\sqrt3 A^{1/3}` of a balanced head with :math:`V|K||Q| = A`."""
    return math.sqrt(3) * np.cbrt(amplitude)


class AttentionTheory(AbstractTheory):
    """Linear attention on regression in context, over the population of sequences."""

    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 4, Lemmas E.1 and E.2, Eq 57",
        "zhang2025attention: Training dynamics of in-context learning in linear attention",
    )

    def covers(self, problem: Problem) -> bool:
        """Heads of rank 1 and the population loss."""
        return isinstance(problem.units, LinearAttention) and isinstance(
            problem.task, InContextRegression
        )

    def methods(self) -> dict[str, Method]:
        """Exact levels with lower bounds of the times."""
        return {"closed": closed}

    def preferred(self, start: Start) -> str:
        """Times are bounds only."""
        return "numeric"

    def audit(self, start: Start) -> tuple[Assumption, ...]:
        """Distinct eigenvalues, a head for each, and a small start."""
        eigenvalues, context = _numbers(start)
        smallest = equilibrium_norm(amplitudes(eigenvalues, context)).min()
        relative = float(start.norms.max() / smallest)
        return (
            _distinct(eigenvalues),
            _enough_heads(start.problem.width, len(eigenvalues)),
            Assumption(
                "largest initial norm of a head / norm of a learned head",
                relative < _SMALL,
                relative,
                f"below {_SMALL:g}; the relative error of the jump times is about this number",
            ),
        )


def closed(start: Start) -> Outcome:
    """Levels by Eq 57; times as lower bounds from the start."""
    refuse_large_start(start)
    eigenvalues, context = _numbers(start)
    learned = min(start.problem.width, len(eigenvalues))
    times = bounds_from_start(
        start, maximal_utility(eigenvalues, context), shares(eigenvalues, context)
    )
    loss = levels(eigenvalues, context)
    stages = tuple(
        Stage(
            time=float(times[k]),
            loss=float(loss[k + 1]),
            units=(),
            feature={
                "kind": "principal-component",
                "index": k,
                "eigenvalue": float(eigenvalues[k]),
            },
        )
        for k in range(learned)
    )
    return Outcome(
        stages=stages,
        stopped=Stopped.NO_DORMANT if learned == start.problem.width else Stopped.NO_UTILITY,
        assumptions=(_times_are_bounds(start, eigenvalues, context),),
        initial_loss=float(loss[0]),
    )


def _numbers(start: Start) -> tuple[Eigenvalues, float]:
    task = start.problem.task
    assert isinstance(task, InContextRegression)
    return np.asarray(task.eigenvalues), float(task.context)


def _times_are_bounds(start: Start, eigenvalues: Eigenvalues, context: float) -> Assumption:
    task = start.problem.task
    assert isinstance(task, InContextRegression)
    axes = np.asarray(task.axes)
    unit = start.problem.weights(np.asarray(start.theta) / start.norms[:, None])
    value, key, query = (np.asarray(unit[name]) for name in "VKQ")
    best = utility(value, key, query, (axes * eigenvalues) @ axes.T, context).max()
    aligned = float(best / maximal_utility(eigenvalues, context).max())
    return Assumption(
        "heads start aligned: largest initial utility / maximal utility",
        aligned > _ALIGNED,
        aligned,
        "1 for exact times. Else the first time is a lower bound, and later ones are lower bounds "
        "only where heads did not grow on earlier components: use method 'numeric' for times",
    )


def _distinct(eigenvalues: Eigenvalues) -> Assumption:
    gaps = 1 - eigenvalues[1:] / eigenvalues[:-1]
    close = [
        f"{k} and {k + 1} differ by {100 * gap:.1f}%" for k, gap in enumerate(gaps) if gap < _CLEAR
    ]
    order = f": components {', '.join(close)} and may swap" if close else ""
    return Assumption(
        f"clear order: smallest relative gap of two eigenvalues{order}",
        not close,
        float(gaps.min()) if len(gaps) else None,
        f"above {_CLEAR:g}; below, the order depends on the initialization",
    )


def _enough_heads(heads: int, components: int) -> Assumption:
    never = ", ".join(map(str, range(heads, components)))
    return Assumption(
        "heads a component" + (f"; never learned: component {never}" if never else ""),
        heads >= components,
        heads / components,
        "at least 1: a head learns one component",
    )

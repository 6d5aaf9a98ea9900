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
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stage, Stopped
from saddlewalk.problem import Problem
from saddlewalk.tasks import InContextRegression, in_context_regression
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.bounds import bounds_from_start, times_are_bounds
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import LinearAttention

Eigenvalues = Float[np.ndarray, " d"]

_CLEAR = 0.2
"""Relative gap of two eigenvalues above which random starts swap them in less than 1% of races
between heads (6% to 11% at a gap of 0.1, 40% at 0.02)."""
_SMALL = 0.1
"""Initial norm, relative to that of a learned head, above which jump times err by more than 10%."""


def amplitudes(eigenvalues: Eigenvalues, context: float | int) -> Eigenvalues:
    r"""What each head converges to: :math:`A_k = 1/(\operatorname{tr}\Sigma + (N+1)\lambda_k)`.

    Parameters
    ----------
    eigenvalues : lambda_k of the covariance of the inputs, `(d,)`.
    context : number N of examples in a context.
    """
    return 1 / (eigenvalues.sum() + (context + 1) * eigenvalues)


def shares(eigenvalues: Eigenvalues, context: float | int) -> Eigenvalues:
    """How much the loss falls with each component.

    Parameters
    ----------
    eigenvalues : lambda_k of the covariance of the inputs, `(d,)`.
    context : number N of examples in a context.
    """
    return 0.5 * context * eigenvalues**2 * amplitudes(eigenvalues, context)


def levels(eigenvalues: Eigenvalues, context: float | int) -> Float[np.ndarray, " stages"]:
    """Eq 57: the loss after 0, 1, ... components.

    Parameters
    ----------
    eigenvalues : lambda_k of the covariance of the inputs, `(d,)`, in the order in which they are learned.
    context : number N of examples in a context.
    """
    learned = np.cumsum(np.concatenate([[0.0], shares(eigenvalues, context)]))
    return 0.5 * eigenvalues.sum() - learned


def maximal_utility(eigenvalues: Eigenvalues, context: float | int) -> Eigenvalues:
    """Largest utility of a head of norm 1 on each component.

    Parameters
    ----------
    eigenvalues : lambda_k of the covariance of the inputs, `(d,)`.
    context : number N of examples in a context.
    """
    return context * eigenvalues**2 / (3 * math.sqrt(3))


def utility(
    values: Float[np.ndarray, " heads"],
    keys: Float[np.ndarray, "heads d"],
    queries: Float[np.ndarray, "heads d"],
    covariance: Float[np.ndarray, "d d"],
    context: float | int,
    learned: int = 0,
) -> Float[np.ndarray, " heads"]:
    """Eq 49: utility of heads once the `learned` largest components are.

    Parameters
    ----------
    values, keys, queries : weights V, K and Q of each head.
    covariance : Sigma of the inputs, `(d, d)`.
    context : number N of examples in a context.
    learned : number of components that are learned already, the largest first.
    """
    size, axes = np.linalg.eigh(covariance)
    missing = np.where(np.arange(len(size)) < len(size) - learned, size, 0.0)
    return context * values * np.sum((keys @ axes) * missing**2 * (queries @ axes), axis=1)


def equilibrium_norm(amplitude: Eigenvalues) -> Eigenvalues:
    r"""Norm :math:`\sqrt3 A^{1/3}` of a balanced head with :math:`V|K||Q| = A`.

    Parameters
    ----------
    amplitude : A of each head.
    """
    return math.sqrt(3) * np.cbrt(amplitude)


class AttentionTheory(AbstractTheory[InContextRegression, LinearAttention]):
    """Linear attention on regression in context, over the population of sequences."""

    methods: ClassVar[tuple[str, ...]] = ("closed",)
    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 4, Lemmas E.1 and E.2, Eq 57",
        "zhang2025attention: Training dynamics of in-context learning in linear attention",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Heads of rank 1 and the population loss."""
        return isinstance(problem.units, LinearAttention) and isinstance(
            problem.task, InContextRegression
        )

    @classmethod
    def example(cls) -> Start:
        """Two components, three heads."""
        return Start(Problem(in_context_regression([4.0, 1.0], 32), LinearAttention(3)), 1e-3)

    @property
    def eigenvalues(self) -> Eigenvalues:
        """Of the tokens' covariance, the largest first."""
        return np.asarray(self.task.eigenvalues)

    @property
    def context(self) -> float:
        """Number of examples N."""
        return float(self.task.context)

    @cached_property
    def closed(self) -> Outcome:
        """Levels by Eq 57; times as lower bounds from the start."""
        self.start.check_dormant()
        eigenvalues, context, width = self.eigenvalues, self.context, self.start.problem.width
        learned = min(width, len(eigenvalues))
        times = bounds_from_start(
            self.start, maximal_utility(eigenvalues, context), shares(eigenvalues, context)
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
            stopped=Stopped.NO_DORMANT if learned == width else Stopped.NO_UTILITY,
            assumptions=(self._times_are_bounds,),
            initial_loss=float(loss[0]),
        )

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """Distinct eigenvalues, a head for each, and a small start."""
        smallest = equilibrium_norm(amplitudes(self.eigenvalues, self.context)).min()
        relative = float(self.start.norms.max() / smallest)
        return (
            _distinct(self.eigenvalues),
            _enough_heads(self.start.problem.width, len(self.eigenvalues)),
            Assumption(
                "largest initial norm of a head / norm of a learned head",
                relative < _SMALL,
                relative,
                f"below {_SMALL:g}; the relative error of the jump times is about this number",
            ),
        )

    @property
    def _times_are_bounds(self) -> Assumption:
        axes = np.asarray(self.task.axes)
        unit = self.start.problem.weights(np.asarray(self.start.theta) / self.start.norms[:, None])
        value, key, query = (np.asarray(unit[name]) for name in "VKQ")
        covariance = (axes * self.eigenvalues) @ axes.T
        best = utility(value, key, query, covariance, self.context).max()
        aligned = float(best / maximal_utility(self.eigenvalues, self.context).max())
        return times_are_bounds("heads", "components", aligned)


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

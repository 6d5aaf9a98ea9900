r"""Whether a loss has its minimum at finite weights: are the data separable by the network's features?

Cross-entropy and logistic loss of labels have their infimum at infinity. Weights stay finite where no outputs
that the network can give put every sample on its right side (or on the border, and some on their side). For
outputs that are linear in the inputs that is a linear program, with directions :math:`D = e_{y_s} - e_k` of
all other classes k:

.. math:: \max_W \sum_s m_s, \qquad 0 \le m_s \le D_s \cdot W x_s, \quad m_s \le 1 .

What this changes for the staircase: on separable data margins grow like log t, and with units of degree 2
residuals fall like 1/(t log t) and active units grow like :math:`\sqrt{\log t}`. While a dormant unit of
size :math:`\epsilon` has at most :math:`\rho > 1` times the utility of the active ones, its logarithm gains
at most :math:`\rho` times what theirs does, and it does not catch up before
:math:`\log t \sim \epsilon^{-2/(\rho - 1)}`: in practice the staircase ends at separation. Active directions
go on turning, and units that are only small go on growing, on the clock log t. Levels before it are those of
minima at finite weights, or slope like 1/(t log t) where a part of the samples is already told apart.
"""

import numpy as np
from jaxtyping import Float

from saddlewalk.losses import CrossEntropy
from saddlewalk.problem import Problem
from saddlewalk.tasks import Samples
from saddlewalk.theory.staircase import Assumption

_MOST_SIZE = 2_000_000
"""Numbers in the linear program up to which it is asked."""
_SOME = 1e-7

Array = Float[np.ndarray, "rows columns"]
_FOR_EVER = (
    "the weights grow for ever and the last level is approached about like 1/time; at 1 that level is the "
    "infimum, and what is dormant then wakes exponentially late, if ever"
)


def minimum_is_finite(problem: Problem) -> tuple[Assumption, ...]:
    """The hypothesis that a loss of labels has a minimum, for outputs that are linear in the inputs.

    Parameters
    ----------
    problem : units, data and loss; of units that are not linear nothing is said before they have moved.
    """
    if problem.separation is None or problem.units.linear_in != "input":
        return ()
    constraints = _constraints(problem)
    if constraints.size > _MOST_SIZE:
        return ()
    part = separable_part(constraints)
    return (
        Assumption(
            "a minimum at finite weights: part of the inequalities between classes that can be met for ever",
            part == 0,
            part,
            f"0; above, {_FOR_EVER}",
        ),
    )


def told_apart(problem: Problem, outputs: Array) -> tuple[Assumption, ...]:
    """The same hypothesis for units that are not linear, by what the network has come to.

    Parameters
    ----------
    problem : units, data and loss.
    outputs : of the network at the end, `(n, c)`.
    """
    if problem.separation is None or problem.units.linear_in == "input":
        return ()
    task = problem.task
    assert isinstance(task, Samples)
    margins = problem.sample_loss.margins(outputs, np.asarray(task.y))
    assert margins is not None
    part = float(np.mean(margins > 0))
    return (
        Assumption(
            "a minimum at finite weights: part of the samples that are on their right side at the end",
            part < 1,
            part,
            f"below 1; else {_FOR_EVER}",
        ),
    )


def separable_part(constraints: Array) -> float:
    """Part of some linear inequalities that can be strict at once, with none of the others violated.

    Parameters
    ----------
    constraints : one row an inequality `row . w >= 0`.
    """
    from scipy.optimize import linprog
    from scipy.sparse import eye, hstack

    rows, columns = constraints.shape
    scaled = constraints / np.maximum(np.abs(constraints).max(axis=1, keepdims=True), 1e-300)
    found = linprog(
        np.concatenate([np.zeros(columns), -np.ones(rows)]),
        A_ub=hstack([-scaled, eye(rows)]).tocsr(),
        b_ub=np.zeros(rows),
        bounds=[(None, None)] * columns + [(0, 1)] * rows,
        method="highs",
    )
    return float(np.mean(found.x[columns:] > _SOME))


def _constraints(problem: Problem) -> Array:
    """The inequalities that say that each sample is on its right side."""
    task = problem.task
    assert isinstance(task, Samples)
    x, y = np.asarray(task.x), np.asarray(task.y)
    if not isinstance(problem.sample_loss, CrossEntropy):  # each output asks for itself
        inputs, outputs = x.shape[1], y.shape[1]
        rows = np.zeros((len(x), outputs, outputs, inputs))
        for k in range(outputs):
            rows[:, k, k] = y[:, k, None] * x
        return rows.reshape(len(x) * outputs, -1)
    own, classes = y.argmax(axis=1), y.shape[1]
    rows = np.zeros((len(x), classes, classes, x.shape[1]))
    for k in range(classes):
        rows[np.arange(len(x)), k, own] += x
        rows[:, k, k] -= x
    others = np.arange(classes) != own[:, None]
    return rows[others].reshape(len(x) * (classes - 1), -1)

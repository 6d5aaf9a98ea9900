r"""Theorem 1 of Saddle-to-Saddle Dynamics: fixed points of a network are fixed points of wider ones.

In a layer :math:`\sum_i \phi(z; u_i) v_i`, between any layers before and after, one unit more leaves the
function and the zero gradient as they are, if it is

=============  =========================================================================  =======
EQUAL          :math:`u = u_i,\; v = \gamma_v v_i,\; v_i \to (1 - \gamma_v) v_i`             (Eq 4)
ZERO           :math:`u = 0,\; v = 0`                                                     (Eq 5)
PROPORTIONAL   :math:`u = \gamma_u u_i,\; v = \gamma_v v_i,\; v_i \to (1 - \gamma_u \gamma_v) v_i` (Eq 6)
DEPENDENT      :math:`u = \sum \gamma_{u_i} u_i,\; v = \sum \gamma_{v_i} v_i,\;
               v_i \to v_i - \gamma_{u_i} v`                                              (Eq 7)
=============  =========================================================================  =======

It lies on an invariant manifold (Theorem 3) for one :math:`\gamma_v` to each :math:`\gamma_u` (appendix F.4).
"""

from typing import Any

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.problem import ParametersLike, Problem
from saddlewalk.units import Layer, Relation


def embed(
    problem: Problem,
    theta: ParametersLike,
    relation: Relation | str,
    *,
    layer: str | None = None,
    unit: int = 0,
    gamma_u: Any = None,
    gamma_v: Any = None,
) -> tuple[Problem, np.ndarray]:
    """One unit more in a hidden layer: the wider problem, and the parameters there.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    relation : how the new unit is made of those that are there.
    layer : the hidden layer; the first by default.
    unit : the one that is copied (EQUAL, PROPORTIONAL).
    gamma_u, gamma_v : the coefficients; numbers, or one for each unit (DEPENDENT). By default 1,
        and the one that lies on the invariant manifold.
    """
    relation = _admitted(problem, relation, layer)
    units = problem.take(theta, layer)
    if not 0 <= unit < units.width:
        raise InputError(f"There is no unit {unit}; the layer has {units.width}.")
    u, v = np.asarray(units.incoming), np.array(units.outgoing)
    g_u = _coefficients(relation, units.width, unit, 1.0 if gamma_u is None else gamma_u)
    _check_sign(problem, relation, layer, g_u)
    g_v = (
        manifold_gamma(g_u)
        if gamma_v is None
        else _coefficients(relation, units.width, unit, gamma_v)
    )
    if relation is Relation.ZERO:
        g_u, g_v = 0 * g_u, 0 * g_v
    new_v = g_v @ v
    wider = Layer(np.vstack([u, g_u @ u]), np.vstack([v - np.outer(g_u, new_v), new_v]))
    return problem.resized(units.width + 1, layer), problem.put(theta, wider, layer)


def manifold_gamma(gamma_u: np.ndarray) -> np.ndarray:
    r"""The :math:`\gamma_v` with which the new unit is the same combination in and out (Eq 29, 31).

    Parameters
    ----------
    gamma_u : coefficient of each unit that is there, in the incoming weights of the new one.
    """
    return gamma_u / (1 + np.sum(gamma_u**2))


def _coefficients(relation: Relation, width: int, unit: int, value: Any) -> np.ndarray:
    """One coefficient for each unit."""
    given = np.asarray(value, dtype=float)
    if relation is Relation.DEPENDENT:
        if given.shape not in ((), (width,)):
            raise InputError(f"Give one coefficient, or one for each of the {width} units.")
        return np.broadcast_to(given, (width,)).copy()
    if given.shape != ():
        raise InputError(f"A unit that is {relation} to another has one coefficient.")
    return float(given) * np.eye(width)[unit]


def _check_sign(
    problem: Problem, relation: Relation, layer: str | None, gamma_u: np.ndarray
) -> None:
    if relation is Relation.EQUAL and not np.isin(gamma_u, (0.0, 1.0)).all():
        raise InputError("An equal unit has the same incoming weights: gamma_u is 1.")
    positive_only = Relation.DEPENDENT not in problem.relations(layer)
    if relation is Relation.PROPORTIONAL and gamma_u.min() < 0 and positive_only:
        raise InputError("This activation is homogeneous for positive factors only.")


def _admitted(problem: Problem, relation: Relation | str, layer: str | None) -> Relation:
    admitted = problem.relations(layer)
    if relation not in admitted:
        raise InputError(
            f"A unit that is {relation} to others changes this network; it admits: "
            f"{', '.join(admitted)}."
        )
    return Relation(relation)

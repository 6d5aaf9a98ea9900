r"""How a unit's scale splits between its layers: what gradient flow conserves, and how to choose it.

A unit :math:`\phi(z; u)\, v` whose answer is homogeneous of degree p in its incoming weights does not change
when u grows by a factor c and v falls by :math:`c^p`. By Noether's argument gradient flow with layer rates
conserves

.. math:: \delta = \eta_u \|v\|^2 - \eta_v \|u\|^2 / p ,

for a neuron :math:`a\,\sigma(w^\top x)` the :math:`\eta_w a^2 - \eta_a\|w\|^2` of Get Rich Quick. Where
:math:`\phi` is linear in u, units can be mixed and the whole matrix
:math:`\Delta = \eta_u V V^\top - \eta_v U U^\top` is conserved. **Upstream** (delta > 0) the incoming
weights are the smaller and learn faster; **downstream** (delta < 0) the outgoing ones do.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.balance.sides import Side
from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.landscape.where import Anywhere
from saddlewalk.problem import ParametersLike, Problem, network_at
from saddlewalk.units import Diagonal, Relation

_TWICE = 1 / 3
"""Balance at which one layer outweighs the other by two to one."""


class Conserved(NamedTuple):
    """What gradient flow conserves in one hidden layer."""

    layer: str
    degree: int
    """Degree p of a unit in its incoming weights."""
    deltas: Float[np.ndarray, " width"]
    """delta of each unit."""
    sizes: Float[np.ndarray, " width"]
    r"""kappa of each unit, :math:`\eta_u \|v\|^2 + \eta_v \|u\|^2/p`: what delta is to be compared with."""
    matrix: Float[np.ndarray, "width width"] | None
    """The matrix Delta, where units can be mixed; its diagonal are the deltas."""

    @property
    def balance(self) -> float:
        """Sum of deltas over sum of kappas: from -1 (all weight comes in) to 1 (all goes out)."""
        total = float(self.sizes.sum())
        return float(self.deltas.sum()) / total if total > 0 else 0.0

    @property
    def side(self) -> Side:
        """upstream, balanced or downstream (one layer has twice the weight of the other), or mixed."""
        total = float(self.sizes.sum())
        if abs(self.balance) >= _TWICE:
            return Side.UPSTREAM if self.balance > 0 else Side.DOWNSTREAM
        unlike = float(np.abs(self.deltas).sum()) >= _TWICE * total > 0
        return Side.MIXED if unlike else Side.BALANCED


def conserved_quantities(
    where: Anywhere, weights: Any = None, *, at: int = -1
) -> dict[str, Conserved]:
    """By hidden layer, for those that have any: their units must be homogeneous in what comes in.

    Parameters
    ----------
    where : a run, a problem, or the landscape of any network.
    weights : parameters `(width, size)` with a problem, and only then; of a landscape another state than its
        present one.
    at : number of the saved moment of a run; the last by default.
    """
    if isinstance(where, AbstractLandscape):
        from saddlewalk.balance.landscapes import conserved_of

        return conserved_of(where, where.weights_at(weights, at))
    problem, theta = network_at(where, weights, at)
    if problem.adaptive:
        raise InputError("Adaptive learning rates conserve nothing.")
    if isinstance(problem.units, Diagonal):
        return {"units": _diagonal(problem.units, theta)}
    found = {}
    for layer in problem.units.hidden:
        degree = problem.incoming_degree(layer)
        if degree is not None:
            found[layer] = _conserved(problem, theta, layer, degree)
    return found


def _conserved(problem: Problem, theta: ParametersLike, layer: str, degree: int) -> Conserved:
    units = problem.take(theta, layer)
    u, v = np.asarray(units.incoming), np.asarray(units.outgoing)
    rate = problem.take(np.broadcast_to(problem.rates, np.shape(theta)), layer)
    eta_u, eta_v = np.asarray(rate.incoming), np.asarray(rate.outgoing)
    # with several rates in a layer the invariant is a sum over them; the first ones set its unit
    unit = eta_u[0, 0] * eta_v[0, 0]
    outgoing = unit * np.sum(v**2 / eta_v, axis=1)
    incoming = unit * np.sum(u**2 / eta_u, axis=1) / degree
    matrix = None
    if Relation.DEPENDENT in problem.relations(layer):
        matrix = unit * ((v / eta_v) @ v.T - (u / eta_u) @ u.T)
    return Conserved(layer, degree, outgoing - incoming, outgoing + incoming, matrix)


def _diagonal(units: Diagonal, theta: np.ndarray) -> Conserved:
    """The weights u (in) and v (out) of each coordinate; there is nothing to mix."""
    u, v = units.weights(theta)
    outgoing, incoming = units.rate_u * v**2, units.rate_v * u**2
    return Conserved("units", 1, outgoing - incoming, outgoing + incoming, None)

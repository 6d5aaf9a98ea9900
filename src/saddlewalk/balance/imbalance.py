r"""The imbalance of layers, and how fast it changes, for any activation and any loss:

.. math:: \frac{d}{dt}\big(\|W_{l+1}\|^2 - \|W_l\|^2\big)
          = -2\, E\big[\partial_{h_l} L \cdot (\phi(z_l) - z_l\, \phi'(z_l))\big] .

Layers :math:`z_l = W_l h_{l-1}`, :math:`h_l = \phi(z_l)`, gradient flow with one rate, any activation and
any loss. The norm of a layer grows by :math:`\frac{d}{dt}\|W\|^2 = -2 \langle W, \partial_W L\rangle`, and
:math:`\langle W_{l+1}, \partial_{W_{l+1}} L\rangle = E[\partial_{h_l} L \cdot h_l]`, :math:`\langle W_l,
\partial_{W_l} L\rangle = E[\partial_{h_l} L \cdot z_l \phi'(z_l)]`; so it holds neuron by neuron.

Nothing for :math:`\phi` of degree 1 (linear, ReLU: conserved); for :math:`\phi = z^p` the weighted difference
:math:`\|W_{l+1}\|^2 - \|W_l\|^2/p` is conserved instead. For :math:`\phi = z + c z^k + \ldots` (tanh: k =
3, GELU after its linear part: k = 2) the right-hand side is of order k in z, beside norms that grow at
order 1: layers of a small network stay balanced, by Rawal and DeWeese (arXiv 2605.01288) the reason for
their escape times.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.landscape.hidden import hidden_layers
from saddlewalk.landscape.where import Anywhere
from saddlewalk.precision import in_float64
from saddlewalk.problem import compiled, network_at
from saddlewalk.programs import Bound
from saddlewalk.units import Layer


class Imbalance(NamedTuple):
    """The difference of norms on the two sides of one hidden layer, and how fast it changes."""

    layer: str
    power: float
    """p of the weighted difference."""
    differences: Float[np.ndarray, " width"]
    r"""\|v\|^2 - \|u\|^2 / p of each unit: outgoing and incoming weights."""
    rates: Float[np.ndarray, " width"]
    """Their rates of change under gradient flow."""
    growth: Float[np.ndarray, " width"]
    r"""Rates of change of \|v\|^2 + \|u\|^2 / p: what the rates are to be compared with."""

    @property
    def relative(self) -> float:
        """Sum of the rates' sizes over that of the growth's: of order k - 1 in the preactivations."""
        total = float(np.abs(self.growth).sum())
        return float(np.abs(self.rates).sum()) / total if total > 0 else 0.0


@in_float64
def imbalances(
    where: Anywhere, weights: Any = None, *, at: int = -1, power: float | None = None
) -> dict[str, Imbalance]:
    """By hidden layer: how unequal the norms on its two sides are, and how fast that changes.

    Parameters
    ----------
    where : a run, a problem, or the landscape of any network.
    weights : parameters `(width, size)` with a problem; of a landscape another state than its present one.
    at : number of the saved moment of a run; the last by default.
    power : p of the weighted difference; by default the degree of the units in their incoming weights, or 1
        if
        they have none.
    """
    if power is not None and not 0 < power < np.inf:
        raise InputError(
            f"`power` must be positive, for instance 2 for a quadratic activation; got {power}."
        )
    if isinstance(where, AbstractLandscape):
        w = where.weights_at(weights, at)
        slope = where.loss_and_gradient(w)[1]
        layers = hidden_layers(where)
        if not layers:
            raise InputError("This network has no hidden layer whose units one can point at.")
        return {
            one.name: _imbalance(one.name, one.take(w), one.take(-slope), power or one.degree)
            for one in layers
        }
    problem, theta = network_at(where, weights, at)
    if problem.adaptive:
        raise InputError("Adaptive learning rates balance nothing.")
    hidden = problem.units.hidden
    if not hidden:
        raise InputError(
            f"{type(problem.units).__name__} units have no hidden layer with weights in and out."
        )
    gradient = np.asarray(Bound(problem)(compiled.loss_and_gradient, np.asarray(theta))[1])
    velocity = -np.asarray(problem.rates) * gradient
    return {
        layer: _imbalance(
            layer,
            problem.take(theta, layer),
            problem.take(velocity, layer),
            power or problem.incoming_degree(layer),
        )
        for layer in hidden
    }


def _imbalance(name: str, units: Layer, velocity: Layer, power: float | None) -> Imbalance:
    p = float(power or 1)
    u, v = np.asarray(units.incoming), np.asarray(units.outgoing)
    into = 2 * np.sum(u * np.asarray(velocity.incoming), axis=1) / p
    out = 2 * np.sum(v * np.asarray(velocity.outgoing), axis=1)
    difference = np.sum(v**2, axis=1) - np.sum(u**2, axis=1) / p
    return Imbalance(name, p, difference, out - into, out + into)

r"""What gradient flow conserves in the hidden layers of any network.

A layer whose units do not change when their incoming weights grow by c and their outgoing ones fall by
:math:`c^p` conserves :math:`\delta = \|v\|^2 - \|u\|^2 / p` of each unit; a linear one the whole matrix.
Which layers have that symmetry is tried (`landscape.hidden`).
"""

from typing import Any

import numpy as np

from saddlewalk.balance.conserved import Conserved
from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.landscape.hidden import HiddenLayer, hidden_layers
from saddlewalk.units import Relation


def conserved_of(landscape: AbstractLandscape, w: Any) -> dict[str, Conserved]:
    """By hidden layer, for those that conserve anything under gradient flow with one learning rate.

    Parameters
    ----------
    landscape : the network.
    w : a vector of weights.
    """
    layers = hidden_layers(landscape)
    found = {layer.name: _conserved(layer, w) for layer in layers if layer.degree is not None}
    if found:
        return found
    if not layers:
        raise InputError(
            "This network has no hidden layer whose units one can point at, so nothing that it conserves is "
            "known."
        )
    raise InputError(
        f"Nothing is conserved: what lies between '{layers[0].name}' and the layer after it is not "
        "homogeneous (ReLU, leaky ReLU, linear and powers are; tanh, GELU and normalizations are not). How "
        "fast the balance of its layers changes is in `saddlewalk.balance.imbalances`."
    )


def _conserved(layer: HiddenLayer, w: Any) -> Conserved:
    assert layer.degree is not None
    units = layer.take(w)
    u, v = np.asarray(units.incoming), np.asarray(units.outgoing)
    outgoing, incoming = np.sum(v**2, axis=1), np.sum(u**2, axis=1) / layer.degree
    mixes = Relation.DEPENDENT in layer.relations
    matrix = v @ v.T - u @ u.T if mixes else None
    return Conserved(layer.name, layer.degree, outgoing - incoming, outgoing + incoming, matrix)

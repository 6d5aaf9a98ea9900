r"""The effective width of every hidden layer of any network.

As for networks that are built here (`diagnose.width`): the fewest units with the same function, up to what
matters for the loss. What a change of the outputs from f to f' is worth is :math:`L(f') - L(f) - \langle
\nabla L(f), f' - f \rangle`, for a squared error the squared distance in its own units.
"""

from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from saddlewalk.diagnose.manifolds import Symmetry, padded
from saddlewalk.diagnose.patience import go_on
from saddlewalk.diagnose.width import (
    MATTERS,
    NOTHING,
    RESOLVED,
    EffectiveWidth,
    Enough,
    fewest,
    narrowest,
)
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.landscape.hidden import HiddenLayer, hidden_layers, layer_named
from saddlewalk.units import Layer, Relation

_FEW = 256
"""Units up to which each is taken away to see what it does; beyond, the product of its norms tells."""


def widths_of(
    landscape: AbstractLandscape, w: Any, tolerance: float | None = None
) -> dict[str, EffectiveWidth]:
    """The effective width of every hidden layer whose units one can point at, by its name.

    Parameters
    ----------
    landscape : the network.
    w : a vector of weights.
    tolerance : change of the loss that does not count; by default taken from the data.
    """
    return {
        layer.name: width_at(landscape, w, layer, tolerance) for layer in hidden_layers(landscape)
    }


def width_of_layer(
    landscape: AbstractLandscape, w: Any, name: str | None = None, tolerance: float | None = None
) -> EffectiveWidth:
    """The effective width of one hidden layer, the first by default.

    Parameters
    ----------
    landscape : the network.
    w : a vector of weights.
    name : of the layer.
    tolerance : change of the loss that does not count; by default taken from the data.
    """
    return width_at(landscape, w, layer_named(landscape, name), tolerance)


def width_at(
    landscape: AbstractLandscape, w: Any, layer: HiddenLayer, tolerance: float | None = None
) -> EffectiveWidth:
    """The effective width of a hidden layer that was found.

    Parameters
    ----------
    landscape : the network.
    w : a vector of weights.
    layer : the hidden layer.
    tolerance : change of the loss that does not count; by default taken from the data.
    """
    look = _Look(landscape, landscape.checked(w), layer)
    learned = look.worth(look.silent)
    if tolerance is None:
        tolerance = max(MATTERS * min(learned, look.loss), RESOLVED * learned)
    if learned <= NOTHING * landscape.cost(look.silent):
        return EffectiveWidth(layer.name, 0, None, {}, layer.width, tolerance, look.nothing)
    symmetry = Symmetry(layer.parity, layer.degree)
    enough = look.enough(tolerance)
    return fewest(layer.name, look.units, layer.relations, look.sizes, enough, symmetry, tolerance)


def units_in_use(
    landscape: AbstractLandscape, w: Any, layer: HiddenLayer, tolerance: float
) -> Bool[np.ndarray, " width"]:
    """The fewest units of a hidden layer whose others together do not count.

    Parameters
    ----------
    landscape : the network.
    w : a vector of weights.
    layer : the hidden layer.
    tolerance : change of the loss that does not count.
    """
    look = _Look(landscape, landscape.checked(w), layer)
    used = np.zeros(layer.width, dtype=bool)
    if look.worth(look.silent) > tolerance:
        merged = narrowest(
            look.units, Relation.ZERO, look.sizes, look.enough(tolerance), Symmetry()
        )
        used[[int(one[0]) for one in merged.members]] = True
    return used


class _Look:
    """A hidden layer, and what the loss says of others in its place."""

    def __init__(self, landscape: AbstractLandscape, w: np.ndarray, layer: HiddenLayer) -> None:
        self.landscape, self.w, self.layer = landscape, w, layer
        self.units = layer.take(w)
        into, out = np.asarray(self.units.incoming), np.asarray(self.units.outgoing)
        self.nothing = Layer(into[:0], out[:0])
        self.whole = landscape.outputs(w)
        self.loss, self.residual = landscape.cost(self.whole), landscape.residual(self.whole)

    def outputs(self, units: Layer) -> np.ndarray:
        """Of the network with some units in place of all."""
        return self.landscape.outputs(self.layer.put(self.w, padded(units, self.units.width)))

    @cached_property
    def silent(self) -> np.ndarray:
        """Outputs when no unit says anything."""
        return self.outputs(self.nothing)

    def worth(self, outputs: np.ndarray) -> float:
        """What it is worth that the outputs are not these."""
        gone = float(np.sum(self.residual * (outputs - self.whole)))
        return self.landscape.cost(outputs) - self.loss + gone

    def enough(self, tolerance: float) -> Enough:
        """Whether some units in place of all give the same function, but for what does not count."""

        def judge(some: Layer, part: float = 1.0) -> bool:
            go_on("looking which units are used")
            return self.worth(self.outputs(some)) <= part * tolerance

        return judge

    @cached_property
    def sizes(self) -> Float[np.ndarray, " width"]:
        """How far the outputs move when each unit is taken away."""
        into, out = np.asarray(self.units.incoming), np.asarray(self.units.outgoing)
        if len(into) > _FEW:
            return np.linalg.norm(into, axis=1) * np.linalg.norm(out, axis=1)
        found = []
        for k in range(len(into)):
            go_on("looking how much each unit does")
            rest = out.copy()
            rest[k] = 0.0
            moved = self.outputs(Layer(into, rest)) - self.whole
            found.append(float(np.sqrt(np.mean(np.sum(moved**2, axis=1)))))
        return np.array(found)

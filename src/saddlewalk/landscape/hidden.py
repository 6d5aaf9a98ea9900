r"""The hidden layers of a network, found by what its outputs do when weights are changed.

A hidden layer :math:`\sum_i \phi(z; u_i)\, v_i` is a pair of arrays: one whose slices are the incoming
weights :math:`u_i` of its units, one whose slices are the outgoing :math:`v_i`. Two arrays are such a pair
if units whose outgoing weights are zero are not heard: whatever their incoming weights are, the outputs
stay. That, and which changes of u and v the outputs do not tell, is tried at random weights, so it holds
for any framework and needs no knowledge of what lies between:

- u times c and v over :math:`c^p` is the same network: homogeneous of degree p, and a quantity is conserved;
- -u, with v or with -v, is: even or odd;
- mixing units by a matrix M, v by its inverse, is: linear.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError, nearest
from saddlewalk.landscape.base import AbstractLandscape, Parameter
from saddlewalk.units import Layer, Relation

_NEAR = 4
"""So many arrays later, at most, stand the outgoing weights of a layer."""
_AXES = ((0, 1), (1, 0), (1, 1), (0, 0))
"""Units are rows of what comes in and columns of what goes out, in most frameworks."""
_TRIED = 1.7
_DEGREES = (1, 2, 3)


class Slices(NamedTuple):
    """An array whose slices along one axis belong to units; a flattened axis has several places a unit.

    Parameters
    ----------
    parameter : the array.
    axis : along which the units are.
    places : entries of that axis that one unit has.
    """

    parameter: Parameter
    axis: int
    places: int = 1

    def take(self, w: np.ndarray) -> Float[np.ndarray, "width entries"]:
        """One row a unit."""
        array = np.moveaxis(w[self.parameter.place].reshape(self.parameter.shape), self.axis, 0)
        return array.reshape(len(array) // self.places, -1)

    def put(self, w: np.ndarray, rows: np.ndarray) -> None:
        """Write rows, one a unit, into a vector of weights."""
        shape = np.moveaxis(np.empty(self.parameter.shape), self.axis, 0).shape
        array = np.moveaxis(rows.reshape(shape), 0, self.axis)
        w[self.parameter.place] = array.ravel()


@dataclass(frozen=True)
class HiddenLayer:
    """A hidden layer of a network: which weights go into its units, and which go out."""

    name: str
    width: int
    incoming: tuple[Slices, ...]
    """Weights, then biases if there are any."""
    outgoing: Slices
    relations: tuple[Relation, ...]
    """What makes a unit superfluous."""
    degree: int | None
    """Degree in the incoming weights; `None` if the units are not homogeneous."""
    parity: int
    """1 if the units are even in the incoming weights, -1 if they are odd, 0 if neither."""

    @property
    def kinked(self) -> bool:
        """Whether units are homogeneous of degree 1 and not linear: they have a kink at zero."""
        return self.degree == 1 and Relation.DEPENDENT not in self.relations

    def take(self, w: Any) -> Layer:
        """The units, each with its weights in and out.

        Parameters
        ----------
        w : a vector of weights.
        """
        flat = np.asarray(w)
        return Layer(
            np.concatenate([part.take(flat) for part in self.incoming], axis=1),
            self.outgoing.take(flat),
        )

    def put(self, w: Any, units: Layer) -> np.ndarray:
        """A copy of the weights with other units.

        Parameters
        ----------
        w : a vector of weights.
        units : as many as there are.
        """
        flat, start = np.array(w, dtype=np.float64), 0
        for part in self.incoming:
            size = part.parameter.size // self.width
            part.put(flat, np.asarray(units.incoming)[:, start : start + size])
            start += size
        self.outgoing.put(flat, np.asarray(units.outgoing))
        return flat


def hidden_layers(landscape: AbstractLandscape) -> tuple[HiddenLayer, ...]:
    """The hidden layers of a network whose units one can point at, in the order of its arrays.

    Parameters
    ----------
    landscape : the network. What is found is kept with it.
    """
    kept = vars(landscape).get("_hidden_layers")
    if kept is None:
        kept = tuple(_found(landscape))
        vars(landscape)["_hidden_layers"] = kept
    return kept


def layer_named(landscape: AbstractLandscape, name: str | None = None) -> HiddenLayer:
    """A hidden layer by its name, the first by default.

    Parameters
    ----------
    landscape : the network.
    name : of the layer.
    """
    layers = {one.name: one for one in hidden_layers(landscape)}
    if not layers:
        raise InputError(
            "This network has no hidden layer whose units one can point at: no two of its arrays are weights "
            "into and out of the same units."
        )
    if name is None:
        return next(iter(layers.values()))
    if name not in layers:
        raise InputError(f"There is no hidden layer '{name}'.{nearest(name, layers)}")
    return layers[name]


def _found(landscape: AbstractLandscape) -> list[HiddenLayer]:
    try_ = _Trial(landscape)
    arrays = [one for one in landscape.parameters if len(one.shape) >= 2]
    layers = []
    for k, first in enumerate(arrays):
        for second in arrays[k + 1 : k + 1 + _NEAR]:
            found = try_.pair(first, second)
            if found is not None:
                layers.append(found)
                break
    return layers


class _Trial:
    """A network at random weights, and what changes of them its outputs do not tell."""

    def __init__(self, landscape: AbstractLandscape) -> None:
        self.landscape = landscape
        self.random = np.random.default_rng(0)
        self.w = landscape.weights
        for one in landscape.parameters:
            fan = max(one.size // max(one.shape[0], 1), 1) if len(one.shape) > 1 else 1
            noise = self.random.normal(size=one.size) / np.sqrt(fan)
            # arrays of one axis may be the scales of a normalization: those stay near what they are
            self.w[one.place] = noise if len(one.shape) > 1 else self.w[one.place] + 0.3 * noise
        self.outputs = landscape.outputs(self.w)
        self.tolerance = 1e4 * landscape.rounding * float(np.abs(self.outputs).max())

    def same(self, w: np.ndarray) -> bool:
        """Whether the outputs do not tell these weights from the first ones."""
        return self._apart(w, self.outputs) <= self.tolerance

    def _apart(self, w: np.ndarray, outputs: np.ndarray) -> float:
        return float(np.abs(self.landscape.outputs(w) - outputs).max())

    def pair(self, first: Parameter, second: Parameter) -> HiddenLayer | None:
        """The hidden layer between two arrays, if there is one."""
        for into, out in _AXES:
            width = first.shape[into]
            if width < 2 or second.shape[out] % width:
                continue
            outgoing = Slices(second, out, second.shape[out] // width)
            weights = Slices(first, into)
            if self._isolates((weights,), outgoing, width):
                biases = [
                    Slices(one, 0)
                    for one in self._between(first, second, width)
                    if self._isolates((Slices(one, 0),), outgoing, width)
                ]
                return self._layer((weights, *biases), outgoing, width)
        return None

    def _between(self, first: Parameter, second: Parameter, width: int) -> list[Parameter]:
        prefix = first.name.rpartition(".")[0]
        return [
            one
            for one in self.landscape.parameters
            if one.shape == (width,)
            and (first.start < one.start < second.start or one.name.rpartition(".")[0] == prefix)
        ]

    def _isolates(self, into: tuple[Slices, ...], out: Slices, width: int) -> bool:
        """Whether units are heard, and are not when their outgoing weights are zero."""
        some = self.random.permutation(width) < max(width // 2, 1)
        silent = self.w.copy()
        rows = out.take(silent).copy()
        rows[some] = 0.0
        out.put(silent, rows)
        quiet, loud = silent.copy(), self.w.copy()
        for part in into:
            rows = part.take(self.w).copy()
            rows[some] = 1.5 * self.random.normal(size=rows[some].shape)
            part.put(quiet, rows)
            part.put(loud, rows)
        heard = self._apart(loud, self.outputs) > 10 * self.tolerance
        return heard and self._apart(quiet, self.landscape.outputs(silent)) <= self.tolerance

    def _layer(self, incoming: tuple[Slices, ...], outgoing: Slices, width: int) -> HiddenLayer:
        name = incoming[0].parameter.name
        plain = name.removesuffix(".weight").removesuffix(".kernel")
        bare = HiddenLayer(plain, width, incoming, outgoing, (), None, 0)
        units = bare.take(self.w)
        u, v = np.asarray(units.incoming), np.asarray(units.outgoing)

        def alike(into: np.ndarray, out: np.ndarray) -> bool:
            return self.same(bare.put(self.w, Layer(into, out)))

        degree = next((p for p in _DEGREES if alike(_TRIED * u, v / _TRIED**p)), None)
        parity = 1 if alike(-u, v) else -1 if alike(-u, -v) else 0
        relations = [Relation.EQUAL, Relation.ZERO]
        if degree == 1:
            relations.append(Relation.PROPORTIONAL)
            mixed = np.linalg.qr(self.random.normal(size=(width, width)))[0]
            if alike(mixed @ u, mixed @ v):
                relations.append(Relation.DEPENDENT)
        return HiddenLayer(plain, width, incoming, outgoing, tuple(relations), degree, parity)

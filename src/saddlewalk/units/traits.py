"""Facts about units that nobody has to declare: found once, by trying the units, and then kept.

================================  ==========================================================  ===============
`shapes`, `size`                  shapes of the weights of one unit, and how many they are    `base.py`
`degree`                          order kappa of a unit in its parameters at the origin       `degree.py`
`smooth`                          whether it has no kinks in its parameters                   `kinks.py`
`linear_outgoing`                 whether it is linear in its outgoing weights                `degree.py`
`relations(layer)`                which relations make a unit of a layer superfluous          `relations.py`
`incoming_degree(layer)`          degree of a unit in its incoming weights, if it has one     `incoming.py`
`parity(layer)`                   whether it is even or odd in them                           `incoming.py`
================================  ==========================================================  ===============
"""

import functools

import jax

from saddlewalk.units.base import AbstractUnits, Shapes, size_of
from saddlewalk.units.degree import find_degree, is_linear_outgoing
from saddlewalk.units.incoming import find_incoming_degree, find_parity
from saddlewalk.units.kinks import is_smooth
from saddlewalk.units.relations import Relation, find_relations

_REMEMBERED = 256


class Traits:
    """The facts about one kind of units on data of one shape. Each is found when it is first asked for.

    Parameters
    ----------
    units : the units.
    inputs, outputs : numbers of input and output coordinates of the data.
    """

    def __init__(self, units: AbstractUnits, inputs: int, outputs: int) -> None:
        self._units, self._inputs, self._outputs = units, inputs, outputs
        self._relations: dict[str, tuple[Relation, ...]] = {}
        self._incoming: dict[str, int | None] = {}
        self._parity: dict[str, int] = {}
        self.shapes: Shapes = units.layers(inputs, outputs)
        self.size = size_of(self.shapes)

    @functools.cached_property
    def degree(self) -> int:
        """Order kappa of a unit in its parameters at the origin."""
        with jax.ensure_compile_time_eval():
            return find_degree(self._units, self._inputs, self._outputs)

    @functools.cached_property
    def smooth(self) -> bool:
        """Whether the units have no kinks in their parameters."""
        with jax.ensure_compile_time_eval():
            return is_smooth(self._units, self._inputs, self._outputs)

    @functools.cached_property
    def linear_outgoing(self) -> bool:
        """Whether the output is linear in the outgoing weights."""
        with jax.ensure_compile_time_eval():
            return is_linear_outgoing(self._units, self._inputs, self._outputs)

    def relations(self, layer: str) -> tuple[Relation, ...]:
        """Which relations between units of a hidden layer make one of them superfluous."""
        if layer not in self._relations:
            found = find_relations(self._units, self._inputs, self._outputs, layer)
            self._relations[layer] = found
        return self._relations[layer]

    def incoming_degree(self, layer: str) -> int | None:
        """Degree of a unit of a hidden layer in its incoming weights; `None` if it has none."""
        if layer not in self._incoming:
            found = find_incoming_degree(self._units, self._inputs, self._outputs, layer)
            self._incoming[layer] = found
        return self._incoming[layer]

    def parity(self, layer: str) -> int:
        """1 if a unit of a hidden layer is even in its incoming weights, -1 if it is odd, 0 if neither."""
        if layer not in self._parity:
            found = find_parity(self._units, self._inputs, self._outputs, layer)
            self._parity[layer] = found
        return self._parity[layer]

    # part of what a compiled program is known by
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Traits):
            return NotImplemented
        return self is other or bool(self._key() == other._key())

    def __hash__(self) -> int:
        return hash((type(self._units), self._inputs, self._outputs))

    def _key(self) -> tuple[AbstractUnits, int, int]:
        return self._units, self._inputs, self._outputs


def traits_of(units: AbstractUnits, inputs: int, outputs: int) -> Traits:
    """The traits of these units, remembered: they do not depend on how many there are.

    Parameters
    ----------
    units : the units.
    inputs, outputs : numbers of input and output coordinates of the data.
    """
    alike = units.resized(1) if units.exchangeable and hasattr(units, "width") else units
    try:
        return _remembered(alike, inputs, outputs)
    except TypeError:  # units that hold arrays have no hash
        return Traits(alike, inputs, outputs)


@functools.lru_cache(_REMEMBERED)
def _remembered(units: AbstractUnits, inputs: int, outputs: int) -> Traits:
    return Traits(units, inputs, outputs)

r"""Which weights make a unit superfluous (Theorems 1 and 3 of Saddle-to-Saddle Dynamics).

In a layer :math:`\sum_i \phi(z; u_i) v_i` a unit adds nothing new if its weights

======================  ===========================================================  =================
`EQUAL`                 equal those of another                                       any phi
`ZERO`                  are zero                                                     phi(z; 0) = 0
`PROPORTIONAL`          are a positive multiple of those of another                  phi(z; cu) = c phi(z; u)
`DEPENDENT`             are a linear combination of those of others                  phi linear in u
======================  ===========================================================  =================

What an activation admits is found by trying it at random weights, so a user's own unit needs to
declare nothing. Proportional means homogeneous of degree 1: of another degree, proportional units do not
stay proportional. For linear units the multiple may be negative.
"""

from enum import StrEnum

import jax.numpy as jnp
from jaxtyping import Array

from saddlewalk.precision import in_float64
from saddlewalk.units.base import AbstractUnits
from saddlewalk.units.probing import LayerProbe

_FACTORS = (2.0, 0.3, 1e3, 1e-3)
_SAME = 1e-9


class Relation(StrEnum):
    """A relation between units that makes one of them superfluous; each admits those before it."""

    EQUAL = "equal"
    ZERO = "zero"
    PROPORTIONAL = "proportional"
    DEPENDENT = "dependent"


@in_float64
def find_relations(
    units: AbstractUnits, inputs: int, outputs: int, layer: str = "units"
) -> tuple[Relation, ...]:
    """The relations that the units of a hidden layer admit, from the narrowest to the widest.

    Parameters
    ----------
    units : the units.
    inputs, outputs : numbers of input and output coordinates of the data.
    layer : name of the hidden layer.
    """
    probe = LayerProbe(units, inputs, outputs, layer)
    answer, u, other = probe.answer, probe.incoming, probe.others

    def same(a: Array, b: Array) -> bool:
        return bool(jnp.max(jnp.abs(a - b)) <= _SAME * jnp.max(jnp.abs(at_u)))

    at_u = answer(u)
    found = [Relation.EQUAL]
    if same(answer(0 * u), 0 * at_u):
        found.append(Relation.ZERO)
        if all(same(answer(c * u) / c, at_u) for c in _FACTORS):
            found.append(Relation.PROPORTIONAL)
            if same(answer(u - other), at_u - answer(other)):
                found.append(Relation.DEPENDENT)
    return tuple(found)

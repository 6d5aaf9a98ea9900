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

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from saddlewalk.precision import in_float64
from saddlewalk.units.base import AbstractUnits, Layer, size_of, unpack

_PROBES = 8
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
    alone, inputs, outputs = units.alone(layer, inputs, outputs)
    shapes = alone.layers(inputs, outputs)
    u_size, v_size = (part.shape[1] for part in alone.take(shapes, np.zeros((1, size_of(shapes)))))
    rng = np.random.default_rng(1)
    u, other = rng.normal(size=(2, _PROBES, u_size))
    v, x = rng.normal(size=(_PROBES, v_size)), rng.normal(size=(_PROBES, inputs))

    def answer(incoming: np.ndarray) -> Array:
        theta = jnp.asarray(alone.put(shapes, v, Layer(incoming, v)))
        return jax.vmap(lambda th, one: alone.respond(unpack(shapes, th), one))(theta, x)

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

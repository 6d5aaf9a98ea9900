r"""The order :math:`\kappa` of a unit: :math:`f(x; t\theta) \sim t^\kappa` as :math:`t \to 0` (section 2).

Read off as the slope of :math:`\log \|f(x; t\theta)\|` between t and 2t at tiny powers of two. This
works for activations with a kink at zero, where Taylor coefficients do not exist.
"""

from typing import Any

import jax
import jax.numpy as jnp

from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.units.base import AbstractUnits, size_of, unpack

_PROBES = 16
_SMALL = 2.0**-24
_FLAT = 1e-3


@in_float64
def find_degree(units: AbstractUnits, inputs: int, outputs: int) -> int:
    """The declared order of the units, or the one found at the origin.

    Parameters
    ----------
    units : the units.
    inputs, outputs : numbers of input and output coordinates of the data.
    """
    if units.degree is not None:
        return units.degree
    shapes = units.layers(inputs, outputs)
    theta_key, x_key = jax.random.split(jax.random.key(0))
    thetas = jax.random.normal(theta_key, (_PROBES, size_of(shapes)))
    xs = jax.random.normal(x_key, (_PROBES, inputs))

    def respond_at(theta: jax.Array, x: jax.Array, t: Any) -> jax.Array:
        return units.respond(unpack(shapes, t * theta), units.view(x, 0))

    def magnitude(t: float) -> jax.Array:
        answers = jax.vmap(respond_at, in_axes=(0, 0, None))(thetas, xs, t)
        return jnp.sqrt(jnp.sum(answers**2, axis=-1))

    shape = jax.eval_shape(respond_at, thetas[0], xs[0], 1.0).shape
    if shape != (outputs,):
        raise InputError(f"respond must give an array of shape ({outputs},); it gives {shape}.")
    small, double = magnitude(_SMALL), magnitude(2 * _SMALL)
    alive = small > 0
    if not alive.any():
        raise InputError("The units answer 0 to every probe near the origin: there is no order.")
    slopes = jnp.log2(double / small)[alive]
    degree = round(float(jnp.median(slopes)))
    if degree < 1:
        raise InputError(
            "The units are not zero at zero parameters, so small ones are not dormant. "
            "Subtract the value at the origin from the activation."
        )
    if jnp.max(jnp.abs(slopes - degree)) > _FLAT:
        raise InputError(
            f"The units have no integer order at the origin (slopes {slopes.min():.4g} to "
            f"{slopes.max():.4g}). Declare `degree` in the class."
        )
    return degree

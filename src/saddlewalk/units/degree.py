r"""The order :math:`\kappa` of a unit: :math:`f(x; t\theta) \sim t^\kappa` as :math:`t \to 0` (section 2).

Read off as the slope of :math:`\log \|f(x; t\theta)\|` between t and 2t at tiny powers of two. This
works for activations with a kink at zero, where Taylor coefficients do not exist.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.errors import InputError, nearest
from saddlewalk.precision import in_float64
from saddlewalk.units.base import AbstractUnits, size_of, unpack

_PROBES = 16
_SMALL = 2.0**-24
_FLAT = 1e-3
_MOST_PROBES = 0.75
_ROUNDING = 1e-9

Respond = Callable[[np.ndarray], np.ndarray]


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
    thetas, respond = _probes(units, inputs, outputs)
    small, double = (np.linalg.norm(respond(t * thetas), axis=1) for t in (_SMALL, 2 * _SMALL))
    alive = small > 0
    if not alive.any():
        raise InputError("The units answer 0 to every probe near the origin: there is no order.")
    slopes = np.log2(double[alive] / small[alive])
    degree = round(float(np.median(slopes)))
    if degree < 1:
        raise InputError(
            "The units are not zero at zero parameters, so small ones are not dormant. "
            "Subtract the value at the origin from the activation."
        )
    # a probe whose leading order happens to cancel says little: a deep network has some
    if np.quantile(np.abs(slopes - degree), _MOST_PROBES) > _FLAT:
        raise InputError(
            f"The units have no integer order at the origin (slopes {slopes.min():.4g} to "
            f"{slopes.max():.4g}). Declare `degree` in the class."
        )
    return degree


@in_float64
def is_linear_outgoing(units: AbstractUnits, inputs: int, outputs: int) -> bool:
    """What the units declare of their outgoing weights, or what is found: twice as large, twice the answer.

    Parameters
    ----------
    units : the units.
    inputs, outputs : numbers of input and output coordinates of the data.
    """
    if units.linear_outgoing is not None:
        return units.linear_outgoing
    thetas, respond = _probes(units, inputs, outputs)
    first, size = units.place_of_outgoing(units.layers(inputs, outputs))
    out = np.zeros(thetas.shape[1], dtype=bool)
    out[first : first + size] = True
    once, minus_twice = respond(thetas), respond(np.where(out, -2 * thetas, thetas))
    return bool(np.abs(minus_twice + 2 * once).max() <= _ROUNDING * np.abs(once).max())


def _probes(units: AbstractUnits, inputs: int, outputs: int) -> tuple[np.ndarray, Respond]:
    """Some parameters, and how one unit with each of them answers an input of its own."""
    shapes = units.layers(inputs, outputs)
    rng = np.random.default_rng(7)
    thetas = rng.normal(size=(_PROBES, size_of(shapes)))
    xs = jnp.asarray(rng.normal(size=(_PROBES, inputs)))

    def respond_at(theta: jax.Array, x: jax.Array) -> jax.Array:
        return units.respond(unpack(shapes, theta), units.view(x, 0))

    try:
        shape = jax.eval_shape(respond_at, jnp.asarray(thetas[0]), xs[0]).shape
    except KeyError as error:
        name = str(error.args[0])
        raise InputError(
            f"`respond` asks for weights '{name}', which `layers` does not name.{nearest(name, shapes)}"
        ) from error
    if shape != (outputs,):
        raise InputError(f"respond must give an array of shape ({outputs},); it gives {shape}.")
    program = jax.jit(jax.vmap(respond_at))
    return thetas, lambda given: np.asarray(program(given, xs))

"""A hidden layer at random weights: what its units answer when their incoming weights change."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.units.base import AbstractUnits, Layer, size_of, unpack

_PROBES = 8


class LayerProbe:
    """Units of one hidden layer, each at random weights and a random input.

    Parameters
    ----------
    units : the units.
    inputs, outputs : numbers of input and output coordinates of the data.
    layer : name of the hidden layer.
    """

    def __init__(self, units: AbstractUnits, inputs: int, outputs: int, layer: str) -> None:
        self._alone, inputs, outputs = units.alone(layer, inputs, outputs)
        self._shapes = self._alone.layers(inputs, outputs)
        nothing = np.zeros((1, size_of(self._shapes)))
        fan_in, fan_out = (part.shape[1] for part in self._alone.take(self._shapes, nothing))
        rng = np.random.default_rng(1)
        self.incoming, self.others = rng.normal(size=(2, _PROBES, fan_in))
        """Incoming weights of the probes, and as many others."""
        self._outgoing = rng.normal(size=(_PROBES, fan_out))
        self._x = rng.normal(size=(_PROBES, inputs))

    def answer(
        self, incoming: Float[np.ndarray, "probes fan_in"]
    ) -> Float[Array, "probes outputs"]:
        """What each unit answers with these incoming weights."""
        units = Layer(incoming, self._outgoing)
        theta = jnp.asarray(self._alone.put(self._shapes, self._outgoing, units))
        respond = lambda th, x: self._alone.respond(unpack(self._shapes, th), x)  # noqa: E731
        return jax.vmap(respond)(theta, self._x)

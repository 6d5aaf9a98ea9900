"""Activations by name, and what neurons with an activation have in common."""

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from saddlewalk.errors import InputError, nearest
from saddlewalk.units.base import AbstractUnits

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda z: z,
    "relu": jax.nn.relu,
    "leaky-relu": jax.nn.leaky_relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "sin": jnp.sin,
    "gelu": jax.nn.gelu,
    "quadratic": jnp.square,
    "cubic": lambda z: z**3,
    "z-tanh-z": lambda z: z * jnp.tanh(z),
    # written so that nothing cancels near zero
    "1-cos": lambda z: 2 * jnp.sin(z / 2) ** 2,
    "log-cosh": lambda z: jnp.log1p(2 * jnp.sinh(z / 2) ** 2),
    "z2-tanh-z": lambda z: z**2 * jnp.tanh(z),
}
KINKED = ("relu", "leaky-relu")
ORDERS = {
    **dict.fromkeys(("linear", "relu", "leaky-relu", "tanh", "sin", "gelu"), 1),
    **dict.fromkeys(("quadratic", "z-tanh-z", "1-cos", "log-cosh"), 2),
    **dict.fromkeys(("cubic", "z2-tanh-z"), 3),
}
"""Power of z with which they leave zero; sigmoid is not zero there."""


def activation_named(activation: str | Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of one number by its name, or the function itself.

    Parameters
    ----------
    activation : a name in `ACTIVATIONS`, or a function.
    """
    if callable(activation):
        return activation
    if not isinstance(activation, str):
        raise InputError(f"`activation` must be a name or a function; got {activation!r:.60}.")
    if activation not in ACTIVATIONS:
        raise InputError(f"Unknown activation '{activation}'.{nearest(activation, ACTIVATIONS)}")
    return ACTIVATIONS[activation]


class AbstractNeurons(AbstractUnits):
    """Units with a field `activation`: a name, or any function of one number that is zero at zero."""

    @property
    def _activation(self) -> str | Callable[[Array], Array]:
        return self.activation  # type: ignore[attr-defined]

    linear_outgoing: ClassVar[bool | None] = True

    @property
    def degree(self) -> int | None:  # type: ignore[override]
        """Known for the named activations, whose answers go out through weights of degree 1."""
        order = ORDERS.get(self._activation) if isinstance(self._activation, str) else None
        return None if order is None else 1 + order

    @property
    def smooth(self) -> bool | None:  # type: ignore[override]
        """Known for the named activations; a function of one's own is tried."""
        return self._activation not in KINKED if isinstance(self._activation, str) else None

    @property
    def linear_in(self) -> str | None:  # type: ignore[override]
        """The input, for the linear activation alone."""
        return "input" if self._activation == "linear" else None

    @property
    def sigma(self) -> Callable[[Array], Array]:
        """The activation, as a function."""
        return activation_named(self._activation)

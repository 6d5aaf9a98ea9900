r""":math:`f_i(x; w_i, a_i) = a_i\, \sigma(w_i^\top x)`: neurons of a two-layer network (section 2)."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from saddlewalk.errors import InputError, nearest
from saddlewalk.units.base import AbstractUnits, Shapes, Weights

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda z: z,
    "relu": jax.nn.relu,
    "leaky-relu": jax.nn.leaky_relu,
    "tanh": jnp.tanh,
    "sin": jnp.sin,
    "gelu": jax.nn.gelu,
    "quadratic": jnp.square,
    "cubic": lambda z: z**3,
    "z-tanh-z": lambda z: z * jnp.tanh(z),
}
KINKED = ("relu", "leaky-relu")


class Dense(AbstractUnits):
    """Neurons with a named activation, or any function of one number that is zero at zero."""

    width: int
    activation: str | Callable[[Array], Array] = eqx.field(static=True, default="relu")

    degree: ClassVar[int | None] = None

    def __check_init__(self) -> None:
        if self.width < 1:
            raise InputError(f"The width must be at least 1; got {self.width}.")
        if isinstance(self.activation, str) and self.activation not in ACTIVATIONS:
            raise InputError(
                f"Unknown activation '{self.activation}'.{nearest(self.activation, ACTIVATIONS)}"
            )

    @property
    def smooth(self) -> bool:  # type: ignore[override]
        """False for the named activations that have a kink; a function of one's own is taken as smooth."""
        return self.activation not in KINKED

    @property
    def linear_in(self) -> str | None:  # type: ignore[override]
        """The input, for the linear activation alone."""
        return "input" if self.activation == "linear" else None

    @property
    def shares_features(self) -> bool:  # type: ignore[override]
        """Linear neurons can be rotated into each other: a singular mode belongs to all of them."""
        return self.activation == "linear"

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Input weights w, then output weights a."""
        return {"w": (inputs,), "a": (outputs,)}

    def respond(self, weights: Weights, x: Array) -> Array:
        """a sigma(w x)."""
        return weights["a"] * self._sigma(weights["w"] @ x)

    def combine(self, weights: Weights, x: Array) -> Array:
        """Two matrix products."""
        return self._sigma(weights["w"] @ x) @ weights["a"]

    @property
    def _sigma(self) -> Callable[[Array], Array]:
        return ACTIVATIONS[self.activation] if isinstance(self.activation, str) else self.activation

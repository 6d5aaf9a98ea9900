r""":math:`f_i(x; w_i, a_i) = a_i\, \sigma(w_i^\top x)`: neurons of a two-layer network (section 2)."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError, nearest
from saddlewalk.units.base import AbstractUnits, Factors, Shapes, Weights

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


def activation_named(activation: str | Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of one number by its name, or the function itself.

    Parameters
    ----------
    activation : a name in `ACTIVATIONS`, or a function.
    """
    if not isinstance(activation, str):
        return activation
    if activation not in ACTIVATIONS:
        raise InputError(f"Unknown activation '{activation}'.{nearest(activation, ACTIVATIONS)}")
    return ACTIVATIONS[activation]


class Dense(AbstractUnits):
    """Neurons of a two-layer network.

    Parameters
    ----------
    width : number of neurons.
    activation : a name in `ACTIVATIONS`, or any function of one number that is zero at zero.
    """

    width: int
    activation: str | Callable[[Array], Array] = eqx.field(static=True, default="relu")

    degree: ClassVar[int | None] = None

    @classmethod
    def example(cls) -> tuple["Dense", int, int]:
        """Four ReLU neurons."""
        return cls(4, "relu"), 3, 2

    def __check_init__(self) -> None:
        if self.width < 1:
            raise InputError(f"The width must be at least 1; got {self.width}.")
        activation_named(self.activation)

    @property
    def smooth(self) -> bool | None:  # type: ignore[override]
        """Known for the named activations; a function of one's own is tried."""
        return self.activation not in KINKED if isinstance(self.activation, str) else None

    @property
    def linear_in(self) -> str | None:  # type: ignore[override]
        """The input, for the linear activation alone."""
        return "input" if self.activation == "linear" else None

    @property
    def shares_features(self) -> bool:  # type: ignore[override]
        """Linear neurons can be rotated into each other: a singular mode belongs to all of them."""
        return self.activation == "linear"

    @property
    def rotatable(self) -> bool:  # type: ignore[override]
        """Linear neurons: `A W` does not change when the hidden space is turned."""
        return self.activation == "linear"

    def mix(
        self, theta: Float[np.ndarray, "some size"], x: Any, residual: Any
    ) -> Float[np.ndarray, "some size"]:
        r"""Basis vectors instead of neurons (appendix D): one carries the mode that grows fastest.

        With the residual frozen, :math:`[W^\top; A]` grows along :math:`q_k = [v_k; u_k]`, the singular
        vectors of :math:`G = E\, r x^\top`. The first basis vector is turned to hold all of the first
        growing mode, the second all that is left of the second, and so on: a QR decomposition.
        """
        cross = np.asarray(residual).T @ np.asarray(x)
        left, _, right = np.linalg.svd(cross, full_matrices=False)
        growing = np.concatenate([right, left.T], axis=1)
        amplitudes = theta @ growing.T
        largest = np.abs(amplitudes).max(axis=0)
        turned, _ = np.linalg.qr(amplitudes / np.where(largest > 0, largest, 1.0), mode="complete")
        return turned.T @ theta

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Input weights w, then output weights a."""
        return {"w": (inputs,), "a": (outputs,)}

    def respond(self, weights: Weights, x: Array) -> Array:
        """a sigma(w x)."""
        return weights["a"] * self.sigma(weights["w"] @ x)

    def combine(self, weights: Weights, x: Array) -> Array:
        """Two matrix products."""
        return self.sigma(weights["w"] @ x) @ weights["a"]

    def preactivations(self, weights: Weights, x: Array) -> Float[Array, " width"]:
        """w x."""
        return weights["w"] @ x

    def gradient_factors(self, weights: Weights, x: Array) -> Factors:
        """The first layer reads x, and neuron k is worth a_k times its slope; the second reads sigma(w x)."""
        z = weights["w"] @ x
        answer, slope = jax.jvp(self.sigma, (z,), (jnp.ones_like(z),))
        return {
            "w": (x, slope * weights["a"].T),
            "a": (answer, jnp.eye(weights["a"].shape[1])),
        }

    @property
    def sigma(self) -> Callable[[Array], Array]:
        """The activation."""
        return activation_named(self.activation)

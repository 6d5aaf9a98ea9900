r""":math:`f_i(x; u_i, V_i) = V_i\, \sigma(u_i * x)`: kernels of a one-dimensional convolution."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from saddlewalk.errors import InputError, checked_whole
from saddlewalk.units.activations import AbstractNeurons, activation_named
from saddlewalk.units.base import Factors, Shapes, Weights


class Convolution(AbstractNeurons):
    """Kernels that read patches of the input without padding, and answer to each output by patch.

    Parameters
    ----------
    width : number of kernels.
    kernel : length of a patch.
    stride : how far one patch is from the next.
    activation : a name in `ACTIVATIONS`, or any function of one number that is zero at zero.
    """

    width: int
    kernel: int = eqx.field(static=True, default=2)
    stride: int = eqx.field(static=True, default=2)
    activation: str | Callable[[Array], Array] = eqx.field(static=True, default="linear")

    @classmethod
    def example(cls) -> tuple["Convolution", int, int]:
        """Three kernels that read overlapping patches."""
        return cls(3, kernel=3, stride=2, activation="quadratic"), 7, 2

    def __check_init__(self) -> None:
        for name in ("width", "kernel", "stride"):
            checked_whole(name, getattr(self, name), least=1)
        activation_named(self.activation)

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """A kernel u, then an output weight for each output and patch."""
        return {"u": (self.kernel,), "v": (outputs, self.patches(inputs))}

    def patches(self, inputs: int) -> int:
        """How many patches an input has."""
        if inputs < self.kernel:
            raise InputError(f"A kernel of {self.kernel} does not fit into {inputs} inputs.")
        return (inputs - self.kernel) // self.stride + 1

    def respond(self, weights: Weights, x: Array) -> Array:
        """V sigma(u * x)."""
        return weights["v"] @ self.sense(weights["u"], x)

    def preactivations(self, weights: Weights, x: Array) -> Float[Array, " hidden"]:
        """u * x, kernel by kernel."""
        return (weights["u"] @ self.windows(x).T).reshape(-1)

    def gradient_factors(self, weights: Weights, x: Array) -> Factors:
        """Kernels read every patch; the second layer reads what all of them answer there."""
        windows = self.windows(x)
        z = windows @ weights["u"].T
        answer, slope = jax.jvp(self.sigma, (z,), (jnp.ones_like(z),))
        outputs = weights["v"].shape[1]
        return {
            "u": (windows, jnp.einsum("ph,hcp->cph", slope, weights["v"])),
            "v": (answer.T.reshape(-1), jnp.eye(outputs)),
        }

    def windows(self, x: Any) -> Float[Array, "patches kernel"]:
        """The patches of an input."""
        starts = self.stride * jnp.arange(self.patches(x.shape[-1]))
        return x[starts[:, None] + jnp.arange(self.kernel)]

    def sense(
        self, kernels: Float[Array, "... kernel"], x: Any, nudge: Array | float = 0.0
    ) -> Array:
        """sigma(u * x + nudge): one number a patch, for one kernel or for several."""
        return self.sigma(kernels @ self.windows(x).T + nudge)

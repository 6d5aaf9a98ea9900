r""":math:`f_i(x; w_i, a_i) = a_i\, \sigma(w_i^\top x)`: neurons of a two-layer network (section 2)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.units.activations import AbstractNeurons, activation_named
from saddlewalk.units.base import Factors, Shapes, Weights


class Dense(AbstractNeurons):
    """Neurons of a two-layer network.

    Parameters
    ----------
    width : number of neurons.
    activation : a name in `ACTIVATIONS`, or any function of one number that is zero at zero.
    """

    width: int
    activation: str | Callable[[Array], Array] = eqx.field(static=True, default="relu")

    @classmethod
    def example(cls) -> tuple["Dense", int, int]:
        """Four ReLU neurons."""
        return cls(4, "relu"), 3, 2

    def __check_init__(self) -> None:
        if self.width < 1:
            raise InputError(f"The width must be at least 1; got {self.width}.")
        activation_named(self.activation)

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
        mixed = turned.T @ theta
        # rounding would leave of the larger units, in the smaller ones, more than those are
        for k in range(min(len(mixed), len(growing)) - 1):
            later, mode = mixed[k + 1 :], growing[k] / np.linalg.norm(growing[k])
            for _ in range(2):
                later -= (later @ mode)[:, None] * mode
        return mixed

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Input weights w, then output weights a."""
        return {"w": (inputs,), "a": (outputs,)}

    def respond(self, weights: Weights, x: Array) -> Array:
        """a sigma(w x)."""
        return weights["a"] * self.sigma(weights["w"] @ x)

    def combine(self, weights: Weights, x: Array) -> Array:
        """Two matrix products."""
        return self.sigma(weights["w"] @ x) @ weights["a"]

    def squares(self, weights: Weights, x: Array) -> Float[Array, " width"]:
        """sigma(w x)^2 |a|^2."""
        return self.sigma(weights["w"] @ x) ** 2 * jnp.sum(weights["a"] ** 2, axis=1)

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

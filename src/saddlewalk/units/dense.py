r""":math:`f_i(x; w_i, a_i) = a_i\, \sigma(w_i^\top x)`: neurons of a two-layer network (section 2).

With biases :math:`f_i = a_i\, \sigma(w_i^\top x + b_i)`: the same neurons on inputs with one more coordinate,
which is always 1, so that all that is known of them holds. An output bias is no part of a neuron. It is of
degree 1, never dormant, and learns the mean of the targets in time 1, before any plateau: a sum of units has
none. Take the mean off the targets, or `Deep((Dense(...),), output_bias=True)`, which can be trained but not
predicted. Neurons with biases hold constants themselves.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError, checked_whole
from saddlewalk.units.activations import AbstractNeurons, activation_named
from saddlewalk.units.base import Factors, Shapes, Weights


class Dense(AbstractNeurons):
    """Neurons of a two-layer network.

    Parameters
    ----------
    width : number of neurons.
    activation : a name in `ACTIVATIONS`, or any function of one number that is zero at zero.
    bias : whether each neuron has a bias b; not for the linear activation.
    """

    width: int
    activation: str | Callable[[Array], Array] = eqx.field(static=True, default="relu")
    bias: bool = eqx.field(static=True, default=False)

    @classmethod
    def example(cls) -> tuple["Dense", int, int]:
        """Four ReLU neurons."""
        return cls(4, "relu"), 3, 2

    def __check_init__(self) -> None:
        checked_whole("width", self.width, least=1)
        activation_named(self.activation)
        if self.bias and self.activation == "linear":
            raise InputError(
                "Linear neurons have no `bias` here: give the data a column of ones, which is the same "
                "network, and its theory holds."
            )

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
        """Input weights w, the bias b where there is one, then output weights a."""
        return {"w": (inputs,), **({"b": ()} if self.bias else {}), "a": (outputs,)}

    def respond(self, weights: Weights, x: Array) -> Array:
        """a sigma(w x + b)."""
        return weights["a"] * self.sigma(self.preactivations(weights, x))

    def combine(self, weights: Weights, x: Array) -> Array:
        """Two matrix products."""
        return self.sigma(self.preactivations(weights, x)) @ weights["a"]

    def squares(self, weights: Weights, x: Array) -> Float[Array, " width"]:
        """sigma(w x + b)^2 |a|^2."""
        return self.sigma(self.preactivations(weights, x)) ** 2 * jnp.sum(weights["a"] ** 2, axis=1)

    def preactivations(self, weights: Weights, x: Array) -> Float[Array, "*width"]:
        """w x + b, of all neurons or of one."""
        z = weights["w"] @ x
        return z + weights["b"] if self.bias else z

    def gradient_factors(self, weights: Weights, x: Array) -> Factors:
        """The first layer reads x, a bias 1; neuron k is worth a_k times its slope; the second reads
        sigma(w x + b)."""
        z = self.preactivations(weights, x)
        answer, slope = jax.jvp(self.sigma, (z,), (jnp.ones_like(z),))
        worth = slope * weights["a"].T
        return {
            "w": (x, worth),
            **({"b": (jnp.ones(1), worth)} if self.bias else {}),
            "a": (answer, jnp.eye(weights["a"].shape[1])),
        }

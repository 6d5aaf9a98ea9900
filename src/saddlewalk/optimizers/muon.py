r"""Muon: steps along the orthogonalized momentum, :math:`W \leftarrow W - \eta\,\mathrm{orth}(g + \mu B)`,
:math:`B \leftarrow \mu B + g`.

For a matrix :math:`U S V^\top` the orthogonalization is :math:`U V^\top`: all of its modes move at one rate.
Five quintic Newton-Schulz steps make of each singular value, as a part of the root of their sum of squares,
a number between 0.7 and 1.2, and not 1. `newton_schulz=0` takes a singular value decomposition instead.

Vectors (biases, the u and v of a diagonal network) are diagonal matrices here, whose orthogonalization is
their sign: PyTorch's Muon refuses them, optax gives them to Adam.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from saddlewalk.errors import checked_whole
from saddlewalk.optimizers.base import (
    AbstractOptimizer,
    Memory,
    Tensors,
    check_least,
    check_part,
    zeros,
)

_A, _B, _C = 3.4445, -4.7750, 2.0315
"""Coefficients of Jordan's quintic, those of PyTorch and of optax."""


class Muon(AbstractOptimizer):
    """Momentum, orthogonalized.

    Parameters
    ----------
    learning_rate : way of every mode of a matrix in a step.
    momentum : part of the momentum that a step keeps.
    nesterov : whether a step looks ahead.
    weight_decay : part of each weight, times the learning rate, that a step takes away.
    newton_schulz : steps of the iteration; 0 orthogonalizes exactly.
    epsilon : below this length a matrix counts as none.
    shape_factor : multiply steps by the root of rows over columns where that is above 1, as PyTorch does by
        default.
    """

    learning_rate: Any = 1e-3
    momentum: Any = 0.95
    nesterov: bool = eqx.field(static=True, default=True)
    weight_decay: Any = 0.0
    newton_schulz: int = eqx.field(static=True, default=5)
    epsilon: Any = 1e-7
    shape_factor: bool = eqx.field(static=True, default=False)

    word: ClassVar[str] = "muon"
    decay: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_part("momentum", self.momentum)
        check_least("weight_decay", self.weight_decay)
        check_least("epsilon", self.epsilon)
        checked_whole("newton_schulz", self.newton_schulz, below=100)

    def start(self, weights: Tensors) -> Memory:
        """No momentum."""
        return zeros(weights)

    def step(self, gradients: Tensors, memory: Memory, weights: Tensors) -> tuple[Tensors, Memory]:
        """The momentum of each matrix, orthogonalized."""
        mu = self.momentum
        ball = jax.tree.map(lambda b, g: mu * b + g, memory, gradients)
        ahead = jax.tree.map(lambda b, g: mu * b + g, ball, gradients) if self.nesterov else ball

        def change(push: Array, weight: Array) -> Array:
            rate = self.learning_rate * (_factor(push) if self.shape_factor else 1.0)
            return -rate * self._orthogonalized(push) - (
                self.learning_rate * self.weight_decay * weight
            )

        return jax.tree.map(change, ahead, weights), ball

    def _orthogonalized(self, push: Float[Array, "..."]) -> Float[Array, "..."]:
        if push.ndim < 2:
            if not self.newton_schulz:
                return jnp.sign(push)
            return iterate(push, self.newton_schulz, self.epsilon)
        matrix = push.reshape(push.shape[0], -1)
        if self.newton_schulz:
            return iterate(matrix, self.newton_schulz, self.epsilon).reshape(push.shape)
        u, s, v = jnp.linalg.svd(matrix, full_matrices=False)
        kept = s > 1e-12 * s[0]
        return ((u * kept) @ v).reshape(push.shape)

    def joined(self, steps: int) -> "Muon":
        """As far as so many steps; momentum fades as much."""
        return Muon(
            self.learning_rate * steps,
            self.momentum**steps,
            self.nesterov,
            self.weight_decay,
            self.newton_schulz,
            self.epsilon,
            self.shape_factor,
        )

    def remembered(self, memory: Memory, joined: int, now: int) -> Memory:
        """The momentum of a steady gradient is the gradient over what each step loses."""
        mu = float(self.momentum)
        part = (1 - mu**joined) / (1 - mu**now)
        return jax.tree.map(lambda ball: ball * part, memory)


def iterate(x: Float[Array, "..."], steps: int, epsilon: Any) -> Float[Array, "..."]:
    """Quintic Newton-Schulz steps for a matrix, or for a diagonal one that is given by its diagonal.

    Parameters
    ----------
    x : a matrix, or a vector.
    steps : how many.
    epsilon : least length.
    """
    x = x / jnp.maximum(jnp.sqrt(jnp.sum(x**2)), epsilon)
    if x.ndim < 2:
        for _ in range(steps):
            x = x * (_A + _B * x**2 + _C * x**4)
        return x
    wide = x.T if x.shape[0] > x.shape[1] else x
    for _ in range(steps):
        gram = wide @ wide.T
        wide = _A * wide + (_B * gram + _C * gram @ gram) @ wide
    return wide.T if x.shape[0] > x.shape[1] else wide


def _factor(push: Array) -> float:
    if push.ndim < 2:
        return 1.0
    rows, columns = push.shape[0], push.size // push.shape[0]
    return max(1.0, rows / columns) ** 0.5

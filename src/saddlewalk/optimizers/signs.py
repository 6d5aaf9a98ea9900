r"""Steps of a length of their own: :math:`-\eta\,\mathrm{sign}(g)`, weight by weight, and
:math:`-\eta\, g/|g|`, all weights together."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from saddlewalk.optimizers.base import AbstractOptimizer, Memory, Tensors


class SignDescent(AbstractOptimizer):
    """Every weight moves by the learning rate, steepest descent in the largest change of a weight.

    Parameters
    ----------
    learning_rate : way of every weight in a step.
    """

    learning_rate: Any = 1e-3

    word: ClassVar[str] = "sign"

    def start(self, weights: Tensors) -> Memory:
        """Nothing to remember."""
        return ()

    def step(self, gradients: Tensors, memory: Memory, weights: Tensors) -> tuple[Tensors, Memory]:
        """Against the sign of each gradient."""
        return jax.tree.map(lambda g: -self.learning_rate * jnp.sign(g), gradients), memory

    def joined(self, steps: int) -> "SignDescent":
        """As far as so many steps."""
        return SignDescent(self.learning_rate * steps)


class NormalizedDescent(AbstractOptimizer):
    """All weights together move by the learning rate, along the gradient.

    Parameters
    ----------
    learning_rate : way of all weights in a step.
    """

    learning_rate: Any = 1e-3

    word: ClassVar[str] = "normalized"

    def start(self, weights: Tensors) -> Memory:
        """Nothing to remember."""
        return ()

    def step(self, gradients: Tensors, memory: Memory, weights: Tensors) -> tuple[Tensors, Memory]:
        """Against the gradient, over its length; where there is none, nowhere."""
        length = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(gradients)))
        part = self.learning_rate / jnp.where(length > 0, length, 1.0)
        return jax.tree.map(lambda g: -part * g, gradients), memory

    def joined(self, steps: int) -> "NormalizedDescent":
        """As far as so many steps."""
        return NormalizedDescent(self.learning_rate * steps)

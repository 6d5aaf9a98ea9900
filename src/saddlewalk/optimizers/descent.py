r"""Gradient descent :math:`w \leftarrow w - \eta g`, and with momentum :math:`v \leftarrow \beta v + g`,
:math:`w \leftarrow w - \eta v` (the heavy ball as PyTorch has it; Nesterov's looks ahead)."""

from typing import Any, ClassVar

import equinox as eqx
import jax

from saddlewalk.optimizers.base import AbstractOptimizer, Memory, Tensors, check_part, zeros
from saddlewalk.optimizers.growth import largest_rate


class GradientDescent(AbstractOptimizer):
    """Steps along the gradient.

    Parameters
    ----------
    learning_rate : of a step.
    """

    learning_rate: Any = 1e-2

    word: ClassVar[str] = "descent"
    proportional: ClassVar[bool] = True

    def start(self, weights: Tensors) -> Memory:
        """Nothing to remember."""
        return ()

    def step(self, gradients: Tensors, memory: Memory, weights: Tensors) -> tuple[Tensors, Memory]:
        """Minus the learning rate times the gradient."""
        return jax.tree.map(lambda g: -self.learning_rate * g, gradients), memory

    def largest_stable(self, sharpness: float) -> float:
        """2/h."""
        return largest_rate(sharpness)


class Momentum(AbstractOptimizer):
    """The heavy ball as PyTorch has it, without dampening.

    Parameters
    ----------
    learning_rate : of a step.
    momentum : part of its velocity that the ball keeps.
    nesterov : whether a step looks ahead.
    """

    learning_rate: Any = 1e-2
    momentum: Any = 0.9
    nesterov: bool = eqx.field(static=True, default=False)

    word: ClassVar[str] = "momentum"
    proportional: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_part("momentum", self.momentum)

    def start(self, weights: Tensors) -> Memory:
        """A ball at rest."""
        return zeros(weights)

    def step(self, gradients: Tensors, memory: Memory, weights: Tensors) -> tuple[Tensors, Memory]:
        """The velocity, and for Nesterov's what it will be."""
        ball = jax.tree.map(lambda v, g: self.momentum * v + g, memory, gradients)
        ahead = (
            jax.tree.map(lambda v, g: self.momentum * v + g, ball, gradients)
            if self.nesterov
            else ball
        )
        return jax.tree.map(lambda v: -self.learning_rate * v, ahead), ball

    @property
    def time_per_step(self) -> float:
        r"""A small step goes :math:`\eta/(1 - \beta)` of gradient flow."""
        return float(self.learning_rate / (1 - self.momentum))

    def largest_stable(self, sharpness: float) -> float:
        """2(1 + beta)/h."""
        return largest_rate(sharpness, self.momentum, self.nesterov)

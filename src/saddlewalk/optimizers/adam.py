r"""Adam: :math:`w \leftarrow w - \eta\,\hat m/(\sqrt{\hat v} + \epsilon)`, with running means m of the
gradient and v of its square, corrected for their start at zero. AdamW shrinks the weights as well, by
:math:`\eta\lambda w`."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from saddlewalk.optimizers.base import (
    AbstractOptimizer,
    Memory,
    Tensors,
    check_least,
    check_part,
    zeros,
)


class _Means(AbstractOptimizer):
    """What Adam and AdamW have in common."""

    def start(self, weights: Tensors) -> Memory:
        """Means of nothing, and no step made."""
        return zeros(weights), zeros(weights), jnp.zeros(())

    def remembered(self, memory: Memory, joined: int, now: int) -> Memory:
        """The count is of joined steps."""
        first, second, count = memory
        return first, second, count * (joined / now)

    def _adapted(self, gradients: Tensors, memory: Memory) -> tuple[Tensors, Memory]:
        first, second, count = memory
        beta1, beta2 = self.beta1, self.beta2  # type: ignore[attr-defined]
        count = count + 1
        first = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, first, gradients)
        second = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g**2, second, gradients)
        c1, c2 = 1 - beta1**count, 1 - beta2**count

        def change(m: Any, v: Any) -> Any:
            root = jnp.sqrt(v / c2) + self.epsilon  # type: ignore[attr-defined]
            return -self.learning_rate * (m / c1) / root

        return jax.tree.map(change, first, second), (first, second, count)


class Adam(_Means):
    """Adam as PyTorch and optax have it.

    Parameters
    ----------
    learning_rate : of a step.
    beta1, beta2 : part of the running means of the gradient and of its square that a step keeps.
    epsilon : added to the root of the mean square.
    """

    learning_rate: Any = 1e-3
    beta1: Any = 0.9
    beta2: Any = 0.999
    epsilon: Any = 1e-8

    word: ClassVar[str] = "adam"

    def __check_init__(self) -> None:
        check_part("beta1", self.beta1)
        check_part("beta2", self.beta2)
        check_least("epsilon", self.epsilon)

    def step(self, gradients: Tensors, memory: Memory, weights: Tensors) -> tuple[Tensors, Memory]:
        """The mean gradient over the root of the mean square."""
        return self._adapted(gradients, memory)

    def joined(self, steps: int) -> "Adam":
        """As far as so many steps; memories fade as much."""
        return Adam(self.learning_rate * steps, self.beta1**steps, self.beta2**steps, self.epsilon)


class AdamW(_Means):
    """Adam with decoupled weight decay.

    Parameters
    ----------
    learning_rate : of a step.
    beta1, beta2 : part of the running means of the gradient and of its square that a step keeps.
    epsilon : added to the root of the mean square.
    weight_decay : part of each weight, times the learning rate, that a step takes away.
    """

    learning_rate: Any = 1e-3
    beta1: Any = 0.9
    beta2: Any = 0.999
    epsilon: Any = 1e-8
    weight_decay: Any = 1e-2

    word: ClassVar[str] = "adamw"
    decay: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_part("beta1", self.beta1)
        check_part("beta2", self.beta2)
        check_least("epsilon", self.epsilon)
        check_least("weight_decay", self.weight_decay)

    def step(self, gradients: Tensors, memory: Memory, weights: Tensors) -> tuple[Tensors, Memory]:
        """As Adam, and towards zero."""
        changes, memory = self._adapted(gradients, memory)
        shrinking = self.learning_rate * self.weight_decay
        return jax.tree.map(lambda c, w: c - shrinking * w, changes, weights), memory

    def joined(self, steps: int) -> "AdamW":
        """As far as so many steps; memories fade as much."""
        betas = self.beta1**steps, self.beta2**steps
        return AdamW(self.learning_rate * steps, *betas, self.epsilon, self.weight_decay)

"""Any optax transformation as an optimizer: `train` takes it, no theory knows it."""

from typing import Any, ClassVar

import equinox as eqx

from saddlewalk.optimizers.base import AbstractOptimizer, Memory, Tensors


class Optax(AbstractOptimizer):
    """A gradient transformation of optax, which brings its own learning rate.

    Parameters
    ----------
    transformation : as `optax.adabelief(1e-3)` gives it.
    learning_rate : time that a step takes; 1 counts steps.
    """

    transformation: Any = eqx.field(static=True, default=None)
    learning_rate: Any = 1.0

    word: ClassVar[str] = "optax"

    def start(self, weights: Tensors) -> Memory:
        """The state of the transformation."""
        return self.transformation.init(weights)

    def step(self, gradients: Tensors, memory: Memory, weights: Tensors) -> tuple[Tensors, Memory]:
        """Its updates."""
        return self.transformation.update(gradients, memory, weights)

    @property
    def options(self) -> dict[str, Any]:
        """A transformation is functions, which have no name of their own."""
        return {"learning_rate": self.learning_rate}

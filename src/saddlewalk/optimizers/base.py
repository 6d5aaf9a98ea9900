r"""What one step makes of gradients and of a memory m, :math:`w \leftarrow w + \Delta(g, m)`.

The weights are the tensors that a program would have (`problem.tensors`), by name: matrices as PyTorch has
them, vectors, scalars. `step` gives the change of each; a learning rate of a layer multiplies it.
"""

import abc
import dataclasses
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from saddlewalk.errors import InputError, check_number, nearest

Tensors = dict[str, Float[Array, "..."]]
"""Weights, gradients or changes of a network, by name."""
Memory = Any
"""What an optimizer remembers from step to step."""
_DECAYING = "adamw and muon"
"""The optimizers that know weight decay, in words."""


class AbstractOptimizer(eqx.Module):
    """One rule for all weights of a network. Its numbers are part of no program: no others compile it anew.

    A subclass has a field `learning_rate`.
    """

    word: ClassVar[str]
    """What it is called on the command line."""
    proportional: ClassVar[bool] = False
    """Whether a step is in proportion to the gradients, now and before: gradient descent, heavy ball."""
    decay: ClassVar[bool] = False
    """Whether it knows weight decay."""
    learning_rate: eqx.AbstractVar[Any]

    def __new__(cls, *_: Any, **named: Any) -> "AbstractOptimizer":
        """Refuse numbers that this optimizer does not have, in a sentence."""
        known = [one.name for one in dataclasses.fields(cls)]
        for key in named:
            if key not in known:
                raise InputError(_not_known(cls.word, key, known))
        return super().__new__(cls)

    def __check_init__(self) -> None:
        if isinstance(self.learning_rate, jax.Array | jax.core.Tracer):
            return  # inside a program
        check_number("learning_rate", self.learning_rate)
        if not 0 < self.learning_rate < math.inf:
            raise InputError(
                f"The learning rate must be positive and finite; got `learning_rate` {self.learning_rate}."
            )

    @abc.abstractmethod
    def start(self, weights: Tensors) -> Memory:
        """The memory before the first step."""

    @abc.abstractmethod
    def step(self, gradients: Tensors, memory: Memory, weights: Tensors) -> tuple[Tensors, Memory]:
        """How the weights change in one step, and the memory after it."""

    @property
    def time_per_step(self) -> float:
        """The clock: for a rule in proportion to the gradient the gradient-flow time of a small step; for the
        others the way that a weight can make in a step."""
        return float(self.learning_rate)

    def largest_stable(self, sharpness: float) -> float:
        """The largest learning rate at which a minimum of this sharpness holds; infinite where a step has a
        length of its own: then weights come as near as a step, whatever the sharpness.

        Parameters
        ----------
        sharpness : largest eigenvalue of the Hessian of the loss.
        """
        return math.inf

    def joined(self, steps: int) -> "AbstractOptimizer":
        """The rule whose one step goes as far as so many steps in gradients that hardly change.

        Parameters
        ----------
        steps : how many.
        """
        raise InputError(f"Steps of '{self.word}' cannot be joined.")

    def remembered(self, memory: Memory, joined: int, now: int) -> Memory:
        """What is remembered, when from now on other numbers of steps are joined.

        Parameters
        ----------
        memory : of the rule whose steps were joined so far.
        joined, now : how many were, and how many are.
        """
        return memory

    @property
    def options(self) -> dict[str, Any]:
        """Its numbers by name."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}

    def to_json(self) -> dict[str, Any]:
        """Name and numbers."""
        return {"name": self.word, **self.options}

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"{self.word} ({numbers})"


def _not_known(word: str, key: str, known: list[str]) -> str:
    if key == "weight_decay":
        return f"'{word}' does not know weight decay; {_DECAYING} do."
    if key == "momentum" and word == "descent":
        return "'descent' has no momentum: take the optimizer 'momentum'."
    return f"'{word}' has no `{key}`.{nearest(key, known)}"


def zeros(weights: Tensors) -> Tensors:
    """A memory of nothing.

    Parameters
    ----------
    weights : what it is like.
    """
    return jax.tree.map(jnp.zeros_like, weights)


def check_part(name: str, value: Any) -> None:
    """Refuse what is no part of a running mean.

    Parameters
    ----------
    name : of the argument.
    value : what was given.
    """
    if isinstance(value, jax.Array | jax.core.Tracer):
        return
    check_number(name, value)
    if not 0 <= value < 1:
        raise InputError(f"`{name}` must lie in [0, 1); got {value}.")


def check_least(name: str, value: Any) -> None:
    """Refuse what is below 0: a weight decay with which weights grow, an epsilon that turns steps around.

    Parameters
    ----------
    name : of the argument.
    value : what was given.
    """
    if isinstance(value, jax.Array | jax.core.Tracer):
        return
    check_number(name, value)
    if not 0 <= value < math.inf:
        raise InputError(f"`{name}` must be finite and at least 0; got {value}.")

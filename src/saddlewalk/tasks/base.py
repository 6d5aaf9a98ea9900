r"""What is learned: a space of functions, and what each function costs.

A unit enters a task as a vector in function space (its outputs on the data, or a matrix where
expectations are known in closed form). The loss is a function of the sum of these vectors, and the
residual is minus its gradient there: the dual vector against which utility is measured (Eq 1).
"""

import abc
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Answer = Callable[[Any], Array]
"""One unit as a function of one input."""

SampleLoss = Callable[[Array, Array], Array]
"""Loss of one output against one target: `(outputs,), (outputs,) -> ()`."""


class Modes(NamedTuple):
    """The target as a sum of orthogonal parts, each with a name: what there is to learn.

    Parameters
    ----------
    names : what each part is: its kind, and numbers that tell it from others.
    parts : vectors of function space, one a part.
    """

    names: tuple[dict[str, Any], ...]
    parts: Float[np.ndarray, "modes ..."]
    """Vectors of function space."""

    @property
    def weights(self) -> Float[np.ndarray, " modes"]:
        """Squared length of each part: how much loss it holds, up to a common factor."""
        return np.sum(self.parts**2, axis=tuple(range(1, self.parts.ndim)))

    def strengths(self, function: Float[np.ndarray | Array, "..."]) -> Float[np.ndarray, " modes"]:
        """How much of each part a function holds: 0 before it is learned, 1 after."""
        flat = self.parts.reshape(len(self.parts), math.prod(self.parts.shape[1:]))
        return flat @ np.asarray(function).ravel() / self.weights


_TAKEN = 0.1
"""Part of the loss of a mode that a stage must take, so that the mode was learned at all."""


class Learned(NamedTuple):
    """Which modes a stage learned, those first that took most of the loss."""

    modes: list[int]
    """Those that no other stage learned more of; none where it only went on with modes of others."""
    lead: int
    """The mode that took most of the loss here, wherever it was learned."""


def modes_that_grew(weights: Any, before: Any, after: Any) -> list[Learned]:
    """The modes that each of some stages learned; each is in the stage that took most of its loss.

    A mode of a strength leaves weight (1 - strength)^2 of the loss.

    Parameters
    ----------
    weights : loss that each mode holds while nothing is learned, `(modes,)`.
    before, after : strengths of the modes on both sides of each stage, `(stages, modes)`.
    """
    weights, was, now = np.asarray(weights), np.asarray(before), np.asarray(after)
    if not len(was):
        return []
    gains = weights * ((1 - was) ** 2 - (1 - now) ** 2)
    stage = np.where(gains.max(axis=0) > _TAKEN * weights, np.argmax(gains, axis=0), -1)
    found = []
    for k, gain in enumerate(gains):
        order = np.argsort(-gain, kind="stable")
        found.append(Learned(order[stage[order] == k].tolist(), int(order[0])))
    return found


class AbstractTask(eqx.Module):
    """A problem to learn. `name` is what tables call it."""

    name: eqx.AbstractVar[str]

    @property
    @abc.abstractmethod
    def inputs(self) -> int:
        """Number of input coordinates."""

    @property
    @abc.abstractmethod
    def outputs(self) -> int:
        """Number of output coordinates."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the inputs are called; empty if they have no names."""
        return getattr(self, "names", ())

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the outputs are called, one for each label; empty if targets are numbers."""
        return getattr(self, "labels", ())

    @abc.abstractmethod
    def represent(self, answer: Answer) -> Float[Array, "..."]:
        """A function as a vector of this task's function space (linear in the function)."""

    @abc.abstractmethod
    def cost(self, function: Float[Array, "..."], loss: SampleLoss) -> Float[Array, ""]:
        """The expected loss of a vector of function space."""

    @property
    def floor(self) -> Float[np.ndarray | Array, ""] | float:
        """The loss that nothing can avoid."""
        return 0.0

    def modes(self) -> Modes | None:
        """The named parts of the target, where the task has any of its own."""
        return None

    @abc.abstractmethod
    def mean(self, values: Float[Array, "... some"]) -> Float[Array, " some"]:
        """Expectation of what `represent` gives, column by column."""

    def length(self, function: Float[Array, "..."]) -> Float[Array, ""]:
        """Length of a vector of function space: the root of E|f|^2."""
        return jnp.sqrt(jnp.sum(self.mean(function**2)))


class AbstractPoints(AbstractTask):
    """Tasks in which a function is its values at points x `(n, d)`, to be compared with y `(n, c)`."""

    x: eqx.AbstractVar[Float[np.ndarray | Array, "n d"]]
    y: eqx.AbstractVar[Float[np.ndarray | Array, "n c"]]

    @property
    def inputs(self) -> int:
        """Columns of x."""
        return self.x.shape[1]

    @property
    def outputs(self) -> int:
        """Columns of y."""
        return self.y.shape[1]

    def represent(self, answer: Answer) -> Float[Array, "n c"]:
        """A function is its values at the points."""
        return jax.vmap(answer)(jnp.asarray(self.x))

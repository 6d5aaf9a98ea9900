"""What a method of integration is: one step of a flow, with an estimate of its error."""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.ode.system import AbstractFlow, State, StateLike


class Step(NamedTuple):
    """What one step brings."""

    end: State
    velocity: State
    """Velocity at the end, with which the next step begins."""
    error: Float[Array, "estimates *shape"]
    """Estimates of the local error; `AbstractMethod.size` makes one number of them."""
    memory: Any
    """What the method remembers from step to step."""
    evaluations: Array | int
    """Right-hand sides that it took."""


class AbstractMethod(eqx.Module):
    """A one-step method for a flow."""

    flow: eqx.AbstractVar[AbstractFlow]
    error_order: eqx.AbstractClassVar[int]
    """Power of the step with which the error estimate falls."""

    tolerance: ClassVar[float] = 1e-8
    """Error of a step that suits it, where nobody asks for another."""

    def on(self, flow: AbstractFlow) -> "AbstractMethod":
        """The same method for another flow."""
        return type(self)(flow)

    def typical_evaluations(self, y: StateLike) -> int:
        """Right-hand sides a step, about: decides how many steps make a piece."""
        return 6

    def init(self, y: StateLike) -> Any:
        """What is remembered before the first step."""
        return None

    @abc.abstractmethod
    def step(self, y: State, velocity: State, h: Float[Array, ""], memory: Any) -> Step:
        """One step of length h from y, where the velocity is known."""

    def size(self, scaled: Float[Array, " estimates"], h: Float[Array, ""]) -> Float[Array, ""]:
        """One number for the error, of the largest components of its estimates."""
        return scaled[0]


def square(rows: tuple[tuple[float, ...], ...]) -> np.ndarray:
    """The lower triangle of a tableau as a matrix, with which stages can run in a loop.

    Parameters
    ----------
    rows : the rows of the triangle, each with its leading entries.
    """
    matrix = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        matrix[i, : len(row)] = row
    return matrix

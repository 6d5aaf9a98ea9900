"""What an ODE must say about itself so that it is solved rightly at every scale."""

import abc
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

State = Float[Array, "*shape"]


class AbstractFlow(eqx.Module):
    """An autonomous ODE `dy/dt = velocity(y)` that is a gradient flow in some metric."""

    @abc.abstractmethod
    def velocity(self, y: State) -> State:
        """Right-hand side."""

    @abc.abstractmethod
    def error_scale(self, y: State) -> State:
        """The length against which an error in each component is measured.

        A fixed absolute tolerance is silently wrong on weights of size 1e-16; the error_scale is what
        makes the error relative to each unit."""

    @abc.abstractmethod
    def symmetrizer(self, y: State) -> State:
        """Factors s that make the Jacobian symmetric: `s_j J_jk / s_k = s_k J_kj / s_j`.

        For gradient flow in its own parameters they are 1."""

    @abc.abstractmethod
    def noise(self, y: State) -> State:
        """Size of the rounding error in the velocity, the same for all components of a unit."""

    @abc.abstractmethod
    def observe(self, y: State) -> Any:
        """What is saved at every step: a tuple or dictionary of arrays."""

    watches: ClassVar[bool] = False
    """Whether to stop where `margin` falls through 0."""

    def margin(self, y: State) -> Float[Array, ""]:
        """Positive until the event to stop at."""
        raise RuntimeError(f"{type(self).__name__} watches for an event but has no margin.")

"""What an ODE must say about itself so that it is solved rightly at every scale."""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from saddlewalk.programs import is_array

State = Float[Array, "*shape"]
StateLike = Float[Array | np.ndarray, "*shape"]


class Watch(NamedTuple):
    """How near the next event is, and what would happen if it were here."""

    margin: Float[Array, ""]
    """Positive before the event, and not after it."""
    context: Any
    """What the flow's context becomes."""
    ends: Bool[Array, ""]
    """Whether the integration ends there; else it goes on in the new context."""
    seen: Any
    """What is saved of this state, in place of what `observe` says."""


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

    def work(self, y: StateLike) -> float:
        """Multiplications of one right-hand side, about: each unit looks at each number that is held."""
        return float(
            len(y) * (1 + sum(leaf.size for leaf in jax.tree.leaves(self) if is_array(leaf)))
        )

    def observe(self, y: State) -> Any:
        """What is saved at every step, where nothing is watched for: a tuple or dictionary of arrays."""
        return ()

    watches: ClassVar[bool] = False
    """Whether there are events to `watch` for."""

    @property
    def slack(self) -> Any:
        """How far below zero a margin may be at the moment that counts as the event."""
        return jnp.asarray(1e-7)  # margins are logarithms, and rounding makes them rough below

    @property
    def reach(self) -> Any:
        """The longest step, where errors do not say: what is small beside the error may be growing."""
        return jnp.asarray(jnp.inf)

    @property
    def context(self) -> Any:
        """The arrays that events change."""
        return ()

    def within(self, context: Any) -> "AbstractFlow":
        """The same flow in another context."""
        return self

    def watch(self, y: State, velocity: State) -> Watch:
        """The nearest event, at a state with this velocity."""
        raise RuntimeError(f"{type(self).__name__} watches for events but does not say which.")

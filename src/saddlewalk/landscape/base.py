r""":math:`L(w) = \ell(f(w), y)`: the loss of any network as a function of one vector of weights.

Whatever a network is made of, a diagnosis needs its outputs on a probe (some inputs with their targets), its
loss and the derivatives of both: the gradient, products with the Hessian, and products with the Jacobian
:math:`J = \partial f / \partial w` from both sides. Here they are functions of a NumPy vector in double
precision, the same for PyTorch and for JAX. The loss is the one that the user gives, unchanged.
"""

import abc
import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError

Vector = Float[np.ndarray, " size"]
Outputs = Float[np.ndarray, "samples outputs"]
Product = Callable[[Any], np.ndarray]
"""A linear map, as a function of a vector."""


class Parameter(NamedTuple):
    """One array of weights, and where it stands in the vector of all.

    Parameters
    ----------
    name : what the network calls it.
    shape : its shape.
    start : number of its first entry in the vector.
    """

    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    @property
    def place(self) -> slice:
        """Where it stands in the vector of all weights."""
        return slice(self.start, self.start + self.size)


def laid_out(shapes: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[Parameter, ...]:
    """Parameters one after another.

    Parameters
    ----------
    shapes : name and shape of each.
    """
    found: list[Parameter] = []
    start = 0
    for name, shape in shapes:
        found.append(Parameter(name, tuple(shape), start))
        start += found[-1].size
    return tuple(found)


class AbstractLandscape(abc.ABC):
    """A network, a probe and a loss: functions of one vector of weights.

    Outputs are matrices, one row a sample; what one sample gives is flattened.
    """

    parameters: tuple[Parameter, ...]
    """The arrays that are trained, in the order of the vector."""

    rounding: float
    """Relative error of one number in the precision in which the network computes."""

    @property
    @abc.abstractmethod
    def weights(self) -> Vector:
        """The weights as they are now."""

    @abc.abstractmethod
    def weights_of(self, state: Any) -> Vector:
        """The vector of weights of another state of the same network.

        Parameters
        ----------
        state : a module, or its state (PyTorch: a `state_dict`; JAX: a tree of parameters).
        """

    @property
    @abc.abstractmethod
    def targets(self) -> np.ndarray:
        """The targets of the probe."""

    @abc.abstractmethod
    def outputs(self, w: Any) -> Outputs:
        """What the network answers on the probe.

        Parameters
        ----------
        w : a vector of weights.
        """

    @abc.abstractmethod
    def loss_and_gradient(self, w: Any) -> tuple[float, Vector]:
        """The loss on the probe, and its gradient.

        Parameters
        ----------
        w : a vector of weights.
        """

    @abc.abstractmethod
    def hessian_at(self, w: Any) -> Product:
        """Products with the Hessian of the loss at one place: what is prepared once serves all of them.

        Parameters
        ----------
        w : a vector of weights.
        """

    @abc.abstractmethod
    def jacobian_at(self, w: Any) -> tuple[Product, Product]:
        """Products with the Jacobian of the outputs at one place: J v (a matrix like the outputs), and J^T u.

        Parameters
        ----------
        w : a vector of weights.
        """

    @abc.abstractmethod
    def jacobian(self, w: Any, samples: slice = slice(None)) -> Float[np.ndarray, "rows size"]:
        """The Jacobian of the outputs, sample by sample and in each output by output.

        Parameters
        ----------
        w : a vector of weights.
        samples : which of the probe; all by default.
        """

    @abc.abstractmethod
    def cost(self, outputs: Any) -> float:
        """The loss of outputs on the probe, whatever network they come from.

        Parameters
        ----------
        outputs : a matrix, one row a sample.
        """

    @abc.abstractmethod
    def residual(self, outputs: Any) -> Outputs:
        """Minus the gradient of the loss by the outputs.

        Parameters
        ----------
        outputs : a matrix, one row a sample.
        """

    def probing(self) -> AbstractContextManager[None]:
        """Within it, many looks one after another may prepare once."""
        return nullcontext()

    # --- what follows from these ----------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of weights."""
        last = self.parameters[-1]
        return last.start + last.size

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays that are trained."""
        return tuple(one.name for one in self.parameters)

    @cached_property
    def sample_count(self) -> int:
        """Number of samples of the probe."""
        return len(self.targets)

    def loss(self, w: Any) -> float:
        """The loss on the probe.

        Parameters
        ----------
        w : a vector of weights.
        """
        return self.cost(self.outputs(w))

    def hessian_product(self, w: Any, v: Any) -> Vector:
        """The Hessian of the loss times a vector.

        Parameters
        ----------
        w : a vector of weights.
        v : a vector of as many numbers.
        """
        return self.hessian_at(w)(v)

    def outputs_along(self, w: Any, v: Any) -> Outputs:
        """J v: how the outputs change along a direction of the weights.

        Parameters
        ----------
        w : a vector of weights.
        v : a direction.
        """
        return self.jacobian_at(w)[0](v)

    def weights_along(self, w: Any, u: Any) -> Vector:
        """J^T u: the gradient of the sum of u times the outputs.

        Parameters
        ----------
        w : a vector of weights.
        u : a matrix like the outputs.
        """
        return self.jacobian_at(w)[1](u)

    def split(self, w: Any) -> dict[str, np.ndarray]:
        """A vector as arrays by name.

        Parameters
        ----------
        w : a vector of weights, or anything of their shape.
        """
        flat = self.checked(w)
        return {one.name: flat[one.place].reshape(one.shape) for one in self.parameters}

    def join(self, arrays: dict[str, Any]) -> Vector:
        """Arrays by name as one vector.

        Parameters
        ----------
        arrays : one for each parameter, in its shape.
        """
        missing = [one.name for one in self.parameters if one.name not in arrays]
        if missing:
            raise InputError(
                f"There is no '{missing[0]}' among the arrays; there are: {', '.join(arrays) or 'none'}."
            )
        for one in self.parameters:
            if np.shape(arrays[one.name]) != one.shape:
                raise InputError(
                    f"'{one.name}' must have shape {one.shape}; got {np.shape(arrays[one.name])}."
                )
        return np.concatenate(
            [np.asarray(arrays[one.name], dtype=np.float64).ravel() for one in self.parameters]
        )

    def vector_of(self, state: Any) -> Vector:
        """The vector of weights of a state, whether it is one already or not.

        Parameters
        ----------
        state : a vector of weights, or what `weights_of` takes.
        """
        plain = isinstance(state, np.ndarray) and state.ndim == 1
        return self.checked(state) if plain else self.weights_of(state)

    def weights_at(self, weights: Any = None, at: int = -1) -> Vector:
        """The weights at which a diagnostic looks: those given, or those of now.

        Parameters
        ----------
        weights : a vector, or what `weights_of` takes; by default the weights as they are now.
        at : number of a saved moment, which only runs have.
        """
        if at != -1:
            raise InputError("`at` names a saved moment of a run; a landscape has none.")
        found = self.weights if weights is None else self.vector_of(weights)
        if not np.isfinite(found).all():
            raise InputError("The weights hold NaN or infinite numbers.")
        return found

    def checked(self, w: Any) -> Vector:
        """A vector of weights in double precision, or a sentence.

        Parameters
        ----------
        w : what should be one.
        """
        flat = np.asarray(w, dtype=np.float64)
        if flat.shape != (self.size,):
            raise InputError(
                f"The weights must be one vector of {self.size} numbers; got {flat.shape}."
            )
        return flat

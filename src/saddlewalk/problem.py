r"""The one idea: units meet only in the residual.

.. math::

    f_A = \sum_{i \in A} f(\cdot\,; \theta_i), \qquad
    U(\theta; f_A) = -\left.\tfrac{d}{d\epsilon}\right|_0 L(f_A + \epsilon f(\cdot\,; \theta))
                   = \langle f(\cdot\,; \theta),\; r \rangle, \qquad r = -\nabla_f L(f_A)

The **loss** of the active units and the **utility** of a dormant one (Eq 1) carry the whole theory.
For squared loss r is the residual y - f. Dormant units climb their utility alone; active units
descend the loss together.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.staircase import check_scale
from saddlewalk.tasks import AbstractTask, Samples, compress
from saddlewalk.units import AbstractUnits, find_degree
from saddlewalk.units.base import Shapes, size_of, unpack

Parameters = Float[Array, "width size"]


class AbstractLoss(eqx.Module):
    """What one output costs against one target: any differentiable function."""

    @abc.abstractmethod
    def __call__(self, output: Float[Array, " c"], target: Float[Array, " c"]) -> Float[Array, ""]:
        """The loss of one sample."""


class SquaredError(AbstractLoss):
    """Half the squared distance."""

    def __call__(self, output: Float[Array, " c"], target: Float[Array, " c"]) -> Float[Array, ""]:
        """1/2 |y - f|^2."""
        return 0.5 * jnp.sum((target - output) ** 2)


class Problem(eqx.Module):
    """Units + data + loss: a function of the parameters `(width, size)`, one row a unit."""

    task: AbstractTask
    units: AbstractUnits
    penalty: AbstractLoss
    width: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    def __init__(
        self,
        task: AbstractTask,
        units: AbstractUnits,
        penalty: AbstractLoss | None = None,
        keep_samples: bool = False,
    ):
        self.penalty = SquaredError() if penalty is None else penalty
        squared = isinstance(self.penalty, SquaredError)
        if isinstance(task, Samples) and not squared and jnp.any(task.offset != 0):
            raise InputError("A task made from moments has a squared loss; give samples instead.")
        # linear functions under a squared loss see second moments only: d samples say it all
        small = squared and units.linear_in_input and isinstance(task, Samples) and not keep_samples
        self.task = compress(task) if small else task  # type: ignore[arg-type]
        self.units = units
        self.width = units.count(task.inputs)
        self.degree = find_degree(units, task.inputs, task.outputs)

    @property
    def shapes(self) -> Shapes:
        """Shapes of the weights of one unit."""
        return self.units.layers(self.task.inputs, self.task.outputs)

    @property
    def size(self) -> int:
        """Number of parameters of one unit."""
        return size_of(self.shapes)

    def initialize(self, scale: float, seed: int = 0) -> Parameters:
        """The start at this scale and seed: the same for a prediction and a simulation."""
        key = jax.random.key(seed)
        return self.units.initialize(self.shapes, self.width, check_scale(scale), key)

    def features(self, theta: Parameters) -> Float[Array, "width ..."]:
        """Each unit as a vector in function space."""

        def one(parameters: Array, index: Array) -> Array:
            weights = unpack(self.shapes, parameters)
            return self.task.represent(
                lambda x: self.units.respond(weights, self.units.view(x, index))
            )

        return jax.vmap(one)(theta, jnp.arange(self.width))

    def loss(self, theta: Parameters) -> Float[Array, ""]:
        """Loss of the sum of the units."""
        return self.cost(jnp.sum(self.features(theta), axis=0))

    def cost(self, function: Float[Array, "..."]) -> Float[Array, ""]:
        """Loss of a vector of function space."""
        return self.task.cost(function, self.penalty)

    def residual(self, theta: Parameters) -> Float[Array, "..."]:
        """Minus the gradient of the loss in function space."""
        return -jax.grad(self.cost)(jnp.sum(self.features(theta), axis=0))

    def utility(self, theta: Parameters, residual: Float[Array, "..."]) -> Float[Array, " width"]:
        """Eq 1: how fast the loss falls, to first order, when a unit is added."""
        features = self.features(theta)
        return jnp.sum(features * residual, axis=tuple(range(1, features.ndim)))

    def velocity(self, theta: Parameters) -> Parameters:
        """Gradient flow at learning rate 1."""
        return -jax.grad(self.loss)(theta)


def norms(theta: Float[Array, "width size"]) -> Float[Array, "width 1"]:
    """Norm of each unit, kept as a column; free of underflow at scales like 1e-100."""
    largest = jnp.max(jnp.abs(theta), axis=-1, keepdims=True)
    safe = jnp.where(largest > 0, largest, 1.0)
    return largest * jnp.sqrt(jnp.sum((theta / safe) ** 2, axis=-1, keepdims=True))

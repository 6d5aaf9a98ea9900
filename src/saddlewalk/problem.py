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
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.precision import check_float64
from saddlewalk.staircase import check_scale
from saddlewalk.tasks import AbstractTask, Moments, Samples, compress
from saddlewalk.units import AbstractUnits, find_degree
from saddlewalk.units.base import Shapes, Weights, size_of, unpack

Parameters = Float[Array, "width size"]
ParametersLike = Float[Array | np.ndarray, "width size"]


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
    """Units + data + loss: a function of the parameters `(width, size)`, one row a unit.

    Its methods compute in float64; call them under `saddlewalk.float64()`.
    """

    task: AbstractTask
    units: AbstractUnits
    penalty: AbstractLoss
    rates: Float[np.ndarray | Array, " size"]
    """Learning rate of each parameter of a unit."""
    width: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)

    def __init__(
        self,
        task: AbstractTask,
        units: AbstractUnits,
        penalty: AbstractLoss | None = None,
        rates: dict[str, float] | None = None,
        keep_samples: bool = False,
    ):
        _check_kinds(task, units)
        self.penalty = SquaredError() if penalty is None else penalty
        by_moments = units.linear_in_input and isinstance(self.penalty, SquaredError)
        if isinstance(task, Moments) and not by_moments:
            raise InputError(
                "Moments determine the squared loss of linear units only; give samples."
            )
        compressible = by_moments and isinstance(task, Samples) and not keep_samples
        self.task = compress(task) if compressible else task  # type: ignore[arg-type]
        shapes = units.layers(task.inputs, task.outputs)
        self.units, self.rates = units.rated(rates or {}, shapes)
        self.width = _checked_width(units.count(task.inputs))
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
        check_float64()
        small = check_scale(scale, self.degree)
        return self.units.initialize(self.shapes, self.width, small, jax.random.key(seed))

    def weights(self, theta: ParametersLike) -> Weights:
        """Named weights `(width, ...)` of all units."""
        return jax.vmap(lambda row: unpack(self.shapes, row))(theta)

    def function(self, theta: ParametersLike) -> Float[Array, "..."]:
        """The sum of the units as a vector in function space."""
        check_float64()
        weights = self.weights(theta)
        return self.task.represent(lambda x: self.units.combine(weights, x))

    def features(self, theta: ParametersLike) -> Float[Array, "width ..."]:
        """Each unit as a vector in function space."""
        check_float64()

        def one(parameters: Array, index: Array) -> Array:
            weights = unpack(self.shapes, parameters)
            return self.task.represent(
                lambda x: self.units.respond(weights, self.units.view(x, index))
            )

        return jax.vmap(one)(jnp.asarray(theta), jnp.arange(self.width))

    def loss(self, theta: ParametersLike) -> Float[Array, ""]:
        """Loss of the sum of the units."""
        return self.cost(self.function(theta))

    def cost(self, function: Float[Array, "..."]) -> Float[Array, ""]:
        """Loss of a vector of function space."""
        return self.task.cost(function, self.penalty)

    def residual(self, theta: ParametersLike) -> Float[Array, "..."]:
        """Minus the gradient of the loss in function space."""
        return -jax.grad(self.cost)(self.function(theta))

    def utility(
        self, theta: ParametersLike, residual: Float[Array, "..."]
    ) -> Float[Array, " width"]:
        """Eq 1: how fast the loss falls, to first order, when a unit is added."""
        features = self.features(theta)
        return jnp.sum(features * residual, axis=tuple(range(1, features.ndim)))

    def velocity(self, theta: ParametersLike) -> Parameters:
        """Gradient flow: minus the learning rates times the gradient."""
        return -self.rates * jax.grad(self.loss)(theta)


def _check_kinds(task: object, units: object) -> None:
    if not isinstance(task, AbstractTask):
        raise InputError(
            f"The task must come from saddlewalk.tasks, for instance from_arrays(X, y); got {task!r:.60}."
        )
    if not isinstance(units, AbstractUnits):
        raise InputError(f"The units must be an instance of AbstractUnits; got {units!r:.60}.")


def _checked_width(width: object) -> int:
    if not isinstance(width, int | np.integer) or width < 1:
        raise InputError(f"The width must be a whole number of at least 1; got {width}.")
    return int(width)


def norms(theta: ParametersLike) -> Float[Array, "width 1"]:
    """Norm of each unit, kept as a column; free of underflow at scales like 1e-100."""
    largest = jnp.max(jnp.abs(theta), axis=-1, keepdims=True)
    safe = jnp.where(largest > 0, largest, 1.0)
    return largest * jnp.sqrt(jnp.sum((theta / safe) ** 2, axis=-1, keepdims=True))

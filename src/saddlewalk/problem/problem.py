r"""The one idea: units meet only in the residual.

.. math::

    f_A = \sum_{i \in A} f(\cdot\,; \theta_i), \qquad
    U(\theta; f_A) = -\left.\tfrac{d}{d\epsilon}\right|_0 L(f_A + \epsilon f(\cdot\,; \theta))
                   = \langle f(\cdot\,; \theta),\; r \rangle, \qquad r = -\nabla_f L(f_A)

The **loss** of the active units and the **utility** of a dormant one (Eq 1) carry the whole theory.
For squared loss r is the residual y - f. Dormant units climb their utility alone; active units
descend the loss together.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError, checked_seed, checked_whole
from saddlewalk.losses import AbstractLoss, SquaredError, as_loss
from saddlewalk.precision import check_float64
from saddlewalk.problem.memory import check_memory
from saddlewalk.problem.scale import check_scale
from saddlewalk.programs import seldom
from saddlewalk.renamed import answer_old_arguments
from saddlewalk.tasks import AbstractTask, Modes, Moments, Samples, compress
from saddlewalk.tasks.base import AbstractPoints
from saddlewalk.units import AbstractUnits, Layer, Relation, Traits, traits_of
from saddlewalk.units.base import Shapes, Weights, unpack

Parameters = Float[Array, "width size"]
ParametersLike = Float[Array | np.ndarray, "width size"]
Kind = TypeVar("Kind", Array, np.ndarray)
"""What is answered in the kind in which it was asked: NumPy where nothing should be compiled."""
AnyLoss = AbstractLoss | Callable[[Array, Array], Array] | str | None
"""A loss, a function of one's own, a name; `None` for squared error."""
_LARGEST = 700.0
"""Logarithm of the largest loss that float64 can hold."""


class Problem(eqx.Module):
    """Units + data + loss: a function of the parameters `(width, size)`, one row a unit.

    Its methods compute in float64; call them under `saddlewalk.float64()`.

    Parameters
    ----------
    task, units : what is learned, and what is summed.
    loss : a name of `losses.NAMES`, or a function of one output and one target; squared error by default.
    rates : learning rate of each layer by name; 1 where none is given.
    keep_samples : keep samples even where their moments would do, for mini-batches.
    adaptive : give each unit the learning rate norm^(2-kappa) of its own (appendix B.5); for kappa > 2.
    """

    task: AbstractTask
    units: AbstractUnits
    sample_loss: AbstractLoss
    """What one output costs against one target."""
    rates: Float[np.ndarray | Array, " size"]
    """Learning rate of each parameter of a unit."""
    layer_rates: tuple[tuple[str, float], ...] = eqx.field(static=True)
    """The same by layer, as they were given."""
    width: int = eqx.field(static=True)
    traits: Traits = eqx.field(static=True)
    """Degree, kinks and relations of the units, found once."""
    adaptive: bool = eqx.field(static=True)
    """Whether each unit has the learning rate norm^(2-kappa) of its own (appendix B.5)."""

    @answer_old_arguments(penalty="loss")
    def __init__(
        self,
        task: AbstractTask,
        units: AbstractUnits,
        loss: AnyLoss = None,
        rates: dict[str, float] | None = None,
        keep_samples: bool = False,
        adaptive: bool = False,
    ):
        _check_kinds(task, units)
        self.sample_loss = as_loss(loss)
        squared = isinstance(self.sample_loss, SquaredError)
        if isinstance(task, Moments) and not (squared and units.linear_in == task.linear_in):
            raise InputError(
                f"The moments of '{task.name}' determine the squared loss of units that are linear in "
                f"the {task.linear_in}, and of no other; give samples."
            )
        task = read_by(task, self.sample_loss)
        linear = squared and units.linear_in == "input"
        compressible = linear and isinstance(task, Samples) and not keep_samples
        self.task = compress(task) if compressible else task  # type: ignore[arg-type]
        shapes = units.layers(task.inputs, task.outputs)
        self.units, self.rates = units.rated(rates or {}, shapes)
        self.layer_rates = tuple((rates or {}).items())
        self.width = checked_whole("width", units.count(task.inputs), least=1)
        self.traits = traits_of(units, task.inputs, task.outputs)
        self.adaptive = adaptive and self.traits.degree > 2

    @property
    def shapes(self) -> Shapes:
        """Shapes of the weights of one unit."""
        return self.traits.shapes

    @property
    def degree(self) -> int:
        """Order kappa of a unit in its parameters at the origin."""
        return self.traits.degree

    @property
    def smooth(self) -> bool:
        """Whether the units have no kinks in their parameters."""
        return self.traits.smooth

    @property
    def squared(self) -> bool:
        """Whether the loss is half the squared distance."""
        return isinstance(self.sample_loss, SquaredError)

    @property
    def infimum(self) -> float | None:
        """The loss below which no outputs go, whatever the network; `None` if it is not known."""
        if self.squared:
            return 0.0
        assert isinstance(self.task, Samples)
        lowest = self.sample_loss.infimum(np.asarray(self.task.y))
        return None if lowest is None else float(np.asarray(self.task.weights) @ lowest)

    @property
    def separation(self) -> float | None:
        """What is left of the loss, at most, where every sample is on its right side for certain.

        `None` where every sample has its lowest loss at a finite output. For a label it is at infinity, and a
        loss below log 2 in one sample says that its class is the likeliest.
        """
        if not self.sample_loss.classifies or not isinstance(self.task, Samples):
            return None
        if self.sample_loss.attained(np.asarray(self.task.y)).all():
            return None
        counted = np.asarray(self.task.weights)
        return float(math.log(2) * counted[counted > 0].min())

    @property
    def pace_degree(self) -> int:
        """The degree by which units grow: 2 where adaptive rates make up for the rest."""
        return 2 if self.adaptive else self.degree

    @property
    def size(self) -> int:
        """Number of parameters of one unit."""
        return self.traits.size

    def take(self, theta: ParametersLike, layer: str | None = None) -> Layer:
        """The units of a hidden layer (the first by default), each with its weights in and out.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        layer : name of the hidden layer; the first by default.
        """
        shape = np.shape(theta)
        if len(shape) != 2 or shape[1] != self.size:
            raise InputError(
                f"The parameters must have shape {(self.width, self.size)}; got {shape}."
            )
        if not np.isfinite(np.asarray(theta)).all():
            raise InputError("The parameters hold NaN or infinite numbers.")
        return self.units.take(self.shapes, theta, self.layer_named(layer))

    def put(self, theta: Any, units: Layer, layer: str | None = None) -> np.ndarray:
        """Parameters with other units, of any number, in a hidden layer; the rest as in `theta`.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        units : the units to put in, as `take` gives them.
        layer : name of the hidden layer; the first by default.
        """
        return self.units.put(self.shapes, theta, units, self.layer_named(layer))

    def resized(self, width: int, layer: str | None = None) -> "Problem":
        """The same problem for a network with another number of units in a hidden layer.

        Parameters
        ----------
        width : number of units.
        layer : name of the hidden layer; the first by default.
        """
        units = self.units.resized(width, self.layer_named(layer))
        rates = dict(self.layer_rates)
        return Problem(self.task, units, self.sample_loss, rates, True, self.adaptive)

    def relations(self, layer: str | None = None) -> tuple[Relation, ...]:
        """Which relations between units of a hidden layer make one of them superfluous.

        Parameters
        ----------
        layer : name of the hidden layer; the first by default.
        """
        return self.traits.relations(self.layer_named(layer))

    def incoming_degree(self, layer: str | None = None) -> int | None:
        """Degree of a unit of a hidden layer in its incoming weights; `None` if it has none.

        Parameters
        ----------
        layer : name of the hidden layer; the first by default.
        """
        return self.traits.incoming_degree(self.layer_named(layer))

    def layer_named(self, layer: str | None) -> str:
        """The name of a hidden layer, by default of the first; a sentence if there is none.

        Parameters
        ----------
        layer : name of the hidden layer; `None` for the first.
        """
        hidden = self.units.hidden
        if not hidden:
            raise InputError("The units of this network cannot be exchanged: none can be added.")
        if layer is not None and layer not in hidden:
            raise InputError(f"No hidden layer '{layer}'; there are: {', '.join(hidden)}.")
        return hidden[0] if layer is None else layer

    def initialize(self, scale: float, seed: int = 0) -> Parameters:
        """The start at this scale and seed: the same for a prediction and a simulation.

        Parameters
        ----------
        scale : initialization scale alpha.
        seed : seed of the draw.
        """
        check_float64()
        small, seed = check_scale(scale, self.degree), checked_seed(seed)
        check_memory(self.width, self.size)
        shape = self.task.inputs, self.task.outputs
        try:
            return _start_of(self.units, *shape, np.float64(small), np.int64(seed))
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
            return _draw(self.units, *shape, small, seed)  # a start of one's own, not in JAX

    def checked_start(self, start: Any) -> Parameters:
        """A user's own parameters to start from, or a sentence that says what is wrong with them.

        Parameters
        ----------
        start : parameters `(width, size)`.
        """
        try:
            theta = jnp.asarray(start, dtype=jnp.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"`start` must be one array of numbers of shape {(self.width, self.size)}, a row for each "
                f"unit with its weights {', '.join(self.shapes)} one after the other; got {_briefly(start)}."
            ) from None
        if theta.shape != (self.width, self.size):
            raise InputError(
                f"`start` must have shape {(self.width, self.size)}; got {theta.shape}."
            )
        if not bool(jnp.all(jnp.isfinite(theta))):
            raise InputError("`start` holds NaN or infinite numbers.")
        largest = float(jnp.max(jnp.abs(theta)))
        if largest > 1 and 2 * max(self.degree, 1) * math.log(largest) > _LARGEST:
            raise InputError(
                f"`start` holds a number of {largest:.3g}: float64 cannot hold the loss of such weights."
            )
        if self.units.multiplicative and bool(jnp.any(theta == 0)):
            raise InputError("`start` holds a zero, which these units can never leave.")
        if not bool(jnp.all(jnp.any(theta != 0, axis=1))):
            raise InputError("`start` holds a unit of zeros, which gradient flow never moves.")
        return theta

    def weights(self, theta: ParametersLike) -> Weights:
        """Named weights `(width, ...)` of all units.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        """
        return jax.vmap(lambda row: unpack(self.shapes, row))(theta)

    def function(self, theta: ParametersLike) -> Float[Array, "..."]:
        """The sum of the units as a vector in function space.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        """
        check_float64()
        weights = self.weights(theta)
        return self.task.represent(lambda x: self.units.combine(weights, self._input(x)))

    def features(self, theta: ParametersLike) -> Float[Array, "width ..."]:
        """Each unit as a vector in function space.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        """
        check_float64()

        def one(parameters: Array, index: Array) -> Array:
            weights = unpack(self.shapes, parameters)
            return self.task.represent(
                lambda x: self.units.respond(weights, self.units.view(self._input(x), index))
            )

        return jax.vmap(one)(jnp.asarray(theta), jnp.arange(self.width))

    def squares(self, theta: ParametersLike) -> Float[Array, " width"]:
        """Squared length of each unit in function space, E|f_i|^2.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        """
        check_float64()
        weights = self.weights(theta)
        answer = lambda x: self.units.squares(weights, self._input(x))  # noqa: E731
        return self.task.mean(self.task.represent(answer))

    def _input(self, x: Any) -> Any:
        """Words as these units read them: one by one, or all as one input."""
        return jnp.concatenate(x) if isinstance(x, tuple) and not self.units.reads_words else x

    def loss(self, theta: ParametersLike) -> Float[Array, ""]:
        """Loss of the sum of the units.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        """
        return self.cost(self.function(theta))

    def cost(self, function: Float[Array, "..."]) -> Float[Array, ""]:
        """Loss of a vector of function space.

        Parameters
        ----------
        function : a vector of function space, as `Problem.function` gives it.
        """
        return self.task.cost(function, self.sample_loss)

    def residual(self, theta: ParametersLike) -> Float[Array, "..."]:
        """Minus the gradient of the loss in function space.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        """
        return -jax.grad(self.cost)(self.function(theta))

    def utility(
        self, theta: ParametersLike, residual: Float[Array | np.ndarray, "..."]
    ) -> Float[Array, " width"]:
        """Eq 1: how fast the loss falls, to first order, when a unit is added.

        Parameters
        ----------
        theta : parameters `(width, size)` of the units that are added.
        residual : of the network they are added to, in function space.
        """
        features = self.features(theta)
        return jnp.sum(features * residual, axis=tuple(range(1, features.ndim)))

    def utility_of_climb(
        self, theta: ParametersLike, climb: Parameters, residual: Float[Array, "..."]
    ) -> Float[Array, " width"]:
        """Eq 1, where it is known how the units climb: U is linear in the outgoing weights a, so U = a dU/da.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        climb : what `Problem.climb` gives for them.
        residual : what they climb against; looked at only by units that are not linear in any weights.
        """
        slope = climb / self.pace(theta)
        if self.units.multiplicative:  # of degree 2 in all of them
            return 0.5 * jnp.sum(theta * slope, axis=1)
        if not self.traits.linear_outgoing:
            return self.utility(theta, residual)
        first, size = self.units.place_of_outgoing(self.shapes)
        out = slice(first, first + size)
        return jnp.sum(theta[:, out] * slope[:, out], axis=1)

    def pace(self, theta: ParametersLike) -> Float[Array, "width size"]:
        """Learning rate of each parameter; with adaptive rates times norm^(2-kappa) (Eq 23).

        Parameters
        ----------
        theta : parameters `(width, size)`.
        """
        plain = jnp.broadcast_to(self.rates, theta.shape)
        return plain * norms(jnp.asarray(theta)) ** (2 - self.degree) if self.adaptive else plain

    def velocity(self, theta: ParametersLike) -> Parameters:
        """Gradient flow: minus the learning rates times the gradient.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        """
        return -self.pace(theta) * jax.grad(self.loss)(theta)

    def climb(
        self, theta: ParametersLike, residual: Float[Array | np.ndarray, "..."]
    ) -> Parameters:
        """Eq 12: each unit alone climbs its utility against a residual.

        The utilities add up to the product of the residual with the sum of the units, so one
        gradient serves all. With the residual of all units this is gradient flow.

        Parameters
        ----------
        theta : parameters `(width, size)`.
        residual : what the units climb against, in function space.
        """
        total = jax.grad(lambda th: jnp.sum(self.function(th) * residual))(theta)
        return self.pace(theta) * total


def read_by(task: AbstractTask, loss: AbstractLoss) -> AbstractTask:
    """The task with targets as a loss reads them: labels as classes; a sentence where they are none.

    Parameters
    ----------
    task : what is learned.
    loss : what an output costs.
    """
    if isinstance(task, Moments):
        if loss.classifies:
            raise InputError(
                f"The moments of '{task.name}' are all that a squared loss sees, and no other: give samples "
                "with labels, by `data` or as made by `classes`."
            )
        return task
    if not isinstance(task, AbstractPoints):
        return task
    encoded = loss.encode(task.y)
    return task if encoded is task.y else dataclasses.replace(task, y=encoded)


def _draw(units: AbstractUnits, inputs: int, outputs: int, scale: Any, seed: Any) -> Parameters:
    key = jax.random.key(seed)
    return units.initialize(units.layers(inputs, outputs), units.count(inputs), scale, key)


_start_of = seldom(_draw)


def task_modes(problem: Problem) -> Modes | None:
    """The named parts of the target, for units that carry them together.

    Parameters
    ----------
    problem : units, data and loss.
    """
    return problem.task.modes() if problem.units.shares_features else None


def _briefly(value: Any) -> str:
    """A value of the user's, as far as it helps."""
    if isinstance(value, dict):
        return f"a dictionary of {', '.join(map(str, value)) or 'nothing'}"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _check_kinds(task: object, units: object) -> None:
    if not isinstance(task, AbstractTask):
        raise InputError(
            f"The task must come from saddlewalk.tasks, for instance from_arrays(X, y); got {task!r:.60}."
        )
    if not isinstance(units, AbstractUnits):
        raise InputError(f"The units must be an instance of AbstractUnits; got {units!r:.60}.")


def mean_norm(theta: ParametersLike) -> float:
    """Root mean square of the norms: the size of a unit.

    Parameters
    ----------
    theta : parameters `(width, size)`.
    """
    return float(np.sqrt(np.mean(norms(np.asarray(theta)) ** 2)))


def norms(theta: Float[Kind, "*many width size"]) -> Float[Kind, "*many width 1"]:
    """Norm of each unit, kept as a column; free of underflow at scales like 1e-100.

    Parameters
    ----------
    theta : parameters `(width, size)`, or many of them, in NumPy or JAX.
    """
    xp = theta.__array_namespace__()
    largest = xp.max(xp.abs(theta), axis=-1, keepdims=True)
    safe = xp.where(largest > 0, largest, 1.0)
    return largest * xp.sqrt(xp.sum((theta / safe) ** 2, axis=-1, keepdims=True))

r"""A layer is a sum of units: :math:`f(x; \Theta) = \sum_i f_i(x; \theta_i)` (section 2).

A unit says how its weights and one input give an output; everything else (loss, residual, utility,
gradient flow, prediction) follows. A new architecture is one subclass:

    class Cubic(AbstractUnits):
        width: int

        def layers(self, inputs, outputs):
            return {"w": (inputs,), "a": (outputs,)}

        def respond(self, weights, x):
            return weights["a"] * (weights["w"] @ x) ** 3
"""

import abc
import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from saddlewalk.errors import InputError

Weights = dict[str, Array]
Shapes = dict[str, tuple[int, ...]]


class AbstractUnits(eqx.Module):
    """What is summed. Subclasses hold settings only; parameters are arrays `(width, size)`."""

    degree: ClassVar[int | None] = None
    """Order kappa of a unit in its parameters at the origin; `None`: found by `find_degree`."""

    linear_in_input: ClassVar[bool] = False
    """Whether the output is linear in x, so that moments of the data carry everything."""

    multiplicative: ClassVar[bool] = False
    """Whether each parameter moves in proportion to itself, so that its sign never changes.

    Gradient flow is then integrated in the logarithm of each parameter, which holds any scale."""

    @abc.abstractmethod
    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Shape of each weight of one unit, for data with this many inputs and outputs."""

    @abc.abstractmethod
    def respond(self, weights: Weights, x: Array) -> Array:
        """Output of one unit, `(outputs,)`, for one input as this unit sees it."""

    def count(self, inputs: int) -> int:
        """How many units there are."""
        return self.width  # type: ignore[attr-defined]

    def view(self, x: Array, index: Array) -> Array:
        """What unit number `index` sees of the input: the map g_i of section 2."""
        return x

    def initialize(
        self, shapes: Shapes, width: int, scale: float, key: PRNGKeyArray
    ) -> Float[Array, "width size"]:
        r"""Gaussian weights with :math:`E\|\theta_i\|^2 = \alpha^2`, an equal share for each layer.

        For two layers this is :math:`a_i \sim N(0, \alpha^2/2c)`, :math:`w_i \sim N(0, \alpha^2/2d)`.
        """
        keys = jax.random.split(key, len(shapes))
        drawn = {
            name: scale
            / math.sqrt(len(shapes) * math.prod(shape))
            * jax.random.normal(one_key, (width, *shape))
            for one_key, (name, shape) in zip(keys, shapes.items(), strict=True)
        }
        return pack(shapes, drawn)

    def with_rates(self, rates: dict[str, float]) -> "AbstractUnits":
        """The same units with a learning rate for each layer (1 where none is given)."""
        return LayerRates(self, tuple(sorted(rates.items())))


class LayerRates(AbstractUnits):
    r"""Units whose layers learn at rates of their own.

    Flow at rates :math:`\eta` on weights :math:`w` is plain gradient flow on the parameters
    :math:`w / \sqrt{\eta}`: rates are a change of ruler. So the rest of the package sees a plain flow.
    """

    units: AbstractUnits
    rates: tuple[tuple[str, float], ...] = eqx.field(static=True)

    def __check_init__(self) -> None:
        for name, rate in self.rates:
            if not math.isfinite(rate) or rate <= 0:
                raise InputError(f"The learning rate of '{name}' must be positive; got {rate}.")

    @property
    def degree(self) -> int | None:  # type: ignore[override]
        """A linear rescaling leaves the order as it is."""
        return self.units.degree

    @property
    def linear_in_input(self) -> bool:  # type: ignore[override]
        """As the units themselves."""
        return self.units.linear_in_input

    @property
    def multiplicative(self) -> bool:  # type: ignore[override]
        """As the units themselves."""
        return self.units.multiplicative

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """The layers of the units; a rate for any other name is refused."""
        shapes = self.units.layers(inputs, outputs)
        unknown = [name for name, _ in self.rates if name not in shapes]
        if unknown:
            raise InputError(f"There is no layer '{unknown[0]}'. Layers: {', '.join(shapes)}.")
        return shapes

    def count(self, inputs: int) -> int:
        """As the units themselves."""
        return self.units.count(inputs)

    def view(self, x: Array, index: Array) -> Array:
        """As the units themselves."""
        return self.units.view(x, index)

    def respond(self, weights: Weights, x: Array) -> Array:
        """Scale parameters back to weights, then respond."""
        return self.units.respond(self._scaled(weights, 1.0), x)

    def initialize(
        self, shapes: Shapes, width: int, scale: float, key: PRNGKeyArray
    ) -> Float[Array, "width size"]:
        """The same weights as without rates, in the rescaled parameters."""
        weights = jax.vmap(lambda theta: unpack(shapes, theta))(
            self.units.initialize(shapes, width, scale, key)
        )
        return pack(shapes, self._scaled(weights, -1.0))

    def _scaled(self, weights: Weights, power: float) -> Weights:
        rates = dict(self.rates)
        return {name: w * rates.get(name, 1.0) ** (power / 2) for name, w in weights.items()}


def size_of(shapes: Shapes) -> int:
    """Number of parameters of one unit."""
    return sum(math.prod(shape) for shape in shapes.values())


def unpack(shapes: Shapes, theta: Float[Array, " size"]) -> Weights:
    """Named weights of one unit out of its flat parameters."""
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    parts = jnp.split(theta, ends[:-1])
    return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}


def pack(shapes: Shapes, weights: Weights) -> Float[Array, "width size"]:
    """Flat parameters `(width, size)` out of named weights `(width, ...)`.

    The order is that of `shapes`: JAX sorts the keys of dictionaries that pass through it.
    """
    return jnp.concatenate([weights[k].reshape(len(weights[k]), -1) for k in shapes], axis=1)

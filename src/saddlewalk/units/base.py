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
import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from saddlewalk.errors import InputError, check_number

Weights = dict[str, Array]
Shapes = dict[str, tuple[int, ...]]
ParametersLike = Float[np.ndarray | Array, "width size"]
Factors = dict[str, tuple[Array, Array]]
Scale = Float[Array, ""] | float


class Layer(NamedTuple):
    r"""The units of one hidden layer, :math:`\sum_i \phi(z; u_i)\, v_i`: weights in, weights out.

    Parameters
    ----------
    incoming : weights into each unit, one row a unit.
    outgoing : weights out of it.
    """

    incoming: Float[np.ndarray | Array, "width fan_in"]
    outgoing: Float[np.ndarray | Array, "width fan_out"]

    @property
    def width(self) -> int:
        """Number of units."""
        return len(self.incoming)

    @property
    def theta(self) -> Float[np.ndarray, "width both"]:
        """Each unit as one vector (v, u)."""
        return np.concatenate([np.asarray(self.outgoing), np.asarray(self.incoming)], axis=1)


class AbstractUnits(eqx.Module):
    """What is summed. Subclasses hold settings only; parameters are arrays `(width, size)`."""

    degree: ClassVar[int | None] = None
    """Order kappa of a unit in its parameters at the origin; `None`: found by `find_degree`."""

    smooth: ClassVar[bool | None] = None
    """Whether the output has no kinks in the parameters (they forbid small tolerances); `None`: found by
    `is_smooth`."""

    linear_in: ClassVar[str | None] = None
    """"input" if the output is linear in x, "halves" if it is linear in the first and in the second
    half of x: moments of the data then carry everything."""

    reads_words: ClassVar[bool] = False
    """Whether inputs made of words may come as a tuple of them, so that a word is read once for all inputs
    that hold it."""

    shares_features: ClassVar[bool] = False
    """Whether several units carry a feature together, so that the task's modes name it."""

    additive: ClassVar[bool] = True
    """Whether the network is the sum of its units: what AGF asks for."""

    outgoing: ClassVar[str | None] = None
    """The weights v that the output is linear in; `None`: the last of `layers`."""

    known_as: ClassVar[tuple[str, ...]] = ()
    """Names of a unit's weights where its parameters are others, one for each of `layers`, which `renamed`
    makes of them."""

    linear_outgoing: ClassVar[bool | None] = None
    """Whether it is linear in them, as it should be; `None`: found by trying."""

    hidden: ClassVar[tuple[str, ...]] = ("units",)
    """The hidden layers whose units can be exchanged, and so added or taken away."""

    rotatable: ClassVar[bool] = False
    """Whether orthogonal mixtures of units are units of the same network: then `mix` chooses some."""

    multiplicative: ClassVar[bool] = False
    """Whether each parameter moves in proportion to itself, so that its sign never changes.

    Gradient flow is then integrated in the logarithm of each parameter, which holds any scale."""

    @property
    def exchangeable(self) -> bool:
        """Whether the network is a sum of units that can be exchanged, added and taken away."""
        return self.additive and len(self.hidden) == 1

    @classmethod
    def example(cls) -> tuple["AbstractUnits", int, int]:
        """A small network of these units, for contract tests and docs: units, inputs, outputs.

        A family that the package exports has one; then every test of `tests/test_units.py` is run on it.
        """
        raise NotImplementedError(
            f"{cls.__name__} has no example: add a classmethod `example` that returns units, a number of "
            "inputs and a number of outputs, for instance `return cls(3), 4, 2`."
        )

    @abc.abstractmethod
    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Shape of each weight of one unit.

        Parameters
        ----------
        inputs, outputs : numbers of input and output coordinates of the data.
        """

    @abc.abstractmethod
    def respond(self, weights: Weights, x: Array) -> Array:
        """Output of one unit, `(outputs,)`, for one input.

        Parameters
        ----------
        weights : the weights of this unit by name, with the shapes that `layers` gives.
        x : the input as this unit sees it.
        """

    def renamed(self, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Weights by the names of `known_as` as those of `layers`; `(width, ...)` both.

        Parameters
        ----------
        weights : one array a name of `known_as`.
        """
        return dict(weights)

    def count(self, inputs: int) -> int:
        """How many units there are."""
        return self.width  # type: ignore[attr-defined]

    def view(self, x: Any, index: Array | int) -> Any:
        """What unit number `index` sees of the input: the map g_i of section 2."""
        return x

    def initialize(
        self, shapes: Shapes, width: int, scale: Scale, key: PRNGKeyArray
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

    def describe(
        self, shapes: Shapes, theta: Float[np.ndarray, " size"], index: int
    ) -> dict[str, Any]:
        """What an active unit looks at: by default the direction of its first weights."""
        first = theta[: math.prod(next(iter(shapes.values())))]
        size = float(np.linalg.norm(first))
        vector = first / size if size > 0 else first
        return {"kind": "direction", "vector": vector.tolist()}

    def mix(
        self, theta: Float[np.ndarray, "some size"], x: Any, residual: Any
    ) -> Float[np.ndarray, "some size"]:
        """For rotatable units: the mixture in which features are apart, for data and a residual."""
        raise NotImplementedError(f"{type(self).__name__} units cannot be mixed.")

    def take(self, shapes: Shapes, theta: ParametersLike, layer: str = "units") -> Layer:
        """The units of a hidden layer, each with its weights in and out."""
        before, size = self.place_of_outgoing(shapes)
        both = np.asarray(theta)
        v = both[:, before : before + size]
        return Layer(np.concatenate([both[:, :before], both[:, before + size :]], axis=1), v)

    def put(
        self, shapes: Shapes, theta: Any, units: Layer, layer: str = "units"
    ) -> Float[np.ndarray, "other_width size"]:
        """Parameters of the network with these units, of any number, in a hidden layer."""
        before, _ = self.place_of_outgoing(shapes)
        u, v = np.asarray(units.incoming), np.asarray(units.outgoing)
        return np.concatenate([u[:, :before], v, u[:, before:]], axis=1)

    def alone(self, layer: str, inputs: int, outputs: int) -> tuple["AbstractUnits", int, int]:
        """A hidden layer as a network of its own, with numbers of inputs and outputs that suit it."""
        return self, inputs, outputs

    def resized(self, width: int, layer: str = "units") -> "AbstractUnits":
        """The same architecture with another number of units in a hidden layer."""
        return dataclasses.replace(self, width=width)  # type: ignore[call-arg]

    def place_of_outgoing(self, shapes: Shapes) -> tuple[int, int]:
        """Where the outgoing weights stand among the parameters of a unit, and how many they are."""
        name = self.outgoing or next(reversed(shapes))
        earlier = [math.prod(shapes[k]) for k in list(shapes)[: list(shapes).index(name)]]
        return sum(earlier), math.prod(shapes[name])

    def combine(self, weights: Weights, x: Any) -> Array:
        """Sum of all units on one input; `weights` have a leading axis for the units.

        Write it anew where a matrix product does it faster; it must stay the sum of `respond`.
        """
        index = jnp.arange(len(next(iter(weights.values()))))
        one = lambda weights, i: self.respond(weights, self.view(x, i))  # noqa: E731
        return jnp.sum(jax.vmap(one)(weights, index), axis=0)

    def squares(self, weights: Weights, x: Any) -> Float[Array, " width"]:
        """Squared length of each unit's answer to one input; `weights` as in `combine`.

        Write it anew where that is possible without all answers: it must stay that of `respond`.
        """
        index = jnp.arange(len(next(iter(weights.values()))))
        one = lambda weights, i: jnp.sum(self.respond(weights, self.view(x, i)) ** 2)  # noqa: E731
        return jax.vmap(one)(weights, index)

    def gradient_factors(self, weights: Weights, x: Array) -> Factors | None:
        r"""The gradient with respect to each layer as an outer product; `None`: it is none.

        By layer name: what the layer reads `(p,)`, and what its answer is worth to each output `(c, q)`. A
        layer :math:`q = W p` has :math:`\partial f_c / \partial W = \text{worth}_c \otimes \text{reads}`, so
        its part of the tangent kernel is a product of two small ones. A layer that reads at several places,
        as a convolution does, has one more axis, `(places, p)` and `(c, places, q)`, over which is summed.
        """
        return None

    def preactivations(self, weights: Weights, x: Array) -> Float[Array, " hidden"] | None:
        """What enters the nonlinearity of each hidden neuron; `None` if there is no such thing."""
        return None

    def rated(self, rates: dict[str, float], shapes: Shapes) -> tuple["AbstractUnits", np.ndarray]:
        """Units and learning rate of each parameter, for these rates of the layers (else 1)."""
        check_rates(rates, tuple(shapes))
        parts = [np.full(math.prod(shape), rates.get(name, 1.0)) for name, shape in shapes.items()]
        return self, np.concatenate(parts)


def halves(x: Any) -> tuple[Array, Array]:
    """The two words of an input.

    Parameters
    ----------
    x : a pair (so that what belongs to one word is computed once for all its partners), other words, or one
        array.
    """
    if isinstance(x, tuple) and len(x) == 2:
        return x
    whole = jnp.concatenate(x) if isinstance(x, tuple) else x
    return tuple(jnp.split(whole, 2))  # type: ignore[return-value]


def check_rates(rates: dict[str, float], layers: tuple[str, ...]) -> None:
    """Refuse rates of unknown layers, and rates that are not positive.

    Parameters
    ----------
    rates : learning rates by layer.
    layers : names of the layers that there are.
    """
    if not isinstance(rates, dict):
        raise InputError(
            f"`rates` must name the layers, for instance {{'{layers[0]}': 2.0}}; got {rates!r:.60}."
        )
    for name, rate in rates.items():
        if name not in layers:
            raise InputError(f"There is no layer '{name}'. Layers: {', '.join(layers)}.")
        check_number(f"rates['{name}']", rate)
        if not math.isfinite(rate) or rate <= 0:
            raise InputError(f"The learning rate of '{name}' must be positive; got {rate}.")


def size_of(shapes: Shapes) -> int:
    """Number of parameters of one unit.

    Parameters
    ----------
    shapes : shape of each of its weights.
    """
    return sum(math.prod(shape) for shape in shapes.values())


def unpack(shapes: Shapes, theta: Float[Array, " size"]) -> Weights:
    """Named weights of one unit out of its flat parameters.

    Parameters
    ----------
    shapes : shape of each of its weights.
    theta : its parameters, in the order of `shapes`.
    """
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    parts = jnp.split(theta, ends[:-1])
    return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}


def pack(shapes: Shapes, weights: Weights) -> Float[Array, "width size"]:
    """Flat parameters `(width, size)` out of named weights `(width, ...)`.

    The order is that of `shapes`: JAX sorts the keys of dictionaries that pass through it.

    Parameters
    ----------
    shapes : shape of each weight of one unit.
    weights : the weights by name, with a leading axis for the units.
    """
    return jnp.concatenate([weights[k].reshape(len(weights[k]), -1) for k in shapes], axis=1)

r"""Two layers as a sum of units: :math:`f(x) = b + \sum_i a_i\, \sigma(w_i^\top x + b_i)`.

A network whose layers are known as arrays is handed to the exact machinery: task, units and weights, so that
`predict` and every diagnostic speak about it. Its loss is a number times one of this package, and that number
is the clock: a step of gradient descent with learning rate lr goes `lr * clock` in this package's time.

An output bias is no part of a sum of units. It is held fixed at its value, and said so where it is trained.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.landscape.losses import recognized_loss
from saddlewalk.losses import AbstractLoss, CrossEntropy, SquaredError
from saddlewalk.problem import Problem, mean_norm
from saddlewalk.tasks import Samples, from_arrays
from saddlewalk.units import AbstractUnits, Dense

BIAS_HELD = (
    "The output bias is trained, but is no part of a sum of units: it is held fixed at its present value. "
    "What it still learns (the mean of the targets, early in training) is not in a prediction."
)


class Place(NamedTuple):
    """Which of a network's arrays one of a unit's weights is.

    Parameters
    ----------
    name : of the array.
    to_units : the array as weights of all units, `(width, ...)`.
    to_array : the way back, into the shape of the array.
    """

    name: str
    to_units: Callable[[np.ndarray], np.ndarray]
    to_array: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class RecognizedProblem:
    """A network of a user's own as task, units and weights of this package."""

    task: Samples
    units: AbstractUnits
    weights: Float[np.ndarray, "width size"]
    """The weights at the moment at which it was recognized, as `predict(start=...)` takes them."""
    loss: AbstractLoss
    """The loss of this package that is the user's but for a factor: `loss=` of `predict` and `train`."""
    clock: float
    """That factor: a step of gradient descent with learning rate lr takes the time `lr * clock`."""
    places: dict[str, Place] = field(repr=False)
    """Which of the network's arrays each part of a unit's weights is, in the order of the layout."""
    shapes: dict[str, tuple[int, ...]] = field(repr=False)
    """Shape of each of these parts in one unit."""
    offset: Float[np.ndarray, " outputs"] | None = None
    """The output bias, which is held fixed: part of the targets, or of the loss."""
    notes: tuple[str, ...] = ()
    """What is not as in the user's network, in sentences; empty if nothing is."""
    origin: Any = field(repr=False, default=None)
    """The user's network."""

    @property
    def problem(self) -> Problem:
        """Units, data and loss, for diagnostics: `saddle_test(found.problem, found.weights)`."""
        return Problem(self.task, self.units, self.loss)

    @property
    def scale(self) -> float:
        """Root mean square of the norms of the units: `scale` of `predict`."""
        return mean_norm(self.weights)

    def time(self, steps: Any, rate: float) -> Any:
        """Time of this package after so many steps of gradient descent.

        Parameters
        ----------
        steps : number of steps.
        rate : the learning rate.
        """
        return np.asarray(steps) * rate * self.clock

    def steps(self, time: Any, rate: float) -> Any:
        """Steps of gradient descent that take so much time of this package.

        Parameters
        ----------
        time : time of this package, for instance `stairs.jump_times`.
        rate : the learning rate.
        """
        return np.asarray(time) / (rate * self.clock)

    def weights_of(self, arrays: dict[str, Any]) -> Float[np.ndarray, "width size"]:
        """Weights in the layout of this package, from arrays by the network's names.

        Parameters
        ----------
        arrays : at least those of `places`.
        """
        return packed(self.places, arrays)

    def arrays_of(self, weights: Any) -> dict[str, np.ndarray]:
        """The network's arrays by name, from weights in the layout of this package.

        Parameters
        ----------
        weights : parameters `(width, size)`.
        """
        theta, start, found = np.asarray(weights, dtype=np.float64), 0, {}
        if theta.shape != self.weights.shape:
            raise InputError(
                f"The weights must have shape {self.weights.shape}; got {theta.shape}."
            )
        for part, shape in self.shapes.items():
            stop = start + math.prod(shape)
            place = self.places[part]
            found[place.name] = place.to_array(theta[:, start:stop].reshape(len(theta), *shape))
            start = stop
        return found

    def to_module(self, weights: Any) -> Any:
        """A copy of the user's module with other weights.

        Parameters
        ----------
        weights : parameters `(width, size)`, for instance from `train`.
        """
        if not hasattr(self.origin, "state_dict"):
            raise InputError(
                "There is no PyTorch module behind this problem: `arrays_of` has its arrays."
            )
        from saddlewalk.landscape.as_problem import with_arrays

        return with_arrays(self.origin, self.arrays_of(weights))

    def __str__(self) -> str:
        width, size = self.weights.shape
        words = [
            f"{type(self.units).__name__}: {width} units of {size} weights, {self.task.inputs} inputs, "
            f"{self.task.outputs} outputs, {len(self.task.x)} samples",
            f"loss: {self.clock:g} times {_NAMES.get(type(self.loss), type(self.loss).__name__)}",
            *self.notes,
        ]
        return "\n".join(words)


_NAMES = {SquaredError: "half the mean squared distance", CrossEntropy: "the mean cross-entropy"}


def two_layers(
    x: Any,
    targets: Any,
    cost: Callable[[np.ndarray], float],
    hidden: Any,
    readout: Any,
    *,
    activation: Any,
    bias: Any = None,
    output_bias: Any = None,
) -> RecognizedProblem:
    """The problem of a two-layer network that is given by its arrays.

    Parameters
    ----------
    x : inputs `(n, d)`.
    targets : targets `(n,)` or `(n, c)`, or labels `(n,)`.
    cost : the loss of outputs `(n, c)` against these targets.
    hidden, readout : weights `(width, d)` and `(c, width)`.
    activation : a name in `units.ACTIVATIONS`, or a function of JAX.
    bias : biases `(width,)` of the hidden layer; none by default.
    output_bias : `(c,)`, held fixed; none by default.
    """
    into, out = np.asarray(hidden, dtype=float), np.asarray(readout, dtype=float)
    if into.ndim != 2 or out.ndim != 2 or out.shape[1] != len(into):
        raise InputError(
            f"`hidden` has shape {into.shape} and `readout` {out.shape}: (width, d) and (c, width) fit."
        )
    arrays = {"hidden": into, "readout": out}
    places = {"w": as_it_is("hidden"), "a": transposed("readout")}
    if bias is not None:
        arrays["bias"] = np.asarray(bias, dtype=float)
        places["b"] = as_it_is("bias")
    return dense_problem(
        Data(x, targets, cost, len(out)), arrays, places, activation, output_bias=output_bias
    )


class Data(NamedTuple):
    """What a network was given, and what its outputs cost.

    Parameters
    ----------
    x : inputs `(n, d)` as the units see them.
    targets : targets `(n,)` or `(n, c)`, or labels `(n,)`.
    cost : the loss of outputs `(n, c)` against these targets.
    outputs : number c of outputs.
    """

    x: Any
    targets: Any
    cost: Callable[[np.ndarray], float]
    outputs: int


def dense_problem(
    data: Data,
    arrays: dict[str, Any],
    places: dict[str, Place],
    activation: Any,
    **more: Any,
) -> RecognizedProblem:
    """The same where the arrays have names of their own.

    Parameters
    ----------
    data : inputs, targets and loss.
    arrays : the network's arrays by its own names.
    places : where the weights "w", "a" and, if there is one, the bias "b" of a neuron stand among them.
    activation : a name in `units.ACTIVATIONS`, or a function of JAX.
    **more : what `recognized` takes besides.
    """
    ordered: dict[str, Place] = {part: places[part] for part in ("w", "b", "a") if part in places}
    width = len(places["w"].to_units(np.asarray(arrays[places["w"].name])))
    biased, linear = "b" in places, activation == "linear"
    if biased and linear:  # biases of linear neurons are a column of ones
        x = np.asarray(data.x, dtype=float)
        data = data._replace(x=np.concatenate([x, np.ones((len(x), 1))], axis=1))
    units = Dense(width, activation, bias=biased and not linear)
    return recognized(data, units, arrays, ordered, **more)


def recognized(
    data: Data,
    units: AbstractUnits,
    arrays: dict[str, Any],
    places: dict[str, Place],
    *,
    output_bias: Any = None,
    notes: tuple[str, ...] = (),
    origin: Any = None,
) -> RecognizedProblem:
    """Task, loss and weights for units that are known.

    Parameters
    ----------
    data : inputs, targets and loss.
    units : what is summed.
    arrays : the network's arrays by its own names.
    places : which of them each part of a unit's weights is, in the order of the layout.
    output_bias : `(c,)`, held fixed; none by default.
    notes : what is to be said of it.
    origin : the network.
    """
    loss, y, clock = recognized_loss(data.cost, np.asarray(data.targets), data.outputs)
    offset = None if output_bias is None else np.asarray(output_bias, dtype=float)
    if offset is not None:
        if isinstance(loss, CrossEntropy):
            loss = CrossEntropy(offset)
        else:
            y = y - offset
    shapes = {
        part: np.shape(place.to_units(np.asarray(arrays[place.name])))[1:]
        for part, place in places.items()
    }
    return RecognizedProblem(
        task=from_arrays(data.x, y),
        units=units,
        weights=packed(places, arrays),
        loss=loss,
        clock=clock,
        places=places,
        shapes=shapes,
        offset=offset,
        notes=notes,
        origin=origin,
    )


def packed(places: dict[str, Place], arrays: dict[str, Any]) -> Float[np.ndarray, "width size"]:
    """Weights in the layout of this package, one row a unit.

    Parameters
    ----------
    places : which array each part of a unit's weights is.
    arrays : the arrays by the network's names.
    """
    missing = [place.name for place in places.values() if place.name not in arrays]
    if missing:
        raise InputError(f"There is no '{missing[0]}'; there are: {', '.join(arrays) or 'none'}.")
    parts = [
        place.to_units(np.asarray(arrays[place.name], dtype=np.float64))
        for place in places.values()
    ]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def as_it_is(name: str) -> Place:
    """An array whose first axis are the units.

    Parameters
    ----------
    name : of the array.
    """
    return Place(name, lambda array: array, lambda part: part)


def transposed(name: str) -> Place:
    """A matrix whose second axis are the units.

    Parameters
    ----------
    name : of the array.
    """
    return Place(name, lambda array: array.T, lambda part: part.T)

"""Any deep network as the first escape sees it: one vector of weights, its loss, and what it climbs.

Two kinds: units of this package on a task (`OfProblem`), and the landscape of any module (`OfLandscape`).
"""

import abc
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.landscape import AbstractLandscape
from saddlewalk.problem import Problem, compiled
from saddlewalk.programs import Bound, on_device

Vector = Float[np.ndarray, " size"]


class Part(NamedTuple):
    """One layer of weights: its name, and where it stands in the vector.

    Parameters
    ----------
    name : what the network calls it.
    place : its place in the vector of all weights.
    """

    name: str
    place: slice


class AbstractNetwork(abc.ABC):
    """Loss, flow and utility as functions of one vector of weights."""

    parts: tuple[Part, ...]
    """The layers, in the order of the vector."""
    smooth: bool
    """Whether it has no kinks."""
    first_shape: tuple[int, int] | None
    """Neurons and inputs of the first layer, where it is a matrix of these."""

    @abc.abstractmethod
    def loss_and_velocity(self, w: Vector) -> tuple[float, Vector]:
        """The loss, and gradient flow."""

    @abc.abstractmethod
    def residual(self, w: Vector) -> np.ndarray:
        """Minus the gradient of the loss by the outputs."""

    @abc.abstractmethod
    def climb(self, w: Vector, residual: np.ndarray) -> Vector:
        """How the weights move against a residual that is held."""


class OfProblem(AbstractNetwork):
    """A deep network of this package.

    Parameters
    ----------
    problem : units, data and loss.
    """

    def __init__(self, problem: Problem) -> None:
        self._ask = Bound(on_device(problem))
        ends = np.cumsum([math.prod(shape) for shape in problem.shapes.values()]).tolist()
        places = [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        self.parts = tuple(map(Part, problem.shapes, places))
        self.smooth = problem.smooth
        shape = next(iter(problem.shapes.values()))
        self.first_shape = shape if len(shape) == 2 and shape[1] == problem.task.inputs else None
        self._pace = np.asarray(problem.rates).ravel()

    def loss_and_velocity(self, w: Vector) -> tuple[float, Vector]:
        """With the learning rate of each layer."""
        loss, gradient = self._ask(compiled.loss_and_gradient, w[None])
        return float(loss), -self._pace * np.asarray(gradient)[0]

    def residual(self, w: Vector) -> np.ndarray:
        """In function space."""
        return np.asarray(self._ask(compiled.residual, w[None]))

    def climb(self, w: Vector, residual: np.ndarray) -> Vector:
        """Eq 12, of one unit that holds all weights."""
        return np.asarray(self._ask(compiled.climb, w[None], residual))[0]


class OfLandscape(AbstractNetwork):
    """The landscape of any module.

    Parameters
    ----------
    landscape : network, probe and loss.
    smooth : whether it has no kinks.
    """

    def __init__(self, landscape: AbstractLandscape, smooth: bool) -> None:
        self._place, self.smooth = landscape, smooth
        self.parts = tuple(Part(one.name, one.place) for one in landscape.parameters)
        shape = landscape.parameters[0].shape
        self.first_shape = (shape[0], shape[1]) if len(shape) == 2 else None

    def loss_and_velocity(self, w: Vector) -> tuple[float, Vector]:
        """At learning rate 1."""
        loss, gradient = self._place.loss_and_gradient(w)
        return loss, -gradient

    def residual(self, w: Vector) -> np.ndarray:
        """A matrix like the outputs."""
        return self._place.residual(self._place.outputs(w))

    def climb(self, w: Vector, residual: np.ndarray) -> Vector:
        """J^T residual."""
        return self._place.weights_along(w, residual)

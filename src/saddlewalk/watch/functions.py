"""A watch on any other training: JAX with Optax, or a loop of one's own that hands its parameters over."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape, FunctionLandscape
from saddlewalk.landscape.functions import landscape_of
from saddlewalk.watch.base import AbstractWatch
from saddlewalk.watch.record import Look
from saddlewalk.watch.rules import Adaptive, Descent, Rule, Vector

Rate = float | Callable[[int], float]
"""A learning rate, or the rate of each step."""


@dataclass(frozen=True)
class Sgd:
    """`optax.sgd`, and what is like it.

    Parameters
    ----------
    rate : the learning rate, or a schedule.
    momentum, nesterov : as in Optax.
    decay : weight decay, added to the gradient.
    """

    rate: Rate
    momentum: float = 0.0
    nesterov: bool = False
    decay: float = 0.0


@dataclass(frozen=True)
class Adam:
    """`optax.adam`, `optax.adamw`; their means are found in the state of the optimizer.

    Parameters
    ----------
    rate : the learning rate, or a schedule.
    beta1, beta2, epsilon : as in Optax.
    decay : decoupled weight decay.
    """

    rate: Rate
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0


class Watch(AbstractWatch):
    """Watch a training loop of your own: call `step(loss, parameters, state)` after each step.

    Parameters
    ----------
    network : network(parameters, one input) -> its answer; an Equinox module; or a landscape.
    parameters : its parameters, a tree; nothing for an Equinox module or a landscape.
    loss : loss(outputs, targets) for the whole probe, or "squared" or "cross-entropy"; nothing for a
    landscape.
    probe : some of the training data, `(inputs, targets)`; nothing for a landscape.
    optimizer : `Sgd(...)` or `Adam(...)` with the numbers that you train with; without it nothing is
    forecast.
    budget : what looks may take, as a part of the training time.
    widths : count the units in use of each hidden layer, and test which kind of saddle a plateau is at, where
        there is time for it.
    page : a file for a browser, written anew after looks where there is time for it.
    title : what the training is called.
    samples : how many samples the training data have. Forecasts then know how far a probe that is a part of
        them may be off; by default the probe is taken for all of them.
    clip : what `optax.clip_by_global_norm` has; by default gradients are not clipped.
    held_out : `(inputs, targets)` that are not trained on, or a landscape of them. The training is followed
        ahead on the probe, and the watch tells what their loss will do.
    """

    def __init__(
        self,
        network: Any,
        parameters: Any = None,
        loss: Any = None,
        *,
        probe: Any = None,
        optimizer: Sgd | Adam | None = None,
        budget: float = 0.05,
        widths: bool = True,
        page: str | Path | None = None,
        title: str = "training",
        samples: int | None = None,
        clip: float | None = None,
        held_out: Any = None,
    ) -> None:
        landscape = _landscape(network, parameters, loss, probe)
        beside = None if held_out is None else _held_out(network, parameters, loss, held_out)
        super().__init__(
            landscape,
            budget=budget,
            widths=widths,
            page=page,
            title=title,
            samples=samples,
            clip=clip,
            held_out=beside,
        )
        if not isinstance(optimizer, Sgd | Adam | None):
            raise InputError(
                "`optimizer` is `saddlewalk.watch.Sgd(rate, ...)` or `saddlewalk.watch.Adam(rate, ...)` with "
                f"the numbers that you train with; got {type(optimizer).__name__}."
            )
        self._plan = optimizer
        self._now: Any = None
        self._optimizer_state: Any = None

    def step(self, loss: Any, parameters: Any, state: Any = None) -> Look | None:
        """One more step was made. Returns the look, where there was one.

        Parameters
        ----------
        loss : its loss, a number.
        parameters : the tree (or the module) after the step.
        state : state of the optimizer, where it has means.
        """
        self._now, self._optimizer_state = parameters, state
        return self._count(loss)

    def weights(self) -> Vector:
        """The weights as they are now."""
        return self.landscape.weights if self._now is None else self.landscape.weights_of(self._now)

    def rule(self) -> Rule | None:
        """What the optimizer will do from here."""
        plan = self._plan
        if plan is None:
            return None
        rate, future = _rates(plan.rate, self.steps)
        if rate == 0:
            return None
        if isinstance(plan, Sgd):
            return Descent(
                rate,
                momentum=plan.momentum,
                nesterov=plan.nesterov,
                decay=plan.decay,
                clip=self.clip,
                future=future,
            )
        means = _adam_state(self._optimizer_state)
        nothing = np.zeros(self.landscape.size)
        first, second, count = (nothing, nothing, 0) if means is None else self._means(*means)
        return Adaptive(
            rate,
            first,
            second,
            count,
            beta1=plan.beta1,
            beta2=plan.beta2,
            epsilon=plan.epsilon,
            decay=plan.decay,
            decoupled=True,
            clip=self.clip,
            future=future,
        )

    def _means(self, first: Any, second: Any, count: Any) -> tuple[Vector, Vector, int]:
        return self.landscape.weights_of(first), self.landscape.weights_of(second), int(count)


def _landscape(network: Any, parameters: Any, loss: Any, probe: Any) -> AbstractLandscape:
    if isinstance(network, AbstractLandscape):
        return network
    if loss is None or probe is None:
        raise InputError("A watch needs the loss that is trained and a `probe`: (inputs, targets).")
    if parameters is None:
        return landscape_of(network, probe, loss)
    return FunctionLandscape(network, parameters, probe, loss)


def _held_out(network: Any, parameters: Any, loss: Any, data: Any) -> AbstractLandscape:
    if isinstance(data, AbstractLandscape):
        return data
    if isinstance(network, AbstractLandscape):
        raise InputError("Where the network is a landscape, `held_out` is one, too.")
    return _landscape(network, parameters, loss, data)


def _rates(rate: Rate, step: int) -> tuple[float, Callable[[int], float] | None]:
    if not callable(rate):
        return float(rate), None
    now = float(rate(step))
    return now, lambda ahead: float(rate(step + ahead)) / now


def _adam_state(state: Any) -> tuple[Any, Any, Any] | None:
    """mu, nu and count, wherever they stand in a chain of transformations."""
    if hasattr(state, "mu") and hasattr(state, "nu"):
        return state.mu, state.nu, state.count
    inner = getattr(state, "inner_state", None)
    parts = [inner] if inner is not None else list(state) if isinstance(state, tuple) else []
    for part in parts:
        found = _adam_state(part)
        if found is not None:
            return found
    return None

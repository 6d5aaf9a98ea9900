"""The diagnoses as functions on a PyTorch module: where it is, how wide it is, how it learned.

Each makes a landscape of the module (`landscape.torch`), which leaves it as it is, and asks what
`sw.diagnose` asks of it. They look in evaluation mode, and in double precision where the module can compute
in it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from saddlewalk.balance import Conserved
from saddlewalk.balance.landscapes import conserved_of
from saddlewalk.diagnose.conserved import ConservedDrift
from saddlewalk.diagnose.landscapes.drift import drift_of
from saddlewalk.diagnose.landscapes.kernel import kernel_of
from saddlewalk.diagnose.landscapes.regime import regime_of
from saddlewalk.diagnose.landscapes.width import widths_of
from saddlewalk.diagnose.regime import Regime
from saddlewalk.diagnose.saddles import SaddleReport
from saddlewalk.diagnose.saddles import saddle_test as saddle_test_at
from saddlewalk.diagnose.tangent_kernel import kernel_distance as distance_of_kernels
from saddlewalk.diagnose.width import EffectiveWidth
from saddlewalk.errors import InputError
from saddlewalk.landscape.torch import ModuleLandscape


def saddle_test(
    model: nn.Module,
    data: Any,
    loss: Any,
    *,
    eigenvalues: int = 3,
    scale: float | None = None,
    limit: float = 120.0,
    progress: bool | None = None,
) -> SaddleReport:
    """Classify where a module is: at a strict or a degenerate saddle, at a minimum, or on its way.

    Rates are those of gradient descent on this loss: along `direction` a small change grows by the factor
    `1 + learning rate * escape_rate` a step.

    Parameters
    ----------
    model : the network.
    data : the probe `(inputs, targets)`, one batch that stands for all data.
    loss : loss(outputs, targets) -> one number, or "squared" or "cross-entropy".
    eigenvalues : how many of the smallest to report.
    scale : a change of the loss that matters; by default the smaller of what has been learned and what is
        left to learn.
    limit : seconds after which the search ends, and the report says that nothing was decided.
    progress : show a progress line on stderr; by default if it is a terminal.
    """
    return saddle_test_at(
        _landscape(model, data, loss),
        eigenvalues=eigenvalues,
        scale=scale,
        limit=limit,
        progress=progress,
    )


def effective_widths(
    model: nn.Module, data: Any, loss: Any, *, tolerance: float | None = None
) -> dict[str, EffectiveWidth]:
    """How many units each hidden layer of a module really uses, by the name of the layer.

    Parameters
    ----------
    model : the network.
    data : the probe `(inputs, targets)`.
    loss : loss(outputs, targets) -> one number, or "squared" or "cross-entropy".
    tolerance : change of the loss that does not count; by default taken from the data.
    """
    place = _landscape(model, data, loss)
    return widths_of(place, place.weights, tolerance)


def tangent_kernel(
    model: nn.Module, inputs: Any, *, traced: bool = False
) -> Float[np.ndarray, "rows rows"]:
    """The tangent kernel of a module. Rows are samples times outputs, sample by sample.

    Parameters
    ----------
    model : the network.
    inputs : the samples at which it is taken.
    traced : add up the outputs: a kernel `(samples, samples)`.
    """
    place = _without_loss(model, inputs)
    return kernel_of(place, place.weights, traced)


def kernel_distance(model: nn.Module, inputs: Any, before: Any, after: Any = None) -> float:
    """How far the tangent kernel turned between two states of a module: 0 if it stood still, at most 1.

    Parameters
    ----------
    model : the network.
    inputs : the samples at which kernels are taken.
    before : a module, or a `state_dict`.
    after : another one; by default the module as it is.
    """
    place = _without_loss(model, inputs)
    states = before, model if after is None else after
    first, second = (kernel_of(place, place.weights_of(state)) for state in states)
    return distance_of_kernels(first, second)


def find_regime(
    model: nn.Module,
    data: Any,
    loss: Any,
    states: Sequence[Any],
    *,
    times: Any = None,
    converged: bool = False,
) -> Regime:
    """Lazy or rich: the regime of a training, from two or more states of the module.

    Parameters
    ----------
    model : the network.
    data : the probe `(inputs, targets)`.
    loss : loss(outputs, targets) -> one number, or "squared" or "cross-entropy".
    states : copies of its `state_dict()` (`copy.deepcopy`), or modules, the start first.
    times : learning rate times steps of each; without them it is not told whether richness was delayed.
    converged : whether the training came to its end, however much of the loss is left.
    """
    return regime_of(_landscape(model, data, loss), states, times=times, converged=converged)


def conserved_quantities(model: nn.Module, inputs: Any) -> dict[str, Conserved]:
    """What gradient flow conserves in the hidden layers of a module, by the name of the layer.

    Parameters
    ----------
    model : the network.
    inputs : some samples, at which the symmetry of a layer is tried.
    """
    place = _without_loss(model, inputs)
    return conserved_of(place, place.weights)


def conserved_drift(
    model: nn.Module, inputs: Any, states: Sequence[Any], *, times: Any = None
) -> ConservedDrift:
    """How well a training kept what gradient flow keeps: how far it was from gradient flow.

    Parameters
    ----------
    model : the network.
    inputs : some samples, at which the symmetry of a layer is tried.
    states : copies of its `state_dict()`, or modules, the start first.
    times : time of each; by default their numbers.
    """
    return drift_of(_without_loss(model, inputs), states, times=times)


def _landscape(model: nn.Module, data: Any, loss: Any) -> ModuleLandscape:
    try:
        return ModuleLandscape(model, data, loss, dtype=torch.float64)
    except (
        InputError,
        TypeError,
    ):  # no double precision in the module's own code, or on its device
        return ModuleLandscape(model, data, loss)


def _without_loss(model: nn.Module, inputs: Any) -> ModuleLandscape:
    """A landscape for what needs outputs alone."""
    return _landscape(model, (inputs, np.zeros(1)), lambda outputs, targets: outputs.sum())

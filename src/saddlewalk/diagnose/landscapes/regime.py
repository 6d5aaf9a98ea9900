"""Lazy or rich, for the states that a network of any kind went through."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from saddlewalk.balance import Conserved
from saddlewalk.balance.landscapes import conserved_of
from saddlewalk.diagnose.landscapes.kernel import kernel_of
from saddlewalk.diagnose.regime import Regime, delay_of, verdict
from saddlewalk.diagnose.tangent_kernel import kernel_distance, target_alignment
from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape


def regime_of(
    landscape: AbstractLandscape,
    states: Sequence[Any],
    *,
    times: Any = None,
    converged: bool = False,
) -> Regime:
    """The regime of a training, from two or more of its states, the start first.

    Parameters
    ----------
    landscape : the network.
    states : vectors of weights, or what `landscape.weights_of` takes.
    times : learning rate times steps of each; without them it is not told whether richness was delayed.
    converged : whether the training came to its end, however much of the loss is left.
    """
    import xarray as xr

    places = [landscape.vector_of(state) for state in states]
    if len(places) < 2:
        raise InputError(
            f"A regime is told from two states or more, the start first; got {len(places)}."
        )
    moments = np.arange(len(places), dtype=float) if times is None else np.asarray(times, float)
    if moments.shape != (len(places),) or np.any(np.diff(moments) <= 0):
        raise InputError(f"`times` must be {len(places)} rising numbers; got {times!r:.60}.")
    loss, pace = np.array([landscape.loss(w) for w in places]), math.nan
    seen = _distances(landscape, places)
    delay = math.nan
    if times is not None:
        pace = float(np.sum(landscape.loss_and_gradient(places[0])[1] ** 2))
        delay = delay_of(moments - moments[0], loss, seen["kernel_distance"], pace)
    left = 0.0 if converged or loss[0] <= 0 else float(loss[-1] / loss[0])
    data = xr.Dataset(
        {name: ("time", values) for name, values in {"loss": loss, **seen}.items()},
        coords={"time": moments},
        attrs={"delay": delay},
    )
    name = verdict(seen["kernel_distance"], seen["kernel_growth"], delay, left)
    first, last = (_conserved(landscape, w) for w in (places[0], places[-1]))
    return Regime(name, data, first, {layer: one.balance for layer, one in last.items()})


def _distances(landscape: AbstractLandscape, places: list[np.ndarray]) -> dict[str, np.ndarray]:
    first, start = kernel_of(landscape, places[0]), places[0]
    targets = landscape.targets
    known = targets.dtype.kind == "f" and targets.size == len(first)
    found: list[dict[str, float]] = []
    for w in places:
        kernel = kernel_of(landscape, w)
        one = {
            "kernel_distance": kernel_distance(first, kernel),
            "kernel_growth": float(np.linalg.norm(kernel) / np.linalg.norm(first)),
            "parameter_distance": float(np.linalg.norm(w - start)),
        }
        if known:
            one["target_alignment"] = target_alignment(kernel, targets.reshape(-1, 1))
        found.append(one)
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def _conserved(landscape: AbstractLandscape, w: np.ndarray) -> dict[str, Conserved]:
    try:
        return conserved_of(landscape, w)
    except InputError:  # a sentence that says why nothing is conserved
        return {}

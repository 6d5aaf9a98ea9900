"""Drift of what gradient flow conserves, for the states that a network of any kind went through."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from saddlewalk.balance.landscapes import conserved_of
from saddlewalk.diagnose.conserved import ConservedDrift, Drift
from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape


def drift_of(
    landscape: AbstractLandscape, states: Sequence[Any], *, times: Any = None
) -> ConservedDrift:
    """By hidden layer: how well a training kept what gradient flow keeps.

    Parameters
    ----------
    landscape : the network.
    states : vectors of weights, or what `landscape.weights_of` takes, the start first.
    times : time of each; by default their numbers.
    """
    places = [landscape.vector_of(state) for state in states]
    if len(places) < 2:
        raise InputError(f"A drift is told from two states or more; got {len(places)}.")
    moments = np.arange(len(places), dtype=float) if times is None else np.asarray(times, float)
    if moments.shape != (len(places),):
        raise InputError(f"`times` must be {len(places)} numbers; got {times!r:.60}.")
    found = [conserved_of(landscape, w) for w in places]

    def drift(layer: str) -> Drift:
        each = [one[layer] for one in found]
        matrices = [one.matrix for one in each if one.matrix is not None]
        return Drift(
            layer,
            moments,
            np.stack([one.deltas for one in each]),
            np.stack([one.sizes for one in each]),
            np.stack(matrices) if matrices else None,
        )

    return ConservedDrift({layer: drift(layer) for layer in found[0]})

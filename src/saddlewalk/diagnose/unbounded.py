"""Losses that have no finite minimum: cross-entropy falls for ever on data that can be separated."""

import itertools

from jaxtyping import Array

from saddlewalk.problem import Problem, compiled

_LARGER = (1.0, 1.1, 1.5, 2.0)
"""Times as large as they are: weights at which the loss is looked at."""
_FALLS = 1e-3
"""Part of the loss that must go from each to the next: at a minimum none goes, up to rounding."""


def falls_for_ever(problem: Problem, theta: Array) -> bool:
    """Whether the loss of a network at rest falls on as all its weights grow.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    losses = [float(compiled.loss(problem, factor * theta)) for factor in _LARGER]
    return all(b < a - _FALLS * abs(a) for a, b in itertools.pairwise(losses))

"""What a stage learned, in the words of its setting: coordinate, mode, frequency, direction."""

from typing import Any

import numpy as np

from saddlewalk.problem import ParametersLike, Problem, compiled, task_modes

_LOUD = 1e-6
"""A sample counts as one that a unit is active on above this part of its largest answer."""


def name_feature(
    problem: Problem, before: ParametersLike, after: ParametersLike, on: tuple[int, ...]
) -> dict[str, Any]:
    """The mode of the task that grew most, or else what the strongest new unit looks at.

    Parameters
    ----------
    problem : units, data and loss.
    before, after : parameters `(width, size)` of the active units on two plateaus, the dormant ones at zero.
    on : units that turned on between.
    """
    modes = task_modes(problem)
    if modes is not None:
        was, now = (np.asarray(compiled.function(problem, theta)) for theta in (before, after))
        lead = modes.that_grew(was, now)
        return {**modes.names[lead], "strength": float(modes.strengths(now)[lead])}
    if not on:
        return {"kind": "adjustment"}
    features = np.asarray(compiled.features(problem, after))
    lead = on[int(np.argmax(np.asarray(compiled.feature_lengths(problem, after))[list(on)]))]
    feature = problem.units.describe(problem.shapes, np.asarray(after[lead]), lead)
    if feature["kind"] == "direction":
        answer = np.abs(features[lead]).reshape(len(features[lead]), -1).max(axis=1)
        feature["active_samples"] = np.flatnonzero(answer > _LOUD * answer.max()).tolist()
    return feature

"""What a stage learned, in the words of its setting: coordinate, mode, frequency, direction."""

from typing import Any

import numpy as np

from saddlewalk.problem import ParametersLike, Problem, compiled, task_modes
from saddlewalk.programs import Bound

_LOUD = 1e-6
"""A sample counts as one that a unit is active on above this part of its largest answer."""


def name_feature(
    problem: Problem,
    ask: Bound,
    before: ParametersLike,
    after: ParametersLike,
    on: tuple[int, ...],
) -> dict[str, Any]:
    """The mode of the task that grew most, or else what the strongest new unit looks at, with the "others".

    Parameters
    ----------
    problem : units, data and loss.
    ask : the same, bound to its programs.
    before, after : parameters `(width, size)` of the active units on two plateaus, the dormant ones at zero.
    on : units that turned on between.
    """
    modes = task_modes(problem)
    if modes is not None:
        was, now = (ask(compiled.function, theta) for theta in (before, after))
        lead = modes.that_grew(was, now)
        return {**modes.names[lead], "strength": float(modes.strengths(now)[lead])}
    if problem.units.rotatable:  # basis vectors that are no neurons, on a task without modes
        was, now = (ask(compiled.feature_lengths, theta) for theta in (before, after))
        return _seen_by(problem, ask, after, [int(np.argmax(now - was))])[0]
    if not on:
        return {"kind": "adjustment"}
    lengths = ask(compiled.feature_lengths, after)[list(on)] if len(on) > 1 else np.zeros(1)
    strongest = [on[k] for k in np.argsort(-lengths, kind="stable")]
    features = _seen_by(problem, ask, after, strongest)
    return features[0] if len(features) == 1 else {**features[0], "others": features[1:]}


def _seen_by(
    problem: Problem, ask: Bound, theta: ParametersLike, units: list[int]
) -> list[dict[str, Any]]:
    """What each of some units looks at, and on which samples it answers."""
    describe = problem.units.describe
    features = [describe(problem.shapes, np.asarray(theta[unit]), unit) for unit in units]
    if any(feature["kind"] == "direction" for feature in features):
        answers = ask(compiled.features, theta)[units]
        answers = np.abs(answers).reshape(*answers.shape[:2], -1).max(axis=2)
        for feature, answer in zip(features, answers, strict=True):
            feature["active_samples"] = np.flatnonzero(answer > _LOUD * answer.max()).tolist()
    return features

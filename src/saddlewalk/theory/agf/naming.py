"""What a stage learned, in the words of its setting: coordinate, mode, frequency, direction."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from saddlewalk.problem import ParametersLike, Problem, compiled, task_modes
from saddlewalk.programs import Bound
from saddlewalk.tasks.base import Modes, modes_that_grew

_LOUD = 1e-6
"""A sample counts as one that a unit is active on above this part of its largest answer."""


class Change(NamedTuple):
    """A stage as a change of the network from one plateau to the next."""

    before: ParametersLike
    """Parameters `(width, size)` of the active units, the dormant ones at zero."""
    after: ParametersLike
    on: tuple[int, ...]
    """Units that turned on."""


def name_features(problem: Problem, ask: Bound, changes: Sequence[Change]) -> list[dict[str, Any]]:
    """What each stage learned: modes of the task, or else what the new units look at.

    The largest is named first, with the "others" behind it. No mode of a linear network is named twice.

    Parameters
    ----------
    problem : units, data and loss.
    ask : the same, bound to its programs.
    changes : the stages, all of them.
    """
    modes = task_modes(problem)
    if modes is not None:
        return _named_modes(problem, ask, modes, changes)
    return [_named_units(problem, ask, *change) for change in changes]


def _named_modes(
    problem: Problem, ask: Bound, modes: Modes, changes: Sequence[Change]
) -> list[dict[str, Any]]:
    was, now = (
        [modes.strengths(ask(compiled.function, theta)) for theta in side]
        for side in ([one.before for one in changes], [one.after for one in changes])
    )
    features = []
    for learned, strength in zip(modes_that_grew(modes.weights, was, now), now, strict=True):
        names = [{**modes.names[k], "strength": float(strength[k])} for k in learned.modes]
        if not names:
            # neurons that go on with a frequency are named by it; linear ones have no part in one mode alone
            more = {**modes.names[learned.lead], "strength": float(strength[learned.lead])}
            names = [_adjustment(more) if problem.units.rotatable else more]
        features.append(_together(names))
    return features


def _adjustment(mode: dict[str, Any]) -> dict[str, Any]:
    """More of a mode that another stage is named after."""
    return {"kind": "adjustment", "mode": mode["index"], "strength": mode["strength"]}


def _named_units(
    problem: Problem,
    ask: Bound,
    before: ParametersLike,
    after: ParametersLike,
    on: tuple[int, ...],
) -> dict[str, Any]:
    if problem.units.rotatable:  # basis vectors that are no neurons, on a task without modes
        was, now = (ask(compiled.feature_lengths, theta) for theta in (before, after))
        return _seen_by(problem, ask, after, [int(np.argmax(now - was))])[0]
    if not on:
        return {"kind": "adjustment"}
    lengths = ask(compiled.feature_lengths, after)[list(on)]
    return _together(
        _seen_by(problem, ask, after, [on[k] for k in np.argsort(-lengths, kind="stable")])
    )


def _together(features: list[dict[str, Any]]) -> dict[str, Any]:
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

"""A metric that few samples gave, made sharper with more and more of them.

A fit costs more than in proportion to its samples, and the metric is found long before the function is: so
most updates are made where they are cheap. On three times as many samples a level, the metric is updated for
as long as that helps by held-out error, and the last level leaves what all samples are fitted with.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saddlewalk.features.arrays import on_host
from saddlewalk.features.rfm import AnyMachine, Recursion

Matrix = Any
_FIRST, _TIMES, _LEAST_TIMES = 1500, 3, 1.5
"""Samples of the first level, and how many times as many the next has; the last at least so many times."""
_UNDECIDED = 2000
"""Samples up to which all kinds of updates are made: what is best for few need not be for many."""
_MOST_JUDGED = 2000
_HELD_OUT = 0.2
"""A part of the samples to judge by, but not more than so many."""
_GAIN = 0.03
"""An update that takes away less than this part of the error has brought nothing."""
PATIENCE = 1
"""Updates without a gain after which a level ends, if nothing else is said: in the search they cost less."""
_UNLEARNED = 0.9
"""Where so much of the variance is left, updates go on without a gain: features may come late, at once."""


@dataclass(frozen=True)
class Samples:
    """What a machine is fitted to.

    Parameters
    ----------
    x, y : inputs `(n, d)` and centered targets `(n, c)`.
    weights : how much each counts, or `None`.
    """

    x: Matrix
    y: Matrix
    weights: Matrix | None = None

    def __len__(self) -> int:
        return len(self.x)

    def part(self, rows: np.ndarray) -> "Samples":
        """Some of them.

        Parameters
        ----------
        rows : which ones.
        """
        return Samples(
            self.x[rows], self.y[rows], None if self.weights is None else self.weights[rows]
        )


@dataclass(frozen=True)
class Sharpened:
    """What came of it.

    Parameters
    ----------
    metric : M.
    update : the kind of update that made it, or `None` where none helped.
    errors : mean squared error on held-out samples after each update that was kept.
    error : the one at the end.
    """

    metric: Matrix
    update: str | None
    errors: Sequence[float]
    error: float = np.inf


def sharpen(
    recursion_for: Callable[[str, int], Recursion],
    updates: Sequence[str],
    samples: Samples,
    metric: Matrix,
    most_updates: int,
    most_samples: int,
    cut: tuple[np.ndarray, np.ndarray],
    patience: float = PATIENCE,
) -> Sharpened:
    """The metric after the last level.

    Parameters
    ----------
    recursion_for : a kind of update and a number of samples -> the recursion for them.
    updates : kinds of updates that are tried, each for itself.
    samples : all samples.
    metric : what few of them gave.
    most_updates : on a level.
    most_samples : of the last level.
    cut : which samples are held out, and the others, in the order that they are taken (`cut_off`).
    patience : updates without a gain after which a level ends.
    """
    held, rest = samples.part(cut[0]), cut[1]
    found = {update: Sharpened(metric, None, []) for update in updates}
    for size in levels(min(len(rest), most_samples)):
        seen = samples.part(np.sort(rest[:size]))
        if size > _UNDECIDED:
            best = min(found, key=lambda update: found[update].error)
            found = {best: found[best]}
        for update, so_far in found.items():
            recursion = recursion_for(update, size)
            climb = _climb(recursion, seen, held, so_far.metric, most_updates, patience)
            kind = update if climb.errors else so_far.update
            found[update] = replace(climb, update=kind, errors=[*so_far.errors, *climb.errors])
    return min(found.values(), key=lambda one: one.error)


def cut_off(n: int, seed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Which samples are held out to judge by, and the others.

    Parameters
    ----------
    n : number of samples.
    seed : of NumPy's generator.
    """
    order = np.random.default_rng(seed).permutation(n)
    judged = min(max(1, int(_HELD_OUT * n)), _MOST_JUDGED)
    return order[:judged], order[judged:]


def levels(n: int) -> Iterator[int]:
    """Samples of each level.

    Parameters
    ----------
    n : of the last one.
    """
    size = _FIRST
    while _LEAST_TIMES * size <= n:
        yield size
        size *= _TIMES
    yield n


def _climb(
    recursion: Recursion,
    seen: Samples,
    held: Samples,
    metric: Matrix,
    most: int,
    patience: float,
) -> Sharpened:
    """Updates on one level, for as long as they help: their errors, the first one's aside."""
    errors: list[float] = []
    least = last = np.inf
    kept = waited = 0
    start = metric
    spread = _mean_square(held.y, held)
    for step, machine in enumerate(recursion.machines(seen.x, seen.y, start, seen.weights)):
        error = _error(recursion, machine, held)
        if not np.isfinite(error):
            break
        if error < least * (1 - (_GAIN if step else 0)):
            least, metric, kept = error, machine.metric, step
        if step:
            errors.append(error)
        waited = 0 if error < last * (1 - _GAIN) else waited + 1
        if step == most or (waited >= patience and least < _UNLEARNED * spread):
            break
        last = error
    return Sharpened(metric, recursion.update, errors[:kept], least)


def _error(recursion: Recursion, machine: AnyMachine, held: Samples) -> float:
    return _mean_square(machine.predict(recursion.xp, held.x) - held.y, held)


def _mean_square(values: Matrix, samples: Samples) -> float:
    squares = np.mean(on_host(values) ** 2, axis=1, dtype=np.float64)
    weights = None if samples.weights is None else on_host(samples.weights)
    return float(np.average(squares, weights=weights))

r"""Levels :math:`\frac12 |x|^2 - \sum \frac12 \frac{D}{|G|}\, s_a^2 / n^{k-1}`: composition, stage by stage.

Each part :math:`(a, j_1, \dots, j_{k-1})` of a representation (`tasks.composition`) has a utility of its
own (`utilities.py`), and is learned when its turn comes: the loss falls by its share. If all singular values
are equal, as for a one-hot encoding, a representation is learned in one stage. What must be read by way of a
singular value of zero has no utility, and stays. Jump times have no closed form: neurons align while they
grow. What is closed is a lower bound (`saddlewalk.theory.bounds`).
"""

import itertools
import math
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stage, Stopped
from saddlewalk.groups import Representation, fourier, singular_values
from saddlewalk.problem import Problem
from saddlewalk.tasks import GroupComposition, ModularAddition, group_composition
from saddlewalk.tasks.composition import Part
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.bounds import bounds_from_start, times_are_bounds
from saddlewalk.theory.composition.exact import neurons_needed
from saddlewalk.theory.composition.utilities import part_utility, utility
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import PowerOfSum
from saddlewalk.units.powers import AbstractPowers

_FEWEST = {(1, "real"): 2, (2, "complex"): 6, (2, "real"): 9, (4, "quaternionic"): 8}
"""Neurons with which minimization finds a representation exactly, two factors; else `neurons_needed`."""
_CLEAR = 0.15
"""Relative gap of two speeds above which random starts hardly ever swap them."""
_SMALL = 0.1
_CENTERED = 1e-6
_SHOWN = 5


class CompositionTheory(AbstractTheory[GroupComposition, AbstractPowers]):
    """Neurons of degree k + 1 that compose k elements of a group."""

    methods: ClassVar[tuple[str, ...]] = ("closed",)
    references: ClassVar[tuple[str, ...]] = (
        "marchetti2026composition: Sequential Group Composition, two-layer networks; utilities, order and "
        "stages as derived in saddlewalk.theory.composition",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """As many factors as words, under the squared loss; modular addition has its own frequencies."""
        return (
            isinstance(problem.task, GroupComposition)
            and not isinstance(problem.task, ModularAddition)
            and isinstance(problem.units, AbstractPowers)
            and len(problem.units.readers) == problem.task.factors
            and problem.squared
        )

    @classmethod
    def example(cls) -> Start:
        """A sign and a plane of the dihedral group of order 6, twelve neurons."""
        task = group_composition("D3", 2, {"2d": 3.0, "sign": 1.6})
        return Start(Problem(task, PowerOfSum(12)), 0.02)

    @cached_property
    def order(self) -> tuple[Part, ...]:
        """Parts of the target in the order in which they are learned."""
        return ordered_parts(self.task)

    @cached_property
    def utilities(self) -> Float[np.ndarray, " parts"]:
        """The maximal utility of each, in that order."""
        return np.array([part_utility(part, self.task.order) for part in self.order])

    @cached_property
    def closed(self) -> Outcome:
        """Levels; times as lower bounds from the start."""
        self.start.check_dormant()
        shares = np.array([part.share(self.task.order) for part in self.order])
        times = np.maximum.accumulate(bounds_from_start(self.start, self.utilities, shares))
        able = self._learned
        total = 0.5 * float(np.sum(np.asarray(self.task.encoding) ** 2))
        readable = math.isclose(total, shares.sum(), rel_tol=1e-9)
        stages = []
        for place, part in enumerate(self.order):
            if part.representation.name not in able:
                continue
            gone = [k <= place and p.representation.name in able for k, p in enumerate(self.order)]
            # what stays, not what went: a task learned fully ends at exactly zero
            left = float(shares[~np.array(gone)].sum()) + (
                0.0 if readable else total - shares.sum()
            )
            stages.append(Stage(float(times[place]), left, (), part.feature))
        every = len(able) == len({part.representation.name for part in self.order})
        return Outcome(
            stages=tuple(stages),
            stopped=Stopped.NO_UTILITY if every else Stopped.NO_DORMANT,
            assumptions=(self._times_are_bounds,),
            initial_loss=total,
        )

    @property
    def _learned(self) -> set[str]:
        """Representations for which there are neurons, if each takes as many as it needs, in order."""
        left, able = self.start.problem.width, set()
        for one in self._representations:
            left -= fewest(one, self.task.factors)
            if left < 0:
                break
            able.add(one.name)
        return able

    @property
    def _representations(self) -> list[Representation]:
        every = {part.representation.name: part.representation for part in self.order}
        return list(every.values())

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """What the order, the levels and the bounds rest on."""
        return (
            _clear(self.task, self.order),
            _centered(self.task),
            _complete(self.task),
            _readable(self.task),
            self._enough_neurons,
            self._small,
        )

    @property
    def _enough_neurons(self) -> Assumption:
        k, width = self.task.factors, self.start.problem.width
        needed = sum(fewest(one, k) for one in self._representations)
        missing = [one.name for one in self._representations if one.name not in self._learned]
        words = f"; too few to learn {_first_few(missing)} fully" if missing else ""
        bound = sum(neurons_needed(one, k) for one in self._representations)
        return Assumption(
            f"neurons{words}",
            not missing,
            float(width),
            f"at least {needed}, the fewest known to suffice; {bound} by construction, and training may want "
            "more",
        )

    @property
    def _small(self) -> Assumption:
        """A learned neuron: as many as are needed, of equal size, hold the first part."""
        first, k = self.order[0], self.task.factors
        number = fewest(first.representation, k)
        held = 2 * first.share(self.task.order) / (number * self.utilities[0])
        relative = float(self.start.norms.max() / held ** (1 / (k + 1)))
        return Assumption(
            "largest initial norm of a neuron / norm of a learned neuron",
            relative < _SMALL,
            relative,
            f"below {_SMALL:g}; the relative error of the bounds is of this order",
        )

    @property
    def _times_are_bounds(self) -> Assumption:
        theta = np.asarray(self.start.theta) / self.start.norms[:, None]
        *readers, w = np.split(theta, self.task.factors + 1, axis=1)
        initial = utility(self.task.group, np.asarray(self.task.encoding), np.stack(readers), w)
        aligned = float(np.max(initial) / self.utilities.max())
        return times_are_bounds("neurons", "representations", aligned)


def ordered_parts(task: GroupComposition) -> tuple[Part, ...]:
    """Parts of the target by decreasing maximal utility: the order in which they are learned.

    Parameters
    ----------
    task : what is learned.
    """
    return tuple(sorted(task.parts(), key=lambda part: -part_utility(part, task.order)))


def order_by_power(task: GroupComposition) -> tuple[str, ...]:
    """Representations by decreasing power, which is not the order in which they are learned.

    Parameters
    ----------
    task : what is learned.
    """
    power: dict[str, float] = {}
    for part in task.parts():
        name = part.representation.name
        power[name] = power.get(name, 0.0) + part.share(task.order)
    return tuple(sorted(power, key=lambda name: -power[name]))


def fewest(one: Representation, factors: int) -> int:
    """Fewest neurons that are known to learn a representation exactly.

    Parameters
    ----------
    one : the representation.
    factors : number k of factors.
    """
    found = _FEWEST.get((one.dimension, one.type)) if factors == 2 else None
    return neurons_needed(one, factors) if found is None else found


def _clear(task: GroupComposition, order: tuple[Part, ...]) -> Assumption:
    """Representations by the utility of their first part, as a number that is linear in the encoding."""
    first: dict[str, float] = {}
    for part in order:
        speed = part_utility(part, task.order) ** (1 / (task.factors + 1))
        first.setdefault(part.representation.name, speed)
    gaps = {(a, b): 1 - first[b] / first[a] for a, b in itertools.pairwise(first)}
    close = [f"{a} and {b} differ by {100 * g:.1f}%" for (a, b), g in gaps.items() if g < _CLEAR]
    words = f": {_first_few(close)}, so their order depends on the initialization"
    return Assumption(
        "clear order: smallest relative gap of two maximal utilities, to the power 1/(k+1)"
        + (words if close else ""),
        not close,
        float(min(gaps.values())) if gaps else None,
        f"above {_CLEAR:g}; every representation is a local maximum, and a neuron that starts near one stays",
    )


def _centered(task: GroupComposition) -> Assumption:
    x = np.asarray(task.encoding)
    off = float(abs(x.mean()) / np.abs(x).max())
    return Assumption(
        "centered encoding: its mean over its largest entry",
        off < _CENTERED,
        off,
        "0: there is no bias",
    )


def _complete(task: GroupComposition) -> Assumption:
    part = len(task.weights) / task.order**task.factors
    return Assumption(
        "all tuples are seen: samples over tuples",
        task.complete,
        part,
        "1; on a draw, representations are not quite orthogonal",
    )


def _readable(task: GroupComposition) -> Assumption:
    transform = fourier(task.group, np.asarray(task.encoding))
    ratios = {}
    for name in task.pairs:
        values = singular_values(task.group.representation(name), transform[name])
        ratios[name] = float(values[-1] / values[0])
    blind = [name for name, ratio in ratios.items() if ratio < 1e-9]
    words = f": part of {_first_few(blind)} is never seen, and never learned" if blind else ""
    return Assumption(
        f"readable encoding: smallest singular value over the largest of a representation{words}",
        not blind,
        min(ratios.values()),
        "above 0",
    )


def _first_few(items: list[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more

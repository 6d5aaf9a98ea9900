"""The theory of linear networks: which closed forms there are, and what they assume."""

import itertools
import math
from functools import cached_property
from typing import ClassVar

import numpy as np

from saddlewalk.curves import LossCurve, Stage, Stopped
from saddlewalk.problem import Problem
from saddlewalk.tasks import Moments, linear_map
from saddlewalk.theory.agf.thresholds import Thresholds
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.linear.accuracy import (
    distance_of_limit,
    error_of_start,
    error_of_steps,
    growth_of_modes,
)
from saddlewalk.theory.linear.finite_scale import (
    STEP,
    UncorrelatedModes,
    logistic_curve,
    read_rests,
    refined,
    transition_curve,
)
from saddlewalk.theory.linear.greedy import greedy_low_rank
from saddlewalk.theory.linear.limit import Event, largest_correlation, limit_events, loss_levels
from saddlewalk.theory.linear.maps import (
    Covariances,
    Layers,
    Vector,
    accumulated_times,
    top_output,
)
from saddlewalk.theory.merging import merged, merged_on
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import Dense

_UNCORRELATED = 1e-6
"""Modes whose inputs are correlated less than this never meet."""
_MOST_WEIGHTS = 20_000
"""Real-time AGF answers within seconds up to so many weights."""
_MOST_MODES = 300
"""The closed curve takes a minute up to so many modes, and grows with their fourth power."""


class LinearTheory(AbstractTheory[Moments, Dense]):
    """Linear networks of two layers under the squared loss."""

    methods: ClassVar[tuple[str, ...]] = ("closed", "limit", "greedy-low-rank")
    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 4, Conjecture 4.1, appendix D",
        "gidel2019implicit: Gidel, Bach and Lacoste-Julien, tau = 1/sigma for commuting covariances",
        "li2021greedy: Li, Luo and Lyu, greedy low-rank learning",
        "izenman1975rrr: Izenman, reduced rank regression",
        "saxe2014exact: Saxe, McClelland and Ganguli, logistic growth of one mode",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Linear neurons with equal learning rates, squared loss."""
        units = problem.units
        return (
            isinstance(units, Dense)
            and units.activation == "linear"
            and isinstance(problem.task, Moments)
            and problem.squared
            and bool(np.all(np.asarray(problem.rates) == 1))
        )

    @classmethod
    def example(cls) -> Start:
        """Three modes that never meet, of which each has a unit."""
        task = linear_map(dim=3, outputs=3, decay=1.0, commuting=True)
        return Start(Problem(task, Dense(3, "linear")), 1e-8)

    @property
    def width(self) -> int:
        """Number of units."""
        return self.start.problem.width

    @cached_property
    def covariances(self) -> Covariances:
        """Sigma_xx and Sigma_yx, and their modes."""
        return Covariances.of(self.task)

    @cached_property
    def order_of_limit(self) -> list[Event]:
        """Which modes are learned, and when, as the scale vanishes; as many as there are units."""
        return limit_events(self.covariances)[: self.width]

    @cached_property
    def closed(self) -> Outcome:
        """The curve from the actual start, and the stages read off it."""
        self.start.check_dormant()
        covariances = self.covariances
        layers = Layers.of(covariances, np.asarray(self.start.theta))
        if len(covariances.explained[1]) == 0:
            return Outcome((), Stopped.NO_UTILITY, initial_loss=covariances.floor)
        coarse: LossCurve | None = None
        end = self.start.max_time
        if largest_correlation(covariances) < _UNCORRELATED:
            curve, events = logistic_curve(covariances, layers, end)
        else:
            curve, events = transition_curve(covariances, layers, end), self.order_of_limit
            coarse = transition_curve(covariances, layers, end, 2 * STEP)
        fine, levels = refined(curve), loss_levels(covariances, events)
        reached = sum(0.5 * (a + b) >= fine.loss[-1] for a, b in itertools.pairwise(levels))
        times, levels = read_rests(fine, levels[: reached + 1]) if reached else ([], levels[:1])
        modes = UncorrelatedModes.of(covariances, layers)
        error = error_of_start(modes) if coarse is None else error_of_steps(fine, coarse, levels)
        stages = _stages(times, levels, [event.place for event in events[:reached]], covariances)
        return Outcome(
            merged_on(stages, curve, levels[0]),
            self._stopped if reached == len(events) else Stopped.LIMIT,
            curve=(fine.time, fine.loss),
            initial_loss=levels[0],
            expected_error=error if times else None,
        )

    @cached_property
    def limit(self) -> Outcome:
        """Conjecture 4.1 in each family of modes."""
        self.start.check_dormant()
        events, eta = self.order_of_limit, -math.log(self.start.norm)
        levels = loss_levels(self.covariances, events)
        times, places = [eta * event.time for event in events], [event.place for event in events]
        stages = _stages(times, levels, places, self.covariances)
        layers = Layers.of(self.covariances, np.asarray(self.start.theta))
        return Outcome(
            merged(stages, growth_of_modes(self.covariances, events), levels[0]),
            self._stopped,
            initial_loss=levels[0],
            expected_error=distance_of_limit(UncorrelatedModes.of(self.covariances, layers), eta),
        )

    @cached_property
    def greedy_low_rank(self) -> Outcome:
        """Levels by Algorithm 3; times by the utilities accumulated in its gradients."""
        self.start.check_dormant()
        covariances, modes = self.covariances, len(self.covariances.explained[1])
        found, rates = greedy_low_rank(covariances, min(self.width, modes))
        losses = [0.5 * float(np.sum(covariances.gap(layers) ** 2)) for layers in found]
        strengths = [_strengths(covariances, layers) for layers in found]
        learned = [
            int(np.argmax(after - before)) for before, after in itertools.pairwise(strengths)
        ]
        dormant = range(len(learned), 0, -1)
        times = accumulated_times([sigma[:k] for k, sigma in zip(dormant, rates, strict=False)])
        eta = -math.log(self.start.norm)
        return Outcome(
            _stages(
                [eta * time for time in times],
                [covariances.floor + loss for loss in losses],
                learned,
                covariances,
            ),
            self._stopped,
            initial_loss=covariances.floor + losses[0],
        )

    @property
    def gives_way(self) -> bool:
        """Whether units end with modes that are not the best ones, and must move on to those."""
        if self.width >= len(self.covariances.explained[1]):
            return False  # there is a unit for each
        return any(event.place >= self.width for event in self.order_of_limit)

    @property
    def preferred(self) -> str:
        """Real-time AGF; with too many weights, or too small ones, the closed form, if no mode gives way.

        The closed curve of very many modes takes hours, unless it is cut: then it is the limit.
        """
        affordable = self.start.problem.width * self.start.problem.size <= _MOST_WEIGHTS
        if self.gives_way or (affordable and self.start.norm > Thresholds().least_norm_of_mixed):
            return "numeric"
        few = len(self.covariances.explained[1]) <= _MOST_MODES
        return "closed" if few or math.isfinite(self.start.max_time) else "limit"

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """Hypotheses of Conjecture 4.1 and of Gidel's times, and what a small scale asks for."""
        covariances, norm = self.covariances, self.start.norm
        return (
            Assumption("initial norm of a unit", norm < 1, norm, "below 1"),
            _distinct(covariances, norm),
            _commuting(covariances),
            _same_order(covariances),
            _enough_units(covariances, self.width, self.gives_way),
            _full_rank(covariances),
            Assumption(
                "simulation in float64: initial norm of a unit",
                norm >= 1e-12,
                norm,
                "above 1e-12; below, rounding errors seed the dormant modes of a simulation",
            ),
        )

    @property
    def _stopped(self) -> Stopped:
        few = self.width < len(self.covariances.explained[1])
        return Stopped.NO_DORMANT if few else Stopped.NO_UTILITY


def _strengths(covariances: Covariances, layers: Layers) -> Vector:
    """How much of each mode of mu these layers hold: 0 before it is learned, 1 after."""
    modes, explained = covariances.explained
    fitted = covariances.target - covariances.gap(layers)
    return np.sum((modes.T @ fitted) * (modes.T @ covariances.target), axis=1) / explained


def _stages(
    times: list[float], levels: list[float], learned: list[int], covariances: Covariances
) -> tuple[Stage, ...]:
    """Stages of modes: they belong to all units, so that none is named."""
    values = np.sqrt(covariances.explained[1]).tolist()
    return tuple(
        Stage(
            time=time,
            loss=loss,
            units=(),
            feature={"kind": "singular-mode", "index": index, "value": values[index]},
        )
        for time, loss, index in zip(times, levels[1:], learned, strict=True)
    )


def _distinct(covariances: Covariances, norm: float) -> Assumption:
    sigma = covariances.singular[1]
    gaps = 1 - sigma[1:] / sigma[:-1]
    closest = int(np.argmin(gaps)) if len(gaps) else 0
    blur = -1 / math.log(norm) if norm < 1 else math.inf
    return Assumption(
        "distinct singular values: smallest relative gap",
        bool(np.all(gaps > blur)),
        float(gaps[closest]) if len(gaps) else None,
        f"above 1/log(1/norm) = {blur:.2g}; below, the order of close modes depends on the "
        f"initialization (closest: {closest + 1} and {closest + 2} in the order of sigma)",
    )


def _commuting(covariances: Covariances) -> Assumption:
    largest = largest_correlation(covariances)
    return Assumption(
        "commuting covariances: largest correlation of the input of a singular mode with another",
        largest < _UNCORRELATED,
        largest,
        "0 for tau = 1/sigma and the closed loss curve; else modes meet: Conjecture 4.1 in the "
        "limit, and jumps by steps at finite scale",
    )


def _same_order(covariances: Covariances) -> Assumption:
    """Conjecture 4.1 takes the modes of mu one by one; the flow takes the gradient's top mode."""
    modes = covariances.explained[0]
    rows = modes.T @ covariances.cross
    tops = [top_output(rows[k:])[0] for k in range(len(rows))]
    least = float(min((top**2 for top in tops), default=1.0))
    return Assumption(
        "orders of sigma and mu agree: smallest overlap of the gradient's top mode with the next of mu",
        least > 0.5,
        least,
        "above 0.5; below, Conjecture 4.1 as printed has the wrong order if covariances commute, "
        "and if they do not, the flow rests at another saddle on its way",
    )


def _enough_units(covariances: Covariances, width: int, gives_way: bool) -> Assumption:
    count = len(covariances.explained[1])
    never = max(0, count - width)
    moving = "; the learned ones give way to better ones later" if gives_way else ""
    return Assumption(
        "enough units for the features",
        never == 0,
        float(width),
        f"{count}, one for each mode"
        + (f"; {never} will never be learned{moving}" if never else ""),
    )


def _full_rank(covariances: Covariances) -> Assumption:
    count = len(covariances.explained[1])
    most = min(len(covariances.target), len(covariances.basis))
    return Assumption(
        "full rank of Sigma_xx and Sigma_yx: number of modes",
        count == most,
        float(count),
        f"{most}, the smaller of inputs and outputs; with fewer there is less to learn",
    )

"""The theory of linear networks: which closed forms there are, and what they assume."""

import itertools
import math
from typing import ClassVar

import numpy as np

from saddlewalk.curves import Stage, Stopped
from saddlewalk.problem import Problem, SquaredError
from saddlewalk.tasks import Moments
from saddlewalk.theory.base import AbstractTheory, Method, Outcome, Start, refuse_large_start
from saddlewalk.theory.linear.finite_scale import logistic_curve, read_stages, transition_curve
from saddlewalk.theory.linear.greedy import greedy_low_rank
from saddlewalk.theory.linear.limit import largest_correlation, limit_events, loss_levels
from saddlewalk.theory.linear.maps import Covariances, Layers, Vector, accumulated_times
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import Dense

_STRANGERS = 1e-6
"""Modes whose inputs are correlated less than this never meet."""


class LinearTheory(AbstractTheory):
    """Linear networks of two layers under the squared loss."""

    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 4, Conjecture 4.1, appendix D",
        "gidel2019implicit: Gidel, Bach and Lacoste-Julien, tau = 1/sigma for commuting covariances",
        "li2021greedy: Li, Luo and Lyu, greedy low-rank learning",
        "izenman1975rrr: Izenman, reduced rank regression",
        "saxe2014exact: Saxe, McClelland and Ganguli, logistic growth of one mode",
    )

    def covers(self, problem: Problem) -> bool:
        """Linear neurons with equal learning rates, squared loss."""
        units = problem.units
        return (
            isinstance(units, Dense)
            and units.activation == "linear"
            and isinstance(problem.task, Moments)
            and isinstance(problem.penalty, SquaredError)
            and bool(np.all(np.asarray(problem.rates) == 1))
        )

    def methods(self) -> dict[str, Method]:
        """At this scale, at vanishing scale, and by Algorithm 3 (with the times of the limit)."""
        return {"closed": _closed, "limit": _limit, "greedy-low-rank": _greedy}

    def preferred(self, start: Start) -> str:
        """The closed form, unless modes give way to others for lack of units."""
        covariances = _covariances(start)
        return "numeric" if _give_way(covariances, start.problem.width) else "closed"

    def audit(self, start: Start) -> tuple[Assumption, ...]:
        """Hypotheses of Conjecture 4.1 and of Gidel's times, and what a small scale asks for."""
        covariances, norm = _covariances(start), start.norm
        return (
            Assumption("initial norm of a unit", norm < 1, norm, "below 1"),
            _distinct(covariances, norm),
            _commuting(covariances),
            _same_order(covariances),
            _enough_units(covariances, start.problem.width),
            _full_rank(covariances),
            Assumption(
                "simulation in float64: initial norm of a unit",
                norm >= 1e-12,
                norm,
                "above 1e-12; below, rounding errors seed the dormant modes of a simulation",
            ),
        )


def _covariances(start: Start) -> Covariances:
    assert isinstance(start.problem.task, Moments)
    return Covariances.of(start.problem.task)


def _closed(start: Start) -> Outcome:
    """The curve from the actual start, and the stages read off it."""
    refuse_large_start(start)
    covariances, width = _covariances(start), start.problem.width
    layers = Layers.of(covariances, np.asarray(start.theta))
    if len(covariances.explained[1]) == 0:
        return Outcome((), Stopped.NO_UTILITY, initial_loss=covariances.floor)
    if largest_correlation(covariances) < _STRANGERS:
        curve, events = logistic_curve(covariances, layers)
    else:
        curve, events = transition_curve(covariances, layers), limit_events(covariances)[:width]
    reading = read_stages(curve, loss_levels(covariances, events))
    return Outcome(
        _stages(reading.times, reading.levels, [event.place for event in events], covariances),
        _stopped(covariances, width),
        curve=reading.curve,
        initial_loss=reading.levels[0],
    )


def _limit(start: Start) -> Outcome:
    """Conjecture 4.1 in each family of modes."""
    refuse_large_start(start)
    covariances, width = _covariances(start), start.problem.width
    events = limit_events(covariances)[:width]
    eta, levels = -math.log(start.norm), loss_levels(covariances, events)
    return Outcome(
        _stages(
            [eta * event.time for event in events],
            levels,
            [event.place for event in events],
            covariances,
        ),
        _stopped(covariances, width),
        initial_loss=levels[0],
    )


def _greedy(start: Start) -> Outcome:
    """Levels by Algorithm 3; times by the utilities accumulated in its gradients."""
    refuse_large_start(start)
    covariances, width = _covariances(start), start.problem.width
    found, rates = greedy_low_rank(covariances, min(width, len(covariances.explained[1])))
    losses = [0.5 * float(np.sum(covariances.gap(layers) ** 2)) for layers in found]
    strengths = [_strengths(covariances, layers) for layers in found]
    learned = [int(np.argmax(after - before)) for before, after in itertools.pairwise(strengths)]
    dormant = range(len(learned), 0, -1)
    times = accumulated_times([sigma[:k] for k, sigma in zip(dormant, rates, strict=False)])
    eta = -math.log(start.norm)
    return Outcome(
        _stages(
            [eta * time for time in times],
            [covariances.floor + loss for loss in losses],
            learned,
            covariances,
        ),
        _stopped(covariances, width),
        initial_loss=covariances.floor + losses[0],
    )


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


def _stopped(covariances: Covariances, width: int) -> Stopped:
    return Stopped.NO_DORMANT if width < len(covariances.explained[1]) else Stopped.NO_UTILITY


def _give_way(covariances: Covariances, width: int) -> bool:
    """Whether units end with modes that are not the best `width` ones, and must move on to those."""
    return any(event.place >= width for event in limit_events(covariances)[:width])


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
        largest < _STRANGERS,
        largest,
        "0 for tau = 1/sigma and the closed loss curve; else modes meet: Conjecture 4.1 in the "
        "limit, and jumps by steps at finite scale",
    )


def _same_order(covariances: Covariances) -> Assumption:
    """Conjecture 4.1 takes the modes of mu one by one; the flow takes the gradient's top mode."""
    modes = covariances.explained[0]
    rows = modes.T @ covariances.cross
    tops = [np.linalg.svd(rows[k:], full_matrices=False)[0][0, 0] for k in range(len(rows))]
    least = float(min((top**2 for top in tops), default=1.0))
    return Assumption(
        "orders of sigma and mu agree: smallest overlap of the gradient's top mode with the next of mu",
        least > 0.5,
        least,
        "above 0.5; below, Conjecture 4.1 as printed has the wrong order if covariances commute, "
        "and if they do not, the flow rests at another saddle on its way",
    )


def _enough_units(covariances: Covariances, width: int) -> Assumption:
    count = len(covariances.explained[1])
    never = max(0, count - width)
    moving = (
        "; the learned ones give way to better ones later" if _give_way(covariances, width) else ""
    )
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

"""The theory of deep linear networks: exact modes, the walk at finite scale, and what both assume."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import LossCurve, Stage, Stopped
from saddlewalk.errors import InputError
from saddlewalk.problem import Problem
from saddlewalk.tasks import Moments, linear_map
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.deep import modes
from saddlewalk.theory.deep.first import FirstEscapeTheory
from saddlewalk.theory.deep.layers import Chain
from saddlewalk.theory.deep.walk import Jump, walk
from saddlewalk.theory.linear import Covariances, largest_correlation
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import Deep

_SAME = 1e-6
"""Alignment, balance and correlations off by less than this are exact for every purpose."""
_AROUND = np.concatenate([-np.geomspace(1e4, 1e-2, 60), np.geomspace(1e-2, 60, 90)])
"""Where a jump is looked at, in units of 1/sigma from its middle."""


class DeepLinearTheory(AbstractTheory[Moments, Deep]):
    """Linear networks of any depth under the squared loss."""

    methods: ClassVar[tuple[str, ...]] = ("numeric", "closed")
    references: ClassVar[tuple[str, ...]] = (
        "saxe2014exact: Saxe, McClelland and Ganguli, exact modes of deep linear networks",
        "arora2018optimization: Arora, Cohen and Hazan, balanced layers, s' = L s^(2-2/L) (sigma - s)",
        "zhang2026saddle: Saddle-to-Saddle Dynamics, hidden layers as sums of units",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Dense linear layers in a row, equal learning rates, squared loss."""
        units = problem.units
        return (
            isinstance(units, Deep)
            and units.is_linear_chain
            and isinstance(problem.task, Moments)
            and problem.squared
            and not problem.adaptive
            and bool(np.all(np.asarray(problem.rates) == 1))
        )

    @classmethod
    def example(cls) -> Start:
        """Two modes of inputs that do not meet, from a balanced and aligned start."""
        task = linear_map(dim=2, outputs=2, decay=1.0, commuting=True)
        problem = Problem(task, Deep.linear(depth=3, width=2))
        return Start(problem, 1e-3, given=aligned_start(problem, 1e-3))

    @cached_property
    def covariances(self) -> Covariances:
        """Sigma_xx and Sigma_yx, and their modes."""
        return Covariances.of(self.task)

    @cached_property
    def chain(self) -> Chain:
        """The layers at the start."""
        problem = self.start.problem
        return Chain.read(self.covariances, problem.shapes, np.asarray(self.start.theta)[0])

    @cached_property
    def numeric(self) -> Outcome:
        """From saddle to saddle, from any small start, whatever the covariances.

        Layers that start large are not balanced with the others: there the first stage is all that is known.
        """
        if not self.covariances.target.any():
            return Outcome((), Stopped.NO_UTILITY)
        self._check_small()
        if not self._small.holds:
            return FirstEscapeTheory(self.start).numeric
        found = walk(self.covariances, self.chain, self.start.max_time)
        return Outcome(
            stages=tuple(_stage(self.covariances, jump) for jump in found.jumps),
            stopped=found.stopped,
            assumptions=(_separate(found.jumps, self.covariances),),
            curve=(found.curve.time, found.curve.loss),
            initial_loss=float(found.curve.loss[0]),
            rhs_evaluations=found.evaluations,
        )

    @cached_property
    def closed(self) -> Outcome:
        """Modes that move by themselves: balanced layers, aligned with modes that never meet."""
        if not self.covariances.target.any():
            return Outcome((), Stopped.NO_UTILITY)
        self._check_small()
        self._check_exact()
        return replace(self._modes_alone(), assumptions=(self._aligned, self._balanced))

    def _modes_alone(self) -> Outcome:
        covariances, depth = self.covariances, self.chain.depth
        left, sigma, right = covariances.singular
        variance = covariances.variances @ right**2
        strength = np.einsum("ci,cr,ri->i", left, self.chain.map, right)
        moves = (strength > 0) & (strength < sigma / variance)
        rest, explained = sigma / variance, sigma**2 / variance
        order = np.argsort(
            [
                modes.time_to(s, 0.5 * r, g, v, depth) if on and s < 0.5 * r else math.inf
                for s, r, g, v, on in zip(strength, rest, sigma, variance, moves, strict=True)
            ]
        )[: int(moves.sum())]
        middle = {
            k: float(modes.time_to(strength[k], 0.5 * rest[k], sigma[k], variance[k], depth))
            for k in order.tolist()
        }
        latest = max(middle.values(), default=0.0)
        grid = np.unique(np.concatenate([[0.0], *(middle[k] + _AROUND / sigma[k] for k in middle)]))
        grid = grid[(grid >= 0) & (grid <= min(self.start.max_time, latest + 60 / sigma.min()))]
        whole = covariances.floor + 0.5 * float(explained.sum())
        learned = list(middle)
        alone = [one[learned, None] for one in (strength, sigma, variance, explained)]
        loss, rate = _loss_of_modes(grid, alone, depth)
        curve = LossCurve(grid, np.minimum.accumulate(whole + loss), rate)
        levels = [whole]
        stages = []
        for k in middle:
            levels.append(levels[-1] - 0.5 * float(explained[k]))
            goal = 0.5 * (levels[-2] + levels[-1]) - whole
            end = middle[k] + 60 / float(sigma[k])
            time = _crossing(lambda t: _loss_of_modes(t, alone, depth)[0], goal, grid, loss, end)
            stages.append(
                Stage(time, levels[-1], (), _feature(covariances, _place(covariances, left[:, k])))
            )
        stages = [stage for stage in stages if stage.time <= self.start.max_time]
        done = len(stages) == len(middle)
        few = len(middle) < len(sigma)
        full = Stopped.NO_DORMANT if few else Stopped.NO_UTILITY
        return Outcome(
            tuple(stages),
            full if done else Stopped.LIMIT,
            curve=(curve.time, curve.loss),
            initial_loss=levels[0],
        )

    def _check_small(self) -> None:
        norm = float(np.linalg.norm(self.chain.vector))
        target = float(np.linalg.norm(self.covariances.target))
        effect = float(np.linalg.norm(self.chain.map * np.sqrt(self.covariances.variances)))
        if effect > 0.1 * target:
            raise InputError(
                f"At scale {self.start.scale:g} (norm of all weights {norm:.3g}) the map of the start has "
                f"{effect / target:.2g} of the size of what is to be learned: it is not dormant. Use a "
                "smaller scale."
            )

    def _check_exact(self) -> None:
        failing = [one for one in (self._aligned, self._balanced, self._apart) if not one.holds]
        if failing:
            raise InputError(
                "The closed form is for balanced layers that are aligned with modes that never meet; here "
                f"'{failing[0].name}' is {failing[0].value:.3g} (needed: {failing[0].needed}). Use "
                "method 'numeric', or start from `saddlewalk.theory.deep.aligned_start`."
            )

    @property
    def preferred(self) -> str:
        """The walk, which needs no alignment."""
        return "numeric"

    @cached_property
    def _small(self) -> Assumption:
        largest = max(float(np.linalg.norm(layer)) for layer in self.chain.layers)
        return Assumption(
            "every layer starts small: largest norm of a layer",
            largest < 1,
            largest,
            "below 1; the smaller, the further apart the jumps. With layers that start large the first stage "
            "alone is predicted",
        )

    @cached_property
    def _aligned(self) -> Assumption:
        left, _, right = self.covariances.singular
        turned = left.T @ self.chain.map @ right
        off = turned - np.diag(np.diag(turned))
        size = float(np.linalg.norm(turned))
        part = float(np.linalg.norm(off)) / size if size > 0 else 0.0
        negative = bool((np.diag(turned) < 0).any())
        return Assumption(
            "aligned start: part of the first map between different modes",
            part < _SAME and not negative,
            part,
            "0; small layers align by themselves, which 'numeric' follows",
        )

    @cached_property
    def _balanced(self) -> Assumption:
        layers = self.chain.layers
        gaps = [
            float(np.linalg.norm(b.T @ b - a @ a.T)) / float(np.linalg.norm(a @ a.T))
            for a, b in itertools.pairwise(layers)
        ]
        return Assumption(
            "balanced start: largest |W'W (next) - WW'| over |WW'|",
            max(gaps) < _SAME,
            max(gaps),
            "0",
        )

    @cached_property
    def _apart(self) -> Assumption:
        largest = largest_correlation(self.covariances)
        return Assumption(
            "whitened inputs: largest correlation of the input of a singular mode with another",
            largest < _SAME,
            largest,
            "0 for 'closed'; else modes meet, which 'numeric' follows",
        )

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """Hypotheses of the exact modes, and what the order of a random start rests on."""
        count, width = len(self.covariances.explained[1]), self.chain.width
        return (
            self._small,
            self._apart,
            _distinct(self.covariances),
            Assumption(
                "enough units for the features: narrowest hidden layer",
                width >= count,
                float(width),
                f"{count}, one for each mode",
            ),
        )


def aligned_start(problem: Problem, scale: float) -> Float[np.ndarray, "1 size"]:
    r"""Balanced layers along the modes of the task: :math:`W_l = a R_l R_{l-1}^\top`, from V to U.

    Parameters
    ----------
    problem : a deep linear network and its task.
    scale : norm of all weights together.
    """
    if not DeepLinearTheory.covers(problem):
        raise InputError(
            "An aligned start is for a deep linear network under the squared loss, for instance "
            "units.Deep.linear(depth=3, width=5)."
        )
    covariances, shapes = Covariances.of(problem.task), list(problem.shapes.values())  # type: ignore[arg-type]
    left, _, right = covariances.singular
    count = min(left.shape[1], *(shape[0] for shape in shapes[:-1]))
    size = scale / math.sqrt(len(shapes) * count)
    sides = [covariances.basis @ right[:, :count]]
    sides += [np.eye(shape[0])[:, :count] for shape in shapes[:-1]] + [left[:, :count]]
    layers = [size * sides[k + 1] @ sides[k].T for k in range(len(shapes))]
    return np.concatenate([layer.ravel() for layer in layers])[None]


def _loss_of_modes(
    time: np.ndarray, alone: list[np.ndarray], depth: int
) -> tuple[np.ndarray, np.ndarray]:
    """By how much modes that move alone, one a row, have changed the loss at some moments; and its slope."""
    start, sigma, variance, explained = alone
    s = modes.strength_at(time, start, sigma, variance, depth)
    held = s * variance / sigma
    gap = 1 - held
    moved = depth * s ** (2 - 2 / depth) * sigma * gap
    loss = 0.5 * np.sum(explained * (gap**2 - 1), axis=0)
    return loss, -np.sum(explained * gap * moved * variance / sigma, axis=0)


def _crossing(
    loss_at: Callable[[np.ndarray], np.ndarray],
    goal: float,
    grid: np.ndarray,
    loss: np.ndarray,
    end: float,
) -> float:
    """When the loss falls to a goal: between the points of a grid where it does, or after them."""
    from scipy.optimize import brentq

    after = int(np.searchsorted(-np.minimum.accumulate(loss), -goal))
    if after == 0:
        return 0.0
    low = float(grid[after - 1])
    high = float(grid[after]) if after < len(grid) else max(end, low)
    cost = lambda t: float(loss_at(np.array([t]))[0]) - goal  # noqa: E731
    if low > 0 and not cost(low) > 0 >= cost(high):  # the curve rounds where it is flat
        low, high = 0.0, end
    return float(brentq(cost, low, high, xtol=1e-13 * high, rtol=1e-14))


def _stage(covariances: Covariances, jump: Jump) -> Stage:
    """A step of the loss, and the mode of which it learned most."""
    learned = covariances.explained[0]
    root = np.sqrt(covariances.variances)
    before, after = (
        np.sum((learned.T @ (beta * root)) * (learned.T @ covariances.target), axis=1)
        for beta in jump.maps
    )
    return Stage(jump.time, jump.after, (), _feature(covariances, int(np.argmax(after - before))))


def _feature(covariances: Covariances, place: int) -> dict[str, object]:
    value = float(np.sqrt(covariances.explained[1][place]))
    return {"kind": "singular-mode", "index": place, "value": value}


def _place(covariances: Covariances, output: np.ndarray) -> int:
    """Which mode of mu has this direction of outputs."""
    return int(np.argmax(np.abs(covariances.explained[0].T @ output)))


def _distinct(covariances: Covariances) -> Assumption:
    sigma = covariances.singular[1]
    gaps = 1 - sigma[1:] / sigma[:-1]
    closest = float(gaps.min()) if len(gaps) else None
    return Assumption(
        "distinct singular values: smallest relative gap",
        closest is None or closest > _SAME,
        closest,
        "above 0; from a random start modes that are close are learned in the order in which the start "
        "favors them",
    )


def _separate(jumps: tuple[Jump, ...], covariances: Covariances) -> Assumption:
    """Jumps last for some 1/sigma: nearer ones are no staircase."""
    times, fastest = np.array([0.0, *(jump.time for jump in jumps)]), covariances.singular[1]
    waits = np.diff(times) * (fastest[-1] if len(fastest) else 1.0)
    least = float(waits.min()) if len(waits) else None
    return Assumption(
        "separate jumps: shortest plateau, in units of 1/sigma of the weakest mode",
        least is None or least > 1,
        least,
        "well above 1; below, two steps may be seen as one",
    )

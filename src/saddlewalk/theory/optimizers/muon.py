r"""Muon on linear networks with white inputs: all modes at one rate, the small ones finish first.

The gradients of both layers share the singular vectors of what is left of the map once the layers are
aligned, which takes a way of the size of the start. Their orthogonalization moves every singular value t of
each layer by the learning rate in a step. On the clock :math:`\tau = \eta k`

.. math:: t_i(\tau) = \min(\alpha + \tau, \sqrt{\sigma_i}), \qquad
          L = L_0 - \sum_i \Big(\sigma_i t_i^2 - \tfrac12 t_i^4\Big) :

mode i is learned at :math:`k = \sqrt{\sigma_i}/\eta`, whatever the scale, and
:math:`\sqrt{P^\top P} - \sqrt{Q Q^\top}` of the layers P and Q is kept from then on. Newton-Schulz steps make
numbers between 0.7 and 1.2 of the ones of an orthogonalization: they are followed by method "numeric".
"""

from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from saddlewalk.curves import LossCurve, Stage, find_jumps
from saddlewalk.optimizers import AbstractOptimizer, Muon
from saddlewalk.problem import Problem
from saddlewalk.tasks import Moments
from saddlewalk.theory.base import Outcome
from saddlewalk.theory.optimizers.base import (
    AbstractStepsTheory,
    end_of,
    resting_share,
    staircase_or_slide,
)
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import Dense

_POINTS = 4000
_WHITE = 1e-9
_MATTERS = 0.1
"""Part of the largest mode above which one matters to the loss, which goes like its square."""


class MuonOnLinear(AbstractStepsTheory):
    """Two linear layers, inputs white, enough units for all modes."""

    any_start: ClassVar[bool] = False
    methods: ClassVar[tuple[str, ...]] = ("closed",)
    references: ClassVar[tuple[str, ...]] = (
        "rhee2026muon: Rhee, Simon and Karkada, arXiv 2606.30509, one rate for all modes",
        "muon2026modes: arXiv 2603.00742, modes under orthogonalized updates",
    )

    @classmethod
    def covers(cls, problem: Problem, rule: AbstractOptimizer) -> bool:
        """Linear neurons, white inputs, squared loss."""
        units, task = problem.units, problem.task
        if not (
            isinstance(rule, Muon)
            and rule.newton_schulz == 0
            and rule.weight_decay == 0
            and not rule.shape_factor
            and isinstance(units, Dense)
            and units.activation == "linear"
            and isinstance(task, Moments)
            and problem.squared
            and bool(np.all(np.asarray(problem.rates) == 1))
        ):
            return False
        x = np.asarray(task.x)
        gram = x.T @ x
        white = np.abs(gram - gram[0, 0] * np.eye(len(gram))).max() <= _WHITE * abs(gram[0, 0])
        return bool(white) and problem.width >= min(task.inputs, task.outputs)

    @property
    def _data(self) -> tuple[np.ndarray, np.ndarray]:
        task = cast(Moments, self.start.problem.task)
        return np.asarray(task.x), np.asarray(task.y)

    @cached_property
    def modes(self) -> np.ndarray:
        """Singular values of the map to be learned; inputs of variance s count s times."""
        x, y = self._data
        return np.linalg.svd(y.T @ x, compute_uv=False)

    @property
    def variance(self) -> float:
        """Of each input."""
        x, _ = self._data
        return float((x.T @ x)[0, 0])

    @cached_property
    def closed(self) -> Outcome:
        """The modes in the limit of small steps, and the curve they make."""
        sigma, variance = self.modes, self.variance
        targets = np.sqrt(sigma / variance)
        time, t = self._motion(targets)
        first = float(self.start.problem.loss(0 * self.start.theta))
        gained = np.sum(sigma * t**2 - 0.5 * variance * t**4, axis=1)
        loss = first - gained
        share = resting_share(time, loss)
        curve = LossCurve(time, loss, np.gradient(loss, time))
        order = [
            int(k) for k in np.argsort(targets, kind="stable") if targets[k] > 1e-6 * targets[0]
        ]
        names = self.start.problem.task.modes()
        features = (
            [dict(names.names[k]) for k in order] if names is not None else [{"kind": "adjustment"}]
        )
        stages = tuple(
            Stage(time=jump.time, loss=jump.after, units=(), feature=_together(features))
            for jump in find_jumps(curve)
        )
        return Outcome(
            stages=stages,
            stopped=end_of(share),
            assumptions=(staircase_or_slide(share),),
            curve=(time, loss),
            initial_loss=first,
        )

    @property
    def finished(self) -> np.ndarray:
        """When each mode is learned, on the clock of the learning rate."""
        targets = np.sqrt(self.modes / self.variance)
        return np.maximum(targets - self.start.scale, 0.0)

    def _motion(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Singular values of each layer along the clock."""
        time = np.linspace(0.0, 1.2 * float(targets.max()), _POINTS)
        return time, np.minimum(self.start.scale + time[:, None], targets)

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """Small steps and a small start."""
        rate = float(self.rule.learning_rate)
        # modes that matter to the loss: steps keep the others as far from rest as they are large
        mattering = self.modes[self.modes >= _MATTERS * self.modes.max()]
        least = float(np.sqrt(mattering.min() / self.variance))
        return (
            Assumption(
                "steps are small beside the weights that are learned: learning rate over their size",
                rate < 0.05 * least,
                rate / least,
                "below 0.05: modes come no nearer to where they belong than a step",
            ),
        )


def _together(features: list[dict[str, Any]]) -> dict[str, Any]:
    """Modes in the order in which they are finished."""
    return {**features[0], "others": features[1:]} if len(features) > 1 else features[0]

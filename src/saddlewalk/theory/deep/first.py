"""`predict` for any deep network: the first stage, and nothing that is not known about the later ones."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from saddlewalk.curves import Stage, Stopped
from saddlewalk.curves.stages import acceleration
from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.landscape.hidden import hidden_layers
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.tasks import AbstractTask, from_arrays
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.deep.escape import Escape, first_escape, small_layers
from saddlewalk.theory.deep.networks import AbstractNetwork, OfLandscape, OfProblem, Vector
from saddlewalk.theory.staircase import Assumption, Staircase
from saddlewalk.units import AbstractUnits, Deep

_REFERENCES = (
    "rawal2026escape: Rawal and DeWeese, arXiv 2605.01288, escape time eps^-(r-2), r small layers",
    "kunin2025agf: Alternating Gradient Flows, section 2: dormant weights climb their utility",
)
_COARSE = 1e-12
"""Rounding above which a start on the sphere cannot be followed."""


class FirstEscapeTheory(AbstractTheory[AbstractTask, AbstractUnits]):
    """Networks that are no sum of units: their first escape from a small start."""

    methods: ClassVar[tuple[str, ...]] = ("numeric",)
    references: ClassVar[tuple[str, ...]] = _REFERENCES

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Whatever is no sum of units."""
        return not problem.units.additive and not problem.adaptive

    @classmethod
    def example(cls) -> Start:
        """A network of three layers on a product of two inputs and a little more."""
        x = np.random.default_rng(0).normal(size=(30, 2))
        task = from_arrays(x, np.tanh(x[:, 0] + 0.5 * x[:, 1]))
        return Start(Problem(task, Deep.of(3, 3, "tanh")), 1e-2)

    @cached_property
    def _network(self) -> OfProblem:
        return OfProblem(self.start.problem)

    @cached_property
    def _escape(self) -> Escape | None:
        weights = np.asarray(self.start.theta)[0]
        return first_escape(self._network, weights, max_time=self.start.max_time)

    @cached_property
    def numeric(self) -> Outcome:
        """The way on the sphere, and the first jump in real time."""
        if self._escape is None:
            return Outcome((), Stopped.LIMIT)
        return outcome_of(self._network, self._escape)

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """Which layers start small, and by how much."""
        return (_small(self._network, np.asarray(self.start.theta)[0]),)


def outcome_of(network: AbstractNetwork, escape: Escape) -> Outcome:
    """The first stage, and what it rests on.

    Parameters
    ----------
    network : its layers.
    escape : what was found.
    """
    jump, size = escape.jump, min(escape.size, 0.5)
    learned = jump.after <= 1e-6 * jump.before
    return Outcome(
        stages=(Stage(jump.time, jump.after, (), looks_at(network, escape.end)),),
        stopped=Stopped.LEARNED if learned else Stopped.FIRST_STAGE,
        assumptions=(_degree(escape), _plateau(escape), _rests(escape)),
        eta=acceleration(size, escape.degree),
        curve=(escape.curve.time, escape.curve.loss),
        initial_loss=jump.before,
        rhs_evaluations=escape.evaluations,
    )


@in_float64
def predict_first_escape(
    landscape: AbstractLandscape,
    weights: object = None,
    *,
    small: tuple[str, ...] | None = None,
    smooth: bool | None = None,
    max_time: float = np.inf,
) -> Staircase:
    """The first stage of any module from a start in which some or all of its layers are small.

    Parameters
    ----------
    landscape : the network, a probe and a loss, in double precision: for instance
        `saddlewalk.torch.ModuleLandscape(module, data, loss, dtype=torch.float64)`.
    weights : a vector or a state of the network; by default its weights as they are.
    small : names of the arrays that start small; found by their sizes if they are not named.
    smooth : whether the network has no kinks; tried on its hidden layers by default.
    max_time : as far as is looked; time is at learning rate 1.
    """
    if landscape.rounding > _COARSE:
        raise InputError(
            f"This network computes to {landscape.rounding:.2g}: what small layers do to each other is lost."
            " Give it in double precision, as ModuleLandscape(module, data, loss, dtype=torch.float64)."
        )
    if smooth is None:
        smooth = not any(layer.kinked for layer in hidden_layers(landscape))
    network, start = OfLandscape(landscape, smooth), landscape.weights_at(weights)
    escape = first_escape(network, start, small, max_time)
    which = small_layers(network, start, small)
    outcome = Outcome((), Stopped.LIMIT) if escape is None else outcome_of(network, escape)
    size = float(np.linalg.norm(start[which.mask]))
    eta = 1.0 if outcome.eta is None else outcome.eta
    curve = outcome.curve
    before = landscape.loss(np.where(which.mask, 0.0, start))
    return Staircase(
        setting="module",
        method="numeric",
        scale=size,
        seed=0,
        degree=2 if escape is None else escape.degree,
        eta=eta,
        initial_loss=before,
        stages=tuple(stage.accelerated(eta) for stage in outcome.stages),
        stopped=outcome.stopped,
        assumptions=(_small(network, start, small), *outcome.assumptions),
        references=_REFERENCES,
        curve=None if curve is None else (tuple(curve[0].tolist()), tuple(curve[1].tolist())),
        rhs_evaluations=outcome.rhs_evaluations,
    )


def _small(
    network: AbstractNetwork, weights: np.ndarray, named: tuple[str, ...] | None = None
) -> Assumption:
    which = small_layers(network, weights, named)
    ratio = which.largest / which.smallest
    return Assumption(
        f"layers that start small ({', '.join(which.names)}): their entries over those of the others",
        ratio < 0.1,
        ratio,
        "0 if all are small; else well below 1, or the network is of no one degree",
    )


def _degree(escape: Escape) -> Assumption:
    law = f"size^-{escape.exponent}" if escape.exponent else "log(1/size)"
    return Assumption(
        "degree r of the network in its small layers",
        escape.degree >= 2,
        float(escape.degree),
        f"at least 2, so that there is a plateau; the time to the jump goes like {law}",
    )


def _plateau(escape: Escape) -> Assumption:
    part = escape.waiting / escape.jump.time
    return Assumption(
        "small start: part of the time to the jump in which nothing is felt",
        part > 0.5,
        part,
        "near 1; the direction is found on the way, whatever the scale",
    )


def _rests(escape: Escape) -> Assumption:
    """Where the next jump begins before the first is over, its level is not that of a saddle."""
    drop = escape.jump.before - escape.jump.after
    last = escape.curve
    row = int(np.argmin(np.abs(last.loss - escape.jump.after)))
    fastest = float(-last.rate.min())
    part = float(-last.rate[row]) / fastest if fastest > 0 else 0.0
    return Assumption(
        "the first jump ends at rest: slowest fall of the loss after it, over the fastest in it",
        part < 0.1 and drop > 0,
        part,
        "near 0, as at a saddle; else the next feature is learned with the first",
    )


def looks_at(network: AbstractNetwork, weights: Vector) -> dict[str, Any]:
    """The direction of inputs that the first layer looks at, where it is a matrix of neurons by inputs.

    Parameters
    ----------
    network : its layers.
    weights : of the network; or what a stage added to them.
    """
    shape = network.first_shape
    first = weights[network.parts[0].place]
    if shape is None:
        vector = first / np.linalg.norm(first)
        return {"kind": "direction", "vector": vector.tolist()}
    matrix = first.reshape(shape)
    _, root, right = np.linalg.svd(matrix, full_matrices=False)
    turned = 1.0 if float((matrix @ right[0]).sum()) >= 0 else -1.0
    share = float(root[0] ** 2 / np.sum(root**2))
    return {"kind": "direction", "vector": (turned * right[0]).tolist(), "share": share}

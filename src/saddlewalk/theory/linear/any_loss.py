r"""Linear networks under any loss: :math:`G_0 = E[r_0 x^\top]`, by the residual at zero, is their Sigma_yx.

Dormant layers grow in the singular modes of :math:`G = -\nabla_\beta L`, whatever the loss; the first stage
is the top mode of :math:`G_0`, in the limit at :math:`\tau_1 = 1/\sigma_1`. The active ones go to the best
map of their rank, which no loss but the squared one has in closed form: it is found by descent. The gradient
it leaves has the singular values at which the others grow on, and utilities add up as ever
(`accumulated_times`).

The loss within a stage is taken along the straight line
:math:`\beta(c) = \beta_{k-1} + c\, (\beta_k - \beta_{k-1})`, on which the mode grows by
:math:`\dot c = 2 \sigma c\, \ell'(c) / \ell'(0)`: exact for one mode that does not turn, else a picture by
which stages that flow into each other are joined, and by which the first is seen to come to rest.

At finite scale, as long as the first mode keeps its direction (u, v), as it does for white inputs whose
classes are symmetric about it, its strength s follows

.. math:: \dot s = 2 s\, g(s), \quad g(s) = u^\top G(s\, u v^\top)\, v, \qquad
    t(s) = \int_{s_0}^s \frac{d s'}{2 s' g(s')}, \quad s_0 = \tfrac14 |u^\top A + v^\top W^\top|^2 .

For c equally frequent classes at orthonormal inputs, all modes at once from an aligned start,
:math:`g = 1/(e^s + c - 1)` and :math:`t = \tfrac12 [\mathrm{Ei}(s) + (c - 1) \log s]`.
"""

import math
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.curves import LossCurve, Stage, Stopped
from saddlewalk.curves.curve import FEWEST
from saddlewalk.problem import Problem
from saddlewalk.programs import compiled, seldom
from saddlewalk.tasks import Samples, gaussian_classes
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.linear.maps import accumulated_times
from saddlewalk.theory.losses import minimum_is_finite
from saddlewalk.theory.merging import merged_on
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import Dense

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_PANELS = 200
_EXHAUSTED = 1e-4
"""A gradient of this part of the first, or a loss of this part, teaches no further mode."""
_TURNED = 0.05
"""Part of the first stage's gain that its mode may miss without turning."""
_POLISH = 3000
_ROUNDING = 1e-12
"""Part of the mean length of r x, at zero, below which their mean is zero."""
_AT_REST = 0.01
"""Part of a stage's drop that is left when it counts as over."""
_STILL = 0.1
"""Part of the wait for a stage in which the one before may still be coming to rest."""
_ALONG = np.linspace(-16.0, 0.0, 1500)
"""Where a stage is looked at: log c."""

Map = Float[np.ndarray, "c d"]


class LinearLossTheory(AbstractTheory[Samples, Dense]):
    """Two linear layers under another loss than the squared one."""

    methods: ClassVar[tuple[str, ...]] = ("closed", "limit")
    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 4, appendix D",
        "li2021greedy: Li, Luo and Lyu, greedy low-rank learning, for any smooth loss",
        "soudry2018implicit: Soudry et al., the implicit bias of gradient descent on separable data",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Linear neurons with equal learning rates on samples, under another loss."""
        units = problem.units
        return (
            isinstance(units, Dense)
            and units.activation == "linear"
            and isinstance(problem.task, Samples)
            and not problem.squared
            and bool(np.all(np.asarray(problem.rates) == 1))
        )

    @classmethod
    def example(cls) -> Start:
        """Three clouds, which overlap."""
        task = gaussian_classes(samples=60, dim=4, separation=3.0)
        return Start(Problem(task, Dense(3, "linear"), "cross-entropy"), 1e-8)

    @cached_property
    def stages_of_rank(self) -> list[tuple[Map, float, Map]]:
        """The best map of each rank, its loss, and minus the gradient there; from rank 0 on."""
        task = self.task
        beta = np.zeros((task.outputs, task.inputs))
        found = [(beta, *self._loss_and_push(beta))]
        most = min(self.start.problem.width, task.outputs, task.inputs)
        if np.linalg.norm(found[0][2], 2) <= _ROUNDING * self._mean_length:
            return found  # a saddle that no linear unit leaves
        while len(found) <= most and not self._is_exhausted(*found[-1][1:]):
            found.append(self._best(found[-1]))
        return found

    def _is_exhausted(self, loss: float, push: Map) -> bool:
        problem = self.start.problem
        first, steepest = self._loss_and_push(np.zeros_like(push))
        least = problem.infimum or 0.0
        small = np.linalg.norm(push, 2) <= _EXHAUSTED * np.linalg.norm(steepest, 2)
        return bool(small or loss - least <= _EXHAUSTED * (first - least))

    @property
    def _mean_length(self) -> float:
        """E |r_0| |x|, by which the rounding of G_0 = E[r_0 x] is measured."""
        task = self.task
        slopes = _first_slopes(self.start.problem.sample_loss, np.asarray(task.y, dtype=float))
        lengths = np.linalg.norm(slopes, axis=1) * np.linalg.norm(task.x, axis=1)
        return float(np.asarray(task.weights) @ lengths)

    def _best(self, before: tuple[Map, float, Map]) -> tuple[Map, float, Map]:
        """The map of one rank more to which descent leads, with the top mode of the gradient added."""
        from scipy.optimize import minimize

        beta, _, push = before
        left, values, right = np.linalg.svd(beta, full_matrices=False)
        keep = values > 1e-9 * max(values.max(initial=0.0), 1e-300)
        u, _, v = np.linalg.svd(push)
        root = np.sqrt(values[keep])
        a = np.hstack([left[:, keep] * root, 0.1 * u[:, :1]])
        w = np.vstack([root[:, None] * right[keep], 0.1 * v[:1]])

        def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
            a_, w_ = flat[: a.size].reshape(a.shape), flat[a.size :].reshape(w.shape)
            loss, gap = self._loss_and_push(a_ @ w_)
            return loss, -np.concatenate([(gap @ w_.T).ravel(), (a_.T @ gap).ravel()])

        start = np.concatenate([a.ravel(), w.ravel()])
        options = {"maxiter": _POLISH, "maxfun": 2 * _POLISH, "ftol": 1e-15, "gtol": 1e-10}
        found = minimize(cost, start, jac=True, method="L-BFGS-B", options=options).x
        best = found[: a.size].reshape(a.shape) @ found[a.size :].reshape(w.shape)
        return best, *self._loss_and_push(best)

    @cached_property
    def limit(self) -> Outcome:
        """Order and times for a vanishing scale: singular values of what each rank leaves, accumulated."""
        self.start.check_dormant()
        eta = -math.log(self.start.norm)
        return self._staircase([eta * time for time in self._accelerated], eta)

    @cached_property
    def _accelerated(self) -> list[float]:
        rates = [np.linalg.svd(push, compute_uv=False) for _, _, push in self.stages_of_rank[:-1]]
        count = len(rates)
        return accumulated_times([sigma[: count - k] for k, sigma in enumerate(rates)])

    @cached_property
    def closed(self) -> Outcome:
        """The first stage from the actual start, by its integral; the later ones as long after it as in the
        limit."""
        self.start.check_dormant()
        eta = -math.log(self.start.norm)
        if not self._accelerated:
            return self._staircase([], eta)
        first, *later = self._accelerated
        time = self._first_time()
        outcome = self._staircase([time, *(time + eta * (tau - first) for tau in later)], eta)
        return outcome.until(self.start.max_time)

    def _first_time(self) -> float:
        """When the first mode alone passes the middle of its stage, from the strength at the start."""
        (_, first, push), (_, level, _) = self.stages_of_rank[:2]
        u, _, v = np.linalg.svd(push)
        mode = np.outer(u[:, 0], v[0])
        theta, inputs = np.asarray(self.start.theta), self.task.inputs
        seed = 0.5 * (theta[:, inputs:] @ u[:, 0] + theta[:, :inputs] @ v[0])
        strength = float(seed @ seed)

        def along(log_s: Any) -> tuple[np.ndarray, np.ndarray]:
            losses, slopes = _along(self._parts, mode, np.exp(np.atleast_1d(log_s)))
            return np.asarray(losses), -np.asarray(slopes)

        start, end = (
            math.log(strength),
            self._end_of(along, 0.5 * (first + level), math.log(strength)),
        )
        edges = np.concatenate([[start], end - np.geomspace(end - start, 1e-3, _PANELS)[1:], [end]])
        middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
        nodes = middle[:, None] + half[:, None] * _NODES
        rate = along(nodes.ravel())[1].reshape(nodes.shape)
        return float(np.sum(half * np.sum(_WEIGHTS / (2 * rate), axis=1)))

    @staticmethod
    def _end_of(along: Any, level: float, start: float) -> float:
        """The logarithm of the strength at which the loss falls to a level, or to the mode's own middle."""
        from scipy.optimize import brentq

        grid = np.linspace(start, 8.0, 2000)
        losses = along(grid)[0]
        lowest = losses.min()
        level = max(level, 0.5 * (losses[0] + lowest))
        k = int(np.argmax(losses <= level))
        return float(brentq(lambda s: along(s)[0][0] - level, grid[k - 1], grid[k], xtol=1e-14))

    def _staircase(self, times: list[float], eta: float) -> Outcome:
        ranks = self.stages_of_rank
        stages = [
            Stage(time, loss, (), _mode(before[2], place))
            for place, (time, before, (_, loss, _)) in enumerate(
                zip(times, ranks[:-1], ranks[1:], strict=True)
            )
        ]
        _, last, push = ranks[-1]
        initial = ranks[0][1]
        assumptions: tuple[Assumption, ...] = ()
        joined: tuple[Stage, ...] = tuple(stages)
        falls = [fall for k, time in enumerate(times) if (fall := self._fall(k, time)) is not None]
        if len(falls) == len(stages) > 1:
            joined = merged_on(stages, _together(falls, ranks[-1][1]), initial)
            assumptions = (_later_as_in_limit(falls[0], times),)
        return Outcome(
            joined, self._stopped(last, push), assumptions, eta=eta, initial_loss=initial
        )

    def _fall(self, place: int, middle: float) -> LossCurve | None:
        """What a stage has left to take, along a straight line from map to map; half of it at `middle`.

        Nothing is said where a loss that is not convex rises along that line at once.
        """
        (before, high, push), (after, low, _) = self.stages_of_rank[place : place + 2]
        c = np.exp(_ALONG)
        losses, slopes = (np.asarray(one) for one in _along(self._parts, after - before, c, before))
        steepest = float(np.sum(push * (after - before)))
        speed = -2 * np.linalg.norm(push, 2) * slopes / steepest
        falls = (slopes < 0) & (losses > low + _EXHAUSTED * (high - low))
        end = int(np.argmin(falls)) if not falls.all() else len(falls)
        if end < FEWEST:
            return None
        pace = 1 / speed[:end]
        time = np.append(0.0, np.cumsum(0.5 * (pace[1:] + pace[:-1]) * np.diff(_ALONG[:end])))
        left = losses[:end] - low
        time += middle - np.interp(-0.5 * (high - low), -left, time)
        return LossCurve(time, left, (slopes * c * speed)[:end])

    def _stopped(self, loss: float, push: Map) -> Stopped:
        problem = self.start.problem
        least, first = problem.infimum or 0.0, self.stages_of_rank[0][1]
        if problem.separation is not None and loss - least <= _EXHAUSTED * (first - least):
            return Stopped.SEPARATED
        return Stopped.NO_UTILITY if self._is_exhausted(loss, push) else Stopped.NO_DORMANT

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """A small start, modes apart, a first mode that keeps its direction, and where the minimum is."""
        norm = self.start.norm
        sigma = np.linalg.svd(self.stages_of_rank[0][2], compute_uv=False)
        found = len(self.stages_of_rank) > 1
        sigma = sigma[sigma > _EXHAUSTED * sigma[0]] if found else sigma[:0]
        gap = float((1 - sigma[1:] / sigma[:-1]).min(initial=1.0))
        blur = -1 / math.log(norm) if norm < 1 else math.inf
        missed = self._missed()
        return (
            Assumption("initial norm of a unit", norm < 1, norm, "below 1; the smaller the better"),
            Assumption(
                "distinct singular values of the residual at zero: smallest relative gap",
                gap > blur,
                gap,
                f"above 1/log(1/norm) = {blur:.2g}; below, modes come together",
            ),
            Assumption(
                "the first mode keeps its direction: part of its stage's gain that it misses without turning",
                missed < _TURNED,
                missed,
                "near 0 for the time of the first stage in closed form; 'numeric' follows the turn",
            ),
            *minimum_is_finite(self.start.problem),
        )

    def _missed(self) -> float:
        (_, first, push), *others = self.stages_of_rank[:2]
        if not others:
            return 0.0
        u, _, v = np.linalg.svd(push)
        strengths = np.exp(np.linspace(-12.0, 6.0, 2000))
        losses = np.asarray(_along(self._parts, np.outer(u[:, 0], v[0]), strengths)[0])
        level = others[0][1]
        return float(max(losses.min() - level, 0.0) / max(first - level, 1e-300))

    @cached_property
    def _parts(self) -> tuple[Any, ...]:
        task = self.task
        arrays = (np.asarray(one, dtype=float) for one in (task.x, task.y, task.weights))
        return self.start.problem.sample_loss, *arrays

    def _loss_and_push(self, beta: Map) -> tuple[float, Map]:
        loss, gradient = _loss_and_gradient(self._parts, beta)
        return float(loss), -np.asarray(gradient)


def _together(falls: list[LossCurve], lowest: float) -> LossCurve:
    """The loss of stages that do not know of each other: the sum of what each has left to take."""
    time = np.unique(np.concatenate([fall.time for fall in falls]))
    time = time[time > 0]
    loss, rate = np.full(len(time), lowest), np.zeros(len(time))
    for fall in falls:
        loss += np.interp(time, fall.time, fall.loss, right=0.0)
        rate += np.interp(time, fall.time, fall.rate, left=0.0, right=0.0)
    return LossCurve(time, loss, rate)


def _later_as_in_limit(first: LossCurve, times: list[float]) -> Assumption:
    """How much of the wait for the second stage the first one takes to come to rest."""
    after = first.crossing(_AT_REST * float(first.loss[0]))
    part = (after - times[0]) / (times[1] - times[0])
    part = part if math.isfinite(part) else math.inf
    return Assumption(
        "later stages as in the limit: part of the wait for the second in which the first comes to rest",
        part < _STILL,
        part,
        f"below {_STILL:g}, since the first is taken to rest at once; 'numeric' follows it",
    )


def _mode(push: Map, place: int) -> dict[str, Any]:
    """A singular mode of the gradient, and the input direction that it reads."""
    _, sigma, right = np.linalg.svd(push)
    vector = right[0] * (1.0 if right[0][np.argmax(np.abs(right[0]))] > 0 else -1.0)
    return {"kind": "direction", "vector": vector.tolist(), "value": float(sigma[0])}


def _cost(parts: tuple[Any, ...], beta: Array) -> Array:
    sample_loss, x, y, weights = parts
    outputs = jnp.asarray(x) @ beta.T
    return jnp.sum(weights * jax.vmap(sample_loss)(outputs, jnp.asarray(y)))


@seldom
def _first_slopes(sample_loss: Any, y: Any) -> Array:
    """Of each sample's loss, at outputs of zero."""
    return jax.vmap(jax.grad(sample_loss))(jnp.zeros_like(y), jnp.asarray(y))


@compiled
def _loss_and_gradient(parts: tuple[Any, ...], beta: Any) -> tuple[Array, Array]:
    return jax.value_and_grad(lambda b: _cost(parts, b))(jnp.asarray(beta))


@compiled
def _along(
    parts: tuple[Any, ...], mode: Any, strengths: Any, start: Any = 0.0
) -> tuple[Array, Array]:
    cost = lambda s: _cost(parts, start + s * jnp.asarray(mode))  # noqa: E731
    return jax.vmap(jax.value_and_grad(cost))(jnp.asarray(strengths))

r"""Training ahead of itself: what the loss of a network will do, at a small part of the price of its
training.

A training on a plateau makes thousands of steps that hardly differ. Whatever the network is, its weights
and a probe of the data are at hand, and the optimizer's own law: so it can be followed with steps as
long as what grows allows, not as short as what has been learned demands.

- **Descent** follows gradient flow :math:`\dot w = -\nabla L` (`follow_flow`): stabilized steps, of
  which one with s gradients reaches :math:`0.65 s^2/\lambda` where a step of descent reaches less than
  :math:`2/\lambda`; the error is measured on each unit by itself, so that what is small and grows next
  is followed as well as what is large. No step is shorter than one of the training. Finite steps and
  momentum delay what grows (`rules`).
- **Adam and its kin** are followed by their own recursion, many steps at once (`follow_adaptive`), from
  the means that the optimizer has. What minibatches add to the mean squares, :math:`v - g^2`, is kept.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from saddlewalk.landscape import AbstractLandscape
from saddlewalk.watch.rules import Adaptive, Descent, Rule, Vector, clipped
from saddlewalk.watch.stabilized import chebyshev_step, stages_for

_TOLERANCE = 2e-3
"""Error of a step, relative to each unit."""
_MOST_STAGES, _SHORTEST = 200, 5
"""Gradients of a step at most, and those that the last one may take where no more are left."""
_POWERS = 8
_GROW, _SHRINK, _SAFETY = 3.0, 0.2, 0.8
_RESOLVED = 100
"""Adaptive steps are joined so that the time trained so far would be so many of them."""
_JUMPY = 1.5
"""A loss that rises by this factor shows that too many steps were joined."""

Curve = Float[np.ndarray, " point"]


@dataclass(frozen=True)
class Ahead:
    """The future of a training, as far as it was followed."""

    steps: Curve
    """Steps of the optimizer from now, at its present rate."""
    loss: Curve
    """On the probe; of data that are held out, where those are asked for."""
    slope: Curve
    """How the loss changes in one step."""
    force: Curve
    """Length of the velocity."""
    sizes: Float[np.ndarray, "point unit"]
    """Length of each unit."""
    hidden: Bool[np.ndarray, " unit"]
    """Which of them are rows of a matrix that is not the last one."""
    evaluations: int
    """Gradients that it took."""
    noise_share: float = 0.0
    """Part of the mean squares of an adaptive optimizer that is noise of its batches."""
    steep: Vector | None = None
    """Weights where the loss falls fastest in the logarithm of time."""


Enough = Callable[[list[float], list[float]], bool]
"""Whether steps and losses so far tell enough."""
Told = Callable[[Vector], float]
"""The loss that is told, where it is another one than that which is trained."""


def train_ahead(
    landscape: AbstractLandscape,
    weights: Vector,
    rule: Rule,
    *,
    horizon: float,
    most: int,
    enough: Enough = lambda steps, loss: False,
    elapsed: float = math.nan,
    told: Told | None = None,
) -> Ahead:
    """Follow a training from here.

    Parameters
    ----------
    landscape : the network with a probe and its loss.
    weights : where it is.
    rule : what trains it.
    horizon : steps at most.
    most : gradients at most.
    enough : whether what was seen tells enough.
    elapsed : steps made so far, on which the resolution of adaptive steps depends.
    told : the loss to tell, of weights; by default the one that is trained.
    """
    if isinstance(rule, Descent):
        return follow_flow(landscape, weights, rule, horizon, most, enough, told)
    return follow_adaptive(landscape, weights, rule, horizon, most, enough, elapsed, told)


class _Path:
    """What is kept along the way."""

    def __init__(self, blocks: "Blocks", told: Told | None) -> None:
        self.blocks, self.told = blocks, told
        self.steps: list[float] = []
        self.loss: list[float] = []
        self.slope: list[float] = []
        self.force: list[float] = []
        self.sizes: list[np.ndarray] = []
        self.noise_share = 0.0
        self.steep: Vector | None = None
        self._fastest = 0.0

    def add(self, step: float, loss: float, slope: float, force: Vector, weights: Vector) -> None:
        loss = loss if self.told is None else self.told(weights)
        if self.steps and self.steps[-1] > 0:
            fall = (self.loss[-1] - loss) / math.log(step / self.steps[-1])
            if (
                fall > self._fastest
            ):  # what noise has shaken settles soon, and counts little on this clock
                self.steep, self._fastest = weights, fall
        self.steps.append(step)
        self.loss.append(loss)
        self.slope.append(slope)
        self.force.append(float(np.linalg.norm(force)))
        self.sizes.append(self.blocks.lengths(weights))

    def ahead(self, evaluations: int) -> Ahead:
        steps, loss, slope = (np.asarray(c) for c in (self.steps, self.loss, self.slope))
        if self.told is not None:  # gradients are of the other one
            slope = np.gradient(loss, steps) if len(steps) > 1 else np.zeros(len(steps))
        return Ahead(
            steps=steps,
            loss=loss,
            slope=slope,
            force=np.asarray(self.force),
            sizes=np.asarray(self.sizes),
            hidden=self.blocks.hidden,
            evaluations=evaluations,
            noise_share=self.noise_share,
            steep=self.steep,
        )


class Blocks:
    """Units of any network: each row of a matrix or of a kernel with its bias, and each other vector.

    A bias by itself may pass through zero: what is small then is not what grows.

    Parameters
    ----------
    landscape : the network.
    """

    def __init__(self, landscape: AbstractLandscape) -> None:
        owner: list[np.ndarray] = []
        names: list[tuple[str, int | None]] = []
        first: dict[str, tuple[int, int]] = {}
        for one in landscape.parameters:
            layer, _, kind = one.name.rpartition(".")
            rows = one.shape[0] if len(one.shape) > 1 else 1
            known = first.get(layer) if kind == "bias" else None
            if known is not None and one.shape == (known[1],):
                owner.append(known[0] + np.arange(one.size))
                continue
            if kind == "weight" and len(one.shape) > 1:
                first[layer] = (len(names), rows)
            owner.append(len(names) + np.repeat(np.arange(rows), one.size // max(rows, 1)))
            names += [(one.name, row if len(one.shape) > 1 else None) for row in range(rows)]
        self.owner = np.concatenate(owner)
        self.names = names
        self.count = len(names)
        last = next((name for name, row in reversed(names) if row is not None), None)
        inner = np.array([row is not None and name != last for name, row in names])
        self.hidden = inner if inner.any() else np.ones(self.count, dtype=bool)

    def lengths(self, vector: Vector) -> Float[np.ndarray, " unit"]:
        """Length of each unit's part of a vector.

        Parameters
        ----------
        vector : one number for each weight.
        """
        return np.sqrt(np.bincount(self.owner, vector * vector, self.count))

    def name(self, unit: int) -> str:
        """What a unit is called.

        Parameters
        ----------
        unit : its number.
        """
        name, row = self.names[unit]
        layer = name.rpartition(".")[0] or name
        layer = f"layer {layer}" if layer.isdigit() else layer
        return layer if row is None else f"unit {row} of {layer}"


def follow_flow(
    landscape: AbstractLandscape,
    weights: Vector,
    rule: Descent,
    horizon: float,
    most: int,
    enough: Enough,
    told: Told | None = None,
) -> Ahead:
    """Gradient flow in stabilized steps, timed in steps of the optimizer.

    Parameters
    ----------
    landscape, weights, rule, horizon, most, enough, told : as for `train_ahead`.
    """
    blocks, pace, decay = Blocks(landscape), rule.relative_rate, rule.decay
    path, calls = _Path(blocks, told), 0

    def look(place: Vector) -> tuple[float, float, Vector]:
        """Loss, its slope in one step, and velocity."""
        nonlocal calls
        calls += 1
        loss, gradient = landscape.loss_and_gradient(place)
        velocity = -pace * (clipped(gradient, rule.clip) + decay * place)
        return loss, float(gradient @ velocity) * rule.time_per_step, velocity

    def push(place: Vector) -> Vector:
        return look(place)[2]

    loss, slope, force = look(weights)
    floor = 1e-9 * float(np.linalg.norm(weights)) + 1e-300
    probe = math.sqrt(landscape.rounding)
    radius, way = _radius(push, weights, force, None, _POWERS, probe)
    end, time, least = horizon * rule.time_per_step, 0.0, rule.time_per_step
    step = min(0.3 / max(radius, 1e-300), end)
    path.add(0.0, loss, slope, force, weights)
    while time < end and calls < most:
        step = min(step, end - time)
        stages, longest = stages_for(step * radius), max(min(_MOST_STAGES, most - calls), _SHORTEST)
        if stages > longest:
            step *= 0.9 * (longest / stages) ** 2
            continue
        place = chebyshev_step(push, weights, force, step, stages)
        after, slope, force_after = look(place)
        error = 0.8 * (weights - place) + 0.4 * step * (force + force_after)
        size = np.maximum(blocks.lengths(weights), blocks.lengths(place)) + floor
        worst = float(np.max(blocks.lengths(error) / size)) / _TOLERANCE
        if not math.isfinite(worst) or not math.isfinite(after):
            step *= _SHRINK
            continue
        # what the training does not resolve need not be resolved here
        if worst <= 1 or step <= least:
            time += step
            weights, force, loss = place, force_after, after
            path.add(time / rule.time_per_step, loss, slope, force, weights)
            if enough(path.steps, path.loss):
                break
            radius, way = _radius(push, weights, force, way, 1, probe)
        step *= min(_GROW, max(_SHRINK, _SAFETY * max(worst, 1e-9) ** (-1 / 3)))
        step = max(step, least)
    return path.ahead(calls)


def _radius(
    push: Callable[[Vector], Vector],
    place: Vector,
    force: Vector,
    way: Vector | None,
    times: int,
    probe: float,
) -> tuple[float, Vector]:
    """The largest rate at which anything changes, by power iterations on differences of the force."""
    way = np.random.default_rng(0).normal(size=place.shape) if way is None else way
    way = way / max(float(np.linalg.norm(way)), 1e-300)
    length, found = probe * max(float(np.linalg.norm(place)), 1e-3), 0.0
    for _ in range(times):
        image = (push(place + length * way) - force) / length
        found = float(np.linalg.norm(image))
        if not 0 < found < math.inf:
            break
        way = image / found
    return found, way


def follow_adaptive(
    landscape: AbstractLandscape,
    weights: Vector,
    rule: Adaptive,
    horizon: float,
    most: int,
    enough: Enough,
    elapsed: float,
    told: Told | None = None,
) -> Ahead:
    """The recursion of Adam, many steps at once; fewer at once where the loss jumps.

    Parameters
    ----------
    landscape, weights, rule, horizon, most, enough, elapsed, told : as for `train_ahead`.
    """
    known = rule.count if math.isnan(elapsed) else elapsed
    joined = max(1, int(max(known / _RESOLVED, horizon / most)))
    calls = 0
    while True:
        path, used, jumped = _adaptive_path(
            landscape, weights, rule, horizon, most - calls, enough, joined, told
        )
        calls += used
        if not jumped or joined == 1 or calls >= most:
            return path.ahead(calls)
        joined = max(1, joined // 3)


def _adaptive_path(
    landscape: AbstractLandscape,
    weights: Vector,
    rule: Adaptive,
    horizon: float,
    most: int,
    enough: Enough,
    joined: int,
    told: Told | None,
) -> tuple[_Path, int, bool]:
    path, noise = _Path(Blocks(landscape), told), None
    first, second, count = rule.first, rule.second, float(rule.count)
    keep1, keep2 = rule.beta1**joined, rule.beta2**joined
    step, lowest, began = 0.0, math.inf, math.nan
    for calls in range(1, max(most, 1) + 1):
        loss, gradient = landscape.loss_and_gradient(weights)
        path.add(step, loss, 0.0, gradient, weights)
        lowest, began = min(lowest, loss), loss if step == 0 else began
        if not math.isfinite(loss) or loss > _JUMPY * max(lowest, 1e-3 * began):
            return path, calls, True
        if step >= horizon or enough(path.steps, path.loss):
            path.slope[-1] = path.slope[max(len(path.slope) - 2, 0)]  # there is no step from here
            break
        uphill, gradient = gradient, clipped(gradient, rule.clip)
        if not rule.decoupled:
            gradient = gradient + rule.decay * weights
        if noise is None:  # what minibatches add to the mean square
            noise = rule.noise(gradient) if rule.count else np.zeros_like(gradient)
            whole = max(float(np.sum(rule.mean_square)), 1e-300)
            path.noise_share = min(float(np.sum(noise)) / whole, 1.0)
        count += joined
        first = keep1 * first + (1 - keep1) * gradient
        second = keep2 * second + (1 - keep2) * (gradient**2 + noise)
        change = rule.change(gradient, first, second, count)
        kept = (1 - rule.rate * rule.decay) ** joined if rule.decoupled else 1.0
        way = joined * change - (1 - kept) * weights
        path.slope[-1] = float(uphill @ way) / joined
        weights = weights + way
        step += joined
    return path, calls, False

"""The walk of a deep linear network from saddle to saddle, at finite scale and in real time.

.. code-block:: text

      PLATEAU: k directions of each hidden space rest; the others climb on the sphere (`sphere`), in the
         |     gradient that those leave, until their product would change it
         v
      TRANSITION: all layers follow gradient flow, for as long as anything but the dormant ones moves
         |
         +---> PLATEAU of higher rank, until nothing is left, or no hidden direction is

A plateau costs the same however long it lasts. Where modes are so close, or scales so large, that nothing
rests between two jumps, the transition goes on through both.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import LossCurve, Stopped, find_jumps
from saddlewalk.curves.jumps import jump_between
from saddlewalk.ode.plain import follow
from saddlewalk.theory.deep.layers import Chain, climb_of, flow_of, gradient_of, losses
from saddlewalk.theory.deep.sphere import Climbed, climb_sphere
from saddlewalk.theory.linear import Covariances

_FELT = 1e-3
"""The dormant part is felt when its product changes the gradient by this part."""
_REST = 1e-5
"""A transition is over when the velocity has fallen to this part of its largest."""
_NOTHING = 1e-6
"""Part of the first loss that is as good as none."""
_ERROR = 1e-9
"""Of a step of a transition: more, and the velocity never falls as far where stability limits steps."""
_ERROR_CLIMBING = 1e-8
"""The same on a plateau."""
_LARGE = 1e-2
"""Singular values of a map below this part of the largest are no directions in use."""
_OFTEN = 12.0
"""Growth, in the exponent, after which hidden spaces are turned anew: small directions lose digits else."""


class Jump(NamedTuple):
    """One step of the loss."""

    time: float
    before: float
    after: float
    maps: tuple[Float[np.ndarray, "c r"], Float[np.ndarray, "c r"]]
    """beta on the plateau before and on the one after."""


class Walked(NamedTuple):
    """A walk that has come to its end."""

    jumps: tuple[Jump, ...]
    curve: LossCurve
    stopped: Stopped
    evaluations: int


def walk(covariances: Covariances, start: Chain, max_time: float = math.inf) -> Walked:
    """From plateau to plateau until nothing is left to learn.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    start : the layers at the start.
    max_time : stop there in any case.
    """
    chain, time, evaluations = start, 0.0, 0
    untrained = covariances.floor + 0.5 * float(np.sum(covariances.target**2))
    rows = [np.array([[0.0, untrained, 0.0]])]
    maps = [np.zeros_like(start.map)[None]]
    landings, rank, stopped = [0], 0, Stopped.LIMIT
    for _ in range(10 + 4 * start.width):
        gradient = gradient_of(covariances, _active(chain, rank))
        if rows[-1][-1, 1] - covariances.floor <= _NOTHING * (untrained - covariances.floor):
            stopped = Stopped.LEARNED
            break
        if rank >= chain.width:
            stopped = Stopped.NO_DORMANT
            break
        lasted, chain, spent = _plateau(covariances, chain, gradient, rank)
        evaluations += spent
        if lasted is None:
            stopped = Stopped.NO_UTILITY
            break
        if time + lasted >= max_time:
            rows.append(np.array([[max_time, rows[-1][-1, 1], 0.0]]))
            maps.append(maps[-1][-1:])
            break
        time += lasted
        moved = follow(
            flow_of(covariances, chain),
            chain.vector,
            _Rested(flow_of(covariances, chain)),
            rtol=_ERROR,
            atol=_ERROR * min(1.0, float(np.abs(chain.beyond(rank).vector).mean()) + 1e-12),
            max_time=max_time - time,
        )
        evaluations += moved.evaluations
        rows.append(np.c_[time + moved.time, losses(covariances, chain, moved.states)])
        maps.append(chain.of(moved.states).map)
        chain, time = chain.of(moved.end), time + float(moved.time[-1])
        landings.append(sum(map(len, rows)) - 1)
        if not moved.stopped:
            break
        rank = _rank(covariances, chain, rank)
    table, seen = np.concatenate(rows), np.concatenate(maps)
    curve = LossCurve(table[:, 0], np.minimum.accumulate(table[:, 1]), table[:, 2])
    return Walked(tuple(_jumps(curve, seen, landings)), curve, stopped, evaluations)


def _plateau(
    covariances: Covariances, chain: Chain, gradient: np.ndarray, rank: int
) -> tuple[float | None, Chain, int]:
    """How long it lasts (`None`: for ever), the chain at its end, right-hand sides."""
    chain = chain.turned() if rank == 0 else chain.turned().turned(rank)
    lasted, evaluations = 0.0, 0
    while not _felt(covariances, chain.beyond(rank), gradient):
        dormant = chain.beyond(rank)
        found = _climb(covariances, dormant, gradient)
        evaluations += found.evaluations
        if not found.arrived:
            return None, chain, evaluations
        size = float(np.linalg.norm(dormant.vector))
        lasted += found.time(size, dormant.depth)
        grown = dormant.of(found.direction * size * math.exp(float(found.growth[-1])))
        chain = chain.with_beyond(rank, grown).turned(rank)
    return lasted, chain, evaluations


def _climb(covariances: Covariances, dormant: Chain, gradient: np.ndarray) -> Climbed:
    """Until it is felt, or small directions are to be set apart from those that have grown."""
    size, climb = float(np.linalg.norm(dormant.vector)), climb_of(lambda _: gradient, dormant)

    def until(u: np.ndarray, growth: float) -> bool:
        return growth > _OFTEN or _felt(
            covariances, dormant.of(u), gradient, size * math.exp(growth)
        )

    return climb_sphere(
        lambda u, _: climb(u), dormant.vector, dormant.depth, until, rtol=_ERROR_CLIMBING
    )


def _felt(
    covariances: Covariances, dormant: Chain, gradient: np.ndarray, size: float = 1.0
) -> bool:
    effect = np.linalg.norm(dormant.map * covariances.variances) * size**dormant.depth
    return bool(effect > _FELT * np.linalg.norm(gradient))


def _active(chain: Chain, rank: int) -> np.ndarray:
    """The map of the directions in use alone."""
    if rank == 0:
        return np.zeros_like(chain.map)
    left, root, right = np.linalg.svd(chain.map, full_matrices=False)
    return (left[:, :rank] * root[:rank]) @ right[:rank]


def _rank(covariances: Covariances, chain: Chain, before: int) -> int:
    """Directions in use: at least one more than before."""
    root = np.linalg.svd(chain.map * np.sqrt(covariances.variances), compute_uv=False)
    large = int(np.sum(root > _LARGE * np.linalg.norm(covariances.target, 2)))
    return max(large, before + 1)


class _Rested:
    """Says when a transition is over: all has come to rest."""

    def __init__(self, velocity: Callable[[np.ndarray], np.ndarray]) -> None:
        self.velocity, self.largest = velocity, 0.0

    def __call__(self, _: float, state: np.ndarray) -> bool:
        velocity = self.velocity(state)
        speed = math.sqrt(float(velocity.dot(velocity)))
        self.largest = max(self.largest, speed)
        return speed <= _REST * self.largest


def _jumps(curve: LossCurve, maps: np.ndarray, landings: list[int]) -> list[Jump]:
    """One for each step between two rests, also where the curve rests within a transition."""
    places = [0]
    for a, b in itertools.pairwise(landings):
        places += [a + jump.index_after for jump in find_jumps(curve.part(a, b))[:-1]]
        places.append(b)
    found = []
    for a, b in itertools.pairwise(places):
        step = jump_between(curve.part(a, b), 0, b - a)
        if step.before - step.after > _NOTHING * float(curve.loss[0]):
            found.append(Jump(step.time, step.before, step.after, (maps[a], maps[b])))
    return found

r""":math:`\dot\theta = \nabla U(\theta)` near a saddle, on a clock that does not know the scale.

While weights are small the utility U of a network is homogeneous, of the degree r of its small layers, and
what they do to each other is all there is. In direction u and size :math:`\rho = \rho_0 e^{l}`, with
:math:`c = \nabla U(u)`,

.. math:: \frac{du}{ds} = c - (u^\top c)\, u, \qquad \frac{dl}{ds} = u^\top c, \qquad
          \frac{d\tau}{ds} = e^{(2 - r)\, l}, \qquad t = \rho_0^{2 - r}\, \tau .

Nothing here knows the scale: direction and :math:`\tau` along l are the same for every start of this
direction, so that a start that is smaller by a factor c takes :math:`c^{2-r}` times as long (r > 2), or
:math:`\log(1/c)` over the largest growth rate longer (r = 2). For r > 2 the time is finite, however large
the size becomes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.ode.plain import follow

Vector = Float[np.ndarray, " size"]
_LONGEST = 0.5
"""Growth within a step, in the exponent: what is tiny beside the direction stays right."""
_LEAST = 2e-3
"""Shortest step with kinks, in the same."""
_BESIDE = 0.3
"""With kinks: error of a component beside that of the direction, in which none is tiny for long."""
_TINY = 1e-3
"""The same without kinks: what is tiny may be what is learned next."""
_MOST_STEPS = 50_000


class Climbed(NamedTuple):
    """A way up on the sphere."""

    directions: Float[np.ndarray, "moments size"]
    """u, of length 1."""
    growth: Float[np.ndarray, " moments"]
    """l: logarithm of the size over that of the start."""
    clock: Float[np.ndarray, " moments"]
    """tau: time, for a start of size 1."""
    evaluations: int
    arrived: bool
    """Whether the size that was asked for was reached."""

    @property
    def direction(self) -> Vector:
        """The last one."""
        return self.directions[-1]

    def time(self, size: float, degree: int) -> float:
        """How long it took from this size at the start."""
        return float(self.clock[-1]) * size ** (2.0 - degree)


def climb_sphere(
    slope: Callable[[Vector, float], Vector],
    start: Vector,
    degree: int,
    felt: Callable[[Vector, float], bool],
    *,
    smooth: bool = True,
    rtol: float | None = None,
    most: float = 600.0,
) -> Climbed:
    """Follow a direction and its size from a start until they are felt.

    Parameters
    ----------
    slope : gradient of the utility over size^(degree - 1), for a direction and its growth l.
    start : the small weights.
    degree : degree r of the utility, at least 2.
    felt : says of direction and growth l whether the network begins to feel these weights.
    smooth : whether the slope has no kinks.
    rtol : error of a step; by default what suits the kinks.
    most : growth, in the exponent, after which to give up.
    """
    size = float(np.linalg.norm(start))
    count = len(start)

    def velocity(y: Vector) -> Vector:
        u, growth = _direction(y[:count]), float(y[count])
        moved, c = np.empty_like(y), slope(u, growth)
        grows = float(u.dot(c))
        moved[:count] = c - grows * u
        moved[count:] = grows, math.exp((2 - degree) * growth)
        return moved

    def until(_: float, y: Vector) -> bool:
        return y[count] > most or felt(_direction(y[:count]), float(y[count]))

    first = start / size
    pace = max(float(np.linalg.norm(slope(first, 0.0))), 1e-300)
    rtol = rtol if rtol is not None else (1e-10 if smooth else 1e-5)
    of_direction = _TINY if smooth else _BESIDE
    atol = rtol * np.concatenate([np.full(count, of_direction), [1.0, 1e-3]])
    fastest = _fastest(slope, count, pace)
    found = follow(
        velocity,
        np.concatenate([first, [0.0, 0.0]]),
        until,
        rtol=rtol,
        atol=atol,
        least_step=None if smooth else _LEAST / fastest,
        max_step=_LONGEST / fastest,
        max_steps=_MOST_STEPS,
        within=1,
    )
    directions = found.states[:, :count]
    directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    growth = found.states[:, count]
    arrived = found.stopped and growth[-1] <= most
    return Climbed(directions, growth, found.states[:, count + 1], found.evaluations, arrived)


def _direction(x: Vector) -> Vector:
    """Of length 1."""
    unit: Vector = x / math.sqrt(float(x.dot(x)))
    return unit


def _fastest(slope: Callable[[Vector, float], Vector], count: int, pace: float) -> float:
    """About the largest growth rate of a direction."""
    probe = np.random.default_rng(0).normal(size=count)
    for _ in range(8):
        length = float(np.linalg.norm(probe))
        if not length > 0:
            break
        probe = slope(probe / length, 0.0)
        pace = max(pace, float(np.linalg.norm(probe)))
    return pace

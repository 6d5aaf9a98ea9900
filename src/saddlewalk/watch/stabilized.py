r"""A Runge-Kutta-Chebyshev step of order 2 for any force (the formulas are told in `ode.chebyshev`).

There it is compiled for networks of this package; here the force may come from any library.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Float

Vector = Float[np.ndarray, " size"]
_DAMPING = 2 / 13
_SAFETY = 1.25


def stages_for(length: float) -> int:
    """Gradients that a step needs to be stable.

    Parameters
    ----------
    length : of the step, in units of one over the largest rate.
    """
    return max(2, 1 + int(math.sqrt(1 + 1.54 * _SAFETY * length)))


def chebyshev_step(
    force: Callable[[Vector], Vector], start: Vector, first: Vector, length: float, stages: int
) -> Vector:
    """Where a flow is after one step.

    Parameters
    ----------
    force : velocity at a place.
    start : where it is.
    first : velocity there.
    length : time of the step.
    stages : how many velocities are taken, the first included.
    """
    begin, weights = _coefficients(stages)
    older, old = start, start + begin * length * first
    for mu, nu, slope, back in weights:
        new = (1 - mu - nu) * start + mu * old + nu * older
        new = new + length * (slope * force(old) + back * first)
        older, old = old, new
    return old


@lru_cache(maxsize=256)
def _coefficients(stages: int) -> tuple[float, tuple[tuple[float, float, float, float], ...]]:
    """The first step, and mu, nu, mu~, gamma~ of the others."""
    w0 = 1 + _DAMPING / stages**2
    polynomial = [(1.0, 0.0, 0.0), (w0, 1.0, 0.0)]  # T_j, T_j', T_j''
    for _ in range(stages - 1):
        (t0, d0, e0), (t1, d1, e1) = polynomial[-2:]
        polynomial.append((2 * w0 * t1 - t0, 2 * w0 * d1 + 2 * t1 - d0, 2 * w0 * e1 + 4 * d1 - e0))
    w1 = polynomial[stages][1] / polynomial[stages][2]
    b = [second / slope**2 if slope else 0.0 for _, slope, second in polynomial]
    b[0], b[1] = b[2], 1 / w0
    a = [1 - scale * values[0] for scale, values in zip(b, polynomial, strict=True)]
    rows = []
    for j in range(2, stages + 1):
        slope = 2 * b[j] * w1 / b[j - 1]
        rows.append((2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], slope, -a[j - 1] * slope))
    return b[1] * w1, tuple(rows)

r""":math:`\dot s = L\, s^{2 - 2/L} (\sigma - \lambda s)`: one mode of a deep linear network, exactly.

Where L layers are balanced and aligned with a singular mode of :math:`\Sigma_{yx}` (:math:`\sigma`) whose
input has variance :math:`\lambda` and no correlation with the others, the strength s of the mode moves by
itself (Saxe et al. for L = 2; Arora et al.). In :math:`y = (\lambda s / \sigma)^{1/L}`, which goes to 1,

.. math::

    \dot y = \sigma \left(\tfrac{\sigma}{\lambda}\right)^{1 - 2/L} y^{L - 1} (1 - y^L), \qquad
    t = \frac{(\sigma/\lambda)^{2/L - 1}}{\sigma} \left[ \frac{y^{2-L}}{2 - L} +
        \frac{y^2}{2}\, {}_2F_1\!\left(1, \tfrac2L; 1 + \tfrac2L; y^L\right) \right]_{y_0}^{y},

with log y in place of the first term for L = 2. From a small start the first term is all: the time to the
jump is :math:`a^{2-L} / ((L-2)\,\sigma)` for layers of size a: jumps are narrower beside plateaus than at
depth 2.
"""

from typing import Any

import numpy as np

_MOST = 60
"""Steps of Newton's method, or halvings."""
_REST = 34.0
"""log(y / (1 - y)) beyond which 1 - y is rounding."""
_EXACT = 4 * float(np.finfo(float).eps)


def clock(y: Any, depth: int) -> Any:
    """The bracket: time in units of its prefactor, from an origin of its own.

    Parameters
    ----------
    y : part of its rest that each layer has of its size, above 0 and below 1.
    depth : number L of layers.
    """
    from scipy.special import hyp2f1

    y = np.asarray(y, dtype=float)
    if depth == 2:
        return np.log(y) - 0.5 * np.log1p(-(y**2))
    part = 2.0 / depth
    return y ** (2 - depth) / (2 - depth) + 0.5 * y**2 * hyp2f1(1.0, part, 1 + part, y**depth)


def unit_of_time(sigma: Any, variance: Any, depth: int) -> Any:
    """The prefactor.

    Parameters
    ----------
    sigma : singular value of the mode.
    variance : of its input.
    depth : number L of layers.
    """
    return (np.asarray(sigma) / variance) ** (2.0 / depth - 1) / sigma


def time_to(start: Any, end: Any, sigma: Any, variance: Any, depth: int) -> Any:
    """How long a mode takes from one strength to another.

    Parameters
    ----------
    start, end : strengths s, above 0 and on the same side of the rest.
    sigma : singular value of the mode.
    variance : of its input.
    depth : number L of layers.
    """
    first, last = ((np.asarray(s) * variance / sigma) ** (1.0 / depth) for s in (start, end))
    return unit_of_time(sigma, variance, depth) * (clock(last, depth) - clock(first, depth))


def strength_at(time: Any, start: Any, sigma: Any, variance: Any, depth: int) -> Any:
    """Strength of a mode at some moments: the formula read backwards.

    By Newton's method on log(y / (1 - y)), so that nothing is lost near 0, nor near the rest; where a step
    leaves the interval in which the answer is known to lie, the interval is halved.

    Parameters
    ----------
    time : moments, from the start on.
    start : strength at time 0, between 0 and the rest sigma / variance.
    sigma : singular value of the mode.
    variance : of its input.
    depth : number L of layers.
    """
    first = (start * variance / sigma) ** (1.0 / depth)
    goal = clock(first, depth) + np.asarray(time) / unit_of_time(sigma, variance, depth)
    goal = np.minimum(goal, clock(_part(_REST), depth))
    low = np.zeros_like(goal) + np.log(first) - np.log1p(-first)
    high = np.full_like(goal, _REST)
    logit = np.clip(_logarithm_while_small(goal, depth), low, high)
    for _ in range(_MOST):
        y = _part(logit)
        late = clock(y, depth) - goal
        low, high = np.where(late > 0, low, logit), np.where(late > 0, logit, high)
        # d logit / dt = y^(L - 2) (1 - y^L) / (1 - y)
        new = logit - late * y ** (depth - 2) * sum(y**k for k in range(depth))
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        moved, logit = np.abs(new - logit) * _part(-logit), new  # of log y
        if (moved <= _EXACT * np.maximum(np.abs(logit), 1.0)).all():
            break
    return sigma / variance * _part(logit) ** depth


def _logarithm_while_small(clock: Any, depth: int) -> Any:
    """log y by the first term of the bracket alone; at most 0."""
    if depth == 2:
        return np.minimum(clock, 0.0)
    return -np.log(np.maximum((2 - depth) * clock, 1.0)) / (depth - 2)


def _part(logit: Any) -> Any:
    return 1 / (1 + np.exp(-logit))

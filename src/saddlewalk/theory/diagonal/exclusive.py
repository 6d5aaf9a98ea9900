r"""Inputs that never meet: a diagonal network under any loss, in closed form but for one integral.

If every sample sees a single input, the loss is a sum over coordinates, :math:`L = \sum_i L_i(\beta_i)`, and
each goes its own way. From :math:`p = q = \alpha` the coefficient is :math:`\beta = c\, \alpha^2 \sinh z`
with :math:`\dot z = -2 c\, L_i'(\beta)`, :math:`c^2` the product of the learning rates, so that

.. math:: t(z) = \int_0^z \frac{d\zeta}{-2 c\, L_i'(c\, \alpha^2 \sinh \zeta)} .

For samples :math:`x = a` with label 1 and weight p in all, under the logistic loss and from an aligned start
(:math:`\beta_0` and :math:`q = 0`), it is
:math:`t = [\log(\beta/\beta_0) + \mathrm{Ei}(a\beta) - \mathrm{Ei}(a\beta_0)] / (2 p a)`: a logarithm for the
plateau, an exponential integral for the way to infinity.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.losses import AbstractLoss
from saddlewalk.programs import compiled
from saddlewalk.theory.diagonal.objective import Objective

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PANELS = 120
_NEAREST = 1e-9
"""Of the way to the rest, what is left at the end of the table."""
_NOTHING = 1e-4
"""Part of a coordinate's loss that is left there, where its minimum lies at infinity."""
_FLAT = 1e-7
"""Part of the first slope that is left there, where it is not known whether there is a minimum."""
_FARTHEST = 60.0
"""Decades of beta over the start, in e-folds, at which it is given up."""

Values = Float[np.ndarray, " some"]


def never_meet(objective: Objective) -> bool:
    """Whether each sample sees at most one input.

    Parameters
    ----------
    objective : the loss of the coefficients.
    """
    return bool((np.count_nonzero(objective.design, axis=1) <= 1).all())


@dataclass(frozen=True)
class Coordinate:
    """One coefficient on its way: a table of times, and the loss that it holds."""

    z: Values
    time: Values
    slope: Callable[[Values], tuple[Values, Values]]
    """Loss of the samples that see it, and its derivative, at some beta."""
    size: float
    """c alpha^2."""
    gain: float
    """c."""
    end: float
    """The loss it tends to."""

    @classmethod
    def of(cls, objective: Objective, index: int, alpha: float, gain: float) -> "Coordinate":
        """A coefficient that starts at p = q = alpha."""
        sees = objective.design[:, index] != 0
        arrays = (objective.design[sees, index], objective.targets[sees], objective.weights[sees])
        along = _along.of(objective.loss_of_sample, *arrays)

        def slope(beta: Values) -> tuple[Values, Values]:
            loss, derivative = along(np.atleast_1d(beta))
            return np.asarray(loss), np.asarray(derivative)

        size = gain * alpha**2
        first, steepest = (float(one[0]) for one in slope(np.zeros(1)))
        if steepest == 0:
            return cls(np.zeros(1), np.zeros(1), slope, size, gain, first)
        sign = -math.copysign(1.0, steepest)
        known = objective.loss_of_sample.infimum(objective.targets[sees])
        lowest = -math.inf if known is None else float(objective.weights[sees] @ known)
        last, rests = _end(slope, sign, size, first, lowest)
        left = last * np.geomspace(1.0, _NEAREST, _PANELS + 1)
        z = (
            np.concatenate([[0.0], (last - left)[1:]])
            if rests
            else np.linspace(0, last, 4 * _PANELS)
        )
        middle, half = 0.5 * (z[1:] + z[:-1]), 0.5 * np.diff(z)
        nodes = middle[:, None] + half[:, None] * _NODES
        speed = _speed(slope, gain, size, sign, nodes)
        steps = half * np.sum(_WEIGHTS / speed, axis=1)
        end = slope(np.array([sign * size * math.sinh(last)]))[0][0] if rests else lowest
        return cls(
            sign * z, np.concatenate([[0.0], np.cumsum(steps)]), slope, size, gain, float(end)
        )

    def beta(self, time: float) -> float:
        """The coefficient at some time: the table, and Newton's method on the integral within a panel."""
        if len(self.z) == 1:
            return 0.0
        k = min(int(np.searchsorted(self.time, time, side="right")) - 1, len(self.z) - 2)
        sign = math.copysign(1.0, self.z[-1])
        low, high = abs(self.z[k]), abs(self.z[k + 1])
        z = float(np.interp(time, self.time, np.abs(self.z)))
        for _ in range(30):
            half = 0.5 * (z - low)
            nodes = low + half * (1 + _NODES)
            passed = half * float(
                _WEIGHTS @ (1 / _speed(self.slope, self.gain, self.size, sign, nodes))
            )
            speed = float(_speed(self.slope, self.gain, self.size, sign, np.array([z]))[0])
            step = (time - self.time[k] - passed) * speed
            z = min(max(z + step, low), high)
            if abs(step) < 1e-14 * max(z, 1.0):
                break
        return sign * self.size * math.sinh(z)

    def loss(self, time: float) -> float:
        """The loss of its samples at some time."""
        if time >= self.time[-1]:
            return self.end if len(self.z) > 1 else float(self.slope(np.zeros(1))[0][0])
        return float(self.slope(np.array([self.beta(time)]))[0][0])


def _speed(slope: Any, gain: float, size: float, sign: float, z: np.ndarray) -> np.ndarray:
    """How fast |z| grows."""
    beta = sign * size * np.sinh(z)
    return -2 * gain * sign * slope(beta.ravel())[1].reshape(beta.shape)


def _end(slope: Any, sign: float, size: float, first: float, lowest: float) -> tuple[float, bool]:
    """Where |z| ends, and whether it rests there: at the minimum, or where hardly any loss is left."""
    from scipy.optimize import brentq

    def falls(z: float) -> float:
        return -sign * float(slope(np.array([sign * size * math.sinh(z)]))[1][0])

    def left(z: float) -> float:
        loss = float(slope(np.array([sign * size * math.sinh(z)]))[0][0])
        return loss - lowest - _NOTHING * (first - lowest)

    z, start = max(1.0, -math.log(size)), falls(0.0)
    while z < -math.log(size) + _FARTHEST:
        if falls(z) <= 0:
            return float(brentq(falls, 0.0, z, xtol=1e-14, rtol=1e-14)), True
        if falls(z) <= _FLAT * start:
            return z, False
        if left(z) <= 0:
            return float(brentq(left, 0.0, z, xtol=1e-12)), False
        z += 0.25
    return z, False


@compiled
def _along(
    sample_loss: AbstractLoss, x: Any, targets: Any, weights: Any, beta: Any
) -> tuple[Array, Array]:
    def one(b: Array) -> Array:
        outputs = (jnp.asarray(x) * b)[:, None]
        return jnp.sum(weights * jax.vmap(sample_loss)(outputs, jnp.asarray(targets)))

    return jax.vmap(jax.value_and_grad(one))(jnp.asarray(beta))

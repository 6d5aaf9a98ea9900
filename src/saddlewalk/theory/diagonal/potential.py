r""":math:`\dot s = -g(\beta)`: how far a coefficient has gone, at any depth.

A coefficient that is a product of L weights, started at :math:`(\alpha, \ldots, \alpha, 0)`, is one number
z, the last of them, and

.. math:: \beta = z\, (\alpha^2 + z^2)^{(L-1)/2}, \qquad s = \int_0^z \frac{dy}{(\alpha^2 + y^2)^{(L-1)/2}},
          \qquad \dot s = -\partial_\beta L ,

however inputs are correlated. For L = 2 s is a logarithm; for L > 2 it has walls,

.. math:: |s| < S_\alpha = \alpha^{2 - L}\, \frac{\sqrt\pi\, \Gamma(L/2 - 1)}{2\, \Gamma((L-1)/2)},

between which a dormant unit moves in a straight line while the gradient is frozen. As the scale vanishes a
unit is active exactly where s is at a wall: the limit process is that of two layers, on the clock
:math:`S_\alpha`.
"""

import abc
import itertools
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlewalk.theory.merging import HALF_WAY

Vector = Float[np.ndarray, " d"]
_NEWTON = 60
_EXACT = 4 * float(np.finfo(float).eps)


class AbstractPotential(abc.ABC):
    """What of a unit depends on its number of layers."""

    @abc.abstractmethod
    def travelled(self, beta: Vector) -> Vector:
        """s: how far these coefficients have gone."""

    @abc.abstractmethod
    def rate(self, pull: float, rest: float) -> float:
        """How fast a unit rises, at most, in e-folds a time, with this gradient and towards this rest."""

    @abc.abstractmethod
    def half_way(self, pull: float, rest: float) -> float:
        """How long before the mean time of its rise the loss passes the middle of the step."""


@dataclass(frozen=True)
class TwoLayers(AbstractPotential):
    """s = arcsinh(beta / alpha^2) / 2, from p = q = alpha: a logistic rise."""

    scale: float

    def travelled(self, beta: Vector) -> Vector:
        """s: how far these coefficients have gone."""
        return 0.5 * np.arcsinh(beta / self.scale**2)

    def rate(self, pull: float, rest: float) -> float:
        """2 |g|."""
        return 2 * pull

    def half_way(self, pull: float, rest: float) -> float:
        """log(1 + sqrt 2) e-folds."""
        return HALF_WAY / self.rate(pull, rest)


@dataclass(frozen=True)
class ManyLayers(AbstractPotential):
    """L > 2 layers, from (alpha, ..., alpha, 0)."""

    scale: float
    layers: int

    @property
    def wall(self) -> float:
        """S_alpha."""
        half = 0.5 * (self.layers - 1)
        ratio = math.gamma(half - 0.5) / math.gamma(half)
        return 0.5 * math.sqrt(math.pi) * ratio * self.scale ** (2 - self.layers)

    def last_weight(self, beta: Vector) -> Vector:
        """z: the last weight behind these coefficients, by Newton's method on log|beta| in log|z|."""
        size, goal = np.abs(np.asarray(beta, dtype=float)), self.layers - 1
        safe = np.where(size > 0, size, 1.0)
        x = np.minimum(np.log(safe) / self.layers, np.log(safe) - goal * math.log(self.scale))
        for _ in range(_NEWTON):
            square = np.exp(2 * x)
            both = self.scale**2 + square
            value = x + 0.5 * goal * np.log(both) - np.log(safe)
            step = value / (1 + goal * square / both)
            x = x - step
            if not (np.abs(step) > _EXACT * np.maximum(np.abs(x), 1.0)).any():
                break
        return np.where(size > 0, np.sign(beta) * np.exp(x), 0.0)

    def travelled(self, beta: Vector) -> Vector:
        """Near the walls by the distance to them: nothing is lost to rounding there."""
        from scipy.special import hyp2f1

        z = self.last_weight(np.asarray(beta, dtype=float))
        ratio, half = np.abs(z) / self.scale, 0.5 * (self.layers - 1)
        inner = np.minimum(ratio, 1.0)
        near = inner * hyp2f1(0.5, half, 1.5, -(inner**2)) * self.scale ** (2 - self.layers)
        outer = np.maximum(ratio, 1.0)
        tail = (outer * self.scale) ** (2 - self.layers) / (self.layers - 2)
        far = self.wall - tail * hyp2f1(half, half - 0.5, half + 0.5, -(outer**-2.0))
        return np.sign(z) * np.where(ratio < 1, near, far)

    def rate(self, pull: float, rest: float) -> float:
        """L |g| |beta|^(1 - 2/L), near the rest."""
        return self.layers * pull * abs(rest) ** (1 - 2 / self.layers)

    def half_way(self, pull: float, rest: float) -> float:
        """By quadrature of the rise of one unit that nothing else feels, to 1 - 1/sqrt(2) of its rest."""
        from scipy.integrate import quad

        size, half = abs(rest), 0.5 * (self.layers - 1)
        part = 1 - 1 / math.sqrt(2)
        middle = float(self.last_weight(np.array([part * size]))[0])

        def weight(z: float) -> float:
            return float((self.scale**2 + z**2) ** -half)

        def missing(z: float) -> float:
            share = z * (self.scale**2 + z**2) ** half / size
            return weight(z) * share / (1 - share)

        knots = [0.0, *(k for k in (self.scale, 10 * self.scale) if k < middle), middle]
        late = sum(
            quad(missing, a, b, epsabs=0, epsrel=1e-10)[0] for a, b in itertools.pairwise(knots)
        )
        left = float(np.diff(self.travelled(np.array([part * size, size])))[0])
        return (left - late) / pull


def potential_of(scale: float, layers: int = 2) -> AbstractPotential:
    """The potential of units with this many layers.

    Parameters
    ----------
    scale : alpha.
    layers : number L of weights of a coefficient.
    """
    return TwoLayers(scale) if layers == 2 else ManyLayers(scale, layers)

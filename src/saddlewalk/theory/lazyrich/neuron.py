r"""One linear neuron, :math:`f(x) = a\, w^\top x`: from lazy to rich, solved (section 3, appendix A).

For white inputs gradient flow with rates :math:`\eta_a, \eta_w` is

.. math:: \dot a = \eta_a (w^\top\beta_* - a \|w\|^2), \qquad \dot w = \eta_w (a \beta_* - a^2 w)

and conserves :math:`\delta = \eta_w a^2 - \eta_a \|w\|^2`. Rescaled (:math:`a \sqrt{\eta_w}`,
:math:`w \sqrt{\eta_a}`, :math:`\beta_* \sqrt{\eta_a \eta_w}`) the rates are 1. The paper solves a Riccati and
a Bernoulli equation for each sign of delta. One solution serves all: with
:math:`N = \exp \int a^2`, the products :math:`z_a = a N` and :math:`z_\omega = w^\top\beta_* N` obey a
linear system,

.. math:: \dot z_a = z_\omega + \delta z_a, \quad \dot z_\omega = \|\beta_*\|^2 z_a, \qquad
          \frac{d}{dt} N^2 = 2 z_a^2,

whose eigenvalues are :math:`\lambda_\pm = (\delta \pm \sqrt{\delta^2 + 4\|\beta_*\|^2})/2`. The part of w
across :math:`\beta_*` falls as 1/N. So a keeps its sign or crosses zero by itself, and nothing is left to
branches of square roots.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.tasks.samples import finite_numbers

Times = Float[np.ndarray, " times"]


@dataclass(frozen=True)
class NeuronPath:
    """The exact trajectory at some times."""

    time: Times
    a: Times
    w: Float[np.ndarray, "times d"]
    target: Float[np.ndarray, " d"]

    @property
    def beta(self) -> Float[np.ndarray, "times d"]:
        """The linear map a w."""
        return self.a[:, None] * self.w

    @property
    def mu(self) -> Times:
        """a |w|: the signed length of the map."""
        return self.a * np.linalg.norm(self.w, axis=1)

    @property
    def phi(self) -> Times:
        """Cosine of the angle between w and the target."""
        size = np.linalg.norm(self.w, axis=1) * np.linalg.norm(self.target)
        # at w = 0 there is no angle; 0 keeps mu phi = 0 right
        return np.divide(self.w @ self.target, size, out=np.zeros_like(size), where=size > 0)

    @property
    def loss(self) -> Times:
        """Half the squared distance to the target."""
        return 0.5 * np.sum((self.beta - self.target) ** 2, axis=1)


@dataclass(frozen=True)
class Neuron:
    """A start (a, w) and a target beta_* for white inputs; `rates` of a and w."""

    a: float
    w: Float[np.ndarray, " d"]
    target: Float[np.ndarray, " d"]
    rates: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of(cls, a: float, w: Any, target: Any, rates: tuple[float, float] = (1.0, 1.0)) -> "Neuron":
        """From anything that is a number or a vector, checked; rates are those of a and of w."""
        w, target = finite_numbers("w", w), finite_numbers("the target", target)
        if w.ndim != 1 or w.shape != target.shape:
            raise InputError(
                f"w and the target must be vectors of one length: {w.shape}, {target.shape}."
            )
        if not np.any(target):
            raise InputError("The target is zero: there is nothing to learn.")
        value = finite_numbers("a", a)
        if value.ndim != 0:
            raise InputError(f"a must be one number; got shape {value.shape}.")
        return cls(float(value), w, target, check_layer_rates(rates))

    @classmethod
    def with_delta(
        cls, delta: float, beta: Any, target: Any, rates: tuple[float, float] = (1.0, 1.0)
    ) -> "Neuron":
        """The start with a > 0 that computes the map `beta` and conserves this delta."""
        beta, delta = finite_numbers("beta", beta), float(finite_numbers("delta", delta))
        if not np.any(beta):
            raise InputError("From the map zero the direction of w is not known; give a and w.")
        a, _ = layer_norms(float(np.linalg.norm(beta)), delta, check_layer_rates(rates))
        return cls.of(a, beta / a, target, rates)

    @property
    def delta(self) -> float:
        """The conserved quantity: upstream if positive, downstream if negative."""
        eta_a, eta_w = self.rates
        return eta_w * self.a**2 - eta_a * float(self.w @ self.w)

    @property
    def basin(self) -> int:
        """Sign of a at the end; 0 on the surface that leads to the saddle (appendix A.3)."""
        return int(np.sign(self._modes[0]))

    @property
    def crossing_time(self) -> float:
        """When a passes through zero; infinite if it never does."""
        grown, decayed, fast, slow = self._modes
        if grown == 0 or -decayed / grown < 1:
            return math.inf
        return math.log(-decayed / grown) / (fast - slow)

    def at(self, times: Any) -> NeuronPath:
        """a, w, mu, phi at these times; exact, and free of overflow however late they are."""
        t = np.atleast_1d(finite_numbers("times", times))
        if t.size and t.min() < 0:
            raise InputError("Times must not be negative.")
        grown, decayed, fast, slow = self._modes
        # everything is divided by exp(shift), its largest growth, before it is added up
        shift = fast * t if grown != 0 else np.zeros_like(t)
        rise = np.exp(fast * t - shift) if grown != 0 else np.zeros_like(t)
        fall = np.exp(slow * t - shift)
        z_a = grown * rise + decayed * fall
        z_w = -slow * grown * rise - fast * decayed * fall
        shrink = 1 / np.sqrt(np.exp(-2 * shift) + 2 * self._growth(t, shift))
        eta_a, eta_w = self.rates
        unit = self.target / np.linalg.norm(self.target)
        length = math.sqrt(eta_a * eta_w) * float(np.linalg.norm(self.target))
        across = self.w - (self.w @ unit) * unit
        along = z_w * shrink / length / math.sqrt(eta_a)
        w = along[:, None] * unit + (shrink * np.exp(-shift))[:, None] * across
        return NeuronPath(t, z_a * shrink / math.sqrt(eta_w), w, self.target)

    def _growth(self, t: Times, shift: Times) -> Times:
        """The integral of z_a^2, times exp(-2 shift)."""
        grown, decayed, fast, slow = self._modes
        delta = fast + slow
        down = np.exp(-2 * shift)

        def integral(rate: float) -> Times:
            """Of exp(rate s) from 0 to t."""
            if abs(rate) * t.max(initial=0.0) < 1e-300:
                return t * down
            # the sign decides which form neither overflows nor cancels
            if rate > 0:
                return -np.exp(rate * t - 2 * shift) * np.expm1(-rate * t) / rate
            return down * np.expm1(rate * t) / rate

        terms = (
            (grown**2, 2 * fast),
            (2 * grown * decayed, delta),
            (decayed**2, 2 * slow),
        )
        # a mode that is absent must not multiply an overflow
        return sum((size * integral(rate) for size, rate in terms if size != 0), np.zeros_like(t))

    @property
    def _modes(self) -> tuple[float, float, float, float]:
        """Amplitudes of the growing and the decaying mode of z_a at the start, and their rates."""
        eta_a, eta_w = self.rates
        length = math.sqrt(eta_a * eta_w) * float(np.linalg.norm(self.target))
        along = math.sqrt(eta_a) * math.sqrt(eta_a * eta_w) * float(self.w @ self.target)
        a, delta = math.sqrt(eta_w) * self.a, self.delta
        gap = math.hypot(delta, 2 * length)
        # the root that does not cancel, and the other one from their product -|beta|^2
        large = (abs(delta) + gap) / 2
        fast, slow = (large, -(length**2) / large) if delta >= 0 else (length**2 / large, -large)
        return (along + fast * a) / gap, -(along + slow * a) / gap, fast, slow


def check_layer_rates(rates: Any) -> tuple[float, float]:
    """Two positive learning rates, that of a and that of w.

    Parameters
    ----------
    rates : learning rates eta_a and eta_w.
    """
    values = finite_numbers("the rates", rates)
    if values.shape != (2,) or values.min() <= 0:
        raise InputError(
            f"Learning rates must be two positive numbers, of a and of w; got {rates}."
        )
    return float(values[0]), float(values[1])


def layer_norms(beta: Any, delta: Any, rates: tuple[float, float] = (1.0, 1.0)) -> tuple[Any, Any]:
    r"""|a| and |w| of a neuron with :math:`|a||w| = |\beta|` and conserved delta (appendix A.4).

    .. math:: \eta_w a^2 = (\kappa + \delta)/2, \quad \eta_a |w|^2 = (\kappa - \delta)/2, \quad
              \kappa = \sqrt{\delta^2 + 4 \eta_a \eta_w |\beta|^2}

    Parameters
    ----------
    beta : size |beta| of the map; a number or an array.
    delta : conserved balance; a number or an array.
    rates : learning rates eta_a and eta_w.
    """
    eta_a, eta_w = rates
    beta, delta = np.abs(np.asarray(beta, dtype=float)), np.asarray(delta, dtype=float)
    product = eta_a * eta_w * beta**2
    large = (np.abs(delta) + np.hypot(delta, 2 * math.sqrt(eta_a * eta_w) * beta)) / 2
    small = np.divide(product, large, out=np.zeros_like(large * product), where=large > 0)
    up = delta >= 0
    a = np.sqrt(np.where(up, large, small) / eta_w)
    w = np.sqrt(np.where(up, small, large) / eta_a)
    return (float(a), float(w)) if a.ndim == 0 else (a, w)

r"""What one step of an optimizer does, to a direction that grows and to one that does not.

How much a direction that grows like :math:`e^{st}` under gradient flow grows in a step of gradient descent,
of the heavy ball and of Nesterov's (a factor q) is in `optimizers.growth`. For small steps all of them
follow the flow on the clock :math:`\eta/(1 - \beta)`; for larger ones plateaus last longer, by the quotient
of :math:`\eta s/(1 - \beta)` and :math:`\log q`: the ball must first get going.

Adam and its kin divide each gradient by the root of its own recent square, so that weights move by about the
learning rate whatever the size of their gradients: no clock makes a flow of that, and their own state is
kept. With the means :math:`m, v`, corrected for their start at zero where hats are, a step t is
:math:`-\eta` times

========  =====================================================================================
Adam      :math:`\hat m / (\sqrt{\hat v} + \epsilon)`
NAdam     the same with :math:`\frac{1 - \mu_t}{1 - \prod_{s \le t} \mu_s} g
          + \frac{\mu_{t+1}}{1 - \prod_{s \le t+1} \mu_s} m` for :math:`\hat m`,
          :math:`\mu_t = \beta_1 (1 - \tfrac12 0.96^{t\psi})`
RAdam     :math:`r_t \hat m \sqrt{1 - \beta_2^t} / (\sqrt v + \epsilon)`,
          :math:`r_t^2 = \frac{(\rho_t - 4)(\rho_t - 2)\rho}{(\rho - 4)(\rho - 2)\rho_t}`,
          :math:`\rho = \frac{2}{1 - \beta_2} - 1`,
          :math:`\rho_t = \rho - \frac{2 t \beta_2^t}{1 - \beta_2^t}`; only :math:`\hat m` while
          :math:`\rho_t \le 5`
========  =====================================================================================
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.optimizers.growth import growth_per_step

Vector = Float[np.ndarray, " size"]
Schedule = Callable[[int], float]
"""The learning rate so many steps from now, as a part of the present one."""


@dataclass(frozen=True)
class Descent:
    """Gradient descent, with or without momentum; minibatches do not matter to it.

    Parameters
    ----------
    rate : the learning rate now; one for each weight where they differ.
    momentum, dampening, nesterov : as in `torch.optim.SGD`.
    decay : weight decay, which adds `decay * w` to the gradient.
    clip : length to which gradients are clipped, before weight decay.
    future : how the rate goes on; by default it stays.
    """

    rate: float | Vector
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    decay: float | Vector = 0.0
    clip: float = math.inf
    future: Schedule | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if not 0 <= self.momentum < 1:
            raise InputError(f"`momentum` must be at least 0 and below 1; got {self.momentum}.")

    @property
    def time_per_step(self) -> float:
        """Flow time of one small step, where the largest rate is 1."""
        whole = (1 - self.dampening) / (1 - self.momentum)
        if self.nesterov:
            whole = 1 / (1 - self.momentum)
        return float(np.max(self.rate)) * whole

    @property
    def relative_rate(self) -> float | Vector:
        """The rate of each weight as a part of the largest."""
        return self.rate / np.max(self.rate)

    def growth(self, s: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """log q: how much a direction of rate s grows in one step.

        Parameters
        ----------
        s : rates of growth under the flow, at least 0.
        """
        rate = float(np.max(self.rate))
        return growth_per_step(s, rate, self.momentum, self.dampening, self.nesterov)

    def delay(self, s: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """How much longer than by the clock a direction of rate s takes to grow.

        Parameters
        ----------
        s : rates of growth under the flow.
        """
        s = np.maximum(s, 0.0)
        slow = np.asarray(self.time_per_step * s)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(slow > 1e-9, slow / self.growth(s), 1.0)


@dataclass(frozen=True)
class Adaptive:
    """Adam, AdamW, RMSprop: steps that are divided by the root of a mean square.

    Parameters
    ----------
    rate : the learning rate now; one for each weight where they differ.
    first, second : running means of gradient and squared gradient, as the optimizer has them.
    count : steps made.
    batch : gradient of the last batch, where it is known: it tells how much of the mean square is noise.
    beta1, beta2, epsilon : as in `torch.optim.Adam`; for RMSprop `beta1` is 0, and nothing is corrected.
    decay : weight decay.
    decoupled : whether it shrinks the weights (AdamW), or adds to the gradient (Adam).
    corrected : whether the means are corrected for their start at zero.
    clip : length to which gradients are clipped before anything else.
    kind : which of them, as in the table above; for RMSprop "adam".
    momentum_decay : psi of NAdam.
    future : how the rate goes on; by default it stays.
    """

    rate: float | Vector
    first: Vector = field(repr=False)
    second: Vector = field(repr=False)
    count: int
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float | Vector = 0.0
    decoupled: bool = False
    corrected: bool = True
    clip: float = math.inf
    kind: Literal["adam", "nadam", "radam"] = "adam"
    momentum_decay: float = 4e-3
    batch: Vector | None = field(default=None, repr=False)
    future: Schedule | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def change(self, gradient: Vector, first: Vector, second: Vector, count: float) -> Vector:
        """What one step adds to the weights, decoupled weight decay left out.

        Parameters
        ----------
        gradient : of this step.
        first, second : the means, with this gradient in them.
        count : which step it is, from 1.
        """
        start1 = 1 - self.beta1**count if self.corrected and self.beta1 else 1.0
        start2 = 1 - self.beta2**count if self.corrected else 1.0
        if self.kind == "radam":
            gain = rectified(self.beta2, count)
            if gain == 0:
                return -self.rate * first / start1
            return -self.rate * gain * first * math.sqrt(start2) / start1 / self._root(second)
        mean = first / start1
        if self.kind == "nadam":
            mean = self._looks_ahead(gradient, first, count)
        return -self.rate * mean / self._root(second / start2)

    def _root(self, square: Vector) -> Vector:
        return np.sqrt(square) + self.epsilon

    def _looks_ahead(self, gradient: Vector, first: Vector, count: float) -> Vector:
        steps = np.arange(max(count - _FORGOTTEN, 0) + 1, count + 2)
        mu = self.beta1 * (1 - 0.5 * 0.96 ** (steps * self.momentum_decay))
        past = float(np.prod(mu[:-1])) if count <= _FORGOTTEN else 0.0
        now, later = float(mu[-2]), float(mu[-1])
        return gradient * (1 - now) / (1 - past) + first * later / (1 - past * later)

    def noise(self, gradient: Vector) -> Vector:
        """What minibatches add to the mean square of each gradient.

        It is what the mean square has beyond the gradient on the probe. But a gradient that was larger lately
        leaves such an excess, too: the last batch tells the one from the other.

        Parameters
        ----------
        gradient : on the probe, now.
        """
        excess = np.maximum(self.mean_square - gradient**2, 0.0)
        if self.batch is None or not excess.any():
            return excess
        return excess * min(1.0, float(np.sum((self.batch - gradient) ** 2) / np.sum(excess)))

    @property
    def mean_square(self) -> Vector:
        """The second moment, corrected for its start at zero."""
        if not self.corrected or self.count == 0:
            return self.second
        return self.second / (1 - self.beta2**self.count)


Rule = Descent | Adaptive


def rectified(beta2: float, count: float) -> float:
    """By how much RAdam shortens a step; 0 while it does not divide by the root.

    Parameters
    ----------
    beta2 : decay of the mean square.
    count : which step it is, from 1.
    """
    most, kept = 2 / (1 - beta2) - 1, beta2**count
    length = most - 2 * count * kept / (1 - kept)
    if length <= _LONG_ENOUGH:
        return 0.0
    return math.sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))


def check_rate(rate: float | Vector) -> None:
    """Refuse learning rates with which nothing moves, or no number at all.

    Parameters
    ----------
    rate : one number, or one for each weight.
    """
    known = np.asarray(rate, dtype=float)
    if not np.isfinite(known).all() or (known < 0).any():
        raise InputError(f"Learning rates must be finite and at least 0; got {rate!r:.60}.")


def checked_clip(clip: float | None) -> float:
    """The length to which gradients are clipped.

    Parameters
    ----------
    clip : what the user says; by default they are not.
    """
    if clip is None:
        return math.inf
    if not clip > 0:
        raise InputError(
            f"`clip` is the length to which gradients are clipped, above 0; got {clip}."
        )
    return float(clip)


def clipped(gradient: Vector, longest: float) -> Vector:
    """A gradient made shorter where it is too long, as `torch.nn.utils.clip_grad_norm_` does it.

    Parameters
    ----------
    gradient : of all weights.
    longest : length that is left as it is.
    """
    length = float(np.linalg.norm(gradient))
    return gradient if length <= longest else gradient * (longest / length)


def steps_until(rule: Rule, wanted: float) -> float:
    """After how many steps the sum of future learning rates, as parts of the present one, is so large.

    Parameters
    ----------
    rule : the optimizer.
    wanted : steps at the present rate; infinite is the answer where the rate comes to its end before.
    """
    steps, reached = _walked(rule.future, wanted)
    return steps if reached else math.inf


def steps_within(rule: Rule, wanted: float) -> float:
    """The same, or the steps until the learning rate comes to its end, where that is before.

    Parameters
    ----------
    rule : the optimizer.
    wanted : steps at the present rate.
    """
    return _walked(rule.future, wanted)[0]


def _walked(future: Schedule | None, wanted: float) -> tuple[float, bool]:
    """Steps, and whether they lead so far."""
    if future is None or not math.isfinite(wanted):
        return wanted, True
    total, steps, idle = 0.0, 0, 0
    while steps <= _MOST_STEPS:
        part = future(steps)
        if part > 0 and total + part >= wanted:
            return steps + (wanted - total) / part, True
        if part <= _NOTHING:
            return float(steps), False
        # so low a rate would never lead there; where rates restart it is low for some steps only
        idle = idle + 1 if part * _MOST_STEPS < wanted - total else 0
        if idle > max(_IDLE, _IDLE_PART * steps):
            return float(steps - idle + 1), False
        total, steps = total + part, steps + 1
    return float(steps), False


_FORGOTTEN = 500
"""Steps after which the product of NAdam's momenta is nothing."""
_LONG_ENOUGH = 5.0
_MOST_STEPS = 1_000_000
"""Beyond it a schedule is not followed."""
_NOTHING = 1e-14
"""Part of the present learning rate that is none."""
_IDLE, _IDLE_PART = 20, 0.1
"""Steps at a rate that leads nowhere, as a number and as a part of all steps, after which it has come to its
end."""

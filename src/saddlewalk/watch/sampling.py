r"""How far a forecast is off because its probe is a part of the training data only.

On a probe of n samples the loss falls at the speed :math:`|g|^2 = \sum_i c_i`, where sample i gives
:math:`c_i = g_i \cdot g`. While one direction grows, this speed is off by as much as its rate is, and so is
the time until the drop, in two ways:

- **by chance**: another probe has another speed; its standard deviation is
  :math:`\sqrt{n \operatorname{Var}(c)}`.
- **early**: the training ahead goes where this very probe falls fastest, and :math:`|g|^2` is larger than
  that of the data by :math:`\sum_i |g_i|^2` on average. To second order the rate s of the growing direction v
  is larger by :math:`\sum_k \sigma_k^2/(s - s_k)`, but :math:`|g|^2/s` by :math:`\sum_k \sigma_k^2/s`, where
  :math:`\sigma_k` is how much v and direction k are mixed by chance. Directions that rest or have been
  learned have :math:`s_k \le 0`: the rate takes between none and all of the excess. The middle is taken,
  with the standard deviation of what lies evenly between.

Where the excess is all of the speed, each sample is learned by heart, and nothing is known about the others.
A probe of n samples out of N has the part 1 - n/N of all this. With the residual r and the Jacobian J of
the outputs, :math:`c = -r \cdot (J g)`, and :math:`\sum_i |g_i|^2` is the mean of
:math:`|J^\top (\varepsilon r)|^2` over random signs.
"""

import math
from typing import NamedTuple

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.watch.rules import Vector

_BY_HEART = 0.5
"""Half the speed on the probe, less its excess, is nothing."""
_SIGNS = 8
"""Draws of random signs."""


class Sampling(NamedTuple):
    """What the data beyond a probe do to a time."""

    early: float = 0.0
    """How much too short the time on the probe is (a logarithm)."""
    doubt: float = 0.0
    """Standard deviation of the logarithm of the time."""

    @property
    def by_heart(self) -> bool:
        """Whether the probe is learned sample by sample."""
        return self.early >= _BY_HEART


def beyond_the_probe(landscape: AbstractLandscape, weights: Vector, samples: float) -> Sampling:
    """How far a time on the probe is off.

    Parameters
    ----------
    landscape : the network with a probe and its loss, a mean over samples.
    weights : where the loss falls.
    samples : of the data that the probe is a part of.
    """
    count = landscape.sample_count
    missing = 1.0 - count / samples
    if missing <= 0 or count < 2:
        return Sampling()
    along, back = landscape.jacobian_at(weights)
    pull = landscape.residual(landscape.outputs(weights))
    shares = np.sum(pull * along(back(pull)), axis=1)
    speed = float(np.sum(shares))
    if speed <= 0:
        return Sampling()
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_SIGNS, count, 1))
    alone = float(np.mean([np.sum(back(pull * one) ** 2) for one in signs]))
    excess = missing * alone / speed
    chance = missing * count * float(np.var(shares)) / speed**2
    return Sampling(excess / 2, math.sqrt(chance + excess**2 / 12))


def checked_samples(samples: int | None, probe: int) -> float:
    """How many samples the training data have.

    Parameters
    ----------
    samples : what the user says; by default the probe is all of them.
    probe : samples of the probe.
    """
    if samples is None:
        return float(probe)
    if not samples >= probe:
        raise InputError(
            f"`samples` is how many samples the training data have, at least the {probe} of the probe; "
            f"got {samples}."
        )
    return float(samples)

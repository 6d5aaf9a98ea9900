r"""The first escape of any deep network: :math:`t = \tau\, \epsilon^{2 - r} + t_0`, where r is the degree.

Layers that start large stand still while the others are small: they change only with what the network has
learned, which is nothing yet. So the network is homogeneous, of degree r, in its small layers, whose
direction and size go their way on the sphere (`sphere`), until the outputs change the residual. From there on
all layers follow gradient flow to the first rest. The first part takes :math:`\tau \epsilon^{2-r}`
(:math:`\log(1/\epsilon)` over the growth rate for r = 2), the second does not know the scale.

The law is that of Rawal and DeWeese (arXiv 2605.01288), who derive it from the balance of layers; r is the
number of small layers, and not the depth, where activations are ReLU or have a linear part at zero. Where
they begin with a higher power r is larger (7 for three quadratic layers): it is read off the network.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from saddlewalk.curves import LossCurve
from saddlewalk.curves.jumps import Jump, jump_between
from saddlewalk.errors import InputError
from saddlewalk.ode.plain import follow
from saddlewalk.theory.deep.networks import AbstractNetwork, Vector
from saddlewalk.theory.deep.sphere import Climbed, climb_sphere

_FELT = 1e-3
"""The small layers are felt when they change the residual by this part."""
_FELT_BY_LARGE = 1e-5
"""The same where other layers are large: these begin to move as soon as the outputs do."""
_SMALL = 0.1
"""Layers with entries below this part of those of the largest layer start small, if others do not."""
_LARGE = 1.0
"""Norm of a layer from which on it is not small in itself."""
_REST = 1e-3
"""A jump is over when the loss would fall by this part of it in as much time as since it fell fastest,"""
_DIP = 10**0.5
"""or when it falls this much faster than it did at its slowest since, as at every jump that is looked for."""
_LONG = 20.0
"""It is over in any case after so many times as long as it took to fall fastest,"""
_MOST_STEPS = 3_000
"""or after so many steps: what is stiff by then is a tail."""
_SHORT = 1e-3
"""Shortest step with kinks, beside the time in which the network changes."""
_RECENT = 16
"""States that are kept: the stages of a step and its inner places come before what ends it."""
_PROBE = 1e-10
"""Size at which the degree is read off, to leading order."""
_FLAT = 0.02
"""Error of a degree."""


class Small(NamedTuple):
    """Which layers start small.

    Parameters
    ----------
    names : of these layers.
    mask : which weights are theirs.
    largest, smallest : root mean square of the weights in the largest of these layers, and in the smallest
        of the others (infinite if there are none).
    """

    names: tuple[str, ...]
    mask: Bool[np.ndarray, " size"]
    largest: float
    smallest: float


@dataclass(frozen=True, eq=False)
class Escape:
    """The first escape of a network."""

    small: Small
    degree: int
    """r: degree in the small layers."""
    size: float
    """Norm of the small layers at the start."""
    waiting: float
    """Time on the sphere, from this size."""
    curve: LossCurve
    """The loss from the start to the first rest."""
    jump: Jump
    end: Vector
    """The weights at the first rest."""
    evaluations: int

    @property
    def exponent(self) -> int:
        """r - 2: a start smaller by c takes c to the minus this times as long."""
        return self.degree - 2


def first_escape(
    network: AbstractNetwork,
    weights: Vector,
    small: tuple[str, ...] | None = None,
    max_time: float = math.inf,
) -> Escape | None:
    """The first jump of a network from a start with small layers; `None` if it does not come in this time.

    Parameters
    ----------
    network : loss, flow and utility of one vector of weights.
    weights : at the start.
    small : names of the layers that start small; found by their sizes if they are not named.
    max_time : as far as is looked.
    """
    start = np.asarray(weights, dtype=float)
    which = small_layers(network, start, small)
    mask, size = which.mask, float(np.linalg.norm(start[which.mask]))
    rest = np.where(mask, 0.0, start)
    residual = network.residual(rest)
    drive = float(np.linalg.norm(residual))

    def placed(x: np.ndarray) -> np.ndarray:
        found = rest.copy()
        found[mask] = x
        return found

    degree = _degree(network, placed(start[mask] / size), mask, residual)
    _check_dormant(network, start, rest)

    def slope(u: np.ndarray, growth: float) -> np.ndarray:
        now = max(
            size * math.exp(growth), _PROBE
        )  # below, it is its leading order to the last digit
        return network.climb(placed(now * u), residual)[mask] / now ** (degree - 1)

    part = _FELT if mask.all() else _FELT_BY_LARGE

    def felt(u: np.ndarray, growth: float) -> bool:
        change = network.residual(placed(size * math.exp(growth) * u)) - residual
        return float(np.linalg.norm(change)) > part * drive

    climbed = climb_sphere(
        slope, start[mask], degree, felt, smooth=network.smooth, most=math.log(1e6 / size)
    )
    waiting = climbed.time(size, degree)
    if not climbed.arrived or waiting >= max_time:
        return None
    woken = placed(size * math.exp(float(climbed.growth[-1])) * climbed.direction)
    return _jump(network, woken, which, degree, size, climbed, waiting, max_time, rest)


def _jump(
    network: AbstractNetwork,
    woken: Vector,
    which: Small,
    degree: int,
    size: float,
    climbed: Climbed,
    waiting: float,
    max_time: float,
    rest: Vector,
) -> Escape | None:
    """All layers follow gradient flow from where the small ones are felt, to the first rest."""
    at = _Asked(network)
    before = at(rest)[0]
    seen = _FirstRest(at, before)
    moved = follow(
        lambda w: at(w)[1],
        woken,
        seen,
        rtol=1e-8 if network.smooth else 1e-5,
        atol=1e-11 if network.smooth else 3e-6,
        least_step=None if network.smooth else _least_step(network, woken, which.mask),
        max_time=max_time - waiting,
        max_steps=_MOST_STEPS if network.smooth else 10 * _MOST_STEPS,
    )
    if moved.time[-1] >= max_time - waiting and not moved.stopped:
        return None
    rows = [at(w) for w in moved.states]
    losses = np.array([loss for loss, _ in rows])
    slopes = np.array([-float(np.sum(velocity**2)) for _, velocity in rows])
    last = 1 + int(np.argmin(np.abs(moved.time - seen.slowest)))
    time = np.concatenate([[0.0], waiting + moved.time])
    curve = LossCurve(
        time,
        np.minimum.accumulate(np.concatenate([[before], losses])),
        np.concatenate([[0.0], slopes]),
    )
    return Escape(
        small=which,
        degree=degree,
        size=size,
        waiting=waiting,
        curve=curve,
        jump=jump_between(curve, 0, last),
        end=moved.states[last - 1],
        evaluations=climbed.evaluations + moved.evaluations,
    )


def _least_step(network: AbstractNetwork, w: Vector, small: Bool[np.ndarray, " size"]) -> float:
    """A part of the time in which the small layers change when they are felt; large ones stand still then."""
    velocity = network.loss_and_velocity(w)[1][small]
    return _SHORT * float(np.linalg.norm(w[small]) / np.linalg.norm(velocity))


class _Asked:
    """Loss and velocity, computed once for states that follow each other: a step and what ends it ask."""

    def __init__(self, network: AbstractNetwork) -> None:
        self._network = network
        self._known: dict[bytes, tuple[float, Vector]] = {}

    def __call__(self, w: Vector) -> tuple[float, Vector]:
        key = w.tobytes()
        if key not in self._known:
            if len(self._known) >= _RECENT:
                del self._known[next(iter(self._known))]  # the oldest
            self._known[key] = self._network.loss_and_velocity(w)
        return self._known[key]


class _FirstRest:
    """Says when the first jump is over."""

    def __init__(self, at: _Asked, first: float) -> None:
        self.at, self.first = at, first
        self.fastest, self.least = 0.0, math.inf
        self.began = self.slowest = 0.0

    def __call__(self, time: float, w: Vector) -> bool:
        loss, velocity = self.at(w)
        fall = float(np.sum(velocity**2))
        if fall > self.fastest:
            self.fastest, self.least, self.began = fall, math.inf, time
        if fall < self.least:
            self.least, self.slowest = fall, time
        # where it chatters along kinks it falls slower for a step before it falls faster again
        slowed = self.least < self.fastest / _DIP
        rested = slowed and 0 < fall * (time - self.began) <= _REST * (self.first - loss)
        next_begins = slowed and fall > _DIP * self.least
        long = self.began > 0 and time > _LONG * self.began
        return rested or next_begins or long or fall == 0


def small_layers(
    network: AbstractNetwork, weights: Vector, named: tuple[str, ...] | None = None
) -> Small:
    """The layers that start small: those named, or else those much smaller than others; all if none is large.

    Parameters
    ----------
    network : its layers.
    weights : at the start.
    named : names of layers that count as small.
    """
    names = [part.name for part in network.parts]
    unknown = [name for name in named or () if name not in names]
    if unknown:
        raise InputError(f"There is no layer '{unknown[0]}'; there are: {', '.join(names)}.")
    norm = {part.name: float(np.linalg.norm(weights[part.place])) for part in network.parts}
    typical = {part.name: _typical(weights[part.place]) for part in network.parts}
    if named is None:
        largest = max(typical.values())
        large = max(norm.values()) >= _LARGE
        chosen = [name for name in names if not large or typical[name] < _SMALL * largest]
    else:
        chosen = [name for name in names if name in named]
    if not chosen:
        raise InputError(
            f"No layer starts small: the norms are {_listed(norm)}. A first escape is from a start in which "
            "some layers are small: use a smaller scale, or shrink layers (`saddlewalk.balance.he_start`)."
        )
    mask = np.zeros(len(weights), dtype=bool)
    for part in network.parts:
        if part.name in chosen:
            mask[part.place] = True
    if not weights[mask].any():
        raise InputError("All small layers are zero, which gradient flow never leaves.")
    return Small(
        tuple(chosen),
        mask,
        max(typical[name] for name in chosen),
        min((typical[name] for name in names if name not in chosen), default=math.inf),
    )


def _degree(network: AbstractNetwork, w: Vector, mask: np.ndarray, residual: np.ndarray) -> int:
    """Degree r of the utility in the small weights, read off twice."""
    sizes = [
        float(np.linalg.norm(network.climb(np.where(mask, t * w, w), residual)[mask]))
        for t in (_PROBE, 2 * _PROBE)
    ]
    if not sizes[0] > 0:
        raise InputError(
            "Nothing drives the small layers: the targets are learned already, or no output depends on "
            "them."
        )
    found = 1 + math.log2(sizes[1] / sizes[0])
    if abs(found - round(found)) > _FLAT:
        raise InputError(
            f"The network has no whole degree in its small layers (found {found:.4g}): a layer that is "
            "neither small nor large stands between. Name the small layers, or use a smaller scale."
        )
    if round(found) < 2:
        raise InputError(
            "With these layers small the network is of degree 1 in them: it leaves at once, without a "
            "plateau. At least two layers must start small, and an activation must be zero at zero."
        )
    return round(found)


def _check_dormant(network: AbstractNetwork, start: Vector, rest: Vector) -> None:
    there, here = network.residual(rest), network.residual(start)
    change = float(np.linalg.norm(here - there)) / float(np.linalg.norm(there))
    if change > 0.1:
        raise InputError(
            f"The outputs at the start change the residual by {100 * change:.2g}%: the network is not "
            "dormant, and there is no first plateau. Use a smaller scale."
        )


def _typical(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _listed(norms: dict[str, float]) -> str:
    return ", ".join(f"{name} {norm:.2g}" for name, norm in norms.items())

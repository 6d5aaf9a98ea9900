r""":math:`\mathcal U^* = \sqrt{2/(27p^3)}\,|\hat x[\xi]|^3`: modular addition, one frequency at a time.

Neurons :math:`(\langle u, a \cdot x\rangle + \langle v, b \cdot x\rangle)^2\, w` learn
:math:`(a \cdot x, b \cdot x) \mapsto (a + b) \cdot x` (section 5, appendix F). :math:`\hat x` is the discrete
Fourier transform of the centered encoding, :math:`s_x` the phase of :math:`\hat x[\xi]`.

Utility maximization. With the frequencies in a set :math:`\mathcal K` learned (Lemma F.2, Theorem F.9
with :math:`\hat u[k]` for its :math:`\hat u[\xi]`),

.. math::

    \mathcal U = \frac{2}{p^3} \sum_{k \notin \{0\} \cup \pm\mathcal K} |\hat x[k]|^2\,
        \hat u[k]\, \hat v[k]\, \overline{\hat w[k]\, \hat x[k]} .

Its maximum on the sphere is a cosine wave of the strongest frequency, with phases
:math:`s_u + s_v = s_w + s_x` (Theorem 5.1). Waves of every other frequency are local maxima too
(against the theorem): a neuron that starts near one stays there, and close frequencies can swap.
At the Nyquist frequency p/2 of an even p, outside the theorem, one real coefficient holds what else
two conjugates share: :math:`\mathcal U^* = \frac{2}{3\sqrt3}\, p^{-3/2}\, |\hat x|^3`.

Cost minimization. N neurons on one frequency, with amplitudes relative to the maximizer, have the
loss :math:`C - z\, \mathcal U^* + \frac12 |x|^2`, :math:`z = \sum_i A_u A_v A_w \cos(s_u + s_v - s_w - s_x)`,
with C of Lemma F.6. It is at least :math:`\frac12 |x|^2 - |\hat x[\xi]|^2/p` (Theorem F.7), and N >= 6
neurons reach that at :math:`z = \sqrt{54p}/|\hat x[\xi]|`, for instance with equal amplitudes and phases

.. math:: s_u = 2\varphi_i, \quad s_v = -\varphi_i, \quad s_w = \varphi_i - s_x,
          \qquad \varphi_i = 2\pi i/N,

for then the sums of Eq 85 run over whole turns: all but z vanish for N >= 6. So the loss falls by
:math:`|\hat x[\xi]|^2/p` with each frequency (half of that at p/2), Eq 9.

Jump times have no closed form: neurons align while they grow. What is closed is a lower bound
(`saddlewalk.theory.bounds`): :math:`(1/\mu - 1)\, \sqrt3\, p^{3/2} / (\sqrt2\, |\hat x|^3)` for norm 1.
"""

import itertools
import math
from collections.abc import Collection
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.curves import Stage, Stopped
from saddlewalk.problem import Problem
from saddlewalk.tasks import ModularAddition, modular_addition
from saddlewalk.theory import composition
from saddlewalk.theory.base import AbstractTheory, Outcome, Start
from saddlewalk.theory.bounds import bounds_from_start, times_are_bounds
from saddlewalk.theory.staircase import Assumption
from saddlewalk.units import QuadraticPair

ENOUGH = 6
"""Neurons with which Theorem F.7 learns a frequency exactly."""
_LEARNED_BY = (0.0, 1 / 9, 4 / 9, 0.6744, 5 / 6, 1.0)
"""Part of a frequency's loss that 0, 1, ... neurons remove at most, as found by minimization; two to
five approach it with ever larger weights."""
_LEARNED_BY_AT_NYQUIST = (0.0, 0.5, 1.0)
_CLEAR = 0.15
"""Relative gap of two magnitudes above which random starts swap them in less than 1% of races
between neurons (5% at a gap of 0.1, 40% at 0.02)."""
_SMALL = 0.1
"""Initial norm, relative to that of a learned neuron, above which jump times err by some 10%."""
_SHOWN = 5

Words = Float[np.ndarray, "*neurons p"]
Waves = Float[np.ndarray, "3 neurons"]
"""Amplitudes or phases of u, v and w, in this order."""


def utility(
    encoding: Float[np.ndarray, " p"], u: Words, v: Words, w: Words, learned: Collection[int] = ()
) -> Float[np.ndarray, "*neurons"] | float:
    """Lemma F.2 and Theorem F.9: utility of neurons once some frequencies are learned.

    Parameters
    ----------
    encoding : x, `(p,)`.
    u, v, w : weights of the neurons, `(..., p)`.
    learned : frequencies that are learned already.
    """
    p = len(encoding)
    frequency = np.minimum(np.arange(p), p - np.arange(p))
    x, u, v, w = (np.fft.fft(word) for word in (encoding, u, v, w))
    missing = np.where(np.isin(frequency, [0, *learned]), 0.0, np.abs(x) ** 2 * np.conj(x))
    return 2 / p**3 * np.sum(missing * u * v * np.conj(w), axis=-1).real


def maximal_utility(p: int, frequency: int, magnitude: float | int) -> float:
    """Theorem 5.1: the largest utility of a neuron of norm 1 on this frequency.

    Parameters
    ----------
    p : the modulus.
    frequency : xi, from 1 to p/2.
    magnitude : size of the transform of the encoding at this frequency.
    """
    return composition.maximal_utility(
        p, 1 if is_nyquist(p, frequency) else 2, magnitude, factors=2
    )


def share(p: int, frequency: int, magnitude: float | int) -> float:
    """How much the loss falls when this frequency is learned.

    Parameters
    ----------
    p : the modulus.
    frequency : xi, from 1 to p/2.
    magnitude : size of the transform of the encoding at this frequency.
    """
    return magnitude**2 / (2 * p if is_nyquist(p, frequency) else p)


def is_nyquist(p: int, frequency: int) -> bool:
    """Whether a frequency is its own conjugate.

    Parameters
    ----------
    p : the modulus.
    frequency : xi, from 1 to p/2.
    """
    return 2 * frequency == p


def aligned_neurons(
    p: int, frequency: int, amplitudes: Waves, phases: Waves
) -> Float[np.ndarray, "neurons size"]:
    """Eq 71: parameters (u, v, w) of neurons on one frequency; with amplitudes 1 the norm is 1.

    Parameters
    ----------
    p : the modulus.
    frequency : xi, from 1 to p/2.
    amplitudes, phases : of the waves u, v and w of each neuron, `(3, neurons)`.
    """
    turns = 2 * math.pi * frequency / p * np.arange(p)
    mean_square = 1.0 if is_nyquist(p, frequency) else 0.5
    waves = np.cos(turns + phases[..., None]) / math.sqrt(3 * p * mean_square)
    return np.concatenate(list(amplitudes[..., None] * waves), axis=1)


def maximizer(
    p: int, frequency: int, coefficient: complex, phase_u: float = 0.0, phase_v: float = 0.0
) -> Float[np.ndarray, "1 size"]:
    """Theorem 5.1: the neuron of norm 1 and maximal utility with these phases.

    Parameters
    ----------
    p : the modulus.
    frequency : xi, from 1 to p/2.
    coefficient : transform of the encoding at this frequency.
    phase_u, phase_v : phases of the incoming waves; 0 or pi at p/2.
    """
    phases = np.array([phase_u, phase_v, phase_u + phase_v - np.angle(coefficient)])
    return aligned_neurons(p, frequency, np.ones((3, 1)), phases[:, None])


def aligned_cost(
    p: int, frequency: int, coefficient: complex, amplitudes: Waves, phases: Waves
) -> float:
    r"""Lemma F.6: the part of the loss that is quadratic in the function, :math:`\frac12 E|f|^2`.

    If p divides :math:`4\xi`, which the lemma excludes, waves of frequency :math:`2\xi` are real and
    the squares of u and of v add one more term each.

    Parameters
    ----------
    p : the modulus.
    frequency : xi, below p/2.
    coefficient : transform of the encoding at this frequency.
    amplitudes, phases : of the waves u, v and w of each neuron, `(3, neurons)`.
    """
    if is_nyquist(p, frequency):
        raise ValueError("At frequency p/2 waves have no phase, and Lemma F.6 does not hold.")
    au, av, aw = amplitudes
    su, sv, sw = phases - np.angle(coefficient)

    def pairs(size: np.ndarray, angle: np.ndarray) -> np.ndarray:
        return np.outer(size, size) * np.cos(np.subtract.outer(angle, angle))

    both = (
        np.outer(au**2 + av**2, au**2 + av**2)
        + pairs(au**2, 2 * su) / 2
        + pairs(av**2, 2 * sv) / 2
        + 2 * pairs(au * av, su + sv)
        + 2 * pairs(au * av, su - sv)
    )
    if 4 * frequency % p == 0:
        for size, angle in ((au**2, 2 * su), (av**2, 2 * sv)):
            both = both + np.outer(size, size) * np.cos(np.add.outer(angle, angle)) / 2
    return float(abs(coefficient) ** 4 / (54 * p**2) * np.sum(pairs(aw, sw) * both))


def minimizer(
    p: int, frequency: int, coefficient: complex, neurons: int
) -> Float[np.ndarray, "neurons size"]:
    """Theorem F.7: neurons that learn one frequency exactly; six suffice, or two at p/2.

    Parameters
    ----------
    p : the modulus.
    frequency : xi, from 1 to p/2.
    coefficient : transform of the encoding at this frequency.
    neurons : how many there are.
    """
    size, phase = abs(coefficient), float(np.angle(coefficient))
    if is_nyquist(p, frequency):
        return _nyquist_minimizer(p, size, phase, neurons)
    if neurons < ENOUGH:
        raise ValueError(f"The construction needs at least {ENOUGH} neurons; got {neurons}.")
    turn = 2 * math.pi * np.arange(neurons) / neurons
    amplitude = np.cbrt(math.sqrt(54 * p) / (neurons * size))
    phases = np.stack([2 * turn, -turn, turn - phase])
    return aligned_neurons(p, frequency, np.full((3, neurons), amplitude), phases)


def _nyquist_minimizer(p: int, size: float, phase: float, neurons: int) -> np.ndarray:
    """(u + v)^2 w - (u - v)^2 w = 4 u v w; further neurons are zero."""
    if neurons < 2:
        raise ValueError(f"The construction needs at least 2 neurons; got {neurons}.")
    amplitudes = np.zeros((3, neurons))
    amplitudes[:, :2] = np.cbrt(math.sqrt(27 * p) / (4 * size))
    phases = np.zeros((3, neurons))
    phases[:, :2] = np.array([[0.0, 0.0], [0.0, math.pi], [-phase, math.pi - phase]])
    return aligned_neurons(p, p // 2, amplitudes, phases)


def learned_function(p: int, frequency: int, coefficient: complex) -> Float[np.ndarray, "pairs p"]:
    """Lemma F.8: outputs for all pairs (a, b), b fastest, once one frequency is learned.

    Parameters
    ----------
    p : the modulus.
    frequency : xi, from 1 to p/2.
    coefficient : transform of the encoding at this frequency.
    """
    first, second = np.divmod(np.arange(p * p), p)
    turns = np.arange(p) - (first + second)[:, None]
    size = abs(coefficient) / p * (1 if is_nyquist(p, frequency) else 2)
    return size * np.cos(2 * math.pi * frequency / p * turns + np.angle(coefficient))


def escapes(p: int, frequencies: Collection[int]) -> list[tuple[int, int]]:
    r"""Pairs of frequencies in the encoding by which neurons on one can leave it for the other.

    While the squares of Eq 77 have not canceled, neurons on :math:`\xi` are drawn to :math:`\pm3\xi`;
    if p is even, those on :math:`\xi` and :math:`p/2 - \xi` disturb each other.

    Parameters
    ----------
    p : the modulus.
    frequencies : those of the encoding.
    """
    fold = lambda k: min(k % p, -k % p)  # noqa: E731
    tripled = [(k, fold(3 * k)) for k in frequencies if fold(3 * k) != k]
    mirrored = [pair for pair in itertools.combinations(frequencies, 2) if 2 * sum(pair) == p]
    return [pair for pair in (*tripled, *mirrored) if pair[1] in frequencies]


class ModularTheory(AbstractTheory[ModularAddition, QuadraticPair]):
    """Quadratic neurons on modular addition."""

    methods: ClassVar[tuple[str, ...]] = ("closed",)
    references: ClassVar[tuple[str, ...]] = (
        "kunin2025agf: Alternating Gradient Flows, section 5, Theorems 5.1 and 5.2, appendix F",
    )

    @classmethod
    def covers(cls, problem: Problem) -> bool:
        """Pairs of words, all of them, under the squared loss."""
        return (
            isinstance(problem.units, QuadraticPair)
            and isinstance(problem.task, ModularAddition)
            and problem.squared
        )

    @classmethod
    def example(cls) -> Start:
        """One frequency modulo 5, six neurons."""
        return Start(Problem(modular_addition(5, {1: 4.0}), QuadraticPair(6)), 0.02)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Frequencies in the order in which they are learned."""
        return ordered_frequencies(self.task)

    @cached_property
    def utilities(self) -> Float[np.ndarray, " frequencies"]:
        """The maximal utility of each frequency, in that order."""
        task = self.task
        return np.array([maximal_utility(task.p, k, task.spectrum[k]) for k in self.order])

    @cached_property
    def closed(self) -> Outcome:
        """Levels by Eq 9; times as lower bounds from the start."""
        self.start.check_dormant()
        task, order = self.task, self.order
        learned = parts_learned(task.p, order, self.start.problem.width)
        drops = np.array([share(task.p, k, task.spectrum[k]) for k in order])
        times = bounds_from_start(self.start, self.utilities, drops)
        # what stays of each frequency, not what went: a task learned fully ends at exactly zero
        left = drops * (1 - learned)
        after = [float(left[: i + 1].sum() + drops[i + 1 :].sum()) for i in range(len(order))]
        names = {name["frequency"]: name for name in task.modes().names}
        return Outcome(
            stages=tuple(
                Stage(time=float(times[i]), loss=after[i], units=(), feature=names[k])
                for i, k in enumerate(order)
                if learned[i] > 0
            ),
            stopped=Stopped.NO_UTILITY if (learned == 1).all() else Stopped.NO_DORMANT,
            assumptions=(self._times_are_bounds,),
            initial_loss=float(drops.sum()),
        )

    @cached_property
    def audit(self) -> tuple[Assumption, ...]:
        """The hypotheses of section 5 and of appendix F.2."""
        task, order = self.task, self.order
        return (
            _odd(task.p),
            _distinct(task, order),
            _resonances(task.p, order),
            _enough_neurons(task.p, self.start.problem.width, order),
            _small(self.start, task, order),
        )

    @property
    def _times_are_bounds(self) -> Assumption:
        theta = np.asarray(self.start.theta) / self.start.norms[:, None]
        initial = utility(np.asarray(self.task.encoding), *np.split(theta, 3, axis=1))
        aligned = float(np.max(initial) / self.utilities.max())
        return times_are_bounds("neurons", "frequencies", aligned)


def ordered_frequencies(task: ModularAddition) -> tuple[int, ...]:
    """Frequencies in the order in which they are learned: by decreasing maximal utility.

    Parameters
    ----------
    task : what is learned.
    """
    return tuple(sorted(task.frequencies, key=lambda k: -_speed(task, k)))


def parts_learned(p: int, order: tuple[int, ...], width: int) -> Float[np.ndarray, " frequencies"]:
    """Part of each frequency that can be learned if each takes the neurons it needs, in order.

    Parameters
    ----------
    p : the modulus.
    order : frequencies in the order in which they are learned.
    width : number of neurons.
    """
    parts = []
    for k in order:
        table = _LEARNED_BY_AT_NYQUIST if is_nyquist(p, k) else _LEARNED_BY
        used = min(width, len(table) - 1)
        parts.append(table[used])
        width -= used
    return np.array(parts)


def _speed(task: ModularAddition, frequency: int) -> float:
    """The magnitude that a pair of frequencies with this maximal utility would have."""
    magnitude = float(task.spectrum[frequency])
    return magnitude * 2 ** (1 / 6) if is_nyquist(task.p, frequency) else magnitude


def _first_few(items: list[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more


def _odd(p: int) -> Assumption:
    even = ": p is even, the Nyquist frequency p/2 is outside the theorem" if p % 2 == 0 else ""
    return Assumption(f"odd modulus p{even}", p % 2 == 1, float(p), "odd")


def _distinct(task: ModularAddition, order: tuple[int, ...]) -> Assumption:
    gaps = {
        pair: 1 - _speed(task, pair[1]) / _speed(task, pair[0])
        for pair in itertools.pairwise(order)
    }
    close = [f"{a} and {b} differ by {100 * g:.1f}%" for (a, b), g in gaps.items() if g < _CLEAR]
    words = f": frequencies {_first_few(close)}, so their order depends on the initialization"
    return Assumption(
        f"clear order: smallest relative gap of two magnitudes{words if close else ''}",
        not close,
        float(min(gaps.values())) if gaps else None,
        f"above {_CLEAR:g}",
    )


def _resonances(p: int, order: tuple[int, ...]) -> Assumption:
    found = [f"from {a} to {b}" for a, b in escapes(p, order)]
    found += [f"{k} with itself, as p divides 4 * {k}" for k in order if 4 * k % p == 0]
    words = f": neurons can be drawn {_first_few(found)}" if found else ""
    return Assumption(
        f"resonances: frequencies that disturb each other{words}",
        not found,
        float(len(found)),
        "none; with some, levels and order still hold once the neurons' squares cancel (Eq 77)",
    )


def _enough_neurons(p: int, width: int, order: tuple[int, ...]) -> Assumption:
    parts = parts_learned(p, order, width)
    partly = [str(k) for k, part in zip(order, parts, strict=True) if 0 < part < 1]
    never = [str(k) for k, part in zip(order, parts, strict=True) if part == 0]
    words = f"; too few to learn frequency {_first_few(partly)} fully" if partly else ""
    words += f"; frequency {_first_few(never)} will never be learned" if never else ""
    return Assumption(
        f"neurons a frequency{words}",
        width >= ENOUGH * len(order),
        width / len(order),
        f"at least {ENOUGH}; 5 are enough in practice",
    )


def _small(start: Start, task: ModularAddition, order: tuple[int, ...]) -> Assumption:
    largest = max(float(task.spectrum[k]) for k in order)
    at_rest = math.cbrt(math.sqrt(54 * task.p) / (ENOUGH * largest))
    relative = float(start.norms.max() / at_rest)
    return Assumption(
        "largest initial norm of a neuron / norm of a learned neuron",
        relative < _SMALL,
        relative,
        f"below {_SMALL:g}; the relative error of the jump times is of this order",
    )

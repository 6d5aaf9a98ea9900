"""Modular addition in Fourier space: what a network, and each of its neurons, holds of every frequency."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlewalk.curves.curve import LossCurve
from saddlewalk.curves.reading import read_stages
from saddlewalk.diagnose import loss_curve
from saddlewalk.flow import train
from saddlewalk.problem import Problem, compiled
from saddlewalk.tasks import ModularAddition
from saddlewalk.theory.agf import Walk

_HEARD = 1e-2
"""Neurons whose output is below this part of the largest carry nothing."""


@dataclass(frozen=True)
class FourierRun:
    """A network that learns, predicted or simulated."""

    time: np.ndarray
    theta: np.ndarray
    power: np.ndarray
    """Mean of |f^[k]|^2 over all inputs: `(time, frequency)`."""
    jumps: list[float]
    """Where the loss passes the middle between the levels of two frequencies."""
    levels: list[float]

    @classmethod
    def of(
        cls,
        problem: Problem,
        time: np.ndarray,
        theta: np.ndarray,
        curve: LossCurve,
        levels: list[float],
    ) -> "FourierRun":
        """The run through these parameters, with this loss curve."""
        jumps, points = read_stages(curve, levels)[:2]
        seen = [float(curve.loss[k]) for k in (0, *points)]
        power = [np.mean(np.abs(_transform(problem, one)) ** 2, axis=0) for one in theta]
        return cls(time, theta, np.stack(power), jumps, seen)

    def order(self, frequencies: tuple[int, ...]) -> list[int]:
        """Frequencies by the time at which they first have half of their last power."""
        power = self.power[:, list(frequencies)]
        moments = np.argmax(power >= 0.5 * power[-1], axis=0)
        return [frequencies[i] for i in np.argsort(moments, kind="stable")]


def _transform(problem: Problem, theta: np.ndarray) -> np.ndarray:
    """Fourier transform of the output for each input: `(inputs, frequency)`."""
    return np.fft.rfft(np.asarray(compiled.function(problem, theta)), axis=1)


def walked(problem: Problem, scale: float, levels: list[float]) -> FourierRun:
    """AGF in real time, with the parameters that `predict` does not keep; dormant neurons are zero.

    Parameters
    ----------
    problem : units, data and loss.
    scale : initialization scale alpha.
    levels : losses of the plateaus that are expected, falling; the first is that of the start.
    """
    walk = Walk(problem, problem.initialize(scale), real_time=True)
    walk.run()
    curve = walk.record.curve
    time = curve.time[[moment.index for moment in walk.record.moments]]
    theta = np.stack([np.asarray(moment.alone) for moment in walk.record.moments])
    return FourierRun.of(problem, time, theta, curve, levels)


def trained(
    problem: Problem, scale: float, levels: list[float], end: float
) -> tuple[FourierRun, np.ndarray]:
    """Gradient flow from the same start, and which neurons are heard at its end.

    Parameters
    ----------
    problem : units, data and loss.
    scale : initialization scale alpha.
    levels : losses of the plateaus that are expected, falling; the first is that of the start.
    end : time at which training ends.
    """
    path = train(
        problem.task,
        problem.units,
        scale,
        solver="stabilized",
        max_time=end,
        most_saved=2000,
        progress=None,
    )
    size = path.data["unit_output"].values[-1]
    time = path.data["saved"].values
    run = FourierRun.of(problem, time, path.parameters, loss_curve(path), levels)
    return run, size > _HEARD * size.max()


def at_waking(theta: np.ndarray) -> np.ndarray:
    """Parameters of each neuron when it is first not dormant.

    Parameters
    ----------
    theta : parameters `(time, neurons, size)`; dormant neurons are zero.
    """
    first = np.argmax(np.abs(theta).max(axis=2) > 0, axis=0)
    return theta[first, np.arange(theta.shape[1])]


@dataclass(frozen=True)
class Neurons:
    """Neurons in Fourier space, each with the frequency of the task in which it has most power."""

    weights: np.ndarray
    """Output weights w: `(width, p)`."""
    squares: np.ndarray
    """(|u^|^2 + |v^|^2) w^ at the neuron's frequency: its part in the squares of Eq 77."""
    spectrum: np.ndarray
    """|w^|^2 at frequencies 1 to p/2, with sum 1."""
    frequency: np.ndarray
    purity: np.ndarray
    """Part of the power of w in this frequency."""
    phase: np.ndarray
    """Phase s_w of w at this frequency."""
    misalignment: np.ndarray
    """s_u + s_v - s_w - s_x there."""
    heard: np.ndarray

    @classmethod
    def of(cls, task: ModularAddition, theta: np.ndarray, heard: np.ndarray) -> "Neurons":
        """The neurons with these parameters (u, v, w)."""
        words = theta.reshape(len(theta), 3, -1)
        waves, x = np.fft.rfft(words, axis=2), np.fft.rfft(np.asarray(task.encoding))
        known = np.array(task.frequencies)
        frequency = known[np.argmax(np.sum(np.abs(waves[:, :, known]) ** 2, axis=1), axis=1)]
        u, v, w = waves[np.arange(len(theta)), :, frequency].T
        power = np.abs(waves[:, 2, 1:]) ** 2
        total = power.sum(axis=1, keepdims=True)
        spectrum = power / np.where(total > 0, total, 1.0)  # a neuron that never wakes has none
        return cls(
            weights=words[:, 2],
            squares=(np.abs(u) ** 2 + np.abs(v) ** 2) * w,
            spectrum=spectrum,
            frequency=frequency,
            purity=spectrum[np.arange(len(theta)), frequency - 1],
            phase=np.angle(w),
            misalignment=np.angle(u * v * np.conj(w * x[frequency])),
            heard=heard,
        )

    def mean_direction(self, frequency: int) -> float:
        """Length of the sum of the squares, as a part of the sum of their lengths."""
        squares = self.squares[self.heard & (self.frequency == frequency)]
        return float(np.abs(squares.sum()) / np.abs(squares).sum()) if len(squares) else math.nan

    @property
    def sorted(self) -> list[int]:
        """Heard neurons by frequency and phase, then the others."""
        return np.lexsort((self.phase, self.frequency, ~self.heard)).tolist()

    def to_json(self) -> list[dict[str, Any]]:
        """One row a neuron that is heard."""
        return [
            {
                "neuron": i,
                "frequency": int(self.frequency[i]),
                "purity": float(self.purity[i]),
                "phase": float(self.phase[i]),
                "misalignment": float(self.misalignment[i]),
            }
            for i in self.sorted
            if self.heard[i]
        ]

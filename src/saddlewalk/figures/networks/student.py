"""A ReLU student of a ReLU teacher, and what one seed decides about both.

Half of the student's neurons mirror the others, so that it answers zero at the start, and every neuron has
the same scale tau and balance delta.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.balance import alpha_of

HIDDEN, TEACHER = 50, 3


@dataclass(frozen=True)
class Draw:
    """What one seed decides: teacher, base of the student (|a| = |w| = 1, answers zero), inputs."""

    teacher: np.ndarray
    student: np.ndarray
    x: np.ndarray

    @property
    def y(self) -> np.ndarray:
        """The teacher's answers."""
        return self.answer(self.x)

    def answer(self, x: np.ndarray) -> np.ndarray:
        """The teacher's answers to any inputs."""
        return np.maximum(x @ self.teacher[:, :-1].T, 0) @ self.teacher[:, -1]

    def start(self, tau: float, delta: float) -> np.ndarray:
        """w scaled by tau/alpha and a by tau alpha."""
        alpha = alpha_of(tau, delta)
        sizes = np.full(self.student.shape[1], tau / alpha)
        sizes[-1] = tau * alpha
        return self.student * sizes


def drawn(seed: int, dim: int, samples: int, hidden: int = HIDDEN, teacher: int = TEACHER) -> Draw:
    """Teacher, student and inputs, in this order from one seed; rows are (w, a).

    Parameters
    ----------
    seed : seed of the draw.
    dim : number of inputs.
    samples : number of samples.
    hidden, teacher : neurons of the student (an even number) and of the teacher.
    """
    rng = np.random.default_rng(seed)
    wise = np.column_stack([on_sphere(rng, teacher, dim), rng.choice([-1.0, 1.0], teacher)])
    half = np.column_stack([on_sphere(rng, hidden // 2, dim), rng.choice([-1.0, 1.0], hidden // 2)])
    mirror = half * np.append(np.ones(dim), -1.0)
    return Draw(wise, np.concatenate([half, mirror]), on_sphere(rng, samples, dim))


def on_sphere(rng: np.random.Generator, many: int, dim: int) -> np.ndarray:
    """Random unit vectors.

    Parameters
    ----------
    rng : source of chance.
    many : number of vectors.
    dim : their dimension.
    """
    x = rng.normal(size=(many, dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def respond(theta: Float[Array, "h size"], x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """The student's answers.

    Parameters
    ----------
    theta : the student, one row (w, a) a neuron.
    x : inputs `(n, d)`.
    """
    return jax.nn.relu(x @ theta[:, :-1].T) @ theta[:, -1]


def squared_error(theta: Array, data: tuple[Array, Array]) -> Array:
    """Mean squared error.

    Parameters
    ----------
    theta : the student, one row (w, a) a neuron.
    data : inputs `(n, d)` and answers `(n,)`.
    """
    return jnp.mean((respond(theta, data[0]) - data[1]) ** 2)

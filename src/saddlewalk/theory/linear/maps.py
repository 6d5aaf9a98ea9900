"""Two layers of linear units: what they see of a task, how they grow, how they settle."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.tasks import Moments

_FAINT = 1e-12
"""Singular values this small, relative to the largest, are zero."""

_TINY = float(np.finfo(float).tiny)

Vector = Float[np.ndarray, " modes"]
Matrix = Float[np.ndarray, "c r"]
Outputs = Float[np.ndarray, "c modes"]
Rates = list[Float[np.ndarray, " _"]]
"""Singular values of the gradient, after each number of jumps."""
Axes = tuple[Float[np.ndarray, " axes"], Float[np.ndarray, "axes axes"]]
"""Eigenvalues and eigenvectors."""


@dataclass(frozen=True)
class Covariances:
    r"""All that a linear map sees of a task, with inputs along the eigenvectors of Sigma_xx.

    :math:`L(\beta) = \frac12 |Y - \beta \Lambda^{1/2}|^2 + L_0` and
    :math:`\Sigma_{yx} = Y \Lambda^{1/2}`; directions without variance are left out.
    """

    variances: Float[np.ndarray, " r"]
    target: Matrix
    basis: Float[np.ndarray, "d r"]
    floor: float

    @classmethod
    def of(cls, task: Moments) -> "Covariances":
        """The covariances of virtual samples, by singular values: nothing is squared."""
        x, y = np.asarray(task.x), np.asarray(task.y)
        left, root, right = np.linalg.svd(x, full_matrices=False)
        keep = root > root.max() * max(x.shape) * np.finfo(float).eps
        left, target = left[:, keep], y.T @ left[:, keep]
        lost = float(np.linalg.norm(y.T - target @ left.T))
        lost = 0.5 * lost**2 if lost > _FAINT * float(np.linalg.norm(y)) else 0.0
        return cls(root[keep] ** 2, target, right[keep].T, float(task.offset) + lost)

    @cached_property
    def root(self) -> Float[np.ndarray, " r"]:
        """Standard deviations of the inputs."""
        return np.sqrt(self.variances)

    @cached_property
    def cross(self) -> Matrix:
        """Sigma_yx."""
        return self.target * self.root

    @cached_property
    def explained(self) -> tuple[Outputs, Vector]:
        """Eigenvectors and eigenvalues mu of Sigma_yx Sigma_xx^-1 Sigma_yx^T, the largest first."""
        left, root, _ = np.linalg.svd(self.target, full_matrices=False)
        keep = root > _FAINT * root.max(initial=0.0)
        return left[:, keep], root[keep] ** 2

    @cached_property
    def singular(self) -> tuple[Outputs, Vector, Float[np.ndarray, "r modes"]]:
        """Singular modes of Sigma_yx: as many as there are eigenvalues mu."""
        left, sigma, right = np.linalg.svd(self.cross, full_matrices=False)
        count = len(self.explained[1])
        return left[:, :count], sigma[:count], right[:count].T

    def gap(self, layers: "Layers") -> Matrix:
        """What these layers miss of the target; half its square is the loss above the floor."""
        return self.target - layers.map * self.root

    def gradient(self, layers: "Layers") -> Matrix:
        """G = Sigma_yx - beta Sigma_xx."""
        return self.gap(layers) * self.root


class Layers(NamedTuple):
    """Both layers, or the part of them along some directions of the hidden space."""

    w: Float[np.ndarray, "width r"]
    a: Float[np.ndarray, "c width"]

    @classmethod
    def of(cls, covariances: Covariances, theta: Float[np.ndarray, "width size"]) -> "Layers":
        """The layers in the parameters [w, a] of the units."""
        inputs = len(covariances.basis)
        return cls(theta[:, :inputs] @ covariances.basis, theta[:, inputs:].T)

    @property
    def map(self) -> Matrix:
        """beta = A W."""
        return self.a @ self.w

    def turned(self, rotation: Float[np.ndarray, "directions width"]) -> "Layers":
        """The same in other directions of the hidden space: a symmetry of loss and flow."""
        return Layers(rotation @ self.w, self.a @ rotation.T)

    def cut(self, start: int, end: int | None = None) -> "Layers":
        """Some of the hidden directions."""
        return Layers(self.w[start:end], self.a[:, start:end])

    def joined(self, other: "Layers") -> "Layers":
        """More hidden directions."""
        return Layers(np.vstack([self.w, other.w]), np.hstack([self.a, other.a]))


# Utility maximization: dormant directions in the gradient that active ones leave


def grow(layers: Layers, gradient: Matrix, time: float) -> Layers:
    r"""Dormant weights after a time with the gradient frozen: :math:`e^{Kt} Z(0)`.

    In a singular mode of G the sum of both layers grows like :math:`e^{\sigma t}`, their difference
    decays. The hidden space is turned first, so that direction i holds nothing of the modes before
    the i-th: no weak mode is lost to rounding beside a strong one, however long they grow.

    Parameters
    ----------
    layers : the weights Z(0) of the dormant directions.
    gradient : G, that which the active directions leave.
    time : t, at learning rate 1.
    """
    left, sigma, right = np.linalg.svd(gradient, full_matrices=False)
    a, w = left.T @ layers.a, right @ layers.w.T
    turn, triangle = np.linalg.qr((w + a).T / 2)
    layers = layers.turned(turn.T)
    growing, decaying = triangle.T, (w - a) @ turn / 2
    more, less = (np.expm1(sign * sigma * time)[:, None] for sign in (1, -1))
    return Layers(
        layers.w + (right.T @ (more * growing + less * decaying)).T,
        layers.a + left @ (more * growing - less * decaying),
    )


_MANY = 200
"""Outputs above which singular values come from the smaller of the two squares: ten times as fast."""


def accumulated_times(rates: Rates) -> list[float]:
    r"""Accelerated times at which accumulated utilities reach 1, one after the other.

    `rates[k]` are the singular values of the gradient after k jumps, for the directions that are
    dormant then. The i-th of these aligns with the i-th mode, whatever the modes were before:
    :math:`S_i \leftarrow S_i + \sigma_i^{(k)} \Delta\tau`.

    Parameters
    ----------
    rates : singular values of the gradient after each number of jumps, one fewer each time.
    """
    times, now = [], 0.0
    accumulated = np.zeros(len(rates))
    for sigma in rates:
        wait = float((1 - accumulated[0]) / sigma[0])
        now += wait
        times.append(now)
        accumulated = (accumulated + wait * sigma)[1:]
    return times


def conjecture_4_1(cross: Matrix, modes: Outputs) -> list[float]:
    r"""Eq 6: :math:`\Delta\tau^{(i)} = (1 - \sum_j \sigma_{i-j}^{(j)} \Delta\tau^{(j+1)})/\sigma_1^{(i-1)}`.

    :math:`\sigma^{(k)}` are the singular values of :math:`P_{U_k}^\perp \Sigma_{yx}`; `modes` are
    the eigenvectors u_i in the order of mu. (Eq 45 and 46 of the appendix are one index off.)

    Parameters
    ----------
    cross : Sigma_yx, `(c, r)`.
    modes : the eigenvectors u_i, one a column.
    """
    rows = modes.T @ cross
    return accumulated_times(
        [_singular_values(rows[k:], len(rows) > _MANY) for k in range(len(rows))]
    )


def _singular_values(matrix: Matrix, fast: bool) -> Vector:
    """Singular values, the largest first; those below 1e-8 of it are rounding if they are to come fast."""
    if not fast:
        return np.linalg.svd(matrix, compute_uv=False)
    squares = np.linalg.eigvalsh(matrix @ matrix.T)[::-1]
    return np.sqrt(np.maximum(squares, np.finfo(float).tiny))


def top_output(matrix: Matrix) -> Vector:
    """The left singular vector of the largest singular value.

    Parameters
    ----------
    matrix : a matrix of maps from inputs to outputs.
    """
    if len(matrix) <= _MANY:
        return np.linalg.svd(matrix, full_matrices=False)[0][:, 0]
    from scipy.sparse.linalg import svds

    return svds(matrix, k=1, v0=matrix.sum(axis=1), return_singular_vectors="u")[0][:, 0]


def gidel_times(sigma: Vector) -> Vector:
    """Eq 47: modes that never meet jump at tau = 1 / sigma.

    Parameters
    ----------
    sigma : singular values of Sigma_yx.
    """
    return 1 / sigma


# Cost minimization: active directions


def reduced_rank_regression(covariances: Covariances, rank: int) -> Float[np.ndarray, "c d"]:
    """Eq 43: the best map of this rank, P_U Sigma_yx Sigma_xx^-1, in the inputs of the task.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    rank : of the map.
    """
    modes = covariances.explained[0][:, :rank]
    least_squares = covariances.target / np.sqrt(covariances.variances)
    return modes @ (modes.T @ least_squares) @ covariances.basis.T


def relax_outer(covariances: Covariances, layers: Layers, time: float) -> Layers:
    r"""Flow of A with W frozen, exactly: :math:`\dot A = \Sigma_{yx} W^\top - A\, W \Sigma_{xx} W^\top`.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    layers : the weights W and A.
    time : how long A flows.
    """
    return _relax_outer(covariances, layers, time, _axes_of_inner(covariances, layers))


def _axes_of_inner(covariances: Covariances, layers: Layers) -> Axes:
    """Rates and directions in which A relaxes: they stay while W does."""
    return _axes((layers.w * covariances.variances) @ layers.w.T)


def _relax_outer(covariances: Covariances, layers: Layers, time: float, axes: Axes) -> Layers:
    rates, turn = axes
    decay = rates * time
    pull = covariances.cross @ (layers.w.T @ turn)
    a = (layers.a @ turn) * np.exp(-decay) + pull * (time * _saturation(decay))
    return Layers(layers.w, a @ turn.T)


def relax_inner(covariances: Covariances, layers: Layers, time: float) -> Layers:
    r"""Flow of W with A frozen, exactly: :math:`\dot W = A^\top \Sigma_{yx} - A^\top A\, W \Sigma_{xx}`.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    layers : the weights W and A.
    time : how long W flows.
    """
    rates, turn = _axes(layers.a.T @ layers.a)
    decay = np.outer(rates, covariances.variances) * time
    pull = (layers.a @ turn).T @ covariances.cross
    w = (turn.T @ layers.w) * np.exp(-decay) + pull * (time * _saturation(decay))
    return Layers(turn @ w, layers.a)


def _axes(square: Float[np.ndarray, "some some"]) -> Axes:
    """Eigenvalues, at least 0, and eigenvectors: LAPACK without the ceremony around it."""
    if not len(square):
        return np.zeros(0), square
    from scipy.linalg.lapack import dsyevd

    rates, turn, _ = dsyevd(square)
    return np.maximum(rates, 0.0), turn


def descend(covariances: Covariances, layers: Layers, time: float) -> Layers:
    """A step of gradient flow, of second order and stable however stiff: each layer in its turn.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    layers : the weights W and A.
    time : length of the step.
    """
    return Descent(covariances).step(layers, time)


class Descent:
    """Steps one after the other: A moves at the end of one and at the start of the next along the same axes.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    """

    def __init__(self, covariances: Covariances) -> None:
        self._covariances = covariances
        self._inner: np.ndarray | None = None
        self._axes: Axes

    def step(self, layers: Layers, time: float) -> Layers:
        """One step of gradient flow.

        Parameters
        ----------
        layers : the weights W and A.
        time : length of the step.
        """
        layers = self._outer(layers, time / 2)
        layers = relax_inner(self._covariances, layers, time)
        return self._outer(layers, time / 2)

    def _outer(self, layers: Layers, time: float) -> Layers:
        if layers.w is not self._inner:
            self._inner, self._axes = layers.w, _axes_of_inner(self._covariances, layers)
        return _relax_outer(self._covariances, layers, time, self._axes)


def _saturation(x: np.ndarray) -> np.ndarray:
    """(1 - exp(-x)) / x, for x of at least 0."""
    x = np.maximum(x, _TINY)
    return -np.expm1(-x) / x


def loss_slope(layers: Layers, gradient: Matrix) -> float:
    """dL/dt = -|G W^T|^2 - |A^T G|^2.

    Parameters
    ----------
    layers : the weights W and A.
    gradient : G = Sigma_yx - beta Sigma_xx at these weights.
    """
    return -(square(gradient @ layers.w.T) + square(layers.a.T @ gradient))


def square(matrix: np.ndarray) -> float:
    """Sum of the squares of all entries.

    Parameters
    ----------
    matrix : an array of any shape.
    """
    return float(np.vdot(matrix, matrix))


def fastest_rate(gradient: Matrix) -> float:
    """The largest singular value, from just above: its Schatten norm of order 8 costs little.

    Parameters
    ----------
    gradient : G, a matrix.
    """
    gram = gradient @ gradient.T
    return square(gram @ gram) ** 0.125

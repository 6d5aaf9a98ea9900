r""":math:`\beta = W_L \cdots W_1`: the layers of a deep linear network, their flow, and what of them is
dormant.

At a saddle of rank k every layer is :math:`W_l = A_l + D_l`: k directions of each hidden space are in use,
the rest is small. Since layers are balanced, the left singular vectors of one layer are the right ones of
the next, and the dormant part lives in the complement of the k directions on both sides. There it moves as
if the active part were not there, in the gradient that this leaves:

.. math:: \dot D_l = (D_L \cdots D_{l+1})^\top\, G\, (D_{l-1} \cdots D_1)^\top, \qquad
          G = \Sigma_{yx} - \beta_A \Sigma_{xx},

a flow of degree L in D, whose direction does not know the scale. For L = 2 it is linear, and modes grow
side by side; for L > 2 it ends in a finite time, in which one mode, of all layers at once, outgrows the
others.

What sleeps must not be lost in the last digit of what has grown: at scale 1e-30 both stand in one matrix.
So hidden spaces are turned until each coordinate holds a direction of one size (`Chain.turned`): the numbers
of small directions are then rows and columns of their own, right to the last digit of themselves, and stay so
under the flow.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.theory.linear import Covariances

_GRADED = 1e-6
"""Directions smaller than this part of the largest are not left to LAPACK."""
_ORTHOGONAL = 1e-14
"""Cosine of two rows that is none."""
_SWEEPS = 30
"""Rounds over all pairs, at most."""
_PLAIN = 3
"""Rounds after which the rank is plain."""

Matrix = Float[np.ndarray, "..."]
Vector = Float[np.ndarray, " size"]


class Chain(NamedTuple):
    """All layers, the first one next to the input (which is along the eigenvectors of Sigma_xx)."""

    layers: tuple[Matrix, ...]

    @property
    def depth(self) -> int:
        """Number L of layers."""
        return len(self.layers)

    @property
    def width(self) -> int:
        """Size of the narrowest hidden layer: the largest rank of the map."""
        return min(len(layer) for layer in self.layers[:-1])

    @property
    def map(self) -> Matrix:
        """beta."""
        return self.below[-1]

    @property
    def below(self) -> list[Matrix]:
        """Products of the first 0, 1, ..., L layers."""
        found = [np.eye(self.layers[0].shape[-1])]
        for layer in self.layers:
            found.append(layer @ found[-1])
        return found

    @property
    def above(self) -> list[Matrix]:
        """What stands in front of layer 1, 2, ..., L: the product of all layers after it."""
        found = [np.eye(self.layers[-1].shape[-2])]
        for layer in self.layers[:0:-1]:
            found.append(found[-1] @ layer)
        return found[::-1]

    def climb(self, gradient: Matrix) -> "Chain":
        """The velocity of all layers in a gradient G of the map."""
        below, above = self.below, self.above
        return Chain(tuple(above[k].mT @ gradient @ below[k].mT for k in range(self.depth)))

    @property
    def vector(self) -> Vector:
        """All numbers in one vector."""
        return np.concatenate([layer.ravel() for layer in self.layers])

    def of(self, vector: np.ndarray) -> "Chain":
        """The chain of this shape with these numbers; of many vectors many chains at once."""
        ends = np.cumsum([layer.size for layer in self.layers])
        parts = np.split(vector, ends[:-1], axis=-1)
        return Chain(
            tuple(
                part.reshape(*vector.shape[:-1], *layer.shape)
                for part, layer in zip(parts, self.layers, strict=True)
            )
        )

    def beyond(self, count: int) -> "Chain":
        """The chain of all coordinates of the hidden spaces but the first ones."""
        first, *between, last = self.layers
        return Chain((first[count:], *(one[count:, count:] for one in between), last[:, count:]))

    def with_beyond(self, count: int, other: "Chain") -> "Chain":
        """The same with other numbers there."""
        layers = Chain(tuple(layer.copy() for layer in self.layers))
        for mine, new in zip(layers.beyond(count).layers, other.layers, strict=True):
            mine[...] = new
        return layers

    def turned(self, count: int = 0) -> "Chain":
        """With hidden spaces turned until each coordinate holds one direction, the largest first; the first
        `count` stay as they are."""
        spaces = itertools.pairwise(self.beyond(count).layers)
        turns = [_turn(np.concatenate([a, b.T], axis=1)) for a, b in spaces]
        layers = [layer.copy() for layer in self.layers]
        for before, after, turn in zip(layers, layers[1:], turns, strict=False):
            before[count:] = turn.T @ before[count:]
            after[:, count:] = after[:, count:] @ turn
        return Chain(tuple(layers))

    @classmethod
    def read(
        cls, covariances: Covariances, shapes: dict[str, tuple[int, ...]], theta: Vector
    ) -> "Chain":
        """The layers in the parameters of a network, in their order."""
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
        parts = np.split(np.asarray(theta, dtype=float), ends[:-1])
        first, *others = (
            part.reshape(shape) for part, shape in zip(parts, shapes.values(), strict=True)
        )
        return cls((first @ covariances.basis, *others))


def _turn(rows: Matrix) -> Matrix:
    """Columns along the left singular vectors, the largest first, with small ones right in themselves.

    LAPACK errs by the last digit of the largest; where that is too much, pairs of rows are turned until they
    are orthogonal (Hestenes, 1958), and rows of any size keep their digits.
    """
    turn, root, _ = np.linalg.svd(rows, full_matrices=False)
    if len(root) == len(rows) and root[-1] > _GRADED * root[0]:
        return turn
    order = np.argsort(-np.linalg.norm(rows, axis=1))
    rows, turn = rows[order], np.eye(len(rows))[:, order]
    for sweep in range(_SWEEPS):
        if (
            sweep == _PLAIN
        ):  # what is left of rows beyond the rank is rounding, which no sweep would end
            rows[np.argsort(-np.linalg.norm(rows, axis=1))[rows.shape[1] :]] = 0.0
        turned = [
            _turn_pair(rows, turn, i, j) for i, j in itertools.combinations(range(len(rows)), 2)
        ]
        if not any(turned):
            break
    return turn[:, np.argsort(-np.linalg.norm(rows, axis=1), kind="stable")]


def _turn_pair(rows: Matrix, turn: Matrix, i: int, j: int) -> bool:
    """Make two rows orthogonal, in place, and say whether they were not."""
    a, b, c = (float(rows[k].dot(rows[m])) for k, m in ((i, i), (j, j), (i, j)))
    if abs(c) <= _ORTHOGONAL * np.sqrt(a) * np.sqrt(b):
        return False
    ratio = (b - a) / (2 * c)
    tangent = np.copysign(1.0, ratio) / (abs(ratio) + np.hypot(1.0, ratio))
    cosine = 1 / np.hypot(1.0, tangent)
    sine = cosine * tangent
    for matrix in (rows, turn.T):
        matrix[i], matrix[j] = (
            cosine * matrix[i] - sine * matrix[j],
            sine * matrix[i] + cosine * matrix[j],
        )
    return True


def flow_of(covariances: Covariances, like: Chain) -> Callable[[Vector], Vector]:
    """The velocity of all numbers of a chain under gradient flow.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    like : a chain of the same shape.
    """
    root = np.sqrt(covariances.variances)
    return climb_of(lambda beta: (covariances.target - beta * root) * root, like)


def climb_of(gradient: Callable[[Matrix], Matrix], like: Chain) -> Callable[[Vector], Vector]:
    """The velocity of all numbers of a chain, as `Chain.climb` has it, without its objects: this is called
    thousands of times.

    Parameters
    ----------
    gradient : G, of the map.
    like : a chain of the same shape.
    """
    ends = np.cumsum([0, *(layer.size for layer in like.layers)]).tolist()
    forms = [
        (slice(a, b), layer.shape)
        for a, b, layer in zip(ends[:-1], ends[1:], like.layers, strict=True)
    ]

    def velocity(vector: Vector) -> Vector:
        layers = [vector[at].reshape(shape) for at, shape in forms]
        below = [layers[0]]
        for layer in layers[1:]:
            below.append(layer.dot(below[-1]))
        back, moved = gradient(below[-1]), np.empty_like(vector)
        for k in range(len(layers) - 1, 0, -1):
            at, shape = forms[k]
            back.dot(below[k - 1].T, out=moved[at].reshape(shape))
            back = layers[k].T.dot(back)
        moved[forms[0][0]] = back.ravel()
        return moved

    return velocity


def losses(
    covariances: Covariances, like: Chain, states: Float[np.ndarray, "moments size"]
) -> Float[np.ndarray, "moments two"]:
    """Loss and slope at some states, all at once.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    like : a chain of the same shape.
    states : numbers of the chain at some moments.
    """
    root = np.sqrt(covariances.variances)
    chain = like.of(states)
    gap = covariances.target - chain.map * root
    loss = covariances.floor + 0.5 * np.sum(gap**2, axis=(1, 2))
    moved = chain.climb(gap * root).layers
    return np.stack([loss, -sum(np.sum(layer**2, axis=(1, 2)) for layer in moved)], axis=1)


def gradient_of(covariances: Covariances, beta: Matrix) -> Matrix:
    """G = Sigma_yx - beta Sigma_xx.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    beta : a map.
    """
    root = np.sqrt(covariances.variances)
    return (covariances.target - beta * root) * root

r"""Two layers that compose exactly: :math:`\sum_\rho 2^{k-1} D^{k+1}/m` neurons, exponentially many in k.

With :math:`u(h) = p^\top \rho(h)\, \hat x[\rho]^{-\top} l` a neuron sees a matrix element,
:math:`\langle u, g \cdot x\rangle = p^\top \rho(g)\, l`. The target is a sum of products of these,

.. math:: \frac{D}{|G|} \sum_{i, j, a} (v_i^\top \rho(g_1)\, e_{j_1})
          (e_{j_1}^\top \rho(g_2)\, e_{j_2}) \cdots (e_{j_{k-1}}^\top \rho(g_k)\, e_a)\;
          v_i^\top \rho(h)\, \hat x[\rho]\, e_a ,

over D/m vectors v whose images under what commutes with :math:`\rho` are an orthonormal basis. A product of
k numbers is a sum of :math:`2^{k-1}` k-th powers of sums with signs,
:math:`a_1 \cdots a_k = \frac{1}{2^{k-1} k!} \sum_{\epsilon} \epsilon_2 \cdots \epsilon_k
(a_1 + \epsilon_2 a_2 + \dots + \epsilon_k a_k)^k`.

Rotations of the plane (D = 2, complex) need k + 1 products instead of 4 for two factors, 8 for three: angles
add, and :math:`\cos(\theta_0 + \dots + \theta_k) = \frac{2^k}{k+1} \sum_{t=0}^{k} (-1)^t \prod_i
\cos(\theta_i + \pi t/(k+1))`. For a cyclic group and two factors these are the six neurons of Theorem F.7.
"""

import itertools
import math

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.groups import Group, Representation, fourier, present
from saddlewalk.groups.fourier import FAINT

Products = list[tuple[list[np.ndarray], np.ndarray]]
"""Input weights of k linear forms and output weights of their product."""


def neurons_needed(one: Representation, factors: int) -> int:
    """Neurons with which `exact_network` learns a representation; fewer may do.

    Parameters
    ----------
    one : the representation.
    factors : number k of factors.
    """
    signs = 2 ** (factors - 1)
    if _turns(one):
        return signs * (factors + 1)
    return signs * one.multiplicity * one.dimension**factors


def exact_network(
    group: Group, encoding: Float[np.ndarray, " order"], factors: int
) -> Float[np.ndarray, "neurons size"]:
    """Parameters (u_1, ..., u_k, w) of neurons that compose any k elements without error.

    Parameters
    ----------
    group, encoding : what is composed, and x; invertible at every representation that it has a part in.
    factors : number k of factors.
    """
    transform = fourier(group, encoding)
    rows: list[np.ndarray] = []
    for one in present(group, encoding):
        matrix = transform[one.name]
        values = np.linalg.svd(matrix, compute_uv=False)
        if values[-1] <= FAINT * values[0]:
            raise InputError(
                f"The encoding is singular at '{one.name}', with singular values {values.round(6).tolist()}: "
                "part of the elements cannot be read, and no network composes them exactly."
            )
        products = _angles if _turns(one) else _elements
        for readers, w in products(group, one, matrix, factors):
            rows += _powers(readers, w)
    return np.stack(rows)


def _turns(one: Representation) -> bool:
    return (one.dimension, one.type) == (2, "complex")


def _powers(readers: list[np.ndarray], w: np.ndarray) -> list[np.ndarray]:
    """A product of linear forms as a sum of powers."""
    k = len(readers)
    scale = 1 / (2 ** (k - 1) * math.factorial(k))
    rows = []
    for signs in itertools.product((1.0, -1.0), repeat=k - 1):
        seen = [u * sign for u, sign in zip(readers, (1.0, *signs), strict=True)]
        # a neuron's scale is free: shared evenly between its weights
        rows.append(_even(seen, scale * math.prod(signs) * w))
    return rows


def _even(readers: list[np.ndarray], w: np.ndarray) -> np.ndarray:
    """The same neuron with as much norm in its output weights as in its input weights on average."""
    k = len(readers)
    seen = math.sqrt(sum(float(u @ u) for u in readers) / k)
    factor = (float(np.linalg.norm(w)) / seen) ** (1 / (k + 1))
    return np.concatenate([*(factor * u for u in readers), w / factor**k])


def _elements(group: Group, one: Representation, matrix: np.ndarray, factors: int) -> Products:
    """Products of matrix elements."""
    eye, reads = np.eye(one.dimension), one.matrices @ np.linalg.inv(matrix).T
    writes = one.dimension / group.order * one.matrices @ matrix
    products = []
    for v in _generators(one):
        for path in itertools.product(range(one.dimension), repeat=factors):
            starts = [v, *(eye[j] for j in path[:-1])]
            readers = [reads[:, :, j] @ p for p, j in zip(starts, path, strict=True)]
            # reads[h, :, j] @ p is p^T rho(h) X^-T e_j
            products.append((readers, writes[:, :, path[-1]] @ v))
    return products


def _angles(group: Group, one: Representation, matrix: np.ndarray, factors: int) -> Products:
    """Products of cosines of the angles of rotations."""
    angle = np.arctan2(one.matrices[:, 1, 0], one.matrices[:, 0, 0])
    size, phase = math.hypot(matrix[0, 0], matrix[1, 0]), math.atan2(matrix[1, 0], matrix[0, 0])
    terms = factors + 1
    height = 2 / group.order * size * 2**factors / terms
    products = []
    for t in range(terms):
        turn = math.pi * t / terms
        # <u, g . x> = cos(angle(g) + turn): a wave of the same frequency with the phase of x taken off
        reader = np.cos(angle + phase + turn) / size
        w = (-1) ** t * height * np.cos(angle + phase - turn)
        products.append(([reader] * factors, w))
    return products


def _generators(one: Representation) -> list[np.ndarray]:
    """D/m vectors whose images under what commutes are an orthonormal basis."""
    units = math.sqrt(one.dimension) * one.commuting
    found: list[np.ndarray] = []
    spanned = np.zeros((one.dimension, 0))
    for axis in np.eye(one.dimension):
        left = axis - spanned @ (spanned.T @ axis)
        if len(found) < one.multiplicity and np.linalg.norm(left) > 1e-6:
            found.append(left / np.linalg.norm(left))
            spanned = np.concatenate([spanned, (units @ found[-1]).T], axis=1)
    return found

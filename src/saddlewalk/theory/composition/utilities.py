r""":math:`\mathcal U^*_\rho = k!\, \big(\|\hat x[\rho]\|_{op} / \sqrt{(k+1)|G|}\big)^{k+1} D^{-(k-1)/2}`.

Neurons :math:`(\sum_i \langle u_i, g_i \cdot x\rangle)^k\, w` learn :math:`(g_1 \cdots g_k) \cdot x`. As x
has mean zero, every monomial but :math:`k! \prod_i \langle u_i, g_i \cdot x\rangle` is blind to the target:

.. math:: \mathcal U = \frac{k!}{|G|^k} \sum_g (a_1 * \cdots * a_k)(g)\, b(g), \qquad
          a_i(g) = \langle u_i, g \cdot x\rangle, \quad b(g) = \langle w, g \cdot x\rangle .

A convolution is a product at each representation, so the utility is a sum over representations of forms of
degree k + 1. On the sphere its maximum lies in one of them: with singular vectors of
:math:`\hat x[\rho]^\top = \sum s_a l_a r_a^\top`,

.. math:: \hat u_1 \propto r_{j_1} q^\top, \quad \hat u_i \propto r_{j_i} l_{j_{i-1}}^\top, \quad
          \hat w \propto r_a q^\top, \quad j_k = a,

q free, made to commute with what commutes with :math:`\rho`, equal norms. Its utility has
:math:`s_a^2 \prod_{i<k} s_{j_i}` in the place of :math:`\|\hat x[\rho]\|_{op}^{k+1}`: one stage for each
:math:`(a, j)`, the largest first. D is the real dimension: then one formula serves all types. For a cyclic
group and two factors it is Theorem 5.1 (D = 2), and its counterpart at the Nyquist frequency (D = 1).

So the order is that of :math:`\|\hat x\|_{op}^{k+1} / D^{(k-1)/2}`: an operator norm with a penalty on the
dimension, not the power :math:`D \|\hat x\|_F^2 / (m|G|)` of a representation. Every representation has local
maxima of its own (against Theorem 5.1): close ones swap by the start.
"""

import math

import numpy as np
from jaxtyping import Float

from saddlewalk.groups import Group, Representation, fourier
from saddlewalk.tasks.composition import Part

Words = Float[np.ndarray, "neurons order"]


def utility(
    group: Group,
    encoding: Float[np.ndarray, " order"],
    readers: Float[np.ndarray, "factors neurons order"],
    w: Words,
) -> Float[np.ndarray, " neurons"]:
    """Utility of neurons while nothing is learned, by convolutions instead of a sum over all tuples.

    Parameters
    ----------
    group, encoding : what is composed, and x, with mean zero.
    readers : weights u_1 ... u_k of the neurons.
    w : their output weights.
    """
    words = group.orbit(encoding)
    first, *others = (np.asarray(u) @ words.T for u in readers)
    total = first
    for seen in others:  # (a * b)(g) = sum_h a(h) b(h^-1 g)
        total = np.einsum("nh,nhg->ng", total, seen[:, group.quotients])
    k = len(others) + 1
    return math.factorial(k) / group.order**k * np.sum(total * (np.asarray(w) @ words.T), axis=1)


def maximal_utility(order: int, dimension: int, norm: float | int, factors: int) -> float:
    """The largest utility of a neuron of norm 1 in one representation.

    Parameters
    ----------
    order : number of elements of the group.
    dimension : real dimension D of the representation.
    norm : largest singular value of the encoding there.
    factors : number k of factors.
    """
    return _utility(order, dimension, float(norm) ** (factors + 1), factors)


def part_utility(part: Part, order: int) -> float:
    """The largest utility of a neuron of norm 1 on a part of a representation.

    Parameters
    ----------
    part : which pair is written by way of which.
    order : number of elements of the group.
    """
    values = part.written.value**2 * math.prod(pairs.value for pairs in part.read)
    return _utility(order, part.representation.dimension, values, len(part.read) + 1)


def _utility(order: int, dimension: int, values: float, k: int) -> float:
    norms = ((k + 1) * order) ** (-(k + 1) / 2) * dimension ** (-(k - 1) / 2)
    return math.factorial(k) * norms * values


def maximizer(
    group: Group,
    encoding: Float[np.ndarray, " order"],
    one: Representation,
    pairs: tuple[int, ...],
    free: Float[np.ndarray, " D"] | None = None,
) -> Float[np.ndarray, " size"]:
    """The neuron (u_1, ..., u_k, w) of norm 1 that is aligned with singular pairs of a representation.

    Parameters
    ----------
    group, encoding : what is composed, and x.
    one : a representation that x has a part in.
    pairs : numbers j_1, ..., j_k of singular pairs, counted from 0; all 0 for the largest utility.
    free : the direction q, of length D; the first axis by default.
    """
    q = np.eye(one.dimension)[0] if free is None else np.asarray(free)
    left, _, right = np.linalg.svd(fourier(group, encoding)[one.name].T)
    places = [one.commutant * j for j in pairs]
    before = [q, *(left[:, j] for j in places[:-1])]
    ends = [*zip(before, places, strict=True), (q, places[-1])]
    # the function with coefficient r p^T; the part that no function has drops out of the trace
    parts = [np.einsum("p,gpq,q->g", p, one.matrices, right[j]) for p, j in ends]
    return np.concatenate([v / np.linalg.norm(v) for v in parts]) / math.sqrt(len(ends))

r"""Families of groups: cyclic, dihedral, symmetric, alternating, quaternion, octahedral, and products of any.

Products of cyclic groups have their representations in closed form, rotations by
:math:`2\pi \sum_i k_i g_i / n_i`, named after the frequencies k, of which k and -k are the same one. So have
dihedral groups, :math:`r \mapsto` rotation by :math:`2\pi k/n`, :math:`s \mapsto \mathrm{diag}(1, -1)`.
"""

import itertools
import math

import numpy as np

from saddlewalk.errors import InputError, checked_whole
from saddlewalk.groups.generated import MOST, from_matrices, from_permutations
from saddlewalk.groups.group import Group
from saddlewalk.groups.representations import Representation, decompose, named

_MOST_SYMMETRIC = 6


def cyclic(n: int) -> Group:
    """Numbers added modulo n.

    Parameters
    ----------
    n : the modulus, at least 2.
    """
    n = checked_whole("n", n, least=2, below=MOST + 1)
    numbers = np.arange(n)
    table = (numbers[:, None] + numbers) % n
    return Group(f"C{n}", table, tuple(map(str, numbers)), lambda group: _waves((n,)))


def product(*groups: Group) -> Group:
    """The direct product: tuples, multiplied entry by entry; the last entry counts fastest.

    Parameters
    ----------
    *groups : its factors.
    """
    if not groups:
        raise InputError("A product needs at least one group; got none.")
    order = math.prod(group.order for group in groups)
    if order > MOST:
        raise InputError(f"The product has {order} elements; {MOST} are the most here.")
    sizes = tuple(group.order for group in groups)
    places = np.unravel_index(np.arange(order), sizes)
    parts = [one.table[np.ix_(p, p)] for one, p in zip(groups, places, strict=True)]
    table = np.ravel_multi_index(tuple(parts), sizes)
    words = tuple(".".join(word) for word in itertools.product(*(one.elements for one in groups)))
    cycles = all(one.name == f"C{one.order}" for one in groups)
    known = (lambda group: _waves(sizes)) if cycles else decompose
    return Group("x".join(one.name for one in groups), table, words, known)


def dihedral(n: int) -> Group:
    """Rotations and reflections of a regular n-gon: r^0 ... r^(n-1), then r^0 s ... r^(n-1) s.

    Parameters
    ----------
    n : number of corners, at least 3.
    """
    n = checked_whole("n", n, least=3, below=MOST // 2 + 1)
    turn, flipped = np.tile(np.arange(n), 2), np.repeat([0, 1], n)
    turned = (turn[:, None] + np.where(flipped, -1, 1)[:, None] * turn) % n
    table = turned + n * (flipped[:, None] ^ flipped)
    words = tuple(f"r{k}" for k in range(n)) + tuple(f"r{k}s" for k in range(n))
    return Group(f"D{n}", table, words, lambda group: _turns(n))


def symmetric(n: int) -> Group:
    """All permutations of n things.

    Parameters
    ----------
    n : number of things, from 2 to 6.
    """
    n = checked_whole("n", n, least=2, below=_MOST_SYMMETRIC + 1)
    swap, cycle = [1, 0, *range(2, n)], [*range(1, n), 0]
    return from_permutations([swap, cycle], f"S{n}")


def alternating(n: int) -> Group:
    """Even permutations of n things.

    Parameters
    ----------
    n : number of things, from 3 to 6.
    """
    n = checked_whole("n", n, least=3, below=_MOST_SYMMETRIC + 1)
    threes = [[1, k, *range(2, k), 0, *range(k + 1, n)] for k in range(2, n)]
    return from_permutations(threes, f"A{n}")


def quaternion(order: int = 8) -> Group:
    """The quaternion group {1, -1, i, -i, j, -j, k, -k}, or a larger one with the same rule (dicyclic).

    Parameters
    ----------
    order : number of elements, a multiple of 4 from 8 on.
    """
    order = checked_whole("order", order, least=8, below=MOST + 1)
    if order % 4:
        raise InputError(f"A quaternion group has 8, 12, 16, ... elements; got {order}.")
    half = order // 2
    turn, other = np.tile(np.arange(half), 2), np.repeat([0, 1], half)
    turned = turn[:, None] + np.where(other, -1, 1)[:, None] * turn
    turned = turned + half // 2 * (other[:, None] & other)  # b^2 = a^(half/2)
    table = turned % half + half * (other[:, None] ^ other)
    words = tuple(f"a{k}" for k in range(half)) + tuple(f"a{k}b" for k in range(half))
    return Group(f"Q{order}", table, words)


def octahedral(full: bool = False) -> Group:
    """The 24 rotations of a cube, or with reflections all 48 of its symmetries.

    Parameters
    ----------
    full : with reflections.
    """
    about_z = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    about_x = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]
    turns = [about_z, about_x]
    return from_matrices([*turns, -np.eye(3)] if full else turns, "Oh" if full else "O")


def _waves(sizes: tuple[int, ...]) -> tuple[Representation, ...]:
    """One of each pair of frequencies k and -k; those with k = -k are signs."""
    places = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes))
    found = []
    for k in itertools.product(*map(range, sizes)):
        mirrored = tuple(-one % n for one, n in zip(k, sizes, strict=True))
        if k > mirrored:
            continue
        # whole numbers of turns are taken off before they are rounded
        turns = sum(np.remainder(a * g, n) / n for a, g, n in zip(k, places, sizes, strict=True))
        name = f"frequency-{'.'.join(map(str, k))}" if any(k) else "trivial"
        if k == mirrored:
            signs = np.where(np.round(2 * turns) % 2 == 0, 1.0, -1.0)
            found.append(Representation(name, signs[:, None, None], "real"))
        else:
            found.append(Representation(name, _rotations(turns), "complex"))
    return tuple(found)


def _turns(n: int) -> tuple[Representation, ...]:
    power = np.arange(n)
    flat = [(1, 1), (1, -1), *([(-1, 1), (-1, -1)] if n % 2 == 0 else [])]
    found = [
        Representation("", np.concatenate([r**power, s * r**power])[:, None, None] * 1.0, "real")
        for r, s in flat
    ]
    for k in range(1, (n + 1) // 2):
        rotations = _rotations(np.remainder(k * power, n) / n)
        both = np.concatenate([rotations, rotations @ np.diag([1.0, -1.0])])
        found.append(Representation("", both, "real"))
    return named(found)


def _rotations(turns: np.ndarray) -> np.ndarray:
    cosine, sine = np.cos(2 * math.pi * turns), np.sin(2 * math.pi * turns)
    return np.moveaxis(np.array([[cosine, -sine], [sine, cosine]]), 2, 0)

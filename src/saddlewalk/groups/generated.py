"""Groups from generators: every product of permutations, or of matrices, until there is nothing new."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.groups.group import Group

MOST = 2000
"""Elements beyond which a group is refused: its table, and what is made of it, would not fit."""
_DIGITS = 6


def from_permutations(generators: Any, name: str = "group") -> Group:
    """The group that permutations generate; (ab)(i) = a(b(i)).

    Parameters
    ----------
    generators : rows of numbers 0 ... n-1: row k holds where the k-th generator sends each.
    name : what tables call it.
    """
    rows = [np.asarray(one) for one in generators]
    degree = len(rows[0]) if rows and rows[0].ndim == 1 else 0
    for row in rows:
        if row.shape != (degree,) or sorted(row.tolist()) != list(range(degree)):
            raise InputError(
                f"A permutation must hold each of 0 to {max(degree - 1, 0)} once; got {row.tolist()!r:.60}."
            )
    if not rows:
        raise InputError("A group needs at least one generator; got none.")
    return _closed(
        [row.astype(int) for row in rows],
        np.arange(degree),
        lambda a, b: a[b],
        lambda a: tuple(a.tolist()),
        lambda a: cycles(a.tolist()),
        name,
    )


def from_matrices(generators: Any, name: str = "group") -> Group:
    """The group that invertible matrices generate; entries that agree to six digits are the same.

    Parameters
    ----------
    generators : square matrices of one size.
    name : what tables call it.
    """
    try:
        matrices = np.asarray(generators, dtype=float)
    except (TypeError, ValueError):
        raise InputError(
            f"`generators` must be real matrices of one size; got {generators!r:.60}."
        ) from None
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or not len(matrices):
        raise InputError(
            f"`generators` must be square matrices of one size; their shape is {matrices.shape}."
        )
    if not np.isfinite(matrices).all() or np.abs(np.abs(np.linalg.det(matrices)) - 1).max() > 1e-6:
        raise InputError(
            "The matrices of a finite group have determinant 1 or -1; got "
            f"{np.linalg.det(matrices).tolist()}."
        )
    return _closed(
        list(matrices),
        np.eye(matrices.shape[1]),
        lambda a, b: a @ b,
        lambda a: tuple((np.round(a, _DIGITS) + 0.0).ravel().tolist()),
        lambda a: "",
        name,
    )


def cycles(permutation: Sequence[int]) -> str:
    """A permutation as its cycles, counted from 1: `(1 2)(3 4)`, and `e` for the identity.

    Parameters
    ----------
    permutation : where each of 0 ... n-1 goes.
    """
    seen: set[int] = set()
    words = []
    for first in range(len(permutation)):
        cycle, now = [], first
        while now not in seen:
            seen.add(now)
            cycle.append(str(now + 1))
            now = permutation[now]
        if len(cycle) > 1:
            words.append(f"({' '.join(cycle)})")
    return "".join(words) or "e"


def _closed(
    generators: list[np.ndarray],
    identity: np.ndarray,
    multiply: Callable[[np.ndarray, np.ndarray], np.ndarray],
    key: Callable[[np.ndarray], Hashable],
    word: Callable[[np.ndarray], str],
    name: str,
) -> Group:
    """All products, breadth first. b is parent(b) times a generator, and so ab is a parent(b) times it."""
    elements, places = [identity], {key(identity): 0}
    parent: list[tuple[int, int]] = [(0, -1)]
    right: list[list[int]] = []
    while len(right) < len(elements):
        now = len(right)
        right.append([])
        for k, generator in enumerate(generators):
            new = multiply(elements[now], generator)
            place = places.setdefault(key(new), len(elements))
            if place == len(elements):
                if place >= MOST:
                    raise InputError(
                        f"The generators of '{name}' make more than {MOST} elements; this is the most here. "
                        "Is the group finite?"
                    )
                elements.append(new)
                parent.append((now, k))
            right[now].append(place)
    moves = np.array(right)
    table = np.empty((len(elements), len(elements)), dtype=int)
    table[:, 0] = np.arange(len(elements))
    for b in range(1, len(elements)):
        before, k = parent[b]
        table[:, b] = moves[table[:, before], k]
    names = tuple(word(one) or str(place) for place, one in enumerate(elements))
    return Group(name, table, names)

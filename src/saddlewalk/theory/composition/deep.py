r"""Depth for width: :math:`((g_1 g_2) g_3) \cdots g_k` step by step, or pair by pair in log k layers.

One exact layer for two factors (`exact_network`, N neurons) is all that is needed, because the group is
associative. A recurrent network applies it k - 1 times, from left to right. A tree applies it to neighbors,
to neighbors of the results, and so on, in :math:`\lceil \log_2 k \rceil` layers. Two layers alone need
:math:`\sum_\rho 2^{k-1} D^{k+1}/m` neurons.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlewalk.groups import Group, present
from saddlewalk.theory.composition.exact import exact_network, neurons_needed
from saddlewalk.units.associative import ProductTree, Recurrent


@dataclass(frozen=True)
class Size:
    """What an exact network costs."""

    width: int
    """Neurons that answer at the same time, at most."""
    depth: int
    """Hidden layers, or steps."""
    weights: int
    """Numbers that are stored."""


def recurrent_network(
    group: Group, encoding: Float[np.ndarray, " order"], factors: int
) -> tuple[Recurrent, Float[np.ndarray, "1 size"]]:
    """A recurrent network that composes exactly in k - 1 steps, and its parameters.

    Parameters
    ----------
    group, encoding : what is composed, and x.
    factors : number k of factors.
    """
    rows = exact_network(group, encoding, 2)
    return Recurrent(len(rows), factors), _layer(rows)[None]


def tree_network(
    group: Group, encoding: Float[np.ndarray, " order"], factors: int
) -> tuple[ProductTree, Float[np.ndarray, "1 size"]]:
    """A tree that composes exactly in log2 k layers, and its parameters.

    Parameters
    ----------
    group, encoding : what is composed, and x.
    factors : number k of factors.
    """
    rows = exact_network(group, encoding, 2)
    units = ProductTree(len(rows), factors)
    return units, np.tile(_layer(rows), units.depth)[None]


def _layer(rows: np.ndarray) -> np.ndarray:
    """Weights of neurons as those of a layer: all u, all v, all w."""
    return np.concatenate([part.ravel() for part in np.split(rows, 3, axis=1)])


def exact_sizes(
    group: Group, encoding: Float[np.ndarray, " order"], factors: int
) -> dict[str, Size]:
    """Width and depth of the exact networks for k factors: two layers, recurrent, tree.

    Parameters
    ----------
    group, encoding : what is composed, and x.
    factors : number k of factors.
    """
    used = present(group, encoding)
    flat, pair = (sum(neurons_needed(one, k) for one in used) for k in (factors, 2))
    n, layers = group.order, math.ceil(math.log2(factors))
    return {
        "two layers": Size(flat, 1, flat * (factors + 1) * n),
        "recurrent": Size(pair, factors - 1, 3 * pair * n),
        "tree": Size(pair * (factors // 2), layers, 3 * pair * n * layers),
    }

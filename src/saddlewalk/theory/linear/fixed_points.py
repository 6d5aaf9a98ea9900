r"""Lemma 6 of Saddle-to-Saddle Dynamics: the fixed points of a linear network, all of them.

With :math:`e_k` the eigenvectors and :math:`\mu_k` the eigenvalues of
:math:`\Sigma_{yx} \Sigma_{xx}^{-1} \Sigma_{yx}^\top`, every set A of modes gives one map

.. math:: W = \sum_{k \in A} e_k e_k^\top \Sigma_{yx} \Sigma_{xx}^{-1}, \qquad
          L = L_0 + \tfrac12 \sum_{k \notin A} \mu_k ,

and with r modes learned there are :math:`\binom{D}{r}` of them, for distinct eigenvalues. The widest set is
the minimum; at the others a spare unit grows at the largest singular value of
:math:`\tilde\Sigma_{yx} = \sum_{k \notin A} e_k e_k^\top \Sigma_{yx}` (Eq 42).

(The lemma also confines the weights to the spans of these modes. Where Sigma_yx has a null space, units may
carry components there that cancel, at a fixed point with the same map.)
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.tasks import Moments, Samples, compress
from saddlewalk.theory.linear.maps import Covariances


@dataclass(frozen=True)
class LinearFixedPoint:
    """A map at which gradient flow of a linear network rests."""

    modes: tuple[int, ...]
    """Which are learned, numbered by falling mu."""
    map: Float[np.ndarray, "c d"]
    loss: float
    escape_rate: float
    """At which a spare unit grows: the largest singular value of what is left of Sigma_yx."""

    @property
    def effective_width(self) -> int:
        """Rank of the map."""
        return len(self.modes)

    def weights(self, width: int) -> Float[np.ndarray, "width both"]:
        """Balanced weights [w, a] of a network of some width with this map, the rest at zero."""
        if width < self.effective_width:
            raise InputError(f"A map of rank {self.effective_width} needs as many units.")
        left, values, right = np.linalg.svd(self.map, full_matrices=False)
        rank = self.effective_width
        root = np.sqrt(values[:rank])[:, None]
        theta = np.zeros((width, sum(self.map.shape)))
        theta[:rank] = np.hstack([root * right[:rank], root * left[:, :rank].T])
        return theta


def linear_fixed_points(
    task: Moments | Samples, width: int | None = None
) -> Iterator[LinearFixedPoint]:
    """Every fixed point of a linear network of some width, by rank, then by falling mu.

    Parameters
    ----------
    task : what is learned.
    width : number of hidden units, which bounds the rank; by default there are enough.
    """
    seen = Covariances.of(compress(task) if isinstance(task, Samples) else task)
    e, mu = seen.explained
    best = (seen.target / np.sqrt(seen.variances)) @ seen.basis.T
    most = len(mu) if width is None else min(width, len(mu))
    for rank in range(most + 1):
        for modes in itertools.combinations(range(len(mu)), rank):
            learned = e[:, list(modes)]
            missing = np.delete(e, modes, axis=1)
            yield LinearFixedPoint(
                modes=modes,
                map=learned @ learned.T @ best,
                loss=seen.floor + 0.5 * float(np.delete(mu, modes).sum()),
                escape_rate=float(np.linalg.norm(missing.T @ seen.cross, 2))
                if missing.size
                else 0.0,
            )

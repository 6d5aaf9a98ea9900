"""The limit of vanishing scale: Gidel, Conjecture 4.1, and what lies between."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from saddlewalk.theory.linear.maps import Covariances, Outputs, Vector, conjecture_4_1

_STRANGERS = 1e-6
"""Modes whose inputs are correlated less than this never meet."""


class Event(NamedTuple):
    """A mode that is learned: when, its place in the order of mu, and mu."""

    time: float
    place: int
    explained: float


def input_correlations(covariances: Covariances) -> Float[np.ndarray, "r r"]:
    r"""|correlation| of the inputs :math:`v_i^\top x` along the right singular vectors of Sigma_yx.

    All vanish if and only if Sigma_xx commutes with Sigma_yx^T Sigma_yx. Modes come first; the null
    space of Sigma_yx has a free basis, taken such that its inputs are uncorrelated.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    """
    count, variances = len(covariances.explained[1]), covariances.variances[:, None]
    vectors = np.linalg.svd(covariances.cross, full_matrices=True)[2].T
    null = vectors[:, count:]
    vectors[:, count:] = null @ np.linalg.eigh(null.T @ (variances * null))[1]
    products = vectors.T @ (variances * vectors)
    spread = np.sqrt(np.diag(products))
    return np.abs(products / np.outer(spread, spread) - np.eye(len(spread)))


def largest_correlation(covariances: Covariances) -> float:
    """Of the input of a mode with any other: 0 if Sigma_xx commutes with Sigma_yx^T Sigma_yx.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    """
    count = len(covariances.explained[1])
    return float(input_correlations(covariances)[:count].max(initial=0.0))


def families(covariances: Covariances) -> list[tuple[Outputs, Vector]]:
    """Sets of modes that never meet, each with its own eigenvectors u and eigenvalues mu.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    """
    left = covariances.singular[0]
    meet = input_correlations(covariances) > _STRANGERS
    from scipy.sparse.csgraph import connected_components

    label = connected_components(meet, directed=False)[1][: left.shape[1]]
    found = []
    for one in np.unique(label):
        members = left[:, label == one]
        turn, root, _ = np.linalg.svd(members.T @ covariances.target, full_matrices=False)
        found.append((members @ turn, root**2))
    return found


def limit_events(covariances: Covariances) -> list[Event]:
    """The modes as they are learned at vanishing scale, in accelerated time.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    """
    learned = [
        (time, mu)
        for modes, explained in families(covariances)
        for time, mu in zip(
            conjecture_4_1(covariances.cross, modes), explained.tolist(), strict=True
        )
    ]
    return sorted(events_of(*np.array(learned).reshape(-1, 2).T))


def events_of(times: Vector, explained: Vector) -> list[Event]:
    """Jumps with the place of each mode in the order of what it explains.

    Parameters
    ----------
    times : when each mode is learned.
    explained : mu of each mode.
    """
    places = np.argsort(np.argsort(-explained, kind="stable"), kind="stable")
    rows = zip(times.tolist(), places.tolist(), explained.tolist(), strict=True)
    return [Event(*row) for row in rows]


def loss_levels(covariances: Covariances, events: list[Event]) -> list[float]:
    """The loss before and after each event: half of all mu that are still missing.

    Parameters
    ----------
    covariances : what a linear map sees of the task.
    events : the modes that are learned, in their order.
    """
    explained = covariances.explained[1]
    learned = [event.place for event in events]
    missing = [np.delete(explained, learned[:k]).sum() for k in range(len(events) + 1)]
    return [covariances.floor + 0.5 * float(mu) for mu in missing]

"""Theorem 6: which regime a two-layer linear network is in, from its dimensions and conserved quantities.

With all delta_k large and positive each neuron keeps its outgoing weights and the incoming ones fit the
data: lazy, if some solution has its rows in the span of the outgoing weights. If none has, the network first
fits what it can, lazily, and then must turn: delayed rich. With all delta_k large and negative the same
holds for the columns and the incoming weights. Large is meant against the maps that are there and that are to
be learned. With small delta_k, and few and small weights altogether, the network is rich.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import null_space

from saddlewalk.balance import Side
from saddlewalk.errors import InputError
from saddlewalk.show import text
from saddlewalk.tasks.samples import finite_numbers

LAZY, RICH, DELAYED, MIXED = "lazy", "rich", "delayed rich", "mixed"
_LARGE, _SMALL = 3.0, 1.0 / 3.0
"""delta against the size of the map to be learned: above the first it rules, below the second it does not."""
_INSIDE = 1e-8


@dataclass(frozen=True)
class LinearRegime:
    """A verdict and the numbers it rests on."""

    name: str
    """lazy, rich, delayed rich; "between" where no limit of the theorem is near; "mixed" for unlike signs."""
    side: Side
    strength: float
    """Smallest |delta_k| over twice the neuron's map, or twice the one to be learned if that is larger."""
    outside: float
    """Part of the solution outside the span that the slow layer offers."""
    deltas: np.ndarray

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "regime": self.name,
            "side": self.side,
            "strength": self.strength,
            "outside": self.outside,
            "deltas": self.deltas.tolist(),
        }

    def __str__(self) -> str:
        rows = [
            ["regime", self.name],
            ["side", self.side],
            ["smallest |delta| over twice the map", text.number(self.strength)],
            ["part of the solution outside the span", text.number(self.outside)],
        ]
        return str(text.Table("two-layer linear network (Theorem 6)", ["", "value"], rows))


def linear_regime(
    A: Any, W: Any, X: Any, Y: Any, rates: tuple[float, float] = (1.0, 1.0)
) -> LinearRegime:
    """The regime of `f(x) = A^T W x` started at A `(h, c)`, W `(h, d)`, on data X `(n, d)`, Y `(n, c)`.

    Parameters
    ----------
    A, W : weights of the layers at the start; h is at least min(d, c).
    X, Y : inputs and targets.
    rates : learning rates eta_a and eta_w.
    """
    A, W = finite_numbers("A", A), finite_numbers("W", W)
    X, Y = finite_numbers("X", X), finite_numbers("Y", Y)
    if X.ndim != 2 or len(X) != len(Y):
        raise InputError(f"X must be (n, d) and Y (n, c); got {X.shape} and {Y.shape}.")
    Y = Y.reshape(len(Y), -1)
    if A.ndim != 2 or W.ndim != 2 or len(A) != len(W):
        raise InputError(f"A must be (h, c) and W (h, d); got {A.shape} and {W.shape}.")
    if X.shape[1] != W.shape[1] or Y.shape[1] != A.shape[1]:
        raise InputError(
            f"Data of shapes {X.shape}, {Y.shape} do not suit A {A.shape}, W {W.shape}."
        )
    if len(A) < min(W.shape[1], A.shape[1]):
        raise InputError(
            "Theorem 6 asks for h >= min(d, c) hidden neurons: fewer cannot fit every map."
        )
    out, back = rates[1] * np.sum(A**2, axis=1), rates[0] * np.sum(W**2, axis=1)
    deltas, least = out - back, np.linalg.pinv(X) @ Y
    learned = float(np.sqrt(rates[0] * rates[1]) * np.linalg.norm(least, 2))
    if learned == 0:
        raise InputError("The least-squares solution is zero: there is nothing to learn.")
    # against the map of each neuron, as it is now and as it may become
    ratios = np.abs(deltas) / (2 * np.maximum(np.sqrt(out * back), learned))
    strength, strongest = float(ratios.min()), float(ratios.max())
    whole = float(np.sum(out + back)) / (2 * learned)
    side = _side(deltas, strongest)
    outside = (
        _outside_rows(least, A) if side is not Side.DOWNSTREAM else _outside_columns(least, W, X)
    )
    if side is Side.MIXED:
        name = MIXED
    elif strongest < _SMALL and whole < _LARGE:
        name = RICH
    elif strength > _LARGE:
        name = LAZY if outside < _INSIDE else DELAYED
    else:
        name = "between"
    return LinearRegime(name, side, strength, outside, deltas)


def _side(deltas: np.ndarray, strongest: float) -> Side:
    if strongest < _SMALL:
        return Side.BALANCED
    if deltas.min() > 0:
        return Side.UPSTREAM
    return Side.DOWNSTREAM if deltas.max() < 0 else Side.MIXED


def _outside_rows(least: np.ndarray, A: np.ndarray) -> float:
    """Part of the least-norm solution whose rows are not in the span of the outgoing weights.

    What may be added to it lies in the null space of X, across it, so nothing can be mended there.
    """
    span = np.linalg.pinv(A) @ A
    return float(np.linalg.norm(least - least @ span) / np.linalg.norm(least))


def _outside_columns(least: np.ndarray, W: np.ndarray, X: np.ndarray) -> float:
    """The same for columns and incoming weights, after the best addition from the null space of X."""
    across = np.eye(W.shape[1]) - np.linalg.pinv(W) @ W
    reach, missing = across @ null_space(X), across @ least
    mended = reach @ np.linalg.lstsq(reach, missing)[0] if reach.size else 0.0
    return float(np.linalg.norm(missing - mended) / np.linalg.norm(least))

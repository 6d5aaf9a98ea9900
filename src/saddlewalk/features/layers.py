r"""What a weight matrix has learned: :math:`W^\top W` and what theory says it is (section 3, appendix A).

A layer :math:`f(x) = g(W h(x), x)` trained with weight decay :math:`\lambda` has, at any critical point,

.. math:: W^\top W = \mathrm{FACT} = -\tfrac1\lambda W^\top \nabla_W L, \qquad
          W W^\top = \mathrm{bFACT} = -\tfrac1\lambda W (\nabla_W L)^\top ,

since :math:`\lambda W + \nabla_W L = 0`. The rivals are averages of outer products of gradients by the
layer's input: AGOP of the outputs (NFA) and eNFA of the loss. With :math:`q = \partial f_c/\partial (Wh)` and
:math:`g = \partial \ell/\partial (Wh)` these are

.. math:: \mathrm{AGOP} = W^\top \overline{\textstyle\sum_c q q^\top}\, W, \qquad
          \mathrm{eNFA} = W^\top \overline{g g^\top}\, W ,

so a pass over the data keeps three small sums: :math:`\nabla_W L`, :math:`\overline{gg^\top}` and
:math:`\overline{\sum_c qq^\top}`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.features.matrix_functions import (
    Matrix,
    cosine,
    matrix_power,
    pearson,
    symmetrized,
    symmetrized_product,
)

FORWARD = ("FACT", "sqrt(FACT FACT^T)", "sqrt(AGOP)", "sqrt(eNFA)")
"""What is shown beside W^T W."""
BACKWARD = ("bFACT", "sqrt(bFACT bFACT^T)", "sqrt(bAGOP)", "sqrt(beNFA)")
"""What is shown beside W W^T."""


@dataclass(frozen=True)
class LayerFeatures:
    """One weight matrix `(outputs, inputs)` and the averages over the data that say what it has learned.

    Parameters
    ----------
    name : what the layer is called.
    weight : the matrix W.
    gradient : gradient of the mean loss with respect to it, without weight decay.
    loss_square : mean over samples of g g^T, where it is known.
    output_square : mean over samples of the sum over outputs of q q^T, where it is known.
    weight_decay : lambda, where it is known.
    """

    name: str
    weight: Matrix
    gradient: Matrix
    """Gradient of the mean loss, without weight decay."""
    loss_square: Matrix | None = None
    """Mean of g g^T over samples: gradients of the loss with respect to the layer's outputs."""
    output_square: Matrix | None = None
    """Mean over samples of the sum over outputs of q q^T."""
    weight_decay: float | None = None
    """lambda; `None`: not known, and matrices hold up to a factor."""

    def __post_init__(self) -> None:
        if self.weight_decay is not None and not 0 < self.weight_decay < math.inf:
            raise InputError(
                f"The weight decay must be positive; got {self.weight_decay}. Leave it out if unknown."
            )
        arrays = (self.weight, self.gradient, self.loss_square, self.output_square)
        if not all(np.isfinite(array).all() for array in arrays if array is not None):
            raise InputError(
                f"Weights or gradients of '{self.name}' are not finite, or the data are not."
            )

    @property
    def implied_weight_decay(self) -> float:
        """The lambda that fits best: of `lambda W + gradient = 0` by least squares."""
        size = float(np.sum(self.weight**2))
        return -float(np.sum(self.weight * self.gradient)) / size if size > 0 else 0.0

    @property
    def residual(self) -> float:
        """|W^T (lambda W + gradient)| over |lambda W^T W|: 0 at convergence, far from it up to 1/lambda."""
        decay = self.implied_weight_decay if self.weight_decay is None else self.weight_decay
        # W^T = Q R with orthogonal columns Q, so |W^T M| = |R M|: no matrix of inputs times inputs
        triangle = np.linalg.qr(self.weight.T, mode="r")
        scale = abs(decay) * float(np.linalg.norm(triangle @ self.weight))
        off = float(np.linalg.norm(triangle @ (decay * self.weight + self.gradient)))
        return off / scale if scale > 0 else math.inf

    @property
    def feature_matrix(self) -> Matrix:
        """The neural feature matrix W^T W."""
        return self.weight.T @ self.weight

    @property
    def fact(self) -> Matrix:
        """FACT; with an unknown weight decay times lambda."""
        return -self.weight.T @ self.gradient / (self.weight_decay or 1.0)

    @property
    def backward_fact(self) -> Matrix:
        """bFACT, to be compared with W W^T."""
        return -self.weight @ self.gradient.T / (self.weight_decay or 1.0)

    @property
    def agop(self) -> Matrix:
        """Average gradient outer product of the outputs."""
        return self.weight.T @ _required(self.output_square) @ self.weight

    @property
    def enfa(self) -> Matrix:
        """The same of the loss."""
        return self.weight.T @ _required(self.loss_square) @ self.weight

    def agop_power(self, exponent: float) -> Matrix:
        """A power of the AGOP: 1/2 is the Neural Feature Ansatz, 1/L that of deep linear networks.

        Parameters
        ----------
        exponent : the power.
        """
        return self._pulled_back(_required(self.output_square), exponent)

    def _pulled_back(self, square: Matrix, exponent: float) -> Matrix:
        """(W^T S W)^s, from the singular values of W^T S^(1/2)."""
        return symmetrized(self.weight.T @ matrix_power(square, 0.5), exponent)

    def candidates(self) -> dict[str, Matrix]:
        """What W^T W is compared with; FACT alone if only the gradient is known."""
        decay = self.weight_decay or 1.0
        found = {
            "FACT": self.fact,
            "sqrt(FACT FACT^T)": symmetrized_product(self.weight.T, self.gradient) / decay,
        }
        if self.output_square is not None:
            found |= {"AGOP": self.agop, "sqrt(AGOP)": self.agop_power(0.5)}
        if self.loss_square is not None:
            root = self._pulled_back(self.loss_square, 0.5)
            found |= {"eNFA": self.enfa, "sqrt(eNFA)": root}
        return found

    def backward_candidates(self) -> dict[str, Matrix]:
        """What W W^T is compared with."""
        decay = self.weight_decay or 1.0
        found = {
            "bFACT": self.backward_fact,
            "sqrt(bFACT bFACT^T)": symmetrized_product(self.weight, self.gradient.T) / decay,
        }
        squares = {"bAGOP": self.output_square, "beNFA": self.loss_square}
        for name, square in squares.items():
            if square is not None:
                found |= {name: square, f"sqrt({name})": matrix_power(square, 0.5)}
        return found

    def correlations(
        self, measure: "Callable[[Matrix, Matrix], float] | None" = None
    ) -> dict[str, float]:
        """How alike each candidate and what it should be are.

        Parameters
        ----------
        measure : a function of two matrices; the Pearson correlation by default.
        """
        how = pearson if measure is None else measure
        forward, backward = self.feature_matrix, self.weight @ self.weight.T
        return {name: how(forward, one) for name, one in self.candidates().items()} | {
            name: how(backward, one) for name, one in self.backward_candidates().items()
        }

    def directions(
        self, many: int = 5
    ) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k inputs"]]:
        """The largest eigenvalues of W^T W and their eigenvectors: what the layer looks at.

        Parameters
        ----------
        many : how many of them.
        """
        values, axes = np.linalg.eigh(self.feature_matrix)
        return values[::-1][:many], axes.T[::-1][:many]

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "layer": self.name,
            "shape": list(self.weight.shape),
            "pearson": {
                name: _finite_or_none(value) for name, value in self.correlations().items()
            },
            "cosine": {
                name: _finite_or_none(value) for name, value in self.correlations(cosine).items()
            },
            "residual": _finite_or_none(self.residual),
            "weight_decay": self.weight_decay,
            "implied_weight_decay": self.implied_weight_decay,
        }


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _required(square: Matrix | None) -> Matrix:
    if square is None:
        raise InputError("AGOP and eNFA need a pass over the data; only the gradient is known.")
    return square

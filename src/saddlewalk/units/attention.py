r""":math:`f_h(X) = V_h \sum_n y_n x_n^\top K_h\, Q_h^\top x_{N+1}`: a linear attention head (section 4).

A head sees a sequence through two vectors: the context :math:`z = \sum_n y_n x_n` and the query
:math:`x_{N+1}`. It answers :math:`V\,(z^\top K)(Q^\top x_{N+1})`, of order 3 in its parameters. The sum
of the heads is the bilinear form with the matrix :math:`\sum_h V_h K_h Q_h^\top`.
"""

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.units.base import AbstractUnits, Shapes, Weights, halves


class LinearAttention(AbstractUnits):
    """Heads with keys and queries of rank 1. An input is the context z, then the query.

    Parameters
    ----------
    width : number of heads.
    """

    width: int

    degree: ClassVar[int | None] = 3
    smooth: ClassVar[bool | None] = True
    linear_in: ClassVar[str | None] = "halves"
    reads_words: ClassVar[bool] = True
    shares_features: ClassVar[bool] = True
    outgoing: ClassVar[str | None] = "V"
    linear_outgoing: ClassVar[bool | None] = True

    @classmethod
    def example(cls) -> tuple["LinearAttention", int, int]:
        """Three heads for two dimensions."""
        return cls(3), 4, 1

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """A number V, a key K and a query Q."""
        if inputs % 2 or outputs != 1:
            raise InputError(
                "Linear attention needs inputs made of a context and a query of equal length, and "
                f"one output; the task has {inputs} inputs and {outputs} outputs."
            )
        return {"V": (), "K": (inputs // 2,), "Q": (inputs // 2,)}

    def describe(
        self, shapes: Shapes, theta: Float[np.ndarray, " size"], index: int
    ) -> dict[str, Any]:
        """The direction of the context that a head reads: its key."""
        key = theta[1 : 1 + shapes["K"][0]]
        return {"kind": "direction", "vector": (key / np.linalg.norm(key)).tolist()}

    def respond(self, weights: Weights, x: Any) -> Array:
        """V (z K)(Q x)."""
        context, query = halves(x)
        return (weights["V"] * (context @ weights["K"]) * (query @ weights["Q"]))[None]

    def combine(self, weights: Weights, x: Any) -> Array:
        """All heads by matrix products, also over all pairs of a context and a query."""
        context, query = halves(x)
        return ((weights["V"] * (weights["K"] @ context)) @ (weights["Q"] @ query))[None]

    def squares(self, weights: Weights, x: Any) -> Float[Array, " width"]:
        """The square of V (z K)(Q x)."""
        context, query = halves(x)
        return (weights["V"] * (weights["K"] @ context) * (weights["Q"] @ query)) ** 2

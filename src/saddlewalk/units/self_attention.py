r"""Self-attention heads that answer at the last token (the query).

With tokens :math:`X = [x_1 \dots x_N\; x_q] \in R^{m \times (N+1)}` and one output, the last row of V
is all of V that counts, and a head answers

.. math:: v^\top X X^\top K^\top Q\, x_q \quad\text{(linear)}, \qquad
          v^\top X \operatorname{smax}(X^\top K^\top Q\, x_q) \quad\text{(softmax)}.

A linear head sees the tokens through :math:`X X^\top` and :math:`x_q` alone, which are its inputs. Merged,
:math:`K^\top Q` is one matrix of full rank.
"""

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from saddlewalk.errors import InputError
from saddlewalk.units.base import AbstractUnits, Shapes, Weights


def score_vectors(weights: Weights, query: Array) -> Array:
    """K^T Q x_q: what a head, or each of several, looks for.

    Parameters
    ----------
    weights : keys K and queries Q of a head, or both merged in KQ; several heads have a leading axis.
    query : the token x_q.
    """
    if "KQ" in weights:
        return weights["KQ"] @ query
    return jnp.einsum("...rm,...r->...m", weights["K"], weights["Q"] @ query)


def _weights(embedding: int, outputs: int, rank: int, merged: bool) -> Shapes:
    """Keys and queries of some rank, or both in one matrix, then the values."""
    if outputs != 1:
        raise InputError(f"A self-attention head has one output; the task has {outputs}.")
    if merged:
        return {"KQ": (embedding, embedding), "v": (embedding,)}
    return {"K": (rank, embedding), "Q": (rank, embedding), "v": (embedding,)}


class LinearSelfAttention(AbstractUnits):
    """Linear heads. An input is X X^T, row by row, then the query.

    Parameters
    ----------
    width : number of heads.
    rank : rows of the keys and of the queries.
    merged : hold K^T Q as one matrix.
    """

    width: int
    rank: int = eqx.field(static=True, default=1)
    merged: bool = eqx.field(static=True, default=False)

    smooth: ClassVar[bool | None] = True

    @classmethod
    def example(cls) -> tuple["LinearSelfAttention", int, int]:
        """Three heads of rank 2 for tokens of three numbers."""
        return cls(3, rank=2), 12, 1

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Keys and queries, then the values."""
        embedding = (math.isqrt(1 + 4 * inputs) - 1) // 2
        if embedding * (embedding + 1) != inputs:
            raise InputError(
                f"Linear self-attention reads m^2 + m numbers (X X^T and the query); got {inputs}."
            )
        return _weights(embedding, outputs, self.rank, self.merged)

    def respond(self, weights: Weights, x: Any) -> Array:
        """v X X^T K^T Q x_q."""
        m = weights["v"].shape[-1]
        return (weights["v"] @ x[: m * m].reshape(m, m) @ score_vectors(weights, x[m * m :]))[None]


class SoftmaxSelfAttention(AbstractUnits):
    """Softmax heads. An input is the tokens one after another, the query last.

    Parameters
    ----------
    width : number of heads.
    tokens : tokens of an input, the query included.
    rank : rows of the keys and of the queries.
    merged : hold K^T Q as one matrix.
    """

    width: int
    tokens: int = eqx.field(static=True)
    rank: int = eqx.field(static=True, default=1)
    merged: bool = eqx.field(static=True, default=False)

    smooth: ClassVar[bool | None] = True

    @classmethod
    def example(cls) -> tuple["SoftmaxSelfAttention", int, int]:
        """Three heads of rank 2 that read four tokens of three numbers."""
        return cls(3, tokens=4, rank=2), 12, 1

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """Keys and queries, then the values."""
        if inputs % self.tokens:
            raise InputError(f"{inputs} inputs are not {self.tokens} tokens of equal length.")
        return _weights(inputs // self.tokens, outputs, self.rank, self.merged)

    def respond(self, weights: Weights, x: Any) -> Array:
        """v X smax(X^T K^T Q x_q)."""
        tokens = x.reshape(self.tokens, -1)
        attention = jax.nn.softmax(tokens @ score_vectors(weights, tokens[-1]))
        return (attention @ tokens @ weights["v"])[None]

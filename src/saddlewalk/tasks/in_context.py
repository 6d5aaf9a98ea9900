r"""Linear regression in context: predict :math:`y_{N+1} = \beta^\top x_{N+1}` from N examples (section 4).

Tokens are :math:`x_n \sim N(0, \Sigma)`, :math:`y_n = \beta^\top x_n` with :math:`\beta \sim N(0, I)`. A
linear attention layer with matrix M answers :math:`\beta^\top S M x_{N+1}`, :math:`S = \sum_n x_n x_n^\top`,
and its expected loss needs one Gaussian moment (Eq 53),

.. math:: C = E[S^2] = N \operatorname{tr}(\Sigma)\, \Sigma + N (N + 1)\, \Sigma^2, \qquad
          L(M) = \tfrac12 \| C^{1/2} M \Sigma^{1/2} - N C^{-1/2} \Sigma^{3/2} \|_F^2 + L_0 .

So the population is a set of D^2 virtual samples with inputs (row of C^(1/2), row of Sigma^(1/2)).
"""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.tasks.base import Answer, Modes
from saddlewalk.tasks.moments import Moments
from saddlewalk.tasks.samples import Samples, finite_numbers, from_arrays


class InContextRegression(Moments):
    """The population problem. Eigenvalues fall; column k of `axes` is the principal component k.

    Parameters
    ----------
    name : what tables call it.
    x, y : virtual samples and their targets.
    offset : the loss that no matrix avoids.
    eigenvalues : those of the covariance of the tokens, falling.
    axes : its eigenvectors, one a column.
    context : number N of examples before the query.
    names : what the inputs are called; empty if they have no names.
    labels : what the outputs are called; empty if they have no names.
    """

    eigenvalues: Float[np.ndarray | Array, " components"]
    axes: Float[np.ndarray | Array, "components components"]
    context: Float[np.ndarray | Array, ""]
    """Number N of examples before the query."""

    linear_in: ClassVar[str] = "halves"

    def represent(self, answer: Answer) -> Float[Array, "m c"]:
        """Answers to all pairs of a context and a query; each is read once, not once a pair."""
        d = len(self.eigenvalues)
        x = jnp.asarray(self.x)
        contexts, queries = x[::d, :d], x[:d, d:]
        each_query = jax.vmap(lambda a, b: answer((a, b)), in_axes=(None, 0))
        return jax.vmap(each_query, in_axes=(0, None))(contexts, queries).reshape(d * d, -1)

    def modes(self) -> Modes:
        """One part of the best answer a principal component."""
        d = len(self.eigenvalues)
        target = np.asarray(self.y).reshape(d, d)
        axes = np.asarray(self.axes)
        parts = [np.outer(v, v) * (v @ target @ v) for v in axes.T]
        names = tuple(
            {"kind": "principal-component", "index": k, "eigenvalue": float(value)}
            for k, value in enumerate(np.asarray(self.eigenvalues))
        )
        return Modes(names, np.stack(parts).reshape(d, d * d, 1))


def in_context_regression(
    eigenvalues: Any, context: int = 32, axes: Any = None, name: str = "in-context regression"
) -> InContextRegression:
    r"""The population problem for :math:`\Sigma` with these eigenvalues (and these orthonormal axes).

    Parameters
    ----------
    eigenvalues : eigenvalues of the covariance of the tokens, all positive.
    context : number N of examples before the query.
    axes : orthonormal eigenvectors, one a column; the coordinate axes by default.
    name : what tables call it.
    """
    values, basis = _checked_covariance(eigenvalues, axes)
    n = _checked_context(context)
    total = float(values.sum())
    moment = n * total * values + n * (n + 1) * values**2
    target = n * values**1.5 / np.sqrt(moment)
    d = len(values)
    left, right = (basis * np.sqrt(moment)) @ basis.T, (basis * np.sqrt(values)) @ basis.T
    rows, columns = np.divmod(np.arange(d * d), d)
    return InContextRegression(
        name,
        np.concatenate([left[rows], right[columns]], axis=1),
        ((basis * target) @ basis.T).reshape(d * d, 1),
        # half of total - sum(target^2), without the difference
        np.asarray(0.5 * np.sum(values * (total + values) / (total + (n + 1) * values))),
        values,
        basis,
        np.asarray(float(n)),
    )


def in_context_sequences(
    eigenvalues: Any,
    context: int = 32,
    axes: Any = None,
    sequences: int = 4096,
    seed: int = 0,
    name: str = "in-context sequences",
) -> Samples:
    """Sampled sequences of the same problem, each as its context sum and its query.

    Parameters
    ----------
    eigenvalues : eigenvalues of the covariance of the tokens, all positive.
    context : number N of examples before the query.
    axes : orthonormal eigenvectors, one a column; the coordinate axes by default.
    sequences : how many sequences.
    seed : seed of the draw.
    name : what tables call it.
    """
    values, basis = _checked_covariance(eigenvalues, axes)
    n, d = _checked_context(context), len(values)
    if sequences < 1:
        raise InputError(f"There must be at least one sequence; got {sequences}.")
    rng = np.random.default_rng(seed)
    tokens = rng.normal(size=(sequences, n + 1, d)) * np.sqrt(values) @ basis.T
    beta = rng.normal(size=(sequences, d))
    answers = np.einsum("snd,sd->sn", tokens, beta)
    summary = np.einsum("sn,snd->sd", answers[:, :-1], tokens[:, :-1])
    return from_arrays(np.concatenate([summary, tokens[:, -1]], axis=1), answers[:, -1], name=name)


def in_context_tokens(
    dim: int = 2,
    context: int = 32,
    sequences: int = 8192,
    seed: int = 0,
    products: bool = False,
    name: str = "in-context tokens",
) -> Samples:
    r"""Sequences of tokens :math:`(x_n, \beta^\top x_n)`, the query last with a 0 for its answer.

    An input is the tokens one after another (for softmax heads), or, with `products`, the matrix
    :math:`X X^\top` and the query, which is all that linear heads see of them.

    Parameters
    ----------
    dim : coordinates of x.
    context : number N of examples before the query.
    sequences : how many sequences.
    seed : seed of the draw.
    products : give the matrix and the query instead of the tokens.
    name : what tables call it.
    """
    n = _checked_context(context)
    if dim < 1 or sequences < 1:
        raise InputError("There must be at least one dimension and one sequence.")
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(sequences, n + 1, dim))
    answers = np.einsum("snd,sd->sn", x, rng.normal(size=(sequences, dim)))
    shown = answers * (np.arange(n + 1) < n)
    tokens = np.concatenate([x, shown[..., None]], axis=2)
    seen = tokens.reshape(sequences, -1)
    if products:
        squares = np.einsum("sna,snb->sab", tokens, tokens).reshape(sequences, -1)
        seen = np.concatenate([squares, tokens[:, -1]], axis=1)
    return from_arrays(seen, answers[:, -1], name=name)


def _checked_covariance(eigenvalues: Any, axes: Any) -> tuple[np.ndarray, np.ndarray]:
    values = np.atleast_1d(finite_numbers("The eigenvalues", eigenvalues))
    if values.ndim != 1 or values.size == 0:
        raise InputError(
            f"The eigenvalues must be a vector of at least one number; their shape is {values.shape}."
        )
    if values.min() <= 0:
        raise InputError(
            "The covariance of the tokens must have positive eigenvalues; a direction with none "
            f"carries nothing and should be removed. Got {values.tolist()}."
        )
    basis = np.eye(len(values)) if axes is None else finite_numbers("axes", axes)
    if basis.shape != (len(values), len(values)) or not np.allclose(
        basis.T @ basis, np.eye(len(values)), atol=1e-8
    ):
        raise InputError("axes must be an orthogonal matrix with one column an eigenvalue.")
    order = np.argsort(-values, kind="stable")
    return values[order], basis[:, order]


def _checked_context(context: Any) -> int:
    if not math.isfinite(context) or int(context) != context or context < 1:
        raise InputError(
            f"The context must hold a whole number of examples, at least 1; got {context}."
        )
    return int(context)

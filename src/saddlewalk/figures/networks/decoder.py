"""A decoder of one layer that reads four tokens `a o b =` and answers after the last, for modular arithmetic.

Token and position embeddings are divided by alpha. They are normalized before anything else is done with
them, so the function at the start stays the same. The logits are multiplied by tau. Network and start follow
the code that Get Rich Quick names (teddykoker/grokking).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.figures.networks.optimizers import optax

HEADS = 4
_EPS = 1e-5
"""Under the root of layer normalization."""


class Affine(eqx.Module):
    """x W + b, or x W."""

    weight: jax.Array
    bias: jax.Array | None = None

    def __call__(self, x: jax.Array) -> jax.Array:
        """On the last axis."""
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


class Norm(eqx.Module):
    """Layer normalization of the last axis."""

    gain: jax.Array
    shift: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        """Mean 0 and variance 1, then gain and shift."""
        centered = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centered**2, axis=-1, keepdims=True)
        return centered * jax.lax.rsqrt(variance + _EPS) * self.gain + self.shift


class Decoder(eqx.Module):
    """A causal transformer of one layer, of which only the answer after the last token is computed.

    In one layer the last token sees all others, and nothing else sees the others' answers: queries and
    the perceptron are needed for the last token alone, and a mask for none.
    """

    tokens: jax.Array
    positions: jax.Array
    norms: tuple[Norm, Norm, Norm]
    query: Affine
    key: Affine
    value: Affine
    out: Affine
    up: Affine
    down: Affine
    head: Affine
    scale: jax.Array
    """tau, which is not trained."""

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Logits `(n, p + 2)` for tokens `(n, 4)`."""
        x = self.norms[0](self.tokens[tokens] + self.positions)
        last = x[:, -1]
        h = last + self.out(self.attend(last, x))
        h = h + self.down(jax.nn.gelu(self.up(self.norms[1](h)), approximate=False))
        return jax.lax.stop_gradient(self.scale) * self.head(self.norms[2](h))

    def attend(self, last: jax.Array, x: jax.Array) -> jax.Array:
        """What the last token reads from all tokens `(n, 4, dim)`, heads side by side."""
        query, key, value = (
            y.reshape(*y.shape[:-1], HEADS, -1)
            for y in (self.query(last), self.key(x), self.value(x))
        )
        score = jnp.einsum("nhf,nshf->nhs", query, key) / query.shape[-1] ** 0.5
        read = jnp.einsum("nhs,nshf->nhf", jax.nn.softmax(score, axis=-1), value)
        return read.reshape(last.shape)


def decoder(p: int, dim: int, seed: int, alpha: float = 1.0, tau: float = 1.0) -> Decoder:
    """PyTorch's start of every layer, embeddings divided by alpha, logits multiplied by tau.

    Parameters
    ----------
    p : the modulus; there are p + 2 tokens.
    dim : width; a multiple of the number of heads.
    seed : seed of the draw.
    alpha : what embeddings are divided by.
    tau : what logits are multiplied by.
    """
    if dim % HEADS:
        raise InputError(f"The width must be a multiple of the {HEADS} heads; got {dim}.")
    rng = np.random.default_rng([seed, 1])
    bound = dim**-0.5
    # queries, keys and values are one matrix there, which sets their range
    inner = (6 / (dim + 3 * dim)) ** 0.5
    zero = _float32(np.zeros(dim))
    return Decoder(
        tokens=_float32(rng.normal(size=(p + 2, dim)) / alpha),
        positions=_float32(rng.normal(size=(4, dim)) / alpha),
        norms=(_norm(dim), _norm(dim), _norm(dim)),
        query=Affine(_uniform(rng, inner, dim, dim), zero),
        key=Affine(_uniform(rng, inner, dim, dim), zero),
        value=Affine(_uniform(rng, inner, dim, dim), zero),
        out=Affine(_uniform(rng, bound, dim, dim), zero),
        up=Affine(_uniform(rng, bound, dim, 4 * dim), _uniform(rng, bound, 4 * dim)),
        down=Affine(_uniform(rng, bound / 2, 4 * dim, dim), _uniform(rng, bound / 2, dim)),
        head=Affine(_uniform(rng, bound, dim, p + 2)),
        scale=_float32(tau),
    )


def _norm(dim: int) -> Norm:
    return Norm(_float32(np.ones(dim)), _float32(np.zeros(dim)))


def _uniform(rng: np.random.Generator, bound: float, *shape: int) -> jax.Array:
    return _float32(rng.uniform(-bound, bound, shape))


def _float32(values: Any) -> jax.Array:
    return jnp.asarray(values, dtype=jnp.float32)


def is_trained(network: Decoder) -> Any:
    """tau must not decay.

    Parameters
    ----------
    network : the decoder.
    """
    return eqx.tree_at(lambda n: n.scale, jax.tree.map(lambda _: True, network), False)


def answer_loss(network: Decoder, data: Any) -> jax.Array:
    """Mean cross-entropy on tokens and answers.

    Parameters
    ----------
    network : the decoder.
    data : tokens `(n, 4)` and answers `(n,)`.
    """
    tokens, answers = data
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(network(tokens), answers))


@jax.jit
def accuracy(networks: Decoder, tokens: jax.Array, answers: jax.Array) -> jax.Array:
    """Of all networks, `(seeds, cells)`; one seed after the other, for the memory that this takes.

    Parameters
    ----------
    networks : decoders, `(seeds, cells)`.
    tokens, answers : data of each seed, `(seeds, n, 4)` and `(seeds, n)`.
    """

    def of_seed(own: Any) -> jax.Array:
        cells, tokens, answers = own
        return jax.vmap(lambda net: jnp.mean(jnp.argmax(net(tokens), axis=-1) == answers))(cells)

    return jax.lax.map(of_seed, (networks, tokens, answers))

"""A ReLU network of three hidden layers without bias, in the parameterization of the Random Hierarchy Model.

Weights are N(0, 1), sums are divided by the square root of their length in hidden layers and by their length
in the readout. The first layer is divided by alpha and the readout multiplied by it.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.figures.networks.optimizers import optax

WIDTH, HIDDEN = 64, 3

Weights = tuple[jax.Array, ...]


def perceptrons(alphas: Sequence[float], inputs: int, classes: int, seed: int) -> Weights:
    """Layers `(alphas, fan in, fan out)`: one draw, its first layer / alpha and its readout * alpha.

    Parameters
    ----------
    alphas : of the cells.
    inputs, classes : numbers of inputs and of outputs.
    seed : seed of the draw.
    """
    rng = np.random.default_rng([seed, 1])
    ends = [inputs] + [WIDTH] * HIDDEN + [classes]
    layers = [rng.normal(size=shape).astype(np.float32) for shape in itertools.pairwise(ends)]
    scale = np.array(alphas, dtype=np.float32)[:, None, None]
    repeated = [np.broadcast_to(w, (len(alphas), *w.shape)) for w in layers[1:-1]]
    return tuple(map(jnp.asarray, (layers[0] / scale, *repeated, layers[-1] * scale)))


def logits(weights: Weights, x: jax.Array) -> jax.Array:
    """One network on samples.

    Parameters
    ----------
    weights : the layers, `(fan in, fan out)` each.
    x : samples `(n, inputs)`.
    """
    for w in weights[:-1]:
        x = jax.nn.relu(x @ w / w.shape[0] ** 0.5)
    return x @ weights[-1] / weights[-1].shape[0]


def class_loss(weights: Weights, data: Any) -> jax.Array:
    """Mean cross-entropy on samples and their labels.

    Parameters
    ----------
    weights : the layers, `(fan in, fan out)` each.
    data : samples `(n, inputs)` and labels `(n,)`.
    """
    x, labels = data
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits(weights, x), labels))


@jax.jit
def accuracy(weights: Weights, x: jax.Array, labels: jax.Array) -> jax.Array:
    """Of all networks, `(seeds, cells)`; the cells of a seed share its data `(seeds, samples, ...)`.

    Parameters
    ----------
    weights : the layers, `(seeds, cells, fan in, fan out)` each.
    x, labels : data of each seed.
    """

    def one(weights: Weights, x: jax.Array, labels: jax.Array) -> jax.Array:
        return jnp.mean(jnp.argmax(logits(weights, x), axis=-1) == labels)

    return jax.vmap(jax.vmap(one, in_axes=(0, None, None)))(weights, x, labels)

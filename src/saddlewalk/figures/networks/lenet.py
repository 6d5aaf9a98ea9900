"""LeNet-5 on images of MNIST, its activation patterns and its tangent kernel.

The first layer is divided by alpha and the last one multiplied by it. With biases that start at zero the
network is positively homogeneous in each layer, so every alpha starts from the same function. Pixels are
standardized: on a background of exact zeros a neuron would turn on or off with the sign of its bias alone.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.figures.networks.images import largest_of_four, patches
from saddlewalk.figures.networks.optimizers import optax

SHAPES = ((25, 6), (150, 16), (400, 120), (120, 84), (84, 10))
"""Inputs and outputs of the five layers; a convolution sees patches of 5 x 5 pixels."""
_MEAN, _DEVIATION = 33.32, 78.57
"""Of the pixels of MNIST."""


class LeNet(eqx.Module):
    """LeNet-5 with ReLU and max pooling; weights are matrices (inputs, outputs), images channels last."""

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]


def lenet(seed: int, alpha: float = 1.0) -> LeNet:
    """He's start with zero biases, first layer divided by alpha and last one multiplied by it.

    Parameters
    ----------
    seed : seed of the draw.
    alpha : what the first layer is divided by, and the last one multiplied by.
    """
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=shape) * np.sqrt(2 / shape[0]) for shape in SHAPES]
    weights[0] /= alpha
    weights[-1] *= alpha
    biases = [np.zeros(shape[1]) for shape in SHAPES]
    single = [tuple(jnp.asarray(a, dtype=jnp.float32) for a in each) for each in (weights, biases)]
    return LeNet(*single)


def preactivations(network: LeNet, images: jax.Array) -> list[jax.Array]:
    """What the four hidden layers see before their ReLU, and the outputs, for images `(n, 28, 28, 1)`.

    Parameters
    ----------
    network : LeNet-5.
    images : standardized.
    """
    w, b = network.weights, network.biases
    first = patches(images, 5, pad=2) @ w[0] + b[0]
    x = jax.nn.relu(largest_of_four(first))  # as the pooled ReLU, with a quarter of the work
    second = patches(x, 5) @ w[1] + b[1]
    x = jax.nn.relu(largest_of_four(second)).reshape(len(images), -1)
    dense = []
    for k in range(2, 5):
        dense.append(x @ w[k] + b[k])
        x = jax.nn.relu(dense[-1])
    return [first, second, *dense]


def respond(network: LeNet, images: jax.Array) -> jax.Array:
    """The ten outputs, `(n, 10)`.

    Parameters
    ----------
    network : LeNet-5.
    images : standardized, `(n, 28, 28, 1)`.
    """
    return preactivations(network, images)[-1]


def activation_patterns(network: LeNet, images: jax.Array) -> jax.Array:
    """Which hidden neurons are active, `(n, 6508)`: each place of a feature map is one.

    Parameters
    ----------
    network : LeNet-5.
    images : standardized, `(n, 28, 28, 1)`.
    """
    hidden = preactivations(network, images)[:-1]
    return jnp.concatenate([z.reshape(len(images), -1) > 0 for z in hidden], axis=1)


def lenet_kernel(network: LeNet, images: jax.Array) -> jax.Array:
    """The tangent kernel of all outputs, `(n, 10, n, 10)`.

    Equal to `network_kernel`, and quicker by the structure of the dense layers: their gradient is the
    product of what comes in and of the gradient of the bias, so the kernel is a product too and nine
    tenths of the parameters are never differentiated.

    Parameters
    ----------
    network : LeNet-5.
    images : standardized, `(n, 28, 28, 1)`.
    """
    convolutions, dense = network.weights[:2], network.weights[2:]

    def answer(small: Any, image: jax.Array) -> jax.Array:
        weights, biases = small
        return respond(LeNet((*weights, *dense), biases), image[None])[0]

    slopes = jax.vmap(jax.jacrev(answer), in_axes=(None, 0))((convolutions, network.biases), images)
    hidden = [jax.nn.relu(z) for z in preactivations(network, images)]
    pooled = largest_of_four(hidden[1]).reshape(len(images), -1)
    together = [1.0 + x @ x.T for x in (pooled, *hidden[2:4])]  # 1 is the bias itself
    kernel = jnp.zeros((len(images), SHAPES[-1][1]) * 2, images.dtype)
    for slope in (*slopes[0], *slopes[1][:2]):
        kernel += _gram(slope)
    for incoming, slope in zip(together, slopes[1][2:], strict=True):
        kernel += incoming[:, None, :, None] * _gram(slope)
    return kernel


def _gram(slope: jax.Array) -> jax.Array:
    flat = slope.reshape(*slope.shape[:2], -1)
    return jnp.einsum("icp,jdp->icjd", flat, flat, precision="highest")


def cross_entropy(network: LeNet, batch: Any) -> jax.Array:
    """Mean over images (bytes) and their labels.

    Parameters
    ----------
    network : LeNet-5.
    batch : images `(n, 28, 28)` and labels `(n,)`.
    """
    images, labels = batch
    outputs = respond(network, standardized(images))
    return optax.softmax_cross_entropy_with_integer_labels(outputs, labels).mean()


def standardized(images: jax.Array) -> jax.Array:
    """Bytes `(n, 28, 28)` as inputs of the network, `(n, 28, 28, 1)`.

    Parameters
    ----------
    images : numbers from 0 to 255.
    """
    return (images[..., None].astype(jnp.float32) - _MEAN) / _DEVIATION


def success(network: LeNet, test: Any) -> dict[str, jax.Array]:
    """Loss and accuracy on images (bytes) and their labels.

    Parameters
    ----------
    network : LeNet-5.
    test : images `(n, 28, 28)` and labels `(n,)`.
    """
    right = respond(network, standardized(test[0])).argmax(axis=1) == test[1]
    return {"loss": cross_entropy(network, test), "accuracy": jnp.mean(right)}

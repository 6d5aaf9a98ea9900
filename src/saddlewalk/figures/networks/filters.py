"""A convolutional network with first filters of 15 x 15 pixels, for images of CIFAR-10.

One convolution of 15 x 15, some of 3 x 3 and a readout, each convolution followed by batch normalization. The
filters of the first layer are divided by alpha; batch normalization makes the network blind to their length.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.figures.networks.images import largest_of_four, patches
from saddlewalk.figures.networks.optimizers import Optimizer, optax

SIDE, COLORS, CLASSES = 15, 3, 10
_MOMENTUM, PEAK, _READOUT = 0.9, 0.4, 0.125
"""Of the DAWN script: momentum (Nesterov), highest rate, factor of the outputs."""
_WARM = 5 / 24
"""The part of training in which the rate rises."""
_EPS = 1e-5
"""Under the root of batch normalization."""
_REFERENCE = 256
"""Training images that give the moments of normalization when accuracies are taken."""


class FilterNet(eqx.Module):
    """Convolutions as matrices (inputs of a patch, outputs), with a scale and a shift for each output."""

    filters: tuple[jax.Array, ...]
    scales: tuple[jax.Array, ...]
    shifts: tuple[jax.Array, ...]
    readout: jax.Array
    stride: int = eqx.field(static=True)
    """Of the first convolution."""


def filter_net(seed: int, alpha: float, widths: Sequence[int], stride: int) -> FilterNet:
    """Uniform weights within one over the root of the inputs, first filters divided by alpha.

    Parameters
    ----------
    seed : seed of the draw.
    alpha : what the first filters are divided by.
    widths : outputs of the convolutions.
    stride : of the first convolution.
    """
    rng = np.random.default_rng(seed)
    inputs = [SIDE * SIDE * COLORS, *(9 * width for width in widths[:-1])]
    shapes = [*zip(inputs, widths, strict=True), (widths[-1], CLASSES)]
    weights = [rng.uniform(-1, 1, shape) / np.sqrt(shape[0]) for shape in shapes]
    weights[0] /= alpha
    *filters, readout = (jnp.asarray(weight, dtype=jnp.float32) for weight in weights)
    ones = tuple(jnp.ones(width, dtype=jnp.float32) for width in widths)
    shifts = tuple(jnp.zeros(width, dtype=jnp.float32) for width in widths)
    return FilterNet(tuple(filters), ones, shifts, readout, stride)


def respond(network: FilterNet, images: jax.Array, reference: int | None = None) -> jax.Array:
    """The outputs `(n, 10)` for images `(n, 32, 32, 3)`.

    Normalization takes its moments over the first `reference` images, or over all of them.

    Parameters
    ----------
    network : the convolutional network.
    images : standardized, `(n, 32, 32, 3)`.
    reference : number of leading images for the moments; all by default.
    """
    x = images
    for layer, (filters, scale, shift) in enumerate(
        zip(network.filters, network.scales, network.shifts, strict=True)
    ):
        size, stride = (3, 1) if layer else (SIDE, network.stride)
        x = patches(x, size, pad=size // 2, stride=stride) @ filters
        known = x[:reference]
        mean, variance = known.mean(axis=(0, 1, 2)), known.var(axis=(0, 1, 2))
        x = (x - mean) * (scale / jnp.sqrt(variance + _EPS)) + shift
        x = jax.nn.relu(largest_of_four(x))
    return _READOUT * x.max(axis=(1, 2)) @ network.readout


def as_images(filters: Any) -> np.ndarray:
    """First filters `(..., 675, width)` as pictures `(..., width, 15, 15, 3)`.

    Parameters
    ----------
    filters : weights of the first convolution.
    """
    w = np.moveaxis(np.asarray(filters, dtype=float), -1, -2)
    return w.reshape(*w.shape[:-1], SIDE, SIDE, COLORS)


class ImageLoss(eqx.Module):
    """Mean cross-entropy on pictures of bytes, standardized color by color."""

    mean: jax.Array
    deviation: jax.Array

    def standardized(self, images: jax.Array) -> jax.Array:
        """Bytes as inputs of the network."""
        return (images.astype(jnp.float32) - self.mean) / self.deviation

    def __call__(self, network: FilterNet, batch: Any) -> jax.Array:
        """Of one network on one batch of images and labels."""
        outputs = respond(network, self.standardized(batch[0]))
        return optax.softmax_cross_entropy_with_integer_labels(outputs, batch[1]).mean()


def descent(steps: int, peak: float) -> Optimizer:
    """Nesterov's momentum with a rate that rises to its peak and falls to zero.

    Parameters
    ----------
    steps : until the rate is zero again.
    peak : highest rate.
    """
    warm = max(1, round(_WARM * steps))
    pieces = [
        optax.linear_schedule(0.0, peak, warm),
        optax.linear_schedule(peak, 0.0, max(1, steps - warm)),
    ]
    rate = optax.join_schedules(pieces, [warm])
    return optax.sgd(rate, momentum=_MOMENTUM, nesterov=True)


@eqx.filter_jit
def accuracies(task: ImageLoss, networks: FilterNet, exams: Any) -> Any:
    """On test and training images; the moments of normalization are those of some training images.

    Parameters
    ----------
    task : what standardizes the images.
    networks : networks along one leading axis.
    exams : images (bytes) and labels of the test set, and of the training set.
    """
    known = task.standardized(exams[1][0][:_REFERENCE])

    def one(network: FilterNet) -> list[jax.Array]:
        right = []
        for images, labels in exams:
            x = jnp.concatenate([known, task.standardized(images)])
            outputs = respond(network, x, len(known))[len(known) :]
            right.append(jnp.mean(outputs.argmax(axis=1) == labels))
        return right

    return jax.lax.map(one, networks)

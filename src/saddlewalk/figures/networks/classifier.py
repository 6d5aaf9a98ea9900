"""ReLU networks on images with mean squared error, momentum and weight decay, as PyTorch has them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from saddlewalk.figures.networks.optimizers import Optimizer, optax

CLASSES = 10
RATE, MOMENTUM = 0.1, 0.9


def classifier(seed: int, inputs: int, width: int, hidden: int) -> eqx.nn.MLP:
    """Weights and biases uniform within one over the root of the inputs, as PyTorch has them.

    Parameters
    ----------
    seed : of the start.
    inputs : numbers of an image.
    width : neurons of a hidden layer.
    hidden : hidden layers.
    """
    return eqx.nn.MLP(inputs, CLASSES, width, hidden, jax.nn.relu, key=jax.random.key(seed))


def sample_loss(answer: Any, target: Any) -> Any:
    """Mean squared error over the outputs.

    Parameters
    ----------
    answer, target : outputs of one sample, and what they should be.
    """
    return jnp.mean((answer - target) ** 2)


def batch_loss(network: Any, batch: Any) -> Any:
    """Its mean over a batch.

    Parameters
    ----------
    network : outputs of one sample from its inputs.
    batch : inputs and targets, samples first.
    """
    return jnp.mean(jax.vmap(sample_loss)(jax.vmap(network)(batch[0]), batch[1]))


def cosine_descent(weight_decay: float, steps: int) -> Optimizer:
    """Momentum, and a rate that falls to 0 along a cosine; weight decay is added to the gradient before.

    Parameters
    ----------
    weight_decay : factor of the weights in the gradient.
    steps : until the rate is 0.
    """
    return optax.chain(
        optax.add_decayed_weights(weight_decay),
        optax.sgd(optax.cosine_decay_schedule(RATE, steps), momentum=MOMENTUM),
    )

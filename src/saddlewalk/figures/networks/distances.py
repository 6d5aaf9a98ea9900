"""How far a network went from its start, inside a compiled program."""

import jax
import jax.numpy as jnp


def hamming_distance(first: jax.Array, second: jax.Array) -> jax.Array:
    """The fraction of activations that differ.

    Parameters
    ----------
    first, second : activations of two networks, of one shape.
    """
    return jnp.mean(first != second, dtype=jnp.float32)


def turned(first: jax.Array, second: jax.Array) -> jax.Array:
    """`kernel_distance` inside a compiled program: kernels of some hundred images stay on the device.

    Parameters
    ----------
    first, second : kernels of one shape.
    """
    return 0.5 * jnp.sum((first / jnp.linalg.norm(first) - second / jnp.linalg.norm(second)) ** 2)

"""Whether a unit has kinks in its parameters: found by trying it, where the class does not say.

Along a line through parameter space the slope of a smooth answer changes the less the shorter a piece of
the line is. Across a kink it jumps, however short the piece.
"""

import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.precision import in_float64
from saddlewalk.units.base import AbstractUnits, size_of, unpack

_LINES, _PIECES, _HALVINGS = 12, 32, 24
_JUMP = 1e-3
"""A change of slope that is still this part of the first after all halvings is a jump."""


@in_float64
def is_smooth(units: AbstractUnits, inputs: int, outputs: int) -> bool:
    """What the units declare, or what is found on some random lines.

    Parameters
    ----------
    units : the units.
    inputs, outputs : numbers of input and output coordinates of the data.
    """
    if units.smooth is not None:
        return units.smooth
    shapes = units.layers(inputs, outputs)
    rng = np.random.default_rng(3)
    through, along = rng.normal(size=(2, _LINES, size_of(shapes)))
    x, weight = rng.normal(size=(_LINES, inputs)), rng.normal(size=outputs)

    def slope(line: jax.Array, s: jax.Array) -> jax.Array:
        def answer(s: jax.Array) -> jax.Array:
            theta = jnp.asarray(through)[line] + s * jnp.asarray(along)[line]
            seen = units.view(jnp.asarray(x)[line], 0)
            return units.respond(unpack(shapes, theta), seen) @ weight

        return jax.grad(answer)(s)

    slopes = jax.jit(jax.vmap(slope))
    lines = jnp.repeat(jnp.arange(_LINES), _PIECES + 1)
    grid = jnp.tile(jnp.linspace(-2.0, 2.0, _PIECES + 1), _LINES)
    first = np.asarray(slopes(lines, grid)).reshape(_LINES, _PIECES + 1)
    changes = np.abs(np.diff(first, axis=1))
    worst = changes.argmax(axis=1)
    low, width = -2.0 + 4.0 / _PIECES * worst, 4.0 / _PIECES
    for _ in range(_HALVINGS):
        width /= 2
        ends = jnp.asarray(np.stack([low, low + width, low + 2 * width], axis=1).ravel())
        here = np.asarray(slopes(jnp.repeat(jnp.arange(_LINES), 3), ends)).reshape(_LINES, 3)
        halves = np.abs(np.diff(here, axis=1))
        low = np.where(halves[:, 1] > halves[:, 0], low + width, low)
    return bool(halves.max() <= _JUMP * changes.max())

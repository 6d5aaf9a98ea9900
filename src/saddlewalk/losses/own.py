"""A loss of one's own: any function of output and target that JAX can differentiate."""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Float

from saddlewalk.losses.base import AbstractLoss


class OwnLoss(AbstractLoss):
    """A function as a loss; nothing is known about it but its values.

    Parameters
    ----------
    function : `function(output, target)` of one sample, `(c,)` both, gives one number.
    """

    function: Callable[[Array, Array], Array] = eqx.field(static=True)

    def __call__(self, output: Float[Array, " c"], target: Float[Array, " c"]) -> Float[Array, ""]:
        """The function."""
        return self.function(output, target)

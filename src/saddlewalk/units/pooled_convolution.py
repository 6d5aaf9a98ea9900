r""":math:`f_i(x; u_i, V_i) = V_i\, P\, \sigma(u_i * x + b_i)`: kernels that read images, and average
pooling P.

Inputs are images of any number of channels and of one or two (or more) dimensions, one row each, as they
lie in memory: channel by channel. What a kernel answers is averaged over places that do not overlap;
without pooling every place has an outgoing weight of its own.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from saddlewalk.errors import InputError, checked_whole
from saddlewalk.units.activations import AbstractNeurons, activation_named
from saddlewalk.units.base import Shapes, Weights

Lengths = tuple[int, ...]


class PooledConvolution(AbstractNeurons):
    """Kernels of a convolution over images, with padding by zeros, a bias and average pooling.

    Parameters
    ----------
    width : number of kernels.
    image : channels, then the length of each dimension.
    kernel : length of the kernel in each dimension.
    stride : how far one patch is from the next, in each dimension; 1 by default.
    padding : zeros on both sides, in each dimension; 0 by default.
    pool : places that are averaged, in each dimension; 1 by default. What does not fill a whole one is left.
    activation : a name in `ACTIVATIONS`, or any function of one number that is zero at zero.
    bias : whether each kernel has a bias b.
    """

    width: int
    image: Lengths = eqx.field(static=True)
    kernel: Lengths = eqx.field(static=True)
    stride: Lengths = eqx.field(static=True, default=())
    padding: Lengths = eqx.field(static=True, default=())
    pool: Lengths = eqx.field(static=True, default=())
    activation: str | Callable[[Array], Array] = eqx.field(static=True, default="relu")
    bias: bool = eqx.field(static=True, default=False)

    @classmethod
    def example(cls) -> tuple["PooledConvolution", int, int]:
        """Three kernels that read two small channels."""
        return cls(3, (2, 4, 3), (2, 2), padding=(0, 1), pool=(2, 1), activation="relu"), 24, 2

    def __check_init__(self) -> None:
        checked_whole("width", self.width, least=1)
        activation_named(self.activation)
        for name in ("kernel", "stride", "padding", "pool"):
            given = getattr(self, name)
            if len(given) != len(self.image) - 1 and (name == "kernel" or given):
                raise InputError(
                    f"`{name}` has one number for each of the {len(self.image) - 1} dimensions of an image; "
                    f"got {given}."
                )
            for one in given:
                checked_whole(name, one, least=0 if name == "padding" else 1)
        if min(self.pooled) < 1:
            raise InputError(
                f"Kernels of {self.kernel}, pooled by {self.pool}, do not fit into {self.image[1:]}."
            )

    @property
    def linear_in(self) -> str | None:  # type: ignore[override]
        """The input, for the linear activation without a bias."""
        return "input" if self.activation == "linear" and not self.bias else None

    @property
    def places(self) -> Lengths:
        """Patches in each dimension."""
        lengths = zip(self.image[1:], self.kernel, self._stride, self._padding, strict=True)
        return tuple((n + 2 * pad - k) // step + 1 for n, k, step, pad in lengths)

    @property
    def pooled(self) -> Lengths:
        """Averages in each dimension."""
        return tuple(n // size for n, size in zip(self.places, self._pool, strict=True))

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """A kernel u, its bias where there is one, then an output weight for each output and average."""
        if inputs != math.prod(self.image):
            raise InputError(
                f"Images of {self.image} have {math.prod(self.image)} numbers; got {inputs}."
            )
        kernel = (self.image[0], *self.kernel)
        return {
            "u": kernel,
            **({"b": ()} if self.bias else {}),
            "v": (outputs, math.prod(self.pooled)),
        }

    def respond(self, weights: Weights, x: Array) -> Array:
        """V P sigma(u * x + b)."""
        answer = self.sigma(self._read(weights, x))
        return weights["v"] @ self._average(answer)

    def preactivations(self, weights: Weights, x: Array) -> Float[Array, " hidden"]:
        """u * x + b, kernel by kernel."""
        each = jnp.stack(
            [
                self._read({name: part[k] for name, part in weights.items()}, x)
                for k in range(len(weights["u"]))
            ]
        )
        return each.reshape(-1)

    def _read(self, weights: Weights, x: Array) -> Float[Array, " places"]:
        # one more entry, a zero, is what padding reads
        padded = jnp.concatenate([x, jnp.zeros(1, x.dtype)])
        z = padded[self._windows()] @ weights["u"].reshape(-1)
        return z + weights["b"] if self.bias else z

    def _average(self, answer: Array) -> Float[Array, " averages"]:
        whole = tuple(slice(0, n * size) for n, size in zip(self.pooled, self._pool, strict=True))
        cut = answer.reshape(self.places)[whole]
        split = list(itertools.chain(*zip(self.pooled, self._pool, strict=True)))
        return cut.reshape(split).mean(axis=tuple(range(1, len(split), 2))).reshape(-1)

    def _windows(self) -> Int[np.ndarray, "places entries"]:
        """Which numbers of an image each patch reads; one past the last is zero."""
        numbers: Any = np.arange(math.prod(self.image)).reshape(self.image)
        sides = [(0, 0), *((pad, pad) for pad in self._padding)]
        numbers = np.pad(numbers, sides, constant_values=numbers.size)
        axes = tuple(range(1, numbers.ndim))
        patches = np.lib.stride_tricks.sliding_window_view(numbers, self.kernel, axis=axes)
        chosen = patches[(slice(None), *(slice(None, None, step) for step in self._stride))]
        # channels stand beside the kernel's entries
        return np.moveaxis(chosen, 0, len(axes)).reshape(math.prod(self.places), -1)

    @property
    def _stride(self) -> Lengths:
        return self.stride or (1,) * len(self.kernel)

    @property
    def _padding(self) -> Lengths:
        return self.padding or (0,) * len(self.kernel)

    @property
    def _pool(self) -> Lengths:
        return self.pool or (1,) * len(self.kernel)

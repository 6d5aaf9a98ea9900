"""Losses by name: `squared`, `cross-entropy`, `logistic`, `huber`, `huber:0.5`; or any function."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from saddlewalk.errors import InputError, nearest
from saddlewalk.losses.base import AbstractLoss
from saddlewalk.losses.cross_entropy import CrossEntropy
from saddlewalk.losses.huber import Huber
from saddlewalk.losses.logistic import Logistic
from saddlewalk.losses.own import OwnLoss
from saddlewalk.losses.squared import SquaredError

NAMES: dict[str, Callable[[], AbstractLoss]] = {
    "squared": SquaredError,
    "cross-entropy": CrossEntropy,
    "logistic": Logistic,
    "huber": Huber,
}
"""What `loss` takes by name."""
_ELSEWHERE = {
    "mse": "PyTorch's mean over the outputs, 2/c times 'squared' for c outputs: take 'squared'",
    "half-mse": "'squared' here",
}


def as_loss(loss: Any) -> AbstractLoss:
    """A loss from its name, from a function of output and target, or as it is; squared error from nothing.

    Parameters
    ----------
    loss : a name of `NAMES` (`huber:0.5` for Huber's loss with delta 0.5), a function that gives the loss of
        one output `(c,)` against one target `(c,)`, an `AbstractLoss`, or `None`.
    """
    if loss is None:
        return SquaredError()
    if isinstance(loss, AbstractLoss):
        return loss
    if isinstance(loss, str):
        return _named(loss)
    if isinstance(loss, type):
        raise InputError(
            f"`loss` must be a loss, not its class: {loss.__name__}() instead of {loss.__name__}."
        )
    if callable(loss):
        return _checked(loss)
    raise InputError(
        f"`loss` must be one of {', '.join(NAMES)}, or a function (output, target) -> one number; got "
        f"{loss!r:.60}."
    )


def _named(name: str) -> AbstractLoss:
    word, _, number = name.partition(":")
    if word == "huber" and number:
        try:
            delta = float(number)
        except ValueError as error:
            raise InputError(
                f"Huber's loss with another delta is written huber:0.5; got '{name}'."
            ) from error
        return Huber(delta)
    if name in NAMES:
        return NAMES[name]()
    if name in _ELSEWHERE:
        raise InputError(f"The loss '{name}' is {_ELSEWHERE[name]}.")
    raise InputError(f"Unknown loss '{name}'.{nearest(name, NAMES)}")


def _checked(function: Callable[..., Any]) -> OwnLoss:
    """A function that was tried on one output: it must take (output, target) and give one number."""
    sample = jax.ShapeDtypeStruct((2,), jnp.float32)
    try:
        shape = jax.eval_shape(function, sample, sample).shape
    except Exception as error:
        raise InputError(
            "A `loss` of one's own is a function of JAX, (output, target) -> one number, of one sample with "
            f"arrays of shape (c,); called like this it says: {str(error).splitlines()[0]:.120}"
        ) from error
    if shape != ():
        raise InputError(
            f"The `loss` of a sample is one number; for an output of shape (2,) it has shape {shape}. Sum it."
        )
    return OwnLoss(function)

"""float64 inside the package, without touching the JAX configuration of the caller's program."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

import jax

from saddlewalk.errors import InputError, OutOfMemoryError

P = ParamSpec("P")
R = TypeVar("R")

XLA_OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"
"""What errors of XLA begin with when memory is short."""


def float64() -> AbstractContextManager:
    """A context in which JAX computes in double precision; outside nothing changes."""
    return jax.enable_x64(True)


def exact_products() -> AbstractContextManager:
    """A context in which matrix products keep all digits of float32: accelerators drop some by default."""
    return jax.default_matmul_precision("highest")


def check_float64() -> None:
    """Refuse to compute a loss of 1e-30 in float32."""
    if not jax.config.read("jax_enable_x64"):
        raise InputError(
            "This computes in double precision: call it under `with saddlewalk.float64():`."
        )


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a public function in the package's own float64 context; a lack of memory is told in a sentence.

    Parameters
    ----------
    function : what to run; its arguments and its result stay as they are.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with float64():
                return function(*args, **kwargs)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or XLA_OUT_OF_MEMORY in str(error):
                raise OutOfMemoryError(
                    "There is not enough memory for a problem of this size: take fewer units or samples."
                ) from error
            raise

    return wrapped

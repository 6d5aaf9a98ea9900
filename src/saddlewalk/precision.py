"""float64 inside the package, without touching the JAX configuration of the caller's program."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def float64() -> AbstractContextManager:
    """A context in which JAX computes in double precision; outside nothing changes."""
    return jax.enable_x64(True)


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a public function in the package's own float64 context."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with float64():
            return function(*args, **kwargs)

    return wrapped

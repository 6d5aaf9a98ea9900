"""Optax, which only networks of the figures need: imported when it is first used.

So the registry can look at every figure where optax is not installed.
"""

from typing import Any

from saddlewalk.errors import import_extra

Optimizer = Any
"""An `optax.GradientTransformation`."""


class _Optax:
    """The library by name."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_extra("optax", "Networks of the figures", "papers"), name)


optax: Any = _Optax()

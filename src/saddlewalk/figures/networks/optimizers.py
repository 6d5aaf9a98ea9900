"""Optax, which only networks of the figures need."""

from typing import Any

from saddlewalk.errors import import_extra

optax: Any = import_extra("optax", "Networks of the figures", "papers")

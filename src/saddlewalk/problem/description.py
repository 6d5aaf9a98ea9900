"""A problem as plain numbers and words, so that a result on disk can say what it belongs to.

Tasks, units and losses of the package are rebuilt from their fields. What a user has written is not: code is
never stored, and a file that needs it asks for the problem.
"""

import dataclasses
import importlib
from typing import Any

import jax
import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.precision import in_float64
from saddlewalk.problem.problem import Problem

_ROOMS = ("saddlewalk.tasks", "saddlewalk.units", "saddlewalk.losses")
"""Where a description may find its classes."""
_MOST_BYTES = 64 * 2**20
"""Data beyond this size are not written into every result."""
_CLASS = "class"
_OLD = {"penalty": "loss", "saddlewalk.problem": "saddlewalk.losses"}
"""Names in files of 0.1."""


class _NotPlainError(Exception):
    """Something of the user's own, or too large."""


def describe(problem: Problem) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Words and arrays from which `rebuild` makes the problem again; `None` if they do not suffice.

    Parameters
    ----------
    problem : units, data and loss; classes of one's own, or more than 64 MiB, are not described.
    """
    arrays: dict[str, np.ndarray] = {}
    try:
        words = {
            "task": _plain(problem.task, "task", arrays),
            "units": _plain(problem.units, "units", arrays),
            "loss": _plain(problem.sample_loss, "loss", arrays),
            "rates": dict(problem.layer_rates),
            "adaptive": problem.adaptive,
        }
    except _NotPlainError:
        return None
    return None if sum(array.nbytes for array in arrays.values()) > _MOST_BYTES else (words, arrays)


@in_float64
def rebuild(words: dict[str, Any], arrays: dict[str, np.ndarray]) -> Problem:
    """The problem behind its description.

    Parameters
    ----------
    words, arrays : what `describe` gave.
    """
    words = {_OLD.get(part, part): value for part, value in words.items()}
    task, units, loss = (_built(words[part], arrays) for part in ("task", "units", "loss"))
    return Problem(task, units, loss, words["rates"], keep_samples=True, adaptive=words["adaptive"])


def _plain(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """A value as JSON can hold it; arrays go into `arrays`, under names that say where they belong."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        arrays[name] = np.asarray(value)
        return {"array": name}
    if isinstance(value, tuple):
        return {"tuple": [_plain(part, f"{name}_{k}", arrays) for k, part in enumerate(value)]}
    if dataclasses.is_dataclass(value) and _home(type(value)) is not None:
        fields = {
            field.name: _plain(getattr(value, field.name), f"{name}_{field.name}", arrays)
            for field in dataclasses.fields(value)
        }
        return {_CLASS: f"{_home(type(value))}:{type(value).__name__}", "fields": fields}
    raise _NotPlainError


def _home(kind: type) -> str | None:
    """The room that offers a class to everyone, if it is one of the package."""
    for room in _ROOMS:
        if getattr(importlib.import_module(room), kind.__name__, None) is kind:
            return room
    return None


def _built(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "tuple" in value:
        return tuple(_built(part, arrays) for part in value["tuple"])
    room, name = value[_CLASS].split(":")
    room = _OLD.get(room, room)
    if room not in _ROOMS:
        raise InputError(f"The file names a class of '{room}', which is no part of saddlewalk.")
    fields = {name: _built(part, arrays) for name, part in value["fields"].items()}
    return getattr(importlib.import_module(room), name)(**fields)

"""Docstrings here say `name : what it is`, types are in the signature; numpydoc takes that for a type."""

import re
from typing import Any

import griffe

_HEAD = re.compile(r"Parameters\n-{3,}\n(.*?)(?=\n\n\S|\Z)", re.DOTALL)
_ENTRY = re.compile(r"^([\w*]+(?:, [\w*]+)*) : (.*(?:\n +.*)*)", re.MULTILINE)


class PlainParameters(griffe.Extension):
    """Moves what a parameter is from the place of its type to that of its description."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Every docstring, before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = _HEAD.sub(_moved, obj.docstring.value)


def _moved(section: re.Match[str]) -> str:
    return "Parameters\n----------\n" + _ENTRY.sub(_each, section[1])


def _each(entry: re.Match[str]) -> str:
    """Parameters that share a description have a type each."""
    return "\n".join(f"{name}\n    {entry[2]}" for name in entry[1].split(", "))

"""The one exception that a user's input can raise: a sentence that says what to do about it."""

import difflib
import importlib
import math
import numbers
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """What the user gave cannot be used. The message names the value seen and a remedy."""


class OutOfMemoryError(InputError):
    """What the user asks for is too large for this machine."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`" Did you mean 'diagonal'?"` for a near miss, else the list of what is known.

    Parameters
    ----------
    word : what was given.
    known : what could have been given.
    """
    names = sorted(known)
    close = difflib.get_close_matches(str(word), names, n=1)
    return f" Did you mean '{close[0]}'?" if close else f" Known: {', '.join(names)}."


def check_number(name: str, value: Any) -> None:
    """Refuse what is no real number.

    Parameters
    ----------
    name : of the argument.
    value : what was given.
    """
    if not _is_number(value):
        raise InputError(f"`{name}` must be a number; got {value!r:.60}.")


def checked_whole(name: str, value: Any, least: int = 0, below: float = math.inf) -> int:
    """A whole number, or a sentence.

    Parameters
    ----------
    name : of the argument.
    value : what was given.
    least : the smallest that may be given.
    below : what it must be smaller than.
    """
    if not _is_number(value) or not least <= value < below or value != int(value):
        limit = "" if math.isinf(below) else f" and below {below:g}"
        raise InputError(
            f"`{name}` must be a whole number of at least {least}{limit}; got {value!r:.60}."
        )
    return int(value)


def checked_seed(seed: Any) -> int:
    """A seed, which must fit into 63 bits.

    Parameters
    ----------
    seed : what was given.
    """
    return checked_whole("seed", seed, below=2**63)


def _is_number(value: Any) -> bool:
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    return isinstance(plain, numbers.Real) and not isinstance(plain, bool)


def import_extra(module: str, what: str, extra: str) -> Any:
    """A library that not every installation has; a sentence that says how to get it.

    Parameters
    ----------
    module : what is imported.
    what : who needs it, the first words of the sentence.
    extra : the optional dependency of this package that brings it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{what} need {module}: pip install 'saddlewalk[{extra}]' ('.[{extra}]' in a clone)."
        ) from error

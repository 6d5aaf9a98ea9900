"""The one exception that a user's input can raise: a sentence that says what to do about it."""

import difflib
import importlib
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """What the user gave cannot be used. The message names the value seen and a remedy."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`" Did you mean 'diagonal'?"` for a near miss, else the list of what is known.

    Parameters
    ----------
    word : what was given.
    known : what could have been given.
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f" Did you mean '{close[0]}'?" if close else f" Known: {', '.join(names)}."


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

"""The one exception that a user's input can raise: a sentence that says what to do about it."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """What the user gave cannot be used. The message names the value seen and a remedy."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`" Did you mean 'diagonal'?"` for a near miss, else the list of what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f" Did you mean '{close[0]}'?" if close else f" Known: {', '.join(names)}."

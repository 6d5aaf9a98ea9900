"""How annotations are checked while the tests run: an int is a float, as PEP 484 has it."""

from typing import Any, Self

from beartype import BeartypeConf, beartype

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Any) -> Any:
    """The function with its types checked; beartype knows `Self` in whole classes only, not in methods."""
    if Self in getattr(function, "__annotations__", {}).values():
        return function
    return _check(function)

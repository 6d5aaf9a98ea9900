"""Optimizers by name: `adam`, or with numbers of their own `adamw:weight_decay=0.1,beta2=0.95`."""

from typing import Any

from saddlewalk.errors import InputError, nearest
from saddlewalk.optimizers.adam import Adam, AdamW
from saddlewalk.optimizers.base import AbstractOptimizer
from saddlewalk.optimizers.descent import GradientDescent, Momentum
from saddlewalk.optimizers.foreign import Optax
from saddlewalk.optimizers.muon import Muon
from saddlewalk.optimizers.signs import NormalizedDescent, SignDescent

OPTIMIZERS: dict[str, type[AbstractOptimizer]] = {
    one.word: one
    for one in (GradientDescent, Momentum, SignDescent, NormalizedDescent, Adam, AdamW, Muon)
}
"""By the word of the command line."""


def optimizer_named(text: str, **numbers: Any) -> AbstractOptimizer:
    """The optimizer that a word means.

    Parameters
    ----------
    text : a name, after a colon its numbers: `muon:momentum=0.9,newton_schulz=0`.
    **numbers : more of them, as `learning_rate`; `None` leaves one as it is.
    """
    name, _, own = text.partition(":")
    if name not in OPTIMIZERS:
        raise InputError(f"Unknown optimizer '{name}'.{nearest(name, OPTIMIZERS)}")
    kind = OPTIMIZERS[name]
    given = {key: value for key, value in numbers.items() if value is not None}
    for pair in filter(None, own.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"The `optimizer` must look like {name}:name=value; got '{text}'.")
        key, number = key.strip(), _read(key, value)
        if given.get(key, number) != number:
            raise InputError(
                f"Two numbers for `{key}` of '{name}': {number} in its name, and {given[key]}. "
                "Leave one of them out."
            )
        given[key] = number
    return kind(**given)


def as_optimizer(
    given: Any, learning_rate: float | None = None, momentum: float | None = None
) -> AbstractOptimizer:
    """What a user gave as an optimizer: one of these, a word, or an optax transformation.

    Parameters
    ----------
    given : the optimizer.
    learning_rate, momentum : numbers that go with a word.
    """
    if isinstance(given, str):
        return optimizer_named(given, learning_rate=learning_rate, momentum=momentum)
    if isinstance(given, type) and issubclass(given, AbstractOptimizer):
        raise InputError(f"`optimizer` must be an object: {given.__name__}(learning_rate=...).")
    named = {"learning_rate": learning_rate, "momentum": momentum}
    twice = [name for name, value in named.items() if value is not None]
    if isinstance(given, AbstractOptimizer):
        if twice:
            raise InputError(f"The optimizer has its own `{twice[0]}`: leave it out.")
        return given
    if callable(getattr(given, "init", None)) and callable(getattr(given, "update", None)):
        rate = 1.0 if learning_rate is None else learning_rate
        return Optax(transformation=given, learning_rate=rate)
    raise InputError(
        f"`optimizer` must be one of saddlewalk.optimizers, a name ({', '.join(OPTIMIZERS)}), or a gradient "
        f"transformation of optax; got {given!r:.60}."
    )


def _read(key: str, value: str) -> Any:
    words = {"true": True, "false": False}
    if value.strip().lower() in words:
        return words[value.strip().lower()]
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    raise InputError(f"`{key}` of the optimizer must be a number; got '{value}'.")

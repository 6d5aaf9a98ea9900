"""Flags made from the fields of a run, and a run made from flags."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import click

from saddlewalk.settings.options import (
    DATA,
    UNITS,
    MotionOptions,
    Option,
    PredictionOptions,
    StartOptions,
    TrainingOptions,
    options_of,
)
from saddlewalk.settings.run import Run

_OWN_FLAGS = {
    "rate": "--rate",
    "confirmed": "--yes",
    "out": "--out",
    "force": "--force",
    "weight_decay": "--weight-decay",
}
"""Arguments of the library whose flags are no options of a run."""

_PLACE = [
    click.option("--out", type=click.Path(), help="Folder for result, figure and configuration."),
    click.option("--force", is_flag=True, help="Replace the folder if it exists."),
    click.option(
        "--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else."
    ),
]
_OPTIONS: dict[str, Option] = {
    **options_of(StartOptions),
    **DATA,
    **UNITS,
    **options_of(MotionOptions),
    **options_of(PredictionOptions),
    **options_of(TrainingOptions),
}
_PREDICTION, _TRAINING = options_of(PredictionOptions), options_of(TrainingOptions)


def takes_run(*, predicts: bool = False, trains: bool = False) -> Callable:
    """A command that takes a setting, the options of its run, and where results go.

    Parameters
    ----------
    predicts : whether it has the options of a prediction.
    trains : whether it has those of a training.
    """
    left_out = {*(() if predicts else _PREDICTION), *(() if trains else _TRAINING)}
    flags = [_flag(name, one) for name, one in _OPTIONS.items() if name not in left_out]
    return _decorated([click.argument("setting"), *flags, *_PLACE])


def takes_options(function: Callable) -> Callable:
    """A command that takes the options of a comparison, without its setting."""
    return _decorated([_flag(name, one) for name, one in _OPTIONS.items()])(function)


def run_from_flags(setting: str, options: dict[str, Any]) -> Run:
    """The run that a command line asks for; what is not given is left to the defaults of a run."""
    asked = {k: v for k, v in options.items() if k in _OPTIONS and v is not None}
    return Run.of(setting, **asked)


def in_flags(message: str) -> str:
    """A sentence of the library, which speaks of arguments, in the words of the command line."""

    def flag(match: re.Match[str]) -> str:
        name = match[1]
        if name in _OPTIONS:
            return flag_of(name)
        return _OWN_FLAGS.get(name, match[0])

    return re.sub(r"`([a-z_]+)`", flag, message)


def flag_of(option: str) -> str:
    """How the command line writes an option."""
    return "--" + option.replace("_", "-")


def _flag(name: str, option: Option) -> Callable:
    """No default of its own: what is not given is left to the run."""
    words = in_flags(option.help)
    if option.kind is bool:
        return click.option(flag_of(name), is_flag=True, default=None, help=words)
    return click.option(flag_of(name), type=option.kind, default=None, help=words)


def _decorated(options: Iterable[Callable]) -> Callable:
    def decorate(function: Callable) -> Callable:
        for option in reversed(list(options)):
            function = option(function)
        return function

    return decorate

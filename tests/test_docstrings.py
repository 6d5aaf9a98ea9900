"""Every parameter of a public function or constructor is explained under Parameters; numpydoc checks."""

import dataclasses
import enum
import importlib
import inspect
import pkgutil

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

import saddlewalk
from saddlewalk.problem import Problem
from saddlewalk.settings.run import Run
from saddlewalk.store import AbstractResult

ROOMS = (
    "agreement",
    "balance",
    "curves",
    "diagnose",
    "errors",
    "features",
    "figures",
    "flow",
    "interrupts",
    "landscape",
    "ode",
    "precision",
    "problem",
    "settings",
    "show",
    "store",
    "sweep",
    "tasks",
    "theory",
    "torch",
    "units",
)
"""Modules and folders that are checked."""
CONSTRUCTED = ("features", "tasks", "units")
"""Rooms whose dataclasses users construct: a Parameters section there, too."""
WITH_METHODS = (AbstractResult, Run, Problem)
"""Classes whose public methods are checked, too."""
OPTIONAL = ("torch", "lightning")
"""Packages that need not be there."""
WRONG = {"PR01", "PR02", "PR03"}
"""Parameters that are missing, unknown, or in another order."""


def modules(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        return
    yield module
    for found in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        if not found.name.rpartition(".")[2].startswith("_"):
            yield from modules(found.name)


def is_public(name, value, module):
    return (
        not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", "") == module.__name__
        and hasattr(value, "__qualname__")  # and no other instance
    )


def is_constructed(kind):
    """Whether the class has a constructor to explain: not by fields that say what they are."""
    if "Parameters" in Validator(get_doc_object(kind)).section_titles:
        return True
    if issubclass(kind, BaseException | enum.Enum | tuple) or getattr(kind, "_is_protocol", False):
        return False
    owner = next(one for one in kind.__mro__ if "__init__" in vars(one))
    if dataclasses.is_dataclass(owner) and _is_generated(owner.__init__):
        return kind.__module__.split(".")[1] in CONSTRUCTED and not inspect.isabstract(kind)
    return owner is kind or owner.__name__.startswith("_")


def _is_generated(function):
    return inspect.unwrap(function).__code__.co_filename.startswith("<")


def is_checked(value):
    return is_constructed(value) if inspect.isclass(value) else True


CALLABLES = {
    f"{module.__name__}.{name}": value
    for room in ROOMS
    for module in modules(f"saddlewalk.{room}")
    for name, value in vars(module).items()
    if is_public(name, value, module) and is_checked(value)
}
METHODS = {
    f"{kind.__module__}.{kind.__name__}.{name}": method
    for kind in WITH_METHODS
    for name, method in inspect.getmembers(kind, callable)
    if not name.startswith("_") and name in vars(kind)
}


def of_room(room):
    return [name for name in CALLABLES | METHODS if name.split(".")[1] == room]


@pytest.mark.parametrize("room", ROOMS)
def test_every_parameter_is_explained(room):
    faults = {
        name: words
        for name in of_room(room)
        for code, words in validate(name)["errors"]
        if code in WRONG
    }
    assert not faults


@pytest.mark.parametrize("room", ROOMS)
def test_every_explanation_says_something(room):
    """`name : meaning`, on one line."""
    silent = {
        f"{name}: {entry.name}"
        for name in of_room(room)
        for entry in get_doc_object((CALLABLES | METHODS)[name])["Parameters"]
        if not entry.type.strip()
    }
    assert not silent


def test_the_rooms_are_looked_at():
    assert saddlewalk.units.Dense in CALLABLES.values()
    assert "saddlewalk.features.networks.network_features" in CALLABLES
    assert {name.split(".")[1] for name in CALLABLES} >= set(ROOMS) - {"torch"}

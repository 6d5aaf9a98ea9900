"""Every parameter of a public function or constructor is explained: `name : meaning` under Parameters."""

import importlib
import inspect
import pkgutil
import re

import pytest

import saddlewalk

ROOMS = ("features", "tasks", "units")
"""Folders that are checked."""
OPTIONAL = ("torch",)
"""Packages that need not be there."""
_SECTION = re.compile(r"Parameters\n-+\n(.*?)(?=\n\n\S+\n-+\n|\Z)", re.DOTALL)
_ENTRY = re.compile(r"^(\w+(?:, \w+)*) : \S", re.MULTILINE)


def modules():
    for room in ROOMS:
        folder = importlib.import_module(f"saddlewalk.{room}")
        for found in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            try:
                yield importlib.import_module(found.name)
            except ModuleNotFoundError as error:
                if error.name not in OPTIONAL:
                    raise


def is_public_callable(name, value, module):
    return (
        not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and getattr(value, "__module__", "") == module.__name__
        and not (inspect.isclass(value) and issubclass(value, BaseException | str))
    )


CALLABLES = {
    f"{module.__name__.removeprefix('saddlewalk.')}.{name}": value
    for module in modules()
    for name, value in vars(module).items()
    if is_public_callable(name, value, module)
}


def parameters(value):
    return [
        name
        for name, parameter in inspect.signature(value).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def explained(value):
    section = _SECTION.search(inspect.getdoc(value) or "")
    return {
        name
        for entry in _ENTRY.findall(section[1] if section else "")
        for name in entry.split(", ")
    }


@pytest.mark.parametrize("name", CALLABLES)
def test_every_parameter_is_explained(name):
    value = CALLABLES[name]
    if inspect.isabstract(value):
        return  # nobody constructs it
    missing = [one for one in parameters(value) if one not in explained(value)]
    assert not missing, f"{name}: say what {', '.join(missing)} mean under Parameters"


@pytest.mark.parametrize("name", CALLABLES)
def test_nothing_else_is_explained(name):
    foreign = explained(CALLABLES[name]) - set(parameters(CALLABLES[name]))
    assert not foreign, f"{name} has no parameter {', '.join(sorted(foreign))}"


def test_the_rooms_are_looked_at():
    assert saddlewalk.units.Dense in CALLABLES.values()
    assert "features.networks.network_features" in CALLABLES

"""What changed its name in 0.2: whoever uses an old name is told the new one."""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_FIGURES = {
    f"saddlewalk.figures.{paper}_{name}": f"saddlewalk.figures.{folder}.{name}"
    for paper, folder, names in (
        ("agf", "agf", "attention diagonal linear modular relu"),
        ("saddle", "saddles", "architectures effects mnist panels skips"),
        ("rich", "rich", "filters grokking hierarchy lenet neuron portrait teacher"),
        ("fact", "fact", "machines networks tabular training"),
    )
    for name in names.split()
}
MODULES = {
    "saddlewalk.curve": "saddlewalk.curves",
    "saddlewalk.plateaus": "saddlewalk.curves.jumps",
    "saddlewalk.staircase": "saddlewalk.theory.staircase and saddlewalk.curves.stages",
    "saddlewalk.motion": "saddlewalk.problem.motion",
    "saddlewalk.text": "saddlewalk.show.text",
    "saddlewalk.draw": "saddlewalk.show.draw",
    "saddlewalk.progress": "saddlewalk.show.progress",
    "saddlewalk.features.matrices": "saddlewalk.features.layers",
    "saddlewalk.features.machine_matrices": "saddlewalk.features.machines",
    "saddlewalk.flow.follow": "saddlewalk.flow.continuous",
    "saddlewalk.flow.descent": "saddlewalk.flow.steps",
    "saddlewalk.flow.together": "saddlewalk.figures.networks.ensembles",
    "saddlewalk.theory.naming": "saddlewalk.theory.agf.naming",
    "saddlewalk.theory.walk": "saddlewalk.theory.agf.walk",
    "saddlewalk.theory.alternation": "saddlewalk.theory.agf.alternation",
    "saddlewalk.diagnose.stages": "saddlewalk.flow.observed",
    **_FIGURES,
}
"""Modules of 0.1, and where they are now."""


class _OldModules(MetaPathFinder):
    """Asked last, when nobody else knows a module."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in MODULES:
            raise ModuleNotFoundError(f"{name} is now {MODULES[name]}.", name=name)
        return None


def answer_old_modules() -> None:
    """From now on an import of an old module says where it is."""
    if not any(isinstance(finder, _OldModules) for finder in sys.meta_path):
        sys.meta_path.append(_OldModules())


def answer_old_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a module that says the new name of an old one."""

    def answer(name: str) -> Any:
        if name in names:
            raise AttributeError(f"{module}.{name} is now {names[name]}.")
        raise AttributeError(f"module '{module}' has no attribute '{name}'")

    return answer


def answer_old_arguments(**names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for a function whose arguments have new names: whoever uses an old one is told.

    Parameters
    ----------
    **names : the new name of each old one.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def answering(*given: Any, **named: Any) -> Any:
            for old in names.keys() & named.keys():
                raise TypeError(f"{function.__qualname__}: `{old}` is now `{names[old]}`.")
            return function(*given, **named)

        return answering

    return decorate

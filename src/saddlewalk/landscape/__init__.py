"""The loss of any network as a function of one vector of weights, and which networks are sums of units."""

from typing import TYPE_CHECKING, Any

from saddlewalk.landscape.base import AbstractLandscape as AbstractLandscape
from saddlewalk.landscape.base import Parameter as Parameter

if TYPE_CHECKING:
    from saddlewalk.landscape.functions import FunctionLandscape as FunctionLandscape
    from saddlewalk.landscape.functions import landscape_of as landscape_of
    from saddlewalk.landscape.torch import ModuleLandscape as ModuleLandscape

_HOME = {"FunctionLandscape": "functions", "ModuleLandscape": "torch", "landscape_of": "functions"}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'saddlewalk.landscape' has no attribute '{name}'")
    return getattr(importlib.import_module(f"saddlewalk.landscape.{_HOME[name]}"), name)

"""What is predicted. This folder never sees a training run."""

import importlib
from typing import TYPE_CHECKING, Any

from saddlewalk.theory.deep import predict_first_escape as predict_first_escape
from saddlewalk.theory.prediction import THEORIES as THEORIES
from saddlewalk.theory.prediction import methods_of as methods_of
from saddlewalk.theory.prediction import predict as predict
from saddlewalk.theory.staircase import Assumption as Assumption
from saddlewalk.theory.staircase import Staircase as Staircase

if TYPE_CHECKING:
    from saddlewalk.theory import lazyrich as lazyrich


def __getattr__(name: str) -> Any:
    # a theory of its own, which a prediction does not wait for
    if name == "lazyrich":
        return importlib.import_module("saddlewalk.theory.lazyrich")
    raise AttributeError(name)

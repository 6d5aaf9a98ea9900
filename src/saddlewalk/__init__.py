"""saddlewalk: which features a network learns, in which order and when, and the proof beside it.

    import saddlewalk as sw

    task = sw.tasks.sparse_regression(samples=40, dim=10, sparsity=4)
    stairs = sw.predict(task, sw.units.Diagonal(), scale=1e-6)
    path = sw.train(task, sw.units.Diagonal(), scale=1e-6)
    print(sw.compare(stairs, path))

Names are imported when they are first used, so `import saddlewalk` starts neither JAX nor a backend.
"""

import importlib
from typing import TYPE_CHECKING, Any

from saddlewalk.renamed import answer_old_modules

if TYPE_CHECKING:
    from saddlewalk import balance as balance
    from saddlewalk import curves as curves
    from saddlewalk import diagnose as diagnose
    from saddlewalk import features as features
    from saddlewalk import figures as figures
    from saddlewalk import groups as groups
    from saddlewalk import landscape as landscape
    from saddlewalk import losses as losses
    from saddlewalk import optimizers as optimizers
    from saddlewalk import settings as settings
    from saddlewalk import sweep as sweep
    from saddlewalk import tasks as tasks
    from saddlewalk import theory as theory
    from saddlewalk import units as units
    from saddlewalk import watch as watch
    from saddlewalk.agreement import Agreement as Agreement
    from saddlewalk.agreement import compare as compare
    from saddlewalk.errors import InputError as InputError
    from saddlewalk.figures import reproduce as reproduce
    from saddlewalk.flow import Trajectory as Trajectory
    from saddlewalk.flow import train as train
    from saddlewalk.flow import train_many as train_many
    from saddlewalk.precision import float64 as float64
    from saddlewalk.problem import Problem as Problem
    from saddlewalk.settings import Run as Run
    from saddlewalk.theory import Staircase as Staircase
    from saddlewalk.theory import predict as predict

    __version__: str

_HOME = {
    "Agreement": "agreement",
    "InputError": "errors",
    "Problem": "problem",
    "Run": "settings",
    "Staircase": "theory",
    "Trajectory": "flow",
    "compare": "agreement",
    "float64": "precision",
    "predict": "theory",
    "reproduce": "figures",
    "train": "flow",
    "train_many": "flow",
}
_PARTS = (
    *("balance", "curves", "diagnose", "features", "figures", "groups", "landscape", "losses"),
    *("optimizers", "settings", "sweep", "tasks", "theory", "units", "watch"),
)

__all__ = sorted([*_HOME, *_PARTS, "__version__"])

answer_old_modules()


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"saddlewalk.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("saddlewalk")
    if name not in _HOME:
        raise AttributeError(f"module 'saddlewalk' has no attribute '{name}'")
    return getattr(importlib.import_module(f"saddlewalk.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__

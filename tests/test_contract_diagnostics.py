"""The contract of every diagnostic: it takes a run, or a problem with weights, and says the same of both."""

import inspect
import runpy
from pathlib import Path

import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk import diagnose
from saddlewalk.store import AbstractResult

SKELETON = Path(__file__).parent.parent / "docs" / "howto" / "skeletons" / "diagnostic.py"
NEEDED = {
    "region_colors": {"x": np.eye(2)},
    "activation_patterns": {"x": np.eye(2)},
    "reduce": {"relation": "equal", "width": 1},
}
"""Arguments that some diagnostics cannot do without."""


def first_parameter(function):
    return next(iter(inspect.signature(function).parameters), "")


EVERY = {
    name: function
    for name, function in vars(diagnose).items()
    if inspect.isfunction(function) and not name.startswith("_")
}
OF_A_NETWORK = {name: f for name, f in EVERY.items() if first_parameter(f) == "where"}
OF_A_RUN = {name: f for name, f in EVERY.items() if first_parameter(f) == "path"}
OF_A_NETWORK["skeleton"] = runpy.run_path(str(SKELETON))["unit_inequality"]


@pytest.fixture(scope="module")
def path():
    x = np.random.default_rng(0).normal(size=(12, 2))
    task = sw.tasks.from_arrays(x, np.maximum(x[:, 0], 0))
    return sw.train(task, sw.units.Dense(2, "relu"), 0.1, progress=False)


def test_there_are_some():
    assert {"saddle_test", "effective_width", "tangent_kernel"} <= set(OF_A_NETWORK)
    assert {"find_phases", "find_regime", "conserved_drift"} <= set(OF_A_RUN)


@pytest.mark.parametrize("name", OF_A_NETWORK)
def test_a_run_and_a_problem_with_weights_are_the_same(name, path):
    look, needed = OF_A_NETWORK[name], NEEDED.get(name, {})
    of_run = look(path, at=-1, **needed)
    of_weights = look(path.problem, path.parameters[-1], **needed)
    assert _plain(of_run) == _plain(of_weights)


@pytest.mark.parametrize("name", OF_A_NETWORK)
def test_what_is_missing_is_said(name, path):
    look, needed = OF_A_NETWORK[name], NEEDED.get(name, {})
    with pytest.raises(sw.InputError, match="weights"):
        look(path.problem, **needed)
    with pytest.raises(sw.InputError, match="saved moments"):
        look(path, at=10_000, **needed)
    with pytest.raises(sw.InputError, match=r"shape \(2, 3\)"):
        look(path.problem, np.zeros((5, 3)), **needed)
    with pytest.raises(sw.InputError, match="NaN"):
        look(path.problem, np.full((2, 3), np.nan), **needed)


WITH_PROBLEM = [n for n, f in OF_A_RUN.items() if "problem" in inspect.signature(f).parameters]


@pytest.mark.parametrize("name", WITH_PROBLEM)
def test_a_run_brings_its_problem_and_another_one_is_refused(name, path):
    look = OF_A_RUN[name]
    assert _plain(look(path)) == _plain(look(path, path.problem))
    x = np.random.default_rng(1).normal(size=(12, 2))
    other = sw.Problem(sw.tasks.from_arrays(x, x[:, 0]), sw.units.Dense(2, "relu"))
    with pytest.raises(sw.InputError, match="does not belong"):
        look(path, other)


@pytest.mark.parametrize("name", [*OF_A_NETWORK, *OF_A_RUN])
def test_options_are_named(name):
    """What is looked at comes first; options have names."""
    look = {**OF_A_NETWORK, **OF_A_RUN}[name]
    kinds = [p.kind for p in inspect.signature(look).parameters.values()]
    assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) <= 2


def _plain(found):
    """Something that can be compared."""
    if isinstance(found, AbstractResult):
        return str(found)
    if isinstance(found, tuple | list):
        return [_plain(one) for one in found]
    if isinstance(found, dict):
        return {name: _plain(one) for name, one in found.items()}
    if hasattr(found, "figure"):  # axes
        return "drawn"
    if isinstance(found, sw.Problem):
        return repr(found.units)
    return np.asarray(found).tolist() if hasattr(found, "shape") else repr(found)

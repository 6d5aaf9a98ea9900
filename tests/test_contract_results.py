"""The contract of every public result: it prints, shows itself, can be kept and read back, and is drawn."""

import importlib
import json
import pkgutil
import runpy
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.features import FeatureHistory, network_features
from saddlewalk.figures import Claim, FigureResult, Scorecard
from saddlewalk.show import draw
from saddlewalk.store import AbstractResult

SKELETON = Path(__file__).parent.parent / "docs" / "howto" / "skeletons" / "diagnostic.py"
NOT_HERE = ("torch", "lightning", "distributed", "transformers")
"""Packages that need not be installed."""


def every_result():
    """All concrete results in the package, wherever they are defined."""
    for module in pkgutil.walk_packages(sw.__path__, "saddlewalk."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in NOT_HERE:
                raise
    found, waiting = {}, [AbstractResult]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("saddlewalk."):
                found[kind.result_kind] = kind
    return found


@pytest.fixture(scope="module")
def examples():
    """One small result of each kind, from one training."""
    x = np.random.default_rng(0).normal(size=(20, 2))
    task = sw.tasks.from_arrays(x, np.tanh(x @ [1.5, 0.5]))
    units = sw.units.Dense(2, "tanh")
    stairs = sw.predict(task, units, 1e-2, method="numeric", progress=False)
    path = sw.train(task, units, 1e-2, progress=False)
    features = network_features(path)
    history = FeatureHistory()
    for step in range(3):
        history.record(step, network_features(path, at=step - 3))
    with draw.styled():
        figure, axes = draw.new_figure()
        axes.plot([0, 1])
    made = FigureResult("agf-3", "a line", (Claim("it rises", "1", True),), figure, {"slope": 1.0})
    record = {**made.to_json(), "place": "Fig 3", "differs": "", "full": False}
    results = [
        stairs,
        path,
        sw.compare(stairs, path),
        sw.diagnose.find_phases(path),
        sw.diagnose.find_regime(path),
        sw.diagnose.saddle_test(path),
        sw.diagnose.effective_width(path),
        sw.diagnose.find_stability(
            sw.train(task, sw.units.Dense(1, "relu"), 0.1, optimizer="descent", max_steps=50)
        ),
        sw.diagnose.conserved_drift(sw.train(task, sw.units.Dense(1, "relu"), 0.1, max_time=1.0)),
        features,
        history,
        watched(x, task),
        made,
        Scorecard({"agf-3": record}),
    ]
    skeleton = runpy.run_path(str(SKELETON))["unit_inequality"](path)
    return {one.result_kind: one for one in [*results, skeleton]}


def watched(x, task):
    """What a watch saw of a descent."""
    answer = lambda p, one: p["v"] @ (p["u"] @ one)  # noqa: E731
    start = {"u": np.full((2, 2), 1e-2), "v": np.full((1, 2), 1e-2)}
    watch = sw.watch.Watch(
        answer, start, "squared", probe=(x, task.y), optimizer=sw.watch.Sgd(0.1), budget=1e-9
    )
    for loss in (0.5, 0.4, 0.3):
        watch.step(loss, start)
    watch.look()
    return watch.record


KINDS = [*every_result(), "inequality"]


def test_every_result_has_an_example(examples):
    """Add one above for a new kind of result."""
    assert set(KINDS) == set(examples)


@pytest.mark.parametrize("kind", KINDS)
def test_it_prints_as_a_table_and_shows_itself_in_a_notebook(kind, examples):
    result = examples[kind]
    words, page = str(result), result._repr_html_()
    assert "─" in words
    assert all(len(line) <= 120 for line in words.splitlines() if "─" in line)
    assert page.count("<table>") == page.count("</table>") >= 1
    assert page.count("<tr>") == page.count("</tr>") >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_its_record_is_plain_json(kind, examples):
    record = examples[kind].to_json()
    assert record
    assert json.loads(json.dumps(record, allow_nan=False)) == record


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_kept_and_read_back(kind, examples, tmp_path):
    result = examples[kind]
    again = type(result).load(result.save(tmp_path / "result.nc"))
    assert type(again) is type(result)
    assert str(again) == str(result)
    assert again.to_json() == result.to_json()
    assert [file.name for file in tmp_path.iterdir()] == ["result.nc"]  # no draft is left


@pytest.mark.parametrize("kind", KINDS)
def test_another_kind_of_file_is_refused(kind, examples, tmp_path):
    other = examples["staircase" if kind != "staircase" else "trajectory"]
    with pytest.raises(sw.InputError, match="holds"):
        type(examples[kind]).load(other.save(tmp_path / "other.nc"))
    with pytest.raises(sw.InputError, match="There is no file"):
        type(examples[kind]).load(tmp_path / "nothing.nc")


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_drawn_into_a_file_or_just_made(kind, examples, tmp_path):
    before = dict(matplotlib.rcParams)
    assert examples[kind].plot() is not None
    assert examples[kind].plot(tmp_path / "picture.png") is not None
    assert (tmp_path / "picture.png").stat().st_size > 2_000
    assert dict(matplotlib.rcParams) == before  # the user's own settings stay


WITH_PROBLEM = ("staircase", "trajectory", "agreement")


@pytest.mark.parametrize("kind", WITH_PROBLEM)
def test_a_result_from_a_file_knows_its_problem(kind, examples, tmp_path):
    result = examples[kind]
    again = type(result).load(result.save(tmp_path / "result.nc")).problem
    theta = np.random.default_rng(1).normal(size=(again.width, again.size))
    with sw.float64():
        assert float(again.loss(theta)) == float(result.problem.loss(theta))
    assert repr(again.units) == repr(result.problem.units)
    assert again.layer_rates == result.problem.layer_rates


class Own(sw.units.AbstractUnits):
    """Units that no file can hold."""

    width: int

    def layers(self, inputs, outputs):
        return {"w": (inputs,), "a": (outputs,)}

    def respond(self, weights, x):
        return weights["a"] * (weights["w"] @ x) ** 2


def test_a_file_asks_for_units_of_ones_own(tmp_path):
    x = np.random.default_rng(0).normal(size=(10, 2))
    task = sw.tasks.from_arrays(x, x[:, 0] ** 2)
    path = sw.train(task, Own(1), 0.1, max_time=1.0)
    assert path.problem.units == Own(1)
    stored = sw.Trajectory.load(path.save(tmp_path / "own.nc"))
    with pytest.raises(sw.InputError, match=r"Give it: result.of\(sw.Problem\(task, units\)\)"):
        sw.diagnose.find_phases(stored)
    assert stored.of(sw.Problem(task, Own(1))).problem.task is not None
    other = sw.tasks.from_arrays(x, x[:, 1] ** 2)
    with pytest.raises(sw.InputError, match="does not belong to this problem"):
        stored.of(sw.Problem(other, Own(1)))
    with pytest.raises(sw.InputError, match="does not belong to this problem"):
        stored.of(sw.Problem(task, sw.units.Dense(1, "tanh")))

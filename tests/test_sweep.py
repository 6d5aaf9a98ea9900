"""Sweeps: plans, the store, and engines that are disturbed."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

import saddlewalk as sw
from saddlewalk.cli import main
from saddlewalk.sweep import Results, grid, latin_hypercube, sweep, uniform
from saddlewalk.sweep.files import load_sweep
from saddlewalk.sweep.measures import MEASURES, check_parameters, find_measure
from saddlewalk.sweep.pictures import plot_sweep
from saddlewalk.sweep.results import open_results


def area(width, height, scale=1.0):
    return {"area": scale * width * height, "ratio": width / height}


PLAN = grid({"width": [1.0, 2.0, 3.0], "height": [1, 2]}, scale=10.0)


# --- plans ------------------------------------------------------------------------------------------------


def test_cells_of_a_grid():
    assert len(PLAN) == 6
    assert PLAN.cell(3) == {"scale": 10.0, "width": 2.0, "height": 2}
    assert len({tuple(cell.items()) for cell in PLAN}) == 6


def test_latin_hypercube_visits_every_slice_once():
    plan = latin_hypercube({"a": (0.0, 1.0), "b": (1e-6, 1.0, "log")}, 20, seed=1)
    cells = list(plan)
    assert sorted(int(20 * cell["a"]) for cell in cells) == list(range(20))
    places = [int(20 * (1 + math.log10(cell["b"]) / 6)) for cell in cells]
    assert sorted(places) == list(range(20))


def test_uniform_draws_lie_in_their_ranges():
    cells = list(uniform({"a": (2.0, 3.0)}, 200, seed=0, b="word"))
    values = np.array([cell["a"] for cell in cells])
    assert (values.min(), values.max()) == (pytest.approx(2, abs=0.05), pytest.approx(3, abs=0.05))
    assert cells[0]["b"] == "word"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: grid({}), "at least one axis"),
        (lambda: grid({"a": []}), "no values"),
        (lambda: grid({"a": "3"}), "list of values"),
        (lambda: grid({"a": [1, 1]}), "twice"),
        (lambda: grid({"a": [1]}, a=2), "given twice"),
        (lambda: grid({"a": [None]}), "numbers or words"),
        (lambda: uniform({"a": (1.0, 0.0)}, 3), "range of 'a'"),
        (lambda: uniform({"a": (0.0, 1.0, "log")}, 3), "range of 'a'"),
        (lambda: latin_hypercube({"a": (0.0, 1.0)}, 0), "whole number"),
    ],
)
def test_plans_that_make_no_sense(make, words):
    with pytest.raises(sw.InputError, match=words):
        make()


# --- the store ----------------------------------------------------------------------------------------------


def test_in_this_process(tmp_path):
    found = sweep(area, PLAN, tmp_path / "s.zarr")
    assert found["area"].dims == ("width", "height")
    truth = 10 * np.outer([1, 2, 3], [1, 2])
    np.testing.assert_array_equal(found["area"], truth)
    assert float(found["area"].sel(width=3.0, height=2)) == 60.0
    assert (found["status"] == 1).all()


def test_a_running_sweep_can_be_looked_at(tmp_path):
    results = Results(tmp_path / "s.zarr", PLAN, "area")
    results.write({4: {"area": 5.0, "ratio": 1.0}})
    found = open_results(tmp_path / "s.zarr")
    assert float(found["area"].sel(width=3.0, height=1)) == 5.0
    assert int(np.isnan(found["area"]).sum()) == 5
    assert xr.open_zarr(tmp_path / "s.zarr")["status"].values.tolist() == [[0, 0], [0, 0], [1, 0]]


def test_resume_runs_only_what_is_missing(tmp_path):
    ran = []

    def counted(width, height, scale):
        ran.append((width, height))
        return area(width, height, scale)

    first = Results(tmp_path / "s.zarr", PLAN, f"{counted.__module__}.{counted.__qualname__}")
    first.write({k: area(**PLAN.cell(k)) for k in (0, 3, 5)})
    found = sweep(counted, PLAN, tmp_path / "s.zarr")
    assert len(ran) == 3
    np.testing.assert_array_equal(found["area"], sweep(area, PLAN, tmp_path / "t.zarr")["area"])


def test_another_configuration_is_refused(tmp_path):
    sweep(area, PLAN, tmp_path / "s.zarr")
    other = grid({"width": [1.0, 2.0, 4.0], "height": [1, 2]}, scale=10.0)
    with pytest.raises(sw.InputError, match="another configuration"):
        sweep(area, other, tmp_path / "s.zarr")
    (tmp_path / "folder").mkdir()
    with pytest.raises(sw.InputError, match="no store of a sweep"):
        sweep(area, PLAN, tmp_path / "folder")
    with pytest.raises(sw.InputError, match="does not exist"):
        sweep(area, PLAN, tmp_path / "none" / "s.zarr")


def test_failed_cells_keep_their_error_and_can_be_retried(tmp_path):
    mood = {"bad": True}

    def moody(width, height, scale):
        if mood["bad"] and width == 2.0:
            raise ValueError("not today")
        return {"area": math.nan if width == 3.0 else width * height}

    found = sweep(moody, PLAN, tmp_path / "s.zarr")
    assert found["status"].values.tolist() == [[1, 1], [2, 2], [1, 1]]
    assert np.isnan(found["area"].sel(width=3.0)).all()
    results = Results(tmp_path / "s.zarr", PLAN, f"{moody.__module__}.{moody.__qualname__}")
    assert results.errors == dict.fromkeys((2, 3), "ValueError: not today")
    mood["bad"] = False
    assert (sweep(moody, PLAN, tmp_path / "s.zarr")["status"] == 2).sum() == 2
    again = sweep(moody, PLAN, tmp_path / "s.zarr", retry=True)
    assert (again["status"] == 1).all()
    assert set(again["error"].values.ravel()) == {""}


def test_words_and_drawn_configurations_as_labels(tmp_path):
    def measure(kind, size):
        return {"answer": size + (kind == "b")}

    found = sweep(measure, grid({"kind": ["a", "b"], "size": [1, 2]}), tmp_path / "s.zarr")
    assert float(found["answer"].sel(kind="b", size=2)) == 3.0
    plan = latin_hypercube({"width": (1.0, 2.0), "height": (1.0, 2.0)}, 5)
    drawn = sweep(area, plan, tmp_path / "t.zarr")
    np.testing.assert_allclose(drawn["area"], drawn["width"] * drawn["height"])


def test_many_cells_are_confirmed(tmp_path):
    plan = grid({"width": range(1, 1002), "height": range(1, 1002)})
    with pytest.raises(sw.InputError, match=r"1,002,001 cells"):
        sweep(area, plan, tmp_path / "s.zarr")


# --- engines, disturbed ----------------------------------------------------------------------------------

FAULTS = grid({"width": [float(k) for k in range(1, 25)], "height": [1, 2]}, scale=0.1)
SLOW = """
import os, sys, time
from pathlib import Path
from saddlewalk.sweep import grid, sweep

def slow(width, height, scale, pids):
    Path(pids, str(os.getpid())).touch()
    time.sleep(0.05)
    return {"root": (scale * width * height) ** 0.5}

if __name__ == "__main__":
    plan = grid({"width": [float(k) for k in range(1, 25)], "height": [1, 2]}, scale=0.1, pids=sys.argv[2])
    sweep(slow, plan, sys.argv[1], workers=int(sys.argv[3]) if len(sys.argv) > 3 else None)
"""


@pytest.fixture(scope="module")
def slow_script(tmp_path_factory):
    """A sweep in a process of its own, and what it finds when nobody disturbs it."""
    folder = tmp_path_factory.mktemp("slow")
    script = folder / "slow.py"
    script.write_text(SLOW)
    (folder / "pids").mkdir()
    subprocess.run(
        [sys.executable, script, folder / "quiet.zarr", folder / "pids"],
        check=True,
        env=ENVIRONMENT,
    )
    return script, open_results(folder / "quiet.zarr").load()


ENVIRONMENT = os.environ | {"JAX_PLATFORMS": "cpu"}


def start(script, folder, *arguments):
    (folder / "pids").mkdir(exist_ok=True)
    command = [sys.executable, script, folder / "s.zarr", folder / "pids", *arguments]
    return subprocess.Popen(
        [str(part) for part in command], env=ENVIRONMENT, stderr=subprocess.DEVNULL
    )


def done_in(store):
    try:
        return int((open_results(store)["status"] == 1).sum())
    except Exception:
        return 0


def wait_until(true, seconds=60):
    for _ in range(20 * seconds):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def assert_same(folder, quiet):
    found = open_results(folder / "s.zarr").load()
    np.testing.assert_array_equal(found["root"], quiet["root"])
    np.testing.assert_array_equal(found["status"], quiet["status"])


def test_workers_that_are_killed(slow_script, tmp_path):
    script, quiet = slow_script
    running = start(script, tmp_path, "2")
    wait_until(lambda: done_in(tmp_path / "s.zarr") >= 4)
    for pid in [int(file.name) for file in (tmp_path / "pids").iterdir()]:
        os.kill(pid, signal.SIGKILL)
    assert running.wait(timeout=120) == 0
    assert len(list((tmp_path / "pids").iterdir())) > 2  # others took their place
    assert_same(tmp_path, quiet)


@pytest.mark.parametrize("workers", [(), ("2",)])
def test_a_client_that_is_killed(slow_script, tmp_path, workers):
    script, quiet = slow_script
    running = start(script, tmp_path, *workers)
    wait_until(lambda: done_in(tmp_path / "s.zarr") >= 4)
    running.kill()
    running.wait()
    before = done_in(tmp_path / "s.zarr")
    assert 4 <= before < len(FAULTS)
    assert start(script, tmp_path, *workers).wait(timeout=120) == 0
    assert_same(tmp_path, quiet)


def test_no_scheduler_and_two_engines(tmp_path):
    with pytest.raises(sw.InputError, match="no Dask scheduler"):
        sweep(area, PLAN, tmp_path / "s.zarr", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(sw.InputError, match="not both"):
        sweep(area, PLAN, tmp_path / "s.zarr", workers=2, scheduler="tcp://127.0.0.1:9")


# --- measures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MEASURES)
def test_measures_are_what_the_verbs_say(name, tmp_path):
    """A sweep of one verb over scales and seeds, against calls by hand."""
    plan = grid({"scale": [1e-2, 1e-3], "seed": [0]}, setting="diagonal", dim=3, sparsity=2)
    check_parameters(name, "diagonal", plan.parameters)
    found = sweep(MEASURES[name], plan, tmp_path / "s.zarr").load()
    assert (found["status"] == 1).all(), found["error"].values
    task = sw.tasks.sparse_regression(samples=60, dim=3, sparsity=2, seed=0)
    path = sw.train(task, sw.units.Diagonal(), 1e-3, 0, progress=False)
    stairs = sw.predict(task, sw.units.Diagonal(), 1e-3, 0)
    cell = found.sel(scale=1e-3, seed=0)
    if name == "predict":
        assert float(cell["time_last"]) == stairs.jump_times[-1]
        assert int(cell["stages"]) == len(stairs.stages)
    elif name == "compare":
        agreement = sw.compare(stairs, path)
        assert float(cell["time_error"]) == max(agreement.time_error)
        assert float(cell["order"]) == 1.0
    else:
        assert float(cell["loss"]) == path.loss[-1]
    if name == "diagnose":
        phases = sw.diagnose.find_phases(path, sw.Problem(task, sw.units.Diagonal()))
        assert int(cell["plateaus"]) == len(phases)


def test_parameters_are_known_before_anything_runs():
    with pytest.raises(sw.InputError, match="'dim'"):
        check_parameters("train", "diagonal", ["dimm"])
    with pytest.raises(sw.InputError, match="no parameter 'learning_rate'"):
        check_parameters("predict", "diagonal", ["learning_rate"])
    with pytest.raises(sw.InputError, match="compare"):
        find_measure("compair")


# --- files --------------------------------------------------------------------------------------------------

GOOD = """
measure = "predict"
setting = "diagonal"

[fixed]
dim = 3
sparsity = 2

[axes]
scale = { from = 1e-2, to = 1e-6, count = 3, spacing = "log" }
seed = { from = 0, to = 1, count = 2 }
"""


def test_a_sweep_from_a_file(tmp_path):
    (tmp_path / "a.toml").write_text(GOOD)
    command = ["sweep", str(tmp_path / "a.toml"), "--out", str(tmp_path / "s.zarr"), "--json"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["dims"] == {"scale": 3, "seed": 2}
    assert (record["cells"], record["done"], record["failed"]) == (6, 6, 0)
    found = open_results(tmp_path / "s.zarr")
    np.testing.assert_allclose(found["scale"], [1e-2, 1e-4, 1e-6])
    assert found["seed"].values.tolist() == [0, 1]
    again = CliRunner().invoke(main, command[:-1])
    assert "6 of 6 cells done" in again.stdout


def test_yaml_and_drawn_configurations(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "measure: predict\nsetting: diagonal\nfixed: {dim: 3, sparsity: 2}\n"
        "sample: {method: latin-hypercube, count: 4, scale: [1.0e-6, 1.0e-2, log]}\n"
    )
    asked = load_sweep(tmp_path / "a.yaml")
    scales = sorted(cell["scale"] for cell in asked.plan)
    assert len(scales) == 4
    assert 1e-6 < scales[0] < scales[-1] < 1e-2


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"predict"', '"predikt"', r"line 2: .*predict"),
        ("dim = 3", "dimm = 3", r"line 6: .*no parameter 'dimm'.*dim"),
        ("[axes]", "[axis]", r"line 9: Unknown field 'axis'.*axes"),
        ('"diagonal"', '"diagonale"', r"Unknown setting .*diagonal"),
        ("dim = 3", "dim == 3", r"line 6"),
        ("count = 3, ", "", r"line 10: 'scale' must be a list"),
        ('"log"', '"loga"', r"line 10: A range has"),
        ("count = 2", "count = 0", r"line 11|no values"),
        ('setting = "diagonal"', "", r"'setting' is missing"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_line(tmp_path, old, new, words):
    assert old in GOOD
    (tmp_path / "a.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(sw.InputError, match=words):
        load_sweep(tmp_path / "a.toml")


def test_pictures(tmp_path):
    plan = grid({"width": [1.0, 10.0, 100.0], "height": [1, 2], "seed": [0, 1]})

    def noisy(width, height, seed):
        return {"area": width * height + seed}

    found = sweep(noisy, plan, tmp_path / "s.zarr")
    for name, options in {
        "map": {"threshold": 5.0},
        "lines": {"x": "width"},
        "other": {"x": "seed", "y": "height"},
    }.items():
        plot_sweep(found, "area", tmp_path / f"{name}.png", **options)
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
    for options, words in (({"x": "widht"}, "width"), ({"y": "depth"}, "no 'depth'")):
        with pytest.raises(sw.InputError, match=words):
            plot_sweep(found, "area", tmp_path / "none.png", **options)
    with pytest.raises(sw.InputError, match="area"):
        plot_sweep(found, "aera", tmp_path / "none.png")

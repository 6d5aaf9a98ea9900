"""Sweeps: plans, the store, and engines that are disturbed."""

import dataclasses
import functools
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from sklearn.model_selection import train_test_split

import saddlewalk as sw
from saddlewalk.cli import main
from saddlewalk.features import RFMRegressor
from saddlewalk.figures.rich import students
from saddlewalk.flow import train_many
from saddlewalk.sweep import Results, grid, latin_hypercube, sweep, uniform
from saddlewalk.sweep.files import STUDIES, load_sweep
from saddlewalk.sweep.lanes import fastest
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
    plan = latin_hypercube({"a": (0.0, 1.0), "b": (1e-6, 1.0, "log")}, 20, draw=1)
    cells = list(plan)
    assert sorted(int(20 * cell["a"]) for cell in cells) == list(range(20))
    places = [int(20 * (1 + math.log10(cell["b"]) / 6)) for cell in cells]
    assert sorted(places) == list(range(20))


def test_uniform_draws_lie_in_their_ranges():
    cells = list(uniform({"a": (2.0, 3.0)}, 200, draw=0, b="word"))
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

    counted.name = "counted"
    first = Results(tmp_path / "s.zarr", PLAN, "counted")
    first.write({k: area(**PLAN.cell(k)) for k in (0, 3, 5)})
    first.close()
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
    assert found["error"].values.ravel()[2:4].tolist() == ["ValueError: not today"] * 2
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


def test_numbers_that_do_not_fit(tmp_path):
    def moody(width):
        return {"area": 1.0} if width < 3 else {"ratio": 1.0}

    found = sweep(moody, grid({"width": [1, 2, 3]}), tmp_path / "s.zarr")
    assert found["status"].values.tolist() == [1, 1, 2]
    assert found["error"].values[2] == "This cell gave ['ratio'], others gave ['area']."

    def echo(width):
        return {"width": width}

    found = sweep(echo, grid({"width": [1, 2]}), tmp_path / "t.zarr")
    assert "cannot be called 'width'" in found["error"].values[0]


def test_other_code_or_data_is_another_sweep(tmp_path):
    """A store keeps numbers of one function, one file of data and one version apart from all others."""
    plan = grid({"width": [1, 2]})
    sweep(lambda width: {"area": width + 1}, plan, tmp_path / "s.zarr")
    with pytest.raises(sw.InputError, match="another configuration"):
        sweep(lambda width: {"area": width + 2}, plan, tmp_path / "s.zarr")
    (tmp_path / "a.csv").write_text("1")
    reads = grid({"width": [1]}, data=str(tmp_path / "a.csv"))

    def with_data(width, data):
        return {"area": 1.0}

    sweep(with_data, reads, tmp_path / "t.zarr")
    (tmp_path / "a.csv").write_text("2")
    with pytest.raises(sw.InputError, match="another configuration"):
        sweep(with_data, reads, tmp_path / "t.zarr")
    Results(tmp_path / "u.zarr", plan, "area").close()
    attributes = json.loads((tmp_path / "u.zarr" / ".zattrs").read_text())
    attributes["versions"]["jax"] = "0.0.1"
    (tmp_path / "u.zarr" / ".zattrs").write_text(json.dumps(attributes))
    with pytest.raises(sw.InputError, match=r"begun with jax 0\.0\.1"):
        Results(tmp_path / "u.zarr", plan, "area")


def test_one_process_writes(tmp_path):
    plan = grid({"width": [1, 2]})
    first = Results(tmp_path / "s.zarr", plan, "area")
    with pytest.raises(sw.InputError, match="Another process is writing"):
        Results(tmp_path / "s.zarr", plan, "area")
    first.close()
    Results(tmp_path / "s.zarr", plan, "area").close()


def test_killed_while_arrays_are_made(tmp_path, monkeypatch):
    """Between the first number's array and the list of names: the next run makes it anew."""
    plan = grid({"width": [1, 2]})
    results = Results(tmp_path / "s.zarr", plan, "area")
    results._array("area", np.dtype("float64"), plan.dims)
    results.close()
    again = Results(tmp_path / "s.zarr", plan, "area")
    again.write({0: {"area": 3.0}})
    again.close()
    assert open_results(tmp_path / "s.zarr")["area"].values[0] == 3.0


def test_numbers_that_are_not_called_done_are_not_shown(tmp_path):
    results = Results(tmp_path / "s.zarr", PLAN, "area")
    results.write({0: {"area": 5.0}})
    results._held["area"][1] = 7.0
    results._flush("area", {(0, 0)})  # and killed before the status
    results.close()
    assert np.isnan(open_results(tmp_path / "s.zarr")["area"].values.ravel()[1:]).all()


def test_names_that_cannot_be(tmp_path):
    with pytest.raises(sw.InputError, match="cannot be called 'error'"):
        grid({"error": [1, 2]})
    with pytest.raises(sw.InputError, match="told apart"):
        grid({"a": [1]}, table=np.zeros(3))
    with pytest.raises(sw.InputError, match="needs 'height'"):
        sweep(area, grid({"width": [1]}), tmp_path / "s.zarr")
    with pytest.raises(sw.InputError, match="has no parameter 'widht'"):
        sweep(area, grid({"widht": [1]}), tmp_path / "s.zarr")
    wrong = grid({"dimm": [3]}, setting="diagonal")
    with pytest.raises(sw.InputError, match="Did you mean 'dim'"):
        sweep("predict", wrong, tmp_path / "s.zarr")

    def odd(kind):
        return {"a": None, "b": 3.0, "c": {"x": "word"}, "d": {"x/y": 1.0}}[kind]

    found = sweep(odd, grid({"kind": ["a", "b", "c", "d"]}), tmp_path / "s.zarr")
    words = found["error"].values.tolist()
    assert [word.split(":")[-1].strip() for word in words] == [
        "A measure must return numbers by name; got NoneType.",
        "A measure must return numbers by name; got float.",
        "'x' must be one number; it is str.",
        "A measured number cannot be called 'x/y'.",
    ]


def test_a_partial_function(tmp_path):
    made = functools.partial(area, scale=2.0)
    found = sweep(made, grid({"width": [3.0], "height": [4]}), tmp_path / "s.zarr")
    assert float(found["area"][0, 0]) == 24.0
    assert (found["status"] == 1).all()


def test_drawn_configurations_with_seeds_as_an_axis(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "measure: predict\nsetting: diagonal\nfixed: {dim: 3, samples: 20, seed: 0}\n"
        "axes: {data_seed: [0, 1]}\n"
        "sample: {count: 4, scale: [1e-6, 1e-2, log], sparsity: [1, 3]}\n"
    )
    plan = load_sweep(tmp_path / "a.yaml").plan
    assert plan.dims == {"sample": 4, "data_seed": 2}
    cells = list(plan)
    assert {cell["sparsity"] for cell in cells} <= {1, 2, 3}
    assert all(isinstance(cell["sparsity"], int) for cell in cells)
    assert len({cell["scale"] for cell in cells}) == 4
    found = sweep("predict", plan, tmp_path / "s.zarr")
    plot_sweep(found, "time_first", tmp_path / "drawn.png", x="scale")
    plot_sweep(found, "time_first", tmp_path / "over.png", x="scale", y="sparsity")
    assert (tmp_path / "over.png").stat().st_size > 5000


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
    with Path(pids).with_name("calls").open("a") as calls:
        calls.write("call ")
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


def test_what_is_finished_is_written_while_the_next_cell_runs(tmp_path):
    """Two quick cells and one that takes long: the second does not wait for the third."""
    seen = []

    def slow_end(width):
        if width == 3:
            wait_until(lambda: done_in(tmp_path / "s.zarr") == 2, 20)
            seen.append(True)
        return {"root": width}

    sweep(slow_end, grid({"width": [1, 2, 3]}), tmp_path / "s.zarr")
    assert seen == [True]


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


@pytest.mark.slow
def test_workers_that_are_killed(slow_script, tmp_path):
    script, quiet = slow_script
    running = start(script, tmp_path, "2")
    wait_until(lambda: done_in(tmp_path / "s.zarr") >= 4)
    for pid in [int(file.name) for file in (tmp_path / "pids").iterdir()]:
        os.kill(pid, signal.SIGKILL)
    assert running.wait(timeout=120) == 0
    assert len(list((tmp_path / "pids").iterdir())) > 2  # others took their place
    assert_same(tmp_path, quiet)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("2",)])
def test_a_client_that_is_killed(slow_script, tmp_path, workers):
    script, quiet = slow_script
    running = start(script, tmp_path, *workers)
    wait_until(lambda: done_in(tmp_path / "s.zarr") >= 4)
    running.kill()
    running.wait()
    before = done_in(tmp_path / "s.zarr")
    assert 4 <= before < len(FAULTS)
    (tmp_path / "calls").unlink()
    assert start(script, tmp_path, *workers).wait(timeout=120) == 0
    assert_same(tmp_path, quiet)
    # nothing that was done is done again
    assert len((tmp_path / "calls").read_text().split()) == len(FAULTS) - before


@pytest.mark.slow
def test_a_scheduler_that_runs_already(tmp_path):
    """Cells that raise and that give NaN, on workers that someone else started."""
    from distributed import LocalCluster

    plan = grid({"width": [0.0, 1.0, 2.0, 3.0], "height": [1, 2]})
    quiet = sweep(touchy, plan, tmp_path / "quiet.zarr").load()
    with LocalCluster(2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        found = sweep(touchy, plan, tmp_path / "s.zarr", scheduler=cluster.scheduler_address).load()
    xr.testing.assert_identical(found.drop_attrs(), quiet.drop_attrs())
    assert found["status"].values.tolist() == [[1, 1], [2, 2], [1, 1], [1, 1]]
    assert np.isnan(found["root"].values[0]).all()
    assert found["error"].values[1, 0] == "ValueError: I do not like 1.0"


def touchy(width, height):
    if width == 1.0:
        raise ValueError(f"I do not like {width}")
    return {"root": math.nan if width == 0 else math.sqrt(width * height)}


def environment_of(worker_number):
    return {"gpu": float(os.environ.get("CUDA_VISIBLE_DEVICES", "-1"))}


def test_workers_get_a_gpu_each(monkeypatch, tmp_path):
    """As if the machine had two: this test needs none."""
    monkeypatch.setattr("saddlewalk.sweep.engines.visible_gpus", lambda: ["0", "1"])
    plan = grid({"worker_number": list(range(16))})
    found = sweep(environment_of, plan, tmp_path / "s.zarr", workers=2)
    assert set(found["gpu"].values.tolist()) == {0.0, 1.0}


FULL_DISK = """
import sys
from saddlewalk.sweep import grid, sweep

def noisy(number):
    # numbers that do not compress, so that the store grows
    return {f"digit {k}": (number + 1) ** 0.5 * k**0.5 % 1 for k in range(1, 9)}

if __name__ == "__main__":
    sweep(noisy, grid({"number": list(range(4000))}), sys.argv[1])
"""


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 200 kB, and how to enlarge it; where nothing can be mounted, files of at most 30 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    crowded = {} if mounted else {"preexec_fn": allow_small_files}

    def enlarge():
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)

    yield disk, crowded, enlarge
    if mounted:
        subprocess.run(["umount", str(disk)], check=True)


def allow_small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))


@pytest.mark.slow
def test_a_full_disk(small_disk, tmp_path):
    """What is done before a disk is full stays, and the run goes on when there is room."""
    disk, crowded, enlarge = small_disk
    script = tmp_path / "full.py"
    script.write_text(FULL_DISK)

    def run(store, **limits):
        command = [sys.executable, str(script), str(store)]
        return subprocess.run(command, capture_output=True, text=True, check=False, **limits)

    failed = run(disk / "s.zarr", **crowded)
    assert failed.returncode != 0
    assert "What was done before is kept" in failed.stderr
    before = open_results(disk / "s.zarr").load()
    done = (before["status"] == 1).values
    assert 0 < done.sum() < 4000
    enlarge()
    assert run(disk / "s.zarr").returncode == 0
    assert run(tmp_path / "quiet.zarr").returncode == 0
    found, quiet = (open_results(p).load() for p in (disk / "s.zarr", tmp_path / "quiet.zarr"))
    xr.testing.assert_identical(found.drop_attrs(), quiet.drop_attrs())
    np.testing.assert_array_equal(before["digit 3"].values[done], quiet["digit 3"].values[done])


def test_ctrl_c_is_no_result(ctrl_c, tmp_path):
    """A measure that answers Ctrl-C with half of its work, as `train` does, is not called done."""

    def half(width):
        try:
            if width == 2.0:
                ctrl_c()
                time.sleep(10)
        except KeyboardInterrupt:
            return {"root": -1.0}
        return {"root": width}

    plan = grid({"width": [1.0, 2.0, 3.0]})
    with pytest.raises(KeyboardInterrupt):
        sweep(half, plan, tmp_path / "s.zarr")
    assert open_results(tmp_path / "s.zarr")["status"].values.tolist() == [1, 0, 0]


@pytest.mark.slow
def test_no_scheduler_and_two_engines(tmp_path):
    with pytest.raises(sw.InputError, match="no Dask scheduler"):
        sweep(area, PLAN, tmp_path / "s.zarr", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(sw.InputError, match="not both"):
        sweep(area, PLAN, tmp_path / "s.zarr", workers=2, scheduler="tcp://127.0.0.1:9")


# --- cells that run together --------------------------------------------------------------------------------


class Squares:
    """Computes together or alone, and remembers how."""

    name = "squares"

    def __init__(self, cost_alone=0.0, cost_together=0.0, fits=10**9):
        self.cost_alone, self.cost_together, self.fits = cost_alone, cost_together, fits
        self.calls = []

    def __call__(self, **cell):
        self.calls.append(1)
        time.sleep(self.cost_alone)
        if cell["x"] == -1:
            raise ValueError("minus one")
        return {"square": cell["x"] ** 2}

    def program(self, cell):
        return str(cell["shape"])

    def together(self, cells):
        if len(cells) > self.fits:
            raise RuntimeError("RESOURCE_EXHAUSTED: too many")
        self.calls.append(len(cells))
        time.sleep(self.cost_together)
        if any(cell["x"] == -1 for cell in cells):
            raise ValueError("minus one is among them")
        return [{"square": cell["x"] ** 2} for cell in cells]

    def size(self, cell):
        return 8


def test_lanes_are_filled_program_by_program(tmp_path):
    measure = Squares()
    plan = grid({"x": list(range(5)), "shape": [1, 2]})
    found = sweep(measure, plan, tmp_path / "s.zarr", lanes=4)
    np.testing.assert_array_equal(found["square"], np.outer(np.arange(5) ** 2, [1, 1]))
    assert measure.calls == [4, 4, 4, 4]  # two programs, two batches each, the second filled up
    assert found.attrs["lanes"] == {"1": 4, "2": 4}


def test_a_batch_with_a_bad_cell_falls_apart(tmp_path):
    measure = Squares()
    found = sweep(measure, grid({"x": [-1, 0, 1, 2]}, shape=1), tmp_path / "s.zarr", lanes=2)
    assert found["status"].values.tolist() == [2, 1, 1, 1]
    assert found["error"].values[0] == "ValueError: minus one"
    assert measure.calls == [2, 1, 1, 2]


def test_a_batch_is_resumed_in_the_same_company(tmp_path):
    plan = grid({"x": list(range(6))}, shape=1)
    begun = Results(tmp_path / "s.zarr", plan, "squares")
    begun.keep_lanes({"1": 3})
    begun.write({4: {"square": 77.0}})
    begun.close()
    measure = Squares()
    found = sweep(measure, plan, tmp_path / "s.zarr")
    assert measure.calls == [3, 3]
    assert found["square"].values.tolist() == [0, 1, 4, 9, 77, 25]  # what was done is not touched
    other = Results(tmp_path / "t.zarr", plan, "squares")
    other.keep_lanes({"1": 3})
    other.close()
    with pytest.raises(sw.InputError, match="begun with 3 lanes"):
        sweep(measure, plan, tmp_path / "t.zarr", lanes=2)


@pytest.mark.parametrize(
    ("costs", "lanes"),
    [
        ({"cost_alone": 0.02, "cost_together": 0.02}, 32),
        ({"cost_alone": 0.002, "cost_together": 0.5}, 1),
        ({"cost_alone": 0.02, "cost_together": 0.02, "fits": 10}, 8),
    ],
)
def test_the_faster_way_is_found_by_trying(costs, lanes):
    """And what was found on the way is not thrown away."""
    cells = [{"x": k, "shape": 1} for k in range(100)]
    trial = fastest(Squares(**costs), cells)
    assert trial.lanes == lanes
    assert len(trial.found) == (lanes if lanes > 1 else 4)
    assert all(numbers["square"] == k**2 for k, numbers in trial.found.items())


def test_a_bad_cell_does_not_spoil_the_trial(tmp_path):
    measure = Squares()
    found = sweep(measure, grid({"x": [-1, 0, 1, 2]}, shape=1), tmp_path / "s.zarr")
    assert found["status"].values.tolist() == [2, 1, 1, 1]
    plan = grid({"scale": [-1.0, 1e-2]}, setting="diagonal", dim=2, sparsity=1)
    found = sweep("train", plan, tmp_path / "t.zarr")
    assert found["status"].values.tolist() == [2, 1]
    assert "scale" in found["error"].values[0]


def test_few_cells_are_not_worth_a_second_program():
    class Compiles(Squares):
        def __call__(self, **cell):
            time.sleep(0.3 if not self.calls else 0.0)
            return super().__call__(**cell)

    measure = Compiles(cost_alone=0.001)
    assert fastest(measure, [{"x": k, "shape": 1} for k in range(20)]).lanes == 1
    assert max(measure.calls) == 1


@pytest.mark.parametrize("solver", ["explicit", "descent"])
def test_networks_that_are_trained_together_are_those_trained_alone(solver, tmp_path):
    """Five designs and scales in lanes of four, against one at a time, here and on a cluster."""
    steps = {"learning_rate": 0.02, "max_steps": 300} if solver == "descent" else {}
    plan = grid(
        {"data_seed": [0, 1, 2, 3, 4]},
        setting="diagonal", dim=3, sparsity=2, scale=0.05, solver=solver, **steps,
    )  # fmt: skip
    found = {
        name: sweep(MEASURES["train"], plan, tmp_path / f"{name}.zarr", **options).load()
        for name, options in {
            "alone": {"lanes": 1},
            "together": {"lanes": 4},
            "workers": {"lanes": 4, "workers": 2},
        }.items()
    }
    for one in found.values():
        assert (one["status"] == 1).all(), one["error"].values
    for name in ("loss", "time", "time_half"):
        np.testing.assert_allclose(found["together"][name], found["alone"][name], rtol=1e-9)
        np.testing.assert_array_equal(found["workers"][name], found["together"][name])
    paths = [
        sw.train(
            sw.tasks.sparse_regression(samples=60, dim=3, sparsity=2, seed=k),
            sw.units.Diagonal(), 0.05, 0, solver=solver, progress=False, **steps,
        )
        for k in range(2)
    ]  # fmt: skip
    assert found["alone"]["loss"].values[:2].tolist() == [float(path.loss[-1]) for path in paths]


def test_networks_of_different_shapes_do_not_run_batch():
    networks = [
        (sw.tasks.sparse_regression(samples=20, dim=d, sparsity=1, seed=0), sw.units.Diagonal(), 0.1, 0)
        for d in (2, 3)
    ]  # fmt: skip
    with pytest.raises((sw.InputError, ValueError)):
        train_many(networks, progress=False)


def test_estimators_in_a_sweep(tmp_path):
    """The score of a machine by hand, for two sizes of the ridge."""
    plan = grid({"ridge": [1e-3, 1.0]}, setting="relu", samples=120, outputs=1, iterations=2)
    found = sweep(MEASURES["fit"], plan, tmp_path / "s.zarr")
    assert (found["status"] == 1).all(), found["error"].values
    task = sw.tasks.hidden_directions(samples=120, dim=8, outputs=1, features=3, noise=0.0, seed=0)
    split = train_test_split(np.asarray(task.x), np.asarray(task.y), test_size=0.25, random_state=0)
    seen_x, new_x, seen_y, new_y = split
    model = RFMRegressor(ridge=1.0, iterations=2, random_state=0).fit(seen_x, seen_y)
    assert float(found["test_score"][1]) == pytest.approx(model.score(new_x, new_y))
    with pytest.raises(sw.InputError, match="'ridge'"):
        check_parameters("fit", "relu", ["rigde"])


@pytest.mark.parametrize("name", ["fit", "predict"])
def test_engines_agree_to_the_last_digit(name, tmp_path):
    fixed = {
        "fit": {"setting": "relu", "samples": 150, "outputs": 1, "iterations": 1},
        "predict": {"setting": "diagonal", "dim": 3, "sparsity": 2},
    }[name]
    plan = grid({"data_seed": [0, 1]}, **fixed)
    here = sweep(name, plan, tmp_path / "here.zarr").load()
    there = sweep(name, plan, tmp_path / "there.zarr", workers=1).load()
    assert (here["status"] == 1).all(), here["error"].values
    xr.testing.assert_identical(here.drop_attrs(), there.drop_attrs())


def test_a_student_is_a_cell_of_the_portrait():
    """Fig 1b as a sweep: lanes of different seeds against the program of the figure."""
    small = dataclasses.replace(
        students.Grid(), taus=(0.1, 0.5), deltas=(0.0, 1.0), seeds=(1, 2), steps=(20,),
        dim=10, samples=50, tested=40,
    )  # fmt: skip
    figure = students.portrait(small)
    plan = grid(
        {"tau": small.taus, "delta": small.deltas, "seed": small.seeds},
        steps=20, dim=10, samples=50, tested=40,
    )  # fmt: skip
    found = students.student.together(list(plan))
    for name in students.MEASURES:
        cells = np.array([one[name] for one in found]).reshape(2, 2, 2)
        np.testing.assert_allclose(
            cells, np.moveaxis(figure[name][0], 0, -1), rtol=1e-9, atol=1e-12
        )


def test_studies_that_come_with_the_package(tmp_path):
    asked = load_sweep("rich-1b")
    paper = students.Grid()
    for name, values in {"delta": paper.deltas, "seed": paper.seeds, "tau": paper.taus}.items():
        np.testing.assert_allclose(asked.plan.coordinates()[name][1], values, rtol=1e-14)
    widths = load_sweep("saddle-2-linear")
    assert widths.plan.coordinates()["width"][1].tolist() == [10, 100, 1000]
    cell = widths.measure(**{**widths.plan.cell(0), "width": 5})
    assert cell["jumps"] == 3
    assert cell["first_jump"] < cell["last_jump"]
    assert len(load_sweep("agf-3").plan) == 24
    with pytest.raises(sw.InputError, match="Studies: agf-3, depth-scale, loss-scale"):
        load_sweep("agf3")
    said = CliRunner().invoke(main, ["sweep", "--help"]).output
    assert all(file.stem in "".join(said.split()) for file in STUDIES.glob("*.toml"))


# --- measures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in MEASURES if name != "fit"])
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
    elif name == "curves":  # thinned, in single precision
        kept = np.isfinite(cell["curve_time"].values)
        found_loss = cell["curve_loss"].values[kept].astype(np.float32)
        assert found_loss[-1] == np.float32(path.loss[-1])
        assert set(found_loss) <= set(path.loss.astype(np.float32))
    else:
        assert float(cell["loss"]) == path.loss[-1]
    if name == "diagnose":
        phases = sw.diagnose.find_phases(path, sw.Problem(task, sw.units.Diagonal()))
        assert int(cell["plateaus"]) == len(phases)


def test_parameters_are_known_before_anything_runs():
    with pytest.raises(sw.InputError, match="'dim'"):
        check_parameters("train", "diagonal", ["dimm"])
    with pytest.raises(sw.InputError, match="no parameter 'batch_size'"):
        check_parameters("predict", "diagonal", ["batch_size"])
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
        ('setting = "diagonal"', "", r"needs a setting"),
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

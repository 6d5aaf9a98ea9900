"""Sweeps: plans, the store, measures, files and pictures."""

import functools
import json
import math

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


def test_no_scheduler_and_two_engines(tmp_path):
    with pytest.raises(sw.InputError, match="no Dask scheduler"):
        sweep(area, PLAN, tmp_path / "s.zarr", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(sw.InputError, match="not both"):
        sweep(area, PLAN, tmp_path / "s.zarr", workers=2, scheduler="tcp://127.0.0.1:9")


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

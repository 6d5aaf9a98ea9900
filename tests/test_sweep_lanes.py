"""Cells of one shape that run together, and what is measured in them."""

import dataclasses
import time

import numpy as np
import pytest
import xarray as xr
from sklearn.model_selection import train_test_split

import saddlewalk as sw
from saddlewalk.features import RFMRegressor
from saddlewalk.figures import rich_portrait
from saddlewalk.flow import train_many
from saddlewalk.sweep import Results, grid, sweep
from saddlewalk.sweep.files import load_sweep
from saddlewalk.sweep.lanes import fastest
from saddlewalk.sweep.measures import MEASURES, check_parameters


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


def test_networks_of_different_shapes_do_not_run_together():
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
        rich_portrait.Grid(), taus=(0.1, 0.5), deltas=(0.0, 1.0), seeds=(1, 2), steps=(20,),
        dim=10, samples=50, tested=40,
    )  # fmt: skip
    figure = rich_portrait.portrait(small)
    plan = grid(
        {"tau": small.taus, "delta": small.deltas, "seed": small.seeds},
        steps=20, dim=10, samples=50, tested=40,
    )  # fmt: skip
    found = rich_portrait.student.together(list(plan))
    for name in rich_portrait.MEASURES:
        cells = np.array([one[name] for one in found]).reshape(2, 2, 2)
        np.testing.assert_allclose(
            cells, np.moveaxis(figure[name][0], 0, -1), rtol=1e-9, atol=1e-12
        )


def test_studies_that_come_with_the_package(tmp_path):
    asked = load_sweep("rich-1b")
    paper = rich_portrait.Grid()
    for name, values in {"delta": paper.deltas, "seed": paper.seeds, "tau": paper.taus}.items():
        np.testing.assert_allclose(asked.plan.coordinates()[name][1], values, rtol=1e-14)
    widths = load_sweep("saddle-2-linear")
    assert widths.plan.coordinates()["width"][1].tolist() == [10, 100, 1000]
    cell = widths.measure(**{**widths.plan.cell(0), "width": 5})
    assert cell["jumps"] == 3
    assert cell["first_jump"] < cell["last_jump"]
    assert len(load_sweep("agf-3").plan) == 24
    with pytest.raises(sw.InputError, match="Studies: agf-3, rich-1b"):
        load_sweep("agf3")

"""What goes into a page of the explorer, and what is said where it cannot be made; no browser is needed."""

import base64
import itertools
import json
import re
import shutil

import numpy as np
import pytest
import xarray as xr

import saddlewalk as sw
from saddlewalk.explore import (
    default_networks,
    network_of_run,
    network_of_setting,
    network_of_store,
    write_page,
)
from saddlewalk.explore.live import live_flow
from saddlewalk.explore.packed import moments_to_keep, packed
from saddlewalk.explore.page import page_of
from saddlewalk.explore.panels import panels_of
from saddlewalk.explore.runs import record_of
from saddlewalk.settings import Run
from saddlewalk.sweep import Series, grid, sweep


def unpacked(one):
    kind = np.float64 if "f64" in one else np.float32
    return np.frombuffer(base64.b64decode(one.get("f64") or one["f32"]), kind).reshape(one["shape"])


def inside(page):
    """The data that a page holds, read as a browser does."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


@pytest.fixture(scope="module")
def agreement(fig3, fig3_paths):
    return sw.compare(sw.predict(fig3, sw.units.Diagonal(), 1e-6), fig3_paths[1e-6])


def test_arrays_survive():
    values = np.array([[1.0, np.nan, np.inf], [1e-300, -2.5, 3.0]])
    np.testing.assert_array_equal(unpacked(packed(values)), values)
    assert unpacked(packed(values, exact=False)).dtype == np.float32


def test_thinning_keeps_ends_and_drops():
    time = np.linspace(0, 10, 5001)
    loss = 1 / (1 + np.exp(40 * (time - 5)))
    keep = moments_to_keep(time, loss, 100)
    assert len(keep) <= 100
    assert {0, 5000} <= set(keep)
    drawn = np.interp(time, time[keep], loss[keep])
    assert np.abs(drawn - loss).max() < 0.01


def test_a_run_is_shown_with_its_own_numbers(agreement):
    record, path = record_of(agreement), agreement.observed
    time, loss = unpacked(record["time"]), unpacked(record["loss"])
    keep = np.isin(path.time, time)
    np.testing.assert_array_equal(path.time[keep], time)
    np.testing.assert_array_equal(path.loss[keep], loss)
    assert [
        stage["time"] for stage in record["predicted"]["stages"]
    ] == agreement.predicted.jump_times
    titles = [panel["title"] for panel in record["panels"]]
    assert titles == ["Coefficients u·v", "Utility of dormant units", "Residual along each input"]


def test_utility_and_residual_by_hand(agreement, fig3):
    """U = beta_i E[r x_i] over |theta_i|^2, and E[r x_i], from the samples themselves."""
    record, path = record_of(agreement), agreement.observed
    moments = unpacked(record["moments"])
    utility, residual = (unpacked(panel["values"])[:, :, 0] for panel in record["panels"][1:3])
    for k, moment in enumerate(moments):
        row = int(np.flatnonzero(path.data["saved"].values == moment)[0])
        theta = path.parameters[row]
        beta = 0.5 * (theta[:, 0] ** 2 - theta[:, 1] ** 2)
        along = fig3.x.T @ (fig3.y[:, 0] - fig3.x @ beta) / len(fig3.x)
        np.testing.assert_allclose(residual[k], along, atol=1e-9 * np.abs(residual).max())
        known = np.isfinite(utility[k])
        expected = (beta * along / np.sum(theta**2, axis=1))[known]
        np.testing.assert_allclose(utility[k][known], expected, atol=1e-9 * np.abs(residual).max())
    assert np.isfinite(utility[0]).all()
    assert not np.isfinite(utility[-1]).all()


@pytest.mark.parametrize("setting", ["relu", "attention", "modular-addition"])
def test_units_of_other_settings(setting):
    small = {"modular-addition": {"p": 5, "spectrum": "1:3", "width": 3}, "relu": {"width": 2}}
    run = Run.of(setting, **small.get(setting, {}))
    from saddlewalk.explore.panels import panels_of

    with sw.float64():
        start = np.asarray(run.problem.initialize(run.scale, 0))
    panels = panels_of(run.problem, np.stack([start, 2 * start]))
    shapes = [tuple(panel["values"]["shape"]) for panel in panels]
    assert all(
        s == (2, len(p["rows"]), len(p["columns"])) for s, p in zip(shapes, panels, strict=True)
    )
    size = next(unpacked(p["values"]) for p in panels if p["title"] == "Size of the units")
    np.testing.assert_allclose(size[0, :, 0], np.linalg.norm(start, axis=1))
    if setting == "modular-addition":
        dials = next(unpacked(p["values"]) for p in panels if p["kind"] == "dials")
        k = int(dials[0, 0, 3])
        wave = np.exp(-2j * np.pi * k * np.arange(5) / 5)
        assert dials[0, 0, 0] == pytest.approx(np.angle(start[0, :5] @ wave))


def test_pages_hold_any_name(tmp_path):
    odd = "</script><script>alert(1)</script> <!-- \u2028 {{ data }} \" ' &"
    page = page_of([{"name": odd, "axes": [], "cells": [], "notes": [odd]}], odd)
    assert "<script>alert" not in page
    assert inside(page)["networks"][0]["name"] == odd
    assert "The MIT License" in page
    assert page.count("<script") == 2
    assert "http" not in re.sub(
        r"https://github.com/leeoniya/uPlot|http-equiv|https?://www.w3.org\S*", "", page
    )


def test_a_prediction_and_plateaus_have_pages(agreement, tmp_path):
    alone = network_of_run(agreement.predicted, "predicted")
    assert "compare" in alone["notes"][0]
    assert "time" not in alone["cells"][0]
    plateaus = sw.diagnose.find_phases(agreement.observed, progress=False)
    assert "time" in record_of(plateaus)
    assert write_page([alone], tmp_path / "one.html").stat().st_size < 2e5


def test_live_networks():
    found = network_of_setting(Run.of("linear", dim=4, outputs=3, seed=5, scale=1e-4))
    live = found["live"]
    assert (live["kind"], live["scale"], live["seeds"][0]) == ("linear", 1e-4, 5)
    start = live["starts"][live["widths"].index(3)][0]
    with sw.float64():
        theta = np.asarray(Run.of("linear", dim=4, outputs=3).problem.initialize(1e-4, 5))
    units = unpacked(start["back"]) @ unpacked(start["mixed"]) * 1e-4
    np.testing.assert_allclose(units, theta, rtol=1e-9)
    assert network_of_setting(Run.of("diagonal", dim=4))["live"]["data"]["kind"] == "regression"


@pytest.mark.parametrize(
    ("inputs", "outputs", "width", "live"),
    [(16, 16, None, True), (17, 17, None, False), (64, 2, None, True), (64, 64, 2, False)],
)
def test_large_maps_are_run_before(inputs, outputs, width, live):
    """Where one flow takes the page longer than half a second."""
    sizes = {"dim": inputs, "outputs": outputs, **({"width": width} if width else {})}
    assert (live_flow(Run.of("linear", **sizes)) is not None) == live


SEEN = {
    "everyone": np.eye(3),
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
}
"""Linear RGB as it is seen: Machado, Oliveira and Fernandes 2009, table 1, severity 1."""
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear_rgb(color):
    value = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(value > 0.04045, ((value + 0.055) / 1.055) ** 2.4, value / 12.92)


def lab(rgb):
    ratio = np.clip(XYZ @ rgb, 0, None) / XYZ.sum(axis=1)
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize(("palette", "ground"), [("LIGHT", "#ffffff"), ("DARK", "#1b1f26")])
def test_the_color_blind_tell_lines_apart(palette, ground):
    from saddlewalk.explore.page import _HOME

    text = (_HOME / "charts.js").read_text()
    colors = json.loads(re.search(rf"const {palette} = (\[.*\]);", text)[1])
    assert len(colors) >= 7
    for matrix in SEEN.values():
        places = [lab(np.clip(matrix @ linear_rgb(one), 0, 1)) for one in colors]
        for a, b in itertools.combinations(places, 2):
            assert np.linalg.norm(a - b) > 10
    back = linear_rgb(ground) @ XYZ[1] + 0.05
    for one in colors:
        light = linear_rgb(one) @ XYZ[1] + 0.05
        assert max(light / back, back / light) > 2


def test_own_data_are_live(tmp_path, fig3):
    file = tmp_path / "own.npz"
    np.savez(file, X=fig3.x, y=fig3.y)
    live = network_of_setting(Run.of("diagonal", data=str(file)))["live"]
    x = unpacked(live["data"]["draws"][0]["x"])
    np.testing.assert_allclose(x.T @ x, fig3.x.T @ fig3.x / len(fig3.x), rtol=1e-9)


def test_grid_of_a_setting():
    axes = {"scale": (1e-3, 1e-4), "seed": (0,)}
    found = network_of_setting(Run.of("diagonal", dim=5, sparsity=2), axes)
    assert [axis["name"] for axis in found["axes"]] == ["scale", "seed"]
    stairs = Run.of("diagonal", dim=5, sparsity=2, scale=1e-4).predict()
    assert found["cells"][1]["predicted"]["stages"][0]["time"] == stairs.jump_times[0]
    bad = network_of_setting(Run.of("diagonal", dim=5), {"sparsity": (2, 9)})
    assert "larger than" in bad["cells"][1]["error"]


def test_steps_of_an_optimizer_are_runs_and_not_the_pages_flow():
    one = {"scale": (1e-4,)}
    found = network_of_setting(Run.of("diagonal", dim=3, sparsity=2, optimizer="sign"))
    assert "live" not in found
    assert found["options"]["optimizer"] == "sign"
    descent = Run.of("diagonal", dim=3, sparsity=2, solver="descent")
    assert "live" not in network_of_setting(descent, one)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"scale": -1.0}, "got -1.0"), ({"optimizer": "sgd"}, "Unknown optimizer")],
)
def test_what_no_cell_can_run_is_refused(options, said):
    with pytest.raises(sw.InputError, match=said):
        network_of_setting(Run.of("relu", dim=3, **options))


def test_columns_are_inputs_and_classes_by_name():
    """Three inputs and three classes: outgoing weights have no names of inputs."""
    x = np.random.default_rng(0).normal(size=(30, 3))
    task = sw.tasks.from_arrays(x, np.eye(3)[x.argmax(axis=1)], names=["a", "b", "c"])
    problem = sw.Problem(task, sw.units.Dense(2), "cross-entropy")
    theta = np.random.default_rng(1).normal(size=(4, 2, 6))
    panels = {one["title"]: one for one in panels_of(problem, theta)}
    assert panels["Direction of w"]["columns"] == ["a", "b", "c"]
    assert panels["Direction of a"]["columns"] == ["class 0", "class 1", "class 2"]
    assert panels["Residual along each input"]["rows"][0] == "class 0"


def test_labels_that_are_words_name_the_outputs(tmp_path):
    """In the order of the alphabet, as the columns of the targets are; also from a file."""
    x = np.random.default_rng(0).normal(size=(30, 3))
    words = np.array(["oak", "ash", "elm"])[x.argmax(axis=1)]
    rows = [f"{','.join(map(str, row))},{word}" for row, word in zip(x, words, strict=True)]
    (tmp_path / "trees.csv").write_text("\n".join(["a,b,c,tree", *rows]))
    of_file = Run.of("relu", data=str(tmp_path / "trees.csv"), loss="cross-entropy", width=2)
    of_array = sw.Problem(sw.tasks.from_arrays(x, words), sw.units.Dense(2, "linear"))
    for problem in (of_file.problem, of_array):
        theta = np.random.default_rng(1).normal(size=(2, 2, 6))
        panels = {one["title"]: one for one in panels_of(problem, theta)}
        assert panels["Direction of a"]["columns"] == ["ash", "elm", "oak"]
        first = int(np.flatnonzero(np.asarray(of_file.task.y)[:, 0])[0])
        assert words[first] == "ash"


def test_store_with_curves(tmp_path):
    plan = grid({"scale": [1e-3, 1e-5], "dim": [3, 5]}, setting="diagonal", sparsity=2)
    found = sweep("curves", plan, tmp_path / "mine.zarr", progress=False)
    cell = found.sel(scale=1e-5, dim=5)
    run = Run.of("diagonal", scale=1e-5, dim=5, sparsity=2)
    path = run.train()
    time = cell["curve_time"].values
    time = time[np.isfinite(time)]
    # cells that are trained together differ from one alone in their last digits
    places = np.abs(path.time[:, None] - time).argmin(axis=0)
    np.testing.assert_allclose(path.time[places], time)
    np.testing.assert_allclose(path.loss[places], cell["curve_loss"].values[: len(time)])
    network = network_of_store(found, "mine.zarr")
    assert "no weights" in network["notes"][-1]
    agreement = sw.compare(run.predict(), path)
    assert network["cells"][3]["reached"] == pytest.approx(list(agreement.jump_times))
    shown = unpacked(network["cells"][3]["loss"])
    np.testing.assert_array_equal(shown, cell["curve_loss"].values[: len(shown)].astype(np.float32))
    assert sweep("curves", plan, tmp_path / "mine.zarr").equals(found)  # nothing is left to do


def test_store_of_numbers_alone(tmp_path):
    plan = grid({"scale": [1e-3, 1e-5]}, setting="diagonal", dim=3, sparsity=2)
    found = sweep("predict", plan, tmp_path / "numbers.zarr", progress=False)
    network = network_of_store(found, "numbers.zarr")
    assert "curves" in network["notes"][0]
    numbers = unpacked(network["measured"]["values"])
    for k, name in enumerate(network["measured"]["names"]):
        np.testing.assert_array_equal(numbers[:, k], found[name].values)


def test_many_cells_are_thinned_with_a_sentence(tmp_path):
    axes = {"scale": np.geomspace(1e-2, 1e-6, 100), "seed": np.arange(100)}
    sizes = {
        "curve_time": (128,),
        "curve_loss": (128,),
        "stage_time": (24,),
        "stage_loss": (24,),
        "grown_time": (48,),
        "grown": (48, 12),
    }
    falling = np.geomspace(1.0, 1e-3, 128)
    fill = {"curve_time": np.linspace(0, 9, 128), "curve_loss": falling}
    data = {
        name: (
            (*axes, *(f"{name}_{k}" for k in range(len(shape)))),
            np.broadcast_to(fill.get(name, 0.5), (100, 100, *shape)),
        )
        for name, shape in sizes.items()
    }
    data["status"] = (tuple(axes), np.ones((100, 100), dtype="int8"))
    data["error"] = (tuple(axes), np.full((100, 100), "", dtype=object))
    found = xr.Dataset(data, coords=axes, attrs={"measured": list(sizes), "fixed": {}})
    network = network_of_store(found, "large.zarr")
    file = write_page([network], tmp_path / "large.html")
    assert file.stat().st_size < 30e6
    assert any("10,000 cells" in words for words in network["notes"])


def test_series_of_other_shapes_are_refused(tmp_path):
    def measure(many):
        return {"total": float(many), "row": Series(np.arange(many, dtype=float))}

    plan = grid({"many": [3, 4]})
    found = sweep(measure, plan, tmp_path / "rows.zarr", progress=False)
    assert found["status"].values.tolist() == [1, 2]
    assert "shape (4,)" in str(found["error"].values[1])
    np.testing.assert_array_equal(found["row"].values[0], [0.0, 1.0, 2.0])


def test_command(run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    file = tmp_path / "deep page.html"
    assert run("explore", "diagonal", "--dim", 4, "--scale", 1e-3, "--out", file).exit_code == 0
    assert opened == [file.as_uri()]
    assert inside(file.read_text())["networks"][0]["live"]["scale"] == 1e-3
    assert run("explore", "diagonal", "--out", file, "--no-open").exit_code == 0
    assert len(opened) == 1


def test_folders_have_pages(run, tmp_path):
    out = tmp_path / "result"
    made = run("compare", "diagonal", "--dim", 5, "--sparsity", 2, "--out", out)
    assert "explore.html" in made.stderr
    (network,) = inside((out / "explore.html").read_text())["networks"]
    assert unpacked(network["cells"][0]["loss"])[0] == pytest.approx(
        json.loads((out / "result.json").read_text())["observed"]["loss"][0]
    )
    again = run("explore", out, "--out", tmp_path / "again.html", "--no-open")
    assert again.exit_code == 0
    assert inside((tmp_path / "again.html").read_text())["networks"][0]["name"] == "result"


def test_what_is_no_run_is_refused(run, tmp_path):
    page = ("--no-open", "--out", tmp_path / "page.html")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("words")
    (tmp_path / "broken.zarr").mkdir()
    (tmp_path / "broken.zarr" / ".zgroup").write_text("{}")
    said = {
        ("empty",): "neither the store",
        ("file.txt",): "is a file",
        ("broken.zarr",): "no store of a sweep",
        ("diagonl",): "Did you mean 'diagonal'",
    }
    for what, words in said.items():
        where = [tmp_path / one if (tmp_path / one).exists() else one for one in what]
        answer = run("explore", *where, *page)
        assert answer.exit_code == 2
        assert words in " ".join(answer.stderr.split())
    assert "one setting" in run("explore", "--scale", 1e-3, *page).stderr
    nowhere = run("explore", "diagonal", "--no-open", "--out", tmp_path / "no" / "page.html")
    assert "does not exist" in " ".join(nowhere.stderr.split())
    folder = run("explore", "diagonal", "--no-open", "--out", tmp_path / "empty")
    assert "folder" in folder.stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.slow
def test_default_page(tmp_path):
    told = []
    networks = default_networks(lambda words, part: told.append(part))
    file = write_page(networks, tmp_path / "explore.html")
    assert file.stat().st_size < 3e6
    assert len(networks) == 3
    assert told[-1] < 1
    assert not any("error" in cell for cell in networks[2]["cells"])


def test_vendored_library_keeps_its_license():
    from saddlewalk.explore.page import _HOME

    assert "Leon Sorokin" in (_HOME / "vendor" / "uPlot.LICENSE").read_text()
    assert (_HOME / "vendor" / "uPlot.iife.min.js").stat().st_size < 60_000
    node = shutil.which("node")
    if node:  # a syntax error is told where it is
        import subprocess

        for file in _HOME.glob("*.js"):
            subprocess.run([node, "--check", file], check=True)

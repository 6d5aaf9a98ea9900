"""One description of a run: the command line, Python and a sweep of one cell give identical numbers."""

import dataclasses
import json

import numpy as np
import pytest
from click.testing import CliRunner

import saddlewalk as sw
from saddlewalk.cli import main
from saddlewalk.settings import SETTINGS, Run, run_options
from saddlewalk.settings.options import (
    DATA,
    UNITS,
    MotionOptions,
    PredictionOptions,
    StartOptions,
    TrainingOptions,
    options_of,
)
from saddlewalk.sweep import grid, sweep

SMALL = {
    "diagonal": {"samples": 20, "dim": 2, "sparsity": 2, "scale": 1e-3},
    "linear": {"dim": 2, "outputs": 2, "scale": 1e-3},
    "attention": {"eigenvalues": "4,1", "context": 8, "width": 2, "scale": 1e-2},
    "modular-addition": {"p": 5, "spectrum": "1:4", "width": 2, "scale": 0.05},
    "relu": {"samples": 10, "dim": 2, "outputs": 1, "features": 1, "width": 3, "scale": 1e-3},
    "two-layer": {"samples": 10, "dim": 2, "outputs": 1, "features": 1, "width": 1, "scale": 1e-3},
}
"""Options of a small run of each setting."""


def by_hand(setting):
    """Task and units as a user of the library makes them, without settings."""
    tasks, units = sw.tasks, sw.units
    made = tasks.hidden_directions(samples=10, dim=2, outputs=1, features=1)
    return {
        "diagonal": (tasks.sparse_regression(samples=20, dim=2, sparsity=2), units.Diagonal()),
        "linear": (tasks.linear_map(dim=2, outputs=2), units.Dense(2, "linear")),
        "attention": (tasks.in_context_regression([4.0, 1.0], 8), units.LinearAttention(2)),
        "modular-addition": (tasks.modular_addition(5, {1: 4}), units.QuadraticPair(2)),
        "relu": (made, units.Dense(3, "relu")),
        "two-layer": (made, units.Dense(1, "tanh")),
    }[setting]


def flags(options):
    return [word for k, v in options.items() for word in (f"--{k.replace('_', '-')}", str(v))]


def command(verb, setting, **options):
    done = CliRunner().invoke(main, [verb, setting, *flags(options), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def one_cell(measure, setting, folder, **options):
    """A sweep of one cell: its last option is the axis."""
    *fixed, (name, value) = options.items()
    found = sweep(
        measure,
        grid({name: [value]}, setting=setting, **dict(fixed)),
        folder,
        lanes=1,
        progress=False,
    )
    assert not found["error"].values.ravel()[0]
    return {str(name): values.values.item() for name, values in found.data_vars.items()}


CLOSED = [
    (setting, method)
    for setting in SETTINGS
    for method in SETTINGS[setting].methods
    if method in ("closed", "limit", "greedy-low-rank")
]
WALKED = [
    pytest.param(setting, method, marks=() if setting == "two-layer" else pytest.mark.slow)
    for setting in SETTINGS
    for method in SETTINGS[setting].methods
    if (setting, method) not in CLOSED and method != "auto"
]


@pytest.mark.parametrize(("setting", "method"), [*CLOSED, *WALKED])
def test_every_setting_and_method_is_predicted_alike(setting, method, tmp_path):
    options = SMALL[setting]
    told = command("predict", setting, **options, method=method)
    python = sw.predict(*by_hand(setting), options["scale"], method=method)
    cell = one_cell("predict", setting, tmp_path / "cells", **options, method=method)
    times = [stage["time"] for stage in told["stages"]]
    assert (
        times == python.jump_times == Run.of(setting, **options, method=method).predict().jump_times
    )
    assert [stage["loss"] for stage in told["stages"]] == python.loss_levels[1:]
    assert cell["stages"] == len(times) > 0
    assert (cell["time_first"], cell["time_last"]) == (times[0], times[-1])
    assert cell["loss"] == python.loss_levels[-1]


@pytest.mark.parametrize(
    "setting",
    [pytest.param(s, marks=() if s == "diagonal" else pytest.mark.slow) for s in SETTINGS],
)
def test_every_setting_is_trained_and_compared_alike(setting, tmp_path):
    limits = {"max_time": 3.0, "tolerance": 1e-6, "convergence": 1e-3}
    options = {**SMALL[setting], **limits}
    told = command("train", setting, **options)
    path = sw.train(*by_hand(setting), options["scale"], **limits)
    cell = one_cell("train", setting, tmp_path / "trained", **options)
    assert told["final_loss"] == path.loss[-1] == cell["loss"]
    assert told["steps"] == path.info["steps"]
    both = command("compare", setting, **options)
    report = sw.compare(sw.predict(*by_hand(setting), options["scale"], max_time=3.0), path)
    compared = one_cell("compare", setting, tmp_path / "compared", **options)
    errors = [error for error in both["agreement"]["time_error"] if error is not None]
    assert errors == [error for error in report.time_error if np.isfinite(error)]
    assert compared["stages_predicted"] == len(report.predicted.stages)
    assert compared["time_error"] == max(errors) if errors else np.isnan(compared["time_error"])


def test_a_sweep_takes_every_option_of_a_run():
    """What the sweep once dropped or refused: the time limit and adaptive rates of predictions."""
    for setting in SETTINGS:
        assert {"max_time", "adaptive"} <= set(
            run_options(setting, "start", "motion", "prediction")
        )
    limited = Run.of("attention", **SMALL["attention"], method="numeric", max_time=1.0)
    assert limited.predict().stopped == "limit"


def test_no_two_parts_share_a_name_and_every_option_has_words():
    parts = [
        options_of(p) for p in (StartOptions, MotionOptions, PredictionOptions, TrainingOptions)
    ]
    names = [name for part in (*parts, DATA, UNITS) for name in part]
    assert len(names) == len(set(names))
    assert all(
        option.help.endswith(".") for part in (*parts, DATA, UNITS) for option in part.values()
    )
    for setting in SETTINGS.values():
        assert set(setting.data) <= set(DATA)
        assert set(setting.units) <= set(UNITS)


def test_every_option_of_train_and_predict_is_one_of_a_run():
    """A new option of the verbs must become a field of `Run`, or be named here with its reason."""
    import inspect

    python_only = {
        *(
            "task",
            "units",
            "scale",
            "seed",
            "start",
            "progress",
        ),  # parts of a run under other names
        *("rates", "penalty", "times", "observables", "most_saved", "eta"),  # objects, or views
    }
    names = set(run_options("diagonal"))
    for verb in (sw.predict, sw.train):
        assert set(inspect.signature(verb).parameters) - python_only <= names


def test_methods_come_from_the_theories():
    assert SETTINGS["linear"].methods == (
        *("auto", "numeric", "algorithm-1", "instant-alignment"),
        *("closed", "limit", "greedy-low-rank"),
    )
    assert SETTINGS["relu"].methods == ("auto", "numeric", "algorithm-1", "instant-alignment")


def test_a_run_is_frozen_and_says_what_it_is(tmp_path):
    run = Run.of("diagonal", dim=3, sparsity=2, seed=4, method="closed")
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.setting = "linear"
    record = run.to_json()
    assert (record["dim"], record["seed"], record["scale"], record["max_time"]) == (
        3,
        4,
        1e-6,
        None,
    )
    assert json.loads(json.dumps(record)) == record
    np.savez(tmp_path / "own.npz", X=np.eye(4)[:, :3] + 0.1, y=np.arange(4.0))
    own = Run.of("diagonal", data=str(tmp_path / "own.npz")).to_json()
    assert "samples" not in own  # there was nothing to make


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"setting": "diagnal"}, "Did you mean 'diagonal'"),
        ({"setting": "diagonal", "context": 3}, "does not take `context`"),
        ({"setting": "diagonal", "sclae": 3}, "No run takes `sclae`. Did you mean 'scale'"),
        ({"setting": "diagonal", "data": "x.csv", "noise": 0.1}, "`noise` makes data"),
        ({"setting": "linear", "width": 0}, "width must be at least 1"),
        ({"setting": "diagonal", "sparsity": 9, "dim": 3}, "`sparsity` 9 is larger than `dim` 3"),
    ],
)
def test_bad_runs(options, message):
    with pytest.raises(sw.InputError, match=message):
        Run.of(**options).task  # noqa: B018


def test_the_command_line_speaks_of_flags():
    done = CliRunner().invoke(main, ["predict", "diagonal", "--sparsity", "9", "--dim", "3"])
    assert done.exit_code == 2
    assert "--sparsity 9 is larger than --dim 3" in done.stderr

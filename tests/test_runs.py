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
    "deep-linear": {"dim": 2, "outputs": 2, "scale": 1e-2},
    "deep-diagonal": {"samples": 20, "dim": 2, "sparsity": 2, "scale": 1e-2},
    "deep": {"samples": 10, "dim": 2, "outputs": 1, "features": 1, "width": 3, "scale": 3e-2},
    "attention": {"eigenvalues": "4,1", "context": 8, "width": 2, "scale": 1e-2},
    "modular-addition": {"p": 5, "spectrum": "1:4", "width": 2, "scale": 0.05},
    "group": {"group": "D3", "spectrum": "sign:3", "width": 2, "scale": 0.05},
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
        "deep-linear": (tasks.linear_map(dim=2, outputs=2, decay=0.0), units.Deep.linear(3, 2)),
        "deep-diagonal": (
            tasks.sparse_regression(samples=20, dim=2, sparsity=2),
            units.DeepDiagonal(3),
        ),
        "deep": (made, units.Deep.of(3, 3, "relu")),
        "attention": (tasks.in_context_regression([4.0, 1.0], 8), units.LinearAttention(2)),
        "modular-addition": (tasks.modular_addition(5, {1: 4}), units.QuadraticPair(2)),
        "group": (tasks.group_composition("D3", 2, {"sign": 3}), units.PowerOfSum(2, 2)),
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
    and (setting, method) != ("deep-linear", "closed")  # of aligned starts: tests/test_depth.py
]
WALKED = [
    pytest.param(setting, method, marks=() if setting == "two-layer" else pytest.mark.slow)
    for setting in SETTINGS
    for method in SETTINGS[setting].methods
    if method not in ("auto", "closed", "limit", "greedy-low-rank")
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
        *("rates", "times", "observables", "most_saved", "eta"),  # objects, or views
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


def halfway(setting):
    """Options of a small run, and what its network has become before its first jump is over."""
    options = SMALL[setting]
    first = sw.predict(*by_hand(setting), options["scale"], method="numeric").jump_times[0]
    path = sw.train(*by_hand(setting), options["scale"], times=[0.5 * first], max_time=first)
    return {k: v for k, v in options.items() if k != "scale"}, path.parameters[-1]


def test_a_start_from_a_file_is_that_of_python(tmp_path):
    options, theta = halfway("two-layer")
    np.savez(tmp_path / "theta.npz", theta=theta)
    np.savez(tmp_path / "layers.npz", w=theta[:, :2], a=theta[:, 2:])
    python = sw.predict(*by_hand("two-layer"), 1e-6, start=theta)
    trained = sw.train(*by_hand("two-layer"), 1e-6, start=theta, max_time=3.0)
    for name in ("theta.npz", "layers.npz"):
        given = {**options, "start": str(tmp_path / name)}
        told = command("predict", "two-layer", **given)
        assert [stage["time"] for stage in told["stages"]] == python.jump_times
        assert Run.of("two-layer", **given).predict().jump_times == python.jump_times
        path = command("train", "two-layer", **given, max_time=3.0)
        assert path["final_loss"] == trained.loss[-1]
    both = command("compare", "two-layer", **given)
    assert [stage["time"] for stage in both["predicted"]["stages"]] == python.jump_times
    cell = one_cell("predict", "two-layer", tmp_path / "cells", **given)
    assert cell["time_first"] == python.jump_times[0]
    assert Run.of("two-layer", **given).to_json()["start"] == given["start"]


def test_diagonal_weights_go_by_two_pairs_of_names(tmp_path):
    rng = np.random.default_rng(0)
    p, q = 0.01 * (1 + rng.uniform(size=(2, 2)))
    u, v = (p + q) / np.sqrt(2), (p - q) / np.sqrt(2)
    for name, arrays in (("p", {"p": p, "q": q}), ("u", {"v": v, "u": u})):
        np.savez(tmp_path / f"{name}.npz", **arrays)
        run = Run.of("diagonal", dim=2, sparsity=2, start=str(tmp_path / f"{name}.npz"))
        np.testing.assert_allclose(run.weights, np.stack([p, q], 1), rtol=1e-12)
        np.testing.assert_allclose(run.units.weights(run.weights), [u, v], rtol=1e-12)


def test_layers_of_every_setting_fit_by_their_names(tmp_path):
    for setting, options in SMALL.items():
        problem = Run.of(setting, **options).problem
        shape = problem.width, problem.size
        theta = np.random.default_rng(0).normal(size=shape)
        with sw.float64():
            layers = {name: np.asarray(part) for name, part in problem.weights(theta).items()}
        file = tmp_path / f"{setting}.npz"
        np.savez(file, **layers)
        sizes = {name: value for name, value in options.items() if name != "scale"}
        np.testing.assert_array_equal(Run.of(setting, **sizes, start=str(file)).weights, theta)


TOLD = "must hold theta (1, 3), or w (1, 2) and a (1, 1); it holds"


@pytest.mark.parametrize(
    ("file", "arrays", "options", "message"),
    [
        ("absent.npz", None, [], "There is no file absent.npz; --start is an .npz"),
        ("weights.npy", None, [], "--start must be an .npz file with weights"),
        ("text.npz", b"theta", [], "text.npz cannot be read as .npz"),
        ("empty.npz", {}, [], f"empty.npz {TOLD} nothing."),
        ("names.npz", {"w": np.ones((1, 2)), "b": 1.0}, [], f"{TOLD} w (1, 2) and b ()."),
        ("part.npz", {"w": np.ones((1, 2))}, [], f"{TOLD} w (1, 2)."),
        ("both.npz", {"theta": np.ones((1, 3)), "w": np.ones((1, 2))}, [], TOLD),
        (
            "wide.npz",
            {"theta": np.ones((2, 3))},
            [],
            "theta in wide.npz must have shape (1, 3), not",
        ),
        (
            "turned.npz",
            {"w": np.ones((2, 1)), "a": np.ones((1, 1))},
            [],
            "w in turned.npz must have shape (1, 2), not (2, 1): --width",
        ),
        ("nan.npz", {"theta": np.full((1, 3), np.nan)}, [], "holds NaN or infinite numbers; save"),
        ("huge.npz", {"theta": np.full((1, 3), 1e200)}, [], "float64 cannot hold the loss"),
        ("words.npz", {"theta": np.full((1, 3), "a")}, [], "real numbers"),
        ("complex.npz", {"theta": np.full((1, 3), 1j)}, [], "real numbers"),
        (
            "object.npz",
            {"theta": np.full((1, 3), None)},
            [],
            "object.npz is an array of Python objects",
        ),
        ("zeros.npz", {"theta": np.zeros((1, 3))}, [], "a unit of zeros"),
        ("good.npz", {"theta": np.ones((1, 3))}, ["--scale", "1e-3"], "leave out --scale"),
        ("good.npz", {"theta": np.ones((1, 3))}, ["--delta", "1"], "leave out --delta"),
        ("good.npz", {"theta": np.ones((1, 3))}, ["--alpha", "2"], "leave out --alpha"),
        ("good.npz", {"theta": np.ones((1, 3))}, ["--tau", "0.1"], "leave out --tau"),
    ],
)
@pytest.mark.parametrize("verb", ["predict", "train"])
def test_starts_that_do_not_fit_are_refused(
    verb, file, arrays, options, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    if isinstance(arrays, bytes):
        (tmp_path / file).write_bytes(arrays)
    elif arrays is not None:
        np.savez(tmp_path / file, **arrays)
    sizes = {k: v for k, v in SMALL["two-layer"].items() if k != "scale"}
    done = CliRunner().invoke(main, [verb, "two-layer", *flags(sizes), "--start", file, *options])
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.output


def test_equal_weights_of_a_diagonal_network_have_lost_what_decides(tmp_path):
    np.savez(tmp_path / "uv.npz", u=[0.1, 0.5], v=[0.0, 0.5])
    run = Run.of("diagonal", dim=2, sparsity=2, start=str(tmp_path / "uv.npz"))
    with pytest.raises(sw.InputError, match="u and v of unit 1 are equal"):
        run.predict()


# --- runs of one's own ------------------------------------------------------------------------------


def own_run(steps=1500, rate=0.1):
    """Gradient descent in NumPy on two orthogonal samples: ReLU units learn one after the other."""
    x, y = np.eye(2), np.array([1.0, 0.5])
    w = 1e-4 * np.array([[1.0, -1.0], [-1.0, 1.0], [-1.0, 0.5]])
    a = 1e-4 * np.ones(3)
    losses, saved, moments = [], [], []
    for k in range(steps):
        hidden = np.maximum(x @ w.T, 0)
        residual = y - hidden @ a
        losses.append(0.5 * np.mean(residual**2))
        if k % 10 == 0:
            moments.append(k)
            saved.append(np.column_stack([w, a]))
        slope_w = ((residual[:, None] * a) * (hidden > 0)).T @ x / 2
        w, a = w + rate * slope_w, a + rate * hidden.T @ residual / 2
    seen = {"time": rate * np.arange(steps), "loss": losses}
    return seen, {"time": rate * np.array(moments), "parameters": saved}


def test_a_run_of_ones_own_needs_times_losses_and_weights(tmp_path):
    seen, kept = own_run()
    problem = sw.Problem(sw.tasks.from_arrays(np.eye(2), [1, 0.5]), sw.units.Dense(3, "relu"))
    run = sw.Trajectory.from_arrays(seen, kept, problem=problem)
    phases = sw.diagnose.find_phases(run)
    assert phases.widths == [0, 1, 2]
    assert phases.kinds == ["strict saddle", "strict saddle", "minimum"]
    assert [phase.loss for phase in phases] == pytest.approx([0.3125, 0.0625, 0.0], abs=1e-3)
    assert sw.diagnose.find_regime(run, moments=6).name == "rich"
    assert [stage.loss for stage in run.stages] == pytest.approx([0.0625, 0.0], abs=1e-3)
    again = sw.Trajectory.load(run.save(tmp_path / "run.nc"))
    assert str(again) == str(run)
    run.plot(tmp_path / "run.png")
    phases.plot(tmp_path / "phases.png")


def test_what_is_wrong_with_a_run_of_ones_own_is_said():
    seen, kept = own_run(40)
    units = sw.units.Dense(3, "relu")
    other = sw.Problem(sw.tasks.from_arrays(np.eye(2), [1, 2.0]), units)
    with pytest.raises(sw.InputError, match="does not belong"):
        sw.Trajectory.from_arrays(seen, kept, problem=other)
    wrong = {
        "loss is missing": ({"time": [0.0]}, kept),
        "40 times and 2": ({**seen, "loss": [1.0, 2.0]}, kept),
        "must rise": ({**seen, "time": np.zeros(40)}, kept),
        "moments, width, size": (seen, {"time": [0.0], "parameters": np.ones((1, 3))}),
    }
    for words, given in wrong.items():
        with pytest.raises(sw.InputError, match=words):
            sw.Trajectory.from_arrays(*given)

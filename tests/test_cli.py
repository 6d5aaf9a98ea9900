"""The command line as a user meets it: JSON, folders, exit codes, one sentence for bad input."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import saddlewalk as sw


@pytest.fixture
def data(fig3, tmp_path):
    file = tmp_path / "own.npz"
    np.savez(file, X=fig3.x, y=fig3.y[:, 0])
    return file


def test_predict_json_is_one_object_with_the_documented_fields(run, data):
    options = ("--data", data, "--scale", 1e-8, "--method", "closed", "--json")
    result = run("predict", "diagonal", *options)
    assert result.exit_code == 0
    record = json.loads(result.stdout)
    assert {
        "setting", "method", "scale", "seed", "kappa", "eta", "initial_loss", "stages",
        "assumptions", "stopped", "expected_error",
    } <= set(record)  # fmt: skip
    assert next(s["feature"] for s in record["stages"]) == {
        "kind": "coordinate",
        "index": 1,
        "sign": -1,
    }
    assert record["stopped"] == "no dormant units"
    assert record["eta"] == pytest.approx(-np.log(np.sqrt(2) * 1e-8))
    for stage in record["stages"]:
        assert stage["time_accelerated"] == pytest.approx(stage["time"] / record["eta"])


def test_train_and_compare_json(run, data):
    record = json.loads(run("train", "diagonal", "--data", data, "--json").stdout)
    assert {
        "setting", "scale", "seed", "solver", "steps", "rhs_evaluations", "final_loss", "time",
        "loss", "stages",
    } <= set(record)  # fmt: skip
    both = json.loads(run("compare", "diagonal", "--data", data, "--json").stdout)
    assert set(both) == {"predicted", "observed", "agreement"}
    assert both["agreement"]["order"] is True
    assert both["agreement"]["stages_predicted"] == len(both["agreement"]["time_error"])
    assert both["agreement"]["stages_predicted"] == both["agreement"]["stages_observed"]
    assert both["observed"]["loss"] == record["loss"]


def test_result_folder(run, data, tmp_path):
    out = tmp_path / "deep" / "result"
    first = run("compare", "diagonal", "--data", data, "--seed", 3, "--out", out)
    assert first.exit_code == 0
    assert "jump times: mean error" in first.stdout
    names = {"result.nc", "result.json", "figure.png", "figure.svg", "explore.html", "config.json"}
    assert {f.name for f in out.iterdir()} == names
    config = json.loads((out / "config.json").read_text())
    assert config["configuration"]["seed"] == 3
    assert len(config["data_sha256"]) == 64
    assert config["versions"]["saddlewalk"] == sw.__version__
    again = run("predict", "diagonal", "--data", data, "--out", out)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert (out / "result.json").stat().st_size > 1000
    assert run("predict", "diagonal", "--data", data, "--out", out, "--force").exit_code == 0
    assert "predicted" not in json.loads((out / "result.json").read_text())


def test_csv_with_and_without_header(run, fig3, tmp_path):
    table = np.column_stack([fig3.x, fig3.y])
    np.savetxt(tmp_path / "plain.csv", table, delimiter=",")
    np.savetxt(tmp_path / "named.csv", table, delimiter=",", header="a,b,c,d,e,y", comments="")
    records = [
        json.loads(run("predict", "diagonal", "--data", tmp_path / name, "--json").stdout)
        for name in ("plain.csv", "named.csv")
    ]
    for stage in records[1]["stages"]:
        for feature in (stage["feature"], *stage["feature"].get("others", ())):
            assert feature.pop("name") == "abcde"[feature["index"]]
    assert records[0]["stages"] == records[1]["stages"]


def test_moments_from_a_file(run, fig3, tmp_path):
    n = len(fig3.x)
    xx, yx, yy = fig3.x.T @ fig3.x / n, fig3.y.T @ fig3.x / n, fig3.y.T @ fig3.y / n
    np.savez(tmp_path / "moments.npz", Sigma_xx=xx, Sigma_yx=yx, Sigma_yy=yy)
    options = ("--data", tmp_path / "moments.npz", "--method", "closed", "--json")
    record = json.loads(run("predict", "diagonal", *options).stdout)
    exact = sw.predict(fig3, sw.units.Diagonal(), 1e-6, method="closed")
    np.testing.assert_allclose([s["time"] for s in record["stages"]], exact.jump_times, rtol=1e-8)


def test_settings(run):
    assert "diagonal" in run("settings").stdout
    assert "closed" in json.loads(run("settings", "--json").stdout)["diagonal"]["methods"]


@pytest.mark.parametrize(
    ("setting", "options", "kind"),
    [
        ("linear", ["--method", "closed", "--dim", "4", "--outputs", "3"], "singular-mode"),
        ("linear", ["--method", "greedy-low-rank", "--commuting", "--dim", "4"], "singular-mode"),
        ("attention", ["--method", "closed", "--eigenvalues", "3,1"], "principal-component"),
        (
            "modular-addition",
            ["--method", "closed", "--p", "7", "--spectrum", "1:3,2:1j"],
            "fourier",
        ),
        (
            "group",
            ["--method", "closed", "--group", "D5", "--spectrum", "2d-1:4/2,sign:1"],
            "representation",
        ),
        (
            "group",
            ["--method", "closed", "--group", "C5", "--factors", "3", "--spectrum", "1:3,2:1j"],
            "representation",
        ),
    ],
)
def test_every_setting_with_closed_forms(run, setting, options, kind):
    result = run("predict", setting, *options, "--json")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert {stage["feature"]["kind"] for stage in record["stages"]} == {kind}
    assert all(record["assumptions"])
    losses = [record["initial_loss"], *(stage["loss"] for stage in record["stages"])]
    assert losses == sorted(losses, reverse=True)


def test_a_group_is_compared_and_drawn(run, tmp_path):
    """The feature says what was learned: representation, dimension, type, part; the picture has tables."""
    options = ["--group", "D3", "--spectrum", "2d:3,sign:1.6", "--width", "14", "--scale", "0.1"]
    result = run("compare", "group", *options, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    features = [stage["feature"] for stage in record["predicted"]["stages"]]
    assert {"kind", "name", "dimension", "type", "part", "strength"} == set(features[0])
    assert [one["name"] for one in features][-1] == "sign"
    assert features[0]["type"] == "real"
    assert record["agreement"]["order"]
    assert max(record["agreement"]["time_error"]) < 0.01
    assert (tmp_path / "out" / "figure.png").stat().st_size > 50_000
    again = sw.Agreement.load(tmp_path / "out" / "result.nc")
    assert again.observed.problem.task.group.name == "D3"
    told = run("train", "group", *options).stdout
    assert "(sign)" in told


def test_an_encoding_from_a_file(run, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.arange(6.0))
    options = ("--data", tmp_path / "x.npz", "--group", "D3", "--method", "closed", "--json")
    assert "mean 2.5" in run("predict", "group", *options).stderr
    np.savez(tmp_path / "x.npz", x=[3.0, -1.0, 2.0, 0.5, -4.0, -0.5])
    assert len(json.loads(run("predict", "group", *options).stdout)["stages"]) == 5


def test_a_network_of_any_activation_is_compared(run, tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 2))
    np.savez(tmp_path / "own.npz", X=x, y=np.sin(x[:, 0]))
    options = ["--data", tmp_path / "own.npz", "--activation", "sin", "--width", "1"]
    result = run("compare", "two-layer", *options, "--scale", "1e-3", "--json")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["predicted"]["method"] == "numeric"
    assert record["agreement"]["order"]
    assert max(record["agreement"]["time_error"]) < 0.01
    assert record["predicted"]["stages"][0]["feature"]["kind"] == "direction"


def test_the_audit_names_what_will_not_be_learned(run):
    narrow = run("predict", "linear", "--method", "closed", "--dim", "4", "--width", "2").stdout
    assert "will never be learned" in narrow
    equal = run("predict", "modular-addition", "--method", "closed", "--spectrum", "1:5,3:5").stdout
    assert "FAILS: clear order" in equal
    even = run(
        "predict", "modular-addition", "--method", "closed", "--p", "8", "--spectrum", "1:5"
    ).stdout
    assert "p is even" in even


def bad_files(folder):
    good = {"X": np.random.default_rng(0).normal(size=(6, 2)), "y": np.arange(6.0)}
    np.savez(folder / "nan.npz", X=np.where(good["X"] > 1, np.nan, good["X"]), y=good["y"])
    np.savez(folder / "long.npz", X=good["X"], y=np.arange(7.0))
    np.savez(folder / "names.npz", A=good["X"])
    np.savez(folder / "text.npz", X=np.array([["a", "b"]]), y=[1.0])
    np.savez(folder / "object.npz", X=np.array([{}], dtype=object), y=[1.0])
    np.savez(folder / "whole.npz", **good)
    whole = (folder / "whole.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.npz").write_bytes(b"")
    (folder / "ragged.csv").write_text("1,2,3\n4,5\n")
    (folder / "hole.csv").write_text("1,2,3\n4,,6\n7,8,9\n")
    (folder / "words.csv").write_text("a,b\n1,x\n")
    (folder / "one.csv").write_text("1\n2\n3\n")
    (folder / "nothing.csv").write_text("\n")
    (folder / "data.txt").write_text("1,2\n")
    (folder / "typo.csv").write_text("1,1O,3\n4,5,6\n7,8,9\n")
    (folder / "folder").mkdir()
    (folder / "folder" / "thesis.txt").write_text("mine")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "diagnal"], "Did you mean 'diagonal'"),
        (["predict", "xyz"], "Known: attention, deep, "),
        (["predict", "diagonal", "--scale", "0"], "positive number"),
        (["predict", "diagonal", "--scale=-1"], "positive number"),
        (["predict", "diagonal", "--scale", "nan"], "positive number"),
        (["predict", "diagonal", "--scale", "abc"], "not a valid float"),
        (["train", "diagonal", "--width", "0"], "at least 1"),
        (["predict", "modular-addition", "--p", "2"], "at least 3"),
        (["predict", "modular-addition", "--spectrum", "1-10"], "must look like"),
        (["predict", "modular-addition", "--spectrum", "1:0"], "nothing to learn"),
        (["predict", "modular-addition", "--spectrum", "17:1"], "from 1 to p/2 = 10"),
        (["predict", "modular-addition", "--data", "whole.npz"], "as an array x"),
        (["predict", "group", "--group", "E8"], "no group 'E8'"),
        (["predict", "group", "--factors", "1"], "--factors is 1: with one element"),
        (["predict", "group", "--width", "0"], "at least 1; got 0"),
        (["predict", "group", "--spectrum", "3d:1"], "D3 has no representation '3d'"),
        (["predict", "group", "--spectrum", "trivial:1"], "The encoding has mean 0.1667"),
        (["predict", "group", "--spectrum", "2d"], "must be 'one-hot', or look like"),
        (["predict", "group", "--data", "whole.npz"], "as an array x"),
        (["predict", "attention", "--eigenvalues", "4,0"], "positive eigenvalues"),
        (["predict", "attention", "--eigenvalues", "four"], "numbers separated by commas"),
        (["predict", "attention", "--context", "0"], "at least 1; got 0"),
        (["predict", "two-layer", "--activation", "rulu"], "Did you mean 'relu'"),
        (["predict", "relu", "--activation", "tanh"], "does not take --activation"),
        (["predict", "relu", "--features", "9"], "larger than --dim"),
        (["predict", "relu", "--images", "faces"], "Known:"),
        (["predict", "linear", "--dim", "0"], "--dim must be at least 1"),
        (["train", "diagonal", "--width", "3"], "its width is 10"),
        (["predict", "diagonal", "--dim", "0"], "--dim must be at least 1"),
        (["predict", "diagonal", "--sparsity", "11"], "larger than --dim"),
        (["predict", "diagonal", "--correlation", "1"], "strictly between"),
        (["predict", "diagonal", "--method", "greedy-low-rank"], "no method 'greedy-low-rank'"),
        (["train", "diagonal", "--solver", "rk4"], "Unknown solver"),
        (["predict", "diagonal", "--data", "absent.npz"], "no file"),
        (["predict", "diagonal", "--data", "whole.npz", "--dim", "3"], "nothing to make"),
        (["predict", "diagonal", "--data", "nan.npz"], "NaN or infinite"),
        (["predict", "diagonal", "--data", "long.npz"], "6 samples and y has 7"),
        (["predict", "diagonal", "--targets", "2"], "give it as --data"),
        (["predict", "diagonal", "--data", "whole.npz", "--targets", "2"], "the array y"),
        (["predict", "linear", "--standardize"], "no columns to --standardize"),
        (["predict", "diagonal", "--data", "names.npz"], "it holds A"),
        (["predict", "diagonal", "--data", "text.npz"], "must hold numbers"),
        (["predict", "diagonal", "--data", "object.npz"], "array of Python objects"),
        (["predict", "diagonal", "--data", "cut.npz"], "truncated"),
        (["predict", "diagonal", "--data", "empty.npz"], "truncated"),
        (["predict", "diagonal", "--data", "ragged.csv"], "different lengths"),
        (["predict", "diagonal", "--data", "hole.csv"], "NaN or infinite"),
        (["predict", "diagonal", "--data", "words.csv"], "a single label"),
        (["predict", "diagonal", "--data", "one.csv"], "one column"),
        (["predict", "diagonal", "--data", "nothing.csv"], "no rows"),
        (["predict", "diagonal", "--data", "data.txt"], "must end in"),
        (["reproduce", "agf-9"], "Did you mean"),
        (["predict", "diagonal", "--data", "typo.csv"], "line 1, column 2 has '1O'"),
        (["predict", "diagonal", "--data", ""], "--data is empty"),
        (["predict", "diagonal", "--out", ""], "name of its own"),
        (["predict", "diagonal", "--out", ".", "--force"], "name of its own"),
        (["predict", "diagonal", "--out", "folder", "--force"], "thesis.txt"),
        (["predict", "diagonal", "--data-seed", "-1"], "must not be negative"),
        (["train", "diagonal", "--seed", "-1"], "seed must be"),
        (["train", "diagonal", "--seed", "99999999999999999999"], "seed must be"),
        (["train", "diagonal", "--max-steps", "0"], "at least 1"),
        (["train", "diagonal", "--max-time", "nan"], "must be positive"),
        (["train", "diagonal", "--learning-rate", "0.1"], "goes with finite steps"),
        (
            ["train", "diagonal", "--solver", "descent", "--learning-rate", "nan"],
            "must be positive",
        ),
        (["predict", "diagonal", "--out", "whole.npz"], "is a file"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(
    run, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    bad_files(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_figures_reproduce(run, tmp_path):
    result = run("reproduce", "agf-3", "agf-8", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0
    entries = json.loads(result.stdout)["entries"]
    assert {name: record["verdict"] for name, record in entries.items()} == {
        "agf-3": "reproduced",
        "agf-8": "reproduced",
    }
    assert (tmp_path / "out" / "agf-3" / "figure.png").stat().st_size > 20_000
    assert "not asked for yet" in (tmp_path / "out" / "scorecard.json").read_text()
    named = [line.split()[0] for line in run("reproduce", "list").stdout.splitlines()]
    assert [name for name in named if name.startswith("agf-")] == [f"agf-{k}" for k in range(1, 9)]
    assert len([name for name in named if name.startswith("study-")]) == 3


def test_adaptive_rates_on_the_command_line(run):
    """With rates of its own a head wakes after log(1/scale), not 1/scale."""
    times = {}
    for flags in ((), ("--adaptive",)):
        result = run("predict", "attention", "--scale", "1e-4", "--json", *flags)
        times[flags] = json.loads(result.stdout)["stages"][0]["time"]
    assert times[("--adaptive",)] < 0.01 * times[()]


def test_images_refuse_options_of_made_data(run):
    result = run("predict", "relu", "--images", "mnist", "--features", "2")
    assert result.exit_code == 2
    assert "--features is of made data" in result.stderr


def test_diagnose_names_the_plateaus(run, tmp_path):
    data = tmp_path / "two.npz"
    np.savez(data, X=[[1, 0.5], [-1, 2]], y=[1.0, -1.0])
    options = ["--activation", "relu", "--data", str(data), "--width", "20", "--max-time", "80"]
    out = tmp_path / "out"
    record = json.loads(run("diagnose", "two-layer", *options, "--json", "--out", str(out)).stdout)
    assert [phase["widths"]["units"] for phase in record["phases"]] == [0, 1, 2]
    assert [phase["kind"] for phase in record["phases"]] == ["strict saddle"] * 2 + ["minimum"]
    assert (out / "figure.png").stat().st_size > 10_000


def test_diagnose_names_the_regime(run, tmp_path):
    data, out = tmp_path / "two.npz", tmp_path / "out"
    np.savez(data, X=[[1, 0.5], [-1, 2], [0.3, -1]], y=[1.0, -1.0, 0.5])
    options = [
        "--data",
        str(data),
        "--width",
        "10",
        "--max-time",
        "30",
        "--tau",
        "0.1",
        "--delta",
        "1",
    ]
    done = run("diagnose", "relu", "--regime", *options, "--json", "--out", str(out))
    record = json.loads(done.stdout)
    assert record["regime"] in ("lazy", "rich", "delayed rich")
    assert record["layers"]["units"]["side"] == "upstream"
    assert record["layers"]["units"]["deltas"] == pytest.approx([1.0] * 10)
    assert json.loads((out / "config.json").read_text())["configuration"]["delta"] == 1.0
    assert (out / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "relu", "--delta", "1", "--alpha", "2"], "give one"),
        (["train", "two-layer", "--activation", "tanh", "--alpha", "2"], "not homogeneous"),
    ],
)
def test_what_has_no_meaning_is_refused(run, arguments, words):
    done = run(*arguments)
    assert done.exit_code == 2
    assert words in done.output


AT_IMPORT = """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{moment}":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""
AT_PROGRESS = """
from saddlewalk.show import progress

class Progress(progress.Progress):
    def update(self, message, fraction=None):
        if self._what.startswith("{moment}"):
            os.kill(os.getpid(), signal.SIGINT)

progress.Progress = Progress
"""
WAITS = """
from saddlewalk.show import progress

class Progress(progress.Progress):
    def __enter__(self):
        print("computing", flush=True)
        sys.stdin.readline()
        return self

progress.Progress = Progress
"""
PROCESS = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run in the background
{first}
from saddlewalk.__main__ import run
sys.argv = ["saddlewalk", *sys.argv[1:]]
run()
"""


@pytest.mark.parametrize(
    ("when", "moment", "words"),
    [
        (AT_IMPORT, "click", "interrupted"),
        (AT_IMPORT, "jaxlib.mlir.ir", "interrupted"),
        (AT_IMPORT, "saddlewalk.theory.agf.walk", "interrupted"),
        (AT_PROGRESS, "predict", "interrupted"),
        (AT_PROGRESS, "train", "interrupted: the result is the part that was computed"),
    ],
)
def test_ctrl_c_in_a_comparison_is_one_line_and_130(when, moment, words, tmp_path):
    program = PROCESS.format(first=when.format(moment=moment))
    arguments = ("compare", "relu", "--samples", "20", "--out", str(tmp_path / "out"))
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, words)
    assert "Traceback" not in done.stderr
    assert any(tmp_path.iterdir()) == (moment == "train")  # the part is kept, and no draft is left


LOST = """
import gc, os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from saddlewalk.interrupts import answering_interrupts, leaving_at_interrupts

def collected(phase, info):
    gc.callbacks.remove(collected)
    os.kill(os.getpid(), signal.SIGINT)
    sum(range(1000))  # here the signal is heard, and nobody can catch it

gc.callbacks.append(collected)
with leaving_at_interrupts(), answering_interrupts():
    gc.collect()
    time.sleep(20)
    print("went on")
"""


def test_ctrl_c_that_comes_while_garbage_is_collected_is_not_lost():
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_of_two_runs_at_once_into_one_folder_the_second_is_refused(run, data, tmp_path):
    out = tmp_path / "out"
    options = ("--data", str(data), "--out", str(out), "--force")
    program = PROCESS.format(first=WAITS)
    with subprocess.Popen(
        [sys.executable, "-c", program, "train", "diagonal", "--max-time", "1", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout.readline() == "computing\n"
        second = run("train", "diagonal", "--max-time", 2, *options)
        assert second.exit_code == 2
        assert f"Another process is writing {out}." in second.output
        first.communicate("\n")
    assert first.returncode == 0
    config = json.loads((out / "config.json").read_text())["configuration"]
    assert config["max_time"] == 1.0
    assert run("train", "diagonal", "--max-time", 2, *options).exit_code == 0


@pytest.mark.parametrize("more", [(), ("--json",)])
@pytest.mark.parametrize("verb", ["predict", "train", "compare", "diagnose"])
def test_a_width_that_no_machine_holds_is_one_sentence(run, verb, more):
    result = run(verb, "relu", "--width", 10**9, *more)
    assert result.exit_code == 2
    assert "GB of memory" in result.output
    assert "--width" in result.output
    assert result.stdout == ""


@pytest.mark.parametrize("setting", ["diagonal", "relu", "two-layer"])
def test_a_default_is_never_larger_than_what_was_asked_for(run, setting, tmp_path):
    """5 coefficients and 3 directions are meant where there are as many inputs."""
    options = ("--dim", 2, "--samples", 20, "--max-time", 0.1, "--out", tmp_path / "out")
    assert run("train", setting, *options).exit_code == 0
    config = json.loads((tmp_path / "out" / "config.json").read_text())["configuration"]
    assert config["sparsity" if setting == "diagonal" else "features"] == 2


def test_the_configuration_of_a_file_holds_no_sizes_of_made_data(run, data, tmp_path):
    options = ("--data", data, "--max-time", 0.1, "--out", tmp_path / "out")
    assert run("train", "relu", *options).exit_code == 0
    config = json.loads((tmp_path / "out" / "config.json").read_text())["configuration"]
    made = {"samples", "dim", "outputs", "features", "noise", "data_seed", "images"}
    assert not made & set(config)
    assert config["data"] == str(data)


def test_columns_are_standardized_and_targets_chosen(run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2)) * [1.0, 1e4] + [5.0, 0.0]
    table = np.column_stack([x @ [1.0, 3e-4], x])
    np.savetxt(tmp_path / "own.csv", table, delimiter=";", header="price;rooms;age", comments="")
    options = ("--data", tmp_path / "own.csv", "--targets", "price", "--standardize", "--json")
    found = json.loads(run("predict", "diagonal", *options).stdout)
    assert found["initial_loss"] == pytest.approx(0.5)  # half the variance
    assert [stage["units"] for stage in found["stages"]] == [[1], [0]]


def test_a_descent_that_diverges_is_told_by_the_exit_code(run, data, tmp_path):
    steps = ("--solver", "descent", "--learning-rate", 1e3, "--scale", 0.5)
    result = run("train", "relu", "--data", data, *steps, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "diverged" in result.stderr
    assert "--learning-rate" in result.stderr
    record = json.loads((tmp_path / "out" / "result.json").read_text())
    assert record["stopped"] == "diverged"


FULL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # bytes of a file; more is refused by the system
"""


def test_a_full_disk_is_one_sentence(data, tmp_path):
    program = PROCESS.format(first=FULL_DISK)
    options = ("--data", str(data), "--max-time", "1", "--out", str(tmp_path / "out"))
    done = subprocess.run(
        [sys.executable, "-c", program, "train", "diagonal", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": ""},
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert "File too large" in done.stderr
    assert "None" not in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["own.npz"]

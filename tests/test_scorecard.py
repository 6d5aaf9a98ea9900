"""The scorecard: entries that fail, runs that are killed, and what is told of them."""

import dataclasses
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import saddlewalk as sw
from saddlewalk.cli import main
from saddlewalk.figures import ENTRIES, Claim, Entry, FigureResult, Scorecard, find_entry, reproduce
from saddlewalk.figures.scorecard import folder
from saddlewalk.interrupts import heeding_interrupts
from saddlewalk.show import draw

MADE = []


def figure(name, holds=True):
    MADE.append(name)
    with draw.styled():
        picture, axes = draw.new_figure(1, 1)
        axes.plot([0, 1], [1, 0])
    claims = (Claim("one is one", "1", True), Claim("two is <three>", "2", holds))
    return FigureResult(name, f"about {name}", claims, picture, {"one": 1})


@dataclasses.dataclass(frozen=True)
class Made(Entry):
    """An entry with a function of its own."""

    function: object = None

    @property
    def maker(self):
        return self.function


def right():
    """All is well."""
    return figure("agf-3")


def wrong(full: bool = False):
    """Not all is well."""
    return figure("agf-4", holds=False)


def without_data():
    raise sw.InputError("The data set moon is not here; put moon.npz into a folder.")


def broken():
    raise ZeroDivisionError("oh")


@pytest.fixture
def few(monkeypatch):
    """Five entries that take no time."""
    entries = [
        Entry("agf-1", "Fig 1", drawing="a drawing"),
        Made("agf-3", "Fig 3", "x:y", function=right),
        Made("agf-4", "Fig 4", "x:y", function=wrong),
        Made("rich-2", "Fig 2", "x:y", function=without_data),
        Made("fact-5", "Fig 5", "x:y", function=broken),
    ]
    for name in list(ENTRIES):
        monkeypatch.delitem(ENTRIES, name)
    for entry in entries:
        monkeypatch.setitem(ENTRIES, entry.name, entry)
    MADE.clear()
    return list(ENTRIES)


def test_every_entry_has_a_verdict(few, tmp_path):
    card = reproduce(few, tmp_path / "out")
    verdicts = {name: record["verdict"] for name, record in card.records.items()}
    assert verdicts["agf-3"] == "reproduced"
    assert verdicts["agf-4"] == "partly: not so here: two is <three> (2)"
    assert verdicts["rich-2"].startswith("not run: The data set moon is not here; put moon.npz")
    assert verdicts["fact-5"] == "not run: it failed with ZeroDivisionError: oh"
    assert verdicts["agf-1"].startswith("not run: a drawing")
    assert card.summary == "5 entries: 1 reproduced, 1 partly, 0 not reproduced, 3 not run"
    kept = json.loads((tmp_path / "out" / "scorecard.json").read_text())
    assert kept == card.to_json()
    page = (tmp_path / "out" / "index.html").read_text()
    assert "two is &lt;three&gt;" in page
    assert 'src="agf-3/figure.png"' in page
    assert (tmp_path / "out" / "agf-3" / "figure.png").is_file()
    assert "1 of 2" in str(card)


def test_finished_entries_are_not_run_again_unless_asked(few, tmp_path):
    reproduce(["agf-3", "agf-4"], tmp_path)
    assert MADE == ["agf-3", "agf-4"]
    reproduce(few, tmp_path)
    assert MADE == ["agf-3", "agf-4"]
    reproduce(["agf-3"], tmp_path, rerun=True)
    assert MADE == ["agf-3", "agf-4", "agf-3"]
    card = reproduce(few, tmp_path, full=True)  # only one of them has a larger size
    assert MADE[3:] == ["agf-4"]
    assert card.records["agf-4"]["full"]


def test_results_of_other_code_are_made_anew(few, tmp_path, monkeypatch):
    reproduce(["agf-3"], tmp_path)
    monkeypatch.setattr("saddlewalk.figures.scorecard.folder._code", lambda: "other")
    verdict = Scorecard.read(tmp_path).records["agf-3"]["verdict"]
    assert verdict == "not run: made by other code or from other data"
    reproduce(["agf-3"], tmp_path)
    assert MADE == ["agf-3", "agf-3"]


def test_a_failure_leaves_what_was_there(few, tmp_path, monkeypatch):
    reproduce(["agf-3"], tmp_path)
    monkeypatch.setitem(ENTRIES, "agf-3", Made("agf-3", "Fig 3", "x:y", function=broken))
    card = reproduce(["agf-3"], tmp_path, rerun=True)
    assert card.records["agf-3"]["verdict"] == "reproduced"
    assert "Traceback" in (tmp_path / "agf-3.error").read_text()


def test_what_cannot_be_written_does_not_stop_the_rest(few, tmp_path):
    (tmp_path / "agf-3").mkdir()
    (tmp_path / "agf-3" / "thesis.txt").touch()
    card = reproduce(few, tmp_path)
    assert card.records["agf-3"]["verdict"].startswith("not run: The folder")
    assert card.records["agf-4"]["claims"]
    assert (tmp_path / "agf-3" / "thesis.txt").is_file()


def test_a_larger_result_is_not_replaced_by_a_smaller_one(few, tmp_path):
    reproduce(["agf-4"], tmp_path, full=True)
    card = reproduce(["agf-4", "agf-4"], tmp_path)
    assert MADE == ["agf-4"]
    assert card.records["agf-4"]["differs"] == ""
    again = reproduce(["agf-4"], tmp_path, rerun=True)
    assert again.records["agf-4"]["differs"] == "smaller than in the paper"


def test_nothing_that_could_fail_is_no_figure():
    with pytest.raises(ValueError, match="no claims"):
        FigureResult("agf-3", "empty", (), None, {})


def test_what_could_not_run_is_tried_again(few, tmp_path, monkeypatch):
    reproduce(few, tmp_path)
    mended = Made("rich-2", "Fig 2", "x:y", function=lambda: figure("rich-2"))
    monkeypatch.setitem(ENTRIES, "rich-2", mended)
    card = reproduce(few, tmp_path)
    assert card.records["rich-2"]["verdict"] == "reproduced"


def test_ctrl_c_is_no_verdict(few, ctrl_c, tmp_path, monkeypatch):
    """Trainings answer Ctrl-C with the part that they have; a figure made of parts is none."""

    def interrupted():
        try:
            ctrl_c()
            time.sleep(10)
        except KeyboardInterrupt:
            return figure("agf-4", holds=False)

    entry = Made("agf-4", "Fig 4", "x:y", function=interrupted)
    monkeypatch.setitem(ENTRIES, "agf-4", entry)
    with pytest.raises(KeyboardInterrupt):
        reproduce(few, tmp_path)
    assert (tmp_path / "agf-3" / "result.json").is_file()
    assert not (tmp_path / "agf-4").exists()


def test_what_makes_no_sense(tmp_path):
    with pytest.raises(sw.InputError, match="agf-3"):
        reproduce(["agf3"], tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(sw.InputError, match="is a file"):
        reproduce(["agf-8"], tmp_path / "file")
    with pytest.raises(sw.InputError, match="at least one worker"):
        reproduce(["agf-8"], tmp_path, workers=0)
    with pytest.raises(sw.InputError, match="drawing"):
        find_entry("agf-2").make()
    with pytest.raises(TypeError, match="'worker'"):
        reproduce(["agf-8"], tmp_path, worker=1)


@pytest.mark.parametrize(
    ("old", "new"), [("jobs", "workers"), ("again", "rerun"), ("told", "on_entry")]
)
def test_old_names_of_arguments_are_refused_with_the_new_ones(tmp_path, old, new):
    with pytest.raises(sw.InputError, match=f"`{old}` of `reproduce` is now `{new}`."):
        reproduce(["agf-8"], tmp_path, **{old: 2})


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--jobs", "2"), "--jobs is now --workers."),
        (("--jobs", "two"), "--jobs is now --workers."),
        (("--again",), "--again is now --rerun."),
    ],
)
def test_old_flags_are_refused_with_the_new_ones(tmp_path, flags, sentence):
    result = CliRunner().invoke(main, ["reproduce", "agf-8", "--out", str(tmp_path), *flags])
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "--jobs" not in CliRunner().invoke(main, ["reproduce", "--help"]).stdout


def test_the_origin_is_that_of_the_whole_package(monkeypatch, tmp_path):
    """Any module of the package, not only those of the figures, makes results those of other code."""
    copy = tmp_path / "saddlewalk"
    file = Path(folder.__file__)
    home = Path(sw.__file__).parent
    (copy / file.relative_to(home)).parent.mkdir(parents=True)
    (copy / "errors.py").write_text("one")
    monkeypatch.setattr(folder, "__file__", str(copy / file.relative_to(home)))
    first = folder._code.__wrapped__()
    assert folder._code.__wrapped__() == first
    (copy / "errors.py").write_text("two")
    assert folder._code.__wrapped__() != first


def test_the_registry_knows_every_figure_and_table():
    """As the papers number them; the text of Get Rich Quick has no captions."""
    for paper, figures, tables in (("agf", 8, 0), ("saddle", 6, 1), ("fact", 11, 3)):
        for k in range(1, figures + 1):
            assert f"{paper}-{k}" in ENTRIES
        for k in range(1, tables + 1):
            assert f"{paper}-table-{k}" in ENTRIES
    for entry in ENTRIES.values():
        assert len(entry.summary) > 10
        assert bool(entry.drawing) != callable(entry.made_by and entry.maker)


# the script imports this file, and the package that is tested here
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
QUICK = """
import sys
import test_scorecard as tests
from saddlewalk.figures import ENTRIES, reproduce

ENTRIES.clear()
for k in range(3, 7):
    name = f"agf-{k}"
    make = lambda name=name, k=k: tests.figure(name, k % 2 == 0)
    ENTRIES[name] = tests.Made(name, "Fig", "x:y", function=make)
if __name__ == "__main__":
    for workers in (1, 2):
        reproduce(list(ENTRIES), f"{sys.argv[1]}/{workers}", workers=workers)
"""


def test_two_processes_find_the_same_in_small(tmp_path):
    script = tmp_path / "quick.py"
    script.write_text(QUICK)
    subprocess.run(
        [sys.executable, str(script), str(tmp_path)], env=ENVIRONMENT, timeout=120, check=True
    )
    one, two = ((tmp_path / many / "scorecard.json").read_text() for many in "12")
    assert one == two
    assert json.loads(one)["counts"]["reproduced"] == 2


@pytest.mark.slow
def test_two_processes_find_the_same(tmp_path):
    names = ["rich-2", "rich-basins"]
    two = reproduce(names, tmp_path / "two", workers=2)
    one = reproduce(names, tmp_path / "one")
    assert one.to_json() == two.to_json()
    assert one.count("reproduced") == 2


SLOW = """
import sys, time
import test_scorecard as tests
from saddlewalk.figures import ENTRIES, reproduce

def slow(name, holds):
    def make():
        time.sleep(0.3)
        return tests.figure(name, holds)
    return make

ENTRIES.clear()
for k in range(6):
    name = f"agf-{k}"
    ENTRIES[name] = tests.Made(name, "Fig", "x:y", function=slow(name, k % 2 == 0))
reproduce(list(ENTRIES), sys.argv[1])
"""


@pytest.mark.slow
def test_killed_five_times_at_random_moments(tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)

    def start(folder):
        command = [sys.executable, str(script), str(tmp_path / folder)]
        return subprocess.Popen(command, env=ENVIRONMENT)

    assert start("quiet").wait(timeout=120) == 0
    moments = random.Random(0)
    for _ in range(5):
        running = start("disturbed")
        time.sleep(2.5 + 2.0 * moments.random())
        running.kill()
        running.wait()
    assert start("disturbed").wait(timeout=120) == 0
    quiet, disturbed = (
        (tmp_path / folder / "scorecard.json").read_text() for folder in ("quiet", "disturbed")
    )
    assert disturbed == quiet
    assert json.loads(quiet)["counts"] == {
        "reproduced": 3,
        "partly": 3,
        "not reproduced": 0,
        "not run": 0,
    }


DEADLY = """
import os, sys
import test_scorecard as tests
from saddlewalk.figures import ENTRIES, reproduce

def deadly():
    os._exit(9)

ENTRIES.clear()
for name in ("agf-3", "agf-4", "agf-5", "agf-6"):
    make = deadly if name == "agf-3" else lambda name=name: tests.figure(name)
    ENTRIES[name] = tests.Made(name, "Fig", "x:y", function=make)
if __name__ == "__main__":
    reproduce(list(ENTRIES), sys.argv[1], workers=int(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_an_entry_that_kills_its_process_keeps_nothing_else_from_running(tmp_path, workers):
    script, out = tmp_path / "deadly.py", tmp_path / "out"
    script.write_text(DEADLY)
    command = [sys.executable, str(script), str(out), str(workers)]
    ends = [subprocess.run(command, env=ENVIRONMENT, timeout=120).returncode for _ in range(2)]
    assert ends == ([9, 9] if workers == 1 else [0, 0])
    assert sorted(folder.name for folder in out.glob("*/")) == ["agf-4", "agf-5", "agf-6"]
    verdict = json.loads((out / "scorecard.json").read_text())["entries"]["agf-3"]["verdict"]
    assert verdict.startswith("not run: not finished")


def test_killed_while_an_old_result_is_replaced(few, tmp_path):
    """Between two renames there is no result in its place; the old one is put back."""
    reproduce(["agf-3"], tmp_path)
    aside = tmp_path / ".agf-3-old-1"
    aside.mkdir()
    (tmp_path / "agf-3").rename(aside / "replaced")
    card = reproduce(few, tmp_path)
    assert MADE.count("agf-3") == 1
    assert card.records["agf-3"]["verdict"] == "reproduced"
    assert not aside.exists()


def test_a_training_in_a_figure_does_not_end_with_a_part(monkeypatch):
    """Else the trainings after it would run to their ends before anything is told."""

    def interrupted(runs):
        raise KeyboardInterrupt

    monkeypatch.setattr("saddlewalk.ode.integrate_batch", interrupted)
    task, units = sw.tasks.sparse_regression(samples=8, dim=3, sparsity=1), sw.units.Diagonal()
    assert sw.train(task, units, scale=1e-3).stopped == "interrupted"
    with pytest.raises(KeyboardInterrupt), heeding_interrupts():
        sw.train(task, units, scale=1e-3)


def test_nothing_that_holds_is_not_called_partly():
    claims = (Claim("one is two", "1", False),)
    assert FigureResult("agf-3", "", claims, None, {}).verdict.startswith("not reproduced")


def test_a_folder_belongs_to_one_run(few, tmp_path):
    """A second run would write what the first writes."""
    draft = tmp_path / ".agf-3-killed"
    draft.mkdir()

    def at_the_same_time(name, record):
        with pytest.raises(sw.InputError, match="Another process is writing"):
            reproduce(["agf-3"], tmp_path)

    reproduce(["agf-3"], tmp_path, on_entry=at_the_same_time)
    reproduce(["agf-4"], tmp_path)
    assert not draft.exists()

"""Every code block of the README and of the docs runs, page by page, as a reader would run it."""

import re
import shlex
from pathlib import Path

import jax
import numpy as np
import pytest
from click.testing import CliRunner

from saddlewalk.cli import main
from saddlewalk.sweep.files import load_sweep
from saddlewalk.tasks import public

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
SAYS = {
    "README.md": "order as predicted",
    "docs/losses.md": "order as predicted",
    "docs/saddles.md": "2 of 50 units",
    "docs/regimes.md": "downstream",
    "docs/features.md": "residual",
    "docs/staircase.md": "no staircase is to be expected",
    "docs/api.md": "reproduced",
    "docs/checked.md": "True",
    "docs/howto/pipeline.md": "[0 3]",
    "docs/howto/torch.md": "strict saddle",
    "docs/watch.md": "next drop at step",
}
"""Words that the blocks of a page must print."""
NOT_OURS = ("pip install", "make ", "source ")
"""Commands of other programs, which other tests or CI run."""
OUT = re.compile(r" --out \S+")
ELSEWHERE = {
    OUT.sub("", command)
    for command in re.findall(r"env/bin/(saddlewalk .*)", (ROOT / "Makefile").read_text())
}
"""What `make wheel` runs, which is part of CI, too."""
SWEEP = """
measure = "predict"
setting = "diagonal"
[fixed]
dim = 3
sparsity = 1
[axes]
scale = [1e-2, 1e-3]
"""


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def commands(page):
    """The commands of a page, without comments."""
    for block in blocks(page, "sh"):
        for command in filter(None, (line.split(" #")[0].strip() for line in block.splitlines())):
            if not command.startswith(NOT_OURS):
                yield command


def once():
    """Commands by page; what stands on two pages is run for the first."""
    seen, by_page = set(ELSEWHERE), {}
    for name, page in zip(NAMES, PAGES, strict=True):
        by_page[name] = []
        for command in commands(page):
            plain = command if " sweep " in command else OUT.sub("", command)
            if plain not in seen:
                by_page[name].append(command)
            seen.add(plain)
    return by_page


COMMANDS = once()


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with the files of which the pages speak."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = x @ [2.0, -1.0, 0.0]
    np.savetxt("mine.csv", np.column_stack([x, y]), delimiter=",", header="a,b,c,y", comments="")
    np.savez("mine.npz", X=x, y=y)
    np.savez("moments.npz", Sigma_xx=np.eye(3), Sigma_yx=np.diag([3.0, 2.0, 1.0]))
    np.savez("weights.npz", w=1e-6 * rng.normal(size=(3, 8)), a=1e-6 * rng.normal(size=(3, 3)))
    Path("mine.toml").write_text(SWEEP)
    yield tmp_path
    jax.clear_caches()  # a page compiles much that no other needs


def keep_network(path):
    torch = pytest.importorskip("torch")
    torch.save({"0.weight": torch.randn(4, 3), "2.weight": torch.randn(1, 4)}, path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_blocks_run(name, desk, capsys):
    page = ROOT / name
    if "net.pt" in page.read_text():
        keep_network("net.pt")
    if "step_100.pt" in page.read_text():
        keep_network("step_100.pt")
        keep_network("step_200.pt")
    for k, content in enumerate(blocks(page, "toml")):
        if "measure" in content:
            file = re.search(r"# (\S+\.toml)", content)
            path = desk / (file[1] if file else f"{k}.toml")
            path.write_text(content)
            assert len(load_sweep(path).plan) > 1
    names: dict = {}
    for block in blocks(page, "python"):
        exec(compile(block, name, "exec"), names)
    assert SAYS.get(name, "") in capsys.readouterr().out
    for command in COMMANDS[name]:
        run(command)


def run(command):
    program, *arguments = shlex.split(command)
    assert program == "saddlewalk", command
    if "--images" in arguments and public.find_local("mnist") is None:
        return  # offline and without data the program says so, which has a test of its own
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, f"{command}: {done.output} {done.exception}"


def test_every_language_is_run():
    """No block escapes because of its language."""
    for page in PAGES:
        for language in re.findall(r"^ *```(.*)$", page.read_text(), flags=re.MULTILINE):
            assert language in ("", "python", "sh", "toml", "text"), (page, language)


def test_no_command_is_lost():
    """Each is run on its page, on one before, or from the wheel."""
    run_somewhere = {OUT.sub("", command) for found in COMMANDS.values() for command in found}
    for page in PAGES:
        for command in commands(page):
            assert OUT.sub("", command) in run_somewhere | ELSEWHERE

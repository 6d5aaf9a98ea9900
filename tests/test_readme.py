"""Every Python block of the README and of the docs runs, in order, as a reader would run it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from saddlewalk.sweep.files import load_sweep

README = Path(__file__).parent.parent / "README.md"
SADDLES = README.parent / "docs" / "saddles.md"
REGIMES = README.parent / "docs" / "regimes.md"
SWEEPS = README.parent / "docs" / "sweeps.md"
FEATURES = README.parent / "docs" / "features.md"


def test_python_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 2
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert "order as predicted" in capsys.readouterr().out
    assert (tmp_path / "staircase.png").stat().st_size > 5000


def test_python_blocks_of_the_page_on_saddles(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", SADDLES.read_text(), flags=re.DOTALL)
    exec(compile(block, "saddles.md", "exec"), {})
    assert "2 of 50 units" in capsys.readouterr().out


def test_python_blocks_of_the_page_on_regimes():
    """In a fresh interpreter: what other tests have imported does not help a reader."""
    (block,) = re.findall(r"```python\n(.*?)```", REGIMES.read_text(), flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=True)
    assert "downstream" in done.stdout
    assert "upstream" in done.stdout


def test_python_blocks_of_the_page_on_features(tmp_path):
    pytest.importorskip("torch")
    blocks = re.findall(r"```python\n(.*?)```", FEATURES.read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    code = "\n".join(blocks)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "residual" in done.stdout
    assert (tmp_path / "features.png").stat().st_size > 5000


def test_blocks_of_the_page_on_sweeps(tmp_path):
    (block,) = re.findall(r"```python\n(.*?)```", SWEEPS.read_text(), flags=re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", block], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "scale" in done.stdout
    file, _ = re.findall(r"```toml\n(.*?)```", SWEEPS.read_text(), flags=re.DOTALL)
    (tmp_path / "width.toml").write_text(file)
    assert len(load_sweep(tmp_path / "width.toml").plan) == 45


def test_commands_of_the_readme_exist():
    from saddlewalk.cli import main

    pages = README.read_text() + SADDLES.read_text() + REGIMES.read_text() + SWEEPS.read_text()
    for command in re.findall(r"^saddlewalk (\w+)", pages, flags=re.MULTILINE):
        assert command in main.commands

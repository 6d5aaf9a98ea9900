"""Every Python block of the README runs, in order, as a reader would run it."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_python_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 2
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert "order as predicted" in capsys.readouterr().out
    assert (tmp_path / "staircase.png").stat().st_size > 5000


def test_commands_of_the_readme_exist():
    from saddlewalk.cli import main

    for command in re.findall(r"^saddlewalk (\w+)", README.read_text(), flags=re.MULTILINE):
        assert command in main.commands

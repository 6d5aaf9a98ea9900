"""Notebooks: kept without output, complete, listed, with links that lead somewhere. The docs run them."""

import re
from pathlib import Path

import pytest

from saddlewalk.show import draw

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))


def cells(script):
    """Kind and text of each cell."""
    _, *parts = re.split(r"^# %%", script.read_text(), flags=re.MULTILINE)
    for part in parts:
        head, _, body = part.partition("\n")
        yield head.strip(), body


def prose(script):
    return "\n".join(
        re.sub(r"^# ?", "", body, flags=re.MULTILINE)
        for head, body in cells(script)
        if head == "[markdown]"
    )


def test_all_eight_are_there_and_nothing_else():
    assert len(NOTEBOOKS) == 8
    assert set(FOLDER.iterdir()) - set(NOTEBOOKS) <= {FOLDER / "__pycache__"}, "scripts, no output"
    site = (ROOT / "mkdocs.yml").read_text()
    for script in NOTEBOOKS:
        assert f"notebooks/{script.stem}.md" in site


@pytest.mark.parametrize("script", NOTEBOOKS, ids=lambda script: script.stem)
def test_a_notebook_is_complete(script):
    words = prose(script)
    assert words.lstrip().startswith("# "), "a title"
    assert "**What to look at.**" in words
    assert re.search(r"(\*\*|## )Why ", words), "why it is true"
    assert "## Exercises" in words
    code = [(head, body) for head, body in cells(script) if head != "[markdown]"]
    assert any('tags=["check"]' in head for head, _ in code), "a hidden cell that checks the words"
    for head, body in code:
        compile(body, script.name, "exec")
        draws = re.search(r"plt\.show\(\)|\.plot\(\)|plot_sweep\(\w", body)
        assert bool(draws) == ("alt=" in head), f"a picture and its description: {body}"


@pytest.mark.parametrize("script", NOTEBOOKS, ids=lambda script: script.stem)
def test_links_lead_somewhere(script):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose(script)):
        page = (FOLDER / target).resolve()
        assert page.exists() or page.with_suffix(".py") in NOTEBOOKS, target


def test_a_notebook_shows_what_is_not_saved(monkeypatch, tmp_path):
    """Only in the kernel of a notebook, and only where there is no file."""
    shown = []

    class Kernel:
        kernel = object()

    class IPython:
        get_ipython = Kernel

        class display:  # noqa: N801
            @staticmethod
            def display_png(data, raw):
                shown.append(data)

    figure, _ = draw.new_figure()
    draw.save(figure, None)
    monkeypatch.setitem(draw.sys.modules, "IPython", IPython)
    draw.save(figure, tmp_path / "figure.png")
    assert not shown
    draw.save(figure, None)
    assert shown[0].startswith(b"\x89PNG")

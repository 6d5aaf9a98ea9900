"""The contract of every figure: it is in the registry, says what it shows, and has claims that can fail."""

import importlib
import inspect
import pkgutil
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from saddlewalk import figures
from saddlewalk.figures import ENTRIES, FigureResult

SKELETON = Path(__file__).parent.parent / "docs" / "howto" / "skeletons" / "figure.py"
PAPERS = ("agf", "saddles", "rich", "fact", "studies")


def makes_a_figure(value):
    return (
        inspect.isfunction(value)
        and inspect.signature(value).return_annotation is FigureResult
        and not [p for p in inspect.signature(value).parameters.values() if p.default is p.empty]
    )


def every_maker():
    """Public functions of the papers' folders that return a figure."""
    found = {}
    for paper in PAPERS:
        folder = importlib.import_module(f"saddlewalk.figures.{paper}")
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            for name, value in vars(importlib.import_module(module.name)).items():
                if makes_a_figure(value) and value.__module__ == module.name and name[0] != "_":
                    found[f"{module.name.removeprefix('saddlewalk.figures.')}:{name}"] = value
    return found


def test_every_figure_is_in_the_registry():
    """`saddlewalk reproduce all` runs it, and the gallery shows it."""
    registered = {entry.made_by for entry in ENTRIES.values()}
    missing = set(every_maker()) - registered
    assert not missing, f"add an Entry to figures/registry.py: {sorted(missing)}"


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.made_by])
def test_an_entry_can_be_made_without_arguments_and_says_what_it_shows(name):
    entry = ENTRIES[name]
    required = [
        one.name
        for one in inspect.signature(entry.maker).parameters.values()
        if one.default is one.empty
    ]
    assert not required
    assert len(entry.summary) > 10
    assert entry.paper


def test_the_skeleton_is_a_figure(tmp_path):
    result = runpy.run_path(str(SKELETON))["figure_limit"]()
    assert isinstance(result, FigureResult)
    assert result.verdict == "reproduced"
    result.write(tmp_path)
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_registry_is_read_without_optax():
    """Who has not installed the extra `papers` can reproduce what does not need it."""
    program = "import sys; sys.modules['optax'] = None; from saddlewalk.figures import two_sizes; two_sizes()"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_figure_without_claims_is_refused():
    with pytest.raises(ValueError, match="nothing could fail"):
        FigureResult("agf-3", "nothing", (), None, {})
    assert figures.ENTRIES is ENTRIES

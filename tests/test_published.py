"""What people meet first: reference, glossary, links, citation, paper, templates, one version."""

import importlib
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from click.testing import CliRunner

import saddlewalk as sw
from saddlewalk.cli import main

ROOT = Path(__file__).parent.parent
PACKAGE = Path(sw.__file__).parent
"""Wherever it is installed: a release is tested without its sources."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = [name for name in sw.__all__ if isinstance(getattr(sw, name), ModuleType)]
NUMBERED = {
    "AGF": {"Eq": range(1, 91), "Algorithm": range(1, 4), "Fig": range(1, 9)},
    "S2S": {
        "Eq": range(1, 32),
        "Definition": (1, 2),
        "Theorem": (1, 3, 4),
        "Corollary": (2,),
        "Proposition": (5,),
    },
    "GRQ": {"Theorem": (1, 2, 3, 5, 6, 11, 15), "Fig": range(1, 6)},
    "FACT": {
        "Theorem": ("3.1", "3.4", "D.1"),
        "Proposition": ("5.1", "F.4"),
        "Lemma": ("D.2", "F.1", "F.2"),
    },
}
"""What the papers number, read off them."""


def resolve(path):
    """The object behind a dotted name."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def exported(room):
    """What a room offers by its `__init__`: written `import x as x`."""
    text = Path(importlib.import_module(f"saddlewalk.{room}").__file__).read_text()
    for name in re.findall(r"import (\w+) as \1$", text, flags=re.MULTILINE):
        if not name.startswith("_"):
            yield name


def test_the_reference_is_complete():
    pytest.importorskip("torch", reason="the reference holds what serves PyTorch, too")
    listed = re.findall(r"^::: (\S+)", (ROOT / "docs" / "api.md").read_text(), flags=re.MULTILINE)
    assert len(listed) == len(set(listed))
    known = {id(resolve(path)) for path in listed}
    missing = [
        f"saddlewalk.{room}.{name}"
        for room in ROOMS
        for name in exported(room)
        if id(value := resolve(f"saddlewalk.{room}.{name}")) not in known
        and not isinstance(value, ModuleType)
    ]
    missing += [
        f"saddlewalk.{name}"
        for name in set(sw.__all__) - set(ROOMS) - {"__version__"}
        if id(getattr(sw, name)) not in known
    ]
    lines = "\n".join(f"::: {name}" for name in missing)
    assert not missing, f"these lines are missing in docs/api.md, under their heading:\n{lines}"


def test_the_glossary_speaks_of_what_there_is():
    text = (ROOT / "docs" / "glossary.md").read_text()
    cited = 0
    for row in re.findall(r"^\| \*\*.*$", text, flags=re.MULTILINE):
        paper = ""
        for found in re.finditer(
            r"\b(AGF|S2S|GRQ|FACT)(?=,| [A-Z])|([A-Z][a-z]+) ([A-Z0-9][.0-9]*)", row
        ):
            paper = found[1] or paper
            if found[2] and found[2] in {
                "Eq",
                "Theorem",
                "Proposition",
                "Lemma",
                "Algorithm",
                "Fig",
            }:
                numbers = {str(number) for number in NUMBERED[paper][found[2]]}
                assert found[3] in numbers, (found[0], row)
                cited += 1
        for name in re.findall(r"`sw\.([\w.]+)`", row):
            value = sw
            for part in name.split("."):
                value = getattr(value, part)
        for name in re.findall(r"`(?:problem)\.(\w+)`", row):
            assert hasattr(sw.Problem, name)
        for name in re.findall(r"`(?:stairs)\.(\w+)`", row):
            assert name in vars(sw.Staircase) | sw.Staircase.__dataclass_fields__
    assert cited > 35


def test_links_of_files_outside_the_site():
    for page in (
        *PAGES[:2],
        ROOT / "CHANGELOG.md",
        ROOT / "SECURITY.md",
        ROOT / "paper" / "paper.md",
    ):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)


def test_every_page_is_in_the_navigation():
    site = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs")) in site, page


def flags_of(name):
    """Every flag that a command takes."""
    return {flag for parameter in main.commands[name].params for flag in parameter.opts}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_in_running_text_exist(page):
    """Blocks are run (test_docs.py); what stands within a sentence must exist with its flags."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for command in re.findall(r"`saddlewalk ([a-z][^`]*)`", text):
        name, *words = command.split()
        assert name in main.commands, (page.name, command)
        for flag in (word.partition("=")[0] for word in words if word.startswith("--")):
            assert flag in flags_of(name) | {"--help"}, (page.name, command)


def test_no_command_hides_in_a_block_that_is_not_run():
    for page in PAGES:
        for block in re.findall(r"```text\n(.*?)```", page.read_text(), flags=re.DOTALL):
            assert not re.search(r"^\s*\$?\s*saddlewalk ", block, flags=re.MULTILINE), page


def test_what_make_is_asked_for_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for page in [*PAGES, ROOT / "SECURITY.md"]:
        found = re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), flags=re.MULTILINE)
        assert set(found) <= targets, page


def test_scripts_that_are_named_exist():
    for page in PAGES:
        for script in re.findall(r"python (benchmarks/\w+\.py|\.ci/\w+\.py)", page.read_text()):
            assert (ROOT / script).exists(), (page, script)


def test_one_version():
    """It stands in pyproject.toml; everything else asks the metadata."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert version.split(".dev")[0] == heading[1]
    sources = [*PACKAGE.rglob("*.py")]
    assert len(sources) > 100
    assert not [file for file in sources if re.search(r"__version__ = [\"']", file.read_text())]
    said = CliRunner().invoke(main, ["--version"]).output
    assert sw.__version__ in said


def test_the_citation_file():
    """What `cffconvert --validate` (part of `make release`) would say first."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(cited)
    assert "version" not in cited, "pyproject.toml has it"
    for reference in cited["references"]:
        assert {"type", "title", "authors", "year"} <= set(reference)
        assert all({"family-names", "given-names"} <= set(who) for who in reference["authors"])
    assert cited["license"] == "MIT"


def test_the_paper():
    text = (ROOT / "paper" / "paper.md").read_text()
    _, head, body = text.split("---\n", 2)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(
        yaml.safe_load(head)
    )
    cited = set(re.findall(r"@([\w]+)", body))
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(), re.MULTILINE)
    assert cited == set(entries)
    headings = ("Summary", "Statement of need", "State of the field", "Software design")
    for heading in (*headings, "Research impact statement", "References"):
        assert f"\n# {heading}\n" in text


def rows(page, first):
    """Cells of the rows of a table that begin with these words."""
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith(f"| {first}"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_numbers_of_the_paper_are_those_of_the_docs():
    for first in ("diagonal linear", "two-layer linear", "linear attention", "quadratic, modular"):
        (ours,), (theirs,) = rows("paper/paper.md", first), rows("docs/index.md", first)
        assert (ours[2], ours[3]) == (theirs[2], theirs[4])
    (accuracy,) = rows("paper/paper.md", "accuracy")
    table = (ROOT / "benchmarks" / "tables.md").read_text().split("## ")[1]
    assert all(f"| {number} |" in table for number in accuracy[1:])


def test_issue_templates():
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    forms = [
        yaml.safe_load(file.read_text()) for file in folder.glob("*.yml") if file.stem != "config"
    ]
    assert len(forms) == 3
    for form in forms:
        assert {"name", "description", "body"} <= set(form)
        identifiers = [field["id"] for field in form["body"]]
        assert len(set(identifiers)) == len(identifiers)


def test_whatever_is_vendored_has_its_license_beside_it():
    for folder in (PACKAGE, ROOT / "docs"):
        vendored = [*folder.rglob("vendor/*")]
        assert vendored
        for file in vendored:
            assert file.with_name(f"{file.name.split('.')[0]}.LICENSE").exists(), file


def test_every_file_that_contributors_are_sent_to_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`([\w/]+/[\w/]+\.py)`", text)
    assert len(named) > 20
    roots = (ROOT, PACKAGE)
    assert not [name for name in named if not any((root / name).exists() for root in roots)]

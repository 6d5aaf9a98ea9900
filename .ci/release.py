"""Everything about a release that a machine can check; `make release` runs it. Publishing is a person's step.

python .ci/release.py                              wheel and sdist, on every supported Python that is here
python .ci/release.py --tests tests/test_cli.py    with these tests instead of all quick ones
"""

import argparse
import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "release"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11", "3.12", "3.13")
UNWANTED = re.compile(r"(^|/)(results|build|__pycache__|\.\w+_cache|\.venv|.*\.(pyc|nc|zarr))(/|$)")
QUICK = ("-q", "-m", "not slow", "--numprocesses=2", "--dist=loadfile")
TOOLS = ("build", "twine>=6.1", "cffconvert")


def main() -> None:
    """Build, look at what was built, try it."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tests", nargs="*", default=["tests"], help="files or folders of tests")
    options.add_argument("--pythons", nargs="*", default=PYTHONS, help="versions to be tried")
    given = options.parse_args()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True, exist_ok=True)
    tools = environment(sys.executable, "tools", *TOOLS)
    run(tools, "-m", "build", "--outdir", str(OUT), str(ROOT))
    (sdist,), (wheel,) = OUT.glob("*.tar.gz"), OUT.glob("*.whl")
    say(f"built {sdist.name} and {wheel.name}")
    run(tools, "-m", "twine", "check", "--strict", str(sdist), str(wheel))
    citation = str(ROOT / "CITATION.cff")
    run(str(Path(tools).with_name("cffconvert")), "--validate", "--infile", citation)
    faults = [*faults_of_wheel(wheel), *faults_of_sdist(sdist)]
    if faults:
        raise SystemExit("\n".join(faults))
    say("contents, licenses and metadata are as they should be")
    bench = unpacked(sdist)
    found = {version: interpreters(version) for version in given.pythons}
    pythons = {v: next(filter(starts, candidates), None) for v, candidates in found.items()}
    if not any(pythons.values()):
        raise SystemExit(
            f"None of the Pythons {', '.join(given.pythons)} is here: nothing was tried."
        )
    for version, python in pythons.items():
        if python is not None:
            try_wheel(python, version, wheel, bench, given.tests)
            say(f"tests passed from the wheel on Python {version}")
    for version in (version for version, python in pythons.items() if python is None):
        why = "found, but does not start" if found[version] else "not installed here"
        say(f"not tried: Python {version} ({why})")
    if "urls" not in PROJECT:
        say("no [project.urls]: links and picture of the README lead nowhere on a package index")
    say(next_steps(sdist, wheel))


def interpreters(version: str) -> list[str]:
    """Pythons of that version: the one on the path, and those that pyenv has built."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    known = shutil.which(f"python{version}")
    return [
        *([known] if known else []),
        *map(str, sorted(home.glob(f"{version}.*/bin/python{version}"), reverse=True)),
    ]


def starts(python: str) -> bool:
    """Whether it runs at all: a shim of pyenv may stand for a version that is switched off."""
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def try_wheel(python: str, version: str, wheel: Path, bench: Path, tests: list[str]) -> None:
    """Install the wheel into an empty environment, do what a stranger does first, then test it."""
    mine = environment(python, version, str(wheel))
    first, page = OUT / f"first-{version}", OUT / f"explore-{version}.html"
    run(mine, "-m", "saddlewalk", "compare", "diagonal", "--out", str(first), cwd=bench)
    if not (first / "figure.png").stat().st_size:
        raise SystemExit(f"Python {version}: the first command left no picture.")
    run(mine, "-m", "saddlewalk", "explore", "--no-open", "--out", str(page), cwd=bench)
    for fault in faults_of_page(page):
        raise SystemExit(f"Python {version}: {fault}")
    install(mine, f"{wheel}[test]")
    where = "import saddlewalk; print(saddlewalk.__file__)"
    found = run(mine, "-c", where, cwd=bench, capture_output=True, text=True).stdout
    if "site-packages" not in found:
        raise SystemExit(f"Python {version} would test {found.strip()}, and not the wheel.")
    run(mine, "-m", "pytest", *QUICK, *tests, cwd=bench)


def environment(python: str, name: str, *packages: str) -> str:
    """A Python of an environment of its own, with these packages."""
    folder = OUT / "environments" / name
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    mine = str(folder / "bin" / "python")
    install(mine, *packages)
    return mine


def install(python: str, *packages: str) -> None:
    """Into the environment of this Python."""
    run(python, "-m", "pip", "install", "--quiet", "--quiet", *packages)


def unpacked(sdist: Path) -> Path:
    """What the sdist holds, without the sources: tests there can only find the wheel."""
    with tarfile.open(sdist) as archive:
        archive.extractall(OUT / "bench", filter="data")
    (bench,) = (OUT / "bench").iterdir()
    shutil.rmtree(bench / "src")
    return bench


def faults_of_wheel(wheel: Path) -> Iterator[str]:
    """What the wheel lacks, or should not have."""
    names = zipfile.ZipFile(wheel).namelist()
    package = ROOT / "src"
    wanted = {name.removeprefix("src/") for name in tracked("src/saddlewalk")}
    yield from (f"The wheel lacks {name}." for name in sorted(wanted - set(names)))
    for name in names:
        if UNWANTED.search(name) or not name.startswith("saddlewalk"):
            yield f"The wheel holds {name}, which does not belong there."
        if "/vendor/" in name and not name.endswith(".LICENSE"):
            license = Path(name).with_name(Path(name).name.split(".")[0] + ".LICENSE")
            if not (package / license).exists():
                yield f"{name} is somebody else's work: its license is to stand beside it as {license}."
    metadata = email.message_from_bytes(zipfile.ZipFile(wheel).read(metadata_of(names)))
    if metadata["Version"] != PROJECT["version"] or metadata["License-Expression"] != "MIT":
        yield f"The wheel says version {metadata['Version']}, license {metadata['License-Expression']}."
    if not metadata.get_payload().startswith("# saddlewalk"):
        yield "The long description is not the README."


def faults_of_page(page: Path) -> Iterator[str]:
    """What the page of the explorer lacks that was made where nothing but the wheel is installed."""
    text = page.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    if data is None or "uPlot" not in text:
        yield "the page of the explorer has no data, or no charts."
        return
    networks = json.loads(data[1])["networks"]
    if [network["name"] for network in networks] != ["diagonal", "linear", "attention"]:
        yield "the page of the explorer has other networks than it should have."
    if any("error" in cell for network in networks for cell in network["cells"]):
        yield "a run of the page of the explorer could not be made."
    if page.stat().st_size > 3e6:
        yield f"the page of the explorer has {page.stat().st_size / 1e6:.1f} MB."


def metadata_of(names: list[str]) -> str:
    """The file with the metadata."""
    return next(name for name in names if name.endswith(".dist-info/METADATA"))


def faults_of_sdist(sdist: Path) -> Iterator[str]:
    """What the sdist lacks, or should not have."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = ("pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md")
    wanted += (*tracked("src"), *tracked("tests"))
    yield from (f"The sdist lacks {name}." for name in wanted if name not in names)
    yield from (f"The sdist holds {name}." for name in sorted(names) if UNWANTED.search(name))
    if sdist.stat().st_size > 12e6:
        yield f"The sdist has {sdist.stat().st_size / 1e6:.0f} MB: what has come into it?"


def tracked(folder: str) -> list[str]:
    """Files that git keeps there."""
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True)
    return listed.stdout.splitlines()


def next_steps(sdist: Path, wheel: Path) -> str:
    """What a person does now."""
    version = PROJECT["version"]
    if "dev" in version:
        return (
            f"{version} is no release: take `.dev` off in pyproject.toml first (docs/releasing.md)."
        )
    return (
        f"What a person does now (docs/releasing.md): look at the pictures, then\n"
        f"  git tag v{version} && git push origin v{version}\n"
        f"  python -m twine upload {sdist.relative_to(ROOT)} {wheel.relative_to(ROOT)}"
    )


def run(*command: str, cwd: Path = ROOT, **how: Any) -> "subprocess.CompletedProcess[str]":
    """A command that must succeed, with nothing of this tree on the path."""
    names = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=names, **how)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")
    return done


def say(words: str) -> None:
    """A line that stands out."""
    print(f"release: {words}", flush=True)


if __name__ == "__main__":
    main()

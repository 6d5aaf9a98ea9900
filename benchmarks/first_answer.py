"""What a first answer costs: CPU seconds (user and system) of commands in processes of their own.

Every setting at its default size, predicted and compared, with all that a new process has to do: import and
compile. The best of two runs. Writes benchmarks/first_answer.json and benchmarks/first_answer.md.

`python benchmarks/first_answer.py predict attention` measures the commands that hold all of these words and
keeps the others; `--before PATH` measures the package in another folder `src` as the one to compare with.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from saddlewalk.settings import SETTINGS

HERE = Path(__file__).parent
REPEAT = 2
COMMANDS = {
    "import saddlewalk": ["-c", "import saddlewalk"],
    "saddlewalk --help": ["-m", "saddlewalk", "--help"],
    **{
        f"predict {name}": ["-m", "saddlewalk", "predict", name, "--method", "numeric"]
        for name in SETTINGS
    },
    **{f"compare {name}": ["-m", "saddlewalk", "compare", name] for name in SETTINGS},
}
MARKS = {"predict": 4.0, "compare": 6.0}
"""Seconds that a command may take."""
THIRD = "modular-addition"
"""The setting whose mark is a third of what it took before."""


def once(command, source):
    """CPU and wall seconds of one new process, and of those it starts."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=environment,
            cwd=tempfile.gettempdir(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{errors.read().decode()}")
    return {"cpu_s": used.ru_utime + used.ru_stime, "wall_s": time.perf_counter() - start}


def measure(name, source):
    """The fastest of some runs, by CPU time."""
    runs = [once(COMMANDS[name], source) for _ in range(REPEAT)]
    best = min(runs, key=lambda run: run["cpu_s"])
    print(f"{name}: {best['cpu_s']:.2f} s", file=sys.stderr, flush=True)
    return best


def version_of(source):
    """The version of a package in a folder `src`, with its commit where git knows it."""
    project = (source.parent / "pyproject.toml").read_text()
    version = next(line for line in project.splitlines() if line.startswith("version"))
    asked = ["git", "-C", str(source), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return {"version": version.split('"')[1], "commit": commit}


def mark_of(name, before):
    verb, _, setting = name.partition(" ")
    if verb not in MARKS:
        return None
    if setting == THIRD:
        return before["cpu_s"] / 3 if before else None
    return MARKS[verb]


def table(known):
    lines = [
        "| command | before | now | before / now | mark | kept |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    old, new = (known.get(part, {}).get("runs", {}) for part in ("before", "now"))
    for name in COMMANDS:
        then, now = old.get(name), new.get(name)
        mark = mark_of(name, then)
        cells = [name]
        cells += [f"{run['cpu_s']:.2f}" if run else "" for run in (then, now)]
        cells += [f"{then['cpu_s'] / now['cpu_s']:.1f}" if then and now else ""]
        cells += [f"{mark:.1f}" if mark else ""]
        cells += [("yes" if now["cpu_s"] <= mark else "no") if mark and now else ""]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(known):
    names = {
        part: " at ".join(filter(None, (known[part]["version"], known[part]["commit"])))
        for part in ("before", "now")
        if part in known
    }
    return (
        "# What a first answer costs\n\nMade by `benchmarks/first_answer.py`: CPU seconds (user and system) "
        "of commands in new processes, with import and compilation, the better of two runs "
        "(the second finds the programs that the first has kept). Predictions "
        "are `saddlewalk predict SETTING --method numeric`, comparisons `saddlewalk compare SETTING`, both "
        "at the default size. The mark is 4 s for a prediction and 6 s for a comparison, and a third of "
        f"what it was for modular addition. Before: version {names.get('before', '(not measured)')}; now: "
        f"{names.get('now', '(not measured)')}.\n\n{table(known)}\n"
    )


def main(words):
    """All commands, or those that hold all of the given words; what is known stays."""
    part, source = "now", HERE.parent / "src"
    if "--before" in words:
        place = words.index("--before")
        part, source = "before", Path(words[place + 1]).resolve()
        words = words[:place] + words[place + 2 :]
    file = HERE / "first_answer.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    runs = known.get(part, {}).get("runs", {}) if words else {}
    for name in COMMANDS:
        if all(word in name.split() for word in words):
            runs[name] = measure(name, source)
            known[part] = {**version_of(source), "runs": runs}
            file.write_text(json.dumps(known, indent=1) + "\n")
            (HERE / "first_answer.md").write_text(page(known))


if __name__ == "__main__":
    main(sys.argv[1:])

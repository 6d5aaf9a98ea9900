"""What a command leaves behind: one JSON object on stdout, or a table, and a result folder."""

import hashlib
import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from saddlewalk import store


def show(result: Any, record: dict[str, Any], as_json: bool) -> None:
    """Print a result for a program or for a person."""
    click.echo(json.dumps(record, allow_nan=False) if as_json else str(result))


def reserve_folder(out: str, force: bool) -> None:
    """Keep the folder until this command ends: of two at once, the second is refused at its start."""
    click.get_current_context().call_on_close(store.reserve_folder(out, force))


def write_folder(
    out: str, force: bool, result: Any, record: dict[str, Any], config: dict[str, Any], seen: Any
) -> None:
    """Result file, figure as PNG and SVG, page of the run, the exact configuration, versions, seed."""
    from saddlewalk.explore import network_of_run, write_page

    with store.new_folder(out, force) as folder:
        result.save(folder / "result.nc")
        result.plot(folder / "figure.png")
        result.plot(folder / "figure.svg")
        store.write_json(record, folder / "result.json")
        network = network_of_run(seen, config["setting"], command_line())
        write_page([network], folder / "explore.html", f"saddlewalk: {config['setting']}")
        store.write_json(provenance(config), folder / "config.json")
    note_folder(out)


def note_folder(out: str) -> None:
    """Which files a result folder has."""
    note(
        f"wrote {Path(out)}/ ({', '.join(one for one in store.FOLDER if Path(out, one).exists())})"
    )


def note(message: str) -> None:
    """A line for the person at the terminal, never on stdout."""
    click.echo(message, err=True)


def command_line() -> str:
    """The command as it was given, as a shell would take it again."""
    return shlex.join(["saddlewalk", *sys.argv[1:]])


def fingerprint(file: str | Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def provenance(config: dict[str, Any]) -> dict[str, Any]:
    """Configuration, command, data and versions behind a result."""
    data, start = config.get("data"), config.get("start")
    return {
        "configuration": config,
        "command": command_line(),
        "data_sha256": fingerprint(data) if data else None,
        **({"start_sha256": fingerprint(start)} if start else {}),
        "versions": store.versions(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }

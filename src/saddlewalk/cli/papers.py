"""`saddlewalk reproduce`: figures and tables of the papers."""

import json
import os
from typing import Any

import click

from saddlewalk.cli.results import note, show
from saddlewalk.errors import InputError


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="list | all | NAME...")
@click.option("--full", is_flag=True, help="The paper's size, where the default is smaller (GPU).")
@click.option(
    "--out",
    type=click.Path(),
    default="results/reproduce",
    show_default=True,
    help="Folder of the results; finished entries in it are not run again.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=min(2, os.cpu_count() or 1),
    help="Processes at a time; by default 2, or 1 on a single core.",
)
@click.option("--again", is_flag=True, help="Run finished entries, too.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def reproduce(
    names: tuple[str, ...], full: bool, out: str, jobs: int, again: bool, as_json: bool
) -> None:
    """Redraw figures and tables of the papers, check their claims, and keep a scorecard.

    `list` names them, `all` runs all of them. Stop it at any time: the same command goes on from there.
    Look at OUT/index.html.
    """
    from saddlewalk.figures import ENTRIES
    from saddlewalk.figures import reproduce as make

    if names == ("list",):
        lines = {
            name: f"{entry.paper}, {entry.place}: {entry.summary}"
            + (" (a drawing, not run)" if entry.drawing else "")
            for name, entry in ENTRIES.items()
        }
        widest = max(map(len, lines))
        shown = [f"{name:{widest}}  {words}" for name, words in lines.items()]
        click.echo(json.dumps(lines) if as_json else "\n".join(shown))
        return
    if len(names) > 1 and {"all", "list"} & set(names):
        raise InputError("`list` and `all` stand alone: leave out the other names.")
    wanted = list(ENTRIES) if names == ("all",) else list(names)
    run: list[str] = []

    def told(name: str, record: dict[str, Any]) -> None:
        run.append(name)
        note(f"{name}: {record['verdict']}")

    note(f"{len(wanted)} entries, {jobs} at a time, into {out}")
    try:
        card = make(wanted, out, full=full, jobs=jobs, again=again, told=told)
    except KeyboardInterrupt:
        note(f"stopped; what is done is kept in {out}, and the same command goes on from there")
        raise
    kept = [name for name in wanted if name not in run and not ENTRIES[name].drawing]
    if kept:
        note(f"kept from before, by the same code and data (--again runs them): {', '.join(kept)}")
    asked = card if names == ("all",) else card.only(wanted)
    show(asked, asked.to_json(), as_json)
    note(f"wrote {out}/index.html and scorecard.json, and a folder for each entry")

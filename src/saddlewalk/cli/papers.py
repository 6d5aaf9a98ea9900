"""`saddlewalk reproduce`: figures and tables of the papers."""

import json
import os

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
        told = {
            name: f"{entry.paper}, {entry.place}: {entry.summary}"
            for name, entry in ENTRIES.items()
        }
        widest = max(map(len, told))
        lines = [f"{name:{widest}}  {words}" for name, words in told.items()]
        click.echo(json.dumps(told) if as_json else "\n".join(lines))
        return
    if len(names) > 1 and {"all", "list"} & set(names):
        raise InputError("Give `list`, `all`, or names of entries.")
    wanted = list(ENTRIES) if names == ("all",) else list(names)
    card = make(
        wanted,
        out,
        full=full,
        jobs=jobs,
        again=again,
        told=lambda name, record: note(f"{name}: {record['verdict']}"),
    )
    shown = card if names == ("all",) else card.only(wanted)
    show(shown, shown.to_json(), as_json)
    note(f"wrote {out}/index.html and scorecard.json, and a folder for each entry")

"""`saddlewalk reproduce`: figures and tables of the papers."""

import json
import os
from collections.abc import Callable
from typing import Any

import click

from saddlewalk.cli.results import note, show
from saddlewalk.errors import InputError
from saddlewalk.interrupts import answering_interrupts


def _renamed(old: str, new: str, **kind: Any) -> Callable:
    """An option under the name that it had: refused with the name that it has."""

    def refuse(context: click.Context, option: click.Parameter, value: Any) -> None:
        if value:
            raise InputError(f"{old} is now {new}.")

    return click.option(old, hidden=True, expose_value=False, callback=refuse, **kind)


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
    "--workers",
    type=click.IntRange(1),
    default=min(2, os.cpu_count() or 1),
    help="Processes at a time; by default 2, or 1 on a single core.",
)
@click.option("--rerun", is_flag=True, help="Run finished entries, too.")
@_renamed("--jobs", "--workers", nargs=1)
@_renamed("--again", "--rerun", is_flag=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def reproduce(
    names: tuple[str, ...], full: bool, out: str, workers: int, rerun: bool, as_json: bool
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
        table = [f"{name:{widest}}  {words}" for name, words in lines.items()]
        click.echo(json.dumps(lines) if as_json else "\n".join(table))
        return
    if len(names) > 1 and {"all", "list"} & set(names):
        raise InputError("`list` and `all` stand alone: leave out the other names.")
    wanted = list(ENTRIES) if names == ("all",) else list(names)
    made: list[str] = []

    def on_entry(name: str, record: dict[str, Any]) -> None:
        made.append(name)
        note(f"{name}: {record['verdict']}")

    note(f"{len(wanted)} entries, {workers} at a time, into {out}")
    try:
        with answering_interrupts():
            card = make(wanted, out, full=full, workers=workers, rerun=rerun, on_entry=on_entry)
    except KeyboardInterrupt:
        note(f"stopped; what is done is kept in {out}, and the same command goes on from there")
        raise
    kept = [name for name in wanted if name not in made and not ENTRIES[name].drawing]
    if kept:
        note(f"kept from before, by the same code and data (--rerun runs them): {', '.join(kept)}")
    shown = card if names == ("all",) else card.only(wanted)
    show(shown, shown.to_json(), as_json)
    note(f"wrote {out}/index.html and scorecard.json, and a folder for each entry")

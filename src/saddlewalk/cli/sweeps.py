"""`saddlewalk sweep`: measurements over many configurations."""

from collections import Counter
from typing import Any

import click

from saddlewalk.cli.results import note, show
from saddlewalk.interrupts import answering_interrupts

_MOST_ERRORS = 5


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--out", required=True, help="Folder of the results (Zarr); the same sweep is resumed."
)
@click.option("--workers", type=click.IntRange(1), help="Processes of a local cluster.")
@click.option("--scheduler", help="Address of a running Dask scheduler, as tcp://host:8786.")
@click.option(
    "--lanes",
    type=click.IntRange(1),
    help="Cells of one shape that run together; by default the faster of one and many, by trying.",
)
@click.option("--retry", is_flag=True, help="Run cells that failed once more.")
@click.option("--yes", is_flag=True, help="Yes, more than a million cells are meant.")
@click.option("--figure", help="Draw --show into this file, .png or .svg.")
@click.option(
    "--show", "shown", help="Variable of the figure; by default the first that is measured."
)
@click.option("--x", help="Axis of the figure.")
@click.option("--y", help="Second axis of the figure, a heat map.")
@click.option("--threshold", type=float, help="Contour of the heat map.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else.")
def sweep(
    file: str,
    out: str,
    workers: int | None,
    scheduler: str | None,
    lanes: int | None,
    retry: bool,
    yes: bool,
    as_json: bool,
    figure: str | None,
    shown: str | None,
    x: str | None,
    y: str | None,
    threshold: float | None,
) -> None:
    """Measure every configuration that FILE (TOML or YAML) asks for, and keep it in a labeled store.

    FILE may be the name of a study that comes with the package: agf-3, depth-scale, loss-scale,
    optimizer-scale, rate-scale, rich-1b, saddle-2-attention, saddle-2-linear, width-scale.

    A sweep that was stopped goes on where it was. Look at the results with xarray.open_zarr(OUT), also while
    it runs.
    """
    from saddlewalk.sweep import sweep as run
    from saddlewalk.sweep.files import load_sweep
    from saddlewalk.sweep.pictures import plot_sweep

    asked = load_sweep(file)
    engine: dict[str, Any] = {"workers": workers, "scheduler": scheduler, "lanes": lanes}
    try:
        with answering_interrupts():
            found = run(asked.measure, asked.plan, out, **engine, retry=retry, confirmed=yes)
    except KeyboardInterrupt:
        note(f"stopped; what is done is kept in {out}, and the same command goes on from there")
        raise
    status = found["status"].values
    counts = {
        "cells": int(status.size),
        "done": int((status == 1).sum()),
        "failed": int((status == 2).sum()),
    }
    measured = [str(name) for name in found.attrs.get("measured", [])]
    errors = Counter(str(words) for words in found["error"].values.ravel() if words)
    record = {
        "store": out,
        "dims": dict(found["status"].sizes),
        **counts,
        "variables": measured,
        "errors": dict(errors.most_common(_MOST_ERRORS)),
    }
    show(_told(record), record, as_json)
    if figure is not None and measured:
        plot_sweep(found, shown or measured[0], figure, x, y, threshold)
        note(f"wrote {figure}")
    if counts["done"] == 0:
        raise click.exceptions.Exit(1)


def _told(record: dict[str, Any]) -> str:
    size = " x ".join(f"{length} {name}" for name, length in record["dims"].items())
    lines = [f"{record['store']}: {size}, {record['done']} of {record['cells']} cells done"]
    if record["variables"]:
        lines.append(f"measured: {', '.join(record['variables'])}")
    if record["failed"]:
        lines.append(f"{record['failed']} failed (--retry runs them once more):")
        lines += [f"  {count} x {words}" for words, count in record["errors"].items()]
    return "\n".join(lines)

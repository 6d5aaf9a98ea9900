"""`watch`: what a watch would have said of a training whose checkpoints were kept."""

from typing import Any

import click

from saddlewalk import store
from saddlewalk.cli.results import fingerprint, note, note_folder, provenance, reserve_folder, show
from saddlewalk.errors import import_extra


@click.command()
@click.argument("checkpoints", nargs=-1, required=True, type=click.Path())
@click.option("--data", required=True, help=".npz with X and y, or .csv: data it was trained on.")
@click.option(
    "--loss",
    default="mse",
    show_default=True,
    help="mse (mean over outputs), squared (half their sum), cross-entropy (labels), logistic, huber.",
)
@click.option("--activation", help="Between the layers, where files hold weights alone.")
@click.option(
    "--optimizer",
    help="sgd, adam, adamw, nadam, radam or rmsprop, where files do not say by its state.",
)
@click.option(
    "--rate",
    type=float,
    help="Its learning rate, also instead of the one in the files; without any nothing is forecast.",
)
@click.option(
    "--momentum", type=float, default=0.0, show_default=True, help="Of sgd, where files do not say."
)
@click.option("--out", help="Folder for result, figure and configuration.")
@click.option("--force", is_flag=True, help="Replace a result folder that exists.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def watch(
    checkpoints: tuple[str, ...],
    data: str,
    out: str | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Tell from CHECKPOINTS (.pt) where a training was, what grew, and when the loss would drop.

    The step of each is the last whole number in its name.
    """
    if out is not None:
        reserve_folder(out, force)
    import_extra("torch", "Checkpoints", "torch")
    import warnings

    from saddlewalk.tasks.files import load_samples
    from saddlewalk.watch.checkpoints import watch_checkpoints

    x, y = load_samples(data)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = watch_checkpoints(checkpoints, x, y, **options)
    for message in dict.fromkeys(str(one.message) for one in told if one.category is UserWarning):
        note(f"warning: {message}")
    show(found, found.to_json(), as_json)
    if out is not None:
        with store.new_folder(out, force) as folder:
            found.save(folder / "result.nc")
            found.plot(folder / "figure.png")
            found.plot(folder / "figure.svg")
            store.write_json(found.to_json(), folder / "result.json")
            config = {"checkpoints": list(checkpoints), "data": data, **options}
            config["checkpoints_sha256"] = [fingerprint(one) for one in checkpoints]
            store.write_json(provenance(config), folder / "config.json")
        note_folder(out)

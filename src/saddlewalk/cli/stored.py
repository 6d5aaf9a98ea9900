"""`diagnose` for a PyTorch network in a file: features at convergence on the user's data."""

from typing import Any

import click
from click.core import ParameterSource

from saddlewalk import store
from saddlewalk.cli.results import fingerprint, note_folder, provenance, reserve_folder, show
from saddlewalk.errors import InputError, import_extra

_OF_STORED = {"weight_decay", "image"}


def refuse_foreign(stored: bool) -> None:
    """Options that say nothing about what is looked at: a stored network, or a run that is simulated."""
    context = click.get_current_context()
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    common = {"setting", "data", "activation", "loss", "out", "force", "as_json"}
    foreign = sorted(given - common - _OF_STORED if stored else given & _OF_STORED)
    if foreign:
        what = "a stored network" if stored else "a setting that is simulated"
        raise InputError(f"--{foreign[0].replace('_', '-')} says nothing about {what}.")


def _as_images(x: Any, image: str) -> Any:
    try:
        shape = tuple(int(length) for length in image.replace("x", ",").split(","))
        return x.reshape(len(x), *shape)
    except ValueError as error:
        raise InputError(
            f"--image must be the shape of one input, as 28,28 or 3,32,32, with {x[0].size} numbers; got "
            f"'{image}'."
        ) from error


def diagnose_stored(
    options: dict[str, Any], loss: str, weight_decay: float | None, image: str | None
) -> None:
    """Features of a stored network on a data file."""
    if options["data"] is None:
        raise InputError(
            "A stored network is looked at on data: give --data FILE (.npz with X and y, or .csv)."
        )
    if options["out"] is not None:
        reserve_folder(options["out"], options["force"])
    import_extra("torch", "Stored networks", "torch")
    from saddlewalk.features.stored import stored_features
    from saddlewalk.tasks.files import load_samples

    x, y = load_samples(options["data"])
    if image is not None:
        x = _as_images(x, image)
    settings = {
        "activation": options["activation"],
        "loss": loss,
        "weight_decay": weight_decay,
    }
    found = stored_features(options["setting"], x, y, **settings)
    shape = x.shape[1:] if x.ndim > 2 else None
    show(found, found.to_json(), options["as_json"])
    if options["out"] is not None:
        with store.new_folder(options["out"], options["force"]) as folder:
            found.plot(folder / "figure.png", image=shape)
            found.plot(folder / "figure.svg", image=shape)
            found.save(folder / "result.nc")
            store.write_json(found.to_json(), folder / "result.json")
            config = {"network": options["setting"], "data": options["data"], "image": image}
            config |= {"network_sha256": fingerprint(options["setting"]), **settings}
            store.write_json(provenance(config), folder / "config.json")
        note_folder(options["out"])

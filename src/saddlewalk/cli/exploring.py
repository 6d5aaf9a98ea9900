"""`saddlewalk explore`: a page for the browser."""

import contextlib
import json
import warnings
import webbrowser
from pathlib import Path
from typing import Any

import click

from saddlewalk import store
from saddlewalk.cli.options import run_from_flags, takes_options
from saddlewalk.cli.results import note
from saddlewalk.errors import InputError, nearest
from saddlewalk.settings.catalog import SETTINGS
from saddlewalk.show.progress import Progress

_RESULT = "result.nc"


@click.command()
@click.argument("what", nargs=-1, metavar="[STORE | FOLDER | SETTING]...")
@takes_options
@click.option(
    "--out", default="explore.html", show_default=True, type=click.Path(), help="File of the page."
)
@click.option("--no-open", is_flag=True, help="Write the page, and do not open it.")
def explore(what: tuple[str, ...], out: str, no_open: bool, **options: Any) -> None:
    """Write one page that shows networks as they learn, and open it in the browser.

    Without arguments: diagonal and linear networks whose sliders are live, and a sweep made on the spot.
    Give the store of a sweep, folders that --out has written, or settings with their options; several of them
    share a page. The page needs no server and no network, and can be sent to others.
    """
    from saddlewalk.explore import default_networks, write_page

    given = {name: value for name, value in options.items() if value is not None}
    settings = [one for one in what if one in SETTINGS and not Path(one).is_dir()]
    if given and len(settings) != 1:
        name = "--" + next(iter(given)).replace("_", "-")
        raise InputError(
            f"{name} goes with one setting, as `saddlewalk explore diagonal {name} ...`."
        )
    store.check_file_free(out)
    with Progress("explore") as bar:
        if not what:
            networks = default_networks(bar.update)
        else:
            networks = [_network(one, given if one in settings else {}, bar) for one in what]
    title = "saddlewalk" if len(networks) != 1 else f"saddlewalk: {networks[0]['name']}"
    page = write_page(networks, out, title)
    note(f"wrote {page} ({page.stat().st_size / 1e6:.2g} MB)")
    if not no_open and not webbrowser.open(page.resolve().as_uri()):
        note(f"no browser answers here: open {page} yourself")


def _network(what: str, options: dict[str, Any], bar: Progress) -> dict[str, Any]:
    from saddlewalk.explore import network_of_run, network_of_setting, network_of_store
    from saddlewalk.explore.stores import is_store

    path = Path(what)
    if path.is_dir() and is_store(path):
        return network_of_store(_results_in(path), path.name)
    if path.is_dir():
        return network_of_run(*_run_in(path))
    if path.is_file() and path.suffix == ".nc":
        return network_of_run(_loaded(path), path.stem)
    if path.exists():
        raise InputError(
            f"{what} is a file; explore takes the store of a sweep, a folder of results, or a setting."
        )
    if what not in SETTINGS:
        raise InputError(
            f"There is no folder {what}, and no setting of that name.{nearest(what, SETTINGS)}"
        )
    return network_of_setting(run_from_flags(what, options), told=bar.update)


def _results_in(folder: Path) -> Any:
    from saddlewalk.sweep.results import open_results

    try:
        with warnings.catch_warnings():  # of a folder that is no store at all
            warnings.simplefilter("ignore")
            return open_results(folder)
    except (KeyError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{folder} is no store of a sweep: it cannot be read ({error!r:.80})."
        ) from error


def _run_in(folder: Path) -> tuple[Any, str, str]:
    """The run in a folder of results, its name, and the command that made it."""
    if not (folder / _RESULT).is_file():
        raise InputError(
            f"{folder} is neither the store of a sweep nor a folder of results: it has no {_RESULT}. Give "
            "what `saddlewalk sweep --out` or `saddlewalk compare --out` has written."
        )
    command = ""
    with contextlib.suppress(
        OSError, ValueError, KeyError
    ):  # a page without its command is still a page
        command = str(json.loads((folder / "config.json").read_text())["command"])
    return _loaded(folder / _RESULT), folder.resolve().name, command


def _loaded(file: Path) -> Any:
    """A result that knows a run; of others it is said what they are."""
    from saddlewalk.agreement import Agreement
    from saddlewalk.diagnose.phases import Phases
    from saddlewalk.flow import Trajectory
    from saddlewalk.theory import Staircase

    kinds = {one.result_kind: one for one in (Agreement, Trajectory, Staircase, Phases)}
    kind = store.kind_of(file)
    if kind not in kinds:
        raise InputError(
            f"{file} holds {kind!r}, in which there is no run to show; explore shows {', '.join(kinds)}."
        )
    return kinds[kind].load(file)

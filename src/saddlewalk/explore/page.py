"""One file for a browser: data, charts, styles and program in one page that asks nobody for anything."""

import html
import json
import math
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from saddlewalk.errors import InputError
from saddlewalk.explore.runs import Record
from saddlewalk.store import replacing

_HOME = Path(__file__).parent / "page"
_STYLES = ("vendor/uPlot.min.css", "style.css")
_PROGRAMS = (
    "vendor/uPlot.iife.min.js",
    "data.js",
    "flow.js",
    "staircase.js",
    "live.js",
    "charts.js",
    "panels.js",
    "main.js",
)
PAGE = "explore.html"
"""Name of the page in a folder of results."""


def write_page(networks: Iterable[Record], path: str | Path, title: str = "saddlewalk") -> Path:
    """Write the page, whole or not at all.

    Parameters
    ----------
    networks : what `network_of_run`, `network_of_setting` or `network_of_store` made.
    path : the file.
    title : of the page.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder; give a file for the page, as {target / PAGE}.")
    words = page_of(networks, title)
    try:
        with replacing(target) as draft:
            draft.write_text(words, encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot write {target}: {error.strerror or error}.") from error
    return target


def page_of(networks: Iterable[Record], title: str = "saddlewalk") -> str:
    """The page as one text.

    Parameters
    ----------
    networks : what is shown.
    title : of the page.
    """
    data = {"title": title, "version": _version(), "networks": list(networks)}
    parts = {
        "title": html.escape(title),
        "style": "\n".join(_read(name) for name in _STYLES),
        "license": _read("vendor/uPlot.LICENSE").replace("*/", "* /"),
        "program": "\n".join(_read(name) for name in _PROGRAMS),
        "data": _inside_script(data),
    }
    page = _read("page.html")
    # in one pass: what is put in is never looked at again
    pieces = page.split("{{")
    found = [pieces[0]]
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        found += [parts[name.strip()], rest]
    return "".join(found)


def _inside_script(value: Any) -> str:
    """JSON that no browser takes for markup, whatever names are in it."""
    text = json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _finite(value: Any) -> Any:
    """Numbers that JSON does not have are `null`."""
    if isinstance(value, dict):
        return {str(name): _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read(name: str) -> str:
    return (_HOME / name).read_text(encoding="utf-8")


def _version() -> str:
    try:
        return version("saddlewalk")
    except PackageNotFoundError:
        return ""

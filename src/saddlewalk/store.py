"""Labelled results on disk: one netCDF file a result, written whole or not at all, never unpickled.

Everything is written to a temporary name beside the target and renamed at the end, so a crash or a
full disk leaves the old result as it was.
"""

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from saddlewalk.errors import InputError

_PACKAGES = ("saddlewalk", "jax", "jaxlib", "diffrax", "equinox", "numpy", "scipy", "xarray")


def versions() -> dict[str, str]:
    """Versions of everything that can change a number."""
    found = {"python": platform.python_version(), "platform": sys.platform}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path; on success it takes the place of `path` in one rename."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"Cannot write {target}: the folder {target.parent} does not exist.")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=".tmp")
    os.close(handle)
    try:
        yield Path(name)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def new_folder(path: str | Path, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder; on success it becomes `path`. An existing one needs `force`."""
    target = Path(path)
    check_folder_free(target, force)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        yield draft
        draft.chmod(0o755)
        if target.exists():
            old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-old-"))
            os.replace(target, old / "replaced")
            os.replace(draft, target)
            shutil.rmtree(old)
        else:
            os.replace(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_folder_free(path: str | Path, force: bool = False) -> None:
    """Refuse an output folder that exists, before anything is computed for it."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise InputError(f"The output folder {target} is a file. Choose another name.")
    if target.exists() and not force:
        raise InputError(
            f"The output folder {target} exists. Choose another name, or replace it with --force."
        )


def save_dataset(data: Any, path: str | Path) -> Path:
    """Write an xarray Dataset or DataTree to one netCDF file."""
    with replacing(path) as draft:
        data.to_netcdf(draft, engine="h5netcdf")
    return Path(path)


def load_dataset(path: str | Path, kind: str) -> Any:
    """Read a whole Dataset back and check that it holds a result of this kind."""
    import xarray as xr

    if not Path(path).is_file():
        raise InputError(f"There is no file {path}.")
    try:
        data = xr.load_dataset(path, engine="h5netcdf")
    except Exception as error:
        raise InputError(
            f"{path} is not a readable saddlewalk file ({type(error).__name__}: {error})."
        ) from error
    if data.attrs.get("kind") != kind:
        seen = data.attrs.get("kind", "no saddlewalk result")
        raise InputError(f"{path} holds {seen!r}, not {kind!r}.")
    return data


def write_json(value: Any, path: str | Path) -> None:
    """Write one JSON document, atomically."""
    with replacing(path) as draft:
        draft.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n")

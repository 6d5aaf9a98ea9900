"""Labeled results on disk: one netCDF file a result, written whole or not at all, never unpickled.

Everything is written to a temporary name beside the target and renamed at the end, so a crash or a
full disk leaves the old result as it was.
"""

import hashlib
import io
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from saddlewalk.errors import InputError
from saddlewalk.interrupts import answering_interrupts

FOLDER = ("result.nc", "result.json", "figure.png", "figure.svg", "explore.html", "config.json")
"""The files of a result folder."""

_ASIDE = "replaced"
_PACKAGES = (
    "saddlewalk",
    "jax",
    "jaxlib",
    "optax",
    "scikit-learn",
    "equinox",
    "numpy",
    "scipy",
    "xarray",
    "torch",
)


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
    """Yield a temporary path; on success it takes the place of `path` in one rename.

    Parameters
    ----------
    path : file to write; its folder must exist.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"Cannot write {target}: the folder {target.parent} does not exist.")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=".tmp")
    os.close(handle)
    try:
        with answering_interrupts():
            yield Path(name)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def new_folder(path: str | Path, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder; on success it becomes `path`. An existing one needs `force`.

    Parameters
    ----------
    path : folder to make.
    force : replace one that exists, if it holds a result and nothing else.
    """
    target = Path(path)
    check_folder_free(target, force)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        with answering_interrupts():
            yield draft
        draft.chmod(0o755)
        if target.exists() and not force:
            raise InputError(
                f"The output folder {target} has been made by another process meanwhile; it is not replaced. "
                "Choose another name."
            )
        if target.exists():
            old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-old-"))
            os.replace(target, old / _ASIDE)
            os.replace(draft, target)
            shutil.rmtree(old)
        else:
            os.replace(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_file_free(path: str | Path) -> None:
    """Refuse a file that cannot be written, before computing; one that exists is replaced.

    Parameters
    ----------
    path : file that is to be made.
    """
    target = Path(path)
    if not target.name or target.is_dir():
        raise InputError(f"{path or 'Nothing'} is no name of a file: a folder cannot be replaced.")
    if not target.parent.is_dir():
        raise InputError(f"Cannot write {target}: the folder {target.parent} does not exist.")
    try:  # permissions do not tell for every file system
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise InputError(f"Cannot write {target}: {error.strerror}.") from error


def clear_drafts(path: str | Path) -> None:
    """After a kill within `new_folder`: drafts go, and a result that was set aside returns.

    Parameters
    ----------
    path : the folder that was to be made.
    """
    target = Path(path)
    for left in target.parent.glob(f".{target.name}-*"):
        if (left / _ASIDE).is_dir() and not target.exists():
            os.replace(left / _ASIDE, target)
        shutil.rmtree(left, ignore_errors=True)


def check_folder_free(path: str | Path, force: bool = False) -> None:
    """Refuse an output folder that cannot be made or must not be replaced, before computing.

    Parameters
    ----------
    path : folder that is to be made.
    force : whether one that exists may be replaced, if it holds a result and nothing else.
    """
    target = Path(path)
    if not str(path) or not target.name or target.resolve() == Path.cwd():
        raise InputError(f"The output folder needs a name of its own; got '{path}'.")
    if target.exists() and not target.is_dir():
        raise InputError(f"The output folder {target} is a file. Choose another name.")
    if target.exists() and not force:
        raise InputError(
            f"The output folder {target} exists. Choose another name, or replace it (`force`)."
        )
    parent = next(folder for folder in target.absolute().parents if folder.exists())
    try:  # permissions do not tell for every file system
        tempfile.TemporaryDirectory(dir=parent).cleanup()
    except OSError as error:
        raise InputError(f"The output folder {target} cannot be made: {error.strerror}.") from error
    foreign = (
        sorted(p.name for p in target.iterdir() if p.name not in FOLDER) if target.exists() else []
    )
    if foreign:
        raise InputError(
            f"The folder {target} holds things that are not a result of saddlewalk "
            f"({foreign[0]}, ...); it is not replaced. Choose another name."
        )


def reserve_folder(path: str | Path, force: bool = False) -> Callable[[], None]:
    """Keep a name for a result to come; returns how to give it up. Ends with this process.

    The lock is no part of the place, where nothing may be left behind whatever happens: it is a file of this
    machine and user.

    Parameters
    ----------
    path : folder that is to be made.
    force : whether one that exists may be replaced, if it holds a result and nothing else.
    """
    name = hashlib.sha256(os.fsencode(Path(path).resolve())).hexdigest()[:32]
    owner = os.getuid() if hasattr(os, "getuid") else 0
    lock = Path(tempfile.gettempdir(), f"saddlewalk-{owner}-{name}.lock")
    release = _locked(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600), path)
    try:
        check_folder_free(path, force)
    except InputError:
        release()
        raise
    return release


def lock_folder(path: str | Path) -> Callable[[], None]:
    """Keep other processes from writing into a folder; returns how to let them. Ends with this process.

    Parameters
    ----------
    path : an existing folder.
    """
    return _locked(os.open(path, os.O_RDONLY), path)


def _locked(handle: int, path: str | Path) -> Callable[[], None]:
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise InputError(
            f"Another process is writing {path}. Wait for it, or choose another name."
        ) from error
    except (ImportError, OSError):  # a system or a file system without locks: it is up to the user
        pass
    return lambda: os.close(handle)


def save_dataset(data: Any, path: str | Path) -> Path:
    """Write an xarray Dataset or DataTree to one netCDF file.

    Parameters
    ----------
    data : a Dataset or DataTree.
    path : file to write; its folder must exist.
    """
    whole = io.BytesIO()  # HDF5 crashes if the disk is full while it writes
    data.to_netcdf(whole, engine="h5netcdf")
    with replacing(path) as draft:
        draft.write_bytes(whole.getbuffer())
    return Path(path)


def kind_of(path: str | Path) -> str:
    """What kind of result a file holds.

    Parameters
    ----------
    path : file to read.
    """
    return str(_opened(path).attrs.get("kind", "no saddlewalk result"))


def load_dataset(path: str | Path, kind: str) -> Any:
    """Read a Dataset, or a tree of them, back and check that it is of this kind.

    Parameters
    ----------
    path : file to read.
    kind : the `kind` that its attributes must name.
    """
    data = _opened(path)
    if data.attrs.get("kind") != kind:
        seen = data.attrs.get("kind", "no saddlewalk result")
        raise InputError(f"{path} holds {seen!r}, not {kind!r}.")
    return data


def _opened(path: str | Path) -> Any:
    import xarray as xr

    if not Path(path).is_file():
        raise InputError(f"There is no file {path}.")
    try:
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            return tree.load() if tree.children else tree.to_dataset().load()
    except Exception as error:
        raise InputError(
            f"{path} is not a readable saddlewalk file ({type(error).__name__}: {error})."
        ) from error


def write_json(value: Any, path: str | Path) -> None:
    """Write one JSON document, atomically.

    Parameters
    ----------
    value : what JSON can hold; no NaN, nothing infinite.
    path : file to write; its folder must exist.
    """
    with replacing(path) as draft:
        draft.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n")

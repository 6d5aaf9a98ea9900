"""Public data sets: a local folder first, then a cache, then the public source with its checksum.

The folder is named by the environment variable SADDLEWALK_DATA; the cache lies in XDG_CACHE_HOME
(or `~/.cache`). Files are `.npz` with plain arrays, and nothing is ever unpickled.
"""

import gzip
import hashlib
import io
import logging
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

import numpy as np

from saddlewalk.errors import InputError, nearest
from saddlewalk.store import replacing

Arrays = dict[str, np.ndarray]

FOLDER_VARIABLE = "SADDLEWALK_DATA"
IMAGE_ARRAYS = ("X_train", "y_train", "X_test", "y_test")
CLASSES = 10
_TIMEOUT = 60.0
"""Seconds without a byte after which a download has failed."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Download:
    """One file of the public source, as published: address, length and MD5 sum.

    Parameters
    ----------
    url : its address.
    length : bytes that it has.
    md5 : its MD5 sum, as 32 digits.
    """

    url: str
    length: int
    md5: str


@dataclass(frozen=True)
class PublicSet:
    """A data set: the files that may hold it (best first), and where it comes from.

    Parameters
    ----------
    files : names of local files, best first.
    image : shape of one image; empty for tables.
    train : training images in the whole set.
    downloads : files of the public source.
    parse : makes arrays of their contents.
    """

    files: tuple[str, ...]
    image: tuple[int, ...] = ()
    """Shape of one image; empty for tables."""
    train: int = 0
    """Training images in the whole set; fewer are a subset."""
    downloads: tuple[Download, ...] = ()
    parse: Callable[[Sequence[bytes]], Arrays] | None = None


def load_public(name: str) -> Arrays:
    """The arrays of "mnist", "cifar10" or "uci".

    Images are X_train, y_train, X_test and y_test (uint8, channels last). `cifar10_5k.npz` stands in
    for CIFAR-10 where it lies in a folder before `cifar10.npz` does: the first 500 images a class of
    train and 100 a class of test (see `is_subset`). UCI tables are `X/NAME` and `y/NAME`, with `names`,
    and come from a local file only.

    Parameters
    ----------
    name : the data set.
    """
    public = _known(name)
    file = find_local(name)
    return _read(file, public) if file else _fetch(name, public)


def find_local(name: str) -> Path | None:
    """The file that holds this data set on this machine: local folder first, then the cache.

    Parameters
    ----------
    name : the data set.
    """
    files = _known(name).files
    folders = [folder for folder in (_data_folder(), cache_folder()) if folder]
    places = (folder / file for folder in folders for file in files)
    return next((place for place in places if place.is_file()), None)


def is_subset(name: str, arrays: Arrays) -> bool:
    """Whether these are fewer training images than the whole set has.

    Parameters
    ----------
    name : the data set.
    arrays : what `load_public` gave.
    """
    return len(arrays["X_train"]) < _known(name).train


def cache_folder() -> Path:
    """Where downloads are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saddlewalk"


def _data_folder() -> Path | None:
    named = os.environ.get(FOLDER_VARIABLE)
    if named and not Path(named).is_dir():
        raise InputError(f"{FOLDER_VARIABLE} names {named}, which is not a folder.")
    return Path(named) if named else None


def _known(name: str) -> PublicSet:
    if name not in SETS:
        raise InputError(f"There is no public data set '{name}'.{nearest(name, SETS)}")
    return SETS[name]


# ---------------------------------------------------------------- local files

_UNREADABLE = (
    OSError,
    ValueError,
    TypeError,  # a single .npy array is no archive
    EOFError,
    KeyError,
    zipfile.BadZipFile,
    zlib.error,
)


def _read(file: Path, public: PublicSet) -> Arrays:
    try:
        with file.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except _UNREADABLE as error:
        raise InputError(
            f"{file} cannot be read as .npz: it is truncated, or no archive of plain arrays. "
            "Delete or replace it."
        ) from error
    if public.image:
        _check_images(file, arrays, public.image)
    else:
        _check_tables(file, arrays)
    return arrays


def _check_images(file: Path, arrays: Arrays, image: tuple[int, ...]) -> None:
    missing = [name for name in IMAGE_ARRAYS if name not in arrays]
    if missing:
        raise InputError(f"{file} has no array {missing[0]}; it holds {', '.join(arrays)}.")
    for split in ("train", "test"):
        x, y = arrays[f"X_{split}"], arrays[f"y_{split}"]
        if x.dtype != np.uint8 or x.shape[1:] != image:
            raise InputError(
                f"X_{split} in {file} must hold uint8 images of shape {image}; "
                f"it holds {x.dtype} of shape {x.shape[1:]}."
            )
        if y.shape != (len(x),) or y.dtype.kind not in "iu":
            raise InputError(
                f"y_{split} in {file} must hold {len(x)} whole numbers, one an image; "
                f"it holds {y.dtype} of shape {y.shape}."
            )
        if y.size and not 0 <= y.min() <= y.max() < CLASSES:
            raise InputError(f"y_{split} in {file} has labels outside 0 ... {CLASSES - 1}.")


def _check_tables(file: Path, arrays: Arrays) -> None:
    listed = [str(name) for name in arrays.get("names", ())]
    missing = [key for name in listed for key in (f"X/{name}", f"y/{name}") if key not in arrays]
    if not listed or missing:
        lacking = missing[0] if missing else "names"
        raise InputError(f"{file} has no array {lacking}: it must hold X/NAME, y/NAME and names.")


# ---------------------------------------------------------------- the public source


def _fetch(name: str, public: PublicSet) -> Arrays:
    if public.parse is None:
        raise _not_here(
            name,
            public,
            "there is no one place to get it from: it is made of the UCI tables of Fernandez-Delgado et al. "
            "(2014, archive.ics.uci.edu), as arrays X/NAME (numbers), y/NAME (classes from 0) and names",
        )
    target = cache_folder() / public.files[0]
    _make_folder(target.parent)  # before the download: nothing is fetched that cannot be kept
    size = sum(part.length for part in public.downloads) / 1e6
    _log.warning("Downloading %s (%.0f MB), to be kept in %s", name, size, target)
    arrays = public.parse([_download(name, public, part) for part in public.downloads])
    _write_to_cache(arrays, target)
    return arrays


def _download(name: str, public: PublicSet, part: Download) -> bytes:
    try:
        with urlopen(part.url, timeout=_TIMEOUT) as answer:
            content: bytes = answer.read(part.length + 1)  # no more than it takes to see a mistake
    except (OSError, HTTPException) as error:
        raise _not_here(name, public, f"{part.url} cannot be reached ({error})") from error
    if len(content) < part.length:
        seen = f"{len(content)} of {part.length} bytes"
        raise _not_here(name, public, f"the download of {part.url} broke off after {seen}")
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != part.md5:
        reason = f"{part.url} sent something else than was published (MD5 {found}, not {part.md5})"
        raise _not_here(name, public, reason)
    return content


def _not_here(name: str, public: PublicSet, reason: str) -> InputError:
    wanted = " or ".join(public.files)
    named = os.environ.get(FOLDER_VARIABLE)
    local = (
        f"{named} ({FOLDER_VARIABLE})" if named else f"a local folder ({FOLDER_VARIABLE} not set)"
    )
    return InputError(
        f"The data set {name} is not here: there is no {wanted} in {local} nor in the cache "
        f"{cache_folder()}, and {reason}; put {wanted} into a folder and set {FOLDER_VARIABLE} to it."
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The cache {folder} cannot be made ({error}). Set XDG_CACHE_HOME to another folder."
        ) from error


def _write_to_cache(arrays: Arrays, target: Path) -> None:
    try:
        with replacing(target) as draft, draft.open("wb") as handle:
            np.savez(handle, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise InputError(
            f"{target} cannot be written ({error}). Set XDG_CACHE_HOME to another folder."
        ) from error


# ---------------------------------------------------------------- published formats

_IDX_BYTES = 8
"""Code of unsigned bytes in the third byte of an idx file."""
_CIFAR_IMAGE = (3, 32, 32)


def parse_idx(content: bytes) -> np.ndarray:
    """An idx file of unsigned bytes: two zeros, a type, the number of axes, their lengths, the data.

    Parameters
    ----------
    content : the file, decompressed.
    """
    if len(content) < 4 or content[:3] != bytes([0, 0, _IDX_BYTES]):
        raise InputError(f"No idx file of unsigned bytes: it begins with {content[:4].hex()!r}.")
    axes = content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise InputError(f"The idx file ends after {len(content)} bytes, inside its header.")
    shape = struct.unpack(f">{axes}I", content[4:start])
    data = np.frombuffer(content, np.uint8, offset=start)
    if data.size != np.prod(shape, dtype=np.int64):
        raise InputError(f"The idx file says it has shape {shape} and holds {data.size} bytes.")
    return data.reshape(shape).copy()


def parse_cifar(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Images `(n, 32, 32, 3)` and labels from CIFAR-10's binary records: a label, then three planes.

    Parameters
    ----------
    content : the records.
    """
    length = 1 + int(np.prod(_CIFAR_IMAGE))
    if not content or len(content) % length:
        raise InputError(
            f"CIFAR-10 records have {length} bytes; {len(content)} is no multiple of it."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, length)
    labels = records[:, 0].copy()
    if labels.max() >= CLASSES:
        raise InputError(f"CIFAR-10 labels are 0 ... {CLASSES - 1}; found {labels.max()}.")
    planes = records[:, 1:].reshape(-1, *_CIFAR_IMAGE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


def _parse_mnist(contents: Sequence[bytes]) -> Arrays:
    arrays = (parse_idx(gzip.decompress(content)) for content in contents)
    return dict(zip(IMAGE_ARRAYS, arrays, strict=True))


def _parse_cifar10(contents: Sequence[bytes]) -> Arrays:
    (archive,) = contents
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        train = b"".join(_member(tar, f"data_batch_{k}.bin") for k in range(1, 6))
        test = _member(tar, "test_batch.bin")
    return dict(zip(IMAGE_ARRAYS, (*parse_cifar(train), *parse_cifar(test)), strict=True))


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    """Read one file of the archive in memory; nothing is unpacked to disk."""
    handle = tar.extractfile(f"cifar-10-batches-bin/{name}")
    if handle is None:
        raise InputError(f"{name} in the CIFAR-10 archive is no plain file.")
    return handle.read()


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"

SETS = {
    "mnist": PublicSet(
        ("mnist.npz",),
        (28, 28),
        60_000,
        (  # in the order of IMAGE_ARRAYS
            Download(
                _MNIST + "train-images-idx3-ubyte.gz", 9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"
            ),
            Download(
                _MNIST + "train-labels-idx1-ubyte.gz", 28881, "d53e105ee54ea40749a09fcbcd1e9432"
            ),
            Download(
                _MNIST + "t10k-images-idx3-ubyte.gz", 1648877, "9fb629c4189551a2d022fa330f9573f3"
            ),
            Download(
                _MNIST + "t10k-labels-idx1-ubyte.gz", 4542, "ec29112dd5afa0611ce80d1b7f02629c"
            ),
        ),
        _parse_mnist,
    ),
    "cifar10": PublicSet(
        ("cifar10.npz", "cifar10_5k.npz"),
        (32, 32, 3),
        50_000,
        (
            Download(  # the binary version: the one for Python is a pickle
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                170052171,
                "c32a1d4ab5d03f1284b67883e8d87530",
            ),
        ),
        _parse_cifar10,
    ),
    "uci": PublicSet(("uci.npz",)),
}

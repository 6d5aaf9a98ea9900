"""A user's own data from a file: `.npz` with named arrays, or a `.csv` table."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.tasks.moments import Moments, from_moments
from saddlewalk.tasks.samples import Samples, from_arrays
from saddlewalk.tasks.tables import read_table


def load_task(path: str | Path, targets: str | int | None = None) -> Samples | Moments:
    """Read a task: X and y (or Y), with optional weights and names; or Sigma_xx and Sigma_yx.

    Parameters
    ----------
    path : an .npz with these arrays, or a .csv: a header or none, cells between commas, semicolons or tabs.
        The names of its columns are those of the inputs. A target of words, in either, is one of labels: each
        becomes an output.
    targets : of a .csv: names of the target columns, with commas between them, or how many of the last
        columns they are; by default the last one.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"There is no file {file}.")
    if file.suffix.lower() == ".csv":
        return read_table(file, targets)
    if file.suffix.lower() != ".npz":
        raise InputError(f"{file} must end in .npz or .csv; it ends in '{file.suffix}'.")
    if targets is not None:
        raise InputError(f"`targets` are columns of a .csv; in {file} they are the array y.")
    return _from_npz(file)


def load_samples(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in the shape that they have in the file (images stay images), and targets.

    Parameters
    ----------
    path : an .npz with X and y (or Y), or a .csv with the target last.
    """
    file = Path(path)
    if file.suffix == ".npz" and file.is_file():
        arrays = read_arrays(file)
        target = arrays.get("y", arrays.get("Y"))
        if "X" in arrays and target is not None:
            if len(arrays["X"]) != len(target) or len(target) == 0:
                raise InputError(
                    f"{file} has {len(arrays['X'])} inputs and {len(target)} targets; as many are needed."
                )
            return arrays["X"], target
    task = load_task(path)
    if not isinstance(task, Samples):
        raise InputError("Features are averages over samples; moments are not enough.")
    return np.asarray(task.x), np.asarray(task.y)


def load_encoding(path: str | Path) -> np.ndarray:
    """Read the encoding x of the elements of a group: array x of an .npz, or the numbers of a .csv.

    Parameters
    ----------
    path : the file.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"There is no file {file}.")
    if file.suffix == ".csv":
        try:
            return np.loadtxt(file, delimiter=",", ndmin=1).ravel()
        except ValueError as error:
            raise InputError(f"{file} must hold numbers separated by commas: {error}.") from error
    if file.suffix != ".npz":
        raise InputError(f"{file} must end in .npz or .csv; it ends in '{file.suffix}'.")
    arrays = read_arrays(file)
    if "x" not in arrays:
        raise InputError(
            f"{file} must hold the encoding as an array x; it holds {', '.join(arrays) or 'nothing'}."
        )
    return arrays["x"]


def read_arrays(file: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz by name; nothing in it is unpickled.

    Parameters
    ----------
    file : the file.
    """
    try:
        with file.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
            return {name: _plain_array(file, archive, name) for name in archive.files}
    except InputError:
        raise
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(file) from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable(file) from error


def _plain_array(file: Path, archive: Any, name: str) -> np.ndarray:
    try:
        return archive[name]
    except ValueError as error:
        if "Object arrays" not in str(error):
            raise
        raise InputError(
            f"{name} in {file} is an array of Python objects, which is not read: they may be any code. Save "
            f"numbers, as np.asarray({name}, dtype=float), or words, as np.asarray({name}, dtype=str)."
        ) from error


def _unreadable(file: Path) -> InputError:
    return InputError(
        f"{file} cannot be read as .npz: it is truncated, or no archive of plain arrays."
    )


def _from_npz(file: Path) -> Samples | Moments:
    arrays = read_arrays(file)
    called: dict[str, Any] = {"name": file.stem, "names": arrays.get("names")}
    if "Sigma_xx" in arrays and "Sigma_yx" in arrays:
        return from_moments(
            arrays["Sigma_xx"], arrays["Sigma_yx"], arrays.get("Sigma_yy"), **called
        )
    target = arrays.get("y", arrays.get("Y"))
    if "X" not in arrays or target is None:
        names = ", ".join(arrays) or "nothing"
        raise InputError(
            f"{file} must hold arrays X and y (or Sigma_xx and Sigma_yx); it holds {names}."
        )
    return from_arrays(arrays["X"], target, arrays.get("weights"), **called)

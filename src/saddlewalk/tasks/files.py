"""A user's own data from a file: `.npz` with named arrays, or `.csv` with the target last."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.tasks.moments import Moments, from_moments
from saddlewalk.tasks.samples import Samples, from_arrays


def load_task(path: str | Path) -> Samples | Moments:
    """Read a task: X and y (or Y), with optional weights; or Sigma_xx and Sigma_yx.

    Parameters
    ----------
    path : an .npz with these arrays, or a .csv with the target last.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"There is no file {file}.")
    readers = {".npz": _from_npz, ".csv": _from_csv}
    if file.suffix not in readers:
        raise InputError(f"{file} must end in .npz or .csv; it ends in '{file.suffix}'.")
    return readers[file.suffix](file)


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
    """Read the encoding x of modular addition: array x of an .npz, or the numbers of a .csv.

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
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(file) from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable(file) from error


def _unreadable(file: Path) -> InputError:
    return InputError(
        f"{file} cannot be read as .npz: it is truncated, or no archive of plain arrays."
    )


def _from_npz(file: Path) -> Samples | Moments:
    arrays = read_arrays(file)
    if "Sigma_xx" in arrays and "Sigma_yx" in arrays:
        return from_moments(
            arrays["Sigma_xx"], arrays["Sigma_yx"], arrays.get("Sigma_yy"), name=file.stem
        )
    target = arrays.get("y", arrays.get("Y"))
    if "X" not in arrays or target is None:
        names = ", ".join(arrays) or "nothing"
        raise InputError(
            f"{file} must hold arrays X and y (or Sigma_xx and Sigma_yx); it holds {names}."
        )
    return from_arrays(arrays["X"], target, arrays.get("weights"), name=file.stem)


def _from_csv(file: Path) -> Samples:
    try:
        lines = [line for line in file.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read as text: {error}.") from error
    if lines and not any(map(_is_number, lines[0].split(","))):
        lines = lines[1:]  # a header; a row with a typo among its numbers is not one
    if not lines:
        raise InputError(f"{file} has no rows of numbers.")
    widths = {len(line.split(",")) for line in lines}
    if len(widths) > 1:
        raise InputError(f"The rows of {file} have different lengths ({sorted(widths)}).")
    for row, line in enumerate(lines, 1):
        words = [cell for cell in line.split(",") if cell.strip() and not _is_number(cell)]
        if words:
            raise InputError(
                f"{file} must hold numbers separated by commas; row {row} has '{words[0].strip():.30}'."
            )
    table = np.array([[_cell(cell) for cell in line.split(",")] for line in lines])
    if table.shape[1] < 2:
        raise InputError(f"{file} has one column; it needs inputs and, last, the target.")
    return from_arrays(table[:, :-1], table[:, -1], name=file.stem)


def _cell(text: str) -> float:
    return float(text) if text.strip() else np.nan  # an empty cell is a missing value


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

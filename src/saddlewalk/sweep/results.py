"""The store of a sweep: Zarr arrays with labeled axes, of which `xarray` shows what is done at any time.

A cell is done when its status says so, and the status is written after the numbers; files are replaced whole.
So whatever stops a sweep, what it called done is there, and everything else is computed again. One process
writes, many may read.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from saddlewalk.errors import InputError, import_extra
from saddlewalk.store import lock_folder, new_folder, versions
from saddlewalk.sweep.plan import RESERVED, Plan

zarr = import_extra("zarr", "Sweeps", "sweep")
STATUS, ERROR = RESERVED
WAITING, DONE, FAILED = 0, 1, 2
_DECIDE = ("saddlewalk", "jax", "numpy")
"""Packages whose versions decide numbers."""
_PER_FILE = 4096
"""Cells in a file: few files to open, and little to write anew for one cell."""


class Series(NamedTuple):
    """Numbers in a row (or a table) that a measure keeps beside its single ones.

    Parameters
    ----------
    values : an array, of the same shape in every cell; NaN where a cell has fewer numbers.
    """

    values: np.ndarray


Values = Mapping[str, float | Series]


class Results:
    """A sweep's store, open for writing.

    Parameters
    ----------
    path : folder of the store; one of the same sweep is resumed.
    plan : the cells.
    measure : name of what is measured.
    code : what the measure does, in words that change with it.
    """

    def __init__(self, path: str | Path, plan: Plan, measure: str, code: str = "") -> None:
        self.path, self.plan = Path(path), plan
        self._taken = {*plan.coordinates(), STATUS, ERROR}
        fingerprint = plan.fingerprint(measure + code)
        if not self.path.exists():
            try:
                self._create(measure, fingerprint)
            except OSError:
                if not self.path.exists():  # else someone was faster
                    raise
        self._group = _reopened(self.path, fingerprint)
        self._unlock = lock_folder(self.path)
        self._held = {
            name: np.asarray(array[...]).reshape(len(plan), *array.shape[len(plan.shape) :])
            for name, array in self._group.arrays()
            if name not in plan.coordinates() and (self._names or name in (STATUS, ERROR))
        }
        self._held[ERROR] = self._held[ERROR].astype(object)

    @property
    def _names(self) -> list[str]:
        """What is measured; nothing before the first cell is done."""
        return list(self._group.attrs.get("measured", []))

    def close(self) -> None:
        """Let others write."""
        self._unlock()

    @property
    def status(self) -> np.ndarray:
        """Of each cell, by number: 0 not run, 1 done, 2 failed."""
        return self._held[STATUS]

    @property
    def lanes(self) -> dict[str, int]:
        """Of each compiled program, how many cells run together; nothing before that is decided."""
        return dict(self._group.attrs.get("lanes", {}))

    def keep_lanes(self, lanes: Mapping[str, int]) -> None:
        """Decide for good: cells that run in other company may differ in their last digit."""
        self._group.attrs["lanes"] = {**self.lanes, **lanes}
        zarr.consolidate_metadata(self._group.store)

    @property
    def errors(self) -> dict[int, str]:
        """What went wrong, by the number of the cell."""
        return {int(k): str(self._held[ERROR][k]) for k in np.flatnonzero(self.status == FAILED)}

    def todo(self, retry: bool = False) -> np.ndarray:
        """Numbers of the cells that are still to run; with `retry` those that failed, too."""
        left = self.status == WAITING
        return np.flatnonzero(left | (self.status == FAILED) if retry else left)

    def write(self, finished: Mapping[int, Values | str]) -> None:
        """Keep what cells have given: numbers by name, or the words of an error."""
        if not finished:
            return
        try:
            self._write(finished)
        except OSError as error:
            raise InputError(
                f"Cannot write {self.path}: {error.strerror or error}. What was done before is kept; "
                "make room, and run the same sweep again."
            ) from error

    def _write(self, finished: Mapping[int, Values | str]) -> None:
        finished = {k: self._accepted(values) for k, values in finished.items()}
        for number, values in finished.items():
            if isinstance(values, str):
                self._held[ERROR][number] = values
            else:
                self._keep(number, values)
        blocks = self._blocks(finished)
        for name in self._held:
            if name != STATUS:
                self._flush(name, blocks)
        for number, values in finished.items():
            self.status[number] = FAILED if isinstance(values, str) else DONE
        self._flush(STATUS, blocks)

    def _accepted(self, values: Values | str) -> Values | str:
        """Numbers that the store has room for; the first cell that is done says which there are."""
        if isinstance(values, str):
            return values
        if not values:
            return "This cell gave no numbers."
        taken = [name for name in values if name in self._taken or "/" in name]
        if taken:
            return f"A measured number cannot be called '{taken[0]}'."
        known = set(self._held) - {STATUS, ERROR}
        if not known:
            for name, value in values.items():
                shape = _shape(value)
                self._held[name] = np.full((len(self.plan), *shape), np.nan)
                rows = {f"{name}_{k}": length for k, length in enumerate(shape)}
                self._array(name, np.dtype("float64"), {**self.plan.dims, **rows})
            self._group.attrs["measured"] = list(values)
            zarr.consolidate_metadata(self._group.store)
        elif set(values) != known:
            return f"This cell gave {sorted(values)}, others gave {sorted(known)}."
        for name, value in values.items():
            if _shape(value) != self._held[name].shape[1:]:
                others = self._held[name].shape[1:]
                return f"'{name}' of this cell has shape {_shape(value)}, of others {others}."
        return values

    def _keep(self, number: int, values: Values) -> None:
        for name, value in values.items():
            self._held[name][number] = value.values if isinstance(value, Series) else value
        self._held[ERROR][number] = ""

    def _flush(self, name: str, blocks: set[tuple[int, ...]]) -> None:
        """Write files anew."""
        array: Any = self._group[name]
        held = self._held[name].reshape(*self.plan.shape, *self._held[name].shape[1:])
        for block in blocks:
            region = tuple(
                slice(k * size, (k + 1) * size)
                for k, size in zip(block, array.chunks, strict=False)  # rows of a cell stay whole
            )
            array[region] = held[region]

    def _blocks(self, numbers: Mapping[int, Any]) -> set[tuple[int, ...]]:
        """The files in which these cells are."""
        places = np.array(np.unravel_index(list(numbers), self.plan.shape))
        blocks = places // np.array(_chunks(self.plan.shape))[:, None]
        return set(zip(*blocks.tolist(), strict=True))

    def _create(self, measure: str, fingerprint: str) -> None:
        """Make the store beside its place and move it there: it is there whole, or not at all."""
        if not self.path.parent.is_dir():
            raise InputError(
                f"Cannot write {self.path}: the folder {self.path.parent} does not exist."
            )
        with new_folder(self.path) as draft:
            # format 2: the third has no agreed place for the metadata of all arrays, which opening wants
            self._group = zarr.open_group(draft, mode="a", zarr_format=2)
            for name, (axis, values) in self.plan.coordinates().items():
                self._array(name, values.dtype, {axis: len(values)})[...] = values
            self._array(STATUS, np.dtype("int8"), self.plan.dims)[...] = WAITING
            self._array(ERROR, np.dtype("U"), self.plan.dims)[...] = ""
            self._group.attrs.update(
                {
                    "fingerprint": fingerprint,
                    "measure": measure,
                    "varied": list(self.plan.coordinates()),
                    "fixed": dict(self.plan.fixed),
                    "versions": versions(),
                }
            )
            zarr.consolidate_metadata(self._group.store)

    def _array(self, name: str, dtype: np.dtype, dims: Mapping[str, int]) -> Any:
        shape = tuple(dims.values())
        cells = shape[: len(self.plan.shape)]
        array = self._group.create_array(
            name,
            shape=shape,
            dtype=str if dtype.kind == "U" else dtype,
            chunks=(*_chunks(cells), *shape[len(cells) :]),
            # what is not written reads as missing: right for numbers alone
            fill_value=np.nan if dtype.kind == "f" and len(dims) >= len(self.plan.dims) else None,
            overwrite=True,  # one that was being made when the run was killed
        )
        array.attrs["_ARRAY_DIMENSIONS"] = list(dims)
        return array


def open_results(path: str | Path) -> xr.Dataset:
    """What a sweep has found so far; cells that are not done are NaN.

    Parameters
    ----------
    path : folder of the store.
    """
    if not Path(path).is_dir():
        raise InputError(f"There is no store {path}.")
    found = xr.open_zarr(path)
    found = found.set_coords(found.attrs["varied"])
    # numbers are written before the status that calls them done
    return found.assign(
        {name: found[name].where(found[STATUS] == DONE) for name in found.attrs.get("measured", [])}
    )


def _reopened(path: Path, fingerprint: str) -> Any:
    try:
        group = zarr.open_group(path, mode="r+", use_consolidated=False)
        attributes: dict[str, Any] = group.attrs.asdict()
        known, made_with = attributes["fingerprint"], attributes["versions"]
    except Exception as error:
        raise InputError(f"{path} is no store of a sweep.") from error
    if known != fingerprint:
        raise InputError(
            f"{path} belongs to a sweep with another configuration, measure or data; give a new store, or "
            "remove it."
        )
    now = versions()
    changed = [name for name in _DECIDE if made_with.get(name) != now[name]]
    if changed:
        name = changed[0]
        raise InputError(
            f"{path} was begun with {name} {made_with.get(name)}, and this is {now[name]}: numbers of both "
            "are not mixed. Give a new store."
        )
    return group


def _shape(value: float | Series) -> tuple[int, ...]:
    return value.values.shape if isinstance(value, Series) else ()


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Whole trailing axes, as long as a file holds them."""
    chunks: list[int] = []
    for length in reversed(shape):
        room = max(1, _PER_FILE // math.prod(chunks))
        chunks.insert(0, min(length, room))
    return tuple(chunks)

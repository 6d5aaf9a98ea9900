"""Columns of a table as numbers: categories as blocks of 0 and 1, and values that are missing.

A category is a block of inputs, one a level, so that the metric learns which levels are alike. A level that
was never seen is the mean of the block: it is as far from all levels as they are in the mean. A missing
category is a level of its own, a missing number is the mean with a 1 in an input of its own; where nothing
was missing in training, both are the mean.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.features.units import divides

_UNKNOWN = -1.0
"""Number of a name that is no category: of named columns alone, others may hold it."""

_MOSTLY = 0.5


@dataclass
class Columns:
    """What is known of the columns of a table.

    Parameters
    ----------
    categorical : positions of the categorical columns.
    names : the categories of those columns of a frame that are no numbers.
    scales : whether inputs are divided by their spread; "auto" where that helps.
    """

    categorical: Sequence[int]
    names: dict[int, Any]
    scales: bool | str = False

    @classmethod
    def of(cls, table: Any, chosen: Any, scales: bool | str = False) -> "Columns":
        """Those of a table.

        Parameters
        ----------
        table : an array or a pandas frame.
        chosen : "from_dtype" for categories and words of a frame, positions, names, a mask, or `None`.
        scales : whether inputs are divided by their spread, or "auto".
        """
        positions = _positions(table, chosen)
        found = {k: _names(table.iloc[:, k], k in positions) for k in _columns(table)}
        names = {k: levels for k, levels in found.items() if levels is not None}
        return cls(sorted({*names, *positions}), names, scales)

    def numbers(self, table: Any) -> Any:
        """The table with numbers in the place of its categories.

        Parameters
        ----------
        table : an array or a pandas frame.
        """
        kinds = [table.iloc[:, k].dtype.kind for k in _columns(table)]
        changed = [k for k, kind in enumerate(kinds) if k in self.names or kind == "O"]
        if not changed:
            return table
        table = table.copy()
        for k in changed:
            column = table.iloc[:, k]
            if k in self.names:
                codes = np.asarray(self.names[k].get_indexer(column.astype(object)), dtype=float)
                table.isetitem(k, np.where(column.isna(), np.nan, codes))
            else:
                table.isetitem(k, _as_numbers(column))
        return table

    def fit(
        self, x: np.ndarray, weights: np.ndarray | None, targets: np.ndarray, seed: Any
    ) -> np.ndarray:
        """Learn levels, means, units and what may be missing; the encoded inputs.

        Parameters
        ----------
        x : numbers `(n, columns)`; NaN is missing.
        weights : of the samples, or `None`.
        targets : what is to be predicted, `(n, c)`: decides about units that are "auto".
        seed : as scikit-learn takes it.
        """
        outside = [k for k in self.categorical if not 0 <= k < x.shape[1]]
        if outside:
            raise InputError(
                f"categorical_features names column {outside[0]}; there are {x.shape[1]} columns."
            )
        self.levels = {k: self._levels(k, x[:, k]) for k in self.categorical}
        self.missing = {k for k in range(x.shape[1]) if np.isnan(x[:, k]).any()}
        parts = [self._block(k, x[:, k]) for k in range(x.shape[1])]
        self.blocks = np.repeat(np.arange(x.shape[1]), [part.shape[1] for part in parts])
        encoded = x if self._plain else np.concatenate(parts, axis=1)
        moments = [_moments(values, weights) for values in encoded.T]
        self.means, spread = (np.array(some) for some in zip(*moments, strict=True))
        # a block of levels counts like one column
        spreads = np.sqrt(np.bincount(self.blocks, spread)[self.blocks])
        self.units, self.scaled = np.where(spreads > 0, spreads, 1.0), False
        filled = self._filled(encoded)
        automatic = self.scales == "auto"
        self.scaled = divides(filled, spreads, targets, seed) if automatic else bool(self.scales)
        return (filled - self.means) / self.units if self.scaled else filled

    def transform(self, x: np.ndarray) -> np.ndarray:
        """The encoded inputs `(n, inputs)` of other samples.

        Parameters
        ----------
        x : numbers `(n, columns)`; NaN is missing.
        """
        if self._plain:
            return self._filled(x)
        parts = [self._block(k, x[:, k]) for k in range(x.shape[1])]
        for k in self.levels:
            if len(x) and np.mean(np.isnan(parts[k][:, 0]) & ~np.isnan(x[:, k])) > _MOSTLY:
                self._warn_of_unknown(k)
        return self._filled(np.concatenate(parts, axis=1))

    def _warn_of_unknown(self, k: int) -> None:
        """Where hardly a level is known it may be the type that differs: 1 is not "1"."""
        known = self.names.get(k, self.levels[k])
        such = f", which had such as {known[0]!r}" if len(known) else ""
        warnings.warn(
            f"Of column {k}, more than half of the values are categories that were not there in the fit"
            f"{such}: they count as unknown.",
            UserWarning,
            stacklevel=5,
        )

    def summed(self, matrix: np.ndarray) -> np.ndarray:
        """Sums of the last axis over the inputs of each column.

        Parameters
        ----------
        matrix : numbers `(..., inputs)`.
        """
        columns = np.arange(self.blocks[-1] + 1)
        return matrix @ (self.blocks[:, None] == columns)

    @property
    def _plain(self) -> bool:
        """Whether the inputs are the columns: then large tables are not copied."""
        return not self.levels and not self.missing

    def _levels(self, k: int, values: np.ndarray) -> np.ndarray:
        return np.unique(values[values != _UNKNOWN] if k in self.names else values)

    def _block(self, k: int, values: np.ndarray) -> np.ndarray:
        """The inputs of one column; NaN where the mean is to stand."""
        if k in self.levels:
            levels = self.levels[k]
            same = (values[:, None] == levels) | (np.isnan(values)[:, None] & np.isnan(levels))
            return np.where(same.any(axis=1, keepdims=True), same, np.nan)
        if k in self.missing:
            return np.column_stack([values, np.isnan(values)])
        return values[:, None]

    def _filled(self, encoded: np.ndarray) -> np.ndarray:
        absent = np.isnan(encoded)
        filled = np.where(absent, self.means, encoded) if absent.any() else encoded
        return (filled - self.means) / self.units if self.scaled else filled


def _moments(values: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """Mean and variance of the numbers that are there."""
    known = ~np.isnan(values)
    mass = None if weights is None else weights[known]
    if not (known.any() if mass is None else mass.any()):
        return 0.0, 0.0
    there = values[known].astype(np.float64)
    mean = np.average(there, weights=mass)
    return float(mean), float(np.average((there - mean) ** 2, weights=mass))


def is_frame(table: Any) -> bool:
    """Whether it is a frame of pandas.

    Parameters
    ----------
    table : what was given.
    """
    return hasattr(table, "iloc") and hasattr(table, "columns")


def _columns(table: Any) -> range:
    """Positions of the columns of a frame; of anything else none, which are numbers already."""
    return range(table.shape[1] if is_frame(table) else 0)


def _names(column: Any, chosen: bool) -> Any:
    """The categories of a column of a frame; `None` where it holds numbers."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.categories
    if column.dtype != object and not pd.api.types.is_string_dtype(column.dtype):
        return None
    there = column.dropna()
    words = [isinstance(value, str) for value in there]
    if any(words) and not all(words):
        raise InputError(
            f"Column '{column.name}' has words and other values, as {there.iloc[words.index(True)]!r} and "
            f"{there.iloc[words.index(False)]!r}. Make all of them words, or numbers."
        )
    numbers = not any(words) and all(isinstance(value, Real) for value in there)
    if not any(words) and (numbers or not chosen):
        return None
    return pd.Index(sorted(there.unique(), key=str))


def _as_numbers(column: Any) -> np.ndarray:
    """Of a column of objects that are no categories; NaN is missing."""
    if column.isna().all():
        return np.full(len(column), np.nan)
    try:
        return np.asarray(column.where(column.notna(), np.nan), dtype=float)
    except (TypeError, ValueError):
        there = column.dropna().iloc[0]
        raise InputError(
            f"Column '{column.name}' holds no numbers, as {there!r:.60}. Make numbers of it, or name it in "
            "categorical_features before the fit."
        ) from None


def _positions(table: Any, chosen: Any) -> list[int]:
    """Of the columns that were named as categorical."""
    if chosen is None or (isinstance(chosen, str) and chosen == "from_dtype"):
        return []
    if isinstance(chosen, str):
        raise InputError(
            "categorical_features must be 'from_dtype', None, or a list of columns or of yes and no; "
            f"got {chosen!r}."
        )
    chosen = np.asarray(chosen)
    if chosen.ndim != 1:
        raise InputError(f"categorical_features must be a list, as [0]; got {chosen.tolist()!r}.")
    if chosen.dtype == bool:
        if np.shape(table)[1:] not in ((), chosen.shape):
            raise InputError(
                f"categorical_features has {len(chosen)} answers of yes or no for "
                f"{np.shape(table)[1]} columns. Give one for each, or positions of categorical columns."
            )
        return [int(k) for k in np.flatnonzero(chosen)]
    if chosen.dtype.kind in "iu":
        return [int(k) for k in chosen]
    columns = list(getattr(table, "columns", []))
    absent = [name for name in chosen.tolist() if name not in columns]
    if absent:
        raise InputError(
            f"categorical_features names '{absent[0]}', which is no column of the table."
        )
    return [columns.index(name) for name in chosen.tolist()]

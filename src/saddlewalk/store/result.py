"""One contract for results: whatever a verb returns prints, shows itself, and can be kept.

A result says what it is in four ways, and gets the rest from here:

==================  =====================================================================
`parts()`           tables and lines, from which come `print(result)` and a notebook's view
`to_json()`         the machine-readable form, of numbers, words, lists and dictionaries
`to_xarray()`       labeled data, with `from_xarray` to read them back
`plot(target)`      a picture: into a file, into axes of one's own, or just made
==================  =====================================================================
"""

import abc
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from saddlewalk.show.text import Table, as_html, as_text
from saddlewalk.store.disk import load_dataset, save_dataset

if TYPE_CHECKING:
    import xarray as xr

Result = TypeVar("Result", bound="AbstractResult")
"""The kind of result at hand (`typing.Self` does not pass the checks of types in tests)."""


class AbstractResult(abc.ABC):
    """What a verb of the package returns."""

    result_kind: ClassVar[str]
    """What files call it."""

    @abc.abstractmethod
    def parts(self) -> tuple[Table | str, ...]:
        """What is printed: tables and lines."""

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""

    @abc.abstractmethod
    def to_xarray(self) -> "xr.Dataset | xr.DataTree":
        """Labeled data that hold everything; a tree where there are several parts."""

    @classmethod
    @abc.abstractmethod
    def from_xarray(cls: type[Result], data: Any) -> Result:
        """The result behind its labeled data (a Dataset, or the tree that `to_xarray` gave).

        Parameters
        ----------
        data : what `to_xarray` gave.
        """

    @abc.abstractmethod
    def plot(self, target: Any = None) -> Any:
        """Draw it: a path saves the picture, axes are drawn into; returned is what was drawn on.

        Parameters
        ----------
        target : a file, axes of one's own, or nothing.
        """

    def __str__(self) -> str:
        return as_text(self.parts())

    def _repr_html_(self) -> str:
        return as_html(self.parts())

    def save(self, path: str | Path) -> Path:
        """Write everything to one netCDF file, whole or not at all.

        Parameters
        ----------
        path : the file; its folder must exist.
        """
        data = self.to_xarray().copy()
        data.attrs = {**data.attrs, "kind": self.result_kind}
        return save_dataset(data, path)

    @classmethod
    def load(cls: type[Result], path: str | Path) -> Result:
        """Read a result back from the file that `save` wrote.

        Parameters
        ----------
        path : the file; one of another kind is refused.
        """
        data = load_dataset(path, cls.result_kind)
        del data.attrs["kind"]  # of the file, not of the result
        return cls.from_xarray(data)

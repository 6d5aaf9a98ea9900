"""What a folder of results holds, and the scorecard that is read from it.

    DIR/agf-3/result.json, figure.png, figure.svg      one folder an entry, made whole or not at all
    DIR/agf-3.error, DIR/.agf-3.started                why it could not be made; it runs, or was killed
    DIR/scorecard.json, DIR/index.html                 what is there, for programs and for people

A result that was made by other code or from other data is not shown. Every verdict is computed from the
claims of a run; the card has no times and no dates in it, so the same results make the same card.
"""

import contextlib
import functools
import hashlib
import json
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from saddlewalk import store
from saddlewalk.errors import InputError
from saddlewalk.figures.registry import ENTRIES, Entry
from saddlewalk.figures.scorecard.page import page_of
from saddlewalk.figures.scorecard.records import (
    REPRODUCED,
    VERDICTS,
    Record,
    claims_held,
    not_run,
    verdict_kind,
)
from saddlewalk.show import text
from saddlewalk.tasks import public

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

RESULT = "result.json"
UNFINISHED = "not finished: it runs, or was stopped (by hand, or for want of memory)"
_SMALLER = "smaller than in the paper"


@dataclass(frozen=True)
class Scorecard(store.AbstractResult):
    """What is known of each entry."""

    result_kind: ClassVar[str] = "scorecard"

    records: dict[str, Record]

    @classmethod
    def read(cls, folder: str | Path) -> "Scorecard":
        """All entries, with the results that a folder holds."""
        made_with = origin()
        return cls(
            {name: _record(entry, Path(folder), made_with) for name, entry in ENTRIES.items()}
        )

    def only(self, names: Iterable[str]) -> "Scorecard":
        """The card of some entries."""
        return Scorecard({name: self.records[name] for name in names})

    def count(self, verdict: str) -> int:
        """Entries with this verdict."""
        return sum(verdict_kind(record) == verdict for record in self.records.values())

    @property
    def summary(self) -> str:
        """The card in a line."""
        small = sum(
            verdict_kind(record) == REPRODUCED and _SMALLER in record["differs"]
            for record in self.records.values()
        )
        counts = {verdict: f"{self.count(verdict)} {verdict}" for verdict in VERDICTS}
        counts[REPRODUCED] += f" ({small} of them {_SMALLER})" if small else ""
        return f"{len(self.records)} entries: " + ", ".join(counts.values())

    def to_json(self) -> Record:
        """The machine-readable form."""
        counts = {verdict: self.count(verdict) for verdict in VERDICTS}
        return {"counts": counts, "entries": self.records}

    def parts(self) -> tuple[text.Table | str, ...]:
        """A line an entry, and the sum."""
        rows = [
            [name, record["place"], claims_held(record), record["verdict"]]
            for name, record in self.records.items()
        ]
        columns = ["name", "in the paper", "claims", "verdict"]
        return text.Table("scorecard", columns, rows, left=4), self.summary

    def to_xarray(self) -> "xr.Dataset":
        """Claims, how many of them hold, and the verdict, along a dimension `entry`."""
        import xarray as xr

        records = list(self.records.values())
        return xr.Dataset(
            {
                "claims": ("entry", [len(record["claims"]) for record in records]),
                "held": ("entry", [_held(record) for record in records]),
                "verdict": ("entry", [verdict_kind(record) for record in records]),
            },
            coords={"entry": list(self.records)},
            attrs={"records": json.dumps(self.records)},
        )

    @classmethod
    def from_xarray(cls, data: "xr.Dataset") -> "Scorecard":
        """The card behind its labeled form."""
        return cls(json.loads(data.attrs["records"]))

    def plot(
        self, target: "str | Path | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "Axes":
        """Claims of each entry: those that hold, and those that do not."""
        from saddlewalk.show import draw

        data = self.to_xarray()
        names, held, claims = (data[name].values for name in ("entry", "held", "claims"))
        with draw.canvas(ax or target, height=max(4.2, 0.22 * len(names))) as axes:
            axes.barh(names, held, color=draw.OBSERVED, label="hold")
            axes.barh(names, claims - held, left=held, color=draw.PREDICTED, label="do not hold")
            axes.invert_yaxis()
            axes.set_xlabel("claims")
            axes.legend()
        return axes

    def write(self, folder: Path) -> None:
        """`scorecard.json` and `index.html`, each replaced whole."""
        store.write_json(self.to_json(), folder / "scorecard.json")
        with store.replacing(folder / "index.html") as draft:
            draft.write_text(page_of(self.summary, self.records.values()))


def _held(record: Record) -> int:
    return sum(bool(claim["holds"]) for claim in record["claims"])


# --- which results count ------------------------------------------------------------------------------------


def origin() -> str:
    """A word that changes with the package, with what it stands on, and with the data that are here."""
    return _code() + "-" + hashlib.sha256(json.dumps(_data_here()).encode()).hexdigest()[:8]


@functools.cache  # as it was when it was loaded
def _code() -> str:
    home = Path(__file__).parents[2]  # of the whole package: a figure stands on all of it
    files = sorted(file for file in home.rglob("*") if file.suffix in (".py", ".toml"))
    contents = [(str(file.relative_to(home)), file.read_text()) for file in files]
    return hashlib.sha256(json.dumps([contents, store.versions()]).encode()).hexdigest()[:16]


def _data_here() -> list[tuple[str, int]]:
    """Public data sets on this machine, with their sizes in bytes."""
    found = ((name, public.find_local(name)) for name in sorted(public.SETS))
    return [(name, file.stat().st_size) for name, file in found if file is not None]


def is_finished(entry: Entry, out: Path, full: bool, made_with: str) -> bool:
    """Whether there is a result of at least the size that is asked for.

    Parameters
    ----------
    entry : the figure or table.
    out : folder of the results.
    full : whether the full size is asked for.
    made_with : code and data by which the result must have been made.
    """
    if entry.drawing:
        return True
    record = _stored(entry, out, made_with)
    return record is not None and (record["full"] or not (full and entry.two_sizes))


def _stored(entry: Entry, out: Path, made_with: str) -> Record | None:
    try:
        record = json.loads((out / entry.name / RESULT).read_text())
        return record if record["origin"] == made_with else None
    except (OSError, ValueError, KeyError):
        return None


# --- what is known of an entry ------------------------------------------------------------------------------


def _record(entry: Entry, out: Path, made_with: str) -> Record:
    if entry.drawing:
        found = not_run(entry, f"a drawing that shows no result: {entry.drawing}")
    else:
        found = _stored(entry, out, made_with) or not_run(entry, _why_not(entry, out))
    about = {"paper": entry.paper, "place": entry.place, "summary": entry.summary}
    return {**about, **found, "differs": _differs(entry, found)}


def _why_not(entry: Entry, out: Path) -> str:
    if started_file(out, entry.name).exists():
        return UNFINISHED
    try:
        return _error_file(out, entry.name).read_text().splitlines()[0]
    except (OSError, IndexError):
        other = (out / entry.name / RESULT).is_file()
        return "made by other code or from other data" if other else "not asked for yet"


def _differs(entry: Entry, record: Record) -> str:
    """How what was run differs from the paper."""
    if not record["claims"]:
        return ""
    smaller = [_SMALLER] if entry.two_sizes and not record["full"] else []
    return "; ".join([*smaller, *([entry.differs] if entry.differs else [])])


# --- files beside the results -------------------------------------------------------------------------------


def started_file(out: Path, name: str) -> Path:
    """A file that is there while an entry runs, and after it was killed.

    Parameters
    ----------
    out : folder of the results.
    name : of the entry.
    """
    return out / f".{name}.started"


def _error_file(out: Path, name: str) -> Path:
    return out / f"{name}.error"


def keep_error(out: Path, name: str, error: BaseException) -> str:
    """Why an entry could not be made, kept beside it: a result that was there before stays.

    Parameters
    ----------
    out : folder of the results.
    name : of the entry.
    error : what went wrong.
    """
    reason = (
        str(error)
        if isinstance(error, InputError)
        else f"it failed with {type(error).__name__}: {error}"
    )
    with contextlib.suppress(OSError):
        lines = [reason, "", *traceback.format_exception(error)]
        _error_file(out, name).write_text("\n".join(lines))
    return reason


def forget_error(out: Path, name: str) -> None:
    """It could be made after all.

    Parameters
    ----------
    out : folder of the results.
    name : of the entry.
    """
    _error_file(out, name).unlink(missing_ok=True)


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """The folder, made if it is not there, for this run alone, and no drafts of killed ones in it.

    Parameters
    ----------
    out : folder of the results.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; results need a folder.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {out} cannot be made: {error.strerror}.") from error
    unlock = store.lock_folder(out)
    try:
        for name in ENTRIES:
            store.clear_drafts(out / name)
        for draft in (*out.glob(".scorecard-*.tmp"), *out.glob(".index-*.tmp")):
            draft.unlink(missing_ok=True)
        yield
    finally:
        unlock()

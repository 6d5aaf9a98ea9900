"""Run entries of the registry one by one into a folder, and tell what came of them.

    DIR/agf-3/result.json, figure.png, figure.svg      one folder an entry, made whole or not at all
    DIR/scorecard.json, DIR/index.html                 what is there, for programs and for people

A finished entry is not run again, so a run that was stopped goes on where it was; one that was made by other
code or from other data is not finished, and is not shown. Every verdict is computed from the claims of a run;
the card has no times and no dates in it, so the same results make the same card.
"""

import contextlib
import functools
import hashlib
import html
import json
import os
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from threadpoolctl import threadpool_limits

from saddlewalk import store
from saddlewalk.errors import InputError
from saddlewalk.figures.registry import ENTRIES, PAPERS, Entry, find_entry
from saddlewalk.interrupts import heeding_interrupts
from saddlewalk.show import text
from saddlewalk.tasks import public

REPRODUCED, PARTLY, FAILED, NOT_RUN = VERDICTS = "reproduced", "partly", "not reproduced", "not run"
RESULT, SMALLER = "result.json", "smaller than in the paper"
_STOPPED = "not finished: it runs, or was stopped (by hand, or for want of memory)"
Record = dict[str, Any]


@dataclass(frozen=True)
class Scorecard:
    """What is known of each entry."""

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
        return sum(_kind(record) == verdict for record in self.records.values())

    @property
    def summary(self) -> str:
        """The card in a line."""
        small = sum(
            _kind(record) == REPRODUCED and SMALLER in record["differs"]
            for record in self.records.values()
        )
        counts = {verdict: f"{self.count(verdict)} {verdict}" for verdict in VERDICTS}
        counts[REPRODUCED] += f" ({small} of them smaller than in the paper)" if small else ""
        return f"{len(self.records)} entries: " + ", ".join(counts.values())

    def to_json(self) -> Record:
        """The machine-readable form."""
        counts = {verdict: self.count(verdict) for verdict in VERDICTS}
        return {"counts": counts, "entries": self.records}

    def __str__(self) -> str:
        rows = [
            [name, record["place"], _claims_held(record), record["verdict"]]
            for name, record in self.records.items()
        ]
        columns = ["name", "in the paper", "claims", "verdict"]
        return str(text.Table("scorecard", columns, rows, left=4)) + f"\n{self.summary}"

    def write(self, folder: Path) -> None:
        """`scorecard.json` and `index.html`, each replaced whole."""
        store.write_json(self.to_json(), folder / "scorecard.json")
        with store.replacing(folder / "index.html") as draft:
            draft.write_text(_page(self))


def reproduce(
    names: Sequence[str],
    folder: str | Path,
    *,
    full: bool = False,
    jobs: int = 1,
    again: bool = False,
    told: Callable[[str, Record], None] = lambda name, record: None,
) -> Scorecard:
    """Run these entries into a folder and return its scorecard.

    Parameters
    ----------
    full : at the paper's size, where that is larger.
    jobs : processes that work at the same time.
    again : run finished entries, too.
    told : is called with each entry when it ends.
    """
    out, made_with = Path(folder), origin()
    wanted = [find_entry(name).name for name in dict.fromkeys(names)]
    with _alone_in(out):
        todo = [n for n in wanted if again or not _finished(ENTRIES[n], out, full, made_with)]
        todo.sort(key=lambda name: _started(out, name).exists())  # what kills its process waits
        with _runner(jobs) as run:
            for name, record in run(todo, out, full, made_with):
                told(name, record)
                Scorecard.read(out).write(out)
        card = Scorecard.read(out)
        card.write(out)
    return card


def run_entry(name: str, folder: str | Path, full: bool, made_with: str) -> Record:
    """Make one entry and keep it; one that cannot be made says why, and leaves what was there before."""
    import jax
    from matplotlib import pyplot

    entry, out = ENTRIES[name], Path(folder)
    try:
        _started(out, name).touch()
        with heeding_interrupts():
            result = entry.make(full)
        record = {**result.to_json(), "full": full and entry.two_sizes, "origin": made_with}
        with store.new_folder(out / name, force=True) as draft:
            result.write(draft)
            store.write_json(record, draft / RESULT)
            store.write_json(store.versions(), draft / "config.json")
        _reason_file(out, name).unlink(missing_ok=True)
    except Exception as error:
        record = _not_run(entry, _reason(error))
        _keep_reason(out, name, error)
    _started(out, name).unlink(missing_ok=True)
    pyplot.close("all")
    jax.clear_caches()
    return record


def origin() -> str:
    """A word that changes with the package, with what it stands on, and with the data that are here."""
    return _code() + "-" + hashlib.sha256(json.dumps(_data()).encode()).hexdigest()[:8]


@functools.cache  # as it was when it was loaded
def _code() -> str:
    home = Path(__file__).parents[2]
    files = sorted(file for file in home.rglob("*") if file.suffix in (".py", ".toml"))
    said = [(str(file.relative_to(home)), file.read_text()) for file in files]
    return hashlib.sha256(json.dumps([said, store.versions()]).encode()).hexdigest()[:16]


def _data() -> list[tuple[str, int]]:
    there = ((name, public.find_local(name)) for name in sorted(public.SETS))
    return [(name, file.stat().st_size) for name, file in there if file is not None]


# --- how entries are run ------------------------------------------------------------------------------------

Runner = Callable[[Sequence[str], Path, bool, str], Iterator[tuple[str, Record]]]


@contextmanager
def _runner(jobs: int) -> Iterator[Runner]:
    if jobs < 1:
        raise InputError(f"There must be at least one job; got {jobs}.")
    if jobs == 1:
        yield lambda names, *given: ((name, run_entry(name, *given)) for name in names)
        return
    with ThreadPoolExecutor(jobs) as threads, ExitStack() as ends:
        free = SimpleQueue[_Worker]()
        for cores in _shares(jobs):
            free.put(_Worker(cores, ends))
        yield lambda names, *given: _apart(threads, free, names, *given)


def _apart(
    threads: ThreadPoolExecutor, free: SimpleQueue["_Worker"], names: Sequence[str], *given: Any
) -> Iterator[tuple[str, Record]]:
    """Each entry in a process that is free."""

    def run(name: str) -> Record:
        worker = free.get()
        try:
            return worker.run(name, *given)
        finally:
            free.put(worker)

    running = {threads.submit(run, name): name for name in names}
    try:
        for future in as_completed(running):
            yield running[future], future.result()
    except BaseException:  # Ctrl-C may have reached this process alone
        threads.shutdown(wait=False, cancel_futures=True)
        for child in active_children():
            child.terminate()
        raise


class _Worker:
    """A process with cores of its own. One that dies takes its entry with it, and is replaced."""

    def __init__(self, cores: Sequence[int], ends: ExitStack) -> None:
        self._cores, self._ends = cores, ends
        self._start()

    def _start(self) -> None:
        process = ProcessPoolExecutor(1, get_context("spawn"), _settle, (self._cores,))
        self._process = self._ends.enter_context(process)

    def run(self, name: str, *given: Any) -> Record:
        try:
            return self._process.submit(run_entry, name, *given).result()
        except BrokenProcessPool:
            self._start()
            return _not_run(ENTRIES[name], _STOPPED)


def _shares(jobs: int) -> list[list[int]]:
    """The cores of each worker: threads of several programs on the same cores take three times as long."""
    if not hasattr(os, "sched_getaffinity"):
        return [[]] * jobs
    cores = sorted(os.sched_getaffinity(0))
    return [cores[k::jobs] or [cores[k % len(cores)]] for k in range(jobs)]


def _settle(cores: Sequence[int]) -> None:
    """In a worker: keep to its cores, and end with its parent, or it would write what the next run writes."""
    if cores:
        os.sched_setaffinity(0, cores)
        threadpool_limits(len(cores), "blas")
    parent = parent_process()

    def wait_for_its_end() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait_for_its_end, daemon=True).start()


def _reason_file(out: Path, name: str) -> Path:
    return out / f"{name}.error"


def _started(out: Path, name: str) -> Path:
    """A file that is there while an entry runs, and after it was killed."""
    return out / f".{name}.started"


def _keep_reason(out: Path, name: str, error: BaseException) -> None:
    """Beside the entry: a result that was there before stays."""
    with contextlib.suppress(OSError):
        words = [_reason(error), "", *traceback.format_exception(error)]
        _reason_file(out, name).write_text("\n".join(words))


@contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """The folder, made if it is not there, for this run alone, and no drafts of killed ones in it."""
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


# --- what a folder holds ------------------------------------------------------------------------------------


def _finished(entry: Entry, out: Path, full: bool, made_with: str) -> bool:
    """Whether there is a result of at least the size that is asked for."""
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


def _record(entry: Entry, out: Path, made_with: str) -> Record:
    if entry.drawing:
        found = _not_run(entry, f"a drawing that shows no result: {entry.drawing}")
    else:
        found = _stored(entry, out, made_with) or _not_run(entry, _why_not(entry, out))
    about = {"paper": entry.paper, "place": entry.place, "summary": entry.summary}
    return {**about, **found, "differs": _differs(entry, found)}


def _why_not(entry: Entry, out: Path) -> str:
    if _started(out, entry.name).exists():
        return _STOPPED
    try:
        return _reason_file(out, entry.name).read_text().splitlines()[0]
    except (OSError, IndexError):
        other = (out / entry.name / RESULT).is_file()
        return "made by other code or from other data" if other else "not asked for yet"


def _differs(entry: Entry, record: Record) -> str:
    """How what was run differs from the paper."""
    if not record["claims"]:
        return ""
    smaller = [SMALLER] if entry.two_sizes and not record["full"] else []
    return "; ".join([*smaller, *([entry.differs] if entry.differs else [])])


def _not_run(entry: Entry, reason: str) -> Record:
    return {"figure": entry.name, "verdict": f"{NOT_RUN}: {reason}", "claims": [], "full": False}


def _reason(error: BaseException) -> str:
    if isinstance(error, InputError):
        return str(error)
    return f"it failed with {type(error).__name__}: {error}"


def _kind(record: Record) -> str:
    return str(record["verdict"]).split(":")[0]


def _claims_held(record: Record) -> str:
    claims = record["claims"]
    return f"{sum(claim['holds'] for claim in claims)} of {len(claims)}" if claims else "-"


# --- the page -----------------------------------------------------------------------------------------------

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1rem; }
td, th { border-bottom: 1px solid #ddd; padding: 0.25rem 0.5rem; text-align: left; vertical-align: top; }
img { max-width: 100%; border: 1px solid #eee; }
section { margin: 2.5rem 0; }
.reproduced { color: #17692c; } .partly { color: #9a5b00; } .not-run { color: #777; }
.not-reproduced { color: #a11; }
.no { color: #a11; font-weight: 600; }
"""


def _page(card: Scorecard) -> str:
    groups = {
        paper: [r for r in card.records.values() if r["paper"] == paper]
        for paper in PAPERS.values()
    }
    body = [
        "<h1>saddlewalk: does it reproduce the papers?</h1>",
        f"<p>{_safe(card.summary)}. Every number was computed by <code>saddlewalk reproduce</code>; a claim "
        "of the paper, or one of ours about it, holds or it does not. What differs from the paper's setting "
        "is said.</p>",
    ]
    for paper, records in groups.items():
        body += [f"<h2>{_safe(paper)}</h2>", _overview(records)]
        body += [_section(record) for record in records if record["claims"]]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>saddlewalk scorecard</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _overview(records: Iterable[Record]) -> str:
    rows = (
        f"<tr><td>{_linked(r)}</td><td>{_safe(r['place'])}</td>"
        f"<td>{_safe(r['summary'])}</td><td>{_claims_held(r)}</td><td>{_verdict(r)}</td></tr>"
        for r in records
    )
    heads = "".join(f"<th>{h}</th>" for h in ("name", "place", "what", "claims", "verdict"))
    return f"<table><tr>{heads}</tr>" + "".join(rows) + "</table>"


def _linked(record: Record) -> str:
    name = record["figure"]
    return f'<a href="#{name}">{name}</a>' if record["claims"] else name


def _section(record: Record) -> str:
    name = record["figure"]
    rows = "".join(
        f"<tr><td>{'yes' if c['holds'] else '<span class=no>no</span>'}</td>"
        f"<td>{_safe(c['statement'])}</td><td>{_safe(c['measured'])}</td></tr>"
        for c in record["claims"]
    )
    size = f" ({record['differs']})" if record["differs"] else ""
    return (
        f'<section id="{name}"><h3>{name}: {_safe(record["title"])}{_safe(size)}</h3>'
        f"<p>{_verdict(record)}</p>"
        f'<img src="{name}/figure.png" alt="{_safe(record["title"])}" loading="lazy">'
        "<table><tr><th>holds</th><th>claim</th><th>measured here</th></tr>"
        f"{rows}</table></section>"
    )


def _verdict(record: Record) -> str:
    return f'<span class="{_kind(record).replace(" ", "-")}">{_safe(record["verdict"])}</span>'


def _safe(words: str) -> str:
    return html.escape(str(words))

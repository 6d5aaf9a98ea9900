"""Run entries of the registry into a folder, here or in several processes.

A finished entry is not run again, so a run that was stopped goes on where it was.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from threadpoolctl import threadpool_limits

from saddlewalk import store
from saddlewalk.errors import InputError
from saddlewalk.figures.registry import ENTRIES, find_entry
from saddlewalk.figures.scorecard.folder import (
    UNFINISHED,
    Scorecard,
    forget_error,
    is_finished,
    keep_error,
    locked,
    origin,
    started_file,
)
from saddlewalk.figures.scorecard.records import Record, not_run
from saddlewalk.interrupts import heeding_interrupts

_RENAMED = {"jobs": "workers", "again": "rerun", "told": "on_entry"}


def reproduce(
    names: Sequence[str],
    folder: str | Path,
    *,
    full: bool = False,
    workers: int = 1,
    rerun: bool = False,
    on_entry: Callable[[str, Record], None] = lambda name, record: None,
    **old: Any,
) -> Scorecard:
    """Run these entries into a folder and return its scorecard.

    Parameters
    ----------
    names : names of entries, as `agf-3`; `saddlewalk reproduce list` has all of them.
    folder : where results are kept; finished ones that are there by the same code and data are not run again.
    full : at the paper's size, where that is larger.
    workers : processes that work at the same time.
    rerun : run finished entries, too.
    on_entry : is called with the name and the record of each entry when it ends.
    **old : names of arguments before version 0.2, which are refused with the new ones.
    """
    _refuse_old_names(old)
    out, made_with = Path(folder), origin()
    wanted = [find_entry(name).name for name in dict.fromkeys(names)]
    with locked(out):
        todo = [n for n in wanted if rerun or not is_finished(ENTRIES[n], out, full, made_with)]
        todo.sort(key=lambda name: started_file(out, name).exists())  # what kills its process waits
        with _runner(workers) as run:
            for name, record in run(todo, out, full, made_with):
                on_entry(name, record)
                Scorecard.read(out).write(out)
        card = Scorecard.read(out)
        card.write(out)
    return card


def _refuse_old_names(given: dict[str, Any]) -> None:
    for name in given:
        if name not in _RENAMED:
            raise TypeError(f"reproduce() got an unexpected keyword argument '{name}'")
        raise InputError(f"`{name}` of `reproduce` is now `{_RENAMED[name]}`.")


def run_entry(name: str, folder: str | Path, full: bool, made_with: str) -> Record:
    """Make one entry and keep it; one that cannot be made says why, and leaves what was there before.

    Parameters
    ----------
    name : of the entry.
    folder : where its result is kept.
    full : at the paper's size, where that is larger.
    made_with : kept with the result, to tell one of other code or from other data.
    """
    import jax
    from matplotlib import pyplot

    entry, out = ENTRIES[name], Path(folder)
    try:
        started_file(out, name).touch()
        with heeding_interrupts():
            result = entry.make(full)
        more = {"full": full and entry.two_sizes, "origin": made_with}
        record = {**result.to_json(), **more}
        with store.new_folder(out / name, force=True) as draft:
            result.write(draft, **more)
            store.write_json(store.versions(), draft / "config.json")
        forget_error(out, name)
    except Exception as error:
        record = not_run(entry, keep_error(out, name, error))
    started_file(out, name).unlink(missing_ok=True)
    pyplot.close("all")
    jax.clear_caches()
    return record


# --- in this process, or in several -------------------------------------------------------------------------

Runner = Callable[[Sequence[str], Path, bool, str], Iterator[tuple[str, Record]]]


@contextmanager
def _runner(workers: int) -> Iterator[Runner]:
    if workers < 1:
        raise InputError(f"There must be at least one worker; got {workers}.")
    if workers == 1:
        yield lambda names, *settings: ((name, run_entry(name, *settings)) for name in names)
        return
    with ThreadPoolExecutor(workers) as threads, ExitStack() as ends:
        free = SimpleQueue[_Worker]()
        for cores in _shares(workers):
            free.put(_Worker(cores, ends))
        yield lambda names, *settings: _in_processes(threads, free, names, *settings)


def _in_processes(
    threads: ThreadPoolExecutor, free: SimpleQueue["_Worker"], names: Sequence[str], *settings: Any
) -> Iterator[tuple[str, Record]]:
    """Each entry in a process that is free."""

    def run(name: str) -> Record:
        worker = free.get()
        try:
            return worker.run(name, *settings)
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
        process = ProcessPoolExecutor(1, get_context("spawn"), _begin_worker, (self._cores,))
        self._process = self._ends.enter_context(process)

    def run(self, name: str, *settings: Any) -> Record:
        try:
            return self._process.submit(run_entry, name, *settings).result()
        except BrokenProcessPool:
            self._start()
            return not_run(ENTRIES[name], UNFINISHED)


def _shares(workers: int) -> list[list[int]]:
    """The cores of each worker: threads of several programs on the same cores take three times as long."""
    if not hasattr(os, "sched_getaffinity"):
        return [[]] * workers
    cores = sorted(os.sched_getaffinity(0))
    return [cores[k::workers] or [cores[k % len(cores)]] for k in range(workers)]


def _begin_worker(cores: Sequence[int]) -> None:
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

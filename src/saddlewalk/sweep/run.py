"""Run the cells of a plan: in this process, on a local cluster, or on any Dask scheduler.

Whoever computes a cell calls the same function with the same parameters, and one process writes the store:
results do not depend on the engine, and a worker that dies takes nothing with it that was called done.
"""

import logging
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from saddlewalk.errors import InputError
from saddlewalk.interrupts import heeding_interrupts
from saddlewalk.progress import Progress
from saddlewalk.sweep.lanes import Batchable, batches, fastest, programs
from saddlewalk.sweep.plan import Plan
from saddlewalk.sweep.results import DONE, FAILED, WAITING, Results, Values, open_results

Measure = Callable[..., Mapping[str, Any]]
"""Takes the parameters of a cell by name and gives numbers by name."""
Batch = tuple[int, ...]
"""Numbers of the cells that run together."""
CONFIRM = 1_000_000
"""Cells beyond which a sweep wants to be confirmed."""
_WAITING = 4
"""Tasks that are handed out for each worker at a time."""
_REST = 9
"""Time between two writes, in units of what one takes."""
_LOSSES = 10
"""How often a cell may lose its worker before it counts as failed."""


def sweep(
    measure: Measure,
    plan: Plan,
    store: str | Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    lanes: int | None = None,
    retry: bool = False,
    confirmed: bool = False,
    progress: bool | None = None,
) -> xr.Dataset:
    """Measure every cell of a plan that the store does not have yet, and return the store.

    Ctrl-C ends the run; what is done stays, and the same call goes on from there.

    Parameters
    ----------
    measure : function of the parameters of a cell that returns numbers by name; a `Batchable` one can take
        many cells at once.
    plan : what is varied: `grid`, `uniform` or `latin_hypercube`.
    store : folder of the results (Zarr); an existing one of the same sweep is resumed.
    workers : processes of a local cluster, with a GPU each where there are some; by default cells run in
        this process.
    scheduler : address of a running Dask scheduler, instead.
    lanes : cells of one shape that run together; by default the faster of one and many, found by trying.
    retry : run the cells that failed, too.
    confirmed : needed for more than a million cells.
    """
    _check(plan, workers, scheduler, lanes, confirmed)
    results = Results(store, plan, _name(measure))
    if not len(results.todo(retry)):
        return open_results(store)
    with Progress("sweep", progress) as bar, _engine(workers, scheduler) as engine:
        bar.update("compiling")
        todo = _batches(measure, results, engine, lanes, retry)
        pace, states = _Pace(results), (WAITING, FAILED) if retry else (WAITING,)
        with _Writer(results) as writer:
            for finished in engine(_attempts(measure, plan, todo)):
                writer.add({k: v for k, v in finished.items() if results.status[k] in states})
                bar.update(pace.words(), float(np.mean(results.status != WAITING)))
    return open_results(store)


class _Writer:
    """Writes cells as they finish; where they come faster than a disk, some at a time.

    Writing takes a tenth of the time at most, so a crash costs about ten times what one write takes.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        self._waiting: dict[int, Values | str] = {}
        self._next = 0.0

    def __enter__(self) -> "_Writer":
        return self

    def add(self, finished: Mapping[int, Values | str]) -> None:
        self._waiting |= finished
        begin = time.monotonic()
        if begin >= self._next:
            self._flush()
            end = time.monotonic()
            self._next = end + _REST * (end - begin)

    def _flush(self) -> None:
        ready, self._waiting = self._waiting, {}
        self._results.write(ready)

    def __exit__(self, *_: object) -> None:
        if self._waiting:
            self._flush()


def attempt(measure: Any, cells: Sequence[Mapping[str, Any]], lanes: int = 1) -> list[Values | str]:
    """Of each cell its numbers, or what went wrong; one bad cell does not spoil the others."""
    if lanes > 1:
        filled = [*cells, *[cells[-1]] * (lanes - len(cells))]  # the last batch has the same shape
        try:
            found = [_numbers(values) for values in measure.together(filled)]
            return list(found[: len(cells)])
        except Exception:
            pass
    return [_alone(measure, cell) for cell in cells]


def _alone(measure: Measure, cell: Mapping[str, Any]) -> Values | str:
    try:
        return _numbers(measure(**cell))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _numbers(found: Mapping[str, Any]) -> Values:
    return {str(name): _number(name, value) for name, value in found.items()}


def _number(name: str, value: Any) -> float:
    array = np.asarray(value)
    if array.size != 1:
        raise InputError(f"'{name}' must be one number; it has shape {array.shape}.")
    return float(array.reshape(()))


# --- what runs together -------------------------------------------------------------------------------------


def _batches(
    measure: Measure, results: Results, engine: "Engine", lanes: int | None, retry: bool
) -> list[tuple[Batch, int]]:
    """Cells to run, those that run together side by side, and how many lanes their program has."""
    todo, plan = results.todo(retry).tolist(), results.plan
    if not isinstance(measure, Batchable):
        return [((number,), 1) for number in todo]
    groups = programs(measure, plan)
    if not results.lanes:
        found = {
            name: min(lanes, len(numbers))
            if lanes is not None
            else engine.call(fastest, measure, [plan.cell(k) for k in numbers[:_MOST_TRIED]])
            for name, numbers in groups.items()
        }
        results.keep_lanes(found)
    elif lanes is not None and lanes not in results.lanes.values():
        raise InputError(
            f"This sweep was begun with {max(results.lanes.values())} lanes; go on with as many."
        )
    every = batches(groups, results.lanes, todo)
    of_cell = {number: name for name, numbers in groups.items() for number in numbers}
    return [(tuple(batch), results.lanes[of_cell[batch[0]]]) for batch in every]


_MOST_TRIED = 16_384
"""Cells that a trial may look at."""


def _attempts(
    measure: Measure, plan: Plan, todo: Sequence[tuple[Batch, int]]
) -> Iterator[tuple[Batch, tuple[Any, ...]]]:
    for batch, lanes in todo:
        yield batch, (measure, [plan.cell(number) for number in batch], lanes)


# --- engines ------------------------------------------------------------------------------------------------

Attempts = Iterator[tuple[Batch, tuple[Any, ...]]]


class Engine:
    """This process."""

    def __call__(self, attempts: Attempts) -> Iterator[dict[int, Values | str]]:
        """Results of batch after batch."""
        for batch, given in attempts:
            with heeding_interrupts():
                found = attempt(*given)
            yield dict(zip(batch, found, strict=True))

    def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """One call, where cells are computed."""
        return function(*given)


class Cluster(Engine):
    """The workers of a Dask cluster."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """One call, on a worker."""
        return self._client.submit(function, *given, pure=False).result()

    def __call__(self, attempts: Attempts) -> Iterator[dict[int, Values | str]]:
        """Results in the order in which they end, as many at a time as workers can hold."""
        from distributed import as_completed

        batch_of: dict[str, Batch] = {}

        def hand_out(batch: Batch, given: tuple[Any, ...]) -> Any:
            future = self._client.submit(attempt, *given, pure=False, retries=2)
            batch_of[future.key] = batch
            return future

        many = _WAITING * max(1, len(self._client.scheduler_info()["workers"]))
        first = [hand_out(*one) for _, one in zip(range(many), attempts, strict=False)]
        running = as_completed(first, raise_errors=False)
        for ended in running.batches():
            finished: dict[int, Values | str] = {}
            for future in ended:
                batch = batch_of.pop(future.key)
                failed = future.exception() if future.status == "error" else None
                words: list[Values | str] = [f"{type(failed).__name__}: {failed}"] * len(batch)
                finished |= dict(zip(batch, words if failed else future.result(), strict=True))
            yield finished
            for _, one in zip(ended, attempts, strict=False):
                running.add(hand_out(*one))


@contextmanager
def _engine(workers: int | None, scheduler: str | None) -> Iterator[Engine]:
    if workers is None and scheduler is None:
        yield Engine()
        return
    try:
        import dask
        from distributed import Client
    except ImportError as error:
        raise InputError("Clusters need Dask: pip install saddlewalk[cluster].") from error
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=10)
        except (OSError, ValueError) as error:
            raise InputError(f"There is no Dask scheduler at {scheduler}: {error}") from error
        with client:
            yield Cluster(client)
        return
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": _LOSSES}),
        _local_cluster(workers or 1) as local,
        Client(local) as client,
    ):
        client.wait_for_workers(workers)
        yield Cluster(client)


def _local_cluster(workers: int) -> Any:
    """Processes on this machine; each sees one of its GPUs, if it has any."""
    from distributed import LocalCluster

    gpus = count_gpus()

    class Pinned(LocalCluster):
        def new_worker_spec(self) -> Any:
            (name, spec), *_ = super().new_worker_spec().items()
            if not gpus:
                return {name: spec}
            pinned = {"CUDA_VISIBLE_DEVICES": str(int(name) % gpus)}
            return {name: {**spec, "options": {**spec["options"], "env": pinned}}}

    cluster = Pinned(
        n_workers=0, threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR
    )
    cluster.scale(workers)
    return cluster


def count_gpus() -> int:
    """GPUs of this machine, without a program that holds them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    said = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False)
    return sum(line.startswith("GPU ") for line in said.stdout.splitlines())


# --- words --------------------------------------------------------------------------------------------------


class _Pace:
    """Cells done, failed, a second, and the time that is left."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._begin = time.monotonic()
        self._before = int(np.sum(results.status != 0))

    def words(self) -> str:
        status = self._results.status
        done, failed = (int(np.sum(status == state)) for state in (DONE, FAILED))
        now = done + failed - self._before
        rate = now / max(time.monotonic() - self._begin, 1e-9)
        said = [f"{done + failed:,} of {len(status):,} cells"]
        if failed:
            said.append(f"{failed} failed")
        if now:
            left = timedelta(seconds=round((len(status) - done - failed) / rate))
            said += [f"{rate:.3g}/s", f"{left} left"]
        return ", ".join(said)


def _check(
    plan: Plan, workers: int | None, scheduler: str | None, lanes: int | None, confirmed: bool
) -> None:
    if workers is not None and scheduler is not None:
        raise InputError("Give workers of a local cluster or a scheduler, not both.")
    if lanes is not None and lanes < 1:
        raise InputError(f"There must be at least one lane; got {lanes}.")
    if len(plan) > CONFIRM and not confirmed:
        raise InputError(f"The plan has {len(plan):,} cells. Confirm that this is meant (--yes).")


def _name(measure: Any) -> str:
    own = getattr(measure, "name", None)
    return str(own) if own else f"{measure.__module__}.{measure.__qualname__}"

"""Run the cells of a plan: in this process, on a local cluster, or on any Dask scheduler.

Whoever computes a cell calls the same function with the same parameters, and one process writes the store:
results do not depend on the engine, and a worker that dies takes nothing with it that was called done.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from saddlewalk.errors import InputError
from saddlewalk.progress import Progress
from saddlewalk.sweep.plan import Plan
from saddlewalk.sweep.results import DONE, FAILED, Results, Values, open_results

Measure = Callable[..., Mapping[str, Any]]
"""Takes the parameters of a cell by name and gives numbers by name."""
CONFIRM = 1_000_000
"""Cells beyond which a sweep wants to be confirmed."""
_WAITING = 4
"""Tasks that are handed out for each worker at a time."""
_LOSSES = 10
"""How often a cell may lose its worker before it counts as failed."""


def sweep(
    measure: Measure,
    plan: Plan,
    store: str | Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    retry: bool = False,
    confirmed: bool = False,
    progress: bool | None = None,
) -> xr.Dataset:
    """Measure every cell of a plan that the store does not have yet, and return the store.

    Parameters
    ----------
    measure : function of the parameters of a cell that returns numbers by name.
    plan : what is varied: `grid`, `uniform` or `latin_hypercube`.
    store : folder of the results (Zarr); an existing one of the same sweep is resumed.
    workers : processes of a local cluster; by default cells run in this process.
    scheduler : address of a running Dask scheduler, instead.
    retry : run the cells that failed, too.
    confirmed : needed for more than a million cells.

    Ctrl-C ends the run; what is done stays, and the same call goes on from there.
    """
    if workers is not None and scheduler is not None:
        raise InputError("Give workers of a local cluster or a scheduler, not both.")
    if len(plan) > CONFIRM and not confirmed:
        raise InputError(f"The plan has {len(plan):,} cells. Confirm that this is meant (--yes).")
    results = Results(store, plan, _name(measure))
    todo = results.todo(retry)
    with Progress("sweep", progress) as bar, _engine(measure, workers, scheduler) as engine:
        for finished in engine(plan, todo):
            results.write(finished)
            bar.update(_words(results), float(np.mean(results.status != 0)))
    return open_results(store)


def attempt(measure: Measure, parameters: Mapping[str, Any]) -> Values | str:
    """The numbers of a cell, or what went wrong."""
    try:
        return {str(name): _number(name, value) for name, value in measure(**parameters).items()}
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _number(name: str, value: Any) -> float:
    array = np.asarray(value)
    if array.size != 1:
        raise InputError(f"'{name}' must be one number; it has shape {array.shape}.")
    return float(array.reshape(()))


# --- engines ------------------------------------------------------------------------------------------------

Engine = Callable[[Plan, np.ndarray], Iterator[dict[int, Values | str]]]


@contextmanager
def _engine(measure: Measure, workers: int | None, scheduler: str | None) -> Iterator[Engine]:
    if workers is None and scheduler is None:
        yield lambda plan, todo: (
            {int(number): attempt(measure, plan.cell(int(number)))} for number in todo
        )
        return
    with _client(workers, scheduler) as client:
        yield lambda plan, todo: _distributed(client, measure, plan, todo)


@contextmanager
def _client(workers: int | None, scheduler: str | None) -> Iterator[Any]:
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise InputError("Clusters need Dask: pip install saddlewalk[cluster].") from error
    quiet = {"distributed.scheduler.allowed-failures": _LOSSES}
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=10)
        except (OSError, ValueError) as error:
            raise InputError(f"There is no Dask scheduler at {scheduler}: {error}") from error
        with client:
            yield client
        return
    with (
        dask.config.set(quiet),
        LocalCluster(
            workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.ERROR
        ) as local,
        Client(local) as client,
    ):
        yield client


def _distributed(
    client: Any, measure: Measure, plan: Plan, todo: np.ndarray
) -> Iterator[dict[int, Values | str]]:
    """Cells in the order in which they end, as many at a time as workers can hold."""
    from distributed import as_completed

    waiting = iter(int(number) for number in todo)

    def hand_out(number: int) -> Any:
        future = client.submit(attempt, measure, plan.cell(number), pure=False, retries=2)
        numbers[future.key] = number
        return future

    numbers: dict[str, int] = {}
    many = _WAITING * max(1, len(client.scheduler_info()["workers"]))
    first = [hand_out(number) for _, number in zip(range(many), waiting, strict=False)]
    running = as_completed(first, raise_errors=False)
    for batch in running.batches():
        finished: dict[int, Values | str] = {}
        for future in batch:
            failed = future.exception() if future.status == "error" else None
            words = f"{type(failed).__name__}: {failed}" if failed else None
            finished[numbers.pop(future.key)] = words or future.result()
        yield finished
        for _, number in zip(finished, waiting, strict=False):
            running.add(hand_out(number))


def _words(results: Results) -> str:
    done, failed = (int(np.sum(results.status == state)) for state in (DONE, FAILED))
    lost = f", {failed} failed" if failed else ""
    return f"{done + failed} of {math.prod(results.plan.shape)} cells{lost}"


def _name(measure: Measure) -> str:
    return f"{measure.__module__}.{measure.__qualname__}"

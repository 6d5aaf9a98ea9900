"""Where cells are computed: in this process, on a local cluster, or on any Dask scheduler.

Whoever computes a cell calls the same function with the same parameters, on one thread of BLAS: results do
not depend on the engine.
"""

import abc
import functools
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from saddlewalk.errors import InputError, import_extra
from saddlewalk.interrupts import heeding_interrupts
from saddlewalk.sweep.results import Series, Values

Batch = tuple[int, ...]
"""Numbers of the cells that run together."""
Attempts = Iterator[tuple[Batch, tuple[Any, ...]]]
"""Batches, each with what `attempt` is given for it."""
_WAITING = 4
"""Tasks that are handed out for each thread of a worker at a time."""
_LOSSES = 4
"""How often a cell may lose its worker before it counts as failed."""


def attempt(measure: Any, cells: Sequence[Mapping[str, Any]], lanes: int = 1) -> list[Values | str]:
    """Of each cell its numbers, or what went wrong; one bad cell does not spoil the others.

    Parameters
    ----------
    measure : a function of the parameters of a cell; with lanes, one that is `Batchable`.
    cells : parameters of each cell by name.
    lanes : cells that run together; 1 runs them one by one.
    """
    if lanes > 1:
        filled = [*cells, *[cells[-1]] * (lanes - len(cells))]  # the last batch has the same shape
        try:
            found = [numbers_of(values) for values in measure.together(filled)]
            return list(found[: len(cells)])
        except Exception:
            pass
    return [_alone(measure, cell) for cell in cells]


def _alone(measure: Callable[..., Any], cell: Mapping[str, Any]) -> Values | str:
    try:
        return numbers_of(measure(**cell))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def numbers_of(found: Any) -> Values:
    """What a measure gave, as plain numbers by name.

    Parameters
    ----------
    found : what the measure returned.
    """
    if not isinstance(found, Mapping):
        raise InputError(f"A measure must return numbers by name; got {type(found).__name__}.")
    return {str(name): _number(name, value) for name, value in found.items()}


def _number(name: str, value: Any) -> float | Series:
    if isinstance(value, Series):
        return Series(np.asarray(value.values, dtype=float))
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiub":
        shape = f" of shape {array.shape}" if array.ndim else ""
        raise InputError(f"'{name}' must be one number; it is {type(value).__name__}{shape}.")
    return float(array.reshape(()))


class Engine(abc.ABC):
    """Computes batches of cells."""

    @abc.abstractmethod
    def __call__(self, attempts: Attempts) -> Iterator[dict[int, Values | str]]:
        """What becomes of each cell, batch after batch."""

    @abc.abstractmethod
    def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """One call, where cells are computed."""


class ThisProcess(Engine):
    """One batch after the other."""

    def __call__(self, attempts: Attempts) -> Iterator[dict[int, Values | str]]:
        """In the order of the plan."""
        with threadpool_limits(1, "blas"):
            for batch, given in attempts:
                with heeding_interrupts():
                    found = attempt(*given)
                yield dict(zip(batch, found, strict=True))

    def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """Here."""
        with threadpool_limits(1, "blas"), heeding_interrupts():
            return function(*given)


class Cluster(Engine):
    """The workers of a Dask cluster.

    Parameters
    ----------
    client : a client of `dask.distributed`.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """On a worker."""
        return self._client.submit(_on_worker, function, *given, pure=False, retries=2).result()

    def __call__(self, attempts: Attempts) -> Iterator[dict[int, Values | str]]:
        """In the order in which they end, as many at a time as workers can hold."""
        from distributed import as_completed

        batch_of: dict[str, Batch] = {}
        running = as_completed([], raise_errors=False)

        def hand_out() -> None:
            """To workers that have joined since, too."""
            free = _WAITING * max(1, sum(self._client.nthreads().values())) - len(batch_of)
            for _, (batch, given) in zip(range(free), attempts, strict=False):
                future = self._client.submit(_on_worker, attempt, *given, pure=False, retries=2)
                batch_of[future.key] = batch
                running.add(future)

        hand_out()
        for ended in running.batches():
            finished: dict[int, Values | str] = {}
            for future in ended:
                batch = batch_of.pop(future.key)
                failed = future.exception() if future.status == "error" else None
                words: list[Values | str] = [f"{type(failed).__name__}: {failed}"] * len(batch)
                finished |= dict(zip(batch, words if failed else future.result(), strict=True))
            yield finished
            hand_out()


def _on_worker(function: Callable[..., Any], *given: Any) -> Any:
    _limit_threads()
    return function(*given)


@functools.cache
def _limit_threads() -> None:
    """For the life of a worker: to set it takes longer than many a cell."""
    threadpool_limits(1, "blas")


@contextmanager
def engine_for(workers: int | None, scheduler: str | None) -> Iterator[Engine]:
    """The engine that is asked for.

    Parameters
    ----------
    workers : processes of a local cluster; `None` for none.
    scheduler : address of a running Dask scheduler, instead. Without both, cells run in this process.
    """
    if workers is None and scheduler is None:
        yield ThisProcess()
        return
    import_extra("distributed", "Clusters", "cluster")
    import dask
    from distributed import Client

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

    gpus = visible_gpus()

    class Pinned(LocalCluster):
        def new_worker_spec(self) -> Any:
            (name, spec), *_ = super().new_worker_spec().items()
            if not gpus:
                return {name: spec}
            pinned = {"CUDA_VISIBLE_DEVICES": gpus[int(name) % len(gpus)]}
            if workers > len(gpus):  # they share: nobody may take it all at the start
                pinned["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
            return {name: {**spec, "options": {**spec["options"], "env": pinned}}}

    cluster = Pinned(
        n_workers=0,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.ERROR,
    )
    cluster.scale(workers)
    return cluster


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use, found without a program that would hold them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    said = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False)
    there = [str(k) for k, line in enumerate(said.stdout.splitlines()) if line.startswith("GPU ")]
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [name for name in given.split(",") if name] if given is not None and there else there

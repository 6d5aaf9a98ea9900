"""`sweep`: measure the cells of a plan that a store does not have yet.

One process writes the store, whoever computes the cells: a worker that dies takes nothing with it that was
called done.
"""

import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from saddlewalk.errors import InputError
from saddlewalk.show.progress import Progress
from saddlewalk.sweep.engines import Batch, Engine, engine_for, numbers_of
from saddlewalk.sweep.lanes import Batchable, batches, fastest, programs
from saddlewalk.sweep.measures import MEASURES, check_parameters, find_measure
from saddlewalk.sweep.plan import Plan
from saddlewalk.sweep.results import FAILED, WAITING, Results, Values, open_results

Measure = Callable[..., Mapping[str, Any]]
"""Takes the parameters of a cell by name and gives numbers by name."""
CONFIRM = 1_000_000
"""Cells beyond which a sweep wants to be confirmed."""
_REST = 9
"""Time between two writes, in units of what one takes."""
_MOST_TRIED = 16_384
"""Cells that a trial may look at."""


def sweep(
    measure: Measure | str,
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
    measure : "predict", "train", "compare", "diagnose", "regime", "fit", or a function of the parameters of a
        cell that returns numbers by name; a `Batchable` one can take many cells at once.
    plan : what is varied: `grid`, `uniform` or `latin_hypercube`.
    store : folder of the results (Zarr); an existing one of the same sweep is resumed.
    workers : processes of a local cluster, with a GPU each where there are some; by default cells run in
        this process.
    scheduler : address of a running Dask scheduler, instead.
    lanes : cells of one shape that run together; by default the faster of one and many, found by trying.
    retry : run the cells that failed, too.
    confirmed : needed for more than a million cells.
    progress : show a progress line on stderr; by default if it is a terminal.
    """
    _check(plan, workers, scheduler, lanes, confirmed)
    function = find_measure(measure) if isinstance(measure, str) else measure
    _check_known(function, plan)
    results = Results(store, plan, _name(function), _code(function))
    try:
        if len(results.todo(retry)):
            _run(function, results, (workers, scheduler), lanes, retry, progress)
    finally:
        results.close()
    return open_results(store)


def _run(
    measure: Measure,
    results: Results,
    where: tuple[int | None, str | None],
    lanes: int | None,
    retry: bool,
    progress: bool | None,
) -> None:
    states = (WAITING, FAILED) if retry else (WAITING,)
    pace = _Pace(len(results.todo(retry)))
    with (
        Progress("sweep", progress) as bar,
        engine_for(*where) as engine,
        _Writer(results) as writer,
    ):

        def keep(finished: Mapping[int, Values | str]) -> None:
            wanted = {k: v for k, v in finished.items() if results.status[k] in states}
            writer.add(wanted)
            pace.count(wanted)
            bar.update(pace.words(), pace.part)

        bar.update("compiling")
        if isinstance(measure, Batchable):
            _choose_lanes(measure, results, engine, lanes, keep)
        for finished in engine(_attempts(measure, results, writer.missing(results.todo(retry)))):
            keep(finished)


# --- what runs together -------------------------------------------------------------------------------------


def _choose_lanes(
    measure: Batchable,
    results: Results,
    engine: Engine,
    wanted: int | None,
    keep: Callable[[Mapping[int, Values | str]], None],
) -> None:
    """Decide for each program, once for all runs of a store; what was found by trying is kept."""
    for name, numbers in programs(measure, results.plan).items():
        known = results.lanes.get(name)
        asked = None if wanted is None else min(wanted, len(numbers))
        if known is not None and asked is not None and known != asked:
            raise InputError(f"This sweep was begun with {known} lanes; go on with as many.")
        if known is None and asked is not None:
            results.keep_lanes({name: asked})
        elif known is None:
            cells = [results.plan.cell(k) for k in numbers[:_MOST_TRIED]]
            trial = engine.call(fastest, measure, cells)
            results.keep_lanes({name: trial.lanes})
            keep({numbers[k]: numbers_of(values) for k, values in trial.found.items()})


def _attempts(
    measure: Measure, results: Results, todo: Sequence[int]
) -> Iterator[tuple[Batch, tuple[Any, ...]]]:
    plan = results.plan
    if not isinstance(measure, Batchable):
        for number in todo:
            yield (number,), (measure, [plan.cell(number)])
        return
    groups, lanes = programs(measure, plan), results.lanes
    name_of = {number: name for name, numbers in groups.items() for number in numbers}
    for batch in batches(groups, lanes, todo):
        cells = [plan.cell(number) for number in batch]
        yield tuple(batch), (measure, cells, lanes[name_of[batch[0]]])


# --- writing ------------------------------------------------------------------------------------------------


class _Writer:
    """Writes cells as they finish; where they come faster than a disk, some at a time.

    Writing takes a tenth of the time at most, and no cell waits for longer than about ten writes take: a
    thread writes what is waiting while the next cells are computed.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        self._waiting: dict[int, Values | str] = {}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._next = 0.0
        self._failed: BaseException | None = None

    def __enter__(self) -> "_Writer":
        return self

    def add(self, finished: Mapping[int, Values | str]) -> None:
        if self._failed is not None:
            raise self._failed
        with self._lock:
            self._waiting |= finished
            pause = self._next - time.monotonic()
            if pause <= 0:
                self._flush()
            elif self._timer is None:
                self._timer = threading.Timer(pause, self._late)
                self._timer.daemon = True
                self._timer.start()

    def missing(self, todo: np.ndarray) -> list[int]:
        """Cells that are neither written nor waiting to be."""
        with self._lock:
            return [number for number in todo.tolist() if number not in self._waiting]

    def _late(self) -> None:
        with self._lock:
            self._timer = None
            try:
                self._flush()
            except BaseException as error:  # told by the thread that computes
                self._failed = error

    def _flush(self) -> None:
        if not self._waiting:
            return
        begin = time.monotonic()
        ready, self._waiting = self._waiting, {}
        self._results.write(ready)
        end = time.monotonic()
        self._next = end + _REST * (end - begin)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._flush()
        if self._failed is not None:
            raise self._failed


# --- words and checks ---------------------------------------------------------------------------------------


class _Pace:
    """Cells done, failed, a second, and the time that is left."""

    def __init__(self, many: int) -> None:
        self._many, self._done, self._failed = many, 0, 0
        self._begin = time.monotonic()

    def count(self, finished: Mapping[int, Values | str]) -> None:
        self._done += len(finished)
        self._failed += sum(isinstance(values, str) for values in finished.values())

    @property
    def part(self) -> float:
        return self._done / max(1, self._many)

    def words(self) -> str:
        rate = self._done / max(time.monotonic() - self._begin, 1e-9)
        said = [f"{self._done:,} of {self._many:,} cells"]
        if self._failed:
            said.append(f"{self._failed} failed")
        if self._done:
            left = timedelta(seconds=round((self._many - self._done) / rate))
            said += [f"{rate:.3g}/s", f"{left} left"]
        return ", ".join(said)


def _check(
    plan: Any, workers: int | None, scheduler: str | None, lanes: int | None, confirmed: bool
) -> None:
    if not isinstance(plan, Plan):
        raise InputError(
            f"What is varied must be a plan, for instance grid({{...}}); got {type(plan).__name__}."
        )
    if workers is not None and scheduler is not None:
        raise InputError("Give workers of a local cluster or a scheduler, not both.")
    if lanes is not None and lanes < 1:
        raise InputError(f"There must be at least one lane; got {lanes}.")
    if len(plan) > CONFIRM and not confirmed:
        raise InputError(
            f"The plan has {len(plan):,} cells. Confirm that this is meant (`confirmed`)."
        )


def _check_known(measure: Any, plan: Plan) -> None:
    """Names of parameters, before anything runs."""
    if any(measure is known for known in MEASURES.values()):
        setting = plan.fixed.get("setting")
        if setting is not None or "setting" not in plan.parameters:
            check_parameters(measure.name, setting, plan.parameters)
    elif not isinstance(measure, Batchable):
        check_parameters(measure, None, plan.parameters)
        for one in inspect.signature(measure).parameters.values():
            by_name = one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
            if by_name and one.default is one.empty and one.name not in plan.parameters:
                raise InputError(f"The measure needs '{one.name}', which the plan does not give.")


def _name(measure: Any) -> str:
    own = getattr(measure, "name", None)
    if own:
        return str(own)
    whose = getattr(measure, "func", measure)  # functools.partial
    return f"{whose.__module__}.{getattr(whose, '__qualname__', type(whose).__qualname__)}"


def _code(measure: Any) -> str:
    """The source of a function of one's own: with other code it is another sweep."""
    if getattr(measure, "name", None):
        return ""
    try:
        return inspect.getsource(getattr(measure, "func", measure)) + repr(
            getattr(measure, "keywords", "")
        )
    except (OSError, TypeError):
        return ""

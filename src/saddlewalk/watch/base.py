"""The watch: a training that somebody else runs. Where it is, what grows, and when the loss drops next.

At every step it takes the loss, and does nothing else. Now and then, as often as its part of the time allows,
it looks: loss and gradient on the probe, the training followed ahead (`ahead`), the next drop read off it
(`outlook`), with an interval (`forecast`). Nothing of the training is changed.
"""

import abc
import math
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saddlewalk.diagnose.kinds import PointKind
from saddlewalk.diagnose.landscapes.saddles import saddle_report
from saddlewalk.diagnose.landscapes.width import widths_of
from saddlewalk.diagnose.patience import patience
from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.show.progress import Progress
from saddlewalk.watch.ahead import Blocks, train_ahead
from saddlewalk.watch.budget import Budget
from saddlewalk.watch.forecast import Forecast, interval, reason_of, spread
from saddlewalk.watch.losses import LossRecord, is_another
from saddlewalk.watch.outlook import Outlook, Search, State, read
from saddlewalk.watch.record import Look, WatchRecord
from saddlewalk.watch.rules import Rule, Vector, checked_clip
from saddlewalk.watch.sampling import Sampling, beyond_the_probe, checked_samples
from saddlewalk.watch.sentences import another, failure, sentence

if TYPE_CHECKING:
    import xarray as xr

_FAR = 8.0
"""How far is looked ahead, in times of the steps made so far."""
MOST = 3000
"""Gradients of one look at most, where there is no budget."""
_SOON = 500
"""Steps that are looked ahead at least."""
_MANY_UNITS = 512
"""Units whose lengths are kept."""
_PAGE_PRICE = 1.0
"""Seconds that a page is thought to take before one was written."""
_TIMED, _BESIDE = 5, 3.0
"""Gradients that are timed, and how many times the fastest of them a look takes for one, with all that it
does beside, as long as none has told."""
_TEST_PRICE, _PATIENCE = 600, 30.0
"""Gradients that a saddle test is thought to cost, and seconds that it may take."""
_JUDGED = 20
"""Steps after which what training reports is compared with the probe."""
_STILL = 0.05
"""The loss has stood still since it was last further from its level than this part."""
_WIDE_ENOUGH, _WIDTH_PRICE = 0.5, 500
"""Part of what is left of a look that effective widths may take, and gradients that they are thought to cost
before they were counted once."""


class AbstractWatch(abc.ABC):
    """What every watch does, whichever library trains.

    Parameters
    ----------
    landscape : the network with a probe and its loss.
    budget : what looks may take, as a part of the training time.
    widths : count the units in use of each hidden layer, and test which kind of saddle a plateau is at, where
        there is time for it.
    page : a file for a browser, written anew after looks where there is time for it; none by default.
    title : what the training is called.
    samples : how many samples the training data have; by default the probe is taken for all of them.
    clip : length to which gradients are clipped in training; by default they are not.
    held_out : the same network with data that are not trained on. Then the watch is about their loss: it
        follows the training on the probe, and tells when the loss of these will drop.
    """

    def __init__(
        self,
        landscape: AbstractLandscape,
        *,
        held_out: AbstractLandscape | None = None,
        budget: float = 0.05,
        widths: bool = True,
        page: str | Path | None = None,
        title: str = "training",
        samples: int | None = None,
        clip: float | None = None,
    ) -> None:
        self.landscape, self.held_out = landscape, held_out
        self.samples = checked_samples(samples, landscape.sample_count)
        self.clip = checked_clip(clip)
        Budget(budget)  # what is no budget is told before anything is computed
        self.title = title
        self.looks: list[Look] = []
        self.began_to_fail: str = ""
        """Where numbers stopped being finite, in a sentence; empty as long as they are."""
        self._losses = LossRecord()
        self._blocks = Blocks(landscape)
        self._widths = self._tests = widths
        self._width_seconds = math.nan
        self._page = None if page is None else Path(page)
        if self._page is not None and not self._page.parent.is_dir():
            raise InputError(f"There is no folder {self._page.parent} for the page; make it first.")
        self._page_seconds = _PAGE_PRICE
        self._told_other = False
        with (
            landscape.probing()
        ):  # the first call of all may compile: training would wait for that, too
            self._first_loss = landscape.loss_and_gradient(landscape.weights)[0]
        self.budget = Budget(budget)
        self._time_gradients()

    @abc.abstractmethod
    def weights(self) -> Vector:
        """The weights as they are now."""

    @abc.abstractmethod
    def rule(self) -> Rule | None:
        """What the optimizer will do from here; `None` if its law is not known."""

    # --- what a training loop calls ------------------------------------------------------------------

    def _count(self, loss: Any) -> Look | None:
        """One more step was made; look if it is time."""
        value = _as_number(loss)
        self._losses.add(value)
        if not math.isfinite(value):
            self._failed(value)
            return None
        if self.began_to_fail:
            return None
        if not self.budget.allows(self.steps):
            if self.budget.doubtful(self.steps):
                self._time_gradients()
            return None
        return self.look(most=self.budget.affordable(), seconds=self.budget.left)

    def look(self, most: int = MOST, seconds: float = math.inf) -> Look:
        """Look now, whatever the budget says.

        Parameters
        ----------
        most : gradients on the probe that may be spent.
        seconds : time that may be spent.
        """
        until = time.perf_counter() + seconds
        with self.budget.look(self.steps), self.landscape.probing():
            look = self._seen(most, seconds)
            self.looks.append(look)
            self._check_loss(look)
            if self._page is not None and self._page_seconds < until - time.perf_counter():
                self.write_page(self._page)
        return look

    def write_page(self, path: str | Path) -> Path:
        """Write the page for a browser as it is now.

        Parameters
        ----------
        path : the file.
        """
        from saddlewalk.watch.page import write_page

        start = time.perf_counter()
        written = write_page(self, Path(path))
        self._page_seconds = time.perf_counter() - start
        return written

    def go_to(self, step: int, loss: float) -> None:
        """Count steps that were made unseen.

        Parameters
        ----------
        step : the step that is reached; nothing happens if it is not ahead.
        loss : the loss there.
        """
        self._told_other = True  # these losses are the probe's own
        for _ in range(step - self.steps - 1):
            self._losses.add(math.nan)
        if step > self.steps:
            self._losses.add(loss)

    @property
    def steps(self) -> int:
        """Steps that were made under this watch."""
        return self._losses.steps

    # --- what was seen -------------------------------------------------------------------------------

    @property
    def record(self) -> WatchRecord:
        """All that is known, as a result that can be kept."""
        steps, losses = self._losses.curve()
        names = tuple(self._blocks.name(k) for k in range(self._blocks.count)[:_MANY_UNITS])
        return WatchRecord(steps, losses, tuple(self.looks), names, self.title)

    @property
    def history(self) -> "xr.DataTree":
        """The same as labeled data."""
        return self.record.to_xarray()

    @property
    def forecast(self) -> Forecast | None:
        """The last one, if the last look made one."""
        return self.looks[-1].forecast if self.looks else None

    def save(self, path: str | Path) -> Path:
        """Keep everything in one file; `WatchRecord.load` reads it back.

        Parameters
        ----------
        path : the file.
        """
        return self.record.save(path)

    def plot(self, target: "str | Path | None" = None) -> Any:
        """Loss, plateaus, forecasts with their intervals as they were made, what grows.

        Parameters
        ----------
        target : a file, or nothing.
        """
        return self.record.plot(target)

    def numbers(self) -> dict[str, float]:
        """What a logger takes: numbers by name, of the last look."""
        return self.looks[-1].numbers() if self.looks else {}

    def __str__(self) -> str:
        if self.began_to_fail:
            return self.began_to_fail
        if not self.looks:
            return (
                f"step {self.steps:,}: not looked yet, a look would cost more than `budget` of the training "
                "so far; `look()` looks at once, a larger budget sooner"
            )
        look = self.looks[-1]
        level = look.loss if look.forecast is None else look.forecast.before
        return sentence(look, self._losses.still_since(level, max(_STILL * abs(level), 1e-12)))

    def _repr_html_(self) -> str:
        return self.record._repr_html_()

    # --- a look --------------------------------------------------------------------------------------

    def _time_gradients(self) -> None:
        """What looks are made of: the fastest of a few gradients, because others may have been in the way."""
        seconds = []
        with self.budget.look(self.steps), self.landscape.probing():
            weights = self.landscape.weights
            for _ in range(_TIMED):
                start = time.perf_counter()
                self.landscape.loss_and_gradient(weights)
                seconds.append(time.perf_counter() - start)
        self.budget.gradient = min(self.budget.gradient, _BESIDE * min(seconds))

    def _seen(self, most: int, seconds: float) -> Look:
        start = time.perf_counter()
        weights = self.weights()
        if not np.isfinite(weights).all():
            self._failed(math.nan)
            return self._short(weights, State.NOT_FINITE, start)
        loss, gradient = self.landscape.loss_and_gradient(weights)
        if not math.isfinite(loss) or not np.isfinite(gradient).all():
            self._failed(loss)
            return self._short(weights, State.NOT_FINITE, start)
        rule = self.rule()
        norm = float(np.linalg.norm(gradient))
        if rule is None:
            return self._short(weights, State.UNKNOWN, start, loss, norm)
        until = start + seconds
        searched = start + self.budget.for_the_search(seconds)
        outlook, used, steep = self._outlook(weights, rule, most, searched)
        beyond = Sampling()
        if steep is not None and outlook.state is State.PLATEAU:
            beyond = beyond_the_probe(self.landscape, steep, self.samples)
        state = State.BY_HEART if beyond.by_heart else outlook.state
        kind = None
        if state is State.NO_DROP or (state is State.PLATEAU and self._tests):
            kind = self._kind(weights, until)
        if state is State.NO_DROP and kind is PointKind.MINIMUM:
            state = State.MINIMUM
        return Look(
            step=self.steps,
            loss=loss,
            gradient_norm=norm,
            state=state,
            seen=outlook.seen,
            widths=self._widths_at(weights, until),
            forecast=None if beyond.by_heart else self._told(outlook, rule, beyond),
            sizes=self._blocks.lengths(weights)[:_MANY_UNITS],
            seconds=time.perf_counter() - start,
            evaluations=used + 1,
            chance=0.0 if state is State.MINIMUM else outlook.chance(beyond.early),
            held_out=self._held_out_loss(weights),
            saddle=str(kind) if kind is not None and kind.is_saddle else "",
        )

    def _held_out_loss(self, weights: Vector) -> float:
        return math.nan if self.held_out is None else self.held_out.loss(weights)

    def _outlook(
        self, weights: Vector, rule: Rule, most: int, until: float
    ) -> tuple[Outlook, int, Vector | None]:
        horizon = max(_FAR * self.steps, _SOON)
        told = None if self.held_out is None else self.held_out.loss
        search = Search(self.steps, until, horizon, rises=told is not None)
        start = time.perf_counter()
        ahead = train_ahead(
            self.landscape,
            weights,
            rule,
            horizon=horizon,
            most=most,
            enough=search,
            elapsed=self.steps,
            told=told,
        )
        self.budget.gradient = (time.perf_counter() - start) / max(ahead.evaluations, 1)
        self.budget.learn(ahead.evaluations, search.done or ahead.evaluations < most)
        standing = self._standing(float(ahead.loss[search.reference]))
        past = self._losses.curve() if told is None else (np.zeros(0), np.zeros(0))
        outlook = read(ahead, rule, search, past, standing)
        return outlook, ahead.evaluations, ahead.steep

    def _kind(self, weights: Vector, until: float) -> PointKind | None:
        """What the saddle test says, where there is time for it."""
        left = until - time.perf_counter()
        if self.held_out is not None or left < _TEST_PRICE * self.budget.gradient:
            return None
        with Progress("saddle test", False) as bar, patience(min(left, _PATIENCE), bar):
            return saddle_report(self.landscape, weights).kind

    def _standing(self, level: float) -> float:
        """The level of the plateau by the last look, if its drop is still to come."""
        told = self.forecast
        return told.before if told is not None and level > told.middle else -math.inf

    def _told(self, outlook: Outlook, rule: Rule, beyond: Sampling) -> Forecast | None:
        if not outlook.known:
            return None
        reason = reason_of(rule)
        doubt = math.hypot(outlook.doubt, beyond.doubt)
        sigma = spread(reason, self.record.mistakes(self.steps), doubt)
        left = outlook.steps * math.exp(beyond.early)
        low, high = interval(self.steps, left, sigma)
        return Forecast(
            made=float(self.steps),
            step=self.steps + left,
            low=low,
            high=high,
            before=outlook.before,
            after=outlook.after,
            reason=reason,
            grows="" if outlook.unit is None else self._blocks.name(outlook.unit),
            growth=outlook.growth,
        )

    def _short(
        self,
        weights: Vector,
        state: State,
        start: float,
        loss: float = math.nan,
        norm: float = math.nan,
    ) -> Look:
        sizes = self._blocks.lengths(weights)[:_MANY_UNITS]
        seconds = time.perf_counter() - start
        return Look(self.steps, loss, norm, state, math.nan, seconds, 1, {}, None, sizes)

    def _widths_at(self, weights: Vector, until: float) -> dict[str, int]:
        """Effective widths, where there is time for them."""
        if not self._widths:
            return {}
        price = self._width_seconds
        if math.isnan(price):
            price = _WIDTH_PRICE * self.budget.gradient
        start = time.perf_counter()
        if price > _WIDE_ENOUGH * (until - start):
            return {}
        try:
            found = {name: one.width for name, one in widths_of(self.landscape, weights).items()}
        except InputError:  # no layer whose units can be counted
            self._widths = False
            return {}
        self._width_seconds = time.perf_counter() - start
        return found

    def _check_loss(self, look: Look) -> None:
        """Say once if what training reports is not what the probe shows."""
        if self._told_other or self.steps < _JUDGED:
            return
        before = self.looks[-2].loss if len(self.looks) > 1 else self._first_loss
        reported = self._losses.recent()
        if is_another(reported, before, look.loss):
            self._told_other = True
            warnings.warn(another(reported, look.loss), stacklevel=4)

    def _failed(self, value: float) -> None:
        if self.began_to_fail:
            return
        weights = self.weights()
        names = [
            p.name for p in self.landscape.parameters if not np.isfinite(weights[p.place]).all()
        ]
        self.began_to_fail = failure(self.steps, value, names)


def _as_number(loss: Any) -> float:
    """The loss of a step."""
    try:
        return float(loss)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            "`step` takes the loss of the step, one number, for instance `loss.item()`; got "
            f"{type(loss).__name__} {loss!r:.60}."
        ) from error

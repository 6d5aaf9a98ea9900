"""How long a diagnosis may look: searches in large networks ask, at every step, whether to go on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from saddlewalk.show.progress import Progress


class OutOfTimeError(Exception):
    """The limit is over. Whoever set it answers with what is known by then."""


_watch: ContextVar[tuple[float, Progress] | None] = ContextVar("watch", default=None)


@contextmanager
def patience(seconds: float, bar: Progress) -> Iterator[None]:
    """Within it, searches end after so many seconds, and say on a line what they do.

    Parameters
    ----------
    seconds : the limit.
    bar : the progress line.
    """
    token = _watch.set((time.monotonic() + seconds, bar))
    try:
        yield
    finally:
        _watch.reset(token)


def go_on(doing: str) -> None:
    """Say what is done, and end it if the limit is over; where there is none, nothing.

    Parameters
    ----------
    doing : what the search does, in a few words.
    """
    watch = _watch.get()
    if watch is None:
        return
    end, bar = watch
    if time.monotonic() > end:
        raise OutOfTimeError(doing)
    bar.update(doing)

"""Ctrl-C that cannot be mistaken for an end: `train` answers it with the part that it has."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_all_or_nothing = ContextVar("all_or_nothing", default=False)


def may_return_part() -> bool:
    """Whether Ctrl-C may be answered with a part: not where the whole block is to end."""
    return not _all_or_nothing.get()


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """End the block with KeyboardInterrupt if there was a Ctrl-C in it, even if somebody caught it."""
    token = _all_or_nothing.set(True)
    try:
        with _noting() as heard:
            yield
    finally:
        _all_or_nothing.reset(token)
    if heard:
        raise KeyboardInterrupt


@contextmanager
def _noting() -> Iterator[list[int]]:
    heard: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()  # no other thread hears of signals
    if not (main and callable(before)):  # not callable: ignored, as in the background
        yield heard
        return

    def note(number: int, frame: Any) -> None:
        heard.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield heard
    finally:
        signal.signal(signal.SIGINT, before)

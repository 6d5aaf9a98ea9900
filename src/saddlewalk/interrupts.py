"""Ctrl-C that cannot be mistaken for an end: some functions answer it with the part that they have."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block if there was a Ctrl-C in it, whoever caught it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears of signals
        return
    heard: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        heard.append(number)
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt

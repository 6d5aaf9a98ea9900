"""Ctrl-C that cannot be mistaken for an end: some functions answer it with the part that they have."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end of the block if there was a Ctrl-C in it, whoever caught it."""
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()  # no other thread hears of signals
    if not (main and callable(before)):  # not callable: ignored, as in the background
        yield
        return
    heard: list[int] = []

    def note(number: int, frame: Any) -> None:
        heard.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt

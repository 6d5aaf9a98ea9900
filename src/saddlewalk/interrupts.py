"""Ctrl-C that cannot be mistaken for an end: `train` answers it with the part that it has.

In Python, Ctrl-C is a KeyboardInterrupt wherever it comes. On the command line it is one only where somebody
answers it (`answering_interrupts`): with a part of a result, or by clearing away what is half written.
Anywhere else the process leaves at once. It must not go on from there: libraries abort when they are
interrupted while they are imported, and XLA crashes when Python ends around a computation that still runs.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C has ended, as shells have it: 128 + SIGINT."""

_all_or_nothing = ContextVar("all_or_nothing", default=False)
_answered = ContextVar("answered", default=False)
_SOON = 0.05
"""Seconds after which a lost Ctrl-C is sent again."""
_CLEAN_LINE = b"\r\x1b[K\x1b[?25h"
"""For a terminal: no progress line, and a cursor."""


def may_return_part() -> bool:
    """Whether Ctrl-C may be answered with a part: not where the whole block is to end."""
    return not _all_or_nothing.get()


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """End the block with KeyboardInterrupt if there was a Ctrl-C in it, even if somebody caught it."""
    token = _all_or_nothing.set(True)
    try:
        with answering_interrupts(), _noting() as heard:
            yield
    finally:
        _all_or_nothing.reset(token)
    if heard:
        raise KeyboardInterrupt


@contextmanager
def answering_interrupts() -> Iterator[None]:
    """Ctrl-C in the block is a KeyboardInterrupt on the command line, too: something is kept or cleared."""
    token = _answered.set(True)
    try:
        yield
    finally:
        _answered.reset(token)


@contextmanager
def leaving_at_interrupts() -> Iterator[None]:
    """A command: Ctrl-C ends the process with `INTERRUPTED`, at once or when it has been answered."""
    if (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):  # ignored in the background
        yield
        return
    heard: list[int] = []

    def leave_or_raise(number: int, frame: Any) -> None:
        heard.append(number)
        if not _answered.get():
            _leave("interrupted\n")
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, leave_or_raise)
    sys.unraisablehook = _send_again_if_lost
    try:
        yield
    finally:
        if heard:
            atexit._run_exitfuncs()  # processes and clusters that were started are cleared away
            _leave()


def _send_again_if_lost(lost: Any) -> None:
    """Where nobody can catch it, as in what JAX does when Python collects garbage, an exception is printed
    and lost: Ctrl-C comes again, when that is over."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    main = threading.main_thread().ident
    if main is None:
        return
    again = threading.Timer(_SOON, signal.pthread_kill, (main, signal.SIGINT))
    again.daemon = True
    again.start()


def _leave(words: str = "") -> None:
    """End the process without what Python does at its end."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a pipe that is closed, or a signal in the midst of printing
            stream.flush()
    with suppress(OSError):
        os.write(2, (_CLEAN_LINE if os.isatty(2) else b"") + words.encode())
    os._exit(INTERRUPTED)


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

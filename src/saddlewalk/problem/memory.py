"""How much memory a network needs at least: what cannot fit is refused before anything is allocated."""

import functools
import os
from pathlib import Path

from saddlewalk.errors import OutOfMemoryError

_NUMBER = 8
"""Bytes of a number."""
_COPIES = 8
"""Of the parameters, that any step of a method holds at once: where it is, where it goes, its stages."""
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says what a container may use."""


def check_memory(width: int, size: int) -> None:
    """Refuse a network that this machine cannot hold.

    Parameters
    ----------
    width : number of units.
    size : parameters of one unit.
    """
    needed, there = width * size * _COPIES * _NUMBER, memory_of_this_machine()
    if needed > there:
        raise OutOfMemoryError(
            f"A network of {width:.6g} units of {size} parameters needs at least {needed / 1e9:.4g} GB of "
            f"memory; this machine has {there / 1e9:.3g} GB. Take a smaller `width`."
        )


def memory_of_this_machine() -> float:
    """Bytes that this process may use; infinite where the system does not say."""
    there = [float("inf")]
    if hasattr(os, "sysconf"):
        there.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
    return min(*there, *map(_limit, _LIMITS))


@functools.cache
def _limit(file: str | Path) -> float:
    """Bytes that a file allows, read once: it says the same all along."""
    path = Path(file)
    limit = path.read_text().strip() if path.is_file() else ""
    return float(limit) if limit.isdigit() else float("inf")

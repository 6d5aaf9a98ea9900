"""Arrays inside a page: little-endian bytes in base64, with their shape, which it reads as typed arrays."""

import base64
import math
from typing import Any

import numpy as np

_FEW = 8
"""Moments that are not shared out between a picture and what comes after it."""


def packed(values: Any, *, exact: bool = True) -> dict[str, Any]:
    """An array as JSON can hold it; NaN and infinities survive.

    Parameters
    ----------
    values : numbers.
    exact : all digits (float64), or seven of them (float32) where there are many numbers.
    """
    kind = "f64" if exact else "f32"
    array = np.ascontiguousarray(values, dtype="<f8" if exact else "<f4")
    return {"shape": list(array.shape), kind: base64.b64encode(array.tobytes()).decode()}


def moments_to_keep(time: Any, loss: Any, most: int, end: float = math.inf) -> np.ndarray:
    """Places of the moments of a curve that are shown: evenly along its length, on linear and log axes.

    Parameters
    ----------
    time, loss : the curve.
    most : how many moments are kept at most; the first and the last always are.
    end : most of them are taken before this time.
    """
    t, y = np.asarray(time, dtype=float), np.asarray(loss, dtype=float)
    if len(t) <= most:
        return np.arange(len(t))
    seen = int(np.searchsorted(t, end, side="right"))
    if 1 < seen < len(t) - 1 and most >= _FEW:
        later = most // 4
        before = moments_to_keep(t[:seen], y[:seen], most - later)
        return np.concatenate([before, seen + moments_to_keep(t[seen:], y[seen:], later)])
    steps = np.zeros(len(t) - 1)
    positive = y[y > 0]
    for values in (t, y, np.log(np.maximum(y, positive.min())) if len(positive) else y):
        steps += _parts(values)
    steps += 0.5 * np.concatenate([[0.0], _parts(np.log(np.maximum(t[1:], 1e-300)))])
    steps += steps.sum() / (4 * len(steps))  # where nothing moves, every step counts a little
    length = np.concatenate([[0.0], np.cumsum(steps)])
    wanted = np.linspace(0.0, length[-1], most)
    return np.unique(np.searchsorted(length, wanted).clip(0, len(t) - 1))


def _parts(values: np.ndarray) -> np.ndarray:
    """Each step of a curve as a part of all it does."""
    steps = np.abs(np.diff(np.where(np.isfinite(values), values, 0.0)))
    total = steps.sum()
    return steps / total if total > 0 else steps

"""Peaks of a curve that stand out.

What `scipy.signal.find_peaks` does with a prominence, without the half second that its import takes; long
curves are left to it.
"""

import numpy as np
from jaxtyping import Float

_LONG = 1000


def prominent_peaks(values: Float[np.ndarray, " points"], least: float) -> list[int]:
    """Inner points that are higher than both sides, and stand out by `least` at least.

    A peak stands out by its height over the higher of the two valleys that separate it from higher ground, or
    from the ends. Of a flat top the middle counts.

    Parameters
    ----------
    values : the curve.
    least : prominence below which a peak is none.
    """
    if len(values) > _LONG:
        from scipy.signal import find_peaks

        return [int(peak) for peak in find_peaks(values, prominence=least)[0]]
    rises, falls = np.flatnonzero(np.diff(values) > 0) + 1, np.flatnonzero(np.diff(values) < 0)
    peaks = []
    for first in rises:
        after = falls[np.searchsorted(falls, first) :]
        if len(after) == 0 or not (values[first : after[0] + 1] == values[first]).all():
            continue
        middle, height = (int(first) + int(after[0])) // 2, values[first]
        higher = np.flatnonzero(values > height)
        left = higher[higher < middle].max(initial=-1) + 1
        right = higher[higher > middle].min(initial=len(values))
        valley = max(values[left : middle + 1].min(), values[middle:right].min())
        if height - valley >= least:
            peaks.append(middle)
    return peaks

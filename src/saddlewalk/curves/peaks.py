"""Peaks of a curve that stand out.

What `scipy.signal.find_peaks` does with a prominence, without the half second that its import takes; long
and rough curves are left to it.
"""

import numpy as np
from jaxtyping import Float

_LONG = 10_000_000
"""Peaks times points from which SciPy, compiled, is worth its import."""


def prominent_peaks(values: Float[np.ndarray, " points"], least: float) -> list[int]:
    """Inner points that are higher than both sides, and stand out by `least` at least.

    A peak stands out by its height over the higher of the two valleys that separate it from higher ground, or
    from the ends. Of a flat top the middle counts.

    Parameters
    ----------
    values : the curve.
    least : prominence below which a peak is none.
    """
    if len(values) == 0:
        return []
    starts = np.flatnonzero(
        np.diff(values, prepend=np.nan) != 0
    )  # of the flat parts, or single points
    level = values[starts]
    rise = np.diff(level) > 0
    tops = np.flatnonzero(rise[:-1] & ~rise[1:]) + 1
    if len(tops) * len(values) > _LONG:
        from scipy.signal import find_peaks

        return [int(peak) for peak in find_peaks(values, prominence=least)[0]]
    peaks = []
    for top in tops:
        higher = np.flatnonzero(level > level[top])
        left = higher[higher < top].max(initial=-1) + 1
        right = higher[higher > top].min(initial=len(level))
        valley = max(level[left : top + 1].min(), level[top:right].min())
        if level[top] - valley >= least:
            peaks.append(int(starts[top] + starts[top + 1] - 1) // 2)
    return peaks

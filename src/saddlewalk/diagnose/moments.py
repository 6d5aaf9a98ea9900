"""Which of the saved moments of a run to look at."""

import numpy as np


def spread(many: int, most: int) -> np.ndarray:
    """At most so many of the moments 0 .. many - 1, the first and the last among them.

    Parameters
    ----------
    many : number of moments that there are.
    most : number of moments that are wanted.
    """
    return np.unique(np.linspace(0, many - 1, min(many, most)).round().astype(int))


def early_and_late(times: np.ndarray, most: int) -> np.ndarray:
    """Half of them even among the saved ones, half even in the logarithm of time: the first turn is early.

    Parameters
    ----------
    times : saved moments, rising.
    most : about how many are wanted.
    """
    even = spread(len(times), most // 2 + 1)
    later = times[times > 0]
    if not later.size:
        return even
    wanted = np.geomspace(later[0], later[-1], most // 2)
    return np.union1d(even, np.searchsorted(times, wanted).clip(max=len(times) - 1))

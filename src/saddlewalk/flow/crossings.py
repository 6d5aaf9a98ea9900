"""When the norm of a unit passes 1: the event that makes a dormant unit active (Eq 3)."""

import numpy as np
from jaxtyping import Float

_HALVINGS = 50


def norm_crossings(
    time: Float[np.ndarray, " time"],
    norm: Float[np.ndarray, "time unit"],
    growth: Float[np.ndarray, "time unit"],
) -> list[tuple[float, int, bool]]:
    """`(time, unit, upward)` of each crossing, on the cubic through log-norms and growth rates.

    Parameters
    ----------
    time : moments, rising.
    norm : norm of each unit; a crossing is where it passes 1.
    growth : rate of its logarithm.
    """
    height = np.log(np.maximum(norm, 1e-300))
    above = height > 0
    found = []
    for k, unit in np.argwhere(above[1:] != above[:-1]):
        step = time[k + 1] - time[k]
        a, b = height[k, unit], height[k + 1, unit]
        p, q = step * growth[k, unit], step * growth[k + 1, unit]
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            s = 0.5 * (low + high)
            value = a + s * (p + s * (3 * (b - a) - 2 * p - q + s * (p + q - 2 * (b - a))))
            low, high = (s, high) if (value > 0) == (a > 0) else (low, s)
        found.append((float(time[k] + high * step), int(unit), bool(b > a)))
    return sorted(found)

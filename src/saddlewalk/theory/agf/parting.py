r"""Rotatable units are parted: :math:`D' = (1 + B B^\top)^{-1/2} (D - B A)`, :math:`B = D A^+`.

A dormant unit D of a linear network may carry a trace of what active ones A have learned. Along a learned
feature nothing grows; but the trace may outweigh what will grow, so that the unit seems to have no utility,
or seems to wake. A sum of linear units does not change when its units are turned into each other, and a turn
takes the trace away.
"""

import numpy as np

_SAME = 1e-6
"""Active units that are combinations of others, up to this part, point nowhere of their own."""


def parted_units(theta: np.ndarray, active: np.ndarray) -> np.ndarray:
    r"""Rotatable units turned by small angles: dormant ones D become orthogonal to what active ones A were.

    The active ones become :math:`A' = (1 + B^\top B)^{-1/2} (A + B^\top D)`: together a rotation. To A' a
    remainder of the order of :math:`|D|^2 |B|` stays.

    Parameters
    ----------
    theta : parameters `(width, size)`.
    active : which units are.
    """
    parted = np.array(theta)
    awake, asleep = theta[active], theta[~active]
    if len(awake) == 0 or len(asleep) == 0:
        return parted
    angles = np.linalg.lstsq(awake.T, asleep.T, rcond=_SAME)[0].T
    parted[active] = _shrunk(angles.T) @ (awake + angles.T @ asleep)
    parted[~active] = _shrunk(angles) @ (asleep - angles @ awake)
    return parted


def _shrunk(angles: np.ndarray) -> np.ndarray:
    """(1 + B B^T)^(-1/2)."""
    values, modes = np.linalg.eigh(np.eye(len(angles)) + angles @ angles.T)
    return (modes / np.sqrt(values)) @ modes.T

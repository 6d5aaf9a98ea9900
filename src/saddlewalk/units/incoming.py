r"""What the incoming weights may change without a change of the answer, but for a factor.

The degree p, :math:`\phi(z; cu) = c^p\, \phi(z; u)`, and the parity, :math:`\phi(z; -u) = \pm\phi(z; u)`,
if there are such.
"""

import math

import numpy as np

from saddlewalk.precision import in_float64
from saddlewalk.units.base import AbstractUnits
from saddlewalk.units.probing import LayerProbe

_SAME = 1e-9
_FACTORS = (2.0, 0.3, 100.0)


@in_float64
def find_incoming_degree(
    units: AbstractUnits, inputs: int, outputs: int, layer: str = "units"
) -> int | None:
    """The degree p of a unit's answer in its incoming weights, found by trying; `None` if it has none.

    Parameters
    ----------
    units : the units.
    inputs, outputs : numbers of input and output coordinates of the data.
    layer : name of the hidden layer.
    """
    probe = LayerProbe(units, inputs, outputs, layer)
    answer = lambda factor: np.asarray(probe.answer(factor * probe.incoming))  # noqa: E731
    plain, doubled = answer(1.0), answer(2.0)
    if not np.any(plain):
        return None
    degree = round(math.log2(np.linalg.norm(doubled) / np.linalg.norm(plain)))
    for factor in _FACTORS:
        if np.abs(answer(factor) / factor**degree - plain).max() > _SAME * np.abs(plain).max():
            return None
    return degree if degree >= 1 else None


@in_float64
def find_parity(units: AbstractUnits, inputs: int, outputs: int, layer: str = "units") -> int:
    """1 if a unit's answer is even in its incoming weights, -1 if it is odd, 0 if neither; found by trying.

    Parameters
    ----------
    units : the units.
    inputs, outputs : numbers of input and output coordinates of the data.
    layer : name of the hidden layer.
    """
    probe = LayerProbe(units, inputs, outputs, layer)
    plain, turned = (np.asarray(probe.answer(sign * probe.incoming)) for sign in (1.0, -1.0))
    for parity in (1, -1):
        if np.abs(turned - parity * plain).max() <= _SAME * np.abs(plain).max():
            return parity
    return 0

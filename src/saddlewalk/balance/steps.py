r"""What optimizers conserve whose steps have a length of their own, in the limit of small steps.

==============  ==================================  =====================================================
optimizer       network                             kept
==============  ==================================  =====================================================
sign, Muon      diagonal, :math:`\beta = uv`        :math:`|v| - |u|` of each coefficient
Muon            linear, layers Q (in) and P (out)   :math:`\sqrt{P^\top P} - \sqrt{Q Q^\top}`, once aligned
normalized      every one                           what gradient flow keeps: it goes the same way
==============  ==================================  =====================================================

:math:`\frac{d|u|}{d\tau} = \mathrm{sign}(u)\,\mathrm{sign}(g v) = \mathrm{sign}(g u v)` is that of
:math:`|v|`. For Muon each layer's part in the hidden space grows by the same projector; the paper is
Rhee, Simon and Karkada, arXiv 2606.30509.
"""

import numpy as np

from saddlewalk.balance.conserved import Conserved
from saddlewalk.problem import ParametersLike, Problem
from saddlewalk.units import Dense, Diagonal


def conserved_in_steps(
    problem: Problem, theta: ParametersLike, word: str
) -> dict[str, Conserved] | None:
    """By hidden layer, what an optimizer keeps; `None` where it keeps what gradient flow keeps, or nothing is
    known.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    word : the optimizer: "sign", "muon", ...
    """
    units = problem.units
    if isinstance(units, Diagonal) and word in ("sign", "muon"):
        u, v = (np.abs(part) for part in units.weights(np.asarray(theta)))
        return {"units": Conserved("units", 1, v - u, v + u, None)}
    if isinstance(units, Dense) and units.activation == "linear" and word == "muon":
        layer = problem.take(theta)
        into, out = _root(np.asarray(layer.incoming)), _root(np.asarray(layer.outgoing))
        kept, both = out - into, out + into
        return {"units": Conserved("units", 1, np.diag(kept), np.diag(both), kept)}
    return None


def _root(rows: np.ndarray) -> np.ndarray:
    """The root of W W^T."""
    left, values, _ = np.linalg.svd(rows, full_matrices=False)
    return (left * values) @ left.T

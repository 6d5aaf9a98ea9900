r"""How much a direction that grows like :math:`e^{st}` under gradient flow grows in one step: a factor q with

==================  =============================================================================
gradient descent    :math:`q = 1 + \eta s`
heavy ball          :math:`q^2 - (1 + \beta + \eta s)\, q + \beta = 0`
Nesterov            :math:`q^2 - (1 + \beta + (1 + \beta)\eta s)\, q + \beta (1 + \eta s) = 0`
==================  =============================================================================

with :math:`v \leftarrow \beta v + g`, :math:`w \leftarrow w - \eta v` as PyTorch has it. With q = 1 + x the
heavy ball is :math:`x^2 + (1 - \beta - \eta s)x - \eta s = 0`. A direction of sharpness h is s = -h: it stays
bounded as long as both roots lie in the unit circle, that is up to :math:`\eta h = 2(1 + \beta)`.
"""

import numpy as np
from jaxtyping import Complex, Float

Rates = Float[np.ndarray, "..."]


def roots(
    s: Rates, rate: float, momentum: float = 0.0, dampening: float = 0.0, nesterov: bool = False
) -> tuple[Complex[np.ndarray, "..."], Complex[np.ndarray, "..."]]:
    """Both growth factors of a step, the larger first; they are no real numbers where the ball swings.

    Parameters
    ----------
    s : rates of growth under the flow, negative for what decays.
    rate, momentum, dampening, nesterov : as in `torch.optim.SGD`.
    """
    gain = (1 - dampening) * rate * np.asarray(s, dtype=float)
    b, c = 1 + momentum + gain, momentum + 0.0 * gain
    if nesterov:
        b, c = 1 + momentum + (1 + momentum) * gain, momentum * (1 + gain)
    wide = np.sqrt(np.asarray(b * b - 4 * c, dtype=complex))
    return np.asarray(0.5 * (b + wide)), np.asarray(0.5 * (b - wide))


def growth_per_step(
    s: Rates, rate: float, momentum: float = 0.0, dampening: float = 0.0, nesterov: bool = False
) -> Float[np.ndarray, "..."]:
    """log q of a direction that grows.

    Parameters
    ----------
    s : rates of growth under the flow, at least 0.
    rate, momentum, dampening, nesterov : as in `torch.optim.SGD`.
    """
    return np.asarray(np.log(roots(s, rate, momentum, dampening, nesterov)[0].real))


def largest_rate(sharpness: float, momentum: float = 0.0, nesterov: bool = False) -> float:
    r"""The largest stable learning rate: :math:`2(1 + \beta)/h`, for Nesterov over :math:`1 + 2\beta`.

    Parameters
    ----------
    sharpness : largest eigenvalue h of the Hessian.
    momentum, nesterov : as in `torch.optim.SGD`.
    """
    if not sharpness > 0:
        return float("inf")
    return 2 * (1 + momentum) / (sharpness * (1 + 2 * momentum if nesterov else 1.0))

r"""The same flow seen in function space: gradient descent with a preconditioner M that delta shapes.

.. math:: \operatorname{vec}\dot\beta = -M \operatorname{vec} \nabla_\beta L, \qquad
          M = \eta_w A^\top A \oplus \eta_a W^\top W, \qquad f(x) = A^\top W x, \; \beta = W^\top A

The conserved quantities let M be written in beta itself, so the map obeys an equation of its own, and M is
the tangent kernel: :math:`K = (I \otimes X) M (I \otimes X^\top)`. Where M stands still, learning is lazy.

`vec` stacks columns, so a map is `(d, c)` and M is `(c d, c d)`; A is `(h, c)`, W is `(h, d)`. Rates are
:math:`(\eta_a, \eta_w)`.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.tasks.samples import finite_numbers
from saddlewalk.theory.lazyrich.neuron import layer_norms

Matrix = Float[np.ndarray, "_ _"]
Rates = tuple[float, float]


def kronecker_sum(first: Any, second: Any) -> Matrix:
    r""":math:`C \oplus D = C \otimes I + I \otimes D`.

    Parameters
    ----------
    first, second : the square matrices C and D.
    """
    c, d = np.asarray(first), np.asarray(second)
    return np.kron(c, np.eye(len(d))) + np.kron(np.eye(len(c)), d)


def preconditioner(A: Any, W: Any, rates: Rates = (1.0, 1.0)) -> Matrix:
    r"""M from the weights: :math:`\eta_w A^\top A \oplus \eta_a W^\top W`.

    Parameters
    ----------
    A, W : weights of the layers, `(h, c)` and `(h, d)`.
    rates : learning rates eta_a and eta_w.
    """
    A, W = _weights(A, W)
    return kronecker_sum(rates[1] * A.T @ A, rates[0] * W.T @ W)


def neuron_preconditioner(beta: Any, delta: float, rates: Rates = (1.0, 1.0)) -> Matrix:
    r"""M of one neuron in terms of its map (section 3; :math:`M_k` of one in a piecewise-linear network).

    .. math:: M = \tfrac{\kappa + \delta}{2} I + \tfrac{\kappa - \delta}{2} \hat\beta \hat\beta^\top, \qquad
              \kappa = \sqrt{\delta^2 + 4 \eta_a \eta_w \|\beta\|^2}

    Upstream it is :math:`\delta I`, the flow of linear regression; downstream a projection on the
    direction that the map has already.

    Parameters
    ----------
    beta : the map of the neuron, `(d,)`; not zero.
    delta : its conserved balance.
    rates : learning rates eta_a and eta_w.
    """
    map_ = finite_numbers("beta", beta)
    if map_.ndim != 1:
        raise InputError(f"The map of one neuron is a vector; got shape {map_.shape}.")
    return neurons_preconditioner(map_[None, :, None], [delta], rates)


def neurons_preconditioner(betas: Any, deltas: Any, rates: Rates = (1.0, 1.0)) -> Matrix:
    r"""Theorem 2: M as a sum over neurons, from their maps :math:`\beta_k = w_k a_k^\top` `(h, d, c)`.

    .. math:: M_k = \tfrac{\kappa_k + \delta_k}{2} \tfrac{\beta_k^\top\beta_k}{\|\beta_k\|^2} \oplus
                    \tfrac{\kappa_k - \delta_k}{2} \tfrac{\beta_k\beta_k^\top}{\|\beta_k\|^2}

    Parameters
    ----------
    betas : the map of each neuron, `(h, d, c)`; none zero.
    deltas : the conserved balance of each, `(h,)`.
    rates : learning rates eta_a and eta_w.
    """
    maps, deltas = finite_numbers("the maps", betas), finite_numbers("the deltas", deltas)
    if maps.ndim != 3 or deltas.shape != maps.shape[:1]:
        raise InputError(
            f"Maps must be (h, d, c) with one delta each; got {maps.shape}, {deltas.shape}."
        )
    sizes = np.linalg.norm(maps, axis=(1, 2))
    if not np.all(sizes > 0):
        raise InputError("M is not determined by maps that are zero: a neuron has none.")
    unit = maps / sizes[:, None, None]
    # (kappa +- delta)/2 are the layers' own squares, eta_w |a|^2 and eta_a |w|^2
    a, w = layer_norms(sizes, deltas, rates)
    outgoing = np.einsum("k,kdc,kde->ce", rates[1] * a**2, unit, unit)
    incoming = np.einsum("k,kdc,kec->de", rates[0] * w**2, unit, unit)
    return kronecker_sum(outgoing, incoming)


def isotropic_preconditioner(beta: Any, delta: float, rates: Rates = (1.0, 1.0)) -> Matrix:
    r"""Theorem 3: M where :math:`\Delta = \delta I` and h = d (delta < 0) or h = c (delta > 0).

    .. math:: M = \sqrt{\eta_a\eta_w \beta^\top\beta + \delta^2/4} \oplus
                  \sqrt{\eta_a\eta_w \beta\beta^\top + \delta^2/4}

    Parameters
    ----------
    beta : the map of the network, `(d, c)`.
    delta : conserved balance of the layers.
    rates : learning rates eta_a and eta_w.
    """
    map_ = _map(beta)
    product = rates[0] * rates[1]
    return kronecker_sum(
        _root(product * map_.T @ map_, delta**2 / 4), _root(product * map_ @ map_.T, delta**2 / 4)
    )


def isotropic_rate(beta: Any, gradient: Any, delta: float, rates: Rates = (1.0, 1.0)) -> Matrix:
    """How the map moves under Theorem 3, without building M.

    Parameters
    ----------
    beta : the map of the network, `(d, c)`.
    gradient : of the loss in the map, `(d, c)`.
    delta : conserved balance of the layers.
    rates : learning rates eta_a and eta_w.
    """
    map_, slope = _map(beta), _map(gradient)
    product = rates[0] * rates[1]
    out = _root(product * map_.T @ map_, delta**2 / 4)
    back = _root(product * map_ @ map_.T, delta**2 / 4)
    return -(slope @ out + back @ slope)


def deep_preconditioner(a: Any, first: Any, depth: int, delta: float) -> Matrix:
    r"""Lemma 14: M of a deep linear network :math:`a^\top W_L \cdots W_1 x` started isotropically.

    .. math:: M = G^L + \|a\|^2 \sum_{l<L} (\|a\|^2 - \delta)^l G^{L-1-l}, \qquad G = W_1^\top W_1

    Parameters
    ----------
    a : weights of the last layer.
    first : W_1, weights of the first layer, one row a hidden neuron.
    depth : number L of hidden layers.
    delta : conserved balance of the layers.
    """
    a, W = finite_numbers("a", a), finite_numbers("W", first)
    gram, size = W.T @ W, float(a @ a)
    powers = [np.linalg.matrix_power(gram, k) for k in range(depth + 1)]
    rest = sum((size - delta) ** k * powers[depth - 1 - k] for k in range(depth))
    return powers[depth] + size * rest


def preconditioner_rate(beta: Any, velocity: Any, delta: float) -> Matrix:
    r"""How the kernel of one neuron turns (appendix A, rates 1).

    .. math:: \dot M = \tfrac{2\|\beta\|}{\kappa}(I + \hat\beta\hat\beta^\top)\, \partial_t\|\beta\|
                     + \tfrac{\kappa - \delta}{2}\, \partial_t(\hat\beta\hat\beta^\top)

    Upstream both factors vanish: lazy. Downstream the second diverges: once the direction turns, late, the
    kernel does.

    Parameters
    ----------
    beta : the map of the neuron, `(d,)`; not zero.
    velocity : how fast it moves, `(d,)`.
    delta : its conserved balance.
    """
    b, v = finite_numbers("beta", beta), finite_numbers("the velocity", velocity)
    size = float(np.linalg.norm(b))
    if size == 0:
        raise InputError("M is not determined by a map that is zero.")
    unit = b / size
    kappa = math.hypot(delta, 2 * size)
    growth = float(unit @ v)
    turn = (v - growth * unit) / size
    change = np.outer(turn, unit) + np.outer(unit, turn)
    scale = 2 * size / kappa * growth
    squared = layer_norms(size, delta)[1] ** 2
    return scale * (np.eye(len(b)) + np.outer(unit, unit)) + squared * change


def gram_matrices(beta: Any, delta: float, rates: Rates = (1.0, 1.0)) -> tuple[Matrix, Matrix]:
    r"""Lemmas 8 and 9: :math:`A^\top A` and :math:`W^\top W` of an isotropic start, from the map.

    Parameters
    ----------
    beta : the map of the network, `(d, c)`.
    delta : conserved balance of the layers.
    rates : learning rates eta_a and eta_w.
    """
    map_ = _map(beta)
    eta_a, eta_w = rates
    out = _root(eta_a * eta_w * map_.T @ map_, delta**2 / 4) + delta / 2 * np.eye(map_.shape[1])
    back = _root(eta_a * eta_w * map_ @ map_.T, delta**2 / 4) - delta / 2 * np.eye(map_.shape[0])
    return out / eta_w, back / eta_a


def _root(gram: Matrix, shift: float) -> Matrix:
    """Square root of a positive semidefinite matrix plus a multiple of the identity."""
    values, axes = np.linalg.eigh(gram)
    return (axes * np.sqrt(np.maximum(values, 0.0) + shift)) @ axes.T


def _map(beta: Any) -> Matrix:
    values = finite_numbers("beta", beta)
    if values.ndim != 2:
        raise InputError(f"A map has shape (d, c); got {values.shape}.")
    return values


def _weights(A: Any, W: Any) -> tuple[Matrix, Matrix]:
    A, W = finite_numbers("A", A), finite_numbers("W", W)
    if A.ndim != 2 or W.ndim != 2 or len(A) != len(W):
        raise InputError(f"A must be (h, c) and W (h, d); got {A.shape} and {W.shape}.")
    return A, W

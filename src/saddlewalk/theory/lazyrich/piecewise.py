r"""Neurons of a piecewise-linear network in signed spherical coordinates (section 5, appendix C).

For :math:`f(x) = \sum_k a_k \sigma(w_k^\top x)` with :math:`\sigma(z) = \max(z, \gamma z)` each neuron has a
map :math:`\beta_k = a_k w_k = \mu_k \hat\beta_k`: a slope :math:`\mu_k = a_k\|w_k\|` on the half space of
direction :math:`\hat\beta_k = w_k/\|w_k\|`. The gradient of the loss over the samples that a neuron sees,
:math:`\xi_k = \frac1n \sum_i c_{ki} x_i \rho_i`, drives both:

.. math:: \dot\mu_k = -\kappa_k\, \hat\beta_k^\top \xi_k, \qquad
          \dot{\hat\beta}_k = -\frac{\kappa_k + \delta_k}{2\mu_k} (I - \hat\beta_k\hat\beta_k^\top)\, \xi_k,
          \qquad \kappa_k = \sqrt{\delta_k^2 + 4\eta_a\eta_w \mu_k^2}

Downstream directions stand still and the partition with them. Upstream they turn the faster, the smaller
:math:`\mu_k`, while M stands still: a rich regime in which weights hardly move.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.tasks.samples import finite_numbers
from saddlewalk.theory.lazyrich.neuron import layer_norms

Rates = tuple[float, float]


class Spherical(NamedTuple):
    """Neurons by slope and direction."""

    mu: Float[np.ndarray, " h"]
    direction: Float[np.ndarray, "h d"]


def signed_spherical(a: Any, w: Any) -> Spherical:
    """mu_k and the direction of each neuron, from a `(h,)` and w `(h, d)`.

    Parameters
    ----------
    a, w : weights of the neurons, `(h,)` and `(h, d)`; no row of w is zero.
    """
    a, w = finite_numbers("a", a), finite_numbers("w", w)
    if w.ndim != 2 or a.shape != w.shape[:1]:
        raise InputError(f"a must be (h,) and w (h, d); got {a.shape} and {w.shape}.")
    sizes = np.linalg.norm(w, axis=1)
    if not np.all(sizes > 0):
        raise InputError("A neuron without incoming weights has no direction.")
    return Spherical(a * sizes, w / sizes[:, None])


def spherical_rates(
    neurons: Spherical, deltas: Any, drive: Any, rates: Rates = (1.0, 1.0)
) -> Spherical:
    """How slopes and directions move under drives xi_k `(h, d)`.

    Parameters
    ----------
    neurons : slope and direction of each neuron.
    deltas : conserved balance of each, `(h,)`.
    drive : xi_k of each, `(h, d)`.
    rates : learning rates eta_a and eta_w.
    """
    mu, direction = neurons
    deltas, xi = finite_numbers("the deltas", deltas), finite_numbers("the drives", drive)
    kappa = np.hypot(deltas, 2 * math.sqrt(rates[0] * rates[1]) * mu)
    along = np.sum(direction * xi, axis=1)
    a, w = layer_norms(mu, deltas, rates)
    if not np.all(w > 0):
        raise InputError("A neuron without incoming weights turns infinitely fast.")
    # (kappa + delta) / 2 mu = eta_w a / |w|, with the sign of mu
    turn = -(rates[1] * np.sign(mu) * a / w)[:, None] * (xi - along[:, None] * direction)
    return Spherical(-kappa * along, turn)


def drives(X: Any, residual: Any, w: Any, leak: float = 0.0) -> Float[np.ndarray, "h d"]:
    """xi_k: the gradient of the mean loss over the samples that a neuron sees.

    Parameters
    ----------
    X : inputs `(n, d)`.
    residual : rho_i, derivative of the loss in each output (for squared error f - y), `(n,)`.
    w : incoming weights of the neurons, `(h, d)`.
    leak : slope gamma of the activation below zero.
    """
    X, rho = finite_numbers("X", X), finite_numbers("the residual", residual)
    seen = activation_slopes(X, w, leak)
    return (seen * rho.reshape(1, -1)) @ X / len(X)


def activation_slopes(X: Any, w: Any, leak: float = 0.0) -> Float[np.ndarray, "h n"]:
    """The matrix C: 1 where a neuron is active, gamma where it is not.

    Parameters
    ----------
    X : inputs `(n, d)`.
    w : incoming weights of the neurons, `(h, d)`.
    leak : slope gamma of the activation below zero.
    """
    z = finite_numbers("w", w) @ finite_numbers("X", X).T
    return np.where(z > 0, 1.0, leak)


def piecewise_kernel(
    a: Float[Array | np.ndarray, " h"],
    w: Float[Array | np.ndarray, "h d"],
    X: Float[Array | np.ndarray, "n d"],
    rates: Rates = (1.0, 1.0),
    leak: float = 0.0,
) -> Float[Array, "n n"]:
    r"""The tangent kernel in the paper's form, :math:`K_{ij} = \sum_k c_{ki}\, x_i^\top M_k x_j\, c_{kj}`.

    In JAX, so that it can be batched over networks.

    Parameters
    ----------
    a, w : weights of the neurons, `(h,)` and `(h, d)`.
    X : inputs `(n, d)`.
    rates : learning rates eta_a and eta_w.
    leak : slope gamma of the activation below zero.
    """
    z = w @ X.T
    seen = jnp.where(z > 0, 1.0, leak)
    answers = seen * z
    eta_a, eta_w = rates
    return eta_w * (seen.T @ (a[:, None] ** 2 * seen)) * (X @ X.T) + eta_a * answers.T @ answers

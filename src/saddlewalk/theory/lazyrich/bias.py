r"""Where gradient flow ends among all maps that fit the data: :math:`X \beta = y` (Theorems 1, 11 and 15).

The potential whose gradient is a conserved direction decides. For one neuron

.. math:: \beta(\infty) = \arg\min_{X\beta = y} \Psi_\delta(\beta) - \psi_\delta \hat\beta_0^\top\beta,
          \qquad \nabla\Psi_\delta(a w) = \sqrt 2\, \operatorname{sgn}(a)\, w .

So the stationarity condition says that w keeps its part in the null space of X, which is plain in the flow:
:math:`\dot w` is a combination of inputs. With that part :math:`w_N` known, :math:`a` follows from delta and
the least-norm solution :math:`\beta_\dagger` alone,

.. math:: \eta_w a^4 - (\delta + \eta_a \|w_N\|^2)\, a^2 - \eta_a \|\beta_\dagger\|^2 = 0, \qquad
          \beta(\infty) = \beta_\dagger + a\, w_N ,

a closed form for a null space of any dimension, and for trajectories in which a changes sign.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import null_space
from scipy.optimize import brentq

from saddlewalk.errors import InputError
from saddlewalk.tasks.samples import finite_numbers
from saddlewalk.theory.lazyrich.neuron import check_layer_rates, layer_norms

Vector = Float[np.ndarray, " d"]
_FITS = 1e-8
_ROUNDING = 1e-12
"""Part of a neuron's size below which delta counts as zero."""


def neuron_potential(beta: Any, delta: float) -> Any:
    r"""Theorem 1, for rates 1: :math:`\Psi_\delta = \frac13 (\kappa - 2\delta) \sqrt{\kappa + \delta}`.

    Parameters
    ----------
    beta : the map, `(d,)`, or many `(..., d)`.
    delta : conserved balance of the layers.
    """
    size = np.linalg.norm(np.asarray(beta, dtype=float), axis=-1)
    kappa = np.hypot(delta, 2 * size)
    # kappa + delta without cancellation downstream
    plus = kappa + delta if delta >= 0 else 4 * size**2 / (kappa - delta)
    return (kappa - 2 * delta) * np.sqrt(plus) / 3


def neuron_bias(beta: Any, start: Any, delta: float) -> Any:
    """Theorem 1: what gradient flow from the map `start` minimizes among the maps that fit.

    Parameters
    ----------
    beta : the map, `(d,)`, or many `(..., d)`.
    start : the map beta_0 at the start, `(d,)`; not zero.
    delta : conserved balance of the layers.
    """
    first, size = _start(start)
    _, w = layer_norms(size, delta)
    return neuron_potential(beta, delta) - math.sqrt(2) * w * (np.asarray(beta) @ (first / size))


def neuron_limit(
    X: Any,
    y: Any,
    a: float,
    w: Any,
    rates: tuple[float, float] = (1.0, 1.0),
    sign: int | None = None,
) -> Vector:
    """The map that one linear neuron, started at (a, w), converges to on data that it can fit.

    `sign` is that of a at the end. Upstream and balanced it is that of the start. Downstream a may change it
    (Theorem 1 supposes that it does not), and it must be given: for white inputs `Neuron.basin` knows it.

    Parameters
    ----------
    X, y : inputs `(n, d)` and targets `(n,)`.
    a, w : the weights at the start: a number, and `(d,)`.
    rates : learning rates of a and of w.
    sign : of a at the end, 1 or -1; needed downstream.
    """
    least, null = _solutions(X, y)
    w, a = finite_numbers("w", w), float(finite_numbers("a", a))
    if w.shape != least.shape:
        raise InputError(f"w must have shape {least.shape}; got {w.shape}.")
    eta_a, eta_w = check_layer_rates(rates)
    delta = eta_w * a**2 - eta_a * float(w @ w)
    if sign is None:
        if delta < -_ROUNDING * (eta_w * a**2 + eta_a * float(w @ w)):
            raise InputError(
                "Downstream (delta < 0) a may change its sign: give sign=1 or -1, that of a at the end, from "
                "a run or, for white inputs, from Neuron.basin."
            )
        if a == 0:
            raise InputError("At a = w = 0 the flow stands still.")
    kept = null @ (null.T @ w)
    middle = delta + eta_a * float(kept @ kept)
    gap = math.hypot(middle, 2 * math.sqrt(eta_a * eta_w) * float(np.linalg.norm(least)))
    large = (abs(middle) + gap) / 2
    product = eta_a * eta_w * float(least @ least)
    squared = (large if middle >= 0 else product / large) / eta_w
    last = (np.sign(a) if sign is None else np.sign(sign)) * math.sqrt(squared)
    return least + last * kept


def line_limit(X: Any, y: Any, start: Any, delta: float) -> Vector:
    r"""The paper's closed form where the maps that fit are a line, :math:`\beta_\dagger + \alpha v`; rates 1.

    .. math:: \alpha = k \sqrt{m + \sqrt{m^2 + \|\beta_\dagger\|^2}}, \qquad m = (k^2 + \delta)/2

    Parameters
    ----------
    X, y : inputs `(n, d)` of rank d - 1, and targets `(n,)`.
    start : the map beta_0 at the start, `(d,)`; not zero.
    delta : conserved balance of the layers.
    """
    least, null = _solutions(X, y)
    if null.shape[1] != 1:
        raise InputError(f"The null space of X has {null.shape[1]} dimensions, not one.")
    (first, size), v = _start(start), null[:, 0]
    # -2 z v / 3 of the paper: the part of w along v
    k = layer_norms(size, delta)[1] * float(first @ v) / size
    half, length = (k**2 + delta) / 2, float(np.linalg.norm(least))
    root = math.hypot(half, length)
    # half + root, without cancellation far downstream
    return least + k * math.sqrt(half + root if half >= 0 else length**2 / (root - half)) * v


def deep_bias(beta: Any, start: Any, depth: int) -> Any:
    r"""Theorem 15: what a deep linear network with L hidden layers minimizes, among the maps that fit.

    For square layers of equal rates, balanced at the start (delta -> 0), while the map is never zero.

    .. math:: Q(\beta) = \tfrac{L+1}{L+2} \|\beta\|^{(L+2)/(L+1)} - \|\beta_0\|^{-L/(L+1)} \beta_0^\top \beta

    Parameters
    ----------
    beta : the map, `(d,)`, or many `(..., d)`.
    start : the map beta_0 at the start, `(d,)`; not zero.
    depth : number L of hidden layers.
    """
    (first, length), map_ = _start(start), np.asarray(beta, dtype=float)
    size = np.linalg.norm(map_, axis=-1)
    pull = first / length ** (depth / (depth + 1))
    return (depth + 1) / (depth + 2) * size ** ((depth + 2) / (depth + 1)) - map_ @ pull


def deep_limit(X: Any, y: Any, start: Any, depth: int) -> Vector:
    r"""The minimizer of Theorem 15 among the maps that fit.

    The part k of :math:`\|\beta\|^{-L/(L+1)} \beta` in the null space is kept, so the length r solves
    :math:`r^2 - \|k\|^2 r^{2L/(L+1)} = \|\beta_\dagger\|^2`.

    Parameters
    ----------
    X, y : inputs `(n, d)` and targets `(n,)`.
    start : the map beta_0 at the start, `(d,)`; not zero.
    depth : number L of hidden layers; at least 1.
    """
    if int(depth) != depth or depth < 1:
        raise InputError(f"The number of hidden layers must be at least 1; got {depth}.")
    least, null = _solutions(X, y)
    first, size = _start(start)
    power = depth / (depth + 1)
    kept = null @ (null.T @ first) / size**power
    pull, length = float(kept @ kept), float(np.linalg.norm(least))
    # at the lower end the two powers cancel, at the upper one r^2 alone is large enough
    low = max(length, pull ** ((depth + 1) / 2))
    high = low + length + pull ** ((depth + 1) / 2) + 1.0
    excess = lambda r: r ** (2 * power) * (r ** (2 - 2 * power) - pull) - length**2  # noqa: E731
    while excess(high) < 0:
        high *= 2
    r = low if excess(low) >= 0 else brentq(excess, low, high, xtol=1e-15, rtol=1e-14)
    return least + r**power * kept


def hyperbolic_entropy(x: Any, delta: float) -> Any:
    r"""Theorem 11: the potential of the mirror flow of the singular values, rates 1.

    For a two-layer network with Delta = delta I and h >= min(d, c).

    .. math:: q_\delta(x) = \tfrac14 (2x \sinh^{-1}(2x/|\delta|) - \sqrt{4x^2 + \delta^2} + |\delta|),
              \qquad q_\delta'' = 1/\sqrt{4x^2 + \delta^2}

    It grows like :math:`|x|` for small delta (rich) and like :math:`x^2` for large delta (lazy).

    Parameters
    ----------
    x : a singular value of the map, or many.
    delta : conserved balance of the layers; not zero.
    """
    if delta == 0:
        raise InputError("The hyperbolic entropy needs a delta that is not zero.")
    x, size = np.asarray(x, dtype=float), abs(delta)
    # sqrt(4x^2 + d^2) - d, without cancellation at small x
    rest = 4 * x**2 / (np.hypot(2 * x, size) + size)
    return (2 * x * np.arcsinh(2 * x / size) - rest) / 4


def singular_value_rate(values: Any, slopes: Any, delta: float) -> Any:
    r"""Lemma 10: :math:`\dot\lambda_i = -\sqrt{\delta^2 + 4\lambda_i^2}\; \partial L/\partial\lambda_i`.

    For Delta = delta I and rates 1.

    Parameters
    ----------
    values : singular values lambda_i of the map.
    slopes : derivative of the loss in each.
    delta : conserved balance of the layers.
    """
    return -np.hypot(delta, 2 * np.asarray(values, dtype=float)) * np.asarray(slopes, dtype=float)


def _start(start: Any) -> tuple[Vector, float]:
    """A map at the start, and its length."""
    first = finite_numbers("the start", start)
    size = float(np.linalg.norm(first))
    if first.ndim != 1:
        raise InputError(f"The map at the start must be a vector; got shape {first.shape}.")
    if size == 0:
        raise InputError("The map at the start is zero: it has no direction to keep.")
    return first, size


def _solutions(X: Any, y: Any) -> tuple[Vector, Float[np.ndarray, "d k"]]:
    """The least-norm solution of X beta = y, and a basis of the null space of X."""
    X, y = finite_numbers("X", X), finite_numbers("y", y)
    if X.ndim != 2 or X.size == 0 or y.shape != (len(X),):
        raise InputError(f"X must be (n, d) and y (n,); got {X.shape} and {y.shape}.")
    least, null = np.linalg.lstsq(X, y)[0], null_space(X)
    least = least - null @ (null.T @ least)
    if np.linalg.norm(X @ least - y) > _FITS * float(np.linalg.norm(y)):
        raise InputError("No linear map fits these data: X beta = y has no solution.")
    return least, null

r"""Losses by name, in this package's convention, and how a user's own loss is told to be one of them.

"squared" is :math:`\frac{1}{2n} \sum_s |f_s - y_s|^2`, half the squared distance, the mean over samples;
"cross-entropy" :math:`-\frac{1}{n} \sum_s \log \operatorname{softmax}(f_s)_{y_s}`. PyTorch's `nn.MSELoss`
is a mean over the outputs as well, and has no 1/2: it is :math:`2/c` times the first for c outputs.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import log_softmax

from saddlewalk.errors import InputError, nearest
from saddlewalk.losses import AbstractLoss, CrossEntropy, SquaredError

NAMED = ("squared", "cross-entropy")
_TRIED = (0.3, 1.0, 2.5)
"""Sizes of random outputs on which two losses are compared."""
_SAME = 1e-4


def check_name(loss: Any) -> None:
    """Refuse what is neither a function nor a name.

    Parameters
    ----------
    loss : what the user gave.
    """
    if callable(loss):
        return
    if not isinstance(loss, str):
        raise InputError(
            f"`loss` must be a function (outputs, targets) -> one number, or one of "
            f"{', '.join(NAMED)}; got {loss!r:.60}."
        )
    if loss not in NAMED:
        raise InputError(f"Unknown loss '{loss}'.{nearest(loss, NAMED)}")


def check_pairs(cost: Callable[[Any, Any], float | None], outputs: Any, targets: Any) -> None:
    """Refuse targets of another shape than the outputs where each of them is compared with each output.

    Shapes (n, 1) and (n,) become (n, n) in a difference. Then the order of the targets does not matter, as it
    does where each output has one.

    Parameters
    ----------
    cost : loss of outputs and targets; `None` where it cannot be had.
    outputs : the targets as numbers in the shape of the outputs.
    targets : of the probe.
    """
    order = np.arange(len(targets))[::-1].copy()

    def any_order(there: Any) -> bool:
        one, other = cost(outputs, there), cost(outputs, there[order])
        return one is None or other is None or math.isclose(one, other, rel_tol=_SAME)

    if cost(outputs, targets) is None:
        return  # the loss refuses these targets itself, and says why
    if not any_order(targets) or any_order(targets.reshape(outputs.shape)):
        return
    shape = tuple(outputs.shape)
    raise InputError(
        f"The outputs have shape {shape}, the targets {tuple(targets.shape)}: this loss compares each output "
        f"with each target. Give targets in the shape of the outputs, here and in training: "
        f"`targets.reshape({shape})`."
    )


def as_function(loss: Any) -> Callable[[Array, Array], Array]:
    """The loss of outputs `(n, ...)` and targets for JAX.

    Parameters
    ----------
    loss : a name, or a function, which is left as it is.
    """
    check_name(loss)
    if loss == "squared":
        return lambda f, y: 0.5 * jnp.sum((f - y.reshape(f.shape)) ** 2) / len(f)
    if loss == "cross-entropy":
        return _cross_entropy
    return loss


def _cross_entropy(outputs: Array, targets: Array) -> Array:
    logs = jax.nn.log_softmax(outputs)
    if jnp.issubdtype(targets.dtype, jnp.integer):
        return -jnp.mean(jnp.take_along_axis(logs, targets.reshape(len(logs), 1), axis=1))
    return -jnp.sum(targets.reshape(logs.shape) * logs) / len(logs)


def recognized_loss(
    cost: Callable[[np.ndarray], float], targets: np.ndarray, outputs: int
) -> tuple[AbstractLoss, np.ndarray, float]:
    """Which loss of this package a user's loss is, the targets for it, and the factor between them.

    The two are compared on random outputs: a loss is known by what it does, not by what it is called.

    Parameters
    ----------
    cost : the user's loss of outputs `(n, c)` on the probe.
    targets : the targets, numbers `(n,)` or `(n, c)`, or labels `(n,)`.
    outputs : number c of outputs.
    """
    samples = len(targets)
    labels = np.issubdtype(targets.dtype, np.integer) and targets.size == samples
    tried: list[tuple[AbstractLoss, np.ndarray, Callable[[np.ndarray, np.ndarray], float]]] = []
    if targets.size == samples * outputs:
        y = targets.reshape(samples, outputs).astype(np.float64)
        tried += [(SquaredError(), y, _squared), (CrossEntropy(), y, _soft)]
    if labels and outputs > 1 and targets.min() >= 0 and targets.max() < outputs:
        tried.append((CrossEntropy(), np.eye(outputs)[targets.ravel()], _soft))
    random = np.random.default_rng(0)
    places = [size * random.normal(size=(samples, outputs)) for size in _TRIED]
    seen = np.array([cost(place) for place in places])
    for loss, y, ours in tried:
        known = np.array([ours(place, y) for place in places])
        factor = math.nan if not known.all() else float(np.mean(seen / known))
        if math.isfinite(factor) and factor > 0 and _alike(seen, factor * known):
            return loss, y, factor
    raise InputError(
        "The loss is neither a squared error nor a cross-entropy times a number, the losses that are known "
        "here without its formula in JAX. The mean over the samples is taken, targets have the shape of the "
        "outputs or are labels."
    )


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    apart = [
        abs((a - b) - (c - d))
        for (a, c), (b, d) in itertools.combinations(zip(one, other, strict=True), 2)
    ]
    return bool(max(apart) <= _SAME * np.ptp(one) and np.allclose(one, other, rtol=_SAME))


def _squared(f: np.ndarray, y: np.ndarray) -> float:
    return 0.5 * float(np.sum((f - y) ** 2)) / len(f)


def _soft(f: np.ndarray, y: np.ndarray) -> float:
    return -float(np.sum(y * log_softmax(f, axis=1))) / len(f)

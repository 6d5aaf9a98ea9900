r"""The neural tangent kernel: which regime a network is in, as a number.

.. math:: \Theta(x, x') = \sum_p \eta_p\, \partial_p f(x)\, \partial_p f(x'), \qquad
          \dot f(x) = \textstyle\sum_i w_i\, \Theta(x, x_i)\, r_i

While the kernel stands still the network is its own linearization (lazy); how far it turns away from the
first one, :math:`S(t_1, t_2) = 1 - \langle K_1, K_2\rangle / \|K_1\| \|K_2\|`, says how rich learning is.

The Jacobian is never held: a row of the kernel is the answer of all samples to a step along the gradient
of one, `J (eta * grad f(x_i))`, so memory is that of the kernel and of a few gradients. Dense layers have
gradients that are outer products, and their kernel is a sum of products of small ones.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.diagnose.inputs import inputs_of
from saddlewalk.errors import InputError
from saddlewalk.landscape import AbstractLandscape
from saddlewalk.landscape.where import Anywhere
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem, network_at
from saddlewalk.units.base import Factors

Network = Callable[[Any, Any], Array]
"""Parameters (any tree of arrays) and one input give the outputs `(c,)`."""
Kernel = Float[Array | np.ndarray, "_ _"]


@in_float64
def tangent_kernel(
    where: Anywhere, weights: Any = None, *, at: int = -1, x: Any = None, traced: bool = False
) -> Float[Array | np.ndarray, "rows rows"]:
    """The kernel of a network. Rows are samples times outputs, sample by sample.

    Parameters
    ----------
    where : a run, a problem, or the landscape of any network.
    weights : parameters `(width, size)` with a problem, and only then; of a landscape another state than its
        present one.
    at : number of the saved moment of a run; the last by default.
    x : inputs `(n, d)`; by default the task's samples. A problem that keeps only their moments, as that of
        linear units does, needs them.
    traced : add up the outputs: a kernel `(n, n)`.
    """
    if isinstance(where, AbstractLandscape):
        from saddlewalk.diagnose.landscapes.kernel import kernel_of

        if x is not None:
            raise InputError(
                "A landscape has its probe: make one with other inputs instead of `x`."
            )
        return kernel_of(where, where.weights_at(weights, at), traced)
    problem, checked = network_at(where, weights, at)
    theta, samples = jnp.asarray(checked), jnp.asarray(inputs_of(problem, x))
    named = problem.weights(theta)
    factors = jax.eval_shape(problem.units.gradient_factors, named, samples[0])
    if factors is None or problem.adaptive:
        pace = problem.weights(problem.pace(theta))
        return network_kernel(problem.units.combine, named, samples, rates=pace, traced=traced)
    rows = len(samples) * (1 if traced else problem.task.outputs)
    each = 8 * sum(leaf.size for leaf in jax.tree.leaves(factors))
    # two blocks of samples at a time, each with its factors and what they are made from
    block = _block(4 * rows**2, 4 * each, len(samples))
    return _from_factors(problem, theta, samples, traced, block).reshape(rows, rows)


def network_kernel(
    network: Network,
    parameters: Any,
    x: Any,
    *,
    rates: Any = None,
    traced: bool = False,
    memory: float | None = None,
) -> Float[Array, "rows rows"]:
    """The kernel of any JAX function of parameters and one input, in the precision of its parameters.

    Parameters
    ----------
    network : parameters (any tree of arrays) and one input give the outputs `(c,)`.
    parameters : where the kernel is taken.
    x : inputs `(n, ...)`.
    rates : learning rates, a tree like the parameters, of arrays or numbers; 1 by default.
    traced : add up the outputs: a kernel `(n, n)`.
    memory : bytes that may be held besides the kernel; by default twice the kernel.
    """
    x = jnp.asarray(x)
    parameters = jax.tree.map(jnp.asarray, parameters)
    _check_finite(parameters)
    one = rates if rates is not None else jax.tree.map(lambda _: 1.0, parameters)
    pace = jax.tree.map(lambda leaf, rate: jnp.asarray(rate, leaf.dtype), parameters, one)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(parameters))
    answer = jax.eval_shape(network, parameters, x[0])
    if answer.ndim != 1:
        raise InputError(f"The network must answer a vector to one input; got {answer.shape}.")
    rows = len(x) * (1 if traced else answer.size)
    room = memory if memory is not None else 2 * rows**2 * answer.dtype.itemsize
    # a block of samples has its gradients twice, before and after they are multiplied by the rates
    block = _block(room / 2, 2 * answer.size * size, len(x))
    activity = _temporary_bytes(network, parameters, x[0])
    chunk = _block(room / 4, block * answer.size * activity, len(x))
    kernel = _rows(network, parameters, pace, x, traced, block, chunk)
    return kernel.reshape(rows, rows)


def _check_finite(parameters: Any) -> None:
    """Refuse NaN, where numbers are known: within a compiled program they are not."""
    known = [leaf for leaf in jax.tree.leaves(parameters) if not isinstance(leaf, jax.core.Tracer)]
    if not all(np.isfinite(np.asarray(leaf)).all() for leaf in known):
        raise InputError("The parameters hold NaN or infinite numbers.")


def kernel_distance(first: Kernel, second: Kernel) -> float:
    """S = 1 - <K1, K2> / |K1| |K2|: 0 for kernels that differ in scale alone, at most 1.

    Parameters
    ----------
    first, second : kernels of one shape.
    """
    k1, k2 = (np.asarray(kernel, dtype=np.float64) for kernel in (first, second))
    if k1.shape != k2.shape:
        raise InputError(f"The kernels have shapes {k1.shape} and {k2.shape}.")
    if not np.isfinite(k1).all() or not np.isfinite(k2).all() or not k1.any() or not k2.any():
        raise InputError(
            "A kernel is zero or not finite: no network answers to its parameters here."
        )
    # as a distance of unit vectors: 1 - cos loses what is below 1e-16, the difference does not
    return float(0.5 * np.sum((k1 / np.linalg.norm(k1) - k2 / np.linalg.norm(k2)) ** 2))


def target_alignment(kernel: Kernel, y: Any) -> float:
    """<K, y y^T> / |K| |y|^2: how well the kernel's main direction is the target's.

    Parameters
    ----------
    kernel : one row a sample (traced), or one a sample and output.
    y : targets `(n,)` or `(n, c)`.
    """
    k, targets = np.asarray(kernel, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if targets.size == len(k):
        targets = targets.reshape(-1, 1)
    if targets.ndim != 2 or len(targets) != len(k):
        raise InputError(f"The kernel has {len(k)} rows and the targets have shape {np.shape(y)}.")
    gram = float(np.sum(targets * (k @ targets)))
    return gram / (float(np.linalg.norm(k)) * float(np.linalg.norm(targets @ targets.T)))


@eqx.filter_jit
def _rows(
    network: Network, parameters: Any, pace: Any, x: Array, traced: bool, block: int, chunk: int
) -> Array:
    def respond(step: Any) -> Array:
        """How all samples answer to a step of the parameters, (n, c)."""
        turn = lambda one: jax.jvp(lambda p: network(p, one), (parameters,), (step,))[1]  # noqa: E731
        return jax.lax.map(turn, x, batch_size=chunk)

    def row(one: Array) -> Array:
        steps = jax.tree.map(jnp.multiply, pace, jax.jacrev(network)(parameters, one))
        rows = jax.lax.map(respond, steps)  # (c, n, c)
        return jnp.einsum("cnc->n", rows) if traced else rows

    return jax.lax.map(row, x, batch_size=block)


@eqx.filter_jit
def _from_factors(
    problem: Problem, theta: Array, x: Array, traced: bool, block: int
) -> Float[Array, "n ..."]:
    """Sum over layers of (reads . reads') times (worth . worth'), for blocks of samples against blocks."""
    rates = dict(problem.layer_rates)
    weights = problem.weights(theta)

    def factors(one: Array) -> Factors:
        found = problem.units.gradient_factors(weights, one)
        assert found is not None
        return found

    def part(name: str, here: tuple[Array, Array], there: tuple[Array, Array]) -> Array:
        rate = rates.get(name, 1.0)
        if here[0].ndim == 1:
            gram = jnp.sum(here[1] * there[1]) if traced else here[1] @ there[1].T
            return rate * (here[0] @ there[0]) * gram
        alike = jnp.einsum("pi,qi,dqh->dph", here[0], there[0], there[1])  # summed over places
        pair = "cph,cph->" if traced else "cph,dph->cd"
        return rate * jnp.einsum(pair, here[1], alike)

    def row(one: Array) -> Array:
        here = factors(one)

        def entry(other: Array) -> Array:
            there = factors(other)
            return sum(part(name, here[name], there[name]) for name in here)  # type: ignore[return-value]

        entries = jax.lax.map(entry, x, batch_size=block)  # (n,) or (n, c, c)
        return entries if traced else jnp.moveaxis(entries, 0, 1)

    return jax.lax.map(row, x, batch_size=block)


def _block(room: float, each: float, most: int) -> int:
    """How many fit into the room; a divisor of all if one is near, for a rest costs a copy of the result."""
    fits = max(1, min(most, math.floor(room / max(each, 1.0))))
    return next((k for k in range(fits, fits // 2, -1) if most % k == 0), fits)


def _temporary_bytes(network: Network, parameters: Any, x: Array) -> int:
    """A guess of what one forward derivative holds: all intermediate results, twice."""
    jaxpr = jax.make_jaxpr(network)(parameters, x)
    weights = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    sizes = [
        out.aval.size for equation in jaxpr.eqns for out in equation.outvars if hasattr(out, "aval")
    ]
    return 16 * max(1, sum(size for size in sizes if size < weights))

r"""The weights of a network as a program would hold them: matrices and vectors, by name.

Gradient flow does not mind how parameters are arranged, or turned. An optimizer that looks at each weight, or
at each matrix, does: it moves the u and v of a diagonal network, not their sum and difference, and the second
layer of a two-layer network is the matrix of outgoing weights.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from saddlewalk.optimizers import Tensors
from saddlewalk.problem.problem import Parameters, ParametersLike, Problem
from saddlewalk.units import Diagonal


def split(problem: Problem, theta: ParametersLike) -> Tensors:
    """Parameters as tensors: a layer `(units, inputs)`, outgoing weights `(outputs, units)`, as in PyTorch.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    if isinstance(problem.units, Diagonal):
        u, v = problem.units.weights(jnp.asarray(theta))
        return {"u": u, "v": v}
    weights = problem.weights(theta)
    if not problem.units.additive:
        return {name: value[0] for name, value in weights.items()}
    out = _outgoing(problem)
    return {name: value.T if name == out else value for name, value in weights.items()}


def joined(problem: Problem, tensors: Tensors) -> Parameters:
    """The parameters `(width, size)` behind tensors.

    Parameters
    ----------
    problem : units, data and loss.
    tensors : as `split` gives them.
    """
    if isinstance(problem.units, Diagonal):
        u = tensors["u"] / math.sqrt(problem.units.rate_u)
        v = tensors["v"] / math.sqrt(problem.units.rate_v)
        return jnp.stack([u + v, u - v], axis=1) / math.sqrt(2)
    # by name: JAX puts the names of a dictionary in another order
    ordered = {name: tensors[name] for name in problem.shapes}
    if not problem.units.additive:
        return jnp.concatenate([value.ravel() for value in ordered.values()])[None]
    out, width = _outgoing(problem), problem.width
    rows = [value.T if name == out else value for name, value in ordered.items()]
    return jnp.concatenate([value.reshape(width, -1) for value in rows], axis=1)


def rates(problem: Problem) -> dict[str, Any]:
    """The learning rate of each weight, beside that of the optimizer.

    Parameters
    ----------
    problem : units, data and loss.
    """
    if isinstance(problem.units, Diagonal):
        return {"u": problem.units.rate_u, "v": problem.units.rate_v}
    return split(problem, jnp.broadcast_to(problem.rates, (problem.width, problem.size)))


def gradients(problem: Problem, tensors: Tensors) -> Tensors:
    """Gradient of the loss in each weight.

    Parameters
    ----------
    problem : units, data and loss.
    tensors : the weights, as `split` gives them.
    """
    return jax.grad(lambda weights: problem.loss(joined(problem, weights)))(tensors)


def _outgoing(problem: Problem) -> str | None:
    """The layer that is a matrix of outgoing weights, if there is one."""
    shapes = problem.shapes
    name = problem.units.outgoing or next(reversed(shapes))
    return name if len(shapes[name]) == 1 and len(shapes) > 1 else None

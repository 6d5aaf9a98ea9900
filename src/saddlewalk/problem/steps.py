"""One step of an optimizer on a problem: gradients, what the rule makes of them, rates of the layers."""

from typing import Any

import jax
import jax.numpy as jnp

from saddlewalk.errors import InputError
from saddlewalk.optimizers import AbstractOptimizer, Memory, Tensors
from saddlewalk.problem import tensors
from saddlewalk.problem.problem import Parameters, ParametersLike, Problem
from saddlewalk.tasks import Samples


def weights_of(problem: Problem, theta: ParametersLike, rule: AbstractOptimizer) -> Tensors:
    """What the rule looks at: each tensor, or, where it does not matter how they are turned, all at once.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    rule : the optimizer.
    """
    return {"theta": jnp.asarray(theta)} if rule.proportional else tensors.split(problem, theta)


def parameters_of(problem: Problem, weights: Tensors, rule: AbstractOptimizer) -> Parameters:
    """The parameters `(width, size)` behind what the rule looks at.

    Parameters
    ----------
    problem : units, data and loss.
    weights : as `weights_of` gives them.
    rule : the optimizer.
    """
    return weights["theta"] if rule.proportional else tensors.joined(problem, weights)


def moved(
    problem: Problem, seen: Problem, rule: AbstractOptimizer, weights: Tensors, memory: Memory
) -> tuple[Tensors, Memory]:
    """Weights and memory after one step.

    Parameters
    ----------
    problem : units, data and loss.
    seen : the same on the samples of this step.
    rule : the optimizer.
    weights, memory : as `weights_of` and `rule.start` give them.
    """
    if rule.proportional:
        changes, memory = rule.step({"theta": -seen.velocity(weights["theta"])}, memory, weights)
    else:
        changes, memory = rule.step(tensors.gradients(seen, weights), memory, weights)
        rates: Any = tensors.rates(problem)
        changes = jax.tree.map(lambda change, rate: rate * change, changes, rates)
    return jax.tree.map(jnp.add, weights, changes), memory


def check_batches(problem: Problem, batch_size: int) -> None:
    """Refuse mini-batches where there are no samples to draw them from.

    Parameters
    ----------
    problem : units, data and loss.
    batch_size : samples of a mini-batch.
    """
    if not isinstance(problem.task, Samples):
        raise InputError("SGD needs samples; this task is given by its moments.")
    if batch_size < 1:
        raise InputError(f"The batch size must be at least 1; got {batch_size}.")

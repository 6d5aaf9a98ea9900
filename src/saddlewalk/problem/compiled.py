"""What is asked of a problem again and again, compiled: one program for each shape, shared by all who ask."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.problem.problem import Parameters, ParametersLike, Problem
from saddlewalk.programs import compiled, seldom
from saddlewalk.tasks import AbstractTask

Function = Float[Array, "..."]
FunctionLike = Float[Array | np.ndarray, "..."]


@seldom
def function(problem: Problem, theta: ParametersLike) -> Function:
    """The sum of the units as a vector in function space.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    return problem.function(theta)


@seldom
def features(problem: Problem, theta: ParametersLike) -> Function:
    """Each unit alone as a vector in function space.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    return problem.features(theta)


@seldom
def loss(problem: Problem, theta: ParametersLike) -> Float[Array, ""]:
    """Loss of the sum of the units.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    return problem.loss(theta)


@compiled
def loss_and_gradient(
    problem: Problem, theta: ParametersLike
) -> tuple[Float[Array, ""], Parameters]:
    """The loss, and its gradient.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    return jax.value_and_grad(problem.loss)(theta)


@seldom
def residual(problem: Problem, theta: ParametersLike) -> Function:
    """Minus the gradient of the loss in function space.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    return problem.residual(theta)


@compiled
def utility(
    problem: Problem, theta: ParametersLike, residual: FunctionLike
) -> Float[Array, " width"]:
    """How fast the loss falls, to first order, when each unit is added.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)` of the units that are added.
    residual : of the network they are added to, in function space.
    """
    return problem.utility(theta, residual)


@compiled
def climb(problem: Problem, theta: ParametersLike, residual: FunctionLike) -> Parameters:
    """How each unit alone climbs its utility against a residual.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    residual : what the units climb against, in function space.
    """
    return problem.climb(theta, residual)


@compiled
def climbs(
    problem: Problem, thetas: Float[Array | np.ndarray, "many width size"], residual: FunctionLike
) -> Float[Array, "many width size"]:
    """The same at many places.

    Parameters
    ----------
    problem : units, data and loss.
    thetas : parameters `(many, width, size)`.
    residual : what the units climb against, in function space.
    """
    return jax.lax.map(lambda theta: problem.climb(theta, residual), jnp.asarray(thetas))


@seldom
def hessian(problem: Problem, theta: ParametersLike) -> Float[Array, "all all"]:
    """The Hessian of the loss as a matrix: for small networks.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`; the matrix has width * size rows.
    """
    flat_loss = lambda flat: problem.loss(flat.reshape(theta.shape))  # noqa: E731
    return jax.hessian(flat_loss)(theta.ravel())


@compiled
def hessian_product(
    problem: Problem, theta: ParametersLike, direction: ParametersLike
) -> Parameters:
    """The Hessian of the loss times a direction, without the Hessian.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    direction : direction of the parameters `(width, size)`.
    """
    return jax.jvp(jax.grad(problem.loss), (theta,), (direction,))[1]


@seldom
def length(task: AbstractTask, function: Function) -> Float[Array, ""]:
    """Length of a vector of function space: the same program for networks of all widths.

    Parameters
    ----------
    task : whose function space is meant.
    function : a vector of it.
    """
    return task.length(function)


@seldom
def feature_lengths(problem: Problem, theta: ParametersLike) -> Float[Array, " width"]:
    """Length of each unit alone in function space.

    Parameters
    ----------
    problem : units, data and loss.
    theta : parameters `(width, size)`.
    """
    return jnp.sqrt(problem.squares(theta))

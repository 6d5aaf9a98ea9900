"""Any JAX function of a tree of parameters as a landscape; an Equinox module is one.

The network answers to one input, as in Equinox, and is mapped over the probe. It computes in double precision
inside the package's own context, whatever the precision of its parameters. Integers, functions and other
leaves that are no real numbers are constants, and so is what `frozen` names.
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError
from saddlewalk.landscape.base import AbstractLandscape, Outputs, Product, Vector, laid_out
from saddlewalk.landscape.losses import as_function, check_pairs
from saddlewalk.precision import in_float64

Network = Callable[[Any, Any], Array]
"""Parameters (any tree of arrays) and one input give an answer."""


class FunctionLandscape(AbstractLandscape):
    """A function of parameters and one input, a probe and a loss.

    Parameters
    ----------
    network : network(parameters, one input) -> its answer.
    parameters : a tree of arrays: the weights as they are now.
    data : the probe `(inputs, targets)`, samples first; inputs may be a tree of arrays.
    loss : loss(outputs, targets) -> one number for the whole probe, or "squared" or "cross-entropy".
    frozen : names of parameters, as in `names`, that are constants.
    """

    @in_float64
    def __init__(
        self,
        network: Network,
        parameters: Any,
        data: Any,
        loss: Any,
        *,
        frozen: tuple[str, ...] = (),
    ) -> None:
        self._loss = as_function(loss)
        leaves, self._structure = jax.tree_util.tree_flatten_with_path(parameters)
        names = [
            jax.tree_util.keystr(path, simple=True, separator=".") or "w" for path, _ in leaves
        ]
        unknown = [name for name in frozen if name not in names]
        if unknown:
            raise InputError(
                f"There is no parameter '{unknown[0]}'; there are: {', '.join(names)}."
            )
        self._moves = [
            eqx.is_inexact_array(_as_array(leaf)) and name not in frozen
            for name, (_, leaf) in zip(names, leaves, strict=True)
        ]
        if not any(self._moves):
            raise InputError(
                "All parameters are frozen, or there are none: the loss is a constant."
            )
        self._leaf_names = names
        self._constants = [_doubled(leaf) for _, leaf in leaves]
        self.parameters = laid_out(
            (name, tuple(np.shape(leaf)))
            for name, (_, leaf), moves in zip(names, leaves, self._moves, strict=True)
            if moves
        )
        self.rounding = float(np.finfo(np.float64).eps)
        self._weights = self._vector([leaf for _, leaf in leaves])
        self._network = network
        self._x, self._y = _probe(data)
        self._compile()
        self._shape = self._first_answer()
        self._first_loss()

    def _compile(self) -> None:
        def answers(flat: Array, x: Any) -> Array:
            tree = self._tree(flat)
            return jax.vmap(lambda one: self._network(tree, one))(x)

        def price(outputs: Array, y: Array) -> Array:
            cost = self._loss(outputs, y)
            if jnp.shape(cost) != ():
                raise InputError(
                    f"The loss must be one number; it has shape {jnp.shape(cost)}. Take its mean: "
                    "`lambda outputs, targets: loss(outputs, targets).mean()`."
                )
            return cost

        def total(flat: Array, x: Any, y: Array) -> Array:
            return price(answers(flat, x), y)

        def turned(flat: Array, v: Array, x: Any, y: Array) -> Array:
            return jax.jvp(lambda w: jax.grad(total)(w, x, y), (flat,), (v,))[1]

        def rows(flat: Array, x: Any) -> Array:
            one = lambda sample: jax.jacrev(  # noqa: E731
                lambda w: jnp.ravel(self._network(self._tree(w), sample))
            )(flat)
            return jax.lax.map(one, x).reshape(-1, flat.size)

        self._answers, self._price = jax.jit(answers), jax.jit(price)
        self._slope = jax.jit(jax.value_and_grad(total))
        self._turned = jax.jit(turned)
        self._along = jax.jit(lambda flat, v, x: jax.jvp(lambda w: answers(w, x), (flat,), (v,))[1])
        self._back = jax.jit(lambda flat, u, x: jax.vjp(lambda w: answers(w, x), flat)[1](u)[0])
        self._rows = jax.jit(rows)
        self._pull = jax.jit(jax.grad(price))

    # --- the contract ---------------------------------------------------------------------------------

    @property
    def weights(self) -> Vector:
        """The weights with which it was made."""
        return self._weights.copy()

    def weights_of(self, state: Any) -> Vector:
        """The vector of weights of another tree of parameters.

        Parameters
        ----------
        state : a tree like the one with which the landscape was made, or an Equinox module.
        """
        if isinstance(state, eqx.Module):
            state = eqx.filter(state, eqx.is_array)
        leaves, structure = jax.tree_util.tree_flatten(state)
        if len(leaves) != len(self._moves):
            raise InputError(
                f"The tree has {len(leaves)} leaves, that of the landscape {len(self._moves)}: {structure}."
            )
        return self._vector(leaves)

    def tree_of(self, w: Any) -> Any:
        """The tree of parameters of a vector of weights, in double precision.

        Parameters
        ----------
        w : a vector of weights.
        """
        return self._tree(self.checked(w))

    @property
    def targets(self) -> np.ndarray:
        """The targets of the probe; labels stay whole numbers."""
        return np.asarray(self._y)

    @property
    def inputs(self) -> Any:
        """The inputs of the probe."""
        return self._x

    @in_float64
    def outputs(self, w: Any) -> Outputs:
        """What the network answers on the probe.

        Parameters
        ----------
        w : a vector of weights.
        """
        return _matrix(self._answers(self.checked(w), self._x))

    @in_float64
    def loss_and_gradient(self, w: Any) -> tuple[float, Vector]:
        """The loss on the probe, and its gradient.

        Parameters
        ----------
        w : a vector of weights.
        """
        loss, slope = self._slope(self.checked(w), self._x, self._y)
        return float(loss), np.asarray(slope)

    def hessian_at(self, w: Any) -> Product:
        """Products with the Hessian of the loss at one place.

        Parameters
        ----------
        w : a vector of weights.
        """
        here = self.checked(w)
        return in_float64(
            lambda v: np.asarray(self._turned(here, self.checked(v), self._x, self._y))
        )

    def jacobian_at(self, w: Any) -> tuple[Product, Product]:
        """Products with the Jacobian of the outputs, from both sides.

        Parameters
        ----------
        w : a vector of weights.
        """
        here = self.checked(w)
        return (
            in_float64(lambda v: _matrix(self._along(here, self.checked(v), self._x))),
            in_float64(lambda u: np.asarray(self._back(here, self._like_outputs(u), self._x))),
        )

    @in_float64
    def jacobian(self, w: Any, samples: slice = slice(None)) -> Float[np.ndarray, "rows size"]:
        """The Jacobian of the outputs, sample by sample.

        Parameters
        ----------
        w : a vector of weights.
        samples : which of the probe; all by default.
        """
        some = jax.tree.map(lambda one: one[samples], self._x)
        return np.asarray(self._rows(self.checked(w), some))

    @in_float64
    def cost(self, outputs: Any) -> float:
        """The loss of outputs on the probe, whatever network they come from.

        Parameters
        ----------
        outputs : a matrix, one row a sample.
        """
        return float(self._price(self._like_outputs(outputs), self._y))

    @in_float64
    def residual(self, outputs: Any) -> Outputs:
        """Minus the gradient of the loss by the outputs.

        Parameters
        ----------
        outputs : a matrix, one row a sample.
        """
        return -_matrix(self._pull(self._like_outputs(outputs), self._y))

    # --- trees and vectors ----------------------------------------------------------------------------

    def _tree(self, flat: Any) -> Any:
        parts = iter(self.parameters)
        leaves = [
            _as_place(flat, next(parts)) if moves else constant
            for moves, constant in zip(self._moves, self._constants, strict=True)
        ]
        return jax.tree_util.tree_unflatten(self._structure, leaves)

    def _vector(self, leaves: list[Any]) -> Vector:
        moving = [leaf for leaf, moves in zip(leaves, self._moves, strict=True) if moves]
        return self.join(dict(zip(self.names, moving, strict=True)))

    def _like_outputs(self, values: Any) -> np.ndarray:
        array = np.asarray(values, dtype=np.float64)
        if array.size != np.prod(self._shape):
            raise InputError(f"The outputs have shape {self._shape}; got {array.shape}.")
        return array.reshape(self._shape)

    def _first_answer(self) -> tuple[int, ...]:
        try:
            answer = jax.eval_shape(self._answers, self._weights, self._x)
        except (TypeError, ValueError, IndexError) as error:
            if isinstance(error, InputError):
                raise
            shapes = [tuple(np.shape(one)) for one in jax.tree.leaves(self._x)]
            raise InputError(
                f"The network does not take one input of the probe, whose arrays have shapes {shapes} with "
                f"samples first: {str(error).splitlines()[0]}"
            ) from error
        if not hasattr(answer, "shape"):
            raise InputError(
                f"The network must answer an array to one input; it answers {type(answer).__name__}."
            )
        if len(self._y) != answer.shape[0]:
            raise InputError(
                f"The probe has {answer.shape[0]} inputs and {len(self._y)} targets; they must be equal."
            )
        return answer.shape

    def _first_loss(self) -> None:
        try:
            jax.eval_shape(self._price, np.zeros(self._shape), self._y)
        except (TypeError, ValueError, IndexError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"The loss does not take outputs of shape {self._shape} with targets of shape "
                f"{self._y.shape} ({self._y.dtype}): {str(error).splitlines()[0]}"
            ) from error
        if self._y.shape != self._shape and self._y.size == math.prod(self._shape):
            check_pairs(self._tried, self._y.reshape(self._shape).astype(np.float64), self._y)

    def _tried(self, outputs: np.ndarray, targets: np.ndarray) -> float | None:
        """The loss of some outputs and targets, if it can be had."""
        try:
            return float(self._price(outputs, targets))
        except (TypeError, ValueError, IndexError):
            return None


def landscape_of(model: Any, data: Any, loss: Any, **options: Any) -> AbstractLandscape:
    """The loss of any network as a function of one vector of weights.

    Parameters
    ----------
    model : a PyTorch module; an Equinox module, or any tree of arrays that can be called with one input; or a
        pair (function, parameters) with function(parameters, one input).
    data : the probe `(inputs, targets)`, one batch of data, samples first.
    loss : loss(outputs, targets) -> one number, or "squared" or "cross-entropy".
    **options : those of `ModuleLandscape` or `FunctionLandscape`.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from saddlewalk.landscape.torch import ModuleLandscape

        return ModuleLandscape(model, data, loss, **options)
    if isinstance(model, tuple) and len(model) == 2 and callable(model[0]):
        return FunctionLandscape(model[0], model[1], data, loss, **options)
    if callable(model) and isinstance(model, eqx.Module):
        return FunctionLandscape(*_called(model), data, loss, **options)
    raise InputError(
        "The network must be a PyTorch module, an Equinox module, or a pair (function, parameters); got "
        f"{type(model).__name__}."
    )


def _called(module: Any) -> tuple[Network, Any]:
    """A module in inference mode as a function of its arrays."""
    calm = eqx.nn.inference_mode(module)
    arrays, rest = eqx.partition(calm, eqx.is_array)
    return lambda tree, x: eqx.combine(tree, rest)(x), arrays


def _probe(data: Any) -> tuple[Any, np.ndarray]:
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InputError(
            f"The probe is a pair (inputs, targets), one batch of data; got a {type(data).__name__}."
        )
    x, y = jax.tree.map(_finite, data[0]), _finite(data[1])
    if y.ndim == 0 or any(one.ndim == 0 for one in jax.tree.leaves(x)):
        raise InputError(
            "Inputs and targets of the probe have samples first; one of them is a number."
        )
    return x, y


def _finite(values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InputError(f"The probe must hold numbers; got {array.dtype}.")
    if array.dtype.kind == "f":
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise InputError("The probe holds NaN or infinite numbers.")
    return array


def _as_array(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, float) else leaf


def _doubled(leaf: Any) -> Any:
    return np.asarray(leaf, dtype=np.float64) if eqx.is_inexact_array(leaf) else leaf


def _as_place(flat: Any, one: Any) -> Any:
    return flat[one.place].reshape(one.shape)


def _matrix(outputs: Array) -> Outputs:
    return np.asarray(outputs).reshape(len(outputs), -1)

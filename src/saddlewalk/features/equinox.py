"""Features of JAX networks: any `equinox.Module` with linear or convolutional layers.

Every layer is wrapped so that a nudge is added to what it answers; gradients with respect to the nudges, one
a sample, are those with respect to the layer's output. Gradients of the loss by nudges and by weights come
from one backward pass, and nothing is kept of a batch but three sums.
"""

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.features.layers import LayerFeatures
from saddlewalk.features.report import NetworkFeatures
from saddlewalk.precision import exact_products

SampleLoss = Callable[[jax.Array, jax.Array], jax.Array]
"""Loss of one answer and its target."""
_Layer = (eqx.nn.Linear, eqx.nn.Conv)
Nudges = tuple[Any, ...]


def equinox_features(
    module: Callable[[jax.Array], jax.Array],
    batches: Iterable[tuple[Any, Any]],
    loss: SampleLoss,
    weight_decay: float | None = None,
) -> NetworkFeatures:
    """FACT, AGOP and eNFA of the layers of a module that takes one sample.

    Parameters
    ----------
    module : the network, a function of one sample.
    batches : pairs of inputs and targets, samples first.
    loss : loss(answer, target) of one sample; the loss of the network is its mean over samples.
    weight_decay : lambda of the loss `mean + lambda/2 |weights|^2`; without it matrices hold up to a factor.
    """
    found = _layers(module)
    sums: Any = None
    samples = 0
    for inputs, targets in batches:
        x, y = jnp.asarray(inputs), jnp.asarray(targets)
        if len(x) == 0:
            continue
        shapes = _answer_shapes(module, x[0])
        with exact_products():
            part = _sums_over_batch(module, shapes, loss, x, y)
        sums = part if sums is None else jax.tree.map(jnp.add, sums, part)
        samples += len(x)
    if samples == 0:
        raise InputError("There are no batches: nothing to average over.")

    def features(name: str, layer: Any, totals: Any) -> LayerFeatures:
        gradient, loss_square, output_square = (
            np.asarray(total, dtype=float) / samples for total in totals
        )
        weight = np.asarray(_as_matrix(layer.weight), dtype=float)
        return LayerFeatures(name, weight, gradient, loss_square, output_square, weight_decay)

    return NetworkFeatures(
        tuple(features(*one, totals) for one, totals in zip(found.items(), sums, strict=True))
    )


class _Nudged(eqx.Module):
    """A layer whose answer is shifted."""

    layer: Any
    nudge: jax.Array

    def __call__(self, x: jax.Array, *, key: Any = None) -> jax.Array:
        return self.layer(x) + self.nudge


class _Watched(eqx.Module):
    """A layer that notes the shape of its answer."""

    layer: Any
    place: int = eqx.field(static=True)
    shapes: dict[int, tuple[int, ...]] = eqx.field(static=True)

    def __call__(self, x: jax.Array, *, key: Any = None) -> jax.Array:
        if self.place in self.shapes or isinstance(x, jax.core.Tracer):
            raise InputError(
                "A layer is used more than once for a sample: its answer is no single vector or image."
            )
        answer = self.layer(x)
        self.shapes[self.place] = answer.shape
        return answer


@eqx.filter_jit
def _sums_over_batch(
    module: Any, shapes: tuple[tuple[int, ...], ...], loss: SampleLoss, x: jax.Array, y: jax.Array
) -> list[Any]:
    """Sums over a batch, by layer: gradient of the loss, g g^T, and sum_c q q^T."""
    dtypes = [layer.weight.dtype for layer in _layers(module).values()]
    calm = tuple(
        jnp.zeros((len(x), *shape), dtype) for shape, dtype in zip(shapes, dtypes, strict=True)
    )
    moving, fixed = eqx.partition(module, eqx.is_inexact_array)

    def total(moving: Any, nudges: Nudges) -> jax.Array:
        answers = jax.vmap(lambda n, x: _with_nudges(eqx.combine(moving, fixed), n)(x))(nudges, x)
        costs = jax.vmap(loss)(answers, y)
        if costs.ndim != 1:
            raise InputError(f"The loss of a sample is one number; it has shape {costs.shape[1:]}.")
        return jnp.sum(costs)

    def outputs(nudges: Nudges, x: jax.Array) -> jax.Array:
        return jnp.ravel(_with_nudges(module, nudges)(x))

    by_weights, by_nudges = jax.grad(total, argnums=(0, 1))(moving, calm)
    worth = jax.vmap(jax.jacrev(outputs))(calm, x)
    gradients = [layer.weight for layer in _layers(by_weights).values()]
    return [
        (_as_matrix(slope), _sum_of_outer_products(g, 1), _sum_of_outer_products(q, 2))
        for slope, g, q in zip(gradients, by_nudges, worth, strict=True)
    ]


def _sum_of_outer_products(gradients: jax.Array, channel: int) -> jax.Array:
    """Sum of outer products over everything but the channels, of which a scalar answer has one."""
    if gradients.ndim == channel:
        gradients = gradients[..., None]
    rows = jnp.moveaxis(gradients, channel, -1).reshape(-1, gradients.shape[channel])
    return rows.T @ rows


def _with_nudges(module: Any, nudges: Nudges) -> Any:
    left = iter(nudges)
    return _with_layers_replaced(module, lambda layer: _Nudged(layer, next(left)))


def _answer_shapes(module: Any, x: jax.Array) -> tuple[tuple[int, ...], ...]:
    """Shapes of what the layers answer to one sample, in their order."""
    shapes: dict[int, tuple[int, ...]] = {}
    places = iter(range(len(_layers(module))))
    watched = _with_layers_replaced(module, lambda layer: _Watched(layer, next(places), shapes))
    # without compiling, loops are run through and only what is mapped is traced
    with jax.disable_jit():
        watched(x)
    names = list(_layers(module))
    missing = [name for k, name in enumerate(names) if k not in shapes]
    if missing:
        raise InputError(f"The layer '{missing[0]}' is not used in the forward pass.")
    return tuple(shapes[k] for k in range(len(names)))


def _with_layers_replaced(module: Any, new: Callable[[Any], Any]) -> Any:
    return jax.tree.map(
        lambda part: new(part) if isinstance(part, _Layer) else part,
        module,
        is_leaf=lambda part: isinstance(part, _Layer),
    )


def _layers(module: Any) -> dict[str, Any]:
    """Linear and convolutional layers by their path, in the order of the tree."""
    parts = jax.tree_util.tree_leaves_with_path(
        module, is_leaf=lambda part: isinstance(part, _Layer)
    )
    found = {
        jax.tree_util.keystr(path).lstrip(".") or "layer": part
        for path, part in parts
        if isinstance(part, _Layer)
    }
    if not found:
        raise InputError("The module has no linear or convolutional layer.")
    grouped = [name for name, layer in found.items() if getattr(layer, "groups", 1) != 1]
    if grouped:
        raise InputError(f"'{grouped[0]}' is a grouped convolution, which is no single matrix.")
    return found


def _as_matrix(weight: jax.Array) -> jax.Array:
    """A convolution as a matrix on patches."""
    return weight.reshape(len(weight), -1)

"""Modules that are a sum of units: task, units and weights for the exact machinery.

The steps of a module (`chain`) are matched with the units of this package: two linear maps with an
activation between are neurons, a convolution in the place of the first one kernels. A module that no chain
describes can be matched by its user: units, and the names of the module's parameters that are their
weights. In any case the answers of units and module are compared on the data before anything is returned.
"""

import copy
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import torch
from torch import nn

from saddlewalk.errors import InputError
from saddlewalk.landscape import activations
from saddlewalk.landscape.chain import (
    Activation,
    Constant,
    Convolution,
    Factor,
    Flatten,
    Linear,
    Pooling,
    Step,
    read_chain,
)
from saddlewalk.landscape.recognized import (
    BIAS_HELD,
    Data,
    Place,
    RecognizedProblem,
    as_it_is,
    dense_problem,
    recognized,
    transposed,
)
from saddlewalk.landscape.torch import ModuleLandscape
from saddlewalk.landscape.torch_module import as_numpy, unwrapped
from saddlewalk.precision import float64
from saddlewalk.problem import Problem, compiled
from saddlewalk.units import AbstractUnits, PooledConvolution
from saddlewalk.units import Convolution as KernelUnits

_SAME = 1e-6
"""Part by which the answers of units and module may differ (in float32 they do)."""


def as_problem(
    model: nn.Module,
    data: Any,
    loss: Any,
    *,
    units: AbstractUnits | None = None,
    names: Mapping[str, str] | None = None,
) -> RecognizedProblem:
    """A two-layer module as task, units and weights, so that `predict(start=...)` speaks about it.

    Recognized are linear-activation-linear, and convolution-activation-(average pooling-)linear, as modules
    or as functions, with and without biases and fixed factors. What is not recognized is refused, with the
    first layer that does not fit.

    Parameters
    ----------
    model : the network.
    data : all data `(inputs, targets)` on which it is trained.
    loss : the loss with which it is trained, loss(outputs, targets): a squared error or a cross-entropy, up
        to a factor; or the names "squared", "cross-entropy".
    units : for modules of another kind, the units of this package that they are; this is checked.
    names : with `units`, the module's parameter for each of a unit's weights (units first: their shapes are
        `(width, ...)`); by default those of the same name.
    """
    module = unwrapped(model)
    place = ModuleLandscape(module, data, loss, dtype=torch.float64)
    arrays = {name: as_numpy(one) for name, one in module.named_parameters()}
    arrays |= {name: as_numpy(one) for name, one in module.named_buffers()}
    if not isinstance(place.inputs, torch.Tensor):
        raise InputError("A sum of units takes one array of inputs; the probe has several.")
    x = place.inputs.detach().cpu().double().numpy()
    seen = Data(
        x.reshape(len(x), -1), place.targets, place.cost, place.outputs(place.weights).shape[1]
    )
    if units is not None:
        found = _by_names(module, seen, arrays, units, names or {})
    else:
        found = _match(module, x.shape[1:], seen, arrays)
    _check_answers(found, place)
    for note in found.notes:
        warnings.warn(note, stacklevel=2)
    return found


class _Pattern(NamedTuple):
    """s_3 (A s_2 sigma(s_1 (W s_0 x + b)) + b'), step by step."""

    first: Linear | Convolution
    activation: activations.Activation
    pooling: tuple[Pooling, ...]
    last: Linear
    factors: tuple[float, ...]


def _match(module: nn.Module, shape: tuple[int, ...], data: Data, arrays: Any) -> RecognizedProblem:
    """Neurons or kernels, with all that stands around them."""
    found = _pattern(read_chain(module))
    trained = {name for name, p in module.named_parameters() if p.requires_grad}
    before, inner, middle, after = found.factors
    data = data._replace(x=before * data.x)
    _check_trained(found.first.weight, trained)
    _check_trained(found.last.weight, trained)
    bias = found.first.bias
    if bias is not None and bias.name not in trained:
        if np.any(arrays[bias.name]):
            raise InputError(
                f"'{bias.name}' is frozen and not zero, while the weights beside it are trained: neurons "
                "learn both or have none. Set it to zero, or train it."
            )
        bias = None
    more: dict[str, Any] = {"origin": module}
    if found.last.bias is not None:
        more["output_bias"] = after * arrays[found.last.bias.name]
        more["notes"] = (BIAS_HELD,) if found.last.bias.name in trained else ()
    sigma = activations.scaled(found.activation, inner, middle * after)
    if isinstance(found.first, Convolution):
        return _kernels(data, arrays, shape, found, bias, sigma, more)
    places = {
        "w": _rows(found.first.weight),
        **({} if bias is None else {"b": as_it_is(bias.name)}),
        "a": _columns(found.last.weight),
    }
    reads = places["w"].to_units(arrays[found.first.weight.name]).shape[1]
    if reads != data.x.shape[1]:
        raise InputError(
            f"'{found.first.label}' reads {reads} numbers of inputs of shape {shape}: a sum of units reads "
            "all of a sample."
        )
    return dense_problem(data, arrays, places, sigma, **more)


def _pattern(steps: tuple[Step, ...]) -> _Pattern:
    """Map, activation, pooling, map; a sentence names the first step that does not fit."""
    first: Linear | Convolution | None = None
    last: Linear | None = None
    sigma: activations.Activation | None = None
    pooling: list[Pooling] = []
    factors = [1.0, 1.0, 1.0, 1.0]
    for step in steps:
        reached = 0 if first is None else 3 if last is not None else 1 if sigma is None else 2
        match step:
            case Factor():
                factors[reached] *= step.value
            case Flatten() if reached < 3:
                pass
            case Linear() | Convolution() if reached == 0:
                first = step
            case Activation() if reached == 1 and not pooling:
                sigma = step.function
            case Pooling() if reached in (1, 2) and isinstance(first, Convolution):
                pooling.append(step)
            case Linear() if reached in (1, 2):
                last = step
            case _:
                raise InputError(
                    f"'{step.label}' ({type(step).__name__.lower()}) does not fit: a sum of units is a "
                    "linear map or a convolution, an activation, and a linear map, once each. Networks with "
                    "more layers are looked at as they are, without `as_problem`."
                )
    if first is None or last is None:
        raise InputError(
            "The network has fewer than two layers with weights: there are no units that grow together."
        )
    return _Pattern(first, sigma or "linear", tuple(pooling), last, tuple(factors))


def _kernels(
    data: Data,
    arrays: Any,
    shape: tuple[int, ...],
    found: _Pattern,
    bias: Constant | None,
    sigma: activations.Activation,
    more: dict[str, Any],
) -> RecognizedProblem:
    """A convolution as kernels that read patches."""
    first = found.first
    assert isinstance(first, Convolution)
    module, width = first.module, first.module.out_channels
    if module.groups != 1 or set(module.dilation) != {1} or module.padding_mode != "zeros":
        raise InputError(
            f"'{first.label}' has groups, dilation or a padding other than zeros: no kernels that are known."
        )
    if isinstance(module.padding, str) or len(shape) != 1 + len(module.kernel_size):
        raise InputError(
            f"'{first.label}' with padding {module.padding!r} reads inputs of shape {shape}: give the "
            "padding as numbers, and inputs as (samples, channels, ...)."
        )
    units: AbstractUnits
    units = kernels = PooledConvolution(
        width,
        shape,
        tuple(module.kernel_size),
        stride=tuple(module.stride),
        padding=tuple(module.padding),
        activation=sigma,
        bias=bias is not None,
    )
    if found.pooling:
        units = replace(kernels, pool=_pool(found.pooling, kernels.places))
    elif len(shape) == 2 and shape[0] == 1 and not any(module.padding) and bias is None:
        units = KernelUnits(width, module.kernel_size[0], module.stride[0], sigma)
    kernel = arrays[first.weight.name].shape
    inner = kernel[2:] if isinstance(units, KernelUnits) else kernel[1:]
    places = {
        "u": _reshaped(first.weight.name, kernel, (width, *inner)),
        **({} if bias is None else {"b": as_it_is(bias.name)}),
        "v": _by_place(found.last.weight, width),
    }
    return recognized(data, units, arrays, places, **more)


def _pool(pooling: tuple[Pooling, ...], places: tuple[int, ...]) -> tuple[int, ...]:
    """How many places are averaged, in each dimension."""
    if len(pooling) > 1:
        raise InputError(
            f"'{pooling[1].label}' pools what is pooled already: one average is known."
        )
    module = pooling[0].module
    if module is None:  # a mean over all places
        return places
    many = len(places)
    if isinstance(module, nn.AdaptiveAvgPool1d | nn.AdaptiveAvgPool2d):
        sizes = _each(module.output_size, many)
        if any(n % size for n, size in zip(places, sizes, strict=True)):
            raise InputError(
                f"'{pooling[0].label}' divides {places} places into {sizes} unequal parts: those overlap."
            )
        return tuple(n // size for n, size in zip(places, sizes, strict=True))
    sizes, strides = _each(module.kernel_size, many), _each(module.stride, many)
    if sizes != strides or any(_each(module.padding, many)) or module.ceil_mode:
        raise InputError(
            f"'{pooling[0].label}' has averages that overlap or are padded: none are known."
        )
    return sizes


def _each(value: Any, many: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,) * many


def _by_place(weight: Constant, width: int) -> Place:
    """A linear map of the flattened answers of kernels, `(outputs, width * places)`, kernel by kernel."""
    rows = _rows(weight)

    def to_units(array: np.ndarray) -> np.ndarray:
        matrix = rows.to_units(array)
        return matrix.reshape(len(matrix), width, -1).transpose(1, 0, 2)

    def to_array(part: np.ndarray) -> np.ndarray:
        return rows.to_array(part.transpose(1, 0, 2).reshape(part.shape[1], -1))

    return Place(weight.name, to_units, to_array)


def _rows(weight: Constant) -> Place:
    """Rows of the matrix are what the map gives."""
    return transposed(weight.name) if weight.turned else as_it_is(weight.name)


def _columns(weight: Constant) -> Place:
    """Columns of the matrix are what the map reads."""
    return as_it_is(weight.name) if weight.turned else transposed(weight.name)


def _check_trained(weight: Constant, trained: set[str]) -> None:
    if weight.name not in trained:
        raise InputError(
            f"'{weight.name}' is frozen: units whose weights do not all learn grow by another law. Train it, "
            "or look at the network as it is, without `as_problem`."
        )


def _by_names(
    module: nn.Module, data: Data, arrays: Any, units: AbstractUnits, names: Mapping[str, str]
) -> RecognizedProblem:
    """Units that the user names, with the parameters that are their weights."""
    shapes = units.layers(data.x.shape[1], data.outputs)
    unknown = [layer for layer in names if layer not in shapes]
    if unknown:
        raise InputError(
            f"{type(units).__name__} has no weights '{unknown[0]}': {', '.join(shapes)}."
        )
    width, places = units.count(data.x.shape[1]), {}
    for layer, shape in shapes.items():
        name = names.get(layer, layer)
        if name not in arrays:
            raise InputError(
                f"There is no parameter '{name}' for the weights '{layer}': say which with `names=`. There "
                f"are: {', '.join(arrays)}."
            )
        if arrays[name].size != width * int(np.prod(shape)):
            raise InputError(
                f"'{name}' has shape {arrays[name].shape}; the weights '{layer}' of {width} units have "
                f"{(width, *shape)}."
            )
        places[layer] = _reshaped(name, arrays[name].shape, (width, *shape))
    used = {place.name for place in places.values()}
    left = [n for n, p in module.named_parameters() if p.requires_grad and n not in used]
    notes = (f"'{left[0]}' is trained, but belongs to no unit: it is held fixed.",) if left else ()
    return recognized(data, units, arrays, places, notes=notes, origin=module)


def _reshaped(name: str, shape: tuple[int, ...], units: tuple[int, ...]) -> Place:
    return Place(name, lambda array: array.reshape(units), lambda part: part.reshape(shape))


def _check_answers(found: RecognizedProblem, place: ModuleLandscape) -> None:
    """Refuse units that answer otherwise than the module."""
    problem = Problem(found.task, found.units, found.loss, keep_samples=True)
    with float64():
        ours = np.asarray(compiled.function(problem, jnp.asarray(found.weights)))
    theirs = place.outputs(place.weights)
    offset = 0.0 if found.offset is None else found.offset
    apart = float(np.abs(ours + offset - theirs).max())
    if not apart <= _SAME * max(float(np.abs(theirs).max()), 1e-300):
        raise InputError(
            f"The module was taken for {type(found.units).__name__} units, but answers otherwise (by "
            f"{apart:.3g}): something else is done on the way."
        )


def with_arrays(module: nn.Module, arrays: dict[str, np.ndarray]) -> nn.Module:
    """A copy of a module with other values of some parameters.

    Parameters
    ----------
    module : the network, which is left as it is.
    arrays : values by name.
    """
    other = copy.deepcopy(module)
    parameters = dict(other.named_parameters())
    with torch.no_grad():
        for name, values in arrays.items():
            parameters[name].copy_(torch.from_numpy(np.ascontiguousarray(values)))
    return other

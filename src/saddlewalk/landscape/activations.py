"""PyTorch's activations as functions of JAX: by the names of this package where there is one."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array
from torch import nn

from saddlewalk.units.activations import activation_named

Activation = str | Callable[[Array], Array]

NAMED: dict[str, Activation] = {
    "relu": "relu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "sin": "sin",
    "square": "quadratic",
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "relu6": jax.nn.relu6,
    "hardtanh": jax.nn.hard_tanh,
    "elu": jax.nn.elu,
    "selu": jax.nn.selu,
    "mish": jax.nn.mish,
    "softsign": jax.nn.soft_sign,
    "abs": jnp.abs,
}
"""By the name of the function in PyTorch, with its default options."""
_MODULES: dict[type[nn.Module], str] = {
    nn.ReLU: "relu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
    nn.SiLU: "silu",
    nn.ReLU6: "relu6",
    nn.SELU: "selu",
    nn.Mish: "mish",
    nn.Softsign: "softsign",
}


def of_module(module: nn.Module) -> Activation | None:
    """The activation that a module is; `None` if it is none that is known.

    Parameters
    ----------
    module : a layer.
    """
    match module:
        case nn.LeakyReLU():
            return leaky_relu(module.negative_slope)
        case nn.GELU():
            return gelu(module.approximate)
        case nn.ELU() if module.alpha == 1.0:
            return NAMED["elu"]
        case nn.Hardtanh() if (module.min_val, module.max_val) == (-1.0, 1.0):
            return NAMED["hardtanh"]
        case nn.Softplus() if module.beta == 1.0 and module.threshold >= 20.0:
            return NAMED["softplus"]
    name = _MODULES.get(type(module))
    return None if name is None else NAMED[name]


def of_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Activation | None:
    """The activation that a function or a method of a tensor is; `None` if it is none that is known.

    Parameters
    ----------
    name : of the function, for instance "relu"; with or without an underscore at its end.
    args, kwargs : its arguments after the tensor.
    """
    name = name.rstrip("_")
    if name in ("pow", "float_power") and args[:1] in ((2,), (2.0,)):
        return "quadratic"
    if name == "pow" and args[:1] in ((3,), (3.0,)):
        return "cubic"
    if name == "leaky_relu":
        return leaky_relu(kwargs.get("negative_slope", args[0] if args else 0.01))
    if name == "gelu":
        return gelu(kwargs.get("approximate", "none"))
    options = {key: value for key, value in kwargs.items() if key != "inplace"}
    return None if args or options else NAMED.get(name)


@functools.cache
def leaky_relu(slope: float) -> Activation:
    """A leaky ReLU.

    Parameters
    ----------
    slope : its slope below zero.
    """
    if slope == 0.01:
        return "leaky-relu"
    return lambda z: jnp.where(z >= 0, z, slope * z)


@functools.cache
def gelu(approximate: str) -> Activation:
    """A GELU; that of this package's name is the approximate one.

    Parameters
    ----------
    approximate : "none" or "tanh", as in PyTorch.
    """
    return "gelu" if approximate == "tanh" else lambda z: jax.nn.gelu(z, approximate=False)


@functools.cache
def scaled(activation: Activation, inner: float, outer: float) -> Activation:
    r""":math:`z \mapsto c\,\sigma(s z)`: what a fixed factor before or after the activation makes of it.

    Parameters
    ----------
    activation : sigma.
    inner, outer : the factors s and c.
    """
    if inner == outer == 1.0:
        return activation
    sigma = activation_named(activation)
    return lambda z: outer * sigma(inner * z)

"""Stored PyTorch networks: a `state_dict`, around which a network is built, or a module of plain layers.

Nothing else is unpickled: a file can hold tensors and the layers that are listed here, and no code.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from saddlewalk.errors import InputError, nearest
from saddlewalk.features.matrices import NetworkFeatures
from saddlewalk.features.torch import module_features

ACTIVATIONS = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
    "linear": nn.Identity,
}
LOSSES = ("mse", "half-mse", "cross-entropy")


LAYERS = (
    *(
        nn.Sequential,
        nn.Linear,
        nn.Conv1d,
        nn.Conv2d,
        nn.Conv3d,
        nn.Flatten,
        nn.Unflatten,
        nn.Identity,
    ),
    *(
        nn.ReLU,
        nn.LeakyReLU,
        nn.ELU,
        nn.GELU,
        nn.SiLU,
        nn.Tanh,
        nn.Sigmoid,
        nn.Softplus,
        nn.Dropout,
    ),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool2d),
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm),
)
"""Of which a stored module may consist."""


def stored_features(
    file: str | Path,
    x: np.ndarray,
    y: np.ndarray,
    activation: str = "relu",
    loss: str = "mse",
    weight_decay: float | None = None,
    batch: int = 256,
) -> NetworkFeatures:
    """Features of a network from `torch.save(net.state_dict(), file)` or `torch.save(net, file)`.

    A state_dict must be that of a fully connected network, with this activation between its layers.
    """
    loaded = load_stored(file)
    flat = isinstance(loaded, dict)
    module = sequential_from_state(loaded, activation) if isinstance(loaded, dict) else loaded
    first = next(module.parameters())
    inputs = torch.as_tensor(np.asarray(x), dtype=first.dtype)
    inputs = inputs.flatten(1) if flat else inputs
    targets, penalty = _penalty(loss, np.asarray(y), first.dtype)
    _try(module, inputs[:1])
    pairs = ((inputs[k : k + batch], targets[k : k + batch]) for k in range(0, len(inputs), batch))
    return module_features(module, pairs, penalty, weight_decay)


def load_stored(path: str | Path) -> dict[str, torch.Tensor] | nn.Module:
    """What a file holds; anything but tensors and layers of PyTorch is refused, unread."""
    if not Path(path).is_file():
        raise InputError(f"There is no file '{path}'.")
    try:
        with torch.serialization.safe_globals(list(LAYERS)):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise InputError(
            f"'{path}' is no network that can be read safely. Save it with torch.save(net.state_dict(), "
            "path), or with torch.save(net, path) if it is an nn.Sequential of PyTorch's own layers: "
            f"{str(error).splitlines()[0]}"
        ) from error
    if isinstance(loaded, nn.Module):
        return loaded
    if not isinstance(loaded, dict) or not all(
        isinstance(v, torch.Tensor) for v in loaded.values()
    ):
        raise InputError(f"'{path}' holds no state_dict: a dictionary of tensors was expected.")
    return loaded


def _try(module: nn.Module, inputs: torch.Tensor) -> None:
    """Say what does not fit before a pass over the data is begun."""
    try:
        with torch.no_grad():
            module.eval()(inputs)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"The network cannot read inputs of shape {tuple(inputs.shape[1:])}: {error}"
        ) from error


def sequential_from_state(state: dict[str, torch.Tensor], activation: str) -> nn.Sequential:
    """Linear layers in the order of the state, with an activation between them."""
    if activation not in ACTIVATIONS:
        raise InputError(f"Unknown activation '{activation}'.{nearest(activation, ACTIVATIONS)}")
    weights = {
        name: value for name, value in state.items() if name.endswith("weight") and value.ndim == 2
    }
    odd = [
        name
        for name in state
        if name not in weights and name.removesuffix("bias") + "weight" not in weights
    ]
    if odd or not weights:
        raise InputError(
            f"Only fully connected layers can be rebuilt from their weights; '{(odd or ['nothing'])[0]}' is "
            "something else. An nn.Sequential of plain layers can be saved whole: torch.save(net, path)."
        )
    parts: list[tuple[str, nn.Module]] = []
    width = None
    for name, weight in weights.items():
        if width is not None and weight.shape[1] != width:
            raise InputError(
                f"'{name}' reads {weight.shape[1]} inputs where the layer before answers {width}."
            )
        width = weight.shape[0]
        bias = state.get(name.removesuffix("weight") + "bias")
        layer = nn.Linear(weight.shape[1], width, bias=bias is not None, dtype=weight.dtype)
        layer.load_state_dict({"weight": weight} | ({} if bias is None else {"bias": bias}))
        label = name.removesuffix(".weight").replace(".", "_") or "layer"
        parts += [(label, layer), (f"{label}_{activation}", ACTIVATIONS[activation]())]
    from collections import OrderedDict

    return nn.Sequential(OrderedDict(parts[:-1]))


def _penalty(name: str, y: np.ndarray, dtype: torch.dtype) -> tuple[torch.Tensor, Any]:
    if name == "cross-entropy":
        return torch.as_tensor(y.reshape(len(y)).astype(np.int64)), nn.CrossEntropyLoss()
    targets = torch.as_tensor(y.reshape(len(y), -1), dtype=dtype)
    if name == "mse":
        return targets, nn.MSELoss()
    if name == "half-mse":
        return targets, lambda f, t: 0.5 * ((f - t) ** 2).sum(dim=1).mean()
    raise InputError(f"Unknown loss '{name}'.{nearest(name, LOSSES)}")

"""Stored PyTorch weights: a network is built around a `state_dict`, and nothing is unpickled but tensors."""

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


def stored_features(
    state: str | Path,
    x: np.ndarray,
    y: np.ndarray,
    activation: str = "relu",
    loss: str = "mse",
    weight_decay: float | None = None,
    batch: int = 256,
) -> NetworkFeatures:
    """Features of a fully connected network whose `state_dict` was saved with `torch.save`."""
    module = sequential_from_state(load_state(state), activation)
    first = next(module.parameters())
    inputs = torch.as_tensor(np.asarray(x), dtype=first.dtype).flatten(1)
    if inputs.shape[1] != first.shape[1]:
        raise InputError(
            f"The network reads {first.shape[1]} inputs; the data have {inputs.shape[1]}."
        )
    targets, penalty = _penalty(loss, np.asarray(y), first.dtype)
    pairs = ((inputs[k : k + batch], targets[k : k + batch]) for k in range(0, len(inputs), batch))
    return module_features(module, pairs, penalty, weight_decay)


def load_state(path: str | Path) -> dict[str, torch.Tensor]:
    """The tensors of a file; anything that is no plain tensor is refused, unread."""
    if not Path(path).is_file():
        raise InputError(f"There is no file '{path}'.")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise InputError(
            f"'{path}' is no state_dict of plain tensors (save one with torch.save(net.state_dict(), path)): "
            f"{str(error).splitlines()[0]}"
        ) from error
    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise InputError(f"'{path}' holds no state_dict: a dictionary of tensors was expected.")
    return state


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
            "something else. Use saddlewalk.features.torch.module_features on the module itself."
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

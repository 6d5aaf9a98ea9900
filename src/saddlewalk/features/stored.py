"""Stored PyTorch networks: a `state_dict`, around which a network is built, or a module of plain layers.

Nothing else is unpickled: a file can hold tensors and the layers that are listed here, and no code.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from saddlewalk.errors import InputError, nearest
from saddlewalk.features.report import NetworkFeatures
from saddlewalk.features.torch import module_features
from saddlewalk.losses import NAMES, as_loss
from saddlewalk.tasks.samples import one_hot

ACTIVATIONS = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
    "linear": nn.Identity,
}
LOSSES = ("mse", *NAMES)
"""PyTorch's mean over the outputs, and the losses of this package: the sum over the outputs."""
_RENAMED = {"half-mse": "squared"}


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
    activation: str | None = None,
    loss: str = "mse",
    weight_decay: float | None = None,
    batch_size: int = 256,
) -> NetworkFeatures:
    """Features of a network from `torch.save(net.state_dict(), file)` or `torch.save(net, file)`.

    Parameters
    ----------
    file : the file; a state_dict in it must be that of a fully connected network.
    x, y : inputs, samples first, and targets.
    activation : what is between the layers of a state_dict; a whole network has its own.
    loss : "mse" is the mean over outputs (`nn.MSELoss`), "squared" half of their sum, "cross-entropy" wants
        labels.
    weight_decay : lambda of the loss `mean + lambda/2 |weights|^2`; without it matrices hold up to a factor.
    batch_size : samples that are looked at together: what memory holds.
    """
    module = as_module(load_stored(file), file, activation)
    inputs, targets, cost = as_probe(module, x, y, loss)
    starts = range(0, len(inputs), batch_size)
    pairs = ((inputs[k : k + batch_size], targets[k : k + batch_size]) for k in starts)
    return module_features(module, pairs, cost, weight_decay)


def as_module(
    loaded: dict[str, torch.Tensor] | nn.Module, file: str | Path, activation: str | None
) -> nn.Module:
    """The network behind what a file holds.

    Parameters
    ----------
    loaded : a state_dict, or a module.
    file : where it was.
    activation : what is between the layers of a state_dict; a whole network has its own.
    """
    if isinstance(loaded, dict) == (activation is None):
        raise InputError(
            f"'{file}' holds weights alone: say with which activation, {', '.join(ACTIVATIONS)}."
            if activation is None
            else f"'{file}' holds a whole network, with activations of its own; leave them out."
        )
    module = sequential_from_state(loaded, str(activation)) if isinstance(loaded, dict) else loaded
    first = next(module.parameters(), None)
    if first is None or not first.is_floating_point():
        raise InputError(f"'{file}' holds no weights that are real numbers.")
    return module


def as_probe(
    module: nn.Module, x: np.ndarray, y: np.ndarray, loss: str
) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """Inputs and targets as a network and a loss want them, and the loss.

    Parameters
    ----------
    module : the network.
    x, y : inputs, samples first, and targets.
    loss : one of `LOSSES`.
    """
    dtype = next(module.parameters()).dtype
    inputs = torch.as_tensor(np.asarray(x), dtype=dtype)
    if isinstance(next(_leaves(module)), nn.Linear):
        inputs = inputs.flatten(1)
    outputs = _answer_shape(module, inputs[:1])
    return inputs, *targets_and_loss(loss, np.asarray(y), dtype, outputs)


def load_stored(path: str | Path) -> dict[str, torch.Tensor] | nn.Module:
    """What a file holds; anything but tensors and layers of PyTorch is refused, unread.

    Parameters
    ----------
    path : the file.
    """
    loaded = read_file(path)
    if isinstance(loaded, nn.Module):
        _check_plain(loaded, path)
        return loaded
    if not _is_state(loaded):
        inner = (
            [name for name, part in loaded.items() if isinstance(part, dict)]
            if isinstance(loaded, dict)
            else []
        )
        hint = f" Perhaps it is under '{inner[0]}': save that alone." if inner else ""
        raise InputError(f"'{path}' holds no state_dict, a dictionary of tensors.{hint}")
    return loaded


def load_checkpoint(
    path: str | Path,
) -> tuple[dict[str, torch.Tensor] | nn.Module, dict[str, Any] | None]:
    """A network, and the state of its optimizer where the file has one.

    Parameters
    ----------
    path : the file: what `load_stored` reads, or a dictionary with the network under 'model',
        'model_state_dict' or 'state_dict', and the optimizer's state under 'optimizer',
        'optimizer_state_dict' or 'optimizer_states'.
    """
    loaded = read_file(path)
    if not isinstance(loaded, dict) or _is_state(loaded):
        return load_stored(path), None
    networks = (loaded.get(key) for key in ("model", "model_state_dict", "state_dict"))
    network = next((one for one in networks if _is_state(one)), None)
    if network is None:
        return load_stored(path), None  # which says what is wrong
    keys = ("optimizer", "optimizer_state_dict", "optimizer_states")
    states = [loaded[key] for key in keys if key in loaded]
    state = states[0] if states else None
    if isinstance(state, list):
        state = state[0] if state else None
    known = isinstance(state, dict) and "param_groups" in state
    return network, state if known else None


def _is_state(loaded: Any) -> bool:
    return (
        isinstance(loaded, dict)
        and len(loaded) > 0
        and all(isinstance(v, torch.Tensor) for v in loaded.values())
    )


def read_file(path: str | Path) -> Any:
    """Tensors, numbers, dictionaries and plain layers of a file; nothing in it is run.

    Parameters
    ----------
    path : the file.
    """
    if not Path(path).is_file():
        raise InputError(f"There is no file '{path}'.")
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        raise InputError(
            "Reading files safely needs PyTorch 2.6 or later; older ones can be made to run code."
        )
    try:
        with torch.serialization.safe_globals(list(LAYERS)):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise InputError(
            f"'{path}' is no network that can be read safely. Save it with torch.save(net.state_dict(), "
            "path), or with torch.save(net, path) if it is an nn.Sequential of PyTorch's own layers: "
            f"{_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    """What the file holds that is not allowed; what else PyTorch says is advice to load it all the same."""
    named = re.search(r"GLOBAL (\S+)", str(error))
    return f"it holds {named.group(1)}" if named else "it is damaged, or of another kind"


def _check_plain(module: nn.Module, path: str | Path) -> None:
    """A file can set any attribute of a layer: one that does anything but compute is refused."""
    for part in module.modules():
        altered = [name for name in vars(part) if callable(getattr(type(part), name, None))]
        hooked = any("hooks" in name and bool(value) for name, value in vars(part).items())
        if type(part) not in LAYERS or altered or hooked:
            raise InputError(
                f"'{path}' holds a {type(part).__name__} that is not as PyTorch makes it; it is not run."
            )


def _leaves(module: nn.Module) -> Iterator[nn.Module]:
    return (part for part in module.modules() if not list(part.children()))


def _answer_shape(module: nn.Module, inputs: torch.Tensor) -> tuple[int, ...]:
    """Say what does not fit before a pass over the data is begun."""
    try:
        with torch.no_grad():
            return tuple(module.eval()(inputs).shape[1:])
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"The network cannot read inputs of shape {tuple(inputs.shape[1:])}: {error}"
        ) from error


def sequential_from_state(state: dict[str, torch.Tensor], activation: str) -> nn.Sequential:
    """Linear layers in the order of the state, with an activation between them.

    Parameters
    ----------
    state : weights and biases by name.
    activation : a name in `ACTIVATIONS`.
    """
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


def targets_and_loss(
    name: str, y: np.ndarray, dtype: torch.dtype, outputs: tuple[int, ...]
) -> tuple[torch.Tensor, Any]:
    """Targets in the shape that the loss wants, and the loss.

    Parameters
    ----------
    name : one of `LOSSES`.
    y : targets, samples first.
    dtype : precision of the network.
    outputs : shape of its answer to one input.
    """
    if name in _RENAMED:
        raise InputError(f"The loss '{name}' is now '{_RENAMED[name]}'.")
    if y.dtype.kind in "US":
        y = one_hot(y.ravel())
    if name == "cross-entropy":
        return _class_labels(y, outputs[0]), nn.CrossEntropyLoss()
    if name == "logistic":
        y = np.asarray(as_loss(name).encode(y.reshape(len(y), -1).astype(float)))
    if name not in LOSSES:
        raise InputError(f"Unknown loss '{name}'.{nearest(name, LOSSES)}")
    targets = torch.as_tensor(y.reshape(len(y), -1), dtype=dtype)
    if targets[0].numel() != math.prod(outputs):
        raise InputError(
            f"The network gives {math.prod(outputs)} numbers a sample and the data {targets[0].numel()}; for "
            "labels of classes give `loss` cross-entropy."
        )
    targets = targets.reshape(len(y), *outputs)
    if name == "mse":
        return targets, nn.MSELoss()
    return targets, lambda f, t: _SUMMED[name](f, t).flatten(1).sum(dim=1).mean()


_SUMMED = {
    "squared": lambda f, t: 0.5 * (f - t) ** 2,
    "logistic": lambda f, t: nn.functional.softplus(-t * f),
    "huber": lambda f, t: nn.functional.huber_loss(f, t, reduction="none"),
}
"""Losses of one output, summed over the outputs and averaged over the samples."""


def _class_labels(y: np.ndarray, classes: int) -> torch.Tensor:
    """Whole numbers below the number of classes, or one-hot rows of that many."""
    if y.ndim == 2 and y.shape[1] == classes > 1:
        if not np.array_equal(np.sort(y, axis=1)[:, -1], y.sum(axis=1)):
            raise InputError("Targets for cross-entropy are labels, or one-hot rows.")
        y = y.argmax(axis=1)
    try:
        labels = y.reshape(len(y), -1).astype(float)
    except ValueError as error:
        raise InputError(
            f"Labels for cross-entropy are whole numbers from 0 to {classes - 1}."
        ) from error
    whole = labels.shape[1] == 1 and np.array_equal(labels, np.floor(labels))
    if not whole or not np.isfinite(labels).all() or labels.min() < 0 or labels.max() >= classes:
        raise InputError(
            f"Labels for cross-entropy are whole numbers from 0 to {classes - 1}, one a sample."
        )
    return torch.as_tensor(labels[:, 0].astype(np.int64))

"""After the fact: what a watch would have said, told from stored checkpoints."""

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from saddlewalk.errors import InputError, nearest
from saddlewalk.features.stored import as_module, as_probe, load_checkpoint
from saddlewalk.watch.record import WatchRecord
from saddlewalk.watch.torch import Watch

OPTIMIZERS: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop,
}
"""Those whose law a watch knows, by the names that users give them."""


def watch_checkpoints(
    files: Sequence[str | Path],
    x: np.ndarray,
    y: np.ndarray,
    *,
    activation: str | None = None,
    loss: str = "mse",
    optimizer: str | None = None,
    rate: float | None = None,
    momentum: float = 0.0,
) -> WatchRecord:
    """Look at each of some checkpoints of one training, in the order of their steps.

    The step is the last whole number in the name of a file. Where a file holds the state of its
    optimizer, too, forecasts rest on it; otherwise on what is said here. A state says by its keys which
    optimizer it is of; one that leaves it open is taken for Adam's, and a warning says so.

    Parameters
    ----------
    files : checkpoints; two that hold the same weights are told, and count once.
    x, y : data that stand for those it was trained on.
    activation : what is between the layers of a state_dict; a whole network has its own.
    loss : "mse" (mean over outputs), "squared" (half their sum), "cross-entropy", "logistic" or "huber".
    optimizer : "sgd", "adam", "adamw", "nadam", "radam" or "rmsprop", where the files do not say.
    rate : its learning rate, also instead of the one in the files; without any nothing is forecast.
    momentum : of "sgd", where the files do not say.
    """
    if optimizer is not None and optimizer not in OPTIMIZERS:
        raise InputError(f"Unknown optimizer '{optimizer}'.{nearest(optimizer, OPTIMIZERS)}")
    if rate is not None and not rate > 0:
        raise InputError(f"`rate` must be positive; got {rate}.")
    found = _in_order(files)
    network, state = load_checkpoint(found[0][1])
    module = as_module(network, found[0][1], activation)
    inputs, targets, cost = as_probe(module, x, y, loss)
    trains = _optimizer(module, state, optimizer, rate, momentum)
    title = f"{len(found)} checkpoints, {Path(found[0][1]).name} to {Path(found[-1][1]).name}"
    watch = Watch(module, cost, probe=(inputs, targets), optimizer=trains, budget=1e9, title=title)
    before: np.ndarray | None = None
    for step, file in found:
        network, state = load_checkpoint(file)
        _put(module, network, file)
        if trains is not None and state is not None:
            _resume(trains, state, rate, file)
        weights = watch.weights()
        if before is not None and np.array_equal(before, weights):
            warnings.warn(f"'{file}' holds the weights of the one before: left out.", stacklevel=2)
            continue
        before = weights
        watch.go_to(step, watch.landscape.loss(weights))
        watch.look()
    return watch.record


def _in_order(files: Sequence[str | Path]) -> list[tuple[int, str | Path]]:
    if not files:
        raise InputError("There are no checkpoints to look at.")
    numbers = [re.findall(r"\d+", Path(file).stem) for file in files]
    steps = [int(found[-1]) if found else -1 for found in numbers]
    if len(files) > 1 and (min(steps) < 0 or len(set(steps)) < len(steps)):
        raise InputError(
            "The steps of the checkpoints are read off their names: the last whole number of each, and no "
            f"two the same, as in step_1000.pt; got {Path(files[0]).name}, {Path(files[1]).name}."
        )
    return sorted(zip([max(step, 0) for step in steps], files, strict=True))


def _put(module: nn.Module, network: Any, file: str | Path) -> None:
    """Weights of a checkpoint into the network, by their order: rebuilt layers have names of their own."""
    state = network.state_dict() if isinstance(network, nn.Module) else network
    own = module.state_dict()
    if [tuple(value.shape) for value in state.values()] != [tuple(v.shape) for v in own.values()]:
        raise InputError(f"'{file}' holds another network than the first checkpoint.")
    module.load_state_dict(dict(zip(own, state.values(), strict=True)))


def _optimizer(
    module: nn.Module, state: Any, name: str | None, rate: float | None, momentum: float
) -> torch.optim.Optimizer | None:
    """The optimizer that a state belongs to, or the one that was named."""
    if state is not None:
        return _of_state(module, state, name, momentum)
    if rate is None:
        if name is not None:
            raise InputError("An optimizer is known by its learning rate, too: give `rate`.")
        return None
    make = OPTIMIZERS[name or "sgd"]
    if make is torch.optim.SGD:
        return torch.optim.SGD(module.parameters(), lr=rate, momentum=momentum)
    if momentum:
        raise InputError(f"`momentum` belongs to sgd, not to {name}; leave it out.")
    return make(module.parameters(), lr=rate)


def _of_state(
    module: nn.Module, state: Any, name: str | None, momentum: float
) -> torch.optim.Optimizer | None:
    kinds = _kinds(state)
    if momentum:
        raise InputError("The files hold the state of the optimizer: leave `momentum` out.")
    if name is not None and name not in kinds:
        of = kinds[0] if kinds else "an optimizer that is not known here"
        raise InputError(f"The files hold the state of {of}, not of {name}: leave `optimizer` out.")
    if not kinds:
        return None
    if name is None and len(kinds) > 1:
        warnings.warn(
            f"The state in the files may be that of {' or '.join(kinds)}: taken for {kinds[0]}. "
            "If it is not, say `optimizer`.",
            stacklevel=4,
        )
    return OPTIMIZERS[name or kinds[0]](module.parameters())


def _kinds(state: Any) -> tuple[str, ...]:
    """Which optimizers a state may be of, told by its keys; none where it is one that is not known here."""
    group = state["param_groups"][0]
    kept = {key for one in state["state"].values() for key in one}
    if "dampening" in group:  # Muon has "nesterov", too
        return ("sgd",)
    if "centered" in group:
        return ("rmsprop",)
    if not {"betas", "eps"} <= set(group) or "exp_inf" in kept:  # Adamax keeps the largest gradient
        return ()
    if "momentum_decay" in group:
        return ("nadam",)
    if "amsgrad" not in group:
        return ("radam",) if "decoupled_weight_decay" in group else ("adam", "adamw", "radam")
    if "decoupled_weight_decay" not in group:
        return ("adam", "adamw")
    return ("adamw",) if group["decoupled_weight_decay"] else ("adam",)


def _resume(
    trains: torch.optim.Optimizer, state: Any, rate: float | None, file: str | Path
) -> None:
    """Take over what an optimizer has kept, and the learning rate that was asked for."""
    try:
        trains.load_state_dict(state)
    except (KeyError, ValueError) as error:
        raise InputError(
            f"The state of the optimizer in '{file}' is not one for all weights of this network in one "
            "group. Store the weights alone, and say `optimizer` and `rate`."
        ) from error
    for group in trains.param_groups:
        group["lr"] = group["lr"] if rate is None else rate

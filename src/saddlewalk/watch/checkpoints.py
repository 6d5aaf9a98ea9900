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

OPTIMIZERS = ("sgd", "adam", "adamw")


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
    optimizer, too, forecasts rest on it; otherwise on what is said here.

    Parameters
    ----------
    files : checkpoints; two that hold the same weights are told, and count once.
    x, y : data that stand for those it was trained on.
    activation : what is between the layers of a state_dict; a whole network has its own.
    loss : "mse" (mean over outputs), "squared" (half their sum), "cross-entropy", "logistic" or "huber".
    optimizer : "sgd", "adam" or "adamw", where the files do not say.
    rate : its learning rate; without one nothing is forecast.
    momentum : its momentum.
    """
    if optimizer is not None and optimizer not in OPTIMIZERS:
        raise InputError(f"Unknown optimizer '{optimizer}'.{nearest(optimizer, OPTIMIZERS)}")
    if optimizer is not None and rate is None:
        raise InputError("An optimizer is known by its learning rate, too: give `rate`.")
    if rate is not None and not rate > 0:
        raise InputError(f"`rate` must be positive; got {rate}.")
    found = _in_order(files)
    network, state = load_checkpoint(found[0][1])
    module = as_module(network, found[0][1], activation)
    inputs, targets, cost = as_probe(module, x, y, loss)
    trains = _optimizer(module, state, optimizer or ("sgd" if rate else None), rate, momentum)
    title = f"{len(found)} checkpoints, {Path(found[0][1]).name} to {Path(found[-1][1]).name}"
    watch = Watch(module, cost, probe=(inputs, targets), optimizer=trains, budget=1e9, title=title)
    before: np.ndarray | None = None
    for step, file in found:
        network, state = load_checkpoint(file)
        _put(module, network, file)
        if trains is not None and state is not None:
            trains.load_state_dict(state)
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
    if state is not None and name is None:
        group = state["param_groups"][0]
        if "betas" in group:
            return (
                torch.optim.AdamW(module.parameters())
                if group.get("decoupled_weight_decay")
                else torch.optim.Adam(module.parameters())
            )
        if "momentum" in group and "dampening" in group:
            return torch.optim.SGD(module.parameters(), lr=float(group["lr"]))
        return None
    if name is None or rate is None:
        return None
    if name == "sgd":
        return torch.optim.SGD(module.parameters(), lr=rate, momentum=momentum)
    kind = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    return kind(module.parameters(), lr=rate)

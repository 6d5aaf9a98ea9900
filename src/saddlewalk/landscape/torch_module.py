"""A PyTorch module as it is: without its wrappers, called without being changed; its slopes as arrays.

What a training could notice of a look is put back: modes, random numbers, gradients, switches of the library.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from saddlewalk.errors import InputError


def unwrapped(module: Any) -> nn.Module:
    """The module itself, where it is compiled (`torch.compile`) or wrapped to run in parallel.

    Parameters
    ----------
    module : a network.
    """
    if not isinstance(module, nn.Module):
        raise InputError(f"The network must be a torch.nn.Module; got {type(module).__name__}.")
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and isinstance(
            module, nn.DataParallel | nn.parallel.DistributedDataParallel
        ):
            inner = module.module
        if inner is None:
            return module
        module = inner


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A tensor of any device and precision as an array of float64.

    Parameters
    ----------
    tensor : the values.
    """
    return tensor.detach().cpu().double().numpy()


def plain_key(key: str) -> str:
    """The name of a parameter without what compiled and parallel modules put before it.

    Parameters
    ----------
    key : a name in a `state_dict`.
    """
    parts = key.split(".")
    while parts and parts[0] in ("_orig_mod", "module") and len(parts) > 1:
        parts = parts[1:]
    return ".".join(parts)


@contextmanager
def untouched(module: nn.Module, device: torch.device, training: bool) -> Iterator[None]:
    """While a module is looked at: what it is afterwards is what it was before.

    Parameters
    ----------
    module : the network.
    device : where it is.
    training : look at it in the modes that it has, with the same random numbers every time; otherwise in
        evaluation mode.
    """
    modes = [] if training else [part for part in module.modules() if part.training]
    fast = torch.backends.mha.get_fastpath_enabled()
    cuda: list[Any] = [device] if device.type == "cuda" else []
    with ExitStack() as stack:
        # a seed is set on all devices
        all_ = range(torch.cuda.device_count()) if training else cuda
        stack.enter_context(torch.random.fork_rng(list(all_)))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast(device.type, enabled=False))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        if cuda and any(isinstance(part, nn.RNNBase) for part in module.modules()):
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        if training:
            torch.manual_seed(0)  # the same noise at every look: one function of the weights
        try:
            torch.backends.mha.set_fastpath_enabled(False)
            for part in modes:
                part.training = False
            yield
        finally:
            for part in modes:
                part.training = True
            torch.backends.mha.set_fastpath_enabled(fast)


def slopes_of(
    cost: torch.Tensor, leaves: dict[str, torch.Tensor], create_graph: bool = False
) -> Any:
    """Gradients of a loss by each of some tensors; `None` where it does not depend on one.

    Parameters
    ----------
    cost : one number.
    leaves : tensors by name.
    create_graph : whether they are to be differentiated again.
    """
    if not cost.requires_grad:
        raise InputError(
            "The loss does not depend on the weights in a way that PyTorch can follow: something between "
            "(`.detach()`, `.item()`, NumPy) cuts the graph."
        )
    return torch.autograd.grad(
        cost, list(leaves.values()), create_graph=create_graph, allow_unused=True
    )


def flat(parts: Iterable[torch.Tensor | None], places: Iterable[torch.Tensor]) -> np.ndarray:
    """Gradients by each of some tensors as one vector.

    Parameters
    ----------
    parts : one for each; `None` stands for zeros.
    places : the tensors.
    """
    filled = [
        torch.zeros_like(place) if part is None else part
        for part, place in zip(parts, places, strict=True)
    ]
    return as_numpy(torch.cat([part.detach().reshape(-1) for part in filled]))


def rows(answer: torch.Tensor, places: list[torch.Tensor]) -> np.ndarray:
    """The Jacobian of some outputs, all together where that is possible.

    Parameters
    ----------
    answer : the outputs.
    places : what they are differentiated by.
    """
    outputs = answer.reshape(-1)
    units = torch.eye(len(outputs), dtype=outputs.dtype, device=outputs.device)
    options: dict[str, Any] = {"retain_graph": True, "allow_unused": True}
    try:
        found = torch.autograd.grad(outputs, places, units, is_grads_batched=True, **options)
    except RuntimeError:  # a layer that cannot be batched
        alone = (torch.autograd.grad(outputs, places, unit, **options) for unit in units)
        return np.stack([flat(parts, places) for parts in alone])
    filled = [
        torch.zeros(len(outputs), place.numel()).to(place)
        if part is None
        else part.reshape(len(outputs), -1)
        for part, place in zip(found, places, strict=True)
    ]
    return as_numpy(torch.cat(filled, dim=1))

"""The probe of a PyTorch module: where its data are brought, and what is refused before any look."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from saddlewalk.errors import InputError

_WRONG = (RuntimeError, ValueError, TypeError, IndexError, KeyError)
"""What modules and losses raise on data that do not fit."""


def placed(
    data: Any, device: torch.device, dtype: torch.dtype, cast: torch.dtype | None
) -> tuple[Any, torch.Tensor]:
    """Inputs and targets of a probe where the module is.

    Parameters
    ----------
    data : the probe `(inputs, targets)`.
    device, dtype : of the module.
    cast : precision into which tensors are brought; by default they keep theirs.
    """

    def moved(name: str, values: Any) -> torch.Tensor:
        """A tensor where the module is; arrays are brought there, tensors must be there already."""
        if not isinstance(values, torch.Tensor):
            array = np.asarray(values)
            if array.dtype.kind not in "biuf":
                raise InputError(f"The {name} of the probe must hold numbers; got {array.dtype}.")
            tensor = torch.from_numpy(np.array(array)).to(device)
            return tensor.to(dtype) if tensor.is_floating_point() else tensor
        if values.device != device:
            raise InputError(
                f"The {name} of the probe are on {values.device}, the module is on {device}: move one "
                f"of them, for instance with `.to('{device}')`."
            )
        tensor = values.detach()
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise InputError(f"The {name} of the probe hold NaN or infinite numbers.")
        return tensor.to(cast) if cast and tensor.is_floating_point() else tensor

    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InputError(
            f"The probe is a pair (inputs, targets), one batch of data; got a {type(data).__name__}."
        )
    inputs, targets = data
    if isinstance(inputs, dict):
        there: Any = {name: moved(f"input '{name}'", one) for name, one in inputs.items()}
    elif isinstance(inputs, tuple | list):
        there = tuple(moved(f"input {k}", one) for k, one in enumerate(inputs))
    else:
        there = moved("inputs", inputs)
    return there, moved("targets", targets)


@contextmanager
def taking(inputs: Any, dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """While a module answers for the first time: what it does not take is told in a sentence.

    Parameters
    ----------
    inputs : of the probe.
    dtype, device : of the module.
    """
    try:
        yield
    except _WRONG as error:
        if isinstance(error, InputError):
            raise
        seen = ", ".join(f"{tuple(one.shape)} of {one.dtype}" for one in _tensors_in(inputs))
        raise InputError(
            f"The module (in {dtype}, on {device}) does not take the inputs of the probe, "
            f"{seen}: {str(error).splitlines()[0]}"
        ) from error


@contextmanager
def pricing(shape: tuple[int, ...], targets: torch.Tensor) -> Iterator[None]:
    """While a loss is computed for the first time: what it does not take is told in a sentence.

    Parameters
    ----------
    shape : of the outputs.
    targets : of the probe.
    """
    try:
        yield
    except _WRONG as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"The loss does not take outputs of shape {shape} with targets of shape "
            f"{tuple(targets.shape)} ({targets.dtype}): {str(error).splitlines()[0]}"
        ) from error


def check_answer(answer: Any) -> None:
    """Refuse what is no tensor of finite numbers.

    Parameters
    ----------
    answer : of the module.
    """
    if not isinstance(answer, torch.Tensor) or answer.ndim == 0:
        raise InputError(
            f"The module returns {type(answer).__name__}, no tensor with samples first: say what to "
            "take with `select=lambda answer: ...`."
        )
    if not torch.isfinite(answer).all():
        raise InputError("The module answers NaN or infinite numbers on the probe.")


def check_whole_answer(
    whole: Any, chosen: torch.Tensor, loss: Callable[[Any, Any], Any], targets: torch.Tensor
) -> None:
    """Refuse a loss that reads more of an answer than the tensor that it would get.

    Parameters
    ----------
    whole : what the module returns.
    chosen : the tensor in it that is looked at.
    loss : loss(outputs, targets).
    targets : of the probe.
    """
    if isinstance(whole, torch.Tensor):
        return
    prices = [tried(loss, one, targets) for one in (whole, chosen)]
    if prices[0] is not None and (prices[1] is None or prices[0] != prices[1]):
        raise InputError(
            f"The module returns {type(whole).__name__}, of which one tensor is looked at, and this loss "
            "reads the whole. Write it as a function of that tensor alone (the first, or `.logits`)."
        )


def the_tensor(answer: Any) -> Any:
    """The tensor in what a module returns: itself, `.logits`, or the first of a tuple.

    Parameters
    ----------
    answer : of the module.
    """
    if isinstance(answer, torch.Tensor):
        return answer
    logits = getattr(answer, "logits", None)
    if isinstance(logits, torch.Tensor):
        return logits
    return answer[0] if isinstance(answer, tuple) and answer else answer


def arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs as a module is called with them, by place and by name.

    Parameters
    ----------
    inputs : of the probe.
    """
    if isinstance(inputs, dict):
        return (), inputs
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}


def some(inputs: Any, samples: slice) -> Any:
    """Some of the samples.

    Parameters
    ----------
    inputs : of the probe.
    samples : which of them.
    """
    if isinstance(inputs, dict):
        return {name: one[samples] for name, one in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(one[samples] for one in inputs)
    return inputs[samples]


def tried(loss: Callable[[Any, Any], Any], answer: Any, targets: Any) -> float | None:
    """The loss of an answer, if it can be had.

    Parameters
    ----------
    loss : loss(outputs, targets).
    answer, targets : its arguments.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(loss(answer, targets))
        except Exception:
            return None


def _tensors_in(inputs: Any) -> list[torch.Tensor]:
    if isinstance(inputs, dict):
        return list(inputs.values())
    return list(inputs) if isinstance(inputs, tuple) else [inputs]

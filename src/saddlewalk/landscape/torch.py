"""Any `nn.Module` as a landscape: its device and precision are kept, and nothing of it is changed.

The module is called with other weights (`torch.func.functional_call`), in evaluation mode unless asked
otherwise, on copies of its buffers and with the random numbers put back afterwards. Parameters that are
frozen (`requires_grad=False`) are constants. Second derivatives are two backward passes, of which the first
is kept for all products at one place; attention is computed by its plain formula meanwhile, because fused
kernels have no second derivative.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from saddlewalk.errors import InputError
from saddlewalk.landscape.base import AbstractLandscape, Outputs, Product, Vector, laid_out
from saddlewalk.landscape.losses import check_name, check_pairs
from saddlewalk.landscape.torch_module import (
    as_numpy,
    flat,
    plain_key,
    rows,
    slopes_of,
    untouched,
    unwrapped,
)
from saddlewalk.landscape.torch_probe import (
    arguments,
    check_answer,
    check_whole_answer,
    placed,
    pricing,
    some,
    taking,
    the_tensor,
    tried,
)

Loss = Callable[[torch.Tensor, Any], torch.Tensor]
_ALONE = 1e-4
"""Part by which the answer to one sample may differ when it is asked alone."""


class ModuleLandscape(AbstractLandscape):
    """A PyTorch module, a probe and a loss.

    Parameters
    ----------
    module : the network; compiled and parallel wrappers are taken off.
    data : the probe `(inputs, targets)`: tensors on the module's device, or arrays, which are brought there.
        Inputs of several arguments are a tuple or, by name, a dictionary; samples come first everywhere.
    loss : loss(outputs, targets) -> one number, or "squared" or "cross-entropy".
    training : look at the module in the modes that it has, not in evaluation mode. Random layers then draw
        the same numbers at every look.
    dtype : compute in this precision, for instance `torch.float64`; by default in the module's own.
    select : what to take for the outputs of what the module returns; by default the tensor, the first of a
        tuple, or `.logits`.
    """

    def __init__(
        self,
        module: Any,
        data: Any,
        loss: Any,
        *,
        training: bool = False,
        dtype: torch.dtype | None = None,
        select: Callable[[Any], torch.Tensor] | None = None,
    ) -> None:
        self.module = unwrapped(module)
        self.training = training
        self._inside = False
        trained = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        if not trained:
            raise InputError(
                "All parameters are frozen (requires_grad=False), or there are none: the loss is a "
                "constant. Set `requires_grad_(True)` on what is trained."
            )
        odd = next((name for name, p in trained.items() if not p.is_floating_point()), None)
        if odd is not None:
            raise InputError(
                f"The parameter '{odd}' holds {trained[odd].dtype}; only real numbers are known here."
            )
        self._trained = tuple(trained)
        first = next(iter(trained.values()))
        self.device, self.dtype = first.device, dtype or first.dtype
        self._cast = dtype
        self.rounding = float(torch.finfo(self.dtype).eps)
        self.parameters = laid_out((name, tuple(p.shape)) for name, p in trained.items())
        self._select = select or the_tensor
        self._loss = _named_loss(loss)
        self._inputs, self._targets = placed(data, self.device, self.dtype, dtype)
        self._shape = tuple(self._first_answer().shape)
        self._first_loss()

    # --- the contract ---------------------------------------------------------------------------------

    @property
    def weights(self) -> Vector:
        """The weights as they are now."""
        return self.weights_of(self.module)

    def weights_of(self, state: Any) -> Vector:
        """The vector of weights of a module, or of a `state_dict`.

        Parameters
        ----------
        state : one of the same network; keys of compiled or parallel modules are understood.
        """
        if isinstance(state, nn.Module):
            found: dict[str, Any] = dict(unwrapped(state).named_parameters())
        else:
            found = {
                key if key in self._trained else plain_key(key): value
                for key, value in state.items()
            }
        missing = [name for name in self._trained if name not in found]
        if missing:
            raise InputError(
                f"The state has no '{missing[0]}'; it has: {', '.join(list(found)[:8]) or 'nothing'}."
            )
        return self.join({name: as_numpy(found[name]) for name in self._trained})

    @property
    def targets(self) -> np.ndarray:
        """The targets of the probe; labels stay whole numbers."""
        values = self._targets.detach().cpu()
        return (values.double() if values.is_floating_point() else values).numpy()

    @property
    def inputs(self) -> Any:
        """The inputs of the probe, as the module gets them."""
        return self._inputs

    def outputs(self, w: Any) -> Outputs:
        """What the network answers on the probe.

        Parameters
        ----------
        w : a vector of weights.
        """
        with self.probing(), torch.no_grad():
            return self._matrix(self.answer(self._tensors(w)))

    def loss_and_gradient(self, w: Any) -> tuple[float, Vector]:
        """The loss on the probe, and its gradient.

        Parameters
        ----------
        w : a vector of weights.
        """
        with self.probing():
            leaves = self._leaves(w)
            cost = self._price(self.answer(leaves))
            return float(cost.detach()), self._flat(slopes_of(cost, leaves), leaves)

    def hessian_at(self, w: Any) -> Product:
        """Products with the Hessian of the loss at one place; the first backward pass is kept for all.

        Parameters
        ----------
        w : a vector of weights.
        """
        with self.probing():
            leaves = self._leaves(w)
            slopes = slopes_of(self._price(self.answer(leaves)), leaves, create_graph=True)

        def product(v: Any) -> Vector:
            along = self._tensors(v)
            pairs = [
                (slope, along[name])
                for name, slope in zip(leaves, slopes, strict=True)
                if slope is not None and slope.requires_grad
            ]
            if not pairs:
                return np.zeros(self.size)
            with self.probing():
                turns = torch.autograd.grad(
                    [slope for slope, _ in pairs],
                    list(leaves.values()),
                    [way for _, way in pairs],
                    retain_graph=True,
                    allow_unused=True,
                )
            return self._flat(turns, leaves)

        return product

    def jacobian_at(self, w: Any) -> tuple[Product, Product]:
        """Products with the Jacobian of the outputs, from both sides.

        Parameters
        ----------
        w : a vector of weights.
        """
        with self.probing():
            leaves = self._leaves(w)
            answer = self.answer(leaves)
            # J^T u is linear in u, so its derivative by u along v is J v, at any u
            dual = torch.zeros_like(answer, requires_grad=True)
            slopes = torch.autograd.grad(
                answer, list(leaves.values()), dual, create_graph=True, allow_unused=True
            )

        def along(v: Any) -> Outputs:
            ways = self._tensors(v)
            pairs = [
                (slope, ways[name])
                for name, slope in zip(leaves, slopes, strict=True)
                if slope is not None and slope.requires_grad
            ]
            with self.probing():
                (moved,) = torch.autograd.grad(
                    [slope for slope, _ in pairs],
                    dual,
                    [way for _, way in pairs],
                    retain_graph=True,
                )
            return self._matrix(moved)

        def back(u: Any) -> Vector:
            with self.probing():
                found = torch.autograd.grad(
                    answer,
                    list(leaves.values()),
                    self._like_outputs(u),
                    retain_graph=True,
                    allow_unused=True,
                )
            return self._flat(found, leaves)

        return along, back

    def jacobian(self, w: Any, samples: slice = slice(None)) -> Float[np.ndarray, "rows size"]:
        """The Jacobian of the outputs: one backward pass a sample and output, sample by sample.

        Parameters
        ----------
        w : a vector of weights.
        samples : which of the probe; all by default.
        """
        chosen = range(*samples.indices(self.sample_count))
        with self.probing():
            leaves = self._leaves(w)
            if not self._answers_alone():
                return rows(self.answer(leaves)[samples], list(leaves.values()))
            places = list(leaves.values())
            parts = [rows(self.answer(leaves, slice(k, k + 1)), places) for k in chosen]
        return np.concatenate(parts) if parts else np.zeros((0, self.size))

    def cost(self, outputs: Any) -> float:
        """The loss of outputs on the probe, whatever network they come from.

        Parameters
        ----------
        outputs : a matrix, one row a sample.
        """
        with torch.no_grad():
            return float(self._price(self._like_outputs(outputs)))

    def residual(self, outputs: Any) -> Outputs:
        """Minus the gradient of the loss by the outputs.

        Parameters
        ----------
        outputs : a matrix, one row a sample.
        """
        with torch.enable_grad():
            place = self._like_outputs(outputs).requires_grad_()
            (slope,) = torch.autograd.grad(self._price(place), place)
        return -self._matrix(slope)

    # --- calling the module ---------------------------------------------------------------------------

    @property
    def sample_count(self) -> int:
        """Number of samples of the probe."""
        return self._shape[0]

    def answer(self, weights: dict[str, torch.Tensor], samples: slice | None = None) -> Any:
        """What the module answers with other weights; call it while `probing`.

        Parameters
        ----------
        weights : tensors by name, for all that is trained.
        samples : which of the probe; all by default.
        """
        state = {**self._constants(), **weights}
        args, kwargs = arguments(self._inputs if samples is None else some(self._inputs, samples))
        return self._select(torch.func.functional_call(self.module, state, args, kwargs))

    @contextmanager
    def probing(self) -> Iterator[None]:
        """While the module is looked at: what it is afterwards is what it was before.

        Within another one it does nothing: many looks one after another prepare once.
        """
        if self._inside:
            yield
            return
        with untouched(self.module, self.device, self.training):
            self._inside = True
            try:
                yield
            finally:
                self._inside = False

    def _constants(self) -> dict[str, torch.Tensor]:
        """Frozen parameters, and copies of the buffers, which a module may write to."""
        frozen = {
            name: p.detach()
            for name, p in self.module.named_parameters()
            if name not in self._trained
        }
        buffers = {name: b.detach().clone() for name, b in self.module.named_buffers()}
        both = {**frozen, **buffers}
        if self._cast is None:
            return buffers
        return {k: v.to(self._cast) if v.is_floating_point() else v for k, v in both.items()}

    def _price(self, answer: torch.Tensor) -> torch.Tensor:
        cost = self._loss(answer, self._targets)
        if not isinstance(cost, torch.Tensor) or cost.numel() != 1:
            shape = tuple(cost.shape) if isinstance(cost, torch.Tensor) else type(cost).__name__
            raise InputError(
                f"The loss must be one number, a tensor; it is {shape}. Take its mean: "
                "`lambda outputs, targets: loss(outputs, targets).mean()`."
            )
        return cost.reshape(())

    def _answers_alone(self) -> bool:
        """Whether a sample is answered the same without the others (not by a BatchNorm in training)."""
        with torch.no_grad():
            weights = self._tensors(self.weights)
            all_, one = self.answer(weights), self.answer(weights, slice(0, 1))
        if one.shape[1:] != all_.shape[1:] or len(one) != 1:
            return False
        size = float(all_.abs().max())
        return bool((all_[0] - one[0]).abs().max() <= max(_ALONE, 100 * self.rounding) * size)

    # --- vectors and tensors --------------------------------------------------------------------------

    def _tensors(self, w: Any) -> dict[str, torch.Tensor]:
        flat = torch.from_numpy(np.ascontiguousarray(self.checked(w)))
        flat = flat.to(device=self.device, dtype=self.dtype)
        return {one.name: flat[one.place].reshape(one.shape) for one in self.parameters}

    def _leaves(self, w: Any) -> dict[str, torch.Tensor]:
        return {name: t.detach().requires_grad_() for name, t in self._tensors(w).items()}

    def _flat(self, parts: Any, leaves: dict[str, torch.Tensor]) -> Vector:
        return flat(parts, leaves.values())

    def _matrix(self, answer: torch.Tensor) -> Outputs:
        return as_numpy(answer).reshape(len(answer), -1)

    def _like_outputs(self, values: Any) -> torch.Tensor:
        array = np.asarray(values, dtype=np.float64)
        if array.size != math.prod(self._shape):
            raise InputError(f"The outputs have shape {self._shape}; got {array.shape}.")
        tensor = torch.from_numpy(np.ascontiguousarray(array.reshape(self._shape)))
        return tensor.to(device=self.device, dtype=self._answer_dtype)

    # --- the probe ------------------------------------------------------------------------------------

    def _first_answer(self) -> torch.Tensor:
        with taking(self._inputs, self.dtype, self.device), self.probing(), torch.no_grad():
            answer = self.answer(self._tensors(self.weights))
        check_answer(answer)
        self._answer_dtype = answer.dtype
        return answer

    def _first_loss(self) -> None:
        if self._shape[0] == 0:
            raise InputError("The probe has no samples.")
        args, kwargs = arguments(self._inputs)
        with self.probing(), torch.no_grad():
            state = {**self._constants(), **self._tensors(self.weights)}
            whole = torch.func.functional_call(self.module, state, args, kwargs)
            check_whole_answer(whole, self._select(whole), self._loss, self._targets)
        if self._targets.shape != self._shape and self._targets.numel() == math.prod(self._shape):
            like = self._targets.reshape(self._shape).to(self._answer_dtype)
            check_pairs(partial(tried, self._loss), like, self._targets)
        with pricing(self._shape, self._targets), torch.no_grad():
            self._price(torch.zeros(self._shape, dtype=self._answer_dtype, device=self.device))


def _named_loss(loss: Any) -> Loss:
    check_name(loss)
    if loss == "squared":
        return lambda f, y: 0.5 * torch.sum((f - y.reshape(f.shape)) ** 2) / len(f)
    if loss == "cross-entropy":
        return nn.functional.cross_entropy
    return loss

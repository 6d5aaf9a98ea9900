"""Features of PyTorch networks: any loss, and each linear or convolutional layer that is called once.

One pass over the data in batches. A hook keeps each layer's output of the batch; gradients of the loss and of
the outputs are taken with respect to it in the same pass. Nothing is stored for the whole data set: memory is
that of one batch and of matrices the size of a layer.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from saddlewalk.errors import InputError
from saddlewalk.features.history import FeatureHistory
from saddlewalk.features.layers import LayerFeatures
from saddlewalk.features.report import NetworkFeatures

Loss = Callable[[torch.Tensor, Any], torch.Tensor]
_Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


def module_features(
    module: nn.Module,
    batches: Iterable[Any],
    loss: Loss,
    weight_decay: float | None = None,
    layers: Iterable[str] | None = None,
    agop: bool = True,
) -> NetworkFeatures:
    """FACT, AGOP and eNFA of the layers of a module, as it answers in evaluation mode.

    Parameters
    ----------
    module : the network; its modes (training, evaluation) are left as they are.
    batches : pairs of inputs and targets, for instance a DataLoader without shuffling.
    loss : loss(outputs, targets), the mean over the batch (`nn.CrossEntropyLoss()`, `nn.MSELoss()`).
    weight_decay : lambda of the loss `mean + lambda/2 |weights|^2`, as in `torch.optim.SGD(weight_decay=)`;
        without it matrices hold up to a factor.
    layers : names of the layers to look at; by default all linear and convolutional ones that are trained.
    agop : take AGOP, too, which needs a backward pass for each output.
    """
    _warn_of_noise(module)
    if isinstance(batches, tuple) and len(batches) == 2 and hasattr(batches[0], "shape"):
        raise InputError(
            "batches are pairs of inputs and targets: for one of them, write [(x, y)]."
        )
    chosen = _chosen_layers(module, layers)
    sums: dict[str, list[Any]] = {name: [0.0, 0.0, 0.0] for name in chosen}
    samples = 0
    with _layer_outputs(module, chosen) as outputs, torch.enable_grad():
        for inputs, targets in batches:
            if len(targets) == 0:
                continue
            outputs.clear()
            answers = module(inputs)
            count = len(answers)
            samples += count
            _add_loss_gradients(sums, chosen, outputs, loss(answers, targets), count)
            if agop:
                _add_output_gradients(sums, chosen, outputs, answers.reshape(count, -1))
    if samples == 0:
        raise InputError("There are no batches: nothing to average over.")

    def features(name: str, layer: _Layer) -> LayerFeatures:
        gradient, loss_square, output_square = (
            None if isinstance(total, float) else _on_host(total) / samples for total in sums[name]
        )
        assert gradient is not None
        weight = _on_host(_as_matrix(layer.weight))
        return LayerFeatures(name, weight, gradient, loss_square, output_square, weight_decay)

    return NetworkFeatures(tuple(features(*one) for one in chosen.items()))


def lightning_callback(
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
    loss: Loss,
    weight_decay: float | None = None,
    every: int = 1,
    part: str = "",
) -> Any:
    """A Lightning callback that records features after every so many epochs, and logs them.

    Its attribute `history` is a `FeatureHistory`; numbers go to the trainer's loggers as
    "features/LAYER/MATRIX".

    Parameters
    ----------
    batches : pairs of inputs and targets that can be gone through again and again, without shuffling.
    loss, weight_decay : as for `module_features`.
    every : epochs from one record to the next.
    part : name of the submodule to look at; by default the whole module.
    """
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError as error:
        raise InputError("This needs Lightning: pip install lightning") from error

    class LogFeatures(Callback):
        history = FeatureHistory()

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            if trainer.current_epoch % every:
                return
            watched = pl_module.get_submodule(part)
            moved = ((x.to(pl_module.device), y.to(pl_module.device)) for x, y in batches)
            found = module_features(watched, moved, loss, weight_decay)
            numbers = self.history.record(trainer.current_epoch, found)
            pl_module.log_dict({f"features/{name}": value for name, value in numbers.items()})

    return LogFeatures()


def _add_loss_gradients(
    sums: dict[str, list[Any]],
    chosen: dict[str, _Layer],
    outputs: dict[str, torch.Tensor],
    cost: torch.Tensor,
    count: int,
) -> None:
    """Sums over the samples of one batch: gradient and g g^T of each layer."""
    missing = [name for name in chosen if name not in outputs]
    if missing:
        raise InputError(
            f"The layer '{missing[0]}' is not used in the forward pass; name the others with layers=."
        )
    names = list(chosen)
    watched = [outputs[name] for name in names]
    weights = [chosen[name].weight for name in names]
    slopes = torch.autograd.grad(cost, [*watched, *weights], retain_graph=True)
    for k, name in enumerate(names):
        # the mean over the batch divides each sample's gradient by their number
        g = count * _gradient_rows(slopes[k], chosen[name])
        sums[name][0] = sums[name][0] + count * _as_matrix(slopes[len(names) + k]).detach()
        sums[name][1] = sums[name][1] + g.T @ g


def _add_output_gradients(
    sums: dict[str, list[Any]],
    chosen: dict[str, _Layer],
    outputs: dict[str, torch.Tensor],
    answers: torch.Tensor,
) -> None:
    """The same of sum_c q q^T, output after output."""
    watched = [outputs[name] for name in chosen]
    for c in range(answers.shape[1]):
        slopes = torch.autograd.grad(answers[:, c].sum(), watched, retain_graph=True)
        for (name, layer), slope in zip(chosen.items(), slopes, strict=True):
            q = _gradient_rows(slope, layer)
            sums[name][2] = sums[name][2] + q.T @ q


@contextmanager
def _layer_outputs(
    module: nn.Module, chosen: dict[str, _Layer]
) -> Iterator[dict[str, torch.Tensor]]:
    """The outputs of the layers in the last forward pass, of a module that is not training meanwhile."""
    outputs: dict[str, torch.Tensor] = {}
    modes = [(part, part.training) for part in module.modules()]

    def keep(name: str) -> Callable[..., torch.Tensor]:
        def hook(layer: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
            if name in outputs:
                raise InputError(f"The layer '{name}' is used more than once in a forward pass.")
            outputs[name] = output
            return output.clone()  # an activation in place would write over what is kept

        return hook

    handles = [layer.register_forward_hook(keep(name)) for name, layer in chosen.items()]
    module.eval()
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()
        for part, training in modes:
            part.training = training


def _chosen_layers(module: nn.Module, names: Iterable[str] | None) -> dict[str, _Layer]:
    known = {
        name or "layer": part for name, part in module.named_modules() if isinstance(part, _Layer)
    }
    if not known:
        raise InputError("The module has no linear or convolutional layer.")
    trained = [name for name, part in known.items() if part.weight.requires_grad]
    wanted = trained if names is None else list(names)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(f"There is no layer '{unknown[0]}'; there are: {', '.join(known)}.")
    frozen = [name for name in wanted if name not in trained]
    if frozen or not wanted:
        raise InputError(
            f"The weights of '{(frozen or list(known))[0]}' are frozen: nothing is learned there."
        )
    grouped = [name for name in wanted if getattr(known[name], "groups", 1) != 1]
    if grouped:
        raise InputError(
            f"'{grouped[0]}' is a grouped convolution, no single matrix; name the others with layers=."
        )
    return {name: known[name] for name in wanted}


def _gradient_rows(gradient: torch.Tensor, layer: _Layer) -> torch.Tensor:
    """Gradients with respect to a layer's output, one row a sample (and place, for convolutions)."""
    if isinstance(layer, nn.Linear):
        return gradient.detach().reshape(-1, gradient.shape[-1])
    return gradient.detach().movedim(1, -1).reshape(-1, gradient.shape[1])


def _as_matrix(weight: torch.Tensor) -> torch.Tensor:
    """A convolution as a matrix on patches."""
    return weight.reshape(len(weight), -1)


def _on_host(values: torch.Tensor) -> np.ndarray:
    return values.detach().cpu().double().numpy()


def _warn_of_noise(module: nn.Module) -> None:
    """The theorem is about the loss that was trained, which such layers make another one."""
    noisy = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)
    found = [type(part).__name__ for part in module.modules() if isinstance(part, noisy)]
    if found:
        warnings.warn(
            f"{found[0]} acts otherwise in training: gradients in evaluation mode are not those of the loss "
            "that was trained, and the residual need not vanish at convergence.",
            stacklevel=3,
        )

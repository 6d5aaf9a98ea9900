"""PyTorch networks: the balance of their layers, without changing what they compute."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from saddlewalk.errors import InputError

_HOMOGENEOUS = (
    nn.ReLU | nn.LeakyReLU | nn.Identity | nn.Flatten | nn.Dropout
    | nn.MaxPool1d | nn.MaxPool2d | nn.AvgPool1d | nn.AvgPool2d
    | nn.AdaptiveAvgPool2d | nn.AdaptiveMaxPool2d
)  # fmt: skip
_TRIED, _INPUTS, _ROUNDING = 1.5, 16, 1e-3
_SIZES = 1.0, 30.0, 1000.0
_Weighted = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


@torch.no_grad()
def rescale_layers(
    module: nn.Module,
    *,
    alpha: float = 1.0,
    tau: float = 1.0,
    first: str | None = None,
    last: str | None = None,
    example: torch.Tensor | None = None,
) -> nn.Module:
    """Divide the first layer by alpha and multiply the last by alpha, in place; all weights by tau.

    alpha > 1 is upstream: the first layer is smaller and learns faster. alpha alone keeps the function if
    everything between is positively homogeneous and has no bias that is not zero. Modules for which that is
    known not to hold are refused, and so are those whose answers change. Where the first layer is a
    convolution that takes an example.

    Parameters
    ----------
    module : the network; it is changed.
    alpha : factor from the first layer to the last.
    tau : factor of all weights; it changes the function.
    first, last : names of the layers; by default the first and the last that are registered.
    example : inputs for which outputs before and after are compared; by default random ones where the first
        layer is linear.
    """
    _check(alpha=alpha, tau=tau)
    layers = dict(_weighted(module))
    if len(layers) < 2:
        raise InputError("The network needs at least two layers with weights.")
    _check_between(module, layers)
    names = list(layers)
    ends = _named(layers, first or names[0]), _named(layers, last or names[-1])
    if example is None and isinstance(ends[0], nn.Linear) and ends[0] is layers[names[0]]:
        example = _random_inputs(ends[0])
    before = torch.zeros(1) if example is None else _answers(module, example)
    kept = [(part, part.clone()) for end in ends for part in end.parameters()]
    _trade(*ends, alpha)
    if example is not None and not _same(_answers(module, example), before):
        for part, value in kept:
            part.copy_(value)
        raise InputError("The outputs change: what lies between the layers is not homogeneous.")
    for layer in layers.values():
        layer.weight.mul_(tau)
    return module


def _trade(first: _Weighted, last: _Weighted, alpha: float) -> None:
    """Scale from the first layer to the last; the first one's bias goes with its weights."""
    first.weight.mul_(1 / alpha)
    if first.bias is not None:
        first.bias.mul_(1 / alpha)
    last.weight.mul_(alpha)


@torch.no_grad()
def rescale_units(
    module: nn.Module,
    *,
    delta: float | None = None,
    tau: float | None = None,
    rates: tuple[float, float] = (1.0, 1.0),
    example: torch.Tensor | None = None,
) -> nn.Module:
    r"""Give every neuron of a two-layer network a scale and a balance, in place.

    `delta` alone does not change the function if the neurons are positively homogeneous. That is tried before
    anything is changed, and a network that answers otherwise is refused as it was.

    Parameters
    ----------
    module : the network; it is changed.
    delta : :math:`\eta_w \|a_k\|^2 - \eta_a \|w_k\|^2` of every neuron.
    tau : :math:`\|a_k\| \|w_k\| = \tau^2` for every neuron.
    rates : learning rates :math:`(\eta_a, \eta_w)` of the readout and of the hidden layer.
    example : inputs to try it on; by default random ones.
    """
    if tau is not None:
        _check(tau=tau)
    if delta is not None and not math.isfinite(delta):
        raise InputError(f"delta must be finite; got {delta}.")
    _check_rates(rates)
    hidden, readout = _two_layers(module)
    _check_between(module, dict(_weighted(module)))
    if hidden.bias is not None and bool(torch.any(hidden.bias != 0)):
        raise InputError(
            "A hidden layer with a bias counts it as an incoming weight: append it to W."
        )
    incoming = hidden.weight.norm(dim=1)
    outgoing = readout.weight.norm(dim=0)
    if not bool((incoming > 0).all() and (outgoing > 0).all()):
        raise InputError("A neuron without incoming or outgoing weights cannot be rescaled.")
    _check_homogeneous(module, hidden, readout, example)
    product = incoming * outgoing if tau is None else torch.full_like(incoming, tau**2)
    if delta is None:
        grow = torch.sqrt(product / (incoming * outgoing))
        new_in, new_out = incoming * grow, outgoing * grow
    else:
        new_out, new_in = _norms(product.double(), delta, rates)
    hidden.weight.mul_((new_in / incoming).to(hidden.weight.dtype)[:, None])
    readout.weight.mul_((new_out / outgoing).to(readout.weight.dtype))
    return module


@torch.no_grad()
def conserved_deltas(module: nn.Module, rates: tuple[float, float] = (1.0, 1.0)) -> torch.Tensor:
    """delta of each hidden neuron of a two-layer network: kept by gradient flow, lost by finite steps.

    A bias of the hidden layer is one more incoming weight.

    Parameters
    ----------
    module : the network.
    rates : learning rates of the readout and of the hidden layer.
    """
    _check_rates(rates)
    hidden, readout = _two_layers(module)
    eta_a, eta_w = rates
    incoming = hidden.weight.square().sum(1)
    if hidden.bias is not None:
        incoming = incoming + hidden.bias.square()
    return eta_w * readout.weight.square().sum(0) - eta_a * incoming


def _two_layers(module: nn.Module) -> tuple[nn.Linear, nn.Linear]:
    layers = [layer for _, layer in _weighted(module) if isinstance(layer, nn.Linear)]
    if len(layers) != 2 or len(dict(_weighted(module))) != 2:
        raise InputError("Neurons are balanced one by one in networks of two linear layers.")
    if layers[0].out_features != layers[1].in_features:
        raise InputError(
            "The layer that is registered first does not feed the second: register them in order."
        )
    return layers[0], layers[1]


def _check_rates(rates: tuple[float, float]) -> None:
    if len(rates) != 2 or min(rates) <= 0:
        raise InputError(
            f"Learning rates must be two positive numbers, of a and of w; got {rates}."
        )


def _check_homogeneous(
    module: nn.Module, hidden: nn.Linear, readout: nn.Linear, example: torch.Tensor | None
) -> None:
    """Refuse a network whose answers change when scale goes from one layer to the other."""
    inputs = _random_inputs(hidden) if example is None else example
    before, kept = _answers(module, inputs), (hidden.weight.clone(), readout.weight.clone())
    hidden.weight.mul_(_TRIED)
    readout.weight.mul_(1 / _TRIED)
    after = _answers(module, inputs)
    hidden.weight.copy_(kept[0])
    readout.weight.copy_(kept[1])
    if not _same(after, before):
        raise InputError(
            "The outputs would change: what lies between the layers is not homogeneous of degree 1."
        )


def _random_inputs(first: nn.Linear) -> torch.Tensor:
    """Of several sizes: what is clipped is so for large ones alone."""
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(_INPUTS, first.in_features, generator=draw)
    return torch.cat([size * inputs for size in _SIZES]).to(first.weight)


def _answers(module: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """What a network answers, with nothing left to chance."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        return module(inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"The network does not take inputs of shape {tuple(inputs.shape)}; give an `example`."
        ) from error
    finally:
        for part, training in modes:
            part.training = training


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether answers are the same, those to small inputs as those to large ones."""
    pairs = zip(one.chunk(len(_SIZES)), other.chunk(len(_SIZES)), strict=True)
    return all(bool((a - b).abs().max() <= _ROUNDING * b.abs().max()) for a, b in pairs)


def _norms(
    product: torch.Tensor, delta: float, rates: tuple[float, float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """|a| and |w| with this product and this delta; the root that does not cancel comes first."""
    eta_a, eta_w = rates
    size = math.sqrt(eta_a * eta_w) * product
    large = (abs(delta) + torch.hypot(torch.full_like(size, delta), 2 * size)) / 2
    small = size**2 / large
    outgoing, incoming = (large, small) if delta >= 0 else (small, large)
    return torch.sqrt(outgoing / eta_w), torch.sqrt(incoming / eta_a)


def _weighted(module: nn.Module) -> Iterable[tuple[str, _Weighted]]:
    """Layers with a weight matrix, in the order in which they are registered."""
    return ((name, part) for name, part in module.named_modules() if isinstance(part, _Weighted))


def _named(layers: dict[str, _Weighted], name: str) -> _Weighted:
    if name not in layers:
        raise InputError(f"There is no layer '{name}'; there are: {', '.join(layers)}.")
    return layers[name]


def _check_between(module: nn.Module, layers: dict[str, _Weighted]) -> None:
    inner = [part for part in module.modules() if not list(part.children())]
    for part in inner:
        if not isinstance(part, _HOMOGENEOUS | _Weighted):
            raise InputError(
                f"{type(part).__name__} is not positively homogeneous: the function would change."
            )
    for name, layer in list(layers.items())[1:-1]:
        if layer.bias is not None and bool(torch.any(layer.bias != 0)):
            raise InputError(
                f"The bias of '{name}' would not be rescaled with the rest. Set it to zero."
            )


def _check(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise InputError(f"{name} must be positive; got {value}.")

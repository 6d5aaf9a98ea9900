"""What a module does to its input, step after step, where it is a chain (read with `torch.fx`).

A chain takes what the last step gave and nothing else besides fixed parameters: linear maps, convolutions,
activations, pooling, flattening, fixed factors. Modules, functions and methods of tensors are read alike,
and so are parameters that are used directly (`x @ self.w.T`). What does not fit is named: the first step
that is none of these.
"""

import numbers
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from saddlewalk.errors import InputError
from saddlewalk.landscape import activations

Pool = nn.AvgPool1d | nn.AvgPool2d | nn.AdaptiveAvgPool1d | nn.AdaptiveAvgPool2d


class Constant(NamedTuple):
    """A parameter or a buffer where a step uses it, transposed or not."""

    name: str
    turned: bool = False


@dataclass(frozen=True)
class Linear:
    """A linear map: a matrix `(outputs, inputs)`, or its transpose where it is `turned`."""

    label: str
    weight: Constant
    bias: Constant | None = None


@dataclass(frozen=True)
class Convolution:
    """A convolution, a module."""

    label: str
    module: nn.Conv1d | nn.Conv2d
    weight: Constant
    bias: Constant | None = None


@dataclass(frozen=True)
class Activation:
    """A function of each number."""

    label: str
    function: activations.Activation


@dataclass(frozen=True)
class Pooling:
    """An average over places: a module, or over all of them where there is none."""

    label: str
    module: Pool | None = None


@dataclass(frozen=True)
class Factor:
    """A fixed number that all is multiplied with."""

    label: str
    value: float


@dataclass(frozen=True)
class Flatten:
    """One vector a sample."""

    label: str


Step = Linear | Convolution | Activation | Pooling | Factor | Flatten


def read_chain(module: nn.Module) -> tuple[Step, ...]:
    """The steps of a module from its input to its output; a sentence names the first that is no such step.

    Parameters
    ----------
    module : the network.
    """
    try:
        graph = fx.symbolic_trace(module).graph
    except Exception as error:  # torch.fx raises what the module's own code raises on its proxies
        raise InputError(
            f"{type(module).__name__} cannot be followed step by step (torch.fx: "
            f"{str(error).splitlines()[0] if str(error) else type(error).__name__}), so it is not known to "
            "be a sum of units."
        ) from error
    return _Reader(module).read(graph)


class _Reader:
    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.constants: dict[fx.Node, Constant] = {}
        self.steps: list[Step] = []
        self.stream: fx.Node | None = None

    def read(self, graph: fx.Graph) -> tuple[Step, ...]:
        for node in graph.nodes:
            if node.op == "placeholder":
                if self.stream is not None and node.users:
                    raise InputError(
                        f"The network takes more than one input ('{node.name}'): no chain of layers."
                    )
                self.stream = self.stream or node
            elif node.op == "get_attr":
                self.constants[node] = Constant(str(node.target))
            elif node.op == "output":
                if node.args[0] is not self.stream:
                    raise InputError(
                        "The network returns something besides what its last layer answers."
                    )
            elif not self._is_turned(node):
                self._follow(node)
        return tuple(self.steps)

    def _is_turned(self, node: fx.Node) -> bool:
        """Whether it is a transposed constant, which is noted."""
        source = node.args[0] if node.args else None
        if not isinstance(source, fx.Node) or source not in self.constants:
            return False
        transposes = (
            (node.op == "call_method" and node.target == "t")
            or (node.op == "call_function" and node.target is torch.t)
            or (node.op == "call_function" and node.target is getattr and node.args[1] == "T")
        )
        if transposes:
            before = self.constants[source]
            self.constants[node] = Constant(before.name, not before.turned)
        return bool(transposes)

    def _follow(self, node: fx.Node) -> None:
        read = [one for one in node.all_input_nodes if one not in self.constants]
        if read != [self.stream]:
            raise InputError(
                f"'{_label(node)}' takes more than what the layer before it gave (a skip, a branch or a "
                "product of two parts): the network is no chain of layers."
            )
        step = self._of_module(node) if node.op == "call_module" else self._of_call(node)
        if step is not None:
            self.steps.append(step)
        self.stream = node

    def _of_module(self, node: fx.Node) -> Step | None:
        name = str(node.target)
        part = self.module.get_submodule(name)
        match part:
            case nn.Identity():
                return None
            case nn.Dropout() if part.p == 0:
                return None
            case nn.Dropout():
                raise InputError(
                    f"'{name}' is a Dropout of {part.p:g}: a network with random units is no sum of units. "
                    "Train without it, or set its p to 0."
                )
            case nn.Linear():
                return Linear(name, Constant(f"{name}.weight"), _bias(part, name))
            case nn.Flatten() if part.start_dim == 1 and part.end_dim == -1:
                return Flatten(name)
            case nn.Conv1d() | nn.Conv2d():
                return Convolution(name, part, Constant(f"{name}.weight"), _bias(part, name))
            case nn.AvgPool1d() | nn.AvgPool2d() | nn.AdaptiveAvgPool1d() | nn.AdaptiveAvgPool2d():
                return Pooling(name, part)
        sigma = activations.of_module(part)
        if sigma is not None:
            return Activation(name, sigma)
        raise InputError(
            f"'{name}' ({type(part).__name__}) is no step of a sum of units: those are linear maps, "
            "convolutions, activations, average pooling and flattening."
        )

    def _of_call(self, node: fx.Node) -> Step | None:
        name, label = _name_of(node), _label(node)
        rest = tuple(node.args[1:])
        match name:
            case "linear":
                return self._linear_call(node)
            case "matmul" | "mm" if len(node.args) == 2 and node.args[0] is self.stream:
                right = self._constant(node.args[1])
                if right is not None:  # x @ M is a linear map with the matrix M^T
                    return Linear(label, Constant(right.name, not right.turned))
            case "add" | "add_" if self.steps and isinstance(self.steps[-1], Linear):
                other = next(
                    (self._constant(one) for one in node.args if one is not self.stream), None
                )
                last = self.steps[-1]
                if other is not None and last.bias is None:
                    self.steps[-1] = Linear(last.label, last.weight, other)
                    return None
            case "mul" | "mul_" if node.args[0] is node.args[1]:
                return Activation(label, "quadratic")
            case "mul" | "mul_" | "truediv" | "div" | "neg":
                value = _factor(name, node, self.stream)
                if value is not None:
                    return Factor(label, value)
            case "flatten" if node.kwargs.get("start_dim", rest[0] if rest else 0) == 1:
                return Flatten(label)
            case "view" | "reshape" if len(rest) >= 1 and rest[-1] == -1:
                return Flatten(label)
            case "squeeze" | "contiguous" | "clone":
                return None
            case "dropout" if node.kwargs.get("p", rest[0] if rest else 0.5) == 0:
                return None
            case "mean" if rest or node.kwargs:
                return Pooling(label)
        sigma = activations.of_call(name, rest, dict(node.kwargs))
        if sigma is not None and node.args[0] is self.stream:
            return Activation(label, sigma)
        raise InputError(
            f"'{label}' is no step of a sum of units: those are linear maps, convolutions, activations, "
            "average pooling and flattening."
        )

    def _linear_call(self, node: fx.Node) -> Linear:
        given = dict(zip(("input", "weight", "bias"), node.args, strict=False)) | dict(node.kwargs)
        weight, bias = (self._constant(given.get(key)) for key in ("weight", "bias"))
        if given["input"] is not self.stream or weight is None:
            raise InputError(f"'{_label(node)}' is a linear map whose matrix is no parameter.")
        return Linear(_label(node), weight, bias)

    def _constant(self, value: Any) -> Constant | None:
        return self.constants.get(value) if isinstance(value, fx.Node) else None


def _bias(part: nn.Module, name: str) -> Constant | None:
    return None if part.bias is None else Constant(f"{name}.bias")


def _name_of(node: fx.Node) -> str:
    target: Any = node.target
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def _label(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_module" else _name_of(node)


def _factor(name: str, node: fx.Node, stream: fx.Node | None) -> float | None:
    """The number by which a step multiplies; `None` if it is none."""
    if name == "neg":
        return -1.0
    first, second = (*node.args, None)[:2]
    if first is stream and isinstance(second, numbers.Real):
        return 1 / float(second) if name in ("truediv", "div") else float(second)
    if second is stream and isinstance(first, numbers.Real) and name not in ("truediv", "div"):
        return float(first)
    return None

r"""Deep networks: hidden layers in a row, :math:`f = g_{out}(\sum_i \phi(g_{in}(x); u_i)\, v_i)` for each.

A deep network is no sum of units, so it counts as one unit here that holds all the weights: it can be
trained, and its first escape is predicted (`theory.deep`); linear ones are predicted whole. Its hidden
layers are sums of units, between the layers before and after: what Saddle-to-Saddle Dynamics says about
units holds in each of them.
"""

import dataclasses
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from saddlewalk.errors import InputError, checked_whole
from saddlewalk.units.base import (
    AbstractUnits,
    Factors,
    Layer,
    ParametersLike,
    Shapes,
    Weights,
)
from saddlewalk.units.convolution import Convolution
from saddlewalk.units.dense import Dense
from saddlewalk.units.self_attention import LinearSelfAttention, score_vectors

HiddenLayer = Dense | Convolution | LinearSelfAttention


class Deep(AbstractUnits):
    """Hidden layers `hidden_layers`, numbered from 1, and a linear readout.

    A skip `(a, b)` adds what layer a answers to what layer b answers. Linear self-attention comes
    first; it adds to the query, and the layers after it read the query's token.

    Parameters
    ----------
    hidden_layers : units of each hidden layer, the first one next to the input.
    skips : pairs of layers (a, b) that a skip joins.
    output_bias : whether the readout has a bias.
    """

    hidden_layers: tuple[HiddenLayer, ...] = eqx.field(static=True)
    skips: tuple[tuple[int, int], ...] = eqx.field(static=True, default=())
    output_bias: bool = eqx.field(static=True, default=False)

    additive: ClassVar[bool] = False

    @classmethod
    def example(cls) -> tuple["Deep", int, int]:
        """A convolution and two dense layers, one of them rectified."""
        layers = (Convolution(2, kernel=2, stride=1), Dense(4, "relu"), Dense(3, "linear"))
        return cls(layers), 4, 2

    @classmethod
    def of(
        cls, depth: int, width: int, activation: str = "linear", *, bias: bool = False
    ) -> "Deep":
        """Dense layers of one width in a row; `depth` counts the readout, too.

        Parameters
        ----------
        depth : number L of layers of weights, at least 2.
        width : neurons of each hidden layer.
        activation : of the hidden layers.
        bias : whether their neurons have biases.
        """
        depth = checked_whole("depth", depth, least=1)
        if depth < 2:
            raise InputError(
                f"A deep network has at least 2 layers of weights, with the readout; got {depth}."
            )
        return cls((Dense(width, activation, bias),) * (depth - 1))

    @classmethod
    def linear(cls, depth: int, width: int) -> "Deep":
        """A deep linear network.

        Parameters
        ----------
        depth : number L of layers of weights, at least 2.
        width : neurons of each hidden layer.
        """
        return cls.of(depth, width)

    @property
    def depth(self) -> int:
        """Number L of layers of weights, with the readout."""
        return len(self.hidden_layers) + 1

    @property
    def is_linear_chain(self) -> bool:
        """Whether it is a product of matrices."""
        plain = not (self.skips or self.output_bias)
        return plain and all(
            isinstance(one, Dense) and one.activation == "linear" and not one.bias
            for one in self.hidden_layers
        )

    def __check_init__(self) -> None:
        if not isinstance(self.hidden_layers, tuple) or not self.hidden_layers:
            raise InputError(
                "A deep network needs a tuple of at least one hidden layer, for instance "
                f"Deep((Dense(5, 'tanh'),)); got {self.hidden_layers!r:.60}."
            )
        for k, stage in enumerate(self.hidden_layers):
            if not isinstance(stage, HiddenLayer):
                raise InputError(
                    f"A hidden layer is dense, a convolution or linear attention: {stage}."
                )
            if k > 0 and not isinstance(stage, Dense):
                raise InputError("Convolution and attention can be the first hidden layer only.")
        for a, b in self.skips:
            if not 1 <= a < b <= len(self.hidden_layers):
                raise InputError(f"There is no way from layer {a} past layer {b}.")
            if self.hidden_layers[a - 1].width != self.hidden_layers[b - 1].width:
                raise InputError(f"Layers {a} and {b} are not equally wide: no skip can join them.")

    @property
    def smooth(self) -> bool | None:  # type: ignore[override]
        """Whether all layers are, where that is known."""
        known = [stage.smooth for stage in self.hidden_layers]
        return False if False in known else None if None in known else True

    @property
    def linear_in(self) -> str | None:  # type: ignore[override]
        """The input, where all layers are."""
        linear = all(stage.linear_in == "input" for stage in self.hidden_layers)
        return "input" if linear and not self.output_bias else None

    @property
    def hidden(self) -> tuple[str, ...]:  # type: ignore[override]
        """Layers that no skip starts or ends at: the units of others are tied to each other."""
        tied = {end for skip in self.skips for end in skip}
        return tuple(f"layer {k}" for k in range(1, len(self.hidden_layers) + 1) if k not in tied)

    def count(self, inputs: int) -> int:
        """One: all weights together."""
        return 1

    def layers(self, inputs: int, outputs: int) -> Shapes:
        """The weights of each hidden layer, then the readout."""
        shapes: Shapes = {}
        size = inputs
        for k, stage in enumerate(self.hidden_layers, start=1):
            own = stage.layers(size, 1)
            if isinstance(stage, LinearSelfAttention):
                m = own["v"][0]
                rest = {name: shape for name, shape in own.items() if name != "v"}
                own, size = {**rest, "V": (m, m)}, m
            else:
                own = {name: own[name] for name in ("w", "u", "b") if name in own}
                size = stage.width * (stage.patches(size) if isinstance(stage, Convolution) else 1)
            shapes |= {f"{name}{k}": (stage.width, *shape) for name, shape in own.items()}
        bias: Shapes = {"bias": (outputs,)} if self.output_bias else {}
        return shapes | bias | {"readout": (outputs, size)}

    def respond(self, weights: Weights, x: Any) -> Array:
        """The whole network on one input."""
        return self._read_out(weights, self._answers(weights, x)[-1])

    def _read_out(self, weights: Weights, h: Array) -> Array:
        return weights["readout"] @ h + (weights["bias"] if self.output_bias else 0.0)

    def preactivations(self, weights: Weights, x: Any) -> Float[Array, " hidden"] | None:
        """What enters the neurons of all layers, layer by layer; attention has none."""
        own = {name: values[0] for name, values in weights.items()}
        reads = zip(self.hidden_layers, self._answers(own, x), strict=False)
        parts: list[Array] = []
        for k, (stage, h) in enumerate(reads, start=1):
            if isinstance(stage, Dense):
                parts.append(stage.preactivations(_of_stage(own, k), h))
            elif isinstance(stage, Convolution):
                parts.append(stage.preactivations({"u": own[f"u{k}"]}, h))
        return jnp.concatenate(parts) if parts else None

    def gradient_factors(self, weights: Weights, x: Any) -> Factors | None:
        """Not for attention. What a neuron is worth: how the output answers a nudge before it."""
        if not all(isinstance(stage, Dense | Convolution) for stage in self.hidden_layers):
            return None
        own = {name: values[0] for name, values in weights.items()}
        calm = [
            jnp.zeros((stage.width, stage.patches(x.shape[-1])))
            if isinstance(stage, Convolution)
            else jnp.zeros(stage.width)
            for stage in self.hidden_layers
        ]
        respond = lambda nudges: own["readout"] @ self._answers(own, x, nudges)[-1]  # noqa: E731
        worth = jax.jacrev(respond)(calm)
        reads = self._answers(own, x)
        found: Factors = {}
        for k, (stage, h, d) in enumerate(
            zip(self.hidden_layers, reads, worth, strict=False), start=1
        ):
            if isinstance(stage, Convolution):
                found[f"u{k}"] = (stage.windows(h), jnp.swapaxes(d, 1, 2))
            else:
                found[f"w{k}"] = (h, d)
                if isinstance(stage, Dense) and stage.bias:
                    found[f"b{k}"] = (jnp.ones(1), d)
        if self.output_bias:
            found["bias"] = (jnp.ones(1), jnp.eye(len(own["readout"])))
        return found | {"readout": (reads[-1], jnp.eye(len(own["readout"])))}

    def _answers(self, weights: Weights, x: Any, nudges: list[Array] | None = None) -> list[Any]:
        """The input, then what each layer answers; a nudge is added before a layer's nonlinearity."""
        answers = [x]
        for k, stage in enumerate(self.hidden_layers, start=1):
            nudge = 0.0 if nudges is None else nudges[k - 1]
            answers.append(self._advance(k, stage, weights, answers[-1], nudge))
            for a, b in self.skips:
                if b == k:
                    answers[k] = answers[k] + answers[a]
        return answers

    def combine(self, weights: Weights, x: Any) -> Array:
        """There is one unit."""
        return self.respond({name: values[0] for name, values in weights.items()}, x)

    def _advance(
        self, k: int, stage: HiddenLayer, weights: Weights, h: Array, nudge: Array | float
    ) -> Array:
        if isinstance(stage, Dense):
            return stage.sigma(stage.preactivations(_of_stage(weights, k), h) + nudge)
        if isinstance(stage, Convolution):
            return stage.sense(weights[f"u{k}"], h, nudge).reshape(-1)
        m = weights[f"V{k}"].shape[-1]
        products, query = h[: m * m].reshape(m, m), h[m * m :]
        heads = {
            name: weights[f"{name}{k}"] for name in ("K", "Q", "KQ") if f"{name}{k}" in weights
        }
        sought = score_vectors(heads, query)
        return query + jnp.einsum("hij,jk,hk->i", weights[f"V{k}"], products, sought)

    # --- one hidden layer -------------------------------------------------------------------------

    def alone(self, layer: str, inputs: int, outputs: int) -> tuple[AbstractUnits, int, int]:
        """The layer as a network of its own; its activation does not depend on the sizes."""
        k = self._number(layer)
        stage = self.hidden_layers[k - 1]
        return stage, (inputs if k == 1 else 3), 1

    def take(self, shapes: Shapes, theta: ParametersLike, layer: str = "layer 1") -> Layer:
        """Rows of the layer's own weights, and columns of the next."""
        weights = self._named(shapes, theta)
        incoming, outgoing = self._around(layer)
        width = self.hidden_layers[self._number(layer) - 1].width
        u = np.concatenate([weights[name].reshape(width, -1) for name in incoming], axis=1)
        if outgoing.startswith("V"):
            return Layer(u, weights[outgoing].reshape(width, -1))
        v = weights[outgoing].reshape(len(weights[outgoing]), width, -1)
        return Layer(u, np.moveaxis(v, 1, 0).reshape(width, -1))

    def put(
        self, shapes: Shapes, theta: Any, units: Layer, layer: str = "layer 1"
    ) -> Float[np.ndarray, "1 size"]:
        """The whole network with these units in the layer."""
        weights = self._named(shapes, theta)
        incoming, outgoing = self._around(layer)
        u, v = np.asarray(units.incoming), np.asarray(units.outgoing)
        ends = np.cumsum([math.prod(shapes[name][1:]) for name in incoming])
        for name, part in zip(incoming, np.split(u, ends[:-1], axis=1), strict=True):
            weights[name] = part.reshape(units.width, *shapes[name][1:])
        if outgoing.startswith("V"):
            weights[outgoing] = v.reshape(units.width, *shapes[outgoing][1:])
        else:
            rows = shapes[outgoing][0]
            by_row = v.reshape(units.width, rows, -1)
            weights[outgoing] = np.moveaxis(by_row, 0, 1).reshape(rows, -1)
        return np.concatenate([weights[name].ravel() for name in shapes])[None]

    def resized(self, width: int, layer: str = "layer 1") -> "Deep":
        """The same network with another number of units in a hidden layer."""
        k = self._number(layer)
        stage = dataclasses.replace(self.hidden_layers[k - 1], width=width)
        return dataclasses.replace(
            self, hidden_layers=(*self.hidden_layers[: k - 1], stage, *self.hidden_layers[k:])
        )

    def _named(self, shapes: Shapes, theta: ParametersLike) -> dict[str, np.ndarray]:
        # in numpy: JAX would round to single precision outside the package's context
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
        parts = np.split(np.array(theta, dtype=float)[0], ends[:-1])
        return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}

    def _number(self, layer: str) -> int:
        if layer not in self.hidden:
            raise InputError(f"No hidden layer '{layer}'; there are: {', '.join(self.hidden)}.")
        return int(layer.removeprefix("layer "))

    def _around(self, layer: str) -> tuple[list[str], str]:
        """Names of the weights into and out of the units of a layer."""
        k = self._number(layer)
        stage = self.hidden_layers[k - 1]
        if isinstance(stage, LinearSelfAttention):
            return ([f"KQ{k}"] if stage.merged else [f"K{k}", f"Q{k}"]), f"V{k}"
        after = f"w{k + 1}" if k < len(self.hidden_layers) else "readout"
        if isinstance(stage, Convolution):
            return [f"u{k}"], after
        return [f"w{k}", f"b{k}"] if stage.bias else [f"w{k}"], after


def _of_stage(weights: Weights, k: int) -> Weights:
    """The weights of dense layer k by the names that they have in `Dense`."""
    return {name: weights[f"{name}{k}"] for name in ("w", "b") if f"{name}{k}" in weights}

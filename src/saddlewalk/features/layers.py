r"""What a weight matrix has learned: :math:`W^\top W` and what theory says it is (section 3, appendix A).

A layer :math:`f(x) = g(W h(x), x)` trained with weight decay :math:`\lambda` has, at any critical point,

.. math:: W^\top W = \mathrm{FACT} = -\tfrac1\lambda W^\top \nabla_W L, \qquad
          W W^\top = \mathrm{bFACT} = -\tfrac1\lambda W (\nabla_W L)^\top ,

since :math:`\lambda W + \nabla_W L = 0`. The rivals are averages of outer products of gradients by the
layer's input: AGOP of the outputs (NFA) and eNFA of the loss. With :math:`q = \partial f_c/\partial (Wh)` and
:math:`g = \partial \ell/\partial (Wh)` these are

.. math:: \mathrm{AGOP} = W^\top \overline{\textstyle\sum_c q q^\top}\, W, \qquad
          \mathrm{eNFA} = W^\top \overline{g g^\top}\, W ,

so a pass over the data keeps three small sums: :math:`\nabla_W L`, :math:`\overline{gg^\top}` and
:math:`\overline{\sum_c qq^\top}`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.features.matrix_functions import (
    Matrix,
    cosine,
    matrix_power,
    pearson,
    symmetrized,
    symmetrized_product,
)
from saddlewalk.show import text
from saddlewalk.store import AbstractResult

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORWARD = ("FACT", "sqrt(FACT FACT^T)", "sqrt(AGOP)", "sqrt(eNFA)")
"""What is shown beside W^T W."""
BACKWARD = ("bFACT", "sqrt(bFACT bFACT^T)", "sqrt(bAGOP)", "sqrt(beNFA)")
"""What is shown beside W W^T."""


@dataclass(frozen=True)
class LayerFeatures:
    """One weight matrix `(outputs, inputs)` and the averages over the data that say what it has learned.

    Parameters
    ----------
    name : what the layer is called.
    weight : the matrix W.
    gradient : gradient of the mean loss with respect to it, without weight decay.
    loss_square : mean over samples of g g^T, where it is known.
    output_square : mean over samples of the sum over outputs of q q^T, where it is known.
    weight_decay : lambda, where it is known.
    """

    name: str
    weight: Matrix
    gradient: Matrix
    """Gradient of the mean loss, without weight decay."""
    loss_square: Matrix | None = None
    """Mean of g g^T over samples: gradients of the loss with respect to the layer's outputs."""
    output_square: Matrix | None = None
    """Mean over samples of the sum over outputs of q q^T."""
    weight_decay: float | None = None
    """lambda; `None`: not known, and matrices hold up to a factor."""

    def __post_init__(self) -> None:
        if self.weight_decay is not None and not 0 < self.weight_decay < math.inf:
            raise InputError(
                f"The weight decay must be positive; got {self.weight_decay}. Leave it out if unknown."
            )
        arrays = (self.weight, self.gradient, self.loss_square, self.output_square)
        if not all(np.isfinite(array).all() for array in arrays if array is not None):
            raise InputError(
                f"Weights or gradients of '{self.name}' are not finite, or the data are not."
            )

    @property
    def implied_weight_decay(self) -> float:
        """The lambda that fits best: of `lambda W + gradient = 0` by least squares."""
        size = float(np.sum(self.weight**2))
        return -float(np.sum(self.weight * self.gradient)) / size if size > 0 else 0.0

    @property
    def residual(self) -> float:
        """|W^T (lambda W + gradient)| over |lambda W^T W|: 0 at convergence, far from it up to 1/lambda."""
        decay = self.implied_weight_decay if self.weight_decay is None else self.weight_decay
        scale = abs(decay) * float(np.linalg.norm(self.feature_matrix))
        off = np.linalg.norm(self.weight.T @ (decay * self.weight + self.gradient))
        return float(off) / scale if scale > 0 else math.inf

    @property
    def feature_matrix(self) -> Matrix:
        """The neural feature matrix W^T W."""
        return self.weight.T @ self.weight

    @property
    def fact(self) -> Matrix:
        """FACT; with an unknown weight decay times lambda."""
        return -self.weight.T @ self.gradient / (self.weight_decay or 1.0)

    @property
    def backward_fact(self) -> Matrix:
        """bFACT, to be compared with W W^T."""
        return -self.weight @ self.gradient.T / (self.weight_decay or 1.0)

    @property
    def agop(self) -> Matrix:
        """Average gradient outer product of the outputs."""
        return self.weight.T @ _required(self.output_square) @ self.weight

    @property
    def enfa(self) -> Matrix:
        """The same of the loss."""
        return self.weight.T @ _required(self.loss_square) @ self.weight

    def agop_power(self, exponent: float) -> Matrix:
        """A power of the AGOP: 1/2 is the Neural Feature Ansatz, 1/L that of deep linear networks.

        Parameters
        ----------
        exponent : the power.
        """
        return self._pulled_back(_required(self.output_square), exponent)

    def _pulled_back(self, square: Matrix, exponent: float) -> Matrix:
        """(W^T S W)^s, from the singular values of W^T S^(1/2)."""
        return symmetrized(self.weight.T @ matrix_power(square, 0.5), exponent)

    def candidates(self) -> dict[str, Matrix]:
        """What W^T W is compared with; FACT alone if only the gradient is known."""
        decay = self.weight_decay or 1.0
        found = {
            "FACT": self.fact,
            "sqrt(FACT FACT^T)": symmetrized_product(self.weight.T, self.gradient) / decay,
        }
        if self.output_square is not None:
            found |= {"AGOP": self.agop, "sqrt(AGOP)": self.agop_power(0.5)}
        if self.loss_square is not None:
            root = self._pulled_back(self.loss_square, 0.5)
            found |= {"eNFA": self.enfa, "sqrt(eNFA)": root}
        return found

    def backward_candidates(self) -> dict[str, Matrix]:
        """What W W^T is compared with."""
        decay = self.weight_decay or 1.0
        found = {
            "bFACT": self.backward_fact,
            "sqrt(bFACT bFACT^T)": symmetrized_product(self.weight, self.gradient.T) / decay,
        }
        squares = {"bAGOP": self.output_square, "beNFA": self.loss_square}
        for name, square in squares.items():
            if square is not None:
                found |= {name: square, f"sqrt({name})": matrix_power(square, 0.5)}
        return found

    def correlations(
        self, measure: "Callable[[Matrix, Matrix], float] | None" = None
    ) -> dict[str, float]:
        """How alike each candidate and what it should be are.

        Parameters
        ----------
        measure : a function of two matrices; the Pearson correlation by default.
        """
        how = pearson if measure is None else measure
        forward, backward = self.feature_matrix, self.weight @ self.weight.T
        return {name: how(forward, one) for name, one in self.candidates().items()} | {
            name: how(backward, one) for name, one in self.backward_candidates().items()
        }

    def directions(
        self, many: int = 5
    ) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k inputs"]]:
        """The largest eigenvalues of W^T W and their eigenvectors: what the layer looks at.

        Parameters
        ----------
        many : how many of them.
        """
        values, axes = np.linalg.eigh(self.feature_matrix)
        return values[::-1][:many], axes.T[::-1][:many]

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "layer": self.name,
            "shape": list(self.weight.shape),
            "pearson": {
                name: _finite_or_none(value) for name, value in self.correlations().items()
            },
            "cosine": {
                name: _finite_or_none(value) for name, value in self.correlations(cosine).items()
            },
            "residual": _finite_or_none(self.residual),
            "weight_decay": self.weight_decay,
            "implied_weight_decay": self.implied_weight_decay,
        }


@dataclass(frozen=True)
class NetworkFeatures(AbstractResult):
    """All layers of a network.

    Parameters
    ----------
    layers : the features of each layer, in the order of the network.
    title : what tables call it.
    """

    result_kind: ClassVar[str] = "network features"

    layers: tuple[LayerFeatures, ...]
    title: str = "features at convergence"

    def __getitem__(self, key: int | str) -> LayerFeatures:
        if isinstance(key, int):
            return self.layers[key]
        return {layer.name: layer for layer in self.layers}[key]

    def __len__(self) -> int:
        return len(self.layers)

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {"layers": [layer.to_json() for layer in self.layers]}

    def parts(self) -> tuple[text.Table | str, ...]:
        """The correlations of each layer, and what they mean."""
        shown = (*FORWARD, BACKWARD[0])
        rows = []
        for layer in self.layers:
            found = layer.correlations()
            numbers = [_three_digits(found.get(name, math.nan)) for name in shown]
            shape = " x ".join(map(str, layer.weight.shape))
            ends = (layer.residual, layer.implied_weight_decay)
            rows.append([layer.name, shape, *numbers, *(text.number(value, 3) for value in ends)])
        columns = ["layer", "shape", *shown, "residual", "implied decay"]
        given = self.layers[0].weight_decay
        used = "the implied one" if given is None else f"{given:g}"
        return (
            text.Table(self.title, columns, rows),
            "Pearson correlation with W^T W (bFACT: with W W^T); residual 0 at convergence, with the decay "
            + used,
        )

    def to_xarray(self) -> "xr.DataTree":
        """One node a layer, `layer_0` first, with its matrices; its name is an attribute."""
        import xarray as xr

        nodes = {f"layer_{k}": _labeled(layer) for k, layer in enumerate(self.layers)}
        tree = xr.DataTree.from_dict(nodes)
        tree.attrs = {"title": self.title}
        return tree

    @classmethod
    def from_xarray(cls, data: "xr.DataTree") -> "NetworkFeatures":
        """The features behind their labeled data.

        Parameters
        ----------
        data : what `to_xarray` gave.
        """
        nodes = (data[f"layer_{k}"] for k in range(len(data.children)))
        return cls(tuple(map(_unlabeled, nodes)), data.attrs["title"])

    def plot(
        self,
        target: "str | Path | None" = None,
        *,
        image: tuple[int, ...] | None = None,
        directions: int = 5,
    ) -> "Figure":
        """The correlations of each layer; below, what the first layer looks at.

        Parameters
        ----------
        target : a file to save the picture to.
        image : shape of one input, to show directions as images.
        directions : how many directions of the first layer are shown.
        """
        from saddlewalk.show import draw

        many = min(directions, self.layers[0].weight.shape[1])
        with draw.styled():
            figure, axes = draw.new_figure(2, many, max(6.0, 2.0 * many), 5.0, squeeze=False)
            grid = axes[0, 0].get_gridspec()
            for one in axes[0]:
                one.remove()
            self._draw_correlations(figure.add_subplot(grid[0, :]))
            _draw_directions(list(axes[1]), self.layers[0], image)
            draw.save(figure, target)
        return figure

    def _draw_correlations(self, axes: "Axes") -> None:
        """A group of bars for each layer."""
        found = [layer.correlations() for layer in self.layers]
        shown = [name for name in FORWARD if name in found[0]]
        places = np.arange(len(self.layers))
        for k, name in enumerate(shown):
            heights = [correlations.get(name, np.nan) for correlations in found]
            axes.bar(places + 0.2 * (k - (len(shown) - 1) / 2), heights, 0.18, label=name)
        axes.set_xticks(places, [layer.name for layer in self.layers])
        axes.set_ylabel("correlation with $W^T W$")
        axes.legend(fontsize=7, ncols=4, loc="lower left", bbox_to_anchor=(0, 1.0))


def _draw_directions(
    axes: "list[Axes]", layer: LayerFeatures, image: tuple[int, ...] | None
) -> None:
    """Eigenvectors of W^T W, one a panel, as bars or as images of a shape."""
    values, vectors = layer.directions(len(axes))
    for one, value, vector in zip(axes, values, vectors, strict=False):
        picture = None if image is None else _as_image(vector, image)
        if picture is None:
            one.bar(np.arange(len(vector)), vector)
        else:
            one.imshow(picture, cmap="gray")
            one.axis("off")
        one.set_title(f"eigenvalue {value:.3g}", fontsize=8)
    words = f"layer {layer.name}: directions of $W^T W$"
    axes[0].text(0.0, 1.25, words, transform=axes[0].transAxes)


_DIMENSIONS = {
    "weight": ("output", "input"),
    "gradient": ("output", "input"),
    # xarray wants two names for the two sides of a square
    "loss_square": ("output", "other_output"),
    "output_square": ("output", "other_output"),
}


def _labeled(layer: LayerFeatures) -> "xr.Dataset":
    import xarray as xr

    known = {
        name: (dimensions, getattr(layer, name))
        for name, dimensions in _DIMENSIONS.items()
        if getattr(layer, name) is not None
    }
    decay = {} if layer.weight_decay is None else {"weight_decay": float(layer.weight_decay)}
    return xr.Dataset(known, attrs={"layer": layer.name, **decay})


def _unlabeled(data: Any) -> LayerFeatures:
    matrices = {name: data[name].values for name in _DIMENSIONS if name in data}
    decay = data.attrs.get("weight_decay")
    # a file gives numbers back as NumPy's
    decay = None if decay is None else float(decay)
    return LayerFeatures(str(data.attrs["layer"]), **matrices, weight_decay=decay)


def gradient_features(
    weights: Mapping[str, Any], gradients: Mapping[str, Any], weight_decay: float | None = None
) -> NetworkFeatures:
    """FACT from matrices `(outputs, inputs)` and the gradients of the mean loss alone, of any framework.

    It needs nothing else of a network; AGOP and eNFA do, and are left out.

    Parameters
    ----------
    weights : the weight matrix of each layer, by name.
    gradients : the gradient of the mean loss with respect to each, without weight decay.
    weight_decay : lambda of the loss `mean + lambda/2 |weights|^2`; without it matrices hold up to a factor.
    """
    if not weights or set(weights) != set(gradients):
        raise InputError("Weights and gradients must be named alike, and there must be some.")
    layers = []
    for name, weight in weights.items():
        pair = (_as_numpy(weight), _as_numpy(gradients[name]))
        if pair[0].ndim != 2 or pair[0].shape != pair[1].shape:
            raise InputError(
                f"'{name}' must be a matrix with a gradient of the same shape; got {pair[0].shape} and "
                f"{pair[1].shape}."
            )
        layers.append(LayerFeatures(name, *pair, weight_decay=weight_decay))
    return NetworkFeatures(tuple(layers))


def _as_numpy(values: Any) -> np.ndarray:
    """A NumPy array of whatever holds numbers; PyTorch wants to be asked."""
    held = values.detach().cpu() if hasattr(values, "detach") else values
    return np.ascontiguousarray(held, dtype=float)


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _three_digits(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "-"


def _required(square: Matrix | None) -> Matrix:
    if square is None:
        raise InputError("AGOP and eNFA need a pass over the data; only the gradient is known.")
    return square


def _as_image(vector: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """A direction as an image, or as a square patch of one; `None` if it is neither.

    Shapes are (rows, columns), (channels, rows, columns) or (rows, columns, channels).
    """
    channels = 1 if len(shape) == 2 else min(shape)
    if vector.size == math.prod(shape):
        picture = vector.reshape(shape)
        if len(shape) == 3 and shape[0] == channels:
            picture = np.moveaxis(picture, 0, -1)
    else:
        side = math.isqrt(vector.size // channels)
        if channels * side**2 != vector.size:
            return None
        picture = np.moveaxis(vector.reshape(channels, side, side), 0, -1)
    if picture.shape[-1] == 3 and picture.ndim == 3:
        low, high = picture.min(), picture.max()
        return (picture - low) / (high - low if high > low else 1.0)
    return picture if picture.ndim == 2 else picture.mean(axis=-1)

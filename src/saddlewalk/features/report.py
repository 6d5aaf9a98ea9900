"""All layers of a network, as one result: a table, labeled data, a picture."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.features.layers import BACKWARD, FORWARD, LayerFeatures
from saddlewalk.show import text
from saddlewalk.store import AbstractResult

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_INPUTS = 2_000
"""Inputs of a layer up to which its correlations are shown unasked: they take matrices of inputs squared."""


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
            large = layer.weight.shape[1] > _MOST_INPUTS
            found = {} if large else layer.correlations()
            numbers = [_three_digits(found.get(name, math.nan)) for name in shown]
            shape = " x ".join(map(str, layer.weight.shape))
            ends = (layer.residual, layer.implied_weight_decay)
            rows.append([layer.name, shape, *numbers, *(text.number(value, 3) for value in ends)])
        columns = ["layer", "shape", *shown, "residual", "implied decay"]
        given = self.layers[0].weight_decay
        used = "the implied one" if given is None else f"{given:g}"
        wide = [one.name for one in self.layers if one.weight.shape[1] > _MOST_INPUTS]
        note = f"-: more than {_MOST_INPUTS} inputs; `correlations()` of these layers takes minutes"
        return (
            text.Table(self.title, columns, rows),
            *([note] if wide else []),
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
            width = max(7.0, 1.6 * many)
            figure, axes = draw.new_figure(2, many, width, 5.4, squeeze=False, sharey="row")
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
        axes.set_xlabel(f"layer; below, directions of $W^T W$ of layer {self.layers[0].name}")
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


def _three_digits(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "-"


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

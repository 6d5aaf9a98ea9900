"""Features along training: correlations and residuals of every layer, moment after moment.

In a loop of your own

    history = FeatureHistory()
    for epoch in range(100):
        ...
        history.record(epoch, module_features(net, batches, loss, weight_decay))
    history.plot("features.png")

and in Lightning `Trainer(callbacks=[lightning_callback(batches, loss, weight_decay)])`, which
`features.torch` has. Numbers are kept, matrices are not.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.features.layers import BACKWARD, FORWARD
from saddlewalk.features.report import NetworkFeatures
from saddlewalk.show import text
from saddlewalk.store import AbstractResult

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

RESIDUAL = "residual"
"""What is kept of a layer besides the correlations."""


class FeatureHistory(AbstractResult):
    """What `NetworkFeatures` say, over the steps of a training."""

    result_kind: ClassVar[str] = "feature history"

    def __init__(self) -> None:
        self._steps: list[float] = []
        self._found: list[dict[str, dict[str, float]]] = []
        """At each step, by layer: the correlation of each matrix, and last the residual."""

    def record(self, step: float, features: NetworkFeatures) -> dict[str, float]:
        """Keep one moment; its numbers by "layer/measure", as loggers want them.

        Parameters
        ----------
        step : when: an epoch, a number of updates, or a time.
        features : the features of the network then.
        """
        now = {
            layer.name: layer.correlations() | {RESIDUAL: layer.residual}
            for layer in features.layers
        }
        if self._found and _layers_and_measures(now) != _layers_and_measures(self._found[0]):
            raise InputError(
                "The layers, or what is known of them, changed since the first record."
            )
        self._steps.append(step)
        self._found.append(now)
        return {
            f"{name}/{measure}": value
            for name, numbers in now.items()
            for measure, value in numbers.items()
        }

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers; none before the first record."""
        return tuple(self._found[0]) if self._found else ()

    def series(self, layer: str, measure: str) -> list[float]:
        """One number along the steps.

        Parameters
        ----------
        layer : name of a layer.
        measure : "FACT", "sqrt(AGOP)", ..., or "residual".
        """
        return [now[layer][measure] for now in self._found]

    def parts(self) -> tuple[text.Table | str, ...]:
        """FACT, AGOP and residual of each layer, at the first and the last record."""
        if not self._found:
            return ("features along training: nothing has been recorded yet",)
        shown = [name for name in (FORWARD[0], FORWARD[2], RESIDUAL) if name in self._measures()]
        rows = [
            [layer, *(_first_to_last(self.series(layer, name)) for name in shown)]
            for layer in self.layers
        ]
        title = (
            f"features along training: {len(self)} records, "
            f"step {self._steps[0]:g} to {self._steps[-1]:g}"
        )
        meaning = (
            "Pearson correlation with W^T W, and the residual, at the first and the last record"
        )
        return (text.Table(title, ["layer", *shown], rows), meaning)

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "step": list(self._steps),
            "layers": {
                layer: {
                    name: _finite_or_none(self.series(layer, name)) for name in self._measures()
                }
                for layer in self.layers
            },
        }

    def to_xarray(self) -> "xr.Dataset":
        """Pearson correlations `(step, layer, matrix)` and residuals `(step, layer)`."""
        import xarray as xr

        if not self._found:
            raise InputError("Nothing has been recorded yet.")
        numbers = np.array(
            [[list(now[layer].values()) for layer in self.layers] for now in self._found]
        )
        return xr.Dataset(
            {
                "pearson": (("step", "layer", "matrix"), numbers[..., :-1]),
                RESIDUAL: (("step", "layer"), numbers[..., -1]),
            },
            {"step": self._steps, "layer": list(self.layers), "matrix": self._measures()[:-1]},
        )

    @classmethod
    def from_xarray(cls, data: "xr.Dataset") -> "FeatureHistory":
        """The history behind its labeled data, to which more can be added.

        Parameters
        ----------
        data : what `to_xarray` gave.
        """
        layers, matrices = (list(map(str, data[name].values)) for name in ("layer", "matrix"))
        history = cls()
        history._steps = data["step"].values.tolist()
        for pearson, residual in zip(data["pearson"].values, data[RESIDUAL].values, strict=True):
            history._found.append(
                {
                    layer: dict(
                        zip([*matrices, RESIDUAL], [*map(float, row), float(last)], strict=True)
                    )
                    for layer, row, last in zip(layers, pearson, residual, strict=True)
                }
            )
        return history

    def plot(self, target: "str | Path | None" = None, *, backward: bool = False) -> "Figure":
        """One panel a layer: correlation with W^T W over the steps.

        Parameters
        ----------
        target : a file to save the picture to.
        backward : compare with W W^T instead.
        """
        from saddlewalk.show import draw

        with draw.styled():
            figure = draw_history(self.to_xarray(), backward)
            draw.save(figure, target)
        return figure

    def _measures(self) -> list[str]:
        return list(self._found[0][self.layers[0]]) if self._found else []


def draw_history(found: "xr.Dataset", backward: bool = False, unit: str = "step") -> "Figure":
    """Panels of a history, one a layer.

    Parameters
    ----------
    found : correlations `(step, layer, matrix)`, as `FeatureHistory.to_xarray` gives them.
    backward : compare with W W^T instead of W^T W.
    unit : what a step is called.
    """
    from saddlewalk.show import draw

    figure, axes = draw.new_figure(
        1, found.sizes["layer"], max(4.0, 2.9 * found.sizes["layer"]), 3.2, squeeze=False
    )
    for one, layer in zip(axes[0], found["layer"].values, strict=True):
        for matrix in BACKWARD if backward else FORWARD:
            if matrix in found["matrix"]:
                one.plot(
                    found["step"], found["pearson"].sel(layer=layer, matrix=matrix), label=matrix
                )
        one.set(xlabel=unit, title=str(layer), ylim=(None, 1.02))
    axes[0, 0].set_ylabel("correlation with $W W^T$" if backward else "correlation with $W^T W$")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _layers_and_measures(numbers: dict[str, dict[str, float]]) -> dict[str, list[str]]:
    return {layer: list(measures) for layer, measures in numbers.items()}


def _finite_or_none(values: list[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]


def _first_to_last(values: list[float]) -> str:
    return f"{text.number(values[0], 3)} to {text.number(values[-1], 3)}"

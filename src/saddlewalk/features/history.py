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

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from saddlewalk.errors import InputError
from saddlewalk.features.layers import NetworkFeatures

FORWARD = ("FACT", "sqrt(FACT FACT^T)", "sqrt(AGOP)", "sqrt(eNFA)")
BACKWARD = ("bFACT", "sqrt(bFACT bFACT^T)", "sqrt(bAGOP)", "sqrt(beNFA)")


class FeatureHistory:
    """What `NetworkFeatures` say, over the steps of a training."""

    def __init__(self) -> None:
        self._steps: list[float] = []
        self._found: list[dict[str, tuple[dict[str, float], float]]] = []

    def record(self, step: float, features: NetworkFeatures) -> dict[str, float]:
        """Keep one moment; its numbers by "layer/measure", as loggers want them."""
        now = {layer.name: (layer.correlations(), layer.residual) for layer in features.layers}
        if self._found and list(now) != list(self._found[0]):
            raise InputError("The layers have changed since the first record.")
        self._steps.append(step)
        self._found.append(now)
        return {
            f"{name}/{measure}": value
            for name, (correlations, residual) in now.items()
            for measure, value in (correlations | {"residual": residual}).items()
        }

    def __len__(self) -> int:
        return len(self._steps)

    def to_xarray(self) -> xr.Dataset:
        """Pearson correlations `(step, layer, matrix)` and residuals `(step, layer)`."""
        if not self._found:
            raise InputError("Nothing has been recorded yet.")
        layers = list(self._found[0])
        matrices = list(self._found[0][layers[0]][0])
        pearson = [[list(now[name][0].values()) for name in layers] for now in self._found]
        residual = [[now[name][1] for name in layers] for now in self._found]
        return xr.Dataset(
            {
                "pearson": (("step", "layer", "matrix"), np.array(pearson)),
                "residual": (("step", "layer"), np.array(residual)),
            },
            {"step": self._steps, "layer": layers, "matrix": matrices},
        )

    def plot(self, target: str | Path, backward: bool = False) -> None:
        """One panel a layer: correlation with W^T W (or W W^T) over the steps."""
        from saddlewalk.show import draw

        with draw.styled():
            draw.save(draw_history(self.to_xarray(), backward), target)


def draw_history(found: xr.Dataset, backward: bool = False, unit: str = "step") -> Any:
    """Panels of a history `(step, layer, matrix)`, one a layer."""
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

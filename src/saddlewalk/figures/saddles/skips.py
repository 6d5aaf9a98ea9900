"""Fig 6 of Saddle-to-Saddle Dynamics: four layers, with and without a skip."""

from typing import Any

import numpy as np

from saddlewalk.figures.claims import Claim, FigureResult, falls, listed
from saddlewalk.figures.saddles.panels import identity_map, jump_times, small_start, two_points
from saddlewalk.flow import Trajectory, train
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.show import draw
from saddlewalk.units import Deep, Dense

SKIPS: dict[str, tuple[tuple[int, int], ...]] = {
    "no skip": (),
    "skip 1": ((1, 2),),
    "skip 2": ((1, 3),),
}
EPS = 0.002
"""The paper does not print its scale."""
_END = {"no skip": 4e4, "skip 1": 800.0, "skip 2": 60.0}


def figure_6(width: int = 50) -> FigureResult:
    """Loss of linear and ReLU networks with four layers: the more is skipped, the faster.

    Parameters
    ----------
    width : units of each hidden layer.
    """
    runs = {name: {skip: _run(name, skip, width) for skip in SKIPS} for name in ("linear", "relu")}
    first = {name: [jump_times(path)[0] for path in each.values()] for name, each in runs.items()}
    counts = {
        name: [len(jump_times(path)) for path in each.values()] for name, each in runs.items()
    }
    return FigureResult(
        "saddle-6",
        "saddle-to-saddle dynamics with skip connections",
        (
            *(
                Claim(
                    f"({letter}) {name}: all three networks have several jumps",
                    str(counts[name]),
                    min(counts[name]) >= 2,
                )
                for letter, name in zip("BC", runs, strict=True)
            ),
            *(
                Claim(
                    f"({letter}) {name}: the more layers are skipped, the faster (first jump)",
                    listed(first[name]),
                    falls(first[name]),
                )
                for letter, name in zip("BC", runs, strict=True)
            ),
            Claim(
                "skip 1: the second layer stays where it started while the first learns "
                "(growth of W2 / growth of W1, below 0.1)",
                f"{_unused(runs['linear']['skip 1'], width):.3g}",
                _unused(runs["linear"]["skip 1"], width) < 0.1,
            ),
        ),
        _draw(runs),
        {"first_jump": first, "jumps": counts},
    )


@in_float64
def _run(name: str, skip: str, width: int) -> Trajectory:
    task = identity_map() if name == "linear" else two_points()
    units = Deep((Dense(width, name),) * 3, SKIPS[skip])
    start = small_start(Problem(task, units), EPS, 0)
    return train(
        task, units, 1.0, start=start, max_time=_END[skip], convergence=1e-8, solver="explicit",
        tolerance=1e-6 if name == "linear" else None, progress=False,
    )  # fmt: skip


def _unused(path: Trajectory, width: int) -> float:
    """How far the second layer went from its start, relative to the first (largest singular values)."""
    gone = (path.parameters[-1] - path.parameters[0]).ravel()
    first = gone[: 2 * width].reshape(width, 2)
    second = gone[2 * width : 2 * width + width**2].reshape(width, width)
    return float(np.linalg.norm(second, 2) / np.linalg.norm(first, 2))


def _draw(runs: dict[str, dict[str, Trajectory]]) -> Any:
    with draw.styled():
        figure, axes = draw.new_figure(2, 2, width=9, height=6)
        for column, (name, each) in enumerate(runs.items()):
            for skip, path in each.items():
                for row in axes[:, column]:
                    row.plot(path.time, path.loss, label=skip)
            last = max(jump_times(path)[-1] for path in each.values())
            axes[0, column].set_xlim(0, 1.3 * last)
            axes[1, column].set_xscale("log")
            axes[1, column].set_xlim(0.3, 3 * last)
            axes[0, column].set_title(f"({'BC'[column]}) {name}")
            for row in axes[:, column]:
                row.legend(fontsize=8)
                row.set_xlabel("time (learning rate 1)")
                row.set_ylabel("loss")
    return figure

"""Depth for width: exact networks for k factors, and what small deep networks learn, representation by
representation.
"""

from typing import Any

import numpy as np

from saddlewalk.figures.claims import Claim, FigureResult, listed
from saddlewalk.flow import Trajectory, train
from saddlewalk.groups import group_named
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.show import draw
from saddlewalk.tasks import group_composition
from saddlewalk.theory.composition import exact_network, recurrent_network, tree_network
from saddlewalk.theory.composition.deep import exact_sizes
from saddlewalk.units import PowerOfSum, ProductTree, Recurrent

_GROUP = "D3"
_CHECKED = (2, 3, 4)
_SPECTRUM = {1: 4.0, 2: 2.4}
_WIDTH = 24
_SMALL, _ORDINARY = 0.3, 1.0
_STEPS = 3000
_EXACT = 1e-20
_EXACT_NAMES = ("two layers", "recurrent", "tree")


@in_float64
def figure_depth(full: bool = False) -> FigureResult:
    """Width of exact networks against the number of factors; recurrent networks and trees, trained.

    Exact networks compose in the dihedral group of 6 elements. Trained ones, of 24 neurons a layer, compose
    three (recurrent) and four (tree) elements of the cyclic group of 5, from a small and an ordinary start.

    Parameters
    ----------
    full : exact networks for five factors, too.
    """
    group = group_named(_GROUP)
    x = _encoding()
    checked = (*_CHECKED, 5) if full else _CHECKED
    losses = {name: [_exact_loss(name, k) for k in checked] for name in _EXACT_NAMES}
    factors = list(range(2, 9))
    sizes = {k: exact_sizes(group, x, k) for k in factors}
    growth = [sizes[k + 1]["two layers"].width / sizes[k]["two layers"].width for k in factors[:-1]]
    runs = {
        (kind.__name__, scale): _trained(kind, k, scale)
        for kind, k in ((Recurrent, 3), (ProductTree, 4))
        for scale in (_SMALL, _ORDINARY)
    }
    small = runs["Recurrent", _SMALL]
    halves = _halves(small)
    claims = (
        Claim(
            f"two layers, recurrent and tree compose {list(checked)} elements exactly: largest loss",
            f"{max(max(one) for one in losses.values()):.1e}",
            max(max(one) for one in losses.values()) < _EXACT,
        ),
        Claim(
            "two layers need a width that at least doubles with each factor",
            listed(growth),
            min(growth) >= 2,
        ),
        Claim(
            "a recurrent network keeps its width, and takes k - 1 steps",
            str([sizes[k]["recurrent"].width for k in factors]),
            len({sizes[k]["recurrent"].width for k in factors}) == 1,
        ),
        Claim(
            "a tree has log2 k layers",
            str([sizes[k]["tree"].depth for k in factors]),
            [sizes[k]["tree"].depth for k in factors] == [1, 2, 2, 3, 3, 3, 3],
        ),
        Claim(
            "from a small start a recurrent network learns one frequency, then the other: times of half",
            listed(halves),
            len(halves) == 2 and halves[1] > 3 * halves[0],
        ),
        Claim(
            "from an ordinary start both deep networks learn everything: last loss over the first",
            listed([_left(runs[kind, _ORDINARY]) for kind in ("Recurrent", "ProductTree")]),
            max(_left(runs[kind, _ORDINARY]) for kind in ("Recurrent", "ProductTree")) < 1e-3,
        ),
        Claim(
            "from a small start the tree learns one frequency and stays: parts learned at the end",
            listed(_strengths(runs["ProductTree", _SMALL])[-1].tolist()),
            bool(_strengths(runs["ProductTree", _SMALL])[-1, 0] > 0.9),
        ),
    )
    return FigureResult(
        "group-depth",
        "depth instead of width",
        claims,
        _draw(factors, sizes, runs),
        {
            "width": {name: [sizes[k][name].width for k in factors] for name in _EXACT_NAMES},
            "depth": {name: [sizes[k][name].depth for k in factors] for name in _EXACT_NAMES},
            "weights": {name: [sizes[k][name].weights for k in factors] for name in _EXACT_NAMES},
            "exact_loss": losses,
        },
    )


def _encoding() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=group_named(_GROUP).order)
    return x - x.mean()


def _exact_loss(name: str, k: int) -> float:
    group, x = group_named(_GROUP), _encoding()
    units: Any
    if name == "two layers":
        theta = exact_network(group, x, k)
        units = PowerOfSum(len(theta), k)
    else:
        make: Any = recurrent_network if name == "recurrent" else tree_network
        units, theta = make(group, x, k)
    return float(Problem(group_composition(group, k, x), units).loss(theta))


def _trained(kind: Any, k: int, scale: float) -> Trajectory:
    task = group_composition("C5", k, _SPECTRUM)
    return train(task, kind(_WIDTH, k), scale, max_steps=_STEPS, progress=False)


def _strengths(path: Trajectory) -> np.ndarray:
    return path.data["strength"].values


def _halves(path: Trajectory) -> list[float]:
    """When half of each mode is there, of those of which it ever is."""
    strength, moments = _strengths(path), path.data["saved"].values
    reached = [column for column in strength.T if (column > 0.5).any()]
    return [float(moments[np.argmax(column > 0.5)]) for column in reached]


def _left(path: Trajectory) -> float:
    return float(path.loss[-1] / path.loss[0])


def _draw(factors: list[int], sizes: Any, runs: dict[tuple[str, float], Trajectory]) -> Any:
    with draw.styled():
        figure, axes = draw.new_figure(2, 3, width=12.0, height=6.8)
        for name in _EXACT_NAMES:
            for panel, field in ((axes[0, 0], "width"), (axes[1, 0], "depth")):
                values = [getattr(sizes[k][name], field) for k in factors]
                panel.plot(factors, values, "o-", label=name, markersize=4)
        axes[0, 0].set_yscale("log")
        axes[0, 0].set_title(f"exact networks in {_GROUP}", fontsize=10)
        axes[0, 0].set_ylabel("width (neurons at a time)")
        axes[1, 0].set_ylabel("depth (hidden layers, steps)")
        axes[1, 0].set_xlabel("factors k")
        axes[0, 0].legend()
        for column, kind in enumerate(("Recurrent", "ProductTree"), start=1):
            for row, scale in enumerate((_SMALL, _ORDINARY)):
                _draw_run(axes[row, column], runs[kind, scale], kind, scale)
    return figure


def _draw_run(axes: Any, path: Trajectory, kind: str, scale: float) -> None:
    moments = path.data["saved"].values
    for k, mode in enumerate(path.info["modes"]):
        axes.plot(moments, _strengths(path)[:, k], linewidth=2, label=mode["name"])
    axes.plot(path.time, path.loss / path.loss[0], color="0.5", label="loss / first loss")
    axes.set_xscale("log")
    after = moments[moments > 0]
    axes.set_xlim(1e-4 * float(after[-1]), float(after[-1]))
    axes.set_ylim(-0.1, 1.2)
    words = {"Recurrent": "recurrent, 3 factors", "ProductTree": "tree, 4 factors"}[kind]
    start = "small start" if scale == _SMALL else "ordinary start"
    axes.set_title(f"{words}, {start} ({scale:g})", fontsize=10)
    axes.set_xlabel("time (learning rate 1)")
    axes.set_ylabel("part learned")
    axes.legend(fontsize=8)

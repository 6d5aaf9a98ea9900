"""Staircases of five groups: two layers learn one representation at a time, with a rate for each neuron.

The paper's spectra are not printed: those here are chosen so that utilities are clearly apart. By default the
networks are as narrow as two cores want them; `full` has the paper's width of 6|G|.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from saddlewalk.agreement import Agreement, compare
from saddlewalk.agreement.composition import by_representation, power
from saddlewalk.figures.claims import Claim, FigureResult, listed
from saddlewalk.flow import Trajectory, train
from saddlewalk.precision import in_float64
from saddlewalk.problem import compiled
from saddlewalk.show import draw
from saddlewalk.tasks import GroupComposition, group_composition
from saddlewalk.theory import predict
from saddlewalk.theory.composition import ordered_parts
from saddlewalk.theory.composition.theory import order_by_power
from saddlewalk.units import PowerOfSum

_SCALE = 1e-3
_LONGER = 1.3
_MOMENTS = 400
_WIDE = 6
_STEPS = 20_000
_A5_END, _A5_END_FULL = 1.0, 30.0
"""Where the flow of 60 elements is cut: AGF, which would say it, takes a minute there."""

Spectrum = Mapping[Any, float]


def figure_c11(full: bool = False) -> FigureResult:
    """Cyclic group of 11 elements: three frequencies, one after the other.

    Parameters
    ----------
    full : at the paper's width.
    """
    return _staircase("group-c11", "C11", {1: 10.0, 3: 6.0, 5: 3.6}, 30, full)


def figure_c5xc5(full: bool = False) -> FigureResult:
    """Product of two cyclic groups of 5 elements: three pairs of frequencies, one after the other.

    Parameters
    ----------
    full : at the paper's width.
    """
    return _staircase("group-c5xc5", "C5xC5", {"1.0": 14.0, "0.1": 9.0, "1.1": 6.0}, 36, full)


def figure_d5(full: bool = False) -> FigureResult:
    """Dihedral group of 10 elements: two planes and a sign, one after the other.

    Parameters
    ----------
    full : at the paper's width.
    """
    return _staircase("group-d5", "D5", {"2d-1": 9.0, "2d-2": 6.0, "sign": 4.2}, 40, full)


def figure_octahedral(full: bool = False) -> FigureResult:
    """Rotations of a cube, 24 elements: a sign is learned before a plane of more power.

    Parameters
    ----------
    full : at the paper's width.
    """
    return _staircase("group-octahedral", "O", {"sign": 16.0, "2d": 12.5}, 24, full)


def figure_a5(full: bool = False) -> FigureResult:
    """Rotations of an icosahedron, 60 elements: a representation of dimension 3, and the other one after it.

    Parameters
    ----------
    full : at the paper's width, with both; by default 30 neurons learn the first.
    """
    spectrum = {"3d-1": 30.0, "3d-2": 18.0} if full else {"3d-1": 30.0}
    end = _A5_END_FULL if full else _A5_END
    return _staircase("group-a5", "A5", spectrum, 30, full, end=end)


@in_float64
def _staircase(
    name: str, group: str, spectrum: Spectrum, width: int, full: bool, end: float | None = None
) -> FigureResult:
    task = group_composition(group, 2, spectrum)
    units = PowerOfSum(_WIDE * task.order if full else width, 2)
    order = list(dict.fromkeys(part.representation.name for part in ordered_parts(task)))
    stairs = None if end else predict(task, units, _SCALE, adaptive=True, progress=False)
    last = math.inf if stairs is None else _LONGER * stairs.jump_times[-1]
    path = train(
        *(task, units, _SCALE),
        adaptive=True,
        max_time=end or last,
        max_steps=_STEPS,
        progress=False,
    )
    seen, levels = _learned(path), _levels(task)
    rests = _levels_seen(path, levels)
    theta = path.parameters[-1]
    lengths = np.asarray(compiled.feature_lengths(path.problem, theta))
    heard = lengths > 0.01 * lengths.max()
    purity = by_representation(task, theta)[heard].max(axis=1)
    shown = path if stairs is None else compare(stairs, path)
    errors = shown.time_error if isinstance(shown, Agreement) else []
    far = [abs(a - b) / levels[0] for a, b in zip(rests, levels, strict=True)]
    claims = [
        Claim(
            f"representations in the order of their utilities, {order}", str(seen), seen == order
        ),
        Claim(
            f"levels {listed(levels)} between them, within 3% of the first loss",
            listed(rests),
            max(far) < 0.03,
        ),
        Claim(
            "neurons sort by representation: median part of a neuron's weights in one",
            f"{np.median(purity):.4g}",
            float(np.median(purity)) > 0.9,
        ),
    ]
    if stairs is not None:
        claims.append(Claim("AGF has the jump times within 2%", listed(errors), max(errors) < 0.02))
    if list(order_by_power(task)) != order:
        other = order_by_power(task)[0]
        claims.append(
            Claim(f"what has most power, {other}, is not learned first", seen[0], seen[0] != other)
        )
    title = f"{task.group.name}, {task.order} elements, {units.width} neurons"
    return FigureResult(
        name,
        f"one representation after the other in {group}",
        tuple(claims),
        _draw(path, stairs, task, levels, title),
        {"order": seen, "levels": rests, "levels_predicted": levels, "time_error": errors},
        {title: shown},
    )


def _levels(task: GroupComposition) -> list[float]:
    """The loss before, between and after the representations."""
    shares: dict[str, float] = {}
    for part in ordered_parts(task):
        key = part.representation.name
        shares[key] = shares.get(key, 0.0) + part.share(task.order)
    left = list(shares.values())
    return [float(sum(left[k:])) for k in range(len(left) + 1)]


def _levels_seen(path: Trajectory, levels: list[float]) -> list[float]:
    """The simulated loss at the start, where it is slowest between its two neighbors, and at the end."""
    found = [float(path.loss[0])]
    for above, level, below in zip(levels, levels[1:], levels[2:], strict=False):
        near = (path.loss < 0.5 * (above + level)) & (path.loss > 0.5 * (level + below))
        rows = np.flatnonzero(near[1:-1]) + 1
        pace = np.abs(np.gradient(path.loss, np.log(np.maximum(path.time, 1e-12))))
        found.append(float(path.loss[rows[np.argmin(pace[rows])]]) if len(rows) else float("nan"))
    return [*found, float(path.loss[-1])]


def _learned(path: Trajectory) -> list[str]:
    """Representations in the order in which half of each is there."""
    names = [mode["name"] for mode in path.info["modes"]]
    strength = path.data["strength"].values
    moments = {
        name: int(np.argmax(strength[:, k] > 0.5))
        for k, name in enumerate(names)
        if (strength[:, k] > 0.5).any()
    }
    return sorted(moments, key=lambda name: moments[name])


def _draw(
    path: Trajectory, stairs: Any, task: GroupComposition, levels: list[float], title: str
) -> Any:
    moments = path.data["saved"].values
    rows = np.unique(np.linspace(0, len(moments) - 1, min(_MOMENTS, len(moments))).astype(int))
    grown = np.array(
        [power(task, np.asarray(compiled.function(path.problem, path.parameters[k]))) for k in rows]
    )
    wanted = power(task, np.asarray(task.y))
    with draw.styled():
        figure, (upper, lower) = draw.new_figure(2, 1, height=6.4, sharex=True)
        for k, name in enumerate(task.pairs):
            line = upper.plot(moments[rows], grown[:, k], linewidth=2, label=name)[0]
            upper.axhline(wanted[k], color=line.get_color(), linestyle=":", linewidth=0.9)
        upper.set_ylabel("output power")
        upper.set_title(title)
        upper.legend()
        draw.loss_curve(lower, path.time, path.loss)
        if stairs is not None:
            draw.staircase(lower, stairs, end=float(path.time[-1]))
        for level in levels:
            lower.axhline(level, color="0.6", linestyle=":", linewidth=0.9)
        lower.legend()
        visible = path.time[path.time > 0]
        lower.set_xscale("log")
        lower.set_xlim(max(float(visible[0]), 1e-3 * float(visible[-1])), float(visible[-1]))
    return figure

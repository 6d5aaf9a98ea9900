"""Names beside points of a picture: each where there is room for it, none on top of another."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 32
"""Letters of a name; the rest is in the table."""
_SHORTEST = 14
"""Letters that are tried where there is no room for more."""
_HEIGHTS = (6, 13, 23, -13, 33, -21, -31)
"""Places above and below a point that are tried, in points."""
_SIDES = (("left", 2), ("right", -2), ("left", 16), ("right", -24), ("right", -48))
"""And to its sides."""
_A_NUMBER = 3
"""Letters of names that stay beside their points: further away they would be read as another's."""
_GAP = 2.0
"""Room between two names, in pixels."""
_APART, _LONG = 3.0, 3000.0
"""Pixels between two places of a line that are looked at, and of the longest piece of it."""


def name_points(axes: "Axes", points: Sequence[tuple[float, float, str]], **look: Any) -> int:
    """Write names beside points, those that come first with the best places; how many found no room.

    To be called last: what is drawn later, a legend or another scale, takes no notice of the names.

    Parameters
    ----------
    axes : where to write.
    points : x, y and name of each.
    **look : options of Matplotlib's text.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # now the axes have their size
    legend = axes.get_legend()
    taken = [legend.get_window_extent()] if legend is not None else []
    drawn = _pixels_of_lines(axes)
    return sum(
        not any(
            _find_room(axes, x, y, _short(name, most), taken, drawn, look)
            for most in (_LONGEST, _SHORTEST)
        )
        for x, y, name in points
        if name
    )


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1].rstrip(" +,") + "…"


def _pixels_of_lines(axes: "Axes") -> np.ndarray:
    """Where lines run, `(points, 2)` in pixels, a few apart; names stay clear of them."""
    runs = [np.zeros((0, 2))]
    for line in axes.lines:
        data = np.asarray(line.get_xydata(), dtype=float)
        if str(line.get_drawstyle()).startswith("steps"):
            data = np.column_stack([np.repeat(data[:, 0], 2)[1:], np.repeat(data[:, 1], 2)[:-1]])
        with np.errstate(all="ignore"):
            places = line.get_transform().transform(data)
        places = places[np.isfinite(places).all(axis=1)]
        if len(places) > 1:
            steps = np.minimum(np.abs(np.diff(places, axis=0)).max(axis=1), _LONG)
            many = np.maximum(steps // _APART, 1).astype(int)
            begin = np.repeat(np.cumsum(many) - many, many)
            part = (np.arange(many.sum()) - begin) / np.repeat(many, many)
            start = np.repeat(places[:-1], many, axis=0)
            runs.append(start + part[:, None] * np.repeat(np.diff(places, axis=0), many, axis=0))
        runs.append(places)
    return np.concatenate(runs)


def _find_room(
    axes: "Axes",
    x: float,
    y: float,
    name: str,
    taken: list[Any],
    drawn: np.ndarray,
    look: dict[str, Any],
) -> bool:
    """Write a name at the first place that is free, and remember that it is taken; else leave it out."""
    room = axes.get_window_extent()
    for height in _HEIGHTS:
        for side, aside in _SIDES[:2] if len(name) <= _A_NUMBER else _SIDES:
            note = axes.annotate(
                name,
                (x, y),
                xytext=(aside, height),
                textcoords="offset points",
                ha=side,
                annotation_clip=False,
                **{"fontsize": 8, **look},
            )
            note.set_in_layout(False)  # or the axes would shrink for it
            box = note.get_window_extent().padded(_GAP)
            inside = box.x0 >= room.x0 and box.x1 <= room.x1 and box.y0 >= room.y0
            free = not any(box.overlaps(other) for other in taken) and not _crosses(drawn, box)
            if inside and box.y1 <= room.y1 and free:
                taken.append(box)
                return True
            note.remove()
    return False


def _crosses(drawn: np.ndarray, box: Any) -> bool:
    """Whether a line runs through a box."""
    x, y = drawn.T
    return bool(((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)).any())

"""Names beside points of a picture: each where there is room for it, none on top of another."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 32
"""Letters of a name; the rest is in the table."""
_HEIGHTS = (3, 13, 23, -11, 33, -21)
"""Places above and below a point that are tried, in points."""
_GAP = 2.0
"""Room between two names, in pixels."""


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
    return sum(not _find_room(axes, x, y, _short(name), taken, look) for x, y, name in points)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1].rstrip(" +,") + "…"


def _find_room(
    axes: "Axes", x: float, y: float, name: str, taken: list[Any], look: dict[str, Any]
) -> bool:
    """Write a name at the first place that is free, and remember that it is taken; else leave it out."""
    room = axes.get_window_extent()
    for height in _HEIGHTS:
        for side, aside in (("left", 2), ("right", -2)):
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
            if inside and box.y1 <= room.y1 and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                return True
            note.remove()
    return False

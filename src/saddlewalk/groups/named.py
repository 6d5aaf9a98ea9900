"""Groups by name: C7, D5, S4, A5, Q8, O, Oh, and products such as C5xC5."""

import functools
import re
from collections.abc import Callable

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.groups.families import (
    alternating,
    cyclic,
    dihedral,
    octahedral,
    product,
    quaternion,
    symmetric,
)
from saddlewalk.groups.group import Group, Table, from_table

_FAMILIES: dict[str, Callable[[int], Group]] = {
    "C": cyclic,
    "D": dihedral,
    "S": symmetric,
    "A": alternating,
    "Q": quaternion,
}
_REMEMBERED = 32


def group_named(name: str) -> Group:
    """A group by its name.

    Parameters
    ----------
    name : C7 (cyclic), D5 (dihedral, 10 elements), S4 (symmetric), A5 (alternating), Q8 (quaternion), O
        (rotations of a cube), Oh (with reflections), or a product of these, C5xC5.
    """
    return _made(str(name))


@functools.lru_cache(_REMEMBERED)
def _made(name: str) -> Group:
    parts = name.split("x")
    if len(parts) > 1:
        return product(*map(group_named, parts))
    if name in ("O", "Oh"):
        return octahedral(full=name == "Oh")
    match = re.fullmatch(r"([CDSAQ])([0-9]+)", name)
    if match is None:
        raise InputError(
            f"There is no group '{name}'. Groups: C7, D5, S4, A5, Q8, O, Oh, and products such as C5xC5; any "
            "other from `groups.from_permutations`, `from_matrices` or `from_table`."
        )
    return _FAMILIES[match[1]](int(match[2]))


def group_with_table(name: str, table: Table) -> Group:
    """The group with this table: that of its name, with the names of its representations, where that has it.

    Parameters
    ----------
    name : what it is called.
    table : its multiplication table.
    """
    return _with_table(name, np.asarray(table).tobytes(), len(table), str(np.asarray(table).dtype))


@functools.lru_cache(_REMEMBERED)
def _with_table(name: str, held: bytes, order: int, kind: str) -> Group:
    table = np.frombuffer(held, dtype=kind).reshape(order, order)
    try:
        known = group_named(name)
    except InputError:
        return from_table(table, name)
    same = known.order == order and bool((known.table == table).all())
    return known if same else from_table(table, name)

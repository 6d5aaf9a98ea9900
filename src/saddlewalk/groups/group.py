r"""A finite group is its multiplication table: :math:`\text{table}[a, b] = ab`, elements counted from 0.

It acts on functions by :math:`(g \cdot x)[h] = x[g^{-1} h]`; then :math:`g \cdot (h \cdot x) = (gh) \cdot x`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from saddlewalk.errors import InputError, nearest
from saddlewalk.show import text

if TYPE_CHECKING:
    from saddlewalk.groups.representations import Representation

Table = Int[np.ndarray, "order order"]


@dataclass(frozen=True, eq=False)
class Group:
    """A finite group. Make one by its family (`dihedral(5)`), by name (`group_named("D5")`), from generators
    (`from_permutations`, `from_matrices`), or from a table (`from_table`), which is checked.

    Parameters
    ----------
    name : what tables call it.
    table : `table[a, b]` is the number of the product ab.
    elements : what the elements are called.
    """

    name: str
    table: Table
    elements: tuple[str, ...]
    _known: "Callable[[Group], tuple[Representation, ...]] | None" = field(default=None, repr=False)
    """Representations in closed form, where a family has them."""

    @property
    def order(self) -> int:
        """Number of elements."""
        return len(self.table)

    @cached_property
    def identity(self) -> int:
        """The element that changes nothing."""
        return int(np.flatnonzero((self.table == np.arange(self.order)).all(axis=1))[0])

    @cached_property
    def inverse(self) -> Int[np.ndarray, " order"]:
        """The inverse of each element."""
        return np.argmax(self.table == self.identity, axis=1)

    @cached_property
    def quotients(self) -> Table:
        r""":math:`g^{-1} h` for all g and h: where the translate by g looks for its values."""
        return self.table[self.inverse]

    @property
    def commutative(self) -> bool:
        """Whether ab = ba for all elements."""
        return bool((self.table == self.table.T).all())

    @cached_property
    def classes(self) -> tuple[tuple[int, ...], ...]:
        """Conjugacy classes, each with its elements."""
        conjugates = self.table[self.table, self.inverse[:, None]]  # [g, h]: g h g^-1
        found = {tuple(np.unique(conjugates[:, h]).tolist()) for h in range(self.order)}
        return tuple(sorted(found))

    @cached_property
    def representations(self) -> "tuple[Representation, ...]":
        """The real irreducible representations, the trivial one first, small ones before large ones."""
        from saddlewalk.groups.representations import decompose

        return self._known(self) if self._known is not None else decompose(self)

    def representation(self, name: str | int) -> "Representation":
        """A representation by name; for frequency-3 of a cyclic group "3" suffices.

        Parameters
        ----------
        name : one of `representations`; a near miss is told the name that it is near to.
        """
        names = [one.name for one in self.representations]
        for wanted in (str(name), f"frequency-{name}"):
            if wanted in names:
                return self.representations[names.index(wanted)]
        raise InputError(f"{self.name} has no representation '{name}'.{nearest(str(name), names)}")

    def compose(self, *factors: Any) -> Any:
        """The product of elements, from left to right; arrays multiply entry by entry.

        Parameters
        ----------
        *factors : numbers of elements.
        """
        result = np.asarray(self.identity)
        for factor in factors:
            result = self.table[result, factor]
        return result

    def orbit(self, x: Float[np.ndarray, " order"]) -> Float[np.ndarray, "order order"]:
        """All translates of a function: row g is g . x.

        Parameters
        ----------
        x : a number for each element.
        """
        return np.asarray(x)[self.quotients]

    def __str__(self) -> str:
        rows = [
            [one.name, str(one.dimension), one.type, text.number(float(one.multiplicity))]
            for one in self.representations
        ]
        head = f"{self.name}: {self.order} elements, {len(self.classes)} conjugacy classes"
        return str(text.Table(head, ["representation", "dimension", "type", "times"], rows))


def from_table(table: Any, name: str = "group", elements: Any = None) -> Group:
    """A group from its multiplication table, checked: closure, identity, inverses, associativity.

    Parameters
    ----------
    table : whole numbers `(order, order)`; entry [a, b] is the number of ab, counted from 0.
    name : what tables call it.
    elements : what the elements are called; numbers by default.
    """
    products = _checked_table(table)
    words = tuple(map(str, range(len(products)) if elements is None else elements))
    if len(words) != len(products):
        raise InputError(f"`elements` must name {len(products)} elements; there are {len(words)}.")
    return Group(name, products, words)


def _checked_table(table: Any) -> Table:
    try:
        given = np.asarray(table, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"A table must hold whole numbers; got {table!r:.60}.") from None
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.size == 0:
        raise InputError(f"A table must be square, one row an element; its shape is {given.shape}.")
    n = len(given)
    outside = np.argwhere(~((given >= 0) & (given < n) & (given == np.floor(given))))
    if len(outside):
        a, b = map(int, outside[0])
        raise InputError(
            f"The table is not closed: the product of {a} and {b} is {given[a, b]:g}, which is none of the "
            f"elements 0 to {n - 1}."
        )
    products = given.astype(int)
    every = np.arange(n)
    neutral = np.flatnonzero(
        (products == every).all(axis=1) & (products == every[:, None]).all(axis=0)
    )
    if not len(neutral):
        raise InputError("The table has no identity: no element e has ea = ae = a for every a.")
    for sides in (products, products.T):
        lonely = np.flatnonzero(~(sides == neutral[0]).any(axis=1))
        if len(lonely):
            raise InputError(f"The table is of no group: element {lonely[0]} has no inverse.")
    for a in range(n):  # (ab)c = a(bc), one a at a time: no cube of numbers
        wrong = np.argwhere(products[products[a]] != products[a][products])
        if len(wrong):
            b, c = map(int, wrong[0])
            raise InputError(
                f"The table is not associative: ({a} {b}) {c} is {products[products[a, b], c]}, but "
                f"{a} ({b} {c}) is {products[a, products[b, c]]}. It is of no group."
            )
    return products

"""Numbers of many trained networks, with seeds on the first axis: kept as JSON, and joined."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

Made = TypeVar("Made")


@dataclass(frozen=True)
class SeedRuns:
    """Runs over some seeds with the same settings; fields are arrays and numbers."""

    by_seed: ClassVar[tuple[str, ...]]
    """Fields that have seeds on their first axis."""

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers, of which `from_json` makes the runs again."""
        return {f.name: np.asarray(getattr(self, f.name)).tolist() for f in fields(self)}

    @classmethod
    def from_json(cls: type[Made], numbers: dict[str, Any]) -> Made:
        """What `to_json` gave."""
        return cls(**{k: np.array(v) if isinstance(v, list) else v for k, v in numbers.items()})

    def at_end(self, key: str) -> np.ndarray:
        """Means over seeds at the last checkpoint, one a cell."""
        return getattr(self, key)[:, :, -1].mean(axis=0)


Runs = TypeVar("Runs", bound=SeedRuns)


def joined(pieces: Sequence[Runs]) -> Runs:
    """Runs with the same settings and other seeds, as one.

    Parameters
    ----------
    pieces : runs of one kind.
    """
    first = pieces[0]
    whole: dict[str, Any] = {
        name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in first.by_seed
    }
    return replace(first, **whole)

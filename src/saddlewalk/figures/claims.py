"""A figure with its claims: what the paper says, as numbers that can fail."""

import io
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from saddlewalk import store
from saddlewalk.explore import network_of_run, write_page
from saddlewalk.show import draw, text

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, or of ours about it, checked on what was just computed."""

    statement: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class FigureResult(store.AbstractResult):
    """A drawn figure and the verdict on its claims; read back from a file, the picture alone."""

    result_kind: ClassVar[str] = "figure"

    name: str
    title: str
    claims: tuple[Claim, ...]
    figure: Any
    """The matplotlib figure, or the bytes of its PNG."""
    numbers: dict[str, Any]
    runs: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Runs behind the figure, by name, that are shown on a page beside it."""

    def __post_init__(self) -> None:
        if not self.claims:
            raise ValueError(f"{self.name} has no claims: nothing could fail.")

    @property
    def verdict(self) -> str:
        """`reproduced`, or `partly` (`not reproduced` if nothing holds) with what does not hold."""
        failed = [claim for claim in self.claims if not claim.holds]
        if not failed:
            return "reproduced"
        kind = "partly" if len(failed) < len(self.claims) else "not reproduced"
        return f"{kind}: not so here: " + "; ".join(f"{c.statement} ({c.measured})" for c in failed)

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form."""
        return {
            "figure": self.name,
            "title": self.title,
            "verdict": self.verdict,
            "claims": [
                {"statement": c.statement, "measured": c.measured, "holds": bool(c.holds)}
                for c in self.claims
            ],
            "numbers": self.numbers,
        }

    def write(self, folder: Path, **more: Any) -> None:
        """Picture as PNG and SVG, page of its runs, claims and numbers as JSON, and more, into a folder."""
        with draw.styled():
            self.figure.savefig(folder / "figure.png")
            self.figure.savefig(folder / "figure.svg", metadata={"Date": None})
        if self.runs:
            networks = [network_of_run(run, name) for name, run in self.runs.items()]
            write_page(networks, folder / "explore.html", f"{self.name}: {self.title}")
        record = {**self.to_json(), "explored": bool(self.runs), **more}
        store.write_json(record, folder / "result.json")

    def to_xarray(self) -> "xr.Dataset":
        """The claims along a dimension `claim`, and the picture as the bytes of a PNG."""
        import xarray as xr

        return xr.Dataset(
            {
                "statement": ("claim", [claim.statement for claim in self.claims]),
                "measured": ("claim", [claim.measured for claim in self.claims]),
                "holds": ("claim", [bool(claim.holds) for claim in self.claims]),
                "picture": ("byte", np.frombuffer(self._png(), dtype=np.uint8)),
            },
            attrs={"name": self.name, "title": self.title, "numbers": json.dumps(self.numbers)},
        )

    @classmethod
    def from_xarray(cls, data: "xr.Dataset") -> "FigureResult":
        """Claims, numbers and picture."""
        rows = zip(*(data[name].values for name in ("statement", "measured", "holds")), strict=True)
        claims = tuple(Claim(str(said), str(seen), bool(holds)) for said, seen, holds in rows)
        about = data.attrs
        picture = data["picture"].values.tobytes()
        return cls(about["name"], about["title"], claims, picture, json.loads(about["numbers"]))

    def plot(self, target: str | Path | None = None) -> Any:
        """The figure; a path saves the picture, a notebook shows it."""
        if not isinstance(self.figure, bytes):
            with draw.styled():
                draw.save(self.figure, target)
        elif target is not None:
            Path(target).write_bytes(self.figure)
        return self.figure

    def _png(self) -> bytes:
        if isinstance(self.figure, bytes):
            return self.figure
        sink = io.BytesIO()
        with draw.styled():
            self.figure.savefig(sink, format="png")
        return sink.getvalue()

    def parts(self) -> tuple[text.Table | str, ...]:
        """The claims, and the verdict."""
        rows = [["yes" if c.holds else "NO", c.statement, c.measured] for c in self.claims]
        columns = ["holds", "claim", "measured here"]
        return text.Table(f"{self.name}: {self.title}", columns, rows, left=3), self.verdict


Maker = Callable[..., FigureResult]
"""Makes a figure; one that takes `full` also makes it at the paper's size."""


def close(measured: Iterable[float], expected: Iterable[float], relative: float) -> bool:
    """Whether two sequences of numbers agree one by one.

    Parameters
    ----------
    measured, expected : equally many numbers.
    relative : difference that is allowed, relative; for numbers below 1 absolute.
    """
    pairs = list(zip(measured, expected, strict=True))
    return all(math.isclose(a, b, rel_tol=relative, abs_tol=relative) for a, b in pairs)


def falls(values: Iterable[float]) -> bool:
    """Whether a sequence decreases strictly.

    Parameters
    ----------
    values : the sequence.
    """
    sequence = list(values)
    return all(a > b for a, b in itertools.pairwise(sequence))


def listed(values: Iterable[float]) -> str:
    """Numbers for a claim, short.

    Parameters
    ----------
    values : the numbers; five digits are shown.
    """
    return " ".join(f"{value:.5g}" for value in values)

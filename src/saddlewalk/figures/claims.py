"""A figure with its claims: what the paper says, as numbers that can fail."""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saddlewalk import store
from saddlewalk.show import draw, text


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, or of ours about it, checked on what was just computed."""

    statement: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class FigureResult:
    """A drawn figure and the verdict on its claims."""

    name: str
    title: str
    claims: tuple[Claim, ...]
    figure: Any
    numbers: dict[str, Any]

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

    def write(self, folder: Path) -> None:
        """Picture as PNG and SVG, claims and numbers as JSON, into an existing folder."""
        with draw.styled():
            self.figure.savefig(folder / "figure.png")
            self.figure.savefig(folder / "figure.svg", metadata={"Date": None})
        store.write_json(self.to_json(), folder / "result.json")

    def __str__(self) -> str:
        rows = [["yes" if c.holds else "NO", c.statement, c.measured] for c in self.claims]
        columns = ["holds", "claim", "measured here"]
        return (
            str(text.Table(f"{self.name}: {self.title}", columns, rows, left=3))
            + f"\n{self.verdict}"
        )


Maker = Callable[..., FigureResult]
"""Makes a figure; one that takes `full` also makes it at the paper's size."""


def close(measured: Iterable[float], expected: Iterable[float], relative: float) -> bool:
    """Whether two sequences of numbers agree one by one."""
    pairs = list(zip(measured, expected, strict=True))
    return all(math.isclose(a, b, rel_tol=relative, abs_tol=relative) for a, b in pairs)


def falls(values: Iterable[float]) -> bool:
    """Whether a sequence decreases strictly."""
    sequence = list(values)
    return all(a > b for a, b in itertools.pairwise(sequence))


def listed(values: Iterable[float]) -> str:
    """Numbers for a claim, short."""
    return " ".join(f"{value:.5g}" for value in values)

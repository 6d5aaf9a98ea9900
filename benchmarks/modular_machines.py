"""Why machines leave a few pairs of modular addition wrong: ten splits, three updates, four ridges.

`python benchmarks/modular_machines.py [SPLITS]` adds to benchmarks/modular_machines.json what is not there
yet, case by case (without that file, everything), and writes benchmarks/modular_machines.md. The setting is
that of the figure fact-6: addition modulo 61, half of the pairs to fit, the quadratic kernel, 75 updates. The
margin of a pair is the output at its sum minus the largest output elsewhere; a pair is wrong where it is
negative.
"""

import json
import sys
from pathlib import Path

import numpy as np

from saddlewalk.features.kernels import kernel_named
from saddlewalk.features.rfm import Recursion
from saddlewalk.figures.fact.machines import PART, UPDATES, P, modular_pairs

HERE = Path(__file__).parent
STEPS, RIDGE, NEAR = 75, 1e-9, 0.02
RIDGES = (1e-12, 1e-6, 1e-4, 1e-3)
"""Of the FACT update, on the first three splits."""


def margins(machine, x, answers):
    outputs = machine.predict(np, x)
    rows = np.arange(len(x))
    right = outputs[rows, answers]
    outputs[rows, answers] = -np.inf
    return right - outputs.max(axis=1)


def measure(update, split, ridge=RIDGE):
    """Pairs that are wrong after every update, and the margins at the last."""
    x, y, order = modular_pairs(split)
    cut = int(PART * len(x))
    train, new = order[:cut], order[cut:]
    sums = y.argmax(axis=1)
    answers, seen = sums[new], np.bincount(sums[train], minlength=P)
    wrong, margin = [], None
    machines = Recursion(kernel_named("polynomial", 1.0), ridge, update).machines(
        x[train], y[train], np.eye(x.shape[1])
    )
    for step, machine in enumerate(machines):
        margin = margins(machine, x[new], answers)
        wrong.append(int(np.sum(margin < 0)))
        if step == STEPS:
            break
    reached = [step for step, count in enumerate(wrong) if count == min(wrong)]
    return {
        "update": update,
        "split": split,
        "ridge": ridge,
        "fewest": min(wrong),
        "at": [reached[0], reached[-1]],
        "end": wrong[-1],
        "wrong margins": sorted(map(float, margin[margin < 0])),
        "median margin": float(np.median(margin)),
        "with seen": float(np.corrcoef(margin, seen[answers])[0, 1]),
        "near": int(np.sum(np.abs(margin) < NEAR)),
    }


def page(rows):
    by = {(row["update"], row["split"], row["ridge"]): row for row in rows}
    splits = sorted({row["split"] for row in rows})
    lines = [
        "# Modular addition by machines: the last pairs",
        "",
        f"Made by `benchmarks/modular_machines.py`: addition modulo {P}, {STEPS} updates, half of the",
        f"pairs to fit, {P**2 - int(P**2 * PART):,} to test, ridge {RIDGE:g}. A cell: pairs that are wrong",
        "at the end (the fewest on the way, and the first and the last update that has so few).",
        "",
        *table(
            ["split", *UPDATES],
            [[split, *(shown(by.get((one, split, RIDGE))) for one in UPDATES)] for split in splits],
        ),
        "",
        *other_ridges(by),
        "Margins at the end; the last column is the correlation of a margin with the number of fitted",
        "pairs that have the same sum:",
        "",
        *table(
            [
                *("update", "splits", "none wrong at the end", "none on the way", "median margin"),
                *("of wrong pairs", f"pairs within {NEAR} of a tie", "with pairs of the sum"),
            ],
            [
                summary(update, mine)
                for update in UPDATES
                if (mine := [by[update, s, RIDGE] for s in splits if (update, s, RIDGE) in by])
            ],
        ),
    ]
    (HERE / "modular_machines.md").write_text("\n".join(lines) + "\n")


def other_ridges(by):
    """A table, or nothing before any of them was run."""
    ridged = sorted({split for _, split, ridge in by if ridge != RIDGE})
    if not ridged:
        return []
    return [
        "FACT with other ridges:",
        "",
        *table(
            ["split", *(f"{ridge:g}" for ridge in RIDGES)],
            [[split, *(shown(by.get(("fact", split, r))) for r in RIDGES)] for split in ridged],
        ),
        "",
    ]


def table(head, rows):
    line = lambda cells: "| " + " | ".join(map(str, cells)) + " |"  # noqa: E731
    return [line(head), line(["---"] * len(head)), *map(line, rows)]


def summary(update, rows):
    short = [one for row in rows for one in row["wrong margins"]]
    return [
        update,
        len(rows),
        sum(row["end"] == 0 for row in rows),
        sum(row["fewest"] == 0 for row in rows),
        f"{np.median([row['median margin'] for row in rows]):.2f}",
        f"{min(short):.3f} to {max(short):.4f}" if short else "",
        f"{np.mean([row['near'] for row in rows]):.1f} a split",
        f"{np.mean([row['with seen'] for row in rows]):.2f}",
    ]


def shown(row):
    if row is None:
        return ""
    first, last = row["at"]
    return f"{row['end']} ({row['fewest']} at {first}" + (f" to {last})" if last > first else ")")


def main():
    count = int(sys.argv[1]) if sys.argv[1:] else 10
    cases = [("fact", split, ridge) for split in range(min(count, 3)) for ridge in RIDGES]
    cases = [(update, split, RIDGE) for split in range(count) for update in UPDATES] + cases
    stored = HERE / "modular_machines.json"
    rows = json.loads(stored.read_text()) if stored.exists() else []
    done = {(row["update"], row["split"], row["ridge"]) for row in rows}
    page(rows)
    for case in cases:
        if case not in done:
            rows.append(measure(*case))
            print(rows[-1], flush=True)
            stored.write_text(json.dumps(rows, indent=1) + "\n")
            page(rows)


if __name__ == "__main__":
    main()

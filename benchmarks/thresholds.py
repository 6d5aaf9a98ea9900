"""What the walk's thresholds do: each at half and at twice its value, on networks of five kinds.

Writes benchmarks/thresholds.json and benchmarks/thresholds.md: the largest relative change of a jump time,
and the work (right-hand sides), both against the defaults; a change of the number of stages is said.
"""

import dataclasses
import json
import math
from pathlib import Path

import saddlewalk as sw
from saddlewalk.theory.agf import read_walk
from saddlewalk.theory.agf.thresholds import Thresholds
from saddlewalk.theory.agf.walk import Walk

HERE = Path(__file__).parent
RUNS = {
    "diagonal": sw.Run.of("diagonal", dim=8, sparsity=5, noise=0.1, scale=1e-4),
    "linear": sw.Run.of("linear", dim=4, outputs=4, scale=1e-4),
    "attention": sw.Run.of("attention", scale=1e-3),
    "quadratic": sw.Run.of(
        "two-layer", activation="quadratic", dim=4, outputs=1, width=4, scale=1e-2
    ),
    "tanh": sw.Run.of("two-layer", dim=4, outputs=1, width=4, scale=1e-4),
    "relu": sw.Run.of("relu", dim=4, outputs=1, width=3, scale=1e-4),
}
PRINTED_ONLY = ("collapse", "kinked_tolerance_printed", "aligned")
"""Thresholds of Algorithm 1; the others are tried in real time."""


def walked(run, thresholds, real_time):
    with sw.float64():
        theta = run.problem.initialize(run.scale, run.start.seed)
        walk = Walk(
            run.problem, theta, real_time=real_time, aligned=not real_time, thresholds=thresholds
        )
        walk.run()
        stages, _ = read_walk(walk)
    return [stage.time for stage in stages], walk.evaluations


def changed(run, field, factor, defaults):
    real_time = field.name not in PRINTED_ONLY
    value = field.type in ("int", int) and max(1, round(field.default * factor))
    value = value or field.default * factor
    thresholds = dataclasses.replace(Thresholds(), **{field.name: value})
    times, work = walked(run, thresholds, real_time)
    before, spent = defaults[real_time]
    same = len(times) == len(before)
    shift = max((abs(a / b - 1) for a, b in zip(times, before, strict=False)), default=0.0)
    return {
        "stages": len(times) - len(before),
        "shift": shift if same else None,
        "work": work / spent,
    }


def measure():
    rows = []
    for name, run in RUNS.items():
        defaults = {real: walked(run, Thresholds(), real) for real in (True, False)}
        for field in dataclasses.fields(Thresholds):
            for factor in (0.5, 2.0):
                found = changed(run, field, factor, defaults)
                rows.append({"network": name, "threshold": field.name, "factor": factor, **found})
                print(rows[-1], flush=True)
    return rows


def table(rows):
    lines = [
        "| threshold | value | jump times at half | at twice | work at half | at twice | stages |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for field in dataclasses.fields(Thresholds):
        own = [row for row in rows if row["threshold"] == field.name]
        cells = []
        for factor in (0.5, 2.0):
            shifts = [r["shift"] for r in own if r["factor"] == factor and r["shift"] is not None]
            cells.append(
                f"{max(shifts, default=math.nan):.1e}" if max(shifts, default=0) else "same"
            )
        for factor in (0.5, 2.0):
            work = [r["work"] for r in own if r["factor"] == factor]
            cells.append(f"{min(work):.2f} to {max(work):.2f}")
        other = {r["network"] for r in own if r["stages"]}
        cells.append("others on " + ", ".join(sorted(other)) if other else "same")
        lines.append(f"| `{field.name}` | {field.default:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


HEAD = """# The walk's thresholds at half and at twice their value

Made by `benchmarks/thresholds.py`. Largest relative change of a jump time, and right-hand sides over those
with the defaults, on diagonal, linear, attention, quadratic, tanh and ReLU networks (small ones, at their
usual scales). Where the number of stages changes, that is said, and the times are not compared. `collapse`,
`kinked_tolerance_printed` and `aligned` belong to Algorithm 1 and were tried there. What each threshold is
for: `src/saddlewalk/theory/agf/thresholds.py`.

"""

if __name__ == "__main__":
    found = measure()
    (HERE / "thresholds.json").write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "thresholds.md").write_text(HEAD + table(found) + "\n")

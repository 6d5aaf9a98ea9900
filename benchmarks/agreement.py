"""How well each prediction agrees with gradient flow: ten starts at three scales in every setting.

Writes docs/agreement.md (a table) and benchmarks/agreement.json (every number).
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

import saddlewalk as sw

HERE = Path(__file__).parent
SEEDS = range(10)
MOST_STEPS = {"modular addition, p = 7, frequencies 1 and 2, H = 12": 8_000}
"""Its minima are so flat that gradient flow would creep for many minutes after its last jump."""

SLOW = {"modular addition, p = 7, frequencies 1 and 2, H = 12": 3}
"""Starts for Algorithm 1 where its cost phases take a minute: minima of many neurons are flat."""


def random_design(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12, 6))
    return sw.tasks.from_arrays(x, x @ (rng.normal(size=6) * 2), name="diagonal")


SETTINGS = {
    "diagonal network, 12 samples, 6 inputs": (
        random_design,
        lambda: sw.units.Diagonal(),
        (1e-2, 1e-4, 1e-8),
        ("numeric", "algorithm-1", "closed", "limit"),
    ),
    "linear network, d = c = H = 6, commuting": (
        lambda seed: sw.tasks.linear_map(6, 6, decay=1.0, commuting=True, seed=seed),
        lambda: sw.units.Dense(6, "linear"),
        (1e-2, 1e-4, 1e-8),
        ("numeric", "closed", "limit"),
    ),
    "linear network, d = c = H = 6, not commuting": (
        lambda seed: sw.tasks.linear_map(6, 6, decay=1.0, seed=seed),
        lambda: sw.units.Dense(6, "linear"),
        (1e-2, 1e-4, 1e-8),
        ("numeric", "closed", "limit"),
    ),
    "attention, eigenvalues 4 2 1, N = 16, 4 heads": (
        lambda seed: sw.tasks.in_context_regression([4, 2, 1], 16),
        lambda: sw.units.LinearAttention(4),
        (1e-2, 1e-3, 1e-4),
        ("numeric", "algorithm-1"),
    ),
    "modular addition, p = 7, frequencies 1 and 2, H = 12": (
        lambda seed: sw.tasks.modular_addition(7, {1: 4, 2: 2}),
        lambda: sw.units.QuadraticPair(12),
        (1e-1, 3e-2, 1e-2),
        ("numeric", "algorithm-1"),
    ),
    "ReLU network, 60 samples, width 4": (
        lambda seed: sw.tasks.hidden_directions(samples=60, dim=4, outputs=2, seed=seed),
        lambda: sw.units.Dense(4, "relu"),
        (1e-3, 1e-6, 1e-12),
        ("numeric", "algorithm-1"),
    ),
    "tanh network, 60 samples, width 4": (
        lambda seed: sw.tasks.hidden_directions(samples=60, dim=4, outputs=2, seed=seed),
        lambda: sw.units.Dense(4, "tanh"),
        (1e-2, 1e-4, 1e-8),
        ("numeric", "algorithm-1"),
    ),
}


def measure(name):
    make_task, make_units, scales, methods = SETTINGS[name]
    rows = []
    for scale in scales:
        for seed in SEEDS:
            task, units = make_task(seed), make_units()
            path = sw.train(task, units, scale, seed, max_steps=MOST_STEPS.get(name, 10**6))
            for method in methods:
                if method == "algorithm-1" and seed >= SLOW.get(name, len(SEEDS)):
                    continue
                stairs = sw.predict(task, units, scale, seed, method=method)
                report = sw.compare(stairs, path)
                errors = [e for e in report.time_error if math.isfinite(e)]
                levels = [e for e in report.level_error if math.isfinite(e)]
                rows.append(
                    {
                        "setting": name,
                        "method": method,
                        "scale": scale,
                        "seed": seed,
                        "order": report.order,
                        "stages": len(stairs.stages),
                        "found": len(report.stages_observed),
                        "time_error": errors,
                        "level_error": levels,
                        "first_time_error": errors[0] if errors else None,
                    }
                )
        print(f"{name}: scale {scale:g} done", file=sys.stderr, flush=True)
    return rows


def summary(rows):
    lines = []
    for name in dict.fromkeys(row["setting"] for row in rows):
        of_setting = [row for row in rows if row["setting"] == name]
        for method in dict.fromkeys(row["method"] for row in of_setting):
            for scale in dict.fromkeys(row["scale"] for row in of_setting):
                group = [r for r in of_setting if (r["method"], r["scale"]) == (method, scale)]
                means = [np.mean(r["time_error"]) for r in group if r["time_error"]]
                worst = [max(r["time_error"]) for r in group if r["time_error"]]
                levels = [max(r["level_error"]) for r in group if r["level_error"]]
                lines.append(
                    f"| {name} | {method} | {scale:g} | "
                    f"{sum(r['order'] for r in group)} of {len(group)} | "
                    f"{np.mean([r['stages'] for r in group]):.1f} | "
                    f"{np.mean([r['found'] for r in group]):.1f} | {np.median(means):.1e} | "
                    f"{np.mean(means):.1e} | {max(worst):.1e} | {np.median(levels):.1e} |"
                )
    return lines


HEAD = """# How well the predictions agree with gradient flow

Ten starts (and, but for attention and modular addition, ten data sets) at three scales in every
setting, each prediction against gradient flow from the same start. Made by `python
benchmarks/agreement.py`. Errors of jump times are relative; levels are relative to the first loss.
`numeric` is AGF in real time, `algorithm-1` is AGF as printed, `closed` uses the theorem's formulas at
this scale, `limit` those for a vanishing one. `stages` were predicted, `found` seen in the simulated
curve alone, on average. On modular addition `algorithm-1` has three starts: its cost phases are slow.
Tables of their own: [other losses](losses.md#how-well-it-holds),
[optimizers](optimizers.md#how-well-it-agrees), [depth](depth.md#how-well-it-holds).
What to expect of a network of yours: [staircase](staircase.md).

| setting | method | alpha | order right | stages | found | time error | mean | worst | level error |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def main(chosen):
    """All settings, or those whose name holds one of the given words; the others keep their rows."""
    file = HERE / "agreement.json"
    known = json.loads(file.read_text()) if chosen and file.exists() else []
    for name in SETTINGS:
        if not chosen or any(word in name for word in chosen):
            known = [row for row in known if row["setting"] != name] + measure(name)
            file.write_text(json.dumps(known, indent=0))
    rows = [row for name in SETTINGS for row in known if row["setting"] == name]
    (HERE.parent / "docs" / "agreement.md").write_text(HEAD + "\n".join(summary(rows)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

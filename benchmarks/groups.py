"""Composition in groups: predictions against gradient flow, the order against that by power, and cost.

Ten starts at three scales for each group. Writes benchmarks/groups.md and benchmarks/groups.json. `python
benchmarks/groups.py agreement` (or `keys`, `cost`) makes one part anew and keeps the others; more words
choose rows whose name holds one of them.
"""

import json
import math
import sys
import time
from pathlib import Path

import numpy as np

import saddlewalk as sw
from saddlewalk.theory.composition import ordered_parts
from saddlewalk.theory.composition.theory import order_by_power

HERE = Path(__file__).parent
SEEDS = range(10)
MOST_STEPS = 8_000
"""Minima of many neurons are flat: gradient flow creeps after its last jump."""
LONG_ENOUGH = 6.0
"""With three factors both are cut at this time over scale^2: after the last jump, before the creeping."""
SOON = 6.0
"""Times the bound of the first jump: until then something is learned."""

AGREEMENT = {
    "C7, k = 2, H = 12": ("C7", 2, {1: 4, 2: 2}, 12, (1e-1, 3e-2, 1e-2)),
    "D3, k = 2, H = 14": ("D3", 2, {"2d": 3, "sign": 1.6}, 14, (1e-1, 3e-2, 1e-2)),
    "D5, k = 2, H = 14": ("D5", 2, {"2d-1": 6, "sign": 2}, 14, (1e-1, 3e-2, 1e-2)),
    "S4, k = 2, H = 14": ("S4", 2, {"2d": 10, "sign": 4}, 14, (1e-1, 5e-2, 3e-2)),
    "Q8, k = 2, H = 14": ("Q8", 2, {"4d": 4, "sign-1": 1.6}, 14, (1e-1, 3e-2, 1e-2)),
    "C5, k = 3, H = 48": ("C5", 3, {1: 4, 2: 2}, 48, (3e-1, 2e-1, 1.5e-1)),
}
KEYS = {
    "C6: 1 of 4, 3 of 4": ("C6", {1: 4, 3: 4}, 12),
    "D3: 2d of 3, sign of 3.6": ("D3", {"2d": 3, "sign": 3.6}, 14),
    "D5: 2d-1 of 5, sign of 6": ("D5", {"2d-1": 5, "sign": 6}, 14),
    "D5: 2d-1 of 5 and 0.5, 2d-2 of 4": ("D5", {"2d-1": [5, 0.5], "2d-2": 4}, 18),
    "Q8: 4d of 4, sign-1 of 4": ("Q8", {"4d": 4, "sign-1": 4}, 14),
    "A4: 3d of 4, 2d of 5": ("A4", {"3d": 4, "2d": 5}, 62),
    "S4: 3d-1 of 8, sign of 8": ("S4", {"3d-1": 8, "sign": 8}, 56),
}
COST = {
    "D5, H = 14": ("D5", {"2d-1": 6, "sign": 2}, 14, (3e-2, 1e-3)),
    "S4, H = 14": ("S4", {"2d": 10, "sign": 4}, 14, (3e-2,)),
    "S5, H = 4": ("S5", {"sign": 60}, 4, (3e-2,)),
}
LARGE = 60
"""Elements from which everything is run once: compiling is then the smallest part."""


def network(group, factors, spectrum, width):
    task = sw.tasks.group_composition(group, factors, spectrum)
    return task, sw.units.PowerOfSum(width, factors)


def measure_agreement(name):
    group, factors, spectrum, width, scales = AGREEMENT[name]
    task, units = network(group, factors, spectrum, width)
    rows = []
    for scale in scales:
        for seed in SEEDS:
            end = {
                "max_time": LONG_ENOUGH / scale**2 if factors > 2 else math.inf,
                "progress": False,
            }
            path = sw.train(task, units, scale, seed, max_steps=MOST_STEPS, **end)
            stairs = sw.predict(task, units, scale, seed, method="numeric", **end)
            report = sw.compare(stairs, path)
            rows.append(
                {
                    "setting": name,
                    "scale": scale,
                    "seed": seed,
                    "order": report.order,
                    "stages": len(stairs.stages),
                    "found": len(report.stages_observed),
                    "time_error": [e for e in report.time_error if math.isfinite(e)],
                    "level_error": [e for e in report.level_error if math.isfinite(e)],
                }
            )
        print(f"{name}: scale {scale:g} done", file=sys.stderr, flush=True)
    return rows


def first_learned(path):
    """The representation of which a part is the first to be half learned."""
    held = path.data["strength"].values > 0.5
    moments = np.where(held.any(axis=0), held.argmax(axis=0), len(held))
    return path.info["modes"][int(np.argmin(moments))]["name"]


def measure_keys(name):
    group, spectrum, width = KEYS[name]
    task, units = network(group, 2, spectrum, width)
    right, power = ordered_parts(task)[0].representation.name, order_by_power(task)[0]
    seen, jumped, foretold = [], [], []
    bound = sw.predict(task, units, 3e-2, method="closed").jump_times[0]
    end = {
        "max_time": SOON * bound,
        "progress": False,
    }  # the rest would be slow, and is not asked for
    for seed in SEEDS:
        stairs = sw.predict(task, units, 3e-2, seed, **end)
        path = sw.train(task, units, 3e-2, seed, max_steps=MOST_STEPS, **end)
        seen.append(first_learned(path))
        jumped.append(path.stages[0].feature["name"])
        foretold.append(stairs.stages[0].feature["name"])
    print(f"{name}: {seen}", file=sys.stderr, flush=True)
    names = {"right": right, "power": power, "seen": seen, "jumped": jumped, "numeric": foretold}
    return [{"setting": name, **names}]


def seconds_of(function, once):
    """Seconds of a second run, and its result; the first one compiles."""
    if not once:
        function()
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def measure_cost(name):
    group, spectrum, width, scales = COST[name]
    task, units = network(group, 2, spectrum, width)
    rows = []
    for scale in scales:
        once = task.order > LARGE
        predicted, stairs = seconds_of(
            lambda s=scale: sw.predict(task, units, s, method="numeric", progress=False), once
        )
        end = {"max_time": 1.5 * stairs.jump_times[-1], "progress": False}
        trained, path = seconds_of(lambda s=scale, o=end: sw.train(task, units, s, **o), once)
        report = sw.compare(stairs, path)
        rows.append(
            {
                "setting": name,
                "order": task.order,
                "scale": scale,
                "predict_s": predicted,
                "train_s": trained,
                "predict_rhs": stairs.rhs_evaluations,
                "train_rhs": path.info["rhs_evaluations"],
                "stages": len(stairs.stages),
                "error": float(np.nanmedian(report.time_error)),
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


PARTS = {
    "agreement": (AGREEMENT, measure_agreement),
    "keys": (KEYS, measure_keys),
    "cost": (COST, measure_cost),
}

HEAD = """# Composition in groups, measured

Made by `python benchmarks/groups.py`, on two cores.

## Prediction against gradient flow

Ten starts at three scales, AGF in real time against gradient flow from the same start. Errors of jump times
are relative; levels are relative to the first loss. `stages` were predicted, `found` seen in the simulated
curve alone, on average. Encodings: C7 (1: 4, 2: 2), D3 (2d: 3, sign: 1.6), D5 (2d-1: 6, sign: 2), S4 (2d: 10,
sign: 4), Q8 (4d: 4, sign-1: 1.6), C5 (1: 4, 2: 2; both cut at time 6/alpha^2).

| group | alpha | order right | stages | found | time error | mean | worst | level error |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""

KEYS_HEAD = """
## What is learned first: the utility says it, the power does not

Encodings on which the two orders differ; ten starts at scale 0.03. `by utility` and `by power` name the
representation that each key has first; beside them in how many of the runs gradient flow had half of (a part
of) that one first. The last column: in how many runs real-time AGF from the same start names the
representation of which the first jump of gradient flow takes most.

| encoding | by utility | right | by power | right | numeric right |
| --- | --- | --- | --- | --- | --- |
"""

COST_HEAD = """
## Cost

Seconds, both warm (but for S5), two factors; gradient flow to half as long again as the last predicted jump,
the prediction to its end. `calls` are those of the right-hand side.

| network | elements | scale | predict | train | ratio | calls | of train | stages | error |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def agreement_lines(rows):
    lines = []
    for name, scale in dict.fromkeys((row["setting"], row["scale"]) for row in rows):
        group = [row for row in rows if (row["setting"], row["scale"]) == (name, scale)]
        means = [np.mean(r["time_error"]) for r in group if r["time_error"]]
        worst = [max(r["time_error"]) for r in group if r["time_error"]]
        levels = [max(r["level_error"]) for r in group if r["level_error"]]
        lines.append(
            f"| {name} | {scale:g} | {sum(r['order'] for r in group)} of {len(group)} | "
            f"{np.mean([r['stages'] for r in group]):.1f} | "
            f"{np.mean([r['found'] for r in group]):.1f} | {np.median(means):.1e} | "
            f"{np.mean(means):.1e} | {max(worst):.1e} | {np.median(levels):.1e} |"
        )
    return lines


def keys_lines(rows):
    lines = []
    for row in rows:
        seen, runs = row["seen"], len(row["seen"])
        numeric = sum(a == b for a, b in zip(row["jumped"], row["numeric"], strict=True))
        lines.append(
            f"| {row['setting']} | {row['right']} | {seen.count(row['right'])} of {runs} | {row['power']} | "
            f"{seen.count(row['power'])} of {runs} | {numeric} of {runs} |"
        )
    return lines


def cost_lines(rows):
    return [
        f"| {r['setting']} | {r['order']} | {r['scale']:g} | {r['predict_s']:.3g} | {r['train_s']:.3g} | "
        f"{r['predict_s'] / r['train_s']:.2f} | {r['predict_rhs']:,} | {r['train_rhs']:,} | {r['stages']} | "
        f"{r['error']:.0e} |"
        for r in rows
    ]


def main(chosen):
    """All parts, or one of them, or some rows of it."""
    file = HERE / "groups.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    wanted = [word for word in chosen if word not in PARTS]
    for part, (names, measure) in PARTS.items():
        if any(word in PARTS for word in chosen) and part not in chosen:
            continue
        for name in names:
            if wanted and not any(word in name for word in wanted):
                continue
            rows = [row for row in known.get(part, []) if row["setting"] != name]
            known[part] = rows + measure(name)
            file.write_text(json.dumps(known, indent=0))
    rows = {
        part: [row for name in names for row in known.get(part, []) if row["setting"] == name]
        for part, (names, _) in PARTS.items()
    }
    text = HEAD + "\n".join(agreement_lines(rows["agreement"])) + "\n"
    text += KEYS_HEAD + "\n".join(keys_lines(rows["keys"])) + "\n"
    text += COST_HEAD + "\n".join(cost_lines(rows["cost"])) + "\n"
    (HERE / "groups.md").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])

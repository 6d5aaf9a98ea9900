"""Predictions under other losses than the squared one, against gradient flow: ten starts at three scales.

    python benchmarks/losses.py [WORD ...]        all settings, or those whose name holds one of the words
    python benchmarks/losses.py --rows FILE ...   rows alone, one JSON object a line, as they finish
    python benchmarks/losses.py --page FILE ...   the page from such rows

Writes benchmarks/losses.json (every number) and benchmarks/losses.md (a table).
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

import saddlewalk as sw

HERE = Path(__file__).parent
SEEDS = range(10)
SCALES = (1e-2, 1e-4, 1e-8)
MOST_STEPS = 150_000
"""Networks with kinks creep along them for ever on data that they cannot fit."""


def classes(count, separation, dim=4, samples=60):
    return lambda seed: sw.tasks.gaussian_classes(samples, dim, count, separation, seed)


def outliers(seed):
    """Rectified directions, and one target in ten far off: what Huber's loss is for."""
    task = sw.tasks.hidden_directions(samples=60, dim=4, outputs=2, seed=seed)
    y, rng = np.array(task.y), np.random.default_rng(seed)
    y[::10] += 3 * rng.normal(size=y[::10].shape)
    return sw.tasks.from_arrays(task.x, y, name="outliers")


def dense(activation):
    return lambda: sw.units.Dense(4, activation)


SETTINGS = {
    "cross-entropy, linear, three classes that overlap": (classes(3, 3), dense("linear")),
    "cross-entropy, linear, three classes apart": (classes(3, 8), dense("linear")),
    "cross-entropy, ReLU, three classes that overlap": (classes(3, 3), dense("relu")),
    "cross-entropy, ReLU, three classes apart": (classes(3, 8), dense("relu")),
    "cross-entropy, tanh, three classes that overlap": (classes(3, 3), dense("tanh")),
    "cross-entropy, tanh, three classes apart": (classes(3, 8), dense("tanh")),
    "logistic, diagonal, two classes that overlap": (classes(2, 2), sw.units.Diagonal),
    "logistic, ReLU, two classes that overlap": (classes(2, 3), dense("relu")),
    "logistic, tanh, two classes apart": (classes(2, 8), dense("tanh")),
    "huber:0.5, linear, outliers": (outliers, dense("linear")),
    "huber:0.5, ReLU, outliers": (outliers, dense("relu")),
    "huber:0.5, tanh, outliers": (outliers, dense("tanh")),
}


def row_of(name, scale, seed):
    make_task, make_units = SETTINGS[name]
    loss, task, units = name.split(",")[0], make_task(seed), make_units()
    path = sw.train(task, units, scale, seed, loss=loss, max_steps=MOST_STEPS)
    stairs = sw.predict(task, units, scale, seed, loss=loss)
    report = sw.compare(stairs, path)
    return {
        "setting": name,
        "scale": scale,
        "seed": seed,
        "order": report.order,
        "stages": len(stairs.stages),
        "found": len(report.stages_observed),
        "stopped": [str(stairs.stopped), str(path.stopped)],
        "time_error": [e for e in report.time_error if math.isfinite(e)],
        "level_error": [e for e in report.level_error if math.isfinite(e)],
    }


def measure(words):
    for name in SETTINGS:
        if not words or any(word in name for word in words):
            for seed in SEEDS:
                for scale in SCALES:
                    yield row_of(name, scale, seed)


HEAD = """### Other losses: how well predictions agree with gradient flow

Ten starts on ten data sets at three scales in every setting, four units, 60 samples of four inputs, `numeric`
against gradient flow from the same start. Made by `python benchmarks/losses.py`. Time errors are relative:
the median over all jumps, the mean over the jumps of a run as its median over runs, and the largest of any
jump; level errors are parts of the first loss. `found` are jumps seen in the simulated curve alone, on
average. Where the order is "of" fewer than ten, so many starts were measured. Along kinks ReLU networks
chatter: what is `found` there beyond the stages are no jumps.

Order and errors are judged in the stages that the run reached, which are counted beside those predicted (in
all runs together): a run of a ReLU network that was cut after 150,000 steps says nothing about later stages.

| setting | alpha | order right | reached of predicted | cut by steps | found | time error: jumps | runs \
| worst | level error |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def cut(rows):
    """Runs that their largest number of steps ended."""
    return sum(row["stopped"][1] == "limit" for row in rows)


def summary(rows):
    for name in dict.fromkeys(row["setting"] for row in rows):
        for scale in SCALES:
            group = [r for r in rows if (r["setting"], r["scale"]) == (name, scale)]
            errors = [e for r in group for e in r["time_error"]]
            if not errors:
                continue
            means = [np.mean(r["time_error"]) for r in group if r["time_error"]]
            levels = [e for r in group for e in r["level_error"]]
            reached = sum(len(r["time_error"]) for r in group)
            yield (
                f"| {name} | {scale:g} | {sum(r['order'] for r in group)} of {len(group)} | "
                f"{reached} of {sum(r['stages'] for r in group)} | {cut(group)} of {len(group)} | "
                f"{np.mean([r['found'] for r in group]):.1f} | "
                f"{np.median(errors):.1e} | {np.median(means):.1e} | {max(errors):.1e} | "
                f"{np.median(levels):.1e} |"
            )


def overall(rows):
    errors = [e for r in rows for e in r["time_error"]]
    right, predicted = sum(r["order"] for r in rows), sum(r["stages"] for r in rows)
    whole = [r for r in rows if len(r["time_error"]) == r["stages"]]
    in_order, below = sum(r["order"] for r in whole), np.mean(np.array(errors) < 0.01)
    return (
        f"\nAll {len(rows)} runs: order right in {right} ({right / len(rows):.1%}), in the stages reached "
        f"({len(errors)} of {predicted}; all of them in {len(whole)} runs, {in_order} of these in order); "
        f"{cut(rows)} runs were cut by their steps. Median error of a jump's time {np.median(errors):.1e}, "
        f"of {below:.0%} of the jumps below 1%.\n"
    )


def closed_forms():
    """Closed forms of diagonal networks whose inputs never meet, against tight integration of p and q."""
    from scipy.integrate import solve_ivp

    from saddlewalk.theory.diagonal import DiagonalLossTheory
    from saddlewalk.theory.diagonal.objective import Objective

    yield "\n| closed form: diagonal, inputs that never meet | alpha | largest time error |"
    yield "| --- | --- | --- |"
    task = DiagonalLossTheory.example().problem.task
    for loss in ("logistic", "huber:0.5"):
        for scale in SCALES:
            stairs = sw.predict(task, sw.units.Diagonal(), scale, loss=loss, method="closed")
            with sw.float64():
                objective = Objective.of(sw.Problem(task, sw.units.Diagonal(), loss))
                beta = lambda z: scale**2 * np.sinh(z)  # noqa: B023, E731
                levels = np.array(stairs.loss_levels)
                middles = 0.5 * (levels[1:] + levels[:-1])
                events = [lambda t, z, m=m: objective.loss(beta(z)) - m for m in middles]  # noqa: B023
                run = solve_ivp(
                    lambda t, z: -2 * objective.gradient(beta(z)),  # noqa: B023
                    (0, 1.05 * stairs.jump_times[-1]),
                    np.zeros(task.inputs),
                    method="DOP853",
                    rtol=1e-12,
                    atol=1e-12,
                    events=events,
                )
            seen = [float(times[0]) for times in run.t_events]
            worst = max(abs(a / b - 1) for a, b in zip(stairs.jump_times, seen, strict=True))
            yield f"| {loss} | {scale:g} | {worst:.1e} |"


def write(rows):
    rows = sorted(rows, key=lambda r: (list(SETTINGS).index(r["setting"]), -r["scale"], r["seed"]))
    (HERE / "losses.json").write_text(json.dumps(rows, indent=0))
    (HERE / "losses.md").write_text(
        HEAD + "\n".join(summary(rows)) + "\n" + overall(rows) + "\n".join(closed_forms()) + "\n"
    )


def main(words):
    if words[:1] == ["--rows"]:
        with Path(words[1]).open("a") as file:
            for row in measure(words[2:]):
                file.write(json.dumps(row) + "\n")
                file.flush()
        return
    if words[:1] == ["--page"]:
        lines = [line for name in words[1:] for line in Path(name).read_text().splitlines()]
        write([json.loads(line) for line in lines])
        return
    write(list(measure(words)))


if __name__ == "__main__":
    main(sys.argv[1:])

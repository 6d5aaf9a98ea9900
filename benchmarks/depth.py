"""Depth against gradient flow: ten starts at three scales in every setting, closed forms, and exponents.

`python benchmarks/depth.py NAME ... --rows FOLDER` measures parts (`depth.py --list`), one line a row as it
is finished; `python benchmarks/depth.py --table FOLDER` collects them into depth.json and depth.md.
"""

import argparse
import itertools
import json
import math
import time
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

import saddlewalk as sw
from saddlewalk.balance import he_start
from saddlewalk.theory.deep import modes
from saddlewalk.theory.diagonal import ManyLayers
from saddlewalk.theory.linear import Covariances

HERE = Path(__file__).parent
SEEDS = range(10)
TOLERANCE, FINE = 1e-8, 1e-7
"""Of training from He starts, and of ReLU networks to their first escape: at the default, 1e-5 with kinks,
it is up to 0.5% off itself."""
NEAR, STATES = 0.002, 6001
"""Part of the time of a first jump about it in which states are kept, and how many."""


def linear(decay):
    return lambda seed: sw.tasks.linear_map(4, 4, decay=decay, seed=seed)


def design(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12, 6))
    return sw.tasks.from_arrays(x, x @ (rng.normal(size=6) * 2))


def directions(seed):
    return sw.tasks.hidden_directions(samples=60, dim=4, outputs=2, features=2, seed=seed)


AGREEMENT = {
    "deep linear, 3 layers, whitened": (
        linear(0.0),
        sw.units.Deep.linear(3, 5),
        (3e-2, 1e-2, 1e-3),
    ),
    "deep linear, 4 layers, whitened": (
        linear(0.0),
        sw.units.Deep.linear(4, 5),
        (1e-1, 3e-2, 1e-2),
    ),
    "deep linear, 3 layers, not whitened": (
        linear(1.0),
        sw.units.Deep.linear(3, 5),
        (3e-2, 1e-2, 1e-3),
    ),
    "deep linear, 4 layers, not whitened": (
        linear(1.0),
        sw.units.Deep.linear(4, 5),
        (1e-1, 3e-2, 1e-2),
    ),
    "deep diagonal, 3 layers": (design, sw.units.DeepDiagonal(3), (3e-2, 1e-2, 1e-3)),
    "deep diagonal, 4 layers": (design, sw.units.DeepDiagonal(4), (1e-1, 3e-2, 1e-2)),
    "deep ReLU, 3 layers, first escape": (
        directions,
        sw.units.Deep.of(3, 6, "relu"),
        (3e-2, 1e-2, 1e-3),
    ),
    "deep ReLU, 4 layers, first escape": (
        directions,
        sw.units.Deep.of(4, 6, "relu"),
        (1e-1, 3e-2, 1e-2),
    ),
    "deep tanh, 3 layers, first escape": (
        directions,
        sw.units.Deep.of(3, 6, "tanh"),
        (3e-2, 1e-2, 1e-3),
    ),
    "deep tanh, 4 layers, first escape": (
        directions,
        sw.units.Deep.of(4, 6, "tanh"),
        (1e-1, 3e-2, 1e-2),
    ),
}


def agreement(name):
    make_task, units, scales = AGREEMENT[name]
    methods = ("numeric", "closed", "limit") if "diagonal" in name else ("numeric",)
    for scale in scales:
        for seed in SEEDS:
            task = make_task(seed)
            for method in methods:
                began = time.perf_counter()
                try:
                    stairs = sw.predict(task, units, scale, seed, method=method, progress=False)
                except sw.InputError as error:
                    yield {
                        "part": name,
                        "method": method,
                        "scale": scale,
                        "seed": seed,
                        "refused": str(error),
                    }
                    continue
                spent = time.perf_counter() - began
                if method == methods[0]:
                    first = "first" in name
                    until = {}
                    if first and stairs.stages:
                        until["max_time"] = 1.5 * stairs.jump_times[0]
                    if until and "ReLU" in name:
                        until = around(stairs.jump_times[0])
                    began = time.perf_counter()
                    path = sw.train(
                        task, units, scale, seed, progress=False, max_steps=200_000, **until
                    )
                    trained = time.perf_counter() - began
                report = sw.compare(stairs, path)
                yield {
                    "part": name,
                    "method": method,
                    "scale": scale,
                    "seed": seed,
                    "order": bool(stairs.stages) and in_order(task, stairs, path, report),
                    "stages": len(stairs.stages),
                    "reached": report.stages_reached,
                    "found": len(report.stages_observed),
                    "time_error": [e for e in report.time_error if math.isfinite(e)],
                    "level_error": [e for e in report.level_error if math.isfinite(e)],
                    "predict_s": spent,
                    "train_s": trained,
                }


def around(jump):
    """How a run with kinks is followed past its first jump: its rest may last 1e-5 of the time before."""
    near = np.linspace(1 - NEAR, 1 + NEAR, STATES)
    times = jump * np.unique(np.concatenate([np.linspace(0, 1.1, 221), near]))
    return {"max_time": 1.1 * jump, "times": times, "tolerance": FINE}


def in_order(task, stairs, path, report):
    """Whether each stage learned what was predicted of it, in the simulation."""
    if report.stages_reached < len(stairs.stages):
        return False
    if isinstance(path.problem.units, sw.units.DeepDiagonal):
        return report.order
    if stairs.stopped.value == "first stage" or not path.problem.units.is_linear_chain:
        return looks_alike(stairs, path)
    covariances = Covariances.of(path.problem.task)
    shapes = path.problem.shapes
    left, root = covariances.explained[0], np.sqrt(covariances.variances)

    def strengths(at):
        row = int(np.argmin(np.abs(path.data["saved"].values - at)))
        from saddlewalk.theory.deep import Chain

        beta = Chain.read(covariances, shapes, path.parameters[row][0]).map
        fitted = beta * root
        return np.sum((left.T @ fitted) * (left.T @ covariances.target), axis=1)

    times = report.jump_times
    rests = [path.time[at] for at in rest_rows(path, times)]
    learned = [int(np.argmax(strengths(b) - strengths(a))) for a, b in itertools.pairwise(rests)]
    return learned == [stage.feature["index"] for stage in stairs.stages]


def rest_rows(path, times):
    """Where the simulated loss is flattest between the jumps."""
    edges = [0.0, *times, float(path.time[-1])]
    rows = [0]
    for a, b in itertools.pairwise(edges[1:]):
        inside = np.flatnonzero((path.time >= a) & (path.time <= b))
        rows.append(
            int(inside[np.argmin(np.abs(path.curve.rate[inside]))]) if len(inside) else rows[-1]
        )
    return rows


def looks_alike(stairs, path):
    """Whether the first layer of the simulated network looks where it was said to, after the first jump."""
    at = path.curve.crossing(0.5 * (stairs.loss_levels[0] + stairs.loss_levels[1]))
    if math.isnan(at):
        return False
    rows = np.flatnonzero(path.data["saved"].values >= at)
    problem = path.problem
    loss = stairs.loss_levels[1]
    near = min(
        rows,
        key=lambda k: abs(
            float(np.interp(path.data["saved"].values[k], path.time, path.loss)) - loss
        ),
    )
    shape = next(iter(problem.shapes.values()))
    first = path.parameters[near][0][: math.prod(shape)].reshape(shape)
    seen = np.linalg.svd(first)[2][0]
    return bool(abs(seen @ np.array(stairs[0].feature["vector"])) > 0.99)


def closed_forms(_):
    """Formulas against DOP853 at 1e-13."""
    for depth in (2, 3, 4, 5, 8):
        for sigma, variance, start in ((1.0, 1.0, 1e-3), (3.0, 0.5, 1e-6), (0.2, 2.0, 1e-4)):
            rest = sigma / variance
            middle = float(modes.time_to(start, 0.5 * rest, sigma, variance, depth))
            times = np.array([0.3, 0.9, 1.0, 1.2]) * middle
            power = 2 - 2 / depth
            flow = lambda _, s: depth * s**power * (sigma - variance * s)  # noqa: B023, E731
            found = solve_ivp(
                flow, (0, times[-1]), [start], "DOP853", times, rtol=1e-13, atol=1e-300
            ).y[0]
            ours = modes.strength_at(times, start, sigma, variance, depth)
            yield {
                "part": "closed",
                "form": "mode of a deep linear network",
                "depth": depth,
                "error": float(np.abs(ours / found - 1).max()),
            }
    for depth, scale, target in ((3, 1e-2, 1.0), (4, 3e-2, 2.0), (5, 1e-1, 0.5)):

        def flow(_, z, scale=scale, half=0.5 * (depth - 1), target=target):
            length = (scale**2 + z**2) ** half
            return (target - z * length) * length

        potential = ManyLayers(scale, depth)
        goal = (1 - 1 / math.sqrt(2)) * target
        half = float(potential.last_weight(np.array([goal]))[0])
        event = lambda _, z: z[0] - half  # noqa: B023, E731
        event.terminal = True
        wait = potential.travelled(np.array([target]))[0] / target - potential.half_way(
            target, target
        )
        seen = solve_ivp(
            flow, (0, 2 * wait), [0.0], "DOP853", events=event, rtol=1e-13, atol=1e-16
        ).t_events[0][0]
        yield {
            "part": "closed",
            "form": "first jump of a deep diagonal network",
            "depth": depth,
            "error": float(abs(wait / seen - 1)),
        }


def exponents(name):
    """Times to the first jump over four decades of scale, predicted and trained: r layers, all small."""
    activation = name.split()[1]
    task = directions(0)
    for r in (2, 3, 4):
        units = sw.units.Deep.of(r, 6, activation)
        scales = np.geomspace(10.0 ** (-1.5 if r > 2 else -2), 10.0 ** (-5.5 if r > 2 else -6), 5)
        predicted, trained = [], []
        for scale in scales:
            stairs = sw.predict(task, units, float(scale), 0, progress=False)
            middle = 0.5 * sum(stairs.loss_levels[:2])
            path = sw.train(
                task, units, float(scale), 0, max_time=1.2 * stairs.jump_times[0], progress=False
            )
            predicted.append(stairs.jump_times[0])
            trained.append(known(path.curve.crossing(middle)))
        yield {
            "part": name,
            "activation": activation,
            "r": r,
            "scales": scales.tolist(),
            "predicted": predicted,
            "trained": trained,
            "exponent_predicted": exponent(scales, predicted),
            "exponent_trained": exponent(scales, trained),
        }


def shrunk(_):
    """He starts of depth 4 with r layers shrunk, predicted and trained: r counts."""
    task = directions(0)
    which = {2: ("w1", "readout"), 3: ("w1", "w2", "readout"), 4: ("w1", "w2", "w3", "readout")}
    for activation in ("relu", "tanh"):
        units = sw.units.Deep.of(4, 6, activation)
        problem = sw.Problem(task, units)
        for r, layers in which.items():
            factors = np.geomspace(1e-1, 1e-6, 6)
            predicted, trained = [], []
            for factor in factors:
                start = he_start(problem, dict.fromkeys(layers, float(factor)))
                stairs = sw.predict(task, units, 1.0, start=start, progress=False)
                path = sw.train(
                    task,
                    units,
                    1.0,
                    start=start,
                    max_time=1.2 * stairs.jump_times[0],
                    tolerance=TOLERANCE,
                    progress=False,
                )
                predicted.append(stairs.jump_times[0])
                middle = 0.5 * sum(stairs.loss_levels[:2])
                trained.append(known(path.curve.crossing(middle)))
            yield {
                "part": "He starts",
                "activation": activation,
                "r": r,
                "scales": factors.tolist(),
                "predicted": predicted,
                "trained": trained,
                "exponent_predicted": exponent(factors[1:], predicted[1:]),
                "exponent_trained": exponent(factors[1:], trained[1:]),
            }


def known(time):
    """A time, or `None` where training was cut short before it."""
    return None if math.isnan(time) else time


def exponent(scales, times):
    """p of t = a scale^-p + b, from the differences of times; 0 is a logarithm, `None` not known."""
    if None in times:
        return None
    steps = np.diff(times)
    return float(np.polyfit(-np.log(scales[1:]), np.log(steps), 1)[0])


PARTS = {
    **dict.fromkeys(AGREEMENT, agreement),
    "closed": closed_forms,
    "exponents relu": exponents,
    "exponents tanh": exponents,
    "exponents linear": exponents,
    "He starts": shrunk,
}


def measure(names, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        with (folder / f"{name.replace(' ', '-').replace(',', '')}.jsonl").open("w") as file:
            for row in PARTS[name](name):
                file.write(json.dumps(row) + "\n")
                file.flush()


def table(folder):
    rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.open()]
    (HERE / "depth.json").write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    lines = ["# Depth against gradient flow", "", HEAD, ""]
    lines += [
        "| setting | method | scale | order right | stages | median time error | worst | median level error "
        "| predict, s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in AGREEMENT:
        of = [row for row in rows if row["part"] == name and "refused" not in row]
        for method in dict.fromkeys(row["method"] for row in of):
            for scale in dict.fromkeys(row["scale"] for row in of):
                some = [r for r in of if (r["method"], r["scale"]) == (method, scale)]
                times = [e for r in some for e in r["time_error"]] or [math.nan]
                levels = [e for r in some for e in r["level_error"]] or [math.nan]
                lines.append(
                    f"| {name} | {method} | {scale:g} | {sum(r['order'] for r in some)} of {len(some)} | "
                    f"{np.mean([r['stages'] for r in some]):.1f} | {np.median(times):.1e} | "
                    f"{max(times):.1e} | "
                    f"{np.median(levels):.1e} | {np.median([r['predict_s'] for r in some]):.2f} |"
                )
    lines += ["", "| closed form | depth | largest relative error |", "| --- | --- | --- |"]
    closed = [row for row in rows if row["part"] == "closed"]
    for form, depth in dict.fromkeys((r["form"], r["depth"]) for r in closed):
        worst = max(r["error"] for r in closed if (r["form"], r["depth"]) == (form, depth))
        lines.append(f"| {form} | {depth} | {worst:.1e} |")
    lines += [
        "",
        "| start | activation | small layers r | r - 2 | exponent, predicted | trained | worst time |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        if "exponent_predicted" in row:
            kind = "He, depth 4" if row["part"] == "He starts" else "all small, depth r"
            found = row["exponent_trained"]
            trained = "-" if found is None else f"{found:.4f}"
            pairs = zip(row["predicted"], row["trained"], strict=True)
            worst = max(abs(ours / truth - 1) for ours, truth in pairs if truth is not None)
            lines.append(
                f"| {kind} | {row['activation']} | {row['r']} | {row['r'] - 2} | "
                f"{row['exponent_predicted']:.4f} | {trained} | {worst:.1e} |"
            )
    refused = [row for row in rows if "refused" in row]
    if refused:
        lines += ["", f"Refused, with a sentence: {len(refused)} of {len(rows)} rows."]
    (HERE / "depth.md").write_text("\n".join(lines) + "\n")


HEAD = """Ten starts (and ten tasks) at three scales in every setting, each prediction against gradient flow
from the same start. Made by `python benchmarks/depth.py`. Errors of jump times are relative, those of levels
relative to the first loss. Order right: every stage learned the mode (or coordinate) that was predicted, in
all stages; for first escapes: the first layer looks in the predicted direction (cosine above 0.99). Exponents
are those of t = a scale^-p + b over four decades of scale, 0 for a logarithm (- where training was cut short
before the smallest); beside them the largest relative difference of predicted and trained times, for He
starts over five decades, from a factor of 0.1. Training is at the default tolerance, but at 1e-7 for the
first escapes of ReLU networks, and at 1e-8 from He starts: by default kinks make it up to 0.5% off itself."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    if given.list:
        print("\n".join(PARTS))
    elif given.table:
        table(given.table)
    else:
        measure(given.names or list(PARTS), given.rows)

"""What a prediction costs: against gradient flow, against gradient descent at equal accuracy, and how
it grows with scale, width and the number of stages. Compiled once before it is timed.

Writes benchmarks/predict.md and benchmarks/predict.json. `python benchmarks/predict.py quick` keeps the
row for modular addition at 1e-6, where gradient flow takes half an hour.
"""

import json
import math
import sys
import time
from pathlib import Path

import numpy as np

import saddlewalk as sw

HERE = Path(__file__).parent


def timed(function, repeat=2):
    """Seconds of the fastest of some runs after a first one that compiles, and the last result."""
    function()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def attention():
    values = 1 / np.arange(1, 5)
    task = sw.tasks.in_context_regression(2 * values / values.sum(), 32)
    return task, sw.units.LinearAttention(5)


def modular():
    return sw.tasks.modular_addition(20, {1: 10, 3: 5, 5: 2.5}), sw.units.QuadraticPair(18)


def linear(d):
    return sw.tasks.linear_map(d, d, decay=1.0), sw.units.Dense(d, "linear")


def relu(width):
    task = sw.tasks.hidden_directions(samples=200, dim=8, outputs=3, features=3)
    return task, sw.units.Dense(width, "relu")


def against_flow(name, problem, scale, method, repeat=2, **train):
    task, units = problem
    predicted, stairs = timed(lambda: sw.predict(task, units, scale, method=method), repeat)
    simulated, path = timed(lambda: sw.train(task, units, scale, **train), 1)
    report = sw.compare(stairs, path)
    row = {
        "setting": name,
        "scale": scale,
        "method": method,
        "predict_s": predicted,
        "flow_s": simulated,
        "ratio": simulated / predicted,
        "stages": len(stairs.stages),
        "mean_time_error": float(np.nanmean(report.time_error)),
    }
    print(row, flush=True)
    return row


def against_descent(name, problem, scale, method, rate):
    """Gradient descent errs like its step: the step that errs as little as the prediction does."""
    task, units = problem
    path = sw.train(task, units, scale)
    seconds, stairs = timed(lambda: sw.predict(task, units, scale, method=method))
    own = float(np.nanmean(sw.compare(stairs, path).time_error))
    end = 1.2 * stairs.jump_times[-1]
    options = {"solver": "descent", "max_time": end, "max_steps": 10**9}
    steps = sw.train(task, units, scale, learning_rate=rate, **options)
    start = time.perf_counter()
    sw.train(task, units, scale, learning_rate=rate, **options)
    descent_s = time.perf_counter() - start
    flow_s, _ = timed(lambda: sw.train(task, units, scale), 1)
    truth = np.array(sw.compare(stairs, path).jump_times)
    seen = np.array(sw.compare(stairs, steps).jump_times)
    error = float(np.nanmean(np.abs(seen - truth) / truth))
    needed = descent_s * error / max(own, 1e-5)
    row = {
        "setting": name,
        "scale": scale,
        "method": method,
        "predict_s": seconds,
        "flow_s": flow_s,
        "descent_rate": rate,
        "descent_s": descent_s,
        "descent_error": error,
        "prediction_error": own,
        "descent_s_at_equal_accuracy": needed,
        "ratio_to_prediction": needed / seconds,
        "ratio_to_flow": descent_s * error / 1e-5 / flow_s,
    }
    print(row, flush=True)
    return row


FIRST_FREQUENCY = 473_404.0
"""Time at which modular addition at 1e-6 has learned the first of its three frequencies."""


def modular_at_small_scale():
    """Prediction and flow to the end of the first frequency, with compilation; both take one path."""
    task, units = modular()
    options = {"max_time": FIRST_FREQUENCY}
    start = time.perf_counter()
    stairs = sw.predict(task, units, 1e-6, method="numeric", **options)
    predicted = time.perf_counter() - start
    start = time.perf_counter()
    path = sw.train(task, units, 1e-6, max_steps=10**7, **options)
    simulated = time.perf_counter() - start
    report = sw.compare(stairs, path)
    return {
        "setting": "modular addition p=20, H=18, first frequency",
        "scale": 1e-6,
        "predict_s": predicted,
        "flow_s": simulated,
        "ratio": simulated / predicted,
        "stages": len(stairs.stages),
        "mean_time_error": float(np.nanmean(report.time_error)),
    }


AUTHORS = {
    "diagonal, Fig 3 (8 scales)": (264.0, None),
    "linear d=10, Fig 4": (5000.0, None),
    "attention, Fig 5": (66_000.0, 3_350.0),
    "modular addition, Fig 6": (9_500.0, 1_000.0),
}
"""Seconds of the authors' notebooks, gradient descent and AGF, on one core of a machine like the one
that ran this; the last three descents extrapolated from seconds a step. Not part of this run."""


def against_authors():
    """The same figures' settings here: gradient flow and prediction, after compilation."""
    fig3, diagonal = sw.tasks.agf_figure_3(), sw.units.Diagonal()
    scales = np.logspace(-14, 0, 8) / 10

    def linear_flow():
        task = sw.tasks.linear_map(10, 10, decay=2.0)
        return sw.train(task, sw.units.Dense(10, "linear"), 1e-12, max_time=4e3, convergence=0.0)

    def flow(problem, scale):
        return lambda: sw.train(*problem, scale)

    def prediction(problem, scale):
        return lambda: sw.predict(*problem, scale, method="numeric")

    ours = {
        "diagonal, Fig 3 (8 scales)": (
            lambda: [sw.train(fig3, diagonal, float(s)) for s in scales],
            None,
        ),
        "linear d=10, Fig 4": (linear_flow, None),
        "attention, Fig 5": (flow(attention(), 1e-3), prediction(attention(), 1e-3)),
        "modular addition, Fig 6": (flow(modular(), 1e-2), prediction(modular(), 1e-2)),
    }
    rows = []
    for name, runs in ours.items():
        row = {"setting": name}
        for what, theirs, run in zip(("flow", "agf"), AUTHORS[name], runs, strict=True):
            seconds = timed(run, 1)[0] if run else math.nan
            row |= {
                f"their_{what}_s": theirs or math.nan,
                f"our_{what}_s": seconds,
                f"{what}_ratio": (theirs or math.nan) / seconds,
            }
        rows.append(row)
        print(row, flush=True)
    return rows


def growth(name, sizes, make, scale, method="numeric"):
    rows = []
    for size in sizes:
        task, units = make(size)
        seconds, stairs = timed(lambda t=task, u=units: sw.predict(t, u, scale, method=method), 1)
        rows.append(
            {"setting": name, "size": size, "predict_s": seconds, "stages": len(stairs.stages)}
        )
        print(rows[-1], flush=True)
    return rows


def table(rows):
    keys = list(rows[0])
    head = "| " + " | ".join(keys) + " |\n|" + " --- |" * len(keys)
    body = [
        "| "
        + " | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
        + " |"
        for row in rows
    ]
    return "\n".join([head, *body])


def main(quick):
    flow = [
        against_flow("attention D=4, H=5", attention(), 1e-3, "numeric"),
        against_flow("attention D=4, H=5", attention(), 1e-6, "numeric"),
        against_flow("linear d=50", linear(50), 1e-6, "closed"),
        against_flow("linear d=50", linear(50), 1e-6, "limit"),
        against_flow("modular addition p=20, H=18", modular(), 1e-2, "numeric", repeat=1),
    ]
    kept = HERE / "predict.json"
    old = json.loads(kept.read_text()) if quick else {"small": modular_at_small_scale()}
    small, note = old["small"], old.get("small_note", "")
    descent = [
        against_descent("attention D=4, H=5", attention(), 1e-3, "numeric", 1e-2),
        against_descent("linear d=10", linear(10), 1e-6, "closed", 1e-2),
    ]
    authors = against_authors()
    grown = [
        *growth("ReLU network, by width", (4, 8, 16, 32, 64), relu, 1e-8),
        *growth("linear network, by modes", (10, 20, 40, 80), linear, 1e-6, "closed"),
        *growth(
            "attention, by components",
            (2, 4, 8),
            lambda d: (
                sw.tasks.in_context_regression(1.5 ** -np.arange(d), 32),
                sw.units.LinearAttention(d + 1),
            ),
            1e-4,
        ),
    ]
    results = {
        "flow": flow,
        "small": small,
        "descent": descent,
        "authors": authors,
        "growth": grown,
    }
    (HERE / "predict.json").write_text(json.dumps(results, indent=1))
    (HERE / "predict.md").write_text(
        "# What a prediction costs\n\nSeconds on the machine that ran `python benchmarks/predict.py`, "
        "after compilation. `ratio` is gradient flow over prediction, from the same start.\n\n"
        "## Against gradient flow\n\n"
        + table(flow)
        + "\n\nAt 1e-6 the flow of modular addition needs half an hour for the first of three frequencies; "
        "prediction and flow up to there, with compilation:\n\n"
        + table([small])
        + f"\n\n{note}"
        + "\n\n## Against gradient descent\n\n"
        "Descent errs in proportion to its step; `descent_s_at_equal_accuracy` is what it would take to "
        "err as little as the prediction (but not below 1e-5), `ratio_to_flow` the same against "
        "gradient flow at 1e-5.\n\n" + table(descent) + "\n\n## Against the authors' "
        "notebooks\n\nTheir seconds are from one core of a machine like this one, not from this run; "
        "descents of linear networks, attention and modular addition are extrapolated from seconds a "
        "step. Fig 7 is not compared: here it runs on fewer images and components.\n\n"
        + table(authors)
        + "\n\n## Growth\n\n"
        + table(grown)
        + "\n"
    )


if __name__ == "__main__":
    main("quick" in sys.argv[1:])

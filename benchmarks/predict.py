"""What a prediction costs beside the training it predicts: seconds, both warm, and right-hand sides.

Every row is one network at one scale; both run in this process, one after the other, compiled before they are
timed. Writes benchmarks/predict.md and benchmarks/predict.json. `python benchmarks/predict.py relu linear`
measures the rows whose name holds one of these words, and keeps the others.
"""

import datetime
import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np

import saddlewalk as sw
from saddlewalk.settings.catalog import SETTINGS
from saddlewalk.units import AbstractUnits

HERE = Path(__file__).parent


class Trilinear(AbstractUnits):
    """Units of one's own, of degree 3."""

    width: int

    def layers(self, inputs, outputs):
        return {"u": (inputs,), "v": (inputs,), "a": (outputs,)}

    def respond(self, weights, x):
        return weights["a"] * (weights["u"] @ x) * (weights["v"] @ x)


def diagonal(dim, samples=60, noise=0.1):
    task = sw.tasks.sparse_regression(samples=samples, dim=dim, noise=noise)
    return task, sw.units.Diagonal()


def directions(width, activation):
    return sw.tasks.hidden_directions(), sw.units.Dense(width, activation)


def attention(components=4, heads=5):
    values = 1 / np.arange(1, components + 1)
    task = sw.tasks.in_context_regression(2 * values / values.sum(), 32)
    return task, sw.units.LinearAttention(heads)


def modular(p, spectrum, width):
    return sw.tasks.modular_addition(p, spectrum), sw.units.QuadraticPair(width)


def trilinear():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    return sw.tasks.from_arrays(x, 2 * x[:, 0] * x[:, 1] - x[:, 2] * x[:, 3]), Trilinear(4)


def of_setting(name):
    run = sw.Run.of(name)
    return run.task, run.units


NETWORKS = {
    "diagonal d = 20": (lambda: diagonal(20), (1e-3, 1e-6, 1e-30)),
    "diagonal d = 100": (lambda: diagonal(100, 200), (1e-6, 1e-30)),
    "diagonal d = 300": (lambda: diagonal(300, 600), (1e-6,)),
    "linear 8 to 6": (
        lambda: (sw.tasks.linear_map(8, 6), sw.units.Dense(8, "linear")),
        (1e-4, 1e-6, 1e-30),
    ),
    "attention 4 components": (attention, (1e-3, 1e-4, 1e-6, 1e-30)),
    "modular addition p = 11": (lambda: modular(11, {1: 4, 3: 2}, 12), (0.02, 1e-4)),
    "modular addition p = 13": (lambda: modular(13, {1: 4, 3: 2}, 12), (0.02,)),
    "modular addition p = 23": (lambda: modular(23, {3: 9, 7: 5, 11: 2}, 18), (0.02,)),
    "relu width 8": (lambda: directions(8, "relu"), (1e-4, 1e-6)),
    "relu width 32": (lambda: directions(32, "relu"), (1e-4, 1e-6)),
    "relu width 256": (lambda: directions(256, "relu"), (1e-6,)),
    "tanh width 6": (lambda: directions(6, "tanh"), (1e-4, 1e-6, 1e-30)),
    "quadratic width 256": (lambda: directions(256, "quadratic"), (1e-2,)),
    "trilinear width 4": (trilinear, (1e-2, 1e-4, 1e-6, 1e-30)),
    **{
        f"setting {name}": (lambda name=name: of_setting(name), (setting.scale, 1e-6))
        for name, setting in SETTINGS.items()
    },
}


def mark(degree, scale, sleeping):
    """The largest ratio that counts as cheap; where most units sleep, or plateaus are what costs, a tenth."""
    if scale <= 1e-30 or sleeping or (degree > 2 and scale <= 1e-4):
        return 0.1
    return 0.5 if scale <= 1e-6 else 1.0


def seconds_of(functions, most=20, enough=1.5):
    """Seconds of the fastest run of each function, and its last result.

    The first run, which compiles, is left out. They take turns, so that whatever else the machine does
    meets both.
    """
    results = [function() for function in functions]
    taken = [[] for _ in functions]
    while len(taken[0]) < most and sum(map(sum, taken)) < enough:
        for k, function in enumerate(functions):
            start = time.perf_counter()
            results[k] = function()
            taken[k].append(time.perf_counter() - start)
    return [min(times) for times in taken], results


def floor_of(predict, limits, repeat=5):
    """Seconds that a prediction cannot do without, as it is built: to begin (one that is cut at once), and
    its compiled steps. All else is between the steps: tails, leaps, what is named and listed."""
    integration = sys.modules["saddlewalk.ode.integrate"]
    plain, begun, stepped = integration._one_by_one, math.inf, math.inf
    spent = 0.0

    def timed(run):
        advance = plain(run)

        def one():
            nonlocal spent
            start = time.perf_counter()
            out = advance()
            spent += time.perf_counter() - start
            return out

        return one

    integration._one_by_one = timed
    try:
        for _ in range(repeat if math.isinf(limits["max_time"]) else 1):
            spent = 0.0
            predict(**limits)
            stepped = min(stepped, spent)
    finally:
        integration._one_by_one = plain
    for _ in range(repeat):
        start = time.perf_counter()
        predict(**{**limits, "max_time": 1e-9})
        begun = min(begun, time.perf_counter() - start)
    return begun + stepped


def end_of(task, units, scale):
    """A time at which both are cut, where training would take an hour: shortly after the first stage."""
    return 1.05 * sw.predict(task, units, scale, method="numeric").stages[0].time


def measure(name, scale, make):
    task, units = make()
    slow = ("modular" in name or "group" in name) and scale <= 1e-4
    end = end_of(task, units, scale) if slow else math.inf
    limits = {"max_time": end, "progress": False}

    def predict(**limits):
        return sw.predict(task, units, scale, method="numeric", **limits)

    (predicted, trained), (stairs, path) = seconds_of(
        [lambda: predict(**limits), lambda: sw.train(task, units, scale, **limits)]
    )
    floor = floor_of(predict, limits, repeat=5 if predicted < 0.5 else 1)
    report = sw.compare(stairs, path)
    known = [error for error in report.time_error if math.isfinite(error)]
    setting = SETTINGS.get(name.removeprefix("setting "))
    default = setting is not None and scale == setting.scale
    wanted = mark(stairs.degree, scale, sleeping="width 256" in name)
    return {
        "network": name,
        "scale": scale,
        "degree": stairs.degree,
        "width": stairs.problem.width,
        "cut_at": end,
        "predict_s": predicted,
        "train_s": trained,
        "ratio": predicted / trained,
        "floor": floor / trained,
        "mark": min(wanted, 0.5) if default else wanted,
        "predict_rhs": stairs.rhs_evaluations,
        "train_rhs": path.info["rhs_evaluations"],
        "stages": len(stairs.stages),
        "seen": len(path.stages),
        "order": report.order,
        "run": f"{datetime.date.today():%d %b}, {os.cpu_count()} cores",
        "median_error": float(np.median(known)) if known else math.nan,
        "largest_error": max(known, default=math.nan),
    }


HEAD = """# What a prediction costs

Seconds, both warm, on the machine that ran `python benchmarks/predict.py`; `ratio` is prediction over
training from the same start, `mark` what it should be at most, `floor` what the ratio would be if nothing
cost but to begin (a prediction that is cut at once) and the compiled steps, `calls` those of the right-hand
side (a column of a Jacobian is one). Errors are those of the jump times; where the order is not "as
predicted" a slide is cut into stages at other places than the curve's, and the largest error says no more.
Below 1e-16 gradient flow of linear networks in float64 loses small modes in the rounding of large ones: there
the error is that of the training.

"""
COLUMNS = (
    *(
        "network",
        "scale",
        "predict",
        "train",
        "ratio",
        "mark",
        "floor",
        "calls",
        "train's",
        "stages",
    ),
    *("seen", "error", "most", "order as predicted", "run"),
)


FOOT = """
{met} of {many} rows are within their mark; the others are in bold. In a row prediction and training ran in
turns, in one process; rows are of the runs named in the last column, beside other work. Not measured:
{missing}.

What keeps rows above their mark:

- Small networks of degree 2: to begin and the compiled steps alone are more than the mark allows. A step
  costs what one of training does, and a prediction takes 30 to 70% of those: a feature that wakes is
  followed by explicit steps which those learned before it, that relax faster, keep short. Implicit steps are
  no way out: at d = 20 they take 21 right-hand sides in the time in which explicit ones take 13. Nor are
  exponential ones (Krogstad's, about the Jacobian at the beginning of a piece): they take half to a sixth
  of the right-hand sides and as many seconds, since the way into the modes and back costs as much as a small
  right-hand side. Between the steps a setting of ten inputs asks 68 programs, of some 70 us each.
- d = 100 at 1e-30: 42 stages flow into each other, so that hardly a tail can be closed and the units move
  together nearly all the time.
- Width 256: few units sleep (255 of 256 ReLU units wake at 1e-6).
- Deep networks are followed from NumPy: a right-hand side of a deep linear network takes 13 us, one of
  `deep` 50 us and in training 20.
- Networks cut after their first stage (modular addition, groups): one transition of some 235 explicit steps
  is more than a tenth of the right-hand sides of the training.
"""


def line(row):
    ratio = f"{row['ratio']:.2f}" if row["ratio"] <= row["mark"] else f"**{row['ratio']:.2f}**"
    cut = "" if math.isinf(row["cut_at"]) else f" (to {row['cut_at']:.3g})"
    floor = f"{row['floor']:.2f}" if "floor" in row else ""
    seconds = f"{row['predict_s']:.3g} | {row['train_s']:.3g}"
    return (
        f"| {row['network']} | {row['scale']:g}{cut} | {seconds} | "
        f"{ratio} | {row['mark']:g} | {floor} | {row['predict_rhs']:,} | {row['train_rhs']:,} | "
        f"{row['stages']} | {row['seen']} | {row['median_error']:.0e} | {row['largest_error']:.0e} | "
        f"{'yes' if row['order'] else 'no'} | {row['run']} |"
    )


def main(chosen):
    file = HERE / "predict.json"
    known = json.loads(file.read_text()) if chosen and file.exists() else []
    order = [(name, scale) for name, (_, scales) in NETWORKS.items() for scale in scales]
    for name, scale in dict.fromkeys(order):
        if chosen and not any(word in f"{name}@{scale:g}" for word in chosen):
            continue
        row = measure(name, scale, NETWORKS[name][0])
        print(line(row), flush=True)
        known = [r for r in known if (r["network"], r["scale"]) != (name, scale)] + [row]
        file.write_text(json.dumps(known, indent=1))
    rows = sorted(known, key=lambda row: order.index((row["network"], row["scale"])))
    met = sum(row["ratio"] <= row["mark"] for row in rows)
    measured = {(row["network"], row["scale"]) for row in rows}
    absent = [
        f"{name} at {scale:g}"
        for name, scale in dict.fromkeys(order)
        if (name, scale) not in measured
    ]
    foot = FOOT.format(met=met, many=len(rows), missing=", ".join(absent) or "nothing")
    head = HEAD + f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"
    (HERE / "predict.md").write_text(head + "\n".join(map(line, rows)) + "\n" + foot)


if __name__ == "__main__":
    main(sys.argv[1:])

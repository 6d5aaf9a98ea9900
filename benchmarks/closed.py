"""What closed forms cost beside the training they predict, and how far off their jump times are.

Every row is one network at one scale; closed form and training take turns in this process, compiled before
they are timed, from the same start. Writes benchmarks/closed.md and benchmarks/closed.json. `python
benchmarks/closed.py linear` measures the rows whose name holds this word, and keeps the others.
"""

import json
import math
import statistics
import sys
from pathlib import Path

from predict import NETWORKS, seconds_of

import saddlewalk as sw
from saddlewalk.problem import Problem
from saddlewalk.settings.catalog import SETTINGS
from saddlewalk.theory.deep import aligned_start
from saddlewalk.theory.diagonal import DiagonalLossTheory
from saddlewalk.theory.linear import LinearLossTheory

HERE = Path(__file__).parent
MARK = 0.1
"""The largest part of the training's price that a closed form may cost."""
ONLY_BOUNDS = ("attention", "modular-addition", "group")
"""Networks whose closed forms bound times from below."""


def plain(name):
    task, units = NETWORKS[name][0]()
    return task, units, {}


def aligned(scale):
    """A deep linear network whose layers start along the modes: its closed form is for no other."""
    task = sw.tasks.linear_map(commuting=True)
    units = sw.units.Deep.linear(depth=3, width=min(task.inputs, task.outputs))
    with sw.float64():
        return task, units, {"start": aligned_start(Problem(task, units), scale)}


def example(theory):
    """The network on which the contract of a theory is tested."""
    problem = theory.example().problem
    return problem.task, problem.units, {"loss": problem.sample_loss}


def has_closed_form(name):
    return name != "deep-linear" and "closed" in SETTINGS[name].methods


def scales_of(name):
    """The default, and 1e-6 where training does not take an hour."""
    default = SETTINGS[name].scale
    return dict.fromkeys((default,) if name in ("modular-addition", "group") else (default, 1e-6))


ROWS = {
    **{
        (name, scale): lambda name=name: plain(name)
        for name, scales in {
            "diagonal d = 20": (1e-3, 1e-6, 1e-30),
            "diagonal d = 100": (1e-6, 1e-30),
            "diagonal d = 300": (1e-6,),
            "linear 8 to 6": (1e-4, 1e-6),
            "attention 4 components": (1e-3, 1e-6),
        }.items()
        for scale in scales
    },
    **{
        (f"setting {name}", scale): lambda name=name: plain(f"setting {name}")
        for name in filter(has_closed_form, SETTINGS)
        for scale in scales_of(name)
    },
    **{("deep linear, aligned", s): lambda s=s: aligned(s) for s in (1e-2, 1e-6)},
    ("diagonal, logistic", 1e-8): lambda: example(DiagonalLossTheory),
    ("linear, cross-entropy", 1e-8): lambda: example(LinearLossTheory),
}


def measure(name, scale):
    task, units, more = ROWS[name, scale]()

    def predict():
        return sw.predict(task, units, scale, method="closed", **more)

    def train():
        return sw.train(task, units, scale, progress=False, **more)

    (closed, trained), (stairs, path) = seconds_of([predict, train], enough=4)
    errors = sw.compare(stairs, path).time_error
    pairs = zip(errors, stairs.stages, strict=True)
    known = [(error, stage.parts) for error, stage in pairs if math.isfinite(error)]
    apart = [error for error, parts in known if not parts]
    return {
        "network": name,
        "scale": scale,
        "closed_s": closed,
        "train_s": trained,
        "ratio": closed / trained,
        "stages": len(stairs.stages),
        "seen": len(path.stages),
        "separate": len(apart),
        "median_error": statistics.median(apart) if apart else math.nan,
        "median_of_all": statistics.median(error for error, _ in known) if known else math.nan,
        "expected_error": stairs.expected_error,
        "bound": any(word in name for word in ONLY_BOUNDS),
    }


HEAD = """# What a closed form costs

Seconds, both warm and in turns, in one process, on the machine that ran `python benchmarks/closed.py`, beside
other work; `ratio` is the closed form (`predict(method="closed")`) over training from the same start, in bold
above {mark:g}. `error` is the median relative error of the jump times of separate stages (those that are not
several that flow together), `of all` that of all stages, `expected` what the closed form says of itself.

| network | scale | closed | train | ratio | stages | seen | separate | error | of all | expected |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
FOOT = """
{met} of {many} rows cost at most {mark:g} of the training. Times of attention, modular addition and groups
are lower bounds from the start, no predictions: what they miss is how long units take to align. Above the
mark:

- Small networks. To make the problem, to draw the start and to list the stages takes one to two milliseconds
  (all that the closed form of attention costs), and a closed form goes step by step in NumPy, some fifty
  calls each: twenty steps for d = 20, since with noise every coefficient is learned in the end; nearly two
  hundred for linear layers whose modes meet, a third of them for the error it expects. Training is one
  compiled loop of 7 to 40 ms there. Longer steps are no way out: twice as long they err four times as much
  on linear layers, and extrapolated from two lengths still two to three times.
- Losses other than the squared one. Integrals and minima call compiled functions one by one; training of
  their small examples takes 7 to 20 ms.
"""


def line(row):
    ratio = f"{row['ratio']:.3f}" if row["ratio"] <= MARK else f"**{row['ratio']:.3f}**"
    error, every = (f"{row[key]:.0e}" for key in ("median_error", "median_of_all"))
    expected = "" if row["expected_error"] is None else f"{row['expected_error']:.0e}"
    if row["bound"]:
        error = every = "bound"
    return (
        f"| {row['network']} | {row['scale']:g} | {row['closed_s']:.3g} | {row['train_s']:.3g} | {ratio} | "
        f"{row['stages']} | {row['seen']} | {row['separate']} | {error} | {every} | {expected} |"
    )


def main(words):
    """All rows, or those whose name holds one of the given words; what is known stays."""
    file = HERE / "closed.json"
    known = json.loads(file.read_text()) if words and file.exists() else []
    rows = {(row["network"], row["scale"]): row for row in known}
    for name, scale in ROWS:
        if words and not any(word in f"{name}@{scale:g}" for word in words):
            continue
        rows[name, scale] = measure(name, scale)
        print(line(rows[name, scale]), flush=True)
        file.write_text(json.dumps([rows[key] for key in ROWS if key in rows], indent=1) + "\n")
    ordered = [rows[key] for key in ROWS if key in rows]
    met = sum(row["ratio"] <= MARK for row in ordered)
    foot = FOOT.format(met=met, many=len(ordered), mark=MARK)
    page = HEAD.format(mark=MARK) + "\n".join(map(line, ordered)) + "\n" + foot
    (HERE / "closed.md").write_text(page)


if __name__ == "__main__":
    main(sys.argv[1:])

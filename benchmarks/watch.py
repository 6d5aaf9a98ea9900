"""Forecasts of the watch on PyTorch trainings of many kinds, beside what others would say; and on controls.

Every training (`watch_runs`) runs twice from the same seed: once alone, to know its plateaus, and once under
a watch that looks at 30, 50 and 70% of each of them; and at parts of runs in which nothing is to come
(ordinary starts; networks that seem converged). Both must give the same losses to the last digit. What a
plateau is, is the rule of the watch itself (`saddlewalk.curves.find_plateaus`), here on what came. Writes
watch.json and watch.md beside this file, or in `--out`. `python benchmarks/watch.py linear deep` runs the
kind of this name, or the kinds whose name holds the word, and keeps the others; a word that is in none writes
the page anew.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
from watch_pool import run_jobs
from watch_runs import KINDS, SAMPLES, Run

from saddlewalk.curves import LossCurve, find_plateaus

HERE = Path(__file__).parent
FRACTIONS = (0.3, 0.5, 0.7)
CONTROLLED = 2
"""Seeds of which ordinary and converged runs are looked at."""
IMPROVED, PATIENCE = 0.01, 0.1
"""A loss that has not fallen by this part of itself for this part of the run is given up by patience."""
MOST = 60_000
"""Steps for which a drop that was forecast on a control is waited for."""


# --- what others would say ------------------------------------------------------------------------------


def peers(course, now, plateau):
    """The loss extrapolated along a line, and the law of the gradient norm, on what was seen of a plateau."""
    begin, middle = plateau.begin, 0.5 * (plateau.before + plateau.after)
    seen = (course.steps <= now) & (course.steps >= begin + 0.5 * (now - begin))
    t, loss, norm = course.steps[seen], course.losses[seen], course.norms[seen]
    if len(t) < 4:
        return {"extrapolated": math.nan, "gradient_norm": math.nan}
    slope, level = np.polyfit(t, loss, 1)
    extrapolated = (middle - level) / slope - now if slope < 0 else math.inf
    best, law = math.inf, math.nan
    for degree in (2, 3, 4):
        power = np.log(norm) if degree == 2 else norm ** (-(degree - 2) / (degree - 1))
        a, b = np.polyfit(t, power, 1)
        error = float(np.mean((power - a * t - b) ** 2)) / max(float(np.var(power)), 1e-300)
        if error < best:
            best = error
            if degree == 2:
                began = max(course.losses[0], 1e-300)
                law = (math.log(began**0.5) - b) / a - now if a > 0 else math.inf
            else:
                law = -b / a - now if a < 0 else math.inf
    return {"extrapolated": extrapolated, "gradient_norm": law}


def stalled(course, now):
    """Steps since the loss last fell by a hundredth of itself: what patience goes by."""
    last, best = 0.0, math.inf
    for step, loss in zip(course.steps, course.losses, strict=True):
        if step <= now and loss < (1 - IMPROVED) * best:
            last, best = step, loss
    return float(now - last)


# --- what is measured -----------------------------------------------------------------------------------


def said(look):
    """What a look said."""
    told = look.forecast
    return {
        "state": str(look.state),
        "chance": look.chance,
        "evaluations": look.evaluations,
        "seconds": look.seconds,
        "forecast": None if told is None else told.left,
        "low": None if told is None else told.low - told.made,
        "high": None if told is None else told.high - told.made,
        "levels": None if told is None else [told.before, told.after],
    }


def measure(kind, optimizer, seed):
    """Looks at parts of every plateau."""
    run = Run(kind, optimizer, seed)
    course = run.train()
    wanted = {}
    for number, one in enumerate(find_plateaus(fallen(course))):
        for part in FRACTIONS:
            now = round(one.begin + part * (one.middle - one.begin))
            if now > 10:
                wanted[now] = (number, part, one)
    again = run.train(look_at=set(wanted))
    assert np.array_equal(course.losses, again.losses), "the watch changed the training"
    return [
        {
            **{"kind": kind, "optimizer": optimizer, "seed": seed, "now": now},
            **{"plateau": number, "part": part, "left": one.middle - now, "pace": one.pace},
            **{"true_levels": [one.before, one.after]},
            **said(again.looks[now]),
            **peers(course, now, one),
            "stalled": stalled(course, now),
        }
        for now, (number, part, one) in wanted.items()
    ]


def fallen(course):
    """The curve to judge by: of a loss that is held out, which rises first, its lowest since its top."""
    steps, losses = course.steps, course.losses
    if course.held_out:
        top = int(np.argmax(losses))
        steps, losses = steps[top:], np.minimum.accumulate(losses[top:])
    return LossCurve.of(steps, losses)


def control(kind, optimizer, seed, ordinary):
    """Looks at moments at which no drop is to come: of an ordinary start, or of the end of a run."""
    run = Run(kind, optimizer, seed, ordinary)
    parts = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7) if ordinary else (0.97, 0.985, 0.999)
    moments = {int(part * run.steps) for part in parts}
    run.steps *= 1 if ordinary else 2  # whether anything comes after the end
    course = run.train(look_at=moments)
    coming = find_plateaus(LossCurve.of(course.steps, course.losses))
    rows = []
    for now in sorted(moments):
        if any(one.begin <= now < one.middle for one in coming):
            continue  # an ordinary start may have a plateau, too
        row = {
            **{"kind": kind, "optimizer": optimizer, "seed": seed, "now": now},
            "control": "ordinary" if ordinary else "converged",
            **said(course.looks[now]),
            "stalled": stalled(course, now),
        }
        if row["forecast"] is not None:
            row["came"] = came(kind, optimizer, seed, ordinary, now, course.looks[now].forecast)
        rows.append(row)
    return rows


def came(kind, optimizer, seed, ordinary, now, told):
    """When the drop that was forecast on a control came all the same, within half and twice its time."""
    run = Run(kind, optimizer, seed, ordinary)
    run.steps = int(min(now + 2 * told.left, MOST))
    course = run.train()
    below = course.steps[(course.losses < told.middle) & (course.steps > now)]
    left = float(below[0] - now) if len(below) else math.inf
    return left if 0.5 * told.left <= left <= 2 * told.left else None


def overhead(kind, optimizer):
    """Part of the training time that a watch takes with its own budget of 5%."""
    run = Run(kind, optimizer, 0)
    run.steps *= 3
    watch = run.train(budget=0.05).watch
    share, looks = watch.budget.share, len(watch.looks)
    return [{"kind": kind, "optimizer": optimizer, "share": share, "looks": looks}]


# --- all of it ------------------------------------------------------------------------------------------


def jobs(words, optimizers, seeds):
    """Everything that is to be run, the first seeds of all kinds first."""
    all_ = not words
    named = lambda kind, word: kind == word or (word not in KINDS and word in kind)  # noqa: E731
    chosen = [kind for kind in KINDS if all_ or any(named(kind, word) for word in words)]
    pairs = [
        (k, o) for k in chosen for o in KINDS[k].optimizers if not optimizers or o in optimizers
    ]
    pairs.sort(key=lambda pair: -KINDS[pair[0]].steps)
    for seed in range(seeds):
        yield from ((measure, (*pair, seed)) for pair in pairs)
        if all_ and seed == 0:
            yield from ((overhead, one) for one in (("relu", "sgd"), ("deep tanh", "adam")))
        if seed < CONTROLLED:
            starts = [(*pair, seed, start) for pair in pairs for start in (True, False)]
            # a transformer starts ordinarily, and its end is of another loss
            yield from ((control, one) for one in starts if one[0] != "transformer")


NAMES = {2: "overhead", 3: "forecasts", 4: "controls"}
"""What comes of a job, by the number of its arguments."""


def same(row, arguments):
    """Whether a row came of a job with these arguments."""
    kind, optimizer, *rest = arguments
    if (row["kind"], row["optimizer"]) != (kind, optimizer):
        return False
    if rest and row["seed"] != rest[0]:
        return False
    return len(rest) < 2 or row["control"] == ("ordinary" if rest[1] else "converged")


def run_all(todo, file, processes, seconds):
    """Run jobs, and keep what is known after each."""
    known = {name: [] for name in NAMES.values()}
    if file.exists():
        known = json.loads(file.read_text())
    for arguments, rows, took in run_jobs(todo, processes, seconds):
        name = NAMES[len(arguments)]
        known[name] = [r for r in known[name] if not same(r, arguments)] + rows
        print(name, *arguments, f"{len(rows)} rows, {took:.0f} s", flush=True)
        fresh = file.with_suffix(".part")
        fresh.write_text(json.dumps(known, indent=1))
        fresh.replace(file)
    return known


# --- the page -------------------------------------------------------------------------------------------


def median(values):
    known = [value for value in values if value is not None and not math.isnan(value)]
    return float(np.median(known)) if known else math.nan


def error(row, name="forecast"):
    value = row[name]
    return math.inf if value is None else abs(value - row["left"]) / row["left"]


def inside(rows):
    """The part of the intervals that hold the truth."""
    told = [r for r in rows if r["forecast"] is not None]
    return np.mean([r["low"] <= r["left"] <= r["high"] for r in told]) if told else math.nan


def area(drops, controls, score=lambda row: row["chance"]):
    """Area under the curve: how often a moment before a drop has a larger score than one without."""
    a, b = (np.array([score(row) for row in rows]) for rows in (drops, controls))
    return float(np.mean((a[:, None] > b[None]) + 0.5 * (a[:, None] == b[None])))


def known_stalled(rows):
    """Rows of which is known how long the loss stood still: of this state of the script."""
    return [r for r in rows if "stalled" in r]


def gives_up(rows):
    """The part of some looks at which patience has given up."""
    some = known_stalled(rows)
    long = [r["stalled"] >= PATIENCE * KINDS[r["kind"]].steps for r in some]
    return np.mean(long) if some else math.nan


HEAD = """# The watch: forecasts of the next drop

Made by `benchmarks/watch.py`: PyTorch trainings in single precision from small starts, looked at by a watch
at 30, 50 and 70% of every plateau; what a plateau is, is told by `saddlewalk.curves.find_plateaus`, of what
came. The numbers are medians of the error of the time left, relative; a look that makes no forecast counts
as an infinite error ("none": more than half of them). Descent is on all data (gd), on batches of 32 of
{samples} samples (sgd), with momentum 0.9 (momentum), and Adam. The transformer has one layer and is
trained on seven tenths of modular addition with AdamW; its plateaus are those of its held-out loss, from
its highest point on. Beside it what others would say at the same moments: the loss extrapolated along a
line, and the law of the gradient norm with the degree that fits best, both on the second half of what was
seen of the plateau; and at how many of these looks patience has given up: the loss has not fallen by
{improved} of itself for {patience} of the run.

How far to trust it: thresholds of the watch, learning rates of the attention networks and the widths of its
intervals were chosen on these kinds and two of these seeds: errors and coverage are those of runs that it was
tuned on. {older}The probe is all the data here. Trainings it was not tuned on, with probes that are a part of
the data, are in `benchmarks/watch_held_out.md`.

"""
OLDER = """Rows with a dash for patience, and their controls, are of an earlier state of the
watch, and were not run again. """
COLUMNS = (
    *("training", "optimizer", "seeds", "looks", "30%", "50%", "70%", "first", "later"),
    *("no forecast", "in its interval", "loss extrapolated", "gradient norm", "patience gives up"),
    "gradients a look",
)


def line(kind, optimizer, rows):
    def percent(some, name="forecast"):
        return f"{100 * median([error(r, name) for r in some]):.3g}%"

    parts = [percent([r for r in rows if r["part"] == part]) for part in FRACTIONS]
    parts += [percent([r for r in rows if (r["plateau"] == 0) == first]) for first in (True, False)]
    silent = sum(r["forecast"] is None for r in rows)
    cells = (
        *(kind, optimizer, len({r["seed"] for r in rows}), len(rows), *parts, silent),
        *(f"{100 * inside(rows):.0f}%", percent(rows, "extrapolated")),
        *(percent(rows, "gradient_norm"), f"{100 * gives_up(rows):.0f}%"),
        f"{median([r['evaluations'] for r in rows]):.0f}",
    )
    return f"| {' | '.join(map(str, cells))} |".replace("nan%", "-").replace("inf%", "none")


def table(rows):
    lines = [
        line(kind, optimizer, some)
        for kind in KINDS
        for optimizer in KINDS[kind].optimizers
        if (some := [r for r in rows if (r["kind"], r["optimizer"]) == (kind, optimizer)])
    ]
    return f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n" + "\n".join(lines)


def foot(known):
    rows, controls = known["forecasts"], known["controls"]
    told = [r for r in rows if r["forecast"] is not None]
    there = [r for r in controls if r["forecast"] is not None]
    alarms = [r for r in there if r["came"] is None]
    nothing = [r for r in controls if r["forecast"] is None or r["came"] is None]
    halves = [r for r in rows if r["part"] == 0.5]
    plain = lambda r: KINDS[r["kind"]].two_layers and "adam" not in r["optimizer"]  # noqa: E731
    two, rest = [r for r in halves if plain(r)], [r for r in halves if not plain(r)]
    shares = ", ".join(f"{100 * o['share']:.1f}% ({o['looks']} looks)" for o in known["overhead"])
    moves = lambda r: -r["stalled"] / r["now"]  # noqa: E731
    stood = area(known_stalled(rows), known_stalled(nothing), moves)
    sure = [r for r in controls if r["chance"] >= 0.5 and r in nothing]
    return f"""
- Two layers, descent with or without momentum, at 50%: median error {100 * median(map(error, two)):.2g}%
  ({len(two)} looks); deep networks, convolution, attention, the transformer, and Adam:
  {100 * median(map(error, rest)):.2g}% ({len(rest)} looks).
- Of {len(told)} intervals, meant to hold 80%, {100 * inside(rows):.0f}% hold the truth;
  {len(rows) - len(told)} looks of {len(rows)} made no forecast.
- On controls (ordinary starts, networks that seem converged), {len(controls)} looks forecast
  {len(there)} drops. {len(there) - len(alarms)} of them came when the runs went on, within half and twice
  their time; {len(alarms)} are false alarms ({100 * len(alarms) / max(len(controls), 1):.1f}%).
- "A drop comes": area under the curve of the chance that each look tells {area(rows, nothing):.3f};
  it is at least one half at {100 * np.mean([r["chance"] >= 0.5 for r in rows]):.0f}% of the looks before a
  drop, and at {100 * len(sure) / max(len(nothing), 1):.1f}% of the others.
- Patience has given up at {100 * gives_up(rows):.0f}% of the looks before a drop, and at
  {100 * gives_up(nothing):.0f}% of the others. The longer the loss has stood still, as a part of the steps so
  far, the less it expects a drop: area under the curve {stood:.3f}.
- Overhead with a budget of 5%: {shares}.
- Losses of every training were the same to the last digit with and without the watch.
"""


def page(known):
    rule = {"improved": f"{100 * IMPROVED:g}%", "patience": f"{100 * PATIENCE:g}%"}
    rule["older"] = OLDER if any("stalled" not in r for r in known["forecasts"]) else ""
    return HEAD.format(samples=SAMPLES, **rule) + table(known["forecasts"]) + "\n" + foot(known)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("words", nargs="*")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--optimizers", default="", help="some of them, with commas between")
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--seconds", type=float, default=1e6, help="when no more is begun")
    options.add_argument("--out", type=Path, default=HERE, help="the folder")
    chosen = options.parse_args()
    todo = list(jobs(chosen.words, [o for o in chosen.optimizers.split(",") if o], chosen.seeds))
    known = run_all(todo, chosen.out / "watch.json", chosen.processes, chosen.seconds)
    if known["forecasts"] and known["controls"]:
        (chosen.out / "watch.md").write_text(page(known))


if __name__ == "__main__":
    main()

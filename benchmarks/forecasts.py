"""Forecasts from the middle of a training: when the next jump comes, asked on every plateau of every run.

Ten starts (data sets where the start has no randomness) in every setting. Writes benchmarks/forecasts.json
(every forecast) and benchmarks/forecasts.md. `python benchmarks/forecasts.py relu tanh` measures the settings
whose name holds one of these words and keeps the rows of the others; `--seeds 3` takes fewer starts.

What one row asked: `task, units, scale, theta = at(setting, seed, now)`.
"""

import dataclasses
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np

import saddlewalk as sw

HERE = Path(__file__).parent
SEEDS = 10
SLOW = {
    "modular addition, p = 7, frequencies 1 and 2, 8 neurons": 4,
    "modular addition, p = 11, frequencies 1 and 3, 12 neurons": 3,
}
"""Starts where one takes minutes."""
FRACTIONS = (0.3, 0.5, 0.7)
"""Where on a plateau the forecast is asked for."""
SMALLEST_DROP = 1e-4
"""Jumps that gain less of the first loss are not waited for."""
SHORTEST, FLATTEST = 0.05, 0.05
"""A plateau that is a smaller part of the time of its jump, or on which the loss falls by a larger part of
the drop that comes, between the first and the last of its moments, is a slide: half of that is how far the
middle of the drop moves with the level that one reads it from."""


def directions():
    return sw.tasks.hidden_directions(samples=60, dim=4, outputs=2)


SETTINGS = {
    "diagonal network, 10 inputs": (
        lambda seed: (sw.tasks.sparse_regression(dim=10, seed=seed), sw.units.Diagonal(), 1e-6, 0),
        {},
    ),
    "linear network, 8-12-4": (
        lambda seed: (sw.tasks.linear_map(8, 4), sw.units.Dense(12, "linear"), 1e-4, seed),
        {},
    ),
    "attention, eigenvalues 4 2 1": (
        lambda seed: (
            sw.tasks.in_context_regression([4, 2, 1], 32),
            sw.units.LinearAttention(4),
            1e-3,
            seed,
        ),
        {},
    ),
    "modular addition, p = 7, frequencies 1 and 2, 8 neurons": (
        lambda seed: (
            sw.tasks.modular_addition(7, {1: 4, 2: 2}),
            sw.units.QuadraticPair(8),
            2e-2,
            seed,
        ),
        {"max_steps": 8_000},  # minima so flat that the flow would creep for minutes
    ),
    "modular addition, p = 11, frequencies 1 and 3, 12 neurons": (
        lambda seed: (
            sw.tasks.modular_addition(11, {1: 4, 3: 2}),
            sw.units.QuadraticPair(12),
            2e-2,
            seed,
        ),
        {"max_steps": 8_000},
    ),
    "ReLU network (relu), width 4": (
        lambda seed: (directions(), sw.units.Dense(4, "relu"), 1e-6, seed),
        {},
    ),
    "tanh network, width 4": (
        lambda seed: (directions(), sw.units.Dense(4, "tanh"), 1e-4, seed),
        {},
    ),
    "quadratic network, width 4": (
        lambda seed: (directions(), sw.units.Dense(4, "quadratic"), 1e-2, seed),
        {},
    ),
}


def trained(name, seed, times=None):
    """The network of a row and its training, with its weights at these moments."""
    make, limits = SETTINGS[name]
    task, units, scale, start = make(seed)
    return (task, units, scale), sw.train(task, units, scale, start, times=times, **limits)


def weights_at(path, moments):
    """Parameters at moments that the training was asked for."""
    saved = path.data["saved"].values
    places = [int(np.argmin(abs(saved - moment))) for moment in moments]
    if not np.allclose(saved[places], moments, rtol=1e-12, atol=0):
        raise RuntimeError("The training did not stop at the moments that were asked for.")
    return path.parameters[places]


def at(name, seed, now):
    """Task, units and scale of a row, and the weights of its network at a moment."""
    network, path = trained(name, seed, [now])
    return (*network, weights_at(path, [now])[0])


def jumps_of(path):
    """Time and loss after each jump, and whether it is large enough to be waited for."""
    levels = [float(path.loss[0]), *(stage.loss for stage in path.stages)]
    least = SMALLEST_DROP * levels[0]
    return [
        (stage.time, stage.loss, before - stage.loss >= least)
        for before, stage in zip(levels, path.stages, strict=False)
    ]


def drop_after(number, first_loss, jumps):
    """How far the loss falls from a plateau to the level after the next large jump, if there is one."""
    before = float(first_loss) if number == 0 else jumps[number - 1][1]
    return next((before - loss for _, loss, large in jumps[number:] if large), None)


def read_from(path, now):
    """Time left to the first large jump, read off what is left of the curve alone.

    On a slide this is another moment: the jump then begins where the reading does.
    """
    data = path.data
    data = data.isel({name: data[name].values >= now for name in ("time", "saved", "crossing")})
    data = data.assign_coords({name: data[name] - now for name in ("time", "saved", "crossing")})
    left = dataclasses.replace(path, data=data)
    least = SMALLEST_DROP * float(path.loss[0])
    levels = [float(left.loss[0]), *(stage.loss for stage in left.stages)]
    drops = zip(left.stages, levels, strict=False)
    return next((float(s.time) for s, before in drops if before - s.loss >= least), None)


def measure(name, seed):
    """One row a plateau and moment; plateaus after which nothing large happens are left out."""
    _, first = trained(name, seed)
    ends = [0.0, *(time for time, _, _ in jumps_of(first))]
    plateaus = list(itertools.pairwise(ends))
    moments = np.array([[b + f * (e - b) for f in FRACTIONS] for b, e in plateaus])
    if not plateaus:
        return []
    network, path = trained(name, seed, moments.ravel())
    task, units, scale = network
    problem, jumps = sw.Problem(task, units), jumps_of(path)
    thetas = weights_at(path, moments.ravel()).reshape(*moments.shape, *path.parameters.shape[1:])
    rows = []
    for number, (begin, end) in enumerate(plateaus):
        with sw.float64():
            levels = [float(problem.loss(theta)) for theta in thetas[number]]
        drop = drop_after(number, path.loss[0], jumps)
        if drop is None:
            continue
        fall = (levels[0] - levels[-1]) / drop
        slide = end - begin < SHORTEST * end or fall > FLATTEST
        for place, (now, level) in enumerate(zip(moments[number], levels, strict=True)):
            left = [(time, loss, large) for time, loss, large in jumps if time > now]
            truth = next((time - now for time, _, large in left if large), None)
            if truth is None:
                continue
            row = {
                "setting": name,
                "seed": seed,
                "plateau": number,
                "fraction": FRACTIONS[place],
                "now": float(now),
                "level": level,
                "first_loss": float(path.loss[0]),
                "fall": fall,
                "slide": bool(slide),
                "truth": float(truth),
                "truth_read_from_now": read_from(path, now),
                "jumps_left": [[float(time - now), loss] for time, loss, large in left if large],
            }
            rows.append({**row, **forecast(task, units, scale, thetas[number][place], row)})
    return rows


def forecast(task, units, scale, theta, row):
    """The first predicted stage against the truth, and what is wrong with the list."""
    try:
        stairs = sw.predict(task, units, scale, start=theta, method="numeric")
    except Exception as error:
        nothing = {"forecast": None, "error": None, "stages": [], "learned": False, "idle": False}
        return {**nothing, "failed": f"{type(error).__name__}: {error}"}
    stages = [[stage.time, stage.loss] for stage in stairs.stages]
    known = row["level"] * (1 - 1e-6)
    gains = gains_of(row["level"], stages)
    return {
        "forecast": stages[0][0] if stages else None,
        "error": abs(stages[0][0] / row["truth"] - 1) if stages else None,
        "stages": stages,
        "learned": any(time < 1e-3 * row["truth"] or loss >= known for time, loss in stages),
        "idle": bool(gains) and gains[0] < SMALLEST_DROP * row["first_loss"],
        "failed": "",
    }


def gains_of(level, stages):
    """How far the loss falls in each stage."""
    return [
        before - after for before, after in itertools.pairwise([level, *(s[1] for s in stages)])
    ]


def miscounted(row):
    """Whether the list has another number of stages that gain something than the run has left."""
    least = SMALLEST_DROP * row["first_loss"]
    listed = sum(gain >= least for gain in gains_of(row["level"], row["stages"]))
    return listed != len(row["jumps_left"])


def error_of(row):
    """Infinite where nothing was forecast."""
    return math.inf if row["error"] is None else row["error"]


def error_from_now(row):
    """The same against what is read off the rest of the curve."""
    truth = row.get("truth_read_from_now")
    return abs(row["forecast"] / truth - 1) if truth and row["forecast"] is not None else math.inf


def share(errors):
    return np.mean([error < 0.05 for error in errors]) if errors else math.nan


def quantile(errors, part):
    return np.quantile(errors, part, method="higher") if errors else math.nan


def summary(rows):
    lines = [
        "| setting | forecasts | median error | 95th percentile | below 5% | learned already | idle | "
        "other number of stages | slides | their median | below 5% | below 5%, read from there |",
        "|" + " --- |" * 12,
    ]
    for name in [name for name in SETTINGS if any(row["setting"] == name for row in rows)]:
        own = [row for row in rows if row["setting"] == name and not row["slide"]]
        slides = [error_of(row) for row in rows if row["setting"] == name and row["slide"]]
        read = [row for row in rows if row["setting"] == name and "truth_read_from_now" in row]
        again = [error_from_now(row) for row in read if row["slide"]]
        errors = [error_of(row) for row in own]
        lines.append(
            f"| {name} | {len(own)} | {quantile(errors, 0.5):.1e} | {quantile(errors, 0.95):.1e} | "
            f"{share(errors):.0%} | {sum(row['learned'] for row in own)} | "
            f"{sum(row['idle'] for row in own)} | {sum(map(miscounted, own))} | {len(slides)} | "
            f"{quantile(slides, 0.5):.1e} | {share(slides):.0%} | {share(again):.0%} |"
        )
    return lines


def worst(rows, slide, most=20):
    """Where the forecast errs most, or lists what is learned: on plateaus, or on slides."""
    lines = [
        "| setting | seed | plateau | fraction | now | loss | forecast | truth | error | stages | left | "
        "list | failed |",
        "|" + " --- |" * 13,
    ]
    wrong = [row for row in rows if error_of(row) > 0.05 or row["learned"] or row["idle"]]
    bad = [row for row in wrong if row["slide"] == slide]
    for row in sorted(bad, key=lambda row: (-error_of(row), row["seed"]))[:most]:
        flaws = ", ".join(flaw for flaw in ("learned", "idle") if row[flaw])
        told = "none" if row["forecast"] is None else f"{row['forecast']:.4g}"
        lines.append(
            f"| {row['setting']} | {row['seed']} | {row['plateau']} | {row['fraction']} | {row['now']:.6g} | "
            f"{row['level']:.4g} | {told} | {row['truth']:.4g} | {error_of(row):.1e} | "
            f"{len(row['stages'])} | {len(row['jumps_left'])} | {flaws} | "
            f"{row['failed']} |"
        )
    return lines


HEAD = """# Forecasts from the middle of a training

Made by `benchmarks/forecasts.py`: networks at 30, 50 and 70% of every plateau of a run, and when the next
jump comes. Up to ten starts in every setting (data sets for the diagonal network, whose start has no
randomness; ten and three for modular addition with p = 7 and 11, which are slow; for p = 7 a slide is a fall
by 1% of the loss, and the engine an older one). Deep networks are left out:
from large weights their prediction tells the first stage alone. The forecast is the first stage of
`predict(..., start=theta, method="numeric")`, the truth the
first later jump of gradient flow that gains at least 1e-4 of the first loss; errors are those of the time
left, relative. `learned already` counts lists with a stage that is over (its time below 1e-3 of the time
left, or its level not below the present loss), `idle` those whose first stage gains less than 1e-4 of the
first loss, `other number of stages` those that have more or fewer stages that gain more than the run has left
(gradient flow stops when its drive has fallen to 1e-4 of its largest, a prediction from its middle knows less
of what was the largest). Slides are counted apart: plateaus shorter than 5% of the time of their jump, or
on which the loss falls, between 30 and 70% of their time, by more than 5% of the drop that comes (and not of
the loss itself, of which a whole drop may be 1%). There the middle of the drop, and with it the moment of the
jump, depends on the level that one reads it from; the last column compares with what the rest of the curve
shows when read alone.

"""


def main(words):
    """All settings, or those whose name holds one of the words; the others keep their rows."""
    seeds = SEEDS
    if "--seeds" in words:
        place = words.index("--seeds")
        seeds = int(words[place + 1])
        words = words[:place] + words[place + 2 :]
    file = HERE / "forecasts.json"
    known = json.loads(file.read_text()) if words and file.exists() else []
    for name in SETTINGS:
        if not words or any(word in name for word in words):
            known = [row for row in known if row["setting"] != name]
            for seed in range(min(seeds, SLOW.get(name, seeds))):
                known += measure(name, seed)
                print(f"{name}: seed {seed} done", file=sys.stderr, flush=True)
            file.write_text("[\n" + ",\n".join(map(json.dumps, known)) + "\n]\n")
    rows = [row for name in SETTINGS for row in known if row["setting"] == name]
    tables = [*summary(rows), "", "## Where they err most", "", *worst(rows, False)]
    tables += ["", "And on slides:", "", *worst(rows, True)]
    (HERE / "forecasts.md").write_text(HEAD + "\n".join(tables) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

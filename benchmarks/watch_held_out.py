"""The watch on trainings unlike those its numbers were chosen on: real data and noise, cross-entropy,
minibatches, ordinary and small starts, probes that are a part of the data.

The data sets are split once and for all: `tuning` may be looked at while the watch is changed, `held-out` is
for the page alone, and is run once, afterwards. Looks are at fixed steps, whatever the training does there.
What is true is read off the loss on all training data, by the one rule of a plateau
(`saddlewalk.curves.find_plateaus`):

- **before a drop** is a look on a plateau whose drop is half way down within what a watch looks ahead, eight
  times the steps made so far, and 500 at least; **quiet** is one on no plateau; neither are looks **in** a
  drop, before its middle, and those on a plateau whose drop comes **later** than a watch looks;
- a forecast is right if that loss passes the middle of the drop between the two ends of its interval, and a
  false alarm if it does not pass it between half and twice the time that was forecast.

`python benchmarks/watch_held_out.py tuning` runs one part; without a word both.
"""

import argparse
import itertools
import json
import math
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from torch import nn
from watch import area
from watch_pool import run_jobs

from saddlewalk.curves import LossCurve, find_plateaus
from saddlewalk.tasks.public import load_public
from saddlewalk.torch import Watch

HERE = Path(__file__).parent
LOOKS = (60, 150, 400, 1000, 2000)
STEPS, MOST = 6000, 20_000
"""Steps of a training, and of one that goes on because a forecast lies beyond its end."""
AHEAD, SOON = 8, 500
"""A watch looks ahead so many times the steps so far, and so many steps at least."""
FINE, EVERY = 300, 5
"""Steps at each of which the loss on all data is taken, and after which it is at every so many."""
POINTS = 1500
PROBE = 256
STARTS = {"ordinary": 1.0, "small": 0.05}
CLASSES, NUMBERS = nn.CrossEntropyLoss(), nn.MSELoss()


# --- data -----------------------------------------------------------------------------------------------


def standard(x, y):
    x = (x - x.mean(0)) / (x.std(0) + 1e-9)
    return x, y if y.dtype.kind == "i" else ((y - y.mean()) / y.std())[:, None]


def known(name):
    """A data set of scikit-learn, standardized."""

    def make(_):
        return standard(*getattr(datasets, f"load_{name}")(return_X_y=True))

    return make


def table(name, most=1500):
    """Rows of a table of the UCI repository, standardized."""

    def make(rng):
        stored = load_public("uci")
        x, y = stored[f"X/{name}"].astype(float), stored[f"y/{name}"].astype(int)
        rows = rng.permutation(len(x))[:most]
        return standard(x[rows], y[rows])

    return make


def noise(classes, size=16):
    """Targets that nothing explains: they can only be learned by heart."""

    def make(rng):
        x = rng.normal(size=(512, size))
        return x, rng.integers(classes, size=512) if classes else rng.normal(size=(512, 1))

    return make


def parity(bits, size):
    def make(rng):
        x = rng.choice([-1.0, 1.0], size=(1024, size))
        return x, (x[:, :bits].prod(1) > 0).astype(int)

    return make


def staircase(rng):
    x = rng.choice([-1.0, 1.0], size=(1024, 10))
    return x, (x[:, 0] + x[:, 0] * x[:, 1] + x[:, 0] * x[:, 1] * x[:, 2])[:, None]


def friedman(rng):
    x, y = datasets.make_friedman1(1200, random_state=int(rng.integers(1 << 30)))
    return standard(x, y)


def images(rng, most=1000):
    """Handwritten digits at half their resolution."""
    stored = load_public("mnist")
    rows = rng.permutation(len(stored["X_train"]))[:most]
    x = stored["X_train"][rows].reshape(most, 1, 14, 2, 14, 2).mean((3, 5)) / 255.0
    return (x - x.mean()) / x.std(), stored["y_train"][rows].astype(int)


# --- trainings ------------------------------------------------------------------------------------------


def dense(activation, *hidden):
    def make(x, outputs):
        sizes = [x.shape[1], *hidden, outputs]
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
        return nn.Sequential(*[step for layer in layers for step in (layer, activation())][:-1])

    return make


def convolution(x, outputs):
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 4, stride=2), nn.ReLU(), nn.Conv2d(6, 12, 3, stride=2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(12 * 2 * 2, outputs)),
    )


TUNING = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05),
    "momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, 2e-3, weight_decay=0.1),
}
HELD_OUT = {
    "sgd": lambda p: torch.optim.SGD(p, 0.03),
    "momentum": lambda p: torch.optim.SGD(p, 0.005, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 5e-4),
    "nadam": lambda p: torch.optim.NAdam(p, 1e-3),
}
PARTS = {
    "tuning": {
        "digits": (known("digits"), dense(nn.ReLU, 48)),
        "wine": (known("wine"), dense(nn.Tanh, 24)),
        "noise targets": (noise(0), dense(nn.ReLU, 64)),
        "parity": (parity(2, 8), dense(nn.ReLU, 32, 32)),
        "breast cancer": (known("breast_cancer"), dense(nn.ReLU, 40)),
        "noise labels": (noise(4), dense(nn.GELU, 80)),
        "diabetes": (known("diabetes"), dense(nn.Tanh, 20, 20)),
        "staircase": (staircase, dense(nn.ReLU, 100)),
    },
    "held-out": {
        "car": (table("car"), dense(nn.ReLU, 36)),
        "abalone": (table("abalone"), dense(nn.Tanh, 24, 16)),
        "MNIST": (images, convolution),
        "friedman": (friedman, dense(nn.SiLU, 50)),
        "parity of three": (parity(3, 9), dense(nn.ReLU, 64)),
        "noise classes": (noise(3, 12), dense(nn.GELU, 48, 48)),
    },
}
SEEDS = {"tuning": (100, 101), "held-out": (300, 301)}
OPTIMIZERS = {"tuning": TUNING, "held-out": HELD_OUT}
BATCH = {"tuning": 64, "held-out": 32}


class Run:
    """One training under a watch, which can go on."""

    def __init__(self, part, data, start, optimizer, seed):
        make, network = PARTS[part][data]
        rng = np.random.default_rng(seed)
        x, y = make(rng)
        self.x = torch.tensor(x, dtype=torch.float32)
        whole = np.asarray(y).dtype.kind == "i"
        self.y = torch.tensor(y, dtype=torch.long if whole else torch.float32)
        self.loss = CLASSES if whole else NUMBERS
        torch.manual_seed(seed)
        self.model = network(x, int(np.max(y)) + 1 if whole else 1)
        with torch.no_grad():
            for p in self.model.parameters():
                p.mul_(STARTS[start])
        self.optimizer = OPTIMIZERS[part][optimizer](self.model.parameters())
        rows = rng.permutation(len(x))[:PROBE]
        self.watch = Watch(
            self.model,
            self.loss,
            probe=(self.x[rows], self.y[rows]),
            optimizer=self.optimizer,
            budget=1e-9,
            widths=False,
            samples=len(x),
        )
        self.batches, self.batch = torch.Generator().manual_seed(seed), BATCH[part]
        self.steps, self.losses, self.looks = [], [], {}

    def go_on(self, until):
        for step in range(self.watch.steps, until):
            if step < FINE or step % EVERY == 0:
                with torch.no_grad():
                    self.steps.append(step)
                    self.losses.append(self.loss(self.model(self.x), self.y).item())
            if step in LOOKS:
                self.looks[step] = self.watch.look()
            rows = torch.randint(len(self.x), (self.batch,), generator=self.batches)
            self.optimizer.zero_grad()
            loss = self.loss(self.model(self.x[rows]), self.y[rows])
            loss.backward()
            self.optimizer.step()
            self.watch.step(loss.item())


# --- what is true ---------------------------------------------------------------------------------------


def passed(run, forecast):
    """Steps from a forecast until the loss on all data passes the middle of its drop."""
    steps, losses = np.array(run.steps), np.array(run.losses)
    below = np.flatnonzero((losses < forecast.middle) & (steps >= forecast.made))
    return float(steps[below[0]] - forecast.made) if len(below) else math.inf


def place(run, now):
    """Where a look is: "before" a drop, "in" one, one comes "later", or "quiet"; what is left."""
    end = min(20 * now, run.steps[-1])  # as fine as the past of a look
    grid = np.unique(np.linspace(0, end, POINTS).astype(int))
    losses = np.interp(grid, run.steps, run.losses)
    for one in find_plateaus(LossCurve.of(grid, losses)):
        if one.begin <= now < one.middle:
            left = one.middle - now
            near = "before" if left <= max(AHEAD * now, SOON) else "later"
            return (near if now < one.end else "in"), left
    return "quiet", None


def measure(part, data, start, optimizer, seed):
    """What was said at each look, and what came."""
    run = Run(part, data, start, optimizer, seed)
    run.go_on(STEPS)
    told = [look.forecast for look in run.looks.values() if look.forecast is not None]
    # a drop that is said to come is waited for, twice as long as was said
    run.go_on(min(MOST, max([STEPS, *(int(f.made + 2.1 * f.left) for f in told)])))
    rows = []
    for now, look in run.looks.items():
        one, (where, left) = look.forecast, place(run, now)
        row = {
            **{"part": part, "kind": data, "start": start, "optimizer": optimizer, "seed": seed},
            **{"now": now, "state": str(look.state), "chance": look.chance, "seen": look.seen},
            **{"evaluations": look.evaluations, "place": where, "true_left": left},
            "forecast": None if one is None else one.left,
        }
        if one is not None:
            row |= {"low": one.low - now, "high": one.high - now, "left": passed(run, one)}
            row["levels"] = [one.before, one.after, look.loss]
            row["waited"] = run.watch.steps - now
        rows.append(row)
    return rows


# --- the page -------------------------------------------------------------------------------------------


def came(row):
    """Whether the drop that was forecast came, within half and twice its time."""
    return row["forecast"] is not None and 0.5 <= row["left"] / row["forecast"] <= 2


def summary(rows):
    """Numbers that the page tells of some rows."""
    told = [r for r in rows if r["forecast"] is not None]
    # whether an interval holds is known once the drop has come, or its end is over
    known_ = [r for r in told if r["left"] < math.inf or r["waited"] > r["high"]]
    drops = [r for r in rows if r["place"] == "before"]
    quiet = [r for r in rows if r["place"] == "quiet" and not came(r)]
    return {
        "looks": len(rows),
        "drops": len(drops),
        "silent": sum(r["forecast"] is None for r in drops),
        "yes": sum(r["chance"] >= 0.5 for r in drops),
        "told": len(told),
        "known": len(known_),
        "held": sum(r["low"] <= r["left"] <= r["high"] for r in known_),
        "off": [abs(r["left"] / r["forecast"] - 1) for r in told if r["left"] < math.inf],
        "quiet": len(quiet),
        "alarms": sum(r["forecast"] is not None for r in quiet),
        "wrong": sum(r["chance"] >= 0.5 for r in quiet),
        "area": area(drops, quiet) if drops and quiet else math.nan,
    }


HEAD = """## Trainings it was not tuned on

Made by `benchmarks/watch_held_out.py`: classification, regression, noise and parities, cross-entropy and
squares, minibatches, ordinary starts and ones of a twentieth, probes of {probe} samples or fewer, two seeds,
five looks at fixed steps. Other trainings, the part "tuning" of the script, were looked at while the watch
was mended. Those called "held-out" here, other data, networks, learning rates, batches and seeds, were fixed
beforehand and run once, afterwards, with the watch as it was then. What is true is read off the
loss on all training data by the rule of a plateau that the watch has, too. "Yes" are looks that tell a chance
of one half or more that a drop comes, with or without a step. A false alarm is a forecast of a drop that did
not come between half and twice its time, in a run that was continued. Looks in the midst of a drop, or on a
plateau whose drop comes later than a watch looks ahead, count for neither side.

"""
COLUMNS = (
    *("part", "data", "looks", "before a drop", "of them yes", "of them with a step"),
    *("forecasts", "median error", "in their interval", "quiet", "of them yes"),
    *("false alarms", "area under the curve"),
)


def line(part, name, rows):
    found = summary(rows)
    off = f"{100 * np.median(found['off']):.2g}%" if found["off"] else "-"
    curve = "-" if math.isnan(found["area"]) else f"{found['area']:.2f}"
    cells = (
        *(part, name, found["looks"], found["drops"], found["yes"]),
        *(found["drops"] - found["silent"], found["told"], off),
        *(f"{found['held']} of {found['known']}", found["quiet"], found["wrong"]),
        *(found["alarms"], curve),
    )
    return f"| {' | '.join(map(str, cells))} |"


BINS = (0.0, 0.05, 0.3, 0.5, 0.7, 0.9, 1.0)
CHANCES = """
What a chance is worth there: looks before a drop and quiet ones, by the chance that was told. It ranks looks;
it is no frequency.

| part | chance told | on average | a drop came | looks |
| --- | --- | --- | --- | --- |
"""


def chances(part, rows):
    """Chances told beside how often drops came."""
    known_ = [r for r in rows if r["place"] in ("before", "quiet") and not math.isnan(r["chance"])]
    for low, high in itertools.pairwise(BINS):
        some = [r for r in known_ if low <= r["chance"] < high or r["chance"] == high == 1]
        if some:
            told = np.mean([r["chance"] for r in some])
            drops = np.mean([r["place"] == "before" for r in some])
            yield f"| {part} | {low:g} to {high:g} | {told:.2f} | {drops:.2f} | {len(some)} |"


def page(rows):
    lines, worth = [], []
    for part in PARTS:
        own = [r for r in rows if r["part"] == part]
        kinds = [name for name in PARTS[part] if any(r["kind"] == name for r in own)]
        lines += [line(part, name, [r for r in own if r["kind"] == name]) for name in kinds]
        lines += [line(part, "**all**", own)] if own else []
        worth += chances(part, own)
    head = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"
    return (
        HEAD.format(probe=PROBE)
        + head
        + "\n".join(lines)
        + "\n"
        + CHANCES
        + "\n".join(worth)
        + "\n"
    )


def main():
    options = argparse.ArgumentParser()
    options.add_argument("parts", nargs="*", default=list(PARTS))
    options.add_argument("--data", default="", help="some of them, with commas between")
    options.add_argument("--optimizers", default="", help="some of them, with commas between")
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--seconds", type=float, default=1e6, help="when what still runs is ended")
    options.add_argument("--out", type=Path, default=HERE, help="the folder")
    chosen = options.parse_args()
    file = chosen.out / "watch_held_out.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    todo = [
        (measure, (part, data, start, optimizer, seed))
        for part in chosen.parts
        for seed in SEEDS[part][: chosen.seeds]
        for data in PARTS[part]
        if not chosen.data or data in chosen.data.split(",")
        for start in STARTS
        for optimizer in OPTIMIZERS[part]
        if not chosen.optimizers or optimizer in chosen.optimizers.split(",")
    ]
    names = ("part", "kind", "start", "optimizer", "seed")
    for arguments, fresh, took in run_jobs(todo, chosen.processes, chosen.seconds):
        rows = [r for r in rows if tuple(r[name] for name in names) != arguments] + fresh
        print(*arguments, f"{took:.0f} s", flush=True)
        file.write_text(json.dumps(rows, indent=1))
    if rows:
        file.with_suffix(".md").write_text(page(rows))


if __name__ == "__main__":
    main()

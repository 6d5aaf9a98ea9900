"""Forecasts of the watch on trainings unlike those its numbers were chosen on: real data and noise,
cross-entropy, batches of 64, ordinary and small starts, probes that are a part of the data.

The data sets are split once and for all: `tuning` may be looked at while the watch is changed, `held-out` is
for the page alone. Looks are at fixed steps, whatever the training does there. What is true is read off the
loss on all training data: a forecast is right if that loss passes the middle of the drop between the two ends
of its interval; it is a false alarm if it does not pass it between half and twice the time that was forecast.
`python benchmarks/watch_held_out.py tuning` runs one part; without a word both. Writes
benchmarks/watch_held_out.json and benchmarks/watch_held_out.md.
"""

import argparse
import itertools
import json
import math
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from sklearn import datasets
from torch import nn
from watch import area, plateaus

from saddlewalk.torch import Watch

HERE = Path(__file__).parent
LOOKS = (60, 150, 400, 1000, 2000)
STEPS, MOST = 3000, 20_000
"""Steps of a training, and of one that goes on because a forecast lies beyond its end."""
PROBE, BATCH = 256, 64
STARTS = {"ordinary": 1.0, "small": 0.05}
CLASSES, NUMBERS = nn.CrossEntropyLoss(), nn.MSELoss()


def known(load):
    """A data set of scikit-learn, standardized."""

    def make(_):
        x, y = load(return_X_y=True)
        x = (x - x.mean(0)) / (x.std(0) + 1e-9)
        return x, y if y.dtype.kind == "i" else ((y - y.mean()) / y.std())[:, None]

    return make


def noise(classes):
    """Targets that nothing explains: they can only be learned by heart."""

    def make(rng):
        x = rng.normal(size=(512, 16))
        return x, rng.integers(classes, size=512) if classes else rng.normal(size=(512, 1))

    return make


def parity(rng):
    x = rng.choice([-1.0, 1.0], size=(1024, 8))
    return x, (x[:, 0] * x[:, 1] > 0).astype(int)


def staircase(rng):
    x = rng.choice([-1.0, 1.0], size=(1024, 10))
    return x, (x[:, 0] + x[:, 0] * x[:, 1] + x[:, 0] * x[:, 1] * x[:, 2])[:, None]


PARTS = {
    "tuning": {
        "digits": (known(datasets.load_digits), nn.ReLU, (48,)),
        "wine": (known(datasets.load_wine), nn.Tanh, (24,)),
        "noise targets": (noise(0), nn.ReLU, (64,)),
        "parity": (parity, nn.ReLU, (32, 32)),
    },
    "held-out": {
        "breast cancer": (known(datasets.load_breast_cancer), nn.ReLU, (40,)),
        "noise labels": (noise(4), nn.GELU, (80,)),
        "diabetes": (known(datasets.load_diabetes), nn.Tanh, (20, 20)),
        "staircase": (staircase, nn.ReLU, (100,)),
    },
}
SEEDS = {"tuning": (100, 101), "held-out": (200, 201)}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05),
    "momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, 2e-3, weight_decay=0.1),
}


class Run:
    """One training under a watch, which can go on."""

    def __init__(self, part, data, start, optimizer, seed):
        make, activation, hidden = PARTS[part][data]
        rng = np.random.default_rng(seed)
        x, y = make(rng)
        self.x = torch.tensor(x, dtype=torch.float32)
        whole = np.asarray(y).dtype.kind == "i"
        self.y = torch.tensor(y, dtype=torch.long if whole else torch.float32)
        self.loss = CLASSES if whole else NUMBERS
        torch.manual_seed(seed)
        sizes = [x.shape[1], *hidden, int(np.max(y)) + 1 if whole else 1]
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
        with torch.no_grad():
            for p in [p for layer in layers for p in layer.parameters()]:
                p.mul_(STARTS[start])
        parts = [step for layer in layers for step in (layer, activation())][:-1]
        self.model = nn.Sequential(*parts)
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        rows = rng.permutation(len(x))[:PROBE]
        probe = (self.x[rows], self.y[rows])
        self.watch = Watch(
            self.model,
            self.loss,
            probe=probe,
            optimizer=self.optimizer,
            budget=1e-9,
            widths=False,
            samples=len(x),
        )
        self.batches = torch.Generator().manual_seed(seed)
        self.losses, self.looks = [], {}

    def go_on(self, until):
        for step in range(self.watch.steps, until):
            with torch.no_grad():
                self.losses.append(self.loss(self.model(self.x), self.y).item())
            if step in LOOKS:
                self.looks[step] = self.watch.look()
            rows = torch.randint(len(self.x), (BATCH,), generator=self.batches)
            self.optimizer.zero_grad()
            loss = self.loss(self.model(self.x[rows]), self.y[rows])
            loss.backward()
            self.optimizer.step()
            self.watch.step(loss.item())


def passed(run, forecast):
    """Steps from a forecast until the loss on all data passes the middle of its drop."""
    later = np.array(run.losses[int(forecast.made) :])
    below = np.flatnonzero(later < forecast.middle)
    return float(below[0]) if len(below) else math.inf


def measure(part, data, start, optimizer, seed):
    """What was said at each look, and what came."""
    run = Run(part, data, start, optimizer, seed)
    run.go_on(STEPS)
    told = [look.forecast for look in run.looks.values() if look.forecast is not None]
    # a drop that is said to come is waited for, twice as long as was said
    run.go_on(min(MOST, max([STEPS, *(int(f.made + 2.1 * f.left) for f in told)])))
    losses = np.array(run.losses)
    every = max(len(losses) // 1500, 1)
    coming = plateaus(np.arange(len(losses))[::every], losses[::every])
    rows = []
    for now, look in run.looks.items():
        one = look.forecast
        row = {
            **{"part": part, "kind": data, "start": start, "optimizer": optimizer, "seed": seed},
            **{"now": now, "state": str(look.state), "evaluations": look.evaluations},
            "drop": any(begin <= now < middle for begin, middle, *_ in coming),
            "forecast": None if one is None else one.left,
        }
        if one is not None:
            row |= {"low": one.low - now, "high": one.high - now, "left": passed(run, one)}
            row["levels"] = [one.before, one.after, look.loss]
            row["waited"] = run.watch.steps - now
        rows.append(row)
    return rows


def came(row):
    """Whether the drop that was forecast came, within half and twice its time."""
    return row["forecast"] is not None and 0.5 <= row["left"] / row["forecast"] <= 2


def summary(rows):
    """Numbers that the page tells of some rows."""
    told = [r for r in rows if r["forecast"] is not None]
    known_ = [r for r in told if r["left"] < math.inf or r["waited"] > r["high"]]
    quiet = [r for r in rows if not r["drop"] and not came(r)]
    drops = [r for r in rows if r["drop"] or came(r)]
    return {
        "looks": len(rows),
        "drops": len(drops),
        "told": len(told),
        "known": len(known_),
        "held": sum(r["low"] <= r["left"] <= r["high"] for r in known_),
        "quiet": len(quiet),
        "alarms": sum(r["forecast"] is not None for r in quiet),
        "missed": sum(r["forecast"] is None for r in drops),
        "area": area(drops, quiet) if drops and quiet else math.nan,
    }


HEAD = """## Trainings it was not tuned on

Made by `benchmarks/watch_held_out.py`: classification, regression, noise and parities, cross-entropy and
squares, batches of {batch}, ordinary starts and ones of a twentieth, probes of {probe} samples or fewer, two
seeds, five looks at fixed steps. The upper half was looked at while the watch was mended; the lower half,
other data, networks and seeds, was run once, afterwards. What is true is read off the loss on all training
data. A false alarm is a forecast of a drop that did not come between half and twice its time, in a run that
was continued. "Without a forecast" are looks before a drop, by the rule of the table of small starts, where
none was made.

"""
COLUMNS = (
    *("half", "data", "looks", "before a drop", "without a forecast", "forecasts", "median error"),
    *("in their interval", "false alarms", "area"),
)


def line(part, name, rows):
    found = summary(rows)
    told = [r for r in rows if r["forecast"] is not None]
    off = [abs(r["left"] / r["forecast"] - 1) for r in told]
    return (
        f"| {part} | {name} | {found['looks']} | {found['drops']} | {found['missed']} | "
        f"{found['told']} | {f'{100 * np.median(off):.2g}%' if off else '-'} | "
        f"{found['held']} of {found['known']} | {found['alarms']} of {found['quiet']} | "
        f"{found['area']:.2f} |"
    )


def page(rows):
    lines = []
    for part in PARTS:
        own = [r for r in rows if r["part"] == part]
        lines += [line(part, name, [r for r in own if r["kind"] == name]) for name in PARTS[part]]
        lines += [line(part, "**all**", own)] if own else []
    head = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"
    return HEAD.format(batch=BATCH, probe=PROBE) + head + "\n".join(lines) + "\n"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("parts", nargs="*", default=list(PARTS))
    options.add_argument("--out", type=Path, default=HERE / "watch_held_out.json")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = json.loads(chosen.out.read_text()) if chosen.out.exists() else []
    for part in chosen.parts:
        rows = [r for r in rows if r["part"] != part]
        for data in PARTS[part]:
            for start in STARTS:
                began, fresh = time.perf_counter(), []
                for optimizer in OPTIMIZERS:
                    for seed in SEEDS[part]:
                        fresh += measure(part, data, start, optimizer, seed)
                rows += fresh
                print(
                    data, start, f"{time.perf_counter() - began:.0f} s", summary(fresh), flush=True
                )
                chosen.out.write_text(json.dumps(rows, indent=1))
    chosen.out.with_suffix(".md").write_text(page(rows))


if __name__ == "__main__":
    main()

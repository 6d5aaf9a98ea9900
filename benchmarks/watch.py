"""Forecasts of the watch on PyTorch trainings of many kinds, beside what others would say; and on controls.

Every training runs twice from the same seed: once alone, to know its plateaus, and once under a watch
that looks at 30, 50 and 70% of each of them, and at the same parts of runs in which nothing is to come
(ordinary starts; networks that have converged). Both must give the same losses to the last digit. Writes
benchmarks/watch.json and benchmarks/watch.md. `python benchmarks/watch.py linear relu` runs the kinds
whose name holds one of these words, and keeps the others; `--seeds 5` sets how many starts.
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
from torch import nn

from saddlewalk.curves import LossCurve, find_jumps
from saddlewalk.torch import Watch
from saddlewalk.watch import State

HERE = Path(__file__).parent
FRACTIONS = (0.3, 0.5, 0.7)
SAMPLES = 256
MOST = 100_000
"""Steps for which a drop that was forecast on a control is waited for."""


class Square(nn.Module):
    def forward(self, x):
        return x**2


class LinearAttention(nn.Module):
    """Heads that sum over a context without a softmax, of order 3 in their weights."""

    def __init__(self, size, heads=4, softmax=False):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.softmax = softmax

    def forward(self, x):
        scores = self.q(x[:, -1:]) @ self.k(x).transpose(1, 2)
        scores = torch.softmax(scores, -1) if self.softmax else scores / x.shape[1]
        return (scores @ self.v(x))[:, 0, -1:]


def chain(sizes, activation, scale):
    """Linear layers with an activation between; `scale` is None for PyTorch's own start."""
    parts = []
    for k, (a, b) in enumerate(itertools.pairwise(sizes)):
        layer = nn.Linear(a, b, bias=False)
        shrink(layer, scale, a)
        parts += [layer] if k == len(sizes) - 2 else [layer, activation()]
    return nn.Sequential(*parts)


def shrink(module, scale, inputs=None):
    if scale is None:
        return
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(scale * torch.randn(p.shape) / math.sqrt(inputs or p[0].numel()))


def orthogonal(rng, size, count):
    return np.linalg.qr(rng.normal(size=(size, size)))[0][:count]


def teacher(rng, function, strengths, size=8):
    x = rng.normal(size=(SAMPLES, size))
    directions = orthogonal(rng, size, len(strengths))
    return x, (function(x @ directions.T) @ np.array(strengths))[:, None]


def linear_map(rng, strengths=(3, 2, 1.2, 0.6), size=8):
    x = rng.normal(size=(SAMPLES, size))
    k = len(strengths)
    return x, x @ (orthogonal(rng, k, k).T @ np.diag(strengths) @ orthogonal(rng, size, k)).T


def in_context(rng, values=(1.6, 0.8, 0.4), context=16):
    """Linear regression in the context: tokens (x, y), the last without its y."""
    size = len(values)
    x = rng.normal(size=(SAMPLES, context + 1, size)) * np.sqrt(values)
    w = rng.normal(size=(SAMPLES, size, 1))
    y = x @ w
    tokens = np.concatenate([x, y], axis=2)
    target = tokens[:, -1, -1:].copy()
    tokens[:, -1, -1] = 0.0
    return tokens, target


def stripes(rng, size=16):
    """Signals of which local patterns decide the target, for a convolution with pooling."""
    x = rng.normal(size=(SAMPLES, 1, size))
    kernels = orthogonal(rng, 4, 2)
    seen = np.stack([np.lib.stride_tricks.sliding_window_view(x[:, 0], 4, 1) @ k for k in kernels])
    return x, (1.5 * np.maximum(seen[0], 0).mean(1) - np.maximum(seen[1], 0).mean(1))[:, None]


def convolution(scale):
    conv, out = nn.Conv1d(1, 8, 4, bias=False), nn.Linear(8, 1, bias=False)
    shrink(conv, scale)
    shrink(out, scale)
    return nn.Sequential(conv, nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), out)


def digits(rng):
    """Two classes of handwritten digits, on their first principal components."""
    import saddlewalk as sw

    task = sw.tasks.images("mnist", components=16, samples=512)
    return np.asarray(task.x), np.asarray(task.y)


def attention(softmax):
    def make(scale):
        module = LinearAttention(4, softmax=softmax)
        shrink(module, scale)
        return module

    return make


# name: network of a scale, data of a generator, small scale, learning rate of descent, steps, loss
MSE = nn.MSELoss()
KINDS = {
    "linear": (lambda s: chain([8, 12, 4], nn.Identity, s), linear_map, 1e-3, 4e-3, 12_000),
    "relu": (
        lambda s: chain([8, 16, 1], nn.ReLU, s),
        lambda r: teacher(r, lambda z: np.maximum(z, 0), (2, -1.4, 0.9)),
        1e-3,
        4e-3,
        8_000,
    ),
    "tanh": (
        lambda s: chain([8, 8, 1], nn.Tanh, s),
        lambda r: teacher(r, lambda z: np.tanh(2 * z), (2, -1.4, 0.9)),
        1e-3,
        4e-3,
        8_000,
    ),
    "quadratic": (
        lambda s: chain([8, 10, 1], Square, s),
        lambda r: teacher(r, lambda z: z**2, (1.5, -1, 0.6)),
        3e-2,
        2e-3,
        10_000,
    ),
    "deep linear 3": (
        lambda s: chain([8, 10, 10, 4], nn.Identity, s),
        linear_map,
        0.2,
        3e-3,
        16_000,
    ),
    "deep linear 4": (
        lambda s: chain([8, 10, 10, 10, 4], nn.Identity, s),
        linear_map,
        0.3,
        3e-3,
        16_000,
    ),
    "deep tanh": (
        lambda s: chain([8, 12, 12, 1], nn.Tanh, s),
        lambda r: teacher(r, lambda z: np.tanh(2 * z), (2, -1.4, 0.9)),
        0.2,
        4e-3,
        8_000,
    ),
    "convolution": (convolution, stripes, 1e-2, 1e-2, 12_000),
    "linear attention": (attention(False), in_context, 0.1, 2e-3, 20_000),
    "softmax attention": (attention(True), in_context, 0.1, 4e-3, 20_000),
    "digits": (lambda s: chain([16, 32, 1], nn.ReLU, s), digits, 1e-3, 1e-2, 8_000),
}
OPTIMIZERS = {
    "gd": lambda p, lr: torch.optim.SGD(p, lr),
    "sgd": lambda p, lr: torch.optim.SGD(p, lr),
    "momentum": lambda p, lr: torch.optim.SGD(p, lr / 10, momentum=0.9),
    "adam": lambda p, lr: torch.optim.Adam(p, lr / 40),
}
TWO_LAYERS = ("linear", "relu", "tanh", "quadratic", "digits")


class Run:
    """One training, which can be repeated."""

    def __init__(self, kind, optimizer, seed, ordinary=False):
        self.make, self.data, self.scale, self.rate, self.steps = KINDS[kind]
        self.kind, self.optimizer, self.seed, self.ordinary = kind, optimizer, seed, ordinary
        rng = np.random.default_rng(seed)
        x, y = self.data(rng)
        self.x, self.y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
        self.every = max(self.steps // 1500, 1)

    def train(self, look_at=(), budget=None):
        """Losses on all data now and then; looks at some steps, or as a budget allows."""
        torch.manual_seed(self.seed)
        model = self.make(None if self.ordinary else self.scale)
        optimizer = OPTIMIZERS[self.optimizer](model.parameters(), self.rate)
        batches = torch.Generator().manual_seed(self.seed)
        watch = None
        if look_at or budget:
            watch = Watch(
                model,
                MSE,
                probe=(self.x, self.y),
                optimizer=optimizer,
                budget=budget or 1e-9,
                widths=False,
                samples=len(self.x),  # the probe is all there is
            )
        at, losses, norms, looks = [], [], [], {}
        for step in range(self.steps):
            if step % self.every == 0 and not budget:
                loss, norm = self.state(model)
                at.append(step)
                losses.append(loss)
                norms.append(norm)
            if step in look_at:
                start = time.perf_counter()
                looks[step] = (watch.look(), time.perf_counter() - start)
            x, y = self.x, self.y
            if self.optimizer == "sgd":
                rows = torch.randint(len(x), (32,), generator=batches)
                x, y = x[rows], y[rows]
            optimizer.zero_grad()
            loss = MSE(model(x), y)
            loss.backward()
            optimizer.step()
            if watch is not None:
                watch.step(loss.item())
        return np.array(at), np.array(losses), np.array(norms), looks, watch

    def state(self, model):
        """Loss and length of its gradient on all data."""
        loss = MSE(model(self.x), self.y)
        slopes = torch.autograd.grad(loss, list(model.parameters()))
        return loss.item(), math.sqrt(sum(float((g**2).sum()) for g in slopes))


def plateaus(steps, losses):
    """Begin, middle of the drop, loss before and after of each plateau that ends in a drop that matters."""
    found, previous = [], None
    for jump in find_jumps(LossCurve.of(steps, losses)):
        begin = 0.0
        if previous is not None:
            near = jump.before + 0.1 * (previous.before - previous.after)
            later = np.flatnonzero((steps > previous.time) & (losses <= near))
            begin = float(steps[later[0]]) if len(later) else jump.time
        fall = jump.before - jump.after
        if fall >= 0.1 * jump.before and jump.time - begin >= 0.1 * jump.time:
            found.append((begin, jump.time, jump.before, jump.after))
        previous = jump
    return found


def peers(steps, losses, norms, now, begin, middle, rate):
    """What others would say at a moment: the loss extrapolated, the law of the gradient norm, patience."""
    seen = (steps <= now) & (steps >= begin + 0.5 * (now - begin))
    t, loss, norm = steps[seen], losses[seen], norms[seen]
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
                law = (math.log(max(losses[0], 1e-300) ** 0.5) - b) / a - now if a > 0 else math.inf
            else:
                law = -b / a - now if a < 0 else math.inf
    return {"extrapolated": extrapolated, "gradient_norm": law}


def measure(kind, optimizer, seed):
    run = Run(kind, optimizer, seed)
    start = time.perf_counter()
    steps, losses, norms, _, _ = run.train()
    seconds = time.perf_counter() - start
    wanted = {}
    for number, (begin, middle, before, after) in enumerate(plateaus(steps, losses)):
        for part in FRACTIONS:
            now = round(begin + part * (middle - begin))
            if now > 10:
                wanted[now] = (number, part, begin, middle, before, after)
    _same, again, _, looks, _ = run.train(look_at=set(wanted))
    assert np.array_equal(losses, again), "the watch changed the training"
    rows = []
    for now, (number, part, begin, middle, before, after) in wanted.items():
        look, taken = looks[now]
        told = look.forecast
        rows.append(
            {
                "kind": kind,
                "optimizer": optimizer,
                "seed": seed,
                "plateau": number,
                "part": part,
                "now": now,
                "left": middle - now,
                "state": str(look.state),
                "forecast": None if told is None else told.left,
                "low": None if told is None else told.low - now,
                "high": None if told is None else told.high - now,
                "seconds": taken,
                "evaluations": look.evaluations,
                "levels": [
                    before,
                    after,
                    None if told is None else told.before,
                    None if told is None else told.after,
                ],
                "seconds_trained": seconds * now / run.steps,
                **peers(steps, losses, norms, now, begin, 0.5 * (before + after), run.rate),
            }
        )
    return rows


def control(kind, optimizer, seed, ordinary):
    """Looks at moments at which no drop is to come: of an ordinary start, or of the end of a run."""
    run = Run(kind, optimizer, seed, ordinary)
    parts = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7) if ordinary else (0.97, 0.985, 0.999)
    moments = {int(part * run.steps) for part in parts}
    run.steps *= 1 if ordinary else 2  # whether anything comes after the end
    steps, losses, _, looks, _ = run.train(look_at=moments)
    coming = plateaus(steps, losses)
    rows = []
    for now in sorted(moments):
        if any(begin <= now < middle for begin, middle, *_ in coming):
            continue  # an ordinary start may have a plateau, too
        look, _ = looks[now]
        rows.append(
            {
                "kind": kind,
                "optimizer": optimizer,
                "seed": seed,
                "control": "ordinary" if ordinary else "converged",
                "now": now,
                "state": str(look.state),
                "forecast": None if look.forecast is None else look.forecast.left,
            }
        )
    return rows


def came(row):
    """When the drop that was forecast on a control came all the same, within half and twice its time."""
    run = Run(row["kind"], row["optimizer"], row["seed"], row["control"] == "ordinary")
    run.steps = int(min(row["now"] + 2 * row["forecast"], MOST))
    steps, losses, _, looks, _ = run.train(look_at={row["now"]})
    told = looks[row["now"]][0].forecast
    if told is None:
        return None
    below = steps[(losses < told.middle) & (steps > row["now"])]
    left = float(below[0] - row["now"]) if len(below) else math.inf
    return left if 0.5 * told.left <= left <= 2 * told.left else None


def overhead(kind="relu", optimizer="sgd"):
    """Part of the training time that a watch takes with its own budget of 5%."""
    run = Run(kind, optimizer, 0)
    run.steps *= 3
    *_, watch = run.train(budget=0.05)
    return {
        "kind": kind,
        "optimizer": optimizer,
        "share": watch.budget.share,
        "looks": len(watch.looks),
    }


def median(values):
    known = [value for value in values if value is not None and not math.isnan(value)]
    return float(np.median(known)) if known else math.nan


def error(row, name="forecast"):
    value = row[name]
    return math.inf if value is None else abs(value - row["left"]) / row["left"]


def score(row):
    """The larger the nearer a drop is said to be."""
    if row["forecast"] is None:
        return 0.1 if row["state"] == str(State.PLATEAU) else 0.0
    return 1.0 / (1.0 + row["forecast"] / max(row["now"], 1))


def area(drops, controls):
    """Area under the curve: how often a moment before a drop scores higher than one without."""
    a, b = np.array([score(r) for r in drops]), np.array([score(r) for r in controls])
    return float(np.mean((a[:, None] > b[None]) + 0.5 * (a[:, None] == b[None])))


HEAD = """# The watch: forecasts of the next drop

Made by `benchmarks/watch.py`: PyTorch trainings in single precision from small starts, looked at by a
watch at 30, 50 and 70% of every plateau (a drop of a tenth of the loss at least, a plateau of a tenth of
its time at least). The numbers are medians of the error of the time left, relative; a look that makes no
forecast counts as an infinite error. Descent is on all data (gd), on batches of 32 of {samples} samples
(sgd), with momentum 0.9 (momentum), and Adam. Beside it what others would say at the same moments: the
loss extrapolated along a line, and the law of the gradient norm with the degree that fits best, both on
the second half of what was seen of the plateau.

How far to trust it: the thresholds of the watch, the learning rates of the attention networks (lowered
once, after a first table) and the widths of its intervals were chosen on these very kinds and seeds, so
errors and coverage are those of runs it was tuned on. Two seeds each. Rows of softmax attention, of
linear attention with momentum and Adam, and the controls of digits were made before the last change of
the intervals; how much of Adam's mean squares is noise was put right after the table. "digits" has no
plateau by the rule above, and no row. By the first rule, that no drop follows within the run (ordinary
starts) or within twice its length (the others), all 24 forecasts on controls were false alarms (3.5%);
runs were continued after that count was seen. The probe is all the data here. Trainings that the watch was
not tuned on, with probes that are a part of the data, are in `benchmarks/watch_held_out.md`.

"""
COLUMNS = (
    *("training", "optimizer", "looks", "30%", "50%", "70%", "first", "later", "no forecast"),
    *("in its interval", "loss extrapolated", "gradient norm", "gradients a look"),
)


def table(rows):
    lines = []
    for kind in KINDS:
        for optimizer in OPTIMIZERS:
            some = [r for r in rows if r["kind"] == kind and r["optimizer"] == optimizer]
            if not some:
                continue
            told = [r for r in some if r["forecast"] is not None]
            cells = [
                f"{100 * median([error(r) for r in some if r['part'] == f]):.3g}%"
                for f in FRACTIONS
            ]
            cells += [
                f"{100 * median([error(r) for r in some if (r['plateau'] == 0) == first]):.3g}%"
                for first in (True, False)
            ]
            inside = (
                np.mean([r["low"] <= r["left"] <= r["high"] for r in told]) if told else math.nan
            )
            lines.append(
                f"| {kind} | {optimizer} | {len(some)} | {' | '.join(cells)} | {len(some) - len(told)} | "
                f"{100 * inside:.0f}% | {100 * median([error(r, 'extrapolated') for r in some]):.3g}% | "
                f"{100 * median([error(r, 'gradient_norm') for r in some]):.3g}% | "
                f"{median([r['evaluations'] for r in some]):.0f} |"
            )
    return "\n".join(lines).replace("nan%", "-").replace("inf%", "none")


def page(known):
    rows, controls = known["forecasts"], known["controls"]
    told = [r for r in rows if r["forecast"] is not None]
    inside = np.mean([r["low"] <= r["left"] <= r["high"] for r in told])
    told_there = [r for r in controls if r["forecast"] is not None]
    alarms = [r for r in told_there if r["came"] is None]
    nothing = [r for r in controls if r["forecast"] is None or r["came"] is None]
    two = [
        r for r in rows if r["kind"] in TWO_LAYERS and r["optimizer"] != "adam" and r["part"] == 0.5
    ]
    rest = [
        r
        for r in rows
        if (r["kind"] not in TWO_LAYERS or r["optimizer"] == "adam") and r["part"] == 0.5
    ]
    shares = ", ".join(f"{100 * o['share']:.1f}% ({o['looks']} looks)" for o in known["overhead"])
    foot = f"""
- Two layers, descent with or without momentum, at 50%: median error {100 * median(map(error, two)):.2g}%;
  deep networks, convolution, attention, and Adam: {100 * median(map(error, rest)):.2g}%.
- Of {len(told)} intervals, meant to hold 80%, {100 * inside:.0f}% hold the truth.
- On controls (ordinary starts, networks that seem converged), {len(controls)} looks forecast
  {len(told_there)} drops. {len(told_there) - len(alarms)} of them came when the runs went on;
  {len(alarms)} are false alarms ({100 * len(alarms) / len(controls):.1f}%).
- Area under the curve for "a drop comes": {area(rows, nothing):.3f}.
- Overhead with a budget of 5%: {shares}.
- Losses of every training were the same to the last digit with and without the watch.
"""
    head = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"
    return HEAD.format(samples=SAMPLES) + head + table(rows) + "\n" + foot


def main():
    options = argparse.ArgumentParser()
    options.add_argument("words", nargs="*")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--optimizers", default=",".join(OPTIMIZERS))
    chosen = options.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    file = HERE / "watch.json"
    known = {"forecasts": [], "controls": [], "overhead": []}
    if file.exists():
        known = json.loads(file.read_text())
    for kind in KINDS:
        if chosen.words and not any(word in kind for word in chosen.words):
            continue  # a word that is in none just writes the page anew
        for optimizer in chosen.optimizers.split(","):
            fresh = lambda r, k=kind, o=optimizer: (r["kind"], r["optimizer"]) != (k, o)  # noqa: E731
            known["forecasts"] = list(filter(fresh, known["forecasts"]))
            known["controls"] = list(filter(fresh, known["controls"]))
            for seed in range(chosen.seeds):
                known["forecasts"] += measure(kind, optimizer, seed)
                if seed < 2:
                    known["controls"] += control(kind, optimizer, seed, True)
                    known["controls"] += control(kind, optimizer, seed, False)
            some = [r for r in known["forecasts"] if not fresh(r)]
            alarms = [r for r in known["controls"] if not fresh(r) and r["forecast"] is not None]
            print(table(some), f"alarms: {len(alarms)}", flush=True)
            file.write_text(json.dumps(known, indent=1))
    if not chosen.words:
        known["overhead"] = [overhead("relu", "sgd"), overhead("deep tanh", "adam")]
        file.write_text(json.dumps(known, indent=1))
    for row in known["controls"]:
        if row["forecast"] is not None and "came" not in row:
            row["came"] = came(row)
            print(row, flush=True)
    file.write_text(json.dumps(known, indent=1))
    (HERE / "watch.md").write_text(page(known))


if __name__ == "__main__":
    main()

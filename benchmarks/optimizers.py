"""How well predictions under an optimizer agree with runs in the same steps.

Ten starts (and ten data sets) at three scales and two learning rates, for the heavy ball, Adam, sign descent
and Muon on a diagonal, a linear and a ReLU network; each prediction against a run in the same steps.

    python benchmarks/optimizers.py                  all cells, then benchmarks/optimizers.json and .md
    python benchmarks/optimizers.py rows 2 4 FILE    every fourth cell from the second on, a JSON row each
    python benchmarks/optimizers.py table FILES      the table of such rows
    python benchmarks/optimizers.py picture FILE     the picture of docs/optimizers.md
"""

import json
import math
import sys
import time
from pathlib import Path

import numpy as np

import saddlewalk as sw
from saddlewalk.theory.optimizers.base import RESTING, resting_share

HERE = Path(__file__).parent
SEEDS = range(10)
SCALES = (1e-3, 1e-6, 1e-9)
RATES = (1e-3, 4e-3)
OPTIMIZERS = ("momentum", "adam", "sign", "muon")
MOST_STEPS = {"momentum": 200_000}
LEAST = 0.01
"""Part of the whole fall that makes a step of a run's curve a stage."""


def design(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12, 6))
    return sw.tasks.from_arrays(x, x @ (rng.normal(size=6) * 2), name="diagonal")


NETWORKS = {
    "diagonal, 12 samples, 6 inputs": (design, lambda: sw.units.Diagonal()),
    "linear, d = c = H = 4": (
        lambda seed: sw.tasks.linear_map(4, 4, decay=1.0, seed=seed),
        lambda: sw.units.Dense(4, "linear"),
    ),
    "ReLU, 60 samples, width 4": (
        lambda seed: sw.tasks.hidden_directions(samples=60, dim=4, outputs=2, seed=seed),
        lambda: sw.units.Dense(4, "relu"),
    ),
}
CELLS = [
    (network, word, rate, scale, seed)
    for network in NETWORKS
    for word in OPTIMIZERS
    for rate in RATES
    for scale in SCALES
    for seed in SEEDS
]


def measure(network, word, rate, scale, seed):
    make_task, make_units = NETWORKS[network]
    task, units = make_task(seed), make_units()
    rule = sw.optimizers.optimizer_named(word, learning_rate=rate)
    begin = time.perf_counter()
    stairs = sw.predict(task, units, scale, seed, optimizer=rule)
    middle = time.perf_counter()
    path = sw.train(
        task, units, scale, seed, optimizer=rule, max_steps=MOST_STEPS.get(word, 60_000)
    )
    end = time.perf_counter()
    report = sw.compare(stairs, path)
    flow = sw.compare(sw.predict(task, units, scale, seed), path) if word == "momentum" else None
    levels = [float(path.loss[0]), *(stage.loss for stage in path.stages)]
    whole = levels[0] - float(path.loss.min())
    finite = lambda errors: [e for e in errors if math.isfinite(e)]  # noqa: E731
    return {
        "network": network,
        "optimizer": word,
        "rate": rate,
        "scale": scale,
        "seed": seed,
        "method": stairs.method,
        "stopped": str(stairs.stopped),
        "order": bool(report.order),
        "stages": len(stairs.stages),
        "found": int(np.sum(-np.diff(levels) >= LEAST * whole)),
        "time_error": finite(report.time_error),
        "flow_error": finite(flow.time_error) if flow else [],
        "level_error": finite(report.level_error),
        "rests_predicted": resting_share(*map(np.asarray, stairs.curve)),
        "rests_seen": resting_share(path.time, path.loss),
        "steps": int(path.info["steps"]),
        "gradients": int(stairs.rhs_evaluations or 0),
        "seconds": [round(middle - begin, 3), round(end - middle, 3)],
        "run_stopped": str(path.stopped),
    }


def rows_of(cells, file=None):
    rows = []
    for cell in cells:
        try:
            rows.append(measure(*cell))
        except Exception as error:  # a cell that fails is a row that says so
            names = ("network", "optimizer", "rate", "scale", "seed")
            rows.append({**dict(zip(names, cell, strict=True)), "failed": repr(error)})
        if file:
            with open(file, "a") as out:
                out.write(json.dumps(rows[-1]) + "\n")
    return rows


def summary(rows):
    lines = []
    for network in NETWORKS:
        for word in OPTIMIZERS:
            for rate in RATES:
                cells = [
                    r
                    for r in rows
                    if (r["network"], r["optimizer"], r["rate"]) == (network, word, rate)
                ]
                group = [r for r in cells if "failed" not in r]
                if not group:
                    continue
                errors = [e for r in group for e in r["time_error"]]
                first = [r["time_error"][0] for r in group if r["time_error"]]
                says = [r["rests_predicted"] >= RESTING for r in group]
                shows = [r["rests_seen"] >= RESTING for r in group]
                same = sum(a == b for a, b in zip(says, shows, strict=True))
                flow = [e for r in group for e in r["flow_error"]]
                lines.append(
                    f"| {network} | {word} | {rate:g} | {sum(r['order'] for r in group)} of {len(cells)} | "
                    f"{np.mean([r['stages'] for r in group]):.1f} | "
                    f"{np.mean([r['found'] for r in group]):.1f} | {_percent(errors, np.median)} | "
                    f"{_percent(first, np.median)} | {_percent(errors, lambda e: np.quantile(e, 0.9))} | "
                    f"{_percent(flow, np.median)} | {sum(says)} | {sum(shows)} | {same} of {len(cells)} |"
                )
    return lines


def _percent(errors, of):
    return f"{100 * of(errors):.2f}%" if errors else "-"


HEAD = """# Predictions under an optimizer

Ten starts and data sets at three scales (1e-3, 1e-6, 1e-9), two learning rates: each prediction against
a run in the same steps, made by `python benchmarks/optimizers.py`. Errors of jump times are relative:
the median of all, of the first jump, and what nine of ten stay below; beside them the median where
gradient flow is predicted instead (on the clock learning rate / (1 - momentum)). `stages` were
predicted, `found` seen in the run alone (steps of a hundredth of the fall and more). A staircase: of the
30 curves those that rest for a third of the time of their fall, predicted and seen, and how often both
say the same.

"""
COLUMNS = (
    *(
        "network",
        "optimizer",
        "rate",
        "order right",
        "stages",
        "found",
        "time error",
        "first",
        "90%",
    ),
    *("of the flow", "staircase predicted", "seen", "same"),
)
HEAD += f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"


def table(rows):
    (HERE / "optimizers.json").write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    (HERE / "optimizers.md").write_text(HEAD + "\n".join(summary(rows)) + "\n")
    print("\n".join(summary(rows)))


def picture(target):
    """One linear network under six optimizers at three scales: runs, and predictions dashed."""
    from saddlewalk.show import draw

    words = ("flow", "momentum", "normalized", "adam", "muon", "sign")
    task, units = sw.tasks.linear_map(4, 4, decay=1.0, seed=0), sw.units.Dense(4, "linear")
    with draw.styled():
        figure, panels = draw.new_figure(2, 3, 10, 5.2)
        for panel, word in zip(np.ravel(panels), words, strict=True):
            for color, scale in zip(("C0", "C1", "C2"), (1e-2, 1e-5, 1e-8), strict=True):
                how = {} if word == "flow" else {"optimizer": word, "learning_rate": 2e-3}
                most = {"max_steps": 60_000} if how else {}
                stairs = sw.predict(task, units, scale, 0, **how)
                path = sw.train(task, units, scale, 0, **how, **most)
                panel.plot(path.time, path.loss, color=color, label=f"scale {scale:g}")
                panel.plot(*stairs.curve, "--", color="black", linewidth=0.8)
            end = {"flow": 40, "momentum": 40, "normalized": 8, "adam": 1.5, "muon": 3, "sign": 1.5}
            panel.set(title=word, xlim=(0, end[word]), xlabel="time" if word in words[3:] else "")
        panels[0][0].legend(fontsize=7)
        panels[0][0].set_ylabel("loss")
        panels[1][0].set_ylabel("loss")
        draw.save(figure, target)


if __name__ == "__main__":
    what, *more = sys.argv[1:] or ["all"]
    if what == "rows":
        first, every, file = int(more[0]), int(more[1]), more[2]
        rows_of(CELLS[first::every], file)
    elif what == "picture":
        picture(more[0])
    elif what == "table":
        table([json.loads(line) for file in more for line in Path(file).read_text().splitlines()])
    else:
        table(rows_of(CELLS))

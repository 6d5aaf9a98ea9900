"""What sweeps cost: cells a second against `train` in a loop, lanes, engines, and stores of 100,000 cells.

`python benchmarks/sweeps.py` measures here and writes benchmarks/sweeps.md (`make bench`).
`python benchmarks/sweeps.py gpu FILE` trains 10,000 networks of Fig 1b in one call and flows in lanes, on a
GPU, and writes FILE; its numbers are kept in benchmarks/sweeps_gpu.json.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

import saddlewalk as sw
from saddlewalk.figures.networks import student
from saddlewalk.figures.rich import students
from saddlewalk.sweep import Results, grid, sweep
from saddlewalk.sweep.measures import MEASURES
from saddlewalk.sweep.results import open_results

HERE = Path(__file__).parent
STEPS = {"solver": "descent", "learning_rate": 0.01, "max_steps": 1000, "scale": 1e-2}
NETWORKS = {
    "diagonal, d = 10, flow": {"setting": "diagonal"},
    "diagonal, d = 100, flow": {"setting": "diagonal", "dim": 100, "samples": 300},
    "linear, 10 x 10, flow": {"setting": "linear"},
    "ReLU, 3 units, flow": {"setting": "relu", "scale": 1e-3, "max_time": 100.0},
    "diagonal, d = 10, 1,000 steps": {"setting": "diagonal", **STEPS},
    "ReLU, 3 units, 1,000 steps": {"setting": "relu", **STEPS},
}


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def told(row):
    print(json.dumps(row), flush=True)
    return row


# --- against `train` in a loop ------------------------------------------------------------------------------


def by_hand(cell):
    """What someone without sweeps writes: one call for one cell."""
    return sw.Run.of(**cell).train(progress=False)


def rates(name, measure, plan, once, lanes=32):
    """Times a cell: by hand and by sweep, each from nothing and again."""
    cells = len(plan)
    jax.clear_caches()
    compiling = seconds(lambda: once(plan.cell(0)))
    loop = seconds(lambda: [once(plan.cell(k)) for k in range(0, cells, 4)]) / (cells // 4)
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()
        whole = seconds(lambda: sweep(measure, plan, f"{folder}/c.zarr")) / cells
        alone = seconds(lambda: sweep(measure, plan, f"{folder}/a.zarr", lanes=1)) / cells
        measure.together([plan.cell(k) for k in range(lanes)])  # compile
        batch = seconds(lambda: sweep(measure, plan, f"{folder}/b.zarr", lanes=lanes)) / cells
        chosen = list(open_results(f"{folder}/c.zarr").attrs["lanes"].values())
    return told(
        {
            "network": name,
            "train_compiling_ms": 1e3 * compiling,
            "train_loop_ms": 1e3 * loop,
            "sweep_from_nothing_ms": 1e3 * whole,
            "lanes_chosen": chosen[0],
            "one_lane_ms": 1e3 * alone,
            "lanes_ms": 1e3 * batch,
            "against_compiling": compiling / whole,
            "against_loop": loop / min(alone, batch),
        }
    )


def network_row(name, fixed, cells=256):
    plan = grid({"seed": list(range(cells))}, **fixed)
    return rates(name, MEASURES["train"], plan, by_hand)


def portrait_row(steps=100):
    """A cell of Fig 1b: by `train`, and as a student that is measured besides."""
    plan = grid(
        {"tau": [0.1, 0.5, 1.0, 2.0], "delta": [-1.0, 0.0, 0.5, 1.0], "seed": list(range(8))},
        steps=steps, tested=2000,
    )  # fmt: skip

    def once(cell):
        given = student.drawn(cell["seed"], 100, 1000)
        task, units = sw.tasks.from_arrays(given.x, given.y), sw.units.Dense(50, "relu")
        start = given.start(cell["tau"], cell["delta"])
        return sw.train(
            task, units, 1.0, start=start, solver="descent", max_steps=steps, convergence=0.0,
            learning_rate=2 * students.RATE / cell["tau"] ** 2, progress=False,
        )  # fmt: skip

    return rates("student of Fig 1b, 100 steps", students.student, plan, once)


# --- engines ------------------------------------------------------------------------------------------------


def nothing(number):
    return {"double": 2 * number}


def busy(number):
    """Half a second of one core."""
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    return {"double": 2 * number}


def engine_rows(cells=2000):
    rows = []
    plan = grid({"number": list(range(cells))})
    work = grid({"number": list(range(40))})
    for name, options in {
        "this process": {},
        "1 worker": {"workers": 1},
        "2 workers": {"workers": 2},
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            start = seconds(lambda f=folder, o=options: sweep(
                nothing, grid({"number": [0]}), f"{f}/s.zarr", **o))  # fmt: skip
            all_of_them = seconds(
                lambda f=folder, o=options: sweep(nothing, plan, f"{f}/a.zarr", **o)
            )
            worked = seconds(lambda f=folder, o=options: sweep(busy, work, f"{f}/b.zarr", **o))
        rows.append(
            told(
                {
                    "engine": name,
                    "start_s": start,
                    "overhead_ms": 1e3 * max(0.0, all_of_them - start) / cells,
                    "busy_s": worked - start,
                }
            )
        )
    return rows


# --- stores -------------------------------------------------------------------------------------------------


class Numbers:
    name = "numbers"

    def __call__(self, **cell):
        return dict(zip("abc", (1.0, 2.0, 3.0), strict=True))

    def program(self, cell):
        return "one"

    def together(self, cells):
        return [self() for _ in cells]

    def size(self, cell):
        return 8


def store_row(cells=100_000):
    plan = grid({"x": list(range(cells // 100)), "seed": list(range(100))})
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/s.zarr"
        results = Results(path, plan, "numbers")
        numbers = rng.normal(size=(cells, 3))
        most = {k: dict(zip("abc", numbers[k], strict=True)) for k in range(cells - 1)}
        written = seconds(lambda: results.write(most))
        opened = seconds(lambda: open_results(path)["a"].values.mean())
        results.close()
        # the last cell, by a measure that can run cells together: all of them are looked at
        resumed = seconds(lambda: sweep(Numbers(), plan, path, lanes=1))
        size = sum(f.stat().st_size for f in Path(path).rglob("*") if f.is_file())
    return told(
        {
            "cells": cells,
            "write_s": written,
            "open_and_read_s": opened,
            "resume_s": resumed,
            "MB": size / 2**20,
        }
    )


# --- on a GPU -----------------------------------------------------------------------------------------------


def gpu(target):
    """10,000 networks of Fig 1b in one call, and how flows in lanes scale."""
    rows = {"device": jax.devices()[0].device_kind, "portrait": [], "flows": []}
    for cells, steps in ((100, 100), (1000, 100), (10_000, 100), (10_000, 1000)):
        plan = grid(
            {
                "tau": np.logspace(-1, 0.3, 25 if cells == 10_000 else 5),
                "delta": np.linspace(-1, 1, 25 if cells == 10_000 else 5),
                "seed": range(100, 100 + cells // (625 if cells == 10_000 else 25)),
            },
            steps=steps,
        )
        every = list(plan)
        first = seconds(lambda e=every: students.student.together(e))
        again = seconds(lambda e=every: students.student.together(e))
        rows["portrait"].append(
            told({"cells": len(every), "steps": steps, "first_s": first, "again_s": again})
        )
    for name in ("diagonal, d = 10, flow", "diagonal, d = 100, flow", "ReLU, 3 units, 1,000 steps"):
        for lanes in (1, 32, 1024):
            cells = list(grid({"seed": list(range(lanes))}, **NETWORKS[name]))
            MEASURES["train"].together(cells)
            took = seconds(lambda c=cells: MEASURES["train"].together(c))
            rows["flows"].append(
                told({"network": name, "lanes": lanes, "ms_a_cell": 1e3 * took / lanes})
            )
    Path(target).write_text(json.dumps(rows, indent=1) + "\n")


# --- the report ---------------------------------------------------------------------------------------------


def report(networks, engines, stores, device):
    lines = [
        "# Sweeps",
        "",
        "`make bench` writes this page. Two cores; times a cell in ms, each with everything that a sweep "
        "does besides (making data, reducing to numbers, writing the store).",
        "",
        "## Cells a second",
        "",
        "`train`, compiling: one call in a process that has compiled nothing, as in a script for each cell. "
        "`train`, loop: the same call again and again in one process; `train` too compiles once a shape. "
        "Sweep: 256 cells (128 of Fig 1b) from nothing, compiling and trying included, and the lanes it "
        "chose. Then one lane and 32 lanes, compiled before. `x compiling`: the first column over the sweep "
        "from nothing. `x loop`: the second over the faster of the last two. The cells of one network "
        "differ in their seed.",
        "",
        "| network | train, compiling | train, loop | sweep | chose | 1 lane | 32 lanes | x compiling "
        "| x loop |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in networks:
        lines.append(
            f"| {r['network']} | {r['train_compiling_ms']:,.0f} | {r['train_loop_ms']:.3g} | "
            f"{r['sweep_from_nothing_ms']:.3g} | {r['lanes_chosen']} | {r['one_lane_ms']:.3g} | "
            f"{r['lanes_ms']:.3g} | {r['against_compiling']:,.0f} | {r['against_loop']:.2g} |"
        )
    lines += [
        "",
        "Against a loop in which each cell compiles, a sweep is at least ten times as fast where the last "
        "but one column says so. Against `train` called in one process, which has compiled once itself, what "
        "is left is what lanes give on two cores.",
    ]
    lines += [
        "",
        "## Engines",
        "",
        "Overhead: cells that do nothing. Busy: 40 cells of half a second of one core each.",
        "",
        "| engine | start (s) | overhead a cell (ms) | busy (s) | x 1 worker |",
        "|---|---|---|---|---|",
    ]
    one = next(r["busy_s"] for r in engines if r["engine"] == "1 worker")
    for r in engines:
        lines.append(
            f"| {r['engine']} | {r['start_s']:.2g} | {r['overhead_ms']:.2g} | {r['busy_s']:.1f} | "
            f"{one / r['busy_s']:.2f} |"
        )
    lines += [
        "",
        "## Stores",
        "",
        f"{stores['cells']:,} cells of three numbers: {stores['MB']:.1f} MB, written in "
        f"{stores['write_s']:.2f} s, opened and read in {stores['open_and_read_s']:.2f} s, ready to resume "
        f"in {stores['resume_s']:.2f} s.",
    ]
    if device:
        lines += [
            "",
            f"## On a GPU ({device['device']})",
            "",
            "Networks of Fig 1b (50 neurons, 100 inputs, 1,000 samples) in one call, float64: so many steps "
            "of descent, then test error, kernel distance and the rest:",
            "",
            "| networks | steps | first call (s) | again (s) | networks a second |",
            "|---|---|---|---|---|",
        ]
        for r in device["portrait"]:
            lines.append(
                f"| {r['cells']:,} | {r['steps']:,} | {r['first_s']:.1f} | {r['again_s']:.1f} | "
                f"{r['cells'] / r['again_s']:,.0f} |"
            )
        lines += [
            "",
            "Lanes (ms a cell, `train`):",
            "",
            "| network | 1 | 32 | 1,024 |",
            "|---|---|---|---|",
        ]
        for name in dict.fromkeys(r["network"] for r in device["flows"]):
            row = [f"{r['ms_a_cell']:.3g}" for r in device["flows"] if r["network"] == name]
            lines.append(f"| {name} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["gpu"]:
        gpu(sys.argv[2])
        return
    networks = [network_row(name, fixed) for name, fixed in NETWORKS.items()] + [portrait_row()]
    engines, stores = engine_rows(), store_row()
    kept = HERE / "sweeps_gpu.json"
    device = json.loads(kept.read_text()) if kept.exists() else None
    (HERE / "sweeps.md").write_text(report(networks, engines, stores, device))
    rows = {"networks": networks, "engines": engines, "stores": stores}
    (HERE / "sweeps.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""What regimes cost: the tangent kernel's memory, and cells of the phase portrait, batched against looped.

`python benchmarks/regimes.py` measures here and writes benchmarks/regimes.md (`make bench`).
`python benchmarks/regimes.py portrait FOLDER [STEPS]` trains the paper's whole grid of Fig 1b, on a GPU if
there is one, and writes its numbers into FOLDER; the times are copied into benchmarks/regimes_gpu.json.
"""

import contextlib
import dataclasses
import importlib
import json
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import saddlewalk as sw
from saddlewalk.figures.networks import student
from saddlewalk.figures.networks.ensembles import train_ensemble
from saddlewalk.figures.rich import portrait as rich_portrait
from saddlewalk.figures.rich import students

HERE = Path(__file__).parent
tangent_kernel = importlib.import_module(
    "saddlewalk.diagnose.tangent_kernel"
)  # the module, not its function


def seconds(function):
    begin = time.perf_counter()
    result = jax.block_until_ready(function())
    return time.perf_counter() - begin, result


# --- the tangent kernel ---------------------------------------------------------------------------------


def kernel_row(name, units, inputs, execute=True, samples=1000):
    """Time and memory of one kernel, compiled before: what XLA reserves, and how the process grew."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, inputs)) / np.sqrt(inputs)
    problem = sw.Problem(sw.tasks.from_arrays(x, x[:, 0]), units)
    theta = rng.normal(size=(problem.width, problem.size)) / 30
    program, arguments = compiled_kernel(problem, theta)
    reserved = program.compiled.memory_analysis()
    took = grew = None
    if execute:
        with Resident() as resident:
            took, _ = seconds(lambda: program(*arguments))
        grew = resident.grew / 2**20
    kernel_mb = samples**2 * 8 / 2**20
    working = (reserved.temp_size_in_bytes + reserved.output_size_in_bytes) / 2**20
    row = {
        "network": name,
        "parameters": int(theta.size),
        "kernel_MB": kernel_mb,
        "jacobian_MB": samples * theta.size * 8 / 2**20,
        "reserved_MB": working,
        "reserved_over_kernel": working / kernel_mb,
        "process_grew_MB": grew,
        "seconds": took,
    }
    print(json.dumps(row), flush=True)


def compiled_kernel(problem, theta):
    """The program that `tangent_kernel` runs, caught at its call."""
    caught = []

    def catch(program):
        def instead(*arguments):
            caught[:] = [program.lower(*arguments).compile(), arguments]
            raise InterruptedError

        return instead

    plain = tangent_kernel._from_factors, tangent_kernel._rows
    tangent_kernel._from_factors, tangent_kernel._rows = map(catch, plain)
    with contextlib.suppress(InterruptedError):
        sw.diagnose.tangent_kernel(problem, theta)
    tangent_kernel._from_factors, tangent_kernel._rows = plain
    return caught


class Resident:
    """How much the process grows, looked at every few milliseconds."""

    def __enter__(self):
        self.first = self.most = self.now()
        self.done = False
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done = True
        self.thread.join()
        self.grew = self.most - self.first

    def look(self):
        while not self.done:
            self.most = max(self.most, self.now())
            time.sleep(0.002)

    @staticmethod
    def now():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def deep(kind, width):
    return kind(tuple(sw.units.Dense(width, "relu") for _ in range(3)))


KERNELS = {
    "two layers, 1000 wide": (lambda: sw.units.Dense(1000, "relu"), 1000),
    "three hidden layers of 660": (lambda: deep(sw.units.Deep, 660), 200),
    "three hidden layers of 200": (lambda: deep(sw.units.Deep, 200), 100),
    "the same, from gradients alone": (lambda: deep(Plain, 200), 100),
    "660, from gradients alone (not run)": (lambda: deep(Plain, 660), 200, False),
}


class Plain(sw.units.Deep):
    """A deep network that does not say that its gradients are outer products."""

    def gradient_factors(self, weights, x):
        return None


# --- the phase portrait ---------------------------------------------------------------------------------


def cells_per_second(seeds, taus, deltas, steps):
    """The same cells in one program, one at a time in a compiled one, and by `train` one at a time."""
    grid = dataclasses.replace(
        students.Grid(),
        seeds=tuple(range(seeds)),
        taus=tuple(np.logspace(-1, 0.3, taus)),
        deltas=tuple(np.linspace(-1, 1, deltas)),
        steps=(steps,),
    )
    cells = seeds * len(grid.cells)
    draws = [student.drawn(seed, grid.dim, grid.samples) for seed in grid.seeds]
    start = jnp.asarray([[given.start(*cell) for cell in grid.cells] for given in draws])
    data = jnp.asarray([given.x for given in draws]), jnp.asarray([given.y for given in draws])
    rates = np.array([students.RATE / tau**2 for tau, _ in grid.cells])

    def run(networks, data, rates):
        return [*train_ensemble(student.squared_error, networks, data, optax.sgd(1.0),
                                checkpoints=[steps], rates=rates)][-1][1]  # fmt: skip

    def one(cell):
        s, c = divmod(cell, len(grid.cells))
        return run(
            start[s : s + 1, c : c + 1],
            jax.tree.map(lambda a: a[s : s + 1], data),
            rates[c : c + 1],
        )

    def by_train(cell):
        s, c = divmod(cell, len(grid.cells))
        task = sw.tasks.from_arrays(draws[s].x, draws[s].y)
        return sw.train(
            task, sw.units.Dense(50, "relu"), 1.0, start=np.asarray(start[s, c]), progress=False,
            solver="descent", learning_rate=2 * rates[c], max_steps=steps, convergence=0.0,
        ).loss  # fmt: skip

    run(start, data, rates)
    one(0)
    tried = min(cells, 8)
    batched = seconds(lambda: run(start, data, rates))[0] / cells
    looped = seconds(lambda: [one(k) for k in range(tried)])[0] / tried
    sequential = seconds(lambda: [by_train(k) for k in range(min(tried, 3))])[0] / min(tried, 3)
    row = {
        "device": jax.devices()[0].device_kind,
        "cells": cells,
        "steps": steps,
        "batched_s_per_cell": batched,
        "looped_s_per_cell": looped,
        "train_s_per_cell": sequential,
        "looped_over_batched": looped / batched,
        "train_over_batched": sequential / batched,
    }
    print(json.dumps(row), flush=True)
    return row


def whole_portrait(folder, steps):
    """The paper's grid; numbers, pictures and the time it took."""
    folder = Path(folder)
    paper = students.Grid()
    grid = dataclasses.replace(paper, steps=tuple(s for s in paper.steps if s <= steps))
    took, measured = seconds(lambda: students.portrait(grid))
    np.savez(folder / "portrait.npz", **measured)
    cells = len(grid.cells) * len(grid.seeds)
    record = {
        "device": jax.devices()[0].device_kind,
        "cells": cells,
        "steps": steps,
        "seconds": took,
    }
    print(json.dumps(record), flush=True)
    for result in (
        rich_portrait.portrait_figure(measured, grid),
        rich_portrait.supporting_figure(measured, grid),
    ):
        print(result, flush=True)
    (folder / "portrait.json").write_text(json.dumps(record))


# --- the report -----------------------------------------------------------------------------------------


def table(rows):
    keys = list(rows[0])
    lines = ["| " + " | ".join(keys) + " |", "|" + " --- |" * len(keys)]
    for one in rows:
        cells = [
            "-" if v is None else f"{v:.3g}" if isinstance(v, float) else str(v)
            for v in one.values()
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    if sys.argv[1:2] == ["portrait"]:
        return whole_portrait(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 100_000)
    if sys.argv[1:2] == ["cells"]:
        with sw.float64():
            return cells_per_second(*map(int, sys.argv[2:6]))
    if sys.argv[1:2] == ["kernel"]:
        units, *how = KERNELS[sys.argv[2]]
        with sw.float64():
            return kernel_row(sys.argv[2], units(), *how)

    def measured(*arguments):
        # each in a process of its own: the peak of memory is a process's
        done = subprocess.run(
            [sys.executable, __file__, *arguments], capture_output=True, text=True, check=True
        )
        print(done.stdout.strip(), flush=True)
        return json.loads(done.stdout.strip().splitlines()[-1])

    kernels = [measured("kernel", name) for name in KERNELS]
    cells = [
        measured("cells", *map(str, size), "200") for size in ((1, 2, 2), (2, 4, 4), (4, 6, 6))
    ]
    gpu = json.loads((HERE / "regimes_gpu.json").read_text())
    (HERE / "regimes.json").write_text(json.dumps({"kernels": kernels, "cells": cells}, indent=1))
    (HERE / "regimes.md").write_text(
        REPORT.format(table(kernels), table(cells), table(gpu["cells"]), table(gpu["portrait"]))
    )


REPORT = """# What regimes cost

**The tangent kernel** of networks with 1e5 and 1e6 parameters at 1,000 samples, float64. `reserved_MB` is
what the compiled program holds, its result included; `process_grew_MB` what the process was seen to grow by.

{}

**Cells of the phase portrait** (Fig 1b: 50 neurons, 100 inputs, 1,000 samples, full batches, float64): all
in one compiled program, one by one in a compiled program, and by calls of `train`.

{}

The same on a GPU (`regimes_gpu.json`, copied from its output):

{}

The paper's grid of 17 x 17 cells, with 16 seeds and with 4:

{}
"""

if __name__ == "__main__":
    main()

"""Large networks: seconds and memory of a prediction, each in a process of its own.

Writes benchmarks/sizes.json and benchmarks/sizes.md. `python benchmarks/sizes.py relu` measures the rows
whose name holds the word, and keeps the others. A row that is cut at a time says so: beyond it a prediction
takes the more the longer it is asked for.
"""

import json
import math
import multiprocessing
import resource
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def diagonal():
    import saddlewalk as sw

    return sw.tasks.sparse_regression(1000, 10_000, 30), sw.units.Diagonal(), 1e-6, math.inf


def linear():
    import saddlewalk as sw

    return sw.tasks.linear_map(1000, 1000), sw.units.Dense(1000, "linear"), 1e-6, math.inf


def linear_begins():
    return (*linear()[:3], 2.0)


def relu():
    import saddlewalk as sw

    task = sw.tasks.images("mnist", components=16, samples=10_000)
    return task, sw.units.Dense(1000, "relu"), 1e-6, 400.0


def attention():
    import saddlewalk as sw

    task = sw.tasks.in_context_regression(1.0 / np.arange(1, 65), 64)
    return task, sw.units.LinearAttention(65), 1e-3, math.inf


def modular():
    import saddlewalk as sw

    task = sw.tasks.modular_addition(97, {1: 10, 5: 5, 11: 2.5})
    return task, sw.units.QuadraticPair(256), 1e-2, 600.0


ROWS = {
    "diagonal, 10,000 inputs, 1,000 samples": diagonal,
    "linear, 1,000 x 1,000": linear,
    "linear, 1,000 x 1,000, first stages": linear_begins,
    "relu, width 1,000, 10,000 images": relu,
    "attention, 64 components, 65 heads": attention,
    "modular addition, p = 97, 256 units": modular,
}


def predict(make, answer):
    import saddlewalk as sw

    task, units, scale, end = make()
    with sw.float64():
        problem = sw.Problem(task, units)
    start = time.perf_counter()
    stairs = sw.predict(task, units, scale, max_time=end, progress=False)
    taken = time.perf_counter() - start
    held = 8 * (task.x.size + task.y.size + 3 * problem.width * problem.size)
    answer.put(
        {
            "method": stairs.method,
            "scale": scale,
            "cut_at": end,
            "seconds": taken,
            "stages": len(stairs.stages),
            "last": stairs.jump_times[-1] if stairs.stages else math.nan,
            "stopped": stairs.stopped.value,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "data_and_parameters_mb": held / 1e6,
        }
    )


def measure(name, longest):
    """In a process of its own, which is ended after so many seconds."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=predict, args=(ROWS[name], answer))
    process.start()
    process.join(longest)
    if process.is_alive():
        process.kill()
        return {"network": name, "stopped": f"ended after {longest:g} s"}
    return {"network": name, **answer.get()}


HEAD = """# Large networks

Predictions with `method="auto"` on the machine that ran `python benchmarks/sizes.py`, each in a new process,
compiling included, beside other work; "cut at" is a `max_time`, and a row without seconds is one that had
not ended when it was stopped. Peak memory is that of the whole process, Python and libraries with it.

| network | method | scale | cut at | seconds | stages | stopped | peak memory (MB) | data, parameters (MB) |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def line(row):
    if "seconds" not in row:
        return f"| {row['network']} | | | | | | {row['stopped']} | | |"
    cut = "" if math.isinf(row["cut_at"]) else f"{row['cut_at']:g}"
    return (
        f"| {row['network']} | {row['method']} | {row['scale']:g} | {cut} | {row['seconds']:.0f} | "
        f"{row['stages']} | {row['stopped']} | {row['peak_mb']:.0f} | "
        f"{row['data_and_parameters_mb']:.0f} |"
    )


def main(chosen, longest=600.0):
    file = HERE / "sizes.json"
    known = json.loads(file.read_text()) if chosen and file.exists() else []
    for name in ROWS:
        if chosen and not any(word in name for word in chosen):
            continue
        row = measure(name, longest)
        print(line(row), flush=True)
        known = [one for one in known if one["network"] != name] + [row]
        file.write_text(json.dumps(known, indent=1))
    rows = sorted(known, key=lambda row: list(ROWS).index(row["network"]))
    (HERE / "sizes.md").write_text(HEAD + "\n".join(map(line, rows)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

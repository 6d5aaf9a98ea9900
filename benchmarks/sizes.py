"""Large networks: seconds and memory of a prediction and of the training it predicts, each in a process of
its own.

Writes benchmarks/sizes.json and benchmarks/sizes.md. `python benchmarks/sizes.py relu` measures the rows
whose name holds the word, and keeps the others; `predict` or `train` beside it measures that alone. A row
that is cut at a time says so: beyond it both take the more the longer they are asked for.
"""

import contextlib
import json
import math
import multiprocessing
import os
import queue
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
    return task, sw.units.QuadraticPair(256), 1e-2, 200.0


ROWS = {
    "diagonal, 10,000 inputs, 1,000 samples": diagonal,
    "linear, 1,000 x 1,000": linear,
    "linear, 1,000 x 1,000, first stages": linear_begins,
    "relu, width 1,000, 10,000 images": relu,
    "attention, 64 components, 65 heads": attention,
    "modular addition, p = 97, 256 units": modular,
}


def platform():
    """Where this runs: on a GPU, or on so many cores."""
    import jax

    if jax.default_backend() == "gpu":
        return jax.devices()[0].device_kind.removeprefix("NVIDIA ") + " GPU"
    cores = len(os.sched_getaffinity(0))
    return f"{cores} core{'s' if cores > 1 else ''}"


def run(verb, make, answer):
    import saddlewalk as sw

    task, units, scale, end = make()
    with sw.float64():
        problem = sw.Problem(task, units)
    start = time.perf_counter()
    result = getattr(sw, verb)(task, units, scale, max_time=end, progress=False)
    taken = time.perf_counter() - start
    held = 8 * (task.x.size + task.y.size + 3 * problem.width * problem.size)
    answer.put(
        {
            "method": result.method if verb == "predict" else "",
            "scale": scale,
            "cut_at": end,
            "seconds": taken,
            "stages": len(result.stages),
            "jumps": [float(stage.time) for stage in result.stages],
            "stopped": result.stopped.value if verb == "predict" else str(result.info["stopped"]),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "data_and_parameters_mb": held / 1e6,
            "platform": platform(),
        }
    )


def measure(verb, name, longest):
    """In a process of its own, which is ended after so many seconds."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=run, args=(verb, ROWS[name], answer))
    process.start()
    with contextlib.suppress(queue.Empty):
        return {"network": name, "verb": verb, **answer.get(timeout=longest)}
    process.kill()
    return {
        "network": name,
        "verb": verb,
        "platform": platform(),
        "stopped": f"ended after {longest:g} s",
    }


HEAD = """# Large networks

Predictions with `method="auto"`, and the training from the same start, on the machines that ran
`python benchmarks/sizes.py`, each in a new process, compiling included; "cut at" is a `max_time`, and a row
without seconds is one that had not ended when it was stopped. Peak memory is that of the whole process,
Python and libraries with it (on a GPU: of the host).

"""
COLUMNS = (
    *("network", "on", "what", "scale", "cut at", "seconds", "stages", "first and last jump"),
    *("stopped", "peak memory (MB)", "data, parameters (MB)"),
)


def line(row):
    what = "training" if row["verb"] == "train" else f"`{row.get('method', 'auto')}`"
    if "seconds" not in row:
        return f"| {row['network']} | {row['platform']} | {what} | | | | | | {row['stopped']} | | |"
    cut = "" if math.isinf(row["cut_at"]) else f"{row['cut_at']:g}"
    jumps = ", ".join(f"{time:.4g}" for time in sorted({*row["jumps"][:1], *row["jumps"][-1:]}))
    return (
        f"| {row['network']} | {row['platform']} | {what} | {row['scale']:g} | {cut} | "
        f"{row['seconds']:.0f} | {row['stages']} | {jumps} | {row['stopped']} | "
        f"{row['peak_mb']:.0f} | {row['data_and_parameters_mb']:.0f} |"
    )


def key(row):
    """Which row it is, in the order of the page."""
    return list(ROWS).index(row["network"]), row["platform"], row["verb"]


def main(words, longest=600.0):
    file = HERE / "sizes.json"
    known = json.loads(file.read_text()) if words and file.exists() else []
    verbs = [verb for verb in ("predict", "train") if verb in words] or ["predict", "train"]
    chosen = [word for word in words if word not in verbs]
    for name in ROWS:
        if chosen and not any(word in name for word in chosen):
            continue
        for verb in verbs:
            row = measure(verb, name, longest)
            print(line(row), flush=True)
            known = [one for one in known if key(one) != key(row)] + [row]
            file.write_text(json.dumps(known, indent=1))
    head = HEAD + f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"
    page = head + "\n".join(map(line, sorted(known, key=key))) + "\n"
    (HERE / "sizes.md").write_text(page)


if __name__ == "__main__":
    main(sys.argv[1:])

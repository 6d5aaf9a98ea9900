"""What a Recursive Feature Machine costs: time and memory of one fit, against xRFM on the same problem.

`python benchmarks/features.py` measures here and writes benchmarks/features.md (`make bench`; xRFM is taken
along if it is installed: `pip install xrfm`).
`python benchmarks/features.py gpu FILE` fits 10,000 to 50,000 samples on a GPU and writes its rows into FILE;
they are copied into benchmarks/features_gpu.json.

The problem is the same for all: Laplace kernel, float32, five updates, six solves, each judged on 1,000 other
samples. A case runs in a process of its own; memory is what its peak lies above what was there before.
"""

import importlib.util
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ITERATIONS, JUDGED, BANDWIDTH, RIDGE = 5, 1000, 10.0, 1e-3
BASE = {"n": 5000, "d": 100, "outputs": 1}
SIZES = [BASE | {"n": n} for n in (1250, 2500, 5000, 10_000)] + [
    BASE | {"n": 2500, "d": d} for d in (25, 400)
]
SIZES += [BASE | {"outputs": 10}]


def problem(n, d, outputs):
    """Inputs of which three matter, in single precision."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n + JUDGED, d)).astype(np.float32)
    y = np.stack([np.sin(x[:, 0] + k) * x[:, 1] + x[:, 2] ** 2 for k in range(outputs)], axis=1)
    return x[:n], y[:n].astype(np.float32), x[n:], y[n:].astype(np.float32)


def ours(update, solver, xp=np):
    from saddlewalk.features.kernels import kernel_named
    from saddlewalk.features.rfm import Recursion

    def fit(x, y, x_new, y_new):
        recursion = Recursion(
            kernel_named("laplace", BANDWIDTH), RIDGE / len(x), update, xp=xp, solver=solver
        )
        x, y, x_new, y_new = (xp.asarray(a) for a in (x, y, x_new, y_new))
        best = np.inf
        for step, machine in enumerate(recursion.machines(x, y, xp.eye(x.shape[1], dtype=x.dtype))):
            best = min(best, float(xp.mean((machine.predict(xp, x_new) - y_new) ** 2)))
            if step == ITERATIONS:
                return best
        return best

    return fit


def peer(solver):
    import torch
    from xrfm.rfm_src.recursive_feature_machine import RFM

    torch.set_num_threads(1)

    def fit(*arrays):
        x, y, x_new, y_new = map(torch.as_tensor, arrays)
        model = RFM("l2", iters=ITERATIONS, bandwidth=BANDWIDTH, device="cpu", verbose=False)
        model.fit((x, y), (x_new, y_new), reg=RIDGE, solver=solver, early_stop_rfm=False)
        return float(((model.predict(x_new) - y_new) ** 2).mean())

    return fit


METHODS = {
    "saddlewalk, AGOP": lambda: ours("agop", "cholesky"),
    "saddlewalk, FACT": lambda: ours("fact", "cholesky"),
    "saddlewalk, AGOP, iterative": lambda: ours("agop", "iterative"),
    "xRFM, Cholesky": lambda: peer("cholesky"),
    "xRFM, as it comes": lambda: peer("solve"),
}


def case(method, size):
    """Time and memory of one fit, after a small one that loads everything."""
    fit = METHODS[method]()
    fit(*problem(300, size["d"], size["outputs"]))
    arrays = problem(**size)
    before = peak()
    begin = time.perf_counter()
    error = fit(*arrays)
    took = time.perf_counter() - begin
    return {"seconds": took, "MB": peak() - before, "error": error}


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_process(method, size):
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    answer = subprocess.run(
        [sys.executable, __file__, "case", method, json.dumps(size)],
        env=os.environ | threads, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(answer.stdout.splitlines()[-1])


def on_gpu(target):
    import jax
    import jax.numpy as jnp

    rows = []
    with jax.default_matmul_precision("highest"):
        for n in (10_000, 50_000):
            for update, solver in (
                ("agop", "cholesky"),
                ("fact", "cholesky"),
                ("fact", "iterative"),
            ):
                arrays = problem(n, BASE["d"], 1)
                took = []
                for _ in ("with compilation", "without"):
                    begin = time.perf_counter()
                    error = ours(update, solver, jnp)(*arrays)
                    took.append(time.perf_counter() - begin)
                used = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**30
                row = {"device": jax.devices()[0].device_kind, "n": n, "d": BASE["d"]}
                row |= {
                    "update": update,
                    "solver": solver,
                    "first fit, s": took[0],
                    "next, s": took[1],
                }
                rows.append(row | {"peak so far, GiB": used, "error": error})
                Path(target).write_text(json.dumps(rows, indent=2))
                print(rows[-1], flush=True)


def table(rows):
    columns = list(rows[0])
    show = lambda v: f"{v:.3g}" if isinstance(v, float) else str(v)  # noqa: E731
    lines = [columns, ["---"] * len(columns), *([show(row[c]) for c in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    chosen = (
        list(METHODS)
        if importlib.util.find_spec("xrfm")
        else [m for m in METHODS if "xRFM" not in m]
    )
    rows = []
    for size in SIZES:
        for method in chosen:
            rows.append(size | {"method": method} | in_process(method, size))
            print(rows[-1], flush=True)
    gpu = HERE / "features_gpu.json"
    at_base = {row["method"]: row for row in rows if {k: row[k] for k in BASE} == BASE}
    mine = at_base["saddlewalk, AGOP"]
    ratios = [
        {"peer": name, "time": row["seconds"] / mine["seconds"], "memory": row["MB"] / mine["MB"]}
        for name, row in at_base.items()
        if "xRFM" in name
    ]
    parts = [
        "# What a Recursive Feature Machine costs\n",
        f"{ITERATIONS} updates with the Laplace kernel, float32, one thread, {JUDGED} samples to judge by.\n",
        "**Against xRFM** at n = 5,000, d = 100, one output: its time and memory over ours.\n",
        table(ratios) + "\n" if ratios else "xRFM was not installed.\n",
        "**All sizes.** `MB`: peak above what was there before the fit; `error`: best mean squared error. \n"
        "xRFM scales its matrix to a largest entry of 1 and we to trace d, so bandwidths are longer there:\n"
        "work is the same, errors are not. (With bandwidth 30 instead of 10 ours at n = 5,000 is 0.108.)\n",
        table(rows) + "\n",
    ]
    if gpu.exists():
        parts += [
            "**On a GPU** (`features_gpu.json`, copied from its output):\n",
            table(json.loads(gpu.read_text())),
        ]
    (HERE / "features.md").write_text("\n".join(parts) + "\n")
    saved = {"machine": platform.machine(), "python": platform.python_version(), "rows": rows}
    (HERE / "features.json").write_text(json.dumps(saved, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["case"]:
        print(json.dumps(case(sys.argv[2], json.loads(sys.argv[3]))))
    elif sys.argv[1:2] == ["gpu"]:
        on_gpu(sys.argv[2])
    else:
        main()

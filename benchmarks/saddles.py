"""What the saddle test and the effective width cost: time and memory against the number of parameters.

A ReLU network on pairs of MNIST digits, after some steps of SGD, of growing width;
compared with one dense Hessian of the network where that fits into memory. Writes benchmarks/saddles.md.
"""

import json
import resource
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import saddlewalk as sw
from saddlewalk.figures.saddles import mnist as saddle_mnist

HERE = Path(__file__).parent
STEPS = 150


def trained(task, width):
    """Parameters after some steps of SGD, on the plateau between the drops."""
    problem = sw.Problem(task, sw.units.Dense(width, "relu"), keep_samples=True)
    theta = jnp.asarray(1e-6 * np.random.default_rng(0).normal(size=(width, problem.size)))
    rng = np.random.default_rng(1)
    rows = rng.integers(len(task.x), size=(STEPS, 64))
    x, y = jnp.asarray(np.asarray(task.x)[rows]), jnp.asarray(np.asarray(task.y)[rows])
    return problem, saddle_mnist._steps(problem.units, theta, x, y)


def measured(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def row(task, width, dense):
    problem, theta = trained(task, width)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cold, _ = measured(lambda: sw.diagnose.effective_width(problem, theta))
    width_s, found = measured(lambda: sw.diagnose.effective_width(problem, theta))
    cold_saddle, _ = measured(lambda: sw.diagnose.saddle_test(problem, theta))
    saddle_s, report = measured(lambda: sw.diagnose.saddle_test(problem, theta))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record = {
        "width": width,
        "parameters": int(theta.size),
        "effective_width_s": width_s,
        "saddle_test_s": saddle_s,
        "first_call_s": cold + cold_saddle,
        "memory_MB": (after - before) / 1024,
        "found": f"{found.width} of {width}, {report.kind}",
        "dense_hessian_s": float("nan"),
        "ratio": float("nan"),
    }
    if dense:
        hessian = jax.jit(jax.hessian(lambda flat: problem.loss(flat.reshape(theta.shape))))
        jax.block_until_ready(hessian(theta.ravel()))
        seconds, matrix = measured(lambda: jax.block_until_ready(hessian(theta.ravel())))
        more, _ = measured(lambda: np.linalg.eigvalsh(matrix))
        record["dense_hessian_s"] = seconds + more
        record["ratio"] = record["dense_hessian_s"] / saddle_s
    print(record, flush=True)
    return record


def main():
    with sw.float64():
        whole = saddle_mnist.digits((0, 1))
        some = np.random.default_rng(0).choice(len(whole.x), 1000, replace=False)
        task = sw.tasks.from_arrays(np.asarray(whole.x)[some], np.asarray(whole.y)[some])
        rows = [row(task, width, width <= 2) for width in (2, 62, 250, 1000)]
    (HERE / "saddles.json").write_text(json.dumps(rows, indent=1))
    keys = list(rows[0])
    lines = ["| " + " | ".join(keys) + " |", "|" + " --- |" * len(keys)]
    for one in rows:
        cells = [f"{v:.3g}" if isinstance(v, float) else str(v) for v in one.values()]
        lines.append("| " + " | ".join(cells) + " |")
    (HERE / "saddles.md").write_text(
        "# What the saddle test costs\n\nA ReLU network of growing width on 1,000 MNIST images of digits "
        "0 and 1 (784 inputs, 2 outputs), after 150 steps of SGD. Seconds after compilation "
        "(`first_call_s`: with it); memory is what the peak of the process grew by. `dense_hessian_s` is "
        "the whole Hessian and its eigenvalues, where they fit.\n\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main()

"""What gradient flow costs, as ratios against peers in the same run.

    make bench        writes benchmarks/flow.md and benchmarks/flow.json

Peers: fixed-step gradient descent at equal accuracy, and scipy's LSODA. Accuracy is the largest
relative error of the times at which the loss passes fixed levels, against a tight reference
(mirror descent in the dual variable by DOP853 at 1e-12 for the diagonal network; our own flow at
tolerance 1e-10 for degree 3). Descent at step h errs like h (checked: halving the step halves the error), so
its cost at equal accuracy is extrapolated from two step sizes.
"""

import json
import math
import sys
import time
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import saddlewalk as sw
from saddlewalk.diagnose import LossCurve

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from oracles import mirror_flow

HERE = Path(__file__).parent
SCALES = (1e-2, 1e-6, 1e-12, 1e-50)
UNITS = sw.units.Diagonal()
LARGEST_STABLE_STEP = 0.09
"""2 over the largest curvature at the minimum of the quadratic network, rounded up."""


def timed(function, repeat=3):
    function()  # compile
    began = time.perf_counter()
    for _ in range(repeat):
        result = function()
    return result, (time.perf_counter() - began) / repeat


def passing_times(curve, levels):
    return np.array([curve.crossing(level) for level in levels])


def error_of(times, reference):
    return float(np.abs(times / reference - 1).max())


def measured(run, levels, reference):
    """Cost of one of our flows, and its error."""
    path, seconds = timed(run)
    times = passing_times(sw.diagnose.loss_curve(path), levels)
    return {
        "evaluations": path.info["rhs_evaluations"],
        "steps": path.info["steps"],
        "seconds": seconds,
        "error": error_of(times, reference),
    }


# --- the diagonal network ---------------------------------------------------------------------


def diagonal_case(task, scale, end):
    x, y = task.x, task.y[:, 0]
    stairs = sw.predict(task, UNITS, scale)
    first = stairs.initial_loss
    levels = [f * first for f in (0.9, 0.7, 0.5, 0.3, 0.1, 0.03)]
    rough = sw.diagnose.loss_curve(sw.train(task, UNITS, scale, max_time=end))
    near = passing_times(rough, levels)
    reference = []
    for level, guess in zip(levels, near, strict=True):
        grid = guess * np.linspace(0.999, 1.001, 41)
        reference.append(np.interp(-level, -mirror_flow(x, y, scale, grid), grid))
    reference = np.array(reference)

    def flow(**options):
        return sw.train(task, UNITS, scale, max_time=end, convergence=0.0, **options)

    rows = {}
    for name, options in {
        "flow, explicit, 1e-6": {"solver": "explicit", "tolerance": 1e-6},
        "flow, explicit, 1e-8 (default)": {"solver": "explicit"},
        "flow, implicit, 1e-6": {"solver": "implicit", "tolerance": 1e-6},
    }.items():
        rows[name] = measured(lambda options=options: flow(**options), levels, reference)
    rows["LSODA, rtol 1e-8"] = lsoda(task, scale, end, levels, reference)
    wanted = rows["flow, explicit, 1e-6"]["error"]
    rows["descent, fixed step"] = descent(task, scale, end, levels, reference, wanted)
    return rows


def lsoda(task, scale, end, levels, reference):
    """Raw (u, v), error relative to the scale: what a careful user of scipy would write."""
    x, y, n = task.x, task.y[:, 0], len(task.y)
    d = x.shape[1]

    def velocity(_, w):
        u, v = w[:d], w[d:]
        g = x.T @ (x @ (u * v) - y) / n
        return np.concatenate([-g * v, -g * u])

    start = np.concatenate([np.full(d, math.sqrt(2) * scale), np.zeros(d)])
    began = time.perf_counter()
    got = solve_ivp(velocity, (0, end), start, method="LSODA", rtol=1e-8, atol=1e-8 * scale)
    seconds = time.perf_counter() - began
    if not got.success:
        return {"evaluations": got.nfev, "seconds": seconds, "error": math.nan, "note": got.message}
    loss = [0.5 * np.mean((x @ (w[:d] * w[d:]) - y) ** 2) for w in got.y.T]
    rate = [-np.sum(velocity(0, w) ** 2) for w in got.y.T]
    times = passing_times(LossCurve.of(got.t, loss, rate), levels)
    return {"evaluations": got.nfev, "seconds": seconds, "error": error_of(times, reference)}


def descent(task, scale, end, levels, reference, wanted):
    def run(rate):
        return sw.train(
            task, UNITS, scale, solver="descent", learning_rate=rate,
            max_steps=math.ceil(end / rate), convergence=0.0,
        )  # fmt: skip

    return extrapolate(run, (2e-3, 1e-3), end, levels, reference, wanted)


def extrapolate(run, rates, end, levels, reference, wanted):
    """Two step sizes measured, then the step for the wanted accuracy by error = c h.

    Its seconds are not compared: most of them would be what is recorded every few steps.
    """
    errors = []
    for rate in rates:
        curve = sw.diagnose.loss_curve(run(rate))
        errors.append(error_of(passing_times(curve, levels), reference))
    halving = errors[0] / errors[1]
    assert 1.7 < halving < 2.3, f"descent does not err like its step: {errors}"
    return {
        "evaluations": math.ceil(end * errors[-1] / (wanted * rates[-1])),
        "seconds": math.nan,
        "error": wanted,
        "note": f"extrapolated from errors {errors[0]:.2g}, {errors[1]:.2g} at steps 2e-3, 1e-3",
    }


# --- degree 3 ---------------------------------------------------------------------------------


def quadratic_task():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return sw.tasks.from_arrays(x, 2 * (x @ axes[:, 0]) ** 2 - (x @ axes[:, 1]) ** 2)


def quadratic_case(task, scale):
    units = sw.units.Dense(5, "quadratic")
    first = float(sw.train(task, units, scale, seed=1, max_steps=10).loss[0])
    levels = [f * first for f in (0.9, 0.7, 0.5, 0.1)]
    tight = sw.train(task, units, scale, seed=1, tolerance=1e-10)
    reference = passing_times(sw.diagnose.loss_curve(tight), levels)
    end = float(1.05 * reference[-1])

    def flow(**options):
        return sw.train(task, units, scale, seed=1, max_time=end, convergence=0.0, **options)

    rows = {}
    for name, options in {
        "flow, implicit, 1e-6": {"tolerance": 1e-6},
        "flow, implicit, 1e-8 (default)": {},
    }.items():
        rows[name] = measured(lambda options=options: flow(**options), levels, reference)
    if scale >= 1e-6:
        rows["LSODA, rtol 1e-8"] = quadratic_lsoda(task, units, scale, end, levels, reference)
    wanted = rows["flow, implicit, 1e-6"]["error"]
    rows["descent, fixed step"] = quadratic_descent(
        task, units, scale, end, levels, reference, wanted
    )
    return rows


def quadratic_descent(task, units, scale, end, levels, reference, wanted):
    """Measured at scale 1e-2; below, the count at the largest stable step, a lower bound."""
    if scale < 1e-2:
        return {
            "evaluations": math.ceil(end / LARGEST_STABLE_STEP),
            "seconds": math.nan,
            "error": math.nan,
            "note": f"lower bound: steps of {LARGEST_STABLE_STEP}, the largest stable ones; not run",
        }

    def run(rate):
        return sw.train(
            task, units, scale, seed=1, solver="descent", learning_rate=rate,
            max_steps=math.ceil(end / rate), convergence=0.0,
        )  # fmt: skip

    return extrapolate(run, (2e-3, 1e-3), end, levels, reference, wanted)


def quadratic_lsoda(task, units, scale, end, levels, reference):
    with sw.float64():
        problem = sw.Problem(task, units)
        velocity, loss = eqx.filter_jit(problem.velocity), eqx.filter_jit(problem.loss)
        start = np.asarray(problem.initialize(scale, 1))
        velocity(jnp.asarray(start))
        shape = start.shape
        f = lambda t, w: np.asarray(velocity(jnp.asarray(w.reshape(shape)))).ravel()  # noqa: E731
        began = time.perf_counter()
        got = solve_ivp(f, (0, end), start.ravel(), method="LSODA", rtol=1e-8, atol=1e-8 * scale)
        seconds = time.perf_counter() - began
        values = [float(loss(jnp.asarray(w.reshape(shape)))) for w in got.y.T]
        rates = [-float(np.sum(f(0, w) ** 2)) for w in got.y.T]
    times = passing_times(LossCurve.of(got.t, values, rates), levels)
    return {"evaluations": got.nfev, "seconds": seconds, "error": error_of(times, reference)}


# --- growth -----------------------------------------------------------------------------------


def growth_with_dimension():
    rows = {}
    for d in (10, 100, 1000):
        task = sw.tasks.sparse_regression(samples=2 * d, dim=d, sparsity=8)
        path, seconds = timed(lambda t=task: sw.train(t, UNITS, 1e-6), repeat=1)
        rows[d] = {
            "evaluations": path.info["rhs_evaluations"],
            "steps": path.info["steps"],
            "seconds": seconds,
            "error": math.nan,
        }
    return rows


def growth_with_scale(make):
    rows = {}
    for exponent in (2, 4, 8, 16, 32, 64):
        path = make(10.0**-exponent)
        rows[exponent] = path.info["steps"]
    return rows


def table(title, rows, base):
    lines = [
        f"\n### {title}\n",
        "| method | right-hand sides | ratio | time ratio | error | |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, row in rows.items():
        ratio = row["evaluations"] / rows[base]["evaluations"]
        seconds = row["seconds"] / rows[base]["seconds"]
        time_ratio = "-" if math.isnan(seconds) else f"{seconds:.3g}"
        error = "-" if math.isnan(row["error"]) else f"{row['error']:.2g}"
        lines.append(
            f"| {name} | {row['evaluations']:.4g} | {ratio:.3g} | {time_ratio} | {error} "
            f"| {row.get('note', '')} |"
        )
    return lines


def main():
    diagonal = sw.tasks.sparse_regression(samples=40, dim=10, sparsity=10)
    results, lines = (
        {},
        [
            "# Gradient flow: cost and accuracy",
            "",
            "Made by `make bench`. Ratios are to the first row of each table, in one run on one machine;",
            "right-hand sides of implicit steps count one for each column of the Jacobian, and what our",
            "flow records at each step (loss, slope, curvature, unit sizes) is in its time, not its count.",
            "",
            "## Diagonal network, d = 10, n = 40, dense target (degree 2)",
        ],
    )
    for scale in SCALES:
        rows = diagonal_case(diagonal, scale, end=10 * -math.log(scale))
        results[f"diagonal {scale:g}"] = rows
        lines += table(f"scale {scale:g}", rows, "flow, explicit, 1e-6")
    lines.append("\n## Quadratic neurons, 3 inputs, width 5 (degree 3)")
    quadratic = quadratic_task()
    for scale in SCALES:
        rows = quadratic_case(quadratic, scale)
        results[f"quadratic {scale:g}"] = rows
        lines += table(f"scale {scale:g}", rows, "flow, implicit, 1e-6")
    rows = growth_with_dimension()
    results["dimension"] = rows
    lines.append(
        "\n## Growth with the number of inputs d (diagonal, n = 2d, 8 features, scale 1e-6)"
    )
    lines += table("explicit steps, default tolerance", rows, 10)
    degree_2 = growth_with_scale(lambda s: sw.train(diagonal, UNITS, s, tolerance=1e-6))
    degree_3 = growth_with_scale(
        lambda s: sw.train(quadratic, sw.units.Dense(5, "quadratic"), s, seed=1, tolerance=1e-6)
    )
    results["scale, degree 2"], results["scale, degree 3"] = degree_2, degree_3
    lines += [
        "\n## Growth with log(1/scale): steps to convergence\n",
        "| scale | degree 2 | per decade | degree 3 | per decade |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(
            f"| 1e-{e} | {degree_2[e]:,} | {degree_2[e] / e:.0f} | {degree_3[e]:,} | {degree_3[e] / e:.0f} |"
            for e in degree_2
        ),
    ]
    (HERE / "flow.md").write_text("\n".join(lines) + "\n")
    (HERE / "flow.json").write_text(json.dumps(results, indent=1, default=float) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

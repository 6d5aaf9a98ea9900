"""Three studies beyond the paper: general position, adaptive rates, natural data.

Each is a question that the paper leaves open, asked of simulations, with the answer as claims that
can fail. docs/studies.md says what was found.
"""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from saddlewalk import draw
from saddlewalk.agreement import compare
from saddlewalk.figures.claims import Claim, FigureResult, listed
from saddlewalk.flow import Trajectory, train
from saddlewalk.precision import float64
from saddlewalk.problem import Parameters, Problem
from saddlewalk.tasks import (
    Samples,
    from_arrays,
    images,
    in_context_regression,
    modular_addition,
)
from saddlewalk.theory import predict
from saddlewalk.theory.agf import Walk
from saddlewalk.theory.attention import maximal_utility
from saddlewalk.theory.bounds import utility_to_reach
from saddlewalk.theory.modular import escapes
from saddlewalk.units import Dense, Diagonal, LinearAttention, QuadraticPair

SCALES = (1e-3, 1e-6, 1e-12)
CONDITIONS = (1.0, 1e2, 1e4, 1e6)
DESIGNS = 6


def general_position() -> FigureResult:
    """Diagonal networks on designs from orthogonal to ill-conditioned; resonance in modular addition."""
    shape = (len(SCALES), len(CONDITIONS), DESIGNS)
    ordered = {method: np.zeros(shape) for method in ("closed", "numeric")}
    error = {method: np.zeros(shape) for method in ordered}
    for s, scale in enumerate(SCALES):
        for c, condition in enumerate(CONDITIONS):
            for seed in range(DESIGNS):
                task = gaussian_design(condition, seed)
                path = train(task, Diagonal(), scale, progress=None)
                for method in ordered:
                    report = compare(predict(task, Diagonal(), scale, method=method), path)
                    ordered[method][s, c, seed] = report.order
                    error[method][s, c, seed] = float(np.nanmax([*report.time_error, 0.0]))
    worst = {method: values.max(axis=(0, 2)) for method, values in error.items()}
    limit = {method: np.median(values, axis=2) for method, values in error.items()}
    few = {name: _resonance(spectrum, FEW) for name, spectrum in _SPECTRA.items()}
    many = {name: _resonance(spectrum, MANY) for name, spectrum in _SPECTRA.items()}
    with draw.styled():
        figure, (left, right) = draw.new_figure(1, 2, width=10.5, height=4.0)
        _draw_errors(left, limit)
        for name, run in few.items():
            time = run["path"].data["saved"]
            right.semilogx(
                time, run["path"].data["strength"].values[:, 0], label=f"frequencies {name}"
            )
        right.axhline(_FEW_LEARN, color="k", linestyle=":", label="2/3: evenly spread, free")
        right.set_xlim(left=15)
        right.set_xlabel("time (learning rate 1)")
        right.set_ylabel(f"part of frequency 1 learned by {FEW} neurons")
        right.legend()
    free, resonant = (few[name] for name in _SPECTRA)
    return FigureResult(
        "study-general-position",
        "how far the order of features survives correlated inputs and resonant frequencies",
        (
            Claim(
                "at the smallest scale the closed form has the order right on every design "
                f"(part right, scales {listed(SCALES)})",
                listed(ordered["closed"].mean(axis=(1, 2))),
                bool(ordered["closed"][-1].all()),
            ),
            Claim(
                "its errors of jump times shrink with the scale at every condition "
                f"(median of the worst, condition {CONDITIONS[-1]:g}, scales {listed(SCALES)})",
                listed(limit["closed"][:, -1]),
                bool((np.diff(limit["closed"], axis=0) < 0).all()),
            ),
            Claim(
                "AGF in real time has it right on every design of condition up to 100 "
                f"(part right, by condition {listed(CONDITIONS)})",
                listed(ordered["numeric"].mean(axis=(0, 2))),
                bool(ordered["numeric"][:, :2].all()),
            ),
            Claim(
                f"its worst error of a jump time, by condition {listed(CONDITIONS)}, is below 10%",
                listed(worst["numeric"]),
                bool(worst["numeric"].max() < 0.1),
            ),
            Claim(
                f"{FEW} neurons on a free frequency stay pure, on a resonant one not (least purity)",
                f"{free['purity']:.4f} {resonant['purity']:.4f}",
                free["purity"] > 0.999 > 0.99 > resonant["purity"],
            ),
            Claim(
                f"free, they learn the {_FEW_LEARN:.4f} of evenly spread neurons; resonant, another part",
                f"{free['learned'][0]:.4f} {resonant['learned'][0]:.4f}",
                abs(free["learned"][0] - _FEW_LEARN) < 0.005
                and abs(resonant["learned"][0] - _FEW_LEARN) > 0.02,
            ),
            Claim(
                f"{MANY} neurons learn all of both, resonant or not, the stronger frequency first",
                " ".join(listed(run["learned"]) for run in many.values()),
                all(run["order"] and min(run["learned"]) > 0.99 for run in many.values()),
            ),
        ),
        figure,
        {
            "conditions": list(CONDITIONS),
            "scales": list(SCALES),
            "order_closed": ordered["closed"].mean(axis=2).tolist(),
            "order_real_time": ordered["numeric"].mean(axis=2).tolist(),
            "time_error_closed": limit["closed"].tolist(),
            "time_error_real_time": limit["numeric"].tolist(),
        },
    )


def gaussian_design(condition: float, seed: int, samples: int = 24, dim: int = 6) -> Samples:
    """Inputs whose covariance has eigenvalues from 1 to 1/condition in a random basis, no noise."""
    rng = np.random.default_rng([seed, 7])
    left = np.linalg.qr(rng.normal(size=(samples, dim)))[0]
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    spectrum = np.geomspace(1, 1 / condition, dim)
    x = math.sqrt(samples) * left * np.sqrt(dim * spectrum / spectrum.sum()) @ basis.T
    return from_arrays(x, x @ rng.normal(size=dim), name=f"design of condition {condition:g}")


_MODULUS, FEW, MANY = 11, 3, 12
_SPECTRA = {"1 and 2 (free)": {1: 8.0, 2: 5.0}, "1 and 3 (resonant)": {1: 8.0, 3: 5.0}}
_FEW_LEARN = 2 / 3
"""Part of a frequency that three evenly spread neurons hold, alone on it (0.674 is the best)."""


def _resonance(spectrum: dict[int, float], neurons: int) -> dict[str, Any]:
    """A run on two frequencies: how pure the neurons end, and how much of each is learned.

    Neurons on frequency 1 are drawn to 3, where it is in the encoding, as long as their squares do
    not cancel (Eq 77): three neurons cannot, six can.
    """
    task, units = modular_addition(_MODULUS, spectrum), QuadraticPair(neurons)
    assert bool(escapes(_MODULUS, tuple(spectrum))) == (3 in spectrum)
    path = train(task, units, 1e-2, seed=1, progress=None)
    halves = path.parameters[-1].reshape(neurons, -1, _MODULUS)
    power = (np.abs(np.fft.rfft(halves, axis=2)) ** 2)[..., 1:].sum(axis=1)
    awake = power.sum(axis=1) > 0.05 * power.sum(axis=1).max()
    strength = path.data["strength"].values
    half = np.argmax(strength >= 0.5, axis=0)
    return {
        "path": path,
        "purity": float((power.max(axis=1) / power.sum(axis=1))[awake].min()),
        "learned": strength[-1].tolist(),
        "order": bool(half[0] < half[1]),
    }


def _draw_errors(axes: Any, errors: dict[str, np.ndarray]) -> None:
    for (method, values), style in zip(errors.items(), (":", "-"), strict=True):
        for row, scale in zip(values, SCALES, strict=True):
            color = f"C{SCALES.index(scale)}"
            label = f"{method}, scale {scale:g}"
            axes.loglog(CONDITIONS, row, style, marker="o", color=color, label=label)
    axes.set_xlabel("condition number of the covariance")
    axes.set_ylabel("median over designs of the worst time error")
    axes.set_ylim(bottom=errors["numeric"].min() / 200)
    axes.legend(fontsize=8, ncols=2, loc="lower right")


EIGENVALUES, CONTEXT, HEADS = (4.0, 2.0, 1.0), 16, 4
RATE_SCALES = (1e-2, 1e-3, 1e-4)


def adaptive_rates() -> FigureResult:
    """Linear attention (kappa = 3) with equal rates, and with the rates of appendix B.5."""
    task, units = in_context_regression(EIGENVALUES, CONTEXT), LinearAttention(HEADS)
    runs: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for adaptive, rows in runs.items():
        for scale in RATE_SCALES:
            stairs = predict(task, units, scale, adaptive=adaptive, method="numeric")
            path = train(task, units, scale, adaptive=adaptive, progress=None)
            report = compare(stairs, path)
            rows.append(
                {
                    "path": path,
                    "stairs": stairs,
                    "order": report.order,
                    "error": max(report.time_error),
                    "first": stairs.jump_times[0],
                    "wait": stairs.jump_times[-1] / stairs.jump_times[0],
                    "late": stairs.jump_times[0]
                    / _aligned_time(Problem(task, units, adaptive=adaptive), scale),
                }
            )
    fixed, own = runs[False], runs[True]
    with draw.styled():
        figure, panels = draw.new_figure(1, 2, width=10.5, height=4.0)
        for axes, rows, title in zip(
            panels, (fixed, own), ("equal rates", "rates of B.5"), strict=True
        ):
            for row, scale in zip(rows, RATE_SCALES, strict=True):
                path = row["path"]
                axes.plot(path.time, path.loss, label=f"scale {scale:g}")
                axes.plot(*row["stairs"].curve, "k--", linewidth=1)
            axes.set(xscale="log", title=title, xlabel="time (learning rate 1)", ylabel="loss")
            axes.set_xlim(left=0.3 * rows[0]["first"])
        panels[0].legend()
    column = lambda rows, key: [row[key] for row in rows]  # noqa: E731
    growth = [rows[-1]["first"] / rows[0]["first"] for rows in (fixed, own)]
    return FigureResult(
        "study-adaptive-rates",
        "rates norm^(2-kappa) for each unit, against equal ones (linear attention, kappa = 3)",
        (
            Claim(
                "features come in the same order with both",
                f"{column(fixed, 'order')} {column(own, 'order')}",
                all(column(fixed, "order") + column(own, "order")),
            ),
            Claim(
                "from scale 1e-2 to 1e-4 the first jump is delayed 100 times with equal rates, "
                "and about 2 times, like log(1/scale), with rates of one's own",
                listed(growth),
                50 < growth[0] < 200 and 1.5 < growth[1] < 2.5,
            ),
            Claim(
                "with equal rates units are late by a factor that does not shrink with the scale "
                "(first jump / that of units aligned from the start)",
                listed(column(fixed, "late")),
                max(column(fixed, "late")) < 1.5 * min(column(fixed, "late")),
            ),
            Claim(
                "with rates of one's own it is 1: alignment takes a vanishing part of the time",
                listed(column(own, "late")),
                max(abs(ratio - 1) for ratio in column(own, "late")) < 0.02,
            ),
            Claim(
                "AGF in real time predicts both (largest error of a jump time, by scale)",
                f"{listed(column(fixed, 'error'))} and {listed(column(own, 'error'))}",
                max(column(fixed, "error") + column(own, "error")) < 1e-2,
            ),
        ),
        figure,
        {
            "scales": list(RATE_SCALES),
            **{
                f"{name}_{key}": column(rows, key)
                for name, rows in (("equal", fixed), ("own", own))
                for key in ("first", "wait", "late", "error")
            },
        },
    )


def _aligned_time(problem: Problem, scale: float) -> float:
    """When the largest unit would reach norm 1 if all were aligned with the best direction at once."""
    with float64():
        largest = float(np.linalg.norm(np.asarray(problem.initialize(scale, 0)), axis=1).max())
    best = float(maximal_utility(np.array(EIGENVALUES), CONTEXT)[0])
    return float(utility_to_reach(largest, problem.pace_degree) / (problem.degree * best))


IMAGES, COMPONENTS, WIDTH, IMAGE_SCALE, IMAGE_END = 500, 16, 12, 1e-20, 3000.0


def natural_data() -> FigureResult:
    """A ReLU network on images: the smooth loss as a sum of what each unit takes off it."""
    task = images("cifar10", samples=IMAGES, components=COMPONENTS)
    units = Dense(WIDTH, "relu")
    problem = Problem(task, units)
    path = train(
        task,
        units,
        IMAGE_SCALE,
        max_time=IMAGE_END,
        observables={"slope": lambda theta: _slope(problem, theta)},
        most_saved=4000,
        progress=None,
    )
    time, taken = path.data["saved"].values, _taken(path)
    fallen = path.loss[0] - np.interp(time, path.time, path.loss)
    explained = float(np.abs(taken.sum(axis=1) - fallen).max() / fallen[-1])
    spans = [_span(time, column) for column in taken.T]
    overlapping = np.mean([sum(a < t < b for a, b in spans) for t in np.array(spans).mean(axis=1)])
    half = {unit: float(np.mean(span)) for unit, span in enumerate(spans)}
    walk = _walk(problem)
    output = np.stack([moment.output for moment in walk.moments])
    rows = [moment.index for moment in walk.moments]
    wakes = [
        _wakes(walk.curve.time[rows], output),
        _wakes(path.time, path.data["unit_output"].values),
    ]
    late = np.abs(wakes[0] / wakes[1] - 1)
    distance = np.interp(time, walk.curve.time, walk.curve.loss) - (path.loss[0] - fallen)
    gap = float(np.abs(distance).max() / fallen[-1])
    aligned = _alignment(task, _weights_at(path, half))
    chance = float(
        np.mean(_alignment(task, np.random.default_rng(0).normal(size=(2000, COMPONENTS))))
    )
    with draw.styled():
        figure, (left, right) = draw.new_figure(1, 2, width=10.5, height=4.2)
        order = np.argsort([half[unit] for unit in range(WIDTH)])
        left.stackplot(time, *(taken.T[order]), linewidth=0)
        left.plot(time, fallen, "k", linewidth=1.5, label="fall of the loss")
        left.set(xlabel="time (learning rate 1)", ylabel="taken off the loss, by unit")
        left.set_xlim(0.8 * min(a for a, _ in spans), time[-1])
        left.legend(loc="upper left")
        draw.loss_curve(right, path.time, path.loss, linewidth=3)
        right.plot(walk.curve.time, walk.curve.loss, "k--", linewidth=1.3, label="AGF in real time")
        right.set_ylim(path.loss[-1] - 0.1 * fallen[-1], path.loss[0] + 0.1 * fallen[-1])
        right.set_xlim(0.8 * min(a for a, _ in spans), time[-1])
        right.legend()
    return FigureResult(
        "study-natural-data",
        f"a smooth loss taken apart: ReLU network of {WIDTH} units on {task.name}",
        (
            Claim(
                "along gradient flow the fall of the loss is the sum of what each unit takes off: "
                "minus int grad_i L . d theta_i (largest difference, part of the fall)",
                f"{explained:.2g}",
                explained < 0.02,
            ),
            Claim(
                "transitions overlap (units that are in theirs when one is half way, mean)",
                f"{overlapping:.2g}",
                bool(overlapping > 1.5),
            ),
            Claim(
                "AGF in real time predicts the smooth curve (largest difference, part of the fall)",
                f"{gap:.2g}",
                gap < 0.02,
            ),
            Claim(
                "and the order in which units reach half of their size (rank correlation; median error "
                "of the times)",
                f"{_rank_agreement(*wakes):.3f} {np.median(late):.2g}",
                _rank_agreement(*wakes) > 0.9,
            ),
            Claim(
                "but they are no singular directions of the labels' covariance (overlap of their input "
                "weights with the nearest, half way, mean; and of random ones)",
                f"{np.mean(aligned):.2f} {chance:.2f}",
                bool(chance < np.mean(aligned) < 0.9),
            ),
        ),
        figure,
        {
            "taken": taken[-1].tolist(),
            "span": [list(map(float, span)) for span in spans],
            "half_size_predicted": wakes[0].tolist(),
            "half_size_simulated": wakes[1].tolist(),
            "alignment": list(map(float, aligned)),
        },
    )


def _slope(problem: Problem, theta: Any) -> Float[np.ndarray, "unit p"]:
    with float64():
        return np.asarray(_climb(problem, jnp.asarray(theta)))


@eqx.filter_jit
def _climb(problem: Problem, theta: Parameters) -> Parameters:
    return problem.climb(theta, problem.residual(theta))


def _taken(path: Trajectory) -> Float[np.ndarray, "t unit"]:
    """What each unit has taken off the loss: the line integral of its gradient along its way.

    Not the integral of the squared gradient: along a kink the velocity is not where the unit goes.
    """
    slope = path.data["slope"].values
    steps = 0.5 * (slope[1:] + slope[:-1]) * np.diff(path.parameters, axis=0)
    taken = np.cumsum(steps.sum(axis=2), axis=0)
    return np.concatenate([np.zeros((1, taken.shape[1])), taken])


def _walk(problem: Problem) -> Walk:
    with float64():
        walk = Walk(problem, problem.initialize(IMAGE_SCALE, 0), real_time=True, max_time=IMAGE_END)
        walk.run()
        return walk


def _wakes(time: np.ndarray, output: np.ndarray) -> Float[np.ndarray, " unit"]:
    """When each unit first has half of the size that it has in the end."""
    return time[np.argmax(output >= 0.5 * output[-1], axis=0)]


def _span(time: np.ndarray, taken: np.ndarray) -> tuple[float, float]:
    """When a unit has taken a tenth, and nine tenths, of all that it will."""
    part = taken / max(float(taken[-1]), 1e-300)
    return float(np.interp(0.1, part, time)), float(np.interp(0.9, part, time))


def _weights_at(path: Trajectory, moments: dict[int, float]) -> Float[np.ndarray, "unit d"]:
    """Input weights of each unit at a moment of its own."""
    rows = np.clip(
        np.searchsorted(path.data["saved"].values, list(moments.values())),
        0,
        len(path.parameters) - 1,
    )
    return np.asarray(path.parameters)[rows, list(moments), :COMPONENTS]


def _alignment(task: Samples, weights: Float[np.ndarray, "unit d"]) -> Float[np.ndarray, " unit"]:
    """Cosine of each unit's input weights with the nearest singular direction of E[y x^T]."""
    covariance = np.asarray(task.y).T @ np.asarray(task.x)
    _, values, directions = np.linalg.svd(covariance, full_matrices=False)
    real = directions[values > 1e-9 * values[0]]
    return np.abs(weights @ real.T).max(axis=1) / np.linalg.norm(weights, axis=1)


def _rank_agreement(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's correlation."""
    return float(spearmanr(first, second).statistic)

"""Fig 5 of Alternating Gradient Flows: linear attention learns one principal component at a time."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from saddlewalk.agreement import Agreement, compare
from saddlewalk.figures.claims import Claim, FigureResult, close, listed
from saddlewalk.flow import Trajectory, train
from saddlewalk.precision import float64
from saddlewalk.problem import Problem
from saddlewalk.show import draw
from saddlewalk.tasks import InContextRegression, in_context_regression
from saddlewalk.theory import predict
from saddlewalk.theory.agf import Walk
from saddlewalk.theory.attention import amplitudes, maximal_utility
from saddlewalk.theory.staircase import Staircase
from saddlewalk.units import LinearAttention

SCALE = 1e-3
"""Standard deviation of every weight, as in the paper's experiment (its text says variance)."""
HEADS, CONTEXT = 5, 32
EIGENVALUES = 2 / np.arange(1, 5) / np.sum(1 / np.arange(1, 5))
"""1/k, with sum 2."""
_LEVELS = (1.0, 0.56219, 0.35555, 0.22510, 0.13220)
_UNITS = LinearAttention(HEADS)
_COLORS = ("#0b5394", "#2a9d8f", "#e9a100", "#d1495b")


def figure_5() -> FigureResult:
    """The loss, and the singular values of the attention matrix, under AGF and its bounds."""
    task, start = _setting()
    stairs, printed = (
        predict(task, _UNITS, SCALE, method=method, start=start)
        for method in ("numeric", "algorithm-1")
    )
    path = train(
        task,
        _UNITS,
        SCALE,
        start=start,
        convergence=0.0,
        max_time=1.5 * stairs.jump_times[-1],
        observables={"singular_values": lambda theta: _singular_values(task, theta)},
        most_saved=4000,
        progress=None,
    )
    agreement, as_printed = compare(stairs, path), compare(printed, path)
    bounds, end = _lower_bounds(agreement), float(path.time[-1])
    with draw.styled():
        figure, (left, right) = draw.new_figure(1, 2, width=10.5, height=4.2)
        _draw_losses(left, path, stairs, printed)
        _draw_singular_values(right, path, _walk(task, start, end), bounds)
        for axes in (left, right):
            _time_axis(axes, 0.6 * bounds[0], end)
    reached, targets = path.data["singular_values"].values[-1], amplitudes(EIGENVALUES, CONTEXT)
    orders = [_components(stages) for stages in (stairs.stages, agreement.stages_observed)]
    later = [b / t for b, t in zip(bounds, agreement.jump_times, strict=True)]
    return FigureResult(
        "agf-5",
        "stepwise principal component regression in a linear transformer",
        (
            Claim(
                "levels 1 0.56219 0.35555 0.22510 0.13220 (Eq 57), predicted",
                listed(stairs.loss_levels),
                close(stairs.loss_levels, _LEVELS, 1e-5),
            ),
            Claim(
                "the same levels, simulated",
                listed([path.loss[0], *agreement.loss_levels]),
                close([path.loss[0], *agreement.loss_levels], _LEVELS, 1e-5),
            ),
            Claim(
                "components are learned by falling eigenvalue (predicted, simulated)",
                f"{orders[0]} {orders[1]}",
                orders == [[0, 1, 2, 3]] * 2,
            ),
            Claim(
                f"singular values end at A_k = 1/(tr + (N+1) lambda_k): {listed(targets)}",
                listed(reached),
                close(reached / targets, np.ones(4), 1e-3),
            ),
            Claim(
                "AGF in real time has the jump times within 0.1% (largest error)",
                f"{max(agreement.time_error):.2g}",
                max(agreement.time_error) < 1e-3,
            ),
            Claim(
                "Algorithm 1 as printed has them within 1% (largest error)",
                f"{max(as_printed.time_error):.2g}",
                max(as_printed.time_error) < 1e-2,
            ),
            Claim(
                "Eq 7 with l = k - 1 bounds every jump time from below (bound / simulated)",
                listed(later),
                len(later) == 4 and all(ratio < 1 for ratio in later),
            ),
        ),
        figure,
        {
            "time_predicted": stairs.jump_times,
            "time_algorithm_1": printed.jump_times,
            "time_simulated": list(agreement.jump_times),
            "time_bound": bounds,
            "time_error": agreement.time_error,
            "time_error_algorithm_1": as_printed.time_error,
            "level_error": agreement.level_error,
        },
        {"attention": agreement},
    )


def _setting() -> tuple[InContextRegression, np.ndarray]:
    """The paper's covariance in a random basis; Gaussian heads with positive V."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    start = SCALE * rng.normal(size=(HEADS, 9))
    start[:, 0] = np.abs(start[:, 0])
    return in_context_regression(EIGENVALUES, CONTEXT, axes), start


def _singular_values(task: InContextRegression, theta: Any) -> np.ndarray:
    """Of the matrix sum of V K Q^T, each at the principal component that is nearest to its vector."""
    value, key, query = np.split(np.asarray(theta), [1, 5], axis=1)
    left, values, _ = np.linalg.svd((value * key).T @ query)
    overlap = np.abs(np.asarray(task.axes).T @ left)
    return values[linear_sum_assignment(overlap, maximize=True)[1]]


def _lower_bounds(agreement: Agreement) -> list[float]:
    """Eq 7 with l = k - 1, as printed: from the last simulated jump and the largest dormant head then.

    `waiting_time` is the strict bound, earlier by what a head of norm 1 needs to grow for ever.
    """
    path, bounds, learned = agreement.observed, [], set[int]()
    norms = path.data["unit_norm"].values
    best = maximal_utility(EIGENVALUES, CONTEXT)
    stages = agreement.predicted.stages
    for stage, last, u in zip(stages, (0.0, *agreement.jump_times), best, strict=False):
        dormant = [h for h in range(HEADS) if h not in learned]
        largest = max(float(np.interp(last, path.time, norms[:, h])) for h in dormant)
        bounds.append(last + 1 / (3 * float(u) * largest))
        learned |= set(stage.units)
    return bounds


def _walk(
    task: InContextRegression, start: np.ndarray, end: float
) -> tuple[np.ndarray, np.ndarray]:
    """Singular values of AGF's active heads along its time."""
    with float64():
        walk = Walk(Problem(task, _UNITS), jnp.asarray(start), real_time=True)
        walk.run()
        time = walk.record.curve.time[[moment.index for moment in walk.record.moments]]
        values = [_singular_values(task, moment.alone) for moment in walk.record.moments]
    return np.append(time, end), np.stack([*values, values[-1]])


def _components(stages: Any) -> list[int]:
    return [stage.feature["index"] for stage in stages]


def _draw_losses(axes: Any, path: Trajectory, stairs: Staircase, printed: Staircase) -> None:
    draw.loss_curve(axes, path.time, path.loss, linewidth=3)
    assert stairs.curve is not None
    time, loss = stairs.curve
    last = float(path.time[-1]), loss[-1]
    axes.plot((*time, last[0]), (*loss, last[1]), "k--", linewidth=1.3, label="AGF in real time")
    middles = [0.5 * (a + b) for a, b in itertools.pairwise(printed.loss_levels)]
    label = "jumps of Algorithm 1"
    axes.plot(printed.jump_times, middles, "o", color=draw.PREDICTED, markersize=5, label=label)
    axes.legend()


def _draw_singular_values(
    axes: Any, path: Trajectory, walked: tuple[np.ndarray, np.ndarray], bounds: list[float]
) -> None:
    values = path.data["singular_values"].values
    for k, (target, color) in enumerate(
        zip(amplitudes(EIGENVALUES, CONTEXT), _COLORS, strict=True)
    ):
        axes.axhline(target, color=color, linewidth=0.8, alpha=0.7)
        axes.axvline(bounds[k], color=color, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.plot(path.data["saved"], values[:, k], color=color, linewidth=3)
        axes.plot(walked[0], walked[1][:, k], "k--", linewidth=1.2)
        axes.annotate(
            f"$A_{k + 1}$",
            (1.0, target),
            xycoords=("axes fraction", "data"),
            xytext=(4, -3),
            textcoords="offset points",
            color=color,
        )
    for style, label in (
        ({"color": "0.4", "linewidth": 3}, "gradient flow"),
        ({"color": "k", "linestyle": "--", "linewidth": 1.2}, "AGF in real time"),
        ({"color": "0.4", "linestyle": (0, (4, 3)), "linewidth": 1.2}, "lower bound of Eq 7"),
    ):
        axes.plot([], [], **style, label=label)
    axes.set_ylabel(r"singular values of $\sum_h V_h K_h Q_h^\top$")
    axes.legend(loc="upper left", frameon=True, framealpha=1, edgecolor="none")


def _time_axis(axes: Any, first: float, end: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(first, end)
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("time (learning rate 1)")

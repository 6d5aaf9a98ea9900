"""Adaptive rates: does norm^(2-kappa) for each unit make alignment free (appendix B.5)?"""

from typing import Any

import numpy as np

from saddlewalk.agreement import compare
from saddlewalk.figures.claims import Claim, FigureResult, listed
from saddlewalk.flow import train
from saddlewalk.precision import float64
from saddlewalk.problem import Problem
from saddlewalk.show import draw
from saddlewalk.tasks import (
    in_context_regression,
)
from saddlewalk.theory import predict
from saddlewalk.theory.attention import maximal_utility
from saddlewalk.theory.bounds import utility_to_reach
from saddlewalk.units import LinearAttention

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

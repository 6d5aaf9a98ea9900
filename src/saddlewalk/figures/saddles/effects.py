"""Fig 2 of Saddle-to-Saddle Dynamics: width, data, structure and scale of the start."""

from typing import Any

import numpy as np

from saddlewalk.figures.claims import Claim, FigureResult, falls, listed
from saddlewalk.figures.saddles.panels import jump_times, small_start
from saddlewalk.flow import Trajectory, train
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.show import draw
from saddlewalk.tasks import AbstractTask, Moments, from_moments, in_context_regression
from saddlewalk.units import AbstractUnits, Dense, LinearAttention

WIDTHS = {"linear": (10, 100, 1000), "attention": (10, 40, 160)}
EXPONENTS = (2.0, 1.0, 0.5, 0.0)
SCALES = (1e-6, 1e-4, 1e-2, 1e-1, 1.0)
SEEDS = 5
_EPS = {"linear": 1e-6, "attention": 5e-3}
_CONTEXT = 32


def figure_2() -> FigureResult:
    """Loss curves by width, by the power law of the data, by rank and by scale of the start."""
    width = {k: [_run(k, 1.0, h) for h in WIDTHS[k]] for k in WIDTHS}
    data = {k: [_run(k, e, {"linear": 100, "attention": 25}[k]) for e in EXPONENTS] for k in WIDTHS}
    ranks = [_low_rank(rank) for rank in (1, 2, 3)]
    scales = [_run("linear", 1.0, 100, eps) for eps in SCALES]
    last = {k: [_median_end(k, h) for h in WIDTHS[k]] for k in WIDTHS}
    figure = _draw(width, data, ranks, scales)
    jumps: dict[str, Any] = {
        "width": {k: [jump_times(one) for one in runs] for k, runs in width.items()},
        "data": {k: [jump_times(one) for one in runs] for k, runs in data.items()},
        "rank": [jump_times(one, _empty_loss()) for one in ranks],
        "scale": [jump_times(one) for one in scales],
    }
    return FigureResult(
        "saddle-2",
        "what shortens plateaus, and what removes them",
        (
            Claim(
                f"(A) width {WIDTHS['linear']} has little effect on linear networks "
                "(last jump, at most 40% earlier)",
                listed(last["linear"]),
                last["linear"][-1] > 0.6 * last["linear"][0],
            ),
            Claim(
                f"(A) more heads {WIDTHS['attention']} shorten the plateaus of attention "
                f"(last jump, median of {SEEDS} starts)",
                listed(last["attention"]),
                falls(last["attention"]) and last["attention"][-1] < 0.6 * last["attention"][0],
            ),
            *(
                Claim(
                    f"(B) {k}: smaller exponents {listed(EXPONENTS)} shorten the plateaus (last jump)",
                    listed(times[-1] for times in jumps["data"][k]),
                    falls(times[-1] for times in jumps["data"][k]),
                )
                for k in WIDTHS
            ),
            Claim(
                f"(B) linear networks: number of jumps for exponents {listed(EXPONENTS)}; "
                "equal singular values leave the first plateau alone",
                str([len(times) for times in jumps["data"]["linear"]]),
                len(jumps["data"]["linear"][0]) == 3 and len(jumps["data"]["linear"][-1]) == 1,
            ),
            Claim(
                "(B) attention keeps its plateaus with equal singular values",
                str([len(times) for times in jumps["data"]["attention"]]),
                len(jumps["data"]["attention"][-1]) > 1,
            ),
            Claim(
                "(C) large weights of rank 1, 2, 3: no first plateau, then as many jumps as are missing",
                f"{[len(times) for times in jumps['rank']]}, first at "
                + listed(times[0] for times in jumps["rank"]),
                [len(times) for times in jumps["rank"]] == [3, 2, 1]
                and all(times[0] < 0.1 * jumps["scale"][0][-1] for times in jumps["rank"]),
            ),
            Claim(
                f"(D) larger starts {listed(SCALES)} shorten the plateaus (time of the last jump)",
                listed(times[-1] for times in jumps["scale"]),
                falls(times[-1] for times in jumps["scale"]) and len(jumps["scale"][0]) == 3,
            ),
        ),
        figure,
        jumps,
    )


def power_law(exponent: float) -> np.ndarray:
    """Three singular values n^-exponent that add up to 1.

    Parameters
    ----------
    exponent : 0 for equal values.
    """
    values = np.arange(1, 4.0) ** -exponent
    return values / values.sum()


def _problem(kind: str, exponent: float, width: int) -> tuple[AbstractTask, AbstractUnits]:
    s = power_law(exponent)
    if kind == "linear":
        return _linear(s), Dense(width, "linear")
    # the coupling of a new head is N Sigma^2
    return in_context_regression(np.sqrt(s / _CONTEXT), _CONTEXT), LinearAttention(width)


def _linear(s: np.ndarray) -> Moments:
    return from_moments(np.eye(3), np.diag(s), name="power law")


@in_float64
def _run(
    kind: str, exponent: float, width: int, eps: float | None = None, seed: int = 0
) -> Trajectory:
    task, units = _problem(kind, exponent, width)
    start = small_start(Problem(task, units), eps or _EPS[kind], seed)
    return _train(task, units, start, 400.0 if kind == "linear" else 20_000.0)


def _train(task: AbstractTask, units: AbstractUnits, start: np.ndarray, end: float) -> Trajectory:
    return train(
        task, units, 1.0, start=start, max_time=end, convergence=1e-5, solver="explicit",
        tolerance=1e-6, progress=False,
    )  # fmt: skip


@in_float64
def _low_rank(rank: int) -> Trajectory:
    """Large weights of low rank, the same in both layers (so that no mode starts with the wrong sign),
    and a small disturbance."""
    task, units = _linear(power_law(1.0)), Dense(100, "linear")
    rng = np.random.default_rng(rank)
    directions = np.linalg.qr(rng.normal(size=(3, 3)))[0][:rank]
    large = rng.normal(size=(100, rank)) @ np.hstack([directions, directions]) / 5
    return _train(task, units, large + 1e-6 * rng.normal(size=(100, 6)), 400.0)


def width_study(kind: str, width: int, seed: int) -> dict[str, float]:
    """A cell of the study of the width, for sweeps: how often the loss jumps, first and last.

    Parameters
    ----------
    kind : "linear" (two linear layers) or "attention" (linear attention, in context).
    width : number of units.
    seed : seed of the start.
    """
    times = jump_times(_run(kind, 1.0, width, seed=seed))
    return {"last_jump": times[-1], "first_jump": times[0], "jumps": len(times)}


def _median_end(kind: str, width: int) -> float:
    """Time of the last jump, over some starts."""
    ends = [width_study(kind, width, seed)["last_jump"] for seed in range(SEEDS)]
    return float(np.median(ends))


def _empty_loss() -> float:
    """Loss of a network that answers zero."""
    return 0.5 * float(np.sum(power_law(1.0) ** 2))


def _draw(width: Any, data: Any, ranks: Any, scales: Any) -> Any:
    with draw.styled():
        figure, axes = draw.new_figure(2, 3, width=12, height=6.4)
        for column, kind in enumerate(("linear", "attention")):
            one = axes[0, column]
            for path, h in zip(width[kind], WIDTHS[kind], strict=True):
                _curve(one, path, f"H = {h}")
            one.set_title(f"(A) {kind}: width")
            one = axes[1, column]
            for path, exponent in zip(data[kind], EXPONENTS, strict=True):
                _curve(one, path, rf"$\kappa$ = {exponent:g}")
            one.set_title(f"(B) {kind}: power law of the data")
        for rank, path in enumerate(ranks, start=1):
            _curve(axes[0, 2], path, f"large, rank {rank}")
        axes[0, 2].set_yscale("log")
        axes[0, 2].set_ylim(bottom=1e-6)
        axes[0, 2].set_title("(C) linear: rank of the start")
        for path, eps in zip(scales, SCALES, strict=True):
            _curve(axes[1, 2], path, f"{eps:g}")
        axes[1, 2].set_title("(D) linear: scale of the start")
        top = float(scales[0].loss[0])
        axes[1, 2].set_ylim(0, 1.5 * top)
        for one in axes.ravel():
            one.legend(fontsize=8)
            one.set_xlabel("time (learning rate 1)")
            one.set_ylabel("loss")
    return figure


def _curve(axes: Any, path: Trajectory, label: str) -> None:
    axes.plot(path.time, path.loss, label=label)
    times = jump_times(path)
    axes.set_xlim(0, max(axes.get_xlim()[1] if axes.lines[1:] else 0, 1.3 * times[-1]))

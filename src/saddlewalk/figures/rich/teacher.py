"""Teacher and student of Get Rich Quick, Fig 1a, and the partition of the plane by activations.

A ReLU student learns from a ReLU teacher with three neurons. Half of its neurons mirror the others, so that
it answers zero at the start, and every neuron has the same scale tau and balance delta. The paper's loss is
the mean squared error without the factor 1/2.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddlewalk.diagnose import conserved_drift, draw_partition, find_regime
from saddlewalk.figures.claims import Claim, FigureResult, listed
from saddlewalk.figures.networks.student import HIDDEN, Draw, drawn
from saddlewalk.flow import Trajectory, train
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem
from saddlewalk.show import draw
from saddlewalk.tasks import Samples, from_arrays
from saddlewalk.theory.lazyrich import signed_spherical
from saddlewalk.units import Dense

CORNERS = ((0.1, 0.0), (2.0, 0.0), (0.1, 1.0), (0.1, -1.0))
"""tau and delta of Fig 1a."""
_SEED = 100
_END = 200.0
"""1e6 steps of 1e-4, twice: the paper's loss is twice ours."""


# --- Fig 1a and the partition ------------------------------------------------------------------------


@dataclass(frozen=True)
class Corner:
    """One student in the plane."""

    problem: Problem
    path: Trajectory

    @property
    def rotation(self) -> np.ndarray:
        """Angle in degrees by which each neuron turned."""
        first, last = (
            signed_spherical(theta[:, -1], theta[:, :-1]).direction
            for theta in (self.path.parameters[0], self.path.parameters[-1])
        )
        return np.degrees(np.arccos(np.clip(np.sum(first * last, axis=1), -1, 1)))


@in_float64
def corner(tau: float, delta: float, neurons: int = HIDDEN) -> Corner:
    """Gradient flow of a student in the plane, as long as the paper's million steps.

    Parameters
    ----------
    tau, delta : scale and balance of the neurons at the start.
    neurons : of the student: the first so many.
    """
    task, given = _plane()
    units = Dense(neurons, "relu")
    path = train(
        task, units, tau, start=given.start(tau, delta)[:neurons], max_time=_END, convergence=1e-7,
        tolerance=1e-6, most_saved=400, progress=False,
    )  # fmt: skip
    return Corner(Problem(task, units), path)


def figure_1a() -> FigureResult:
    """Where neurons go: by scale (balanced), and by balance (small scale)."""
    runs = {cell: corner(*cell) for cell in CORNERS}
    turns = {cell: float(np.median(run.rotation)) for cell, run in runs.items()}
    drifts = [conserved_drift(run.path, run.problem)["units"].largest for run in runs.values()]
    losses = [float(run.path.loss[-1]) for run in runs.values()]
    return FigureResult(
        "rich-1a",
        "teacher and student in the plane: which neurons turn",
        (
            Claim(
                "neurons turn at small scale, balanced or upstream; they do not at large scale or "
                f"downstream (median degrees for tau, delta = {CORNERS})",
                listed(turns.values()),
                min(turns[0.1, 0.0], turns[0.1, 1.0]) > 10
                and max(turns[2.0, 0.0], turns[0.1, -1.0]) < 3,
            ),
            Claim(
                "upstream they turn more than balanced",
                f"{turns[0.1, 1.0]:.3g} against {turns[0.1, 0.0]:.3g} degrees",
                turns[0.1, 1.0] > turns[0.1, 0.0],
            ),
            Claim("all fit the data (last loss)", listed(losses), max(losses) < 1e-3),
            Claim("delta is conserved (largest drift)", f"{max(drifts):.2g}", max(drifts) < 1e-3),
        ),
        _draw_corners(runs),
        {"rotation": {str(k): v for k, v in turns.items()}, "loss": losses},
    )


def figure_partition() -> FigureResult:
    """The partition of the plane before, during and after training, by balance (Proposition 17).

    Without the mirrored half: twins have one boundary at the start and two very near ones later.
    """
    runs = {delta: corner(0.1, delta, HIDDEN // 2) for delta in (1.0, 0.0, -1.0)}
    regimes = {delta: find_regime(run.path, run.problem) for delta, run in runs.items()}
    switched = [float(one.data["hamming_distance"][-1]) for one in regimes.values()]
    moved = [float(one.data["parameter_distance"][-1]) for one in regimes.values()]
    return FigureResult(
        "rich-partition",
        "the partition of the plane turns upstream and balanced, and stands still downstream",
        (
            Claim(
                "activations switch upstream, less when balanced, hardly downstream (part of all)",
                listed(switched),
                switched[0] > switched[1] > 5 * switched[2],
            ),
            Claim(
                "upstream does so with less movement of the parameters than balanced",
                listed(moved),
                moved[0] < moved[1],
            ),
        ),
        _draw_partitions(runs),
        {"switched": switched, "parameter_distance": moved},
    )


def _plane() -> tuple[Samples, Draw]:
    given = drawn(_SEED, 2, 20)
    return from_arrays(given.x, given.y, name="teacher in the plane"), given


def _draw_corners(runs: dict[tuple[float, float], Corner]) -> Any:
    given = _plane()[1]
    with draw.styled():
        figure, axes = draw.new_figure(1, 4, width=13, height=3.6)
        for one, ((tau, delta), run) in zip(axes, runs.items(), strict=True):
            weights = run.path.parameters
            maps = np.abs(weights[:, :, -1:]) * weights[:, :, :-1]
            reach = 1.1 * float(np.abs(maps).max())
            for k in range(maps.shape[1]):
                color = draw.OBSERVED if weights[-1, k, -1] > 0 else draw.PREDICTED
                one.plot(*maps[:, k].T, color=color, linewidth=0.8, alpha=0.7)
                one.plot(*maps[-1, k], ".", color=color, markersize=5)
            for *w, a in given.teacher:
                one.plot(
                    *(3 * reach * np.array([[0, 0], w])).T, "k--" if a < 0 else "k-", linewidth=0.8
                )
            circle = np.linspace(0, 2 * np.pi, 100)
            one.plot(tau**2 * np.cos(circle), tau**2 * np.sin(circle), color="0.6", linewidth=0.8)
            one.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
            one.set_title(rf"$\tau$ = {tau:g}, $\delta$ = {delta:g}")
            one.set_xlabel(r"$|a|\, w_1$")
        axes[0].set_ylabel(r"$|a|\, w_2$")
        figure.suptitle(
            "neurons with a > 0 (blue) and a < 0 (red), dots at the end; teacher: solid and dashed rays; "
            r"start on the circle of radius $\tau^2$", fontsize=9,
        )  # fmt: skip
    return figure


def _draw_partitions(runs: dict[float, Corner]) -> Any:
    names = {1.0: "upstream", 0.0: "balanced", -1.0: "downstream"}
    given = _plane()[1]
    with draw.styled():
        figure, axes = draw.new_figure(3, 3, width=8, height=8)
        for row, (delta, run) in zip(axes, runs.items(), strict=True):
            loss = np.interp(run.path.data["saved"].values, run.path.time, run.path.loss)
            middle = int(np.argmin(np.abs(loss - loss[0] / 2)))
            for one, place, title in zip(
                row, (0, middle, -1), ("start", "half the loss", "end"), strict=True
            ):
                draw_partition(run.path, at=place, target=one, extent=1.1)
                one.scatter(
                    *given.x.T, c=given.y, cmap="coolwarm", s=18, edgecolors="k", linewidths=0.4
                )
                one.set_title(f"{names[delta]}: {title}", fontsize=9)
                one.set(xticks=[], yticks=[])
    return figure

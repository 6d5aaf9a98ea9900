"""Figs 2, 3, 4, 7 and 8 of Get Rich Quick: one linear neuron, exact and simulated.

For white inputs the paper's loss, half the sum over samples, is ours.
"""

from typing import Any

import numpy as np

from saddlewalk.diagnose import kernel_distance
from saddlewalk.figures.claims import Claim, FigureResult, close, falls, listed
from saddlewalk.figures.drawing import blank_figure
from saddlewalk.flow import train
from saddlewalk.show import draw
from saddlewalk.tasks import from_arrays, from_moments
from saddlewalk.theory.lazyrich import Neuron, line_limit, neuron_preconditioner
from saddlewalk.units import Dense

DELTAS = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
TARGET, START = np.array([0.0, 1.0]), np.array([-1.0, 0.0])
END = 20.0
KERNEL_DISTANCES = (0.8713, 0.7133, 0.4864, 0.2000, 0.0501, 0.0124, 0.0015)
"""S(0, 20) for these deltas. The official notebook has a slip in a norm: its curves are wrong on the way."""
LINE = np.array([[0.5, 1.0]]), np.array([1.1]), np.array([0.4, 0.05])
"""One sample, its target, and the map at the start: a line of maps fits."""


def figure_2() -> FigureResult:
    """Trajectories on the hyperboloid that each delta makes of parameter space."""
    shown = (-2.0, 0.0, 2.0)
    neurons = [Neuron.with_delta(delta, START, TARGET) for delta in shown]
    times = np.linspace(0, END, 2001)
    paths = [neuron.at(times) for neuron in neurons]
    errors = [_error_of(neuron) for neuron in neurons]
    kept = [float(np.ptp(path.a**2 - np.sum(path.w**2, axis=1))) for path in paths]
    ends = [float(np.linalg.norm(path.beta[-1] - TARGET)) for path in paths]
    with draw.styled():
        figure, axes = _spaces(3)
        for one, neuron, path in zip(axes, neurons, paths, strict=True):
            _hyperboloid(one, neuron.delta)
            one.plot(*path.w.T, path.a, color=draw.PREDICTED, linewidth=2)
            one.plot(*path.w[0], path.a[0], "ko", markersize=4)
            one.set_title(rf"$\delta$ = {neuron.delta:g}", y=0.95)
    return FigureResult(
        "rich-2",
        "conserved quantities shape the surface on which a neuron learns",
        (
            Claim("delta is conserved (largest change)", listed(kept), max(kept) < 1e-10),
            Claim(
                "every start reaches the minimum (distance at t = 20)",
                listed(ends),
                max(ends) < 2e-2,
            ),
            _exactness(errors),
        ),
        figure,
        {"delta": list(shown), "error": errors},
    )


def figure_3() -> FigureResult:
    """Length, angle and kernel distance along time, for deltas from downstream to upstream."""
    times = np.linspace(0, END, 401)
    neurons = [Neuron.with_delta(delta, START, TARGET) for delta in DELTAS]
    paths = [neuron.at(times) for neuron in neurons]
    distances = [_distances(path.beta, n.delta) for path, n in zip(paths, neurons, strict=True)]
    errors = [_error_of(neuron) for neuron in neurons]
    turned = [float(times[np.argmax(path.phi > 0.5)]) for path in paths]
    with draw.styled():
        figure, axes = draw.new_figure(1, 3, width=11, height=3.4)
        for delta, path, distance in zip(DELTAS, paths, distances, strict=True):
            look = {"color": _color(delta), "label": rf"$\delta$ = {delta:g}"}
            axes[0].plot(times, path.mu, **look)
            axes[1].plot(times, path.phi, **look)
            axes[2].plot(times, distance, **look)
        for one, name in zip(axes, (r"$\mu$", r"$\phi$", "kernel distance S(0, t)"), strict=True):
            one.set(xlabel="time", ylabel=name, xlim=(0, END))
        axes[0].legend(fontsize=7)
    last = [float(distance[-1]) for distance in distances]
    return FigureResult(
        "rich-3",
        "exact dynamics from downstream to upstream: the kernel turns late, at once, or not",
        (
            Claim(
                f"S(0, 20) for delta {listed(DELTAS)} is {listed(KERNEL_DISTANCES)}",
                listed(last),
                close(last, KERNEL_DISTANCES, 1e-4),
            ),
            Claim("upstream the kernel hardly moves", listed(last[-2:]), max(last[-2:]) < 0.02),
            Claim(
                "the angle turns the later, the more downstream (time at which phi = 1/2)",
                listed(turned),
                falls(turned),
            ),
            _exactness(errors),
        ),
        figure,
        {"delta": list(DELTAS), "S": last, "turned": turned, "error": errors},
    )


def figure_4() -> FigureResult:
    """The way of the map: to the one solution, and to one of a line of solutions."""
    times = np.linspace(0, END, 2001)
    paths = {d: Neuron.with_delta(d, START, TARGET).at(times) for d in DELTAS}
    X, y, start = LINE
    ends = {d: line_limit(X, y, start, d) for d in DELTAS}
    flows = {d: _flow_on_the_line(d) for d in DELTAS}
    least = np.linalg.pinv(X) @ y
    null = np.array([1.0, -0.5]) / np.linalg.norm([1.0, -0.5])
    projected, ray = least + (start @ null) * null, start * float(y[0] / (X[0] @ start))
    places = [float((ends[d] - least) @ null) for d in DELTAS]
    gaps = [float(np.linalg.norm(flows[d][-1] - ends[d])) for d in DELTAS]
    # distance from the straight line between start and target
    bends = [float(np.abs(paths[d].beta @ [-1, 1] - 1).max() / np.sqrt(2)) for d in DELTAS]
    far, near = (float((end - least) @ null) for end in (ray, projected))
    with draw.styled():
        figure, axes = draw.new_figure(1, 2, width=9, height=4.2)
        for d in DELTAS:
            axes[0].plot(*paths[d].beta.T, color=_color(d), label=rf"$\delta$ = {d:g}")
            axes[1].plot(*flows[d].T, color=_color(d))
            axes[1].plot(*ends[d], "o", color=_color(d), markersize=4)
        axes[0].plot(*TARGET, "k*", markersize=10)
        line = least + np.linspace(-0.2, 1.6, 2)[:, None] * null
        axes[1].plot(*line.T, "k--", linewidth=0.8, label="maps that fit")
        axes[1].plot(*projected, "k^", label=r"$\delta \to +\infty$")
        axes[1].plot(*ray, "kv", label=r"$\delta \to -\infty$")
        for one, title in zip(axes, ("(a) one solution", "(b) a line of solutions"), strict=True):
            one.set(xlabel=r"$\beta_1$", ylabel=r"$\beta_2$", aspect="equal", title=title)
            one.legend(fontsize=7)
    return FigureResult(
        "rich-4",
        "delta bends the way of the map, and chooses among the maps that fit",
        (
            Claim(
                "(b) the closed form of the limit is where gradient flow ends (distance)",
                listed(gaps),
                max(gaps) < 1e-6,
            ),
            Claim(
                "(b) limits lie between the projection of the start (upstream) and its ray (downstream), in "
                "order of delta (place along the line)",
                f"{listed(places)} between {far:.4g} and {near:.4g}",
                falls([far, *places, near]),
            ),
            Claim(
                "(a) far upstream the map goes straight, as in linear regression; downstream first towards "
                "the origin (distance from the straight line)",
                listed(bends),
                falls(bends) and bends[0] > 0.5 > 5 * bends[-1],
            ),
        ),
        figure,
        {"delta": list(DELTAS), "limits": [ends[d].tolist() for d in DELTAS], "gap": gaps},
    )  # fmt: skip


def figure_basins() -> FigureResult:
    """The surface between the two basins: a thousandth beside it decides the sign of a."""
    target, a = np.array([1.0, 0.25]), -4.0
    times = np.concatenate([[0.0], np.geomspace(1e-3, 200, 2000)])
    pairs = {delta: [_beside_surface(delta, a, target, step) for step in (-1e-3, 1e-3)]
             for delta in (0.0, -2.0, -10.0)}  # fmt: skip
    basins = {delta: [one.basin for one in pair] for delta, pair in pairs.items()}
    runs = {delta: [_simulated(one, 400.0) for one in pair] for delta, pair in pairs.items()}
    signs = {delta: [int(np.sign(run[-1, -1])) for run in each] for delta, each in runs.items()}
    ends = [run[-1] for each in runs.values() for run in each]
    reached = [float(np.linalg.norm(end[-1] * end[:-1] - target)) for end in ends]
    with draw.styled():
        figure, axes = _spaces(3)
        for one, (delta, pair) in zip(axes, pairs.items(), strict=True):
            _hyperboloid(one, delta, reach=4.5)
            for neuron, color in zip(pair, (draw.PREDICTED, draw.OBSERVED), strict=True):
                path = neuron.at(times)
                one.plot(*path.w.T, path.a, color=color, linewidth=1.6)
            one.set_title(rf"$\delta$ = {delta:g}", y=0.95)
    return FigureResult(
        "rich-basins",
        "two basins of attraction and the surface between them",
        (
            Claim(
                "starts 1e-3 on either side of the surface end with a of either sign (simulated)",
                str(signs),
                all(sorted(each) == [-1, 1] for each in signs.values()),
            ),
            Claim("the basins are those of the formula", str(basins), basins == signs),
            Claim("both reach the target (distance)", listed(reached), max(reached) < 1e-3),
        ),
        figure,
        {"basins": {str(k): v for k, v in basins.items()}},
    )


def figure_dynamics() -> FigureResult:
    """nu, a and w along time for three directions of the start and seven deltas."""
    target = np.array([0.5, 0.5])
    starts = {"0, -1": [0.0, -1.0], "1, -1": [1, -1] / np.sqrt(2), "1, 1": [1, 1] / np.sqrt(2)}
    deltas = (-2.0, -1.0, -0.2, 0.02, 0.2, 1.0, 2.0)
    times = np.linspace(0, 10, 501)
    errors = []
    with draw.styled():
        figure, axes = draw.new_figure(3, 4, width=12, height=7)
        for row, (name, start) in zip(axes, starts.items(), strict=True):
            for delta in deltas:
                neuron = Neuron.with_delta(delta, start, target)
                path = neuron.at(times)
                errors.append(_error_of(neuron, 10.0))
                nu = path.w @ target / path.a
                curves = (np.where(np.abs(nu) < 6, nu, np.nan), path.a, *path.w.T)
                for one, curve in zip(row, curves, strict=True):
                    one.plot(times, curve, color=_color(delta), label=rf"$\delta$ = {delta:g}")
            row[0].set_ylabel(f"start along ({name})")
            row[0].set_ylim(-3, 3)
        for one, title in zip(
            axes[0], (r"$\nu = w^\top\beta_* / a$", "a", r"$w_1$", r"$w_2$"), strict=True
        ):
            one.set_title(title)
        figure.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=7)
    return FigureResult(
        "rich-dynamics",
        "exact dynamics of a single neuron: nu, a, w",
        (_exactness(errors),),
        figure,
        {"largest error": max(errors)},
    )


# --- pieces -------------------------------------------------------------------------------------------


def _exactness(errors: list[float]) -> Claim:
    return Claim(
        "the exact solution is what gradient flow does (largest error, of the weights' norm)",
        f"{max(errors):.2g}",
        max(errors) < 1e-6,
    )


def _error_of(neuron: Neuron, end: float = END) -> float:
    """The exact solution against the package's own simulation, at some times."""
    exact = neuron.at(np.linspace(0, end, 21))
    both = np.column_stack([exact.w, exact.a])
    gap = np.linalg.norm(_simulated(neuron, end) - both, axis=1)
    return float((gap / np.linalg.norm(both, axis=1)).max())


def _simulated(neuron: Neuron, end: float) -> np.ndarray:
    """(w, a) along gradient flow, at 21 times."""
    task = from_moments(np.eye(len(neuron.target)), neuron.target[None])
    start = np.concatenate([neuron.w, [neuron.a]])[None]
    path = train(
        task, Dense(1, "linear"), 1.0, start=start, times=np.linspace(0, end, 21), max_time=end,
        convergence=0.0, tolerance=1e-10, progress=False,
    )  # fmt: skip
    return path.parameters[:, 0]


def _flow_on_the_line(delta: float) -> np.ndarray:
    """The map along gradient flow, for the data that a line of maps fits."""
    X, y, start = LINE
    neuron = Neuron.with_delta(delta, start, np.ones(2))
    path = train(
        from_arrays(X, y), Dense(1, "linear"), 1.0,
        start=np.concatenate([neuron.w, [neuron.a]])[None], convergence=1e-12, max_time=1e3,
        tolerance=1e-10, progress=False,
    )  # fmt: skip
    return path.parameters[:, 0, :2] * path.parameters[:, 0, 2:]


def _distances(betas: np.ndarray, delta: float) -> list[float]:
    """Kernel distance from the start; for white inputs that of the preconditioners."""
    kernels = [neuron_preconditioner(beta, delta) for beta in betas]
    return [kernel_distance(kernels[0], kernel) for kernel in kernels]


def _beside_surface(delta: float, a: float, target: np.ndarray, step: float) -> Neuron:
    """On the separating surface for (delta, a), then a moved by a step."""
    size = float(np.linalg.norm(target))
    along = -a / 2 * (delta + np.hypot(delta, 2 * size)) / size
    across = np.sqrt(max(a**2 - delta - along**2, 0.0))
    unit = target / size
    return Neuron.of(a + step, along * unit + across * np.array([-unit[1], unit[0]]), target)


def _color(delta: float) -> Any:
    import matplotlib

    if abs(delta) < 0.05:
        return "0.4"  # the middle of the map is too pale
    return matplotlib.colormaps["coolwarm"](0.5 + 0.5 * float(np.tanh(0.8 * delta)))


def _spaces(many: int) -> tuple[Any, list[Any]]:
    """A row of three-dimensional axes."""
    figure = blank_figure(3.6 * many, 3.8)
    axes = [figure.add_subplot(1, many, k + 1, projection="3d") for k in range(many)]
    for one in axes:
        one.set(xlabel=r"$w_1$", ylabel=r"$w_2$", zlabel="a")
        one.view_init(18, -60)
    return figure, axes


def _hyperboloid(axes: Any, delta: float, reach: float = 2.0) -> None:
    """The surface a^2 - |w|^2 = delta."""
    angle, height = np.meshgrid(np.linspace(0, 2 * np.pi, 49), np.linspace(-reach, reach, 41))
    if delta > 0:  # two sheets, drawn over |w|
        radius = np.abs(height)
        sheets = [np.sqrt(radius**2 + delta), -np.sqrt(radius**2 + delta)]
    else:
        radius, sheets = np.sqrt(height**2 - delta), [height]
    for a in sheets:
        axes.plot_surface(
            radius * np.cos(angle), radius * np.sin(angle), a, color="0.7", alpha=0.25, linewidth=0
        )

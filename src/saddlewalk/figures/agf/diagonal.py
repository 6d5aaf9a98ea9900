"""Fig 3 and 8 of Alternating Gradient Flows: AGF = GF as alpha -> 0 in diagonal linear networks."""

import math
from typing import Any

import numpy as np

from saddlewalk.agreement import Agreement, compare
from saddlewalk.figures.claims import Claim, FigureResult, close, falls, listed
from saddlewalk.flow import Trajectory, train
from saddlewalk.show import draw
from saddlewalk.tasks import Samples, agf_figure_3, agf_figure_8
from saddlewalk.theory import predict
from saddlewalk.theory.diagonal import Regression, accumulated_utility, agf_sequence
from saddlewalk.units import Diagonal

FIG_3_SCALES = (0.99, 0.9, 0.5, 0.1, 1e-2, 1e-4, 1e-8, 1e-16)
FIG_8_SCALES = (0.5, 0.1, 1e-2, 1e-4, 1e-6)
_UNITS = Diagonal()


def figure_3() -> FigureResult:
    """Loss curves at eight scales on the accelerated axis, and the coefficients, under AGF."""
    task = agf_figure_3()
    paths = {scale: _simulate(task, scale, 6.0) for scale in FIG_3_SCALES}
    small = [scale for scale in FIG_3_SCALES if scale <= 1e-2]
    agreements = {
        scale: compare(predict(task, _UNITS, scale, method="paper"), paths[scale])
        for scale in small
    }
    stairs = predict(task, _UNITS, 1e-16, method="limit")
    with draw.styled():
        figure, (left, right) = draw.new_figure(1, 2, width=10.5, height=4.0)
        _draw_losses(left, paths, stairs, 5.5)
        _draw_coefficients(right, paths[1e-16], task, 5.5)
    errors = [_mean_time_error(agreements[scale]) for scale in small]
    order = [stage.units[0] for stage in stairs.stages]
    return FigureResult(
        "agf-3",
        "AGF = GF as alpha -> 0, five coefficients",
        (
            Claim(
                "coefficients activate in the order 1, 2, 3, 0, 4",
                str(order),
                order == [1, 2, 3, 0, 4],
            ),
            Claim(
                "accelerated jump times 0.120 0.601 0.982 1.112 4.219",
                listed(s.time_accelerated for s in stairs.stages),
                close(
                    (s.time_accelerated for s in stairs.stages),
                    (0.12012, 0.60070, 0.98171, 1.11228, 4.21925),
                    1e-4,
                ),
            ),
            Claim(
                "levels 82.417 13.323 2.267 0.988 0.166 0",
                listed(stairs.loss_levels),
                close(stairs.loss_levels, (82.4167, 13.3230, 2.26703, 0.988054, 0.165564, 0), 1e-4),
            ),
            Claim(
                "gradient flow approaches AGF as alpha falls (mean error of jump times)",
                listed(errors),
                falls(errors),
            ),
            Claim(
                "the order of gradient flow is AGF's for every alpha <= 0.01",
                str([agreements[scale].order for scale in small]),
                all(agreement.order for agreement in agreements.values()),
            ),
        ),
        figure,
        _numbers(agreements),
        {f"scale {scale:g}": agreements[scale] for scale in small},
    )


def figure_8() -> FigureResult:
    """Two coefficients, the first of which returns to dormancy and comes back with the other sign."""
    task = agf_figure_8()
    paths = {scale: _simulate(task, scale, 5.0) for scale in FIG_8_SCALES}
    small = [scale for scale in FIG_8_SCALES if scale <= 1e-1]
    agreements = {
        scale: compare(predict(task, _UNITS, scale, method="paper"), paths[scale])
        for scale in small
    }
    stairs = predict(task, _UNITS, 1e-6, method="paper")
    with draw.styled():
        figure, axes = draw.new_figure(2, 2, width=10.5, height=8.0)
        _draw_losses(axes[0, 0], paths, predict(task, _UNITS, 1e-6, method="limit"), 4.5)
        _draw_landscape(axes[0, 1], paths, task)
        _draw_parameters(axes[1, 0], [paths[1e-1], paths[1e-6]])
        _draw_utility(axes[1, 1], paths[1e-6], task, 4.5)
    errors = [_mean_time_error(agreements[scale]) for scale in small]
    moves = [(list(s.units), list(s.dormant)) for s in stairs.stages]
    seen = [(list(s.units), list(s.dormant)) for s in agreements[1e-6].stages_observed]
    signs = [s.feature["sign"] for s in stairs.stages]
    scaled = [s.time / -math.log(1e-6) for s in stairs.stages]
    return FigureResult(
        "agf-8",
        "AGF = GF as alpha -> 0, a coefficient that returns to dormancy",
        (
            Claim(
                "0 on; 1 on and 0 off; 0 on again",
                str(moves),
                moves == [([0], []), ([1], [0]), ([0], [])],
            ),
            Claim("gradient flow at alpha = 1e-6 does the same", str(seen), seen == moves),
            Claim("coefficient 0 returns with the other sign", str(signs), signs == [1, 1, -1]),
            Claim(
                "jump times over -log(alpha): 0.19304 0.60022 3.45736",
                listed(scaled),
                close(scaled, (0.19304, 0.60022, 3.45736), 1e-4),
            ),
            Claim(
                "levels 2.3111 1.1146 0.07 0",
                listed(stairs.loss_levels),
                close(stairs.loss_levels, (2.31110, 1.11465, 0.07, 0.0), 1e-4),
            ),
            Claim(
                "gradient flow approaches AGF as alpha falls (mean error of jump times)",
                listed(errors),
                falls(errors),
            ),
        ),
        figure,
        _numbers(agreements),
        {f"scale {scale:g}": agreements[scale] for scale in small},
    )


def _simulate(task: Samples, scale: float, accelerated: float) -> Trajectory:
    return train(
        task, _UNITS, scale, max_time=accelerated * -math.log(scale), convergence=0.0, progress=None
    )


def _mean_time_error(agreement: Agreement) -> float:
    return float(np.mean(agreement.time_error))


def _numbers(agreements: dict[float, Agreement]) -> dict[str, Any]:
    return {f"{scale:g}": a.to_json()["agreement"] for scale, a in agreements.items()}


def _shade(scale: float) -> Any:
    import matplotlib

    return matplotlib.colormaps["viridis"](0.9 * (1 - min(1.0, -math.log10(scale) / 16) ** 0.5))


def _draw_losses(axes: Any, paths: dict[float, Trajectory], stairs: Any, end: float) -> None:
    for scale, path in paths.items():
        draw.loss_curve(
            axes,
            path.time / -math.log(scale),
            path.loss,
            color=_shade(scale),
            linewidth=1.4,
            label=rf"GF, $\alpha$ = {scale:g}",
        )
    times = [0.0, *(s.time_accelerated for s in stairs.stages), end]
    levels = [*stairs.loss_levels, stairs.loss_levels[-1]]
    axes.step(times, levels, "k--", where="post", linewidth=1.3, label=r"AGF, $\alpha \to 0$")
    axes.set_xlim(0, end)
    axes.set_xlabel(r"accelerated time $t / (-\log\alpha)$")
    axes.set_yscale("log")
    positive = [level for level in levels if level > 1e-9]
    axes.set_ylim(0.02 * min(positive), 2 * max(levels))
    axes.legend(fontsize=8)


def _draw_coefficients(axes: Any, path: Trajectory, task: Samples, end: float) -> None:
    eta = -math.log(path.info["scale"])
    beta = _UNITS.coefficients(path.parameters)
    jumps, _ = agf_sequence(Regression.of(task), eta)
    starts = [0.0, *(jump.time for jump in jumps), end]
    levels = np.array([np.zeros(task.inputs), *(jump.beta for jump in jumps)])
    for i in range(task.inputs):
        (line,) = axes.plot(path.data["saved"] / eta, beta[:, i], label=rf"$\beta_{i}$")
        steps = [*levels[:, i], levels[-1, i]]
        axes.step(starts, steps, "--", where="post", color=line.get_color(), linewidth=1.0)
    axes.set_xlim(0, end)
    axes.set_xlabel(r"accelerated time $t / (-\log\alpha)$")
    axes.set_ylabel(rf"coefficients: GF at $\alpha$ = {path.info['scale']:g}, AGF dashed")
    axes.legend(fontsize=8, loc="lower center", ncols=5, bbox_to_anchor=(0.5, 1.0))


def _draw_landscape(axes: Any, paths: dict[float, Trajectory], task: Samples) -> None:
    regression = Regression.of(task)
    a, b = np.meshgrid(np.linspace(-0.4, 0.8, 80), np.linspace(-0.2, 2.2, 80))
    points = np.stack([a.ravel(), b.ravel()], axis=1)
    loss = np.array([regression.loss(beta) for beta in points]).reshape(a.shape)
    axes.contour(a, b, np.sqrt(loss), 18, colors="0.75", linewidths=0.7)
    for scale, path in paths.items():
        beta = _UNITS.coefficients(path.parameters)
        axes.plot(beta[:, 0], beta[:, 1], color=_shade(scale), label=rf"$\alpha$ = {scale:g}")
    jumps, _ = agf_sequence(regression, -math.log(1e-6))
    stops = np.array([np.zeros(2), *(jump.beta for jump in jumps)])
    axes.plot(stops[:, 0], stops[:, 1], "k*", markersize=9, label="saddles of AGF")
    axes.set_xlabel(r"$\beta_0$")
    axes.set_ylabel(r"$\beta_1$")
    axes.legend(fontsize=8, loc="lower left")


def _draw_parameters(axes: Any, paths: list[Trajectory]) -> None:
    for style, path in zip((":", "-"), paths, strict=True):
        u, v = _UNITS.weights(path.parameters)
        for i, color in enumerate(("C0", "C1")):
            label = rf"$(u_{i}, v_{i})$, $\alpha$ = {path.info['scale']:g}"
            axes.plot(u[:, i], v[:, i], style, color=color, label=label)
    axes.axhline(0, color="0.8", linewidth=0.8)
    axes.set_xlabel("u")
    axes.set_ylabel("v")
    axes.legend(fontsize=8)


def _draw_utility(axes: Any, path: Trajectory, task: Samples, end: float) -> None:
    """Accumulated utility with the coefficient's sign (AGF dashed) and the angle (dotted)."""
    scale = path.info["scale"]
    regression, eta = Regression.of(task), -math.log(math.sqrt(2) * scale)
    jumps, _ = agf_sequence(regression, eta)
    grid = np.linspace(0.0, end, 1500)
    predicted = accumulated_utility(regression, jumps, eta, grid)
    u, v = _UNITS.weights(path.parameters)
    simulated = np.sign(u * v) * np.log(np.hypot(u, v) / (math.sqrt(2) * scale)) / eta
    for i in range(2):
        (line,) = axes.plot(path.data["saved"] / eta, simulated[:, i], label=rf"$S_{i}$")
        axes.plot(grid, predicted[:, i], "--", color=line.get_color(), linewidth=1.0)
        angle = np.arctan2(v[:, i], u[:, i]) / (np.pi / 4)
        axes.plot(
            path.data["saved"] / eta,
            angle,
            ":",
            color=line.get_color(),
            label=rf"angle$_{i}$ / 45°",
        )
    axes.axhline(1, color="0.8", linewidth=0.8)
    axes.axhline(-1, color="0.8", linewidth=0.8)
    axes.set_xlim(0, end)
    axes.set_xlabel(r"accelerated time $t / \eta_\alpha$")
    axes.set_ylabel("accumulated utility, signed (AGF dashed)")
    axes.legend(fontsize=8)

"""Figs 4 and 11 of the Features At Convergence paper: networks at an exact minimum with weight decay."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from saddlewalk.features import network_features
from saddlewalk.features.layers import LayerFeatures
from saddlewalk.features.matrix_functions import cosine, matrix_power
from saddlewalk.figures.claims import Claim, FigureResult, listed
from saddlewalk.figures.drawing import show_matrix
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem, compiled
from saddlewalk.show import draw
from saddlewalk.tasks import Samples, from_arrays
from saddlewalk.units import Deep, Dense

TAU, WIDTH = 0.02, 10
"""Strength of the frequent feature and hidden neurons: as printed."""
PRINTED, LIMIT, RARER = (1e-5, 1e-5), (1e-5, 1e-7), (1e-6, 1e-8)
"""Probability of uniform inputs, and weight decay: as printed, with a decay near 0, with rarer inputs."""
DEPTHS = (2, 3, 4, 5)
_INPUTS, _OUTPUTS, _HIDDEN, _SAMPLES, _DECAY = 10, 5, 64, 1000, 1e-2


def figure_4() -> FigureResult:
    r"""Theorem 3.4: a network whose features FACT knows and AGOP does not.

    As the weight decay and then the probability of uniform inputs go to 0, :math:`W^\top W` becomes
    proportional to :math:`\mathrm{diag}(\tau^{2/3}, \tau^{2/3}, 1, 1)` (a product of strength c costs least
    with neurons of square norm :math:`c^{2/3}`) and AGOP to the outer square of (1, 1, 0, 0): their cosine is

    .. math:: \tau^{2/3} / \sqrt{2 (1 + \tau^{4/3})} = 0.052 .
    """
    found = {case: _separated(*case) for case in (PRINTED, LIMIT, RARER)}
    cosines = {
        case: {
            "FACT": cosine(layer.feature_matrix, layer.fact),
            "AGOP": cosine(layer.feature_matrix, layer.agop),
        }
        for case, layer in found.items()
    }
    return FigureResult(
        "fact-4",
        "FACT and NFA can be far apart at a minimum",
        tuple(
            claim
            for (rare, decay), values in cosines.items()
            for claim in (
                Claim(
                    f"p = {rare:g}, weight decay {decay:g}: cosine of FACT with W^T W above 0.994",
                    f"{values['FACT']:.6f}",
                    values["FACT"] > 0.994,
                ),
                Claim(
                    f"p = {rare:g}, weight decay {decay:g}: cosine of AGOP below 0.068",
                    f"{values['AGOP']:.3f}",
                    values["AGOP"] < 0.068,
                ),
            )
        ),
        _draw_matrices(found[RARER]),
        {f"p {rare:g}, decay {decay:g}": values for (rare, decay), values in cosines.items()},
    )


def figure_11() -> FigureResult:
    """Deep linear networks: AGOP needs the power 1/L, FACT none."""
    layers = {depth: _deep_linear(depth) for depth in DEPTHS}
    powers = np.linspace(0.1, 1.0, 19)
    curves = {
        depth: [cosine(layer.feature_matrix, matrix_power(layer.agop, s)) for s in powers]
        for depth, layer in layers.items()
    }
    at_inverse = [
        cosine(layer.feature_matrix, matrix_power(layer.agop, 1 / depth))
        for depth, layer in layers.items()
    ]
    fact = [cosine(layer.feature_matrix, layer.fact) for layer in layers.values()]
    best = [float(powers[int(np.argmax(curves[depth]))]) for depth in DEPTHS]
    with draw.styled():
        figure, axes = draw.new_figure(1, 1, 6, 4)
        for depth, curve in curves.items():
            line = axes.plot(powers, curve, label=f"L = {depth}")[0]
            axes.axvline(1 / depth, color=line.get_color(), linestyle=":", linewidth=0.8)
        axes.set(xlabel="power s of the AGOP", ylabel="cosine of AGOP$^s$ with $W_1^T W_1$")
        axes.legend()
    return FigureResult(
        "fact-11",
        "deep linear networks: AGOP to the power 1/L, or FACT",
        (
            Claim(
                f"cosine of AGOP^(1/L) with W^T W, L = {listed(DEPTHS)}, is close to 1",
                listed(at_inverse),
                min(at_inverse) > 0.999,
            ),
            Claim("cosine of FACT is at least 0.999", listed(fact), min(fact) >= 0.999),
            Claim(
                "the best power is 1/L",
                listed(best),
                all(abs(s - 1 / depth) < 0.06 for s, depth in zip(best, DEPTHS, strict=True)),
            ),
        ),
        figure,
        {"depth": list(DEPTHS), "AGOP^(1/L)": at_inverse, "FACT": fact, "best power": best},
    )


def rare_products(rare: float) -> Samples:
    """y = tau x1 x2 + x3 x4: almost always x = (1, 1, 0, 0), rarely any of {0, 1, 2}^4.

    Parameters
    ----------
    rare : probability of the rare inputs.
    """
    x = np.stack(np.meshgrid(*[np.arange(3.0)] * 4, indexing="ij"), axis=-1).reshape(-1, 4)
    weights = np.full(len(x), rare / len(x))
    weights[np.all(x == [1, 1, 0, 0], axis=1)] += 1 - rare
    return from_arrays(x, TAU * x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3], weights, "rare products")


@in_float64
def _separated(rare: float, decay: float) -> LayerFeatures:
    problem = Problem(rare_products(rare), Dense(WIDTH, "quadratic"))
    start = 0.5 * np.random.default_rng(0).normal(size=(WIDTH, problem.size))
    return network_features(problem, lowest(problem, start, decay), weight_decay=decay)["w"]


@in_float64
def _deep_linear(depth: int) -> LayerFeatures:
    """The first layer of a deep linear network with L layers at its minimum."""
    rng = np.random.default_rng(depth)
    x = rng.normal(size=(_SAMPLES, _INPUTS))
    task = from_arrays(x, x @ rng.normal(size=(_INPUTS, _OUTPUTS)))
    units = Deep(tuple(Dense(_HIDDEN, "linear") for _ in range(depth - 1)))
    whole = Problem(task, units, keep_samples=True)
    start = rng.normal(size=(1, whole.size)) / np.sqrt(_HIDDEN)
    # moments carry the whole loss of a linear network
    theta = lowest(Problem(task, units), start, _DECAY)
    return network_features(whole, theta, weight_decay=_DECAY)[0]


def lowest(problem: Problem, start: np.ndarray, decay: float) -> np.ndarray:
    """A minimum of the loss with weight decay, by L-BFGS started again until it stands still.

    Parameters
    ----------
    problem : units, data and loss.
    start : parameters `(width, size)` to start from.
    decay : weight decay.
    """
    flat = start.ravel()
    for _ in range(5):
        found = minimize(
            lambda values: _regularized(problem, values.reshape(start.shape), decay),
            flat,
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": 20_000,
                "maxfun": 40_000,
                "ftol": 1e-18,
                "gtol": 1e-13,
                "maxcor": 50,
            },
        )
        flat = found.x
    return flat.reshape(start.shape)


def _regularized(problem: Problem, theta: np.ndarray, decay: float) -> tuple[float, np.ndarray]:
    value, slope = compiled.loss_and_gradient(problem, jnp.asarray(theta))
    size = float(np.sum(theta**2))
    return float(value) + decay / 2 * size, (np.asarray(slope) + decay * theta).ravel()


def _draw_matrices(layer: LayerFeatures) -> Any:
    shown = {"$W^T W$": layer.feature_matrix, "FACT": layer.fact, "AGOP": layer.agop}
    with draw.styled():
        figure, axes = draw.new_figure(1, 3, 9, 3.4)
        figure.suptitle(
            f"p = {RARER[0]:g}, weight decay {RARER[1]:g}; each to its own largest entry",
            fontsize=9,
        )
        for one, (name, matrix) in zip(axes, shown.items(), strict=True):
            show_matrix(one, matrix, name, size=float(np.abs(matrix).max()))
            one.set_xticks(range(4), range(1, 5))
            one.set_yticks(range(4), range(1, 5))
    return figure

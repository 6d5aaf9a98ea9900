r"""What a page shows of the units at a moment: as suits them, coefficients, directions, spectra or phases.

A panel is a title and numbers `(moments, rows, columns)`, to be drawn as bars, as a map, or as dials. Utility
is that of Eq 1 over the size of the unit to its degree, :math:`U(\theta_i; r) / |\theta_i|^\kappa`: what a
dormant unit climbs.
"""

from typing import Any

import jax
import numpy as np

from saddlewalk.explore.packed import packed
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem, task_modes
from saddlewalk.problem.problem import norms
from saddlewalk.units import Dense, Diagonal, QuadraticPair

Panel = dict[str, Any]
_MOST_ROWS, _MOST_COLUMNS = 40, 96
_AWAKE = 0.05
"""A unit whose output is at least this part of the largest it has in the run is no longer dormant."""


@in_float64
def panels_of(problem: Problem, parameters: np.ndarray, *, exact: bool = True) -> list[Panel]:
    """All panels of a run.

    Parameters
    ----------
    problem : units, data and loss.
    parameters : weights `(moments, width, size)`.
    exact : all digits, or seven of them.
    """
    theta = np.asarray(parameters)
    size = norms(theta)[..., 0]
    rows = _largest(size)
    panels = [
        *_weights(problem, theta[:, rows], rows),
        _utility(problem, theta, size, rows),
        *_residual(problem, theta),
    ]
    return [{**panel, "values": packed(panel["values"], exact=exact)} for panel in panels]


def _largest(size: np.ndarray) -> np.ndarray:
    """The units that become largest, in their order."""
    chosen = np.argsort(-size.max(axis=0), kind="stable")[:_MOST_ROWS]
    return np.sort(chosen)


def _panel(
    title: str,
    kind: str,
    values: Any,
    rows: list[str],
    columns: list[str] | None = None,
    about: str = "",
) -> Panel:
    array = np.asarray(values, dtype=float)
    array = array[..., None] if array.ndim == 2 else array
    if array.shape[2] > _MOST_COLUMNS:
        about += f" The first {_MOST_COLUMNS} of {array.shape[2]} columns."
        array = array[:, :, :_MOST_COLUMNS]
    named = [""] if columns is None else columns[:_MOST_COLUMNS]
    return {
        "title": title,
        "kind": kind,
        "values": array,
        "rows": rows,
        "columns": named,
        "about": about.strip(),
    }


# --- weights ------------------------------------------------------------------------------------------------


def _weights(problem: Problem, theta: np.ndarray, rows: np.ndarray) -> list[Panel]:
    names = [f"unit {k}" for k in rows]
    if isinstance(problem.units, Diagonal):
        inputs = [_inputs(problem)[k] for k in rows]
        beta = problem.units.coefficients(theta)
        return [
            _panel("Coefficients u·v", "bars", beta, inputs, about="What each unit contributes.")
        ]
    if isinstance(problem.units, QuadraticPair):
        return _spectra(theta, names)
    found = _directions(problem, theta, names)
    if isinstance(problem.units, Dense) and problem.units.rotatable:
        found.insert(0, _singular_values(problem, theta))
    return found


def _directions(problem: Problem, theta: np.ndarray, names: list[str]) -> list[Panel]:
    """Weights of every layer over the size of the unit: where it looks, and what it says."""
    size = norms(theta)
    unit = theta / np.where(size > 0, size, 1.0)
    panels = [
        _panel("Size of the units", "bars", size[..., 0], names, about="Norm of all weights.")
    ]
    first, last = 0, list(problem.shapes)[-1]
    for layer, shape in problem.shapes.items():
        many = int(np.prod(shape))
        part = unit[:, :, first : first + many]
        columns = [f"{layer} {k}" for k in range(many)]
        if first == 0 and many == problem.task.inputs:
            columns = _inputs(problem)
        elif layer == last and many == problem.task.outputs > 1:
            columns = _outputs(problem)
        first += many
        panels.append(
            _panel(
                f"Direction of {layer}",
                "map",
                part,
                names,
                columns,
                "Weights over the norm of the unit.",
            )
        )
    return panels


def _singular_values(problem: Problem, theta: np.ndarray) -> Panel:
    d = problem.task.inputs
    maps = np.einsum("tkc,tkd->tcd", theta[:, :, d:], theta[:, :, :d])
    values = np.linalg.svd(maps, compute_uv=False)
    names = [f"singular value {k}" for k in range(values.shape[1])]
    return _panel("Singular values of the map", "bars", values, names)


def _spectra(theta: np.ndarray, names: list[str]) -> list[Panel]:
    """Fourier spectrum of each unit, and the phases of its three vectors at its strongest frequency."""
    p = theta.shape[2] // 3
    hat = np.fft.rfft(theta.reshape(*theta.shape[:2], 3, p), axis=3)[..., 1:]
    power = np.sqrt(np.sum(np.abs(hat) ** 2, axis=2))
    size = norms(theta)
    strongest = power.argmax(axis=2)
    at = np.take_along_axis(hat, strongest[..., None, None], axis=3)[..., 0]
    phases = np.concatenate([np.angle(at), strongest[..., None] + 1.0], axis=2)
    part = power / np.where(size > 0, size, 1.0) * np.sqrt(2 / p)
    return [
        _panel("Size of the units", "bars", size[..., 0], names, about="Norm of all weights."),
        _panel(
            "Spectrum of each unit",
            "map",
            part,
            names,
            [f"frequency {k}" for k in range(1, part.shape[2] + 1)],
            "Part of the unit's norm in each frequency.",
        ),
        _panel(
            "Phases at the strongest frequency",
            "dials",
            phases,
            names,
            ["u", "v", "w", "frequency"],
            "Aligned when the phase of w is that of u plus that of v.",
        ),
    ]


# --- utility and residual -----------------------------------------------------------------------------------


def _utility(problem: Problem, theta: np.ndarray, size: np.ndarray, rows: np.ndarray) -> Panel:
    def of(weights: Any) -> tuple[Any, Any]:
        residual = problem.residual(weights)
        climb = problem.climb(weights, residual)
        return (
            problem.utility_of_climb(weights, climb, residual),
            problem.squares(weights),
        )

    utility, squares = jax.lax.map(of, theta)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.asarray(utility) / size**problem.degree
    output = np.sqrt(np.asarray(squares))
    dormant = output < _AWAKE * output.max()
    values = np.where(dormant & np.isfinite(relative), relative, np.nan)[:, rows]
    one_each = isinstance(problem.units, Diagonal)  # a unit has an input, and its name
    return _panel(
        "Utility of dormant units",
        "bars",
        values,
        [_inputs(problem)[k] if one_each else f"unit {k}" for k in rows],
        about="Utility over norm to the degree; none for units that are active.",
    )


def _residual(problem: Problem, theta: np.ndarray) -> list[Panel]:
    """What is left to learn: loss held by each mode of the task, or what the residual says of each input."""
    modes = task_modes(problem)
    if modes is not None:
        function = np.asarray(jax.lax.map(problem.function, theta))
        strength = np.stack([modes.strengths(one) for one in function])
        share = modes.weights / modes.weights.sum()
        names = [_mode(name) for name in modes.names]
        left = share * (1 - strength) ** 2
        return [
            _panel(
                "Residual: what is left of each mode",
                "bars",
                left[:, :_MOST_ROWS],
                names[:_MOST_ROWS],
                about="Part of all that is to be learned.",
            )
        ]
    x = getattr(problem.task, "x", None)
    if x is None or isinstance(x, tuple) or np.ndim(x) != 2:
        return []
    residual = np.asarray(jax.lax.map(problem.residual, theta))
    if residual.shape[1:] != (len(x), problem.task.outputs):
        return []
    along = np.einsum("tnc,nd->tcd", residual, np.asarray(x))
    called = _inputs(problem)
    if problem.task.outputs == 1:
        return [
            _panel(
                "Residual along each input",
                "bars",
                along[:, 0, :_MOST_ROWS],
                called[:_MOST_ROWS],
                about="Mean of residual times input: zero when nothing is left to learn from it.",
            )
        ]
    outputs = _outputs(problem)[:_MOST_ROWS]
    return [
        _panel(
            "Residual along each input",
            "map",
            along[:, :_MOST_ROWS],
            outputs,
            called,
            "Mean of residual times input.",
        )
    ]


def _inputs(problem: Problem) -> list[str]:
    """What the inputs are called, and coordinates with them."""
    word = "coordinate" if isinstance(problem.units, Diagonal) else "input"
    return list(problem.task.input_names) or [f"{word} {k}" for k in range(problem.task.inputs)]


def _outputs(problem: Problem) -> list[str]:
    """What the outputs are called."""
    called = problem.task.output_names
    if len(called) == problem.task.outputs:
        return list(called)
    word = "class" if problem.sample_loss.classifies else "output"
    return [f"{word} {k}" for k in range(problem.task.outputs)]


def _mode(name: dict[str, Any]) -> str:
    from saddlewalk.curves.stages import mode_name

    return mode_name(name) or str(name.get("kind"))

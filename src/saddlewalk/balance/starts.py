r"""He starts of deep networks with some layers shrunk: :math:`W_l \sim N(0, 2/n_{in})`, times a factor.

How long a network stays at its start is decided by how many layers are small, not by its depth.
"""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError, check_number, checked_seed
from saddlewalk.problem import Problem
from saddlewalk.units import Dense


def he_start(
    problem: Problem, shrunk: Mapping[str, float] | None = None, seed: int = 0
) -> Float[np.ndarray, "width size"]:
    """Weights of variance 2 over the inputs of their layer, 1 in readouts and linear networks; biases zero.

    Parameters
    ----------
    problem : units, data and loss.
    shrunk : factors of layers by name, for instance `{"w1": 1e-3, "readout": 1e-3}`; 1 where none is given.
    seed : seed of the draw.
    """
    factors, shapes = dict(shrunk or {}), problem.shapes
    for name, factor in factors.items():
        if name not in shapes:
            raise InputError(f"There is no layer '{name}'; there are: {', '.join(shapes)}.")
        check_number(f"shrunk['{name}']", factor)
        if not 0 < factor < math.inf:
            raise InputError(f"The factor of '{name}' must be positive; got {factor}.")
    rng = np.random.default_rng(checked_seed(seed))
    rows = []
    for name, shape in shapes.items():
        gain = 1.0 if name == "readout" or _linear(problem) else 2.0
        bias = name.startswith("b") and len(shape) == 1
        drawn = rng.normal(size=(problem.width, *shape)) * math.sqrt(gain / shape[-1])
        drawn = np.zeros_like(drawn) if bias else drawn
        rows.append(factors.get(name, 1.0) * drawn.reshape(problem.width, -1))
    return np.concatenate(rows, axis=1)


def _linear(problem: Problem) -> bool:
    """Whether all layers are linear; every other activation counts as a rectifier."""
    layers = getattr(problem.units, "hidden_layers", (problem.units,))
    return all(isinstance(one, Dense) and one.activation == "linear" for one in layers)

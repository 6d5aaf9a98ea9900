"""Weights to start from, out of a file: those of a network at any moment of its training.

An .npz holds either one array `theta` of shape `(width, size)`, in the package's own order (what a trajectory
calls `parameters[k]`), or one array a layer, `(width, ...)`, under the names that `Problem.shapes` gives.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.tasks.files import read_arrays

if TYPE_CHECKING:
    from saddlewalk.problem import Problem

Arrays = dict[str, np.ndarray]
Form = dict[str, tuple[int, ...]]
"""Arrays that a file may hold, by name, with their shapes."""


def load_weights(path: str | Path, problem: "Problem") -> np.ndarray:
    """Read parameters `(width, size)`; what does not fit is said with what would.

    Parameters
    ----------
    path : an .npz with `theta`, or with one array a layer.
    problem : whose weights they are.
    """
    file = Path(path)
    if file.suffix != ".npz":
        raise InputError(
            f"`start` must be an .npz file with weights, as numpy.savez writes it; got '{path}'."
        )
    if not file.is_file():
        raise InputError(f"There is no file {file}; `start` is an .npz with the weights.")
    arrays = read_arrays(file)
    units, width = problem.units, problem.width
    layers = {name: (width, *shape) for name, shape in problem.shapes.items()}
    known = dict(zip(units.known_as, layers.values(), strict=False))
    forms: list[Form] = [{"theta": (width, problem.size)}, layers, *([known] if known else [])]
    form = next((one for one in forms if set(one) == set(arrays)), None)
    if form is None:
        expected = ", or ".join(map(_listed, forms))
        held = _listed({name: array.shape for name, array in arrays.items()}) or "nothing"
        raise InputError(f"{file} must hold {expected}; it holds {held}.")
    weights = {name: _checked(file, name, arrays[name], shape) for name, shape in form.items()}
    if form is known:
        weights = units.renamed(weights)
    parts = [weights[name] for name in (("theta",) if "theta" in form else layers)]
    return np.concatenate([part.reshape(width, math.prod(part.shape[1:])) for part in parts], 1)


def _listed(form: Form) -> str:
    return " and ".join(f"{name} {shape}" for name, shape in form.items())


def _checked(file: Path, name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape != shape:
        raise InputError(
            f"{name} in {file} must have shape {shape}, not {array.shape}: `width`, `data` and the sizes of "
            "made data must be those of the network that was saved."
        )
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} in {file} must hold real numbers; it holds {array.dtype}.")
    if not np.isfinite(array).all():
        raise InputError(
            f"{name} in {file} holds NaN or infinite numbers; save the weights of an earlier moment."
        )
    return array.astype(float)

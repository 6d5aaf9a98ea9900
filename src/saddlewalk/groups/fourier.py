r""":math:`\hat x[\rho] = \sum_g x(g)\, \rho(g)^\top`: a function on a group as matrices, and back.

.. math::

    x(g) = \sum_\rho \frac{D}{m|G|}\, \mathrm{tr}\, \rho(g)\, \hat x[\rho], \qquad
    |x|^2 = \sum_\rho \frac{D}{m|G|}\, \|\hat x[\rho]\|_F^2 .

:math:`\hat x[\rho]` commutes with what commutes with :math:`\rho`, so its singular values come m at a time.
For a cyclic group, with rotations for :math:`\rho`, it is the number of the discrete Fourier transform,
:math:`a + ib` as :math:`\begin{pmatrix} a & -b \\ b & a \end{pmatrix}`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.errors import InputError
from saddlewalk.groups.group import Group
from saddlewalk.groups.representations import Representation

FAINT = 1e-9
"""Coefficients and singular values below this part of the largest are not there."""
_FITS = 1e-9


def fourier(group: Group, x: Any) -> dict[str, Float[np.ndarray, "D D"]]:
    """The matrix of a function at each representation, by name.

    Parameters
    ----------
    group : the group.
    x : a number for each element.
    """
    values = np.asarray(x, dtype=float)
    return {one.name: np.einsum("g,gji->ij", values, one.matrices) for one in group.representations}


def from_fourier(group: Group, coefficients: Mapping[Any, Any]) -> Float[np.ndarray, " order"]:
    """The function with these coefficients, and zero at all other representations.

    Parameters
    ----------
    group : the group.
    coefficients : by name of the representation: a number c (for c times the identity; a complex one for
        rotations of the plane), the n singular values of a diagonal matrix (real type), or a matrix.
    """
    x = np.zeros(group.order)
    for name, value in coefficients.items():
        one = group.representation(name)
        matrix = coefficient(one, value)
        part = np.einsum("gij,ji->g", one.matrices, matrix)
        x = x + one.multiplicity / group.order * part
    return x


def present(group: Group, x: Any) -> tuple[Representation, ...]:
    """The representations that a function has a part in.

    Parameters
    ----------
    group : the group.
    x : a number for each element.
    """
    sizes = {name: np.linalg.norm(matrix, 2) for name, matrix in fourier(group, x).items()}
    least = FAINT * max(sizes.values())
    return tuple(one for one in group.representations if sizes[one.name] > least)


def singular_values(one: Representation, matrix: Any) -> Float[np.ndarray, " n"]:
    """The distinct singular values of a coefficient, the largest first: n, each m times in the matrix.

    Parameters
    ----------
    one : a representation.
    matrix : the coefficient of a function there.
    """
    return np.linalg.svd(np.asarray(matrix), compute_uv=False)[:: one.commutant]


def coefficient(one: Representation, value: Any) -> Float[np.ndarray, "D D"]:
    """What was given for a representation, as a matrix that the coefficient of a function can be.

    Parameters
    ----------
    one : the representation.
    value : a number, singular values, or a matrix.
    """
    d = one.dimension
    try:
        given = np.asarray(value, dtype=complex)
    except (TypeError, ValueError):
        raise InputError(
            f"The coefficient of '{one.name}' must be numbers; got {value!r:.60}."
        ) from None
    if not np.isfinite(given).all():
        raise InputError(f"The coefficient of '{one.name}' must be finite; got {value!r:.60}.")
    if given.ndim == 0:
        return _scalar(one, complex(given))
    if np.abs(given.imag).max(initial=0.0) > 0:
        raise InputError(
            f"The coefficient of '{one.name}' must hold real numbers; got {value!r:.60}."
        )
    real = given.real
    if real.ndim == 1 and real.shape == (one.multiplicity,) and one.type == "real":
        return np.diag(real)
    if real.shape != (d, d):
        diagonal = f", {d} singular values" if one.type == "real" else ""
        raise InputError(
            f"The coefficient of '{one.name}', of dimension {d} and {one.type} type, must be a number"
            f"{diagonal} or a matrix of shape {(d, d)}; got shape {real.shape}."
        )
    fitting = _fitting(one, real)
    if np.abs(fitting - real).max() > _FITS * np.abs(real).max():
        raise InputError(
            f"No real function has this matrix at '{one.name}', which is of {one.type} type: it must commute "
            "with `representation.commuting`. `fourier(group, x)` gives matrices that do."
        )
    return fitting


def _scalar(one: Representation, value: complex) -> np.ndarray:
    if value.imag == 0:
        return value.real * np.eye(one.dimension)
    if (one.dimension, one.type) != (2, "complex"):
        raise InputError(
            f"The coefficient of '{one.name}' must be real: a phase belongs to rotations of the plane, and "
            f"this one has dimension {one.dimension} and {one.type} type; got {value}."
        )
    return np.array([[value.real, -value.imag], [value.imag, value.real]])


def _fitting(one: Representation, matrix: np.ndarray) -> np.ndarray:
    """The part of a matrix that functions on the group can have as their coefficient."""
    if one.type == "real":
        return matrix
    function = np.einsum("gij,ji->g", one.matrices, matrix)
    back = np.einsum("g,gji->ij", function, one.matrices)
    return one.multiplicity / len(one.matrices) * back

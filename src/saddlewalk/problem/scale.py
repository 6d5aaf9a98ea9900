"""The scale of a start: how small float64 lets it be."""

import math

from saddlewalk.errors import InputError, check_number


def check_scale(scale: float, degree: int = 2) -> float:
    """A scale whose products of weights float64 can hold.

    Parameters
    ----------
    scale : initialization scale alpha.
    degree : order kappa of a unit in its parameters.
    """
    check_number("scale", scale)
    if not math.isfinite(scale) or scale <= 0:
        raise InputError(f"The scale (alpha) must be a positive number; got {scale}.")
    smallest = 1e-280 ** (1 / max(2, degree - 1))
    if scale < smallest:
        raise InputError(
            f"The scale {scale:g} is below {smallest:.0e}, where products of weights underflow in "
            "float64. (For the limit of vanishing scale there is a method 'limit' in some settings.)"
        )
    return float(scale)

r"""The tangent kernel of any network, :math:`\Theta = J J^\top`, from the Jacobian or from products with it.

While the Jacobian of the probe fits into a gigabyte it is held. Beyond, a row of the kernel is the answer
of all samples to a step along the gradient of one output: slower, but with no more memory than a few
gradients.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from saddlewalk.diagnose.patience import go_on
from saddlewalk.landscape import AbstractLandscape

_ROOM = 2**30
"""Bytes that the Jacobian may take."""


def kernel_of(
    landscape: AbstractLandscape, w: Any, traced: bool = False, room: float = _ROOM
) -> Float[np.ndarray, "rows rows"]:
    """The kernel at some weights. Rows are samples times outputs, sample by sample.

    Parameters
    ----------
    landscape : the network.
    w : a vector of weights.
    traced : add up the outputs: a kernel `(samples, samples)`.
    room : bytes that the Jacobian may take.
    """
    shape = landscape.outputs(w).shape
    rows = shape[0] * shape[1]
    if 8.0 * rows * landscape.size <= room:
        jacobian = landscape.jacobian(w)
        kernel = jacobian @ jacobian.T
    else:
        along, back = landscape.jacobian_at(w)
        kernel, one = np.empty((rows, rows)), np.zeros(rows)
        for k in range(rows):
            go_on("taking the tangent kernel row by row")
            one[k] = 1.0
            kernel[k] = along(back(one.reshape(shape))).ravel()
            one[k] = 0.0
        kernel = 0.5 * (kernel + kernel.T)
    if not traced:
        return kernel
    return np.einsum("icjc->ij", kernel.reshape(*shape, *shape))

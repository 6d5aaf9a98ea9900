r"""AGOP and FACT of a kernel machine :math:`f(x) = K(x, X)\,\alpha`, as matrix products (appendix F).

With :math:`S` the kernel's derivatives, :math:`A = \alpha\alpha^\top` and :math:`B = S \circ A`:

==============  ================================================  ===========================================
                FACT (Lemma F.1)                                  AGOP
==============  ================================================  ===========================================
inner product   :math:`M X^\top B X`                              :math:`\frac1n \sum_c G_c^\top G_c`
radial          :math:`-M X^\top (\mathrm{diag}(B 1) - B) X`      with :math:`G_c` the gradients of output c
==============  ================================================  ===========================================

and :math:`G_c = (S\,\mathrm{diag}(\alpha_c) - \mathrm{diag}(S\alpha_c))\, X M`, without the second term for
inner products. Time is O(n^2 d), and each is a sum over rows of S: no tensor with a third index, and no need
to hold S whole.
"""

from types import ModuleType
from typing import Any

from saddlewalk.features.kernels import AbstractKernel

Matrix = Any


def fact_rows(
    xp: ModuleType,
    kernel: AbstractKernel,
    x: Matrix,
    alpha: Matrix,
    slope: Matrix,
    metric: Matrix,
    rows: slice = slice(None),
) -> Matrix:
    """The part that some rows of S `(rows, n)` give to FACT before M is applied; its diagonal if M is one.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    kernel : the kernel.
    x : the samples `(n, d)`.
    alpha : coefficients `(n, c)`.
    slope : the rows of S `(rows, n)`.
    metric : M, or its diagonal.
    rows : which samples these are.
    """
    weights = slope * (alpha[rows] @ alpha.T)
    middle = weights @ x
    if kernel.radial:
        middle = middle - xp.sum(weights, axis=1)[:, None] * x[rows]
    return xp.sum(x[rows] * middle, axis=0) if metric.ndim == 1 else middle.T @ x[rows]


def agop_rows(
    xp: ModuleType,
    kernel: AbstractKernel,
    x: Matrix,
    alpha: Matrix,
    slope: Matrix,
    metric: Matrix,
    rows: slice = slice(None),
    weights: Matrix | None = None,
) -> Matrix:
    """The sum of gradient outer products at some samples, over all outputs: n times their part of AGOP.

    Parameters
    ----------
    xp : NumPy, `torch` or `jax.numpy`.
    kernel : the kernel.
    x : the samples `(n, d)`.
    alpha : coefficients `(n, c)`.
    slope : the rows of S `(rows, n)`.
    metric : M, or its diagonal.
    rows : which samples these are.
    weights : of all samples `(n,)`, or `None`.
    """
    total: Any = 0.0
    root = 1.0 if weights is None else weights[rows][:, None] ** 0.5
    for k in range(alpha.shape[1]):
        gradient = root * gradients(kernel, x, alpha[:, k], slope, metric, rows)
        total = total + (xp.sum(gradient**2, axis=0) if metric.ndim == 1 else gradient.T @ gradient)
    return total


def gradients(
    kernel: AbstractKernel,
    x: Matrix,
    alpha: Matrix,
    slope: Matrix,
    metric: Matrix,
    rows: slice = slice(None),
) -> Matrix:
    """Gradient of one output with respect to the input, at some samples, `(rows, d)`.

    Parameters
    ----------
    kernel : the kernel.
    x : the samples `(n, d)`.
    alpha : coefficients of this output `(n,)`.
    slope : the rows of S `(rows, n)`.
    metric : M, or its diagonal.
    rows : which samples these are.
    """
    pulled = slope @ (alpha[:, None] * x)
    if kernel.radial:
        pulled = pulled - (slope @ alpha)[:, None] * x[rows]
    return pulled * metric if metric.ndim == 1 else pulled @ metric

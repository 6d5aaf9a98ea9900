"""Regression tasks: random sparse designs, linear maps, teachers, and those of the AGF paper."""

import numpy as np

from saddlewalk.errors import InputError
from saddlewalk.tasks.moments import Moments, from_moments
from saddlewalk.tasks.samples import Samples, from_arrays


def sparse_regression(
    samples: int = 60,
    dim: int = 10,
    sparsity: int | None = None,
    noise: float = 0.0,
    correlation: float = 0.0,
    seed: int = 0,
) -> Samples:
    """Gaussian design with `sparsity` nonzero coefficients (all of them by default).

    Their sizes are 4, 4/2, 4/3, ..., with random signs and places: on an orthogonal design the
    jumps would be evenly spaced. Neighboring columns have the given correlation.

    Parameters
    ----------
    samples : number of samples.
    dim : number of inputs.
    sparsity : coefficients that are not zero.
    noise : standard deviation of what is added to y.
    correlation : of neighboring columns of X.
    seed : seed of the draw.
    """
    sparsity = dim if sparsity is None else sparsity
    for name, value in {"samples": samples, "dim": dim, "sparsity": sparsity}.items():
        if value < 1:
            raise InputError(f"`{name}` must be at least 1; got {value}.")
    if seed < 0:
        raise InputError(f"The seed of the data must not be negative; got {seed}.")
    if sparsity > dim:
        raise InputError(f"`sparsity` {sparsity} is larger than `dim` {dim}.")
    if not noise >= 0:
        raise InputError(f"`noise` must be non-negative; got {noise}.")
    if not -1 < correlation < 1:
        raise InputError(f"`correlation` must lie strictly between -1 and 1; got {correlation}.")
    x, beta, error = draw_regression(samples, dim, sparsity, seed)
    for j in range(1, dim):
        x[:, j] = correlation * x[:, j - 1] + np.sqrt(1 - correlation**2) * x[:, j]
    y = x @ beta + noise * error
    return from_arrays(x, y, name="sparse regression")


def draw_regression(
    samples: int, dim: int, sparsity: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `sparse_regression` is made of: independent inputs, coefficients, and noise of size 1.

    Parameters
    ----------
    samples : number of samples.
    dim : number of inputs.
    sparsity : coefficients that are not zero.
    seed : seed of the draw.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, dim))
    beta = np.zeros(dim)
    support = rng.choice(dim, size=sparsity, replace=False)
    beta[support] = rng.choice([-1.0, 1.0], size=sparsity) * 4.0 / np.arange(1, sparsity + 1)
    return x, beta, rng.normal(size=samples)


def linear_map(
    dim: int = 10, outputs: int = 10, decay: float = 1.0, commuting: bool = False, seed: int = 0
) -> Moments:
    r"""The population problem :math:`y = B x`, B Gaussian, for inputs with eigenvalues k^(-decay).

    The axes of the inputs are random, or the right singular vectors of B, in the same order: then
    :math:`\Sigma_{xx}` commutes with :math:`\Sigma_{yx}^\top \Sigma_{yx}`.

    Parameters
    ----------
    dim : number of inputs.
    outputs : number of outputs.
    decay : how fast the eigenvalues of the inputs fall.
    commuting : let the inputs have the right singular vectors of B as axes.
    seed : seed of the draw.
    """
    for name, value in {"dim": dim, "outputs": outputs}.items():
        if value < 1:
            raise InputError(f"`{name}` must be at least 1; got {value}.")
    b, axes = draw_map(dim, outputs, commuting, seed)
    covariance = axes * np.arange(1, dim + 1) ** -float(decay) @ axes.T
    return from_moments(covariance, b @ covariance, name="linear map")


def draw_map(dim: int, outputs: int, commuting: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What `linear_map` is made of: the map B, and the axes of the inputs, one a column.

    Parameters
    ----------
    dim : number of inputs.
    outputs : number of outputs.
    commuting : let the inputs have the right singular vectors of B as axes.
    seed : seed of the draw.
    """
    rng = np.random.default_rng(seed)
    b = rng.normal(size=(outputs, dim))
    axes = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    return b, np.linalg.svd(b)[2].T if commuting else axes


def hidden_directions(
    samples: int = 200,
    dim: int = 8,
    outputs: int = 3,
    features: int = 3,
    noise: float = 0.0,
    seed: int = 0,
) -> Samples:
    """A target for nonlinear units: rectified answers along a few orthogonal directions of the input,
    each half as strong as the one before, sent to random directions of the output.

    Parameters
    ----------
    samples : number of samples.
    dim : number of inputs.
    outputs : number of outputs.
    features : number of directions.
    noise : standard deviation of what is added to y.
    seed : seed of the draw.
    """
    checked = {"samples": samples, "dim": dim, "outputs": outputs, "features": features}
    for name, value in checked.items():
        if value < 1:
            raise InputError(f"`{name}` must be at least 1; got {value}.")
    if features > dim:
        raise InputError(f"`features` {features} is larger than `dim` {dim}.")
    if not noise >= 0:
        raise InputError(f"`noise` must be non-negative; got {noise}.")
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, dim))
    directions = np.linalg.qr(rng.normal(size=(dim, dim)))[0][:, :features]
    answers = rng.normal(size=(features, outputs))
    answers /= np.linalg.norm(answers, axis=1, keepdims=True)
    strength = 2.0 ** -np.arange(features)
    y = np.maximum(x @ directions, 0.0) * strength @ answers
    y = y + noise * rng.normal(size=y.shape)
    return from_arrays(x, y, name="hidden directions")


def agf_figure_3() -> Samples:
    """The 5-dimensional design of Fig 3: inputs N(0, diag(1/k)), 20 samples, no noise.

    The draw uses NumPy's legacy generator at seed 10, whose stream NumPy has promised to keep.
    """
    rng = np.random.RandomState(10)
    x = rng.multivariate_normal(np.zeros(5), np.diag(1.0 / np.arange(1, 6)), size=20)
    beta = 10 * rng.randn(5)
    return from_arrays(x, x @ beta, name="AGF Fig 3")


def agf_figure_8() -> Samples:
    """The 2-dimensional design of Fig 8, in which a coefficient returns to dormancy.

    The Cholesky factor of R(150°) diag(1, 25) R(150°)ᵀ is the design; beta = (-0.2, 2).
    """
    angle = np.deg2rad(150)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x = np.linalg.cholesky(rotation @ np.diag([1.0, 25.0]) @ rotation.T)
    return from_arrays(x, x @ np.array([-0.2, 2.0]), name="AGF Fig 8")

"""Shared problems and runs: JAX compiles once a shape, so tests share shapes."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest
from jaxtyping import install_import_hook

# shapes and types of every annotated function are checked while the tests run
install_import_hook("saddlewalk", "beartype.beartype")

import saddlewalk as sw  # noqa: E402


@pytest.fixture(scope="session")
def fig3():
    return sw.tasks.agf_figure_3()


@pytest.fixture(scope="session")
def fig3_paths(fig3):
    """Gradient flow on the design of Fig 3 at three scales."""
    return {scale: sw.train(fig3, sw.units.Diagonal(), scale) for scale in (1e-2, 1e-6, 1e-12)}


@pytest.fixture(scope="session")
def small_regression():
    """Ten samples, three inputs, two outputs."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(10, 3))
    return sw.tasks.from_arrays(x, x @ rng.normal(size=(3, 2)) + 0.1 * rng.normal(size=(10, 2)))


@pytest.fixture(scope="session")
def teacher():
    """A target that quadratic units can express: two directions of different strength."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    y = 2.0 * (x @ axes[:, 0]) ** 2 - (x @ axes[:, 1]) ** 2
    return sw.tasks.from_arrays(x, y)

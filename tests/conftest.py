"""Shared problems and runs: JAX compiles once a shape, so tests share shapes."""

import json
import os
import signal
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
FLAGS = []
if tuple(map(int, version("jaxlib").split(".")[:2])) < (
    0,
    11,
):  # newer ones end at a flag they do not know
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")
if os.environ.get("TEST_PROGRAMS") != "optimized":
    # small networks run for milliseconds and are compiled for seconds: quick programs that run two or three
    # times slower, compiled in a quarter of the time
    FLAGS += ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

from costs import pytest_runtest_makereport, pytest_terminal_summary  # noqa: E402, F401  hooks

# shapes and types of every annotated function are checked while the tests run
install_import_hook("saddlewalk", "typechecking.checked")

import saddlewalk as sw  # noqa: E402
from saddlewalk.figures import ENTRIES  # noqa: E402
from saddlewalk.tasks import public  # noqa: E402

MOST_MAPS = 40_000
"""Each compiled program holds memory maps, of which the kernel grants a process 65,530."""


@pytest.fixture(scope="module", autouse=True)
def forget_compiled():
    """Programs are shared by all files, as long as there is room for them."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or len(maps.read_text().splitlines()) > MOST_MAPS:
        jax.clear_caches()


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


@pytest.fixture
def ctrl_c():
    """Send Ctrl-C to this process; where tests run in the background it would be ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def failing_claims(tmp_path):
    """Writes the pictures and claims of a figure and returns the claims that fail."""

    def failing(result):
        result.write(tmp_path)
        assert (tmp_path / "figure.png").stat().st_size > 10_000
        assert (tmp_path / "figure.svg").stat().st_size > 10_000
        assert json.loads((tmp_path / "result.json").read_text())["figure"] == result.name
        assert result.name in ENTRIES
        return [claim.statement for claim in result.claims if not claim.holds]

    return failing


@pytest.fixture
def cifar():
    if public.find_local("cifar10") is None:
        pytest.skip("cifar10 is not on this machine (SADDLEWALK_DATA, cache)")


@pytest.fixture
def run():
    """The command line, called in this process."""
    from click.testing import CliRunner

    from saddlewalk.cli import main

    def call(*arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments])

    return call

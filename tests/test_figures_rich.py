"""The figures of Get Rich Quick, in small where they are long."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.integrate import solve_ivp

import saddlewalk as sw
from saddlewalk.figures import two_sizes
from saddlewalk.figures.networks import student
from saddlewalk.figures.networks.ensembles import train_ensemble
from saddlewalk.figures.rich import grokking as rich_grokking
from saddlewalk.figures.rich import hierarchy as rich_hierarchy
from saddlewalk.figures.rich import neuron as rich_neuron
from saddlewalk.figures.rich import portrait as rich_portrait
from saddlewalk.figures.rich import students
from saddlewalk.figures.rich import teacher as rich_teacher

NEURON = [2, 3, 4, "basins", "dynamics"]


def neuron_flow(slope, start, times):
    """(w, a) of one linear neuron along gradient flow, by scipy; the slope is that of the map."""

    def velocity(_, theta):
        down = -slope(theta[-1] * theta[:-1])
        return np.append(theta[-1] * down, theta[:-1] @ down)

    ends = times[[0, -1]]
    found = solve_ivp(velocity, ends, start, "DOP853", t_eval=times, rtol=1e-11, atol=1e-13)
    return found.y.T


@pytest.fixture
def scipy_neuron(monkeypatch):
    """Gradient flow by scipy in the place of the package's own, which takes long to compile."""

    def simulated(neuron, end):
        start = np.append(neuron.w, neuron.a)
        return neuron_flow(lambda beta: beta - neuron.target, start, np.linspace(0, end, 21))

    def on_the_line(delta):
        X, y, beta = rich_neuron.LINE
        neuron = rich_neuron.Neuron.with_delta(delta, beta, np.ones(2))
        start = np.append(neuron.w, neuron.a)
        path = neuron_flow(lambda beta: X.T @ (X @ beta - y), start, np.linspace(0, 200, 2001))
        return path[:, :2] * path[:, 2:]

    monkeypatch.setattr(rich_neuron, "_simulated", simulated)
    monkeypatch.setattr(rich_neuron, "_flow_on_the_line", on_the_line)


@pytest.mark.parametrize("name", NEURON)
def test_single_neuron_against_scipy(name, scipy_neuron, failing_claims):
    assert failing_claims(getattr(rich_neuron, f"figure_{name}")()) == []


def test_claims_of_a_single_neuron_can_fail(scipy_neuron, monkeypatch):
    """A flow that is a thousandth too slow is not the exact solution."""
    right = rich_neuron._simulated
    monkeypatch.setattr(rich_neuron, "_simulated", lambda one, end: right(one, 0.999 * end))
    assert [claim.holds for claim in rich_neuron.figure_2().claims] == [True, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("name", NEURON)
def test_single_neuron(name, failing_claims):
    assert failing_claims(getattr(rich_neuron, f"figure_{name}")()) == []


@pytest.mark.slow
def test_figure_1a(failing_claims):
    assert failing_claims(rich_teacher.figure_1a()) == []


@pytest.mark.slow
def test_partition(failing_claims):
    assert failing_claims(rich_teacher.figure_partition()) == []


def made_up_portrait(grid, rich):
    """A kernel that turns, and activations that switch, where the paper has them, or everywhere alike."""
    shape = (len(grid.steps), len(grid.seeds), len(grid.taus), len(grid.deltas))
    tau, delta = np.meshgrid(np.log(grid.taus), grid.deltas, indexing="ij")
    if not rich:
        return {name: np.ones(shape) for name in students.MEASURES}
    late = np.arange(1.0, len(grid.steps) + 1)[:, None, None, None]
    alike = np.ones(shape)
    small = np.exp(-2 * (tau - tau.min()))
    kernel = small * np.exp(-(((delta + 0.125) / 0.3) ** 2)) * alike
    early = small * np.clip(delta, 0.01, None) ** 2 * alike
    kernel = np.where(late > 1, 0.537 * kernel, 0.2385 * early) + 0.001 * late
    return {
        "kernel": kernel, "test": 1.0 - 0.9 * kernel / kernel.max(), "train": 0.1 * alike,
        "hamming": 21.0 * small * np.exp(0.5 * (delta - 1)) * alike,
        "parameters": small * (1.0 - 0.5 * np.abs(delta)) * alike,
    }  # fmt: skip


def test_claims_of_the_portrait_can_fail(failing_claims):
    grid = rich_portrait.REDUCED
    alike, rich = (made_up_portrait(grid, rich) for rich in (False, True))
    assert failing_claims(rich_portrait.supporting_figure(rich, grid)) == []
    assert len(failing_claims(rich_portrait.supporting_figure(alike, grid))) == 3
    held = {c.statement[:20]: c.holds for c in rich_portrait.portrait_figure(rich, grid).claims}
    none = rich_portrait.portrait_figure(alike, grid).claims
    assert sum(held.values()) > sum(claim.holds for claim in none)


@pytest.mark.slow
def test_phase_portrait(failing_claims):
    """Both figures of the reduced grid; the numbers of the paper's own notebooks within a quarter."""
    assert failing_claims(rich_portrait.figure_1b()) == []
    assert failing_claims(rich_portrait.figure_supporting()) == []


@pytest.mark.slow
@pytest.mark.parametrize("make", [rich_hierarchy.figure_5c, rich_grokking.figure_5d])
def test_deep_networks_in_the_direction_of_the_paper(make, failing_claims):
    """Sample complexity falls, and grokking comes sooner, the faster the first layer learns."""
    assert failing_claims(make()) == []


def test_student_starts_as_the_paper_says():
    given = student.drawn(3, 5, 20)
    theta = given.start(0.3, 0.4)
    w, a = theta[:, :-1], theta[:, -1]
    np.testing.assert_allclose(np.abs(a) * np.linalg.norm(w, axis=1), 0.09, rtol=1e-12)
    np.testing.assert_allclose(a**2 - np.sum(w**2, axis=1), 0.4, rtol=1e-12)
    with sw.float64():
        assert np.abs(student.respond(jnp.asarray(theta), jnp.asarray(given.x))).max() < 1e-15


@pytest.mark.slow
def test_portrait_measures_what_it_says():
    """A tiny grid, its networks trained and measured once more by other means."""
    grid = students.Grid((0.3, 1.0), (-0.5, 0.5), (7, 8), (5, 40), dim=4, samples=15, tested=30)
    found = students.portrait(grid)
    assert found["test"].shape == (2, 2, 2, 2)
    given = student.drawn(8, 4, 15)
    task = sw.tasks.from_arrays(given.x, given.y)
    start = given.start(0.3, 0.5)
    units = sw.units.Dense(50, "relu")
    # the paper's loss is twice ours, so is its learning rate
    path = sw.train(
        task, units, 1.0, start=start, solver="descent", max_steps=40, convergence=0.0, progress=False,
        learning_rate=2 * students.RATE / 0.3**2,
    )  # fmt: skip
    problem, last = sw.Problem(task, units), path.parameters[-1]
    watch = sw.diagnose.DistancesFromStart(problem, start)(last)
    here = {name: values[1, 1, 0, 1] for name, values in found.items()}
    assert here["train"] == pytest.approx(2 * path.loss[-1], rel=1e-9)
    assert here["kernel"] == pytest.approx(watch["kernel_distance"], rel=1e-8)
    assert here["hamming"] == pytest.approx(50 * watch["hamming_distance"], rel=1e-6)
    assert here["parameters"] == pytest.approx(watch["parameter_distance"], rel=1e-9)
    x = student.on_sphere(np.random.default_rng(201), 30, 4)
    answers = np.maximum(x @ last[:, :-1].T, 0) @ last[:, -1]
    assert here["test"] == pytest.approx(np.mean((answers - given.answer(x)) ** 2), rel=1e-9)


def test_two_sizes():
    found = {name for name in two_sizes() if name.startswith("rich")}
    assert found == {"rich-1b", "rich-5a", "rich-5b", "rich-5c", "rich-5d", "rich-supporting"}
    assert "fact-table-2" in two_sizes()
    paper = students.Grid()
    assert len(paper.cells) * len(paper.seeds) == 4624
    assert dataclasses.replace(paper, steps=(1,)).taus[-1] == pytest.approx(1.995, abs=1e-3)


# --- many networks at once ------------------------------------------------------------------------------


def squared(weights, data):
    return jnp.mean((data[0] @ weights - data[1]) ** 2)


def test_an_ensemble_is_one_by_one():
    """All seeds and cells at once end where each ends alone, with momentum and rates of their own."""
    rng = np.random.default_rng(0)
    x, start = rng.normal(size=(2, 12, 3)), rng.normal(size=(2, 3, 3))
    y = rng.normal(size=(2, 12))
    rates, optimizer = [0.5, 1.0, 2.0], optax.sgd(0.01, 0.9)
    with sw.float64():
        data = jnp.asarray(x), jnp.asarray(y)
        steps = dict(
            train_ensemble(
                squared, jnp.asarray(start), data, optimizer, checkpoints=[0, 3, 10], rates=rates
            )
        )
        np.testing.assert_array_equal(steps[0], start)
        for s in range(2):
            for c in range(3):
                weights, memory = jnp.asarray(start[s, c]), optimizer.init(jnp.asarray(start[s, c]))
                for _ in range(10):
                    gradient = jax.grad(squared)(weights, (data[0][s], data[1][s]))
                    updates, memory = optimizer.update(gradient, memory)
                    weights = weights + rates[c] * updates
                np.testing.assert_allclose(steps[10][s, c], weights, rtol=1e-10)


def test_epochs_are_shuffled_and_complete():
    """Batches of a seed hold every sample once an epoch; cells of a seed see the same ones."""
    n, seen = 12, []

    def remember(weights, data):
        return jnp.sum(weights) * jnp.sum(data)

    data = jnp.asarray(np.stack([2.0 ** np.arange(n), 2.0 ** np.arange(n)]))
    steps = dict(
        train_ensemble(
            remember, jnp.zeros((2, 2, 1)), data, optax.sgd(1.0), checkpoints=range(7), batch_size=4
        )
    )
    for k in range(1, 7):
        batch = -(np.asarray(steps[k]) - np.asarray(steps[k - 1]))[..., 0]
        assert batch[0, 0] == batch[0, 1]
        seen.append(batch[:, 0])
    first, second = np.sum(seen[:3], axis=0), np.sum(seen[3:], axis=0)
    np.testing.assert_array_equal(first, 2.0**n - 1)
    np.testing.assert_array_equal(second, 2.0**n - 1)
    assert (np.array(seen)[:, 0] != np.array(seen)[:, 1]).any()


def test_an_ensemble_refuses():
    data, networks = jnp.ones((1, 4, 2)), jnp.ones((1, 1, 2))
    with pytest.raises(sw.InputError, match="cannot be drawn"):
        next(train_ensemble(squared, networks, data, optax.sgd(1.0), checkpoints=[1], batch_size=9))
    with pytest.raises(sw.InputError, match="Checkpoints"):
        next(train_ensemble(squared, networks, data, optax.sgd(1.0), checkpoints=[]))

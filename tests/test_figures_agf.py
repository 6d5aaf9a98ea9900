"""The figures of Alternating Gradient Flows with networks of several outputs, heads or words."""

import math

import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.curves.curve import LossCurve
from saddlewalk.figures.agf import attention as agf_attention
from saddlewalk.figures.agf import fourier
from saddlewalk.figures.agf import linear as agf_linear
from saddlewalk.figures.agf import modular as agf_modular
from saddlewalk.figures.agf import relu as agf_relu
from saddlewalk.theory import modular

# --- Fig 4 ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_figure_4(failing_claims):
    result = agf_linear.figure_4()
    assert failing_claims(result) == [], str(result)


def test_the_problems_of_figure_4_commute_and_do_not():
    for name, task in agf_linear._tasks().items():
        x, y = np.asarray(task.x), np.asarray(task.y)
        xx, yx = x.T @ x, y.T @ x
        np.testing.assert_allclose(np.linalg.eigvalsh(xx)[::-1], 1 / np.arange(1, 11.0) ** 2)
        gram = yx.T @ yx
        commutator = np.linalg.norm(xx @ gram - gram @ xx) / np.linalg.norm(xx @ gram)
        assert (commutator < 1e-10) == (name == "commuting")


def test_singular_values_of_the_layers():
    rng = np.random.default_rng(0)
    w, a = rng.normal(size=(2, 10, 10))
    with sw.float64():
        problem = sw.Problem(agf_linear._tasks()["commuting"], agf_linear._UNITS)
        theta = np.hstack([w, a])
        function = np.asarray(problem.function(theta))
    matrix = np.linalg.solve(np.asarray(problem.task.x), function).T
    expected = np.linalg.svd(matrix, compute_uv=False)
    np.testing.assert_allclose(agf_linear._singular_values(theta), expected, rtol=1e-8)


# --- Fig 5 ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_figure_5(failing_claims):
    result = agf_attention.figure_5()
    assert failing_claims(result) == [], str(result)
    assert max(result.numbers["time_error"]) < 1e-4
    # AGF in real time beats Algorithm 1
    assert max(result.numbers["time_error"]) < max(result.numbers["time_error_algorithm_1"])


def test_singular_values_belong_to_components():
    task, start = agf_attention._setting()
    np.testing.assert_allclose(np.asarray(task.eigenvalues), [0.96, 0.48, 0.32, 0.24])
    assert (start[:, 0] > 0).all()
    axes = np.asarray(task.axes)
    theta = np.zeros((5, 9))
    for head, (component, size) in enumerate([(2, 0.3), (0, 0.1), (3, 0.2), (0, 0.4)]):
        theta[head] = [size, *axes[:, component], *axes[:, component]]
    np.testing.assert_allclose(
        agf_attention._singular_values(task, theta), [0.5, 0.0, 0.3, 0.2], atol=1e-12
    )


# --- Fig 6 ----------------------------------------------------------------------------------------


def made_up_run(problem, groups, order):
    """Each frequency jumps in its turn to the neurons of Theorem F.7, at times 10, 20, ..."""
    levels = agf_modular._levels(problem.task)
    time = np.linspace(0, 10 * (len(groups) + 1), 40 * (len(groups) + 1) + 1)
    theta = np.zeros((len(time), problem.width, problem.size))
    rows = np.cumsum([0, *(len(group) for group in groups)])
    for turn, k in enumerate(order):
        theta[time >= 10 * (turn + 1), rows[k] : rows[k + 1]] = groups[k]
    with sw.float64():
        loss = np.array([float(problem.loss(one)) for one in theta])
        return fourier.FourierRun.of(problem, time, theta, LossCurve.of(time, loss), levels)


def test_claims_of_figure_6_can_fail(failing_claims):
    """Neurons as the theorem has them, and gradient flow in the order of AGF or in the other one."""
    p = 11
    problem = sw.Problem(sw.tasks.modular_addition(p, {2: 6.0, 3: 3.0}), sw.units.QuadraticPair(13))
    groups = [modular.minimizer(p, 2, 6 + 0j, 6), modular.minimizer(p, 3, 3 + 0j, 7)]
    right, wrong = (made_up_run(problem, groups, order) for order in ((0, 1), (1, 0)))
    heard = np.ones(13, dtype=bool)
    assert failing_claims(agf_modular.figure_of(problem, right, right, heard)) == []
    failed = agf_modular.figure_of(problem, right, wrong, heard).claims
    assert [claim.holds for claim in failed] == [False, True, False, False, True, True, True]


@pytest.mark.slow
def test_figure_6_in_small(failing_claims):
    """Two frequencies on a circle of 7: what AGF predicts holds. Some neurons serve both."""
    result = agf_modular.figure_6(p=7, spectrum={1: 6.0, 2: 3.0}, width=12)
    failing = failing_claims(result)
    assert all(words.startswith(("neurons group", "phases spread")) for words in failing), failing
    assert max(result.numbers["time_error"]) < 2e-3
    # Eq 9: the loss is |x^|^2 / p of all that is missing
    np.testing.assert_allclose(result.numbers["levels_predicted"], [45 / 7, 9 / 7, 0], atol=1e-3)


@pytest.mark.slow
def test_figure_6(failing_claims):
    result = agf_modular.figure_6()
    assert failing_claims(result) == [], str(result)


def test_neurons_of_the_theorem():
    """Theorem F.7's neurons on two frequencies: pure, aligned, evenly spread."""
    p, task = 11, sw.tasks.modular_addition(11, {2: 3.0 + 4.0j, 3: 2.0})
    groups = [modular.minimizer(p, 2, 3 + 4j, 6), modular.minimizer(p, 3, 2 + 0j, 7)]
    theta = np.concatenate([*groups, 1e-3 * np.ones((1, 3 * p))])
    heard = np.arange(14) < 13
    neurons = fourier.Neurons.of(task, theta + 1e-12 * np.arange(3.0 * p), heard)
    assert neurons.frequency[:13].tolist() == [2] * 6 + [3] * 7
    np.testing.assert_allclose(neurons.purity[:13], 1, atol=1e-9)
    np.testing.assert_allclose(neurons.misalignment[:13], 0, atol=1e-6)
    assert max(neurons.mean_direction(k) for k in (2, 3)) < 1e-6
    assert sorted(neurons.sorted[:6]) == list(range(6))
    assert neurons.sorted[-1] == 13


def test_neurons_all_alike_do_not_spread():
    p, task = 11, sw.tasks.modular_addition(11, {2: 3.0})
    one = modular.maximizer(p, 2, 3 + 0j, 0.3, 0.4)
    theta = np.concatenate([one, 2 * one, one + 1e-3 * np.arange(3.0 * p)])
    neurons = fourier.Neurons.of(task, theta, np.array([True, True, False]))
    assert neurons.mean_direction(2) == pytest.approx(1.0)
    assert math.isnan(neurons.mean_direction(3))
    assert neurons.phase[0] == pytest.approx(0.7)
    assert len(neurons.to_json()) == 2


def test_neurons_at_waking():
    """The first row that is not zero, neuron by neuron."""
    theta = np.zeros((4, 2, 3))
    theta[2:, 0], theta[1:, 1] = 5.0, 7.0
    theta[3] = 9.0
    np.testing.assert_array_equal(fourier.at_waking(theta), [[5.0] * 3, [7.0] * 3])


# --- Fig 7 ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_figure_7_in_small():
    """Two ReLU units on two hidden directions: real time follows the curve, Algorithm 1 roughly."""
    task = sw.tasks.hidden_directions(samples=60, dim=4, outputs=2, features=2)
    run = agf_relu.run(task, width=2, scale=1e-8, end=60.0)
    assert run.gap("numeric") < 5e-3
    assert run.gap("numeric") < run.gap("algorithm-1") < 0.3


@pytest.mark.slow
def test_figure_7(failing_claims, monkeypatch, cifar):
    """The first two widths, until after their jumps."""
    monkeypatch.setattr(agf_relu, "WIDTHS", (1, 2))
    monkeypatch.setattr(agf_relu, "END", 2500.0)
    assert failing_claims(agf_relu.figure_7()) == []

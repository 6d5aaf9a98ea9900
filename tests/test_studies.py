"""The studies beyond the papers: their claims, and the parts they are made of."""

import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk.figures.studies import adaptive_rates, general_position, natural_data
from saddlewalk.show import draw


@pytest.mark.slow
def test_study_of_adaptive_rates(failing_claims):
    assert failing_claims(adaptive_rates.adaptive_rates()) == []


@pytest.mark.slow
def test_study_of_general_position(failing_claims, monkeypatch):
    monkeypatch.setattr(general_position, "DESIGNS", 1)
    monkeypatch.setattr(general_position, "CONDITIONS", (1.0, 1e2, 1e4))
    assert failing_claims(general_position.general_position()) == []


@pytest.mark.slow
def test_study_of_natural_data(failing_claims, cifar):
    assert failing_claims(natural_data.natural_data()) == []


def test_designs_have_the_condition_number_asked_for():
    for condition in (1.0, 1e4):
        x = np.asarray(general_position.gaussian_design(condition, seed=3).x)
        values = np.linalg.eigvalsh(x.T @ x / len(x))
        assert values[-1] / values[0] == pytest.approx(condition, rel=1e-6)
        assert values.sum() == pytest.approx(6.0)


def test_errors_are_drawn_for_every_scale_and_method():
    shape = (len(general_position.SCALES), len(general_position.CONDITIONS))
    errors = {name: np.full(shape, size) for name, size in (("closed", 0.1), ("numeric", 0.01))}
    axes = draw.new_figure(1, 1)[1]
    general_position._draw_errors(axes, errors)
    assert len(axes.lines) == 2 * len(general_position.SCALES)


@pytest.mark.slow
def test_what_units_take_off_adds_up(small_regression):
    """On a smooth problem the line integrals of the gradients are the fall of the loss."""
    units = sw.units.Dense(3, "tanh")
    problem = sw.Problem(small_regression, units)
    path = sw.train(
        small_regression,
        units,
        1e-2,
        observables={"slope": lambda theta: natural_data._slope(problem, theta)},
        max_time=100.0,
        most_saved=3000,
    )
    taken = natural_data._taken(path)
    assert taken[-1].sum() == pytest.approx(path.loss[0] - path.loss[-1], rel=5e-3)

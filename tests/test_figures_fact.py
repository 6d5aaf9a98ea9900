"""The figures of the Features At Convergence paper."""

import numpy as np
import pytest

from saddlewalk.figures import fact_machines, fact_networks


@pytest.mark.slow
def test_separation(failing_claims):
    """At the printed weight decay there is none."""
    failing = failing_claims(fact_networks.figure_4())
    assert all("as printed" in claim for claim in failing)


@pytest.mark.slow
def test_deep_linear_networks(failing_claims, monkeypatch):
    monkeypatch.setattr(fact_networks, "DEPTHS", (2, 4))
    monkeypatch.setattr(fact_networks, "_HIDDEN", 32)
    assert failing_claims(fact_networks.figure_11()) == []


def test_rare_products():
    task = fact_networks.rare_products()
    assert task.weights.sum() == pytest.approx(1.0)
    assert task.weights.max() == pytest.approx(1 - 1e-5, abs=1e-6)
    row = np.flatnonzero(np.all(np.asarray(task.x) == [2, 1, 1, 2], axis=1))[0]
    assert task.y[row, 0] == pytest.approx(0.02 * 2 + 2)


def test_block_circulant():
    """1 for a block that depends on a - b alone, about 1/p for noise."""
    rng, p = np.random.default_rng(0), 31
    index = np.arange(p)
    metric = rng.normal(size=(2 * p, 2 * p))
    assert fact_machines.block_circulant(metric) < 0.1
    metric[:p, p:] = rng.normal(size=p)[(index[:, None] - index) % p]
    assert fact_machines.block_circulant(metric) == pytest.approx(1.0)


@pytest.mark.slow
def test_parities(failing_claims, monkeypatch):
    monkeypatch.setattr(fact_machines, "SAMPLES", {2: 500})
    assert failing_claims(fact_machines.figure_5()) == []


def test_modular_addition_is_all_pairs():
    x, y, order = fact_machines.modular_pairs()
    assert x.shape == (61**2, 122)
    assert (x.sum(axis=1) == 2).all()
    a, b = x[:, :61].argmax(axis=1), x[:, 61:].argmax(axis=1)
    np.testing.assert_array_equal(y.argmax(axis=1), (a + b) % 61)
    assert sorted(order) == list(range(61**2))

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
    """1 for a matrix that addition modulo p would make, near 0 for noise."""
    rng, p = np.random.default_rng(0), 7
    first, second, mixed = rng.normal(size=(3, p))
    index = np.arange(p)
    shift, plus = (index[:, None] - index) % p, (index[:, None] + index) % p
    upper = np.hstack([first[shift], mixed[plus]])
    lower = np.hstack([mixed[plus].T, second[shift]])
    assert fact_machines.block_circulant(np.vstack([upper, lower])) == pytest.approx(1.0)
    assert fact_machines.block_circulant(rng.normal(size=(2 * p, 2 * p))) < 0.5

"""The measure behind the diagrams of staircases: what width does, from the growth of random layers alone."""

import numpy as np
import pytest

from saddlewalk.sweep.files import load_sweep
from saddlewalk.sweep.staircases import linear_staircase


@pytest.mark.parametrize(
    ("study", "cells"),
    [("width-scale", 75), ("rate-scale", 36), ("depth-scale", 45), ("loss-scale", 18)],
)
def test_studies_of_staircases(study, cells):
    assert len(load_sweep(study).plan) == cells


def test_width_counts_as_its_root():
    """H units of size a hold sqrt(H) a of what grows, so 4 times as many are a start twice as large."""
    wide, large = (
        [linear_staircase(scale, width=width, seed=seed) for seed in (0, 1)]
        for scale, width in ((1e-3, 64), (2e-3, 16))
    )
    same = linear_staircase(1e-3, width=16)
    halves = [np.mean([cell["time_half"] for cell in cells]) for cells in (wide, large)]
    assert halves[0] == pytest.approx(halves[1], rel=0.03)
    assert wide[0]["time_half"] < 0.95 * same["time_half"]
    for cell in (*wide, *large, same):
        assert cell["rests_predicted"] == pytest.approx(cell["rests_seen"], abs=0.05)


def test_depth_sharpens_the_staircase_of_a_large_start():
    """Plateaus last log(1/scale) with two layers and a power of it with more: one slides, one rests."""
    shallow, deep = (linear_staircase(0.1, depth=depth) for depth in (2, 4))
    for cell in (shallow, deep):
        assert cell["rests_predicted"] == pytest.approx(cell["rests_seen"], abs=0.05)
    assert shallow["rests_seen"] < 0.1
    assert deep["rests_seen"] > 0.9

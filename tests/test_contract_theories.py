"""The contract that every theory obeys; a new one is found by itself and tested on its own example."""

import importlib
import math
import pkgutil
import runpy
from pathlib import Path

import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk import theory
from saddlewalk.curves.stages import identity
from saddlewalk.theory.base import AbstractTheory, Outcome
from saddlewalk.theory.prediction import THEORIES, methods_of


def every_theory():
    """All concrete subclasses in the modules of `theory`."""
    for module in pkgutil.walk_packages(theory.__path__, "saddlewalk.theory."):
        importlib.import_module(module.name)
    found, waiting = [], [AbstractTheory]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("saddlewalk."):
                found.append(kind)
    return found


SKELETON = Path(__file__).parent.parent / "docs" / "howto" / "skeletons" / "theory.py"
OneMode = runpy.run_path(str(SKELETON))["OneMode"]
"""The theory that newcomers copy obeys the contract, too."""
WALKS = ("numeric", "algorithm-1", "instant-alignment")
CASES = [(kind, method) for kind in (*every_theory(), OneMode) for method in kind.methods]
NAMES = [f"{kind.__name__}-{method}" for kind, method in CASES]


@pytest.fixture(scope="module")
def numeric():
    """Real-time AGF on the example of a theory, walked once."""
    found = {}

    def walk(kind):
        if kind not in found:
            with sw.float64():
                own = (
                    kind
                    if "numeric" in kind.methods
                    else theory.prediction.AlternatingGradientFlows
                )
                found[kind] = own(kind.example()).numeric
        return found[kind]

    return walk


def test_every_theory_is_asked_by_predict():
    assert set(every_theory()) == set(THEORIES)


@pytest.mark.parametrize("kind", every_theory(), ids=lambda kind: kind.__name__)
def test_a_theory_says_what_it_covers_and_rests_on(kind):
    with sw.float64():
        start = kind.example()
        assert kind.covers(start.problem)
        assert kind.references
        one = kind(start)
        assert one.preferred in methods_of(start.problem)
        assert one.audit is one.audit  # measured once
        for assumption in one.audit:
            assert assumption.name
            assert assumption.needed
            assert assumption.value is None or math.isfinite(assumption.value)
        with pytest.raises(sw.InputError, match="has no method 'magic'"):
            one.outcome("magic")


@pytest.mark.parametrize(("kind", "method"), CASES, ids=NAMES)
def test_stages_follow_each_other_and_the_loss_falls(kind, method):
    with sw.float64():
        one = kind(kind.example())
        outcome = one.outcome(method)
        initial = float(one.start.problem.loss(0 * one.start.theta))
    assert isinstance(outcome, Outcome)
    assert one.outcome(method) is outcome  # computed once
    times = [stage.time for stage in outcome.stages]
    assert times
    assert times == sorted(times)
    assert times[0] > 0
    first = initial if outcome.initial_loss is None else outcome.initial_loss
    assert first == pytest.approx(initial, rel=1e-9)
    levels = [first, *(stage.loss for stage in outcome.stages)]
    assert np.all(np.diff(levels) < 0)
    assert all(stage.feature.get("kind") for stage in outcome.stages)
    assert outcome.stopped.sentence


CLOSED = [(kind, method) for kind, method in CASES if method not in WALKS]


@pytest.mark.parametrize(
    ("kind", "method"), CLOSED, ids=[f"{kind.__name__}-{method}" for kind, method in CLOSED]
)
def test_a_closed_form_is_what_the_alternation_finds(kind, method, numeric):
    """The same features in the same order down to the same loss, and no time later than a bound allows."""
    with sw.float64():
        closed = kind(kind.example()).outcome(method)
    walked = numeric(kind)
    assert _features(closed) == _features(walked)
    scale = walked.initial_loss
    assert closed.stages[-1].loss == pytest.approx(walked.stages[-1].loss, abs=1e-3 * scale)
    assert closed.stages[0].time <= 1.1 * walked.stages[0].time


def _features(outcome):
    """What is learned, each at its first stage, without its numbers."""
    seen = [identity(stage.feature) for stage in outcome.stages]
    return list(dict.fromkeys(seen))


def test_the_skeleton_is_right_about_time(numeric):
    with sw.float64():
        closed = OneMode(OneMode.example()).closed
    assert closed.stages[0].time == pytest.approx(numeric(OneMode).stages[0].time, rel=1e-3)

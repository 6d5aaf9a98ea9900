"""Which theory speaks about a network under an optimizer."""

from saddlewalk.errors import InputError, nearest
from saddlewalk.optimizers import OPTIMIZERS, AbstractOptimizer, Optax
from saddlewalk.theory.base import Outcome, Start
from saddlewalk.theory.losses import minimum_is_finite
from saddlewalk.theory.optimizers.base import AbstractStepsTheory
from saddlewalk.theory.optimizers.descent import Descending
from saddlewalk.theory.optimizers.joined import InJoinedSteps
from saddlewalk.theory.optimizers.muon import MuonOnLinear
from saddlewalk.theory.optimizers.normalized import AlongTheFlow
from saddlewalk.theory.optimizers.signs import SignOnDiagonal
from saddlewalk.theory.staircase import Assumption

STEPS: tuple[type[AbstractStepsTheory], ...] = (
    SignOnDiagonal,
    MuonOnLinear,
    AlongTheFlow,
    Descending,
    InJoinedSteps,
)
"""From the most special to the most general."""


def predict_in_steps(
    start: Start, rule: AbstractOptimizer, method: str
) -> tuple[str, Outcome, tuple[Assumption, ...], tuple[str, ...]]:
    """The method that was taken, what it predicts, its audit, and what it rests on.

    Parameters
    ----------
    start : the problem, and where its units start.
    rule : the optimizer.
    method : "auto", or one of a theory's own.
    """
    if isinstance(rule, Optax):
        raise InputError(
            "No theory knows what an optax transformation does to AGF; `train` takes it. Predict with one of "
            f"saddlewalk.optimizers: {', '.join(OPTIMIZERS)}."
        )
    if start.problem.adaptive:
        raise InputError(
            "`adaptive` rates are those of gradient flow; leave them or the `optimizer` out."
        )
    theories = [
        theory(start, rule)
        for theory in STEPS
        if theory.covers(start.problem, rule) and (start.given is None or theory.any_start)
    ]
    if not theories:
        raise InputError(
            f"AGF in the steps of '{rule.word}' is told for sums of units, and a deep network is none: leave "
            "out the `optimizer` (the first escape under gradient flow), or `train`."
        )
    known = dict.fromkeys(name for theory in theories for name in theory.methods)
    chosen = next(iter(known)) if method == "auto" else method
    if chosen not in known:
        raise InputError(
            f"Under '{rule.word}' these units have no method '{method}' on this task."
            f"{nearest(method, ('auto', *known))}"
        )
    theory = next(one for one in theories if chosen in one.methods)
    outcome = theory.outcome(chosen)
    audit = (*theory.audit, *minimum_is_finite(start.problem))
    return chosen, outcome, audit, theory.references

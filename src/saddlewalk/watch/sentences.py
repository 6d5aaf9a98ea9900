"""What a watch says, in words: a look in one sentence, and what went wrong."""

import math
from collections.abc import Sequence

from saddlewalk.show import text
from saddlewalk.watch.outlook import State
from saddlewalk.watch.record import Look

_TELLS = 0.1
"""Growth (a logarithm) until the drop that is worth telling."""
_LISTED = 3
"""Arrays that are named where numbers are not finite."""


def sentence(look: Look, since: float) -> str:
    """Where a training is, what grows, and when the loss drops next.

    Parameters
    ----------
    look : the last one.
    since : the step since which the loss stands still.
    """
    widths = ", ".join(
        f"{width} in {f'layer {name}' if name.isdigit() else name}"
        for name, width in look.widths.items()
    )
    held_out = not math.isnan(look.held_out)
    level = look.held_out if held_out else look.loss
    about = [f"{'held-out ' if held_out else ''}loss {text.number(level, 3)}"]
    about += [look.saddle] if look.saddle else []
    about += [f"units in use: {widths}"] if widths else []
    told = look.forecast
    if told is None:
        return f"step {look.step:,} ({'; '.join(about)}): {look.state.sentence}{_seen(look)}"
    standing = f" since step {since:,.0f}" if since < look.step and not held_out else ""
    # where what is new lies across units that are large already, their growth tells nothing
    tells = told.grows and told.growth * told.left > _TELLS
    grows = "" if not tells else f"; {told.grows} grows by {text.percent(told.growth)} a step"
    return (
        f"step {look.step:,}: plateau{standing} ({'; '.join(about)}){grows}; next drop at "
        f"step {told.step:,.0f} ({told.low:,.0f} to {told.high:,.0f}), to {text.number(told.after, 3)}"
    )


def _seen(look: Look) -> str:
    """How far was looked."""
    if math.isnan(look.seen):
        return ""
    if look.state is State.RATE_ENDS:
        return f", at step {look.step + look.seen:,.0f}"
    return f", looked ahead {look.seen:,.0f} steps"


def failure(step: int, loss: float, names: Sequence[str]) -> str:
    """When and where numbers stopped being finite.

    Parameters
    ----------
    step : the step.
    loss : the loss there.
    names : arrays that are not finite.
    """
    listed = ", ".join(f"'{name}'" for name in names[:_LISTED])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    where = f"not finite: {listed}{more}" if names else "the weights are still finite"
    return (
        f"step {step:,}: the loss is {loss}; {where}. Nothing is forecast from here. A smaller "
        "learning rate or clipped gradients may help, from weights of before."
    )


def another(reported: float, probe: float) -> str:
    """That training reports another loss than the probe has.

    Parameters
    ----------
    reported : what training reports.
    probe : the loss on the probe.
    """
    return (
        f"Training reports a loss of {reported:.4g} where the probe has {probe:.4g}: another "
        "loss or reduction, a probe unlike the training data, or layers that act otherwise in "
        "training. Forecasts are about the probe."
    )

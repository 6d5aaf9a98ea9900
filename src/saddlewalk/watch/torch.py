"""A watch on a PyTorch training: weights and rule come from the module and from the optimizer's own state."""

import copy
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from saddlewalk.errors import InputError
from saddlewalk.landscape.torch import ModuleLandscape
from saddlewalk.watch.base import MOST, AbstractWatch
from saddlewalk.watch.record import Look
from saddlewalk.watch.rules import Adaptive, Descent, Rule, Schedule, Vector

_ADAPTIVE: dict[str, Literal["adam", "nadam", "radam"]] = {
    "Adam": "adam",
    "AdamW": "adam",
    "NAdam": "nadam",
    "RAdam": "radam",
}
"""Optimizers with Adam's means, and what they make of them."""
_ALIKE = ("momentum", "dampening", "nesterov", "betas", "eps", "alpha", "momentum_decay")
"""Numbers that must be the same in all groups of parameters; rates and weight decays may differ."""


class Watch(AbstractWatch):
    """Watch a training loop of your own: call `step(loss.item())` after each step of the optimizer.

    Parameters
    ----------
    model : the module that is trained; neither it nor its training is changed.
    loss : loss(outputs, targets), the one that is trained, a mean over samples.
    probe : some of the training data, `(inputs, targets)`, as large as a batch or a few.
    optimizer : what trains it; its learning rates, momenta and means are read at every look.
    schedule : how the learning rate goes on: a scheduler that is stepped once a step, or a function of
        the step that gives the rate; by default the present rate stays.
    budget : what looks may take, as a part of the training time.
    widths : count the units in use of each hidden layer, and test which kind of saddle a plateau is at, where
        there is time for it.
    page : a file for a browser, written anew after looks where there is time for it.
    title : what the training is called.
    samples : how many samples the training data have. Forecasts then know how far a probe that is a part of
        them may be off; by default the probe is taken for all of them.
    clip : what `clip_grad_norm_` is called with in the loop; by default gradients are not clipped.
    held_out : `(inputs, targets)` that are not trained on. The training is followed ahead on the probe, and
        the watch tells what their loss will do: state, forecast and record are about it.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Any,
        *,
        probe: Any,
        optimizer: Any = None,
        schedule: Any = None,
        budget: float = 0.05,
        widths: bool = True,
        page: str | Path | None = None,
        title: str = "training",
        samples: int | None = None,
        clip: float | None = None,
        held_out: Any = None,
    ) -> None:
        landscape = ModuleLandscape(model, probe, loss)
        beside = None if held_out is None else ModuleLandscape(model, held_out, loss)
        super().__init__(
            landscape,
            budget=budget,
            widths=widths,
            page=page,
            title=title,
            samples=samples,
            clip=clip,
            held_out=beside,
        )
        self._module = landscape.module
        self._optimizer: Any = getattr(optimizer, "optimizer", optimizer)
        _check_schedule(schedule)
        self._schedule = schedule
        self._rows = dict(self._module.named_parameters())
        self._told_changed = False
        if self._optimizer is not None:
            if not hasattr(self._optimizer, "param_groups"):
                raise InputError(
                    "`optimizer` must be the optimizer that trains, made from `model.parameters()`; got "
                    f"{self._optimizer!r:.60}."
                )
            self._check_parameters()

    def step(self, loss: Any) -> Look | None:
        """One more step of the optimizer was made. Returns the look, where there was one.

        Parameters
        ----------
        loss : its loss, a number; the mean where gradients of several batches are added up for one step.
        """
        return self._count(loss.detach() if isinstance(loss, torch.Tensor) else loss)

    def look(self, most: int = MOST, seconds: float = math.inf) -> Look:
        """Look now, whatever the budget says.

        Parameters
        ----------
        most : gradients on the probe that may be spent.
        seconds : time that may be spent.
        """
        self._check_trained()
        return super().look(most, seconds)

    def weights(self) -> Vector:
        """The weights as they are now."""
        return self.landscape.weights

    def rule(self) -> Rule | None:
        """What the optimizer will do from here."""
        optimizer = self._optimizer
        if optimizer is None:
            return None
        kind, groups = type(optimizer).__name__, optimizer.param_groups
        future = _future(self._schedule, optimizer, self.steps)
        rate = self._per_weight(lambda group: float(group["lr"]))
        decay = self._per_weight(lambda group: float(group.get("weight_decay", 0.0)))
        first = groups[0]
        if first.get("maximize") or first.get("amsgrad") or not np.any(rate):
            return None
        if any(group.get(name) != first.get(name) for group in groups for name in _ALIKE):
            return None
        if kind == "SGD":
            return Descent(
                rate,
                momentum=float(first["momentum"]),
                dampening=float(first["dampening"]),
                nesterov=bool(first["nesterov"]),
                decay=decay,
                clip=self.clip,
                future=future,
            )
        if kind in _ADAPTIVE:
            return Adaptive(
                rate,
                self._state("exp_avg"),
                self._state("exp_avg_sq"),
                self._made(),
                beta1=float(first["betas"][0]),
                beta2=float(first["betas"][1]),
                epsilon=float(first["eps"]),
                decay=decay,
                decoupled=kind == "AdamW" or bool(first.get("decoupled_weight_decay", False)),
                clip=self.clip,
                kind=_ADAPTIVE[kind],
                momentum_decay=float(first.get("momentum_decay", 0.0)),
                batch=self._batch_gradient(),
                future=future,
            )
        if kind == "RMSprop" and not first["momentum"] and not first["centered"]:
            return Adaptive(
                rate,
                np.zeros(self.landscape.size),
                self._state("square_avg"),
                self._made(),
                beta1=0.0,
                beta2=float(first["alpha"]),
                epsilon=float(first["eps"]),
                decay=decay,
                corrected=False,
                clip=self.clip,
                batch=self._batch_gradient(),
                future=future,
            )
        return None

    # --- the optimizer's own state -------------------------------------------------------------------

    def _check_parameters(self) -> None:
        known = {id(p) for group in self._optimizer.param_groups for p in group["params"]}
        mine = {name: p for name, p in self._rows.items() if p.requires_grad}
        foreign = [name for name, p in mine.items() if id(p) not in known]
        if len(foreign) == len(mine):
            raise InputError(
                "None of the model's parameters is in the optimizer: it trains another model, or a copy of "
                "this one. Give the optimizer that was made from `model.parameters()`."
            )
        if foreign:
            warnings.warn(
                f"'{foreign[0]}' is not in the optimizer"
                + (f", nor are {len(foreign) - 1} others" if len(foreign) > 1 else "")
                + ": held fixed in forecasts.",
                stacklevel=4,
            )

    def _check_trained(self) -> None:
        """Say once if a parameter was frozen or set free since the watch was made."""
        now = {name for name, p in self._rows.items() if p.requires_grad}
        changed = now.symmetric_difference(self.landscape.names)
        if not changed or self._told_changed:
            return
        self._told_changed = True
        name = min(changed)
        freed = name in now
        warnings.warn(
            f"'{name}' {'is trained' if freed else 'is frozen'} by now, and was not when the watch was made: "
            f"forecasts {'hold it fixed' if freed else 'let it move'}. Make a new watch.",
            stacklevel=4,
        )

    def _per_weight(self, number: Callable[[dict[str, Any]], float]) -> float | Vector:
        """A number of each group for each weight; one number where all are the same."""
        of = {
            id(p): number(group) for group in self._optimizer.param_groups for p in group["params"]
        }
        values = [of.get(id(self._rows[one.name]), 0.0) for one in self.landscape.parameters]
        if len(set(values)) == 1:
            return values[0]
        sizes = [one.size for one in self.landscape.parameters]
        return np.repeat(values, sizes).astype(float)

    def _state(self, name: str) -> Vector:
        parts = []
        for one in self.landscape.parameters:
            kept = self._optimizer.state.get(self._rows[one.name], {}).get(name)
            parts.append(
                np.zeros(one.size)
                if kept is None
                else kept.detach().to("cpu", torch.float64).numpy().ravel()
            )
        return np.concatenate(parts)

    def _batch_gradient(self) -> Vector | None:
        """The gradient that the last step was made with, where it is still there."""
        slopes = [self._rows[one.name].grad for one in self.landscape.parameters]
        known = [slope for slope in slopes if slope is not None]
        if len(known) < len(slopes):
            return None
        parts = [slope.detach().to("cpu", torch.float64).numpy().ravel() for slope in known]
        found = np.concatenate(parts)
        return found if np.isfinite(found).all() else None

    def _made(self) -> int:
        counts = [state.get("step", 0) for state in self._optimizer.state.values()]
        return int(max((float(count) for count in counts), default=0))


_COMES_BACK = (
    torch.optim.lr_scheduler.CyclicLR,
    torch.optim.lr_scheduler.CosineAnnealingWarmRestarts,
)
"""Schedules for which a rate of zero is not the end. That of one cosine rises after it, too, in PyTorch; but
there trainings end."""
_NEARLY_NOTHING = 1e-12
"""Part of the present rate that stands for zero there."""


def _future(schedule: Any, optimizer: Any, step: int) -> Schedule | None:
    """Future rates as parts of the present one; with momentum, where a schedule changes it, too."""
    now = _pace(optimizer.param_groups[0])
    if schedule is None or now == 0 or _waits(schedule):
        return None
    if not hasattr(schedule, "get_lr"):
        rate = float(optimizer.param_groups[0]["lr"])
        return lambda ahead: float(schedule(step + ahead)) / rate
    # a copy all the way down, in which another optimizer stands for the one that trains
    groups = [{**group, "params": []} for group in optimizer.param_groups]
    pretended = _Pretended(groups)
    stands = {id(optimizer): pretended, id(schedule.optimizer): pretended}
    twin, rates = copy.deepcopy(schedule, stands), [1.0]
    least = _NEARLY_NOTHING if isinstance(schedule, _COMES_BACK) else 0.0

    def future(ahead: int) -> float:
        while len(rates) <= ahead:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    twin.step()
                except ValueError:  # it has come to its end
                    rates.extend([rates[-1]] * (ahead + 1 - len(rates)))
                    break
            rates.append(max(_pace(pretended.param_groups[0]) / now, least))
        return rates[ahead]

    return future


def _pace(group: dict[str, Any]) -> float:
    """How far small steps lead: a ball rolls 1/(1 - momentum) as far as a single step."""
    return float(group["lr"]) / (1 - float(group.get("momentum", 0.0)))


def _waits(schedule: Any) -> bool:
    """Whether a scheduler waits for the loss: nobody knows what it will do."""
    return isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau)


def _check_schedule(schedule: Any) -> None:
    if schedule is None or hasattr(schedule, "optimizer"):
        return
    try:
        float(schedule(0))
    except (TypeError, ValueError) as error:
        raise InputError(
            "`schedule` must be a scheduler of PyTorch, or a function of the step that gives the learning "
            f"rate; got {schedule!r:.60}."
        ) from error


class _Pretended:
    """An optimizer that a scheduler may step without moving anything."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.param_groups = groups
        self._step_count = 1
        self._opt_called = True

    def step(self) -> None:
        """Nothing."""

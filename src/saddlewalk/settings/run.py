"""One description of a run: setting, task, units, start, what to predict with and what to train with.

    run = Run.of("diagonal", dim=10, scale=1e-6, method="numeric")
    run.predict(), run.train(), run.problem

The command line, a cell of a sweep and Python build the same `Run` from the same names, so they compute the
same numbers.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from saddlewalk.errors import InputError, nearest
from saddlewalk.settings.catalog import Setting, find_setting
from saddlewalk.settings.options import (
    DATA,
    UNITS,
    MotionOptions,
    Option,
    PredictionOptions,
    StartOptions,
    TrainingOptions,
    options_of,
)

if TYPE_CHECKING:
    from saddlewalk.agreement import Agreement
    from saddlewalk.flow import Trajectory
    from saddlewalk.problem import Problem
    from saddlewalk.tasks import AbstractTask
    from saddlewalk.theory import Staircase
    from saddlewalk.units import AbstractUnits

_PARTS: dict[str, type] = {
    "start": StartOptions,
    "motion": MotionOptions,
    "prediction": PredictionOptions,
    "training": TrainingOptions,
}


@dataclass(frozen=True)
class Run:
    """What is run, and how. Make one with `Run.of`."""

    setting: str
    given: Mapping[str, Any] = field(default_factory=dict)
    """Options of task and units that differ from the setting's own."""
    start: StartOptions = field(default_factory=StartOptions)
    motion: MotionOptions = field(default_factory=MotionOptions)
    prediction: PredictionOptions = field(default_factory=PredictionOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)

    def __post_init__(self) -> None:
        self._setting.check(dict(self.given))
        of_start = ["scale"] if self.start.scale is not None else [*self.start.balance]
        if self.start.start is not None and of_start:
            name = of_start[0]
            raise InputError(f"`start` gives the weights as they are; leave out `{name}`.")
        if self.start.aligned and (self.start.balance or self.start.start is not None):
            raise InputError("`aligned` is a start of its own; leave out the others, or `aligned`.")

    @classmethod
    def of(cls, setting: str, **options: Any) -> "Run":
        """A run from the names of its options, as a command or a sweep file gives them.

        Parameters
        ----------
        setting : one of `saddlewalk settings`: "diagonal", "linear", ...
        **options : of its task and units, of the start (`scale`, `seed`, `delta`, ...), `method` to predict
            with, and `solver`, `max_time`, ... to train with; `run_options(setting)` lists them.
        """
        parts = {name: _part(part, options) for name, part in _PARTS.items()}
        taken = {name for part in _PARTS.values() for name in options_of(part)}
        for name in options:
            if name not in taken and name not in DATA and name not in UNITS:
                known = (*find_setting(setting).options, *taken)
                raise InputError(f"No run takes `{name}`.{nearest(name, known)}")
        return cls(setting, {k: v for k, v in options.items() if k not in taken}, **parts)

    @property
    def _setting(self) -> Setting:
        return find_setting(self.setting)

    @property
    def scale(self) -> float:
        """The scale of the start: that of the setting if none is given."""
        return self._setting.scale if self.start.scale is None else self.start.scale

    @cached_property
    def task(self) -> "AbstractTask":
        """What is learned."""
        from saddlewalk.losses import as_loss
        from saddlewalk.problem import read_by
        from saddlewalk.tasks import standardized

        setting = self._setting
        loss, chosen = as_loss(self.motion.loss), self._chosen(setting.data)
        if loss.classifies and chosen.get("standardize"):  # classes have no scale
            made = setting.make_task(**{**chosen, "standardize": False})
            return read_by(standardized(made, targets=False), loss)
        return read_by(setting.make_task(**chosen), loss)

    @cached_property
    def units(self) -> "AbstractUnits":
        """What is summed."""
        setting = self._setting
        return setting.make_units(self.task, **self._chosen(setting.units))

    def _chosen(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        chosen = self._setting.chosen(dict(self.given))
        return {name: chosen[name] for name in defaults}

    @cached_property
    def problem(self) -> "Problem":
        """Task, units and loss."""
        from saddlewalk.problem import Problem

        return Problem(self.task, self.units, self.motion.loss, adaptive=self.motion.adaptive)

    @cached_property
    def weights(self) -> Any:
        """Parameters to start from, where a file or the balance of the layers is given; else `None`."""
        if self.start.start is not None:
            from saddlewalk.settings.weights import load_weights

            return load_weights(self.start.start, self.problem)
        if self.start.aligned:
            from saddlewalk.theory.deep import aligned_start

            return aligned_start(self.problem, self.scale)
        if not self.start.balance:
            return None
        from saddlewalk.balance import rescaled
        from saddlewalk.precision import float64

        with float64():
            plain = self.problem.initialize(self.scale, self.start.seed)
            return rescaled(self.problem, plain, **self.start.balance)

    def predict(self, *, progress: bool | None = None) -> "Staircase":
        """What will be learned, in which order, when.

        Parameters
        ----------
        progress : show a progress line on stderr; by default if it is a terminal.
        """
        from saddlewalk.theory import predict

        how = {**self._motion(), **vars(self.prediction)}
        if self.motion.optimizer is not None:
            how["batch_size"] = self.training.batch_size
        elif self.training != TrainingOptions():
            how |= {"learning_rate": None, "momentum": None}  # of the solver: predicted is the flow
        return predict(*self._network(), **how, progress=progress)

    def train(self, *, progress: bool | None = None) -> "Trajectory":
        """What happens when the network is trained.

        Parameters
        ----------
        progress : show a progress line on stderr; by default if it is a terminal.
        """
        from saddlewalk.flow import train

        how = {**self._motion(), **vars(self.training)}
        return train(*self._network(), **how, progress=progress)

    def compare(self, *, progress: bool | None = None) -> "Agreement":
        """Both, laid over each other.

        Parameters
        ----------
        progress : show a progress line on stderr; by default if it is a terminal.
        """
        from saddlewalk.agreement import compare

        return compare(self.predict(progress=progress), self.train(progress=progress))

    def _network(self) -> tuple["AbstractTask", "AbstractUnits", float, int]:
        return self.task, self.units, self.scale, self.start.seed

    def _motion(self) -> dict[str, Any]:
        return {**vars(self.motion), "start": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Everything that decides the numbers, by name; data of one's own have no sizes to be made."""
        parts = {k: v for name in _PARTS for k, v in vars(getattr(self, name)).items()}
        options = self._setting.deciding(dict(self.given))
        chosen = {"setting": self.setting, **options, **parts, "scale": self.scale}
        return {name: None if v == float("inf") else v for name, v in chosen.items()}


def train_runs(runs: Iterable[Run], *, progress: bool | None = None) -> "list[Trajectory]":
    """Train runs of one shape, with the same options of motion and training, as one compiled program.

    Parameters
    ----------
    runs : they differ in their numbers alone: data, scale, seed and balance.
    progress : show a progress line on stderr; by default if it is a terminal.
    """
    from saddlewalk.flow import train_many

    every = list(runs)
    if len({(run.motion, run.training) for run in every}) > 1:
        raise InputError("Runs that are trained together must have the same options of training.")
    return train_many(
        [run._network() for run in every],
        starts=[run.weights for run in every],
        **vars(every[0].motion),
        **vars(every[0].training),
        progress=progress,
    )


def run_options(setting: str, *parts: str) -> dict[str, Option]:
    """The options of a run by name: those of the setting's task and units, and of parts of a run.

    Parameters
    ----------
    setting : name of a setting.
    *parts : "start", "motion", "prediction", "training"; all of them if none is named.
    """
    known = {**DATA, **UNITS}
    options = {name: known[name] for name in find_setting(setting).options}
    for part in parts or _PARTS:
        options |= options_of(_PARTS[part])
    return options


def _part(part: type, options: Mapping[str, Any]) -> Any:
    return part(
        **{one.name: options[one.name] for one in dataclasses.fields(part) if one.name in options}
    )

"""Settings by name: which task and which units, and the options that each takes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from saddlewalk.errors import InputError, nearest

if TYPE_CHECKING:
    from saddlewalk.tasks import AbstractTask
    from saddlewalk.units import AbstractUnits

Options = dict[str, Any]

_ONE_HOT = "one-hot"

_OF_FILES = ("data", "targets", "standardize", "group", "factors")
"""Options of tasks that go with data of one's own; the others make data."""
_NOT_OF_IMAGES = ("outputs", "features", "noise")
_NOT_OF_CLASSES = (
    *("images", "outputs", "features", "noise", "sparsity", "correlation", "decay", "commuting"),
)
_PARTS_OF_INPUTS = ("sparsity", "features")


@dataclass(frozen=True)
class Setting:
    """One network on one kind of data. Options are mapped to their defaults."""

    name: str
    summary: str
    scale: float
    """Scale when none is given."""
    data: Options
    """What the task takes."""
    units: Options
    """What the units take."""
    make_task: Callable[..., "AbstractTask"]
    make_units: "Callable[..., AbstractUnits]"

    @property
    def options(self) -> Options:
        """All options, with their defaults."""
        return {**self.data, **self.units}

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """How it can be predicted: what the theories offer for it."""
        from saddlewalk.problem import Problem
        from saddlewalk.theory import methods_of

        task = self.make_task(**self.data)
        return methods_of(Problem(task, self.make_units(task, **self.units)))

    def check(self, given: Options) -> None:
        """Refuse options that the setting does not take, or that contradict each other."""
        foreign = [option for option in given if option not in self.options]
        if foreign:
            taken = ", ".join(f"`{option}`" for option in self.options)
            raise InputError(f"'{self.name}' does not take `{foreign[0]}`; it takes {taken}.")
        if given.get("data") == "":
            raise InputError("`data` is empty: give a .csv or .npz file.")
        if given.get("width") is not None and given["width"] < 1:
            raise InputError(f"The width must be at least 1; got {given['width']}.")
        made = [option for option in given if option in self.data and option not in _OF_FILES]
        if given.get("data") and made:
            raise InputError(f"`{made[0]}` makes data; with `data` there is nothing to make.")
        if given.get("targets") is not None and not given.get("data"):
            raise InputError("`targets` are columns of a .csv: give it as `data`.")
        unused = [option for option in given if option in _NOT_OF_IMAGES]
        if given.get("images") and unused:
            raise InputError(f"`{unused[0]}` is of made data; images have no use for it.")
        self._check_clouds(given)

    def _check_clouds(self, given: Options) -> None:
        """Refuse options of made numbers beside those of made classes."""
        if given.get("classes") is None:
            if "separation" in given:
                raise InputError("`separation` is that of made classes: give `classes`, too.")
            return
        foreign = [option for option in given if option in _NOT_OF_CLASSES]
        if foreign:
            raise InputError(f"`{foreign[0]}` is of made numbers; classes have no use for it.")

    def chosen(self, given: Options) -> Options:
        """Every option as it is used: what is given, and else the default.

        By default nothing has more parts than there are inputs.
        """
        chosen = {**self.options, **given}
        for part in _PARTS_OF_INPUTS:
            if part in chosen and part not in given:
                chosen[part] = min(chosen[part], max(1, chosen["dim"]))
        return chosen

    def deciding(self, given: Options) -> Options:
        """The options that decide the numbers: data of one's own have no sizes to be made."""
        foreign: tuple[str, ...] = ()
        if given.get("data"):
            foreign = tuple(option for option in self.data if option not in _OF_FILES)
        elif given.get("images"):
            foreign = (*_NOT_OF_IMAGES, *_CLOUDS)
        elif given.get("classes"):
            foreign = _NOT_OF_CLASSES
        else:
            foreign = tuple(_CLOUDS)
        return {name: v for name, v in self.chosen(given).items() if name not in foreign}


def find_setting(name: str) -> Setting:
    """A setting by name; a near miss is suggested.

    Parameters
    ----------
    name : one of `SETTINGS`.
    """
    if name not in SETTINGS:
        raise InputError(f"Unknown setting '{name}'.{nearest(name, SETTINGS)}")
    return SETTINGS[name]


# --- tasks and units ----------------------------------------------------------------------------------------


def _own_or_made(
    data: str | None, targets: str | None, standardize: bool, make: "Callable[[], AbstractTask]"
) -> "AbstractTask":
    """Data of one's own, or such as are made."""
    from saddlewalk.tasks import load_task, standardized

    task = make() if data is None else load_task(data, targets)
    return standardized(task) if standardize else task


def _sparse_regression(
    data: str | None, targets: str | None, standardize: bool, data_seed: int, **made: Any
) -> "AbstractTask":
    from saddlewalk.tasks import sparse_regression

    def make() -> "AbstractTask":
        sizes, clouds = _without_clouds(made)
        if clouds is not None:
            return _clouds(made, clouds, data_seed)
        return sparse_regression(seed=data_seed, **sizes)

    return _own_or_made(data, targets, standardize, make)


def _without_clouds(made: Options) -> tuple[Options, Options | None]:
    """What regression tasks are made of; and what classes are, if there are to be any."""
    clouds = {name: made[name] for name in ("classes", "separation")}
    sizes = {name: value for name, value in made.items() if name not in clouds}
    return sizes, None if clouds["classes"] is None else clouds


def _clouds(made: Options, clouds: Options, seed: int) -> "AbstractTask":
    from saddlewalk.tasks import gaussian_classes

    return gaussian_classes(samples=made["samples"], dim=made["dim"], seed=seed, **clouds)


def _diagonal(task: "AbstractTask", width: int | None) -> "AbstractUnits":
    from saddlewalk.units import Diagonal

    if width is not None and width != task.inputs:
        raise InputError(
            f"A diagonal network has one unit an input: its width is {task.inputs}, not {width}."
        )
    return Diagonal()


def _linear_map(
    data: str | None, targets: str | None, standardize: bool, data_seed: int, **made: Any
) -> "AbstractTask":
    from saddlewalk.tasks import linear_map

    def make() -> "AbstractTask":
        sizes, clouds = _without_clouds(made)
        samples = sizes.pop("samples")
        if clouds is not None:
            many = _SAMPLES if samples is None else samples
            return _clouds({**sizes, "samples": many}, clouds, data_seed)
        if samples is not None:
            raise InputError(
                "`samples` are of made `classes`: the map is learned from the population."
            )
        return linear_map(seed=data_seed, **sizes)

    return _own_or_made(data, targets, standardize, make)


def _linear(task: "AbstractTask", width: int | None) -> "AbstractUnits":
    from saddlewalk.units import Dense

    return Dense(min(task.inputs, task.outputs) if width is None else width, "linear")


def _deep_diagonal(task: "AbstractTask", width: int | None, depth: int) -> "AbstractUnits":
    from saddlewalk.units import DeepDiagonal

    if depth == 2:
        return _diagonal(task, width)
    if width is not None and width != task.inputs:
        raise InputError(
            f"A diagonal network has one unit an input: its width is {task.inputs}, not {width}."
        )
    return DeepDiagonal(depth)


def _deep_linear(task: "AbstractTask", width: int | None, depth: int) -> "AbstractUnits":
    from saddlewalk.units import Deep

    return Deep.linear(depth, min(task.inputs, task.outputs) if width is None else width)


def _deep(
    task: "AbstractTask", width: int, depth: int, activation: str, bias: bool
) -> "AbstractUnits":
    from saddlewalk.units import Deep

    return Deep.of(depth, width, activation, bias=bias)


def _in_context(
    eigenvalues: str, context: int, sequences: int | None, data_seed: int
) -> "AbstractTask":
    from saddlewalk.tasks import in_context_regression, in_context_sequences

    values = _numbers("eigenvalues", eigenvalues)
    if sequences is None:
        return in_context_regression(values, context)
    return in_context_sequences(values, context, sequences=sequences, seed=data_seed)


def _attention(task: "AbstractTask", width: int | None) -> "AbstractUnits":
    from saddlewalk.units import LinearAttention

    components = task.inputs // 2  # an input is a context and a query
    return LinearAttention(components + 1 if width is None else width)


def _modular(data: str | None, p: int, spectrum: str) -> "AbstractTask":
    from saddlewalk.tasks import load_encoding, modular_addition

    if data is not None:
        return modular_addition(encoding=load_encoding(data))
    return modular_addition(p, _spectrum(spectrum))


def _quadratic(task: Any, width: int | None) -> "AbstractUnits":
    from saddlewalk.units import QuadraticPair

    return QuadraticPair(6 * len(task.frequencies) if width is None else width)


def _composition(
    data: str | None,
    group: str,
    factors: int,
    spectrum: str,
    samples: int | None,
    data_seed: int,
) -> "AbstractTask":
    from saddlewalk.tasks import group_composition, load_encoding

    encoding: Any = spectrum if spectrum == _ONE_HOT else _coefficients(spectrum)
    if data is not None:
        encoding = load_encoding(data)
    return group_composition(group, factors, encoding, samples=samples, seed=data_seed)


def _powers(task: Any, width: int | None) -> "AbstractUnits":
    from saddlewalk.theory.composition import neurons_needed
    from saddlewalk.units import PowerOfSum

    if width is None:
        every = [task.group.representation(name) for name in task.pairs]
        width = sum(neurons_needed(one, task.factors) for one in every)
    return PowerOfSum(width, task.factors)


def _directions(
    data: str | None,
    targets: str | None,
    standardize: bool,
    images: str | None,
    data_seed: int,
    **made: Any,
) -> "AbstractTask":
    from saddlewalk import tasks

    def make() -> "AbstractTask":
        plain, clouds = _without_clouds(made)
        if images is None and clouds is not None:
            return _clouds(made, clouds, data_seed)
        if images is None:
            return tasks.hidden_directions(seed=data_seed, **plain)
        sizes = {"components": made["dim"], "samples": made["samples"]}
        return tasks.images(images, **sizes, seed=data_seed)

    return _own_or_made(data, targets, standardize, make)


def _dense(
    task: "AbstractTask", width: int, bias: bool, activation: str = "relu"
) -> "AbstractUnits":
    from saddlewalk.units import Dense

    return Dense(width, activation, bias)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in str(text).split(",")]
    except ValueError as error:
        raise InputError(
            f"`{option}` must be numbers separated by commas; got '{text}'."
        ) from error


def _spectrum(text: str) -> dict[int, complex]:
    try:
        pairs = [part.split(":") for part in str(text).split(",")]
        return {int(k): complex(value) for k, value in pairs}
    except ValueError as error:
        raise InputError(
            f"`spectrum` must look like 1:10,3:5 (frequency:value, ...); got '{text}'."
        ) from error


def _coefficients(text: str) -> dict[str, complex | list[float]]:
    """`2d:4/2,sign:1.6`: a number, or singular values with strokes between them, by representation."""
    try:
        pairs = [part.rsplit(":", 1) for part in str(text).split(",")]
        return {name: _coefficient(value) for name, value in pairs}
    except ValueError as error:
        raise InputError(
            "`spectrum` must be 'one-hot', or look like 2d:4/2,sign:1.6 (representation:value, or singular "
            f"values with / between them); got '{text}'."
        ) from error


def _coefficient(value: str) -> complex | list[float]:
    values = value.split("/")
    return complex(value) if len(values) == 1 else [float(one) for one in values]


# --- the list -----------------------------------------------------------------------------------------------

_OWN: Options = {"data": None, "targets": None, "standardize": False}
_SAMPLES = 200
"""Samples of made classes where none are given."""
_CLOUDS: Options = {"classes": None, "separation": 2.0}
_HIDDEN_DIRECTIONS: Options = {
    **_OWN,
    **_CLOUDS,
    "images": None,
    "samples": 200,
    "dim": 8,
    "outputs": 3,
    "features": 3,
    "noise": 0.0,
    "data_seed": 0,
}

_ALL = (
    Setting(
        name="diagonal",
        summary="diagonal linear network u*v: sparse regression, one coefficient at a time",
        scale=1e-6,
        data={
            **_OWN,
            **_CLOUDS,
            "samples": 60,
            "dim": 10,
            "sparsity": 5,
            "noise": 0.0,
            "correlation": 0.0,
            "data_seed": 0,
        },
        units={"width": None},
        make_task=_sparse_regression,
        make_units=_diagonal,
    ),
    Setting(
        name="linear",
        summary="fully connected linear network: one singular mode at a time",
        scale=1e-6,
        data={
            **_OWN,
            **_CLOUDS,
            "samples": None,
            "dim": 10,
            "outputs": 10,
            "decay": 1.0,
            "commuting": False,
            "data_seed": 0,
        },
        units={"width": None},
        make_task=_linear_map,
        make_units=_linear,
    ),
    Setting(
        name="deep-linear",
        summary="linear network of any depth: one singular mode at a time, sharper steps than at depth 2",
        scale=1e-2,
        data={
            **_OWN,
            **_CLOUDS,
            "samples": None,
            "dim": 4,
            "outputs": 4,
            "decay": 0.0,
            "commuting": False,
            "data_seed": 0,
        },
        units={"width": None, "depth": 3},
        make_task=_linear_map,
        make_units=_deep_linear,
    ),
    Setting(
        name="deep-diagonal",
        summary="diagonal network, products of L weights: one coefficient at a time, sharper steps",
        scale=1e-3,
        data={
            **_OWN,
            **_CLOUDS,
            "samples": 60,
            "dim": 10,
            "sparsity": 5,
            "noise": 0.0,
            "correlation": 0.0,
            "data_seed": 0,
        },
        units={"width": None, "depth": 3},
        make_task=_sparse_regression,
        make_units=_deep_diagonal,
    ),
    Setting(
        name="deep",
        summary="network of any depth and activation: its first escape",
        scale=1e-2,
        data=_HIDDEN_DIRECTIONS,
        units={"width": 8, "depth": 3, "activation": "relu", "bias": False},
        make_task=_directions,
        make_units=_deep,
    ),
    Setting(
        name="attention",
        summary="linear attention, regression in context: one principal component at a time",
        scale=1e-3,
        data={"eigenvalues": "4,2,1", "context": 32, "sequences": None, "data_seed": 0},
        units={"width": None},
        make_task=_in_context,
        make_units=_attention,
    ),
    Setting(
        name="modular-addition",
        summary="quadratic network adding modulo p: one Fourier frequency at a time",
        scale=1e-2,
        data={"data": None, "p": 20, "spectrum": "1:10,3:5,5:2.5"},
        units={"width": None},
        make_task=_modular,
        make_units=_quadratic,
    ),
    Setting(
        name="group",
        summary="network of degree k + 1 composing k elements of a group: one representation at a time",
        scale=3e-2,
        data={
            "data": None,
            "group": "D3",
            "factors": 2,
            "spectrum": _ONE_HOT,
            "samples": None,
            "data_seed": 0,
        },
        units={"width": None},
        make_task=_composition,
        make_units=_powers,
    ),
    Setting(
        name="relu",
        summary="two-layer ReLU network: one direction at a time, a slide when it is wide",
        scale=1e-6,
        data=_HIDDEN_DIRECTIONS,
        units={"width": 3, "bias": False},
        make_task=_directions,
        make_units=_dense,
    ),
    Setting(
        name="two-layer",
        summary="two-layer network with any activation",
        scale=1e-6,
        data=_HIDDEN_DIRECTIONS,
        units={"width": 3, "activation": "tanh", "bias": False},
        make_task=_directions,
        make_units=_dense,
    ),
)
SETTINGS = {setting.name: setting for setting in _ALL}

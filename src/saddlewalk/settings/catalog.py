"""Settings by name, for commands and sweeps: the options that each takes, and the problem they make."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saddlewalk.errors import InputError, nearest

if TYPE_CHECKING:
    from saddlewalk.tasks import AbstractTask
    from saddlewalk.units import AbstractUnits

Options = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One network on one kind of data. `options` maps each option it takes to its default."""

    summary: str
    methods: tuple[str, ...]
    scale: float
    """Scale when none is given."""
    options: Options
    build: Callable[[Options], "tuple[AbstractTask, AbstractUnits]"]


def _diagonal(options: Options) -> "tuple[AbstractTask, AbstractUnits]":
    from saddlewalk.tasks import Samples, load_task, refuse_constant_columns, sparse_regression
    from saddlewalk.units import Diagonal

    width, data, seed = (options.pop(name) for name in ("width", "data", "data_seed"))
    task = load_task(data) if data is not None else sparse_regression(seed=seed, **options)
    if isinstance(task, Samples):
        refuse_constant_columns(task)
    if width is not None and width != task.inputs:
        raise InputError(
            f"A diagonal network has one unit an input: its width is {task.inputs}, not {width}."
        )
    return task, Diagonal()


def _linear(options: Options) -> "tuple[AbstractTask, AbstractUnits]":
    from saddlewalk.tasks import linear_map, load_task
    from saddlewalk.units import Dense

    width, data, seed = (options.pop(name) for name in ("width", "data", "data_seed"))
    task = load_task(data) if data is not None else linear_map(seed=seed, **options)
    return task, Dense(min(task.inputs, task.outputs) if width is None else width, "linear")


def _attention(options: Options) -> "tuple[AbstractTask, AbstractUnits]":
    from saddlewalk.tasks import in_context_regression, in_context_sequences
    from saddlewalk.units import LinearAttention

    eigenvalues = _numbers("--eigenvalues", options["eigenvalues"])
    context, sequences = options["context"], options["sequences"]
    if sequences is None:
        task: AbstractTask = in_context_regression(eigenvalues, context)
    else:
        task = in_context_sequences(
            eigenvalues, context, sequences=sequences, seed=options["data_seed"]
        )
    width = options["width"]
    return task, LinearAttention(len(eigenvalues) + 1 if width is None else width)


def _modular(options: Options) -> "tuple[AbstractTask, AbstractUnits]":
    from saddlewalk.tasks import load_encoding, modular_addition
    from saddlewalk.units import QuadraticPair

    if options["data"] is not None:
        task = modular_addition(encoding=load_encoding(options["data"]))
    else:
        task = modular_addition(options["p"], _spectrum(options["spectrum"]))
    width = options["width"]
    return task, QuadraticPair(6 * len(task.frequencies) if width is None else width)


def _two_layer(options: Options) -> "tuple[AbstractTask, AbstractUnits]":
    from saddlewalk.tasks import hidden_directions, images, load_task
    from saddlewalk.units import Dense

    units = Dense(options.pop("width"), options.pop("activation", "relu"))
    data, pictures, seed = (options.pop(name) for name in ("data", "images", "data_seed"))
    if data is not None:
        return load_task(data), units
    if pictures is not None:
        return images(
            pictures, components=options["dim"], samples=options["samples"], seed=seed
        ), units
    return hidden_directions(seed=seed, **options), units


def _numbers(flag: str, text: str) -> list[float]:
    try:
        return [float(part) for part in str(text).split(",")]
    except ValueError as error:
        raise InputError(f"{flag} must be numbers separated by commas; got '{text}'.") from error


def _spectrum(text: str) -> dict[int, complex]:
    try:
        pairs = [part.split(":") for part in str(text).split(",")]
        return {int(k): complex(value) for k, value in pairs}
    except ValueError as error:
        raise InputError(
            f"--spectrum must look like 1:10,3:5 (frequency:value, ...); got '{text}'."
        ) from error


_ANY = ("auto", "numeric", "algorithm-1", "instant-alignment")
_MADE_TARGET = {"samples": 200, "dim": 8, "outputs": 3, "features": 3, "noise": 0.0, "data_seed": 0}

SETTINGS = {
    "diagonal": Setting(
        "diagonal linear network u*v: sparse regression, one coefficient at a time",
        (*_ANY, "closed", "limit"),
        1e-6,
        {
            "data": None,
            "width": None,
            "samples": 60,
            "dim": 10,
            "sparsity": 5,
            "noise": 0.0,
            "correlation": 0.0,
            "data_seed": 0,
        },
        _diagonal,
    ),
    "linear": Setting(
        "fully connected linear network: one singular mode at a time",
        (*_ANY, "closed", "limit", "greedy-low-rank"),
        1e-6,
        {
            "data": None,
            "width": None,
            "dim": 10,
            "outputs": 10,
            "decay": 1.0,
            "commuting": False,
            "data_seed": 0,
        },
        _linear,
    ),
    "attention": Setting(
        "linear attention, regression in context: one principal component at a time",
        (*_ANY, "closed"),
        1e-3,
        {"eigenvalues": "4,2,1", "context": 32, "sequences": None, "width": None, "data_seed": 0},
        _attention,
    ),
    "modular-addition": Setting(
        "quadratic network adding modulo p: one Fourier frequency at a time",
        (*_ANY, "closed"),
        1e-2,
        {"data": None, "p": 20, "spectrum": "1:10,3:5,5:2.5", "width": None},
        _modular,
    ),
    "relu": Setting(
        "two-layer ReLU network: one direction at a time, a slide when it is wide",
        _ANY,
        1e-6,
        {"data": None, "images": None, "width": 3, **_MADE_TARGET},
        _two_layer,
    ),
    "two-layer": Setting(
        "two-layer network with any activation",
        _ANY,
        1e-6,
        {"data": None, "images": None, "width": 3, "activation": "tanh", **_MADE_TARGET},
        _two_layer,
    ),
}


def find_setting(name: str) -> Setting:
    """A setting by name; a near miss is suggested."""
    if name not in SETTINGS:
        raise InputError(f"Unknown setting '{name}'.{nearest(name, SETTINGS)}")
    return SETTINGS[name]


def make_problem(name: str, given: Options) -> "tuple[AbstractTask, AbstractUnits, Options]":
    """Task and units of a setting, and all its options; those it does not take are refused."""
    setting = find_setting(name)
    foreign = [option for option in given if option not in setting.options]
    if foreign:
        raise InputError(
            f"'{name}' does not take {_flag(foreign[0])}; it takes "
            f"{', '.join(map(_flag, setting.options))}."
        )
    if given.get("data") == "":
        raise InputError("--data is empty: give a .csv or .npz file.")
    if given.get("width") is not None and given["width"] < 1:
        raise InputError(f"The width must be at least 1; got {given['width']}.")
    made = [option for option in given if option not in ("data", "width", "activation")]
    if given.get("data") and made:
        raise InputError(f"{_flag(made[0])} makes data; with --data there is nothing to make.")
    unused = [option for option in given if option in ("outputs", "features", "noise")]
    if given.get("images") and unused:
        raise InputError(f"{_flag(unused[0])} is of made data; images have no use for it.")
    options = {**setting.options, **given}
    return *setting.build(dict(options)), options


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")

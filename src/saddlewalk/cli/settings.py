"""The settings of the command line: a name, the options it takes, and the problem they make."""

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
    options: Options
    build: Callable[[Options], "tuple[AbstractTask, AbstractUnits]"]


def _diagonal(options: Options) -> "tuple[AbstractTask, AbstractUnits]":
    from saddlewalk.tasks import Samples, load_task, refuse_constant_columns, sparse_regression
    from saddlewalk.units import Diagonal

    width = options.pop("width")
    if width is not None and width < 1:
        raise InputError(f"The width must be at least 1; got {width}.")
    data = options.pop("data")
    if data == "":
        raise InputError("--data is empty: give a .csv or .npz file.")
    seed = options.pop("data_seed")
    task = load_task(data) if data is not None else sparse_regression(seed=seed, **options)
    if isinstance(task, Samples):
        refuse_constant_columns(task)
    if width is not None and width != task.inputs:
        raise InputError(
            f"A diagonal network has one unit an input: its width is {task.inputs}, not {width}."
        )
    return task, Diagonal()


SETTINGS = {
    "diagonal": Setting(
        "diagonal linear network u*v: sparse regression, one coefficient at a time",
        ("auto", "closed", "limit"),
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
    made = [option for option in given if option not in ("data", "width")]
    if given.get("data") and made:
        raise InputError(f"{_flag(made[0])} makes data; with --data there is nothing to make.")
    options = {**setting.options, **given}
    return *setting.build(dict(options)), options


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")

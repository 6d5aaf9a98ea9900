"""Sweeps from a file, TOML or YAML:

    measure = "compare"
    setting = "diagonal"

    [fixed]
    dim = 10

    [axes]
    scale = [1e-2, 1e-4, 1e-6]
    seed = { from = 0, to = 4, count = 5 }

or, instead of `axes` or beside it, configurations that are drawn:

    [sample]
    method = "latin-hypercube"
    count = 100
    scale = [1e-9, 1e-1, "log"]

A measure of one's own is named as `module:function`; it needs no setting.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saddlewalk.errors import InputError, import_extra, nearest
from saddlewalk.sweep.measures import check_parameters, find_measure
from saddlewalk.sweep.plan import Plan, grid, latin_hypercube, product, uniform

STUDIES = Path(__file__).parent / "studies"
"""Sweeps of the papers."""
_FIELDS = ("measure", "setting", "fixed", "axes", "sample")
_METHODS = {"uniform": uniform, "latin-hypercube": latin_hypercube}


@dataclass(frozen=True)
class SweepFile:
    """What a file asks for."""

    measure: Callable[..., dict[str, float]]
    plan: Plan


def load_sweep(path: str | Path) -> SweepFile:
    """Read a file, or a study that comes with the package; what is wrong in it is said with its line.

    Parameters
    ----------
    path : a file, or the name of a study.
    """
    file = Path(path)
    if not file.is_file():
        file = STUDIES / f"{path}.toml"
    if not file.is_file():
        known = ", ".join(sorted(study.stem for study in STUDIES.glob("*.toml")))
        raise InputError(f"There is no file {path}, and no study of that name. Studies: {known}.")
    text = file.read_text()
    content = _parsed(file, text)
    try:
        return _sweep_of(content, file.parent)
    except _FieldError as error:
        raise InputError(f"{file}{_line(text, error.field)}: {error}") from error


class _FieldError(InputError):
    """Something wrong with one field."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(words)
        self.field = field


def _parsed(file: Path, text: str) -> Mapping[str, Any]:
    if file.suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{file}: {error}.") from error
    if file.suffix not in (".yaml", ".yml"):
        raise InputError(f"{file} must end in .toml, .yaml or .yml.")
    yaml = import_extra("yaml", "Sweeps in YAML", "sweep")
    try:
        content = yaml.load(text, _yaml_loader(yaml))
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where else ""
        raise InputError(f"{file}{line}: {getattr(error, 'problem', error)}.") from error
    if not isinstance(content, dict):
        raise InputError(f"{file} must hold fields: {', '.join(_FIELDS)}.")
    return content


def _yaml_loader(yaml: Any) -> Any:
    """YAML 1.1 takes 1e-2 for a word; numbers are read as everyone writes them."""

    class Loader(yaml.SafeLoader):
        pass

    number = re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+.0123456789"))
    return Loader


def _sweep_of(content: Mapping[str, Any], folder: Path) -> SweepFile:
    for field in content:
        if field not in _FIELDS:
            raise _FieldError(str(field), f"Unknown field '{field}'.{nearest(str(field), _FIELDS)}")
    for field in ("measure", "setting"):
        own = field == "setting" and field not in content
        if not own and not isinstance(content.get(field), str):
            raise _FieldError(field, f"'{field}' is missing, or no word.")
    if "axes" not in content and "sample" not in content:
        raise _FieldError("axes", "There must be 'axes' or 'sample': nothing is varied.")
    measure = _of_field("measure", find_measure, content["measure"], folder)
    named = content["measure"] if ":" not in content["measure"] else measure
    setting = content.get("setting")
    _of_field("setting", check_parameters, named, setting, [])
    fixed = {**({"setting": setting} if setting else {}), **_table(content, "fixed")}
    plan = _grid(content, fixed) if "axes" in content else _sample(content, fixed)
    if "axes" in content and "sample" in content:
        plan = _of_field("sample", product, _sample(content, {}), plan)
    for name in plan.parameters:
        _of_field(name, check_parameters, named, setting, [name])
    return SweepFile(measure, plan)


def _grid(content: Mapping[str, Any], fixed: dict[str, Any]) -> Plan:
    axes = {name: _values(name, given) for name, given in _table(content, "axes").items()}
    for name, values in axes.items():
        _of_field(name, grid, {name: values})
    return _of_field(next(iter(axes), "axes"), grid, axes, **fixed)


def _sample(content: Mapping[str, Any], fixed: dict[str, Any]) -> Plan:
    given = dict(_table(content, "sample"))
    method, count, seed = (
        given.pop(name, default)
        for name, default in (("method", "uniform"), ("count", None), ("draw", 0))
    )
    if method not in _METHODS:
        raise _FieldError("method", f"Unknown method '{method}'.{nearest(str(method), _METHODS)}")
    ranges = {name: tuple(limits) for name, limits in given.items() if isinstance(limits, list)}
    odd = [name for name in given if name not in ranges]
    if odd:
        raise _FieldError(odd[0], f"'{odd[0]}' must be a range, [from, to] or [from, to, \"log\"].")
    for name, limits in ranges.items():
        _of_field(name, uniform, {name: limits}, 1)
    where = "count" if "count" in _table(content, "sample") else "sample"
    return _of_field(where, _METHODS[method], ranges, count, draw=seed, **fixed)


def _values(name: str, given: Any) -> Any:
    """A list of values, or a range with so many of them."""
    if isinstance(given, list):
        return given
    if not isinstance(given, dict) or not {"from", "to", "count"} <= set(given):
        raise _FieldError(
            name, f"'{name}' must be a list, or {{from, to, count}} with spacing = \"log\" if so."
        )
    extra = set(given) - {"from", "to", "count", "spacing"}
    if extra or given.get("spacing", "linear") not in ("linear", "log"):
        raise _FieldError(
            name, f"A range has from, to, count and spacing (linear or log); got {given}."
        )
    space = np.geomspace if given.get("spacing") == "log" else np.linspace
    try:
        values = space(given["from"], given["to"], given["count"])
    except (TypeError, ValueError) as error:
        raise _FieldError(
            name, f"The range of '{name}' must go from a number to a number; got {given}."
        ) from error
    whole = isinstance(given["from"], int) and np.array_equal(values, np.round(values))
    return values.astype(int).tolist() if whole else values.tolist()


def _table(content: Mapping[str, Any], field: str) -> dict[str, Any]:
    table = content.get(field, {})
    if not isinstance(table, dict):
        raise _FieldError(field, f"'{field}' must be a table of names and values.")
    return table


def _of_field(field: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return function(*arguments, **named)
    except InputError as error:
        raise _FieldError(field, str(error)) from error


def _line(text: str, field: str) -> str:
    """Where a field stands in the file."""
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(rf"\s*\[?\s*[\"']?{re.escape(field)}\b", line):
            return f", line {number}"
    for number, line in enumerate(text.splitlines(), start=1):  # inside braces
        if re.search(rf"[{{,]\s*[\"']?{re.escape(field)}\b[\"']?\s*[:=]", line):
            return f", line {number}"
    return ""

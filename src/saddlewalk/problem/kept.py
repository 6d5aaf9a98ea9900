"""The problem of a result: at hand while it was just computed, rebuilt where it was read from a file."""

import json
from typing import TYPE_CHECKING, Any

from saddlewalk.errors import InputError
from saddlewalk.problem.description import describe, rebuild
from saddlewalk.problem.problem import Problem

if TYPE_CHECKING:
    import xarray as xr

_ATTRIBUTE, _PREFIX = "problem", "problem_"


def with_problem(data: "xr.Dataset", problem: Problem | None) -> "xr.Dataset":
    """Labeled data with the description of their problem, where it can be described.

    Parameters
    ----------
    data : a result as labeled data.
    problem : what it belongs to; `None` adds nothing.
    """
    described = None if problem is None else describe(problem)
    if described is None:
        return data
    words, arrays = described
    labeled = {
        _PREFIX + name: (tuple(f"{_PREFIX}{name}_{k}" for k in range(array.ndim)), array)
        for name, array in arrays.items()
    }
    return data.assign(labeled).assign_attrs({_ATTRIBUTE: json.dumps(words)})


def problem_of(data: "xr.Dataset") -> Problem | None:
    """The problem that was described in labeled data; `None` if there is none.

    Parameters
    ----------
    data : what `with_problem` gave.
    """
    if _ATTRIBUTE not in data.attrs:
        return None
    arrays = {
        str(name).removeprefix(_PREFIX): values.values
        for name, values in data.data_vars.items()
        if str(name).startswith(_PREFIX)
    }
    return rebuild(json.loads(data.attrs[_ATTRIBUTE]), arrays)


def without_problem(data: "xr.Dataset") -> "xr.Dataset":
    """Labeled data as they were before the description of their problem was added.

    Parameters
    ----------
    data : what `with_problem` gave.
    """
    described = [name for name in data.data_vars if str(name).startswith(_PREFIX)]
    kept = data.drop_vars(described)
    kept.attrs = {name: value for name, value in data.attrs.items() if name != _ATTRIBUTE}
    return kept


def known(problem: Any, what: str) -> Problem:
    """The problem of a result, or a sentence that asks for it.

    Parameters
    ----------
    problem : of the result; `None` is refused.
    what : the kind of result, for the sentence.
    """
    if problem is None:
        raise InputError(
            f"This {what} does not know its problem: its units, loss or data are your own, and a file holds "
            "no code. Give it: result.of(sw.Problem(task, units))."
        )
    return problem

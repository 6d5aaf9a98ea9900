"""What the settings of a Recursive Feature Machine may be; what they are not is said in a sentence."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from saddlewalk.errors import InputError, nearest
from saddlewalk.features.encoding import is_frame
from saddlewalk.features.rfm import UPDATES

_SMALLEST_LEAF = 10


def check_settings(model: Any) -> None:
    """Refuse what cannot be fitted.

    Parameters
    ----------
    model : an estimator.
    """
    if model.update is not None and model.update not in (known := ["auto", *UPDATES]):
        raise InputError(
            f"Unknown update {model.update!r}.{nearest(str(model.update), known)} Or None, for no updates."
        )
    if not _is_auto(model.ridge) and not _at_least(model.ridge, 0):
        raise InputError(f"The ridge must not be negative, or be 'auto'; got {model.ridge!r}.")
    if not isinstance(model.iterations, Integral) or model.iterations < 0:
        raise InputError(f"iterations must be a whole number from 0 on; got {model.iterations!r}.")
    if model.patience is not None and not _at_least(model.patience, 1):
        raise InputError(f"patience must be at least 1, or None; got {model.patience!r}.")
    if not _at_least(model.agop_power, 0) or model.agop_power == 0:
        raise InputError(f"agop_power must be a positive number; got {model.agop_power!r}.")
    _check_kernel(model)
    if not _is_auto(model.dtype) and _name_of(model.dtype) not in ("float32", "float64"):
        raise InputError(f"dtype must be 'auto', 'float32' or 'float64'; got {model.dtype!r}.")
    part = model.validation_fraction
    if part is not None and not (_at_least(part, 0) and 0 < part < 1):
        raise InputError(f"validation_fraction must lie between 0 and 1, or be None; got {part!r}.")
    for name in ("diagonal", "warm_start"):
        if not isinstance(getattr(model, name), bool | np.bool_):
            raise InputError(f"{name} must be True or False; got {getattr(model, name)!r}.")
    if not isinstance(model.standardize, bool | np.bool_) and model.standardize != "auto":
        raise InputError(f"standardize must be True, False or 'auto'; got {model.standardize!r}.")
    _check_numbers_of(model.max_features, model.leaf_size)


def check_numbers(y: Any) -> None:
    """Refuse words as the targets of a regression.

    Parameters
    ----------
    y : targets.
    """
    found = np.asarray(y)
    word = found.dtype.kind in "US" or (
        found.dtype.kind == "O" and any(isinstance(value, str) for value in found.ravel())
    )
    if word:
        raise InputError(
            f"The targets are words, as {str(found.ravel()[0])!r}. Take RFMClassifier for classes."
        )


def check_columns(table: Any) -> None:
    """Refuse what is neither a number nor a category, and names that are not one column's.

    Parameters
    ----------
    table : an array or a pandas frame.
    """
    if is_frame(table):
        _check_frame(table)
    elif isinstance(table, list | tuple | np.ndarray) and _has_words(table):
        raise InputError(
            "The table has words, and is no frame. Give a pandas frame: its words are categories."
        )


def _check_frame(table: Any) -> None:
    import pandas as pd

    repeated = table.columns[table.columns.duplicated()]
    if len(repeated):
        raise InputError(f"The table has two columns '{repeated[0]}'. Give each a name of its own.")
    for name, kind in table.dtypes.items():
        if kind.kind in "mM" or isinstance(kind, pd.PeriodDtype | pd.IntervalDtype):
            what = "an interval" if isinstance(kind, pd.IntervalDtype) else "a date"
            raise InputError(
                f"Column '{name}' is {what}. Make numbers of it, as days since some day, or categories."
            )


def _has_words(table: Any) -> bool:
    try:
        values = np.asarray(table)
    except ValueError:  # rows of several lengths: scikit-learn says so
        return False
    objects = values.dtype.kind == "O"
    return values.dtype.kind in "US" or (
        objects and any(isinstance(one, str) for one in np.ravel(values))
    )


def check_labels(labels: Any) -> None:
    """Refuse classes that are missing.

    Parameters
    ----------
    labels : of the samples.
    """
    found = np.asarray(labels, dtype=object).ravel()
    kinds = [type(label).__name__ for label in found]  # pandas need not be there
    missing = [k for k, kind in enumerate(kinds) if kind in ("NoneType", "NAType")]
    if missing:
        raise InputError(
            f"The label of sample {missing[0]} is missing. Leave out samples that have none."
        )


def _check_kernel(model: Any) -> None:
    whole = _at_least(model.degree, 1) and model.degree == int(model.degree)
    if not whole or not _at_least(model.constant, 0):
        raise InputError(
            "A polynomial kernel has a whole degree from 1 on and a constant that is not negative; got "
            f"{model.degree!r} and {model.constant!r}."
        )
    if not _at_least(model.exponent, 0):
        raise InputError(f"The exponent must lie in (0, 2]; got {model.exponent!r}.")


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _at_least(value: Any, least: float) -> bool:
    """Whether it is a number, and not smaller."""
    return isinstance(value, Real) and bool(float(value) >= least)


def _name_of(dtype: Any) -> str:
    try:
        return np.dtype(dtype).name
    except TypeError:
        return ""


def _check_numbers_of(features: Any, leaf: Any) -> None:
    whole = isinstance(features, Integral)
    if features is not None and not (
        int(features) >= 1 if whole else isinstance(features, float) and 0 < features <= 1
    ):
        raise InputError(
            "max_features must be a whole number from 1 on, a part of all above 0 and up to 1, or None; "
            f"got {features!r}."
        )
    if leaf != "auto" and not (isinstance(leaf, Integral) and int(leaf) >= _SMALLEST_LEAF):
        raise InputError(
            f"leaf_size must be a whole number from {_SMALLEST_LEAF} on, or 'auto'; got {leaf!r}."
        )

"""Which samples are held out, to judge by: folds, or one part."""

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.utils import check_random_state

_FEW = 500
"""Up to so many samples there are five folds, else three."""
FEWEST_TO_JUDGE = 4
"""With fewer samples to judge by, none is held out."""


def folds(
    n: int, labels: np.ndarray | None, seed: Any, few: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Five for few samples, three for many, two where there are more; classes are shared out evenly.

    Parameters
    ----------
    n : number of samples.
    labels : their classes, or `None`.
    seed : as scikit-learn takes it.
    few : whether these are only some of the samples.
    """
    count = 2 if few else max(2, min(n, 5 if n <= _FEW else 3))
    drawn = check_random_state(seed).randint(2**31 - 1)
    if n < FEWEST_TO_JUDGE:
        return [(np.arange(n), np.arange(n))]
    if labels is not None and np.unique(labels, return_counts=True)[1].max() >= count:
        with warnings.catch_warnings():
            # a class with fewer samples than folds is in some of them
            warnings.simplefilter("ignore", UserWarning)
            cut = StratifiedKFold(count, shuffle=True, random_state=drawn)
            return list(cut.split(np.zeros(n), labels))
    return list(KFold(count, shuffle=True, random_state=drawn).split(np.zeros(n)))


def split(
    n: int, labels: np.ndarray | None, part: float | None, seed: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Samples to fit to, and to judge by: none where they would be too few.

    Parameters
    ----------
    n : number of samples.
    labels : their classes, or `None`.
    part : of the samples that is held out, or `None` for none.
    seed : as scikit-learn takes it.
    """
    everything = np.arange(n)
    if part is None or n * part < FEWEST_TO_JUDGE:
        return everything, everything[:0]
    strata = labels
    if labels is not None:
        counts = np.unique(labels, return_counts=True)[1]
        judging = int(part * n)
        if counts.min() < 2 or min(judging, n - judging) <= len(counts):
            strata = None
    drawn = check_random_state(seed).randint(2**31 - 1)
    rows, held = train_test_split(everything, test_size=part, random_state=drawn, stratify=strata)
    return np.sort(rows), np.sort(held)

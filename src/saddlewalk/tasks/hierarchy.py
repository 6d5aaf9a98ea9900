r"""Random Hierarchy Model: a class is spelled by s symbols, each of those by s others, L times.

Every symbol of a level has m spellings (rules) of s symbols of the level below, drawn once at random;
no spelling belongs to two symbols, so a datum has one class. There are
:math:`n_c\, m^{(s^L - 1)/(s - 1)}` data: a class and one of m spellings at every node of the tree.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from saddlewalk.errors import InputError

Data = tuple[Float[np.ndarray, "_ inputs"], Int[np.ndarray, " _"]]
"""One-hot inputs in float32 and the classes."""
_MOST_DATA = 2**62
"""Data are numbered with 64-bit integers."""
_SHUFFLED, _BLOCK = 2**22, 2**16
"""More data than this are not put in order as a whole, but drawn in blocks."""


@dataclass(frozen=True, eq=False)
class RandomHierarchy:
    """The rules of one hierarchy. Make one with `random_hierarchy`, which checks.

    `rules[l][symbol, choice]` is a spelling, s symbols of the level below; `rules[0]` spells the classes
    and the last level is what a network sees.

    Parameters
    ----------
    vocabulary : symbols of a level, v.
    rules : spellings `(symbols, m, s)` of each level, from the classes down.
    """

    vocabulary: int
    rules: tuple[Int[np.ndarray, "_ m s"], ...]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.rules[0].shape[0]

    @property
    def synonyms(self) -> int:
        """Spellings of a symbol, m."""
        return self.rules[0].shape[1]

    @property
    def branching(self) -> int:
        """Symbols of a spelling, s."""
        return self.rules[0].shape[2]

    @property
    def levels(self) -> int:
        """Depth of the hierarchy, L."""
        return len(self.rules)

    @property
    def length(self) -> int:
        """Symbols of a datum, s^L."""
        return self.branching**self.levels

    @property
    def inputs(self) -> int:
        """Numbers that a network sees, s^L v."""
        return self.length * self.vocabulary

    @property
    def total(self) -> int:
        """Number of different data."""
        return self.classes * self.synonyms ** _nodes(self.branching, self.levels)

    def spell(
        self, index: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, "n length"], Int[np.ndarray, " n"]]:
        """Symbols and classes of the data with these numbers, from 0 to `total` - 1."""
        left, labels = np.divmod(index, self.classes)
        symbols = labels[:, None]
        for rule in self.rules:
            choices = np.empty_like(symbols)
            for node in range(symbols.shape[1]):
                left, choices[:, node] = np.divmod(left, self.synonyms)
            symbols = rule[symbols, choices].reshape(len(labels), -1)
        return symbols, labels

    def encode(self, symbols: Int[np.ndarray, "n length"]) -> Float[np.ndarray, "n inputs"]:
        """One-hot symbols, flattened: zeros and ones, neither centered nor scaled."""
        return np.eye(self.vocabulary, dtype=np.float32)[symbols].reshape(len(symbols), -1)

    def draw(self, samples: int, seed: int = 0) -> Data:
        """Different data, all equally likely; a larger draw with the same seed begins with a smaller one."""
        if not 1 <= samples <= self.total:
            raise InputError(
                f"{samples} different data were asked for; this hierarchy has {self.total}."
            )
        symbols, labels = self.spell(_distinct_numbers(self.total, samples, seed))
        return self.encode(symbols), labels

    def split(self, train: int, test: int, seed: int = 0) -> tuple[Data, Data]:
        """Training and test data without a common datum; more training data leave the test data as they are,
        and add to the training data."""
        if min(train, test) < 1:
            raise InputError(f"A split needs data on both sides; got {train} and {test}.")
        x, y = self.draw(train + test, seed)
        return (x[test:], y[test:]), (x[:test], y[:test])


def random_hierarchy(
    classes: int = 8,
    vocabulary: int = 8,
    synonyms: int = 4,
    branching: int = 2,
    levels: int = 3,
    seed: int = 0,
) -> RandomHierarchy:
    """Draw the rules of a hierarchy: n_c classes, v symbols a level, m spellings of s symbols, L levels.

    Parameters
    ----------
    classes : number of classes, n_c.
    vocabulary : symbols of each level, v.
    synonyms : spellings of a symbol, m.
    branching : symbols of a spelling, s.
    levels : depth of the hierarchy, L.
    seed : seed of the rules.
    """
    _check_sizes(classes, vocabulary, synonyms, branching, levels)
    rng = np.random.default_rng(seed)
    symbols = [classes] + [vocabulary] * (levels - 1)
    return RandomHierarchy(
        vocabulary, tuple(_draw_rules(rng, n, vocabulary, synonyms, branching) for n in symbols)
    )


def _draw_rules(rng: np.random.Generator, symbols: int, v: int, m: int, s: int) -> np.ndarray:
    """Spellings `(symbols, m, s)`, all different: numbers below v^s, written with base v."""
    spelling = rng.choice(v**s, symbols * m, replace=False)
    digits = spelling[:, None] // v ** np.arange(s) % v
    return digits.reshape(symbols, m, s)


def _distinct_numbers(total: int, samples: int, seed: int) -> np.ndarray:
    """Different numbers below `total`."""
    rng = np.random.default_rng(seed)
    if total <= _SHUFFLED:
        return rng.permutation(total)[:samples]
    found = np.zeros(0, dtype=np.int64)
    while len(found) < samples:
        found = np.concatenate([found, rng.integers(total, size=_BLOCK)])
        found = found[np.sort(np.unique(found, return_index=True)[1])]
    return found[:samples]


def _nodes(branching: int, levels: int) -> int:
    """Inner nodes of the tree: each takes one of m spellings."""
    return sum(branching**level for level in range(levels))


def _check_sizes(classes: int, vocabulary: int, synonyms: int, branching: int, levels: int) -> None:
    least = {
        "classes": (classes, 1),
        "vocabulary": (vocabulary, 2),
        "synonyms": (synonyms, 1),
        "branching": (branching, 2),
        "levels": (levels, 1),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            raise InputError(f"A hierarchy needs {name} of at least {bound}; got {value}.")
    most = max(classes, vocabulary if levels > 1 else 0)
    spellings = vocabulary**branching
    if synonyms * most > spellings:
        raise InputError(
            f"{most} symbols with {synonyms} synonyms each need {synonyms * most} different spellings, "
            f"but {branching} symbols out of {vocabulary} make only {spellings}: lower `synonyms` "
            "or raise `vocabulary`."
        )
    # the bound on the exponent comes first: the power itself may be astronomically long
    nodes = _nodes(branching, min(levels, 7))
    if (
        spellings > _MOST_DATA
        or (synonyms > 1 and nodes > 62)
        or classes * synonyms**nodes > _MOST_DATA
    ):
        raise InputError(
            f"A hierarchy of {levels} levels with {synonyms} synonyms of {branching} symbols has more "
            "data than can be numbered: lower `levels`, `synonyms` or `branching`."
        )

"""Compiled programs, cheap to make and cheap to call.

A program is a function of trees. What is an array in them is an argument; all else (shapes, settings, kinds
of units) decides which program it is, and each is compiled once. `of` looks at the trees once and for all,
and what it gives takes arrays alone: a call then costs microseconds, where looking at the trees costs a
hundred.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

_FAST: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}
"""XLA's older way to make loops on CPUs: half the time to compile, and programs as fast."""
_PLAIN: dict[str, Any] = {**_FAST, "xla_backend_optimization_level": 0}
"""Not optimized: half of that time, and programs up to three times slower."""

_SMALL = 1000


def is_array(leaf: Any) -> bool:
    """Whether a leaf of a tree is an array of NumPy or JAX.

    Parameters
    ----------
    leaf : a leaf.
    """
    return isinstance(leaf, np.ndarray | np.generic | jax.Array)


class Program(Generic[P, R]):
    """A compiled function of trees.

    Parameters
    ----------
    function : what is compiled; its arguments are trees, whose arrays are traced.
    seldom : it is called a few times only, so that compiling it is what it costs.
    """

    def __init__(self, function: Callable[P, R], seldom: bool = False) -> None:
        self._function = function
        self._options = _PLAIN if seldom else _FAST
        self._known: dict[Hashable, Callable[..., Any]] = {}
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "program")
        self.__wrapped__ = function

    def __call__(self, *trees: P.args, **options: P.kwargs) -> R:
        """The function of these trees."""
        leaves, structure = jax.tree.flatten((trees, options))
        return self._program(leaves, structure, 0)(tuple(filter(is_array, leaves)))

    def of(self, *trees: Any) -> Callable[..., R]:
        """The function with its first arguments given, of further ones that hold arrays alone."""
        leaves, structure = jax.tree.flatten((trees, {}))
        arrays = tuple(_on_device(leaf) for leaf in leaves if is_array(leaf))
        program = self._program(leaves, structure, 1)
        return lambda *more: program(arrays, *more)

    def _program(self, leaves: list[Any], structure: Any, more: int) -> Callable[..., Any]:
        still = tuple(None if is_array(leaf) else (type(leaf), leaf) for leaf in leaves)
        key = (structure, still, more)
        if key not in self._known:

            def run(arrays: tuple[Any, ...], *further: Any) -> Any:
                ahead = iter(arrays)
                trees, options = structure.unflatten(
                    [next(ahead) if one is None else one[1] for one in still]
                )
                return self._function(*trees, *further, **options)

            run.__name__ = self.__name__
            options = self._options if jax.default_backend() == "cpu" else None
            self._known[key] = jax.jit(run, compiler_options=options)
        return self._known[key]


def _on_device(leaf: Any) -> Any:
    """Large arrays are taken to the device once; small ones go faster with each call."""
    return leaf if isinstance(leaf, jax.Array) or leaf.size <= _SMALL else jax.device_put(leaf)


def on_device(tree: Any) -> Any:
    """A tree with its arrays on the device: each call of a program then spends nothing on them.

    Parameters
    ----------
    tree : a tree with arrays of NumPy or JAX, and whatever else.
    """
    arrays, rest = eqx.partition(tree, is_array)
    return eqx.combine(jax.device_put(arrays), rest)


def fetched(tree: Any) -> Any:
    """A tree of arrays as NumPy has them, without the ceremony that `jax.device_get` makes of each.

    Parameters
    ----------
    tree : a tree of arrays.
    """
    return jax.tree.map(np.asarray, tree)


def compiled(function: Callable[P, R]) -> Program[P, R]:
    """A function of trees as a program that is called again and again.

    Parameters
    ----------
    function : what is compiled.
    """
    return Program(function)


def seldom(function: Callable[P, R]) -> Program[P, R]:
    """A function of trees as a program that is called a few times: between the pieces of a run.

    Parameters
    ----------
    function : what is compiled.
    """
    return Program(function, seldom=True)

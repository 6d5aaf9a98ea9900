"""Compiled programs, cheap to make and cheap to call.

A program is a function of trees. What is an array in them is an argument; all else (shapes, settings, kinds
of units) decides which program it is, and each is compiled once. `of` looks at the trees once and for all,
and what it gives takes arrays alone: a call then costs microseconds, where looking at the trees costs a
hundred.
"""

import math
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

_FAST: dict[str, Any] = (
    {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}
)
"""XLA's older way to make loops on CPUs: half the time to compile, and programs as fast. JAX 0.11 has the
new one alone, and refuses an option that it does not know."""
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
        return self.known(structure, _still(leaves), False)(tuple(filter(is_array, leaves)))

    def of(self, *trees: Any) -> Callable[..., R]:
        """The function with its first arguments given, of further ones that hold arrays alone."""
        return Bound(*trees).program(self)

    def known(self, structure: Any, still: tuple[Any, ...], packed: bool) -> Callable[..., Any]:
        """The compiled function for trees of this structure with these leaves that are no arrays."""
        key = (structure, still, packed)
        if key not in self._known:

            def run(arrays: tuple[Any, ...], *further: Any) -> Any:
                ahead = iter(arrays)
                trees, options = structure.unflatten(
                    [next(ahead) if one is None else one[1] for one in still]
                )
                if packed:
                    further = further[0].unpacked()
                result = self._function(*trees, *further, **options)
                return Packed.of(result, jnp) if packed else result

            run.__name__ = self.__name__
            options = self._options if jax.default_backend() == "cpu" else None
            self._known[key] = jax.jit(run, compiler_options=options)
        return self._known[key]


@jax.tree_util.register_pytree_node_class
class Packed:
    """A tree of arrays as one: each array that leaves a program costs microseconds.

    Parameters
    ----------
    numbers : all arrays, one after the other.
    plan : structure of the tree, and shape and kind of each array.
    """

    def __init__(self, numbers: Any, plan: Any) -> None:
        self.numbers, self.plan = numbers, plan

    @classmethod
    def of(cls, tree: Any, xp: Any = np) -> "Packed":
        """Of arrays of NumPy, or inside a program of JAX."""
        leaves, structure = jax.tree.flatten(tree)
        leaves = [xp.asarray(leaf) for leaf in leaves]
        plan = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        parts = [leaf.ravel() for leaf in leaves] or [xp.zeros(0)]
        numbers = xp.concatenate([part.astype(float) for part in parts] if xp is jnp else parts)
        return cls(numbers, (structure, plan))

    def unpacked(self) -> Any:
        """The tree, of NumPy outside and of JAX inside of a program."""
        structure, plan = self.plan
        inside = isinstance(self.numbers, jax.core.Tracer)
        numbers = self.numbers if inside else np.asarray(self.numbers)
        leaves, at = [], 0
        for shape, kind in plan:
            end = at + math.prod(shape)
            part = numbers[at:end] if len(shape) == 1 else numbers[at:end].reshape(shape)
            leaves.append(part if kind == numbers.dtype else part.astype(kind))
            at = end
        return structure.unflatten(leaves)

    def tree_flatten(self) -> tuple[tuple[Any], Any]:
        """For JAX."""
        return (self.numbers,), self.plan

    @classmethod
    def tree_unflatten(cls, plan: Any, children: tuple[Any]) -> "Packed":
        """For JAX."""
        return cls(*children, plan)


class Bound:
    """Trees that were looked at once, as the first arguments of many programs.

    Parameters
    ----------
    *trees : the first arguments.
    """

    def __init__(self, *trees: Any) -> None:
        leaves, self._structure = jax.tree.flatten((trees, {}))
        self._arrays = tuple(_on_device(leaf) for leaf in leaves if is_array(leaf))
        self._still = _still(leaves)
        self._programs: dict[Program, Callable[..., Any]] = {}

    def program(self, program: Program[Any, R]) -> Callable[..., R]:
        """A program of these trees, and of further ones that hold arrays alone."""
        function, arrays = program.known(self._structure, self._still, False), self._arrays
        return lambda *more: function(arrays, *more)

    def __call__(self, program: Program[Any, Any], *more: Any) -> Any:
        """What a program says of these trees and some arrays, as NumPy has it."""
        if program not in self._programs:
            self._programs[program] = program.known(self._structure, self._still, True)
        return self._programs[program](self._arrays, Packed.of(more)).unpacked()


def _still(leaves: list[Any]) -> tuple[Any, ...]:
    """The leaves that are no arrays, in their places."""
    return tuple(None if is_array(leaf) else (type(leaf), leaf) for leaf in leaves)


def _on_device(leaf: Any) -> Any:
    """Large arrays are taken to the device once; small ones go faster with each call."""
    return leaf if isinstance(leaf, jax.Array) or leaf.size <= _SMALL else jax.device_put(leaf)


def on_device(tree: Any) -> Any:
    """A tree with its arrays on the device: each call of a program then spends nothing on them.

    Parameters
    ----------
    tree : a tree with arrays of NumPy or JAX, and whatever else.
    """
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [jax.device_put(x) if is_array(x) else x for x in leaves])


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

"""Programs that are bound once: what they say is what the plain function says, of every kind of array."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import saddlewalk as sw
from saddlewalk.programs import Bound, Packed, compiled


class Answer(NamedTuple):
    sums: object
    large: object
    count: object


@compiled
def answer(name, matrix, vector, numbers):
    scale = {"twice": 2.0, "once": 1.0}[name]
    product = scale * matrix @ vector
    return Answer(product + numbers["shift"], product > 0, {"n": jnp.sum(product > 0)})


def test_a_bound_program_says_what_the_function_says():
    rng = np.random.default_rng(0)
    matrix, vector = rng.normal(size=(3, 4)), rng.normal(size=4)
    with sw.float64():
        for name, scale in (("twice", 2.0), ("once", 1.0)):
            got = Bound(name, matrix)(answer, vector, {"shift": np.float64(0.5)})
            np.testing.assert_allclose(got.sums, scale * matrix @ vector + 0.5, rtol=1e-14)
            np.testing.assert_array_equal(got.large, matrix @ vector > 0)
            assert got.large.dtype == bool
            assert got.count["n"] == (matrix @ vector > 0).sum()
            assert np.issubdtype(got.count["n"].dtype, np.integer)


def test_packing_keeps_shapes_kinds_and_the_last_digit():
    tree = {"a": np.array([[1e-300, np.pi]]), "b": (np.array([True, False]), np.int64(2**50 + 1))}
    back = Packed.of(tree).unpacked()
    np.testing.assert_array_equal(back["a"], tree["a"])
    assert back["b"][0].tolist() == [True, False]
    assert int(back["b"][1]) == 2**50 + 1
    assert Packed.of(()).unpacked() == ()

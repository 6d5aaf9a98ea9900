"""Groups and their representations: against the axioms, Schur's relations and tables from textbooks."""

import itertools
import math

import numpy as np
import pytest

import saddlewalk as sw
from saddlewalk import groups

SMALL = [
    "C2",
    "C7",
    "C10",
    "C4xC4",
    "C5xC5",
    "D3",
    "D4",
    "D5",
    "S3",
    "S4",
    "A4",
    "A5",
    "Q8",
    "Q12",
    "O",
    "Oh",
    "Q8xC3",
    "D5xC2",
]
LARGE = [
    "S5",
    "C200",
    "D100",
    "Q200",
    "A5xC3",
    "D7xD7",
    "C2xC2xC2xC2xC2xC2xC2",
    "Q8xQ8xC3",
    "A4xA4",
]
TYPES = {
    "C7": [(1, "real"), (2, "complex"), (2, "complex"), (2, "complex")],
    "D4": [(1, "real")] * 4 + [(2, "real")],
    "S4": [(1, "real"), (1, "real"), (2, "real"), (3, "real"), (3, "real")],
    "S5": [(d, "real") for d in (1, 1, 4, 4, 5, 5, 6)],
    "A4": [(1, "real"), (2, "complex"), (3, "real")],
    "A5": [(d, "real") for d in (1, 3, 3, 4, 5)],
    "Q8": [(1, "real")] * 4 + [(4, "quaternionic")],
}
"""Textbooks: dimension and type of the real irreducible representations."""


def multiplied(one, group):
    """rho(g) rho(h) for all pairs, by plain matrix products."""
    return np.einsum("gij,hjk->ghik", one.matrices, one.matrices, optimize=True)


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_representations_to_twelve_digits(name):
    """Homomorphism, Schur's relations within and between, completeness."""
    group = groups.group_named(name)
    every = group.representations
    assert sum(one.dimension * one.multiplicity for one in every) == group.order
    characters = np.stack([one.character for one in every])
    norms = np.diag([one.commutant for one in every])
    np.testing.assert_allclose(characters @ characters.T / group.order, norms, atol=1e-12)
    # Schur: coefficients are orthogonal, up to what commutes
    for one in every:
        assert np.abs(multiplied(one, group) - one.matrices[group.table]).max() < 1e-12
        eye = np.eye(one.dimension)
        assert np.abs(one.matrices @ np.swapaxes(one.matrices, 1, 2) - eye).max() < 1e-12
        columns = np.einsum("gij,gkj->ik", one.matrices, one.matrices) / group.order
        np.testing.assert_allclose(columns, eye, atol=1e-12)
        for other in one.commuting:
            moved = one.matrices @ other - other @ one.matrices
            assert np.abs(moved).max() < 1e-12
    columns = np.concatenate([one.matrices.reshape(group.order, -1) for one in every], axis=1)
    if group.order <= 60:  # all functions are spanned
        assert np.linalg.matrix_rank(columns) == group.order


@pytest.mark.parametrize("name", TYPES)
def test_dimensions_and_types_of_textbooks(name):
    found = groups.group_named(name).representations
    assert [(one.dimension, one.type) for one in found] == TYPES[name]
    assert found[0].name == "trivial"
    assert len({one.name for one in found}) == len(found)


def test_as_many_real_representations_as_real_classes():
    for name in SMALL:
        group = groups.group_named(name)
        real = sum(int(group.inverse[one[0]]) in one for one in group.classes)
        paired = (len(group.classes) - real) // 2
        assert len(group.representations) == real + paired


@pytest.mark.parametrize("name", SMALL)
def test_transform_and_back(name):
    group = groups.group_named(name)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, group.order))
    transform = groups.fourier(group, x)
    np.testing.assert_allclose(groups.from_fourier(group, transform), x, atol=1e-12)
    power = sum(
        one.multiplicity / group.order * np.sum(transform[one.name] ** 2)
        for one in group.representations
    )
    assert power == pytest.approx(x @ x, rel=1e-12)
    # a convolution is a product, in the other order
    both = np.zeros(group.order)
    for a, b in itertools.product(range(group.order), repeat=2):
        both[group.table[a, b]] += x[a] * y[b]
    other, mixed = groups.fourier(group, y), groups.fourier(group, both)
    for key, matrix in mixed.items():
        np.testing.assert_allclose(matrix, other[key] @ transform[key], atol=1e-10)
    # translation by g is rho(g) from the right side of the transposed sum
    g = group.order - 1
    moved = groups.fourier(group, group.orbit(x)[g])
    for one in group.representations:
        np.testing.assert_allclose(
            moved[one.name], transform[one.name] @ one.matrices[g].T, atol=1e-12
        )


@pytest.mark.parametrize("p", [7, 8])
def test_cyclic_groups_have_the_discrete_fourier_transform(p):
    x = np.random.default_rng(p).normal(size=p)
    transform, plain = groups.fourier(groups.cyclic(p), x), np.fft.rfft(x)
    for k in range(1, p // 2 + 1):
        matrix = transform[f"frequency-{k}"]
        assert matrix[0, 0] == pytest.approx(plain[k].real, abs=1e-12)
        if 2 * k < p:
            assert matrix[1, 0] == pytest.approx(plain[k].imag, abs=1e-12)
    given = {1: 2 - 3j, 2: 1.0}
    half = np.zeros(p // 2 + 1, complex)
    half[1], half[2] = 2 - 3j, 1.0
    np.testing.assert_allclose(
        groups.from_fourier(groups.cyclic(p), given), np.fft.irfft(half, p), atol=1e-15
    )


def test_singular_values_come_as_often_as_the_type_says():
    rng = np.random.default_rng(1)
    for name in ("Q8", "A5xC3", "S4"):
        group = groups.group_named(name)
        transform = groups.fourier(group, rng.normal(size=group.order))
        for one in group.representations:
            every = np.linalg.svd(transform[one.name], compute_uv=False)
            distinct = groups.singular_values(one, transform[one.name])
            np.testing.assert_allclose(np.repeat(distinct, one.commutant), every, atol=1e-9)


def test_the_same_group_from_permutations_matrices_and_its_table():
    cube, square = groups.octahedral(), groups.symmetric(4)
    assert {len(c) for c in cube.classes} == {len(c) for c in square.classes}
    for group in (cube, square, groups.dihedral(6), groups.quaternion(16)):
        again = groups.from_table(group.table, "again", group.elements)
        assert again.order == group.order
        kinds = [[(one.dimension, one.type) for one in g.representations] for g in (group, again)]
        assert kinds[0] == kinds[1]
    turn = 2 * math.pi / 5 * np.array([[0, -1], [1, 0]])
    rotation = np.cos(2 * math.pi / 5) * np.eye(2) + np.sin(
        2 * math.pi / 5
    ) * turn / np.linalg.norm(turn, 2)
    d5 = groups.from_matrices([rotation, np.diag([1.0, -1.0])], "mine")
    assert d5.order == 10
    assert [one.dimension for one in d5.representations] == [1, 1, 2, 2]
    assert groups.from_permutations([[1, 2, 0]]).elements == ("e", "(1 2 3)", "(1 3 2)")
    assert groups.group_with_table("D5", groups.dihedral(5).table).representation("2d-2")
    assert groups.group_with_table("mine", groups.dihedral(5).table).name == "mine"


def test_products_compose_from_left_to_right():
    group = groups.symmetric(4)
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(0, 24, size=(3, 5))
    for one in group.representations:
        product = one.matrices[a] @ one.matrices[b] @ one.matrices[c]
        np.testing.assert_allclose(product, one.matrices[group.compose(a, b, c)], atol=1e-12)
    assert not group.commutative
    assert groups.cyclic(5).commutative
    assert "conjugacy classes" in str(group)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, 1], [1, 2]], "not closed: the product of 1 and 1 is 2"),
        ([[0, 1], [1, 0.5]], "not closed"),
        ([[1, 1], [1, 1]], "no identity"),
        ([[0, 1], [1, 1]], "element 1 has no inverse"),
        (
            [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]],
            "not associative",
        ),
        ([[0, 1]], "must be square"),
        ([["a"]], "whole numbers"),
        ([], "must be square"),
    ],
)
def test_a_table_of_no_group_is_told_why(table, message):
    with pytest.raises(sw.InputError, match=message):
        groups.from_table(table)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: groups.group_named("E8"), "no group 'E8'"),
        (lambda: groups.group_named("S9"), "below 7; got 9"),
        (lambda: groups.cyclic(1), "at least 2 and below 2001; got 1"),
        (lambda: groups.dihedral(2), "at least 3"),
        (lambda: groups.quaternion(10), "8, 12, 16"),
        (lambda: groups.product(), "at least one group"),
        (lambda: groups.product(groups.symmetric(5), groups.symmetric(5)), "14400 elements"),
        (lambda: groups.from_permutations([[0, 0, 1]]), "each of 0 to 2 once"),
        (lambda: groups.from_permutations([]), "at least one generator"),
        (lambda: groups.from_matrices([[[2.0]]]), "determinant 1 or -1"),
        (lambda: groups.from_matrices([[[1.0, 1.0], [0.0, 1.0]]]), "Is the group finite"),
        (lambda: groups.from_matrices([[1.0, 2.0]]), "square matrices"),
        (lambda: groups.from_table(np.zeros((1, 1)), elements=["a", "b"]), "name 1 elements"),
        (lambda: groups.dihedral(5).representation("3d"), "no representation '3d'"),
        (lambda: groups.from_fourier(groups.dihedral(5), {"2d-3": 1.0}), "Did you mean"),
        (lambda: groups.from_fourier(groups.dihedral(5), {"2d-1": 1j}), "must be real"),
        (lambda: groups.from_fourier(groups.dihedral(5), {"2d-1": np.nan}), "finite"),
        (lambda: groups.from_fourier(groups.dihedral(5), {"2d-1": [1.0, 2.0, 3.0]}), "2 singular"),
        (lambda: groups.from_fourier(groups.cyclic(5), {1: [1.0, 2.0]}), "matrix of shape"),
        (
            lambda: groups.from_fourier(groups.cyclic(5), {1: np.diag([1.0, 2.0])}),
            "No real function",
        ),
        (lambda: groups.from_fourier(groups.cyclic(5), {1: "a"}), "must be numbers"),
    ],
)
def test_bad_groups_and_coefficients(make, message):
    with pytest.raises(sw.InputError, match=message):
        make()

"""Composition in groups: utilities, parts and exact networks against sums over all tuples and ascent."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

import saddlewalk as sw
from saddlewalk import groups
from saddlewalk.theory import composition
from saddlewalk.theory.base import Start
from saddlewalk.theory.composition.deep import exact_sizes
from saddlewalk.theory.composition.theory import order_by_power

QUADRATIC = ["C5", "C7", "C10", "C3xC3", "C2xC2", "D3", "D4", "D5", "Q8", "Q12", "A4", "S4"]
CUBIC = ["C3", "C4", "C5", "C6", "C7", "C3xC3", "C2xC2", "D3", "D4", "D5", "Q8", "A4"]
QUICK = [("C5", 2), ("D3", 2), ("Q8", 2), ("A4", 2), ("C5", 3), ("D3", 3)]
ASCENTS = [
    pytest.param(name, k, marks=() if (name, k) in QUICK else pytest.mark.slow)
    for k, names in ((2, QUADRATIC), (3, CUBIC))
    for name in names
]


def random_encoding(group, seed=0):
    x = np.random.default_rng(seed).normal(size=group.order)
    return x - x.mean()


@functools.cache
def tuples_of(name, k):
    """All tuples and their products, by loops over the table."""
    group = groups.group_named(name)
    tuples = list(itertools.product(range(group.order), repeat=k))
    products = [functools.reduce(lambda a, b: group.table[a, b], one) for one in tuples]
    return np.array(tuples), np.array(products)


def words(group, x):
    """Row g is g . x, by its definition."""
    return np.array(
        [
            [x[group.table[group.inverse[g], h]] for h in range(group.order)]
            for g in range(group.order)
        ]
    )


def brute(name, k, x):
    """Inputs of each factor, and targets, over all tuples."""
    tuples, products = tuples_of(name, k)
    every = words(groups.group_named(name), x)
    return [every[tuples[:, i]] for i in range(k)], every[products]


def ascend(inputs, target, start):
    """The largest utility E<f, y> of a neuron of norm 1 that L-BFGS climbs to, on its plain definition."""
    k, n = len(inputs), target.shape[1]

    def negative(t):
        size = np.linalg.norm(t)
        parts = np.split(t / size, k + 1)
        seen = sum(a @ u for a, u in zip(inputs, parts[:-1], strict=True))
        pull = target @ parts[-1]
        value = np.mean(seen**k * pull)
        slope = k * seen ** (k - 1) * pull
        full = np.concatenate([*(slope @ a for a in inputs), seen**k @ target]) / len(target)
        return -value, -(full - (k + 1) * value * t / size) / size

    scale = 1 / max(
        1e-300, abs(negative(start)[0])
    )  # so that the optimizer sees numbers of order 1
    run = minimize(
        lambda t: tuple(scale * np.asarray(one) for one in negative(t)),
        start,
        jac=True,
        method="L-BFGS-B",
        options={"gtol": 1e-13 * scale, "ftol": 1e-16, "maxiter": 2000},
    )
    assert len(start) == (k + 1) * n
    return -negative(run.x)[0]


@pytest.mark.parametrize(("name", "k"), ASCENTS)
def test_largest_utility_is_what_ascent_on_the_sphere_finds(name, k):
    """In each representation alone, and over all of them, to 1e-10; the encoding is a random one."""
    group = groups.group_named(name)
    x = random_encoding(group, 1)
    rng = np.random.default_rng(2)
    transform = groups.fourier(group, x)
    best = {}
    for one in group.representations[1:]:
        alone = groups.from_fourier(group, {one.name: transform[one.name]})
        data = brute(name, k, alone)
        formula = composition.maximal_utility(
            group.order, one.dimension, np.linalg.norm(transform[one.name], 2), k
        )
        starts = rng.normal(size=(3, (k + 1) * group.order))
        found = max(ascend(*data, start) for start in starts)
        assert found == pytest.approx(formula, rel=1e-10)
        best[one.name] = formula
    top = max(best, key=best.get)
    peak = composition.maximizer(group, x, group.representation(top), (0,) * k)
    near = peak + 0.05 * rng.normal(size=peak.shape) / math.sqrt(len(peak))
    data = brute(name, k, x)
    assert ascend(*data, near) == pytest.approx(best[top], rel=1e-10)
    assert max(ascend(*data, start) for start in starts) <= best[top] * (1 + 1e-10)


@pytest.mark.parametrize(
    ("name", "k"), [("D3", 2), ("Q8", 2), ("A4", 2), ("C5", 3), ("D3", 3), ("C3", 4)]
)
def test_utility_by_convolutions_is_the_sum_over_all_tuples(name, k):
    group = groups.group_named(name)
    x = random_encoding(group, 3)
    theta = np.random.default_rng(0).normal(size=(4, (k + 1) * group.order))
    *readers, w = np.split(theta, k + 1, axis=1)
    inputs, target = brute(name, k, x)
    seen = sum(a @ u.T for a, u in zip(inputs, readers, strict=True))
    direct = np.mean(seen**k * (target @ w.T), axis=0)
    np.testing.assert_allclose(
        composition.utility(group, x, np.stack(readers), w), direct, rtol=1e-9
    )


@pytest.mark.parametrize(
    ("name", "k"), [("D3", 2), ("S4", 2), ("A4", 2), ("Q8", 2), ("D3", 3), ("C6", 3)]
)
def test_aligned_neurons_have_the_utility_of_their_part(name, k):
    group = groups.group_named(name)
    x = random_encoding(group, 4)
    inputs, target = brute(name, k, x)
    free = np.random.default_rng(5)
    for part in sw.tasks.group_composition(group, k, x).parts():
        one = part.representation
        pairs = tuple(p.places[0] - 1 for p in (*part.read, part.written))
        theta = composition.maximizer(group, x, one, pairs, free.normal(size=one.dimension))
        *readers, w = np.split(theta, k + 1)
        seen = sum(a @ u for a, u in zip(inputs, readers, strict=True))
        assert np.linalg.norm(theta) == pytest.approx(1.0)
        direct = np.mean(seen**k * (target @ w))
        assert direct == pytest.approx(composition.part_utility(part, group.order), rel=1e-9)


def test_every_representation_is_a_local_maximum():
    """Against Theorem 5.1: ascent from nearby comes back to a representation that is not the best."""
    group = groups.dihedral(5)
    x = groups.from_fourier(group, {"2d-1": 4.0, "2d-2": 3.0, "sign": 2.0})
    data = brute("D5", 2, x)
    rng = np.random.default_rng(0)
    for name, size in (("2d-1", 4.0), ("2d-2", 3.0), ("sign", 2.0)):
        one = group.representation(name)
        value = composition.maximal_utility(10, one.dimension, size, 2)
        peak = composition.maximizer(group, x, one, (0, 0))
        for _ in range(3):
            assert ascend(*data, peak + 0.02 * rng.normal(size=30)) == pytest.approx(
                value, rel=1e-9
            )


@pytest.mark.parametrize(
    ("name", "k"), [("D3", 2), ("A4", 2), ("Q8", 2), ("D3", 3), ("C5", 3), ("C3", 4)]
)
def test_parts_add_up_to_the_target_and_are_orthogonal(name, k):
    group = groups.group_named(name)
    x = random_encoding(group, 5)
    task = sw.tasks.group_composition(group, k, x)
    _, target = brute(name, k, x)
    np.testing.assert_array_equal(task.y, target)
    modes, parts = task.modes(), task.parts()
    np.testing.assert_allclose(modes.parts.sum(axis=0), target, atol=1e-12)
    flat = modes.parts.reshape(len(parts), -1) / math.sqrt(len(target))
    shares = np.diag([2 * part.share(group.order) for part in parts])
    np.testing.assert_allclose(flat @ flat.T, shares, atol=1e-12)
    assert {"kind", "name", "dimension", "type", "part"} == set(modes.names[0])


@pytest.mark.parametrize(
    ("name", "k", "neurons"),
    [
        ("C5", 2, 12),
        ("C6", 2, 14),
        ("D3", 2, 18),
        ("Q8", 2, 38),
        ("A4", 2, 60),
        ("C5", 3, 32),
        ("D3", 3, 68),
    ],
)
def test_exact_networks_compose_exactly(name, k, neurons):
    """As many neurons as counted; depth instead of width composes as exactly."""
    group = groups.group_named(name)
    x = random_encoding(group, 6)
    task = sw.tasks.group_composition(group, k, x)
    theta = composition.exact_network(group, x, k)
    assert len(theta) == neurons == exact_sizes(group, x, k)["two layers"].width
    every = groups.present(group, x)
    assert neurons == sum(composition.neurons_needed(one, k) for one in every)
    with sw.float64():
        assert float(sw.Problem(task, sw.units.PowerOfSum(neurons, k)).loss(theta)) < 1e-25


@pytest.mark.parametrize(("name", "k"), [("C5", 3), ("D3", 3), ("D3", 4), ("Q8", 3), ("C3", 5)])
def test_deep_networks_compose_exactly_with_few_neurons(name, k):
    group = groups.group_named(name)
    x = random_encoding(group, 7)
    task = sw.tasks.group_composition(group, k, x)
    for make in (composition.recurrent_network, composition.tree_network):
        units, theta = make(group, x, k)
        with sw.float64():
            problem = sw.Problem(task, units)
            assert theta.shape == (problem.width, problem.size)
            assert float(problem.loss(theta)) < 1e-22
    sizes = exact_sizes(group, x, k)
    assert sizes["recurrent"].depth == k - 1
    assert sizes["tree"].depth == math.ceil(math.log2(k))
    wider = exact_sizes(group, x, k + 1)
    assert wider["recurrent"].width == sizes["recurrent"].width
    assert wider["two layers"].width >= 2 * sizes["two layers"].width


def test_a_singular_encoding_has_no_exact_network():
    group = groups.dihedral(3)
    x = groups.from_fourier(group, {"2d": np.diag([2.0, 0.0])})
    with pytest.raises(sw.InputError, match="singular at '2d'"):
        composition.exact_network(group, x, 2)
    task = sw.tasks.group_composition(group, 2, x)
    outcome, audit = outcome_and_audit(task, 18)
    # only one of the two ways to read is seen
    assert [s.loss for s in outcome.stages] == pytest.approx([outcome.initial_loss / 2])
    assert "never seen" in failed(audit)


def outcome_and_audit(task, width, scale=1e-2):
    problem = sw.Problem(task, sw.units.PowerOfSum(width, task.factors))
    with sw.float64():
        theory = composition.CompositionTheory(Start(problem, scale))
        return theory.closed, theory.audit


def failed(audit):
    return " | ".join(assumption.name for assumption in audit if not assumption.holds)


def test_levels_with_unequal_singular_values():
    """D3, s = (4, 2): four stages, by hand."""
    task = sw.tasks.group_composition("D3", 2, {"2d": [4.0, 2.0]})
    outcome, audit = outcome_and_audit(task, 18)
    assert outcome.initial_loss == pytest.approx(10 / 3)
    np.testing.assert_allclose([s.loss for s in outcome.stages], [2, 2 / 3, 1 / 3, 0], atol=1e-12)
    parts = ["pair 1 via 1", "pair 1 via 2", "pair 2 via 1", "pair 2 via 2"]
    assert [s.feature["part"] for s in outcome.stages] == parts
    assert outcome.stages[0].learned == "2d pair 1 via 1"
    assert not failed(audit)
    tied = sw.tasks.group_composition("S4", 2, {"3d-1": [3.0, 3.0, 1.0]})
    assert {part.name for part in tied.parts()} == {
        "pair 1+2 via 1+2",
        "pair 1+2 via 3",
        "pair 3 via 1+2",
        "pair 3 via 3",
    }


@pytest.mark.parametrize("p", [7, 8])
def test_modular_addition_is_the_cyclic_case(p):
    """The same task, levels, utilities and times from the two theories."""
    spectrum = {1: 4.0, 2: 2 + 1j, p // 2: 1.5}
    modular = sw.tasks.modular_addition(p, spectrum)
    cyclic = sw.tasks.group_composition(f"C{p}", 2, spectrum)
    np.testing.assert_allclose(cyclic.encoding, modular.encoding, atol=1e-15)
    np.testing.assert_array_equal(
        modular.x, sw.tasks.group_composition(f"C{p}", 2, modular.encoding).x
    )
    frequencies = sw.predict(modular, sw.units.QuadraticPair(20), 1e-2, method="closed")
    representations = sw.predict(cyclic, sw.units.PowerOfSum(20, 2), 1e-2, method="closed")
    np.testing.assert_allclose(representations.loss_levels, frequencies.loss_levels, atol=1e-12)
    np.testing.assert_allclose(representations.jump_times, frequencies.jump_times, rtol=1e-12)
    names = [f"frequency-{stage.feature['frequency']}" for stage in frequencies.stages]
    assert [stage.feature["name"] for stage in representations.stages] == names


def test_the_order_is_not_that_of_power():
    """An operator norm with a penalty on the dimension; the walk from a start says the same."""
    task = sw.tasks.group_composition("D3", 2, {"2d": 3.0, "sign": 3.6})
    assert order_by_power(task) == ("2d", "sign")
    assert [part.representation.name for part in composition.ordered_parts(task)] == ["sign", "2d"]
    stairs = sw.predict(task, sw.units.PowerOfSum(14, 2), 0.03)
    first = stairs.stages[0].feature
    assert (first["kind"], first["name"], first["dimension"]) == ("representation", "sign", 1)
    one_hot = sw.tasks.group_composition("C6")
    assert composition.ordered_parts(one_hot)[0].representation.name == "frequency-3"


@pytest.mark.parametrize(
    ("encoding", "width", "words"),
    [
        ({"2d": 3.0, "sign": 2.6}, 18, "2d and sign differ by"),
        ({"2d": 3.0, "sign": 1.6}, 10, "too few to learn sign fully"),
        ({"2d": 3.0, "sign": 1.6}, 8, "too few to learn 2d, sign fully"),
    ],
)
def test_audit_names_what_fails(encoding, width, words):
    outcome, audit = outcome_and_audit(sw.tasks.group_composition("D3", 2, encoding), width)
    assert words in failed(audit)
    assert len(outcome.stages) == (2 if width == 18 else 1 if width == 10 else 0)


def test_audit_of_drawn_tuples():
    task = sw.tasks.group_composition("S4", 3, {"sign": 3.0}, samples=500)
    assert not task.complete
    _, audit = outcome_and_audit(task, 8)
    assert "all tuples" in failed(audit)
    _, audit = outcome_and_audit(sw.tasks.group_composition("D3", 2, {"2d": 3.0}), 9, scale=0.4)
    assert "largest initial norm" in failed(audit)


def test_many_tuples_are_drawn_and_few_are_all():
    assert sw.tasks.group_composition("A5", 3).x.shape == (20_000, 180)
    task = sw.tasks.group_composition("C3", 4, "one-hot")
    assert task.complete
    assert len(task.x) == 81
    assert task.encoding.mean() == pytest.approx(0.0, abs=1e-15)
    few = sw.tasks.group_composition("D5", 2, samples=30, seed=1)
    np.testing.assert_array_equal(
        few.y, few.group.orbit(few.encoding)[few.group.table[tuple(few.tuples.T)]]
    )
    # all tuples at once, or one after the other: the same function
    units = sw.units.PowerOfSum(3, 2)
    whole = sw.tasks.group_composition("D3", 2)
    with sw.float64():
        problem = sw.Problem(whole, units)
        theta = problem.initialize(1.0)
        plain = sw.Problem(sw.tasks.from_arrays(whole.x, whole.y), units)
        np.testing.assert_allclose(problem.function(theta), plain.function(theta), atol=1e-12)


def test_units_that_know_nothing_of_words_read_them_as_one_input():
    task, units = sw.tasks.group_composition("D3", 2), sw.units.Dense(3, "relu")
    with sw.float64():
        problem = sw.Problem(task, units)
        theta = problem.initialize(1.0)
        plain = sw.Problem(sw.tasks.from_arrays(task.x, task.y), units)
        np.testing.assert_allclose(problem.function(theta), plain.function(theta), atol=1e-12)
        np.testing.assert_allclose(problem.squares(theta), plain.squares(theta), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group": "D5", "factors": 1}, "nothing to compose"),
        ({"group": "D5", "factors": 0}, "at least 2"),
        ({"group": "D5", "encoding": np.arange(10.0)}, "mean 4.5.*`center=True`"),
        ({"group": "D5", "encoding": np.ones(9)}, "each of the 10 elements"),
        ({"group": "D5", "encoding": {"3d": 1.0}}, "no representation '3d'"),
        ({"group": "D5", "encoding": {"trivial": 1.0}}, "mean 0.1"),
        ({"group": "D5", "encoding": np.ones(10), "center": True}, "constant"),
        ({"group": "D5", "encoding": {}}, "constant"),
        ({"group": "D5", "encoding": "two-hot"}, "must be 'one-hot'"),
        ({"group": "D5", "encoding": [np.nan] * 10}, "NaN"),
        ({"group": "D5", "samples": 0}, "`samples` must be"),
        ({"group": "E5"}, "no group 'E5'"),
    ],
)
def test_bad_tasks(arguments, message):
    with pytest.raises(sw.InputError, match=message):
        sw.tasks.group_composition(**arguments)


def test_bad_units():
    with pytest.raises(sw.InputError, match="`factors` must be"):
        sw.units.PowerOfSum(3, 1)
    with pytest.raises(sw.InputError, match="`width` must be"):
        sw.units.PowerOfSum(0, 2)
    with pytest.raises(sw.InputError, match="3 words of equal length"):
        sw.Problem(sw.tasks.group_composition("C5", 2), sw.units.PowerOfSum(3, 3))
    with pytest.raises(sw.InputError, match="as long as the answer"):
        sw.Problem(sw.tasks.group_composition("C5", 2), sw.units.Recurrent(3, 3))


@pytest.mark.slow
def test_gradient_flow_rests_at_the_levels_of_the_parts():
    """D3, s = (4, 2): the closed form's levels are among those of the flow, and the parts come in order."""
    task = sw.tasks.group_composition("D3", 2, {"2d": [4.0, 2.0]})
    units = sw.units.PowerOfSum(30, 2)
    stairs = sw.predict(task, units, 0.01)
    path = sw.train(task, units, 0.01, max_steps=8000)
    report = sw.compare(stairs, path)
    assert report.order
    assert max(report.time_error) < 0.01
    for level in (2.0, 2 / 3, 1 / 3):
        assert min(abs(np.array(report.loss_levels) - level)) < 0.005 * stairs.initial_loss
    first = [stage.feature["part"] for stage in stairs.stages]
    assert first.index("pair 1 via 1") < first.index("pair 1 via 2") < first.index("pair 2 via 1")

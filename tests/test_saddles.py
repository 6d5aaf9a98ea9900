"""Fixed points, invariant manifolds, effective width and the saddle test, against theorems and plants."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares, minimize

import saddlewalk as sw
from saddlewalk.diagnose import (
    EffectiveWidth,
    Phases,
    PointKind,
    SaddleReport,
    contributions,
    effective_width,
    find_phases,
    manifold_distance,
    reduce,
    saddle_test,
    widths_along,
)
from saddlewalk.losses import AbstractLoss
from saddlewalk.problem import network_at
from saddlewalk.theory.embedding import embed, manifold_gamma
from saddlewalk.theory.linear.fixed_points import linear_fixed_points
from saddlewalk.units import (
    Convolution,
    Deep,
    Dense,
    Layer,
    LinearAttention,
    LinearSelfAttention,
    QuadraticPair,
    Relation,
    SoftmaxSelfAttention,
    find_relations,
)

E, Z, P, D = Relation.EQUAL, Relation.ZERO, Relation.PROPORTIONAL, Relation.DEPENDENT

# width 2, inputs, outputs, and the relations that each hidden layer admits
NETWORKS = {
    "linear": (Dense(2, "linear"), 4, 2, [(E, Z, P, D)]),
    "relu": (Dense(2, "relu"), 4, 2, [(E, Z, P)]),
    "tanh": (Dense(2, "tanh"), 4, 2, [(E, Z)]),
    "sigmoid": (Dense(2, "sigmoid"), 4, 2, [(E,)]),
    "quadratic": (Dense(2, "quadratic"), 4, 2, [(E, Z)]),
    "convolution": (Convolution(2), 4, 2, [(E, Z, P, D)]),
    "relu convolution": (Convolution(2, activation="relu"), 4, 2, [(E, Z, P)]),
    "linear self-attention": (LinearSelfAttention(2), 12, 1, [(E, Z)]),
    "merged self-attention": (LinearSelfAttention(2, merged=True), 12, 1, [(E, Z, P, D)]),
    "softmax self-attention": (SoftmaxSelfAttention(2, tokens=4), 12, 1, [(E,)]),
    "merged softmax": (SoftmaxSelfAttention(2, tokens=4, merged=True), 12, 1, [(E,)]),
    "quadratic pair": (QuadraticPair(2), 4, 2, [(E, Z)]),
    "attention": (LinearAttention(2), 4, 1, [(E, Z)]),
    "deep linear": (Deep((Dense(2, "linear"), Dense(2, "linear"))), 4, 2, [(E, Z, P, D)] * 2),
    "deep relu": (Deep((Dense(2, "relu"), Dense(2, "relu"))), 4, 2, [(E, Z, P)] * 2),
    "deep convolution": (
        Deep((Convolution(2, activation="relu"), Dense(2, "relu"))), 4, 2, [(E, Z, P)] * 2,
    ),
    "transformer": (
        Deep((LinearSelfAttention(2), Dense(2, "linear"))), 12, 1, [(E, Z), (E, Z, P, D)],
    ),
    "deep quadratic": (
        Deep((Dense(2, "quadratic"), Dense(2, "linear"))), 4, 2, [(E, Z), (E, Z, P, D)],
    ),
    "skips": (
        Deep((Dense(3, "linear"), Dense(2, "tanh"), Dense(3, "linear")), skips=((1, 3),)),
        4, 2, [(E, Z)],
    ),
}  # fmt: skip


def problem_of(name, seed=0, samples=9):
    units, inputs, outputs, _ = NETWORKS[name]
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, inputs))
    task = sw.tasks.from_arrays(x, rng.normal(size=(samples, outputs)))
    return sw.Problem(task, units)


def critical_point(problem, seed=0):
    """A point of zero gradient, by least squares on the gradient from random weights."""
    grad = jax.jit(jax.grad(problem.loss))
    hessian = jax.jit(jax.hessian(problem.loss))
    shape, size = (problem.width, problem.size), problem.width * problem.size
    for trial in range(20):
        start = 0.7 * np.random.default_rng([seed, trial]).normal(size=size)
        found = least_squares(
            lambda t: np.asarray(grad(jnp.asarray(t.reshape(shape)))).ravel(),
            start,
            jac=lambda t: np.asarray(hessian(jnp.asarray(t.reshape(shape)))).reshape(size, size),
            xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=400,
        )  # fmt: skip
        if np.abs(found.fun).max() < 1e-11 and np.abs(found.x).max() > 0.1:
            return found.x.reshape(shape)
    raise AssertionError("no critical point found")


# --- what activations admit -----------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_relations_of_every_architecture(name):
    units, inputs, outputs, expected = NETWORKS[name]
    found = [find_relations(units, inputs, outputs, layer) for layer in units.hidden]
    assert found == expected


@pytest.mark.parametrize("name", NETWORKS)
def test_units_can_be_taken_out_exchanged_and_put_back(name):
    problem = problem_of(name)
    rng = np.random.default_rng(1)
    with sw.float64():
        theta = rng.normal(size=(problem.width, problem.size))
        for layer in problem.units.hidden:
            units = problem.take(theta, layer)
            np.testing.assert_array_equal(problem.put(theta, units, layer), theta)
            swapped = Layer(units.incoming[::-1], units.outgoing[::-1])
            other = problem.put(theta, swapped, layer)
            assert not np.array_equal(other, theta)
            np.testing.assert_allclose(problem.function(other), problem.function(theta), rtol=1e-10)


# --- Theorem 1 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_embedded_fixed_points(name):
    """Every construction keeps the function to 1e-10 and the gradient below 1e-8, at random gammas."""
    rng = np.random.default_rng(5)
    with sw.float64():
        problem = problem_of(name)
        theta = critical_point(problem)
        function = np.asarray(problem.function(theta))
        for layer in problem.units.hidden:
            width = problem.take(theta, layer).width
            for relation in problem.relations(layer):
                for _ in range(2):
                    gammas = {"gamma_v": rng.normal()}
                    if relation is P:
                        gammas["gamma_u"] = abs(rng.normal())
                    if relation is D:
                        gammas = {key: rng.normal(size=width) for key in ("gamma_u", "gamma_v")}
                    wide, point = embed(
                        problem,
                        theta,
                        relation,
                        layer=layer,
                        unit=int(rng.integers(width)),
                        **gammas,
                    )
                    assert wide.take(point, layer).width == width + 1
                    np.testing.assert_allclose(wide.function(point), function, atol=1e-10)
                    assert float(jnp.linalg.norm(jax.grad(wide.loss)(point))) < 1e-8


def test_embedding_refuses_what_the_activation_does_not_admit():
    with sw.float64():
        problem = problem_of("tanh")
        theta = np.ones((2, 6))
        with pytest.raises(sw.InputError, match="admits: equal, zero"):
            embed(problem, theta, "proportional")
        with pytest.raises(sw.InputError, match="positive factors only"):
            embed(problem_of("relu"), theta, "proportional", gamma_u=-1.0)
        with pytest.raises(sw.InputError, match="no unit 2"):
            embed(problem, theta, "equal", unit=2)
        with pytest.raises(sw.InputError, match="No hidden layer"):
            embed(problem, theta, "equal", layer="layer 3")


# --- Theorem 3 and appendix F ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear", "relu", "tanh", "deep relu", "merged self-attention"])
def test_embedded_units_lie_on_the_invariant_manifold_and_stay_there(name):
    """Started on a manifold (not at a fixed point), gradient flow does not leave it."""
    rng = np.random.default_rng(2)
    with sw.float64():
        problem = problem_of(name)
        theta = 0.5 * rng.normal(size=(problem.width, problem.size))
        for relation in problem.relations():
            factor = {P: 0.6, D: rng.normal(size=2)}.get(relation)
            wide, start = embed(problem, theta, relation, gamma_u=factor)
            assert manifold_distance(wide.take(start), relation, 2) < 1e-12
            velocity = jax.jit(lambda th, wide=wide: wide.velocity(th))
            path = solve_ivp(
                lambda t, y, v=velocity, s=start.shape: np.asarray(v(y.reshape(s))).ravel(),
                (0, 3), start.ravel(), rtol=1e-10, atol=1e-12,
            )  # fmt: skip
            end = path.y[:, -1].reshape(start.shape)
            assert np.linalg.norm(end - start) > 0.05
            assert manifold_distance(wide.take(end), relation, 2) < 1e-8
            assert manifold_distance(wide.take(end), relation, 1) > 1e-3
            # F.3: the same function with a unit less
            narrow, reduced = reduce(wide, end, relation=relation, width=2)
            np.testing.assert_allclose(narrow.function(reduced), wide.function(end), atol=1e-7)


def test_quadratic_units_do_not_stay_proportional():
    """Theorem 3 (iii) says homogeneous; it needs degree 1."""
    with sw.float64():
        problem = problem_of("quadratic", samples=30)
        theta = np.random.default_rng(3).normal(size=(2, 6)) * 0.5
        theta[1] = 0.6 * theta[0]
        path = solve_ivp(
            lambda t, y: np.asarray(problem.velocity(y.reshape(2, 6))).ravel(),
            (0, 1),
            theta.ravel(),
        )
        end = path.y[:, -1].reshape(2, 6)
        assert manifold_distance(problem.take(end), P, 1) > 1e-3


def test_gamma_on_the_manifold():
    np.testing.assert_allclose(manifold_gamma(np.array([1.0, 0.0])), [0.5, 0.0])
    np.testing.assert_allclose(manifold_gamma(np.array([2.0])), [0.4])


# --- Lemma 6 --------------------------------------------------------------------------------------


def test_linear_fixed_points_are_all_there_is(small_regression):
    """Counts, zero gradients, losses; and random critical points are among them."""
    points = list(linear_fixed_points(small_regression))
    assert [p.effective_width for p in points] == [0, 1, 1, 2]
    with sw.float64():
        problem = sw.Problem(small_regression, Dense(3, "linear"))
        for point in points:
            theta = jnp.asarray(point.weights(3))
            assert float(jnp.linalg.norm(jax.grad(problem.loss)(theta))) < 1e-10
            assert float(problem.loss(theta)) == pytest.approx(point.loss, rel=1e-9)
            hessian = jax.hessian(lambda t: problem.loss(t.reshape(3, -1)))(theta.ravel())
            least = float(jnp.linalg.eigvalsh(hessian)[0])
            # a unit at zero grows at the largest singular value that is left
            if point.effective_width < 2:
                assert -least >= point.escape_rate * (1 - 1e-9)
            else:
                assert least > -1e-9
                assert point.escape_rate == 0
        losses = {round(p.loss, 8) for p in points}
        for seed in range(4):
            found = critical_point(problem, seed)
            assert round(float(problem.loss(found)), 8) in losses


def test_a_width_below_the_rank_has_fewer_fixed_points(small_regression):
    assert [p.modes for p in linear_fixed_points(small_regression, 1)] == [(), (0,), (1,)]
    with pytest.raises(sw.InputError, match="needs as many units"):
        list(linear_fixed_points(small_regression))[-1].weights(1)


# --- effective width ------------------------------------------------------------------------------


def planted(kind, units, width, rng):
    """A layer of 20 units that does the work of `width`, at right angles, with noise 1e-3."""
    inputs, outputs, many = 4, 2, 20
    u, v = (np.linalg.qr(rng.normal(size=(size, size)))[0] for size in (inputs, outputs))
    u, v = u[:width], v[np.arange(width) % outputs]
    owner = np.concatenate([np.arange(width), rng.integers(width, size=many - width)])
    if kind is Z:
        big_u, big_v = np.zeros((many, inputs)), np.zeros((many, outputs))
        big_u[:width], big_v[:width] = u, v
    elif kind is D:
        turn = np.linalg.qr(rng.normal(size=(many, many)))[0][:, :width]
        big_u, big_v = turn @ u, turn @ v
    else:
        size = np.ones(many) if kind is E else rng.uniform(0.3, 2, size=many)
        share = rng.uniform(0.2, 1, size=many)
        for w in range(width):
            share[owner == w] /= share[owner == w].sum()
        big_u, big_v = u[owner] * size[:, None], v[owner] * (share / size)[:, None]
    noise = 1e-3 * rng.normal(size=(many, inputs + outputs))
    return Layer(big_u + noise[:, :inputs], big_v + noise[:, inputs:])


@pytest.mark.parametrize(
    ("activation", "kinds"),
    [("tanh", (E, Z)), ("relu", (E, Z, P)), ("linear", (E, Z, P, D)), ("quadratic", (E, Z))],
)
def test_effective_width_of_planted_networks(activation, kinds):
    """The planted number, with noise at 1e-3 and, for linear units, after a rotation."""
    x = np.random.default_rng(0).normal(size=(200, 4))
    rng = np.random.default_rng(7)
    with sw.float64():
        target = sw.tasks.from_arrays(x, np.tanh(x[:, :2]) * [3.0, 2.0])
        problem = sw.Problem(target, Dense(20, activation))
        for kind in kinds:
            for width in (1, 2, 4) if activation != "linear" else (1, 2):
                layer = planted(kind, problem.units, width, rng)
                theta = problem.put(None, layer)
                found = effective_width(problem, theta)
                assert found.width == width, (kind, found)
                assert found.units.width == width
                if activation == "linear":
                    turn = np.linalg.qr(rng.normal(size=(20, 20)))[0]
                    turned = Layer(turn @ layer.incoming, turn @ layer.outgoing)
                    assert effective_width(problem, problem.put(None, turned)).width == width
        random = problem.put(None, Layer(rng.normal(size=(20, 4)), rng.normal(size=(20, 2))))
        full = {"linear": 2, "quadratic": 4}.get(activation, 6)
        assert effective_width(problem, random).width >= full
        nothing = effective_width(problem, 1e-6 * random)
        assert nothing.width == 0
        assert "nothing learned" in str(nothing)


@pytest.mark.parametrize(
    ("activation", "twin"),
    [
        ("tanh", lambda u, v: (-u, -v)),
        ("quadratic", lambda u, v: (-u, v)),
        ("quadratic", lambda u, v: (2 * u, v / 4)),
        ("linear", lambda u, v: (-u, -v)),
    ],
)
def test_units_that_the_activation_cannot_tell_apart_count_once(activation, twin):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4))
    u, v = rng.normal(size=(3, 4)), rng.normal(size=(3, 2))
    more_u, more_v = twin(u, 0.4 * v)
    layer = Layer(np.vstack([u, more_u]), np.vstack([v, more_v]))
    with sw.float64():
        problem = sw.Problem(sw.tasks.from_arrays(x, np.tanh(x[:, :2])), Dense(6, activation))
        theta = problem.put(None, layer)
        found = effective_width(problem, theta, tolerance=1e-9)
        assert found.by_relation["equal"] == 3
        assert sorted(map(sorted, found.members)) in (
            [[0, 3], [1, 4], [2, 5]],
            [list(range(6))] * 2,
        )
        fewer, few = reduce(problem, theta, relation="equal", width=3)
        np.testing.assert_allclose(fewer.function(few), problem.function(theta), atol=1e-10)


def test_effective_width_of_each_layer_of_a_deep_network():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    units = Deep((Dense(6, "linear"), Dense(5, "linear")))
    with sw.float64():
        problem = sw.Problem(sw.tasks.from_arrays(x, x[:, :2]), units)
        w1, w2, w3 = rng.normal(size=(6, 3)), rng.normal(size=(5, 6)), rng.normal(size=(2, 5))
        w2 = np.outer(w2[:, 0], w2[0])  # rank one in the middle
        theta = np.concatenate([w.ravel() for w in (w1, w2, w3)])[None]
        assert [effective_width(problem, theta, layer=name).width for name in units.hidden] == [
            1,
            1,
        ]


# --- the saddle test ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted_points():
    """Fixed points of linear networks with known kind: 40 of them, half minima."""
    points = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(12, 3))
        task = sw.tasks.from_arrays(x, rng.normal(size=(12, 2)))
        found = list(linear_fixed_points(task))
        turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
        for point, kind in ((found[-1], PointKind.MINIMUM), (found[1], PointKind.STRICT_SADDLE)):
            points += [
                (task, weights, kind) for weights in (point.weights(5), turn @ point.weights(5))
            ]
    return points


def test_planted_saddles_and_minima_of_linear_networks(planted_points):
    """40 instances; half of them turned, so that no unit is zero: flat directions do not count."""
    assert len(planted_points) == 40
    for task, theta, kind in planted_points:
        assert saddle_test(sw.Problem(task, Dense(5, "linear")), theta).kind == kind


def test_a_quadratic_unit_at_zero_makes_a_degenerate_saddle(teacher):
    """The Hessian is not negative there, and yet it is no minimum."""
    with sw.float64():
        narrow = sw.Problem(teacher, Dense(1, "quadratic"))
        slope = jax.jit(jax.value_and_grad(lambda flat: narrow.loss(flat[None])))
        cost = lambda flat: tuple(np.asarray(part) for part in slope(flat))  # noqa: E731
        start = np.array([0.5, -0.7, 0.3, 0.8])
        theta = minimize(cost, start, jac=True, method="BFGS", options={"gtol": 1e-12}).x[None]
        assert saddle_test(narrow, theta).kind == "minimum"  # there is no unit to leave with
        wide, point = embed(narrow, theta, "zero")
        wide, point = embed(wide, point, "zero")
        report = saddle_test(wide, point)
        assert report.kind == "degenerate saddle"
        assert report.eigenvalues[0] > -1e-6
        assert report.utility > 0.01
        assert "degenerate" in str(report)


def test_escape_rate_and_direction_of_a_strict_saddle(small_regression):
    with sw.float64():
        problem = sw.Problem(small_regression, Dense(4, "linear"))
        point = list(linear_fixed_points(small_regression))[1]
        report = saddle_test(problem, point.weights(4))
        assert report.kind == "strict saddle"
        assert report.escape_rate == pytest.approx(point.escape_rate, rel=1e-4)
        step = 1e-3 * report.direction
        assert float(problem.loss(point.weights(4) + step)) < float(problem.loss(point.weights(4)))


def test_weights_anywhere_are_no_fixed_point(small_regression):
    problem = sw.Problem(small_regression, Dense(4, "tanh"))
    theta = np.random.default_rng(0).normal(size=(4, 5))
    assert saddle_test(problem, theta).kind == "not a fixed point"
    with pytest.raises(sw.InputError, match="shape"):
        saddle_test(problem, theta[:2])


# --- exact points: kind and rate are those of that very point ---------------------------------------


def point_report(x, y, activation, theta, **options):
    task = sw.tasks.from_arrays(x, y)
    return saddle_test(sw.Problem(task, Dense(len(theta), activation)), np.array(theta), **options)


def smallest_eigenvalues(problem, theta):
    flat = jnp.asarray(theta).ravel()
    matrix = jax.hessian(lambda f: problem.loss(f.reshape(np.shape(theta))))(flat)
    return np.linalg.eigvalsh(matrix)


@pytest.mark.parametrize("name", ["tanh", "quadratic", "linear"])
@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_the_rate_at_a_duplicated_point_is_that_of_its_own_hessian(name, noise):
    """Duplicates share the work of one unit; no unit is zero, and none is made zero. Beside it, likewise."""
    rng = np.random.default_rng(3)
    with sw.float64():
        narrow = problem_of(name, 1)
        wide, point = embed(narrow, critical_point(narrow, 1), "equal", unit=1, gamma_v=-0.4)
        values = smallest_eigenvalues(wide, point)
        moved = point * (1 + noise * rng.normal(size=point.shape))
        report = saddle_test(wide, moved)
        assert values[0] < -1e-3 * values[-1]
        assert report.kind == "strict saddle"
        assert report.escape_rate == pytest.approx(-values[0], rel=1e-6 if noise == 0 else 1e-3)
        if noise == 0:
            assert report.eigenvalues == pytest.approx(values[:3], abs=1e-6 * values[-1])


def test_quadratic_duplicates_of_opposite_sign():
    report = point_report(np.eye(2), [1, -0.5], "quadratic", [[1, 0, 1.4], [1, 0, -0.4]])
    assert report.kind == "strict saddle"
    assert report.escape_rate == pytest.approx(0.2)
    assert report.duration == np.inf  # what rests exactly never leaves


@pytest.mark.parametrize(
    ("activation", "theta", "rate"),
    [
        # x = (100, 0) is fitted; the second input, with residual -1e-3, bends the unit of weight -0.4 away
        ("quadratic", [[0.1, 0, 1.4], [0.1, 0, -0.4]], 4e-4),
        # a spare unit that sees the second sample alone, with residual -1e-3: grows at its half
        ("relu", [[1.0, 0, 1.0], [0, 1e-6, -1e-6]], 5e-4),
    ],
)
def test_a_saddle_that_is_left_slowly_is_no_minimum(activation, theta, rate):
    # eight decades below the largest curvature: rounding alone decides
    x, y = np.diag([100.0, 1.0]), [100.0, -1e-3]
    report = point_report(x, y, activation, theta)
    assert rate < 1e-6 * report.largest_eigenvalue
    assert report.kind == "strict saddle"
    assert report.escape_rate == pytest.approx(rate, rel=1e-5)


def test_the_start_of_a_diagonal_network_is_a_strict_saddle():
    # every unit is tiny there, and grows at the size of its correlation with the target
    x = np.random.default_rng(3).normal(size=(10, 3))
    y = x @ [1.0, -0.5, 0.3]
    problem = sw.Problem(sw.tasks.from_arrays(x, y), sw.units.Diagonal())
    with sw.float64():
        report = saddle_test(problem, np.asarray(problem.initialize(1e-6)))
    assert report.kind == "strict saddle"
    assert report.escape_rate == pytest.approx(np.abs(x.T @ y).max() / len(x), rel=1e-3)


def test_tiny_units_of_higher_order_have_no_curvature():
    theta = 1e-3 * np.array([[1, 0.5, 1], [0.3, 1, 1]])
    report = point_report(np.eye(2), [1, 0.5], "quadratic", theta)
    assert report.kind == "degenerate saddle"
    assert report.escape_rate == 0.0


def test_time_left_is_not_known_where_active_units_leave_a_saddle_that_is_not_predicted():
    # a dense Hessian has -0.0090 beside 1537, and an integration falls by a hundredth at 741
    theta = [[2.4446177140551617, -2.090716406840492, -0.009367563003362786]]
    theta += [[2.4446177140551617, -2.090716406840492, 0.002676446572389367]]
    x, y = (np.random.default_rng(k).normal(size=n) for k, n in ((103, (6, 2)), (203, 6)))
    moved = np.array(theta) + 1e-4 * np.random.default_rng(1).normal(size=(2, 3))
    report = point_report(x, y, "quadratic", moved)
    assert report.kind == "strict saddle"
    assert np.isnan(report.duration)


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-4])
def test_interpolating_minima(noise):
    rng = np.random.default_rng(0)
    theta = np.array([[1, 0, 1 + 1e-6], [0, 1, -0.5]]) + noise * rng.normal(size=(2, 3))
    assert point_report(np.eye(2), [1, -0.5], "relu", theta).kind == "minimum"


HALF = 0.5**0.5


@pytest.mark.parametrize(
    "theta",
    [
        [[HALF, HALF], [HALF, HALF]],
        [[HALF, HALF], [2 * HALF, HALF / 2]],
        [[1.0, 1.0], [0.0, 0.0]],
    ],
    ids=["equal", "proportional", "zero"],
)
def test_relu_units_that_fit_what_they_see(theta):
    """The other sample is seen by no unit: only one at zero could turn to it."""
    report = point_report([[1.0], [-1.0]], [1.0, 1.0], "relu", theta)
    if np.any(np.array(theta[1])):
        assert report.kind == "minimum"
        assert report.escape_rate == 0
    else:
        assert report.kind == "strict saddle"
        assert report.escape_rate == pytest.approx(0.5)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-8])
def test_dead_relu_units_leave_nowhere(size):
    """A unit that sees no sample has no force on it, in its whole neighborhood."""
    x, y = [[1.0, 0.0], [1.0, 1.0]], [1.0, 2.0]
    dead = [-size, -size, size]
    best = np.linalg.lstsq(np.array(x), np.array(y), rcond=None)[0]
    theta = [[*(0.9 * best), 1 / 0.9], dead]
    assert point_report(x, y, "relu", theta).kind == "minimum"


def test_the_direction_has_the_rows_of_the_network():
    theta = [[1e-8, -1e-7, 1e-7], [-1e-7, 2e-7, 1e-7], [1, -1, 1]]
    report = point_report(np.eye(2), [1, 0.5], "relu", theta)
    np.testing.assert_allclose(np.abs(report.direction[1]), [0, HALF, HALF], atol=1e-9)
    np.testing.assert_allclose(report.direction[[0, 2]], 0, atol=1e-9)


# --- how long a plateau lasts, against another integrator -------------------------------------------


def time_of_half(problem, theta, end, level=0.0):
    """When the loss has fallen half way to a level, by the Runge-Kutta method of SciPy."""
    shape, first = theta.shape, float(problem.loss(theta))
    velocity = jax.jit(lambda flat: problem.velocity(flat.reshape(shape)).ravel())
    loss = jax.jit(lambda flat: problem.loss(flat.reshape(shape)))
    half = lambda t, flat: float(loss(flat)) - 0.5 * (first + level)  # noqa: E731
    half.terminal = True
    options = {"rtol": 1e-6, "atol": 1e-10, "events": half}
    run = solve_ivp(lambda t, flat: np.asarray(velocity(flat)), (0, end), theta.ravel(), **options)
    return run.t[-1], run


SINGLE = np.random.default_rng(4).normal(size=(30, 3))
FIRST_PLATEAUS = {
    "relu": (Dense(4, "relu"), np.maximum(SINGLE[:, 0], 0), 1e-4),
    "tanh": (Dense(5, "tanh"), np.tanh(SINGLE[:, 0]), 1e-4),
    "quadratic": (Dense(3, "quadratic"), SINGLE[:, 0] ** 2, 1e-2),
    "diagonal": (sw.units.Diagonal(), SINGLE[:, 0], 1e-4),
}


@pytest.mark.parametrize("name", FIRST_PLATEAUS)
def test_time_left_on_the_first_plateau(name):
    units, y, scale = FIRST_PLATEAUS[name]
    with sw.float64():
        problem = sw.Problem(sw.tasks.from_arrays(SINGLE, y), units)
        start = np.asarray(problem.initialize(scale))
        lasts, run = time_of_half(problem, start, 3000.0)
        for part in (0.0, 0.5):
            moment = int(np.searchsorted(run.t, part * lasts))
            theta = run.y[:, moment].reshape(start.shape)
            report = saddle_test(problem, theta)
            assert report.kind.is_saddle
            assert report.duration == pytest.approx(lasts - run.t[moment], rel=0.02)


def test_time_left_on_a_later_plateau():
    """One of two orthogonal samples is fitted; the unit for the other is still small."""
    theta = np.array([[1e-8, -1e-7, 1e-7], [-1e-7, 2e-7, 1e-7], [1, -1, 1]])
    with sw.float64():
        problem = sw.Problem(sw.tasks.from_arrays(np.eye(2), [1, 0.5]), Dense(3, "relu"))
        lasts, _ = time_of_half(problem, theta, 200.0)
        report = saddle_test(problem, theta)
    assert report.duration == pytest.approx(lasts, rel=0.02)


def fastest_of(problem, theta, rows):
    """How fast ReLU units of one output grow: each along the mean of residual times input where it sees."""
    x, y = np.asarray(problem.task.x), np.asarray(problem.task.y)[:, 0]
    active = x @ theta[:, :-1].T > 0
    residual = y - np.maximum(x @ theta[:, :-1].T, 0) @ theta[:, -1]
    drives = (active * residual[:, None]).T @ x / len(x)
    return np.linalg.norm(drives[rows], axis=1).max()


def test_a_plateau_on_kinks_is_near_a_saddle():
    """Units that move along kinks have a gradient on either side and go nowhere."""
    rng = np.random.default_rng(5)
    task = sw.tasks.from_arrays(rng.normal(size=(10, 3)), rng.normal(size=10))
    path = sw.train(task, Dense(10, "relu"), 1e-5, seed=5, max_time=60, progress=False)
    report = saddle_test(path)
    assert report.gradient_norm > 0.01
    assert report.kind == "near a saddle"
    theta = path.parameters[-1]
    small = np.linalg.norm(theta, axis=1) < 0.1
    assert report.escape_rate == pytest.approx(fastest_of(path.problem, theta, small), rel=0.02)
    assert 100 < report.duration < 400


def test_all_units_that_are_left_over_enter_the_rate_of_a_wide_relu_network():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 6))
    theta = 1e-7 * rng.normal(size=(60, 7))
    with sw.float64():
        problem = sw.Problem(sw.tasks.from_arrays(x, rng.normal(size=40)), Dense(60, "relu"))
        report = saddle_test(problem, theta)
    assert report.kind == "strict saddle"
    every = np.ones(60, dtype=bool)
    assert report.escape_rate == pytest.approx(fastest_of(problem, theta, every), rel=1e-5)


def test_what_is_not_known_is_a_dash(small_regression):
    theta = np.random.default_rng(0).normal(size=(4, 5))
    report = saddle_test(sw.Problem(small_regression, Dense(4, "tanh")), theta)
    lines = [line.split() for line in str(report).splitlines()]
    assert ["escape", "rate", "-"] in lines
    assert ["time", "left", "here", "-"] in lines
    assert report.to_json()["escape_rate"] is None


@pytest.mark.parametrize("units", [Dense(4, "tanh"), Deep((Dense(3, "tanh"), Dense(3, "tanh")))])
def test_a_search_that_is_too_long_ends_with_what_is_known(small_regression, units):
    problem = sw.Problem(small_regression, units)
    theta = np.random.default_rng(0).normal(size=(problem.width, problem.size))
    report = saddle_test(problem, theta, limit=1e-9)
    assert report.kind == "not decided"
    with sw.float64():
        loss, slope = jax.value_and_grad(problem.loss)(jnp.asarray(theta))
    assert report.loss == pytest.approx(float(loss))
    assert report.gradient_norm == pytest.approx(np.linalg.norm(np.asarray(slope)))
    assert "longer than its limit" in str(report)
    json.dumps(report.to_json(), allow_nan=False)
    with pytest.raises(sw.InputError, match="`limit`"):
        saddle_test(problem, theta, limit=0.0)


def test_a_deep_network_on_its_way(small_regression):
    """Its hidden layers have units that are left over, but its parameters have no row for each of them."""
    problem = sw.Problem(small_regression, Deep((Dense(6, "relu"), Dense(5, "relu"))))
    theta = 0.3 * np.random.default_rng(0).normal(size=(problem.width, problem.size))
    report = saddle_test(problem, theta)
    assert report.kind == "not a fixed point"
    assert np.isnan(report.escape_rate)


def test_rounding_is_not_drawn_as_negative_curvature():
    report = point_report([[1.0], [-1.0]], [1.0, 1.0], "relu", [[HALF, HALF], [HALF, HALF]])
    noisy = dataclasses.replace(report, eigenvalues=np.array([-4e-11, 0.0, 0.1]))
    colors = {bar.get_facecolor() for bar in noisy.plot().patches}
    assert len(colors) == 1


# --- points that are easily taken for others --------------------------------------------------------


def test_a_relu_saddle_with_units_exactly_at_zero():
    """Two points, one of them fitted: the zero units have no gradient, and yet a new one has use."""
    x1 = np.array([1.0, 0.5])
    with sw.float64():
        task = sw.tasks.from_arrays([x1, [-1, 2]], [1.0, -1.0])
        narrow = sw.Problem(task, Dense(1, "relu"))
        theta = np.concatenate([x1 / (x1 @ x1), [1.0]])[None]
        wide, point = embed(narrow, theta, "zero")
        report = saddle_test(wide, point)
        assert report.kind == "strict saddle"
        assert report.duration == np.inf  # a unit at zero never starts
        assert report.escape_rate == pytest.approx(np.sqrt(5) / 2, rel=1e-3)


def test_quadratic_units_with_two_outputs_at_zero():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    with sw.float64():
        task = sw.tasks.from_arrays(x, np.stack([x[:, 0] ** 2, x[:, 1] ** 2], axis=1))
        report = saddle_test(sw.Problem(task, Dense(3, "quadratic")), np.zeros((3, 4)))
        assert report.kind == "degenerate saddle"
        assert report.duration == np.inf


def test_no_unit_of_first_order_has_utility():
    """XOR is even and tanh is odd: nothing can be learned, and the origin is a minimum."""
    with sw.float64():
        task = sw.tasks.from_arrays([[1, 1], [1, -1], [-1, 1], [-1, -1]], [1.0, -1.0, -1.0, 1.0])
        report = saddle_test(sw.Problem(task, Dense(4, "tanh")), np.zeros((4, 3)))
        assert report.kind == "minimum"
        assert np.isnan(report.utility)


def test_samples_that_are_kept_and_learning_rates(small_regression):
    """Rates change how fast a saddle is left, by the root of their product, and not what it is."""
    points = list(linear_fixed_points(small_regression))
    theta = points[1].weights(4)
    with sw.float64():
        kept = sw.Problem(small_regression, Dense(4, "linear"), keep_samples=True)
        assert saddle_test(kept, theta).kind == "strict saddle"
        rated = sw.Problem(small_regression, Dense(4, "linear"), rates={"w": 9.0})
        report = saddle_test(rated, theta)
        assert report.escape_rate == pytest.approx(3 * points[1].escape_rate, rel=1e-3)
        assert rated.resized(7).rates.tolist() == rated.rates.tolist()
        deep = sw.Problem(small_regression, Deep((Dense(2, "tanh"),)), rates={"w1": 7.0})
        assert 7.0 in deep.resized(3).rates


@pytest.mark.parametrize("factor", [1.0, 1e-4])
def test_the_origin_of_a_deep_network_is_degenerate_at_any_size_of_the_target(factor):
    x = np.random.default_rng(0).normal(size=(30, 3))
    with sw.float64():
        task = sw.tasks.from_arrays(x, factor * x[:, :2])
        problem = sw.Problem(task, Deep((Dense(4, "linear"), Dense(4, "linear"))))
        assert saddle_test(problem, np.zeros((1, problem.size))).kind == "degenerate saddle"


def test_a_little_signal_in_much_noise():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    with sw.float64():
        task = sw.tasks.from_arrays(x, 0.02 * x[:, :1] + rng.normal(size=(400, 1)))
        problem = sw.Problem(task, Dense(3, "linear"))
        theta = list(linear_fixed_points(task))[-1].weights(3)
        assert effective_width(problem, theta).width == 1
        assert saddle_test(problem, theta).kind == "minimum"


def test_capabilities_by_name(small_regression):
    assert Dense(3, "tanh").exchangeable
    assert not Deep((Dense(3, "tanh"),)).exchangeable  # the readout belongs to all units
    assert not sw.units.Diagonal().exchangeable
    assert small_regression.floor == 0.0
    linear = sw.Problem(small_regression, Dense(3, "linear"))  # compressed to moments
    best = list(linear_fixed_points(small_regression))[-1]
    assert float(linear.task.floor) == pytest.approx(best.loss)


def test_units_of_zeros_belong_to_any_ray():
    theta = Layer(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.3]]), np.array([[0.0], [1.0], [1.0]]))
    assert manifold_distance(theta, "proportional", 2) == 0
    with sw.float64():
        task = sw.tasks.from_arrays(np.eye(2), [1.0, 2.0])
        problem = sw.Problem(task, Dense(3, "relu"))
        flat = problem.put(None, theta)
        narrow, reduced = reduce(problem, flat, relation="proportional", width=2)
        np.testing.assert_allclose(narrow.function(reduced), problem.function(flat), atol=1e-12)


def test_clipped_activations_are_not_homogeneous():
    clipped = Dense(2, lambda z: jnp.clip(z, 0.0, 6.0))
    assert find_relations(clipped, 2, 1) == (E, Z)


def test_wrong_requests():
    with pytest.raises(sw.InputError, match="not equally wide"):
        Deep((Dense(1, "linear"), Dense(3, "linear")), skips=((1, 2),))
    with sw.float64():
        diagonal = sw.Problem(sw.tasks.agf_figure_3(), sw.units.Diagonal())
        with pytest.raises(sw.InputError, match="cannot be exchanged"):
            effective_width(diagonal, np.ones((5, 2)))


# --- the architectures in the other verbs -----------------------------------------------------------


@pytest.mark.parametrize("kind", ["convolution", "self-attention"])
def test_predict_train_and_compare_take_the_architectures(kind):
    if kind == "convolution":
        x = np.diag([1.0, 1.0, np.sqrt(2), 1.0])
        y = x @ np.array([1, 1, -1, 1]) / np.sqrt(5)
        problem, scale = (sw.tasks.from_arrays(x, y), Convolution(6)), 1e-6
    else:
        task = sw.tasks.in_context_tokens(2, 16, 60, products=True)
        problem, scale = (task, LinearSelfAttention(3)), 1e-2
    stairs = sw.predict(*problem, scale)
    path = sw.train(*problem, scale, max_time=1.5 * stairs.jump_times[-1])
    report = sw.compare(stairs, path)
    assert report.order
    assert np.nanmax(report.time_error) < 0.02


# --- runs -------------------------------------------------------------------------------------------

POINTS = [[1, 0.5], [-1, 2]]


@pytest.fixture(scope="module")
def relu_run():
    """Two points, learned one after the other: plateaus of width 0, 1 and 2."""
    task = sw.tasks.from_arrays(POINTS, [1.0, -1.0])
    return sw.train(task, Dense(20, "relu"), 1e-5, max_time=60, progress=False)


@pytest.fixture(scope="module")
def relu_phases(relu_run):
    return find_phases(relu_run)


def test_phases_of_a_run(relu_phases):
    assert relu_phases.widths == [0, 1, 2]
    assert relu_phases.kinds == [PointKind.STRICT_SADDLE] * 2 + [PointKind.MINIMUM]
    assert relu_phases.kinds == ["strict saddle", "strict saddle", "minimum"]
    assert relu_phases[1].start > relu_phases[0].end
    quick = find_phases(relu_phases.path, relu_phases.problem, saddles=False)
    assert quick.kinds == [PointKind.NOT_TESTED] * 3
    assert quick.to_json()["phases"][0]["kind"] is None


def test_each_effective_width_is_found_once(relu_run, monkeypatch):
    """The saddle test takes the width of the plateau over, where one layer is all there is."""

    def again(*args, **options):
        raise AssertionError("found twice")

    monkeypatch.setattr("saddlewalk.diagnose.critical_points.width_of", again)
    assert find_phases(relu_run).widths == [0, 1, 2]


def test_a_run_and_a_problem_with_weights_agree(relu_run):
    problem, middle = relu_run.problem, len(relu_run.parameters) // 2
    theta = relu_run.parameters[middle]
    assert str(effective_width(relu_run, at=middle)) == str(effective_width(problem, theta))
    assert str(saddle_test(relu_run)) == str(saddle_test(problem, relu_run.parameters[-1]))
    np.testing.assert_array_equal(contributions(relu_run, at=middle), contributions(problem, theta))
    here, there = (
        reduce(*where, relation="equal", width=2, at=at)[1]
        for where, at in (((relu_run,), middle), ((problem, theta), -1))
    )
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("look", [find_phases, widths_along])
def test_another_problem_of_the_same_shape_is_refused(relu_run, look):
    other = sw.Problem(sw.tasks.from_arrays(POINTS, [1.0, -2.0]), Dense(20, "relu"))
    with pytest.raises(sw.InputError, match="does not belong"):
        look(relu_run, other)
    with pytest.raises(sw.InputError, match="Give a run first"):
        look(other)


def test_what_is_no_network_is_refused(relu_run):
    problem, theta = relu_run.problem, relu_run.parameters[-1]
    spoiled = theta.copy()
    spoiled[3, 1] = np.nan
    refused = {
        "needs weights": (problem,),
        "own weights": (relu_run, theta),
        "saved moments": (relu_run, None, 10_000),
        "whole number": (relu_run, None, 0.5),
        "names a saved moment": (problem, theta, 3),
        "must have shape": (problem, theta[:4]),
        "NaN or infinite": (problem, spoiled),
        "must hold numbers": (problem, "weights"),
        "Give a run, a landscape, or a problem": (theta, problem),
    }
    for words, given in refused.items():
        with pytest.raises(sw.InputError, match=words):
            network_at(*given)
    for look in (saddle_test, effective_width, contributions):
        with pytest.raises(sw.InputError, match="needs weights"):
            look(problem)
    with pytest.raises(sw.InputError, match="At least one eigenvalue"):
        saddle_test(relu_run, eigenvalues=0)


@pytest.mark.parametrize("kind", [Phases, SaddleReport, EffectiveWidth])
def test_results_can_be_kept(relu_phases, kind, tmp_path):
    plateau = relu_phases[1]
    result = {Phases: relu_phases, SaddleReport: plateau.saddle}.get(kind, plateau.widths[0])
    again = kind.load(result.save(tmp_path / "result.nc"))
    assert str(again) == str(result)
    assert again._repr_html_() == result._repr_html_()
    assert json.dumps(again.to_json(), allow_nan=False) == json.dumps(result.to_json())
    result.plot(tmp_path / "result.png")
    assert (tmp_path / "result.png").stat().st_size > 5_000
    axes = again.plot()
    assert result.plot(axes) is axes


def test_a_rate_that_is_not_known_is_null(relu_phases):
    unknown = dataclasses.replace(relu_phases[1].saddle, escape_rate=np.nan)
    record = dataclasses.replace(relu_phases[1], saddle=unknown).to_json()
    assert json.loads(json.dumps(record, allow_nan=False))["escape_rate"] is None


def test_phases_from_a_file_know_their_run(relu_phases, tmp_path):
    again = Phases.load(relu_phases.save(tmp_path / "phases.nc"))
    np.testing.assert_array_equal(again.path.loss, relu_phases.path.loss)
    for one, other in zip(again, relu_phases, strict=True):
        np.testing.assert_array_equal(one.parameters, other.parameters)
        np.testing.assert_array_equal(one.widths[0].units.theta, other.widths[0].units.theta)
    assert str(saddle_test(again.path)) == str(saddle_test(relu_phases.path))


def test_widths_along_a_run(relu_run):
    times, widths = widths_along(relu_run, moments=12)
    assert len(times) == len(widths) == 12
    assert widths[0] == 0
    assert widths[-1] == 2
    assert 1 in widths


class _Logistic(AbstractLoss):
    def __call__(self, output, target):
        return jnp.sum(jnp.logaddexp(0.0, -output * target))


def test_cross_entropy_has_no_finite_minimum_on_data_that_can_be_separated():
    """One flipped label on top of another sample, and it has one."""
    x = np.random.default_rng(0).normal(size=(20, 2))
    y = np.sign(x[:, 0] + 0.3 * x[:, 1])
    units = sw.units.Dense(2, "tanh")
    path = sw.train(sw.tasks.from_arrays(x, y), units, 1e-2, loss=_Logistic())
    assert find_phases(path).kinds[-1] == "no finite minimum"
    mixed = sw.tasks.from_arrays(np.concatenate([x, x]), np.concatenate([y, -np.roll(y, 1)]))
    path = sw.train(mixed, units, 1e-2, loss=_Logistic(), max_time=1e4)
    assert find_phases(path).kinds[-1] != "no finite minimum"


def test_a_small_unit_whose_samples_are_fitted_to_the_last_digit_is_left_over():
    """It feels no force, and yet the others fit the data without it: kept, it would leave a residual."""
    small = 2.0**-5
    theta = [[1, 0, 1 - small**2], [small, -small, small], [0, 1, -0.5 + 1e-6]]
    problem = sw.Problem(sw.tasks.from_arrays(np.eye(2), [1, -0.5]), sw.units.Dense(3, "relu"))
    found = sw.diagnose.saddle_test(problem, np.array(theta))
    assert found.kind is PointKind.MINIMUM

"""The walk of AGF: plateaus and tails in closed form against other integrators, every scale, any state."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import saddlewalk as sw
from oracles import relu_flow_of_a_pair
from saddlewalk.precision import in_float64
from saddlewalk.problem import Problem, compiled
from saddlewalk.programs import compiled as compiled_program
from saddlewalk.theory.agf.alone import Alone
from saddlewalk.theory.agf.climb import Climb, Clock, on_own_clock
from saddlewalk.theory.agf.parting import parted_units
from saddlewalk.theory.agf.tail import Relaxation, find_tail
from saddlewalk.theory.agf.thresholds import Thresholds
from saddlewalk.theory.agf.walk import Walk


def teacher(power):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    y = 2 * (x @ [1.0, 0.0, 0.0]) ** power - (x @ [0.0, 0.8, 0.6]) ** power
    return sw.tasks.from_arrays(x, y)


@in_float64
def start_of(task, units, scale, seed):
    return np.asarray(Problem(task, units).initialize(scale, seed))


TASKS = {
    "diagonal": (
        sw.tasks.sparse_regression(samples=60, dim=6, sparsity=4),
        sw.units.Diagonal(),
    ),
    "linear": (sw.tasks.linear_map(6, 5), sw.units.Dense(6, "linear")),
    "attention": (sw.tasks.in_context_regression([4, 2, 1], 16), sw.units.LinearAttention(4)),
    "quadratic": (teacher(2), sw.units.Dense(3, "quadratic")),
    "cubic": (teacher(3), sw.units.Dense(3, "cubic")),
}


# --- plateaus above degree 2 --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attention", "quadratic", "cubic"])
@in_float64
def test_units_on_their_own_clock_are_those_of_an_integration_in_time(name):
    """dtheta/dt = grad U against the frozen residual, by SciPy's eighth-order steps."""
    problem = Problem(*TASKS[name])
    scale = 0.01
    theta = np.asarray(problem.initialize(scale, 1))
    walk = Walk(problem, theta, real_time=True)
    assert not walk.active.any()
    phase = walk.phase(plateau=True)
    horizon = 0.2 / (problem.degree * walk.largest_drive.max() * scale ** (problem.degree - 2))
    clock = Clock.of(phase, theta, float(walk.largest_drive.max()), horizon)
    *_, last = on_own_clock(phase, theta, clock, rtol=1e-9)
    time = clock.unit * float(last.end[0, -1])
    residual = compiled.residual(problem, 0 * theta)
    exact = solve_ivp(
        lambda t, th: np.asarray(
            compiled.climb(problem, th.reshape(theta.shape), residual)
        ).ravel(),
        (0.0, time),
        theta.ravel(),
        method="DOP853",
        rtol=1e-11,
        atol=1e-14,
    ).y[:, -1]
    assert time == pytest.approx(horizon, rel=1e-5)
    np.testing.assert_allclose(
        Climb.parameters(last.end), exact.reshape(theta.shape), rtol=0, atol=2e-8
    )


@in_float64
def test_the_clock_keeps_its_pace_however_many_units_there_are():
    """Units alike do not feel each other: a hundred of them take about as many steps as one does."""
    spent = {}
    for width in (1, 100):
        problem = Problem(teacher(2), sw.units.Dense(width, "quadratic"))
        first = np.asarray(Problem(teacher(2), sw.units.Dense(1, "quadratic")).initialize(1e-3, 1))
        theta = np.repeat(first, width, axis=0)
        walk = Walk(problem, theta, real_time=True)
        phase = walk.phase(plateau=True)
        clock = Clock.of(phase, theta, float(walk.largest_drive.max()), 1e3)
        pieces = list(on_own_clock(phase, theta, clock, rtol=1e-8))
        spent[width] = sum(piece.steps for piece in pieces)
    assert spent[100] <= 2 * spent[1]


# --- plateaus with kinks ------------------------------------------------------------------------------------


@in_float64
def test_units_with_kinks_climb_by_themselves_as_scipy_does():
    """Each with steps of its own; the times at which they see other samples differ."""
    x = np.random.default_rng(2).normal(size=(12, 3))
    problem = Problem(sw.tasks.from_arrays(x, np.abs(x[:, 0]) - x[:, 1]), sw.units.Dense(5, "relu"))
    theta = np.asarray(problem.initialize(1e-5, 0))
    walk = Walk(problem, theta, real_time=True)
    phase = walk.phase(plateau=True)
    leap = Alone(phase, theta, np.ones(5), 1e-7)
    seen = [np.sign(x @ rows[:, :3].T) for rows in (theta, leap.after(3.0))]
    assert (seen[0] != seen[1]).any()  # kinks were passed
    for time in (3.0, 1.0):  # forward, and back to a moment in between
        exact = solve_ivp(
            lambda t, th: phase.climb(th.reshape(theta.shape)).ravel(),
            (0.0, time),
            theta.ravel(),
            method="RK23",
            rtol=1e-4,
            atol=1e-10,
            max_step=0.005,
        ).y[:, -1]
        np.testing.assert_allclose(
            leap.after(time), exact.reshape(theta.shape), rtol=0, atol=1e-4 * np.abs(exact).max()
        )


@in_float64
def test_a_unit_whose_best_place_is_a_kink_grows_there_by_its_utility():
    """It wants to see the first sample and not the second, 60 degrees apart: with w across the second and
    |w| = |a| the utility is sin(60)/4 of the squared size, and the size grows by twice that."""
    x = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    problem = Problem(sw.tasks.from_arrays(x, [1.0, -5.0]), sw.units.Dense(1, "relu"))
    theta = 1e-100 * np.array([[1.0, 0.5, 1.0]])
    phase = Walk(problem, theta, real_time=True).phase(plateau=True)
    leap = Alone(phase, theta, np.ones(1), 1e-5)
    at_100, at_400 = leap.after(100.0), leap.after(400.0)
    growth = np.log(np.linalg.norm(at_400) / np.linalg.norm(at_100)) / 300
    assert growth == pytest.approx(np.sqrt(3) / 4, rel=1e-4)
    direction = at_400[0] / np.linalg.norm(at_400)
    best = np.array([np.sqrt(0.75), -0.5, 1.0]) / np.sqrt(2)
    np.testing.assert_allclose(direction, best, atol=3e-3)  # it stops turning before it is there
    assert leap.evaluations < 200_000


def test_dormant_units_may_chatter_at_kinks():
    """Two of four units sit where a sample pushes them from both sides. The first jump is affine in
    log(1/alpha), as the growth of the unit that makes it is exponential."""
    task = sw.tasks.hidden_directions(samples=60, dim=4, outputs=2)
    found = [
        sw.predict(task, sw.units.Dense(4, "relu"), scale, 4, method="numeric", max_time=most)
        for scale, most in ((1e-12, 100), (1e-20, 150), (1e-60, 400))
    ]
    first = [stairs.jump_times[0] for stairs in found]
    assert (first[1] - first[0]) / 8 == pytest.approx((first[2] - first[1]) / 40, rel=1e-4)
    assert max(stairs.rhs_evaluations for stairs in found) < 500_000


# --- tails --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["diagonal", "attention"])
@in_float64
def test_a_tail_is_where_the_flow_goes(name):
    """Active units, and what dormant ones get meanwhile, against SciPy from the same point to rest."""
    task, units = TASKS[name]
    problem, scale = Problem(task, units), 1e-3
    stairs = sw.predict(task, units, scale, method="numeric")
    # some relaxation times after the first jump
    path = sw.train(task, units, scale, times=[stairs.jump_times[0] * 1.08])
    theta = np.asarray(path.parameters[-1])
    walk = Walk(problem, theta, real_time=True)
    walk.active = compiled.feature_lengths(problem, theta) > 0.1
    phase = walk.phase(plateau=False)
    flow = phase.flow
    fastest = Relaxation.of(phase, phase.state(theta), slow=0.0).rates.max()
    relaxation = Relaxation.of(phase, phase.state(theta), slow=0.05 * fastest)
    at = Thresholds(tail_error=1e-2, tail_step=0.2)
    tail = find_tail(phase, theta, relaxation, at, 0.0, True)
    assert tail is not None
    velocity = compiled_program(lambda flow, y: flow.velocity(y)).of(flow)

    def moved(time):
        found = solve_ivp(
            lambda t, y: np.asarray(velocity(y.reshape(theta.shape))).ravel(),
            (0.0, time),
            np.asarray(flow.state(theta)).ravel(),
            method="LSODA",
            rtol=1e-10,
            atol=1e-13,
        )
        return np.asarray(flow.parameters(found.y[:, -1].reshape(theta.shape)))

    relaxed = 6 / relaxation.rates[relaxation.bends].min()
    awake = np.asarray(walk.active)
    start, end = theta[awake], moved(relaxed)[awake]
    way = np.abs(end - start).max()
    np.testing.assert_allclose(tail.parameters(relaxed)[awake], end, rtol=0, atol=0.05 * way)
    assert tail.loss == pytest.approx(
        float(compiled.loss(problem, np.where(awake[:, None], moved(5 * relaxed), 0))), rel=1e-6
    )
    # dormant units: what is left when the same time against the residual of rest is taken back
    still = np.where(awake[:, None], moved(5 * relaxed), 0.0)
    residual = compiled.residual(problem, still)
    back = (
        solve_ivp(
            lambda t, th: (
                -np.asarray(compiled.climb(problem, th.reshape(theta.shape), residual)).ravel()
            ),
            (0.0, relaxed),
            moved(relaxed).ravel(),
            method="LSODA",
            rtol=1e-11,
            atol=1e-16,
        )
        .y[:, -1]
        .reshape(theta.shape)
    )
    got, expected = tail.theta[~awake] - theta[~awake], back[~awake] - theta[~awake]
    np.testing.assert_allclose(got, expected, rtol=0, atol=0.15 * np.abs(expected).max())


# --- every scale --------------------------------------------------------------------------------------------

SCALES = (1e-1, 1e-3, 1e-6, 1e-12, 1e-30, 1e-60, 1e-90, 1e-130)


def staircases(name):
    task, units = TASKS[name]
    smallest = 1e-90 if name == "cubic" else 1e-130
    return {
        scale: sw.predict(task, units, scale, method="numeric")
        for scale in SCALES
        if scale >= smallest
    }


@pytest.mark.parametrize("name", ["attention", "quadratic", "cubic"])
def test_stages_of_degree_above_2_scale_with_the_start(name):
    """Units of degree kappa have only one unit of time, alpha^(2 - kappa): at every small scale the same
    staircase; and at 1e-3 it is that of gradient flow."""
    degree = 4 if name == "cubic" else 3
    found = staircases(name)
    path = sw.train(*TASKS[name], 1e-3)
    report = sw.compare(found[1e-3], path)
    assert report.order
    assert len(path.stages) == len(found[1e-3])
    assert max(report.time_error) < 1e-4
    reference = np.array(found[1e-12].jump_times) * 1e-12 ** (degree - 2)
    for scale, stairs in found.items():
        assert [s.learned for s in stairs] == [s.learned for s in found[1e-3]]
        if scale <= 1e-6:
            times = np.array(stairs.jump_times) * scale ** (degree - 2)
            np.testing.assert_allclose(times, reference, rtol=2e-5)
            np.testing.assert_allclose(
                stairs.loss_levels, found[1e-12].loss_levels, atol=1e-5 * stairs.initial_loss
            )


class Trilinear(sw.units.AbstractUnits):
    width: int

    def layers(self, inputs, outputs):
        return {"u": (inputs,), "v": (inputs,), "a": (outputs,)}

    def respond(self, weights, x):
        return weights["a"] * (weights["u"] @ x) * (weights["v"] @ x)


def test_active_units_leave_a_saddle_sooner_than_the_clock_can_tell():
    """At time 1e30 the clock does not know of the ten units of time in which two units leave a saddle where
    they rested together; the levels are those of gradient flow from a larger start."""
    x = np.random.default_rng(0).normal(size=(60, 4))
    task = sw.tasks.from_arrays(x, 2 * x[:, 0] * x[:, 1] - x[:, 2] * x[:, 3])
    stairs = sw.predict(task, Trilinear(4), 1e-30, method="numeric")
    path = sw.train(task, Trilinear(4), 1e-6)
    assert len(stairs.stages) == len(path.stages) == 4
    levels = [stage.loss for stage in path.stages]
    # the first is read off where a fall slows down, and does not rest
    np.testing.assert_allclose(stairs.loss_levels[-4:], levels, atol=0.02 * stairs.initial_loss)
    times = np.array([stage.time for stage in path.stages]) * 1e24
    np.testing.assert_allclose(stairs.jump_times, times, rtol=1e-3)


def test_diagonal_networks_at_every_scale():
    """Against the limit process, whose order is exact and whose clock is log(1/alpha)."""
    task, units = TASKS["diagonal"]
    limit = sw.predict(task, units, 1e-130, method="limit")
    order = [s.units for s in limit.stages if s.units]
    for scale, stairs in staircases("diagonal").items():
        names = [unit for s in stairs for unit in s.units]
        assert sorted(names) == sorted(unit for units_on in order for unit in units_on)
        if scale <= 1e-12:
            assert [s.units for s in stairs] == order
            clock = np.array(stairs.jump_times) / -np.log(scale)
            exact = [s.time / -np.log(1e-130) for s in limit.stages if s.units]
            np.testing.assert_allclose(clock, exact, rtol=3 / -np.log(scale))


def test_linear_networks_at_every_scale():
    """Times are affine in log(1/alpha), for every mode, with the slope of the limit; below 1e-12 gradient
    flow in float64 would lose the small modes in the rounding of the large ones."""
    found = staircases("linear")
    modes = [s.feature["index"] for s in found[1e-12]]
    assert modes == [0, 1, 2, 3, 4]
    small = {scale: stairs for scale, stairs in found.items() if scale <= 1e-12}
    for stairs in small.values():
        assert [s.feature["index"] for s in stairs] == modes
    logs = -np.log(list(small))
    for times in np.transpose([stairs.jump_times for stairs in small.values()]):
        slope = np.diff(times) / np.diff(logs)
        np.testing.assert_allclose(slope, slope[-1], rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-14, 1e-16, 1e-18])
def test_no_mode_of_a_linear_network_is_lost(scale):
    """Stages so near each other that one transition goes on over three: the last mode, meanwhile smaller than
    what its unit carries of theirs, comes when the closed form of two other equations says."""
    task, units = TASKS["linear"]
    numeric, closed = (
        sw.predict(task, units, scale, method=method) for method in ("numeric", "closed")
    )
    np.testing.assert_allclose(numeric.jump_times, closed.jump_times, rtol=1e-3)
    assert next(a for a in numeric.assumptions if a.name.startswith("nothing left")).holds


def test_units_are_parted_by_a_rotation():
    """Functions of the sum do not change; dormant units are what they were before turns mixed them with
    active ones, though they then were nearly all a trace of those."""
    rng = np.random.default_rng(0)
    active = np.array([True, False, True, False, False])
    rows = np.linalg.qr(rng.normal(size=(9, 5)))[0].T  # orthogonal to each other
    sizes = np.array([1.0, 1e-7, 0.01, 1e-5, 1e-9])[:, None]
    apart = sizes * rows
    turn = np.eye(5)
    for k, angle in ((1, 1e-3), (3, 0.02), (4, 1e-6)):
        c, s = np.cos(angle), np.sin(angle)
        one = np.eye(5)
        one[[0, 0, k, k], [0, k, 0, k]] = c, s, -s, c
        turn = one @ turn
    mixed = turn @ apart
    parted = parted_units(mixed, active)
    np.testing.assert_allclose(parted.T @ parted, mixed.T @ mixed, atol=1e-15)
    small, exact = parted[~active], apart[~active]
    np.testing.assert_allclose(small.T @ small, exact.T @ exact, atol=1e-3 * 1e-10)
    assert (np.abs(mixed @ rows[active].T)[~active].max(axis=1) > 100 * sizes[~active, 0]).all()
    assert (np.abs(small @ rows[active].T) < 1e-6 * sizes[~active]).all()


def test_an_early_end_is_told():
    """Two units cannot learn three components: the list is short, and the assumption says why."""
    task = sw.tasks.in_context_regression([4, 2, 1], 16)
    few, enough = (
        sw.predict(task, sw.units.LinearAttention(width), 1e-3, method="numeric")
        for width in (2, 4)
    )
    told = {
        len(stairs): next(a for a in stairs.assumptions if a.name.startswith("nothing left"))
        for stairs in (few, enough)
    }
    assert not told[2].holds
    assert told[2].value > 0.01
    assert told[3].holds


def test_a_prediction_whose_steps_run_out_says_so(monkeypatch):
    """Else the list would be short without a word; that `max_time` was reached is what was asked for."""
    task, units = TASKS["attention"]
    cut = sw.predict(task, units, 1e-3, method="numeric", max_time=1.0)
    assert next(a for a in cut.assumptions if a.name.startswith("not cut short")).holds
    few = lambda: Thresholds(most_steps=20)  # noqa: E731
    monkeypatch.setattr("saddlewalk.theory.agf.walk.Thresholds", few)
    short = sw.predict(task, units, 1e-3, method="numeric")
    told = next(a for a in short.assumptions if a.name.startswith("not cut short"))
    assert not told.holds
    assert told.value > 0


def test_basis_vectors_too_small_to_be_kept_apart_are_told():
    """At 1e-120 modes of `numeric` are up to 74% off the closed form's, which has no such limit."""
    task, units = sw.tasks.linear_map(6, 5, seed=2), sw.units.Dense(6, "linear")
    for scale, right in ((1e-12, True), (1e-120, False)):
        numeric, closed = (
            sw.predict(task, units, scale, method=method) for method in ("numeric", "closed")
        )
        off = np.abs(np.array(numeric.jump_times) / closed.jump_times - 1).max()
        assert (off < 0.01) == right
        assert next(a for a in numeric.assumptions if a.name.startswith("basis")).holds == right


PARTED = "units kept apart"


def test_parallel_units_part_however_little_they_differ():
    """Two units of a ReLU network climb to one direction; when they are felt, 6e-14 is between them, and it
    decides when the smaller one turns away. Steps jump over the kinks between the two, which costs 2%."""
    task = sw.tasks.hidden_directions(samples=60, dim=4, outputs=2)
    units, scale = sw.units.Dense(4, "relu"), 1e-16
    stairs = sw.predict(task, units, scale, 4, method="numeric")
    assert [stage.units for stage in stairs] == [(0,), (3,), (1, 2)]
    assert not [a for a in stairs.assumptions if a.name.startswith(PARTED)]
    middle = 0.5 * (stairs.stages[0].loss + stairs.stages[1].loss)
    with np.errstate(under="ignore"):
        time, loss = relu_flow_of_a_pair(
            np.asarray(task.x), np.asarray(task.y), start_of(task, units, scale, 4), (0, 3), middle
        )
    assert stairs.jump_times[1] == pytest.approx(time[-1], rel=0.03)
    assert stairs.jump_times[0] == pytest.approx(
        time[loss < 0.5 * (loss[0] + stairs.stages[0].loss)][0], rel=1e-3
    )


@pytest.mark.parametrize("scale", [1e-20, 1e-30])
def test_what_rounding_may_part_is_told(scale):
    """From 1e-18 on the same two units differ by less than their last digit."""
    task = sw.tasks.hidden_directions(samples=60, dim=4, outputs=2)
    stairs = sw.predict(task, sw.units.Dense(4, "relu"), scale, 4, method="numeric")
    told = next(a for a in stairs.assumptions if a.name.startswith(PARTED))
    assert not told.holds
    assert stairs.jump_times[0] < told.value < stairs.jump_times[1]


def test_a_slow_unit_is_waited_for():
    """Its drive is less than a ten-thousandth of the first ones', and it takes a thousand times as long."""
    run = sw.Run.of("two-layer")
    stairs, path = run.predict(), run.train()
    report = sw.compare(stairs, path)
    assert report.order
    assert len(stairs) == len(path.stages) == 3
    assert max(report.time_error) < 2e-3
    assert stairs.jump_times[-1] > 500 * stairs.jump_times[0]


# --- from any state -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "scale"), [("diagonal", 1e-6), ("attention", 1e-3)])
def test_what_is_left_of_a_training_is_predicted_from_its_middle(name, scale):
    """Weights at 30, 50 and 70% of each plateau of gradient flow: the first stage is the next to come."""
    task, units = TASKS[name]
    path = sw.train(task, units, scale)
    jumps = [stage.time for stage in path.stages]
    moments = [
        (k, a + part * (b - a))
        for k, (a, b) in enumerate(zip([0.0, *jumps[:-1]], jumps, strict=True))
        for part in (0.3, 0.5, 0.7)
    ]
    dense = sw.train(task, units, scale, times=[now for _, now in moments])
    errors = []
    for (k, now), theta in zip(moments, dense.parameters, strict=False):
        stairs = sw.predict(task, units, scale, start=theta)
        assert len(stairs) == len(jumps) - k
        left = np.array(jumps[k:]) - now
        errors.append(np.abs(stairs.jump_times / left - 1))
    assert max(error.max() for error in errors) < 1e-2
    assert np.median(np.concatenate(errors)) < 2e-4


@pytest.mark.parametrize(
    ("task", "units", "scale", "seed", "now"),
    [
        (sw.tasks.linear_map(8, 4), sw.units.Dense(12, "linear"), 1e-4, 0, 14.81),
        (sw.tasks.sparse_regression(dim=10, seed=2), sw.units.Diagonal(), 1e-6, 0, 8.318),
        (
            sw.tasks.hidden_directions(samples=60, dim=4, outputs=2),
            sw.units.Dense(4, "quadratic"),
            1e-2,
            6,
            1340.67,
        ),
    ],
)
def test_what_still_relaxes_is_no_stage(task, units, scale, seed, now):
    """Soon after a drop of its training, which names the next: meanwhile a unit as good as dormant has
    grown by more than twice."""
    path = sw.train(task, units, scale, seed, times=[now])
    theta = path.parameters[int(np.argmin(abs(path.data["saved"].values - now)))]
    left = [stage.time - now for stage in path.stages if stage.time > now]
    stairs = sw.predict(task, units, scale, start=theta, method="numeric")
    assert len(stairs) == len(left)
    assert stairs.jump_times[0] == pytest.approx(left[0], rel=2e-3)


@pytest.mark.parametrize(
    ("seed", "now", "rel"), [(3, 47_636.0, 1e-4), (5, 221.0, 2e-3), (9, 111.7, 2e-3)]
)
def test_a_fall_of_active_units_is_a_stage_where_it_gets_faster(seed, now, rel):
    """Four tanh units, all in use, are halfway along a plateau of 95,000, on which they change by 1e-5 of
    themselves in a unit of time; then the loss falls by 7%. Two others are where the loss falls fast, then
    more slowly, and fast again. From there on against SciPy's Radau steps."""
    task, units = (
        sw.tasks.hidden_directions(samples=60, dim=4, outputs=2),
        sw.units.Dense(4, "tanh"),
    )
    path = sw.train(task, units, 1e-4, seed, times=[now], max_time=now + 1)
    theta, x, y = np.asarray(path.parameters[-1]), np.asarray(task.x), np.asarray(task.y)

    def look(state):
        w, a = np.split(state.reshape(theta.shape), [4], axis=1)
        answers = np.tanh(x @ w.T)
        return a, answers, (y - answers @ a) / len(x)

    def velocity(_, state):
        a, answers, r = look(state)
        return np.concatenate([(r @ a.T * (1 - answers**2)).T @ x, answers.T @ r], axis=1).ravel()

    def loss(state):
        return 0.5 * len(x) * np.sum(look(state)[-1] ** 2)

    stairs = sw.predict(task, units, 1e-4, start=theta, method="numeric")
    middle = 0.5 * (loss(theta) + stairs.stages[0].loss)

    def falls(_, state):
        return loss(state) - middle

    falls.terminal = True
    exact = solve_ivp(
        velocity, (0.0, 1e6), theta.ravel(), method="Radau", events=falls, rtol=1e-8, atol=1e-10
    )
    assert stairs.jump_times[0] == pytest.approx(exact.t[-1], rel=rel)
    assert stairs.stages[0].loss < 0.95 * loss(theta)


def test_a_remembered_network_does_not_keep_the_piece_it_was_seen_in():
    """A view of one row would hold all rows of its piece: gigabytes, where networks are large."""
    task, units = TASKS["attention"]
    with sw.float64():
        problem = Problem(task, units)
        walk = Walk(
            problem,
            start_of(task, units, 1e-3, 0),
            real_time=True,
            thresholds=Thresholds(remembered=0),
        )
        walk.run()
    moments = walk.record.moments
    assert len(moments) > 20
    for moment in moments:
        for array in (moment.theta, moment.active, moment.output):
            held = array if array.base is None else array.base
            assert held.nbytes == array.nbytes


@pytest.mark.slow
def test_calm_units_rest_though_a_slow_one_would_go_on():
    """Three neurons rest while one leaves a saddle at a rate of 1e-6, and others sleep: the walk neither
    waits without a step nor follows them by steps of thousands of right-hand sides."""
    run = sw.Run.of("group")
    stairs = sw.predict(run.task, run.units, 1e-6, method="numeric", max_time=2.95e7)
    path = sw.train(run.task, run.units, 1e-6, max_time=2.5e7)
    assert len(stairs) >= 6
    assert stairs.jump_times[0] == pytest.approx(path.stages[0].time, rel=1e-3)
    assert stairs.rhs_evaluations < 1_500_000


def test_a_stiff_valley_makes_no_stages():
    """Cubic neurons whose resting ones relax a million times faster than the last one grows: the loss falls
    once, and not in as many steps as the walk took pieces."""
    rng = np.random.default_rng(831)
    samples, inputs = int(rng.integers(8, 60)), int(rng.integers(2, 6))
    x = rng.normal(size=(samples, inputs)) @ np.diag(rng.uniform(0.3, 2, inputs))
    y = np.tanh(x @ rng.normal(size=(inputs, 2))) @ [1.0, -0.7]
    task, units = sw.tasks.from_arrays(x, y), sw.units.Dense(3, "cubic")
    path = sw.train(task, units, 1e-4, max_time=4.502e8)
    stairs = sw.predict(task, units, 1e-4, max_time=4.502e8, method="numeric")
    assert len(stairs) == len(path.stages) == 5
    assert stairs.jump_times == pytest.approx([stage.time for stage in path.stages], rel=1e-5)
    assert [s.loss for s in stairs] == pytest.approx([s.loss for s in path.stages], rel=1e-3)

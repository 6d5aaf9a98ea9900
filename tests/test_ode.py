"""The door to the solvers: order of accuracy, saddles, stiffness, clocks."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import saddlewalk as sw
from saddlewalk import ode


class Flow(ode.AbstractFlow):
    """A gradient flow in two numbers, for tests with a solution on paper."""

    def error_scale(self, y):
        return jnp.maximum(jnp.abs(y), 1e-300)

    def symmetrizer(self, y):
        return jnp.ones_like(y)

    def noise(self, y):
        return jnp.zeros_like(y)

    def observe(self, y):
        return y


class Saddle(Flow):
    """x grows, y falls fast onto a stable rest: dx = x (1 - x^2), dy = -1e4 (y - 1)."""

    def velocity(self, y):
        return jnp.stack([y[:, 0] * (1 - y[:, 0] ** 2), -1e4 * (y[:, 1] - 1)], axis=1)


class Pendulum(Flow):
    """dx = -sin x, a smooth scalar flow: tan(x/2) = tan(x0/2) exp(-t)."""

    def velocity(self, y):
        return -jnp.sin(y)


class Wakes(Flow):
    """dx = x^2 (degree 3) until x is large: x = 1 / (1/x0 - t), beside a unit that relaxes at rate 1."""

    watches = True

    def velocity(self, y):
        return jnp.stack([y[:, 0] ** 2, 1 - y[:, 1]], axis=1)

    def watch(self, y, velocity):
        return ode.Watch(1.0 - y[0, 0], (), jnp.asarray(True), y)


class Switches(Flow):
    """dx = rate, which is 1 until x has passed 1 and 2 from then on; it ends at x = 3."""

    rate: jax.Array = eqx.field(default_factory=lambda: jnp.ones(()))
    watches = True

    @property
    def context(self):
        return self.rate

    def within(self, context):
        return Switches(context)

    def velocity(self, y):
        return jnp.full_like(y, self.rate)

    def watch(self, y, velocity):
        goal = jnp.where(self.rate > 1, 3.0, 1.0)
        return ode.Watch(goal - y[0, 0], 2 * self.rate, self.rate > 1, y)


def run(flow, start, kind, rtol, times=(), **limits):
    with sw.float64():
        pieces = list(
            ode.integrate(
                flow,
                jnp.asarray(start),
                kind=kind,
                rtol=rtol,
                times=np.asarray(times, dtype=float),
                **limits,
            )
        )
    return pieces


@pytest.mark.parametrize("kind", ["explicit", "implicit"])
def test_solution_and_dense_output(kind):
    times = np.linspace(0.0, 3.0, 7)
    pieces = run(Pendulum(), [[1.0, 2.0]], kind, 1e-9, times, max_time=3.0)
    got_time = np.concatenate([p.requested_time for p in pieces])
    got = np.concatenate([p.requested for p in pieces if p.requested is not None])
    np.testing.assert_allclose(got_time, times)
    exact = 2 * np.arctan(np.tan(np.array([0.5, 1.0])) * np.exp(-times)[:, None])
    np.testing.assert_allclose(got[:, 0], exact, rtol=3e-7)
    np.testing.assert_allclose(pieces[-1].end[0], exact[-1], rtol=1e-7)


class Coupled(Flow):
    """Minus the gradient of a^2 b^2 / 2 + cos(a) + b^4 / 4."""

    def velocity(self, y):
        a, b = y[:, 0], y[:, 1]
        return jnp.stack([-a * b**2 + jnp.sin(a), -(a**2) * b - b**3], axis=1)


def one_step(method):
    """A compiled step of a method."""
    return jax.jit(lambda y, v, h, memory: method.step(y, v, h, memory)[:4])


@pytest.mark.parametrize(
    ("solver", "order"), [(ode.RungeKutta, 5), (ode.Rosenbrock, 4), (ode.Chebyshev, 2)]
)
def test_order_of_the_solvers(solver, order):
    """Halving fixed steps divides the error by 2^order, against DOP853 at 1e-13."""
    flow, end = Coupled(), 2.0
    with sw.float64():
        method = solver(flow)
        step = one_step(method)
        reference = solve_ivp(
            lambda t, y: np.asarray(flow.velocity(jnp.asarray(y)[None]))[0],
            (0.0, end),
            [0.7, 1.2],
            method="DOP853",
            rtol=1e-13,
            atol=1e-15,
        ).y[:, -1]
        errors = []
        for n in (40, 80, 160) if order == 5 else (80, 160, 320):
            y = jnp.array([[0.7, 1.2]])
            v, memory = flow.velocity(y), method.init(y)
            for _ in range(n):
                y, v, _, memory = step(y, v, end / n, memory)
            errors.append(np.abs(y[0] - reference).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > order - 0.4).all()
    assert (orders < order + 1.1).all()  # errors may cancel at these lengths


def test_stabilized_steps_are_long_and_stable():
    """Rate 1e4 beside growth from 1e-12: an explicit method needs 60 * 1e4 / 3.3 steps of 6."""
    pieces = run(Saddle(), [[1e-12, 0.5]], "stabilized", 1e-6, max_time=60.0)
    time = np.concatenate([p.time for p in pieces])
    x = np.concatenate([p.saved for p in pieces])[:, 0, 0]
    exact = np.log(0.5 / np.sqrt(1 - 0.25)) - np.log(1e-12)
    assert np.interp(0.5, x, time) == pytest.approx(exact, rel=1e-3)
    assert pieces[-1].end[0] == pytest.approx([1.0, 1.0], rel=1e-5)
    assert sum(p.evaluations for p in pieces) < 60 * 1e4 / 3.3 * 6 / 5


def test_implicit_steps_do_not_sit_at_a_saddle():
    """From 1e-12 off the saddle, x passes 1/2 at log(5e11 * sqrt(4/3)): large steps would damp it."""
    pieces = run(Saddle(), [[1e-12, 1.0]], "implicit", 1e-6, max_time=60.0)
    time = np.concatenate([p.time for p in pieces])
    x = np.concatenate([p.saved for p in pieces])[:, 0, 0]
    exact = np.log(0.5 / np.sqrt(1 - 0.25)) - np.log(1e-12)
    assert np.interp(0.5, x, time) == pytest.approx(exact, rel=1e-3)
    assert sum(p.steps for p in pieces) < 2000


def test_clock_resolves_a_jump_of_length_one_at_time_1e50():
    """x passes 1 at t = 1e50 - 1; the steps must grow to 1e49 and shrink to 1e-1."""
    pieces = run(Wakes(), [[1e-50, 0.5]], "implicit", 1e-6, max_steps=20_000)
    event = next(p for p in pieces if p.event)
    assert event.time[-1] == pytest.approx(1e50, rel=1e-4)
    assert event.end[0, 0] == pytest.approx(1.0, rel=1e-6)
    assert event.end[0, 1] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("kind", ["explicit", "stabilized", "implicit"])
def test_a_flow_goes_on_in_a_new_context_after_an_event(kind):
    """x = t until 1, then 2 t - 1: it is 3 at t = 2, and no piece ended between."""
    pieces = run(Switches(), [[0.5]], kind, 1e-6)
    assert len(pieces) == 1
    assert pieces[0].event
    assert pieces[0].time[-1] == pytest.approx(1.5, rel=1e-6)
    assert pieces[0].context == 2.0


def test_unknown_kind():
    with pytest.raises(sw.InputError, match="Known: explicit, implicit, stabilized"):
        run(Pendulum(), [[1.0]], "magic", 1e-6)


@pytest.mark.parametrize("kind", ["explicit", "stabilized", "implicit"])
def test_an_event_is_located_whatever_room_a_piece_has(kind, monkeypatch):
    """Of three steps a piece none may be left when the event is enclosed; each piece encloses it anew."""
    monkeypatch.setattr(sys.modules["saddlewalk.ode.integrate"], "_PIECE_STEPS", (3,))
    pieces = run(Wakes(), [[0.1, 0.0]], kind, 1e-6)
    assert pieces[-1].event
    assert pieces[-1].time[-1] == pytest.approx(9.0, rel=1e-4)
    assert pieces[-1].end[0, 0] == pytest.approx(1.0, rel=1e-6)


def test_states_that_do_not_feel_each_other_take_steps_of_their_own():
    """dy/dt = -sin(y), each for a time of its own; what too few tries leave of it is told."""
    starts = np.array([[[1.0, 2.0]], [[0.5, 1.5]]])
    with sw.float64():
        advance = jax.jit(lambda y, lasts: ode.advance_alone(Pendulum(), y, lasts, 1e-9, 10_000))
        ends, left, _ = advance(starts, np.array([3.0, 0.01]))
        assert not left.any()
        short = jax.jit(lambda y, lasts: ode.advance_alone(Pendulum(), y, lasts, 1e-9, 3))
        on_the_way, left, _ = short(starts, np.array([3.0, 0.01]))
        assert 0 < left[0] < 3
        rest, none, _ = advance(on_the_way, left)
        np.testing.assert_allclose(rest, ends, rtol=1e-7)
        assert not none.any()
    exact = 2 * np.arctan(np.tan(starts / 2) * np.exp(-np.array([3.0, 0.01]))[:, None, None])
    np.testing.assert_allclose(ends, exact, rtol=1e-7)

"""Closed forms of Get Rich Quick against tight integration, autodiff and constrained minimization."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import null_space
from scipy.optimize import minimize

import saddlewalk as sw
from saddlewalk.theory import lazyrich as lr
from saddlewalk.theory.lazyrich.piecewise import drives

MANY = 1000
TIMES = np.array([0.1, 1.0, 10.0, 100.0, 1000.0])


def flow_of_neurons(a, w, target, rates):
    """Every neuron by Dormand-Prince of order 8, each with its own steps: (neuron, time, 1 + d)."""

    def push(t, y, args):
        beta, (eta_a, eta_w) = args
        a, w = y[0], y[1:]
        da, dw = eta_a * (w @ beta - a * (w @ w)), eta_w * (a * beta - a**2 * w)
        return jnp.concatenate([da[None], dw])

    def one(y, beta, eta):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(push), diffrax.Dopri8(), 0.0, TIMES[-1], 1e-3, y, (beta, eta),
            saveat=diffrax.SaveAt(ts=jnp.asarray(TIMES)), max_steps=60_000,
            stepsize_controller=diffrax.PIDController(rtol=1e-12, atol=1e-14),
        ).ys  # fmt: skip

    with sw.float64():
        start = jnp.concatenate([jnp.asarray(a)[:, None], jnp.asarray(w)], axis=1)
        return np.asarray(jax.jit(jax.vmap(one))(start, jnp.asarray(target), jnp.asarray(rates)))


def draw_neurons(case, many):
    rng = np.random.default_rng({"up": 1, "balanced": 2, "down": 3}[case])
    w, target = rng.normal(size=(2, many, 3))
    rates = rng.uniform(0.5, 2.0, size=(many, 2))
    sizes = np.sum(w**2, axis=1)
    extra = rng.uniform(0.05, 10.0, size=many)
    if case == "down":
        delta = -np.minimum(extra, 0.95 * rates[:, 0] * sizes)
    else:
        delta = extra if case == "up" else np.zeros(many)
    a = rng.choice([-1, 1], many) * np.sqrt((delta + rates[:, 0] * sizes) / rates[:, 1])
    return a, w, target, rates


@pytest.mark.parametrize("case", ["up", "balanced", pytest.param("down", marks=pytest.mark.slow)])
def test_exact_neuron_follows_the_flow(case):
    """a, w to 1e-8 of their norm at times up to 1e3; downstream with and without a crossing of zero."""
    many = MANY if case != "down" else 4 * MANY
    a, w, target, rates = draw_neurons(case, many)
    truth = flow_of_neurons(a, w, target, rates)
    neurons = [lr.Neuron.of(*one) for one in zip(a, w, target, map(tuple, rates), strict=True)]
    paths = [neuron.at(TIMES) for neuron in neurons]
    found = np.stack([np.column_stack([path.a, path.w]) for path in paths])
    size = np.linalg.norm(truth, axis=2)
    errors = np.linalg.norm(found - truth, axis=2).max(axis=1) / size.min(axis=1)
    crossed = np.sign(truth[:, -1, 0]) != np.sign(a)
    if case == "down":
        assert crossed.sum() >= MANY
        assert (~crossed).sum() >= MANY
    else:
        assert not crossed.any()
    assert errors.max() < 1e-8
    np.testing.assert_array_equal([n.basin for n in neurons], np.sign(truth[:, -1, 0]))
    np.testing.assert_array_equal([np.isfinite(n.crossing_time) for n in neurons], crossed)
    # mu and phi, from the oracle's own a and w
    length = np.linalg.norm(truth[:, :, 1:], axis=2)
    mu = np.stack([path.mu for path in paths])
    phi = np.stack([path.phi for path in paths])
    true_phi = np.einsum("ntd,nd->nt", truth[:, :, 1:], target) / (
        length * np.linalg.norm(target, axis=1)[:, None]
    )
    assert np.abs(mu - truth[:, :, 0] * length).max() / np.abs(mu).max() < 1e-8
    assert np.abs(phi - true_phi).max() < 1e-8


@pytest.mark.parametrize("delta", [-1e3, -1e-8, 0.0, 1e-8, 1e3])
def test_exact_neuron_never_overflows(delta):
    neuron = lr.Neuron.with_delta(delta, [0.3, -0.2], [0.5, 0.5])
    path = neuron.at([0.0, 1.0, 1e6, 1e12])
    assert np.isfinite(path.a).all()
    assert np.isfinite(path.w).all()
    np.testing.assert_allclose(path.beta[0], [0.3, -0.2], rtol=1e-12)
    if delta > -1:
        np.testing.assert_allclose(path.beta[-1], [0.5, 0.5], rtol=1e-9)
    conserved = path.a**2 - np.sum(path.w**2, axis=1)
    np.testing.assert_allclose(conserved, delta, rtol=1e-9, atol=1e-12 + 1e-12 * abs(delta))


def test_crossing_time_is_where_a_vanishes():
    neuron = lr.Neuron.of(0.4, [-2.0, 0.5], [1.0, 0.3])
    path = neuron.at([neuron.crossing_time])
    assert abs(path.a[0]) < 1e-14
    assert neuron.basin == -1


def test_separating_surface_leads_to_the_saddle():
    """Exactly on the surface of appendix A.3 a and w beta vanish together."""
    beta, delta, a = np.array([1.0, 0.0]), -2.0, 0.5
    along = -a / 2 * (delta + np.sqrt(delta**2 + 4))
    across = np.sqrt(a**2 - delta - along**2)
    neuron = lr.Neuron.of(a, [along, across], beta)
    assert neuron.delta == pytest.approx(delta)
    early = neuron.at([8.0])
    assert abs(early.a[0]) < 1e-4 * a
    assert abs(early.w[0] @ beta) < 1e-3


@pytest.mark.parametrize(("a", "w"), [(0.0, [0.0, 0.0]), (0.0, [0.0, 2.0]), (1.0, [-1.0, 0.0])])
def test_saddles_and_their_surface_at_late_times(a, w):
    """Exactly on the surface (delta = 0, w against the target) and at rest: nothing overflows."""
    neuron = lr.Neuron.of(a, w, [1.0, 0.0])
    path = neuron.at([1.0, 1e3, 1e9])
    assert np.isfinite(path.beta).all()
    assert abs(path.beta[-1] @ neuron.target) < 1e-6
    assert neuron.basin == 0
    assert neuron.crossing_time == np.inf


def test_mu_and_phi_obey_the_printed_equations():
    neuron = lr.Neuron.of(0.7, [0.4, -1.0, 0.2], [1.0, 0.5, -0.3], (0.6, 1.7))
    t, h = 0.8, 1e-5
    path = neuron.at([t - h, t, t + h])
    product, size = 0.6 * 1.7, np.linalg.norm(neuron.target)
    kappa = np.sqrt(neuron.delta**2 + 4 * product * path.mu[1] ** 2)
    mu_rate = kappa * (path.phi[1] * size - path.mu[1])
    phi_rate = 2 * product * path.mu[1] * size / (kappa - neuron.delta) * (1 - path.phi[1] ** 2)
    assert (path.mu[2] - path.mu[0]) / (2 * h) == pytest.approx(mu_rate, rel=1e-8)
    assert (path.phi[2] - path.phi[0]) / (2 * h) == pytest.approx(phi_rate, rel=1e-8)


def test_neuron_refuses():
    with pytest.raises(sw.InputError, match="nothing to learn"):
        lr.Neuron.of(1.0, [1.0], [0.0])
    with pytest.raises(sw.InputError, match="one length"):
        lr.Neuron.of(1.0, [1.0, 2.0], [1.0])
    with pytest.raises(sw.InputError, match="positive"):
        lr.Neuron.of(1.0, [1.0], [1.0], (0.0, 1.0))
    with pytest.raises(sw.InputError, match="negative"):
        lr.Neuron.of(1.0, [1.0], [1.0]).at([-1.0])
    with pytest.raises(sw.InputError, match="direction"):
        lr.Neuron.with_delta(1.0, [0.0, 0.0], [1.0, 0.0])


# --- where it ends ----------------------------------------------------------------------------------


def end_of_flow(X, y, layers, steps=1e4):
    """Integrate the weights of a linear network until they rest; layers[0] is read first."""
    shapes = [np.shape(layer) for layer in layers]
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])

    def split(flat):
        parts = jnp.split(flat, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def the_map(flat):
        product = jnp.eye(X.shape[1])
        for layer in split(flat):
            product = layer @ product
        return product

    with sw.float64():
        slope = jax.jit(jax.grad(lambda f: 0.5 * jnp.sum((the_map(f) @ X.T - y) ** 2)))
        start = np.concatenate([np.ravel(layer) for layer in layers])
        done = solve_ivp(
            lambda t, f: -np.asarray(slope(f)), (0, steps), start, "LSODA", rtol=1e-12, atol=1e-14
        )
        final = np.asarray(the_map(done.y[:, -1]))
        assert np.linalg.norm(final @ X.T - y) < 1e-8
        return final[0], split(done.y[:, -1])


@pytest.mark.parametrize("delta", [-10.0, -3.0, -0.5, 0.0, 0.5, 3.0, 10.0])
def test_limit_of_one_neuron(delta):
    """The closed form, the flow's end, and the minimum of Theorem 1's objective agree."""
    rng = np.random.default_rng(int(10 * abs(delta)) + (delta < 0))
    kept = 0
    for trial in range(6):
        # five inputs of rank two: two samples, or seven that depend on each other
        X, y = rng.normal(size=(2, 5)), rng.normal(size=2)
        if trial % 2:
            more = rng.normal(size=(7, 2))
            X, y = more @ X, more @ y
        start = rng.normal(size=5)
        neuron = lr.Neuron.with_delta(delta, start, np.ones(5))
        end, layers = end_of_flow(X, y, [neuron.w[None], np.array([[neuron.a]])])
        sign = int(np.sign(np.asarray(layers[1]).item()))
        limit = lr.neuron_limit(X, y, neuron.a, neuron.w, sign=sign)
        assert np.linalg.norm(limit - end) < 1e-6 * np.linalg.norm(end)
        if sign < 0:
            continue  # Theorem 1 speaks of trajectories that keep the sign of a
        kept += 1
        if delta >= 0:
            np.testing.assert_allclose(lr.neuron_limit(X, y, neuron.a, neuron.w), limit)
        null = null_space(X)
        best = minimize(lambda c, s=start, m=limit, n=null: lr.neuron_bias(m + n @ c, s, delta),
                        np.full(3, 0.1), method="BFGS", options={"gtol": 1e-9})  # fmt: skip
        assert np.linalg.norm(null @ best.x) < 1e-5 * np.linalg.norm(end)
    assert kept >= 2


def test_limit_with_layer_rates():
    X, y = np.array([[1.0, 0.5, -0.2]]), np.array([1.3])
    a, w, rates = 0.8, np.array([0.3, -0.6, 0.9]), (0.4, 2.5)

    def push(t, state):
        slope = X.T @ (X @ (state[0] * state[1:]) - y)
        return -np.concatenate([[rates[0] * state[1:] @ slope], rates[1] * state[0] * slope])

    done = solve_ivp(push, (0, 500), np.r_[a, w], "LSODA", rtol=1e-12, atol=1e-14).y[:, -1]
    np.testing.assert_allclose(lr.neuron_limit(X, y, a, w, rates), done[0] * done[1:], rtol=1e-9)


@pytest.mark.parametrize("delta", [-4.0, -1.0, 0.0, 2.0])
def test_line_of_solutions(delta):
    """The paper's formula for a null space of one dimension is the general one there (k^2 + delta)."""
    X, y, start = np.array([[0.5, 1.0]]), np.array([1.1]), np.array([0.4, 0.05])
    neuron = lr.Neuron.with_delta(delta, start, [1.0, 0.0])
    general = lr.neuron_limit(X, y, neuron.a, neuron.w, sign=1)
    np.testing.assert_allclose(lr.line_limit(X, y, start, delta), general, rtol=1e-12)
    with pytest.raises(sw.InputError, match="not one"):
        lr.line_limit(np.eye(3)[:1], [1.0], [1.0, 0, 0], 1.0)


def test_potential_and_its_gradient():
    """grad Psi = sqrt(2) sgn(a) w, and g M^-1 is its Hessian, by autodiff of the printed potential."""
    beta, delta = np.array([0.7, -0.4, 1.1]), -1.3
    neuron = lr.Neuron.with_delta(delta, beta, np.ones(3))

    def printed(b):
        kappa = jnp.sqrt(delta**2 + 4 * b @ b)
        return (kappa - 2 * delta) * jnp.sqrt(kappa + delta) / 3

    with sw.float64():
        b = jnp.asarray(beta)
        assert lr.neuron_potential(beta, delta) == pytest.approx(float(printed(b)), rel=1e-12)
        np.testing.assert_allclose(jax.grad(printed)(b), np.sqrt(2) * neuron.w, rtol=1e-12)
        kappa = np.sqrt(delta**2 + 4 * beta @ beta)
        inverse = np.linalg.inv(lr.neuron_preconditioner(beta, delta))
        np.testing.assert_allclose(
            jax.hessian(printed)(b), np.sqrt(kappa + delta) * inverse, rtol=1e-10
        )


def test_no_map_fits():
    with pytest.raises(sw.InputError, match="No linear map fits"):
        lr.neuron_limit(np.ones((3, 1)), [1.0, 2.0, 3.0], 1.0, [1.0])
    with pytest.raises(sw.InputError, match="give sign"):
        lr.neuron_limit(np.ones((1, 2)), [1.0], 0.0, [1.0, 0.5])
    with pytest.raises(sw.InputError, match="stands still"):
        lr.neuron_limit(np.ones((1, 2)), [1.0], 0.0, [0.0, 0.0])
    with pytest.raises(sw.InputError, match="is zero"):
        lr.deep_limit(np.ones((1, 2)), [1.0], [0.0, 0.0], 2)


@pytest.mark.parametrize("delta", [-1e10, 1e8])
def test_far_from_balance_nothing_cancels(delta):
    """The limits are the ray through the start (downstream) and its projection (upstream)."""
    X, y, start = np.array([[0.5, 1.0]]), np.array([1.1]), np.array([0.4, 0.05])
    ray = start * 1.1 / (X[0] @ start)
    projected = start - X[0] * (X[0] @ start - 1.1) / (X[0] @ X[0])
    expected = ray if delta < 0 else projected
    np.testing.assert_allclose(lr.line_limit(X, y, start, delta), expected, rtol=1e-6)
    values = np.linalg.eigvalsh(lr.neuron_preconditioner([1.0, 0.0], delta))
    # kappa along the map, (kappa + delta)/2 across it
    across = delta if delta > 0 else 1 / abs(delta)
    np.testing.assert_allclose(np.sort(values), np.sort([across, abs(delta)]), rtol=1e-6)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_limit_of_deep_networks(depth):
    """Balanced layers of rank one: the flow's end minimizes Theorem 15's objective."""
    rng = np.random.default_rng(depth)
    X, y, start = rng.normal(size=(2, 4)), rng.normal(size=2), rng.normal(size=4)
    size = np.linalg.norm(start)
    turns = [start / size, *(np.linalg.qr(rng.normal(size=(4, 1)))[0][:, 0] for _ in range(depth))]
    each = size ** (1 / (depth + 1))
    layers = [each * np.outer(turns[k + 1], turns[k]) for k in range(depth)]
    end, _ = end_of_flow(X, y, [*layers, each * turns[-1][None]])
    limit = lr.deep_limit(X, y, start, depth)
    assert np.linalg.norm(limit - end) < 1e-6 * np.linalg.norm(end)
    null = null_space(X)
    best = minimize(lambda c: lr.deep_bias(limit + null @ c, start, depth), [0.1, 0.1], tol=1e-12)
    assert np.linalg.norm(best.x) < 1e-4


# --- function space ---------------------------------------------------------------------------------


def wide_start(rng, h, d, c, delta):
    """Weights with A A^T - W W^T = delta I."""
    if delta > 0:
        W = rng.normal(size=(h, d))
        root = np.linalg.cholesky(W @ W.T + delta * np.eye(h))
        return root @ np.linalg.qr(rng.normal(size=(c, h)))[0].T, W
    A = rng.normal(size=(h, c))
    root = np.linalg.cholesky(A @ A.T - delta * np.eye(h))
    return A, root @ np.linalg.qr(rng.normal(size=(d, h)))[0].T


def test_preconditioner_is_the_tangent_kernel_of_the_map():
    """M = J J^T for the map as a function of the weights, with learning rates."""
    rng = np.random.default_rng(0)
    A, W = rng.normal(size=(4, 2)), rng.normal(size=(4, 3))
    rates = (0.7, 1.9)
    with sw.float64():
        vec = lambda A, W: (W.T @ A).T.ravel()  # noqa: E731
        J_a, J_w = jax.jacobian(vec, (0, 1))(jnp.asarray(A), jnp.asarray(W))
        J_a, J_w = J_a.reshape(6, -1), J_w.reshape(6, -1)
        truth = rates[0] * J_a @ J_a.T + rates[1] * J_w @ J_w.T
    np.testing.assert_allclose(lr.preconditioner(A, W, rates), truth, atol=1e-12)
    deltas = rates[1] * np.sum(A**2, 1) - rates[0] * np.sum(W**2, 1)
    maps = W[:, :, None] * A[:, None, :]
    np.testing.assert_allclose(lr.neurons_preconditioner(maps, deltas, rates), truth, atol=1e-12)


@pytest.mark.parametrize(
    ("delta", "h", "d", "c"), [(1.5, 2, 3, 2), (-1.5, 3, 3, 2), (-0.7, 2, 2, 3)]
)
def test_isotropic_start(delta, h, d, c):
    rng = np.random.default_rng(1)
    A, W = wide_start(rng, h, d, c, delta)
    np.testing.assert_allclose(A @ A.T - W @ W.T, delta * np.eye(h), atol=1e-12)
    beta = W.T @ A
    np.testing.assert_allclose(
        lr.isotropic_preconditioner(beta, delta), lr.preconditioner(A, W), atol=1e-10
    )
    out, back = lr.gram_matrices(beta, delta)
    np.testing.assert_allclose(out, A.T @ A, atol=1e-10)
    np.testing.assert_allclose(back, W.T @ W, atol=1e-10)
    # the map's own equation against the flow of the weights
    slope = rng.normal(size=(d, c))
    moved = W.T @ (-W @ slope) + (-slope @ A.T) @ A
    np.testing.assert_allclose(lr.isotropic_rate(beta, slope, delta), moved, atol=1e-10)


def test_singular_values_follow_the_mirror_flow():
    """Lemma 10 and Theorem 11 along a real trajectory of A and W."""
    rng = np.random.default_rng(2)
    delta = -0.8
    A, W = wide_start(rng, 3, 3, 3, delta)
    target = rng.normal(size=(3, 3))

    def push(t, flat):
        A, W = flat.reshape(2, 3, 3)
        slope = W.T @ A - target
        return -np.concatenate([(W @ slope).ravel(), (A @ slope.T).ravel()])

    h = 1e-4
    done = solve_ivp(push, (0, 0.5 + h), np.r_[A.ravel(), W.ravel()], "DOP853", rtol=1e-12,
                     atol=1e-14, t_eval=[0.5 - h, 0.5, 0.5 + h]).y  # fmt: skip
    maps = [W.T @ A for A, W in (column.reshape(2, 3, 3) for column in done.T)]
    values = [np.linalg.svd(m, compute_uv=False) for m in maps]
    left, now, right = np.linalg.svd(maps[1])
    slopes = np.diag(left.T @ (maps[1] - target) @ right.T)
    rate = lr.singular_value_rate(now, slopes, delta)
    np.testing.assert_allclose((values[2] - values[0]) / (2 * h), rate, rtol=1e-5)
    with sw.float64():

        def printed(x):
            return (2 * x * jnp.arcsinh(2 * x / 0.8) - jnp.sqrt(4 * x**2 + 0.64) + 0.8) / 4

        np.testing.assert_allclose(lr.hyperbolic_entropy(now, delta), printed(now), rtol=1e-12)
        # a mirror flow: the second derivative of the potential times the rate is minus the slope
        curvature = np.asarray(jax.vmap(jax.grad(jax.grad(printed)))(jnp.asarray(now)))
    np.testing.assert_allclose(curvature * rate, -slopes, rtol=1e-10)


def test_entropy_is_l1_when_rich_and_l2_when_lazy():
    x = np.array([0.5, 1.0, 2.0])
    rich, lazy = (lr.hyperbolic_entropy(x, delta) for delta in (1e-200, 1e4))
    np.testing.assert_allclose(rich / rich[0], x / x[0], rtol=1e-2)
    np.testing.assert_allclose(lazy / lazy[0], (x / x[0]) ** 2, rtol=1e-6)
    assert lr.hyperbolic_entropy(0.0, 1.0) == 0
    with pytest.raises(sw.InputError, match="not zero"):
        lr.hyperbolic_entropy(1.0, 0.0)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_deep_preconditioner(depth):
    """Lemmas 13 and 14 by autodiff, from the isotropic start a = 0 moved along the flow."""
    rng = np.random.default_rng(depth)
    orthogonal = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(depth)]
    target, alpha = rng.normal(size=3), 0.9

    def split(flat):
        return flat[:3], flat[3:].reshape(depth, 3, 3)

    def the_map(flat):
        a, W = split(flat)
        for layer in reversed(range(depth)):
            a = W[layer].T @ a
        return a

    with sw.float64():
        slope = jax.jit(jax.grad(lambda f: 0.5 * jnp.sum((the_map(f) - target) ** 2)))
        start = np.concatenate([np.zeros(3), *(alpha * o.ravel() for o in orthogonal)])
        flat = solve_ivp(lambda t, f: -np.asarray(slope(f)), (0, 1.0), start, "DOP853", rtol=1e-12,
                         atol=1e-14).y[:, -1]  # fmt: skip
        J = np.asarray(jax.jacobian(the_map)(jnp.asarray(flat)))
    a, W = split(flat)
    delta = -(alpha**2)
    np.testing.assert_allclose(lr.deep_preconditioner(a, W[0], depth, delta), J @ J.T, atol=1e-8)
    size = a @ a
    assert np.sum(np.asarray(the_map(flat)) ** 2) == pytest.approx(size * (size - delta) ** depth)


@pytest.mark.parametrize("delta", [-3.0, 0.0, 2.0])
def test_kernel_rate(delta):
    beta, velocity, h = np.array([0.6, -0.3]), np.array([0.2, 0.9]), 1e-6
    ahead, behind = (lr.neuron_preconditioner(beta + s * h * velocity, delta) for s in (1, -1))
    np.testing.assert_allclose(
        lr.preconditioner_rate(beta, velocity, delta), (ahead - behind) / (2 * h), rtol=1e-7
    )


# --- regimes ----------------------------------------------------------------------------------------


def kernel_moves(A, W, X, Y, end):
    """Kernel distance from the start, and the loss over the first one, along a run."""

    def push(t, flat):
        a, w = flat[: A.size].reshape(A.shape), flat[A.size :].reshape(W.shape)
        slope = X.T @ (X @ w.T @ a - Y)
        return -np.concatenate([(w @ slope).ravel(), (a @ slope.T).ravel()])

    done = solve_ivp(push, (0, end), np.r_[A.ravel(), W.ravel()], "LSODA", rtol=1e-9, atol=1e-12)
    kernels = [
        lr.preconditioner(f[: A.size].reshape(A.shape), f[A.size :].reshape(W.shape))
        for f in done.y.T
    ]
    first = kernels[0] / np.linalg.norm(kernels[0])
    losses = [
        np.sum((X @ f[A.size :].reshape(W.shape).T @ f[: A.size].reshape(A.shape) - Y) ** 2)
        for f in done.y.T
    ]
    turns = np.array([1 - np.sum(first * k) / np.linalg.norm(k) for k in kernels])
    return turns, np.array(losses) / losses[0]


@pytest.mark.parametrize(
    ("shape", "sign", "expected"),
    [
        ((2, 3, 2), +1, "lazy"),  # narrows from input to output: lazy upstream
        ((2, 3, 2), -1, "delayed rich"),
        ((2, 2, 3), -1, "lazy"),  # widens: lazy downstream
        ((2, 2, 3), +1, "delayed rich"),
        ((3, 3, 2), -1, "lazy"),  # h >= max(d, c): lazy on both sides
        ((3, 3, 2), +1, "lazy"),
        ((2, 3, 2), 0, "rich"),
    ],
)
def test_regimes_by_dimension_and_sign(shape, sign, expected):
    """Theorem 6, and the kernel of a simulated network says the same."""
    h, d, c = shape
    rng = np.random.default_rng(5)
    X = rng.normal(size=(8, d)) / np.sqrt(8)
    Y = X @ rng.normal(size=(d, c))
    small, large = 0.1, 12.0
    A = rng.normal(size=(h, c)) * (large if sign > 0 else small)
    W = rng.normal(size=(h, d)) * (large if sign < 0 else small)
    if sign == 0:
        W *= np.linalg.norm(A, axis=1, keepdims=True) / np.linalg.norm(W, axis=1, keepdims=True)
    found = lr.linear_regime(A, W, X, Y)
    assert found.name == expected
    assert found.side == {1: "upstream", -1: "downstream", 0: "balanced"}[sign]
    assert expected in str(found)
    turns, losses = kernel_moves(A, W, X, Y, 2e4 if expected == "delayed rich" else 200)
    if expected == "lazy":
        assert turns.max() < 0.02
        return
    assert turns[-1] > 0.02
    begun = np.argmax(turns > 0.1 * turns[-1])
    if expected == "delayed rich":
        # what can be learned with the first kernel is, before it turns
        assert losses[begun] < 0.9
    else:
        assert losses[begun] > 0.9


def test_regime_refuses():
    with pytest.raises(sw.InputError, match="do not suit"):
        lr.linear_regime(np.ones((2, 1)), np.ones((2, 3)), np.ones((4, 2)), np.ones(4))
    with pytest.raises(sw.InputError, match="hidden neurons"):
        lr.linear_regime(np.ones((1, 2)), np.ones((1, 3)), np.ones((4, 3)), np.ones((4, 2)))


def test_many_neurons_or_large_ones_are_not_rich():
    """Small deltas are not enough: 400 balanced neurons are lazy, and large balanced maps are no limit."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(20, 3))
    Y = X @ rng.normal(size=(3, 1))
    W = 0.4 * rng.normal(size=(400, 3))
    A = np.linalg.norm(W, axis=1, keepdims=True) * rng.choice([-1, 1], (400, 1))
    assert lr.linear_regime(A, W, X, Y).name == "between"
    w = np.zeros((1, 3))
    w[0, 0] = 100.0
    assert lr.linear_regime(np.array([[99.0]]), w, X, Y).name == "between"


# --- piecewise-linear networks ------------------------------------------------------------------------


@pytest.mark.parametrize("leak", [0.0, 0.2])
def test_spherical_coordinates_move_as_printed(leak):
    rng = np.random.default_rng(3)
    a, w, X = rng.normal(size=5), rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    y, rates = rng.normal(size=7), (0.8, 1.4)

    def loss(a, w):
        z = w @ X.T
        return 0.5 * jnp.mean((a @ jnp.where(z > 0, z, leak * z) - y) ** 2)

    with sw.float64():
        da, dw = (np.asarray(g) for g in jax.grad(loss, (0, 1))(jnp.asarray(a), jnp.asarray(w)))
        z = w @ X.T
        residual = a @ np.where(z > 0, z, leak * z) - y
    da, dw = -rates[0] * da, -rates[1] * dw
    h = 1e-6
    ahead, behind = (lr.signed_spherical(a + s * h * da, w + s * h * dw) for s in (1, -1))
    deltas = rates[1] * a**2 - rates[0] * np.sum(w**2, axis=1)
    moved = lr.spherical_rates(
        lr.signed_spherical(a, w), deltas, drives(X, residual, w, leak), rates
    )
    np.testing.assert_allclose(moved.mu, (ahead.mu - behind.mu) / (2 * h), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        moved.direction, (ahead.direction - behind.direction) / (2 * h), rtol=1e-6, atol=1e-8
    )
    with sw.float64():
        kernel = lr.piecewise_kernel(*map(jnp.asarray, (a, w, X)), rates, leak)
        answer = lambda a, w, x: a @ jnp.where(w @ x > 0, w @ x, leak * (w @ x))  # noqa: E731
        J_a, J_w = jax.vmap(jax.grad(answer, (0, 1)), (None, None, 0))(
            jnp.asarray(a), jnp.asarray(w), jnp.asarray(X)
        )
        J_w = J_w.reshape(7, -1)
        np.testing.assert_allclose(
            kernel, rates[0] * J_a @ J_a.T + rates[1] * J_w @ J_w.T, rtol=1e-10, atol=1e-12
        )

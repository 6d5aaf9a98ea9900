"""Independent ways to the same numbers: other formulations, other libraries, no package code."""

import numpy as np
from scipy.integrate import LSODA, solve_ivp
from scipy.optimize import lsq_linear


def random_design(seed):
    """n from 5 to 200, d from 2 to 100, sparse or dense, noisy or not, correlated or not."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 201)), int(rng.integers(2, 101))
    x = rng.normal(size=(n, d))
    rho = rng.choice([0.0, 0.5, 0.9])
    for j in range(1, d):
        x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * x[:, j]
    beta = rng.normal(size=d) * (rng.random(d) < rng.choice([0.2, 1.0]))
    beta[0] = 1.0
    y = x @ beta + rng.choice([0.0, 0.3]) * rng.normal(size=n)
    return x, y


def pesme_flammarion(x, y, rest=1e-9):
    """Algorithm 2, with bounded-variable least squares on every coordinate that is at a wall."""
    n, d = x.shape
    s, beta, time, wall = np.zeros(d), np.zeros(d), 0.0, np.zeros(d)
    first = np.abs(x.T @ y / n).max()
    stages = []
    while True:
        gradient = x.T @ (x @ beta - y) / n
        free = (beta == 0) & (np.abs(gradient) > rest * first)
        if not free.any():
            return stages
        wait = np.full(d, np.inf)
        wait[free] = (1 + np.sign(gradient[free]) * s[free]) / np.abs(gradient[free])
        step = wait.min()
        # a coordinate leaves its wall as soon as the gradient pulls it inward
        s = np.where(beta == 0, s - step * gradient, s)
        wall = np.where(beta != 0, np.sign(s), 0.0)
        hit = int(np.argmin(wait))
        s[hit] = wall[hit] = -np.sign(gradient[hit])
        time += step
        at_wall = np.flatnonzero(wall)
        low = np.where(wall[at_wall] > 0, 0.0, -np.inf)
        high = np.where(wall[at_wall] > 0, np.inf, 0.0)
        solution = lsq_linear(
            x[:, at_wall], y, bounds=(low, high), method="bvls", tol=1e-14, max_iter=1000
        ).x
        new = np.zeros(d)
        new[at_wall] = np.where(np.abs(solution) > 1e-11 * np.abs(solution).max(), solution, 0.0)
        turned_on = set(np.flatnonzero((new != 0) & (beta == 0)))
        turned_off = set(np.flatnonzero((new == 0) & (beta != 0)))
        beta = new
        stages.append((time, 0.5 * np.mean((x @ beta - y) ** 2), turned_on, turned_off))


def mirror_flow(x, y, alpha, times, rtol=1e-12):
    """Loss of the diagonal network by its mirror descent: ds/dt = -grad L, beta = alpha^2 sinh(2s)."""
    n = len(y)
    log_alpha = np.log(alpha)

    def beta(s):  # alpha^2 sinh(2 s); trial steps far too long are cut off, and then rejected
        up, down = (np.exp(np.minimum(2 * (log_alpha + z), 300.0)) for z in (s, -s))
        return 0.5 * (up - down)

    solution = solve_ivp(
        lambda t, s: -x.T @ (x @ beta(s) - y) / n,
        (0.0, times[-1]),
        np.zeros(x.shape[1]),
        method="DOP853",
        t_eval=times,
        rtol=rtol,
        atol=rtol,
        first_step=1e-3,
    )
    assert solution.success
    return np.array([0.5 * np.mean((x @ beta(s) - y) ** 2) for s in solution.y.T])


def relu_flow_of_a_pair(x, y, theta, pair, until, *, rounding=1e-3, rtol=1e-8):
    """Time and loss of a ReLU network two of whose units may be parallel to any digit.

    In direction v and logarithm s of the norm nothing knows the scale. The second unit of the pair is
    v_i + exp(rho) e, and all differences between the two are taken before rounding. Kinks are rounded over a
    part of each unit's norm, so that what slides along them is stiff, and no step jumps over one.
    """
    (n, d), (m, size), (i, j) = x.shape, theta.shape, pair
    norm = np.linalg.norm(theta, axis=1)
    first = theta / norm[:, None]
    apart = first[j] - first[i]
    first[j] = apart / np.linalg.norm(apart)
    start = np.concatenate([first.ravel(), np.log(norm), [np.log(np.linalg.norm(apart))]])

    def look(state):
        v = state[: m * size].reshape(m, size).copy()
        e = v[j].copy()
        v[j] = v[i] + np.exp(state[-1]) * e
        z = v[:, :d] @ x.T
        size_2 = np.exp(2 * state[m * size : -1])[:, None]
        return v, e, z, (y - (np.maximum(z, 0.0) * size_2).T @ v[:, d:]) / n

    def velocity(_, state):
        v, e, z, r = look(state)
        h, root, push, square = (
            np.maximum(z, 0.0),
            np.hypot(z, rounding),
            v[:, d:] @ r.T,
            np.sum(v**2, 1),
        )
        slope = 0.5 * (1 + z / root)
        climb = np.concatenate([(slope * push) @ x, h @ r], axis=1)
        growth = np.sum(climb * v, axis=1)
        turn = climb - growth[:, None] * v + (1 - square)[:, None] * v
        dz = x @ e[:d]  # differences, all over exp(rho)
        dslope = (
            0.5 * dz * (root[i] - z[i] * (z[j] + z[i]) / (root[i] + root[j])) / (root[i] * root[j])
        )
        both = np.where(z[i] > 0, dz, 0.0)
        dh = np.where((z[i] > 0) == (z[j] > 0), both, (h[j] - h[i]) * np.exp(-state[-1]))
        dclimb = np.concatenate([(dslope * push[j] + slope[i] * (r @ e[d:])) @ x, dh @ r])
        change = dclimb - (dclimb @ v[j] + climb[i] @ e) * v[j] - growth[i] * e
        change += (1 - square[i]) * e - (e @ (v[j] + v[i])) * v[j]
        opening = e @ change / (e @ e)
        turn[j] = change - opening * e + (1 - e @ e) * e
        return np.concatenate([turn.ravel(), growth, [opening]])

    solver, curve = LSODA(velocity, 0.0, start, np.inf, rtol=rtol, atol=1e-2 * rtol), []
    while not curve or curve[-1][1] > until:
        solver.step()
        curve.append((solver.t, 0.5 * n * np.sum(look(solver.y)[-1] ** 2)))
    return np.transpose(curve)

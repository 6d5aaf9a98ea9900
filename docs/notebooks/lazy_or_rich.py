# %% [markdown]
# # 5. Lazy or rich
#
# Two networks can fit the same data and have learned in opposite ways. A **lazy** one keeps the features it was born
# with and combines them; a **rich** one makes new ones. What decides? The size of the start, and one number that
# training never changes.
#
# ## One neuron: everything in closed form
#
# Take the smallest network with two layers, $f(x) = a\, (w \cdot x)$. Multiply $a$ by two and divide $w$ by two: it
# computes the same. Because the loss cannot tell these apart, gradient flow *conserves*
#
# $$ \delta = a^2 - |w|^2 . $$
#
# (Write $\dot a = w \cdot g$ and $\dot w = a\, g$ with the same vector $g$, and differentiate.) Start with $\delta > 0$, and
# the readout is larger: it stays so forever.

# %%
import matplotlib.pyplot as plt
import numpy as np

import saddlewalk as sw

times = np.geomspace(1e-3, 100, 400)
neurons = {
    delta: sw.theory.lazyrich.Neuron.with_delta(delta, beta=[-0.5, 0.5], target=[1.0, 1.0])
    for delta in (-4.0, 0.0, 4.0)
}

# %% alt="Three ways through the plane of beta: a straight line for large positive delta, curved ones else"
for delta, neuron in neurons.items():
    beta = neuron.at(times).beta
    plt.plot(beta[:, 0], beta[:, 1], label=f"δ = {delta:g}")
plt.plot(-0.5, 0.5, "ko", label="start")
plt.plot(1.0, 1.0, "k*", markersize=12, label="target")
plt.axis("equal")
plt.xlabel("β₀ = a w₀")
plt.ylabel("β₁ = a w₁")
plt.legend()
plt.show()

# %% [markdown]
# **What to look at.** All three start at the same function and end at the same function. With $\delta = 4$ (**upstream**:
# $w$ is small, and learns fast) the way is nearly straight: to the function it looks like linear regression. With
# $\delta = -4$ (**downstream**: the readout is small) the neuron first changes its *size* along the direction it has,
# and turns later. The same data, the same function at the start, another balance.
#
# ## A ReLU network: watch the kernel
#
# Is a network lazy? Ask its **tangent kernel**: inner products of the gradients of its outputs with respect to the
# weights, for each pair of inputs. If it stands still, the network is a linear model in the features of its first
# moment; if it turns, it has made new ones. `kernel_distance` is zero if it did not turn, at most one.

# %%
rng = np.random.default_rng(0)
X = rng.normal(size=(20, 4))
X /= np.linalg.norm(X, axis=1, keepdims=True)
target = np.maximum(X[:, 0], 0) - np.maximum(X[:, 1], 0)
task, units = sw.tasks.from_arrays(X, target), sw.units.Dense(16, "relu")
problem = sw.Problem(task, units)
with sw.float64():
    start = problem.initialize(scale=0.1)


def train(tau, delta):
    """From one and the same draw, rescaled to size tau and balance delta."""
    balanced = sw.balance.rescaled(problem, start, tau=tau, delta=delta)
    return sw.train(task, units, scale=0.1, start=balanced, max_time=300)


starts = [(2.0, 0.0), (0.1, 0.0), (0.1, 1.0), (0.1, -1.0)]
runs = {(tau, delta): train(tau, delta) for tau, delta in starts}
regimes = {key: sw.diagnose.find_regime(path) for key, path in runs.items()}

for (tau, delta), regime in regimes.items():
    print(f"tau {tau:3g}, delta {delta:2g}: {regime.name}, distance {regime.kernel_distance:.2f}")

# %% alt="Four loss curves; only the small balanced start has a plateau, and the upstream one is faster"
for (tau, delta), path in runs.items():
    plt.loglog(path.time[1:], path.loss[1:], label=f"τ = {tau:g}, δ = {delta:g}")
plt.xlabel("time")
plt.ylabel("loss")
plt.legend()
plt.show()

# %% tags=["check"]
assert [str(regime.name) for regime in regimes.values()] == ["lazy", "rich", "rich", "lazy"]
half = {key: path.time[np.argmax(path.loss < 0.5 * path.loss[0])] for key, path in runs.items()}
assert half[(0.1, 1.0)] < 0.5 * half[(0.1, 0.0)]

# %% [markdown]
# **What to look at.** The loss says nothing about the features: all four fit. The kernel does. From a large balanced
# start it hardly turns (lazy); from a small one it does (rich), after a plateau. With $\delta = 1$ the small start is as
# rich *without* the plateau: the first layer is small, turns at once, and the readout is there to use it. With
# $\delta = -1$ the start is as small, and the network is lazy: the readout alone learns. That is the message of *Get
# Rich Quick*: balance, and not size alone, decides whether features are learned, and how quickly.
#
# **Why it is true.** A small layer turns quickly, because the other, large one multiplies its gradient: in
# $\dot w = a\, g$ and $\dot a = w\cdot g$ the larger factor drives the smaller weight. Upstream the first layer is the
# small one, so features move first; downstream it is the readout, which fits with the features that are there.
#
# ## Exercises
#
# 1. Check that $\delta$ is conserved: `print(sw.diagnose.conserved_drift(path))`. Then train with
#    `solver="descent", learning_rate=0.1`. Why is it not conserved any more, and how does the error depend on the rate?
# 2. Go from $\delta = -1$ to $\delta = 0$ in small steps. Where does the network become rich? Does its kernel turn early, or
#    late (`regime.delay`)?
# 3. Measure the error on 300 new inputs for the four runs. Which kind generalizes better on this target, and would that
#    be so for a *linear* target?
#
# Next: [Recursive Feature Machines](recursive_feature_machine.md). More: [Regimes](../regimes.md). A map over both
# numbers: [a phase diagram](phase_diagram.md).

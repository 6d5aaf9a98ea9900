# %% [markdown]
# # 3. Your own architecture
#
# saddlewalk does not know a list of networks. It knows one idea: a network is a **sum of units** that meet only in the
# residual. Say what one unit's weights are and how it answers, and everything works: prediction, training, diagnosis.
# Here we make a unit that the papers do not have: a linear value times a linear gate.

# %%
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import saddlewalk as sw


class Gated(sw.units.AbstractUnits):
    """One unit answers a (g·x) (w·x)."""

    width: int

    def layers(self, inputs, outputs):
        return {"g": (inputs,), "w": (inputs,), "a": (outputs,)}

    def respond(self, weights, x):
        return weights["a"] * jnp.dot(weights["g"], x) * jnp.dot(weights["w"], x)


# %% [markdown]
# `layers` gives the shapes of the weights of *one* unit, `respond` its answer to *one* input; the package does the
# rest. What can such a unit learn? Products of inputs:

# %%
rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
task = sw.tasks.from_arrays(X, 2.0 * X[:, 0] * X[:, 1] + 0.5 * X[:, 2] * X[:, 3])

stairs = sw.predict(task, Gated(4), scale=0.05)
path = sw.train(task, Gated(4), scale=0.05)
report = sw.compare(stairs, path)
report

# %% alt="Three drops, predicted over simulated; below, the output of unit 2, then that of unit 0"
report.plot()
# %% [markdown]
# **What to look at.** The first unit that wakes learns the strong product $x_0 x_1$, in *two* drops. Its gate and its
# value could be $x_0$ and $x_1$, or any of the mixtures that are as useful at first, such as
# $(x_0+x_1)(x_0+x_1) = x_0^2 + 2x_0x_1 + x_1^2$. It wakes as a mixture, with squares that nobody asked for, and turns to
# the pure product in the second drop. The third drop is called an *adjustment*: no unit wakes there; the second one,
# which is awake already, turns to $x_2 x_3$. Look at what a unit computes, as a matrix of products:

# %%
late = path.parameters[-1]
for unit in (2, 0):
    g, w, a = late[unit, :4], late[unit, 4:8], late[unit, 8]
    print(
        f"unit {unit}: coefficient of x_i x_j\n", (a * (np.outer(g, w) + np.outer(w, g))).round(1)
    )

# %% tags=["check"]
products = [
    a * (np.outer(g, w) + np.outer(w, g))
    for g, w, a in ((late[u, :4], late[u, 4:8], late[u, 8]) for u in (2, 0))
]
assert abs(products[0][0, 1] - 2.0) < 0.2
assert abs(products[1][2, 3] - 0.5) < 0.1
assert [stage.units for stage in stairs.stages] == [(2,), (0,), ()]
np.testing.assert_allclose(sum(products)[[0, 2], [1, 3]], [2.0, 0.5], atol=0.01)

# %% [markdown]
# ## The order κ, and how long plateaus last
#
# Multiply all weights of a unit by $\alpha$: its answer is multiplied by $\alpha^\kappa$. Here three weights are
# multiplied, so $\kappa = 3$. The package finds it by trying:

# %%
print("κ of a diagonal unit:", sw.units.find_degree(sw.units.Diagonal(), 4, 1))
print("κ of a gated unit:   ", sw.units.find_degree(Gated(4), 4, 1))

# %% [markdown]
# The order decides how long a plateau lasts. A unit of size $r$ grows at a rate $\dot r \propto r^{\kappa-1}$. For
# $\kappa = 2$ that is an exponential, and the wait is $\log(1/\alpha)$; for $\kappa = 3$ it is $\dot r \propto r^2$,
# whose solution blows up at a time proportional to $1/\alpha$. Test it:

# %% alt="Jump time over scale: proportional to log(1/alpha) for kappa 2, to 1/alpha for kappa 3"
scales = [0.1, 0.03, 0.01, 0.003, 0.001]
linear = sw.tasks.from_arrays(X, X @ [2.0, 0.0, 0.5, 0.0])
two = [sw.predict(linear, sw.units.Diagonal(), scale).jump_times[0] for scale in scales]
three = [sw.predict(task, Gated(4), scale, max_time=1e5).jump_times[0] for scale in scales]
plt.loglog(scales, two, "o-", label="κ = 2 (diagonal)")
plt.loglog(scales, three, "o-", label="κ = 3 (gated)")
plt.loglog(scales, three[-1] * scales[-1] / np.array(scales), "k:", label="1/scale")
plt.xlabel("scale of the start")
plt.ylabel("time of the first jump")
plt.legend()
plt.show()

# %% tags=["check"]
assert report.order
assert 9 < three[-1] / three[2] < 11
assert two[-1] / two[2] < 2

# %% [markdown]
# **Why it matters.** With $\kappa = 3$ (attention heads, gated and quadratic units) a start ten times smaller costs ten
# times the training. A plateau there cannot be waited for, but it can be *computed*: the prediction costs the same at
# every scale, because it skips over the waiting.
#
# ## Exercises
#
# 1. Put a `jnp.tanh` around the gate. Is κ still 3? (Small inputs of a tanh are linear.) Put a `jax.nn.sigmoid` there:
#    what is κ now, and why?
# 2. Write a unit that answers $a\,(w\cdot x)^3$. What is its order? Predict how its first jump time depends on the scale,
#    then measure it.
# 3. Make the two products equally strong. What becomes of the staircase?
#
# Next: [watch a PyTorch training](watch_pytorch.md). To add units to the package itself:
# [Bring a new architecture](../howto/architecture.md).

# %% [markdown]
# # 1. A first staircase
#
# You know how a neural network is trained. Here you train one from *very small* weights, see that its loss falls in
# steps, and learn to compute these steps with pencil and paper. It takes about ten minutes; nothing but NumPy is
# needed for the first half.
#
# The network is the smallest that learns features: one *unit* for each input, and each unit multiplies its input by
# two weights,
#
# $$ f(x) = \sum_i u_i v_i \, x_i . $$
#
# What it can express is a linear regression with coefficients $\beta_i = u_i v_i$. How it *learns* is not linear at all.

# %%
import numpy as np

import saddlewalk as sw

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 5))
y = X @ [3.0, 0.0, -1.5, 0.0, 0.7]  # three inputs of five matter

# %% [markdown]
# ## Train it by hand
#
# Plain gradient descent on half the mean squared error, from weights of size $10^{-6}$.

# %%
scale, rate = 1e-6, 0.01
u, v = np.full(5, np.sqrt(2) * scale), np.zeros(5)
losses, coefficients = [], []
for _ in range(4000):
    residual = y - X @ (u * v)
    correlation = X.T @ residual / len(X)  # what is left to learn, seen by each input
    u, v = u + rate * correlation * v, v + rate * correlation * u
    losses.append(0.5 * np.mean(residual**2))
    coefficients.append(u * v)

# %% alt="Loss in steps, and below it one coefficient after the other leaving zero"
import matplotlib.pyplot as plt

figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 5))
time = rate * np.arange(4000)
above.plot(time, losses)
above.set_ylabel("loss")
below.plot(time, coefficients, label=[f"input {i}" for i in range(5)])
below.set(xlabel="time (learning rate times steps)", ylabel="coefficient $u_i v_i$")
below.legend()
plt.show()

# %% [markdown]
# **What to look at.** Nothing happens for a long time; then the loss drops, and one coefficient jumps from zero to
# (nearly) its final value; then nothing again. The strongest input comes first. Inputs 1 and 3, which do not matter,
# stay at zero. The flat parts are not bad luck with the learning rate: each is a *saddle*, a point where the gradient is
# almost zero although there is a way down.
#
# ## Why it waits, and for how long
#
# While the weights are tiny, the network answers nothing, so the correlation $c_i$ of input $i$ with what is left to
# learn stands still. Then the two lines of the loop say $\dot u_i = c_i v_i$ and $\dot v_i = c_i u_i$, so that both
# weights grow like $\alpha\, e^{|c_i| t}$, where $\alpha$ is the size of the start. They reach size one at
#
# $$ t_i \approx \frac{\log(1/\alpha)}{|c_i|} . $$
#
# An exponential needs most of its time to leave zero, and is through in an instant: that is the plateau, and the drop.
# And the unit with the largest $|c_i|$ wins the race.

# %%
first = np.abs(X.T @ y / len(X))
by_hand = np.log(1 / scale) / first.max()
half = 0.5 * (losses[0] + 0.5 * np.mean((y - X[:, 0] * coefficients[700][0]) ** 2))
seen = time[np.argmax(np.array(losses) < half)]
print(f"first jump, with pencil and paper: {by_hand:.2f}; seen: {seen:.2f}")

# %% tags=["check"]
assert first.argmax() == 0
assert abs(by_hand / seen - 1) < 0.1

# %% [markdown]
# ## Let saddlewalk do it
#
# The later jumps need more bookkeeping: all units grow all the time, each at a rate that changes whenever another one
# has learned something. Alternating Gradient Flows does that bookkeeping. It never trains the network.

# %%
task, units = sw.tasks.from_arrays(X, y), sw.units.Diagonal()
stairs = sw.predict(task, units, scale=scale)
stairs

# %% [markdown]
# Each row is a jump: when, the loss after it, and what is learned, with its sign. Below the table stand the assumptions
# of the theory, measured on these data. Now the truth beside it: `train` follows the *gradient flow*, which is gradient
# descent with infinitely small steps, from the same start.

# %%
path = sw.train(task, units, scale=scale)
report = sw.compare(stairs, path)
report

# %% alt="Predicted and simulated loss lie on top of each other; below, coefficients 0, 2 and 4 jump in this order"
report.plot()
# %% tags=["check"]
assert report.order
assert [stage.units for stage in stairs.stages] == [(0,), (2,), (4,)]
assert max(report.time_error) < 1e-3
assert abs(losses[-1]) < 0.01

# %% [markdown]
# **Why it is true.** Two facts, and only these: tiny units do not feel each other (they meet in the residual, and
# contribute nothing to it), and large ones settle quickly compared with how long a tiny one needs to grow. A network
# for which either fails has no staircase; try one below.
#
# ## Exercises
#
# 1. Divide `scale` by 1,000. By how much is the first jump later? Compute it before you run it.
# 2. Make two coefficients almost equal (3.0 and 2.9). What happens to the plateau between them? At which scale does it
#    come back?
# 3. Start from `scale=0.5`. Is there a staircase? What does `predict` say about its assumptions?
# 4. Give the inputs a correlation (`X[:, 1] += 0.8 * X[:, 0]`). Input 1 is useless, and yet it may be learned for a
#    while, and *unlearned* later. Find a case. (Fig 8 of *Alternating Gradient Flows* has one.)
#
# To drag the scale and the correlation instead of typing them: `saddlewalk explore` opens a page with this network, made for
# sliders ([the explorer](../explorer.md)).
#
# Next: [your own data](your_own_data.md).

# %% [markdown]
# # 8. Reproduce a figure, and change it
#
# Every figure of the four papers is one entry here, with its **claims**: statements of the paper as numbers that can
# fail. Reproducing is the beginning. The question that teaches something is: *what must I change for the claim to break?*
#
# ## Reproduce
#
# Figure 8 of *Alternating Gradient Flows*: in a diagonal network a coefficient can be learned, be unlearned, and be
# learned again with the *other sign*.

# %%
import numpy as np

import saddlewalk as sw

figure = sw.figures.ENTRIES["agf-8"].maker()
figure

# %% alt="Fig 8: losses at five scales, the way of the coefficients between saddles, weights, and accumulated utility"
figure.plot()
# %% tags=["check"]
assert all(claim.holds for claim in figure.claims)

# %% [markdown]
# **What to look at.** Each claim stands with what was measured. In the picture above right gradient flow goes from saddle
# to saddle (stars), the more sharply the smaller the start. At the first saddle coefficient 0 is positive; at the end it is $-0.2$.
#
# ## Why would a coefficient be unlearned?
#
# The data are two inputs with a strong correlation. Let us look at them.

# %%
task = sw.tasks.agf_figure_8()
second_moments = task.x.T @ task.x / len(task.x)
print("second moments of the inputs:\n", second_moments.round(2))
print("what the target asks for at first:", (task.x.T @ task.y[:, 0] / len(task.x)).round(2))
print("solution:", np.linalg.solve(task.x, task.y[:, 0]).round(2))

# %% [markdown]
# Input 0 alone looks *positively* useful, because it goes along with input 1, which is. When input 1 has been learned,
# what is left to learn from input 0 is negative. Its unit must come down to zero first: in $u v$ with
# $u^2 - v^2$ conserved there is no way from plus to minus that does not pass through tiny values, where everything is slow.
# So there is a plateau in the middle, and it is called *returning to dormancy*.
#
# ## Change it
#
# Turn the angle of the data, and keep the solution. From which angle on is nothing unlearned?


# %%
def design(degrees):
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x = np.linalg.cholesky(turn @ np.diag([1.0, 25.0]) @ turn.T)
    return sw.tasks.from_arrays(x, x @ np.array([-0.2, 2.0]))


def told(stage):
    sign = "+" if stage.feature and stage.feature["sign"] > 0 else "-"
    gone = "".join(f", {i} off" for i in stage.dormant)
    return " and ".join(f"{i} on ({sign})" for i in stage.units) + gone


for degrees in (150, 140, 130, 120, 110, 100):
    stairs = sw.predict(design(degrees), sw.units.Diagonal(), scale=1e-6)
    print(f"{degrees} degrees: " + "; ".join(told(stage) for stage in stairs.stages))

# %% [markdown]
# Predicting is cheap, so a claim can be put to many cases. And then to the truth, at the one that looks interesting:

# %% alt="Loss of the changed design: predicted over simulated"
changed = design(140)
report = sw.compare(
    sw.predict(changed, sw.units.Diagonal(), 1e-6), sw.train(changed, sw.units.Diagonal(), 1e-6)
)
report.plot()
# %% tags=["check"]
assert report.order
original = sw.predict(task, sw.units.Diagonal(), 1e-6)
assert [stage.dormant for stage in original.stages] == [(), (0,), ()]

# %% [markdown]
# ## Exercises
#
# 1. Keep the angle at 150 degrees, and change the solution from $(-0.2, 2)$ to $(+0.2, 2)$. Is the coefficient unlearned?
#    Say first, then run.
# 2. Find a design with three inputs in which a coefficient is unlearned and *never* comes back.
# 3. Take another figure: `saddlewalk reproduce list` names them all. Which of its claims rests on the small start? Raise
#    the scale until it fails.
#
# The whole collection, with what holds and what does not: [gallery](../gallery.md).

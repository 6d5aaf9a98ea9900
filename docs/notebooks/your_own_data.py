# %% [markdown]
# # 2. Your own data
#
# A table, one column to be predicted: which columns would a network take up, in which order? We use the diabetes data
# that come with scikit-learn (442 patients, ten measurements, disease progression after a year). Put your own table
# in its place: a data frame, two arrays, or a `.csv` with `sw.tasks.load_task`.

# %%
import numpy as np
from sklearn.datasets import load_diabetes

import saddlewalk as sw

table = load_diabetes()
task = sw.tasks.from_arrays(table.data, table.target, names=table.feature_names)
task = sw.tasks.standardized(task)  # every column with mean 0 and variance 1

# %% [markdown]
# Do standardize: a column in grams instead of kilograms is a thousand times as large, so its unit grows a thousand
# times as fast, and is "learned first" whatever it explains. `predict` warns where scales are far apart.
#
# ## The order in which columns are learned

# %%
units = sw.units.Diagonal()
stairs = sw.predict(task, units, scale=1e-8)
stairs

# %% [markdown]
# Compare that with two lists you could have made without any theory: the correlation of each column with the target,
# and the coefficients of the linear regression.

# %%
correlation = task.x.T @ task.y[:, 0] / len(task.x)
regression = np.linalg.lstsq(task.x, task.y[:, 0])[0]
for name, c, b in sorted(
    zip(table.feature_names, correlation, regression, strict=True), key=lambda row: -abs(row[1])
):
    print(f"{name:>4}  correlation {c:+.2f}   regression {b:+.2f}")

# %% tags=["check"]
moves = [(stage.units, stage.dormant) for stage in stairs.stages]
assert moves[:2] == [((2, 8), ()), ((3, 6), ())]
assert (4,) in [units for units, _ in moves]
assert moves[-2:] == [((5,), (6,)), ((6,), ())]
assert stairs.stages[1].feature["others"][0]["sign"] == -1
assert stairs.stages[-1].feature["sign"] == 1
assert np.argsort(-np.abs(correlation))[0] == 2
assert regression[6] > 0 > correlation[6]

# %% [markdown]
# **What to look at.** The first columns learned are those with the largest correlations, body mass index `bmi` and
# blood lipid `s5`. From then on it is the correlation with what is *left* that counts: `s4` correlates as much as `bp`
# does, but says what `s5` has said already, and comes late.
#
# Follow `s3`. It correlates negatively with the disease (-0.39), so it is taken up early, with a minus. But the full
# regression wants a small *plus* (+0.06), because its relatives `s1`, `s2` and `s4` say the rest. When they have been
# learned, `s3` goes off ("unit off") and comes back last, with the other sign, at time 14,000. Stopping early is a way of
# selecting columns, and here also of selecting their signs.
#
# Read the assumptions, too. One fails: *separate transitions*. Real data have no clean gaps, several columns go up in one
# stage, and the staircase has rounded steps. The algorithm as printed stops its clock while a stage settles; the default
# method lets time run on, and bears it:
#
# ## Is it true?

# %%
path = sw.train(task, units, scale=1e-8)
report = sw.compare(stairs, path)
report

# %% alt="Loss of the diagonal network on the diabetes table, predicted over simulated, and its coefficients"
report.plot()
# %% tags=["check"]
assert report.order
assert max(report.time_error) < 1e-3

# %% [markdown]
# ## A network with hidden neurons
#
# A ReLU network learns *directions*: combinations of columns. `Dense(4, "relu")` has four neurons. The names of the
# columns with the largest weights are printed for each.

# %%
relu = sw.units.Dense(4, "relu", bias=True)
report = sw.compare(
    sw.predict(task, relu, scale=1e-6, max_time=60),
    sw.train(task, relu, scale=1e-6, max_time=60),
)
report

# %% alt="Loss of a ReLU network on the diabetes table: predicted over simulated, and the output of each neuron"
report.plot()

# %% [markdown]
# **Why both begin alike.** From a tiny start every network sees the same thing: the correlation of inputs and target. A
# diagonal unit has one column; a ReLU neuron takes the *direction* that is most useful on the samples it answers to,
# which mixes all columns that correlate. So two neurons, which wake shortly after each other, learn in what is counted as
# one drop (to a loss of 0.23) more than the diagonal network does in seven (0.24).
#
# ## Exercises
#
# 1. Leave out `standardized` and read the assumptions at the end of the table.
# 2. Add a copy of `bmi` with a little noise as an eleventh column. Which of both is learned? What becomes of the other
#    one?
# 3. Replace the target by a nonlinear one, `table.data[:, 2] ** 2`. What can the diagonal network do with it, and what
#    the ReLU network?
#
# Next: [your own architecture](your_own_architecture.md).

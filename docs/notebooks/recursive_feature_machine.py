# %% [markdown]
# # 6. Recursive Feature Machines on a table
#
# Can a *kernel machine* learn features, without any network? It can, by borrowing what networks do. A trained layer
# stretches the input space: $W^\top W$ is large along directions that matter. A **Recursive Feature Machine** fits a
# kernel machine, reads off which directions its answers depend on, stretches the space accordingly, and fits again.
#
# ## A table in which two columns of twelve matter

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from saddlewalk.features import RFMClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 12))
y = X[:, 0] * X[:, 3] > 0  # the *sign of a product*: no column tells anything by itself
seen, new, labels, truth = train_test_split(X, y, random_state=0)

correlation = [np.corrcoef(column, labels)[0, 1] for column in seen.T]
print("largest correlation of a column with the label:", np.abs(correlation).max().round(2))

# %% [markdown]
# The label is a product of two columns, so every column alone is useless, and so is every linear model. A plain kernel
# machine has to find the two in twelve dimensions, where all points are far from each other:

# %%
options = {"bandwidth": "median", "ridge": 1e-3, "random_state": 0}
plain = RFMClassifier(update=None, **options).fit(seen, labels)
print("kernel machine:           ", round(plain.score(new, truth), 3))

machine = RFMClassifier(update="agop", iterations=4, **options).fit(seen, labels)
print("with features (AGOP):     ", round(machine.score(new, truth), 3))

by_fact = RFMClassifier(update="fact", iterations=4, **options).fit(seen, labels)
print("with features (FACT):     ", round(by_fact.score(new, truth), 3))

# %% alt="The learned metric: two bright squares on the diagonal at columns 0 and 3, all else dark"
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
for axes, one, name in ((left, machine, "AGOP"), (right, by_fact, "FACT")):
    axes.imshow(one.feature_matrix_, cmap="viridis")
    axes.set(title=f"learned metric, {name}", xlabel="column", ylabel="column")
plt.show()

# %% tags=["check"]
assert set(np.argsort(machine.feature_importances_)[-2:]) == {0, 3}
assert set(np.argsort(by_fact.feature_importances_)[-2:]) == {0, 3}
assert machine.score(new, truth) > plain.score(new, truth) + 0.05

# %% [markdown]
# **What to look at.** The metric starts as the identity: all columns alike. After a few rounds it is zero but for columns
# 0 and 3: the machine has found out which inputs matter, and now works in two dimensions instead of twelve.
#
# **Why it works.** With the first, poor fit, the gradient of the answer already points a little more along columns 0 and
# 3 than along the others. The average of outer products of these gradients (**AGOP**) is the new metric, in which the
# two count more, so that the next fit is better, and its gradients are clearer. It feeds itself.
#
# **FACT** asks instead: which metric would the first layer of a network *have* at the end of training with weight decay?
# There the pull of the decay and the pull of the data balance, $\lambda W = -\nabla_W L$; multiply by $W^\top$, and
# $W^\top W$ stands alone on one side, computed from gradients and inputs on the other. No network is needed for it.
#
# ## A real table
#
# Breast cancer (569 samples, 30 columns), as it comes with scikit-learn. Nothing is chosen by hand here: `update`,
# bandwidth and ridge are tried on held-out folds.

# %%
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

table = load_breast_cancer()
seen, new, labels, truth = train_test_split(
    table.data, table.target, test_size=0.3, random_state=0, stratify=table.target
)
learner = RFMClassifier(standardize=True, random_state=0).fit(seen, labels)
linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(seen, labels)
print("Recursive Feature Machine:", round(learner.score(new, truth), 3), learner.best_params_)
print("logistic regression:      ", round(linear.score(new, truth), 3))

# %% alt="Importance of the ten columns that the machine uses most"
order = np.argsort(learner.feature_importances_)[-10:]
plt.barh([table.feature_names[i] for i in order], learner.feature_importances_[order])
plt.xlabel("importance: part of the metric's diagonal")
plt.show()

# %% [markdown]
# On this table a linear model is hard to beat, and says so: always fit one beside. What the machine adds are the
# importances, and a fit that is no worse where the truth is not linear.
#
# ## Exercises
#
# 1. Fit with `iterations=1`, 2, 3, 4 and plot the test score: how many rounds does it need?
# 2. Lower the number of samples from 600 to 150. At which size does feature learning stop working, and why does it fail
#    *all at once*?
# 3. Make the label a product of *three* columns. `feature_interactions_` (see [Features](../features.md)) says which act
#    together.
#
# Next: [a phase diagram](phase_diagram.md).

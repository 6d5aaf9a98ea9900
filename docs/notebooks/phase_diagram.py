# %% [markdown]
# # 7. A phase diagram
#
# In [the fifth notebook](lazy_or_rich.md) four networks were lazy or rich, depending on the size of the start and on the
# balance of their layers. Four points are an anecdote. Here is the map.
#
# A **sweep** runs one function on every cell of a grid and keeps the numbers in a labeled store on disk. It can be
# stopped at any moment and goes on where it was: cells that are there are not computed again.

# %%
import numpy as np

import saddlewalk as sw
from saddlewalk.sweep import grid, sweep
from saddlewalk.sweep.pictures import plot_sweep


def kernel_turn(tau, alpha, seed):
    """How far the tangent kernel turns in a training of a small ReLU network, and how well it fits."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    target = np.maximum(X[:, 0], 0) - np.maximum(X[:, 1], 0)
    task, units = sw.tasks.from_arrays(X, target), sw.units.Dense(16, "relu")
    problem = sw.Problem(task, units)
    with sw.float64():
        start = problem.initialize(scale=0.1, seed=seed)
    start = sw.balance.rescaled(problem, start, tau=tau, alpha=alpha)
    path = sw.train(task, units, scale=0.1, start=start, max_time=200)
    regime = sw.diagnose.find_regime(path)
    return {"kernel_distance": regime.kernel_distance, "loss": float(path.loss[-1])}


# %% [markdown]
# Two axes. `tau` is the size of the start; `alpha` divides the first layer and multiplies the readout by the same factor,
# which changes nothing in the function: above one is upstream (the first layer is small, and fast), below one downstream.

# %%
axes = {"tau": [0.1, 0.2, 0.5, 1.0, 2.0], "alpha": [0.25, 0.5, 1.0, 2.0, 4.0], "seed": [0]}
found = sweep(kernel_turn, grid(axes), "map.zarr", progress=False)
found

# %% alt="A map of the kernel distance: large where the start is small; the line of laziness bends with the balance"
plot_sweep(found, "kernel_distance", x="tau", y="alpha", threshold=0.05)

# %%
turned = found["kernel_distance"].mean("seed")
turned.to_pandas().round(2)

# %% tags=["check"]
assert turned.sel(tau=0.1, alpha=1.0) > 0.2
assert turned.sel(tau=2.0, alpha=1.0) < 0.05
assert turned.sel(tau=0.5, alpha=4.0) > 2 * turned.sel(tau=0.5, alpha=1.0)
assert turned.sel(tau=0.5, alpha=0.25) < 0.01
assert found["loss"].max() < 5e-3

# %% [markdown]
# **What to look at.** Every cell fits its data; what differs is *how*. Follow a column of one `tau`: the same size of the
# start, and the further downstream (lower in the picture), the less the kernel turns. Follow one `alpha` from small to
# large starts: from rich to lazy. The contour is at 0.05, where this package begins to call a network rich. It is
# tilted: how small a start must be depends on its balance.
#
# **Why it is tilted.** The kernel turns when first-layer weights move by as much as they are long. Upstream they are short,
# by the factor `alpha`, so that the same change of the function turns them further.
#
# **Labels, not positions.** `found` is an xarray data set: `found["loss"].sel(tau=0.1, seed=0)` needs no index
# arithmetic, and in half a year you will still know what the third axis was.
#
# ## Stop it and go on
#
# The same line again computes nothing, because every cell is there. Larger sweeps run on the cores of a machine or of a
# cluster (`workers=2`, `scheduler="tcp://..."`), with the same numbers.

# %%
again = sweep(kernel_turn, grid(axes), "map.zarr", progress=False)
assert (again["kernel_distance"] == found["kernel_distance"]).all()

# %% [markdown]
# ## Exercises
#
# 1. Draw `"loss"` instead. Where has the network not fitted its data when the time was over? Is what you called "lazy"
#    there perhaps only "not yet"? (`find_regime` has a word for it.)
# 2. Replace the target by a linear one, `X[:, 0]`. Does the line move?
# 3. Add the number of samples as a fourth axis. How large is the grid now? `latin_hypercube` draws a part of it.
#
# A store can be looked at in the browser, with a slider for each axis: `saddlewalk explore map.zarr`
# ([the explorer](../explorer.md)).
#
# Next: [reproduce a figure, and change it](reproduce_and_change.md). More: [Sweeps](../sweeps.md).

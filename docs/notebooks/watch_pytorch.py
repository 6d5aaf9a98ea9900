# %% [markdown]
# # 4. Watch a PyTorch training
#
# Your loss stands still. Is this the end, or a plateau before a drop? A *watch* answers while your own loop runs: it
# follows the training ahead, from the present weights, in steps as long as the plateau allows. It changes nothing.

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

from saddlewalk.torch import Watch

torch.manual_seed(0)
inputs = torch.randn(256, 8)
strengths = torch.diag(torch.tensor([3.0, 2.0, 1.0, 0.5, 0, 0, 0, 0]))
targets = inputs @ strengths[:, :4]  # four modes to be learned

model = nn.Sequential(nn.Linear(8, 12, bias=False), nn.Linear(12, 4, bias=False))
with torch.no_grad():
    for weight in model.parameters():
        weight.mul_(1e-2)  # a small start: PyTorch's own is about a third

loss = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
watch = Watch(model, loss, probe=(inputs, targets), optimizer=optimizer)
losses = []


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        now = loss(model(inputs), targets)
        now.backward()
        optimizer.step()
        watch.step(now.item())
        losses.append(now.item())


# %% [markdown]
# Three lines were added to the loop you know: make the watch, call `watch.step`, print it. We stop in the middle of a
# plateau and ask.

# %%
train(700)
forecast = watch.look().forecast  # now, whatever the budget says
print(watch)

# %% [markdown]
# It names the step at which the loss will have fallen half way to its next level, an interval for it, and the unit that
# grows. Is it right? Train on.

# %% alt="The loss of the whole training, and the step that was forecast as a dashed line through the middle of a drop"
train(900)
plt.semilogy(losses)
plt.axvspan(forecast.low, forecast.high, alpha=0.2, color="C3", label="interval of the forecast")
plt.axvline(forecast.step, ls="--", color="C3", label="forecast at step 700")
plt.axvline(700, color="0.6", lw=1)
plt.xlabel("step")
plt.ylabel("loss")
plt.legend()
plt.show()

# %% tags=["check"]
middle = 0.5 * (forecast.before + forecast.after)
happened = next(step for step, value in enumerate(losses) if step > 700 and value < middle)
assert forecast.low <= happened <= forecast.high

# %% [markdown]
# ## Where is it, and what does it use?
#
# The same diagnostics that work on networks of this package work on your module.

# %%
from saddlewalk.torch import effective_widths, saddle_test

print(saddle_test(model, (inputs, targets), loss))

# %%
for width in effective_widths(model, (inputs, targets), loss).values():
    print(width)

# %% [markdown]
# **What to look at.** The layer has twelve neurons; the network acts as if it had as many as it has learned modes: the
# others are zero, or copies and mixtures of each other. A wide network on a plateau *is* a narrow one.
#
# **Why it works.** On a plateau the gradient is small and hardly changes, so thousands of steps of the optimizer can
# be followed in a few long ones, and all that grows by a fixed factor per step is known in advance. Where a loss just
# falls there is nothing to forecast, and the watch says so.
#
# ## Exercises
#
# 1. Call `watch.look()` after 100, 300 and 500 steps. How does the interval shrink?
# 2. Use `torch.optim.Adam`. Adam divides each gradient by its own size, so that small gradients are no longer slow.
#    What becomes of the plateaus? (`docs/watch.md` has the formula.)
# 3. Leave out the line with `1e-2`. Are there still plateaus? What does the watch say?
#
# Next: [lazy or rich](lazy_or_rich.md). All about the watch: [Watch your own training](../watch.md).
